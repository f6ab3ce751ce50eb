//! Columns that queries read often get faster forms while memory has room, and answers stay what they were.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use basalt_client::{ColumnInfo, Query, avg, col, convert::OPTIMIZE_KEY, count, max, min, sum};
use basalt_server::{Config, Memory};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::support::Server;

const ROWS: i64 = 20_000;

async fn start(store: &Path, elastic: Memory) -> Server {
    let change = |config: &mut Config| {
        config.store = store.to_str().unwrap().to_owned();
        (config.memory, config.elastic) = (Memory::Bytes(256 << 20), elastic);
    };
    Server::with(change).await
}

/// The same skewed values three times, of which one column is to be small; prices and names of which few are different.
async fn fill(server: &Server) {
    let small = [(OPTIMIZE_KEY.to_owned(), "size".to_owned())].into();
    let schema = Arc::new(Schema::new(vec![
        Field::new("skewed", DataType::Int64, false),
        Field::new("small", DataType::Int64, false).with_metadata(small),
        Field::new("unread", DataType::Int64, false),
        Field::new("price", DataType::Float64, true),
        Field::new("name", DataType::Utf8, true),
    ]));
    server.client.create_table("t", &schema).await.unwrap();
    let mixed = |i: i64| {
        let z = i.wrapping_mul(0x5e37_79b9_7f4a_7c15);
        (z ^ (z >> 29)).wrapping_mul(0x3f58_476d_1ce4_e5b9) >> 3
    };
    let skewed = |i: i64| i64::from((mixed(i) | 1 << 20).trailing_zeros());
    let keys = || -> ArrayRef { Arc::new(Int64Array::from_iter_values((0..ROWS).map(skewed))) };
    let prices: Float64Array = (0..ROWS).map(|i| (i % 11 != 0).then(|| skewed(i) as f64 / 8.0)).collect();
    let names: StringArray = (0..ROWS).map(|i| (i % 7 != 0).then(|| format!("name {}", skewed(i)))).collect();
    let columns = vec![keys(), keys(), keys(), Arc::new(prices), Arc::new(names)];
    server.client.write_all("t", &[RecordBatch::try_new(schema, columns).unwrap()]).await.unwrap();
}

fn queries(server: &Server) -> Vec<Query> {
    let t = || server.client.query("t");
    vec![
        t().select([count(), sum(col("skewed")), sum(col("price")), max(col("small")), min(col("name"))]),
        t().select([count(), avg(col("price"))]).filter(col("skewed").eq(3).and(col("small").lt(9))),
        t().select([col("name"), count(), sum(col("price")), sum(col("small"))]).group_by([col("name")]),
    ]
}

async fn answers(server: &Server) -> Vec<RecordBatch> {
    let mut answers = Vec::new();
    for query in queries(server) {
        let answer = query.collect().await.unwrap();
        answers.push(arrow_select::concat::concat_batches(&answer.schema, &answer.batches).unwrap());
    }
    answers
}

async fn described(server: &Server) -> Vec<ColumnInfo> {
    server.client.table_full("t").await.unwrap().columns
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_read_often_is_held_in_a_faster_form_too() {
    let store = TempDir::new().unwrap();
    let server = start(store.path(), Memory::Share(50)).await;
    fill(&server).await;
    let cold = described(&server).await;
    assert!(cold.iter().all(|column| column.heat == 0.0 && column.faster.is_empty()), "{cold:?}");
    let expected = answers(&server).await;
    let started = Instant::now();
    let columns = loop {
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", described(&server).await);
        assert_eq!(answers(&server).await, expected);
        let columns = described(&server).await;
        if ["skewed", "name"]
            .iter()
            .all(|name| columns.iter().any(|column| column.field.name() == name && !column.faster.is_empty()))
        {
            break columns;
        }
        sleep(Duration::from_millis(50)).await;
    };
    // Answers are the same from faster forms, of which there are none where nobody reads or where size is wanted.
    assert_eq!(answers(&server).await, expected);
    for (column, cold) in columns.iter().zip(&cold) {
        let name = column.field.name().as_str();
        assert_eq!((column.heat > 0.0, name), (name != "unread", name));
        assert!(!["unread", "small"].contains(&name) || column.faster.is_empty(), "{column:?}");
        for faster in &column.faster {
            assert_eq!((faster.fragments, faster.rows), (1, ROWS.cast_unsigned()));
            assert!(faster.bytes > column.bytes, "{column:?}");
        }
        // What is told of the column is of the column itself.
        let told = |column: &ColumnInfo| (column.bytes, column.encodings.clone(), column.estimates.clone());
        assert_eq!(told(column), told(cold));
    }
}
