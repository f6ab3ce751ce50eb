use std::{fs, path::Path, time::Duration};

use arrow_array::{
    ArrayRef, Date32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
    TimestampNanosecondArray,
};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use clap::Parser;
use parquet::arrow::ArrowWriter;
use tempfile::TempDir;

use super::*;
use crate::cli::output::CsvWriter;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    load: LoadArgs,
}

pub(super) fn args(line: &[&str]) -> LoadArgs {
    Cli::try_parse_from(["load"].iter().chain(line)).unwrap_or_else(|e| panic!("{e}")).load
}

/// What a load would send: the schema's text, the rows as CSV, and the bad rows left out.
#[derive(Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) schema: String,
    pub(super) rows: String,
    pub(super) bad: Vec<String>,
    /// What the user is told.
    pub(super) notes: Vec<String>,
}

/// Plans and reads `files` of `folder`, into a table of `existing` columns if there are any.
pub(super) fn read(
    folder: &Path,
    options: &[&str],
    files: &[&str],
    existing: Option<&str>,
) -> Result<Outcome, String> {
    let paths: Vec<_> = files.iter().map(|f| folder.join(f).display().to_string()).collect();
    let mut line = vec!["t"];
    line.extend(options);
    line.extend(paths.iter().map(String::as_str));
    let args = args(&line);
    let relative = |e: CliError| e.report().replace(&format!("{}/", folder.display()), "");

    let schema = |text: &str| Arc::new(schema_text::parse(text).unwrap());
    let given = existing.map(schema).or(args.schema.as_deref().map(schema));
    let (files, _) = inputs::open_all(&args).map_err(relative)?;
    let options = Options::new(&args);
    let job = source::plan(files, given, existing.is_some(), options, args.skip_bad, &|_| Ok(()))
        .map_err(relative)?;

    let (sender, mut receiver) = mpsc::channel(1000);
    let told = job.read(&sender).map_err(relative)?;
    drop(sender);
    let mut out = Vec::new();
    let mut writer = CsvWriter::new(&mut out, &job.schema).unwrap();
    let mut bytes_done = 0;
    while let Ok(read) = receiver.try_recv() {
        writer.write(&read.batch).unwrap();
        assert!(read.bytes_done >= bytes_done);
        bytes_done = read.bytes_done;
    }
    let fields = job.schema.fields().iter().map(|f| {
        let not_null = if f.is_nullable() { "" } else { " not null" };
        format!("{} {}{not_null}", f.name(), crate::type_name(f.data_type()))
    });
    let schema = fields.collect::<Vec<_>>().join(", ");
    let folder = format!("{}/", folder.display());
    let bad = told.bad.into_iter().map(|b| b.replace(&folder, "")).collect();
    let mut notes: Vec<_> = job.notes.iter().map(|note| note.replace(&folder, "")).collect();
    notes.extend(job.left_out.iter().map(|(name, why)| format!("{name} left out: {why}")));
    notes.extend(told.passed_over.iter().map(|name| format!("{name} passed over")));
    notes.extend(told.cut.iter().map(|(name, times)| format!("{name} cut: {times}")));
    Ok(Outcome { schema, rows: String::from_utf8(out).unwrap(), bad, notes })
}

pub(super) fn read_csv(
    options: &[&str],
    text: impl AsRef<[u8]>,
    existing: Option<&str>,
) -> Result<Outcome, String> {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("f.csv"), text).unwrap();
    read(folder.path(), options, &["f.csv"], existing)
}

#[track_caller]
pub(super) fn check(options: &[&str], text: &str, schema: &str, rows: &str) {
    let outcome = read_csv(options, text, None).unwrap_or_else(|e| panic!("{text:?}: {e}"));
    assert_eq!((outcome.schema.as_str(), outcome.rows.as_str()), (schema, rows), "{text:?}");
}

#[track_caller]
pub(super) fn check_error(options: &[&str], text: &str, expected: &str) {
    assert_eq!(read_csv(options, text, None).map(|o| o.rows), Err(expected.to_owned()), "{text:?}");
}

#[test]
fn csv_files() {
    check(&[], "a,b\n1,x\n2,\n", "a int32 not null, b utf8", "a,b\n1,x\n2,\n");
    check(
        &[],
        "a,b\r\n1,NA\r\n\\N,\"q \"\"x\"\", y\"\r\n",
        "a int32, b utf8 not null",
        "a,b\n1,NA\n,\"q \"\"x\"\", y\"\n",
    );
    check(&[], "\u{feff}a\n0.5\n2", "a float64 not null", "a\n0.5\n2.0\n");
    check(
        &[],
        "d,t\n2013-07-04,2013-07-04 10:00:00\n",
        "d date32 not null, t timestamp not null",
        "d,t\n2013-07-04,2013-07-04T10:00:00Z\n",
    );
    check(
        &[],
        "two words,2nd,\n1,2,3\n",
        "two words int32 not null, 2nd int32 not null, column3 int32 not null",
        "two words,2nd,column3\n1,2,3\n",
    );
    check(&["--delimiter", ";"], "a;b\n1;2,5\n", "a int32 not null, b utf8 not null", "a,b\n1,\"2,5\"\n");
    check(&["--null", "-,?"], "a,b\n1,NA\n-,?\n", "a int32, b utf8", "a,b\n1,NA\n,\n");
    check(
        &["--no-header"],
        "1,x\n2,y\n",
        "column1 int32 not null, column2 utf8 not null",
        "column1,column2\n1,x\n2,y\n",
    );
    check(
        &["--no-header", "--schema", "a int8 not null, b utf8"],
        "1,x\n2,\n",
        "a int8 not null, b utf8",
        "a,b\n1,x\n2,\n",
    );
    check(
        &["--schema", "b uint8, a decimal(5,2)"],
        "a,b\n1.5,255\n-0.25,NULL\n",
        "b uint8, a decimal(5,2)",
        "b,a\n255,1.50\n,-0.25\n",
    );
    check(
        &["--schema", "a bool, b float32"],
        "a,b\nT,NaN\n0,1e3\n",
        "a bool, b float32",
        "a,b\ntrue,NaN\nfalse,1000.0\n",
    );
    check(&[], "a,b\n", "a utf8, b utf8", "a,b\n");
}

#[test]
fn bad_rows_are_located() {
    let schema = ["--schema", "a int32 not null, b decimal(4,2), c utf8 not null"];
    check_error(&schema, "a,b,c\n1,2,x\nabc,x,y\n", "f.csv:3:a: \"abc\" is not an int32");
    check_error(&schema, "a,b,c\n1,2,\"x\ny\"\n1,2.345,z\n", "f.csv:4:b: \"2.345\" is not a decimal(4,2)");
    check_error(
        &schema,
        "a,b,c\n,2,x\n",
        "f.csv:2:a: \"\" stands for null, and the column is not nullable (ALTER TABLE ... ALTER COLUMN ... DROP NOT NULL lets it be)",
    );
    check_error(
        &schema,
        "a,b,c\n1,2,NULL\n",
        "f.csv:2:c: \"NULL\" stands for null, and the column is not nullable (ALTER TABLE ... ALTER COLUMN ... DROP NOT NULL lets it be)",
    );
    check_error(&schema, "a,b,c\n1,2,x\n1,2\n", "f.csv:3: 2 fields, not 3");
    check_error(&[], "a,b\n1,2\n1,2,3\n", "f.csv:3: 3 fields, not 2");
    check_error(&["--schema", "a int8"], "a\n128\n", "f.csv:2:a: \"128\" is not an int8");
    check_error(&["--schema", "a uint8"], "a\n-1\n", "f.csv:2:a: \"-1\" is not a uint8");
    check_error(
        &["--schema", "a date32"],
        "a\n2013-02-30\n",
        "f.csv:2:a: \"2013-02-30\" is not a date32 like 2013-07-04",
    );
    let long = "x".repeat(1000);
    check_error(
        &["--schema", "a bool"],
        &format!("a\n{long}\n"),
        &format!("f.csv:2:a: \"{}…\" is not a bool", "x".repeat(40)),
    );
}

#[test]
fn what_quotes_leave_open_is_an_error() {
    let open = "the quote that opens here is not closed before the file ends";
    check_error(&[], "a,b\n1,\"abc\n2,def\n", &format!("f.csv:2:b: {open}"));
    let behind = |text| {
        format!(
            "{text:?} stands behind the quote that closes the field; a quote inside quotes is written twice"
        )
    };
    check_error(&[], "a,b\n1,2\n\"x\"y,3\n", &format!("f.csv:3:a: {}", behind("y")));
    check_error(&[], "a,b\n1,2,\"x\"y\n", &format!("f.csv:2: column 3: {}", behind("y")));
    check_error(&[], "a,\"b\"c\n1,2\n", &format!("f.csv:1: column 2: {}", behind("c")));
    check_error(&["--no-header"], "1,\"x", &format!("f.csv:1: column 2: {open}"));
    check_error(&["--schema", "a int32, b utf8"], "a,b\n1,\"x\n", &format!("f.csv:2:b: {open}"));
    // No row could be left out: nobody knows where the next one starts.
    check_error(&["--skip-bad", "9"], "a,b\n1,2\n3,\"x\n", &format!("f.csv:3:b: {open}"));
    check_error(&["--delimiter", ";"], "a;b\n1;\"x\",2\n", &format!("f.csv:2:b: {}", behind(",2")));
    check(&[], "a\n5\" pipe\n\"6\"\"\"", "a utf8 not null", "a\n\"5\"\" pipe\"\n\"6\"\"\"\n");
}

#[test]
fn lines_are_counted_as_they_end() {
    let schema = ["--schema", "a int32, b int32"];
    let bad = |line| format!("f.csv:{line}:b: \"x\" is not an int32");
    check_error(&schema, "a,b\r\n1,2\r\n3,x\r\n", &bad(3));
    check_error(&schema, "a,b\n1,2\n\n\n3,x\n", &bad(5));
    check_error(&schema, "\r\na,b\r1,2\r\r\r3,x\r", &bad(6));
    // A line without a character is a row where rows have one field.
    check(&[], "a\n1\n\n2\n", "a int32", "a\n1\n\n2\n");
    check(&[], "a,b\n\n1,2\n\n", "a int32 not null, b int32 not null", "a,b\n1,2\n");
}

#[test]
fn dates_are_of_the_calendar() {
    let schema = ["--schema", "d date32, t timestamp"];
    let date = |text: &str| format!("f.csv:3:d: {text:?} is not a date32 like 2013-07-04");
    let time = |text: &str| format!("f.csv:3:t: {text:?} is not a timestamp like 2013-07-04T10:00:00Z");
    for bad in ["infinity", "-infinity", "+12345-01-01", "0000-12-31", "12345-01-01"] {
        check_error(&schema, &format!("d,t\n,\n{bad},\n"), &date(bad));
        let bad = format!("{bad}T00:00:00Z");
        check_error(&schema, &format!("d,t\n,\n,{bad}\n"), &time(&bad));
    }
    let edges = "d,t\n0001-01-01,0001-01-01T00:00:00Z\n9999-12-31,9999-12-31T23:59:59.999999Z\n";
    check(&schema, edges, "d date32, t timestamp", edges);

    let (folder, null) = (TempDir::new().unwrap(), Some(0));
    let name = |file: &str| folder.path().join(file);
    let columns: [(&str, ArrayRef, &str); 4] = [
        ("d", Arc::new(Date32Array::from(vec![null, None, Some(i32::MAX)])), "+5881580-07-11"),
        ("d", Arc::new(Date32Array::from(vec![null, None, Some(-719_163)])), "0000-12-31"),
        (
            "t",
            Arc::new(TimestampMicrosecondArray::from(vec![null.map(i64::from), None, Some(i64::MAX)])),
            "+294247-01-10T04:00:54.775807Z",
        ),
        (
            "t",
            Arc::new(TimestampMicrosecondArray::from(vec![None, None, Some(-i64::MAX)]).with_timezone("UTC")),
            "-290308-12-21T19:59:05.224193Z",
        ),
    ];
    for (column, array, text) in columns {
        let batch = RecordBatch::try_from_iter([(column, array)]).unwrap();
        let mut parquet =
            ArrowWriter::try_new(fs::File::create(name("f.parquet")).unwrap(), batch.schema(), None).unwrap();
        parquet.write(&batch).unwrap();
        parquet.close().unwrap();
        let mut arrow =
            FileWriter::try_new(fs::File::create(name("f.arrow")).unwrap(), batch.schema_ref()).unwrap();
        arrow.write(&batch).unwrap();
        arrow.finish().unwrap();
        for file in ["f.parquet", "f.arrow"] {
            let error = read(folder.path(), &[], &[file], None).unwrap_err();
            let why = format!("{text} is not within 0001-01-01 to 9999-12-31");
            assert_eq!(error, format!("{file}: row 3: column {column:?}: {why}"));
        }
    }
}

#[test]
fn texts_must_be_utf8() {
    let read = |options: &[&str], text: &[u8]| read_csv(options, text, None).map(|o| o.rows);
    let bad = |text: &str| Err(text.to_owned());
    assert_eq!(read(&[], b"a,caf\xe9\n1,2\n"), bad("f.csv:1: column 2: \"caf\u{fffd}\" is not UTF-8"));
    assert_eq!(read(&[], b"a,b\n1,x\n2,\xe9\n"), bad("f.csv:3:b: \"\u{fffd}\" is not UTF-8"));
    // Each is half of a character, which they are together.
    assert_eq!(read(&[], b"a,b\n\xc3,\xa9\n"), bad("f.csv:2:a: \"\u{fffd}\" is not UTF-8"));
    let no_header = read(&["--no-header"], b"1,\xe9\n");
    assert_eq!(no_header, bad("f.csv:1:column2: \"\u{fffd}\" is not UTF-8"));
}

#[test]
fn columns_must_agree() {
    check_error(&[], "", "f.csv: it is empty: not even a header");
    check(
        &[],
        "a,a,\n1,2,3\n",
        "a int32 not null, a_2 int32 not null, column3 int32 not null",
        "a,a_2,column3\n1,2,3\n",
    );
    check_error(&["--schema", "a int32"], "a,b\n1,2\n", "f.csv: column \"b\" is not one of a");
    check_error(&["--schema", "a int32, b int32"], "a\n1\n", "f.csv: column \"b\" is missing");
    check_error(&["--no-header", "--schema", "a int32"], "1,2\n", "f.csv: 2 columns, not 1");

    // A table's columns may be missing, and are null then.
    let outcome = read_csv(&[], "c,a\nx,1\n", Some("a int8 not null, b int32, c utf8")).unwrap();
    assert_eq!((outcome.schema.as_str(), outcome.rows.as_str()), ("a int8 not null, c utf8", "a,c\n1,x\n"));
    let error = read_csv(&[], "z\n1\n", Some("a int8")).unwrap_err();
    assert_eq!(error, "f.csv: column \"z\" is not one of a");
}

#[test]
fn some_bad_rows_may_be_left_out() {
    let options = |n| ["--schema", "a int32, b int32", "--skip-bad", n];
    let text = "a,b\n1,1\nx,1\n2,y\n3\n4,4\nz,z\n";
    let outcome = read_csv(&options("4"), text, None).unwrap();
    assert_eq!(outcome.rows, "a,b\n1,1\n4,4\n");
    let mut bad = outcome.bad.clone();
    bad.sort();
    assert_eq!(
        bad,
        [
            "f.csv:3:a: \"x\" is not an int32",
            "f.csv:4:b: \"y\" is not an int32",
            "f.csv:5: 1 fields, not 2",
            "f.csv:7:a: \"z\" is not an int32",
        ]
    );
    let error = read_csv(&options("3"), text, None).unwrap_err();
    assert_eq!(error, "more than 3 bad rows; the next is f.csv:7:a: \"z\" is not an int32");
    let outcome = read_csv(&["--skip-bad", "1"], "a,b\n1,2\n3\n", None).unwrap();
    assert_eq!((outcome.rows.as_str(), outcome.bad.len()), ("a,b\n1,2\n", 1));
}

#[test]
fn many_rows_come_in_several_batches() {
    let rows: String = (0..200_000).map(|i| format!("{i},{}\n", if i % 7 == 0 { "" } else { "x" })).collect();
    let outcome = read_csv(&[], format!("a,b\n{rows}"), None).unwrap();
    assert_eq!(outcome.rows, format!("a,b\n{rows}"));
    assert_eq!(outcome.schema, "a int32 not null, b utf8");
}

#[test]
fn what_comes_far_behind_has_its_place() {
    let row = |i: usize| match i {
        100_000 => "1\n".to_owned(),
        140_000 => "x,2.5\n".to_owned(),
        _ => format!("{i},{i}\n"),
    };
    let text = format!("a,b\n{}", (0..150_000).map(row).collect::<String>());
    let bad = "f.csv:100002: 1 fields, not 2";
    let outcome = read_csv(&["--skip-bad", "1"], &text, None).unwrap();
    assert_eq!(outcome.schema, "a utf8 not null, b float64 not null");
    let note = "column \"a\" is text, for \"x\" in row 140001 of f.csv; the 139,999 values before are int32";
    assert_eq!((outcome.notes, outcome.bad), (vec![note.to_owned()], vec![bad.to_owned()]));
    assert_eq!(outcome.rows.lines().count(), 150_000);
    check_error(&[], &text, bad);
    // A bad row is told before what cannot be read behind it.
    check_error(&[], "a,b\n1\n2,\"x\n", "f.csv:2: 1 fields, not 2");
    check_error(&["--schema", "a utf8, b utf8"], "a,b\n1\n2,\"x\n", "f.csv:2: 1 fields, not 2");
}

#[test]
fn rows_are_counted_in_their_file() {
    let folder = TempDir::new().unwrap();
    let numbers: String = (0..150).map(|i| format!("{i}\n")).collect();
    for (ending, header, last) in [("csv", "a\n", "7\nx\n"), ("json", "", "{\"a\":7}\n{\"a\":\"x\"}\n")] {
        let first = match ending {
            "csv" => numbers.clone(),
            _ => numbers.lines().map(|number| format!("{{\"a\":{number}}}\n")).collect(),
        };
        let names = ["1", "2"].map(|name| format!("{name}.{ending}"));
        fs::write(folder.path().join(&names[0]), format!("{header}{first}")).unwrap();
        fs::write(folder.path().join(&names[1]), format!("{header}{last}")).unwrap();
        let outcome = read(folder.path(), &[], &[names[0].as_str(), names[1].as_str()], None).unwrap();
        let note = format!("in row 2 of {}; the 151 values before are int32", names[1]);
        assert!(outcome.notes.iter().any(|told| told.ends_with(&note)), "{:?}", outcome.notes);
    }
}

#[test]
fn several_files_are_one_table() {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("1.csv", "a,b\n1,x\n");
    write("2.csv", "b,a\n,2.5\n");
    write("3.csv", "a\n1\n");
    write("4.tsv", "a\tb\n7\ty\n");
    write("5.txt", "a,b\n");
    let outcome = read(folder.path(), &[], &["1.csv", "2.csv", "4.tsv"], None).unwrap();
    assert_eq!(outcome.schema, "a float64 not null, b utf8");
    assert_eq!(outcome.rows, "a,b\n1.0,x\n2.5,\n7.0,y\n");
    let error = |files: &[&str]| read(folder.path(), &[], files, None).unwrap_err();
    assert_eq!(error(&["1.csv", "3.csv"]), "3.csv: its columns are not a, b");
    assert_eq!(
        error(&["5.txt"]),
        "5.txt: the extension names no format; use --format csv, json, parquet or arrow"
    );
    assert!(error(&["none.csv"]).starts_with("none.csv: No such file"));
    assert_eq!(error(&["none"]), "none: there is no such file or folder");
}

#[test]
fn files_that_lack_columns_of_a_table_lose_none_of_the_others() {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("ab.csv", "a,b\n1,x\n");
    write("abc.csv", "c,a,b\n5,2,y\n");
    write("c.json", "{\"a\":3,\"c\":6}\n");
    let (table, nullable) = (Some("a int8, b utf8, c int32, d utf8"), "a int8, b utf8, c int32");
    let load = |files: &[&str]| read(folder.path(), &[], files, table).unwrap();
    let outcome = load(&["ab.csv", "abc.csv"]);
    assert_eq!((outcome.schema.as_str(), outcome.rows.as_str()), (nullable, "a,b,c\n1,x,\n2,y,5\n"));
    assert_eq!(outcome.notes, ["column \"c\" is null where files lack it: 1 of 2"]);
    assert_eq!(load(&["abc.csv", "ab.csv"]).rows, "a,b,c\n2,y,5\n1,x,\n");
    assert!(load(&["abc.csv", "abc.csv"]).notes.is_empty());
    // A row of JSON has what it has.
    assert_eq!(load(&["ab.csv", "c.json"]).rows, "a,b,c,d\n1,x,,\n3,,6,\n");

    let column = |name, values| (name, Arc::new(Int64Array::from(vec![values])) as ArrayRef);
    let files = [("ab.parquet", vec![column("a", 7)]), ("abc.parquet", vec![column("c", 9), column("a", 8)])];
    for (name, columns) in files {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let file = fs::File::create(folder.path().join(name)).unwrap();
        let mut parquet = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        parquet.write(&batch).unwrap();
        parquet.close().unwrap();
    }
    assert_eq!(load(&["ab.parquet", "abc.parquet"]).rows, "a,c\n7,\n8,9\n");
    assert_eq!(load(&["ab.csv", "abc.parquet"]).rows, "a,b,c\n1,x,\n8,,9\n");

    let error = |options: &[&str], files: &[&str], table| {
        read(folder.path(), options, files, Some(table)).unwrap_err()
    };
    let not_null = "a int8, b utf8, c int32 not null";
    assert_eq!(error(&[], &["abc.csv", "ab.csv"], not_null), "ab.csv: column \"c\" is missing");
    assert_eq!(error(&[], &["ab.csv", "abc.csv"], not_null), "ab.csv: column \"c\" is missing");
    // What is asked for by its name must be there.
    let columns = ["--columns", "a,c"];
    assert_eq!(error(&columns, &["ab.csv"], nullable), "ab.csv: column \"c\" is missing");
    assert_eq!(error(&columns, &["abc.csv", "ab.csv"], nullable), "ab.csv: column \"c\" is missing");
    assert_eq!(error(&columns, &["ab.parquet"], nullable), "ab.parquet: column \"c\" is missing");
    let outcome = read(folder.path(), &columns, &["abc.csv"], Some(nullable)).unwrap();
    assert_eq!(outcome.rows, "a,c\n2,5\n");
}

fn some_rows() -> RecordBatch {
    let times = TimestampNanosecondArray::from(vec![Some(0), None, Some(1_000_000_000)]);
    RecordBatch::try_from_iter_with_nullable([
        ("a", Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef, false),
        ("b", Arc::new(StringArray::from(vec![Some("x"), None, Some("z")])), true),
        ("t", Arc::new(times), true),
    ])
    .unwrap()
}

#[test]
fn parquet_and_arrow_files() {
    let folder = TempDir::new().unwrap();
    let create = |name: &str| fs::File::create(folder.path().join(name)).unwrap();
    let batch = some_rows();
    let mut parquet = ArrowWriter::try_new(create("f.parquet"), batch.schema(), None).unwrap();
    parquet.write(&batch).unwrap();
    parquet.close().unwrap();
    let mut file = FileWriter::try_new(create("file.arrow"), batch.schema_ref()).unwrap();
    file.write(&batch).unwrap();
    file.finish().unwrap();
    let mut stream = StreamWriter::try_new(create("stream.arrow"), batch.schema_ref()).unwrap();
    stream.write(&batch).unwrap();
    stream.finish().unwrap();

    for name in ["f.parquet", "file.arrow", "stream.arrow"] {
        let outcome = read(folder.path(), &[], &[name], None).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(outcome.schema, "a int64 not null, b utf8, t timestamp", "{name}");
        assert_eq!(
            outcome.rows, "a,b,t\n1,x,1970-01-01T00:00:00Z\n2,,\n3,z,1970-01-01T00:00:01Z\n",
            "{name}"
        );
        let narrow = read(folder.path(), &[], &[name], Some("t timestamp, a int8, b utf8, c int32")).unwrap();
        assert_eq!(narrow.schema, "t timestamp, a int8, b utf8", "{name}");
        let error = read(folder.path(), &[], &[name], Some("a bool, b utf8, t timestamp")).unwrap_err();
        let expected = format!("{name}: column \"a\", from row 1: Cast error: ");
        assert!(error.starts_with(&expected), "{error}");
        let error =
            read(folder.path(), &[], &[name], Some("a int8, b utf8 not null, t timestamp")).unwrap_err();
        assert_eq!(error, format!("{name}: row 2: column \"b\": null, and the column is not nullable"));
    }
    let both = read(folder.path(), &[], &["f.parquet", "stream.arrow"], None).unwrap();
    assert_eq!(both.rows.lines().count(), 7);

    fs::write(folder.path().join("broken.parquet"), b"PAR1 and nothing else").unwrap();
    fs::write(folder.path().join("broken.arrow"), b"ARROW1 and nothing else").unwrap();
    for name in ["broken.parquet", "broken.arrow"] {
        let error = read(folder.path(), &[], &[name], None).unwrap_err();
        assert!(error.starts_with(&format!("{name}: ")), "{error}");
    }
}

#[test]
fn delimiters() {
    assert_eq!(delimiter(";"), Ok(b';'));
    assert_eq!(delimiter("\\t"), Ok(b'\t'));
    for bad in ["", ";;", "\"", "\n", "é"] {
        assert!(delimiter(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn null_texts_by_default() {
    check(&[], "a,b\n1,x\nNA,NA\n\\N,NULL\n", "a int32, b utf8", "a,b\n1,x\n,NA\n,\n");
    check(&["--null", "NA"], "a,b\n1,NA\nNA,NULL\n", "a int32, b utf8", "a,b\n1,\n,\"NULL\"\n");
}

#[test]
fn quotes_tell_an_empty_text_from_a_null() {
    check(&[], "a,b\n1,\"\"\n2,\n", "a int32 not null, b utf8", "a,b\n1,\"\"\n2,\n");
    check(&[], "a,b\n1,\"\"\n2,\"x\"\n", "a int32 not null, b utf8 not null", "a,b\n1,\"\"\n2,x\n");
    check(&[], "a\n\"\"\n\n\"NULL\"\nNULL\n", "a utf8", "a\n\"\"\n\n\"NULL\"\n\n");
    // Where all is quoted, a number that is not there is no text.
    check(
        &[],
        "a,b\n\"1\",\"x\"\n\"\",\"\"\n\"NA\",\"y\"\n",
        "a int32, b utf8 not null",
        "a,b\n1,x\n,\"\"\n,y\n",
    );
    let schema = ["--schema", "a int32, b utf8, c binary, d date32"];
    let text = "a,b,c,d\n\"\",\"\",\"\",\"\"\n,,,\n";
    check(&schema, text, "a int32, b utf8, c binary, d date32", "a,b,c,d\n,\"\",\"\",\n,,,\n");
    // What is said to be null is null, quoted or not.
    check(&["--null", ""], "a,b\n1,\"\"\n2,x\n", "a int32 not null, b utf8", "a,b\n1,\n2,x\n");
    check(&["--null", "-"], "a,b\n1,\"-\"\n2,\"\"\n", "a int32 not null, b utf8", "a,b\n1,\n2,\"\"\n");
    let rejected =
        read_csv(&["--schema", "a utf8 not null", "--skip-bad", "1"], "a\n\"\"\n\nx\n", None).unwrap();
    assert_eq!((rejected.rows.as_str(), rejected.bad.len()), ("a\n\"\"\nx\n", 1));
}

#[test]
fn what_is_exported_is_loaded_as_it_was() {
    let texts =
        [Some(""), None, Some("NULL"), Some("\\N"), Some("NA"), Some("a,\"b\"\n"), Some(" x "), Some("\r")];
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter((0..8).map(|n| (n % 3 != 0).then_some(n))));
    let texts: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
    let two =
        RecordBatch::try_from_iter_with_nullable([("n", numbers, true), ("t", Arc::clone(&texts), true)]);
    let one = RecordBatch::try_from_iter_with_nullable([("t", texts, true)]);
    for batch in [two.unwrap(), one.unwrap()] {
        let mut csv = Vec::new();
        CsvWriter::new(&mut csv, batch.schema_ref()).unwrap().write(&batch).unwrap();
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("f.csv");
        fs::write(&path, csv).unwrap();
        let args = args(&["t", path.to_str().unwrap()]);
        let (files, _) = inputs::open_all(&args).unwrap();
        let job =
            source::plan(files, Some(batch.schema()), false, Options::new(&args), 0, &|_| Ok(())).unwrap();
        let (sender, mut receiver) = mpsc::channel(10);
        job.read(&sender).unwrap();
        assert_eq!(receiver.try_recv().unwrap().batch, batch);
    }
}

#[test]
fn the_summary_of_a_load() {
    let details = |rows| TableDetails {
        table: crate::table::Table {
            name: "t".to_owned(),
            schema: Arc::new(schema_text::parse("a int32").unwrap()),
            version: 1,
            rows,
            fragments: 1,
            bytes: 500 * rows,
            retention: None,
            deletes: None,
        },
        columns: Vec::new(),
    };
    let second = Duration::from_secs(1);
    assert_eq!(summary(&details(0), 0, None, 10, second), "t  0 rows\n");
    assert_eq!(
        summary(&details(2000), 2000, None, 4_000_000, second),
        "t  2,000 rows loaded in 1.00 s (2.00 k rows/s, 4.00 MB/s)\n   1.00 MB held, 4.00x smaller than the files\n"
    );
    // The size of a few rows says nothing.
    assert_eq!(
        summary(&details(2), 2, None, 4000, second),
        "t  2 rows loaded in 1.00 s (2.00 rows/s, 4.00 kB/s)\n   1.00 kB held\n"
    );
    assert_eq!(
        summary(&details(2), 0, None, 10, second),
        "t  0 rows loaded in 1.00 s (0.00 rows/s, 10.0 B/s)\n   1.00 kB held for 2 rows in all\n"
    );
    let replaced = summary(&details(2), 1, Some(1), 10, second);
    assert!(replaced.starts_with("t  1 row loaded, 1 row replaced, in 1.00 s ("), "{replaced}");
    assert!(
        summary(&details(2), 1, Some(0), 10, second).starts_with("t  1 row loaded, 0 rows replaced, in ")
    );
}
