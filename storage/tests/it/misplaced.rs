//! Entries that stand where others belong, whole as they are: of a log, and of the catalog.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use basalt_storage::{CatalogLog, StorageError, Store, TableLog};

use crate::support::{append, schema, table};

fn entry(folder: &Path, number: usize) -> std::path::PathBuf {
    folder.join(format!("{number:020}.json"))
}

fn is_corrupt<T: std::fmt::Debug>(loaded: Result<T, StorageError>, name: &Path) {
    let error = loaded.unwrap_err();
    let name = name.file_name().unwrap().to_str().unwrap();
    assert!(matches!(error, StorageError::Corrupt { .. }) && error.to_string().contains(name), "{error}");
}

#[tokio::test]
async fn a_version_in_the_place_of_another_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let (log, mut state) = table(&store).await;
    for i in 0..4 {
        state = append(&log, &state, [i]).await.state;
    }
    let entries = folder.path().join("tables/t/_delta_log");
    for from in 0..5 {
        // The last place is that of the next version.
        for to in (0..6).filter(|to| *to != from) {
            let (source, target) = (entry(&entries, from), entry(&entries, to));
            let before = fs::read(&target).ok();
            fs::copy(source, &target).unwrap();
            is_corrupt(TableLog::new(log.store().clone()).load().await, &target);
            if to == 5 {
                is_corrupt(log.refresh(&state).await, &target);
            }
            match before {
                Some(bytes) => fs::write(&target, bytes).unwrap(),
                None => fs::remove_file(&target).unwrap(),
            }
        }
    }
    assert_eq!(log.load().await.unwrap().rows(), 4);
}

#[tokio::test]
async fn an_entry_of_the_catalog_that_has_changed_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let catalog =
        || CatalogLog::new(Store::open(folder.path().to_str().unwrap()).unwrap(), Duration::from_secs(1));
    let mut state = catalog().load().await.unwrap();
    for name in ["one", "two"] {
        state = catalog().create(&state, name, &schema(), BTreeMap::new()).await.unwrap().catalog;
    }
    let journal = folder.path().join("catalog");
    let tables = |state: &basalt_storage::CatalogState| format!("{:?}", state.tables());
    for number in 0..3 {
        let path = entry(&journal, number);
        let good = fs::read(&path).unwrap();
        // Every bit, every length, and every other entry in its place.
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, bad).unwrap();
            is_corrupt(catalog().load().await, &path);
        }
        for length in 0..good.len() {
            fs::write(&path, &good[..length]).unwrap();
            // The first entry alone is read without its second line: older versions wrote none.
            let loaded = catalog().load().await;
            if number > 0 {
                is_corrupt(loaded, &path);
            } else if let Ok(loaded) = loaded {
                assert_eq!(tables(&loaded), tables(&state));
            }
        }
        for other in (0..3).filter(|other| *other != number) {
            fs::copy(entry(&journal, other), &path).unwrap_or(0);
            is_corrupt(catalog().load().await, &path);
        }
        fs::write(&path, &good).unwrap();
    }
    assert_eq!(tables(&catalog().load().await.unwrap()), tables(&state));
}
