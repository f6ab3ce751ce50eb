//! Keys that joins pass to scans, at nodes that have them sent: those of few rows, of very many, and of so many that they do
//! not travel.

use basalt_client::Client;

use crate::{nodes::cluster, promises::number, serve};

/// Rows whose keys lie so far apart that a set of all of them takes more than 2 MiB.
const ROWS: &str = "INSERT INTO t SELECT value * 11529215046068 + value * value % 1000003, value, 'row ' || value \
                    FROM generate_series(1, 400000)";

async fn joins(clients: &[Client]) {
    for (at, (sql, expected)) in [
        ("CREATE TABLE t (k BIGINT NOT NULL, n BIGINT, s TEXT)", 0),
        (ROWS, 400_000),
        ("SELECT count(*) FROM t a JOIN t b ON a.k = b.k WHERE a.n % 1000 = 0 AND b.n > 0", 400),
        ("SELECT sum(b.n) FROM t a JOIN t b ON a.k = b.k WHERE a.n % 4 = 0 AND b.n > 0", 20_000_200_000),
        ("SELECT count(*) FROM t a JOIN t b ON a.k = b.k WHERE a.n % 1 = 0 AND b.n > 0", 400_000),
        ("SELECT count(*) FROM t a JOIN t b ON a.s = b.s WHERE a.n % 1000 = 0 AND b.n > 0", 400),
        ("SELECT sum(b.n) FROM t a JOIN t b ON a.s = b.s WHERE a.n % 25 = 0 AND b.n > 0", 3_200_200_000),
        ("SELECT count(*) FROM t a JOIN t b ON a.s = b.s WHERE a.n % 10 = 0 AND b.n > 0", 40_000),
        // Two sets, which do not travel together.
        (
            "SELECT count(*) FROM t a JOIN t b ON a.k = b.k AND a.n = b.n AND a.s = b.s WHERE a.n % 2 = 0 AND b.n > 0",
            200_000,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(number(&clients[at % clients.len()], sql).await, expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_passed_at_one_server() {
    let address = serve("memory:", |_| {}).await;
    joins(&[Client::connect(&address).await.unwrap()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_passed_to_three_nodes() {
    let store = tempfile::tempdir().unwrap();
    let mut clients = Vec::new();
    for address in cluster(3, &store, |_| {}).await {
        clients.push(Client::connect(&address).await.unwrap());
    }
    joins(&clients).await;
}
