//! The Star Schema Benchmark: its tables go from `basalt generate` through `basalt load` into a server, and its 13
//! queries must give what DuckDB gave on the same files (`golden.json`, made by `golden.py`), on one node and on three.

#![allow(clippy::panic, clippy::unwrap_used, reason = "this is all test code")]

use std::{collections::BTreeMap, path::Path, process::Command, time::Duration};

use basalt_client::{
    Client, attribute,
    cli::{self, ConnectArgs, output::JsonWriter},
    col, count, sql,
};
use basalt_server::{Config, Error, Listeners};
use clap::Parser;
use serde_json::Value;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

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
    for n in [1, 3] {
        let store = tempfile::tempdir().unwrap();
        let nodes = start(n, store.path()).await;
        load(&nodes[0].address, folder.path()).await;
        for node in &nodes {
            let client = Client::connect(&node.address).await.unwrap();
            check_answers(&client, &format!("{n} nodes")).await;
            check_attributes(&client).await;
        }
        for node in nodes {
            node.stop.send(()).unwrap();
            node.task.await.unwrap().unwrap();
        }
    }
}

/// A server in this process.
struct Node {
    address: String,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

/// So many nodes over one store that know each other; one alone keeps its tables in memory.
async fn start(n: usize, store: &Path) -> Vec<Node> {
    let mut listeners = Vec::new();
    for _ in 0..n {
        listeners.push((bind().await, bind().await));
    }
    let peers: Vec<_> = listeners.iter().map(|(_, peers)| peers.local_addr().unwrap().to_string()).collect();
    let node = |(i, (clients, to_peers)): (usize, (TcpListener, TcpListener))| {
        let config = if n == 1 {
            Config { store: "memory:".into(), ..Config::default() }
        } else {
            let (store, advertise) = (store.to_str().unwrap().to_owned(), Some(peers[i].clone()));
            Config { store, advertise, peers: peers.clone(), ..Config::default() }
        };
        let address = clients.local_addr().unwrap().to_string();
        let listeners = Listeners { peers: (n > 1).then_some(to_peers), ..clients.into() };
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(basalt_server::run(listeners, config, async {
            stopped.await.ok();
        }));
        Node { address, stop, task }
    };
    let nodes: Vec<Node> = listeners.into_iter().enumerate().map(node).collect();
    for node in &nodes {
        let client = Client::connect(&node.address).await.unwrap();
        // It answers this once it has loaded its tables.
        while client.list_tables().await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    nodes
}

async fn bind() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

/// As `basalt load TABLE FILE` does.
async fn load(address: &str, folder: &Path) {
    for table in TABLES {
        let file = folder.join(format!("{table}.parquet"));
        let args = ["basalt", "--server", address, "load", table, file.to_str().unwrap()];
        let Cli { connect, command } = Cli::parse_from(args);
        cli::try_run(command, &connect).await.unwrap_or_else(|error| panic!("{table}: {error}"));
    }
}

async fn check_answers(client: &Client, who: &str) {
    let golden: BTreeMap<String, Vec<Vec<Value>>> =
        serde_json::from_str(include_str!("golden.json")).unwrap();
    let mut asked = 0;
    for query in QUERIES.split("-- ").skip(1) {
        let (title, sql) = query.split_once('\n').unwrap();
        let name = title.split(':').next().unwrap();
        let expected = golden.get(name).unwrap_or_else(|| panic!("golden.json lacks {name}; run golden.py"));
        assert_eq!(&answer(client, sql).await, expected, "{name}, {who}");
        asked += 1;
    }
    assert_eq!((asked, golden.len()), (13, 13));
}

/// What an attribute is, beside the queries.
async fn check_attributes(client: &Client) {
    // A condition is a set that blocks are asked about.
    let asia = attribute("lo_suppkey", "s_region").eq("ASIA");
    let plan = client.query("lineorder").filter(asia.clone()).select([count()]).explain(true).await.unwrap();
    assert!(plan.text.contains("lo_suppkey IN (SELECT s_suppkey FROM supplier: "), "{}", plan.text);
    // Nothing else passes than what the join selects.
    let regions = client.query("lineorder").filter(asia).group_by([attribute("lo_suppkey", "s_region")]);
    let regions = regions.select([attribute("lo_suppkey", "s_region"), count().alias("n")]);
    assert_eq!(regions.collect().await.unwrap().batches[0].num_rows(), 1);
    let missing = client.query("lineorder").select([attribute("lo_suppkey", "s_regoin")]).collect().await;
    assert!(missing.unwrap_err().to_string().contains("s_regoin"));
    let unknown =
        client.query("lineorder").filter(attribute("lo_quantity", "x").gt(1)).select([col("lo_tax")]);
    assert!(unknown.collect().await.unwrap_err().to_string().contains("refers to no other table"));
}

/// The rows of an answer.
async fn answer(client: &Client, sql: &str) -> Vec<Vec<Value>> {
    let request = sql::parse_select(sql).unwrap().resolve(client).await.unwrap();
    let answer = client.query_of(request).collect().await.unwrap();
    let mut json = Vec::new();
    let mut writer = JsonWriter::new(&mut json, &answer.schema).unwrap();
    answer.batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    let objects: Vec<Value> = serde_json::from_slice(&json).unwrap();
    let row =
        |object: &Value| answer.schema.fields().iter().map(|field| object[field.name()].clone()).collect();
    objects.iter().map(row).collect()
}
