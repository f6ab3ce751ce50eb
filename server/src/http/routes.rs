//! The routes, and what every request passes before its own: who may do it, and whether there is a place for it.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, OnceLock, PoisonError, atomic::Ordering},
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State as Shared},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{MethodRouter, any, get, post},
};
use basalt_proto::v1::ErrorReason;
use tokio::time::Instant;

use super::{
    Counts,
    answer::Held,
    console,
    error::{refuse, told},
    fetch, load,
    read::next,
    room::{Room, Share},
    sender,
};
use crate::{
    access::{Action, Caller, Object, ROUTES, Route},
    call::{Arrival, tell_refused},
    connection::Connection,
    environment::run,
    limits,
    memory::{Consumer, Reservation},
    metrics::Exposition,
    pace::Paced,
    state::State,
    status::{RequestError, Result},
    trace::{self, REQUEST_ID, Role},
};

/// All routes of the list.
pub(super) fn router(state: Arc<State>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        router = router.route(route.path, handler(route));
    }
    router.fallback(nowhere).method_not_allowed_fallback(other_method).with_state(state)
}

/// The paths that there are.
const KNOWN: &str = "/console/; /metrics, /healthz or /readyz; /v1/sql, /v1/tables";

/// A path that is none.
async fn nowhere(uri: Uri) -> Response {
    match uri.path() {
        "/console" => console::root().await.into_response(),
        path if is_of_api(path) => {
            let message = format!("there is no such path; there are {KNOWN}");
            told(StatusCode::NOT_FOUND, &RequestError::protocol(message))
        }
        _ => (StatusCode::NOT_FOUND, format!("{KNOWN}\n")).into_response(),
    }
}

/// A path with another method than its own.
async fn other_method(method: Method, uri: Uri) -> Response {
    let path = uri.path();
    if !is_of_api(path) {
        return (StatusCode::METHOD_NOT_ALLOWED, "no such method here\n").into_response();
    }
    let taken = ["GET", "POST"].into_iter().filter(|verb| Route::find(verb, path).is_some());
    let taken = match taken.collect::<Vec<_>>().as_slice() {
        [] => String::new(),
        [verb] => format!("; {verb} is"),
        verbs => format!("; {} are", verbs.join(" and ")),
    };
    let message = format!("{method} is not taken here{taken}");
    told(StatusCode::METHOD_NOT_ALLOWED, &RequestError::protocol(message))
}

/// Whether the errors of a path are JSON.
fn is_of_api(path: &str) -> bool {
    path == "/v1" || path.starts_with("/v1/")
}

fn handler(route: &Route) -> MethodRouter<Arc<State>> {
    match route.method.label {
        "HttpHealth" => get(async || "alive\n"),
        "HttpReady" => get(readyz),
        "HttpMetrics" => get(metrics),
        #[cfg(feature = "sql")]
        "HttpSql" => post(super::sql::sql),
        #[cfg(not(feature = "sql"))]
        "HttpSql" => post(without_sql),
        "HttpRoot" => get(console::root),
        "HttpConsole" => get(console::file),
        "HttpTables" => get(fetch::tables),
        "HttpTable" => get(fetch::table),
        "HttpLoad" => post(load::load),
        // A test asks for every route.
        _ => any(async || StatusCode::NOT_IMPLEMENTED),
    }
}

async fn readyz(Shared(state): Shared<Arc<State>>) -> (StatusCode, &'static str) {
    match state.is_ready() {
        true => (StatusCode::OK, "ready\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
    }
}

async fn metrics(Shared(state): Shared<Arc<State>>, headers: HeaderMap) -> Response {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = Exposition::accepted(accept);
    // Every fragment is looked at, which is no work for an async thread.
    let environment = Arc::clone(&state.environment);
    let render = move || state.metrics.render(&state).map(|text| format.of_open_metrics(text));
    let rendered = run(&*environment, render).await;
    match rendered {
        Ok(Ok(body)) => ([(header::CONTENT_TYPE, format.media_type())], body).into_response(),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written\n").into_response(),
    }
}

#[cfg(not(feature = "sql"))]
async fn without_sql() -> Response {
    super::error::without_sql()
}

/// A connection, as its requests know it.
#[derive(Clone, Debug)]
pub(super) struct Visit {
    pub(super) address: SocketAddr,
    /// Who it is, once it has sent a request.
    pub(super) caller: Caller,
    pub(super) connection: Arc<Connection>,
    pub(super) counts: Arc<Counts>,
    /// For requests of `/v1`.
    pub(super) requests: Arc<Room>,
    /// Bytes, for those whose body is not there yet.
    pub(super) bodies: Arc<Room>,
    pub(super) state: Arc<State>,
}

/// The routes for the requests of one connection.
pub(super) fn of_connection(visit: Visit, routes: Router) -> Router {
    routes.layer(middleware::from_fn(move |request: Request, next: Next| {
        let visit = visit.clone();
        async move {
            let counts = Arc::clone(&visit.counts);
            counts.requests.fetch_add(1, Ordering::Relaxed);
            let response = passed(visit, request, next).await;
            counts.requests.fetch_sub(1, Ordering::Relaxed);
            response
        }
    }))
}

/// Every request passes here, whatever it asks for. Its answer tells its id.
async fn passed(visit: Visit, request: Request, next: Next) -> Response {
    let route = Route::find(request.method().as_str(), request.uri().path());
    let (label, role) = match route {
        Some(route) if route.is_api() => (route.method.label, Role::Root),
        Some(route) => (route.method.label, Role::Silent),
        None => ("Http", Role::Silent),
    };
    let trace = visit.state.traces.arrived(request.headers(), label, role);
    let mut response = trace::scope(Some(Arc::clone(&trace)), admitted(visit, request, next, route)).await;
    if let Ok(id) = HeaderValue::try_from(trace.id().to_string()) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// Does what a request asks for, where it may.
async fn admitted(
    mut visit: Visit,
    mut request: Request,
    next: Next,
    route: Option<&'static Route>,
) -> Response {
    let header = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    match visit.caller.access.principal(visit.address, header) {
        Ok(principal) => visit.caller.principal = principal,
        Err(error) => return harmless(refuse(&error)),
    }
    let Some(route) = route else {
        return match visit.caller.authorise(Action::Probe, Object::Server) {
            Ok(()) => next.run(request).await,
            Err(error) => refuse(&error),
        };
    };
    let method = &route.method;
    let allowed = visit.caller.authorise(method.action, method.object);
    // The console's pages, and whether the server lives, are nobody's secret.
    let allowed = allowed.and_then(|()| match method.action {
        Action::Probe => Ok(()),
        _ => sender::check(&request, &visit.caller.principal),
    });
    if !route.is_api() {
        return match allowed {
            Ok(()) => next.run(request).await,
            Err(error) => refuse(&error),
        };
    }
    let Some(trace) = trace::current() else { return refuse(&RequestError::internal()) };
    let has_body = *request.method() == Method::POST;
    let places = allowed.and_then(|()| {
        let turn = visit.caller.turn(method.object)?;
        Ok((Place::new(&visit, has_body)?, turn))
    });
    let (place, turn) = match places {
        Ok(places) => places,
        Err(error) => {
            visit.state.metrics.request(method.label, error.code(), std::time::Duration::ZERO, 0);
            visit.state.metrics.error(error.reason());
            trace.span().fail(error.reason());
            tell_refused(Some(method.label), &error, &visit.caller.principal);
            return harmless(refuse(&error));
        }
    };
    let pace = visit.caller.pace();
    if pace.is_some() {
        request = request.map(|body| Body::new(Paced::new(body, pace.clone())));
    }
    request.extensions_mut().insert(Arc::clone(&place));
    request.extensions_mut().insert(Arrival {
        caller: visit.caller,
        method,
        at: Instant::now(),
        metrics: Arc::clone(&visit.state.metrics),
        _visit: visit.connection.visit(),
        _turn: turn,
        connection: visit.connection,
        trace,
        running: Some(visit.state.running.token()),
    });
    let response = next.run(request).await;
    // The place is had until the answer has left.
    harmless(response.map(|body| {
        let body = Paced::new(body, pace);
        Body::new(Held { body, _place: place, trace: trace::current() })
    }))
}

fn harmless(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A request of `/v1`, and its place. One that has a body takes it once it is there, or much of it ([`first`](Self::first)).
#[derive(Debug)]
pub(super) struct Place {
    counts: Arc<Counts>,
    state: Arc<State>,
    requests: Arc<Room>,
    /// Until its body is there.
    begun: Mutex<Option<Share>>,
    taken: OnceLock<Taken>,
}

/// A place, and the memory that it counts as.
#[derive(Debug)]
struct Taken {
    share: Share,
    _memory: Reservation,
}

impl Place {
    fn new(visit: &Visit, has_body: bool) -> Result<Arc<Self>> {
        let state = Arc::clone(&visit.state);
        if state.is_stopping() {
            return Err(RequestError::new(ErrorReason::ShuttingDown, "the server is shutting down"));
        }
        if state.is_loading() {
            return Err(state.tables.loading());
        }
        let begun = match has_body {
            true => Some(visit.bodies.enter(limits::HTTP_BODY_BYTES).ok_or_else(|| {
                overloaded("as many requests as there may be have begun over HTTP; try again later")
            })?),
            false => None,
        };
        let (counts, requests) = (Arc::clone(&visit.counts), Arc::clone(&visit.requests));
        counts.api.fetch_add(1, Ordering::Relaxed);
        let place = Self { counts, state, requests, begun: Mutex::new(begun), taken: OnceLock::new() };
        if !has_body {
            place.take()?;
        }
        Ok(Arc::new(place))
    }

    fn take(&self) -> Result<()> {
        let share = self.requests.enter(1).ok_or_else(|| {
            overloaded(format!("{} requests run over HTTP; try again later", limits::HTTP_REQUESTS))
        })?;
        let mut memory = self.state.memory.reserve(Consumer::Requests);
        memory.set(limits::HTTP_REQUEST_BYTES).map_err(RequestError::retryable)?;
        self.taken.get_or_init(|| Taken { share, _memory: memory });
        Ok(())
    }

    /// So many bytes of the body or more, or all, and whether it has ended; with them the request has its place. Meanwhile it is
    /// the one that has begun first that makes room for others.
    pub(super) async fn first(
        &self,
        body: &mut Body,
        enough: usize,
        deadline: Instant,
    ) -> Result<(Vec<u8>, bool)> {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner).take();
        let begun = begun.ok_or_else(RequestError::internal)?;
        let mut memory = self.state.memory.reserve(Consumer::Requests);
        let read = async {
            let mut bytes = Vec::new();
            while bytes.len() < enough {
                let Some(more) = next(body, deadline).await? else { return Ok((bytes, true)) };
                let size = bytes.len() + more.len();
                if !begun.grow(size) {
                    return Err(too_slow());
                }
                // What is no larger than a head may be is as little counted.
                if size > limits::METRICS_REQUEST_BYTES {
                    memory.set(size as u64).map_err(RequestError::retryable)?;
                }
                bytes.extend_from_slice(&more);
            }
            Ok::<_, RequestError>((bytes, false))
        };
        let read = begun.wait(read).await.ok_or_else(too_slow)??;
        self.take()?;
        Ok(read)
    }

    /// Waits for more of the body. A place that others need is theirs when that takes long.
    pub(super) async fn wait<T>(&self, client: impl Future<Output = Result<T>>) -> Result<T> {
        let taken = self.taken.get().ok_or_else(RequestError::internal)?;
        taken.share.wait(client).await.ok_or_else(too_slow)?
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.counts.api.fetch_sub(1, Ordering::Relaxed);
    }
}

fn overloaded(message: impl Into<String>) -> RequestError {
    RequestError::new(ErrorReason::Overloaded, message)
}

fn too_slow() -> RequestError {
    overloaded("the body came so slowly that others needed the place of its request; try again later")
}
