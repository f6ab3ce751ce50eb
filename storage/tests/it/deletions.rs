//! Deletion vectors, in the log and in files.

use std::{fs, sync::Arc};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, cast::AsArray as _};
use basalt_core::limits::FRAGMENT_ROWS;
use basalt_sip::Sip;
use basalt_storage::{Alteration, Change, Operation, Store, TableState};
use parquet::arrow::ArrowWriter;
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

/// Whoever tells a column to have no nulls has found none in rows that are not deleted; the file has what it had.
#[tokio::test]
async fn nulls_of_deleted_rows_are_none_of_their_column() {
    // The texts of every third row are null.
    let nulls: Vec<u64> = (0..100_000).step_by(3).collect();
    for (deleted, wrong) in [(&nulls[..], None), (&nulls[..nulls.len() - 1], Some("row 34463"))] {
        let store = Store::in_memory();
        let (log, state) = table(&store).await;
        let state = append(&log, &state, 0..100_000).await.state;
        let change = Change {
            operation: Operation::Delete,
            deletions: vec![(0, Sip::from_sorted_ids(deleted))],
            ..Change::default()
        };
        let state = commit(&log, &state, &change).await.state;
        let full = Alteration::SetNullable("text".to_owned(), false);
        let change = Change { operation: Operation::Alter, alterations: vec![full], ..Change::default() };
        let state = commit(&log, &state, &change).await.state;
        let mut reader = log.read(&state, state.fragment(0).unwrap(), &[1]).await.unwrap();
        let mut row = 0;
        let error = loop {
            match reader.next().await {
                Ok(Some(batch)) => {
                    for text in batch.column(0).as_string::<i32>() {
                        let expected = if row % 3 == 0 { String::new() } else { format!("text {row}") };
                        assert_eq!(text, Some(&*expected));
                        row += 1;
                    }
                }
                Ok(None) => break None,
                Err(error) => break Some(error.to_string()),
            }
        };
        match (error, wrong) {
            (None, None) => assert_eq!(row, 100_000),
            (Some(error), Some(wrong)) => assert!(error.contains(wrong), "{error}"),
            (error, wrong) => panic!("{error:?}, not {wrong:?}"),
        }
        let file = &state.fragment(0).unwrap().file;
        assert_eq!(log.verify(&state, file).await.unwrap().damage, []);
    }
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

/// A file that another writer has appended, of more rows than a fragment has.
#[tokio::test]
async fn rows_of_a_file_of_several_fragments_are_deleted() {
    const FIRST: i64 = FRAGMENT_ROWS as i64;
    const ROWS: i64 = FIRST + 1000;
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let (log, state) = table(&store).await;
    let place = folder.path().join("tables/t");
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
    let path = place.join("theirs.parquet");
    let mut writer = ArrowWriter::try_new(fs::File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let add = json!({"add": {
        "path": "theirs.parquet", "partitionValues": {}, "size": fs::metadata(&path).unwrap().len(),
        "modificationTime": 0, "dataChange": true, "stats": json!({"numRecords": ROWS}).to_string()
    }});
    let entry = |version: u64| place.join(format!("_delta_log/{version:020}.json"));
    fs::write(entry(1), add.to_string()).unwrap();
    let state = log.refresh(&state).await.unwrap();
    let mut parts: Vec<_> = state.fragments().iter().map(|f| (f.first_row, f.id)).collect();
    parts.sort_unstable();
    let (one, two) = (parts[0].1, parts[1].1);
    assert_eq!((parts.len(), parts[1].0), (2, FRAGMENT_ROWS as u64));

    let deleted = async |state: &TableState| {
        let mut deleted = Vec::new();
        for id in [one, two] {
            let rows = log.deleted_rows(state.fragment(id).unwrap()).await.unwrap();
            deleted.push(rows.map_or(0, |rows| rows.cardinality()));
        }
        deleted
    };
    let of = |id: u32, rows: Sip| Change {
        operation: Operation::Delete,
        deletions: vec![(id, rows)],
        ..Change::default()
    };
    let state = commit(&log, &state, &of(one, Sip::from_sorted_ids(&[1, 5]))).await.state;
    assert_eq!(deleted(&state).await, [2, 0]);
    let state = commit(&log, &state, &of(two, Sip::from_sorted_ids(&[0, 999]))).await.state;
    assert_eq!(deleted(&state).await, [2, 2]);
    let gone = [1, 5, FIRST, FIRST + 999];
    let expected: Vec<i64> = (0..ROWS).filter(|n| !gone.contains(n)).collect();
    let mut found = numbers(&log, &log.load().await.unwrap()).await;
    found.sort_unstable();
    assert!(found == expected);
    // One of them goes whole, and the other keeps what it has.
    let change = Change { remove: vec![one], ..Change::default() };
    let state = commit(&log, &state, &change).await.state;
    assert_eq!(deleted(&state).await, [FRAGMENT_ROWS as u64, 2]);
    let left = commit(&log, &state, &of(two, Sip::from_ranges([0..=997, 999..=999]))).await.state;
    assert_eq!((left.rows(), left.fragments().len()), (1, 2));
    // What has no row left is no file of the table.
    let left = commit(&log, &left, &of(two, Sip::from_ranges([0..=999]))).await.state;
    assert_eq!((left.rows(), left.fragments().len()), (0, 0));
    // Both go at once, as with TRUNCATE.
    let version = left.version() + 1;
    fs::write(entry(version), add.to_string()).unwrap();
    let state = log.refresh(&left).await.unwrap();
    assert_eq!(state.rows(), ROWS as u64);
    let change = Change { remove: vec![two, one], ..Change::default() };
    let state = commit(&log, &state, &change).await.state;
    assert_eq!((state.rows(), log.load().await.unwrap().fragments().len()), (0, 0));
    let text = fs::read_to_string(entry(version + 1)).unwrap();
    assert_eq!((text.matches("\"remove\"").count(), text.matches("\"add\"").count()), (1, 0));
}
