//! Real data, real answers: the five tables of nycflights13 go through `basalt load` into a server, and every
//! query of `queries.sql` must give what DuckDB gave on the same files (`golden.json`, made by `golden.py`).

#![allow(clippy::panic, clippy::unwrap_used, reason = "this is all test code")]

mod golden;

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use basalt_client::{
    Client,
    cli::{self, ConnectArgs, output::JsonWriter},
    sql,
};
use basalt_server::{Config, Listeners};
use clap::Parser;
use golden::Golden;
use serde_json::Value;
use tokio::{net::TcpListener, sync::oneshot};

/// The tables; those with a schema are loaded by it, the others have theirs inferred.
const TABLES: [&str; 5] = ["flights", "planes", "airports", "weather", "airlines"];

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(subcommand)]
    command: cli::Command,
}

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
    let (data, store) = (data(), tempfile::tempdir().unwrap());
    let mut listeners = Vec::new();
    for _ in 0..3 {
        let clients = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peers = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listeners.push(Listeners { peers: Some(peers), ..clients.into() });
    }
    let name = |listeners: &Listeners| listeners.peers.as_ref().unwrap().local_addr().unwrap().to_string();
    let peers: Vec<String> = listeners.iter().map(name).collect();
    let mut addresses = Vec::new();
    for listeners in listeners {
        addresses.push(listeners.clients.local_addr().unwrap().to_string());
        let store = store.path().to_str().unwrap().to_owned();
        let config = Config { store, peers: peers.clone(), replication: 1, ..Config::default() };
        tokio::spawn(basalt_server::run(listeners, config, std::future::pending()));
    }
    for (table, address) in TABLES.iter().zip(addresses.iter().cycle()) {
        let file = data.join(format!("{table}.csv"));
        if *table != "flights" {
            load(address, table, &file).await;
            continue;
        }
        let text = std::fs::read_to_string(file).unwrap();
        let (header, rows) = text.split_once('\n').unwrap();
        let rows: Vec<&str> = rows.lines().collect();
        for (part, address) in rows.chunks(rows.len().div_ceil(7)).zip(addresses.iter().cycle()) {
            let file = store.path().join("part.csv");
            std::fs::write(&file, format!("{header}\n{}\n", part.join("\n"))).unwrap();
            load(address, table, &file).await;
        }
    }
    for address in &addresses {
        let client = Client::connect(address).await.unwrap();
        assert_eq!(client.table("flights").await.unwrap().table.fragments, 7);
        check_all(&client).await;
    }
}

/// That every query of the list gives what it should.
async fn check_all(client: &Client) {
    let answers = golden::read(include_str!("golden.json"));
    let mut report = String::new();
    let mut failed = 0;
    for (name, sql) in golden::queries(include_str!("queries.sql")) {
        let expected =
            answers.get(&name).unwrap_or_else(|| panic!("golden.json lacks {name}; run golden.py"));
        if let Err(difference) = check(client, &sql, expected).await {
            failed += 1;
            write!(report, "\n{name}: {difference}\n  {}\n", sql.replace('\n', "\n  ")).unwrap();
        }
    }
    assert!(failed == 0, "{failed} of {} queries differ\n{report}", answers.len());
}

/// Where the CSV files are.
fn data() -> PathBuf {
    let base = std::env::var_os("BASALT_TESTDATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata"), PathBuf::from);
    let data = base.join("nycflights13");
    assert!(
        data.join("flights.csv").exists(),
        "{} has no flights.csv: run scripts/fetch-testdata",
        data.display()
    );
    data
}

/// As `basalt load TABLE FILE` does.
async fn load(address: &str, table: &str, file: &Path) {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/flights/schema/{table}.txt"));
    let schema = std::fs::read_to_string(schema).ok();
    let mut args = vec!["basalt", "--server", address, "load", table, file.to_str().unwrap()];
    args.extend(schema.iter().flat_map(|schema| ["--schema", schema]));
    let Cli { connect, command } = Cli::parse_from(args);
    cli::try_run(command, &connect).await.unwrap_or_else(|error| panic!("{table}: {error}"));
}

/// Runs a query and says where its answer differs from the expected one.
async fn check(client: &Client, sql: &str, expected: &Golden) -> Result<(), String> {
    let select = sql::parse_select(sql).map_err(|error| error.to_string())?;
    let request = select.resolve(client).await.map_err(|error| error.to_string())?;
    let ordered = !request.order_by.is_empty();
    let answer = client.query_of(request).collect().await.map_err(|error| error.to_string())?;

    let columns: Vec<_> =
        answer.schema.fields().iter().map(|f| (f.name().clone(), golden::kind(f.data_type()))).collect();
    if columns.iter().map(|(name, kind)| (name.as_str(), *kind)).ne(expected.columns()) {
        return Err(format!("columns {columns:?}, expected {:?}", expected.columns().collect::<Vec<_>>()));
    }

    let mut json = Vec::new();
    let mut writer = JsonWriter::new(&mut json, &answer.schema).unwrap();
    answer.batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    let objects: Vec<Value> = serde_json::from_slice(&json).map_err(|error| error.to_string())?;
    let row = |object: &Value| columns.iter().map(|(name, _)| object[name].clone()).collect();
    expected.compare(objects.iter().map(row).collect(), ordered)
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
