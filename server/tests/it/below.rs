//! Tables that are larger than memory: every answer is the one of a server that has room for all of them.

use std::{path::Path, sync::Arc};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, cast::AsArray as _, types::Int64Type};
use basalt_client::{Query, avg, col, count, count_distinct, keys_of, max, min, sum};
use basalt_server::{Config, Memory};
use tempfile::TempDir;

use crate::support::Server;

/// More than half of what a fragment holds, so that nothing is merged.
const ROWS: i64 = (1 << 19) + 1000;
const WRITES: i64 = 6;

fn on(store: &Path, memory: Option<u64>) -> impl FnOnce(&mut Config) {
    move |config| {
        config.store = store.to_str().unwrap().to_owned();
        if let Some(memory) = memory {
            config.memory = Memory::Bytes(memory);
        }
    }
}

fn rows(write: i64) -> RecordBatch {
    // Values that no encoding makes smaller.
    let mixed = |i: i64, of: u64| {
        let mut z = i.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(of);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).cast_signed()
    };
    let ids = write * ROWS..(write + 1) * ROWS;
    let a: ArrayRef = Arc::new(Int64Array::from_iter_values(ids.clone().map(|i| mixed(i, 1))));
    let b: ArrayRef = Arc::new(Int64Array::from_iter_values(ids.clone().map(|i| mixed(i, 7) >> 7)));
    let part: ArrayRef = Arc::new(Int64Array::from_iter_values(ids.clone().map(|i| i % 13)));
    let tag: ArrayRef = Arc::new(StringArray::from_iter_values(ids.map(|i| format!("tag {}", i % 5))));
    RecordBatch::try_from_iter([("a", a), ("b", b), ("part", part), ("tag", tag)]).unwrap()
}

fn queries(server: &Server) -> Vec<Query> {
    let t = || server.client.query("t");
    vec![
        t().select([count(), max(col("a")), min(col("b"))]),
        t().select([col("part"), count(), sum(col("part")), max(col("a"))]).group_by([col("part")]),
        t().select([col("tag"), avg(col("b"))]).group_by([col("tag")]),
        t().select([count(), min(col("a"))]).filter(col("b").gt(0).and(col("part").eq(5))),
        t().select([count_distinct(col("part")), count()]).filter(col("a").lt(0)),
        t().select([col("a"), col("tag")]).order_by([col("a").desc()]).limit(20),
        t().select([col("a"), col("b"), col("part"), col("tag")])
            .filter(col("part").eq(3))
            .limit(50)
            .offset(9_000),
        t().select([count()])
            .filter(col("part").in_keys(keys_of("t", "part").filter(col("a").gt(i64::MAX / 20 * 19)))),
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

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_several_times_the_memory_is_answered_whole() {
    let store = TempDir::new().unwrap();
    let large = Server::with(on(store.path(), None)).await;
    large.client.create_table("t", &rows(0).schema()).await.unwrap();
    for write in 0..WRITES {
        large.client.write_all("t", &[rows(write)]).await.unwrap();
    }
    let expected = answers(&large).await;
    let all = large.client.table("t").await.unwrap().table.bytes;
    drop(large);

    let limit = 30 << 20;
    assert!(2 * all > 3 * limit, "{all}");
    let small = Server::with(on(store.path(), Some(limit))).await;
    // Again and again: what was read leaves for what is read.
    for _ in 0..2 {
        for (i, (answer, expected)) in answers(&small).await.iter().zip(&expected).enumerate() {
            assert_eq!(answer, expected, "query {i}");
        }
    }
    // Writing goes on as well, and is read.
    small.client.write_all("t", &[rows(0).slice(0, 10)]).await.unwrap();
    let read = small.client.query("t").select([count()]).collect().await.unwrap();
    let n = read.batches[0].column(0).as_primitive::<Int64Type>().value(0);
    assert_eq!(n, WRITES * ROWS + 10);
    let held = small.client.cluster().await.unwrap().nodes[0].memory_bytes;
    assert!(held <= limit, "{held}");
}
