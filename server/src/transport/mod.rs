//! Connections: accepting them, serving them, and closing them.
//!
//! This stands on hyper instead of tonic's own transport for three reasons: tonic answers a passed deadline
//! with CANCELLED and without details, before the method can say anything; a connection here is a task that
//! a shutdown can end; and connections are counted before they are accepted.

mod edge;

use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{Config, Error, limits, state::State};
use edge::{Edge, Services};

/// See [`crate::run`].
pub(crate) async fn serve(
    listener: TcpListener,
    config: &Config,
    state: Arc<State>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let address = listener.local_addr()?;
    let mut services = Services::new(Arc::clone(&state)).await?;
    tracing::info!(
        version = crate::VERSION,
        %address,
        threads = config.cpu_threads(),
        concurrent_queries = config.query_permits(),
        memory_bytes = state.memory.limit(),
        "listening"
    );
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "anyone who reaches this address may read and write every table");
    }

    let permits = Arc::new(Semaphore::new(config.max_connections));
    let closing = CancellationToken::new();
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    let mut purge = interval(limits::PURGE_INTERVAL);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            _ = purge.tick() => {
                state.sets.purge(Instant::now());
                continue;
            }
            accepted = accept(&listener, &permits) => accepted,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, peer, permit)) => {
                let edge = Edge::new(services.clone(), Arc::clone(&state), peer);
                connections.spawn(connection(stream, edge, closing.clone(), permit));
            }
            Err(error) => {
                // Out of file descriptors, most likely: connections that close will make room.
                tracing::warn!(%error, "cannot accept a connection");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }

    drop(listener);
    tracing::info!(running = state.running.len(), grace = ?config.shutdown_grace, "shutting down");
    state.stop();
    services.health.not_serving().await;
    if timeout(config.shutdown_grace, state.running.wait()).await.is_err() {
        tracing::warn!(running = state.running.len(), "the time is over; what still runs is cut off");
    }
    services.health.end().await;
    closing.cancel();
    let closed = async { while connections.join_next().await.is_some() {} };
    if timeout(limits::CLOSE_TIMEOUT, closed).await.is_err() {
        connections.shutdown().await;
    }
    tracing::info!("stopped");
    Ok(())
}

/// The next connection, once there may be one more.
async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, peer, permit))
}

async fn connection(
    stream: TcpStream,
    edge: Edge,
    closing: CancellationToken,
    _permit: OwnedSemaphorePermit,
) {
    if !matches!(timeout(limits::PREFACE_TIMEOUT, preface(&stream)).await, Ok(Ok(()))) {
        return;
    }
    let mut connection = pin!(http2().serve_connection(TokioIo::new(stream), edge));
    let served = tokio::select! {
        served = &mut connection => served,
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "connection");
    }
}

/// Waits until the client has sent as many bytes as the preface of HTTP/2 has; hyper reads them.
async fn preface(stream: &TcpStream) -> io::Result<()> {
    let mut bytes = [0; 24];
    loop {
        match stream.peek(&mut bytes).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            24 => return Ok(()),
            _ => sleep(Duration::from_millis(10)).await,
        }
    }
}

fn http2() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::STREAMS)
        .max_local_error_reset_streams(limits::LOCAL_ERROR_RESETS)
        .max_pending_accept_reset_streams(limits::PENDING_ACCEPT_RESETS)
        .max_header_list_size(limits::HEADER_LIST_BYTES)
        .initial_stream_window_size(limits::STREAM_WINDOW_BYTES)
        .initial_connection_window_size(limits::CONNECTION_WINDOW_BYTES)
        .keep_alive_interval(limits::KEEPALIVE_INTERVAL)
        .keep_alive_timeout(limits::KEEPALIVE_TIMEOUT);
    builder
}
