//! Tables whose columns change: what is there stays readable, by the old columns at old versions and by the new ones at
//! new versions, at every node and behind a restart.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use basalt_client::{Client, ErrorReason};

use crate::{
    nodes::cluster,
    promises::{number, reason},
    serve,
};

/// A text that a query answers.
async fn text(client: &Client, sql: &str) -> String {
    let answer = client.sql(sql).collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let column = answer.batches[0].column(0);
    arrow_array::cast::AsArray::as_string::<i32>(column).value(0).to_owned()
}

async fn all(clients: &[Client], statements: &[(&str, i64)]) {
    for ((sql, expected), client) in statements.iter().zip(clients.iter().cycle()) {
        assert_eq!(number(client, sql).await, *expected, "{sql}");
    }
}

async fn version(client: &Client) -> u64 {
    client.table("t").await.unwrap().table.version
}

async fn columns_change(clients: &[Client]) -> Vec<(String, i64)> {
    all(
        clients,
        &[
            (
                "CREATE TABLE t (k INT NOT NULL, s TEXT, f REAL, d DECIMAL(4, 2)) WITH (deletes = 'vectors')",
                0,
            ),
            ("INSERT INTO t SELECT value, 'row ' || value, value, 1.25 FROM generate_series(1, 1000)", 1000),
            ("DELETE FROM t WHERE k > 990", 10),
        ],
    )
    .await;
    let first = version(&clients[0]).await;
    all(
        clients,
        &[
            ("ALTER TABLE t ADD COLUMN n BIGINT", 0),
            ("SELECT count(*) FROM t WHERE n IS NULL", 990),
            ("UPDATE t SET n = k WHERE k <= 10", 10),
            ("INSERT INTO t (k, n) VALUES (2000, 5)", 1),
            ("SELECT sum(n) FROM t", 60),
            ("ALTER TABLE t ALTER COLUMN k TYPE BIGINT", 0),
            ("INSERT INTO t (k) VALUES (3000000000)", 1),
            ("SELECT max(k) FROM t", 3_000_000_000),
            ("SELECT count(*) FROM t WHERE k BETWEEN 1 AND 990", 990),
            ("ALTER TABLE t ALTER f TYPE DOUBLE, ALTER d TYPE DECIMAL(10, 2)", 0),
            ("INSERT INTO t (k, f, d) VALUES (4000, 1e300, 12345678.25)", 1),
            ("SELECT CAST(sum(d) * 100 AS BIGINT) FROM t", 990 * 125 + 1_234_567_825),
            ("SELECT CAST(sum(f) AS BIGINT) FROM t WHERE f < 1e200", 990 * 991 / 2),
            ("ALTER TABLE t ALTER k DROP NOT NULL", 0),
            ("INSERT INTO t (s) VALUES ('no key')", 1),
            ("SELECT count(*) FROM t WHERE k IS NULL", 1),
        ],
    )
    .await;
    let second = version(&clients[0]).await;
    all(
        clients,
        &[
            ("ALTER TABLE t RENAME COLUMN s TO label", 0),
            ("SELECT count(*) FROM t WHERE label LIKE 'row %'", 990),
            ("ALTER TABLE t DROP COLUMN f", 0),
            ("INSERT INTO t (k, label) VALUES (1, 'again')", 1),
            ("ALTER TABLE t ADD COLUMN f TEXT", 0),
            // It is another column than the one that had its name.
            ("SELECT count(*) FROM t WHERE f IS NOT NULL", 0),
            ("UPDATE t SET f = 'text' WHERE label = 'again'", 1),
            ("DELETE FROM t WHERE k IS NULL", 1),
            ("SELECT count(*) FROM t WHERE f = 'text' AND label = 'again'", 1),
            ("ALTER TABLE t ALTER COLUMN k SET NOT NULL", 0),
            ("SELECT count(*) FROM t", 994),
        ],
    )
    .await;
    vec![
        ("SELECT count(*) FROM t".to_owned(), 994),
        ("SELECT count(DISTINCT label) FROM t".to_owned(), 991),
        (format!("SELECT count(s) FROM t FOR VERSION AS OF {first}"), 990),
        (format!("SELECT CAST(sum(f) AS BIGINT) FROM t FOR VERSION AS OF {first}"), 990 * 991 / 2),
        (format!("SELECT count(*) FROM t FOR VERSION AS OF {second} WHERE k IS NULL AND s = 'no key'"), 1),
        (format!("SELECT count(*) FROM t JOIN t FOR VERSION AS OF {first} AS o ON t.label = o.s"), 990),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_change_and_old_versions_are_read() {
    let store = tempfile::tempdir().unwrap();
    let url = store.path().to_str().unwrap();
    let client = Client::connect(&serve(url, |_| {}).await).await.unwrap();
    let answers = columns_change(std::slice::from_ref(&client)).await;
    // Another server on the same store has not seen any of it.
    let other = Client::connect(&serve(url, |_| {}).await).await.unwrap();
    for (sql, expected) in &answers {
        assert_eq!(number(&client, sql).await, *expected, "{sql}");
        assert_eq!(number(&other, sql).await, *expected, "another server: {sql}");
    }
    assert_eq!(
        text(&client, "SHOW CREATE TABLE t").await,
        "CREATE TABLE \"t\" (\"k\" BIGINT NOT NULL, \"label\" VARCHAR, \"d\" DECIMAL(10, 2), \"n\" BIGINT, \"f\" VARCHAR)"
    );
    for (sql, expected) in [
        ("ALTER TABLE t ADD COLUMN label INT", ErrorReason::InvalidSchema),
        ("ALTER TABLE t ADD COLUMN x INT NOT NULL", ErrorReason::InvalidSchema),
        ("ALTER TABLE t DROP COLUMN x", ErrorReason::ColumnNotFound),
        ("ALTER TABLE t RENAME COLUMN label TO d", ErrorReason::InvalidSchema),
        ("ALTER TABLE t ALTER k TYPE INT", ErrorReason::InvalidSchema),
        ("ALTER TABLE t ALTER d TYPE DECIMAL(11, 4)", ErrorReason::InvalidSchema),
        ("ALTER TABLE t ALTER n SET NOT NULL", ErrorReason::InvalidSchema),
        ("ALTER TABLE t ALTER k SET DEFAULT 1", ErrorReason::InvalidQuery),
        ("ALTER TABLE t RENAME TO u", ErrorReason::InvalidQuery),
        ("ALTER TABLE nowhere ADD COLUMN x INT", ErrorReason::TableNotFound),
        ("INSERT INTO t (label) VALUES ('x')", ErrorReason::InvalidBatch),
    ] {
        assert_eq!(reason(client.sql(sql).collect().await), expected, "{sql}");
    }
    assert_eq!(number(&client, "SELECT count(*) FROM t").await, 994);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_a_table_makes_it_again() {
    let store = tempfile::tempdir().unwrap();
    let client = Client::connect(&serve(store.path().to_str().unwrap(), |_| {}).await).await.unwrap();
    let created = "CREATE TABLE \"t\" (\"k\" BIGINT NOT NULL, \"at\" TIMESTAMP) WITH \
                   (retention = '3600 seconds', retention_column = 'at', deletes = 'rewrite', \"optimize.k\" = 'size')";
    for _ in 0..2 {
        client.sql(created).collect().await.unwrap();
        assert_eq!(text(&client, "SHOW CREATE TABLE t").await, created);
        client.sql("DROP TABLE t").collect().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_columns_are_optimized_for_changes_and_nothing_else() {
    let store = tempfile::tempdir().unwrap();
    let client = Client::connect(&serve(store.path().to_str().unwrap(), |_| {}).await).await.unwrap();
    let one = std::slice::from_ref(&client);
    let counted = "SELECT count(*) FROM t WHERE s = 3 AND k > 500";
    let rows = "INSERT INTO t SELECT value, value % 7 FROM generate_series(1, 1000)";
    let before = [("CREATE TABLE t (k INT, s INT) WITH (optimize = 'size')", 0), (rows, 1000), (counted, 71)];
    all(one, &before).await;
    let shown = async || text(&client, "SHOW CREATE TABLE t").await;
    let created = "CREATE TABLE \"t\" (\"k\" INTEGER, \"s\" INTEGER)";
    assert_eq!(shown().await, format!("{created} WITH (\"optimize.k\" = 'size', \"optimize.s\" = 'size')"));
    let alter = "ALTER TABLE t SET (\"optimize.s\" = 'speed', optimize = 'balanced')";
    all(one, &[(alter, 0), (counted, 71), (rows, 1000), (counted, 142)]).await;
    assert_eq!(shown().await, format!("{created} WITH (\"optimize.s\" = 'speed')"));
    for (sql, expected) in [
        ("ALTER TABLE t SET (optimize = 'luck')", ErrorReason::InvalidSchema),
        ("ALTER TABLE t SET (\"optimize.x\" = 'size')", ErrorReason::ColumnNotFound),
        ("ALTER TABLE t SET (colour = 'red')", ErrorReason::InvalidQuery),
    ] {
        assert_eq!(reason(client.sql(sql).collect().await), expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_change_at_three_nodes() {
    let store = tempfile::tempdir().unwrap();
    let mut clients = Vec::new();
    for address in cluster(3, &store, |_| {}).await {
        clients.push(Client::connect(&address).await.unwrap());
    }
    let answers = columns_change(&clients).await;
    for (sql, expected) in &answers {
        for client in &clients {
            assert_eq!(number(client, sql).await, *expected, "{sql}");
        }
    }
}

/// Their file has the nulls still, in rows that are deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_column_whose_nulls_went_is_told_to_have_none() {
    let store = tempfile::tempdir().unwrap();
    let url = store.path().to_str().unwrap();
    let client = Client::connect(&serve(url, |_| {}).await).await.unwrap();
    let one = std::slice::from_ref(&client);
    let statements = [
        ("CREATE TABLE t (id BIGINT, c TEXT, n DECIMAL(38, 2))", 0),
        ("INSERT INTO t VALUES (1, 'a', 1), (2, NULL, 2), (3, 'c', NULL), (4, 'd', 4)", 4),
    ];
    all(one, &statements).await;
    let first = version(&client).await;
    let statements = [
        ("UPDATE t SET c = 'filled' WHERE c IS NULL", 1),
        ("DELETE FROM t WHERE n IS NULL", 1),
        ("ALTER TABLE t ALTER c SET NOT NULL", 0),
        ("SELECT count(*) FROM t WHERE c <> ''", 3),
        ("ALTER TABLE t ALTER n SET NOT NULL", 0),
        ("SELECT CAST(sum(n) AS BIGINT) FROM t WHERE c >= 'a'", 7),
        // One that the first file does not have.
        ("CREATE TABLE u (id BIGINT)", 0),
        ("INSERT INTO u VALUES (1), (2), (3)", 3),
        ("ALTER TABLE u ADD COLUMN later BIGINT", 0),
        ("INSERT INTO u VALUES (4, 4), (5, NULL)", 2),
        ("UPDATE u SET later = id WHERE id <= 2", 2),
        ("DELETE FROM u WHERE later IS NULL", 2),
        ("ALTER TABLE u ALTER later SET NOT NULL", 0),
    ];
    all(one, &statements).await;
    client.sql("SELECT * FROM t").collect().await.unwrap();
    client.sql("SELECT * FROM u").collect().await.unwrap();
    for sql in ["INSERT INTO t VALUES (7, NULL, 7)", "INSERT INTO u VALUES (7, NULL)"] {
        assert_eq!(reason(client.sql(sql).collect().await), ErrorReason::InvalidBatch, "{sql}");
    }
    // Another server has none of it in memory.
    let other = Client::connect(&serve(url, |_| {}).await).await.unwrap();
    let old = format!("SELECT count(c) FROM t FOR VERSION AS OF {first}");
    for client in [&client, &other] {
        for (sql, expected) in [
            ("SELECT count(*) FROM t WHERE c IS NOT NULL AND n > 0", 3),
            ("SELECT count(*) FROM t WHERE c = 'filled' AND n = 2", 1),
            ("SELECT min(id) FROM t WHERE n > 1", 2),
            ("SELECT sum(later) FROM u", 7),
            (&*old, 3),
            ("SELECT count(*) FROM t", 3),
        ] {
            assert_eq!(number(client, sql).await, expected, "{sql}");
        }
        client.sql("SELECT * FROM t").collect().await.unwrap();
    }
}

/// What is written meanwhile is planned again with the columns that there are by then.
#[tokio::test(flavor = "multi_thread")]
async fn columns_change_beside_statements_that_write() {
    let store = tempfile::tempdir().unwrap();
    let client = Client::connect(&serve(store.path().to_str().unwrap(), |_| {}).await).await.unwrap();
    let one = std::slice::from_ref(&client);
    all(one, &[("CREATE TABLE t (k INT, n BIGINT)", 0)]).await;
    all(one, &[("INSERT INTO t VALUES (0, 0)", 1)]).await;
    let done = Arc::new(AtomicBool::new(false));
    let writer = |sql: &'static str| {
        let (client, done) = (client.clone(), Arc::clone(&done));
        tokio::spawn(async move {
            let mut written = 0;
            while !done.load(Ordering::SeqCst) {
                written += number(&client, sql).await;
            }
            written
        })
    };
    let inserts = writer("INSERT INTO t (k, n) VALUES (1, 0)");
    let updates = writer("UPDATE t SET n = n + 1 WHERE k = 0");
    for change in ["ADD COLUMN c INT", "DROP COLUMN c"].into_iter().cycle().take(16) {
        number(&client, &format!("ALTER TABLE t {change}")).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    done.store(true, Ordering::SeqCst);
    let (inserted, updated) = (inserts.await.unwrap(), updates.await.unwrap());
    assert_eq!(number(&client, "SELECT count(*) FROM t WHERE k = 1").await, inserted);
    assert_eq!(number(&client, "SELECT sum(n) FROM t").await, updated);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_in_memory_keeps_its_columns() {
    let client = Client::connect(&serve("memory:", |_| {}).await).await.unwrap();
    number(&client, "CREATE TABLE t (k INT)").await;
    let result = client.sql("ALTER TABLE t ADD COLUMN n INT").collect().await;
    assert_eq!(reason(result), ErrorReason::InvalidStore);
}
