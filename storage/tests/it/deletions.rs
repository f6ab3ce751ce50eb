//! Deletion vectors, in the log and in files.

use std::fs;

use basalt_sip::Sip;
use basalt_storage::{Change, Operation, Store};
use serde_json::{Value, json};

use crate::support::{append, commit, numbers, table};

#[tokio::test]
async fn deleted_rows_are_gone_and_stay_so() {
    let store = Store::in_memory();
    let (log, state) = table(&store).await;
    let state = append(&log, &state, 0..100_000).await.state;
    let mut state = append(&log, &state, 100_000..200_000).await.state;
    let scattered: Vec<u64> = (0..100_000).filter(|i| i * i % 7 == 1).collect();
    // Short, long, longer, and all but one row.
    for (id, deleted) in [
        (0, Sip::from_sorted_ids(&[3, 99_999])),
        (1, Sip::from_sorted_ids(&scattered)),
        (0, Sip::from_ranges([3..=99_999])),
        (1, Sip::from_ranges([1..=99_999])),
    ] {
        let change = Change {
            operation: Operation::Delete,
            deletions: vec![(id, deleted.clone())],
            ..Change::default()
        };
        state = commit(&log, &state, &change).await.state;
        for state in [&state, &log.load().await.unwrap()] {
            let found = log.deleted_rows(state.fragment(id).unwrap()).await.unwrap().unwrap();
            assert_eq!(found.iter().collect::<Vec<_>>(), deleted.iter().collect::<Vec<_>>());
            assert_eq!(state.fragment(id).unwrap().file.deleted_rows(), deleted.cardinality());
            // Bounds hold; how many rows are null is no longer known.
            let stats = state.column_stats(&state.fragment(id).unwrap().file, 1);
            assert_eq!(stats.nulls, None);
        }
    }
    assert_eq!(numbers(&log, &state).await, [0, 1, 2, 100_000]);
}

#[tokio::test]
async fn vectors_of_one_commit_share_a_file() {
    let store = Store::in_memory();
    let (log, mut state) = table(&store).await;
    for i in 0..3 {
        state = append(&log, &state, i * 20_000..(i + 1) * 20_000).await.state;
    }
    let odd: Vec<u64> = (0..20_000).filter(|i| i * i % 5 == 1).collect();
    let deletions = (0..3).map(|id| (id, Sip::from_sorted_ids(&odd[id as usize..]))).collect();
    let state = commit(&log, &state, &Change { deletions, ..Change::default() }).await.state;
    let mut names: Vec<_> = state
        .fragments()
        .iter()
        .map(|f| f.file.deletion_vector().unwrap().split_once('@').unwrap().0.to_owned())
        .collect();
    names.dedup();
    assert_eq!(names.len(), 1);
    assert_eq!(state.rows(), 3 * (20_000 - odd.len() as u64) + 3);
    assert_eq!(numbers(&log, &state).await.len() as u64, state.rows());
}

#[tokio::test]
async fn no_row_and_rows_that_are_not_there_cannot_be_deleted() {
    let store = Store::in_memory();
    let (log, state) = table(&store).await;
    let state = append(&log, &state, 0..10).await.state;
    for deleted in [Sip::empty(), Sip::from_sorted_ids(&[10])] {
        let change = Change { deletions: vec![(0, deleted)], ..Change::default() };
        log.commit(&state, &change).await.unwrap_err();
    }
    let both =
        Change { remove: vec![0], deletions: vec![(0, Sip::from_sorted_ids(&[1]))], ..Change::default() };
    log.commit(&state, &both).await.unwrap_err();
    assert_eq!(log.load().await.unwrap().version(), 1);
}

#[tokio::test]
async fn a_vector_is_found_by_an_absolute_path_in_the_folder_of_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap().join("a store");
    let store = Store::open(root.to_str().unwrap()).unwrap();
    let (log, state) = table(&store).await;
    let state = append(&log, &state, 0..20_000).await.state;
    let odd: Vec<u64> = (0..20_000).filter(|i| i * i % 5 == 1).collect();
    let deletions = vec![(0, Sip::from_sorted_ids(&odd))];
    let state = commit(&log, &state, &Change { deletions, ..Change::default() }).await.state;
    let rows = numbers(&log, &state).await;

    // Another writer has the same vector under another name, and says it by its absolute path.
    let table = root.join("tables/t");
    let entry = |version: u64| table.join(format!("_delta_log/{version:020}.json"));
    let text = fs::read_to_string(entry(state.version())).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut add = lines.find(|line| line["add"].is_object()).unwrap()["add"].clone();
    let old = add["deletionVector"].clone();
    let is_vector = |name: &str| name.starts_with("deletion_vector_");
    let mut names = fs::read_dir(&table).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let name = names.find(|name| is_vector(name)).unwrap();
    fs::create_dir(table.join("50%")).unwrap();
    fs::rename(table.join(name), table.join("50%/v.bin")).unwrap();
    let uri = format!("file:{}/50%25/v.bin", table.display().to_string().replace(' ', "%20"));
    add["deletionVector"]["storageType"] = json!("p");
    add["deletionVector"]["pathOrInlineDv"] = json!(uri);
    let remove = json!({"remove": {"path": add["path"], "dataChange": true, "deletionVector": old}});
    fs::write(entry(state.version() + 1), format!("{remove}\n{}\n", json!({ "add": add }))).unwrap();

    let state = log.load().await.unwrap();
    assert_eq!(numbers(&log, &state).await, rows);
    let file = &state.fragments().first().unwrap().file;
    assert_eq!(log.verify(&state, file).await.unwrap().damage, []);
    // A vacuum knows that it is needed.
    log.vacuum(&state).await.unwrap();
    assert_eq!(numbers(&log, &state).await, rows);
}
