//! The Star Schema Benchmark: its tables go from `basalt generate` through `basalt load` into a server, and its 13
//! queries must give what DuckDB gave on the same files (`golden.json`, made by `golden.py`).

#![allow(clippy::panic, clippy::unwrap_used, reason = "this is all test code")]

use std::{collections::BTreeMap, process::Command};

use basalt_client::{
    Client, attribute,
    cli::{self, ConnectArgs, output::JsonWriter},
    col, count, sql,
};
use basalt_server::Config;
use clap::Parser;
use serde_json::Value;
use tokio::{net::TcpListener, sync::oneshot};

/// The size of the data that `golden.json` was made of.
const SCALE: &str = "0.2";
/// What is referred to comes before what refers to it, though it need not.
const TABLES: [&str; 5] = ["date", "supplier", "customer", "part", "lineorder"];
/// The queries, as the demo asks them.
const QUERIES: &str = include_str!("../../src/demo/ssb.sql");

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(subcommand)]
    command: cli::Command,
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_duckdb() {
    let folder = tempfile::tempdir().unwrap();
    let generated = Command::new(env!("CARGO_BIN_EXE_basalt"))
        .args(["generate", "ssb", folder.path().to_str().unwrap(), "--scale", SCALE])
        .output();
    assert!(generated.unwrap().status.success());

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let config = Config { store: "memory:".into(), ..Config::default() };
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(basalt_server::run(listener, config, async {
        stopped.await.ok();
    }));
    for table in TABLES {
        let file = folder.path().join(format!("{table}.parquet"));
        let args = ["basalt", "--server", &address, "load", table, file.to_str().unwrap()];
        let Cli { connect, command } = Cli::parse_from(args);
        cli::try_run(command, &connect).await.unwrap_or_else(|error| panic!("{table}: {error}"));
    }

    let client = Client::connect(&address).await.unwrap();
    let golden: BTreeMap<String, Vec<Vec<Value>>> =
        serde_json::from_str(include_str!("golden.json")).unwrap();
    let mut asked = 0;
    for query in QUERIES.split("-- ").skip(1) {
        let (title, sql) = query.split_once('\n').unwrap();
        let name = title.split(':').next().unwrap();
        let expected = golden.get(name).unwrap_or_else(|| panic!("golden.json lacks {name}; run golden.py"));
        assert_eq!(&answer(&client, sql).await, expected, "{name}");
        asked += 1;
    }
    assert_eq!((asked, golden.len()), (13, 13));

    // A condition on an attribute is a set that blocks are asked about.
    let asia = attribute("lo_suppkey", "s_region").eq("ASIA");
    let plan = client.query("lineorder").filter(asia.clone()).select([count()]).explain(true).await.unwrap();
    assert!(plan.text.contains("lo_suppkey IN (SELECT s_suppkey FROM supplier: "), "{}", plan.text);
    // Nothing else passes than what the join selects.
    let regions = client.query("lineorder").filter(asia).group_by([attribute("lo_suppkey", "s_region")]);
    let regions =
        regions.select([attribute("lo_suppkey", "s_region"), count().alias("n")]).collect().await.unwrap();
    assert_eq!(regions.batches[0].num_rows(), 1);
    let missing = client.query("lineorder").select([attribute("lo_suppkey", "s_regoin")]).collect().await;
    assert!(missing.unwrap_err().to_string().contains("s_regoin"));
    let unknown =
        client.query("lineorder").filter(attribute("lo_quantity", "x").gt(1)).select([col("lo_tax")]);
    assert!(unknown.collect().await.unwrap_err().to_string().contains("refers to no other table"));

    drop(client);
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
}

/// The rows of an answer.
async fn answer(client: &Client, sql: &str) -> Vec<Vec<Value>> {
    let answer = client.query_of(sql::parse_select(sql).unwrap()).collect().await.unwrap();
    let mut json = Vec::new();
    let mut writer = JsonWriter::new(&mut json, &answer.schema).unwrap();
    answer.batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    let objects: Vec<Value> = serde_json::from_slice(&json).unwrap();
    let row =
        |object: &Value| answer.schema.fields().iter().map(|field| object[field.name()].clone()).collect();
    objects.iter().map(row).collect()
}
