//! Tables that get their names when they have their rows.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use basalt_core::error::ErrorKind;
use basalt_storage::{CatalogLog, Change, Draft, Gone, Operation, Result, StorageError, Store};

use crate::support::{append, numbers, schema};

const HOUR: Duration = Duration::from_secs(3600);
const KEEP: Duration = Duration::from_secs(600);

fn open(folder: &Path) -> CatalogLog {
    CatalogLog::new(Store::open(folder.to_str().unwrap()).unwrap(), KEEP)
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    match result {
        Err(StorageError::Invalid(e)) => e.kind(),
        other => panic!("{other:?}"),
    }
}

async fn draft(catalog: &CatalogLog, name: &str, rows: impl IntoIterator<Item = i64>) -> Draft {
    let state = catalog.load().await.unwrap();
    let draft = catalog.draft(&state, name, &schema(), BTreeMap::new()).await.unwrap();
    let rows: Vec<i64> = rows.into_iter().collect();
    if !rows.is_empty() {
        append(&draft.log, &draft.table, rows).await;
    }
    draft
}

fn gone(name: &str, number: Option<u64>) -> Gone {
    Gone { name: name.to_owned(), number, until: None }
}

/// Folders of tables, and marks in them.
fn folders(folder: &Path) -> (usize, usize) {
    let tables = fs::read_dir(folder.join("tables")).unwrap().map(|entry| entry.unwrap().path());
    let tables: Vec<_> = tables.collect();
    (tables.len(), tables.iter().filter(|table| table.join("_basalt_draft").exists()).count())
}

#[tokio::test]
async fn a_draft_is_found_by_nobody_before_it_has_its_name() {
    let folder = tempfile::tempdir().unwrap();
    for catalog in [open(folder.path()), CatalogLog::new(Store::in_memory(), KEEP)] {
        let draft = draft(&catalog, "t", [1, 2]).await;
        let before = catalog.load().await.unwrap();
        assert!(before.tables().is_empty());
        assert!(catalog.unnamed_folders(&before).await.unwrap().is_empty(), "a draft is nothing to warn of");
        let after = catalog.publish(&before, std::slice::from_ref(&draft), &[]).await.unwrap();
        assert_eq!(after.tables()["t"], draft.entry);
        let loaded = catalog.load().await.unwrap();
        assert_eq!((loaded.tables(), loaded.version()), (after.tables(), before.version() + 1));
        let (log, state) = catalog.open(&loaded.tables()["t"]).await.unwrap();
        assert_eq!(numbers(&log, &state).await, [1, 2]);
    }
    assert_eq!(folders(folder.path()), (1, 0));
}

#[tokio::test]
async fn a_draft_takes_the_place_of_a_table_in_one_step() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = open(folder.path());
    let old = draft(&catalog, "t", [1]).await;
    let state = catalog.load().await.unwrap();
    let state = catalog.publish(&state, std::slice::from_ref(&old), &[]).await.unwrap();
    let (new, other) = (draft(&catalog, "t", [2]).await, draft(&catalog, "u", [3]).await);
    let drafts = [new, other];
    assert_eq!(kind(catalog.publish(&state, &drafts, &[]).await), ErrorKind::TableExists);
    let wrong = [gone("t", Some(old.entry.number() + 1))];
    assert_eq!(kind(catalog.publish(&state, &drafts, &wrong).await), ErrorKind::TableNotFound);
    let missing = [gone("x", Some(1)), gone("t", None)];
    assert_eq!(kind(catalog.publish(&state, &drafts, &missing).await), ErrorKind::TableNotFound);
    assert_eq!(catalog.load().await.unwrap().tables(), state.tables(), "all of it, or nothing");

    let after = catalog.publish(&state, &drafts, &[gone("t", Some(old.entry.number()))]).await.unwrap();
    let loaded = catalog.load().await.unwrap();
    assert_eq!((loaded.tables(), loaded.version()), (after.tables(), state.version() + 1));
    for (name, row) in [("t", 2), ("u", 3)] {
        let (log, state) = catalog.open(&loaded.tables()[name]).await.unwrap();
        assert_eq!(numbers(&log, &state).await, [row]);
    }
    // Who has not heard of it drops neither the old one nor the new one.
    assert_eq!(kind(catalog.remove(&state, "t").await), ErrorKind::TableNotFound);
    // Whichever has the name: none, here.
    let last = draft(&catalog, "v", []).await;
    catalog.publish(&loaded, &[last], &[gone("v", None)]).await.unwrap();
    // The old one's files go with time, like those of any table that was dropped.
    assert_eq!(folders(folder.path()).0, 4);
    let at_once = CatalogLog::new(catalog.store().clone(), Duration::ZERO);
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert!(at_once.vacuum(&loaded).await.unwrap().files > 0);
    assert_eq!(folders(folder.path()), (3, 0));
}

/// Whoever would take the place of a table for longer than others leave it closed finds that it is too late.
#[tokio::test]
async fn what_comes_late_takes_no_place() {
    let catalog = CatalogLog::new(Store::in_memory(), KEEP);
    let old = draft(&catalog, "t", [1]).await;
    let state = catalog.load().await.unwrap();
    let state = catalog.publish(&state, std::slice::from_ref(&old), &[]).await.unwrap();
    let (log, mut table) = catalog.open(&state.tables()["t"]).await.unwrap();
    for (closed, at) in [(Some(true), Some(2)), (None, Some(2)), (Some(false), None)] {
        let change = Change { operation: Operation::Close, closed, ..Change::default() };
        table = log.commit(&table, &change).await.unwrap().state;
        assert_eq!(table.closed_at(), at);
        assert_eq!(log.load().await.unwrap().closed_at(), at);
    }

    let new = [draft(&catalog, "t", [2]).await];
    let late = [Gone { until: Some(tokio::time::Instant::now()), ..gone("t", None) }];
    assert_eq!(kind(catalog.publish(&state, &new, &late).await), ErrorKind::WriteConflict);
    let touched = catalog.touch(&state).await.unwrap();
    assert_eq!((touched.tables(), touched.version()), (state.tables(), state.version() + 1));
    let later = [Gone { until: Some(tokio::time::Instant::now() + HOUR), ..gone("t", None) }];
    let replaced = catalog.publish(&state, &new, &later).await.unwrap();
    assert_eq!(replaced.tables()["t"], new[0].entry);
}

#[tokio::test]
async fn what_is_left_of_drafts_goes_after_a_day() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = open(folder.path());
    let named = draft(&catalog, "named", [1]).await;
    let state = catalog.load().await.unwrap();
    let state = catalog.publish(&state, std::slice::from_ref(&named), &[]).await.unwrap();
    // Its mark is there again, as where its removal failed: the name counts.
    fs::write(folder.path().join(&named.entry.location).join("_basalt_draft"), "").unwrap();
    let discarded = draft(&catalog, "discarded", [2]).await;
    catalog.discard(&discarded).await.unwrap();
    draft(&catalog, "left", [3]).await;
    // A folder that no mark says to be a draft is another's.
    let other = draft(&catalog, "other", [4]).await;
    fs::remove_file(folder.path().join(&other.entry.location).join("_basalt_draft")).unwrap();
    assert_eq!(folders(folder.path()), (3, 2));
    let unnamed = catalog.unnamed_folders(&state).await.unwrap();
    assert_eq!(unnamed, std::slice::from_ref(&other.entry.location));

    for (age, left) in [(23 * HOUR, 3), (25 * HOUR, 2)] {
        for table in fs::read_dir(folder.path().join("tables")).unwrap() {
            let mark = table.unwrap().path().join("_basalt_draft");
            if let Ok(mark) = fs::File::options().write(true).open(mark) {
                mark.set_modified(SystemTime::now() - age).unwrap();
            }
        }
        catalog.vacuum(&state).await.unwrap();
        assert_eq!(folders(folder.path()).0, left, "{age:?}");
    }
    let (log, table) = catalog.open(&state.tables()["named"]).await.unwrap();
    assert_eq!(numbers(&log, &table).await, [1]);
    assert!(folder.path().join(&other.entry.location).exists());
}
