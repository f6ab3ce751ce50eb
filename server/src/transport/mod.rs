//! Connections: accepting them, serving them, and closing them.
//!
//! This stands on hyper instead of tonic's own transport for three reasons: tonic answers a passed deadline
//! with CANCELLED and without details, before the method can say anything; a connection here is a task that
//! a shutdown can end; and connections are counted before they are served.

mod crowd;
mod edge;
mod fair;
mod pause;
mod peers;
mod receive;
mod reply;

use std::{convert::Infallible, future::Future, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use futures_util::future::select;
use hyper::{Request, Response, body::Incoming, server::conn::http2, service::Service};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    task::JoinSet,
    time::{Instant, interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;

use crate::{
    Config, Doors, Error,
    connection::Connection,
    environment::{Listener, Stream},
    limits,
    state::State,
    tls,
};
use crowd::{Crowd, Place};
use edge::{Edge, Services};
use fair::fair;
use pause::Pausing;
use peers::PeerEdge;
use receive::Port;

/// See [`crate::run`].
pub(crate) async fn serve(
    Doors { clients, peers, .. }: Doors,
    config: &Config,
    state: Arc<State>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let address = clients.local_addr()?;
    let mut services = Services::new(Arc::clone(&state)).await?;
    tracing::info!(
        version = crate::VERSION,
        %address,
        threads = config.cpu_threads(),
        concurrent_queries = config.query_permits(),
        memory_bytes = state.memory.limit(),
        "listening"
    );

    let port = Port::clients(&state.memory, config.max_connections);
    let peer_port = Port::peers(&state.memory);
    let mut background = JoinSet::new();
    if let (Some(cluster), Some(listener)) = (&state.cluster, &peers) {
        let (address, name) = (listener.local_addr()?, cluster.members().own());
        tracing::info!(%address, %name, peers = ?config.peers, "listening for the other nodes of the cluster");
        background.spawn(Arc::clone(cluster).watch(Arc::clone(&state.tables)));
    }
    let closing = CancellationToken::new();
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    let mut purge = interval(limits::PURGE_INTERVAL);
    let load = Arc::clone(&state);
    let mut load = tokio::spawn(async move { load.load().await });
    let mut loading = true;
    let mut doors = Accepting {
        clients: Gate::new(clients, port.connections()),
        peers: peers.map(|listener| Gate::new(listener, peer_port.connections())),
        first: Door::Clients,
    };
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut shutdown => break,
            _ = purge.tick() => {
                state.sets.purge(Instant::now());
                continue;
            }
            loaded = &mut load, if loading => {
                loaded.map_err(|e| Error::Start(e.to_string()))??;
                loading = false;
                services.health.serving().await;
                continue;
            }
            accepted = doors.next() => accepted.map(|(door, (stream, address, mut place))| match door {
                Door::Clients => if let Some(counted) = counted(&port, address) {
                    let edge = Edge::new(services.clone(), Arc::clone(&state), address, counted);
                    let connection = Arc::clone(edge.connection());
                    place.take(&connection);
                    let (http2, tls, closing) =
                        (http2(port.stream_window()), state.tls.clone(), closing.clone());
                    connections.spawn(async move {
                        let begun = tls::accept(stream, tls.as_deref(), tls::Door::Http2);
                        if let Some(stream) = begin(begun, address, &connection).await {
                            serve_connection(stream, http2, edge, closing, &connection).await;
                        }
                        drop(place);
                    });
                },
                Door::Peers => if let Some(counted) = counted(&peer_port, address) {
                    let http2 = peers::http2(peer_port.stream_window());
                    let (state, closing) = (Arc::clone(&state), closing.clone());
                    let connection = Connection::new();
                    place.take(&connection);
                    connections.spawn(async move {
                        let begun = tls::accept_peer(stream, state.peer_tls.as_deref());
                        if let Some((stream, certificate)) = begin(begun, address, &connection).await {
                            // A node's connection is never in another's way.
                            let _visit = connection.visit();
                            let node = Arc::clone(&connection);
                            let edge = PeerEdge::new(Arc::clone(&state), address, certificate, node, counted);
                            serve_connection(stream, http2, edge, closing, &connection).await;
                        }
                        drop(place);
                    });
                },
            }),
        };
        while connections.try_join_next().is_some() {}
        if let Err(error) = accepted {
            // Out of file descriptors, most likely: connections that close will make room.
            tracing::warn!(%error, "cannot accept a connection");
            sleep(Duration::from_millis(100)).await;
        }
    }

    load.abort();
    if loading {
        // How far it came is of no use to anybody.
        let _ = load.await;
    }
    drop(doors.clients);
    tracing::info!(running = state.running.len(), grace = ?config.shutdown_grace, "shutting down");
    state.stop();
    services.health.not_serving().await;
    let running = async {
        let mut ticks = interval(limits::UNREAD_INTERVAL);
        loop {
            tokio::select! {
                biased;
                () = state.running.wait() => return,
                // What its client does not go on with is not waited for.
                _ = ticks.tick() => {
                    state.readers.give_up_unread();
                    state.writes.give_up_silent();
                }
            }
        }
    };
    if timeout(config.shutdown_grace, running).await.is_err() {
        tracing::warn!(running = state.running.len(), "the time is over; what still runs is cut off");
    }
    if let Some(cluster) = &state.cluster {
        cluster.members().leave().await;
    }
    services.health.end().await;
    closing.cancel();
    let closed = async { while connections.join_next().await.is_some() {} };
    if timeout(limits::CLOSE_TIMEOUT, closed).await.is_err() {
        connections.shutdown().await;
    }
    background.shutdown().await;
    Ok(())
}

/// Where a connection comes in.
#[derive(Clone, Copy)]
enum Door {
    Clients,
    Peers,
}

type Accepted = (Box<dyn Stream>, SocketAddr, Place);

/// A door, and who has come in by it.
struct Gate {
    listener: Box<dyn Listener>,
    crowd: Arc<Crowd>,
    /// Who waits for a place.
    waiting: Option<(Box<dyn Stream>, SocketAddr)>,
}

impl Gate {
    fn new(listener: Box<dyn Listener>, most: usize) -> Self {
        Self { listener, crowd: Crowd::new(most), waiting: None }
    }

    /// The next connection, once there is a place for it. Nobody is lost where this is given up.
    async fn next(&mut self) -> io::Result<Accepted> {
        if self.waiting.is_none() {
            self.waiting = Some(self.listener.accept().await?);
        }
        let place = self.crowd.enter().await;
        let (stream, peer) = self.waiting.take().ok_or(io::ErrorKind::NotConnected)?;
        Ok((stream, peer, place))
    }
}

/// The doors, of which neither keeps the other waiting.
struct Accepting {
    clients: Gate,
    /// Where there is a cluster.
    peers: Option<Gate>,
    /// Which is looked at first: the other than the last time.
    first: Door,
}

impl Accepting {
    async fn next(&mut self) -> io::Result<(Door, Accepted)> {
        let Self { clients, peers, .. } = self;
        let client = async { Ok((Door::Clients, clients.next().await?)) };
        let peer = async {
            match peers {
                Some(gate) => Ok((Door::Peers, gate.next().await?)),
                None => std::future::pending().await,
            }
        };
        let accepted = match self.first {
            Door::Clients => select(pin!(client), pin!(peer)).await.factor_first().0,
            Door::Peers => select(pin!(peer), pin!(client)).await.factor_first().0,
        };
        self.first = match accepted {
            Ok((Door::Clients, _)) => Door::Peers,
            _ => Door::Clients,
        };
        accepted
    }
}

/// Counts a connection; one that there is no memory for is closed.
fn counted(port: &Arc<Port>, address: SocketAddr) -> Option<Arc<receive::Connection>> {
    let counted = port.connect();
    counted.inspect_err(|error| tracing::warn!(%address, error = error.message(), "no connection")).ok()
}

/// A connection once both sides have agreed on how it is encrypted, or not; `None`: it ends here.
async fn begin<T>(
    begun: impl Future<Output = io::Result<T>>,
    address: SocketAddr,
    connection: &Connection,
) -> Option<T> {
    let left = connection.left();
    let begun = tokio::select! {
        biased;
        () = left.cancelled() => return None,
        begun = timeout(limits::PREFACE_TIMEOUT, begun) => begun,
    };
    match begun {
        Ok(Ok(begun)) => Some(begun),
        Ok(Err(error)) => {
            tracing::info!(%error, %address, "a connection is not served");
            None
        }
        Err(_) => None,
    }
}

async fn serve_connection<E>(
    mut stream: Box<dyn Stream>,
    http2: http2::Builder<TokioExecutor>,
    edge: E,
    closing: CancellationToken,
    of: &Arc<Connection>,
) where
    E: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
    E::Future: Send + 'static,
{
    let (left, closed) = (of.left(), of.closed());
    // As many bytes as the preface of HTTP/2 has; hyper reads them.
    let mut preface = [0; 24];
    let preface = tokio::select! {
        biased;
        () = left.cancelled() => return,
        preface = timeout(limits::PREFACE_TIMEOUT, stream.look(&mut preface)) => preface,
    };
    if !matches!(preface, Ok(Ok(()))) {
        return;
    }
    let mut connection = pin!(http2.serve_connection(TokioIo::new(Pausing::new(fair(stream), of)), edge));
    let served = tokio::select! {
        biased;
        served = &mut connection => served,
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = left.cancelled() => {
            tracing::debug!("an idle connection makes room for another");
            connection.as_mut().graceful_shutdown();
            match timeout(limits::GOODBYE_TIMEOUT, connection).await {
                Ok(served) => served,
                Err(_) => return,
            }
        }
        () = closed.cancelled() => {
            tracing::info!("a connection is closed whose client leaves its answers unread");
            return;
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "connection");
    }
}

fn http2(stream_window: u32) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::STREAMS)
        .max_local_error_reset_streams(limits::LOCAL_ERROR_RESETS)
        .max_pending_accept_reset_streams(limits::PENDING_ACCEPT_RESETS)
        .max_header_list_size(limits::HEADER_LIST_BYTES)
        .max_frame_size(limits::FRAME_BYTES)
        .initial_stream_window_size(stream_window)
        .initial_connection_window_size(stream_window * limits::STREAMS)
        .keep_alive_interval(limits::KEEPALIVE_INTERVAL)
        .keep_alive_timeout(limits::KEEPALIVE_TIMEOUT);
    builder
}
