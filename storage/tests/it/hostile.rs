//! Files of a store that are not what they should be: typed errors, never a panic, never rows that are not there.

use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::Path, sync::Arc};

use arrow_array::{
    Array as _, ArrayRef, Int64Array, ListArray, RecordBatch, cast::AsArray as _, types::Int64Type,
};
use basalt_sip::Sip;
use basalt_storage::{Change, StorageError, Store, TableLog};
use parquet::arrow::ArrowWriter;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use crate::support::{append, commit, schema, shown, table};

const PROTOCOL: &str = r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}"#;

fn metadata(configuration: &str) -> String {
    let schema = r#"{\"type\":\"struct\",\"fields\":[{\"name\":\"n\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}}]}"#;
    format!(
        r#"{{"metaData":{{"id":"x","format":{{"provider":"parquet","options":{{}}}},"schemaString":"{schema}","partitionColumns":[],"configuration":{{{configuration}}}}}}}"#
    )
}

fn add(path: &str, rest: &str) -> String {
    format!(
        r#"{{"add":{{"path":"{path}","partitionValues":{{}},"size":9,"modificationTime":0,"dataChange":true{rest}}}}}"#
    )
}

/// A column's metadata with a reference to no column.
const REFERENCE: &str = r#"\"metadata\":{\"basalt.references\":\"planes\"}"#;

fn txn(id: &str, version: i64) -> String {
    format!(r#"{{"txn":{{"appId":"{id}","version":{version}}}}}"#)
}

/// What loading a table of these commits says.
async fn load(commits: &[String]) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("_delta_log");
    fs::create_dir(&log).unwrap();
    for (i, commit) in commits.iter().enumerate() {
        fs::write(log.join(format!("{i:020}.json")), commit).unwrap();
    }
    let store = Store::open_existing(folder.path().to_str().unwrap()).unwrap();
    let log = TableLog::new(store);
    let state = log.load().await.map_err(|e| e.to_string())?;
    for fragment in state.fragments().iter() {
        log.deleted_rows(fragment).await.map_err(|e| e.to_string())?;
        log.read(&state, fragment, &[0]).await.map_err(|e| e.to_string())?;
    }
    Ok(())
}

#[tokio::test]
async fn logs_that_lie_are_refused_with_a_reason() {
    let first = format!("{PROTOCOL}\n{}\n", metadata(""));
    load(std::slice::from_ref(&first)).await.unwrap();
    let rows = |n: &str| format!(r#","stats":"{{\"numRecords\":{n}}}""#);
    let vector = |kind: &str, place: &str, size: u32, n: u64| {
        let vector = format!(
            r#"{{"storageType":"{kind}","pathOrInlineDv":"{place}","sizeInBytes":{size},"cardinality":{n}}}"#
        );
        format!(r#"{},"deletionVector":{vector}"#, rows("5"))
    };
    let tag = |id: &str| format!(r#"{},"tags":{{"basalt.fragment":"{id}"}}"#, rows("5"));
    let example = "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L";
    let kept = |column: &str, seconds: &str| {
        let seconds = format!(r#""basalt.retention.seconds":"{seconds}""#);
        metadata(&format!(r#""basalt.retention.column":"{column}",{seconds}"#))
    };
    for (commit, reason) in [
        ("garbage".to_owned(), "line 1 is no action"),
        ("{\"add\":7}".into(), "line 1 is no action"),
        ("{\"add\":{\"path\":\"a\"}}".into(), "missing field"),
        (r#"{"protocol":{"minReaderVersion":4,"minWriterVersion":7}}"#.into(), "reader version 4"),
        (
            r#"{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["variantType"]}}"#
                .into(),
            "variantType",
        ),
        (metadata(r#""delta.columnMapping.mode":"other""#), "columnMapping in mode other"),
        (metadata("").replace("parquet", "orc"), "orc"),
        (metadata("").replace("long", "variant"), "variant"),
        (metadata("").replace("long", "decimal(39,2)"), "decimal(39,2)"),
        (metadata("").replace("struct", "stru"), "no struct"),
        (kept("n", "60"), "not a timestamp"),
        (kept("gone", "60"), "no column"),
        (kept("n", "soon"), "number of seconds"),
        (add("a", &rows("-1")), "statistics"),
        (add("a", r#","stats":"{""#), "statistics"),
        (add("a", &rows("18446744073709551615")), "number of fragments"),
        (add("a", &rows("5")), "file is missing"),
        (add("../../etc/passwd", &rows("5")), "_delta_log: it names the data file \"../../etc/passwd\""),
        (add("%2e%2e/x", &rows("5")), "no place below the table"),
        (add("..//Users/x.parquet", &rows("5")), "no place below the table"),
        (add("", &rows("5")), "no place below the table"),
        (add("/etc/passwd", &rows("5")), "outside of the table"),
        (add("file:///etc/passwd", &rows("5")), "outside of the table"),
        (add("s3://bucket/x", &rows("5")), "outside of the table"),
        (add("%ff", &rows("5")), "utf-8"),
        (add("_delta_log/00000000000000000000.json", &rows("5")), "in the log 9"),
        ([add("a", &rows("5")), add("a", &rows("5"))].join("\n"), "twice"),
        ([add("a", &tag("3")), add("b", &tag("3"))].join("\n"), "fragment 3"),
        (add("a", &tag("3x")), "tag basalt.fragment"),
        (txn("basalt.nextFragment", -1), "version of basalt.nextFragment"),
        (txn("basalt.nextFragment", 1 << 40), "version of basalt.nextFragment"),
        (txn("basalt.request:1:x:id", 7), "the id of no write"),
        (metadata("").replace("\\\"metadata\\\":{}", REFERENCE), "not a column of a table"),
        (add("a", &vector("i", example, 40, 6)), "6 deleted"),
        (add("a", &vector("i", example, 41, 5)), "Z85"),
        (add("a", &vector("i", "wi5b~", 4, 5)), "Z85"),
        (add("a", &vector("i", "", 0, 5)), "deletion vector"),
        (add("a", &vector("i", example, 40, 5)), "6"),
        (add("a", &vector("u", "short", 40, 5)), "UUID"),
        (add("a", &vector("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 5)), "file is missing"),
        (
            add("a", &vector("u", "../^-aqEH.-t@S}K{vb[*k^", 40, 5)),
            "names the deletion vector \"..//deletion",
        ),
        (add("a", &vector("u", "ab^-aqEH.-t@S}K{vb[*k^", i32::MAX.unsigned_abs(), 5)), "limit"),
        (add("a", &vector("u", "ab^-aqEH.-t@S}K{vb[*k^", u32::MAX, 5)), "larger than the protocol has it"),
        (add("a", &vector("i", example, 40, u64::MAX)), "larger than the protocol has it"),
        (add("a", &rows("5")).replace(":9,", ":9223372036854775808,"), "larger than the protocol has it"),
        (add("a", &vector("p", "/etc/passwd", 40, 5)), "outside of the table (/etc/passwd)"),
        (add("a", &vector("p", "file:///etc/passwd", 40, 5)), "outside of the table"),
        (add("a", &vector("x", "", 40, 5)), "\"x\""),
    ] {
        let error = load(&[first.clone(), commit.clone()]).await.expect_err(&commit);
        assert!(error.contains(reason), "{commit}\n{error}");
    }
    // What the log itself lacks is told before what it names is looked for.
    for more in [String::new(), add("a", "")] {
        let without = async |line: &str| load(&[format!("{line}\n{more}")]).await;
        assert!(without(PROTOCOL).await.unwrap_err().contains("no metadata"));
        assert!(without(&metadata("")).await.unwrap_err().contains("no protocol"));
    }
    // What no reader has to know is passed over.
    let unknown =
        format!("{first}\n\n{{\"txn\":null,\"cdc\":{{}},\"domainMetadata\":{{\"domain\":\"x\"}}}}\n");
    load(&[unknown]).await.unwrap();
}

#[tokio::test]
async fn only_metadata_that_is_in_force_needs_a_schema() {
    let whole = metadata("");
    let (start, rest) = whole.split_once(r#""schemaString":""#).unwrap();
    let (_, rest) = rest.split_once(r#"","partitionColumns""#).unwrap();
    let bare = format!(r#"{start}"partitionColumns"{rest}"#);
    let first = |metadata: &str| format!("{PROTOCOL}\n{metadata}\n");
    load(&[first(&bare), whole.clone()]).await.unwrap();
    for commits in [vec![first(&bare)], vec![first(&whole), bare.clone() + "\n" + &add("a", "")]] {
        let error = load(&commits).await.unwrap_err();
        assert!(error.contains("metadata of the log has no schemaString"), "{error}");
    }
}

#[tokio::test]
async fn a_log_with_a_hole_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let (log, mut state) = table(&store).await;
    for i in 0..4 {
        state = append(&log, &state, [i]).await.state;
    }
    fs::remove_file(folder.path().join("tables/t/_delta_log/00000000000000000002.json")).unwrap();
    let error = log.load().await.unwrap_err();
    assert!(
        matches!(&error, StorageError::Corrupt { why, .. } if why.contains("version 2 is missing")),
        "{error}"
    );
}

/// Loads the table and reads everything of it.
async fn read_all(log: &TableLog) -> Result<u64, StorageError> {
    let state = log.load().await?;
    let mut rows = 0;
    for fragment in state.fragments().iter() {
        log.deleted_rows(fragment).await?;
        let mut reader = log.read(&state, fragment, &[0, 1]).await?;
        while let Some(batch) = reader.next().await? {
            rows += batch.num_rows() as u64;
        }
    }
    Ok(rows)
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[tokio::test]
async fn bytes_that_change_never_panic_and_never_change_the_number_of_rows() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let (log, mut state) = table(&store).await;
    state = append(&log, &state, 0..12_000).await.state;
    let scattered: Vec<u64> = (0..12_000).filter(|i| i * i % 7 == 1).collect();
    let deletions = vec![(0, Sip::from_sorted_ids(&scattered))];
    state = commit(&log, &state, &Change { deletions, ..Change::default() }).await.state;
    log.checkpoint(&state).await.unwrap();
    append(&log, &state, [1, 2, 3]).await;
    let expected = read_all(&log).await.unwrap();

    let mut random = StdRng::seed_from_u64(7);
    for path in files(folder.path()) {
        let good = fs::read(&path).unwrap();
        for round in 0..48 {
            let mut bad = good.clone();
            let at = match round % 3 {
                // Near the end stands a Parquet file's footer.
                0 => good.len() - 1 - random.random_range(0..good.len().min(600)),
                _ => random.random_range(0..good.len()),
            };
            match round % 6 {
                5 => bad.truncate(at),
                4 => bad[at..(at + 4).min(good.len())].fill(0xff),
                _ => bad[at] = [0, 0x7f, 0xff, random.random()][round % 4],
            }
            fs::write(&path, &bad).unwrap();
            let found = tokio::spawn({
                let log = log.clone();
                async move { read_all(&log).await }
            });
            match found.await.expect("no panic") {
                Ok(rows) if path.to_string_lossy().contains("_delta_log") => assert!(rows <= expected * 2),
                Ok(rows) => assert_eq!(rows, expected, "{}", path.display()),
                Err(e) => assert!(!e.to_string().is_empty()),
            }
        }
        fs::write(&path, &good).unwrap();
    }
    assert_eq!(read_all(&log).await.unwrap(), expected);
    assert_eq!(*log.load().await.unwrap().schema(), schema());
}

#[tokio::test]
async fn links_do_not_lead_out_of_the_table_of_another_writer() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let first = "_delta_log/00000000000000000000.json";
    let read = async |name: &str| {
        let store = Store::open_existing(at(name).to_str().unwrap()).unwrap();
        read_all(&TableLog::new(store)).await
    };
    let store = Store::open(at("hidden").to_str().unwrap()).unwrap();
    let (log, state) = TableLog::create(store, "t", &schema(), BTreeMap::new()).await.unwrap();
    let state = append(&log, &state, [1, 2, 3]).await.state;
    let name = state.fragments().iter().next().unwrap().file.path().to_owned();
    assert_eq!(read("hidden").await.unwrap(), 3);
    // The same log, and a data file of its own.
    let copy = |to: &str| {
        fs::create_dir_all(at(to).join("_delta_log")).unwrap();
        for path in files(&at("hidden/_delta_log")) {
            fs::copy(&path, at(to).join("_delta_log").join(path.file_name().unwrap())).unwrap();
        }
        fs::create_dir_all(at(to).join(&name).parent().unwrap()).unwrap();
        fs::copy(at("hidden").join(&name), at(to).join(&name)).unwrap();
    };
    let is_refused = async |table: &str| {
        let error = read(table).await.unwrap_err();
        assert!(
            matches!(&error, StorageError::Corrupt { why, .. } if why.contains("symbolic link")),
            "{table}: {error}"
        );
    };
    copy("whole");
    assert_eq!(read("whole").await.unwrap(), 3);

    copy("file");
    fs::remove_file(at("file").join(&name)).unwrap();
    symlink(at("hidden").join(&name), at("file").join(&name)).unwrap();
    is_refused("file").await;

    copy("entry");
    fs::remove_file(at("entry").join(first)).unwrap();
    symlink(at("hidden").join(first), at("entry").join(first)).unwrap();
    is_refused("entry").await;

    copy("log");
    fs::remove_dir_all(at("log/_delta_log")).unwrap();
    symlink("../hidden/_delta_log", at("log/_delta_log")).unwrap();
    is_refused("log").await;

    // A folder above the file that the log names.
    let commit =
        [format!("{PROTOCOL}\n{}", metadata("")), add("sub/x.parquet", r#","stats":"{\"numRecords\":3}""#)];
    fs::create_dir_all(at("sub/_delta_log")).unwrap();
    fs::write(at("sub").join(first), commit.join("\n")).unwrap();
    fs::copy(at("hidden").join(&name), at("hidden/x.parquet")).unwrap();
    symlink(at("hidden"), at("sub/sub")).unwrap();
    let store = Store::open_existing(at("sub").to_str().unwrap()).unwrap();
    let log = TableLog::new(store);
    let state = log.load().await.unwrap();
    let fragment = state.fragments().iter().next().unwrap();
    let error = log.read(&state, fragment, &[0]).await.err().unwrap().to_string();
    assert!(error.contains("sub/x.parquet") && error.contains("symbolic link"), "{error}");

    // One that leads to another place of the table does no harm, nor does one that nothing names.
    copy("inside");
    fs::rename(at("inside").join(&name), at("inside/elsewhere")).unwrap();
    symlink(at("inside/elsewhere"), at("inside").join(&name)).unwrap();
    symlink("/", at("inside/_delta_log/all")).unwrap();
    assert_eq!(read("inside").await.unwrap(), 3);
    // The table as a whole may be one.
    symlink(at("whole"), at("linked")).unwrap();
    assert_eq!(read("linked").await.unwrap(), 3);
}

/// What a table needed once, and no longer does, keeps nobody from reading it who has read it before.
#[tokio::test]
async fn a_protocol_that_is_gone_again_is_no_longer_in_the_way() {
    const UNKNOWN: &str =
        r#"{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["variantType"]}}"#;
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("_delta_log");
    fs::create_dir(&place).unwrap();
    let write =
        |version: u64, text: &str| fs::write(place.join(format!("{version:020}.json")), text).unwrap();
    let open = || TableLog::new(Store::open_existing(folder.path().to_str().unwrap()).unwrap());
    write(0, &format!("{PROTOCOL}\n{}\n", metadata("")));
    let log = open();
    let before = log.load().await.unwrap();
    let refused = async || {
        let error = log.refresh(&before).await.unwrap_err();
        assert!(matches!(error, StorageError::Unsupported { .. }), "{error}");
    };
    write(1, UNKNOWN);
    refused().await;
    // What it needs no longer is told by a checkpoint, which who knows it has made.
    write(1, PROTOCOL);
    write(2, PROTOCOL);
    let who_knows = open();
    let newest = who_knows.load().await.unwrap();
    write(1, UNKNOWN);
    refused().await;
    who_knows.checkpoint(&newest).await.unwrap();
    let followed = log.refresh(&before).await.unwrap();
    assert_eq!((followed.version(), followed.id()), (2, before.id()));
    // From there on it is followed as ever.
    write(3, UNKNOWN);
    let error = log.refresh(&followed).await.unwrap_err();
    assert!(matches!(error, StorageError::Unsupported { .. }), "{error}");
}

/// A column that is nested in the table and a value in the file, or the other way round, is not one of nulls.
#[tokio::test]
async fn a_value_is_no_nested_column() {
    const LIST: &str = r#"{\"type\":\"array\",\"elementType\":\"long\",\"containsNull\":true}"#;
    let value: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1)])]));
    for (in_file, in_table) in [(false, false), (false, true), (true, false), (true, true)] {
        let folder = tempfile::tempdir().unwrap();
        let array = if in_file { &list } else { &value };
        let batch = RecordBatch::try_from_iter_with_nullable([("n", Arc::clone(array), true)]).unwrap();
        let path = folder.path().join("a");
        let mut writer =
            ArrowWriter::try_new(fs::File::create(&path).unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let size = format!(r#""size":{}"#, fs::metadata(&path).unwrap().len());
        let action = add("a", r#","stats":"{\"numRecords\":1}""#).replace(r#""size":9"#, &size);
        let mut metadata = metadata("");
        if in_table {
            metadata = metadata.replace(r#"\"long\""#, LIST);
        }
        fs::create_dir(folder.path().join("_delta_log")).unwrap();
        let commit = folder.path().join("_delta_log/00000000000000000000.json");
        fs::write(commit, [PROTOCOL, &metadata, &action].join("\n")).unwrap();
        let log = TableLog::new(Store::open_existing(folder.path().to_str().unwrap()).unwrap());
        let state = log.load().await.unwrap();
        let fragment = state.fragments().iter().next().unwrap();
        let read = match log.read(&state, fragment, &[0]).await {
            Ok(mut reader) => reader.next().await,
            Err(error) => Err(error),
        };
        match read {
            Ok(rows) => {
                assert_eq!(in_file, in_table);
                assert_eq!(rows.unwrap().column(0).null_count(), 0);
            }
            Err(error) => {
                assert_ne!(in_file, in_table, "{error}");
                assert!(error.to_string().contains("column \"n\" is nested in the "), "{error}");
            }
        }
    }
}

/// A file that a log spells in two ways is one, and goes by either; what is written of it has the spelling of its writer.
#[tokio::test]
async fn a_file_that_is_spelled_in_two_ways_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("_delta_log");
    fs::create_dir(&place).unwrap();
    let entry = |version: u64| place.join(format!("{version:020}.json"));
    let write = |version: u64, lines: &[String]| fs::write(entry(version), lines.join("\n")).unwrap();
    let open = || TableLog::new(Store::open(folder.path().to_str().unwrap()).unwrap());
    let rows = |n: u64| format!(r#","stats":"{{\"numRecords\":{n}}}""#);
    let remove =
        |path: &str| format!(r#"{{"remove":{{"path":"{path}","deletionTimestamp":0,"dataChange":true}}}}"#);
    let (first, second) = (add("p=é/a", &rows(5)), add("b%20b", &rows(3)));
    write(0, &[PROTOCOL.to_owned(), metadata(""), first, second, add("c", &rows(1))]);
    let first = open().load().await.unwrap();
    assert_eq!(first.rows(), 9);
    write(1, &[remove("p=%C3%A9/a"), remove("b b"), add("p=%c3%a9/d", &rows(4))]);
    let log = open();
    for state in [log.refresh(&first).await.unwrap(), log.load().await.unwrap()] {
        assert_eq!((state.version(), state.rows()), (1, 5));
    }
    // It comes once more, with the statistics of a writer that has counted again.
    write(2, &[add("p=é/d", &rows(7))]);
    let state = log.load().await.unwrap();
    assert_eq!((state.rows(), state.fragments().len()), (8, 2));
    let state = log.checkpoint(&state).await.unwrap();
    assert_eq!(shown(&open().load().await.unwrap()), shown(&state));
    let ids = state.fragments().iter().filter(|f| f.rows == 7).map(|f| f.id).collect();
    let state = commit(&log, &state, &Change { remove: ids, ..Change::default() }).await.state;
    assert_eq!(state.rows(), 1);
    let text = fs::read_to_string(entry(3)).unwrap();
    assert!(text.contains(r#""remove":{"path":"p=é/d""#), "{text}");
}

/// A column whose name in the file differs in case alone is that of the table, unless the file has two such.
#[tokio::test]
async fn a_column_is_found_whatever_its_case_is() {
    let field = |name: &str| {
        format!(r#"{{\"name\":\"{name}\",\"type\":\"long\",\"nullable\":true,\"metadata\":{{}}}}"#)
    };
    for (names, found) in [
        (["na", "NA"], Ok(vec![Some(0), None])),
        (["x", "NA"], Ok(vec![Some(1), None])),
        (["x", "y"], Ok(vec![None, None])),
        (["Na", "NA"], Err("\"Na\" and \"NA\"")),
        // It is the other column of the table.
        (["x", "other"], Ok(vec![None, Some(1)])),
        (["nA", "Other"], Ok(vec![Some(0), Some(1)])),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let column = |value: i64| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
        let columns = names.iter().zip(0..).map(|(name, value)| (*name, column(value), true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let path = folder.path().join("a");
        let mut writer =
            ArrowWriter::try_new(fs::File::create(&path).unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let size = format!(r#""size":{}"#, fs::metadata(&path).unwrap().len());
        let action = add("a", r#","stats":"{\"numRecords\":1}""#).replace(r#""size":9"#, &size);
        let fields = [field("na"), field("other")].join(",");
        let metadata = metadata("").replace(&field("n"), &fields);
        assert!(metadata.contains("other"));
        fs::create_dir(folder.path().join("_delta_log")).unwrap();
        let commit = folder.path().join("_delta_log/00000000000000000000.json");
        fs::write(commit, [PROTOCOL, &metadata, &action].join("\n")).unwrap();
        let log = TableLog::new(Store::open_existing(folder.path().to_str().unwrap()).unwrap());
        let state = log.load().await.unwrap();
        let fragment = state.fragments().iter().next().unwrap();
        match (log.read(&state, fragment, &[0, 1]).await, found) {
            (Ok(mut reader), Ok(found)) => {
                let rows = reader.next().await.unwrap().unwrap();
                let value = |i: usize| {
                    let column: &Int64Array = rows.column(i).as_primitive();
                    column.is_valid(0).then(|| column.value(0))
                };
                assert_eq!([value(0), value(1)].to_vec(), found, "{names:?}");
            }
            (Err(error), Err(why)) => assert!(error.to_string().contains(why), "{error}"),
            (read, found) => panic!("{names:?}: {found:?}, {:?}", read.map(drop)),
        }
    }
}
