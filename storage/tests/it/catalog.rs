//! The journal of tables.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use basalt_core::error::ErrorKind;
use basalt_storage::{CatalogLog, Result, StorageError, Store};

use crate::support::{append, numbers, schema};

const KEEP: Duration = Duration::from_secs(600);

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    match result {
        Err(StorageError::Invalid(e)) => e.kind(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn tables_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    for store in [Store::open(folder.path().to_str().unwrap()).unwrap(), Store::in_memory()] {
        let catalog = CatalogLog::new(store.clone(), KEEP);
        let empty = catalog.load().await.unwrap();
        assert!(empty.tables().is_empty());
        let a = catalog.create(&empty, "a", &schema(), BTreeMap::new()).await.unwrap();
        assert_eq!(
            kind(catalog.create(&a.catalog, "a", &schema(), BTreeMap::new()).await),
            ErrorKind::TableExists
        );
        assert_eq!(
            kind(catalog.create(&a.catalog, "a-b", &schema(), BTreeMap::new()).await),
            ErrorKind::InvalidName
        );
        // Another node, which has not heard of it.
        assert_eq!(
            kind(catalog.create(&empty, "a", &schema(), BTreeMap::new()).await),
            ErrorKind::TableExists
        );
        let b = catalog.create(&empty, "über", &schema(), BTreeMap::new()).await.unwrap();
        assert_eq!(b.catalog.tables().len(), 2);
        assert_eq!(catalog.refresh(&a.catalog).await.unwrap().tables(), b.catalog.tables());

        append(&a.log, &a.table, [7]).await;
        let dropped = catalog.remove(&a.catalog, "a").await.unwrap();
        assert_eq!(kind(catalog.remove(&dropped, "a").await), ErrorKind::TableNotFound);
        assert_eq!(kind(catalog.remove(&b.catalog, "a").await), ErrorKind::TableNotFound);
        let again = catalog.create(&dropped, "a", &schema(), BTreeMap::new()).await.unwrap();
        assert_ne!(again.entry.number(), a.entry.number());
        // Who still knows the first table of this name does not drop the second.
        assert_eq!(kind(catalog.remove(&a.catalog, "a").await), ErrorKind::TableNotFound);
        assert_eq!(again.table.rows(), 0);
        let loaded = catalog.load().await.unwrap();
        assert_eq!((loaded.tables(), loaded.version()), (again.catalog.tables(), 5));
        let log = catalog.table(&loaded.tables()["a"]).unwrap();
        assert_eq!(log.load().await.unwrap().id(), again.table.id());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_many_makes_a_table() {
    let folder = tempfile::tempdir().unwrap();
    for store in [Store::open(folder.path().to_str().unwrap()).unwrap(), Store::in_memory()] {
        let catalog = CatalogLog::new(store, KEEP);
        let empty = catalog.load().await.unwrap();
        let makers = (0..32).map(|i| {
            let (catalog, empty) = (catalog.clone(), Arc::clone(&empty));
            let name = format!("t{}", i / 4);
            tokio::spawn(async move { catalog.create(&empty, &name, &schema(), BTreeMap::new()).await })
        });
        let mut made = 0;
        for maker in makers.collect::<Vec<_>>() {
            match maker.await.unwrap() {
                Ok(_) => made += 1,
                Err(e) => assert_eq!(kind::<()>(Err(e)), ErrorKind::TableExists),
            }
        }
        let state = catalog.load().await.unwrap();
        assert_eq!((made, state.tables().len(), state.version()), (8, 8, 9));
    }
}

#[tokio::test]
async fn a_table_of_another_store_is_attached_and_followed() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let stores = folders.each_ref().map(|folder| Store::open(folder.path().to_str().unwrap()).unwrap());
    let theirs = CatalogLog::new(stores[0].clone(), KEEP);
    let made = theirs.create(&theirs.load().await.unwrap(), "t", &schema(), BTreeMap::new()).await.unwrap();
    let state = append(&made.log, &made.table, [1, 2]).await.state;

    let ours = CatalogLog::new(stores[1].clone(), KEEP);
    let empty = ours.load().await.unwrap();
    let found = ours.look_at(&empty, "copy", made.log.store().url()).await.unwrap();
    let attached = ours.attach(&empty, "copy", found).await.unwrap();
    assert!(attached.entry.attached);
    assert_eq!(numbers(&attached.log, &attached.table).await, [1, 2]);
    append(&made.log, &state, [3]).await;
    let grown = attached.log.refresh(&attached.table).await.unwrap();
    assert_eq!(numbers(&attached.log, &grown).await, [1, 2, 3]);

    // Detaching leaves the files alone.
    let detached = ours.remove(&attached.catalog, "copy").await.unwrap();
    ours.vacuum(&detached).await.unwrap();
    assert_eq!(numbers(&made.log, &made.log.load().await.unwrap()).await, [1, 2, 3]);
    assert!(matches!(ours.look_at(&empty, "x", "/no/such/folder").await, Err(StorageError::Address { .. })));
    let no_table = stores[1].url().to_owned();
    assert!(matches!(ours.look_at(&detached, "x", &no_table).await, Err(StorageError::NoTable { .. })));
}
