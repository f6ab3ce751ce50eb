//! Whoever is asked sees what was acknowledged, and says nothing of an older version: servers that do not know each
//! other, and a node that was stopped while others wrote.

use std::{
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, cast::AsArray as _, types::Int64Type};
use basalt_client::{Client, ErrorReason, WriteOptions, col, count};
use basalt_proto::v1::TypeKind;
use tempfile::TempDir;
use tokio::{task::JoinSet, time::sleep};

use crate::support::{Server, field};

async fn over(store: &Path) -> Server {
    Server::with(|config| store.to_str().unwrap().clone_into(&mut config.store)).await
}

fn batch(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    let array: ArrayRef = Arc::new(values.into_iter().map(Some).collect::<Int64Array>());
    RecordBatch::try_from_iter_with_nullable([("a", array, true)]).unwrap()
}

async fn rows(client: &Client) -> i64 {
    let answer = client.query("t").select([count()]).collect().await.unwrap();
    answer.batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

/// Two servers that share a store and do not know each other.
async fn two_servers(store: &TempDir) -> (Server, Server) {
    let (a, b) = (over(store.path()).await, over(store.path()).await);
    a.create("t", vec![field("a", TypeKind::Int64)]).await.unwrap();
    while b.client.list_tables().await.unwrap().is_empty() {
        sleep(Duration::from_millis(20)).await;
    }
    (a, b)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_to_a_table_that_another_server_has_dropped_is_refused() {
    let store = TempDir::new().unwrap();
    let (a, b) = two_servers(&store).await;
    b.client.write_all("t", &[batch([1])]).await.unwrap();
    a.client.drop_table("t").await.unwrap();
    let refused = b.client.write_all("t", &[batch([2])]).await.unwrap_err();
    assert_eq!(refused.reason(), ErrorReason::TableNotFound);
    // Another table of the name is another table.
    a.create("t", vec![field("a", TypeKind::Int64)]).await.unwrap();
    let deleted = b.client.delete("t", col("a").eq(1)).await;
    let nothing = deleted
        .as_ref()
        .map_or_else(|error| error.reason() == ErrorReason::TableNotFound, |deleted| deleted.rows == 0);
    assert!(nothing, "{deleted:?}");
    while b.client.write_all("t", &[batch([3])]).await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(rows(&b.client).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_takes_what_another_server_has_just_written() {
    let store = TempDir::new().unwrap();
    let (a, b) = two_servers(&store).await;
    let right = async |delete: &dyn Fn(i64) -> basalt_client::Filter| {
        let mut right = 0;
        for i in 0..30 {
            a.client.write_all("t", &[batch([i])]).await.unwrap();
            right += b.client.delete("t", delete(i)).await.unwrap().rows;
        }
        right
    };
    assert_eq!(right(&|i| col("a").eq(i)).await, 30);
    // The rows that say which are to go are in a table, too.
    a.create("gone", vec![field("a", TypeKind::Int64)]).await.unwrap();
    while b.client.list_tables().await.unwrap().len() < 2 {
        sleep(Duration::from_millis(20)).await;
    }
    a.client.write_all("t", &[batch(100..110)]).await.unwrap();
    for i in 100..110 {
        a.client.write_all("gone", &[batch([i])]).await.unwrap();
        let gone = basalt_client::keys_of("gone", "a").filter(col("a").eq(i));
        assert_eq!(b.client.delete("t", col("a").in_keys(gone)).await.unwrap().rows, 1);
    }
    assert_eq!(rows(&b.client).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replace_takes_what_another_server_has_just_written() {
    let store = TempDir::new().unwrap();
    let (a, b) = two_servers(&store).await;
    for i in 0..30 {
        a.client.write_all("t", &[batch([i])]).await.unwrap();
        let options = WriteOptions::new().replace_by(["a"]);
        let mut writer = b.client.write("t", options).await.unwrap();
        writer.send(&batch(0..=i)).await.unwrap();
        writer.commit().await.unwrap();
        assert_eq!(rows(&b.client).await, i + 1, "round {i}");
    }
}

/// A process of its own.
struct Node {
    process: Child,
    client: Client,
}

impl Node {
    fn signal(&self, signal: &str) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap().success());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Processes that know each other by ports that were free a moment ago.
async fn processes(store: &Path, n: usize) -> Vec<Node> {
    let free: Vec<_> = (0..n).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let names: Vec<String> = free.iter().map(|free| free.local_addr().unwrap().to_string()).collect();
    drop(free);
    let mut nodes = Vec::new();
    for name in &names {
        let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--threads", "2"]);
        command.args([
            "--store",
            store.to_str().unwrap(),
            "--peer-listen",
            name,
            "--peers",
            &names.join(","),
        ]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let mut address = None;
        while address.is_none() {
            let mut line = String::new();
            assert!(log.read_line(&mut line).unwrap() > 0, "the node does not start");
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            address = line["address"].as_str().map(|address| format!("http://{address}"));
        }
        // The pipe must not fill.
        std::thread::spawn(move || log.lines().for_each(drop));
        let client = Client::connect(&address.unwrap()).await.unwrap();
        while client.list_tables().await.is_err() {
            sleep(Duration::from_millis(10)).await;
        }
        nodes.push(Node { process, client });
    }
    nodes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_stopped_answers_nothing_stale() {
    let store = TempDir::new().unwrap();
    let nodes = processes(store.path(), 3).await;
    let schema = batch([]).schema();
    nodes[0].client.create_table("t", &schema).await.unwrap();
    let (acknowledged, done) = (AtomicI64::new(0), AtomicBool::new(false));
    let write = async |client: &Client| {
        while !done.load(Ordering::Acquire) {
            client.write_all("t", &[batch([7])]).await.unwrap();
            acknowledged.fetch_add(1, Ordering::AcqRel);
        }
    };
    // Asked again and again, also while the node is stopped: what is answered must have all that was acknowledged
    // before the question.
    let read = async |client: &Client| {
        let mut answers = 0;
        while !done.load(Ordering::Acquire) {
            let before = acknowledged.load(Ordering::Acquire);
            let found = rows(client).await;
            assert!(found >= before, "{found} rows where {before} were acknowledged");
            answers += 1;
        }
        answers
    };
    let stops = async {
        // Less than it takes to be held for dead, and more.
        for millis in [150, 300, 400, 500, 700, 900, 4_500, 600] {
            sleep(Duration::from_millis(300)).await;
            nodes[2].signal("STOP");
            sleep(Duration::from_millis(millis)).await;
            // These are the first that it sees when it goes on.
            let before = acknowledged.load(Ordering::Acquire);
            let mut asked = JoinSet::new();
            for _ in 0..16 {
                let client = nodes[2].client.clone();
                asked.spawn(async move { rows(&client).await });
            }
            sleep(Duration::from_millis(50)).await;
            nodes[2].signal("CONT");
            while let Some(found) = asked.join_next().await {
                let found = found.unwrap();
                assert!(found >= before, "{found} rows where {before} were acknowledged, {millis} ms");
            }
        }
        sleep(Duration::from_millis(400)).await;
        let before = acknowledged.load(Ordering::Acquire);
        // The rows that the node has heard of last are among those that a deletion finds.
        nodes[2].signal("STOP");
        sleep(Duration::from_millis(300)).await;
        done.store(true, Ordering::Release);
        nodes[2].signal("CONT");
        before
    };
    let (_, _, answers, more, elsewhere, before) = tokio::join!(
        write(&nodes[0].client),
        write(&nodes[1].client),
        read(&nodes[2].client),
        read(&nodes[2].client),
        read(&nodes[1].client),
        stops
    );
    assert!(answers > 10 && more > 10 && elsewhere > 10 && before > 10);
    let deleted = nodes[2].client.delete("t", col("a").eq(7)).await.unwrap().rows;
    assert_eq!(i64::try_from(deleted).unwrap(), acknowledged.load(Ordering::Acquire));
}
