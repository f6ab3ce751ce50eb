//! What is removed, and what is not.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use basalt_sip::Sip;
use basalt_storage::{
    CatalogLog, Change, CommitError, Environment, Pin, Pinned, Process, StorageError, Store, TableLog,
};
use object_store::local::LocalFileSystem;

use crate::support::{append, batch, commit, numbers, schema, table};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn files(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            found.extend(files(&entry.path()).into_iter().map(|f| format!("{name}/{f}")));
        } else {
            found.insert(name);
        }
    }
    found
}

/// Makes every file as old as if it had been written before `age`.
fn grow_old(folder: &Path, age: Duration) {
    for file in files(folder) {
        let file = fs::File::options().write(true).open(folder.join(file)).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }
}

#[tokio::test]
async fn what_left_the_table_goes_when_its_time_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let (log, state) = table(&store).await;
    let data = folder.path().join("tables/t");
    let state = append(&log, &state, 0..10).await.state;
    let state = append(&log, &state, 10..60_000).await.state;
    let long: Vec<u64> = (0..50_000).filter(|i| i * i % 7 == 1).collect();
    let mut longer = long.clone();
    longer.push(50_000);
    let delete =
        |ids: &[u64]| Change { deletions: vec![(1, Sip::from_sorted_ids(ids))], ..Change::default() };
    let state = commit(&log, &state, &delete(&long)).await.state;
    let state = commit(&log, &state, &delete(&longer)).await.state;
    let state = commit(&log, &state, &Change { remove: vec![0], ..Change::default() }).await.state;
    // Written, and never committed.
    log.write_data(&schema(), vec![batch([1])]).await.unwrap();
    let before = files(&data);
    assert_eq!(before.iter().filter(|f| f.ends_with(".parquet")).count(), 3);
    assert_eq!(before.iter().filter(|f| f.ends_with(".bin")).count(), 2);

    assert_eq!(log.vacuum(&state).await.unwrap().files, 0);
    let hasty = log.clone().keeping(Duration::ZERO);
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(hasty.vacuum(&state).await.unwrap().files, 2);
    assert_eq!(before.difference(&files(&data)).count(), 2);
    assert_eq!(numbers(&log, &state).await.len() as u64, state.rows());

    // A day later the orphan goes, too, and the log before an old checkpoint.
    let state = hasty.checkpoint(&state).await.unwrap();
    grow_old(&data, DAY + DAY);
    let state = append(&log, &state, [7]).await.state;
    let versions = 5;
    assert_eq!(hasty.vacuum(&state).await.unwrap().files, 1 + versions);
    let left = files(&data);
    assert!(left.contains("_delta_log/00000000000000000005.json"), "{left:?}");
    assert!(!left.contains("_delta_log/00000000000000000004.json"), "{left:?}");
    let loaded = log.load().await.unwrap();
    assert_eq!(numbers(&log, &loaded).await, numbers(&log, &state).await);
}

/// The versions that have a file are retained from the commit on that removes it, whatever its writer says of the time.
#[tokio::test]
async fn what_another_writer_removes_stays_as_long_as_its_versions() {
    let old = r#","deletionTimestamp":1"#;
    for (has_info, at) in [(true, old), (true, ""), (false, old), (false, "")] {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().to_str().unwrap()).unwrap();
        let (log, state) = table(&store).await;
        let before = append(&log, &state, 0..10).await.state;
        let path = before.fragments().iter().next().unwrap().file.path().to_owned();
        let mut lines = format!(r#"{{"remove":{{"path":"{path}"{at},"dataChange":true}}}}"#);
        if has_info {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
            lines = format!("{{\"commitInfo\":{{\"timestamp\":{now}}}}}\n{lines}\n");
        }
        let commit = format!("tables/t/_delta_log/{:020}.json", before.version() + 1);
        fs::write(folder.path().join(commit), lines).unwrap();
        let other = TableLog::new(log.store().clone());
        let (followed, loaded) = (log.refresh(&before).await.unwrap(), other.load().await.unwrap());
        for (log, state) in [(&log, &followed), (&other, &loaded)] {
            assert_eq!((state.version(), state.rows()), (before.version() + 1, 0));
            assert_eq!(log.vacuum(state).await.unwrap().files, 0, "{has_info} {at}");
            let again = log.at(state, before.version()).await.unwrap().unwrap();
            assert_eq!(numbers(log, &again).await, (0..10).collect::<Vec<_>>());
        }
        // Nor does it stay for longer.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let hasty = other.keeping(Duration::ZERO);
        assert_eq!(hasty.vacuum(&loaded).await.unwrap().files, 1, "{has_info} {at}");
    }
}

#[tokio::test]
async fn who_is_behind_the_log_starts_from_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let (log, old) = table(&store).await;
    // Another node, which looked last when there was nothing.
    let behind = TableLog::new(log.store().clone());
    let mut state = Arc::clone(&old);
    for i in 0..5 {
        state = append(&log, &state, [i]).await.state;
    }
    state = log.checkpoint(&state).await.unwrap();
    grow_old(folder.path(), DAY + DAY);
    log.vacuum(&state).await.unwrap();
    assert!(!folder.path().join("tables/t/_delta_log/00000000000000000001.json").exists());
    // The next version's name is free there; nobody would see a commit of that name.
    let file = behind.write_data(&schema(), vec![batch([7])]).await.unwrap();
    let change = Change { add: vec![file], ..Change::default() };
    let Err(CommitError::Conflict(newer)) = behind.commit(&old, &change).await else {
        panic!("it was committed")
    };
    assert_eq!(newer.version(), 5);
    let state = behind.commit(&newer, &change).await.unwrap().state;
    assert_eq!(numbers(&log, &log.load().await.unwrap()).await, [0, 1, 2, 3, 4, 7]);
    assert_eq!(log.refresh(&old).await.unwrap().version(), state.version());
}

/// Five versions on, the entries before the last checkpoint are gone, and the hint says something else.
#[tokio::test]
async fn the_log_is_believed_and_not_the_hint() {
    const HINT: &str = "tables/t/_delta_log/_last_checkpoint";
    for (hint, remote) in [("stale", false), ("stale", true), ("absent", false), ("ahead", false)] {
        let folder = tempfile::tempdir().unwrap();
        let store = match remote {
            // The same files, written without looking before.
            true => Store::over(Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap())),
            false => Store::open(folder.path().to_str().unwrap()).unwrap(),
        };
        let (log, first) = table(&store).await;
        // Other nodes: one that has seen the first version a moment ago, others that come back with an old one.
        let asleep = TableLog::new(log.store().clone());
        asleep.refresh(&first).await.unwrap();
        let mut states = vec![Arc::clone(&first)];
        for i in 0..5 {
            let state = append(&log, &states[states.len() - 1], [i]).await.state;
            states.push(match i {
                1 => log.checkpoint(&state).await.unwrap(),
                _ => state,
            });
        }
        let stale = fs::read(folder.path().join(HINT)).unwrap();
        let newest = log.checkpoint(&states[5]).await.unwrap();
        grow_old(folder.path(), DAY + DAY);
        assert!(log.vacuum(&newest).await.unwrap().files >= 5);
        match hint {
            "stale" => fs::write(folder.path().join(HINT), stale).unwrap(),
            "absent" => fs::remove_file(folder.path().join(HINT)).unwrap(),
            _ => fs::write(folder.path().join(HINT), r#"{"version":99,"size":3}"#).unwrap(),
        }
        for (node, state) in [(asleep, &states[0])]
            .into_iter()
            .chain(states[..5].iter().map(|state| (TableLog::new(log.store().clone()), state)))
        {
            let file = node.write_data(&schema(), vec![batch([7])]).await.unwrap();
            let change = Change { add: vec![file], ..Change::default() };
            if hint == "ahead" {
                // The log has lost its end, by what the hint says: nothing is read, and nothing written.
                let error = node.refresh(state).await.unwrap_err().to_string();
                assert!(error.contains("version 99") && error.contains("_last_checkpoint"), "{error}");
                assert!(matches!(node.commit(state, &change).await, Err(CommitError::Storage(_))));
                continue;
            }
            let Err(CommitError::Conflict(newer)) = node.commit(state, &change).await else {
                panic!("{hint}: it was committed behind version {}", state.version())
            };
            assert_eq!(newer.version(), 5, "{hint}");
            assert_eq!(node.refresh(state).await.unwrap().version(), 5, "{hint}");
            assert_eq!(numbers(&log, &log.load().await.unwrap()).await, [0, 1, 2, 3, 4], "{hint}");
        }
        if hint != "ahead" {
            let state = append(&TableLog::new(log.store().clone()), &first, [5]).await.state;
            assert_eq!((state.version(), state.rows()), (6, 6), "{hint}");
        }
    }
}

/// A node whose own state is a day old removes nothing that newer versions need.
#[tokio::test]
async fn a_vacuum_knows_the_newest_version() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let (log, old) = table(&store).await;
    let state = append(&log, &old, [1, 2]).await.state;
    grow_old(folder.path(), DAY + DAY);
    assert_eq!(log.vacuum(&old).await.unwrap().files, 0);
    assert_eq!(numbers(&log, &state).await, [1, 2]);
    // What others have put into the folder stays.
    let foreign = ["notes.txt", "part-1.snappy.parquet", "sub/part-1.zstd.parquet", "x.txt#1"];
    fs::create_dir(folder.path().join("tables/t/sub")).unwrap();
    for name in foreign {
        fs::write(folder.path().join("tables/t").join(name), "x").unwrap();
    }
    fs::create_dir(folder.path().join("tables/t/empty")).unwrap();
    grow_old(folder.path(), DAY + DAY);
    assert_eq!(log.vacuum(&state).await.unwrap().files, 0);
    let left = files(&folder.path().join("tables/t"));
    assert!(foreign.iter().all(|name| left.contains(*name)), "{left:?}");
}

#[tokio::test]
async fn what_a_crash_leaves_behind_harms_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let (log, state) = table(&store).await;
    let data = folder.path().join("tables/t");
    // A writer that died before its version had its name, and one whose data file was half written.
    fs::write(data.join("_delta_log/00000000000000000001.json#1"), b"{\"add\":{\"pa").unwrap();
    fs::write(data.join("part-x.zstd.parquet#1"), b"PAR1").unwrap();
    fs::write(data.join("part-y.zstd.parquet"), b"PAR1").unwrap();
    let state = append(&log, &state, [1]).await.state;
    assert_eq!(state.version(), 1);
    assert_eq!(numbers(&log, &log.load().await.unwrap()).await, [1]);
    assert_eq!(log.vacuum(&state).await.unwrap().files, 0);
    grow_old(&data, DAY + DAY);
    log.vacuum(&state).await.unwrap();
    let left = files(&data);
    assert!(left.iter().all(|f| !f.contains('#') && !f.contains("part-y")), "{left:?}");
    assert_eq!(numbers(&log, &log.load().await.unwrap()).await, [1]);
}

/// As on a disk that is full: what is removed makes room.
#[tokio::test]
async fn what_cannot_be_written_to_is_vacuumed() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let (log, state) = table(&store).await;
    let data = folder.path().join("tables/t");
    let state = append(&log, &state, [1]).await.state;
    log.write_data(&schema(), vec![batch([2])]).await.unwrap();
    grow_old(&data, DAY + DAY);
    // In the place of the folder into which a vacuum writes.
    fs::write(data.join("_basalt_pins"), b"").unwrap();
    let before = files(&data).len();
    assert_eq!(log.vacuum(&state).await.unwrap().files, 1);
    assert_eq!(files(&data).len(), before - 1);
    assert_eq!(numbers(&log, &log.load().await.unwrap()).await, [1]);
}

/// A machine whose clock is ahead by so much.
#[derive(Debug)]
struct Ahead(Duration);

impl Environment for Ahead {
    fn wall(&self) -> SystemTime {
        Process.wall() + self.0
    }

    fn random(&self) -> u128 {
        Process.random()
    }

    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        Process.run(job);
    }
}

#[tokio::test]
async fn what_is_old_by_a_clock_that_is_ahead_stays() {
    let folder = tempfile::tempdir().unwrap();
    let url = folder.path().to_str().unwrap();
    let store = Store::open(url).unwrap();
    let ahead = Store::open_in(Arc::new(Ahead(DAY + DAY + DAY)), url).unwrap();
    let data = folder.path().join("tables/t");
    let (log, state) = table(&store).await;
    let state = append(&log, &state, 0..10).await.state;
    assert_eq!(log.pin(&state, Pin::new(1, 7)).await.unwrap(), Pinned::Held);
    let state = commit(&log, &state, &Change { remove: vec![0], ..Change::default() }).await.state;
    // Under way: rows, and a file of which not all is written.
    let file = log.write_data(&schema(), vec![batch([7])]).await.unwrap();
    fs::write(data.join("part-x.zstd.parquet#1"), b"PAR1").unwrap();
    let before = files(&data);

    let theirs = TableLog::new(ahead.folder("tables/t").unwrap());
    assert_eq!(theirs.vacuum(&theirs.load().await.unwrap()).await.unwrap().files, 0);
    assert_eq!(files(&data), before);
    let change = Change { add: vec![file], ..Change::default() };
    let state = commit(&log, &state, &change).await.state;
    assert_eq!(numbers(&log, &state).await, [7]);
    let old = log.at(&state, 1).await.unwrap().unwrap();
    assert_eq!(numbers(&log, &old).await, (0..10).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_is_old_by_a_clock_that_is_ahead_is_no_draft_that_was_left() {
    let folder = tempfile::tempdir().unwrap();
    let url = folder.path().to_str().unwrap();
    let ahead = Store::open_in(Arc::new(Ahead(DAY + DAY + DAY)), url).unwrap();
    let (ours, theirs) = (CatalogLog::new(Store::open(url).unwrap(), DAY), CatalogLog::new(ahead, DAY));
    let empty = ours.load().await.unwrap();
    let draft = ours.draft(&empty, "new", &schema(), BTreeMap::new()).await.unwrap();
    append(&draft.log, &draft.table, [1, 2]).await;
    let old = ours.create(&ours.load().await.unwrap(), "old", &schema(), BTreeMap::new()).await.unwrap();
    append(&old.log, &old.table, [3]).await;
    let state = ours.remove(&old.catalog, "old").await.unwrap();
    assert_eq!(theirs.vacuum(&theirs.load().await.unwrap()).await.unwrap().files, 0);
    assert_eq!(numbers(&old.log, &old.log.load().await.unwrap()).await, [3]);
    let state = ours.publish(&state, &[draft], &[]).await.unwrap();
    let (log, state) = ours.open(&state.tables()["new"]).await.unwrap();
    assert_eq!(numbers(&log, &state).await, [1, 2]);
}

/// Its version stands before a checkpoint, and nothing says whether that was made of it.
#[tokio::test]
async fn a_version_behind_one_that_a_later_checkpoint_has_taken_the_place_of_is_not_known() {
    let folder = tempfile::tempdir().unwrap();
    let objects = LocalFileSystem::new_with_prefix(folder.path()).unwrap();
    let (log, mut state) = table(&Store::over(Arc::new(objects))).await;
    state = append(&log, &state, [1]).await.state;
    // It has seen a moment ago that this is the newest version.
    let asleep = TableLog::new(log.store().clone());
    let seen = asleep.refresh(&state).await.unwrap();
    for i in 2..5 {
        state = append(&log, &state, [i]).await.state;
    }
    log.checkpoint(&state).await.unwrap();
    for version in 0..4 {
        fs::remove_file(folder.path().join(format!("tables/t/_delta_log/{version:020}.json"))).unwrap();
    }
    let file = asleep.write_data(&schema(), vec![batch([7])]).await.unwrap();
    let change = Change { add: vec![file], ..Change::default() };
    let error = asleep.commit(&seen, &change).await.unwrap_err();
    assert!(matches!(error, CommitError::Unknown(StorageError::Corrupt { .. })), "{error:?}");
    assert_eq!(numbers(&log, &log.load().await.unwrap()).await, [1, 2, 3, 4]);
}

#[tokio::test]
async fn dropped_tables_go_when_their_time_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let catalog = CatalogLog::new(store.clone(), DAY);
    let state = catalog.load().await.unwrap();
    let a = catalog.create(&state, "a", &schema(), BTreeMap::new()).await.unwrap();
    append(&a.log, &a.table, [1]).await;
    let b = catalog.create(&a.catalog, "b", &schema(), BTreeMap::new()).await.unwrap();
    let state = catalog.remove(&b.catalog, "a").await.unwrap();
    // One whose maker died before it was in the catalog, or whose entry was lost: nobody can tell, and it stays.
    let (unnamed, unnamed_state) = table(&store).await;
    append(&unnamed, &unnamed_state, [1]).await;
    assert_eq!(catalog.unnamed_folders(&state).await.unwrap(), ["tables/t"]);
    assert_eq!(catalog.vacuum(&state).await.unwrap().files, 0);
    let hasty = CatalogLog::new(store.clone(), Duration::ZERO);
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(hasty.vacuum(&state).await.unwrap().files, 3);
    grow_old(folder.path(), DAY + DAY);
    assert_eq!(hasty.vacuum(&state).await.unwrap().files, 0);
    assert_eq!(b.log.load().await.unwrap().rows(), 0);
    assert_eq!(unnamed.load().await.unwrap().rows(), 1);
    // The folder itself is gone, too.
    assert_eq!(fs::read_dir(folder.path().join("tables")).unwrap().count(), 2);
}
