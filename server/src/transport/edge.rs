//! The edge: every request of one connection, before and after its method.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, LazyLock},
};

#[cfg(feature = "sql")]
use arrow_flight::flight_service_server::FlightServiceServer;
use basalt_proto::{
    shapes::Shape,
    v1::{
        ErrorReason,
        catalog_service_server::{self, CatalogServiceServer},
        cluster_service_server::{self, ClusterServiceServer},
        ingest_service_server::{self, IngestServiceServer},
        query_service_server::{self, QueryServiceServer},
        sip_service_server::{self, SipServiceServer},
        sql_service_server::{self, SqlServiceServer},
    },
};
use hyper::{
    Request, Response,
    body::Incoming,
    header::{AUTHORIZATION, HeaderValue},
};
use tokio::time::Instant;
use tonic::{Status, body::Body, codegen::BoxFuture};
use tonic_health::{
    ServingStatus,
    pb::health_server::{self, HealthServer},
    server::{HealthReporter, HealthService},
};
use tower::{Service, util::BoxCloneSyncService};

use super::{
    receive::{self, Method, Received},
    reply::{Reply, answer, refused},
};
#[cfg(feature = "sql")]
use crate::flight::Flight;
use crate::{
    Error,
    access::{Caller, FLIGHT, Method as Asked, Principal, REFLECTION, REFLECTION_ALPHA},
    call::Arrival,
    connection::Connection,
    limits,
    pace::Paced,
    services::{Catalog, Cluster, Ingest, Query, Sips, Sql},
    state::State,
    status::RequestError,
    trace::Role,
};

/// The method of the ingest service whose request is a stream.
const WRITE: &str = "Write";
/// Those of Arrow Flight.
const FLIGHT_STREAMS: [&str; 3] = ["Handshake", "DoPut", "DoExchange"];

/// A request as its service reads it.
type Read = Request<Received<Paced<Incoming>>>;

type Reflection = BoxCloneSyncService<Read, Response<Body>, Infallible>;

/// The reflection services of both versions. What they tell is the same for every server of a process, and takes
/// milliseconds to read.
static REFLECTIONS: LazyLock<Result<[Reflection; 2], String>> =
    LazyLock::new(|| reflections().map_err(|error| error.to_string()));

fn reflections() -> Result<[Reflection; 2], tonic_reflection::server::Error> {
    let descriptors = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(basalt_proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // The details of errors.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
            // Each version lists both.
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET)
    };
    let (large, small) = (limits::MESSAGE_BYTES, limits::SMALL_MESSAGE_BYTES);
    let newest = descriptors().build_v1()?.max_decoding_message_size(small);
    let alpha = descriptors().build_v1alpha()?.max_decoding_message_size(small);
    Ok([
        BoxCloneSyncService::new(newest.max_encoding_message_size(large)),
        BoxCloneSyncService::new(alpha.max_encoding_message_size(large)),
    ])
}

/// Every service, each with its message limits.
#[derive(Clone)]
pub(super) struct Services {
    catalog: CatalogServiceServer<Catalog>,
    ingest: IngestServiceServer<Ingest>,
    query: QueryServiceServer<Query>,
    sips: SipServiceServer<Sips>,
    sql: SqlServiceServer<Sql>,
    cluster: ClusterServiceServer<Cluster>,
    health_service: HealthServer<HealthService>,
    reflection: Reflection,
    reflection_alpha: Reflection,
    pub(super) health: Health,
}

impl Services {
    pub(super) async fn new(state: Arc<State>) -> Result<Self, Error> {
        let health = Health(HealthReporter::new());
        let loading = state.is_loading();
        health.set(if loading { ServingStatus::NotServing } else { ServingStatus::Serving }).await;
        let [reflection, reflection_alpha] = REFLECTIONS.clone().map_err(Error::Start)?;
        let (large, small) = (limits::MESSAGE_BYTES, limits::SMALL_MESSAGE_BYTES);
        let health_service = HealthServer::new(HealthService::from_health_reporter(health.0.clone()));
        Ok(Self {
            catalog: CatalogServiceServer::new(Catalog(Arc::clone(&state)))
                .max_decoding_message_size(large)
                .max_encoding_message_size(large),
            ingest: IngestServiceServer::new(Ingest(Arc::clone(&state)))
                .max_decoding_message_size(large)
                .max_encoding_message_size(large),
            query: QueryServiceServer::new(Query(Arc::clone(&state)))
                .max_decoding_message_size(large)
                .max_encoding_message_size(large),
            sips: SipServiceServer::new(Sips(Arc::clone(&state)))
                .max_decoding_message_size(large)
                .max_encoding_message_size(large),
            sql: SqlServiceServer::new(Sql(Arc::clone(&state)))
                .max_decoding_message_size(large)
                .max_encoding_message_size(large),
            cluster: ClusterServiceServer::new(Cluster(state))
                .max_decoding_message_size(small)
                .max_encoding_message_size(large),
            health_service: health_service.max_decoding_message_size(small).max_encoding_message_size(small),
            reflection,
            reflection_alpha,
            health,
        })
    }
}

/// What the health service tells.
#[derive(Clone, Debug)]
pub(super) struct Health(HealthReporter);

impl Health {
    const NAMES: [&str; 7] = [
        "",
        catalog_service_server::SERVICE_NAME,
        ingest_service_server::SERVICE_NAME,
        query_service_server::SERVICE_NAME,
        sip_service_server::SERVICE_NAME,
        sql_service_server::SERVICE_NAME,
        cluster_service_server::SERVICE_NAME,
    ];

    async fn set(&self, status: ServingStatus) {
        for name in Self::NAMES {
            self.0.set_service_status(name, status).await;
        }
    }

    pub(super) async fn serving(&self) {
        self.set(ServingStatus::Serving).await;
    }

    pub(super) async fn not_serving(&self) {
        self.set(ServingStatus::NotServing).await;
    }

    /// Ends the streams of those who watch.
    pub(super) async fn end(&mut self) {
        for name in Self::NAMES {
            self.0.clear_service_status(name).await;
        }
    }
}

/// The requests of one connection. The path finds the service by a plain match, since there are few.
pub(super) struct Edge {
    services: Services,
    #[cfg(feature = "sql")]
    flight: FlightServiceServer<Flight>,
    state: Arc<State>,
    peer: SocketAddr,
    connection: Arc<Connection>,
    /// What the connection holds of requests.
    inbound: Arc<receive::Connection>,
}

impl Edge {
    pub(super) fn new(
        services: Services,
        state: Arc<State>,
        peer: SocketAddr,
        inbound: Arc<receive::Connection>,
    ) -> Self {
        let connection = Connection::new();
        Self {
            services,
            #[cfg(feature = "sql")]
            flight: Flight::service(&state, &connection),
            state,
            peer,
            connection,
            inbound,
        }
    }

    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }
}

impl hyper::service::Service<Request<Incoming>> for Edge {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Reply;

    fn call(&self, mut request: Request<Incoming>) -> Reply {
        let at = Instant::now();
        let (service, method) = service_of(&request);
        let Some(asked) = Asked::find(service, method) else {
            return Reply::new(answer(Status::unimplemented("there is no such method")));
        };
        // Before anything is done for it: that its like were turned away tells nobody anything.
        if asked.is_query() && self.connection.is_turned_away(&self.state.cpu) {
            let error = self.state.cpu.overloaded();
            self.state.metrics.request(asked.label, error.code(), at.elapsed(), 0);
            self.state.metrics.error(error.reason());
            return Reply::new(answer(error.into()));
        }
        let is_ours = asked.service == FLIGHT || request.uri().path().starts_with("/basalt.");
        let role = if is_ours { Role::Root } else { Role::Silent };
        let trace = self.state.traces.arrived(request.headers(), asked.label, role);
        let _entered = trace.enter();
        let access = self.state.access.clone();
        let header = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let principal = access.principal(self.peer, header);
        let caller = |principal| Caller { principal, access };
        let caller = match principal {
            Ok(principal) => caller(principal),
            Err(error) => {
                let caller = caller(Principal::Anonymous(self.peer));
                return refused(error, asked, &caller, at, &self.state.metrics);
            }
        };
        if let Err(error) = caller.authorise(asked.action, asked.object) {
            return refused(error, asked, &caller, at, &self.state.metrics);
        }
        let mut ours = None;
        if is_ours {
            if self.state.is_stopping() {
                let error = RequestError::new(ErrorReason::ShuttingDown, "the server is shutting down");
                return Reply::new(answer(error.into()));
            }
            if self.state.is_loading() {
                return Reply::new(answer(self.state.tables.loading().into()));
            }
            let visit = self.connection.visit();
            if visit.is_none() {
                let message = "the connection was idle and ends, for others have come: ask on another one";
                return Reply::new(answer(RequestError::new(ErrorReason::ShuttingDown, message).into()));
            }
            let turn = match caller.turn(asked.object) {
                Ok(turn) => turn,
                Err(error) => return refused(error, asked, &caller, at, &self.state.metrics),
            };
            let arrival = Arrival {
                caller,
                method: asked,
                at,
                metrics: Arc::clone(&self.state.metrics),
                connection: Arc::clone(&self.connection),
                trace,
                running: Some(self.state.running.token()),
                _visit: visit,
                _turn: turn,
            };
            ours = Some(arrival.clone());
            request.extensions_mut().insert(arrival);
        }
        let service = asked.service;
        let (streams, message_bytes) = match service {
            ingest_service_server::SERVICE_NAME => (asked.name == WRITE, limits::MESSAGE_BYTES),
            query_service_server::SERVICE_NAME
            | sip_service_server::SERVICE_NAME
            | sql_service_server::SERVICE_NAME
            | catalog_service_server::SERVICE_NAME => (false, limits::MESSAGE_BYTES),
            cluster_service_server::SERVICE_NAME | health_server::SERVICE_NAME => {
                (false, limits::SMALL_MESSAGE_BYTES)
            }
            REFLECTION | REFLECTION_ALPHA => (true, limits::SMALL_MESSAGE_BYTES),
            FLIGHT => (FLIGHT_STREAMS.contains(&asked.name), limits::FLIGHT_MESSAGE_BYTES),
            // Those of the other nodes have a port of their own.
            _ => return Reply::new(answer(Status::unimplemented("there is no such service"))),
        };
        let serve = |request: Read| self.serve(service, request);
        let decoded = shape(asked).map(|shape| (shape, limits::DECODED_BYTES));
        Reply::to(&self.inbound, request, Method { message_bytes, streams, decoded }, ours, serve)
    }
}

impl Edge {
    fn serve(&self, service: &str, request: Read) -> BoxFuture<Response<Body>, Infallible> {
        let Services {
            catalog,
            ingest,
            query,
            sips,
            sql,
            cluster,
            health_service,
            reflection,
            reflection_alpha,
            ..
        } = &self.services;
        match service {
            query_service_server::SERVICE_NAME => query.clone().call(request),
            ingest_service_server::SERVICE_NAME => ingest.clone().call(request),
            sip_service_server::SERVICE_NAME => sips.clone().call(request),
            sql_service_server::SERVICE_NAME => sql.clone().call(request),
            catalog_service_server::SERVICE_NAME => catalog.clone().call(request),
            cluster_service_server::SERVICE_NAME => cluster.clone().call(request),
            health_server::SERVICE_NAME => health_service.clone().call(request),
            REFLECTION => Box::pin(reflection.clone().call(request)),
            #[cfg(feature = "sql")]
            FLIGHT => self.flight.clone().call(request),
            _ => Box::pin(reflection_alpha.clone().call(request)),
        }
    }
}

/// What a method is asked with; `None`: messages that hold nothing which is there many times.
fn shape(asked: &Asked) -> Option<&'static Shape> {
    #[cfg(feature = "sql")]
    if asked.service == FLIGHT {
        return crate::flight::shape(asked.name);
    }
    Shape::of_request(asked.service, asked.name)
}

/// The service and the method that a request names.
pub(super) fn service_of<B>(request: &Request<B>) -> (&str, &str) {
    let path = request.uri().path().strip_prefix('/').and_then(|path| path.split_once('/'));
    path.unwrap_or(("", ""))
}
