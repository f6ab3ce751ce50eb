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
        let queries = client.running_queries().await.unwrap();
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
        let left = async { client.running_queries().await.unwrap().len() };
        assert_eq!(left.await, 0, "what is over is listed");
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
        ("SELECT count(*) FROM system.sets", 0),
        ("SELECT count(*) FROM information_schema.tables WHERE table_schema = 'system'", 0),
        ("SELECT sum(rows) FROM system.node_tables WHERE lag = 0", 1010),
    ] {
        assert_eq!(number(&client, sql).await, expected, "{sql}");
    }
    let memory = serve("memory:", |_| {}).await;
    let client = filled(&memory, "t", 0..1000).await;
    let sql = "SELECT sum(rows) FROM system.fragments WHERE bytes > 0 AND file IS NULL";
    assert_eq!(number(&client, sql).await, 1000);
}
