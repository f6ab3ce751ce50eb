//! IngestService: a write from Open to Commit.

use std::{sync::Arc, time::Duration};

use basalt_core::{exec::Control, query::Filter};
use basalt_proto::v1::{
    self as pb, ErrorReason, ingest_service_server::IngestService, write_request, write_response,
};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::writer::Write;
use crate::{
    access::Caller,
    call::Call,
    convert,
    coordinator::{Coordinator, Reach, coordinate, fresh},
    limits,
    panics::caught_async,
    peers::fetch,
    state::State,
    status::RequestError,
    trace,
    writes::Stream,
};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Ingest(pub(crate) Arc<State>);

type Answer = Result<pb::WriteResponse, Status>;

#[tonic::async_trait]
impl IngestService for Ingest {
    type WriteStream = ReceiverStream<Answer>;

    async fn write(
        &self,
        request: Request<Streaming<pb::WriteRequest>>,
    ) -> Result<Response<Self::WriteStream>, Status> {
        let (mut call, requests) = Call::begin_stream(request)?;
        let (answers, receiver) = mpsc::channel(limits::WAITING_ACKS);
        let stream = match self.0.writes.open(call.connection().id()) {
            Ok(stream) => stream,
            Err(error) => return Err(call.fail(error)),
        };
        let state = Arc::clone(&self.0);
        let mut session = Session { state, stream, requests, answers, until: None };
        tokio::spawn(trace::carried(async move {
            match caught_async(session.run(&mut call)).await {
                Ok(()) => call.done(),
                // A client that is gone does not hear why, and a shutdown does not wait for one that does not read it.
                Err(error) => {
                    drop(call.take_running());
                    let told = session.answers.send(Err(call.fail(error)));
                    drop(timeout_at(Instant::now() + limits::INGEST_IDLE_TIMEOUT, told).await);
                }
            }
        }));
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn delete(
        &self,
        request: Request<pb::DeleteRequest>,
    ) -> Result<Response<pb::DeleteResponse>, Status> {
        let (mut call, request) = Call::begin(request)?;
        let answer = self.delete_rows(&mut call, request).await;
        call.reply(answer)
    }
}

impl Ingest {
    async fn delete_rows(
        &self,
        call: &mut Call,
        request: pb::DeleteRequest,
    ) -> Result<pb::DeleteResponse, RequestError> {
        let deadline = self.0.deadline(call)?;
        // How many rows it was is said of the newest version that the store has, whoever has written it.
        let table = fresh::newest(&self.0, &request.table, request.filter.as_ref()).await?;
        call.table = Some(Arc::clone(&table));
        if request.filter.is_none() {
            let message = "a deletion without a filter; the constant true selects all rows";
            return Err(RequestError::new(ErrorReason::InvalidQuery, message).at("filter"));
        }
        let filter = filter_of(&self.0, call.caller(), request, deadline).await?;
        call.caller().check_key()?;
        // It goes on when the client is gone: the commit may be on its way.
        let (tables, target) = (Arc::clone(&self.0.tables), Arc::clone(&table));
        let delete =
            tokio::spawn(trace::carried(caught_async(async move { tables.delete(&target, filter).await })));
        let deletion = match timeout_at(deadline, delete).await {
            Ok(done) => done.map_err(|_| RequestError::internal())??,
            Err(_) => return Err(RequestError::deadline()),
        };
        call.rows = deletion.rows;
        Ok(pb::DeleteResponse { version: deletion.version, rows: deletion.rows })
    }
}

/// One stream.
struct Session {
    state: Arc<State>,
    stream: Arc<Stream>,
    requests: Streaming<pb::WriteRequest>,
    answers: mpsc::Sender<Answer>,
    until: Option<Instant>,
}

impl Session {
    async fn run(&mut self, call: &mut Call) -> Result<(), RequestError> {
        self.until = call.deadline()?;
        let open = match self.next(limits::OPEN_TIMEOUT).await? {
            Some(write_request::Kind::Open(open)) => open,
            Some(_) => return Err(RequestError::protocol("the first message is not Open")),
            None => return Err(RequestError::protocol("the stream ended before Open")),
        };
        call.authorise(&open).map_err(|e| e.at("open"))?;
        let meant = |error| self.state.meant(error, &open.table, call.caller()).at("open");
        let table = fresh::table(&self.state, &open.table).await.map_err(meant)?;
        let mut write = Write::to(&self.state, call.caller(), table, &open)?;
        call.table = Some(Arc::clone(write.table()));
        let schema = Some(convert::to_schema(write.table().schema()));
        let opened = pb::Opened { schema, window_bytes: limits::INGEST_WINDOW_BYTES };
        self.answer(write_response::Kind::Opened(opened)).await?;
        loop {
            match self.next(limits::INGEST_IDLE_TIMEOUT).await? {
                Some(write_request::Kind::Batch(batch)) => {
                    self.stream.take_place()?;
                    write = write.take(batch).await?;
                    let ack = pb::Ack { sequence: write.batches(), rows: write.rows() };
                    self.answer(write_response::Kind::Ack(ack)).await?;
                }
                Some(write_request::Kind::Commit(commit)) => {
                    self.stream.take_place()?;
                    write.check_commit(&commit)?;
                    let committed = write.commit(Arc::clone(&self.stream)).await?;
                    call.rows = committed.rows;
                    // Not as what is given up where others want its place: the rows are there.
                    return self.send(write_response::Kind::Committed(committed)).await;
                }
                Some(write_request::Kind::Open(_)) => return Err(RequestError::protocol("a second Open")),
                None => {
                    return Err(RequestError::protocol(
                        "the stream ended without Commit; nothing was written",
                    ));
                }
            }
        }
    }

    /// How long to wait for the client.
    fn patience(&self, idle: Duration) -> Instant {
        let idle = Instant::now() + idle;
        self.until.map_or(idle, |until| until.min(idle))
    }

    /// The next message: in time for the deadline, and not too long after the last.
    async fn next(&mut self, idle: Duration) -> Result<Option<write_request::Kind>, RequestError> {
        let message = timeout_at(self.patience(idle), self.requests.message());
        let message = self.stream.wait(message).await?.map_err(|_| RequestError::deadline())?;
        match message {
            Ok(None) => Ok(None),
            Ok(Some(message)) => match message.kind {
                Some(kind) => Ok(Some(kind)),
                None => Err(RequestError::protocol(
                    "a message without a kind, or of a kind that is not known here",
                )),
            },
            Err(status) => {
                Err(RequestError::of_reading(&status)
                    .unwrap_or_else(|| RequestError::protocol(status.message())))
            }
        }
    }

    async fn answer(&self, kind: write_response::Kind) -> Result<(), RequestError> {
        self.stream.wait(self.send(kind)).await?
    }

    async fn send(&self, kind: write_response::Kind) -> Result<(), RequestError> {
        let answer = Ok(pb::WriteResponse { kind: Some(kind) });
        // A client that does not read its acknowledgements keeps neither its permit nor its rows.
        let until = self.patience(limits::INGEST_IDLE_TIMEOUT);
        match timeout_at(until, self.answers.send(answer)).await {
            Ok(sent) => sent.map_err(|_| RequestError::new(ErrorReason::Cancelled, "the client gave up")),
            Err(_) => Err(RequestError::deadline()),
        }
    }
}

/// The filter of a deletion, whose semi-joins are sets.
async fn filter_of(
    state: &Arc<State>,
    caller: &Caller,
    request: pb::DeleteRequest,
    deadline: Instant,
) -> Result<Option<Filter>, RequestError> {
    fetch::sets_of(state, caller, request.filter.as_ref(), deadline).await?;
    let control = state.control_of(caller);
    let reach = Reach::new(Arc::clone(state), caller, deadline, control.clone());
    let pinned = reach.find(&request.table, None).await?;
    let resolve = move |state: &State, control: &Control| {
        let filter = convert::filter(request.filter, &request.table, &state.sets)?;
        let mut coordinator = Coordinator::new(&reach, control, false);
        coordinator.reads(&pinned);
        coordinator.resolve_filter(&pinned, filter)
    };
    coordinate(state, deadline, control, resolve).await
}
