//! Bits of files that turn: every one of them is an error, or changes no answer.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use basalt_core::schema::{DataType, Field, Schema};
use basalt_sip::Sip;
use basalt_storage::{Change, StorageError, Store, TableLog, TableState};

use crate::support::{append, commit, numbers, shown, table};

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

#[tokio::test(flavor = "multi_thread")]
async fn a_bit_of_a_checkpoint_that_turns_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let (log, mut state) = table(&store).await;
    for i in 0..3 {
        state = append(&log, &state, [i]).await.state;
    }
    log.checkpoint(&state).await.unwrap();
    let expected = numbers(&log, &state).await;
    let logs = folder.path().join("tables/t/_delta_log");
    for version in 0..=state.version() {
        fs::remove_file(logs.join(format!("{version:020}.json"))).unwrap();
    }
    let path = logs.join(format!("{:020}.checkpoint.parquet", state.version()));
    let good = fs::read(&path).unwrap();
    let (mut errors, mut flips) = (0, 0);
    // Seven is odd: every place in a byte is met.
    for bit in (0..good.len() * 8).step_by(7) {
        flips += 1;
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &bad).unwrap();
        match log.load().await {
            Ok(found) => assert_eq!(shown(&found), shown(&state), "bit {bit}"),
            Err(_) => errors += 1,
        }
    }
    assert!(errors > flips * 9 / 10, "{errors} errors of {flips}");
    fs::write(&path, &good).unwrap();
    assert_eq!(numbers(&log, &log.load().await.unwrap()).await, expected);
}

/// An entry of a log that does not say what stands in it, as another writer leaves it.
fn unsealed(entry: &str) -> String {
    entry.replacen("\"basalt\":{", "\"another\":{", 1)
}

/// The same table without digests in its log, as another writer or an older Basalt writes it.
fn without_digests(table: &Path) {
    for version in files(&table.join("_delta_log")) {
        let text = fs::read_to_string(&version).unwrap();
        fs::write(&version, unsealed(&text.replace("basalt.xxh3", "another.tag"))).unwrap();
    }
}

#[tokio::test]
async fn files_without_digests_are_read_and_stay_as_they_were_first_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let (log, state) = table(&store).await;
    append(&log, &state, 0..5000).await;
    let place = folder.path().join("tables/t");
    without_digests(&place);
    let log = TableLog::new(log.store().clone());
    let state = log.load().await.unwrap();
    assert_eq!(numbers(&log, &state).await, (0..5000).collect::<Vec<_>>());
    answer(&log, &state, &[1]).await.unwrap();

    let path =
        files(&place).into_iter().find(|path| path.extension().is_some_and(|e| e == "parquet")).unwrap();
    let good = fs::read(&path).unwrap();
    for at in [100, good.len() / 2, good.len() - 30] {
        let mut bad = good.clone();
        bad[at] ^= 4;
        fs::write(&path, &bad).unwrap();
        let error = answer(&log, &state, &[0, 1]).await.unwrap_err().to_string();
        assert!(error.contains("read before"), "byte {at}: {error}");
    }
    // Who has not read it knows of its pages' checksums alone.
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 4;
    fs::write(&path, &bad).unwrap();
    let fresh = TableLog::new(log.store().clone());
    let error = answer(&fresh, &state, &[0, 1]).await.unwrap_err().to_string();
    assert!(error.contains("CRC"), "{error}");
    let found = fresh.verify(&state, &state.fragments().first().unwrap().file).await.unwrap();
    assert_eq!(found.damage.len(), 1, "{found:?}");
    fs::write(&path, &good).unwrap();
    answer(&log, &state, &[0, 1]).await.unwrap();
}

#[tokio::test]
async fn a_file_without_digests_that_another_takes_the_place_of_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut tables = Vec::new();
    for n in [1, 2] {
        let store = Store::open(folder.path().join(n.to_string()).to_str().unwrap()).unwrap();
        let (log, state) = table(&store).await;
        append(&log, &state, [n]).await;
        let place = folder.path().join(format!("{n}/tables/t"));
        without_digests(&place);
        let log = TableLog::new(log.store().clone());
        let state = log.load().await.unwrap();
        assert_eq!(numbers(&log, &state).await, [n]);
        tables.push((log, state, files(&place).pop().unwrap()));
    }
    let [(log, state, file), (_, _, other)] = tables.try_into().unwrap();
    let other = fs::read(other).unwrap();
    assert_eq!(fs::read(&file).unwrap().len(), other.len());
    fs::write(&file, other).unwrap();
    let error = answer(&log, &state, &[0]).await.unwrap_err().to_string();
    assert!(error.contains("read before"), "{error}");
    assert_eq!(numbers(&TableLog::new(log.store().clone()), &state).await, [2], "nobody else can know");
}

#[tokio::test]
async fn a_scrub_names_what_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let (log, state) = table(&store).await;
    let state = append(&log, &state, (0..ROWS.cast_signed()).map(|i| i % 4)).await.state;
    let scattered: Vec<u64> = (0..ROWS).filter(|i| i % 2 == 1).collect();
    let deletions = vec![(0, Sip::from_sorted_ids(&scattered))];
    let state = commit(&log, &state, &Change { deletions, ..Change::default() }).await.state;
    let file = state.files_after("").next().unwrap().clone();
    let verify = async || log.verify(&state, &file).await.unwrap();
    let fine = verify().await;
    assert!(fine.damage.is_empty() && fine.bytes > 1000, "{fine:?}");
    let (mut columns, mut found) = (std::collections::BTreeSet::new(), 0);
    for path in files(&folder.path().join("tables/t")) {
        let good = fs::read(&path).unwrap();
        // Every byte is one of a piece, so that a scrub misses none.
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            fs::write(&path, &bad).unwrap();
            let damage = verify().await.damage;
            assert!(!damage.is_empty(), "byte {at} of {}", path.display());
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(damage.iter().all(|damage| damage.path.contains(name)), "{damage:?}");
            columns.extend(damage.into_iter().map(|damage| damage.column));
            found += 1;
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(verify().await.damage.len(), 1);
        fs::write(&path, &good).unwrap();
    }
    assert!(found > 1500, "{found}");
    let named = [None, Some("n".to_owned()), Some("text".to_owned())];
    assert_eq!(columns.into_iter().collect::<Vec<_>>(), named);
    assert_eq!(verify().await, fine);
}

#[tokio::test]
async fn digests_that_lie_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let (log, state) = table(&store).await;
    append(&log, &state, [1, 2, 3]).await;
    let version = folder.path().join("tables/t/_delta_log/00000000000000000001.json");
    let text = fs::read_to_string(&version).unwrap();
    let start = text.find(r#""basalt.xxh3":""#).unwrap() + r#""basalt.xxh3":""#.len();
    // A footer, what is around the columns, and two of these.
    let tag = &text[start..start + 40];
    assert_eq!(&text[start + 40..=start + 40], "\"");
    for (wrong, why) in [
        (String::new(), "none of this part"),
        (tag[..30].to_owned(), "of another number"),
        (tag.repeat(2), "of another number"),
        (tag.repeat(100_000), "of another number"),
        (format!("~~~~~~~~~~{}", &tag[10..]), "its footer"),
        (format!("{}~~~~~~~~~~{}", &tag[..20], &tag[30..]), "column \"n\""),
        (format!("{}ééééé{}", &tag[..20], &tag[30..]), "column \"n\""),
    ] {
        let log_then = unsealed(&text.replace(tag, &wrong));
        fs::write(&version, log_then).unwrap();
        let log = TableLog::new(log.store().clone());
        let state = log.load().await.unwrap();
        let error = answer(&log, &state, &[0]).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn the_digests_of_a_wide_file_have_a_limit() {
    let fields = (0..1024).map(|i| Field::new(format!("c{i}"), DataType::Int64, true)).collect();
    let schema = Arc::new(Schema::new(fields).unwrap());
    let rows = Arc::new(Int64Array::from(vec![1])) as ArrayRef;
    let columns = vec![rows; 1024];
    let batch = RecordBatch::try_new(schema.to_arrow(), columns).unwrap();
    let store = Store::in_memory();
    let (log, state) = TableLog::create(store, "t", &schema, BTreeMap::new()).await.unwrap();
    let file = log.write_data(&schema, vec![batch]).await.unwrap();
    let state = commit(&log, &state, &Change { add: vec![file], ..Change::default() }).await.state;
    let found = log.verify(&state, state.files_after("").next().unwrap()).await.unwrap();
    assert!(found.damage.is_empty(), "{found:?}");
    assert_eq!(answer(&log, &state, &[1023]).await.unwrap()[0].0.len(), 1);
}
