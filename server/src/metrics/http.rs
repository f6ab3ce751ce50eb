//! `/metrics`, `/healthz` and `/readyz` over plain HTTP/1.1.
//!
//! Nobody is waited for here for long: probes must get through whatever other connections do. So there are more places
//! than anybody needs, a connection that says nothing is closed soon, and at once when its place is needed.

use std::{
    convert::Infallible,
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    extract::{Request, State as Shared},
    http::{StatusCode, header::CONTENT_TYPE},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
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
    access::{Access, Action, Caller, Object, Principal},
    environment::{Listener, Stream, run},
    limits,
    state::State,
    status::RequestError,
};

/// The media type of what [`super::Metrics::render`] makes.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The listener; it closes when this is dropped.
#[derive(Debug)]
pub(crate) struct Endpoint {
    task: JoinHandle<Infallible>,
}

impl Endpoint {
    /// Answers from `state`.
    pub(crate) fn start(listener: Box<dyn Listener>, state: Arc<State>) -> io::Result<Self> {
        tracing::info!(address = %listener.local_addr()?, "metrics");
        Ok(Self { task: tokio::spawn(accept(listener, state.access.clone(), routes(state))) })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn routes(state: Arc<State>) -> Router {
    Router::new()
        .route("/healthz", get(async || "alive\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .fallback(async || (StatusCode::NOT_FOUND, "/metrics, /healthz or /readyz\n"))
        .method_not_allowed_fallback(async || (StatusCode::METHOD_NOT_ALLOWED, "GET alone\n"))
        .with_state(state)
}

async fn readyz(Shared(state): Shared<Arc<State>>) -> (StatusCode, &'static str) {
    match state.is_ready() {
        true => (StatusCode::OK, "ready\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
    }
}

async fn metrics(Shared(state): Shared<Arc<State>>) -> Response {
    // Every fragment is looked at, which is no work for an async thread.
    let environment = Arc::clone(&state.environment);
    let rendered = run(&*environment, move || state.metrics.render(&state)).await;
    match rendered {
        Ok(Ok(body)) => ([(CONTENT_TYPE, OPEN_METRICS)], body).into_response(),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written\n").into_response(),
    }
}

/// A connection that is open.
struct Open {
    /// Requests of it that are being answered.
    requests: Arc<AtomicUsize>,
    task: AbortHandle,
}

async fn accept(listener: Box<dyn Listener>, access: Access, routes: Router) -> Infallible {
    // They end with the listener.
    let mut tasks = JoinSet::new();
    let mut open: Vec<Open> = Vec::new();
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                while tasks.try_join_next().is_some() {}
                open.retain(|connection| !connection.task.is_finished());
                make_room(&mut open);
                let requests = Arc::new(AtomicUsize::new(0));
                let caller = Caller { principal: Principal::Anonymous(address), access: access.clone() };
                let served = connection(stream, caller, routes.clone(), Arc::clone(&requests));
                // Whoever is slower than this is no scraper.
                let served = timeout(limits::METRICS_CONNECTION_AGE, served);
                open.push(Open { requests, task: tasks.spawn(async { drop(served.await) }) });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection for metrics");
                sleep(limits::RETRY_DELAY).await;
            }
        }
    }
}

/// Closes a connection when there are too many for one more: the oldest that has no request, else the oldest.
fn make_room(open: &mut Vec<Open>) {
    if open.len() >= limits::METRICS_CONNECTIONS {
        let idle = open.iter().position(|connection| connection.requests.load(Ordering::Relaxed) == 0);
        open.remove(idle.unwrap_or(0)).task.abort();
    }
}

/// Every request passes here, whatever it asks for.
fn authorise(caller: &Caller, path: &str) -> Result<(), RequestError> {
    caller.authorise(if path == "/metrics" { Action::Observe } else { Action::Probe }, Object::Server)
}

async fn connection(stream: Box<dyn Stream>, caller: Caller, routes: Router, requests: Arc<AtomicUsize>) {
    let counted = middleware::from_fn(move |request: Request, next: Next| {
        let (requests, allowed) = (Arc::clone(&requests), authorise(&caller, request.uri().path()));
        async move {
            if let Err(error) = allowed {
                return (StatusCode::FORBIDDEN, format!("{}\n", error.message())).into_response();
            }
            requests.fetch_add(1, Ordering::Relaxed);
            let response = next.run(request).await;
            requests.fetch_sub(1, Ordering::Relaxed);
            response
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        // It runs while a connection is idle, too.
        .header_read_timeout(limits::METRICS_HEAD_TIMEOUT)
        .max_buf_size(limits::METRICS_REQUEST_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes.layer(counted)))
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection for metrics");
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use std::{net::SocketAddr, time::Duration};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::Config;

    async fn start() -> (Arc<State>, Endpoint, SocketAddr) {
        let config = Config { store: "memory:".into(), ..Config::default() };
        let state = Arc::new(State::new(crate::environment::process(), &config, None).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (Arc::clone(&state), Endpoint::start(Box::new(listener), state).unwrap(), address)
    }

    /// The whole answer to a request on a connection of its own.
    async fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("{request} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
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
        is("GET /", 404, "/metrics, /healthz or /readyz\n").await;
        is("POST /metrics", 405, "GET alone\n").await;
        is("GET /readyz", 200, "\r\n\r\nready\n").await;
        is("GET /metrics", 200, "# EOF\n").await;
        let told = ask(address, "GET /metrics").await;
        assert!(told.contains("\nbasalt_ready 1\n"), "{told}");
        assert!(told.contains(OPEN_METRICS), "{told}");

        state.stop();
        is("GET /healthz", 200, "alive\n").await;
        is("GET /readyz", 503, "not ready\n").await;
        assert!(ask(address, "GET /metrics").await.contains("\nbasalt_ready 0\n"));
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
