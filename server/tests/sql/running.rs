//! Queries that run are seen and stopped by whatever door, and the schema `system` shows the server.

use std::time::Duration;

use basalt_client::{
    Client, ErrorReason,
    queries::{QueryState, RunningQuery},
};
use tokio::time::sleep;

use crate::{
    promises::{filled, number, reason},
    serve,
};

/// It takes longer than anybody waits.
const LONG: &str = "SELECT count(*) FROM t AS a, t AS b, t AS c WHERE a.key + b.key * c.key = 7";

/// The query whose text begins so, once it runs.
async fn running(client: &Client, text: &str) -> RunningQuery {
    for _ in 0..1000 {
        let queries = client.running_queries().await.unwrap().queries;
        let found = queries.into_iter().find(|query| query.text.starts_with(text));
        if let Some(query) = found.filter(|query| query.state == QueryState::Running) {
            return query;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("{text} does not run");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_is_seen_and_stopped() {
    let address = serve("memory:", |_| {}).await;
    let client = filled(&address, "t", 0..20_000).await;
    for by_sql in [false, true] {
        let other = client.clone();
        let long = tokio::spawn(async move { other.sql(LONG).collect().await });
        let seen = running(&client, LONG).await;
        assert_eq!((seen.method.as_str(), seen.rows), ("Sql", 0));
        assert!(seen.caller.starts_with("127.0.0.1:") && seen.elapsed < Duration::from_secs(60));
        match by_sql {
            true => assert_eq!(number(&client, &format!("cancel query '{}';", seen.id)).await, 0),
            false => client.cancel_query(&seen.id).await.unwrap(),
        }
        assert_eq!(reason(long.await.unwrap()), ErrorReason::Cancelled);
        assert_eq!(reason(client.cancel_query("no query").await), ErrorReason::QueryNotFound);
        let left = async { client.running_queries().await.unwrap().queries.len() };
        assert_eq!(left.await, 0, "what is over is listed");
    }
}

/// All rows of a key with each other, and a condition that none of them meets: the join makes no row for minutes.
const NO_ROW: &str =
    "SELECT count(*) FROM t AS a JOIN t AS b ON a.key % 2 = b.key % 2 WHERE a.key + b.key * 3 < 0";

/// Others are not kept waiting, and it ends where it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_join_that_makes_no_row_is_stopped_and_lets_others_on() {
    let address = serve("memory:", |_| {}).await;
    let client = filled(&address, "t", 0..400_000).await;
    let asked: Vec<_> = (0..4)
        .map(|_| {
            let other = client.clone();
            tokio::spawn(async move { other.sql(NO_ROW).collect().await })
        })
        .collect();
    running(&client, NO_ROW).await;
    sleep(Duration::from_millis(500)).await;
    let answered = tokio::time::timeout(Duration::from_secs(10), number(&client, "SELECT 1"));
    assert_eq!(answered.await.unwrap(), 1);
    for query in client.running_queries().await.unwrap().queries {
        client.cancel_query(&query.id).await.unwrap();
    }
    for query in asked {
        let ended = tokio::time::timeout(Duration::from_secs(10), query).await.unwrap();
        assert_eq!(reason(ended.unwrap()), ErrorReason::Cancelled);
    }
    let answered = tokio::time::timeout(Duration::from_secs(10), number(&client, "SELECT 1"));
    assert_eq!(answered.await.unwrap(), 1);
}

/// Whoever gives up while the table is made leaves none.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_a_query_that_was_given_up_goes() {
    let store = tempfile::tempdir().unwrap();
    let address = serve(&format!("file://{}", store.path().display()), |_| {}).await;
    let client = filled(&address, "t", 0..300_000).await;
    for millis in (0..60).step_by(3) {
        let made = client.sql("CREATE TABLE made AS SELECT * FROM t").collect();
        let _ = tokio::time::timeout(Duration::from_millis(millis), made).await;
        let mut tries = 0;
        // It may have been done; otherwise it goes soon.
        while let Ok(table) = client.table_summary("made").await
            && table.rows == 0
        {
            tries += 1;
            assert!(tries < 500, "{millis} ms");
            sleep(Duration::from_millis(10)).await;
        }
        client.drop_table_if_exists("made").await.unwrap();
    }
}

/// One whose rows nobody takes holds memory, and is to be found, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_whose_answer_nobody_reads_is_seen_and_stopped() {
    let address = serve("memory:", |_| {}).await;
    let client = filled(&address, "t", 0..2_000_000).await;
    let mut unread = client.query("t").stream().await.unwrap();
    let seen = running(&client, "SELECT * FROM t").await;
    assert_eq!(seen.method, "Query");
    client.cancel_query(&seen.id).await.unwrap();
    let end = loop {
        match unread.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("all rows came"),
            Err(error) => break error,
        }
    };
    assert_eq!(end.reason(), ErrorReason::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_is_tables_of_its_own() {
    let store = tempfile::tempdir().unwrap();
    let address = serve(&format!("file://{}", store.path().display()), |_| {}).await;
    let client = filled(&address, "t", 0..1000).await;
    filled(&address, "u", 0..10).await;
    for (sql, expected) in [
        ("SELECT count(*) FROM system.queries WHERE text LIKE '%FROM system.queries%'", 1),
        (
            "SELECT count(*) FROM system.queries WHERE started > now() - interval '1 minute' AND state = 'planning'",
            1,
        ),
        ("SELECT sum(rows) FROM system.tables", 1010),
        (
            "SELECT count(*) FROM system.columns c JOIN system.tables t ON c.table_name = t.name WHERE c.rows = t.rows",
            4,
        ),
        ("SELECT count(*) FROM system.columns WHERE bits_per_value > 0 AND encodings <> ''", 4),
        (
            "SELECT sum(live_rows) FROM system.fragments WHERE table_name = 't' AND bytes > 0 AND file <> ''",
            1000,
        ),
        ("SELECT count(*) FROM system.nodes WHERE own AND state = 'alive' AND memory_limit_bytes > 0", 1),
        ("SELECT count(*) FROM system.queries WHERE node IS NULL AND problem IS NULL", 1),
        ("SELECT count(*) FROM system.sets", 0),
        ("SELECT count(*) FROM system.versions WHERE version = 0 AND rows = 0 AND operation = 'CREATE TABLE'", 2),
        (
            "SELECT max(v.rows) FROM system.versions v JOIN system.tables t ON v.table_name = t.name AND v.version = t.version
             WHERE v.committed > now() - interval '1 hour'",
            1000,
        ),
        ("SELECT count(*) FROM information_schema.tables WHERE table_schema = 'system'", 0),
        ("SELECT sum(rows) FROM system.node_tables WHERE lag = 0", 1010),
    ] {
        assert_eq!(number(&client, sql).await, expected, "{sql}");
    }
    let memory = serve("memory:", |_| {}).await;
    let client = filled(&memory, "t", 0..1000).await;
    let sql = "SELECT sum(rows) FROM system.fragments WHERE bytes > 0 AND file IS NULL";
    assert_eq!(number(&client, sql).await, 1000);
    let sql = "SELECT max(rows) FROM system.versions WHERE committed IS NULL AND operation IS NULL";
    assert_eq!(number(&client, sql).await, 1000);
}
