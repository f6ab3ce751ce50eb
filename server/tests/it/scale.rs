//! A cluster behind a DNS name that shrinks from three nodes to one and grows to seven, while every node that lives is
//! read and written all the time: real processes, whose name comes to mean other addresses. No answer is wrong, partial or
//! stale, no request fails at a node that stays, and in the end the fragments are where their new owners are.
//!
//! `scripts/check-scale` runs it: with `small` once, otherwise in rounds, some of which kill nodes instead of stopping
//! them.

use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, TcpListener},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, cast::AsArray as _, types::Int64Type};
use basalt_client::{
    Client, ClientOptions, Error, ErrorReason, NodeState, RetryPolicy, WriteOptions, col, count, sum,
};
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// Tables that are not written to, and rows of each.
const TABLES: i64 = 32;
const BASE_ROWS: i64 = 500;
/// Rows of each write to the table `t`.
const WRITE_ROWS: i64 = 3;
/// How long a change of the members may take to be known to all of them, and the fragments to be where they belong.
const PATIENCE: Duration = Duration::from_secs(60);

fn rows(of: i64, n: i64) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..n).map(|i| of * 1000 + i)));
    RecordBatch::try_from_iter([("id", ids)]).unwrap()
}

struct Node {
    process: Child,
    address: Ipv4Addr,
    client: Client,
    /// It is about to stop: what is asked of it may fail.
    leaving: Arc<AtomicBool>,
    load: Vec<JoinHandle<()>>,
}

/// What was written, and what was seen.
#[derive(Default)]
struct Seen {
    begun: AtomicI64,
    acknowledged: AtomicI64,
    answers: AtomicU64,
    /// By what they say.
    errors: Mutex<BTreeMap<String, u64>>,
    wrong: Mutex<Vec<String>>,
}

impl Seen {
    fn wrong(&self, what: String) {
        self.wrong.lock().unwrap().push(what);
    }

    /// An error of a request to a node.
    fn error(&self, node: Ipv4Addr, leaving: bool, what: &str, error: &Error) {
        let goes = matches!(error, Error::Connection { .. } | Error::Incomplete)
            || matches!(error.reason(), ErrorReason::ShuttingDown | ErrorReason::OutcomeUnknown);
        *self.errors.lock().unwrap().entry(format!("{what}: {error}")).or_default() += 1;
        if !(leaving && goes) {
            self.wrong(format!(
                "{what} at {node}, which {}: {error}",
                if leaving { "leaves" } else { "stays" }
            ));
        }
    }
}

struct Trial {
    folder: TempDir,
    ports: (u16, u16),
    next: u8,
    nodes: Vec<Node>,
    seen: Arc<Seen>,
}

impl Trial {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("resolve.c"), include_str!("resolve.c")).unwrap();
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-O1", "-o"]);
        compile.arg(folder.path().join("resolve.so")).arg(folder.path().join("resolve.c")).arg("-ldl");
        let compiled = compile.output().expect("cc, which links Rust programs");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        // All nodes have the same ports, as behind a name.
        let free = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (a, b) = (free(), free());
        let ports = (a.local_addr().unwrap().port(), b.local_addr().unwrap().port());
        Self { folder, ports, next: 10, nodes: Vec::new(), seen: Arc::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes the name mean these nodes, at one moment.
    fn name(&self, addresses: &[Ipv4Addr]) {
        let lines: String = addresses.iter().map(|address| format!("{address}\n")).collect();
        fs::write(self.path("names.new"), lines).unwrap();
        fs::rename(self.path("names.new"), self.path("names")).unwrap();
    }

    fn name_all(&self) {
        self.name(&self.nodes.iter().map(|node| node.address).collect::<Vec<_>>());
    }

    /// Starts nodes at addresses that no node had before.
    async fn start(&mut self, n: usize) {
        let mut starting = Vec::new();
        for _ in 0..n {
            let address = Ipv4Addr::new(127, 0, 0, self.next);
            self.next += 1;
            let (listen, peers) =
                (format!("{address}:{}", self.ports.0), format!("{address}:{}", self.ports.1));
            let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
            command.args(["serve", "--threads", "2", "--replication", "2", "--forget-node", "3s"]);
            command.args(["--memory", "256MiB", "--store"]).arg(self.path("store"));
            command.args(["--listen", &listen, "--peer-listen", &peers, "--advertise", &peers]);
            command.args(["--peers", &format!("dns:nodes.trial:{}", self.ports.1)]);
            command.env("LD_PRELOAD", self.path("resolve.so"));
            command.env("BASALT_NAME", "nodes.trial").env("BASALT_NAME_FILE", self.path("names"));
            let log = fs::File::create(self.path(&format!("{address}.log"))).unwrap();
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            starting.push((command.spawn().unwrap(), address, listen));
        }
        for (process, address, listen) in starting {
            let client = client(&listen).await;
            let mut node = Node { process, address, client, leaving: Arc::default(), load: Vec::new() };
            for i in 0..2 {
                node.load.push(tokio::spawn(read(Reader::of(&node), i, Arc::clone(&self.seen))));
            }
            self.nodes.push(node);
        }
    }

    /// Begins to write to all nodes that are not written to yet.
    fn write(&mut self) {
        for node in self.nodes.iter_mut().filter(|node| node.load.len() < 3) {
            node.load.push(tokio::spawn(write(Reader::of(node), Arc::clone(&self.seen))));
        }
    }

    /// Stops, or kills, the last nodes, one after the other; the name follows before or after.
    async fn stop(&mut self, n: usize, kill: bool, name_first: bool) {
        for _ in 0..n {
            let mut node = self.nodes.pop().unwrap();
            node.leaving.store(true, Ordering::SeqCst);
            if name_first {
                self.name_all();
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            let signal = if kill { "-KILL" } else { "-TERM" };
            let pid = node.process.id().to_string();
            assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
            let status = tokio::task::spawn_blocking(move || node.process.wait().unwrap()).await.unwrap();
            assert!(kill || status.success(), "{status:?}");
            for load in node.load {
                load.await.unwrap();
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
            self.name_all();
            self.settled().await;
        }
    }

    /// Waits until every node knows these nodes and no others, and each has what belongs to it.
    async fn settled(&self) {
        let began = Instant::now();
        loop {
            let mut open = Vec::new();
            let (mut all, mut least) = (0, u64::MAX);
            for node in &self.nodes {
                let cluster = node.client.cluster().await.unwrap();
                let alive = |node: &&basalt_client::Node| node.state == NodeState::Alive;
                if cluster.nodes.len() != self.nodes.len()
                    || cluster.nodes.iter().filter(alive).count() != self.nodes.len()
                {
                    open.push(format!("{} sees {} nodes", node.address, cluster.nodes.len()));
                }
                let own = cluster.nodes.iter().find(|node| node.own).unwrap();
                let held = own.tables.iter().map(|table| table.fragments).sum::<u64>();
                (all, least) = (all + held, least.min(held));
            }
            // Every fragment by as many nodes as shall have it, and every node some.
            let wanted = u64::try_from(TABLES).unwrap() * self.nodes.len().min(2) as u64;
            if all < wanted || least == 0 {
                open.push(format!("{all} fragments of {wanted} are where they belong, {least} at one node"));
            }
            if open.is_empty() {
                println!("  {} nodes, {all} fragments, after {:?}", self.nodes.len(), began.elapsed());
                return;
            }
            assert!(began.elapsed() < PATIENCE, "not settled: {open:?}\n{}", self.logs());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    fn check(&self) {
        let Seen { begun, acknowledged, answers, errors, wrong } = &*self.seen;
        println!(
            "  {answers:?} answers right, {acknowledged:?} writes acknowledged of {begun:?}; errors {:?}",
            errors.lock().unwrap()
        );
        let wrong = wrong.lock().unwrap();
        assert!(
            wrong.is_empty(),
            "{} wrong: {:#?}\n{}",
            wrong.len(),
            &wrong[..wrong.len().min(10)],
            self.logs()
        );
        assert!(answers.load(Ordering::SeqCst) > 50 && acknowledged.load(Ordering::SeqCst) > 10, "no load");
    }

    /// What the nodes say of errors.
    fn logs(&self) -> String {
        let mut logs = String::new();
        for entry in fs::read_dir(self.folder.path()).unwrap().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "log") {
                let text = fs::read_to_string(&path).unwrap();
                let lines = text.lines().filter(|line| line.contains(" WARN ") || line.contains("ERROR"));
                logs += &format!("{}:\n{}\n", path.display(), lines.collect::<Vec<_>>().join("\n"));
            }
        }
        logs
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            let _ = node.process.kill();
            let _ = node.process.wait();
        }
    }
}

async fn client(address: &str) -> Client {
    let began = Instant::now();
    let options = ClientOptions::new().retry(RetryPolicy::never()).deadline(Duration::from_secs(20));
    loop {
        if let Ok(client) = Client::connect_with(address, options).await
            && client.list_tables().await.is_ok()
        {
            return client;
        }
        assert!(began.elapsed() < PATIENCE, "{address} does not start");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A node as its clients know it.
struct Reader {
    client: Client,
    address: Ipv4Addr,
    leaving: Arc<AtomicBool>,
}

impl Reader {
    fn of(node: &Node) -> Self {
        Self { client: node.client.clone(), address: node.address, leaving: Arc::clone(&node.leaving) }
    }

    /// Notes an error.
    fn failed(&self, seen: &Seen, what: &str, error: &Error) {
        seen.error(self.address, self.leaving.load(Ordering::SeqCst), what, error);
    }
}

async fn two(client: &Client, table: &str) -> Result<(i64, i64), Error> {
    let answer = client.query(table).select([count(), sum(col("id"))]).collect().await?;
    let number = |i: usize| answer.batches[0].column(i).as_primitive::<Int64Type>().value(0);
    Ok((number(0), number(1)))
}

/// Asks a node for all of some table, again and again, until it is gone.
async fn read(node: Reader, seed: i64, seen: Arc<Seen>) {
    for i in seed.. {
        let before = seen.acknowledged.load(Ordering::SeqCst);
        let table = if i % 2 == 0 { "t".to_owned() } else { format!("b{}", i / 2 % TABLES) };
        let answer = match two(&node.client, &table).await {
            Ok(answer) => answer,
            // It is gone, or that is noted.
            Err(error) => return node.failed(&seen, "a query", &error),
        };
        let after = seen.begun.load(Ordering::SeqCst);
        let (rows_of, address) = (answer.0, node.address);
        if i % 2 == 0 {
            if rows_of % WRITE_ROWS != 0 || rows_of / WRITE_ROWS < before || rows_of / WRITE_ROWS > after {
                seen.wrong(format!(
                    "{rows_of} rows at {address}: {before} to {after} writes of {WRITE_ROWS}"
                ));
            }
        } else {
            let of = i / 2 % TABLES;
            let right = (BASE_ROWS, of * 1000 * BASE_ROWS + BASE_ROWS * (BASE_ROWS - 1) / 2);
            if answer != right {
                seen.wrong(format!("{answer:?} of {table} at {address}; it is {right:?}"));
            }
        }
        seen.answers.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Writes to a node until it is gone. A write whose outcome is not known is neither acknowledged nor sent again.
async fn write(node: Reader, seen: Arc<Seen>) {
    loop {
        let number = seen.begun.fetch_add(1, Ordering::SeqCst);
        let done = async {
            let mut writer = node.client.write("t", WriteOptions::default()).await?;
            writer.send(&rows(number, WRITE_ROWS)).await?;
            writer.commit().await
        };
        match done.await {
            Ok(_) => drop(seen.acknowledged.fetch_add(1, Ordering::SeqCst)),
            Err(error) => return node.failed(&seen, "a write", &error),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "scripts/check-scale runs it: it takes its time"]
async fn nodes_come_and_go_under_load() {
    let rounds =
        std::env::var("BASALT_SCALE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1);
    let mut trial = Trial::new();
    trial.name(&[10, 11, 12].map(|last| Ipv4Addr::new(127, 0, 0, last)));
    seed(&trial).await;
    trial.start(3).await;
    trial.write();
    trial.settled().await;
    for round in 0..rounds {
        println!("round {round}: down to one");
        trial.stop(1, round % 2 == 1, true).await;
        trial.stop(1, round % 3 == 2, false).await;
        trial.check();
        println!("round {round}: up to seven");
        trial.start(3).await;
        trial.name_all();
        trial.write();
        trial.start(3).await;
        trial.write();
        tokio::time::sleep(Duration::from_secs(1)).await;
        trial.name_all();
        trial.settled().await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        trial.check();
        if round + 1 < rounds {
            println!("round {round}: down to three");
            trial.stop(4, round % 2 == 0, round % 2 == 1).await;
            trial.check();
        }
    }
}

/// Makes the tables, with a server that is alone.
async fn seed(trial: &Trial) {
    let listen = format!("127.0.0.1:{}", trial.ports.0);
    let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
    command.args(["serve", "--threads", "2", "--listen", &listen, "--store"]).arg(trial.path("store"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    let client = client(&listen).await;
    client.create_table("t", &rows(0, 0).schema()).await.unwrap();
    for table in 0..TABLES {
        let name = format!("b{table}");
        client.create_table(&name, &rows(0, 0).schema()).await.unwrap();
        client.write_all(&name, &[rows(table, BASE_ROWS)]).await.unwrap();
    }
    let pid = process.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(process.wait().unwrap().success());
}
