//! Columns that the engine holds in the form of another type are what they are in SQL, on one node and on three.

use arrow_array::{RecordBatch, cast::AsArray as _, types::Decimal128Type};
use arrow_schema::{DataType, TimeUnit};
use basalt_client::Client;

use crate::{nodes::cluster, promises::number, serve};

const STATEMENTS: [(&str, i64); 19] = [
    ("CREATE TABLE w (k INT NOT NULL, d DECIMAL(38, 4), b BYTEA, \"t t\" TIME)", 0),
    (
        "INSERT INTO w VALUES (1, 1234567890123456789012345678901234.5678, 'a', '10:30:00'), \
         (2, -0.0001, 'b', '23:59:59.999999'), (3, NULL, NULL, NULL), (4, 7, 'a', '00:00:00')",
        4,
    ),
    ("SELECT count(*) FROM w WHERE d > 6.5", 2),
    ("SELECT count(*) FROM w WHERE d = -0.0001", 1),
    ("SELECT count(*) FROM w WHERE d IS NULL AND b IS NULL AND \"t t\" IS NULL", 1),
    ("SELECT CAST(k AS BIGINT) FROM w ORDER BY d DESC NULLS LAST LIMIT 1", 1),
    ("SELECT CAST(k AS BIGINT) FROM w ORDER BY d LIMIT 1", 2),
    ("SELECT count(*) FROM w WHERE b = CAST('a' AS BYTEA)", 2),
    ("SELECT count(*) FROM (SELECT b, count(*) FROM w GROUP BY b)", 3),
    ("SELECT count(*) FROM w x JOIN w y ON x.d = y.d AND x.b = y.b", 3),
    ("SELECT count(*) FROM w WHERE \"t t\" < '12:00:00'", 2),
    ("SELECT count(*) FROM w WHERE \"t t\" >= TIME '23:59:59.999999'", 1),
    ("SELECT CAST(sum(extract(hour FROM \"t t\")) AS BIGINT) FROM w", 33),
    ("SELECT CAST(sum(d) AS BIGINT) FROM w WHERE k > 1", 6),
    ("UPDATE w SET d = d * 2, b = 'c' WHERE k = 4", 1),
    ("SELECT count(*) FROM w WHERE d = 14 AND b = CAST('c' AS BYTEA)", 1),
    ("CREATE TABLE v AS SELECT k, d, b, \"t t\" FROM w WHERE d IS NOT NULL", 3),
    ("SELECT count(*) FROM v JOIN w ON v.d = w.d AND v.\"t t\" = w.\"t t\"", 3),
    ("DELETE FROM w WHERE d < 0", 1),
];

async fn check(clients: &[Client]) {
    for ((sql, expected), client) in STATEMENTS.iter().zip(clients.iter().cycle()) {
        assert_eq!(number(client, sql).await, *expected, "{sql}");
    }
    for client in clients {
        let answer = client.sql("SELECT d, b, \"t t\" FROM v WHERE k = 1").collect().await.unwrap();
        let types: Vec<_> = answer.schema.fields().iter().map(|f| f.data_type().clone()).collect();
        let time = DataType::Time64(TimeUnit::Microsecond);
        assert_eq!(types, [DataType::Decimal128(38, 4), DataType::Binary, time]);
        let batch = answer.batches.iter().find(|batch| RecordBatch::num_rows(batch) == 1).unwrap();
        let value = batch.column(0).as_primitive::<Decimal128Type>().value(0);
        assert_eq!(value, 12_345_678_901_234_567_890_123_456_789_012_345_678);
        assert_eq!(batch.column(1).as_binary::<i32>().value(0), b"a");
    }
    // Beyond 38 digits is an error, never another number.
    let error = clients[0].sql("SELECT d * 100000 FROM v WHERE k = 1").collect().await.unwrap_err();
    assert!(error.to_string().to_lowercase().contains("overflow"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wide_types_in_sql() {
    let address = serve("memory:", |_| {}).await;
    check(&[Client::connect(&address).await.unwrap()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wide_types_on_three_nodes() {
    let store = tempfile::tempdir().unwrap();
    let mut clients = Vec::new();
    for address in cluster(3, &store, |_| {}).await {
        clients.push(Client::connect(&address).await.unwrap());
    }
    check(&clients).await;
}
