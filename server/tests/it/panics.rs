//! Queries and writes that panic, wherever they do: the request hears that the server failed, and nobody else notices.
//! The binary panics where a table's name says so (`server/src/panics.rs`), in debug builds alone.

#![cfg(debug_assertions)]

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use basalt_client::{Client, ClientOptions, Error, RetryPolicy, WriteOptions, col, keys_of, lit, sum};
use basalt_proto::v1::{self as pb, query_service_client::QueryServiceClient};
use tempfile::TempDir;

use crate::support::told;

struct Running {
    process: Child,
    address: String,
    client: Client,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a server that panics where it is wanted, with few permits.
async fn start(arguments: &[&str]) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
    let serve = ["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--threads", "2"];
    command.args(serve).args(["--concurrent-queries", "2"]).args(arguments).env("BASALT_PANICS", "1");
    let mut process =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(process.stderr.take().unwrap());
    let address = loop {
        let mut line = String::new();
        assert!(log.read_line(&mut line).unwrap() > 0, "it does not start");
        let Ok(line) = serde_json::from_str::<serde_json::Value>(&line) else { continue };
        if line["message"] == "listening" {
            break format!("http://{}", line["address"].as_str().unwrap());
        }
    };
    // The pipe must not fill.
    std::thread::spawn(move || log.lines().for_each(drop));
    let options = ClientOptions::new().retry(RetryPolicy::never());
    let client = Client::connect_with(&address, options).await.unwrap();
    while client.list_tables().await.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Running { process, address, client }
}

fn rows(n: i64) -> RecordBatch {
    let array: ArrayRef = Arc::new(Int64Array::from_iter_values(0..n));
    RecordBatch::try_from_iter_with_nullable([("a", array, true)]).unwrap()
}

async fn create(client: &Client, table: &str) {
    let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
    client.create_table(table, &schema).await.unwrap();
}

async fn table(client: &Client, table: &str) {
    create(client, table).await;
    client.write_all(table, &[rows(100)]).await.unwrap();
}

#[track_caller]
fn check<T: std::fmt::Debug>(answer: Result<T, Error>) {
    let error = answer.unwrap_err();
    let server = error.server().unwrap_or_else(|| panic!("no answer of the server: {error:?}"));
    assert_eq!(server.reason_name(), "INTERNAL");
    assert!(server.message.contains("the server failed on this request"), "{error}");
}

/// A query whose semi-join takes it to the CPU pool.
fn joined(client: &Client, of: &str) -> basalt_client::Query {
    let keys = keys_of("fine", "a").filter(col("a").lt(5));
    client.query(of).filter(col("a").in_keys(keys)).select([sum(col("a"))])
}

async fn is_fine(client: &Client) {
    let answer = client.query("fine").select([sum(col("a"))]).collect().await.unwrap();
    assert_eq!(answer.rows, 1);
}

/// More often than there are permits and threads.
const TIMES: usize = 5;

async fn every_path(server: &Running) {
    let client = &server.client;
    table(client, "fine").await;
    for place in ["target", "plan", "query", "explain", "select", "describe", "find"] {
        table(client, &format!("panics_{place}")).await;
    }
    create(client, "panics_write").await;
    create(client, "panics_open").await;
    create(client, "panics_commit").await;
    create(client, "panics_once_commit").await;
    for _ in 0..TIMES {
        for place in ["target", "plan", "query"] {
            let of = format!("panics_{place}");
            check(client.query(&of).select([sum(col("a"))]).collect().await);
            check(joined(client, &of).collect().await);
        }
        check(client.query("panics_explain").select([sum(col("a"))]).explain(true).await);
        check(client.query("panics_select").filter(col("a").eq(1)).select_rows().await);
        check(client.table("panics_describe").await);
        check(client.delete("panics_find", col("a").eq(1)).await);
        for place in ["write", "open", "commit"] {
            check(client.write_all(&format!("panics_{place}"), &[rows(3)]).await);
        }
        is_fine(client).await;
    }
    // Writes behind one that panicked go on, under its own id, too.
    let write = async || {
        let options = WriteOptions::new().request_id("id");
        let mut writer = client.write("panics_once_commit", options).await?;
        writer.send(&rows(3)).await?;
        writer.commit().await
    };
    check(write().await);
    assert_eq!(write().await.unwrap().rows, 3);
    assert_eq!(client.table_summary("panics_once_commit").await.unwrap().rows, 3);
    let names: BTreeSet<String> = client.list_tables().await.unwrap().into_iter().map(|t| t.name).collect();
    assert_eq!(names.len(), 12);
}

#[tokio::test]
async fn a_request_that_panics_is_told_so_and_no_other_notices() {
    let memory = start(&["--store", "memory:"]).await;
    every_path(&memory).await;
    let store = TempDir::new().unwrap();
    let durable = start(&["--store", store.path().to_str().unwrap()]).await;
    every_path(&durable).await;

    // As the message is on the wire, and as a person reads it.
    let mut queries = QueryServiceClient::new(memory.client.channel());
    let request = pb::QueryRequest { table: "panics_query".into(), ..Default::default() };
    let status = queries.query(request).await.unwrap_err();
    assert_eq!(told(&status), (tonic::Code::Internal, "INTERNAL".into(), String::new()));
    let place = if cfg!(feature = "sql") { "sql" } else { "query" };
    if cfg!(feature = "sql") {
        table(&memory.client, "panics_sql").await;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_basalt"))
        .args(["query", &format!("SELECT sum(a) FROM panics_{place}")])
        .env("BASALT_SERVER", &memory.address)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.contains("(INTERNAL)"), "{text}");
    assert!(!text.contains("connection") && !text.contains("is the server running"), "{text}");
}

#[tokio::test]
async fn the_background_goes_on_behind_a_table_that_panics() {
    let store = TempDir::new().unwrap();
    let server = start(&["--store", store.path().to_str().unwrap()]).await;
    table(&server.client, "panics_tidy").await;
    table(&server.client, "fine").await;
    // What another process writes is followed, second by second.
    let other = start(&["--store", store.path().to_str().unwrap()]).await;
    for round in 1..=3 {
        other.client.write_all("fine", &[rows(10)]).await.unwrap();
        let mut tries = 0;
        while server.client.table_summary("fine").await.unwrap().rows != 100 + round * 10 {
            tries += 1;
            assert!(tries < 150, "round {round}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test]
async fn a_part_that_panics_at_a_node_is_an_error_of_its_query() {
    let store = TempDir::new().unwrap();
    let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (a, b) = (free(), free());
    let peers = format!("{a},{b}");
    let node = async |own: &str| {
        let store = store.path().to_str().unwrap();
        start(&["--store", store, "--peer-listen", own, "--peers", &peers]).await
    };
    let (first, second) = (node(&a).await, node(&b).await);
    table(&first.client, "fine").await;
    for place in ["part", "coordinate"] {
        create(&first.client, &format!("panics_{place}")).await;
        // Several fragments, which both nodes hold; what is little work is done by whoever has all of it.
        for _ in 0..4 {
            first.client.write_all(&format!("panics_{place}"), &[rows(20_000)]).await.unwrap();
        }
    }
    for _ in 0..TIMES {
        for client in [&first.client, &second.client] {
            for place in ["part", "coordinate"] {
                let of = format!("panics_{place}");
                check(client.query(&of).select([sum(col("a") + lit(1))]).collect().await);
            }
            check(client.query("panics_part").filter(col("a").eq(1)).select_rows().await);
            check(client.table("panics_part").await);
            is_fine(client).await;
        }
    }
}
