//! Statements that write, on one server and on three nodes: what is acknowledged is there for all, one version at a
//! time, and nothing is lost between writers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use basalt_client::{Client, ClientOptions, ErrorReason, RetryPolicy};
use basalt_server::{Config, Memory};

use crate::{
    nodes::{cluster, command},
    promises::{number, reason},
    serve,
};

async fn client(address: &str) -> Client {
    let options = ClientOptions::new().retry(RetryPolicy::never());
    Client::connect_with(address, options).await.unwrap()
}

/// Runs a statement that writes, and says how many rows it wrote.
async fn write(client: &Client, sql: &str) -> i64 {
    number(client, sql).await
}

/// One statement after the other, each at the next of some clients, with the number that it answers.
async fn all(clients: &[Client], statements: &[(&str, i64)]) {
    for ((sql, expected), client) in statements.iter().zip(clients.iter().cycle()) {
        assert_eq!(number(client, sql).await, *expected, "{sql}");
    }
}

const STATEMENTS: [(&str, i64); 26] = [
    ("CREATE TABLE t (k BIGINT NOT NULL, s TEXT, n INT) WITH (deletes = 'vectors')", 0),
    ("INSERT INTO t SELECT value, 'row ' || value, value % 10 FROM generate_series(1, 1000)", 1000),
    ("SELECT count(*) FROM t", 1000),
    ("UPDATE t SET n = n + 100, s = NULL WHERE k <= 500", 500),
    ("SELECT count(*) FROM t WHERE s IS NULL AND n >= 100", 500),
    ("SELECT count(DISTINCT k) FROM t", 1000),
    ("DELETE FROM t WHERE k > 900", 100),
    ("DELETE FROM t WHERE k IN (SELECT k FROM t WHERE n = 100) OR k = (SELECT max(k) FROM t)", 51),
    ("SELECT count(*) FROM t", 849),
    (
        "INSERT INTO t SELECT k, 'new', 0 FROM t WHERE k < 10 ON CONFLICT (k) DO UPDATE SET s = excluded.s, n = excluded.n",
        9,
    ),
    ("SELECT count(*) FROM t WHERE s = 'new'", 9),
    ("INSERT INTO t VALUES (1, 'x', 1), (5000, 'x', 1) ON CONFLICT (k) DO NOTHING", 1),
    ("INSERT INTO t (k, n) VALUES (2, 7), (5001, 8) ON CONFLICT (k) DO UPDATE SET n = t.n + excluded.n", 2),
    ("SELECT sum(n) FROM t WHERE k = 2 AND s = 'new'", 7),
    ("SELECT count(*) FROM t", 851),
    ("CREATE TABLE u AS SELECT n, count(*) AS cnt, min(k) AS low FROM t GROUP BY n", 19),
    ("SELECT sum(cnt) FROM u", 851),
    ("UPDATE t SET s = 'one of ' || u.cnt FROM u WHERE u.low = t.k", 19),
    ("SELECT count(*) FROM t WHERE s LIKE 'one of %'", 19),
    ("TRUNCATE u", 19),
    ("SELECT count(*) FROM u", 0),
    ("INSERT INTO u (n) VALUES (1)", 1),
    ("DELETE FROM u", 1),
    ("DROP TABLE u", 0),
    ("CREATE TABLE u (x DOUBLE)", 0),
    ("SELECT count(*) FROM u", 0),
];

#[tokio::test(flavor = "multi_thread")]
async fn statements_write_in_memory() {
    let address = serve("memory:", |_| {}).await;
    all(&[client(&address).await], &STATEMENTS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_write_to_a_store() {
    let store = tempfile::tempdir().unwrap();
    let address = serve(store.path().to_str().unwrap(), |_| {}).await;
    all(&[client(&address).await], &STATEMENTS).await;
    // Where deletions leave no vectors, an update writes the rest of a file again.
    let rewrites = STATEMENTS.map(|(sql, n)| (sql, n)).into_iter().skip(1).take(8);
    let address = client(&address).await;
    write(&address, "DROP TABLE t").await;
    write(&address, "CREATE TABLE t (k BIGINT NOT NULL, s TEXT, n INT) WITH (deletes = 'rewrite')").await;
    all(&[address], &rewrites.collect::<Vec<_>>()).await;
}

/// Each statement at another node than the one before.
#[tokio::test(flavor = "multi_thread")]
async fn statements_write_at_three_nodes() {
    let store = tempfile::tempdir().unwrap();
    let mut clients = Vec::new();
    for address in cluster(3, &store, |_| {}).await {
        clients.push(client(&address).await);
    }
    all(&clients, &STATEMENTS).await;
}

/// A deletion says what the newest version has, also of what a server that this one does not know has just written.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_takes_what_another_server_has_just_written() {
    let store = tempfile::tempdir().unwrap();
    let path = store.path().to_str().unwrap();
    let (a, b) = (client(&serve(path, |_| {}).await).await, client(&serve(path, |_| {}).await).await);
    write(&a, "CREATE TABLE t (k BIGINT, s TEXT)").await;
    while b.list_tables().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for k in 0..20 {
        write(&a, &format!("INSERT INTO t VALUES ({k}, 'x'), ({k}, NULL)")).await;
        assert_eq!(write(&b, &format!("DELETE FROM t WHERE k = {k} AND s <> 'y'")).await, 1, "{k}");
    }
    write(&a, "INSERT INTO t VALUES (20, NULL)").await;
    assert_eq!(write(&b, "DELETE FROM t").await, 21);
    assert_eq!(number(&b, "SELECT count(*) FROM t").await, 0);
}

/// Writers at all nodes add to the same rows, while others read: every addition is there at the end, and nobody sees a
/// half of one.
async fn nothing_is_lost(clients: Vec<Client>) {
    let first = clients[0].clone();
    write(&first, "CREATE TABLE sums (k INT, n BIGINT)").await;
    write(&first, "INSERT INTO sums SELECT value, 0 FROM generate_series(1, 50)").await;
    let done = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn({
        let (done, client) = (Arc::clone(&done), first.clone());
        async move {
            let mut reads = 0;
            while !done.load(Ordering::SeqCst) {
                // All rows have the same value in every version.
                assert_eq!(number(&client, "SELECT count(DISTINCT n) + count(*) FROM sums").await, 51);
                reads += 1;
            }
            reads
        }
    });
    let writers = clients.into_iter().map(|client| {
        tokio::spawn(async move {
            let mut added = 0;
            for _ in 0..8 {
                match client.sql("UPDATE sums SET n = n + 1").collect().await {
                    Ok(_) => added += 1,
                    // It is said that it was not done.
                    Err(error) => assert_eq!(error.reason(), ErrorReason::WriteConflict, "{error}"),
                }
            }
            added
        })
    });
    let mut added = 0;
    for writer in writers.collect::<Vec<_>>() {
        added += writer.await.unwrap();
    }
    done.store(true, Ordering::SeqCst);
    assert!(reader.await.unwrap() > 0);
    assert!(added > 0);
    assert_eq!(number(&first, "SELECT sum(n) FROM sums").await, 50 * added);
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_at_once_lose_nothing_in_memory() {
    let address = serve("memory:", |_| {}).await;
    let one = client(&address).await;
    nothing_is_lost(vec![one.clone(), one.clone(), one]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_at_once_lose_nothing_at_three_nodes() {
    let store = tempfile::tempdir().unwrap();
    let mut clients = Vec::new();
    for address in cluster(3, &store, |_| {}).await {
        clients.push(client(&address).await);
    }
    nothing_is_lost(clients).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_leaves_nothing() {
    let store = tempfile::tempdir().unwrap();
    let address = serve(store.path().to_str().unwrap(), |config: &mut Config| {
        config.memory = Memory::Bytes(96 << 20);
    })
    .await;
    let client = client(&address).await;
    write(&client, "CREATE TABLE t (k INT NOT NULL, s TEXT)").await;
    write(&client, "INSERT INTO t VALUES (1, 'a'), (2, 'b')").await;
    let version = client.table("t").await.unwrap().table.version;
    for (sql, expected) in [
        ("INSERT INTO t SELECT 2147483000 + value, 'x' FROM generate_series(1, 1000)", ErrorReason::Overflow),
        ("INSERT INTO t VALUES (3, 'c'), (NULL, 'd')", ErrorReason::InvalidBatch),
        ("INSERT INTO t SELECT k, repeat('x', 2000000) FROM t", ErrorReason::InvalidBatch),
        ("UPDATE t SET k = 1 / (k - 1)", ErrorReason::DivisionByZero),
        ("UPDATE t SET s = o.s FROM (VALUES ('x'), ('y')) AS o (s)", ErrorReason::InvalidQuery),
        ("DELETE FROM t WHERE 1 / (k - 1) = 1", ErrorReason::DivisionByZero),
        ("CREATE TABLE u AS SELECT 1 / (k - 2) AS x FROM t", ErrorReason::DivisionByZero),
        ("CREATE TABLE t AS SELECT 1 AS x", ErrorReason::TableExists),
        ("CREATE TABLE t (x INT)", ErrorReason::TableExists),
        ("BEGIN", ErrorReason::InvalidQuery),
    ] {
        let result = client.sql(sql).collect().await;
        assert_eq!(reason(result), expected, "{sql}");
    }
    assert_eq!(client.table("t").await.unwrap().table.version, version);
    // The table of the query that failed goes in the background.
    for _ in 0..500 {
        if client.list_tables().await.unwrap().len() == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(number(&client, "SELECT sum(k) FROM t").await, 3);
    assert_eq!(client.list_tables().await.unwrap().len(), 1);
}

/// More rows than a fragment has, by a statement that reads them from the same table.
#[tokio::test(flavor = "multi_thread")]
async fn many_rows_are_one_version() {
    let store = tempfile::tempdir().unwrap();
    let address = serve(store.path().to_str().unwrap(), |_| {}).await;
    let client = client(&address).await;
    write(&client, "CREATE TABLE t AS SELECT value AS k FROM generate_series(1, 1200000)").await;
    let before = client.table("t").await.unwrap().table;
    assert!(before.fragments >= 2, "{before:?}");
    assert_eq!(write(&client, "UPDATE t SET k = -k WHERE k % 2 = 0").await, 600_000);
    let after = client.table("t").await.unwrap().table;
    assert_eq!((after.rows, after.version), (1_200_000, before.version + 1));
    assert_eq!(number(&client, "SELECT sum(k) FROM t").await, -600_000);
    let sql = format!("SELECT sum(k) FROM t FOR VERSION AS OF {}", before.version);
    assert_eq!(number(&client, &sql).await, 1_200_000 * 1_200_001 / 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_says_what_was_written() {
    let address = serve("memory:", |_| {}).await;
    for sql in [
        "CREATE TABLE t (k INT)",
        "INSERT INTO t VALUES (1), (2)",
        "UPDATE t SET k = 3 WHERE k = 1",
        "DELETE FROM t WHERE k = 3",
        "DROP TABLE t",
    ] {
        command(&address, &["query", sql]).await.unwrap();
    }
    let error = command(&address, &["query", "DROP TABLE t"]).await.unwrap_err();
    assert!(error.contains("TABLE_NOT_FOUND") || error.contains("no table"), "{error}");
}
