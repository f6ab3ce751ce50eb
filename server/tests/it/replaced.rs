//! Tables that take the place of those they were made of, while others write to these.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, cast::AsArray as _, types::Int64Type};
use basalt_client::{Client, ErrorReason, WriteOptions};
use basalt_storage::{CatalogLog, Change, Operation, Store};
use tempfile::TempDir;
use tokio::{task::JoinSet, time::sleep};

use crate::support::Server;

async fn over(store: &str) -> Server {
    Server::with(|config| store.clone_into(&mut config.store)).await
}

async fn number(client: &Client, sql: &str) -> i64 {
    let answer = client.sql(sql).collect().await.unwrap();
    answer.batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

/// Inserts rows that differ, until it is told to end; how many were acknowledged.
async fn insert(client: Client, next: Arc<AtomicI64>, ends: Arc<AtomicBool>) -> i64 {
    let mut acknowledged = 0;
    while !ends.load(Ordering::Acquire) {
        let row = next.fetch_add(1, Ordering::AcqRel);
        let sql = format!("INSERT INTO t VALUES ({row})");
        // Whoever never pauses lets no query end before the next write.
        sleep(Duration::from_millis(100 + (row % 7).unsigned_abs() * 40)).await;
        match client.sql(&sql).collect().await {
            Ok(_) => acknowledged += 1,
            // There is a table of this name all the time.
            Err(error) => panic!("{error}"),
        }
    }
    acknowledged
}

async fn keeps_what_was_acknowledged(servers: &[Server]) {
    let client = |i: usize| servers[i % servers.len()].client.clone();
    client(0).sql("CREATE TABLE t (a BIGINT)").collect().await.unwrap();
    for i in 0..servers.len() {
        while client(i).list_tables().await.unwrap().is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
    }
    let (next, ends) = (Arc::<AtomicI64>::default(), Arc::<AtomicBool>::default());
    let mut writers = JoinSet::new();
    for i in 0..3 {
        writers.spawn(insert(client(i), Arc::clone(&next), Arc::clone(&ends)));
    }
    let (mut replaced, begun) = (0, Instant::now());
    // Long enough for each writer to meet one that replaces.
    while begun.elapsed() < Duration::from_secs(8) {
        match client(replaced).sql("CREATE OR REPLACE TABLE t AS SELECT a FROM t").collect().await {
            Ok(_) => replaced += 1,
            // The others were faster each time.
            Err(error) if error.reason() == ErrorReason::WriteConflict => {}
            Err(error) => panic!("{error}"),
        }
    }
    ends.store(true, Ordering::Release);
    let mut acknowledged = 0;
    while let Some(written) = writers.join_next().await {
        acknowledged += written.unwrap();
    }
    assert!(replaced > 0 && acknowledged > 0, "{replaced} {acknowledged}");
    // A server that knows of no other may be behind.
    let mut distinct = 0;
    for _ in 0..100 {
        distinct = number(&client(0), "SELECT count(DISTINCT a) FROM t").await;
        if distinct == acknowledged {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(number(&client(0), "SELECT count(*) FROM t").await, distinct, "none twice");
    assert_eq!(distinct, acknowledged, "after {replaced}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_memory_they_have_all_that_was_acknowledged() {
    keeps_what_was_acknowledged(&[over("memory:").await]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn they_have_all_that_was_acknowledged() {
    let store = TempDir::new().unwrap();
    keeps_what_was_acknowledged(&[over(store.path().to_str().unwrap()).await]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn they_have_all_that_was_acknowledged_by_another_server() {
    let store = TempDir::new().unwrap();
    let at = store.path().to_str().unwrap();
    keeps_what_was_acknowledged(&[over(at).await, over(at).await]).await;
}

/// Closes a table, as somebody does who is then cut off.
async fn close(store: &Path) {
    let catalog = CatalogLog::new(Store::open(store.to_str().unwrap()).unwrap(), Duration::from_secs(600));
    let state = catalog.load().await.unwrap();
    let (log, table) = catalog.open(&state.tables()["t"]).await.unwrap();
    let change = Change { operation: Operation::Close, closed: Some(true), ..Change::default() };
    log.commit(&table, &change).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_was_left_closed_is_written_to_again() {
    let store = TempDir::new().unwrap();
    let server = over(store.path().to_str().unwrap()).await;
    let client = &server.client;
    client.sql("CREATE TABLE t (a BIGINT)").collect().await.unwrap();
    client.sql("INSERT INTO t VALUES (1)").collect().await.unwrap();
    close(store.path()).await;
    let begun = Instant::now();
    // It is read meanwhile.
    assert_eq!(number(client, "SELECT count(*) FROM t").await, 1);
    client.sql("INSERT INTO t VALUES (2)").collect().await.unwrap();
    assert!(begun.elapsed() > Duration::from_secs(5), "{:?}", begun.elapsed());
    let opened = Instant::now();
    client.sql("INSERT INTO t VALUES (3)").collect().await.unwrap();
    client.sql("CREATE OR REPLACE TABLE t AS SELECT a + 1 AS a FROM t").collect().await.unwrap();
    assert!(opened.elapsed() < Duration::from_secs(8), "{:?}", opened.elapsed());
    assert_eq!(number(client, "SELECT sum(a) FROM t").await, 9);
    // So it is of a change of columns.
    close(store.path()).await;
    client.sql("ALTER TABLE t ADD COLUMN b BIGINT").collect().await.unwrap();
    assert_eq!(number(client, "SELECT count(*) FROM t WHERE b IS NULL").await, 3);
    // What waits is written to the table that comes in the place of the one it was sent to.
    close(store.path()).await;
    let replaces = async {
        sleep(Duration::from_secs(1)).await;
        client.sql("CREATE OR REPLACE TABLE t (a BIGINT)").collect().await.unwrap();
    };
    let (inserted, ()) = tokio::join!(client.sql("INSERT INTO t (a) VALUES (4)").collect(), replaces);
    inserted.unwrap();
    assert_eq!(number(client, "SELECT sum(a) FROM t").await, 4);
}

/// Who reads, changes or adds rows of a table whose place others take all the time is never told that there is none.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_replaced_is_there_all_the_time() {
    let folder = TempDir::new().unwrap();
    for store in ["memory:", folder.path().to_str().unwrap()] {
        let server = over(store).await;
        server.client.sql("CREATE TABLE t AS SELECT 1 AS a").collect().await.unwrap();
        let ends = Arc::<AtomicBool>::default();
        let mut writers = JoinSet::new();
        for sql in [
            "INSERT INTO t VALUES (2)",
            "DELETE FROM t WHERE a = 2",
            "UPDATE t SET a = 2 WHERE a = 1",
            "SELECT sum(a) FROM t",
        ] {
            let (client, ends) = (server.client.clone(), Arc::clone(&ends));
            writers.spawn(async move {
                let mut done = 0;
                while !ends.load(Ordering::Acquire) {
                    match client.sql(sql).collect().await {
                        Ok(_) => done += 1,
                        Err(error) if error.reason() == ErrorReason::WriteConflict => {}
                        Err(error) => panic!("{sql}: {error}"),
                    }
                }
                done
            });
        }
        for _ in 0..60 {
            server.client.sql("CREATE OR REPLACE TABLE t AS SELECT 1 AS a").collect().await.unwrap();
        }
        ends.store(true, Ordering::Release);
        for done in writers.join_all().await {
            assert!(done > 0);
        }
    }
}

/// A load that is tried again is known also where a table has taken the place of the one that it was made to.
#[tokio::test(flavor = "multi_thread")]
async fn what_takes_its_place_knows_its_writes() {
    let folder = TempDir::new().unwrap();
    for store in ["memory:", folder.path().to_str().unwrap()] {
        let server = over(store).await;
        let client = &server.client;
        client.sql("CREATE TABLE t (a BIGINT)").collect().await.unwrap();
        let load = async || {
            let mut writer = client.write("t", WriteOptions::new().request_id("once")).await.unwrap();
            let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
            let rows = RecordBatch::try_from_iter_with_nullable([("a", values, true)]).unwrap();
            writer.send(&rows).await.unwrap();
            writer.commit().await.unwrap().replayed
        };
        assert!(!load().await && load().await);
        client.sql("CREATE OR REPLACE TABLE t AS SELECT a FROM t").collect().await.unwrap();
        assert!(load().await, "{store}");
        client.sql("CREATE OR REPLACE TABLE t AS SELECT a FROM t").collect().await.unwrap();
        assert!(load().await, "{store}");
        assert_eq!(number(client, "SELECT count(*) FROM t").await, 3);
    }
}
