//! The process is killed under writes, again and again: what was acknowledged is there, what was not is there whole or
//! not at all, and a request id stands for one write. So it is where the machine dies with it, and what was not synced is
//! lost.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, cast::AsArray as _, types::Int64Type};
use basalt_client::{Client, ClientOptions, Deleted, RetryPolicy, WriteOptions, col};
use tokio::task::JoinSet;

use super::{Disk, Loss};

/// How often it is killed.
const ROUNDS: u64 = 6;
/// Writers at once, and rows of each write.
const WRITERS: i64 = 4;
const ROWS: i64 = 7;

pub(crate) struct Running(Child);

impl Running {
    /// Whether it has not ended by itself.
    pub(crate) fn runs(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SIGKILL.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) async fn start(store: &str, disk: Option<&Disk>) -> (Running, Client) {
    start_on("127.0.0.1:0", store, disk, &[]).await.unwrap()
}

/// Starts the program, or the one that `BASALT` names, and waits until it takes requests. `None`: it ends before that.
pub(crate) async fn start_on(
    listen: &str,
    store: &str,
    disk: Option<&Disk>,
    more: &[&str],
) -> Option<(Running, Client)> {
    let built = || env!("CARGO_BIN_EXE_basalt").to_owned();
    let mut command = Command::new(std::env::var("BASALT").unwrap_or_else(|_| built()));
    let serve = ["serve", "--store", store, "--listen", listen, "--log-format", "json", "--threads", "2"];
    command.args(serve).args(more).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    if let Some(disk) = disk {
        disk.below(&mut command);
    }
    let mut server = Running(command.spawn().unwrap());
    let mut log = BufReader::new(server.0.stderr.take().unwrap());
    let mut line = String::new();
    if log.read_line(&mut line).unwrap() == 0 {
        return None;
    }
    let started: serde_json::Value = serde_json::from_str(&line).unwrap();
    // The pipe must not fill.
    std::thread::spawn(move || log.lines().for_each(drop));
    let address = format!("http://{}", started["address"].as_str().unwrap());
    let once = ClientOptions::new().retry(RetryPolicy::never());
    loop {
        if let Ok(client) = Client::connect_with(&address, once).await
            && client.list_tables().await.is_ok()
        {
            return Some((server, client));
        }
        if !server.runs() {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Acknowledged,
    Unknown,
}

fn rows(write: i64) -> RecordBatch {
    let of: ArrayRef = Arc::new(Int64Array::from(vec![write; usize::try_from(ROWS).unwrap()]));
    let row: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    RecordBatch::try_from_iter([("write", of), ("row", row)]).unwrap()
}

async fn write(client: &Client, write: i64) -> basalt_client::Result<basalt_client::Committed> {
    let options = WriteOptions::new().request_id(format!("write {write}"));
    let mut writer = client.write("t", options).await?;
    writer.send(&rows(write)).await?;
    writer.commit().await
}

/// How many rows there are of each write.
async fn found(client: &Client) -> BTreeMap<i64, i64> {
    let query = client.query("t").group_by([col("write")]).select([col("write"), basalt_client::count()]);
    let mut found = BTreeMap::new();
    for batch in query.collect().await.unwrap().batches {
        let (write, n) =
            (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_primitive::<Int64Type>());
        found.extend(write.values().iter().copied().zip(n.values().iter().copied()));
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_and_nothing_else_is_half_there() {
    let store = tempfile::TempDir::new().unwrap();
    rounds(store.path().to_str().unwrap(), None).await;
}

/// The same when the machine dies: what is acknowledged was synced, names and bytes.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_with_what_was_not_synced() {
    // On a machine that does much else a kill may find nothing under way.
    for _ in 0..8 {
        let disk = Disk::new();
        if rounds(disk.root().to_str().unwrap(), Some(&disk)).await > 0 {
            return;
        }
    }
    panic!("some of what a kill leaves under way is never synced");
}

/// Returns how many files and folders the disk has lost.
async fn rounds(store: &str, disk: Option<&Disk>) -> usize {
    let mut lost = 0;
    let next = Arc::new(AtomicI64::new(0));
    let mut fates: BTreeMap<i64, Fate> = BTreeMap::new();
    let mut gone: Vec<i64> = Vec::new();
    for round in 0..ROUNDS {
        let (server, client) = start(store, disk).await;
        if round == 0 {
            let schema = rows(0).schema();
            client.create_table("t", &schema).await.unwrap();
        }
        check(&client, &fates, &gone).await;
        // A write that nobody has heard of is sent again: it is there once.
        for unknown in fates.iter_mut().filter(|(_, fate)| **fate == Fate::Unknown).take(3) {
            write(&client, *unknown.0).await.unwrap();
            *unknown.1 = Fate::Acknowledged;
        }
        if let Some(first) = fates.keys().find(|write| !gone.contains(write)).copied() {
            let Deleted { rows, .. } = client.delete("t", col("write").eq(first)).await.unwrap();
            assert!(rows == 0 || rows == u64::try_from(ROWS).unwrap());
            gone.push(first);
        }
        let mut writers = JoinSet::new();
        for _ in 0..WRITERS {
            let (client, next) = (client.clone(), Arc::clone(&next));
            writers.spawn(async move {
                let mut fates = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    match write(&client, number).await {
                        Ok(_) => fates.push((number, Fate::Acknowledged)),
                        Err(_) => {
                            fates.push((number, Fate::Unknown));
                            return fates;
                        }
                    }
                }
            });
        }
        // Another moment of the commits in each round.
        tokio::time::sleep(Duration::from_millis(150 + 37 * round)).await;
        drop(server);
        while let Some(writer) = writers.join_next().await {
            fates.extend(writer.unwrap());
        }
        lost += disk.map_or(0, |disk| disk.lose(Loss::Most));
    }
    let (_server, client) = start(store, None).await;
    check(&client, &fates, &gone).await;
    assert!(fates.values().filter(|fate| **fate == Fate::Acknowledged).count() > 10, "{fates:?}");
    lost
}

async fn check(client: &Client, fates: &BTreeMap<i64, Fate>, gone: &[i64]) {
    let found = found(client).await;
    for (write, rows) in &found {
        assert_eq!(*rows, ROWS, "write {write}, {:?}", fates.get(write));
        assert!(!gone.contains(write), "write {write} was deleted");
    }
    for (write, _) in fates.iter().filter(|(_, fate)| **fate == Fate::Acknowledged) {
        assert!(found.contains_key(write) || gone.contains(write), "write {write} was acknowledged");
    }
}
