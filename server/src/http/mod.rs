//! HTTP/1.1: metrics, probes, and requests for those that have no other client than `curl`.
//!
//! Nobody is waited for here for long: probes must get through whatever other connections do. So there are more places
//! than anybody needs, a connection that says nothing is closed soon, and at once when its place is needed. A connection
//! whose request is one of `/v1` has a place elsewhere meanwhile, of which there are few.

mod answer;
mod console;
mod error;
mod expired;
mod fetch;
#[cfg(feature = "sql")]
mod formats;
mod load;
mod options;
pub(crate) mod read;
mod room;
mod routes;
mod sender;
#[cfg(feature = "sql")]
mod sql;
mod stalled;

use std::{
    convert::Infallible,
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    task::{AbortHandle, JoinHandle, JoinSet},
    time::{sleep, timeout},
};

use crate::{
    access::{Caller, Principal},
    connection::Connection,
    environment::{Listener, Stream},
    limits,
    state::State,
    tls::{self, Door},
};
use room::Room;
use routes::Visit;
use stalled::Stalled;

/// The listener; it closes when this is dropped.
#[derive(Debug)]
pub(crate) struct Endpoint {
    task: JoinHandle<Infallible>,
}

impl Endpoint {
    /// Answers from `state`.
    pub(crate) fn start(listener: Box<dyn Listener>, state: Arc<State>) -> io::Result<Self> {
        let address = listener.local_addr()?;
        tracing::info!(%address, "metrics");
        let routes = routes::router(Arc::clone(&state));
        Ok(Self { task: tokio::spawn(accept(listener, state, routes)) })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A connection that is open.
struct Open {
    counts: Arc<Counts>,
    task: AbortHandle,
}

/// What a connection is doing.
#[derive(Debug, Default)]
struct Counts {
    /// Its requests that are being answered.
    requests: AtomicUsize,
    /// Those of them that are of `/v1`.
    api: AtomicUsize,
}

async fn accept(listener: Box<dyn Listener>, state: Arc<State>, routes: Router) -> Infallible {
    // They end with the listener.
    let mut tasks = JoinSet::new();
    let mut open: Vec<Open> = Vec::new();
    let requests = Room::new(limits::HTTP_REQUESTS, limits::IDLE_WRITE);
    let bodies = Room::new(limits::HTTP_BODIES_BYTES, Duration::ZERO);
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                while tasks.try_join_next().is_some() {}
                open.retain(|connection| !connection.task.is_finished());
                make_room(&mut open);
                let counts = Arc::<Counts>::default();
                let caller =
                    Caller { principal: Principal::Anonymous(address), access: state.access.clone() };
                let visit = Visit {
                    address,
                    caller,
                    connection: Connection::new(),
                    counts: Arc::clone(&counts),
                    requests: Arc::clone(&requests),
                    bodies: Arc::clone(&bodies),
                    state: Arc::clone(&state),
                };
                let served = connection(stream, visit, routes.clone());
                // Whoever is slower than this is no scraper.
                let served = timeout(limits::METRICS_CONNECTION_AGE, served);
                open.push(Open { counts, task: tasks.spawn(async { drop(served.await) }) });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection for metrics");
                sleep(limits::RETRY_DELAY).await;
            }
        }
    }
}

/// Closes a connection when there are too many for one more: the oldest that has no request, else the oldest. Those that
/// have a place elsewhere are not looked at.
fn make_room(open: &mut Vec<Open>) {
    let here = |connection: &Open| connection.counts.api.load(Ordering::Relaxed) == 0;
    if open.iter().filter(|connection| here(connection)).count() < limits::METRICS_CONNECTIONS {
        return;
    }
    let idle =
        |connection: &Open| here(connection) && connection.counts.requests.load(Ordering::Relaxed) == 0;
    if let Some(at) = open.iter().position(idle).or_else(|| open.iter().position(here)) {
        open.remove(at).task.abort();
    }
}

async fn connection(stream: Box<dyn Stream>, visit: Visit, routes: Router) {
    let begun =
        timeout(limits::METRICS_HEAD_TIMEOUT, tls::accept(stream, visit.state.tls.as_deref(), Door::Http1));
    let stream = match begun.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, address = %visit.address, "a connection of HTTP that is not served");
            return;
        }
        Err(_) => return,
    };
    let closed = visit.connection.closed();
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        // It runs while a connection is idle, too.
        .header_read_timeout(limits::METRICS_HEAD_TIMEOUT)
        .max_buf_size(limits::METRICS_REQUEST_BYTES)
        .serve_connection(
            TokioIo::new(Stalled::new(stream)),
            TowerToHyperService::new(routes::of_connection(visit, routes)),
        );
    tokio::select! {
        biased;
        () = closed.cancelled() => {}
        served = served => {
            if let Err(error) = served {
                tracing::debug!(%error, "connection for metrics");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::{Config, metrics::Exposition};

    async fn start() -> (Arc<State>, Endpoint, SocketAddr) {
        let config = Config { store: "memory:".into(), ..Config::default() };
        let state = Arc::new(State::new(crate::environment::process(), &config, None).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (Arc::clone(&state), Endpoint::start(Box::new(listener), state).unwrap(), address)
    }

    /// The whole answer to a request on a connection of its own.
    async fn ask(address: SocketAddr, request: &str) -> String {
        ask_with(address, request, "").await
    }

    /// The same with more headers.
    async fn ask_with(address: SocketAddr, request: &str, headers: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("{request} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn paths() {
        let (state, _endpoint, address) = start().await;
        let is = async |request: &str, status: u16, end: &str| {
            let answer = ask(address, request).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
            assert!(answer.ends_with(end), "{request}: {answer}");
        };
        is("GET /healthz", 200, "\r\n\r\nalive\n").await;
        is("HEAD /healthz", 200, "\r\n\r\n").await;
        is("GET /nothing", 404, "/metrics, /healthz or /readyz; /v1/sql, /v1/tables\n").await;
        is("GET /", 303, "\r\n\r\n").await;
        is("GET /console", 303, "\r\n\r\n").await;
        is("GET /console/", 200, "</html>\n").await;
        is("GET /console/nothing", 404, "the console is at /console/\n").await;
        is("POST /metrics", 405, "no such method here\n").await;
        is("GET /v1/sql", 405, "").await;
        let told = ask(address, "GET /v1/sql").await;
        let reason = r#"{"error":{"reason":"PROTOCOL","message":"GET is not taken here; POST is""#;
        assert!(told.contains(reason) && told.contains("application/json"), "{told}");
        let told = ask(address, "GET /v1/nothing").await;
        assert!(
            told.starts_with("HTTP/1.1 404 ") && told.contains(r#"{"error":{"reason":"PROTOCOL""#),
            "{told}"
        );
        is("GET /readyz", 200, "\r\n\r\nready\n").await;
        is("GET /metrics", 200, "# EOF\n").await;
        let told = ask(address, "GET /metrics").await;
        let ready =
            |told: &str| told.lines().any(|line| line.starts_with("basalt_ready{") && line.ends_with("} 1"));
        assert!(ready(&told), "{told}");
        assert!(told.contains(Exposition::OpenMetrics.media_type()), "{told}");
        let told = ask_with(address, "GET /metrics", "accept: text/plain\r\n").await;
        assert!(told.contains(Exposition::Prometheus.media_type()), "{told}");
        assert!(told.contains("\n# TYPE basalt_commits_total counter\nbasalt_commits_total{node="), "{told}");

        state.stop();
        is("GET /healthz", 200, "alive\n").await;
        is("GET /readyz", 503, "not ready\n").await;
        assert!(!ready(&ask(address, "GET /metrics").await));
    }

    /// A probe's own patience is a second, by the defaults of Kubernetes.
    async fn probe(address: SocketAddr) {
        let answer = timeout(Duration::from_secs(1), ask(address, "GET /healthz")).await;
        assert!(answer.expect("no answer in time").ends_with("alive\n"));
    }

    #[tokio::test]
    async fn connections_that_say_nothing_keep_no_probe_waiting() {
        let (_state, _endpoint, address) = start().await;
        for n in [40, 500] {
            let mut others = Vec::new();
            for i in 0..n {
                let mut stream = TcpStream::connect(address).await.unwrap();
                match i % 3 {
                    0 => {}
                    1 => stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: he").await.unwrap(),
                    _ => stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap(),
                }
                others.push(stream);
                if i % 50 == 0 {
                    probe(address).await;
                }
            }
            for _ in 0..5 {
                probe(address).await;
            }
        }
    }

    #[tokio::test]
    async fn half_a_request_is_not_waited_for() {
        let (_state, _endpoint, address) = start().await;
        let mut idle = TcpStream::connect(address).await.unwrap();
        let mut half = TcpStream::connect(address).await.unwrap();
        half.write_all(b"GET /healthz HTTP/1.1\r\nho").await.unwrap();
        let mut kept = TcpStream::connect(address).await.unwrap();
        kept.write_all(b"GET /healthz HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
        for stream in [&mut idle, &mut half, &mut kept] {
            let mut rest = Vec::new();
            let closed = timeout(limits::METRICS_HEAD_TIMEOUT * 2, stream.read_to_end(&mut rest)).await;
            assert!(closed.is_ok(), "still open");
        }
    }
}
