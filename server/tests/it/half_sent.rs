//! Messages that are announced and never sent whole, at the real binary: what it holds of them stays within its memory.

use std::{
    convert::Infallible,
    io::{BufRead as _, BufReader, Read as _},
    pin::Pin,
    process::{Child, Command, Stdio},
    task::{Context, Poll},
    time::Duration,
};

use basalt_client::Client;
use hyper::{
    Request,
    body::{Body, Bytes, Frame},
    client::conn::http2,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::{net::TcpStream, task::JoinSet};

/// The memory that the server is given, and what the process may take beyond it.
const MEMORY: u64 = 256 << 20;
const BEYOND: u64 = 64 << 20;
/// Connections at once, and streams on each.
const CONNECTIONS: usize = 4;
const STREAMS: usize = 120;

/// Ends the process with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server of [`MEMORY`] bytes that is the only node of a cluster. The addresses are for peers and for clients.
fn start(store: &str) -> (Running, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
    command.args(["serve", "--store", store, "--log-format", "json", "--threads", "2"]);
    command.args(["--memory", "256MiB", "--listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut server = Running(command.spawn().unwrap());
    let mut log = BufReader::new(server.0.stderr.take().unwrap());
    let mut address = |words: &str| -> String {
        let mut lines =
            log.by_ref().lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        let line = lines.find(|line| line["message"].as_str().unwrap().starts_with(words)).unwrap();
        line["address"].as_str().unwrap().to_owned()
    };
    let (clients, peers) = (address("listening"), address("listening for the other nodes"));
    // The pipe must not fill.
    std::thread::spawn(move || log.lines().for_each(drop));
    (server, peers, clients)
}

/// The most that a process had in memory at once.
fn peak(process: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    kib.unwrap().trim().parse::<u64>().unwrap() << 10
}

/// The body of a request: a message is announced, most of it is sent, and nothing more comes.
struct HalfSent {
    announced: u32,
    begun: bool,
    left: usize,
}

impl HalfSent {
    fn of(announced: u32) -> Self {
        Self { announced, begun: false, left: announced as usize / 16 * 15 }
    }
}

impl Body for HalfSent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.begun {
            self.begun = true;
            let prefix = [&[0][..], &self.announced.to_be_bytes()].concat();
            return Poll::Ready(Some(Ok(Frame::data(prefix.into()))));
        }
        let bytes = self.left.min(16 << 10);
        if bytes == 0 {
            return Poll::Pending;
        }
        self.left -= bytes;
        Poll::Ready(Some(Ok(Frame::data(vec![0x5a; bytes].into()))))
    }
}

/// Sends half of a message on each of many streams, and keeps them open. Those that are refused end.
async fn flood(address: &str, path: &str, announced: u32) -> JoinSet<()> {
    let mut streams = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(address).await.unwrap();
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        streams.spawn(async {
            let _ = connection.await;
        });
        for _ in 0..STREAMS {
            let mut sender = sender.clone();
            let request = Request::post(format!("http://{address}{path}"))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .body(HalfSent::of(announced))
                .unwrap();
            streams.spawn(async move {
                if let Ok(response) = sender.send_request(request).await {
                    // A stream that is answered and not ended stays open.
                    if !response.headers().contains_key("grpc-status") {
                        std::future::pending::<()>().await;
                    }
                }
            });
        }
    }
    streams
}

/// Floods a port for a while, and says what the process took.
async fn flooded(at_peers: bool, path: &str, announced: u32) {
    let store = tempfile::TempDir::new().unwrap();
    let (server, peers, clients) = start(store.path().to_str().unwrap());
    let streams = flood(if at_peers { &peers } else { &clients }, path, announced).await;
    for _ in 0..80 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(peak(&server.0) <= MEMORY + BEYOND, "{} MB for {path}", peak(&server.0) / 1_000_000);
    }
    drop(streams);
    // What was held is free again.
    let client = Client::connect(&clients).await.unwrap();
    while client.list_tables().await.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_writes_they_stay_within_the_memory() {
    flooded(false, "/basalt.v1.IngestService/Write", 4 << 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_queries_they_stay_within_the_memory() {
    flooded(false, "/basalt.v1.QueryService/Query", 4 << 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_peers_they_stay_within_the_memory() {
    flooded(true, "/basalt.cluster.v1.PeerService/Execute", 16 << 20).await;
}
