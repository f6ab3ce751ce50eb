//! Versions before the newest, which every node can read for a while.

use std::{
    fs,
    sync::Arc,
    time::{Duration, SystemTime},
};

use basalt_sip::Sip;
use basalt_storage::{Change, Pin, Pinned, StorageError, Store, TableLog, TableState};

use crate::support::{append, commit, numbers, shown, table};

const LOG: &str = "tables/t/_delta_log";

/// Versions 0 to 12 of a table: rows come, go with their fragment, and are deleted; checkpoints are made of some.
async fn history(store: &Store) -> (TableLog, Vec<Arc<TableState>>) {
    let (log, first) = table(store).await;
    let mut states = vec![first];
    for i in 1..=12_i64 {
        let state = &states[states.len() - 1];
        let state = match i % 4 {
            3 => {
                let deletions = vec![(u32::try_from(i / 4 * 2).unwrap(), Sip::from_sorted_ids(&[1, 4]))];
                commit(&log, state, &Change { deletions, ..Change::default() }).await.state
            }
            0 => {
                let remove = vec![u32::try_from(i / 4 * 2 - 1).unwrap()];
                commit(&log, state, &Change { remove, ..Change::default() }).await.state
            }
            _ => append(&log, state, 10 * i..10 * i + 10).await.state,
        };
        states.push(match i {
            4 | 8 | 12 => log.checkpoint(&state).await.unwrap(),
            _ => state,
        });
    }
    (log, states)
}

#[tokio::test]
async fn a_node_that_never_had_a_version_reads_it() {
    let store = Store::in_memory();
    let (log, states) = history(&store).await;
    let newest = log.load().await.unwrap();
    // Files that have left the table stay as long as a version that is retained has them.
    assert_eq!(log.vacuum(&newest).await.unwrap().files, 0);
    let other = TableLog::new(log.store().clone());
    let seen_at = other.load().await.unwrap();
    for state in &states {
        let rebuilt = other.at(&seen_at, state.version()).await.unwrap().unwrap();
        assert_eq!(shown(&rebuilt), shown(state));
        assert_eq!((rebuilt.rows(), rebuilt.bytes()), (state.rows(), state.bytes()));
        assert_eq!(numbers(&other, &rebuilt).await, numbers(&log, state).await);
        // What both versions have is there once.
        let shared = rebuilt.fragments().iter().filter(|a| {
            let b = seen_at.fragment(a.id);
            b.is_some_and(|b| Arc::ptr_eq(&a.file, &b.file))
        });
        let both = rebuilt.fragments().iter().filter(|a| {
            let b = seen_at.fragment(a.id);
            b.is_some_and(|b| b.source() == a.source())
        });
        assert_eq!(shared.count(), both.count());
    }
    // From each version that is before it, too.
    for (before, state) in states.iter().flat_map(|before| states.iter().map(move |state| (before, state))) {
        let rebuilt = other.at_from(&seen_at, before, state.version()).await.unwrap().unwrap();
        assert_eq!(shown(&rebuilt), shown(state));
        assert_eq!((rebuilt.rows(), rebuilt.bytes()), (state.rows(), state.bytes()));
    }
    assert!(Arc::ptr_eq(&other.at(&seen_at, 12).await.unwrap().unwrap(), &seen_at));
    assert!(other.at(&seen_at, 13).await.unwrap().is_none());
    assert!(other.at(&seen_at, u64::MAX).await.unwrap().is_none());
    let listed = other.readable(&seen_at).await.unwrap();
    let found: Vec<u64> = listed.iter().map(|version| version.version).collect();
    assert_eq!(found, (0..=12).rev().collect::<Vec<_>>());
    assert!(listed.iter().all(|version| version.committed.is_some() && version.operation.is_some()));
    assert_eq!(listed[12].operation.as_deref(), Some("CREATE TABLE"));
}

#[tokio::test]
async fn what_is_not_retained_is_none() {
    let (log, states) = history(&Store::in_memory()).await;
    let newest = &states[12];
    let hasty = log.clone().keeping(Duration::ZERO);
    tokio::time::sleep(Duration::from_millis(5)).await;
    for version in 0..12 {
        assert!(hasty.at(newest, version).await.unwrap().is_none(), "{version}");
    }
    assert!(hasty.at(newest, 12).await.unwrap().is_some());
    assert_eq!(hasty.readable(newest).await.unwrap().len(), 1);
    // Its files are not, either.
    assert!(hasty.vacuum(newest).await.unwrap().files > 0);
    let rebuilt = log.at(newest, 3).await.unwrap().unwrap();
    assert!(log.read(&rebuilt, rebuilt.fragments().iter().last().unwrap(), &[0]).await.is_err());
}

/// The log before a checkpoint goes when it is old; what the versions that are retained need of it stays.
#[tokio::test]
async fn the_log_keeps_what_retained_versions_are_made_of() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let (log, states) = history(&store).await;
    let newest = &states[12];
    // Up to version 9 the log is two hours old: there is the checkpoint of version 8 then.
    for entry in fs::read_dir(folder.path().join(LOG)).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.split('.').next().unwrap().parse().is_ok_and(|version: u64| version <= 9) {
            let file = fs::File::options().write(true).open(folder.path().join(LOG).join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(2 * 3600)).unwrap();
        }
    }
    let days = log.clone().keeping(Duration::from_secs(48 * 3600));
    assert_eq!(days.vacuum(newest).await.unwrap().files, 0);
    assert_eq!(log.vacuum(newest).await.unwrap().files, 8 + 1);
    for state in &states {
        let rebuilt = log.at(newest, state.version()).await.unwrap();
        assert_eq!(rebuilt.as_deref().map(shown), (state.version() >= 8).then(|| shown(state)));
        // What is gone between it and one before it is in the checkpoint.
        let rebuilt = log.at_from(newest, &states[2], state.version()).await.unwrap();
        assert_eq!(rebuilt.as_deref().map(shown), (state.version() >= 8).then(|| shown(state)));
    }
    let listed = log.readable(newest).await.unwrap();
    assert_eq!(listed.last().map(|version| version.version), Some(8));
}

#[tokio::test]
async fn a_hole_in_the_log_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let (log, states) = history(&store).await;
    let remove = |name: &str| fs::remove_file(folder.path().join(LOG).join(name)).unwrap();
    // Without checkpoints every version is made of all before it.
    for version in [4, 8, 12] {
        remove(&format!("{version:020}.checkpoint.parquet"));
    }
    remove("00000000000000000006.json");
    assert!(log.at(&states[12], 4).await.unwrap().is_some());
    let error = log.at(&states[12], 7).await.unwrap_err();
    assert!(matches!(&error, StorageError::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("version 6 is missing"), "{error}");
    // Nothing tells when version 5 was followed.
    assert!(log.at(&states[12], 5).await.unwrap().is_none());
}

/// Makes the pins of a table as old as if nobody had renewed them for a while.
fn age_pins(folder: &std::path::Path, age: Duration) {
    for entry in fs::read_dir(folder.join("tables/t/_basalt_pins")).unwrap() {
        let file = fs::File::options().write(true).open(entry.unwrap().path()).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }
}

#[tokio::test]
async fn a_pinned_version_is_readable_everywhere_until_its_lease_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let (log, states) = history(&store).await;
    let (newest, third) = (&states[12], &states[3]);
    let before = numbers(&log, third).await;
    let (first, second) = (Pin::new(3, 1), Pin::new(3, 2));
    assert_eq!(log.pin(third, first).await.unwrap(), Pinned::Held);
    // No version is retained from here on, and the log's files are old.
    for entry in fs::read_dir(folder.path().join(LOG)).unwrap() {
        let file = fs::File::options().write(true).open(entry.unwrap().path()).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(2 * 3600)).unwrap();
    }
    let hasty = || TableLog::new(log.store().clone()).keeping(Duration::ZERO);
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(hasty().pin(newest, Pin::new(5, 3)).await.unwrap(), Pinned::Gone);
    assert_eq!(hasty().pin(newest, Pin::new(13, 3)).await.unwrap(), Pinned::Gone);
    for _ in 0..2 {
        let vacuumed = hasty().vacuum(newest).await.unwrap();
        println!("{vacuumed:?}");
        let other = hasty();
        let rebuilt = other.at(&other.load().await.unwrap(), 3).await.unwrap().unwrap();
        assert_eq!((shown(&rebuilt), numbers(&other, &rebuilt).await), (shown(third), before.clone()));
        assert!(other.at(newest, 5).await.unwrap().is_none());
    }
    // Others may pin what is pinned; then the first need not.
    assert_eq!(hasty().pin(newest, second).await.unwrap(), Pinned::Held);
    log.unpin(first).await.unwrap();
    hasty().vacuum(newest).await.unwrap();
    assert!(hasty().at(newest, 3).await.unwrap().is_some());

    // A lease that is over keeps nothing for readers; a vacuum waits a little longer.
    age_pins(folder.path(), Duration::from_secs(200));
    assert!(hasty().at(newest, 3).await.unwrap().is_none());
    let waits = hasty().vacuum(newest).await.unwrap();
    assert_eq!(waits.files, 0, "{waits:?}");
    age_pins(folder.path(), Duration::from_secs(300));
    let done = hasty().vacuum(newest).await.unwrap();
    assert!(done.files > 3, "{done:?}");
    assert_eq!(fs::read_dir(folder.path().join("tables/t/_basalt_pins")).unwrap().count(), 0);
    assert_eq!(hasty().pin(newest, second).await.unwrap(), Pinned::Gone);
    assert!(hasty().at(newest, 3).await.unwrap().is_none());
}

#[tokio::test]
async fn pins_are_no_more_than_there_may_be() {
    let (log, states) = history(&Store::in_memory()).await;
    let mut pins = Vec::new();
    let full = loop {
        let pin = Pin::new(12, pins.len() as u64);
        match log.pin(&states[12], pin).await.unwrap() {
            Pinned::Held => pins.push(pin),
            other => break other,
        }
    };
    assert_eq!((full, pins.len()), (Pinned::Full(256), 256));
    assert_eq!(log.pin(&states[12], pins[7]).await.unwrap(), Pinned::Held, "it is renewed");
}
