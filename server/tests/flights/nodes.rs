//! Servers on port 0, and what is loaded into them: the five tables of nycflights13.

use std::path::{Path, PathBuf};

use basalt_client::{
    Client,
    cli::{self, ConnectArgs},
};
use basalt_server::{Config, Listeners};
use clap::Parser;
use tempfile::TempDir;
use tokio::net::TcpListener;

/// The tables; those with a schema are loaded by it, the others have theirs inferred.
pub(crate) const TABLES: [&str; 5] = ["flights", "planes", "airports", "weather", "airlines"];

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(subcommand)]
    command: cli::Command,
}

/// Where the CSV files are.
pub(crate) fn data() -> PathBuf {
    let base = std::env::var_os("BASALT_TESTDATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata"), PathBuf::from);
    let data = base.join("nycflights13");
    assert!(data.join("flights.csv").exists(), "{} is missing: run scripts/fetch-testdata", data.display());
    data
}

/// Does what the binary does for a command line.
pub(crate) async fn command(address: &str, args: &[&str]) -> Result<(), String> {
    let args = ["basalt", "--server", address].into_iter().chain(args.iter().copied());
    let Cli { connect, command } = Cli::parse_from(args);
    cli::try_run(command, &connect).await.map_err(|error| error.report())
}

/// As `basalt load TABLE FILE` does.
pub(crate) async fn load(address: &str, table: &str, file: &Path) {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/flights/schema/{table}.txt"));
    let schema = std::fs::read_to_string(schema).ok();
    // A tail number that is missing is NA too.
    let mut args = vec!["load", table, file.to_str().unwrap(), "--null", ",NA"];
    args.extend(schema.iter().flat_map(|schema| ["--schema", schema]));
    command(address, &args).await.unwrap_or_else(|error| panic!("{table}: {error}"));
}

/// Waits until a server answers.
pub(crate) async fn ready(address: &str) {
    let client = Client::connect(address).await.unwrap();
    while let Err(error) = client.list_tables().await {
        assert_eq!(error.reason(), basalt_client::ErrorReason::Starting, "{error}");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// The addresses of nodes that share a store, and what is changed of their configuration.
pub(crate) async fn cluster(nodes: usize, store: &TempDir, change: impl Fn(&mut Config)) -> Vec<String> {
    let mut listeners = Vec::new();
    for _ in 0..nodes {
        let clients = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peers = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listeners.push(Listeners { peers: Some(peers), ..clients.into() });
    }
    let name = |listeners: &Listeners| listeners.peers.as_ref().unwrap().local_addr().unwrap().to_string();
    let peers: Vec<String> = listeners.iter().map(name).collect();
    let mut addresses = Vec::new();
    for listeners in listeners {
        addresses.push(format!("http://{}", listeners.clients.local_addr().unwrap()));
        let store = store.path().to_str().unwrap().to_owned();
        let mut config =
            Config { threads: 2, store, peers: peers.clone(), replication: 1, ..Config::default() };
        change(&mut config);
        tokio::spawn(basalt_server::run(listeners, config, std::future::pending()));
    }
    for address in &addresses {
        ready(address).await;
    }
    addresses
}

/// A client of each node of a cluster of three, where no node holds all: `flights` comes in seven writes.
pub(crate) async fn flights_at_three(store: &TempDir, change: impl Fn(&mut Config)) -> Vec<Client> {
    let addresses = cluster(3, store, change).await;
    for (table, address) in TABLES.iter().zip(addresses.iter().cycle()) {
        let file = data().join(format!("{table}.csv"));
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
    let mut clients = Vec::new();
    for address in &addresses {
        let client = Client::connect(address).await.unwrap();
        assert_eq!(client.table("flights").await.unwrap().table.fragments, 7);
        clients.push(client);
    }
    clients
}
