//! Rows as types of the program's own: nulls, decimals, dates, timestamps.

use std::sync::Arc;

use basalt_client::{
    Client, Error,
    arrow::array::{
        ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array,
        RecordBatch, StringArray, Time64MicrosecondArray, TimestampMicrosecondArray, UInt64Array,
    },
    convert::{batch_to_proto, schema_to_proto},
    proto::{self as pb, query_response::Kind},
};
use futures_util::TryStreamExt as _;
use serde::Deserialize;

use super::server::Script;

#[derive(Debug, Deserialize, PartialEq)]
struct Row {
    id: i64,
    name: Option<String>,
    price: Option<String>,
    day: Option<String>,
    at: Option<String>,
    share: Option<f64>,
    is_new: bool,
}

fn rows() -> RecordBatch {
    let decimals = Decimal128Array::from(vec![Some(5), None, Some(-12_345)]);
    let times = TimestampMicrosecondArray::from(vec![Some(1_372_932_000_123_456), None, Some(-1)]);
    let columns: [(&str, ArrayRef); 10] = [
        ("id", Arc::new(Int32Array::from(vec![1, 2, 3]))),
        ("name", Arc::new(StringArray::from(vec![Some("a"), None, Some("")]))),
        ("price", Arc::new(decimals.with_precision_and_scale(12, 2).unwrap())),
        ("day", Arc::new(Date32Array::from(vec![Some(15_890), None, Some(-1)]))),
        ("at", Arc::new(times.with_timezone("UTC"))),
        ("share", Arc::new(Float64Array::from(vec![Some(0.5), None, Some(f64::INFINITY)]))),
        ("is_new", Arc::new(BooleanArray::from(vec![true, false, true]))),
        ("large", Arc::new(UInt64Array::from(vec![u64::MAX, 0, 1]))),
        ("time", Arc::new(Time64MicrosecondArray::from(vec![1, 2, 3]))),
        ("bytes", Arc::new(BinaryArray::from_iter_values([[1_u8], [2], [3]]))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

/// A client whose server answers every query with these rows, in two batches.
async fn client(rows: &RecordBatch) -> Client {
    let message = |kind| Ok(pb::QueryResponse { kind: Some(kind) });
    let schema = Some(schema_to_proto(&rows.schema()).unwrap());
    let batch = |at, rows: &RecordBatch, n| message(Kind::Batch(batch_to_proto(&rows.slice(at, n)).unwrap()));
    let n = rows.num_rows();
    let trailer = pb::Trailer { rows: n as u64, complete: true, ..Default::default() };
    let messages = vec![
        message(Kind::Header(pb::Header { schema, table_version: 1 })),
        batch(0, rows, 1),
        batch(1, rows, n - 1),
        message(Kind::Trailer(trailer)),
    ];
    Script { queries: vec![messages], ..Default::default() }.start().await
}

#[tokio::test]
async fn rows_are_values() {
    let client = client(&rows()).await;
    let answer = client.query("t").collect().await.unwrap();
    let expected = [
        Row {
            id: 1,
            name: Some("a".into()),
            price: Some("0.05".into()),
            day: Some("2013-07-04".into()),
            at: Some("2013-07-04T10:00:00.123456Z".into()),
            share: Some(0.5),
            is_new: true,
        },
        Row { id: 2, name: None, price: None, day: None, at: None, share: None, is_new: false },
        Row {
            id: 3,
            name: Some(String::new()),
            price: Some("-123.45".into()),
            day: Some("1969-12-31".into()),
            at: Some("1969-12-31T23:59:59.999999Z".into()),
            share: Some(f64::INFINITY),
            is_new: true,
        },
    ];
    assert_eq!(answer.rows::<Row>().unwrap(), expected);
    assert_eq!(answer.rows, 3);

    let stream = client.query("t").stream().await.unwrap();
    let rows: Vec<Row> = stream.rows().try_collect().await.unwrap();
    assert_eq!(rows, expected);
    let mut stream = client.query("t").stream().await.unwrap().rows::<Row>();
    assert_eq!(stream.next().await.unwrap().as_ref(), expected.first());
    assert_eq!(stream.answer().version(), 1);
}

#[tokio::test]
async fn times_are_numbers_as_well_and_numbers_are_exact() {
    #[derive(Debug, Deserialize, PartialEq)]
    struct Numbers {
        day: Option<i32>,
        at: Option<i64>,
        large: u64,
        time: i64,
    }
    let answer = client(&rows()).await.query("t").collect().await.unwrap();
    let first = Numbers { day: Some(15_890), at: Some(1_372_932_000_123_456), large: u64::MAX, time: 1 };
    assert_eq!(answer.rows::<Numbers>().unwrap()[0], first);
}

#[tokio::test]
async fn what_does_not_fit_is_an_error() {
    #[derive(Debug, Deserialize)]
    struct NoNull {
        #[expect(dead_code, reason = "it is never made")]
        name: String,
    }
    #[derive(Debug, Deserialize)]
    struct Missing {
        #[expect(dead_code, reason = "it is never made")]
        missing: i32,
    }
    #[derive(Debug, Deserialize)]
    struct Narrow {
        #[expect(dead_code, reason = "it is never made")]
        large: i8,
    }
    let client = client(&rows()).await;
    let answer = client.query("t").collect().await.unwrap();
    let errors = [
        answer.rows::<NoNull>().unwrap_err(),
        answer.rows::<Missing>().unwrap_err(),
        answer.rows::<Narrow>().unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::Rows(_)) && std::error::Error::source(&error).is_some(), "{error}");
    }
    // The first row fits: a stream gives it, then the error, and does not look complete.
    let mut stream = client.query("t").stream().await.unwrap().rows::<NoNull>();
    assert!(stream.next().await.unwrap().is_some());
    assert!(matches!(stream.next().await, Err(Error::Rows(_))));
    assert!(matches!(stream.next().await, Err(Error::Incomplete)));
}
