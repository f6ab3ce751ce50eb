//! Several nodes in this process over one directory, each behind a proxy of its own.

use std::{path::Path, sync::Arc, time::Duration};

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use basalt_client::{Client, Committed, ErrorReason, NodeState};
use basalt_server::{Config, Error, Listeners};
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

use super::proxy::{Proxy, Way};

/// A cluster over a directory that goes with it.
pub(crate) struct Nodes {
    pub(crate) store: TempDir,
    nodes: Vec<Node>,
    names: Vec<String>,
}

/// A place for a node, which may run.
struct Node {
    proxy: Proxy,
    running: Option<Running>,
}

struct Running {
    client: Client,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

impl Nodes {
    /// `n` nodes that know each other.
    pub(crate) async fn start(n: usize) -> Self {
        let mut nodes = Self::places(n).await;
        for i in 0..n {
            nodes.restart(i).await;
        }
        nodes
    }

    /// Places for nodes that know each other, none of which runs.
    pub(crate) async fn places(n: usize) -> Self {
        let mut nodes = Self { store: TempDir::new().unwrap(), nodes: Vec::new(), names: Vec::new() };
        for _ in 0..n {
            nodes.place().await;
        }
        nodes
    }

    /// A place for one more, which the others do not know of.
    pub(crate) async fn place(&mut self) {
        // Nothing listens there yet.
        let proxy = Proxy::to(([127, 0, 0, 1], 9).into()).await;
        self.names.push(proxy.address.to_string());
        self.nodes.push(Node { proxy, running: None });
    }

    /// One more node, which knows the others.
    pub(crate) async fn join(&mut self) -> usize {
        self.place().await;
        self.restart(self.nodes.len() - 1).await;
        self.nodes.len() - 1
    }

    /// Starts a node that does not run, and waits until it takes requests.
    pub(crate) async fn restart(&mut self, i: usize) {
        self.restart_with(i, |_| {}).await;
    }

    /// The same, with another configuration than the others have.
    pub(crate) async fn restart_with(&mut self, i: usize, change: impl FnOnce(&mut Config)) {
        let listener = || async { TcpListener::bind("127.0.0.1:0").await.unwrap() };
        let (clients, peers) = (listener().await, listener().await);
        let address = clients.local_addr().unwrap().to_string();
        let proxy = &self.nodes[i].proxy;
        proxy.point_to(peers.local_addr().unwrap());
        proxy.set(Way::Open);
        let mut config = Config {
            advertise: Some(self.names[i].clone()),
            peers: self.names.clone(),
            ..config(self.store.path())
        };
        change(&mut config);
        let (stop, stopped) = oneshot::channel();
        let listeners = Listeners { peers: Some(peers), ..clients.into() };
        let task = tokio::spawn(basalt_server::run(listeners, config, async {
            stopped.await.ok();
        }));
        let client = Client::connect(&address).await.unwrap();
        // It answers this once it has loaded its tables, to whom it knows.
        while let Err(error) = client.list_tables().await
            && error.reason() != ErrorReason::Unauthenticated
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.nodes[i].running = Some(Running { client, stop, task });
    }

    /// Stops a node as a signal does: what it has begun, it ends.
    pub(crate) async fn stop(&mut self, i: usize) {
        let Running { client, stop, task } = self.nodes[i].running.take().unwrap();
        drop(client);
        stop.send(()).unwrap();
        task.await.unwrap().unwrap();
        self.nodes[i].proxy.set(Way::Closed);
    }

    /// Ends a node in the middle of whatever it does.
    pub(crate) async fn kill(&mut self, i: usize) {
        let running = self.nodes[i].running.take().unwrap();
        self.nodes[i].proxy.set(Way::Closed);
        running.task.abort();
        assert!(running.task.await.unwrap_err().is_cancelled());
    }

    /// Has what is no node of ours answer at the place of one.
    #[cfg(feature = "sql")]
    pub(crate) fn point(&self, i: usize, target: std::net::SocketAddr) {
        self.nodes[i].proxy.point_to(target);
    }

    /// Makes the way to a node what it says.
    pub(crate) fn way(&self, i: usize, way: Way) {
        self.nodes[i].proxy.set(way);
    }

    /// Removes the data files of the store.
    pub(crate) fn remove_data(&self) {
        let mut files = vec![self.store.path().to_path_buf()];
        while let Some(path) = files.pop() {
            if path.is_dir() {
                files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if path.extension().is_some_and(|extension| extension == "parquet") {
                std::fs::remove_file(path).unwrap();
            }
        }
    }

    /// By which the others know it.
    pub(crate) fn name(&self, i: usize) -> &str {
        &self.names[i]
    }

    pub(crate) fn client(&self, i: usize) -> &Client {
        &self.nodes[i].running.as_ref().unwrap().client
    }

    /// Those that run.
    pub(crate) fn clients(&self) -> impl Iterator<Item = &Client> {
        self.nodes.iter().filter_map(|node| node.running.as_ref()).map(|running| &running.client)
    }

    /// Waits until a node sees so many others alive.
    pub(crate) async fn sees(&self, i: usize, alive: usize) {
        loop {
            let cluster = self.client(i).cluster().await.unwrap();
            let live = |node: &&basalt_client::Node| node.state == NodeState::Alive && !node.own;
            if cluster.nodes.iter().filter(live).count() == alive {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// What all nodes have in common.
pub(crate) fn config(store: &Path) -> Config {
    Config {
        threads: 2,
        store: store.to_str().unwrap().to_owned(),
        // Every write is a fragment of its own.
        commit_delay: Duration::ZERO,
        replication: 1,
        attach_roots: vec!["/".to_owned()],
        shutdown_grace: Duration::from_secs(5),
        ..Config::default()
    }
}

/// A server over the same directory that is alone.
pub(crate) struct Alone {
    pub(crate) client: Client,
    _stop: oneshot::Sender<()>,
}

impl Alone {
    pub(crate) async fn over(store: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(basalt_server::run(listener, config(store), async {
            stopped.await.ok();
        }));
        let client = Client::connect(&address).await.unwrap();
        while client.list_tables().await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Self { client, _stop: stop }
    }
}

/// Rows `from..to` of a table with the columns id, price (floats whose sum depends on the order), tag (ten texts) and
/// part (`id % 97`).
pub(crate) fn rows(from: i64, to: i64) -> RecordBatch {
    let ids = || from..to;
    let price =
        |id: i64| if id % 13 == 0 { None } else { Some(1e15 / (id + 1) as f64 - (id % 7) as f64 * 1e-7) };
    let columns: [(&str, ArrayRef); 4] = [
        ("id", Arc::new(ids().collect::<Int64Array>())),
        ("price", Arc::new(ids().map(price).collect::<Float64Array>())),
        ("tag", Arc::new(ids().map(|id| Some(format!("tag {}", id % 10))).collect::<StringArray>())),
        ("part", Arc::new(ids().map(|id| id % 97).collect::<Int64Array>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

/// Makes a table of [`rows`], in as many writes.
pub(crate) async fn fill(client: &Client, table: &str, writes: i64, rows_each: i64) -> Vec<Committed> {
    client.create_table(table, &rows(0, 0).schema()).await.unwrap();
    let mut committed = Vec::new();
    for i in 0..writes {
        let batch = rows(i * rows_each, (i + 1) * rows_each);
        committed.push(client.write_all(table, &[batch]).await.unwrap());
    }
    committed
}
