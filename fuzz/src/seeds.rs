//! What the targets begin with, where there is no corpus: made by the code that writes what they read.

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, ListArray, MapArray, RecordBatch, StringArray, StructArray,
    TimestampMicrosecondArray,
    builder::{Float64Builder, MapBuilder, StringBuilder},
    types::Int32Type,
};
use basalt_core::{
    encoding::{KEY_ENCODINGS, TEXT_ENCODINGS},
    fragment::Column,
    schema::{DataType, Field, Schema},
};
use basalt_sip::Sip;
use basalt_storage::{Change, Operation, Request, RowsDigest, TableLog};
use object_store::{ObjectStoreExt as _, path::Path};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, Encoding},
    file::properties::{WriterProperties, WriterVersion},
};

use crate::engine::COLUMN_HEAD;
use crate::storage::{BETWEEN, CHECKPOINT, FIRST, LAST, Still, version, wait};

/// The seeds of a target.
pub(crate) fn of(name: &str) -> Vec<Vec<u8>> {
    match name {
        "delta_log" => logs(),
        "checkpoint" => checkpoints(),
        "data_file" => data_files(),
        "deletion_vector" => vectors(),
        "catalog" => catalogs(),
        "csv" => ["\x07a,b\n1,2\n\n\"x\"\"y\",\"\r\n\"\r3,\r\n", "\x01\u{feff}a\r\nb,c,\"d,\",e"]
            .map(|text| text.as_bytes().to_vec())
            .to_vec(),
        "column" => columns(),
        #[cfg(feature = "server")]
        other => basalt_server::fuzz::seeds(other),
        #[cfg(not(feature = "server"))]
        _ => Vec::new(),
    }
}

/// Columns of every type and shape in every encoding that can hold them.
fn columns() -> Vec<Vec<u8>> {
    let shapes: [fn(i64) -> i64; 6] = [
        |_| 1,
        |i| i % 7 * 3,
        |i| i / 9,
        |i| i * i % 101,
        |i| 100 * i + i * 7 % 5,
        |i| if i % 50 == 3 { i } else { 1 },
    ];
    let mut found = Vec::new();
    let mut take = |kind: usize, column: &Column| {
        let parts = column.to_parts();
        let validity = parts.validity.as_ref().map_or(&[][..], |validity| validity.as_slice());
        let lengths = [column.rows(), parts.head.len(), validity.len()];
        let lengths = lengths.map(|n| u16::try_from(n).expect("few rows"));
        if parts.values.len() < 4096 {
            let mut seed = vec![u8::try_from(kind).expect("few types")];
            lengths.iter().for_each(|length| seed.extend(length.to_le_bytes()));
            assert_eq!(seed.len(), COLUMN_HEAD);
            found.push([&seed, &parts.head, validity, &parts.values].concat());
        }
    };
    for (kind, data_type) in
        DataType::KINDS.into_iter().enumerate().filter(|(kind, _)| matches!(kind, 0 | 4 | 8 | 9 | 10))
    {
        for encoding in KEY_ENCODINGS {
            for (i, shape) in shapes.iter().enumerate() {
                let keys: Vec<i64> =
                    (0..90).map(|row| if kind == 0 { shape(row) & 1 } else { shape(row) }).collect();
                let field =
                    Field { encoding: Some(encoding.name().to_owned()), ..Field::new("a", data_type, true) };
                let valid = [0xdbdb_dbdb_dbdb_dbdb, 0x3ff_ffff];
                if let Ok(column) = Column::from_keys(&field, &keys, (i % 2 == 0).then_some(&valid)) {
                    take(kind, &column);
                }
            }
        }
    }
    for encoding in TEXT_ENCODINGS {
        for shape in &shapes {
            let texts: StringArray =
                (0..90).map(|row| Some(format!("text {:x}", shape(row) * 7919))).collect();
            let field =
                Field { encoding: Some(encoding.name().to_owned()), ..Field::new("a", DataType::Utf8, true) };
            if let Ok(column) = Column::from_texts(&field, &texts, None) {
                take(DataType::KINDS.len() - 1, &column);
            }
        }
    }
    found
}

/// The file as the targets take it: without what every Parquet file has around it.
fn unwrapped(file: &[u8]) -> Vec<u8> {
    let (rest, end) = file.split_at(file.len() - 8);
    let length = u32::from_le_bytes([end[0], end[1], end[2], end[3]]);
    let length = u16::try_from(length).expect("a footer of 64 KiB");
    [&rest[4..], &length.to_le_bytes()[..]].concat()
}

fn small_schema() -> Arc<Schema> {
    let fields = vec![Field::new("n", DataType::Int64, false), Field::new("text", DataType::Utf8, true)];
    Arc::new(Schema::new(fields).expect("a schema"))
}

fn small(numbers: std::ops::Range<i64>) -> RecordBatch {
    let texts: StringArray = numbers.clone().map(|n| (n % 3 != 0).then(|| format!("text {n}"))).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(numbers)), Arc::new(texts)];
    RecordBatch::try_new(small_schema().to_arrow(), columns).expect("a batch")
}

/// A table of Basalt's with all that a log can say, and a checkpoint of it.
async fn table() -> Arc<Still> {
    let still = Arc::new(Still::default());
    let (log, mut state) =
        TableLog::create(still.store(), "t", &small_schema(), BTreeMap::new()).await.expect("a table");
    for i in 0..3 {
        let file = log.write_data(&small_schema(), vec![small(10 * i..10 * i + 10)]).await.expect("a file");
        let request = Request { id: format!("id-{i}"), rows: 10, digest: RowsDigest::Xxh3(7) };
        let change = Change { add: vec![file], requests: vec![request], ..Change::default() };
        state = log.commit(&state, &change).await.expect("a commit").state;
    }
    let change = Change {
        operation: Operation::Delete,
        remove: vec![0],
        deletions: vec![(1, Sip::from_sorted_ids(&[3, 5]))],
        properties: vec![("a".to_owned(), Some("b".to_owned()))],
        ..Change::default()
    };
    state = log.commit(&state, &change).await.expect("a commit").state;
    log.checkpoint(&state).await.expect("a checkpoint");
    still
}

async fn bytes(still: &Still, path: &str) -> Vec<u8> {
    let found = still.objects.get(&Path::from(path)).await.expect("an object");
    found.bytes().await.expect("its bytes").to_vec()
}

fn logs() -> Vec<Vec<u8>> {
    wait(async {
        let still = table().await;
        let mut parts = Vec::new();
        for i in 0..5 {
            parts.push(bytes(&still, &version(i)).await);
        }
        let unsealed: Vec<Vec<u8>> = parts
            .iter()
            .map(|part| part.split(|byte| *byte == b'\n').skip(1).collect::<Vec<_>>().join(&b'\n'))
            .collect();
        let last = [LAST, &bytes(&still, "_delta_log/_last_checkpoint").await].concat();
        let foreign = concat!(
            r#"{"add":{"path":"a/x%20y.parquet","partitionValues":{"int32":"7","text":null},"size":9,"modificationTime":5,"dataChange":true,"stats":"{\"numRecords\":5,\"minValues\":{\"int64\":1,\"text\":\"a\",\"price\":1.5,\"date\":\"2020-01-01\",\"at\":\"2020-01-01T00:00:00.000Z\"},\"maxValues\":{\"int64\":7,\"text\":\"z\",\"price\":2.5,\"date\":\"2021-01-01\",\"at\":\"2021-01-01T00:00:00.000Z\"},\"nullCount\":{\"int64\":0,\"text\":1},\"tightBounds\":true}","tags":{"basalt.fragment":"3"},"deletionVector":{"storageType":"i","pathOrInlineDv":"wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L","sizeInBytes":40,"cardinality":6}}}"#,
            "\n",
            r#"{"remove":{"path":"b.parquet","deletionTimestamp":7,"dataChange":true,"extendedFileMetadata":true,"partitionValues":{},"size":9}}"#,
            "\n",
            r#"{"txn":{"appId":"app","version":7,"lastUpdated":9}}"#,
            "\n",
            r#"{"commitInfo":{"timestamp":7,"operation":"WRITE"}}"#,
            "\n",
            r#"{"cdc":{"path":"c"}}"#,
            "\n",
            r#"{"domainMetadata":{"domain":"d","configuration":"","removed":false}}"#,
            "\n",
        );
        let mapped = FIRST
            .replace(r#""configuration":{}"#, r#""configuration":{"delta.columnMapping.mode":"id","basalt.retention.column":"at","basalt.retention.seconds":"60","basalt.deletes":"rewrite"}"#)
            .replace(r#"\"metadata\":{}"#, r#"\"metadata\":{\"delta.columnMapping.id\":1,\"delta.columnMapping.physicalName\":\"c1\",\"basalt.encoding\":\"plain\",\"basalt.references\":\"t.n\"}"#);
        let checkpoint =
            [CHECKPOINT, FIRST.as_bytes(), b"{\"checkpointMetadata\":{\"version\":0}}\n", foreign.as_bytes()]
                .concat();
        vec![
            parts.join(&BETWEEN),
            unsealed.join(&BETWEEN),
            [unsealed.join(&BETWEEN), last].join(&BETWEEN),
            format!("{FIRST}{foreign}").into_bytes(),
            [FIRST.as_bytes(), foreign.as_bytes()].join(&BETWEEN),
            mapped.into_bytes(),
            [FIRST.as_bytes(), &checkpoint, foreign.replace("a/x", "c").as_bytes()].join(&BETWEEN),
        ]
    })
}

fn checkpoints() -> Vec<Vec<u8>> {
    wait(async {
        let still = table().await;
        let file = bytes(&still, "_delta_log/00000000000000000004.checkpoint.parquet").await;
        // Sealed, a file is refused whatever is changed in it.
        let name = b"basalt.file.xxh3";
        let at = file.windows(name.len()).position(|bytes| bytes == name).expect("a seal");
        let mut unsealed = file.clone();
        unsealed[at] = b'c';
        vec![unwrapped(&file), unwrapped(&unsealed)]
    })
}

fn all_types(rows: i64) -> RecordBatch {
    let some = |n: i64| (n % 5 != 4).then_some(n);
    let n = || (0..rows).map(some);
    let small = |n: Option<i64>| n.map(|n| i8::try_from(n % 100).unwrap_or(0));
    let wide = |precision, scale| {
        let array: Decimal128Array = n().map(|n| n.map(|n| i128::from(n) * 7)).collect();
        Arc::new(array.with_precision_and_scale(precision, scale).expect("a decimal")) as ArrayRef
    };
    let mut map = MapBuilder::new(None, StringBuilder::new(), Float64Builder::new());
    for i in 0..rows {
        for k in 0..i % 3 {
            map.keys().append_value(format!("k{k}"));
            map.values().append_value(0.5);
        }
        map.append(i % 4 != 3).expect("a map");
    }
    let map: MapArray = map.finish();
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(
        (0..rows).map(|i| (i % 3 != 2).then(|| (0..i % 4).map(|k| (k != 2).then_some(7)))),
    );
    let pair = StructArray::from(vec![(
        Arc::new(arrow_schema::Field::new("a", arrow_schema::DataType::Int64, true)),
        Arc::new(n().collect::<Int64Array>()) as ArrayRef,
    )]);
    let text = |n: Option<i64>| n.map(|n| format!("text {}", n % 7));
    RecordBatch::try_from_iter_with_nullable([
        ("bool", Arc::new(n().map(|n| n.map(|n| n % 2 == 0)).collect::<BooleanArray>()) as ArrayRef, true),
        ("int8", Arc::new(n().map(small).collect::<Int8Array>()), true),
        ("int16", Arc::new(n().map(|n| small(n).map(i16::from)).collect::<Int16Array>()), true),
        ("int32", Arc::new(n().map(|n| small(n).map(i32::from)).collect::<Int32Array>()), true),
        (
            "int64",
            Arc::new((0..rows).collect::<Vec<_>>().into_iter().map(Some).collect::<Int64Array>()),
            false,
        ),
        ("uint32", Arc::new(n().collect::<Int64Array>()), true),
        ("uint64", wide(20, 0), true),
        ("float32", Arc::new(n().map(|n| n.map(|_| 1.5_f32)).collect::<Float32Array>()), true),
        ("float64", Arc::new(n().map(|n| n.map(|_| f64::NAN)).collect::<Float64Array>()), true),
        ("price", wide(9, 2), true),
        ("wide", wide(38, 3), true),
        ("date", Arc::new(n().map(|n| small(n).map(i32::from)).collect::<Date32Array>()), true),
        ("at", Arc::new(n().collect::<TimestampMicrosecondArray>().with_timezone("UTC")), true),
        ("text", Arc::new(n().map(text).collect::<StringArray>()), true),
        ("bytes", Arc::new(n().map(text).collect::<BinaryArray>()), true),
        ("list", Arc::new(list), true),
        ("map", Arc::new(map), true),
        ("pair", Arc::new(pair), true),
    ])
    .expect("a batch")
}

fn data_files() -> Vec<Vec<u8>> {
    let written = |batch: &RecordBatch, properties: WriterProperties| {
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).expect("a writer");
        writer.write(batch).expect("rows");
        writer.close().expect("a file");
        unwrapped(&file)
    };
    let builder = WriterProperties::builder;
    let batch = all_types(40);
    let mut files = vec![
        written(&batch, builder().build()),
        written(
            &batch,
            builder().set_writer_version(WriterVersion::PARQUET_2_0).set_dictionary_enabled(false).build(),
        ),
        written(
            &batch,
            builder().set_max_row_group_row_count(Some(13)).set_compression(Compression::SNAPPY).build(),
        ),
    ];
    let column = |name: &str| {
        let batch = batch.project(&[batch.schema().index_of(name).expect("a column")]).expect("a column");
        batch
    };
    for name in ["bool", "int64", "uint64", "text", "list", "map", "pair", "at"] {
        files.push(written(&column(name), builder().build()));
        let plain = builder().set_writer_version(WriterVersion::PARQUET_2_0).set_dictionary_enabled(false);
        files.push(written(&column(name), plain.set_compression(Compression::LZ4_RAW).build()));
    }
    for (name, encoding) in [
        ("text", Encoding::DELTA_BYTE_ARRAY),
        ("text", Encoding::DELTA_LENGTH_BYTE_ARRAY),
        ("int64", Encoding::DELTA_BINARY_PACKED),
        ("float64", Encoding::BYTE_STREAM_SPLIT),
        ("bool", Encoding::RLE),
    ] {
        let properties = builder().set_dictionary_enabled(false).set_encoding(encoding);
        files.push(written(&column(name), properties.build()));
    }
    files.push(written(
        &column("text"),
        builder().set_compression(Compression::ZSTD(Default::default())).build(),
    ));
    files.push(written(
        &column("text"),
        builder().set_compression(Compression::GZIP(Default::default())).build(),
    ));
    files
}

fn vectors() -> Vec<Vec<u8>> {
    let sets: [Vec<u64>; 3] = [vec![1, 2, 3], (0..5000).map(|id| id * 3).collect(), (100..70_000).collect()];
    let mut found: Vec<Vec<u8>> = Vec::new();
    for ids in sets {
        let blob = basalt_sip::deletion_vector::write(&Sip::from_sorted_ids(&ids).view()).expect("a vector");
        let rows = u16::try_from(ids.len()).unwrap_or(u16::MAX).to_le_bytes();
        found.push([&[1, rows[0], rows[1], 1, 1][..], &blob].concat());
    }
    found.push([&[0, 6, 0, 0][..], b"wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"].concat());
    found
}

fn catalogs() -> Vec<Vec<u8>> {
    let id = |n: u8| format!("80a083e8-7026-4e79-81be-64bd76c43a{n:02x}");
    let table =
        |n: u8, more: &str| format!(r#"{{"name":"t{n}","id":"{}","location":"tables/t{n}"{more}}}"#, id(n));
    let steps = [
        format!(r#"{{"begin":"{}"}}"#, id(0)),
        format!(r#"{{"create":{}}}"#, table(1, "")),
        format!(r#"{{"create":{}}}"#, table(2, r#","attached":true,"deltaId":"x""#)),
        r#"{"createView":{"name":"v","sql":"SELECT 1"}}"#.to_owned(),
        format!(r#"{{"drop":"{}"}}"#, id(1)),
        r#"{"dropView":"v"}"#.to_owned(),
    ];
    let entries: Vec<String> = steps
        .iter()
        .enumerate()
        .map(|(i, step)| {
            format!(r#"{{"at":{i},"entry":"{}","step":{step}}}"#, id(100 + u8::try_from(i).unwrap_or(0)))
        })
        .collect();
    let joined = entries.join("\0");
    [0, 1].map(|flags| [&[flags][..], joined.as_bytes()].concat()).to_vec()
}
