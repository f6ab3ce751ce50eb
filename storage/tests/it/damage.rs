//! Bits of files that turn: every one of them is an error, or changes no answer.

use std::{fs, path::Path};

use arrow_array::RecordBatch;
use basalt_sip::Sip;
use basalt_storage::{Change, StorageError, Store, TableLog, TableState};

use crate::support::{append, commit, table};

/// Few rows whose file is small, of which as many are deleted as need a file for the vector.
const ROWS: u64 = 1100;

/// What a reader sees of a table: some columns of every fragment, and the deleted rows.
async fn answer(
    log: &TableLog,
    state: &TableState,
    columns: &[usize],
) -> Result<Vec<(Vec<RecordBatch>, Option<Vec<u64>>)>, StorageError> {
    let mut found = Vec::new();
    for fragment in state.fragments().iter() {
        let deleted = log.deleted_rows(fragment).await?.map(|set| set.view().iter().collect());
        let mut reader = log.read(state, fragment, columns).await?;
        let mut batches = Vec::new();
        while let Some(batch) = reader.next().await? {
            batches.push(batch);
        }
        found.push((batches, deleted));
    }
    Ok(found)
}

/// The files right in a folder.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_file()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bit_that_turns_is_an_error_or_changes_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let (log, state) = table(&store).await;
    let state = append(&log, &state, (0..ROWS.cast_signed()).map(|i| i % 4)).await.state;
    let scattered: Vec<u64> = (0..ROWS).filter(|i| i % 2 == 1).collect();
    let deletions = vec![(0, Sip::from_sorted_ids(&scattered))];
    let state = commit(&log, &state, &Change { deletions, ..Change::default() }).await.state;

    let choices: [&[usize]; 3] = [&[0], &[1], &[0, 1]];
    let mut expected = Vec::new();
    for columns in choices {
        expected.push(answer(&log, &state, columns).await.unwrap());
    }
    let paths = files(&folder.path().join("tables/t"));
    assert_eq!(paths.len(), 2, "a data file and its deletion vector");
    let (mut flips, mut errors) = (0, 0);
    for path in paths {
        let good = fs::read(&path).unwrap();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &bad).unwrap();
            for (columns, expected) in choices.iter().zip(&expected) {
                flips += 1;
                match answer(&log, &state, columns).await {
                    Ok(found) => assert_eq!(found, *expected, "bit {bit} of {}", path.display()),
                    Err(StorageError::Corrupt { .. } | StorageError::Limit { .. }) => errors += 1,
                    Err(e) => panic!("bit {bit} of {}: {e}", path.display()),
                }
            }
        }
        fs::write(&path, &good).unwrap();
    }
    assert!(errors > flips / 3, "{errors} errors of {flips}");
}
