//! Versions: one winner each, nothing lost, the same state by every way to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use basalt_core::{
    schema::{DataType, Field, Optimize, Schema},
    table::Retention,
};
use basalt_storage::{
    Alteration, Change, CommitError, FIRST_FOREIGN_FRAGMENT, Operation, Request, RowsDigest, StorageError,
    Store, TableLog, TableState, retention_properties,
};

use crate::support::{append, batch, commit, numbers, schema, shown, table};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_writer_of_a_race_gets_in_once() {
    let folder = tempfile::tempdir().unwrap();
    for store in [Store::open(folder.path().to_str().unwrap()).unwrap(), Store::in_memory()] {
        let (log, state) = table(&store).await;
        let writers = (0..32).map(|i| {
            let (log, state) = (log.clone(), Arc::clone(&state));
            tokio::spawn(async move { append(&log, &state, [i]).await })
        });
        let mut versions = BTreeSet::new();
        for writer in writers.collect::<Vec<_>>() {
            let done = writer.await.unwrap();
            assert!(versions.insert(done.state.version()), "two commits of version {}", done.state.version());
            assert_eq!(done.state.fragment(done.first_id).unwrap().rows, 1);
        }
        assert_eq!(versions, (1..=32).collect());
        let state = log.refresh(&state).await.unwrap();
        assert_eq!(shown(&state), shown(&log.load().await.unwrap()));
        assert_eq!(state.fragments().iter().map(|f| f.id).collect::<Vec<_>>(), (0..32).collect::<Vec<_>>());
        let mut found = numbers(&log, &state).await;
        found.sort_unstable();
        assert_eq!(found, (0..32).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_checkpoint_says_what_the_replay_says() {
    let store = Store::in_memory();
    let (log, mut state) = table(&store).await;
    for i in 0..70 {
        let request = Request { id: format!("a:b {i}"), digest: RowsDigest::Xxh3(u64::MAX - i), rows: 2 };
        let file = log.write_data(&schema(), vec![batch([i as i64, -(i as i64)])]).await.unwrap();
        let mut change = Change {
            add: vec![file.with_encoded_bytes(i)],
            requests: vec![request],
            properties: vec![("basalt.x".into(), (i % 2 == 0).then(|| i.to_string()))],
            ..Change::default()
        };
        if i > 5 && i % 10 == 0 {
            change.remove = vec![i as u32 - 3];
            change.deletions = vec![(i as u32 - 2, basalt_sip::Sip::from_sorted_ids(&[1]))];
        }
        state = commit(&log, &state, &change).await.state;
        if state.needs_checkpoint() {
            state = log.checkpoint(&state).await.unwrap();
            assert!(!state.needs_checkpoint());
        }
    }
    let loaded = log.load().await.unwrap();
    assert_eq!(shown(&loaded), shown(&state));
    assert_eq!(loaded.requests().count(), 70);
    assert_eq!(numbers(&log, &loaded).await, numbers(&log, &state).await);
    // A node that was there from the start has followed to the same.
    assert_eq!(state.property("basalt.x"), None);
    assert_eq!(state.property("delta.enableDeletionVectors"), Some("true"));
    assert_eq!(loaded.next_fragment(), 70);
}

#[tokio::test]
async fn a_checkpoint_is_known_to_versions_behind_it() {
    let store = Store::in_memory();
    let (log, first) = table(&store).await;
    let mut state = Arc::clone(&first);
    while !state.needs_checkpoint() {
        state = append(&log, &state, [1]).await.state;
    }
    let newer = append(&log, &state, [2]).await.state;
    let noted = log.checkpoint(&state).await.unwrap();
    assert!(!noted.needs_checkpoint() && newer.needs_checkpoint());
    for state in [&newer, &state] {
        let knows = Arc::clone(state).with_checkpoint_of(&noted);
        assert!(!knows.needs_checkpoint());
        assert_eq!(shown(&knows), shown(state));
    }
    // One that comes before it has none, and what knows of a later one keeps that.
    assert!(Arc::ptr_eq(&Arc::clone(&first).with_checkpoint_of(&noted), &first));
    assert!(Arc::ptr_eq(&Arc::clone(&noted).with_checkpoint_of(&first), &noted));
    let other = table(&Store::in_memory()).await.1;
    assert!(Arc::ptr_eq(&Arc::clone(&newer).with_checkpoint_of(&other), &newer));
}

#[tokio::test]
async fn retention_is_among_the_properties() {
    let schema = Schema::new(vec![Field::new("at", DataType::Timestamp, true)]).unwrap();
    let day = Retention::new(&schema, "at", Duration::from_secs(24 * 3600)).unwrap();
    let properties = retention_properties(Some(&day)).into_iter();
    let properties = properties.map(|(name, value)| (name, value.unwrap())).collect();
    let (log, first) =
        TableLog::create(Store::in_memory().folder("t").unwrap(), "t", &schema, properties).await.unwrap();
    assert_eq!(first.retention().map(|kept| &**kept), Some(&day));
    let none = Change { properties: retention_properties(None).to_vec(), ..Change::default() };
    let second = commit(&log, &first, &none).await.state;
    assert_eq!((second.retention(), second.properties().count()), (None, 0));
    // What was read by the columns' types holds on.
    assert!(Arc::ptr_eq(first.schema(), second.schema()));
    let again = Change { properties: retention_properties(Some(&day)).to_vec(), ..Change::default() };
    commit(&log, &second, &again).await;
    assert_eq!(log.load().await.unwrap().retention().map(|kept| &**kept), Some(&day));
}

#[tokio::test]
async fn what_columns_are_optimized_for_is_changed_later() {
    let field = |name: &str| Field::new(name, DataType::Int64, true);
    let small = Field { optimize: Optimize::Size, ..field("b") };
    let schema = Schema::new(vec![field("a"), small]).unwrap();
    let folder = Store::in_memory().folder("t").unwrap();
    let (log, first) = TableLog::create(folder, "t", &schema, BTreeMap::new()).await.unwrap();
    let of = |state: &TableState| state.schema().fields().iter().map(|f| f.optimize).collect::<Vec<_>>();
    assert_eq!(of(&first), [Optimize::Balanced, Optimize::Size]);
    let altered = async |state: &Arc<TableState>, alterations: Vec<Alteration>| {
        let change = Change { operation: Operation::Alter, alterations, ..Change::default() };
        commit(&log, state, &change).await.state
    };
    let only = Alteration::Optimize(Some("b".into()), Optimize::Balanced);
    let second = altered(&first, vec![only]).await;
    assert_eq!(of(&second), [Optimize::Balanced; 2]);
    // In memory are the same values.
    assert_eq!(second.column_id(1), first.column_id(1));
    let third = altered(&second, vec![Alteration::Optimize(None, Optimize::Speed)]).await;
    // Where all are alike, a new one is, too.
    let more = altered(&third, vec![Alteration::Add(field("c"))]).await;
    assert_eq!(of(&more), [Optimize::Speed; 3]);
    assert_eq!(of(&log.load().await.unwrap()), [Optimize::Speed; 3]);
    let none = Alteration::Optimize(Some("d".into()), Optimize::Size);
    let change = Change { operation: Operation::Alter, alterations: vec![none], ..Change::default() };
    assert!(log.commit(&more, &change).await.is_err());
}

#[tokio::test]
async fn who_was_second_hears_of_what_changed() {
    let store = Store::in_memory();
    let (log, empty) = table(&store).await;
    let state = append(&log, &empty, 0..10).await.state;
    let compact = Change { operation: Operation::Compact, remove: vec![0], ..Change::default() };
    let Err(CommitError::Conflict(newer)) = log.commit(&empty, &Change::default()).await else { panic!() };
    assert_eq!(newer.version(), 1);
    let done = log.commit(&state, &compact).await.unwrap();
    assert_eq!(done.state.rows(), 0);
    // The fragment is gone, and its id is not given out again.
    let error = log.commit(&done.state, &compact).await.unwrap_err();
    assert!(matches!(error, CommitError::Storage(StorageError::Corrupt { .. })), "{error}");
    assert_eq!(append(&log, &done.state, [1]).await.first_id, 1);
}

#[tokio::test]
async fn a_table_is_made_once() {
    let store = Store::in_memory();
    assert!(matches!(TableLog::new(store.clone()).load().await, Err(StorageError::NoTable { .. })));
    let (log, _) = table(&store).await;
    let again = TableLog::create(log.store().clone(), "t", &schema(), Default::default()).await;
    assert!(matches!(again, Err(StorageError::Exists { .. })), "{again:?}");
}

#[tokio::test]
async fn many_fragments_are_added_and_removed_at_once() {
    let store = Store::in_memory();
    let (log, state) = table(&store).await;
    let mut change = Change::default();
    for i in 0..5 {
        change.add.push(log.write_data(&schema(), vec![batch([i]), batch([10 + i])]).await.unwrap());
    }
    let done = commit(&log, &state, &change).await;
    assert_eq!(done.first_id, 0);
    assert_eq!(numbers(&log, &done.state).await, [0, 10, 1, 11, 2, 12, 3, 13, 4, 14]);
    let change = Change { remove: vec![0, 2, 4], ..Change::default() };
    let state = log.commit(&done.state, &change).await.unwrap().state;
    assert_eq!(numbers(&log, &state).await, [1, 11, 3, 13]);
    assert!(state.fragments().iter().all(|f| f.id < FIRST_FOREIGN_FRAGMENT));
}
