//! Commits whose answers are lost: what is acknowledged is there once, what is said not to be there never is.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use basalt_storage::{CatalogLog, Change, CommitError, Request, RowsDigest, Store, TableLog, TableState};
use object_store::path::Path;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use crate::{
    flaky::{Fault, Flaky, by_chance},
    support::{append, batch, numbers, schema},
};

/// What a writer was told of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Done,
    NotDone,
    Unknown,
}

async fn table_on(flaky: &Flaky) -> (Store, Arc<TableState>) {
    let store = Store::over(Arc::new(flaky.clone())).folder("t").unwrap();
    let (_, state) = TableLog::create(store.clone(), "t", &schema(), BTreeMap::new()).await.unwrap();
    (store, state)
}

fn heal(flaky: &Flaky) {
    flaky.choose(|_| Fault::None);
    flaky.unreadable.store(false, Ordering::Relaxed);
}

/// One attempt after the other, as a server makes them.
async fn write(log: &TableLog, state: &mut Arc<TableState>, n: i64, id: Option<&str>) -> Told {
    let file = log.write_data(&schema(), vec![batch([n])]).await.unwrap();
    let requests = id
        .map(|id| Request { id: id.to_owned(), digest: RowsDigest::Xxh3(1), rows: 1 })
        .into_iter()
        .collect();
    let change = Change { add: vec![file], requests, ..Change::default() };
    for _ in 0..100 {
        if id.is_some_and(|id| state.request(id).is_some()) {
            return Told::Done;
        }
        match log.commit(state, &change).await {
            Ok(done) => {
                *state = done.state;
                return Told::Done;
            }
            Err(CommitError::Conflict(newer)) => *state = newer,
            Err(CommitError::Storage(_)) => return Told::NotDone,
            Err(CommitError::Unknown(_)) => return Told::Unknown,
        }
    }
    Told::NotDone
}

#[tokio::test(start_paused = true)]
async fn what_is_told_of_a_write_is_true() {
    let mut told_unknown = 0;
    for seed in 0..300 {
        let flaky = Flaky::new(|_| Fault::None);
        let (store, first) = table_on(&flaky).await;
        let chance = by_chance(seed);
        let mut random = StdRng::seed_from_u64(seed);
        flaky.choose(chance);
        let mut writers = Vec::new();
        for writer in 0..3 {
            let (store, mut state) = (store.clone(), Arc::clone(&first));
            let pauses: Vec<u64> = (0..8).map(|_| random.random_range(0..300)).collect();
            let unreadable = (writer == 0 && seed % 3 == 0).then(|| Arc::clone(&flaky.unreadable));
            writers.push(tokio::spawn(async move {
                let log = TableLog::new(store);
                let mut told = Vec::new();
                for (i, pause) in (0..).zip(pauses) {
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                    if let Some(unreadable) = &unreadable {
                        unreadable.store(i % 3 == 1, std::sync::atomic::Ordering::Relaxed);
                    }
                    let (n, id) = (writer * 100 + i, format!("{writer} {i}"));
                    // Half of them have an id, by which the same write is known when it is sent again.
                    if i % 2 == 0 {
                        told.push((n, write(&log, &mut state, n, None).await));
                    } else {
                        let mut outcome = write(&log, &mut state, n, Some(&id)).await;
                        for _ in 0..3 {
                            if outcome != Told::Unknown {
                                break;
                            }
                            // An attempt that did nothing says nothing of the one before it.
                            outcome = match write(&log, &mut state, n, Some(&id)).await {
                                Told::NotDone => Told::Unknown,
                                told => told,
                            };
                        }
                        told.push((n, outcome));
                    }
                }
                told
            }));
        }
        let mut told = BTreeMap::new();
        for writer in writers {
            told.extend(writer.await.unwrap());
        }
        heal(&flaky);
        // What comes late has come.
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let log = TableLog::new(store.clone());
        let state = log.load().await.unwrap();
        let found = numbers(&log, &state).await;
        for (n, told) in &told {
            let times = found.iter().filter(|found| *found == n).count();
            let expected = match told {
                Told::Done => times == 1,
                Told::NotDone => times == 0,
                Told::Unknown => times <= 1,
            };
            assert!(expected, "seed {seed}: {n} is there {times} times, and its writer was told {told:?}");
        }
        told_unknown += told.values().filter(|told| **told == Told::Unknown).count();
        // Whoever followed has the same rows.
        let followed = log.refresh(&first).await.unwrap();
        assert_eq!(numbers(&log, &followed).await, found, "seed {seed}");
    }
    assert!(told_unknown < 300 * 24 / 4, "{told_unknown} of {} writes are not known", 300 * 24);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_found_out() {
    for fault in [Fault::Before, Fault::After, Fault::Timeout, Fault::Late(Duration::from_secs(60))] {
        let flaky = Flaky::new(|_| Fault::None);
        let (store, first) = table_on(&flaky).await;
        let log = TableLog::new(store);
        let mut failed = false;
        flaky.choose(move |path| {
            let fails = path.as_ref().contains("_delta_log") && !std::mem::replace(&mut failed, true);
            if fails { fault } else { Fault::None }
        });
        let mut state = Arc::clone(&first);
        assert_eq!(write(&log, &mut state, 7, None).await, Told::Done, "{fault:?}");
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let state = log.refresh(&first).await.unwrap();
        assert_eq!(numbers(&log, &state).await, [7], "{fault:?}");
        // What did not land at once has lost its name to a version without changes.
        let versions = if matches!(fault, Fault::Before | Fault::Late(_)) { 2 } else { 1 };
        assert_eq!(state.version(), versions, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_gone_leaves_it_unknown_and_a_retry_tells() {
    for fault in [Fault::Before, Fault::After, Fault::Late(Duration::from_secs(600))] {
        let flaky = Flaky::new(|_| Fault::None);
        let (store, first) = table_on(&flaky).await;
        let log = TableLog::new(store);
        let unreadable = Arc::clone(&flaky.unreadable);
        flaky.choose(move |path| match path.as_ref().contains("_delta_log") {
            true => {
                unreadable.store(true, std::sync::atomic::Ordering::Relaxed);
                fault
            }
            false => Fault::None,
        });
        let mut state = Arc::clone(&first);
        assert_eq!(write(&log, &mut state, 7, Some("id")).await, Told::Unknown, "{fault:?}");
        heal(&flaky);
        if let Fault::Late(after) = fault {
            tokio::time::sleep(after * 2).await;
        }
        assert_eq!(write(&log, &mut state, 7, Some("id")).await, Told::Done, "{fault:?}");
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let state = log.load().await.unwrap();
        assert_eq!(numbers(&log, &state).await, [7], "{fault:?}");
        append(&log, &state, [8]).await;
    }
}

#[tokio::test]
async fn a_version_that_comes_while_the_log_is_listed_is_not_missing() {
    let flaky = Flaky::new(|_| Fault::None);
    let (store, first) = table_on(&flaky).await;
    let log = TableLog::new(store.clone());
    let mut state = first;
    for n in 0..4 {
        state = append(&log, &state, [n]).await.state;
    }
    let entry = format!("{:020}.json", 2);
    let leave_out = |listings| flaky.unlisted.lock().unwrap().push((entry.clone(), listings));
    leave_out(1);
    assert_eq!(TableLog::new(store.clone()).load().await.unwrap().version(), 4);
    assert!(flaky.unlisted.lock().unwrap().is_empty(), "the log was not listed");
    leave_out(1);
    assert_eq!(log.at(&state, 3).await.unwrap().unwrap().version(), 3);
    // One that stays out is missing.
    leave_out(usize::MAX);
    let error = TableLog::new(store).load().await.unwrap_err().to_string();
    assert!(error.contains("version 2 is missing"), "{error}");
}

/// A change of the catalog that was said to have failed, and comes late, would undo what was acknowledged behind it.
#[tokio::test]
async fn an_entry_of_the_catalog_that_comes_late_is_kept_out() {
    let late = Arc::new(AtomicBool::new(false));
    let choose = {
        let late = Arc::clone(&late);
        move |path: &Path| match path.as_ref().contains("catalog/") && late.swap(false, Ordering::Relaxed) {
            true => Fault::Late(Duration::from_millis(200)),
            false => Fault::None,
        }
    };
    let catalog = CatalogLog::new(Store::over(Arc::new(Flaky::new(choose))), Duration::from_secs(600));
    let empty = catalog.load().await.unwrap();
    let made = catalog.create(&empty, "t", &schema(), BTreeMap::new()).await.unwrap();
    late.store(true, Ordering::Relaxed);
    let dropped = catalog.remove(&made.catalog, "t").await.unwrap();
    assert!(dropped.tables().is_empty());
    late.store(true, Ordering::Relaxed);
    let again = catalog.create(&dropped, "t", &schema(), BTreeMap::new()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(400)).await;
    let loaded = catalog.load().await.unwrap();
    assert_eq!(loaded.tables(), again.catalog.tables());
    // The beginning, three changes, and twice an entry without effect.
    assert_eq!((loaded.tables().len(), loaded.version()), (1, 6));
}
