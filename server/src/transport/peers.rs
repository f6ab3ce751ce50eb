//! The edge towards the other nodes of the cluster: one service, whose limits are wider.

use std::{convert::Infallible, net::SocketAddr, panic::AssertUnwindSafe, sync::Arc, time::Instant};

use basalt_proto::cluster::v1::peer_service_server::PeerServiceServer;
use futures_util::FutureExt as _;
use hyper::{Request, Response, body::Incoming, server::conn::http2, service::Service};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tonic::{Status, body::Body, codegen::BoxFuture};
use tower::Service as _;

use crate::{call::Arrival, cluster::PeerHandler, limits, panics, state::State};

/// The requests of one connection.
pub(super) struct PeerEdge {
    service: PeerServiceServer<PeerHandler>,
    state: Arc<State>,
    peer: SocketAddr,
}

impl PeerEdge {
    pub(super) fn new(state: Arc<State>, peer: SocketAddr) -> Self {
        let service = PeerServiceServer::new(PeerHandler::new(Arc::clone(&state)))
            .max_decoding_message_size(limits::PEER_MESSAGE_BYTES)
            .max_encoding_message_size(limits::PEER_MESSAGE_BYTES);
        Self { service, state, peer }
    }
}

impl Service<Request<Incoming>> for PeerEdge {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(Arrival {
            peer: self.peer,
            at: Instant::now(),
            metrics: Arc::clone(&self.state.metrics),
            _running: self.state.running.token(),
        });
        let answer = AssertUnwindSafe(self.service.clone().call(request)).catch_unwind();
        Box::pin(answer.map(|answer| {
            answer.unwrap_or_else(|panic| Ok(Status::from(panics::fault(&*panic)).into_http()))
        }))
    }
}

pub(super) fn http2() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::PEER_STREAMS)
        .max_local_error_reset_streams(limits::LOCAL_ERROR_RESETS)
        // Whoever has its answer from elsewhere gives up on this one.
        .max_pending_accept_reset_streams(limits::PEER_STREAMS as usize)
        .max_header_list_size(limits::HEADER_LIST_BYTES)
        .initial_stream_window_size(limits::PEER_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(limits::PEER_CONNECTION_WINDOW_BYTES)
        .keep_alive_interval(limits::PEER_KEEPALIVE_INTERVAL)
        .keep_alive_timeout(limits::PEER_KEEPALIVE_TIMEOUT);
    builder
}
