//! The edge towards the other nodes of the cluster: one service, whose limits are wider.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use basalt_proto::{
    cluster::v1::peer_service_server::{PeerServiceServer, SERVICE_NAME},
    shapes::Shape,
};
use hyper::{Request, Response, body::Incoming, server::conn::http2, service::Service};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::Instant;
use tonic::{Status, body::Body};
use tower::Service as _;

use super::{
    edge::service_of,
    receive::{self, Method},
    reply::{Reply, answer, refused},
};
use crate::{
    access::{Caller, Method as Asked, Principal},
    call::Arrival,
    connection::Connection,
    limits,
    peers::PeerHandler,
    state::State,
    tls::Certificate,
    trace::Role,
};

/// The methods whose request is a stream.
const STREAMS: [&str; 2] = ["Execute", "BeginTask"];

/// The requests of one connection.
pub(super) struct PeerEdge {
    service: PeerServiceServer<PeerHandler>,
    state: Arc<State>,
    peer: SocketAddr,
    /// That of the node, if nodes show one.
    certificate: Option<Arc<Certificate>>,
    connection: Arc<Connection>,
    /// What the connection holds of requests.
    inbound: Arc<receive::Connection>,
}

impl PeerEdge {
    pub(super) fn new(
        state: Arc<State>,
        peer: SocketAddr,
        certificate: Option<Arc<Certificate>>,
        connection: Arc<Connection>,
        inbound: Arc<receive::Connection>,
    ) -> Self {
        let service = PeerServiceServer::new(PeerHandler::new(Arc::clone(&state)))
            .max_decoding_message_size(limits::PEER_MESSAGE_BYTES)
            .max_encoding_message_size(limits::PEER_MESSAGE_BYTES);
        Self { service, state, peer, certificate, connection, inbound }
    }
}

impl Service<Request<Incoming>> for PeerEdge {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Reply;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let at = Instant::now();
        let (service, method) = service_of(&request);
        let asked = Asked::find(service, method).filter(|asked| asked.service == SERVICE_NAME);
        let Some(asked) = asked else {
            return Reply::new(answer(Status::unimplemented(
                "this port is for the other nodes of the cluster; clients have another one",
            )));
        };
        let trace = self.state.traces.arrived(request.headers(), asked.label, Role::Child);
        let _entered = trace.enter();
        let principal = Principal::Node(self.peer, self.certificate.clone());
        let caller = Caller { principal, access: self.state.access.clone() };
        if let Err(error) = caller.authorise(asked.action, asked.object) {
            return refused(error, asked, &caller, at, &self.state.metrics);
        }
        let arrival = Arrival {
            caller,
            method: asked,
            at,
            metrics: Arc::clone(&self.state.metrics),
            connection: Arc::clone(&self.connection),
            trace,
            running: Some(self.state.running.token()),
            _visit: self.connection.visit(),
            _turn: None,
        };
        request.extensions_mut().insert(arrival.clone());
        let streams = STREAMS.contains(&asked.name);
        let decoded = Shape::of_request(SERVICE_NAME, asked.name);
        let decoded = decoded.map(|shape| (shape, limits::PEER_DECODED_BYTES));
        let method = Method { message_bytes: limits::PEER_MESSAGE_BYTES, streams, decoded };
        Reply::to(&self.inbound, request, method, Some(arrival), |request| self.service.clone().call(request))
    }
}

pub(super) fn http2(stream_window: u32) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::PEER_STREAMS)
        .max_local_error_reset_streams(limits::LOCAL_ERROR_RESETS)
        // Whoever has its answer from elsewhere gives up on this one.
        .max_pending_accept_reset_streams(limits::PEER_STREAMS as usize)
        .max_header_list_size(limits::HEADER_LIST_BYTES)
        .max_frame_size(limits::FRAME_BYTES)
        .initial_stream_window_size(stream_window)
        .initial_connection_window_size(stream_window * limits::PEER_STREAMS)
        .keep_alive_interval(limits::PEER_KEEPALIVE_INTERVAL)
        .keep_alive_timeout(limits::PEER_KEEPALIVE_TIMEOUT);
    builder
}
