//! PeerService: what this node does for the others.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use basalt_core::limits::MAX_TABLES;
use basalt_proto::{
    cluster::v1::{
        self as peer, AnnounceRequest, AnnounceResponse, BeginTaskRequest, BeginTaskResponse,
        CancelQueryRequest, CancelQueryResponse, ExecuteRequest, ExecuteResponse, FetchSipRequest,
        FetchSipResponse, GetStatusRequest, GetStatusResponse, HeldTable, KeptSip, ListQueriesRequest,
        ListQueriesResponse, ReadTaskRequest, ReadTaskResponse, fetch_sip_response,
        peer_service_server::PeerService,
    },
    v1::ErrorReason,
};
use prost::bytes::Bytes;
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

pub(crate) mod fetch;
mod queries;
mod serve;
mod status;
mod tasks;

pub(crate) use queries::{cancel, node_for, running};
use serve::{Pieces, Running};
pub(crate) use status::overview;
#[cfg(feature = "sql")]
pub(crate) use tasks::Asked;
pub(crate) use tasks::Tasks;
use tokio::time::Instant;

use crate::{
    access::Principal,
    call::{Arrival, Call},
    convert,
    coordinator::fresh,
    cpu::StopOnDrop,
    limits,
    membership::Cluster,
    panics::caught_async,
    queries::Asker,
    state::State,
    status::{RequestError, Result as Answer},
    units::millis,
};

type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct PeerHandler {
    state: Arc<State>,
    /// What was announced is being read.
    following: Arc<AtomicBool>,
}

impl PeerHandler {
    pub(crate) fn new(state: Arc<State>) -> Self {
        Self { state, following: Arc::default() }
    }

    /// Reads what was announced, unless that is under way: whoever asks then need not wait for it.
    fn follow(&self) {
        if self.following.swap(true, Ordering::AcqRel) {
            return;
        }
        let Self { state, following } = self.clone();
        let tables = Arc::clone(&state.tables);
        tables.in_background(async move {
            // A panic is in the log; whoever comes next tries again.
            if let Err(error) = caught_async(fresh::announced(&state)).await {
                tracing::debug!(error = error.message(), "cannot read what was announced");
            }
            following.store(false, Ordering::Release);
        });
    }

    fn cluster(&self) -> Answer<&Arc<Cluster>> {
        self.state.cluster.as_ref().ok_or_else(RequestError::internal)
    }
}

#[tonic::async_trait]
impl PeerService for PeerHandler {
    type ExecuteStream = Messages<ExecuteResponse>;
    type FetchSipStream = Messages<FetchSipResponse>;
    type BeginTaskStream = Messages<BeginTaskResponse>;
    type ReadTaskStream = Messages<ReadTaskResponse>;

    async fn execute(
        &self,
        request: Request<Streaming<ExecuteRequest>>,
    ) -> Result<Response<Self::ExecuteStream>, Status> {
        let (mut call, stream) = Call::begin_stream(request)?;
        match self.start(&mut call, stream).await {
            Ok(work) => Ok(Response::new(Box::pin(Running::new(call, work)))),
            Err(error) => Err(call.fail(error)),
        }
    }

    async fn announce(
        &self,
        request: Request<AnnounceRequest>,
    ) -> Result<Response<AnnounceResponse>, Status> {
        caller_of(&request)?.is_node(&request.get_ref().node)?;
        Ok(Response::new(self.note(request.get_ref())?))
    }

    async fn get_status(
        &self,
        request: Request<GetStatusRequest>,
    ) -> Result<Response<GetStatusResponse>, Status> {
        let caller = caller_of(&request)?;
        let (cluster, request) = (self.cluster()?, request.into_inner());
        caller.is_node(&request.node)?;
        let members = cluster.members();
        if request.leaving {
            members.left(&request.node);
            return Ok(Response::new(status(&self.state, Some(cluster))));
        }
        let from = caller.address().ok_or_else(RequestError::internal)?;
        members.called_by(&request.node, from).await?;
        let lease_ms =
            if request.protocol == members.protocol() { members.give_lease(&request.node) } else { 0 };
        Ok(Response::new(GetStatusResponse { lease_ms, ..status(&self.state, Some(cluster)) }))
    }

    async fn fetch_sip(
        &self,
        request: Request<FetchSipRequest>,
    ) -> Result<Response<Self::FetchSipStream>, Status> {
        let (mut call, request) = Call::begin(request)?;
        let answer = self.fetch(&mut call, &request);
        call.reply(answer)
    }

    async fn begin_task(
        &self,
        request: Request<Streaming<BeginTaskRequest>>,
    ) -> Result<Response<Self::BeginTaskStream>, Status> {
        let (mut call, stream) = Call::begin_stream(request)?;
        let begun = match self.takes_work() {
            Ok(()) => tasks::begin(&self.state, &mut call, stream).await,
            Err(error) => Err(error),
        };
        match begun {
            Ok(task) => Ok(Response::new(task.answers(call))),
            Err(error) => Err(call.fail(error)),
        }
    }

    async fn read_task(
        &self,
        request: Request<ReadTaskRequest>,
    ) -> Result<Response<Self::ReadTaskStream>, Status> {
        let (mut call, request) = Call::begin(request)?;
        match tasks::read(&self.state, &call, request) {
            Ok(rows) => Ok(Response::new(rows.answers(call))),
            Err(error) => Err(call.fail(error)),
        }
    }

    async fn list_queries(
        &self,
        request: Request<ListQueriesRequest>,
    ) -> Result<Response<ListQueriesResponse>, Status> {
        let (call, request) = Call::begin(request)?;
        let asker = self.asker(request.protocol, request.asker);
        let listed = asker.map(|asker| ListQueriesResponse { queries: self.state.queries.running(&asker) });
        call.reply(listed)
    }

    async fn cancel_query(
        &self,
        request: Request<CancelQueryRequest>,
    ) -> Result<Response<CancelQueryResponse>, Status> {
        let (call, request) = Call::begin(request)?;
        let asker = self.asker(request.protocol, request.asker);
        let outcome = asker.map(|asker| self.state.queries.cancel(&asker, &request.id).into());
        call.reply(outcome.map(|outcome| CancelQueryResponse { outcome }))
    }
}

impl PeerHandler {
    async fn start(
        &self,
        call: &mut Call,
        stream: Streaming<ExecuteRequest>,
    ) -> Answer<(Pieces, StopOnDrop)> {
        self.takes_work()?;
        serve::start(&self.state, call, stream).await
    }

    fn asker(&self, protocol: u32, asker: Option<peer::Asker>) -> Answer<Asker> {
        same_protocol(&self.state, protocol)?;
        asker.map(Asker::of_peer).ok_or_else(|| RequestError::protocol("nobody asks"))
    }

    fn takes_work(&self) -> Answer<()> {
        if self.state.is_stopping() {
            return Err(RequestError::new(ErrorReason::ShuttingDown, "the server is shutting down"));
        }
        if self.state.is_loading() {
            return Err(self.state.tables.loading());
        }
        Ok(())
    }

    fn note(&self, request: &AnnounceRequest) -> Answer<AnnounceResponse> {
        same_protocol(&self.state, request.protocol)?;
        if request.tables.len() > MAX_TABLES {
            return Err(RequestError::protocol(format!("more than {MAX_TABLES} tables")));
        }
        let cluster = self.cluster()?;
        cluster.announced().note(request.catalog_version, &request.tables);
        if !self.state.is_loading() {
            self.follow();
        }
        Ok(AnnounceResponse {})
    }

    fn fetch(&self, call: &mut Call, request: &FetchSipRequest) -> Answer<Messages<FetchSipResponse>> {
        same_protocol(&self.state, request.protocol)?;
        let (set, left) = self.state.sets.get(&request.handle, Instant::now())?;
        call.rows = set.sip.cardinality();
        let (sip, scope) = (set.sip, Some(convert::to_scope(set.scope)));
        let bytes = sip.as_bytes().len();
        let keepers = self.state.sets.keepers(&request.handle);
        let head = KeptSip { scope, bytes: bytes as u64, expires_ms: millis(left), keepers };
        let pieces = (0..bytes).step_by(limits::PEER_PIECE_BYTES).map(move |at| {
            let end = bytes.min(at + limits::PEER_PIECE_BYTES);
            fetch_sip_response::Kind::Sip(Bytes::copy_from_slice(&sip.as_bytes()[at..end]))
        });
        let kinds = std::iter::once(fetch_sip_response::Kind::Head(head)).chain(pieces);
        let messages = kinds.map(|kind| Ok(FetchSipResponse { kind: Some(kind) }));
        Ok(Box::pin(tokio_stream::iter(messages)))
    }
}

/// Who has sent a request.
fn caller_of<T>(request: &Request<T>) -> Answer<Principal> {
    let arrival = request.extensions().get::<Arrival>();
    // A door has let it in that asks nobody.
    arrival.map(|arrival| arrival.caller.principal.clone()).ok_or_else(RequestError::internal)
}

/// That a request is of this node's protocol.
pub(crate) fn same_protocol(state: &State, protocol: u32) -> Answer<()> {
    let own = state.environment.protocol();
    if protocol == own {
        return Ok(());
    }
    let message = format!("version {protocol} of the nodes' protocol; this node speaks {own}");
    Err(RequestError::new(ErrorReason::PeerProtocol, message))
}

/// What this node is and holds.
pub(super) fn status(state: &State, cluster: Option<&Arc<Cluster>>) -> GetStatusResponse {
    let tables = state.catalog.list().into_iter().map(|table| {
        let (held, version) = (state.tables.held(&table), table.snapshot().version());
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let whole = state.tables.state(&table);
        HeldTable {
            name: table.name().to_owned(),
            table_id: table.id(),
            version,
            fragments: u32::try_from(held.fragments).unwrap_or(u32::MAX),
            rows: held.rows,
            bytes: held.bytes,
            table_fragments: small(
                whole
                    .as_ref()
                    .map_or_else(|| table.snapshot().fragments().len(), |whole| whole.fragments().len()),
            ),
            table_rows: whole.as_ref().map_or(held.rows, |whole| whole.rows()),
        }
    });
    GetStatusResponse {
        protocol: state.environment.protocol(),
        node: cluster.map(|cluster| cluster.members().own().to_string()).unwrap_or_default(),
        version: crate::VERSION.to_owned(),
        tables: tables.collect(),
        ready: !state.is_stopping() && !state.is_loading(),
        uptime_ms: millis(state.started.elapsed()),
        memory_bytes: state.memory.held(),
        memory_limit_bytes: state.memory.limit(),
        instance: cluster.map_or(0, |cluster| cluster.members().instance()),
        lease_ms: 0,
        known: cluster.map(|cluster| cluster.members().known()).unwrap_or_default(),
        takes_tasks: state.tasks.get().is_some(),
    }
}
