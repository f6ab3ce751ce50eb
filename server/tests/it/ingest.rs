//! Writes: every type, nulls, retries, and everything that breaks.

use std::sync::Arc;

use arrow_array::{ArrayRef, Date32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow_ipc::writer::StreamWriter;
use basalt_client::{WriteOptions, col};
use basalt_core::limits::{DATES, TIMESTAMPS};
use basalt_proto::v1::{self as pb, TypeKind, column::Values, query_response, write_request, write_response};
use tonic::Code;

use crate::support::{Server, batch, batch_of, check, column, commit, decimal, field, open, open_as};

const KINDS: [(&str, TypeKind); 14] = [
    ("bool", TypeKind::Bool),
    ("int8", TypeKind::Int8),
    ("int16", TypeKind::Int16),
    ("int32", TypeKind::Int32),
    ("int64", TypeKind::Int64),
    ("uint8", TypeKind::Uint8),
    ("uint16", TypeKind::Uint16),
    ("uint32", TypeKind::Uint32),
    ("uint64", TypeKind::Uint64),
    ("float32", TypeKind::Float32),
    ("float64", TypeKind::Float64),
    ("date32", TypeKind::Date32),
    ("timestamp", TypeKind::Timestamp),
    ("utf8", TypeKind::Utf8),
];

/// Three rows of every type: the least, null, the greatest.
fn all_types() -> (Vec<pb::Field>, Vec<pb::Column>) {
    let int32s = |values: [i32; 3]| Values::Int32s(pb::Int32s { values: values.to_vec() });
    let int64s = |values: [i64; 3]| Values::Int64s(pb::Int64s { values: values.to_vec() });
    let uint32s = |values: [u32; 3]| Values::Uint32s(pb::Uint32s { values: values.to_vec() });
    let values = [
        Values::Bools(pb::Bools { values: vec![false, false, true] }),
        int32s([-128, 0, 127]),
        int32s([-32768, 0, 32767]),
        int32s([i32::MIN, 0, i32::MAX]),
        int64s([i64::MIN, 0, i64::MAX]),
        uint32s([0, 0, 255]),
        uint32s([0, 0, 65535]),
        uint32s([0, 0, u32::MAX]),
        Values::Uint64s(pb::Uint64s { values: vec![0, 0, u64::MAX] }),
        Values::Floats(pb::Floats { values: vec![f32::MIN, 0.0, f32::INFINITY] }),
        Values::Doubles(pb::Doubles { values: vec![f64::MIN, 0.0, f64::INFINITY] }),
        int32s([*DATES.start(), 0, *DATES.end()]),
        int64s([*TIMESTAMPS.start(), 0, *TIMESTAMPS.end()]),
        Values::Texts(pb::Texts { data: "aünï".into(), lengths: vec![1, 0, 5] }),
        int64s([-999_999_999_999_999_999, 0, 999_999_999_999_999_999]),
    ];
    let mut fields: Vec<_> = KINDS.iter().map(|(name, kind)| field(name, *kind)).collect();
    fields.push(decimal("decimal", 18, 2));
    let columns = values.into_iter().map(|v| pb::Column { validity: vec![0b101], values: Some(v) });
    (fields, columns.collect())
}

#[tokio::test]
async fn every_type_comes_back_as_it_went_in() {
    let server = Server::start().await;
    let (fields, columns) = all_types();
    server.create("t", fields.clone()).await.unwrap();
    let (answers, end) = server.write(vec![open("t"), batch_of(1, 3, columns.clone()), commit(1, 3)]).await;
    end.unwrap();
    let [
        write_response::Kind::Opened(opened),
        write_response::Kind::Ack(ack),
        write_response::Kind::Committed(done),
    ] = answers.as_slice()
    else {
        panic!("{answers:?}")
    };
    assert_eq!(opened.schema.as_ref().unwrap().fields, fields);
    assert!(opened.window_bytes >= 4 << 20);
    assert_eq!((ack.sequence, ack.rows), (1, 3));
    assert_eq!((done.version, done.rows, done.replayed), (1, 3, false));

    let messages = server.query(pb::QueryRequest { table: "t".into(), ..Default::default() }).await.unwrap();
    let [
        query_response::Kind::Header(header),
        query_response::Kind::Batch(rows),
        query_response::Kind::Trailer(trailer),
    ] = messages.as_slice()
    else {
        panic!("{messages:?}")
    };
    assert_eq!((header.schema.as_ref().unwrap().fields.len(), header.table_version), (15, 1));
    assert_eq!((rows.rows, trailer.rows, trailer.complete), (3, 3, true));
    assert_eq!(rows.columns, columns);
}

/// The first row of each write is null, and has what is refused in the third.
#[tokio::test]
async fn times_beyond_the_calendar_are_refused_with_their_row() {
    let server = Server::start().await;
    server.create("t", vec![field("d", TypeKind::Date32), field("at", TypeKind::Timestamp)]).await.unwrap();
    let write = async |days: i32, micros: i64| {
        let columns = [
            Values::Int32s(pb::Int32s { values: vec![days, 0, days] }),
            Values::Int64s(pb::Int64s { values: vec![micros, 0, micros] }),
        ];
        let columns = columns.map(|v| pb::Column { validity: vec![0b110], values: Some(v) });
        server.write(vec![open("t"), batch_of(1, 3, columns.into()), commit(1, 3)]).await.1
    };
    for days in [i32::MIN, -i32::MAX, DATES.start() - 1, DATES.end() + 1, i32::MAX] {
        let refused = write(days, 0).await;
        let message = refused.as_ref().unwrap_err().message().to_owned();
        assert!(message.contains("column \"d\", row 2: "), "{message}");
        check(refused, Code::InvalidArgument, "INVALID_BATCH", "batch[1].columns[0]");
    }
    for micros in [i64::MIN, -i64::MAX, TIMESTAMPS.start() - 1, TIMESTAMPS.end() + 1, i64::MAX] {
        let refused = write(0, micros).await;
        let message = refused.as_ref().unwrap_err().message().to_owned();
        assert!(message.contains("column \"at\", row 2: "), "{message}");
        check(refused, Code::InvalidArgument, "INVALID_BATCH", "batch[1].columns[1]");
    }
    // Arrow IPC comes through the same door.
    let times = TimestampMicrosecondArray::from(vec![0, i64::MAX]).with_timezone("UTC");
    let columns: [(&str, ArrayRef); 2] =
        [("d", Arc::new(Date32Array::from(vec![0, 0]))), ("at", Arc::new(times))];
    let rows = RecordBatch::try_from_iter_with_nullable(columns.map(|(n, a)| (n, a, true))).unwrap();
    let error = server.client.write_all("t", &[rows]).await.unwrap_err();
    assert!(error.to_string().contains("not within the years 0001 to 9999"), "{error}");

    write(*DATES.start(), *TIMESTAMPS.end()).await.unwrap();
    assert_eq!(server.client.query("t").collect().await.unwrap().rows, 3);
}

#[tokio::test]
async fn arrow_ipc_and_packed_arrays_are_the_same() {
    let server = Server::start().await;
    server.create("t", vec![field("a", TypeKind::Int64), field("b", TypeKind::Utf8)]).await.unwrap();
    let columns: [(&str, ArrayRef); 2] = [
        ("a", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]))),
        ("b", Arc::new(StringArray::from(vec![None, Some("x"), Some("")]))),
    ];
    let rows = RecordBatch::try_from_iter_with_nullable(columns.map(|(n, a)| (n, a, true))).unwrap();
    let mut writer = StreamWriter::try_new(Vec::new(), &rows.schema()).unwrap();
    writer.write(&rows).unwrap();
    writer.write(&rows.slice(1, 2)).unwrap();
    let stream = Some(pb::batch::Rows::ArrowIpc(writer.into_inner().unwrap().into()));
    let ipc = write_request::Kind::Batch(pb::Batch { sequence: 1, rows: stream });
    server.write(vec![open("t"), ipc, commit(1, 5)]).await.1.unwrap();
    server.client.write_all("t", std::slice::from_ref(&rows)).await.unwrap();

    for query in [server.client.query("t"), server.client.query("t").as_arrow_ipc()] {
        let answer = query.collect().await.unwrap();
        let whole = arrow_select::concat::concat_batches(&rows.schema(), &answer.batches).unwrap();
        let expected = [rows.clone(), rows.slice(1, 2), rows.clone()];
        assert_eq!(whole, arrow_select::concat::concat_batches(&rows.schema(), &expected).unwrap());
    }
}

#[tokio::test]
async fn columns_may_be_left_out_or_turned_around() {
    let server = Server::start().await;
    let needed = pb::Field { nullable: false, ..field("c", TypeKind::Int64) };
    server.create("t", vec![field("a", TypeKind::Int64), field("b", TypeKind::Int64), needed]).await.unwrap();
    let open = |columns: &[&str]| {
        let columns = columns.iter().map(ToString::to_string).collect();
        write_request::Kind::Open(pb::Open { table: "t".into(), columns, ..Default::default() })
    };
    let int64s = |values: &[i64]| column(Values::Int64s(pb::Int64s { values: values.to_vec() }));
    let rows = batch_of(1, 2, vec![int64s(&[7, 8]), int64s(&[1, 2])]);
    server.write(vec![open(&["c", "a"]), rows, commit(1, 2)]).await.1.unwrap();
    let answer =
        server.client.query("t").filter(col("b").is_null().and(col("c").eq(8))).collect().await.unwrap();
    assert_eq!(answer.rows, 1);

    let refused = |columns: &'static [&'static str]| server.write(vec![open(columns), commit(0, 0)]);
    check(refused(&["c", "d"]).await.1, Code::NotFound, "COLUMN_NOT_FOUND", "open.columns[1]");
    check(refused(&["c", "c"]).await.1, Code::InvalidArgument, "INVALID_BATCH", "open.columns[1]");
    check(refused(&["a"]).await.1, Code::InvalidArgument, "INVALID_BATCH", "open.columns");
}

#[tokio::test]
async fn a_refused_write_leaves_nothing() {
    let server = Server::start().await;
    server.numbers("t", [1, 2, 3]).await;
    let cases: Vec<(Vec<write_request::Kind>, &str, &str)> = vec![
        (vec![batch(1, &[4])], "PROTOCOL", ""),
        (vec![], "PROTOCOL", ""),
        (vec![open("t"), open("t")], "PROTOCOL", ""),
        (vec![open("t"), batch(1, &[4])], "PROTOCOL", ""),
        (vec![open("t"), batch(2, &[4])], "PROTOCOL", "batch.sequence"),
        (vec![open("t"), batch(1, &[4]), batch(1, &[4])], "PROTOCOL", "batch.sequence"),
        (vec![open("t"), batch(1, &[4]), batch(3, &[4])], "PROTOCOL", "batch.sequence"),
        (vec![open("t"), batch(1, &[4]), commit(1, 2)], "PROTOCOL", "commit"),
        (vec![open("t"), batch(1, &[4]), commit(2, 1)], "PROTOCOL", "commit"),
        (
            vec![open("t"), batch(1, &[4]), batch_of(2, 1, vec![]), commit(2, 2)],
            "INVALID_BATCH",
            "batch[2].columns",
        ),
        (
            vec![open("t"), batch_of(1, 1, vec![pb::Column::default()])],
            "INVALID_BATCH",
            "batch[1].columns[0]",
        ),
        (
            vec![open("t"), batch_of(1, 1, vec![column(Values::Doubles(pb::Doubles { values: vec![1.0] }))])],
            "TYPE_MISMATCH",
            "batch[1].columns[0]",
        ),
        (
            vec![
                open("t"),
                write_request::Kind::Batch(pb::Batch {
                    sequence: 1,
                    rows: Some(pb::batch::Rows::ArrowIpc(vec![1, 2, 3].into())),
                }),
            ],
            "INVALID_BATCH",
            "batch[1].arrow_ipc",
        ),
    ];
    for (messages, reason, place) in cases {
        check(server.write(messages).await.1, Code::InvalidArgument, reason, place);
    }
    check(server.write(vec![open("no")]).await.1, Code::NotFound, "TABLE_NOT_FOUND", "open.table");
    assert_eq!(server.rows("t").await, 3);
}

#[tokio::test]
async fn values_are_checked() {
    let server = Server::start().await;
    let whole = pb::Field { nullable: false, ..field("n", TypeKind::Int8) };
    server.create("t", vec![whole]).await.unwrap();
    server.create("d", vec![decimal("d", 4, 2)]).await.unwrap();
    let check = |result: (Vec<_>, Result<(), tonic::Status>), words: &str| {
        let status = result.1.unwrap_err();
        assert!(status.message().contains(words), "{status:?}");
        check::<()>(Err(status), Code::InvalidArgument, "INVALID_BATCH", "batch[1].columns[0]");
    };
    let int8s = |validity: &[u8], values: &[i32]| pb::Column {
        validity: validity.to_vec(),
        values: Some(Values::Int32s(pb::Int32s { values: values.to_vec() })),
    };
    check(server.write(vec![open("t"), batch_of(1, 2, vec![int8s(&[], &[1, 128])])]).await, "row 1");
    check(server.write(vec![open("t"), batch_of(1, 2, vec![int8s(&[0b10], &[1, 2])])]).await, "row 0");
    check(server.write(vec![open("d"), batch(1, &[9999, -10_000])]).await, "row 1");
    server.write(vec![open("d"), batch(1, &[9999, -9999]), commit(1, 2)]).await.1.unwrap();
}

#[tokio::test]
async fn a_stream_that_breaks_leaves_nothing() {
    let server = Server::start().await;
    server.numbers("t", [1, 2, 3]).await;
    let options = WriteOptions::new().request_id("broken");
    let mut writer = server.client.write("t", options).await.unwrap();
    let array: ArrayRef = Arc::new(Int64Array::from(vec![4, 5]));
    writer.send(&RecordBatch::try_from_iter_with_nullable([("a", array, true)]).unwrap()).await.unwrap();
    drop(writer);
    // The id is free again once the server has seen the end.
    loop {
        match server.write(vec![open_as("t", "broken"), batch(1, &[6]), commit(1, 1)]).await.1 {
            Ok(()) => break,
            Err(status) => check::<()>(Err(status), Code::Aborted, "REQUEST_IN_PROGRESS", "open.request_id"),
        }
    }
    assert_eq!(server.rows("t").await, 4);
}

#[tokio::test]
async fn a_retry_adds_nothing() {
    let server = Server::start().await;
    server.numbers("t", [1, 2, 3]).await;
    let write = |values: &[i64]| vec![open_as("t", "id"), batch(1, values), commit(1, values.len() as u64)];
    let committed = |(answers, end): (Vec<write_response::Kind>, Result<(), tonic::Status>)| {
        end.unwrap();
        match answers.last() {
            Some(write_response::Kind::Committed(committed)) => *committed,
            other => panic!("{other:?}"),
        }
    };
    let first = committed(server.write(write(&[4, 5])).await);
    assert_eq!(first, pb::Committed { version: 2, rows: 2, replayed: false, replaced: Some(0) });
    server.write(vec![open("t"), batch(1, &[6]), commit(1, 1)]).await.1.unwrap();
    let second = committed(server.write(write(&[4, 5])).await);
    assert_eq!(second, pb::Committed { version: 2, rows: 2, replayed: true, replaced: None });
    assert_eq!(server.rows("t").await, 6);
    check(server.write(write(&[4, 6])).await.1, Code::AlreadyExists, "REQUEST_ID_REUSED", "open.request_id");

    // Another table may use the same id, and so may a new table of the same name.
    server.numbers("u", [1]).await;
    let other = committed(server.write(vec![open_as("u", "id"), batch(1, &[4, 6]), commit(1, 2)]).await);
    assert!(!other.replayed);
    server.catalog().drop_table(pb::DropTableRequest { name: "t".into(), if_exists: false }).await.unwrap();
    server.numbers("t", [1]).await;
    assert!(!committed(server.write(write(&[4, 6])).await).replayed);
    assert_eq!(server.rows("t").await, 3);
}

#[tokio::test]
async fn many_batches_become_one_version() {
    let server = Server::start().await;
    server.create("t", vec![field("a", TypeKind::Int64)]).await.unwrap();
    let mut messages = vec![open("t")];
    messages.extend((1..=50).map(|i| batch(i, &vec![i64::try_from(i).unwrap(); 1000])));
    messages.push(commit(50, 50_000));
    let (answers, end) = server.write(messages).await;
    end.unwrap();
    let acks: Vec<_> = answers
        .iter()
        .filter_map(|a| match a {
            write_response::Kind::Ack(ack) => Some((ack.sequence, ack.rows)),
            _ => None,
        })
        .collect();
    assert_eq!(acks, (1..=50).map(|i| (i, i * 1000)).collect::<Vec<_>>());
    let table = server.client.table("t").await.unwrap().table;
    assert_eq!((table.version, table.rows, table.fragments), (1, 50_000, 1));
}

/// Commits of one table meet on the CPU pool, whose threads take up other jobs while they wait.
#[tokio::test(flavor = "multi_thread")]
async fn writers_do_not_stand_in_each_others_way() {
    let server = Arc::new(Server::start().await);
    let names: Vec<_> = (0..8).map(|i| format!("c{i}")).collect();
    let fields = names.iter().map(|name| field(name, TypeKind::Int64)).collect();
    server.create("t", fields).await.unwrap();
    let writers: Vec<_> = (0..8)
        .map(|writer: i64| {
            let server = Arc::clone(&server);
            tokio::spawn(async move {
                for _ in 0..5 {
                    let values =
                        Values::Int64s(pb::Int64s { values: (0..2000).map(|row| row * writer).collect() });
                    let rows = batch_of(1, 2000, vec![column(values); 8]);
                    server.write(vec![open("t"), rows, commit(1, 2000)]).await.1.unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let table = server.client.table("t").await.unwrap().table;
    // Merging in the background makes versions as well.
    assert!((40..50).contains(&table.version), "version {}", table.version);
    assert_eq!(table.rows, 80_000);
    assert!(table.fragments < 20, "{} fragments", table.fragments);
}
