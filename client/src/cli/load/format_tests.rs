//! What files hold and how they are written: nested columns, JSON, compression, folders, forms of dates.

use std::{fs, io::Write as _, path::Path, sync::Arc};

use arrow_array::{
    ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, DurationSecondArray, FixedSizeBinaryArray,
    Float64Array, Int8Array, Int32Array, Int64Array, LargeBinaryArray, ListArray, NullArray, RecordBatch,
    StringArray, Time32SecondArray, Time64NanosecondArray, TimestampNanosecondArray, UInt64Array,
    builder::{Int32Builder, ListBuilder},
};
use arrow_buffer::OffsetBuffer;
use arrow_ipc::{
    CompressionType,
    writer::{FileWriter, IpcWriteOptions, StreamWriter},
};
use arrow_schema::{DataType, Field};
use parquet::{
    arrow::ArrowWriter,
    data_type::{Int96, Int96Type},
    file::writer::SerializedFileWriter,
    schema::parser::parse_message_type,
};
use tempfile::TempDir;

use super::tests::{Outcome, check, check_error, read, read_csv};

fn write_parquet(path: &Path, batch: &RecordBatch) {
    let mut writer = ArrowWriter::try_new(fs::File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

fn write_arrow(path: &Path, batch: &RecordBatch, codec: Option<CompressionType>, stream: bool) {
    let options = IpcWriteOptions::default().try_with_compression(codec).unwrap();
    let file = fs::File::create(path).unwrap();
    if stream {
        let mut writer = StreamWriter::try_new_with_options(file, batch.schema_ref(), options).unwrap();
        writer.write(batch).unwrap();
        writer.finish().unwrap();
    } else {
        let mut writer = FileWriter::try_new_with_options(file, batch.schema_ref(), options).unwrap();
        writer.write(batch).unwrap();
        writer.finish().unwrap();
    }
}

fn read_json(options: &[&str], text: &str, existing: Option<&str>) -> Result<Outcome, String> {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("f.json"), text).unwrap();
    read(folder.path(), options, &["f.json"], existing)
}

#[track_caller]
fn check_json(text: &str, schema: &str, rows: &str) {
    let outcome = read_json(&[], text, None).unwrap_or_else(|e| panic!("{text:?}: {e}"));
    assert_eq!((outcome.schema.as_str(), outcome.rows.as_str()), (schema, rows), "{text:?}");
}

#[test]
fn json_files() {
    let rows = "a,b\n1,x\n2,\n";
    check_json("{\"a\":1,\"b\":\"x\"}\n{\"b\":null,\"a\":2}\n", "a int32 not null, b utf8", rows);
    check_json("[{\"a\": 1, \"b\": \"x\"},\n {\"a\": 2}]", "a int32 not null, b utf8", rows);
    // Keys that come later are null before.
    check_json("{\"a\":1}{\"b\":2.5}", "a int32, b float64", "a,b\n1,\n,2.5\n");
    check_json(
        "{\"a\":1}\n{\"a\":\"x\"}\n{\"a\":[1, {\"b\":2}]}\n",
        "a utf8 not null",
        "a\n1\nx\n\"[1,{\"\"b\"\":2}]\"\n",
    );
    // Strings are no numbers, and null is none of them.
    check_json("{\"a\":\"1\",\"b\":\"NA\"}", "a utf8 not null, b utf8 not null", "a,b\n1,NA\n");
    check_json(
        "{\"d\":\"2013-07-04\",\"t\":\"2013-07-04T10:00:00Z\",\"f\":true,\"s\":\"\\u00e4\\n\"}",
        "d date32 not null, t timestamp not null, f bool not null, s utf8 not null",
        "d,t,f,s\n2013-07-04,2013-07-04T10:00:00Z,true,\"ä\n\"\n",
    );
    check_json(
        "{\"\":1,\"x.y\":2,\"a b\":3}",
        "_ int32 not null, x.y int32 not null, a b int32 not null",
        "_,x.y,a b\n1,2,3\n",
    );

    let error = |text: &str| read_json(&[], text, None).unwrap_err();
    assert_eq!(error("{\"a\":1}\n{\"a\":1,\"a\":2}\n"), "f.json:2:13: key \"a\" stands twice");
    assert_eq!(error("{\"a\":1}\n{\"a\": x}\n"), "f.json:2:7: expected value");
    assert_eq!(error("{\"a\":1}\n[]"), "f.json:2:1: \"[]\" stands where an object should");
    assert_eq!(error("[{\"a\":1}"), "f.json:1:9: the file ends before its array does");
    assert_eq!(error(""), "the files have no columns that a table could have");
    let given = |text: &str, schema| read_json(&[], text, Some(schema)).map(|o| o.rows);
    assert_eq!(given("{\"b\":1}", "a int8, b int16"), Ok("a,b\n,1\n".to_owned()));
    assert_eq!(given("{\"c\":1}", "a int8"), Err("f.json:1:4: key \"c\" is no column".to_owned()));
    assert_eq!(given("{}\n{\"a\":300}", "a int8"), Err("f.json:2:a: \"300\" is not an int8".to_owned()));
    assert_eq!(
        given("{}", "a int8 not null"),
        Err("f.json:1:a: null, and the column is not nullable".to_owned())
    );
    let outcome = read_json(&["--skip-bad", "2"], "{\"a\":1}\n{\"a\":}\n{\"a\":2}\n", None).unwrap();
    assert_eq!((outcome.rows.as_str(), outcome.bad.len()), ("a\n1\n2\n", 1));
}

#[test]
fn nested_columns_are_json_text() {
    let folder = TempDir::new().unwrap();
    let mut lists = ListBuilder::new(Int32Builder::new());
    lists.append_value([Some(1), None]);
    lists.append_null();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("a b", Arc::new(Int32Array::from(vec![1, 2]))),
        ("x.y", Arc::new(lists.finish())),
        ("n", Arc::new(NullArray::new(2))),
        ("t", Arc::new(TimestampNanosecondArray::from(vec![1_500, -1]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    write_parquet(&folder.path().join("f.parquet"), &batch);
    write_arrow(&folder.path().join("f.arrow"), &batch, None, false);
    for file in ["f.parquet", "f.arrow"] {
        let outcome = read(folder.path(), &[], &[file], None).unwrap();
        assert_eq!(outcome.schema, "a b int32 not null, x.y utf8, n utf8, t timestamp not null", "{file}");
        let rows =
            "a b,x.y,n,t\n1,\"[1,null]\",,1970-01-01T00:00:00.000001Z\n2,,,1969-12-31T23:59:59.999999Z\n";
        assert_eq!(outcome.rows, rows, "{file}");
        assert_eq!(outcome.notes, ["t cut: 2"], "{file}");
    }
}

#[test]
fn columns_are_left_out_with_a_list() {
    let folder = TempDir::new().unwrap();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("a", Arc::new(Int64Array::from(vec![1]))),
        ("b", Arc::new(DurationSecondArray::from(vec![1]))),
        ("c", Arc::new(StringArray::from(vec!["x"]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    write_arrow(&folder.path().join("f.arrow"), &batch, None, true);
    let read_with = |options: &[&str]| read(folder.path(), options, &["f.arrow"], None);
    assert_eq!(
        read_with(&[]).unwrap_err(),
        "f.arrow: columns that cannot be loaded: \"b\" (no table holds Duration(s)); --skip-unsupported leaves them \
         out, --columns names others"
    );
    let outcome = read_with(&["--skip-unsupported"]).unwrap();
    assert_eq!(
        (outcome.schema.as_str(), outcome.rows.as_str()),
        ("a int64 not null, c utf8 not null", "a,c\n1,x\n")
    );
    assert_eq!(outcome.notes, ["b left out: no table holds Duration(s)"]);
    let outcome = read_with(&["--columns", "c,a"]).unwrap();
    assert_eq!(
        (outcome.schema.as_str(), outcome.rows.as_str()),
        ("c utf8 not null, a int64 not null", "c,a\nx,1\n")
    );
    assert_eq!(outcome.notes, ["b left out: not one of --columns"]);
    assert_eq!(read_with(&["--columns", "z"]).unwrap_err(), "--columns: no column is named \"z\"");

    let outcome = read_csv(&["--columns", "b"], "a,b\nx,1\n", None).unwrap();
    assert_eq!((outcome.schema.as_str(), outcome.rows.as_str()), ("b int32 not null", "b\n1\n"));
    assert_eq!(outcome.notes, ["a left out: not one of --columns"]);
    let outcome = read_csv(&["--columns", "b"], "a,b\nx,1\n", Some("b int8, c utf8")).unwrap();
    assert_eq!(outcome.notes, ["a left out: not one of --columns"]);
    assert_eq!(outcome.rows, "b\n1\n");
    let outcome = read_json(&["--columns", "b"], "{\"a\":1,\"b\":2}", Some("b int8, c utf8")).unwrap();
    assert_eq!((outcome.rows.as_str(), outcome.notes), ("b\n2\n", vec!["a passed over".to_owned()]));
    let outcome = read_csv(&["--no-header", "--columns", "column2"], "x,1\n", None).unwrap();
    assert_eq!(outcome.rows, "column2\n1\n");
}

#[test]
fn compressed_files() {
    let folder = TempDir::new().unwrap();
    let text = "a,b\n1,x\n2,y\n";
    let gzip = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    // Two members, one behind the other.
    let (start, end) = text.split_at(5);
    fs::write(folder.path().join("1.csv.gz"), [gzip(start), gzip(end)].concat()).unwrap();
    fs::write(folder.path().join("2.csv.zst"), zstd::encode_all(text.as_bytes(), 3).unwrap()).unwrap();
    fs::write(folder.path().join("3.json.gz"), gzip("{\"a\":1,\"b\":\"x\"}{\"a\":2,\"b\":\"y\"}")).unwrap();
    fs::write(folder.path().join("4.csv.gz"), &gzip(text)[..20]).unwrap();
    fs::write(folder.path().join("5.parquet.gz"), gzip(text)).unwrap();
    for file in ["1.csv.gz", "2.csv.zst", "3.json.gz"] {
        let outcome = read(folder.path(), &[], &[file], None).unwrap();
        assert_eq!(outcome.rows, text, "{file}");
        assert_eq!(outcome.schema, "a int32 not null, b utf8 not null", "{file}");
    }
    assert!(read(folder.path(), &[], &["4.csv.gz"], None).unwrap_err().starts_with("4.csv.gz: "));
    let error = read(folder.path(), &[], &["5.parquet.gz"], None).unwrap_err();
    assert_eq!(error, "5.parquet.gz: only CSV and JSON files may be compressed as a whole");

    let batch =
        RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from_iter_values(0..5000)) as ArrayRef)])
            .unwrap();
    for (codec, stream) in [
        (CompressionType::LZ4_FRAME, false),
        (CompressionType::LZ4_FRAME, true),
        (CompressionType::ZSTD, false),
        (CompressionType::ZSTD, true),
    ] {
        let path = folder.path().join("f.arrow");
        write_arrow(&path, &batch, Some(codec), stream);
        let outcome = read(folder.path(), &[], &["f.arrow"], None).unwrap();
        assert_eq!(outcome.rows.lines().count(), 5001);
        assert!(outcome.rows.ends_with("\n4999\n"));
        // A buffer that claims to be larger than anybody has room for.
        let mut bytes = fs::read(&path).unwrap();
        let claim = 40_000_i64.to_le_bytes();
        let at = bytes.windows(8).position(|window| window == claim).unwrap();
        bytes[at..at + 8].copy_from_slice(&(1_i64 << 60).to_le_bytes());
        fs::write(&path, bytes).unwrap();
        let error = read(folder.path(), &[], &["f.arrow"], None).unwrap_err();
        assert!(error.contains("the limit is 4 GiB"), "{error}");
    }
}

#[test]
fn arrow_files_that_lie() {
    let folder = TempDir::new().unwrap();
    let batch =
        RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from_iter_values(0..50)) as ArrayRef)])
            .unwrap();
    for stream in [false, true] {
        let path = folder.path().join("f.arrow");
        write_arrow(&path, &batch, None, stream);
        let bytes = fs::read(&path).unwrap();
        for cut in 1..bytes.len() {
            fs::write(&path, &bytes[..bytes.len() - cut]).unwrap();
            // A stream may end behind a message.
            if let Ok(outcome) = read(folder.path(), &[], &["f.arrow"], None) {
                assert!(stream && (outcome.rows == "a\n" || outcome.rows.ends_with("\n49\n")), "{cut}");
            }
        }
        // A header of 2 GiB.
        let mut long = bytes.clone();
        let at = if stream { 4 } else { long.len() - 10 };
        long[at..at + 4].copy_from_slice(&i32::MAX.to_le_bytes());
        fs::write(&path, long).unwrap();
        let error = read(folder.path(), &[], &["f.arrow"], None).unwrap_err();
        assert!(error.contains("longer than the file"), "{error}");
    }
}

#[test]
fn folders_and_patterns() {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("d/2.csv", "a\n2\n");
    write("d/1.csv", "a\n1\n");
    write("d/sub/3.json", "{\"a\":3}");
    write("d/_SUCCESS", "");
    write("d/.hidden.csv", "b\n1\n");
    write("d/README", "");
    write("empty/x.txt", "");
    write("parts/year=2024/1.csv", "a\n1\n");
    write("table/_delta_log/0.json", "{}");
    let rows = |files: &[&str], options: &[&str]| read(folder.path(), options, files, None).map(|o| o.rows);
    assert_eq!(rows(&["d"], &[]).as_deref(), Ok("a\n1\n2\n3\n"));
    assert_eq!(rows(&["d"], &["--format", "csv"]).as_deref(), Ok("a\n1\n2\n"));
    assert_eq!(rows(&["d/*.csv"], &[]).as_deref(), Ok("a\n1\n2\n"));
    assert_eq!(rows(&["d/**/*.json"], &[]).as_deref(), Ok("a\n3\n"));
    assert_eq!(rows(&["d/*.tsv"], &[]).unwrap_err(), "d/*.tsv: no file has a name like that");
    assert_eq!(
        rows(&["empty"], &[]).unwrap_err(),
        "empty: the folder has no CSV, JSON, Parquet or Arrow files"
    );
    assert!(rows(&["parts"], &[]).unwrap_err().starts_with("parts: \"year=2024\" is the value of a column"));
    assert!(rows(&["table"], &[]).unwrap_err().starts_with("table: it is a Delta table"));
}

#[test]
fn delimiters_are_found_and_said() {
    let outcome = read_csv(&[], "a;b\n1;2,5\n", None).unwrap();
    assert_eq!(outcome.rows, "a,b\n1,\"2,5\"\n");
    assert_eq!(outcome.notes, ["f.csv: ';' separates the fields (--delimiter says otherwise)"]);
    assert!(read_csv(&[], "a,b\n1,2\n", None).unwrap().notes.is_empty());
    let of_na = "column \"b\" is text, and \"NA\" stands in it 2 times (--null '' --null NA makes it null)";
    assert_eq!(read_csv(&[], "a,b\n1,NA\nNA,NA\n3,x\n", None).unwrap().notes, [of_na]);
    assert!(read_csv(&["--null", "NA"], "a,b\n1,NA\nNA,NA\n3,x\n", None).unwrap().notes.is_empty());
    check(&["--delimiter", ","], "a;b\n1;2\n", "a;b utf8 not null", "a;b\n1;2\n");
}

#[test]
fn types_widen_from_file_to_file() {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, array: ArrayRef| {
        write_parquet(&folder.path().join(name), &RecordBatch::try_from_iter([("a", array)]).unwrap());
    };
    write("1.parquet", Arc::new(Int32Array::from(vec![1])));
    write("2.parquet", Arc::new(Int64Array::from(vec![1 << 40])));
    write("3.parquet", Arc::new(Float64Array::from(vec![0.5])));
    write("4.parquet", Arc::new(StringArray::from(vec!["x"])));
    write("5.parquet", Arc::new(Int64Array::from(vec![(1 << 53) + 1])));
    write("6.parquet", Arc::new(UInt64Array::from(vec![u64::MAX])));
    fs::write(folder.path().join("7.csv"), "a\n2.5\n").unwrap();
    let load = |files: &[&str]| read(folder.path(), &[], files, None);
    let outcome = load(&["1.parquet", "2.parquet", "3.parquet"]).unwrap();
    assert_eq!(
        (outcome.schema.as_str(), outcome.rows.as_str()),
        ("a float64 not null", "a\n1.0\n1099511627776.0\n0.5\n")
    );
    let outcome = load(&["1.parquet", "7.csv"]).unwrap();
    assert_eq!((outcome.schema.as_str(), outcome.rows.as_str()), ("a float64 not null", "a\n1.0\n2.5\n"));
    let outcome = load(&["2.parquet", "4.parquet"]).unwrap();
    assert_eq!(
        (outcome.schema.as_str(), outcome.rows.as_str()),
        ("a utf8 not null", "a\n1099511627776\nx\n")
    );
    assert_eq!(outcome.notes, ["column \"a\" is text: in 4.parquet it is utf8, before it was int64"]);
    let outcome = load(&["2.parquet", "6.parquet"]).unwrap();
    assert_eq!(outcome.schema, "a decimal(20,0) not null");
    assert_eq!(outcome.rows, "a\n1099511627776\n18446744073709551615\n");
    let error = load(&["3.parquet", "5.parquet"]).unwrap_err();
    assert!(error.contains("an integer that no float64 is equal to"), "{error}");
}

#[test]
fn dates_in_other_forms() {
    check(
        &["--date-format", "%d.%m.%Y", "--date-format", "%d.%m.%Y %H:%M"],
        "d,t\n04.07.2013,04.07.2013 10:30\n31.12.1999,\n",
        "d date32 not null, t timestamp",
        "d,t\n2013-07-04,2013-07-04T10:30:00Z\n1999-12-31,\n",
    );
    let schema = ["--date-format", "%m/%d/%Y", "--schema", "d date32"];
    check_error(
        &schema,
        "d\n13/01/2013\n",
        "f.csv:2:d: \"13/01/2013\" is not a date32 as --date-format says",
    );
    // A form of digits alone comes before numbers, where every value has it.
    let rows = "k,d,t\n20240230,20240229,20240229235959\n20240101,20231231,\n";
    check(
        &["--date-format", "%Y%m%d", "--date-format", "%Y%m%d%H%M%S"],
        rows,
        "k int32 not null, d date32 not null, t timestamp",
        "k,d,t\n20240230,2024-02-29,2024-02-29T23:59:59Z\n20240101,2023-12-31,\n",
    );
    check(&[], rows, "k int32 not null, d int32 not null, t int64", rows);
    let outcome = read_csv(&["--date-format", "%s"], "k,at\n1,1700000000\n", None).unwrap();
    assert_eq!(outcome.schema, "k int32 not null, at int32 not null");
    assert_eq!(
        outcome.notes,
        [
            "no column is found to have dates or timestamps as --date-format says (--schema says which one has)"
        ]
    );
    let schema = ["--date-format", "%s", "--schema", "k int32, at timestamp"];
    check(&schema, "k,at\n1,1700000000\n", "k int32, at timestamp", "k,at\n1,2023-11-14T22:13:20Z\n");
    let outcome = read_csv(&[], "t\n2013-07-04T10:00:00.123456789Z\n2013-07-04 10:00:00\n", None).unwrap();
    assert_eq!(outcome.rows, "t\n2013-07-04T10:00:00.123456Z\n2013-07-04T10:00:00Z\n");
    assert_eq!(outcome.notes, ["t cut: 1"]);
}

#[test]
fn wide_decimals_bytes_and_times() {
    check(
        &["--schema", "d decimal(38,10), b binary, t time"],
        "d,b,t\n-1234567890123456789012345678.0000000001,\\x00ff,23:59:59.999999\n,,\n7,,10:30\n",
        "d decimal(38,10), b binary, t time",
        "d,b,t\n-1234567890123456789012345678.0000000001,00ff,23:59:59.999999\n,,\n7.0000000000,,10:30:00\n",
    );
    check_error(
        &["--schema", "b binary"],
        "b\n0\n",
        "f.csv:2:b: \"0\" is not a binary like 00ff, two hexadecimal digits for each byte",
    );
    check(
        &[],
        "a,t\n100000000000000000000,10:30:00\n",
        "a decimal(38,0) not null, t time not null",
        "a,t\n100000000000000000000,10:30:00\n",
    );

    let folder = TempDir::new().unwrap();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("b", Arc::new(LargeBinaryArray::from(vec![b"\0\xff".as_slice(), b""]))),
        ("u", Arc::new(FixedSizeBinaryArray::try_from_iter([b"ab", b"cd"].into_iter()).unwrap())),
        ("s", Arc::new(Time32SecondArray::from(vec![1, 86_399]))),
        ("n", Arc::new(Time64NanosecondArray::from(vec![1_001, 0]))),
        (
            "d",
            Arc::new(
                Decimal128Array::from(vec![10_i128.pow(37), -1]).with_precision_and_scale(38, 4).unwrap(),
            ),
        ),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    write_parquet(&folder.path().join("f.parquet"), &batch);
    let outcome = read(folder.path(), &[], &["f.parquet"], None).unwrap();
    assert_eq!(
        outcome.schema,
        "b binary not null, u binary not null, s time not null, n time not null, d decimal(38,4) not null"
    );
    assert_eq!(
        outcome.rows,
        "b,u,s,n,d\n00ff,6162,00:00:01,00:00:00.000001,1000000000000000000000000000000000.0000\n\"\",6364,23:59:59,00:00:00,-0.0001\n"
    );
    assert_eq!(outcome.notes, ["n cut: 1"]);
    let texts =
        read(folder.path(), &[], &["f.parquet"], Some("b utf8, u utf8, s utf8, n utf8, d utf8")).unwrap();
    assert!(texts.rows.contains("00ff,6162,00:00:01,"), "{}", texts.rows);
}

#[test]
fn floats_that_are_not_finite() {
    check(&[], "a,b\n1,NaN\nNaN,x\n-inf,\n", "a float64 not null, b utf8", "a,b\n1.0,NaN\nNaN,x\n-inf,\n");
    check(&["--schema", "a float32"], "a\nInfinity\nnan\n", "a float32", "a\ninf\nNaN\n");
}

#[test]
fn parquet_times_of_96_bits() {
    let folder = TempDir::new().unwrap();
    let of_days = |days: &[i32]| {
        let schema = Arc::new(parse_message_type("message m { required int96 t; }").unwrap());
        let file = fs::File::create(folder.path().join("f.parquet")).unwrap();
        let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let times = days.iter().map(|day| {
            let mut time = Int96::new();
            time.set_data(1_000_000_000, 0, (day + 2_440_588).cast_unsigned());
            time
        });
        let times: Vec<_> = times.collect();
        column.typed::<Int96Type>().write_batch(&times, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        read(folder.path(), &[], &["f.parquet"], None)
    };
    let outcome = of_days(&[-135_140, 120_530, 2_932_896]).unwrap();
    assert_eq!(outcome.schema, "t timestamp not null");
    assert_eq!(outcome.rows, "t\n1600-01-01T00:00:01Z\n2300-01-01T00:00:01Z\n9999-12-31T00:00:01Z\n");
    let error = of_days(&[0, 2_932_897]).unwrap_err();
    assert!(error.contains("row 2: column \"t\"") && error.contains("is not within 0001-01-01"), "{error}");
    let error = of_days(&[0, 213_503_982]).unwrap_err();
    assert!(error.contains("a time of 96 bits that no timestamp of 64 bits is"), "{error}");
}

/// What pandas writes of categories: keys of 8 bits, and each part of a file has categories of its own.
#[test]
fn dictionaries_in_parquet_are_their_values() {
    let folder = TempDir::new().unwrap();
    let part = |part: i32| {
        let keys = || Int8Array::from_iter_values((0..100).chain(0..100));
        let texts = StringArray::from_iter_values((0..100).map(|i| format!("c{part}-{i}")));
        let numbers = Int64Array::from_iter_values((0..100).map(|i| i64::from(part) * 100 + i));
        let flags = BooleanArray::from_iter((0..100).map(|i| Some(i % 2 == 0)));
        let decimals = Decimal128Array::from_iter_values((0..100).map(|i| i128::from(part * 100 + i)));
        let decimals = decimals.with_precision_and_scale(5, 1).unwrap();
        let of = |values: ArrayRef| Arc::new(DictionaryArray::new(keys(), values)) as ArrayRef;
        let lists = {
            let field = Arc::new(Field::new_list_field(
                DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Boolean)),
                true,
            ));
            let lengths = OffsetBuffer::from_lengths([1; 200]);
            Arc::new(ListArray::new(field, lengths, of(Arc::new(flags.clone())), None)) as ArrayRef
        };
        RecordBatch::try_from_iter([
            ("s", of(Arc::new(texts))),
            ("i", of(Arc::new(numbers))),
            ("b", of(Arc::new(flags))),
            ("d", of(Arc::new(decimals))),
            ("l", lists),
        ])
        .unwrap()
    };
    let file = fs::File::create(folder.path().join("f.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, part(0).schema(), None).unwrap();
    for i in 0..4 {
        writer.write(&part(i)).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
    let read = read(folder.path(), &[], &["f.parquet"], None).unwrap();
    assert_eq!(
        read.schema,
        "s utf8 not null, i int64 not null, b bool not null, d decimal(5,1) not null, l utf8 not null"
    );
    let rows: Vec<&str> = read.rows.lines().collect();
    assert_eq!(rows.len(), 801);
    assert_eq!(rows[1], "c0-0,0,true,0.0,[true]");
    assert_eq!(rows[800], "c3-99,399,false,39.9,[false]");
}
