//! Short queries beside long ones.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use basalt_client::{Expr, col, lit, sum};
use tokio::task::JoinSet;

use crate::support::Server;

const ROWS: i64 = 400_000;
const LONG: usize = 6;

/// On one thread, and with one permit, long queries wait for each other, and nobody waits for them: short ones are
/// answered from the first moment to the last. Long ones all come to their end, however many short ones there are, and
/// however long those before them take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_queries_do_not_wait_for_long_ones() {
    let server = Server::with(|config| {
        (config.threads, config.concurrent_queries) = (1, 1);
        config.default_deadline = Duration::from_secs(300);
    })
    .await;
    server.numbers("t", 0..ROWS).await;
    let long = |k: i64| (0..25).fold(col("a") / lit(3), |e: Expr, i| e + col("a") / lit(k + i));
    let long = server.client.query("t").select((1..=12).map(|k| sum(long(k)))).request().clone();
    let (ended, mut running) = (Arc::new(AtomicUsize::new(0)), JoinSet::new());
    for _ in 0..LONG {
        let (mut queries, long, ended) = (server.queries(), long.clone(), Arc::clone(&ended));
        running.spawn(async move {
            let mut stream = queries.query(long).await?.into_inner();
            while stream.message().await?.is_some() {}
            ended.fetch_add(1, Ordering::Relaxed);
            Ok::<_, tonic::Status>(())
        });
    }
    // One row, through a queue; one value, kept; and one that is answered without leaving its thread.
    let mut answered = [0_usize; LONG];
    let mut at = 0_i64;
    while ended.load(Ordering::Relaxed) < LONG {
        at = (at + 7919) % ROWS;
        let before = ended.load(Ordering::Relaxed);
        let row = server.client.query("t").filter(col("a").eq(at)).collect().await.unwrap();
        let one = server.client.query("t").select([sum(col("a"))]).filter(col("a").eq(at));
        let one = one.collect().await.unwrap();
        let none = server.client.query("t").filter(col("a").eq(-1)).collect().await.unwrap();
        assert_eq!((row.rows, one.rows, none.rows), (1, 1, 0));
        if before < LONG {
            answered[before] += 1;
        }
    }
    while let Some(done) = running.join_next().await {
        done.unwrap().unwrap();
    }
    // Before the first of the long ones had ended, and between any two.
    assert!(answered.iter().all(|answered| *answered >= 3), "{answered:?}");
}
