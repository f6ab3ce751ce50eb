//! What a small statement costs through SQL beside the typed API: the middle of many times, one after the other.

use std::{sync::Arc, time::Instant};

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use basalt_client::{Client, col, count};

/// Times of each question.
const TIMES: usize = 400;

/// The middle of the times that something takes, in milliseconds.
async fn middle(question: impl AsyncFn()) -> f64 {
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let begun = Instant::now();
        question().await;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it measures; run it with --release, alone"]
async fn small_statements() {
    let address = crate::serve().await;
    let client = Client::connect(&address).await.unwrap();
    let rows = 300_000_i64;
    let columns: [(&str, ArrayRef); 2] = [
        ("id", Arc::new(Int64Array::from_iter_values(0..rows))),
        ("month", Arc::new(Int32Array::from_iter_values((0..300_000).map(|row| row % 12 + 1)))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    client.create_table("t", &batch.schema()).await.unwrap();
    client.write_all("t", &[batch]).await.unwrap();
    let id = || col("id").eq(4711_i64);
    for (name, sql, typed) in [
        ("a row by its key", "SELECT id, month FROM t WHERE id = 4711", 0),
        ("a count with a condition", "SELECT count(*) FROM t WHERE month = 7", 1),
    ] {
        let by_sql = middle(async || drop(client.sql(sql).collect().await.unwrap())).await;
        let by_api = middle(async || {
            let query = match typed {
                0 => client.query("t").select([col("id"), col("month")]).filter(id()),
                _ => client.query("t").select([count()]).filter(col("month").eq(7_i64)),
            };
            drop(query.collect().await.unwrap());
        })
        .await;
        println!("{name}: SQL {by_sql:.3} ms, typed {by_api:.3} ms, {:.3} ms more", by_sql - by_api);
    }
}
