//! A catalog that is gone, or names what is not its own: nothing is begun again, and nothing is removed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use basalt_storage::{CatalogLog, StorageError, Store};
use tracing::{Event, Metadata, Subscriber, field::Visit, span};

use crate::support::{append, schema};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn files(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.display().to_string());
        }
    }
    found
}

fn grow_old(folder: &Path) {
    for file in files(folder) {
        let file = fs::File::options().write(true).open(file).unwrap();
        file.set_modified(SystemTime::now() - YEAR).unwrap();
    }
}

fn open(folder: &Path) -> CatalogLog {
    CatalogLog::new(Store::open(folder.to_str().unwrap()).unwrap(), Duration::ZERO)
}

#[tokio::test]
async fn tables_without_a_catalog_are_refused_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = open(folder.path());
    let empty = catalog.load().await.unwrap();
    let made = catalog.create(&empty, "t", &schema(), BTreeMap::new()).await.unwrap();
    append(&made.log, &made.table, [1]).await;
    let dropped = catalog.create(&made.catalog, "u", &schema(), BTreeMap::new()).await.unwrap();
    let state = catalog.remove(&dropped.catalog, "u").await.unwrap();
    grow_old(folder.path());
    fs::rename(folder.path().join("catalog"), folder.path().join("aside")).unwrap();
    let before = files(folder.path());

    // A start is refused with advice.
    let error = open(folder.path()).load().await.unwrap_err();
    assert!(matches!(error, StorageError::Address { .. }), "{error:?}");
    let advice = error.to_string();
    assert!(["catalog/", "tables/t-", "put", "attach"].iter().all(|word| advice.contains(word)), "{advice}");
    // Who was there before writes no entry, neither a first one nor another, and removes nothing.
    for state in [&state, &empty] {
        assert!(catalog.refresh(state).await.is_err());
        assert!(catalog.create(state, "new", &schema(), BTreeMap::new()).await.is_err());
        assert!(catalog.vacuum(state).await.is_err());
    }
    assert!(catalog.remove(&state, "t").await.is_err());
    let found = catalog.look_at(&state, "new", made.log.store().url()).await.unwrap();
    assert!(catalog.attach(&state, "new", found).await.is_err());
    assert_eq!(files(folder.path()), before);

    // Nor does it take another store's catalog for its own.
    let other = tempfile::tempdir().unwrap();
    let others = open(other.path());
    let mut theirs = others.load().await.unwrap();
    for name in ["a", "b", "c", "d"] {
        theirs = others.create(&theirs, name, &schema(), BTreeMap::new()).await.unwrap().catalog;
    }
    fs::rename(other.path().join("catalog"), folder.path().join("catalog")).unwrap();
    let error = catalog.refresh(&state).await.unwrap_err().to_string();
    assert!(error.contains("another entry"), "{error}");
    assert!(catalog.create(&state, "new", &schema(), BTreeMap::new()).await.is_err());
    fs::remove_dir_all(folder.path().join("catalog")).unwrap();

    // A part of it is refused, too.
    fs::rename(folder.path().join("aside"), folder.path().join("catalog")).unwrap();
    let first = folder.path().join("catalog/00000000000000000000.json");
    let bytes = fs::read(&first).unwrap();
    fs::remove_file(&first).unwrap();
    let error = open(folder.path()).load().await.unwrap_err().to_string();
    assert!(error.contains("00000000000000000000.json") && error.contains("missing"), "{error}");
    fs::write(&first, bytes).unwrap();
    assert_eq!(open(folder.path()).load().await.unwrap().tables().len(), 1);
    assert_eq!(made.log.load().await.unwrap().rows(), 1);
}

#[tokio::test]
async fn a_lake_with_tables_of_its_own_is_refused() {
    let lake = tempfile::tempdir().unwrap();
    fs::create_dir_all(lake.path().join("tables/orders")).unwrap();
    fs::write(lake.path().join("tables/orders/part-1.parquet"), "x").unwrap();
    assert!(matches!(open(lake.path()).load().await, Err(StorageError::Address { .. })));
    // What else lies beside a store's own folders is left alone.
    let mixed = tempfile::tempdir().unwrap();
    fs::create_dir_all(mixed.path().join("landing/empty")).unwrap();
    fs::write(mixed.path().join("landing/x.json#1"), "x").unwrap();
    let catalog = open(mixed.path());
    let state = catalog.load().await.unwrap();
    let made = catalog.create(&state, "t", &schema(), BTreeMap::new()).await.unwrap();
    fs::create_dir_all(mixed.path().join("tables/orders/empty")).unwrap();
    fs::write(mixed.path().join("tables/orders/part-1.parquet"), "x").unwrap();
    grow_old(mixed.path());
    let before = files(mixed.path());
    let hour = Duration::from_millis(5);
    tokio::time::sleep(hour).await;
    assert_eq!(catalog.vacuum(&made.catalog).await.unwrap().files, 0);
    assert_eq!(files(mixed.path()), before);
    assert!(mixed.path().join("tables/orders/empty").exists() && mixed.path().join("landing/empty").exists());
}

/// Entries of a journal that somebody has written by hand.
#[tokio::test]
async fn a_drop_removes_its_own_tables_folder_alone() {
    for location in ["tables/orders", "tables", "", "landing", "tables/../landing", "tables/orders/sub"] {
        let folder = tempfile::tempdir().unwrap();
        for place in ["catalog", "landing", "tables/orders/sub"] {
            fs::create_dir_all(folder.path().join(place)).unwrap();
            fs::write(folder.path().join(place).join("x.parquet"), "x").unwrap();
        }
        let id = uuid::Uuid::new_v4();
        let entry = |step: &str| format!(r#"{{"at":0,"entry":"{}","step":{step}}}"#, uuid::Uuid::new_v4());
        let create = format!(r#"{{"create":{{"name":"orders","id":"{id}","location":"{location}"}}}}"#);
        for (i, step) in [create, format!(r#"{{"drop":"{id}"}}"#)].iter().enumerate() {
            fs::write(folder.path().join(format!("catalog/{i:020}.json")), entry(step)).unwrap();
        }
        grow_old(folder.path());
        let before = files(folder.path());
        let catalog = open(folder.path());
        let state = catalog.load().await.unwrap();
        assert_eq!(catalog.vacuum(&state).await.unwrap().files, 0, "{location:?}");
        assert_eq!(files(folder.path()), before, "{location:?}");
    }
}

#[tokio::test]
async fn a_dropped_tables_folder_with_another_table_stays() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = open(folder.path());
    let state = catalog.load().await.unwrap();
    let a = catalog.create(&state, "a", &schema(), BTreeMap::new()).await.unwrap();
    let b = catalog.create(&a.catalog, "b", &schema(), BTreeMap::new()).await.unwrap();
    let state = catalog.remove(&b.catalog, "a").await.unwrap();
    // Somebody puts another table into the place of the one that was dropped.
    let own = folder.path().join(&a.entry.location);
    fs::rename(&own, folder.path().join("aside")).unwrap();
    fs::rename(folder.path().join(&b.entry.location), &own).unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(catalog.vacuum(&state).await.unwrap().files, 0);
    fs::remove_dir_all(&own).unwrap();
    fs::rename(folder.path().join("aside"), &own).unwrap();
    assert_eq!(catalog.vacuum(&state).await.unwrap().files, 1);
    assert!(!own.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_creation_that_was_second_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = open(folder.path());
    let empty = catalog.load().await.unwrap();
    let makers = (0..16).map(|_| {
        let (catalog, empty) = (catalog.clone(), Arc::clone(&empty));
        tokio::spawn(async move { catalog.create(&empty, "t", &schema(), BTreeMap::new()).await.is_ok() })
    });
    let mut made = 0;
    for maker in makers.collect::<Vec<_>>() {
        made += usize::from(maker.await.unwrap());
    }
    assert_eq!((made, fs::read_dir(folder.path().join("tables")).unwrap().count()), (1, 1));
}

/// Gathers what is logged, a line for each event.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl Subscriber for Logged {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("basalt_storage")
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(event.metadata().level().to_string());
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn every_deletion_is_logged() {
    let logged = Logged::default();
    // With one subscriber alone, what another test's thread logs first would be passed over for good.
    let _other = tracing::Dispatch::new(Logged::default());
    let _guard = tracing::subscriber::set_default(logged.clone());
    let folder = tempfile::tempdir().unwrap();
    let catalog = open(folder.path());
    let mut state = catalog.load().await.unwrap();
    for (name, commits) in [("few", 3), ("many", 40)] {
        let made = catalog.create(&state, name, &schema(), BTreeMap::new()).await.unwrap();
        let mut table = made.table;
        for i in 0..commits {
            table = append(&made.log, &table, [i]).await.state;
        }
        state = catalog.remove(&made.catalog, name).await.unwrap();
    }
    fs::write(folder.path().join("catalog/00000000000000000000.json#1"), "x").unwrap();
    grow_old(folder.path());
    let before = files(folder.path());
    tokio::time::sleep(Duration::from_millis(5)).await;
    catalog.vacuum(&state).await.unwrap();
    let removed: Vec<String> = before.difference(&files(folder.path())).cloned().collect();
    assert!(removed.len() > 80 && removed.iter().any(|path| path.ends_with("#1")), "{removed:?}");
    let lines = logged.0.lock().unwrap().clone();
    for path in &removed {
        let relative = path.trim_start_matches(&format!("{}/", folder.path().display()));
        let line = lines.iter().find(|line| line.contains(relative));
        let level = if relative.contains("many") { "DEBUG" } else { "INFO" };
        assert!(line.is_some_and(|line| line.starts_with(level)), "{relative}: {line:?}");
    }
    assert!(lines.iter().any(|line| line.starts_with("INFO") && line.contains("files=40")), "{lines:?}");
}
