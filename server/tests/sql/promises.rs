//! What the engine promises, of SQL: one version a table, memory and time within their limits, errors with reasons.

use std::{sync::Arc, time::Duration};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, cast::AsArray as _, types::Int64Type};
use basalt_client::{Client, ClientOptions, Code, Error, ErrorReason, RetryPolicy};
use basalt_server::{Config, Memory};

use crate::{
    nodes::{cluster, command},
    serve,
};

/// A batch of `key` and `text`.
fn rows(keys: std::ops::Range<i64>) -> RecordBatch {
    let columns: [(&str, ArrayRef); 2] = [
        ("key", Arc::new(Int64Array::from_iter_values(keys.clone()))),
        ("text", Arc::new(StringArray::from_iter_values(keys.map(|key| format!("text {key}"))))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

pub(crate) async fn filled(address: &str, table: &str, keys: std::ops::Range<i64>) -> Client {
    let options = ClientOptions::new().retry(RetryPolicy::never());
    let client = Client::connect_with(address, options).await.unwrap();
    let batch = rows(keys);
    client.create_table_if_missing(table, &batch.schema()).await.unwrap();
    client.write_all(table, &[batch]).await.unwrap();
    client
}

pub(crate) async fn number(client: &Client, sql: &str) -> i64 {
    let answer = client.sql(sql).collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    answer.batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

pub(crate) fn reason(result: Result<impl std::fmt::Debug, Error>) -> ErrorReason {
    result.map(|answer| panic!("{answer:?}")).unwrap_err().reason()
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_reasons_and_places() {
    let address = serve("memory:", |_| {}).await;
    let client = filled(&address, "t", 0..10).await;
    for (sql, expected) in [
        ("SELECT", ErrorReason::InvalidQuery),
        ("DROP TABLE nowhere", ErrorReason::TableNotFound),
        ("SELECT nothing FROM t", ErrorReason::ColumnNotFound),
        ("SELECT 1 FROM nowhere", ErrorReason::TableNotFound),
        ("SELECT 1 FROM t FOR VERSION AS OF 77", ErrorReason::VersionGone),
        ("SELECT key + 9223372036854775807 FROM t WHERE key > 3", ErrorReason::Overflow),
        ("SELECT a.key + 9223372036854775807 FROM t a JOIN t b ON a.key = b.key", ErrorReason::Overflow),
        (
            "SELECT sum(k) FROM (SELECT 9223372036854775807 AS k FROM t UNION ALL SELECT 1) u",
            ErrorReason::Overflow,
        ),
        ("SELECT 1 / (key - key) FROM t", ErrorReason::DivisionByZero),
        ("SELECT CAST(text AS BIGINT) FROM t", ErrorReason::TypeMismatch),
        // What is left out might be its condition as well.
        ("DELETE t", ErrorReason::InvalidQuery),
    ] {
        assert_eq!(reason(client.sql(sql).collect().await), expected, "{sql}");
    }
    let any = "SELECT key FROM t WHERE key = ANY($1)";
    assert_eq!(client.sql(any).bind("{1,2}").collect().await.unwrap().rows, 2);
    let list = client.sql(any).bind("1,2").collect().await.unwrap_err();
    assert!(list.to_string().contains("a list as one parameter or text"), "{list}");
    let error = client.sql("SELECT key,\n  nothing FROM t").collect().await.unwrap_err();
    let server = error.server().unwrap();
    assert_eq!((server.code, server.places[0].field.as_str()), (Code::NotFound, "line 2, column 3"));
    assert_eq!(number(&client, "SELECT count(*) FROM t").await, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_comes_meanwhile_is_not_seen() {
    let address = serve("memory:", |_| {}).await;
    let client = filled(&address, "t", 0..200_000).await;
    // The answer is larger than what is sent before it is read: the scan of `b` has not ended when rows are added.
    let sql = "SELECT a.key FROM t a UNION ALL SELECT b.key FROM t b";
    let mut stream = client.sql(sql).stream().await.unwrap();
    let first = stream.next().await.unwrap().unwrap().num_rows() as u64;
    client.write_all("t", &[rows(0..200_000)]).await.unwrap();
    let mut seen = first;
    while let Some(batch) = stream.next().await.unwrap() {
        seen += batch.num_rows() as u64;
    }
    assert_eq!(seen, 400_000);
    assert_eq!(stream.versions()[0].table, "t");
    assert_eq!(stream.versions()[0].version + 1, client.table("t").await.unwrap().table.version);
    assert_eq!(number(&client, "SELECT count(*) FROM t").await, 400_000);
    let before = format!("SELECT count(*) FROM t FOR VERSION AS OF {}", stream.versions()[0].version);
    assert_eq!(number(&client, &before).await, 200_000);
}

/// Memory of queries, as the metrics tell it.
async fn held(client: &Client) -> u64 {
    client.cluster().await.unwrap().nodes[0].memory_bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_bounded_and_given_back() {
    let address = serve("memory:", |config: &mut Config| config.memory = Memory::Bytes(96 << 20)).await;
    let client = filled(&address, "t", 0..300_000).await;
    let before = held(&client).await;
    let groups = "SELECT text || text || text || text AS x, count(*) FROM t GROUP BY 1";
    let large =
        format!("SELECT a.x || b.x, count(*) FROM ({groups}) a JOIN ({groups}) b ON a.x <> b.x GROUP BY 1");
    assert_eq!(reason(client.sql(large).collect().await), ErrorReason::MemoryLimit);
    settled(&client, before).await;
    // One that nobody reads any longer.
    let sort = "SELECT a.key, b.text FROM t a JOIN t b ON a.key = b.key ORDER BY b.text DESC";
    let mut stream = client.sql(sort).stream().await.unwrap();
    assert!(stream.next().await.unwrap().is_some());
    drop(stream);
    settled(&client, before).await;
    assert_eq!(number(&client, "SELECT count(*) FROM t a JOIN t b ON a.key = b.key").await, 300_000);
}

async fn settled(client: &Client, before: u64) {
    for _ in 0..500 {
        if held(client).await <= before {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} bytes are held, {before} were", held(client).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_ends_a_statement() {
    let address = serve("memory:", |_| {}).await;
    let client = filled(&address, "t", 0..100_000).await.with_deadline(Duration::from_millis(500));
    let sql = "SELECT count(*) FROM t a, t b, t c WHERE a.key + b.key + c.key = 7";
    let started = std::time::Instant::now();
    let error = client.sql(sql).collect().await.unwrap_err();
    // The server's word may come first.
    let over = matches!(error, Error::Deadline) || error.reason() == ErrorReason::DeadlineExceeded;
    assert!(over, "{error}");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

/// What nobody waits for any longer keeps nobody else waiting: frames of many values are looked at one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_ends_the_windows_of_a_statement() {
    let address = serve("memory:", |config| config.threads = 2).await;
    let client = filled(&address, "t", 0..10).await;
    let brief = client.clone().with_deadline(Duration::from_millis(500));
    for function in ["mode(x)", "quantile_cont(x, 0.5)", "median(x::VARCHAR)"] {
        let sql = format!(
            "SELECT max(m) FROM (SELECT {function} OVER (ORDER BY x ROWS BETWEEN 4000 PRECEDING AND 4000 FOLLOWING) AS m \
             FROM range(0, 100000) AS r (x)) AS w"
        );
        let (one, other) = tokio::join!(brief.sql(&sql).collect(), brief.sql(&sql).collect());
        assert!(one.is_err() && other.is_err(), "{function}");
        let asked = tokio::time::timeout(Duration::from_secs(20), number(&client, "SELECT count(*) FROM t"));
        assert_eq!(asked.await.expect(function), 10);
    }
}

/// A write at one node is seen by a statement at another one.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_read_what_was_acknowledged() {
    let store = tempfile::tempdir().unwrap();
    let addresses = cluster(3, &store, |_| {}).await;
    let first = filled(&addresses[0], "t", 0..1000).await;
    for (i, address) in (1..).zip(addresses.iter().cycle().skip(1).take(6)) {
        let client = Client::connect(address).await.unwrap();
        assert_eq!(number(&client, "SELECT count(*) FROM t a JOIN t b USING (key)").await, i * 1000);
        first.write_all("t", &[rows(i * 1000..(i + 1) * 1000)]).await.unwrap();
    }
}

/// `basalt query` asks the server's SQL, and the typed API for what only the client's parser knows.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_has_joins() {
    let address = serve("memory:", |_| {}).await;
    filled(&address, "t", 0..10).await;
    for sql in [
        "SELECT a.text FROM t a JOIN t b ON a.key = b.key WHERE b.key = 3",
        "SELECT _row_address FROM t LIMIT 1",
        "WITH x AS (SELECT key FROM t) SELECT max(key) FROM x",
    ] {
        for format in ["table", "json", "csv"] {
            command(&address, &["query", sql, "--format", format]).await.unwrap();
        }
    }
    let error =
        command(&address, &["query", "SELECT key, nothing FROM t JOIN t b USING (key)"]).await.unwrap_err();
    assert!(error.contains("line 1, column 13"), "{error}");
}
