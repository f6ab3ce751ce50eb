//! Logs that have lost something: an entry that was emptied or cut, one that is gone, or all of them.

use std::{collections::BTreeMap, fs, sync::Arc};

use basalt_sip::Sip;
use basalt_storage::{Change, CommitError, Operation, StorageError, Store, TableLog};
use object_store::{ObjectStore, ObjectStoreExt as _, local::LocalFileSystem, memory::InMemory, path::Path};

use crate::support::{append, batch, commit, numbers, schema, table};

async fn get(objects: &dyn ObjectStore, path: &Path) -> Vec<u8> {
    objects.get(path).await.unwrap().bytes().await.unwrap().to_vec()
}

#[tokio::test]
async fn an_entry_that_was_cut_anywhere_is_an_error_that_names_it() {
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let store = Store::over(Arc::clone(&objects)).folder("t").unwrap();
    let (log, first) = TableLog::create(store, "t", &schema(), BTreeMap::new()).await.unwrap();
    let mut states = vec![first];
    let newest = |states: &[_]| Arc::clone(&states[states.len() - 1]);
    states.push(append(&log, &newest(&states), 0..20).await.state);
    let deletion = Change { deletions: vec![(0, Sip::from_sorted_ids(&[3, 4]))], ..Change::default() };
    states.push(commit(&log, &newest(&states), &deletion).await.state);
    states.push(append(&log, &newest(&states), [1, 2]).await.state);
    let compact = Change { operation: Operation::Compact, remove: vec![1], ..Change::default() };
    states.push(commit(&log, &newest(&states), &compact).await.state);
    // One without changes.
    states.push(commit(&log, &newest(&states), &Change::default()).await.state);

    for (version, _) in states.iter().enumerate() {
        let name = format!("{version:020}.json");
        let path = Path::from(format!("t/_delta_log/{name}"));
        let whole = get(&*objects, &path).await;
        assert_eq!(whole.last(), Some(&b'\n'));
        for at in 0..whole.len() {
            let bad = whole[..at].to_vec();
            let at_line_end = at == 0 || whole[at - 1] == b'\n';
            objects.put(&path, bad.into()).await.unwrap();
            let error = log.load().await.expect_err(&format!("version {version}, cut at byte {at}"));
            assert!(
                matches!(error, StorageError::Corrupt { .. }) && error.to_string().contains(&name),
                "{error}"
            );
            // Who is there already does not take it in, either.
            if at_line_end && version > 0 {
                let error = log.refresh(&states[version - 1]).await.unwrap_err().to_string();
                assert!(error.contains(&name), "{error}");
                let change = Change::default();
                assert!(log.commit(&states[version - 1], &change).await.is_err(), "version {version}, {at}");
            }
        }
        // Nor is a line that is gone in its middle, or a bit that flipped behind the first line.
        let lines: Vec<&[u8]> = whole.split_inclusive(|b| *b == b'\n').collect();
        for gone in 1..lines.len() {
            let left: Vec<u8> =
                lines.iter().enumerate().filter(|(i, _)| *i != gone).flat_map(|(_, l)| l.to_vec()).collect();
            objects.put(&path, left.into()).await.unwrap();
            assert!(log.load().await.is_err(), "version {version} without line {gone}");
        }
        for at in lines[0].len()..whole.len() {
            let mut bad = whole.clone();
            bad[at] ^= 1;
            objects.put(&path, bad.into()).await.unwrap();
            assert!(log.load().await.is_err(), "version {version}, a bit of byte {at}");
        }
        objects.put(&path, whole.into()).await.unwrap();
    }
    assert_eq!(log.load().await.unwrap().rows(), 18);
}

/// Entries of versions that did not say how long they are, and of other writers, are read; an empty one is none of theirs.
#[tokio::test]
async fn entries_of_others_say_nothing_of_their_length() {
    let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let store = Store::over(Arc::clone(&objects)).folder("t").unwrap();
    let (log, state) = TableLog::create(store, "t", &schema(), BTreeMap::new()).await.unwrap();
    append(&log, &state, [1]).await;
    let path = Path::from("t/_delta_log/00000000000000000001.json");
    let whole = String::from_utf8(get(&*objects, &path).await).unwrap();
    let (first, rest) = whole.split_once('\n').unwrap();
    let mut info: serde_json::Value = serde_json::from_str(first).unwrap();
    info["commitInfo"].as_object_mut().unwrap().remove("basalt").unwrap();
    objects.put(&path, format!("{info}\n{rest}").into()).await.unwrap();
    assert_eq!(log.load().await.unwrap().rows(), 1);
    objects.put(&path, format!("{{\"commitInfo\":\"anything\"}}\n{rest}").into()).await.unwrap();
    assert_eq!(log.load().await.unwrap().rows(), 1);
    for empty in ["", "\n", " \n\n"] {
        objects.put(&path, empty.into()).await.unwrap();
        let error = log.load().await.unwrap_err().to_string();
        assert!(error.contains("00000000000000000001.json") && error.contains("empty"), "{error}");
    }
}

#[tokio::test]
async fn an_entry_that_is_gone_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let (log, mut state) = table(&store).await;
    let entry = |version: u64| folder.path().join(format!("tables/t/_delta_log/{version:020}.json"));
    for i in 0..4 {
        state = append(&log, &state, [i]).await.state;
    }
    for version in 0..4 {
        let bytes = fs::read(entry(version)).unwrap();
        fs::remove_file(entry(version)).unwrap();
        let error = log.load().await.unwrap_err().to_string();
        assert!(error.contains(&format!("version {version} is missing")), "{error}");
        fs::write(entry(version), bytes).unwrap();
    }
    // The last one is missed by whoever has read it, and by a checkpoint of it.
    let last = fs::read(entry(4)).unwrap();
    fs::remove_file(entry(4)).unwrap();
    let change = Change::default();
    assert!(log.refresh(&state).await.unwrap_err().to_string().contains("00000000000000000004.json"));
    assert!(matches!(
        log.commit(&state, &change).await,
        Err(CommitError::Storage(StorageError::Corrupt { .. }))
    ));
    assert!(!entry(5).exists());
    fs::write(entry(4), &last).unwrap();
    let state = log.checkpoint(&state).await.unwrap();
    fs::remove_file(entry(4)).unwrap();
    assert_eq!(log.load().await.unwrap().rows(), 4, "its checkpoint is there");
    fs::remove_file(folder.path().join("tables/t/_delta_log/00000000000000000004.checkpoint.parquet"))
        .unwrap();
    let error = log.load().await.unwrap_err().to_string();
    assert!(error.contains("version 4") && error.contains("_last_checkpoint"), "{error}");
    fs::write(entry(4), last).unwrap();
    assert_eq!(append(&log, &state, [4]).await.state.version(), 5);
}

#[tokio::test]
async fn nothing_is_committed_to_a_log_that_is_gone() {
    for remote in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let store = match remote {
            true => Store::over(Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap())),
            false => Store::open(folder.path().to_str().unwrap()).unwrap(),
        };
        let (log, state) = table(&store).await;
        let state = append(&log, &state, [1, 2]).await.state;
        let place = folder.path().join("tables/t/_delta_log");
        fs::rename(&place, folder.path().join("aside")).unwrap();
        let file = log.write_data(&schema(), vec![batch([3])]).await.unwrap();
        let change = Change { add: vec![file], ..Change::default() };
        for _ in 0..2 {
            let error = log.commit(&state, &change).await.unwrap_err();
            match error {
                CommitError::Storage(e) => assert!(e.to_string().contains("gone"), "{e}"),
                // A store over a network is written to and looked at at once: there is an entry, and nothing before it.
                CommitError::Unknown(e) => assert!(remote && e.to_string().contains("gone"), "{e}"),
                CommitError::Conflict(_) => panic!("nobody else writes"),
            }
            if !remote {
                assert!(!place.exists());
            }
            let error = log.refresh(&state).await.unwrap_err().to_string();
            assert!(error.contains("gone"), "{error}");
        }
        let _ = fs::remove_dir_all(&place);
        fs::rename(folder.path().join("aside"), &place).unwrap();
        let state = append(&log, &state, [3]).await.state;
        assert_eq!(numbers(&log, &state).await, [1, 2, 3]);
    }
}
