//! `/metrics`, `/healthz` and `/readyz` over plain HTTP/1.1.

use std::{convert::Infallible, io, sync::Arc};

use hyper::{
    Method, Request, Response, StatusCode, body::Incoming, header::CONTENT_TYPE, server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{limits, state::State};

/// The media type of what [`super::Metrics::render`] makes.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// The listener; it closes when this is dropped.
#[derive(Debug)]
pub(crate) struct Endpoint {
    task: JoinHandle<Infallible>,
}

impl Endpoint {
    /// Answers from `state`.
    pub(crate) fn start(listener: TcpListener, state: Arc<State>) -> io::Result<Self> {
        tracing::info!(address = %listener.local_addr()?, "metrics");
        Ok(Self { task: tokio::spawn(accept(listener, state)) })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) -> Infallible {
    let permits = Arc::new(Semaphore::new(limits::METRICS_CONNECTIONS));
    loop {
        let permit = Arc::clone(&permits).acquire_owned().await;
        match listener.accept().await {
            Ok((stream, _)) => {
                let state = Arc::clone(&state);
                tokio::spawn(async move {
                    let _permit = permit;
                    // Whoever is slower than this is no scraper.
                    let _ = timeout(limits::METRICS_CONNECTION_AGE, connection(stream, state)).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection for metrics");
                sleep(limits::RETRY_DELAY).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, state: Arc<State>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(answer(request.method(), request.uri().path(), state).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::METRICS_IDLE_TIMEOUT)
        .max_buf_size(limits::METRICS_REQUEST_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection for metrics");
    }
}

async fn answer(method: &Method, path: &str, state: Arc<State>) -> Response<String> {
    if method != Method::GET && method != Method::HEAD {
        return text(StatusCode::METHOD_NOT_ALLOWED, "GET alone\n");
    }
    match path {
        "/healthz" => text(StatusCode::OK, "alive\n"),
        "/readyz" if state.is_ready() => text(StatusCode::OK, "ready\n"),
        "/readyz" => text(StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
        "/metrics" => {
            // Every fragment is looked at, which is no work for an async thread.
            let rendered = tokio::task::spawn_blocking(move || state.metrics.render(&state)).await;
            match rendered {
                Ok(Ok(body)) => response(StatusCode::OK, OPEN_METRICS, body),
                _ => text(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written\n"),
            }
        }
        _ => text(StatusCode::NOT_FOUND, "/metrics, /healthz or /readyz\n"),
    }
}

fn text(status: StatusCode, body: &str) -> Response<String> {
    response(status, TEXT, body.to_owned())
}

fn response(status: StatusCode, media_type: &'static str, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(media_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    async fn get(path: &str, state: &Arc<State>) -> (StatusCode, String) {
        let response = answer(&Method::GET, path, Arc::clone(state)).await;
        (response.status(), response.into_body())
    }

    #[tokio::test]
    async fn paths() {
        let state =
            Arc::new(State::new(&Config { store: "memory:".into(), ..Config::default() }, None).unwrap());
        assert_eq!(get("/healthz", &state).await.0, StatusCode::OK);
        assert_eq!(get("/", &state).await.0, StatusCode::NOT_FOUND);
        let post = answer(&Method::POST, "/metrics", Arc::clone(&state)).await;
        assert_eq!(post.status(), StatusCode::METHOD_NOT_ALLOWED);

        assert_eq!(get("/readyz", &state).await, (StatusCode::OK, "ready\n".to_owned()));
        let (status, body) = get("/metrics", &state).await;
        assert_eq!(status, StatusCode::OK);
        assert!(body.contains("\nbasalt_ready 1\n") && body.ends_with("# EOF\n"), "{body}");

        state.stop();
        assert_eq!(get("/healthz", &state).await.0, StatusCode::OK);
        assert_eq!(get("/readyz", &state).await.0, StatusCode::SERVICE_UNAVAILABLE);
        assert!(get("/metrics", &state).await.1.contains("\nbasalt_ready 0\n"));
    }
}
