//! Rows of every format, in pieces of every size, and what is none.

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, cast::AsArray as _, types::Int64Type};
use arrow_ipc::writer::StreamWriter;
use parquet::arrow::ArrowWriter;

use basalt_core::schema::DataType;

use super::*;

fn table() -> Arc<Schema> {
    Arc::new(
        Schema::new(vec![
            Field::new("i", DataType::Int64, true),
            Field::new("t", DataType::Utf8, false),
            Field::new("d", DataType::Decimal { precision: 12, scale: 2 }, true),
            Field::new("s", DataType::Timestamp, true),
        ])
        .unwrap(),
    )
}

/// Reads a body in pieces of so many bytes; the answer is the columns and the rows.
fn read(media_type: &str, body: &[u8], piece: usize) -> Result<(Vec<String>, Vec<RecordBatch>)> {
    let mut decoder = Decoder::new(media_type, &table())?;
    let mut batches = Vec::new();
    for piece in body.chunks(piece) {
        decoder.push(piece)?;
        while let Some(batch) = decoder.next()? {
            batches.push(batch);
        }
    }
    decoder.finish()?;
    while let Some(batch) = decoder.next()? {
        batches.push(batch);
    }
    Ok((decoder.columns().unwrap().clone(), batches))
}

/// The values of a column, as texts.
fn shown(batches: &[RecordBatch], column: usize) -> Vec<String> {
    let options = arrow_cast::display::FormatOptions::default().with_null("NULL");
    let of = |batch: &RecordBatch| {
        let column = Arc::clone(batch.column(column));
        let formatter = arrow_cast::display::ArrayFormatter::try_new(&column, &options).unwrap();
        (0..batch.num_rows()).map(|row| formatter.value(row).to_string()).collect::<Vec<_>>()
    };
    batches.iter().flat_map(of).collect()
}

#[test]
fn lines_of_json_and_csv_are_rows_however_they_are_cut() {
    let json = "{\"i\": 1, \"t\": \"a\\nb\", \"d\": 1.50}\n{\"t\": \"\", \"s\": \"2013-01-01T00:00:00Z\"}\n\
                {\"i\": null, \"t\": \"ü\", \"d\": \"-0.01\"}";
    let csv = "t,i,d,s\n\"a\nb\",1,1.50,\n,,,2013-01-01T00:00:00Z\r\nü,,-0.01,\n";
    for piece in 1..json.len().max(csv.len()) {
        for (media_type, body, at) in
            [("application/jsonl", json, [0, 1, 2, 3]), ("text/csv", csv, [1, 0, 2, 3])]
        {
            let (columns, rows) = read(media_type, body.as_bytes(), piece).unwrap();
            assert_eq!(columns[at[1]], "t");
            assert_eq!(shown(&rows, at[0]), ["1", "NULL", "NULL"], "{media_type} {piece}");
            assert_eq!(shown(&rows, at[1]), ["a\nb", "", "ü"], "{media_type} {piece}");
            assert_eq!(shown(&rows, at[2]), ["1.50", "NULL", "-0.01"], "{media_type} {piece}");
            assert_eq!(shown(&rows, at[3]), ["NULL", "2013-01-01T00:00:00Z", "NULL"], "{media_type} {piece}");
        }
    }
}

#[test]
fn lists_and_objects_are_texts_of_json() {
    let json = "{\"t\": [\"a\\n\", 1.50, null], \"i\": 1}\n{\"t\": {\"k\": {\"l\": [ ]}},\n \"i\": 2}\n{\"t\": \"[1, 2]\"}";
    for piece in 1..=json.len() {
        let (_, rows) = read("application/jsonl", json.as_bytes(), piece).unwrap();
        let expected = ["[\"a\\n\",1.50,null]", "{\"k\":{\"l\":[]}}", "[1, 2]"];
        assert_eq!(shown(&rows, 1), expected, "{piece}");
        assert_eq!(shown(&rows, 0), ["1", "2", "NULL"], "{piece}");
    }
}

#[test]
fn a_first_line_may_be_cut_behind_empty_ones() {
    for start in ["", "\n", "\r\n\n", "\u{feff}\n"] {
        let csv = format!("{start}t,i,d\na,1,1.50\nb,2,\n");
        for piece in 1..csv.len() {
            let (columns, rows) = read("text/csv", csv.as_bytes(), piece).unwrap();
            assert_eq!(columns, ["t", "i", "d"], "{start:?} {piece}");
            assert_eq!(shown(&rows, 1), ["1", "2"], "{start:?} {piece}");
        }
    }
}

#[test]
fn many_rows_are_many_batches() {
    let mut json = String::new();
    let mut csv = "i,t\n".to_owned();
    for i in 0..50_000 {
        json.push_str(&format!("{{\"i\":{i},\"t\":\"row \\\"{i}\\\"\"}}\n"));
        csv.push_str(&format!("{i},\"row \"\"{i}\"\"\"\n"));
    }
    for (media_type, body) in [("application/x-ndjson", json), ("text/csv", csv)] {
        for piece in [997, 1 << 20] {
            let (_, rows) = read(media_type, body.as_bytes(), piece).unwrap();
            assert!(rows.len() > 5, "{media_type}: {}", rows.len());
            let numbers: Vec<i64> = rows
                .iter()
                .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
                .collect();
            assert_eq!(numbers, (0..50_000).collect::<Vec<_>>());
            assert_eq!(shown(&rows[1..2], 1)[0], format!("row \"{}\"", rows[0].num_rows()));
        }
    }
}

fn batch() -> RecordBatch {
    let columns: [(&str, ArrayRef); 2] = [
        ("t", Arc::new(StringArray::from(vec!["a", "b", "c"]))),
        ("i", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

#[test]
fn arrow_and_parquet_are_read_and_what_is_cut_off_is_not() {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch().schema()).unwrap();
    writer.write(&batch()).unwrap();
    writer.write(&batch()).unwrap();
    let arrow = writer.into_inner().unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch().schema(), None).unwrap();
    writer.write(&batch()).unwrap();
    let parquet = writer.into_inner().unwrap();
    for (media_type, body, rows) in
        [("application/vnd.apache.arrow.stream", arrow, 6), ("application/vnd.apache.parquet", parquet, 3)]
    {
        for piece in [1, 7, 64, 1 << 20] {
            let (columns, batches) = read(media_type, &body, piece).unwrap();
            assert_eq!(columns, ["t", "i"]);
            assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), rows, "{media_type}");
        }
        for end in 0..body.len() - 8 {
            // Where a message ends, a stream may.
            match read(media_type, &body[..end], 1 << 20) {
                Ok((_, batches)) => assert!(media_type.ends_with("stream") && batches.len() < 3),
                Err(error) => assert_eq!(error.reason(), "INVALID_BATCH", "{}", error.message()),
            }
        }
        for at in 0..body.len() {
            for byte in [0x00, 0x7f, 0xff] {
                let mut body = body.clone();
                body[at] = byte;
                // Rows or an error, and no panic.
                let _ = read(media_type, &body, 1 << 20);
            }
        }
    }
}

#[test]
fn what_is_no_value_of_its_column_is_an_error() {
    let json = |line: &str| read("application/jsonl", line.as_bytes(), 1 << 20).unwrap_err();
    for (line, words) in [
        ("{\"i\": 1.5, \"t\": \"\"}", "1.5"),
        ("{\"i\": 1e3, \"t\": \"\"}", "1e3"),
        ("{\"i\": 9223372036854775808, \"t\": \"\"}", "9223372036854775808"),
        ("{\"d\": 0.005, \"t\": \"\"}", "is no decimal(12,2)"),
        ("{\"s\": \"yesterday\", \"t\": \"\"}", "yesterday"),
        ("{\"i\": [1], \"t\": \"\"}", "row 1, column \"i\": \"[1]\" is no int64"),
        ("{\"t\": [\"a\",]}", "cannot be read"),
        ("{\"t\": [\"a\"", "ends within"),
        ("[1]", "cannot be read"),
        ("{\"t\": \"a\"", "ends within"),
    ] {
        let error = json(line);
        assert_eq!(error.reason(), "INVALID_BATCH", "{line}");
        assert!(error.message().contains(words), "{line}: {}", error.message());
    }
    let csv = |body: &str| read("text/csv", body.as_bytes(), 1 << 20).unwrap_err();
    assert_eq!(csv("i,nothing\n1,2\n").reason(), "COLUMN_NOT_FOUND");
    for body in ["", "i,t\n1\n", "i,t\n1,2,3\n", "i,t\nx,y\n", "i,t\n1,\"a\n", "i,t\n1,\u{0}\n2"] {
        assert_eq!(csv(body).reason(), "INVALID_BATCH", "{body:?}");
    }
}

/// As CAST and `basalt load` do.
#[test]
fn what_is_finer_than_a_microsecond_is_cut_towards_the_past() {
    let times = ["2020-01-01T00:00:00.1234567Z", "1969-12-31T23:59:59.9999991Z"];
    let json = times.map(|time| format!("{{\"t\":\"\",\"s\":\"{time}\"}}\n")).concat();
    let csv = format!("s,t\n{},\n{},\n", times[0], times[1]);
    for (media_type, body, column) in [("application/jsonl", json, 3), ("text/csv", csv, 0)] {
        let (_, rows) = read(media_type, body.as_bytes(), 1 << 20).unwrap();
        assert_eq!(
            shown(&rows, column),
            ["2020-01-01T00:00:00.123456Z", "1969-12-31T23:59:59.999999Z"],
            "{media_type}"
        );
    }
}

/// A quote within a value is a part of it, wherever lines end.
#[test]
fn quotes_that_begin_no_value_are_text() {
    let body = "t,i\n5\" pipe,1\n\"a\nb\",2\n\"c\"\"\nd\",3\ne\"\"f\"\n,4\n";
    for piece in 1..body.len() {
        let outcome = read("text/csv", body.as_bytes(), piece);
        // The record behind `e\"\"f\"` has one value: it is refused, in any pieces.
        assert_eq!(outcome.unwrap_err().reason(), "INVALID_BATCH", "{piece}");
    }
    let body = "t,i\n5\" pipe,1\n\"a\nb\",2\n\"c\"\"\nd\",3\n";
    for piece in 1..body.len() {
        let (_, rows) = read("text/csv", body.as_bytes(), piece).unwrap();
        assert_eq!(shown(&rows, 0), ["5\" pipe", "a\nb", "c\"\nd"], "{piece}");
    }
}

/// There are so many rows, few of which are made at once.
fn check_few_at_once(mut decoder: Decoder, rows: usize) {
    let mut taken = 0;
    while let Some(batch) = decoder.next().unwrap() {
        assert!(batch.num_rows() <= limits::HTTP_BATCH_ROWS && decoder.rows.len() <= 2);
        taken += batch.num_rows();
    }
    assert_eq!((taken, decoder.held()), (rows, 0));
    assert!(decoder.next().unwrap().is_none());
}

#[test]
fn lines_are_decoded_as_their_rows_are_asked_for() {
    let body = "{\"t\":\"\"}\n".repeat(100_000);
    let mut decoder = Decoder::new("application/jsonl", &table()).unwrap();
    decoder.push(body.as_bytes()).unwrap();
    assert_eq!((decoder.rows.len(), decoder.held()), (1, body.len() as u64));
    decoder.finish().unwrap();
    assert_eq!(decoder.rows.len(), 2);
    check_few_at_once(decoder, 100_000);
}

#[test]
fn records_are_read_as_their_rows_are_asked_for() {
    let body = format!("t\n{}", "x\n".repeat(100_000));
    let mut decoder = Decoder::new("text/csv", &table()).unwrap();
    decoder.push(body.as_bytes()).unwrap();
    assert_eq!((decoder.rows.len(), decoder.held()), (1, 200_000));
    decoder.finish().unwrap();
    assert_eq!(decoder.rows.len(), 2);
    check_few_at_once(decoder, 100_000);
}

#[test]
fn a_record_without_all_fields_is_refused_wherever_it_is_cut() {
    for csv in ["t,i\na,1\nb\nc,3\n", "t,i\na,1\nb", "t,i\n\nb\r\n"] {
        for piece in 1..=csv.len() {
            let error = read("text/csv", csv.as_bytes(), piece).unwrap_err();
            let expected = "line 3: 1 fields, not 2";
            assert_eq!((error.reason(), error.message()), ("INVALID_BATCH", expected), "{csv:?} {piece}");
        }
    }
}

#[test]
fn a_row_is_not_longer_than_rows_may_be() {
    let long = format!("{{\"t\":\"{}", "x".repeat(limits::HTTP_ROW_BYTES));
    assert_eq!(
        read("application/jsonl", long.as_bytes(), 1 << 20).unwrap_err().reason(),
        "MESSAGE_TOO_LARGE"
    );
    let lines = format!("{{\"t\":\n{}", " \n".repeat(limits::HTTP_ROW_BYTES));
    assert_eq!(
        read("application/jsonl", lines.as_bytes(), 1 << 20).unwrap_err().reason(),
        "MESSAGE_TOO_LARGE"
    );
    let csv = format!("t\n\"{}", "x\n".repeat(limits::HTTP_ROW_BYTES / 2));
    assert_eq!(read("text/csv", csv.as_bytes(), 1 << 20).unwrap_err().reason(), "MESSAGE_TOO_LARGE");
}

#[test]
fn json_nests_no_deeper_than_it_is_read() {
    let nested = |depth: usize| format!("{{\"t\": {}1{}}}\n", "[".repeat(depth), "]".repeat(depth));
    for piece in [7, 1000, 1 << 20] {
        let error = read("application/jsonl", nested(100_000).as_bytes(), piece).unwrap_err();
        assert!(error.message().contains("deeper than 128 levels"), "{error:?}");
        let (_, rows) = read("application/jsonl", nested(100).as_bytes(), piece).unwrap();
        assert_eq!(shown(&rows, 1)[0].len(), 201);
        // In a text they open nothing.
        let text = format!("{{\"t\": \"\\\"{}\"}}\n", "[{".repeat(200));
        let (_, rows) = read("application/jsonl", text.as_bytes(), piece).unwrap();
        assert_eq!(shown(&rows, 1)[0].len(), 401);
    }
}

#[test]
fn a_key_of_json_stands_once_in_a_row() {
    let once = [
        "{\"i\": 1, \"t\": \"i\"}\n{\"t\": \"\\\",\\\"i\", \"i\": 2}\n",
        "{\"t\":\"a\"}{\"t\":\"b\"}\n",
        "{\n\"i\"\n:\n1,\n\"t\" : \"t,\"}\n",
    ];
    for body in once {
        for piece in 1..body.len() {
            read("application/jsonl", body.as_bytes(), piece).unwrap();
        }
    }
    let t = "row 2, column \"t\": its key stands twice";
    for (body, expected) in [
        ("{\"t\":\"a\"}\n{\"t\":\"a\",\"t\":\"b\"}\n", t),
        ("{\"t\":\"a\"}{\"t\":\"a\", \"i\": 1 , \"t\":\"a\"}", t),
        ("{\"t\":\"a\"}\n{\"\\u0074\":\"a\",\n\"t\":null}\n", t),
        ("{\"t\":\"\",\"i\":1,\"i\":null}", "row 1, column \"i\": its key stands twice"),
    ] {
        for piece in 1..=body.len() {
            let error = read("application/jsonl", body.as_bytes(), piece).unwrap_err();
            assert_eq!((error.reason(), error.message()), ("INVALID_BATCH", expected), "{body} {piece}");
        }
    }
    // Texts of an array are no keys, and an array is no row.
    let array = "[\"t\", \"t\", \"t\"]\n";
    for piece in 1..=array.len() {
        let error = read("application/jsonl", array.as_bytes(), piece).unwrap_err();
        assert!(!error.message().contains("twice"), "{error:?}");
    }
}

#[test]
fn a_key_of_json_that_is_no_columns_is_told_with_its_row() {
    let told = |body: &str, expected: &str| {
        for piece in 1..=body.len() {
            let error = read("application/jsonl", body.as_bytes(), piece).unwrap_err();
            assert_eq!((error.reason(), error.message()), ("COLUMN_NOT_FOUND", expected), "{body} {piece}");
        }
    };
    told("{\"t\":\"a\",\"zzz\":1}\n", "row 1: the table has no column \"zzz\"");
    told("{\"t\":\"a\"}\n{\"T\":\"a\"}\n", "row 2: the table has no column \"T\"; did you mean \"t\"?");
    told("{\"t\":\"\"}{\"z\\u0061za\":{\"i\":[]},\"t\":\"\"}", "row 2: the table has no column \"zaza\"");
    // However long it is, as much of it as a name may have is told.
    let name = |length: usize| format!("row 1: the table has no column {:?}", "i".repeat(length));
    for length in [100, 128, 129, 1000, 10_000] {
        let body = format!("{{\"t\":\"\",\"{}\":1}}", "i".repeat(length));
        for piece in [1, 7, 20_000] {
            let error = read("application/jsonl", body.as_bytes(), piece).unwrap_err();
            assert_eq!(error.message(), name(length.min(128)), "{length} {piece}");
        }
    }
    // A key of a value is no column's, and what is no text is told by the reader.
    read("application/jsonl", b"{\"t\":{\"zzz\":1}}", 3).unwrap();
    for body in [&b"{\"\xff\":1,\"t\":\"\"}"[..], b"{\"\\x\":1,\"t\":\"\"}"] {
        assert_eq!(read("application/jsonl", body, 3).unwrap_err().reason(), "INVALID_BATCH");
    }
}

#[test]
fn keys_of_json_are_found_whatever_their_order() {
    let keys: Vec<String> = (0..1000).map(|i| format!("\"c{i}\": {i}")).collect();
    let backwards: Vec<String> = keys.iter().rev().cloned().collect();
    let body = format!("{{{}}}\n{{{}}}\n", keys.join(","), backwards.join(","));
    let schema =
        columns("application/jsonl", &Start { bytes: body.into_bytes(), is_all: true }, &[]).unwrap();
    assert!(schema.fields().iter().enumerate().all(|(i, field)| field.name == format!("c{i}")));
    assert_eq!(schema.fields().len(), 1000);
}

/// One column of a file, whose last page says that it has more texts than there is memory for.
#[test]
fn parquet_that_lies_is_an_error() {
    let texts: StringArray = (0..50).map(|i| Some(format!("{i:04}"))).collect();
    let batch = RecordBatch::try_from_iter([("t", Arc::new(texts) as ArrayRef)]).unwrap();
    let properties = parquet::file::properties::WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_encoding(parquet::basic::Encoding::DELTA_BYTE_ARRAY)
        .build();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let of = "application/vnd.apache.parquet";
    assert_eq!(read(of, &file, file.len()).unwrap().1.iter().map(RecordBatch::num_rows).sum::<usize>(), 50);
    // Blocks of 128 integers in four parts, and how many there are.
    let head = [0x80, 0x01, 4, 50];
    let at = file.windows(4).position(|bytes| bytes == head).unwrap() + 3;
    file[at] = 100;
    let error = read(of, &file, file.len()).unwrap_err();
    assert!(error.message().contains("100 lengths in a page of 50 values"), "{error:?}");
    // A footer of 2^31 - 1 row groups.
    let footer = [0x15, 2, 0x19, 0x1c, 0x48, 1, b'a', 0, 0x16, 0, 0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 7, 0];
    let file = [b"PAR1", &footer[..], &[18, 0, 0, 0], b"PAR1"].concat();
    let error = read(of, &file, file.len()).unwrap_err();
    assert!(error.message().contains("its footer is malformed"), "{error:?}");
}
