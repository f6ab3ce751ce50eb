//! IngestService: a write from Open to Commit.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use arrow_array::RecordBatch;
use basalt_core::{error::Error as EngineError, exec, fragment::RowBuffer, table::Appender};
use basalt_proto::v1::{
    self as pb, ErrorReason, ingest_service_server::IngestService, write_request, write_response,
};
use prost::Message as _;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::nodes;
use crate::{
    call::Call,
    class::Class,
    convert::{self, BatchReader},
    coordinator::fresh,
    limits,
    memory::{Consumer, Reservation},
    panics::{self, caught, caught_async},
    request_log::{Digest, Known, Ticket},
    state::State,
    status::RequestError,
    tables::{self, NewRows, Writing, Written},
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
        tokio::spawn(async move {
            match caught_async(session.run(&mut call)).await {
                Ok(()) => call.done(),
                // A client that is gone does not hear why, and a shutdown does not wait for one that does not read it.
                Err(error) => {
                    drop(call.take_running());
                    let told = session.answers.send(Err(call.fail(error)));
                    drop(timeout_at(Instant::now() + limits::INGEST_IDLE_TIMEOUT, told).await);
                }
            }
        });
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
        fresh::newest(&self.0, &request.table, request.filter.as_ref()).await?;
        let table = self.0.catalog.get(&request.table)?;
        call.table = Some(Arc::clone(&table));
        if request.filter.is_none() {
            let message = "a deletion without a filter; the constant true selects all rows";
            return Err(RequestError::new(ErrorReason::InvalidQuery, message).at("filter"));
        }
        let filter = nodes::resolve(&self.0, call.caller(), request, deadline).await?;
        // It goes on when the client is gone: the commit may be on its way.
        let (tables, target) = (Arc::clone(&self.0.tables), Arc::clone(&table));
        let delete = tokio::spawn(caught_async(async move { tables.delete(&target, filter).await }));
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
        fresh::table(&self.state, &open.table).await.map_err(|e| e.at("open"))?;
        let mut write = Write::open(&self.state, &open)?;
        call.table = Some(Arc::clone(write.appender.table()));
        let schema = Some(convert::to_schema(write.appender.table().schema()));
        let opened = pb::Opened { schema, window_bytes: limits::INGEST_WINDOW_BYTES };
        self.answer(write_response::Kind::Opened(opened)).await?;
        loop {
            match self.next(limits::INGEST_IDLE_TIMEOUT).await? {
                Some(write_request::Kind::Batch(batch)) => {
                    self.stream.take_place()?;
                    write = write.take(batch).await?;
                    let ack = pb::Ack { sequence: write.batches, rows: write.rows };
                    self.answer(write_response::Kind::Ack(ack)).await?;
                }
                Some(write_request::Kind::Commit(commit)) => {
                    self.stream.take_place()?;
                    let committed = write.commit(commit, Arc::clone(&self.stream)).await?;
                    call.rows = committed.rows;
                    return self.answer(write_response::Kind::Committed(committed)).await;
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
        let answer = Ok(pb::WriteResponse { kind: Some(kind) });
        // A client that does not read its acknowledgements keeps neither its permit nor its rows.
        let until = self.patience(limits::INGEST_IDLE_TIMEOUT);
        match self.stream.wait(timeout_at(until, self.answers.send(answer))).await? {
            Ok(sent) => sent.map_err(|_| RequestError::new(ErrorReason::Cancelled, "the client gave up")),
            Err(_) => Err(RequestError::deadline()),
        }
    }
}

/// The rows of one stream. Dropped without a commit, it leaves nothing behind.
struct Write {
    state: Arc<State>,
    appender: Appender,
    /// Its full fragments, of a table that has files.
    writing: Option<Writing>,
    replace_by: Vec<usize>,
    reader: BatchReader,
    identity: Option<Identity>,
    held: Reservation,
    batches: u64,
    rows: u64,
}

/// A write with a request id.
struct Identity {
    id: String,
    digest: Digest,
    known: Known,
}

impl Write {
    fn open(state: &Arc<State>, open: &pb::Open) -> Result<Self, RequestError> {
        let table = state.catalog.get(&open.table).map_err(|e| e.at("open"))?;
        panics::wanted("open", &open.table);
        let appender = Appender::new(Arc::clone(&table), &open.columns).map_err(|e| e.at("open"))?;
        let fragment = usize::try_from(state.memory.limit() / limits::FRAGMENT_MEMORY_PART);
        let appender = appender.with_fragments_of(fragment.unwrap_or(usize::MAX));
        let column = |(i, name): (usize, &String)| {
            exec::check_key_column(&table, name).map_err(|e| e.at(format!("open.replace_by[{i}]")))
        };
        let replace_by = open.replace_by.iter().enumerate().map(column).collect::<Result<_, _>>()?;
        let reader = BatchReader::new(appender.batch_fields());
        let identity = match open.request_id.as_str() {
            "" => None,
            id => {
                let digest = Digest::new(&open.columns, &open.replace_by);
                Some(Identity { id: id.to_owned(), digest, known: state.request_log.open(&table, id)? })
            }
        };
        let writing = state.tables.writing(&table).map_err(|e| e.at("open"))?;
        let (state, held) = (Arc::clone(state), state.memory.reserve(Consumer::Writes));
        Ok(Self { state, appender, writing, replace_by, reader, identity, held, batches: 0, rows: 0 })
    }

    /// Takes the rows of a batch in. Fragments that it fills are encoded and written while the next batches come in.
    async fn take(mut self, batch: pb::Batch) -> Result<Self, RequestError> {
        let (cpu, bytes) = (Arc::clone(&self.state.cpu), batch.encoded_len() as u64);
        self.hold(bytes).await?;
        let is_small = bytes <= limits::SMALL_BATCH_BYTES && self.writing.is_some();
        // As long as there are few rows, none are encoded here.
        let class = match bytes <= limits::SHORT_BATCH_BYTES as u64 {
            true => Class::of_write(self.rows),
            false => Class::Long,
        };
        let first = move || {
            let mut rows = self.batch(batch)?;
            let full = self.fill(&mut rows)?;
            Ok::<_, RequestError>((self, rows, full))
        };
        let (mut write, mut rows, mut full) = match is_small {
            true => caught(first)?,
            false => cpu.run_as(class, first).await??,
        };
        while let Some(fragment) = full {
            if let Some(writing) = &mut write.writing {
                writing.add(fragment, &mut write.held, write.appender.bytes() as u64 + bytes).await?;
            }
            let next = move || {
                let full = write.fill(&mut rows)?;
                Ok::<_, RequestError>((write, rows, full))
            };
            (write, rows, full) = cpu.run(next).await??;
        }
        write.hold(0).await?;
        Ok(write)
    }

    /// Reserves what is held, and so many bytes more.
    async fn hold(&mut self, bytes: u64) -> Result<(), RequestError> {
        let bytes = bytes + self.appender.bytes() as u64;
        match &mut self.writing {
            Some(writing) => writing.hold(&mut self.held, bytes).await,
            None => self.held.set(bytes),
        }
    }

    /// Checks a batch; the answer is its rows. Of a write that was done before they are only compared.
    fn batch(&mut self, batch: pb::Batch) -> Result<VecDeque<RecordBatch>, RequestError> {
        panics::wanted("write", self.appender.table().name());
        let expected = self.batches + 1;
        if batch.sequence != expected {
            let message = format!("batch {} where {expected} is expected", batch.sequence);
            return Err(RequestError::protocol(message).at("batch.sequence"));
        }
        let mut replays = false;
        if let Some(identity) = &mut self.identity {
            identity.digest.batch(batch.rows.as_ref());
            replays = matches!(identity.known, Known::Done(_));
        }
        let place = |e: EngineError| e.at(format!("batch[{expected}]"));
        let mut batches = VecDeque::from(self.reader.read(batch.rows).map_err(place)?);
        self.rows += batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
        self.batches = expected;
        if replays {
            batches.clear();
        }
        batches.iter().try_for_each(|batch| self.appender.check(batch)).map_err(place)?;
        Ok(batches)
    }

    /// Takes checked rows in, until there are none left or a fragment is full that is to be written.
    fn fill(&mut self, batches: &mut VecDeque<RecordBatch>) -> Result<Option<RowBuffer>, RequestError> {
        while let Some(batch) = batches.pop_front() {
            if self.writing.is_none() {
                self.appender.push(&batch)?;
                continue;
            }
            let (taken, full) = self.appender.fill(&batch, 0);
            if taken < batch.num_rows() {
                batches.push_front(batch.slice(taken, batch.num_rows() - taken));
            }
            if full.is_some() {
                return Ok(full);
            }
        }
        Ok(None)
    }

    async fn commit(
        mut self,
        commit: pb::Commit,
        stream: Arc<Stream>,
    ) -> Result<pb::Committed, RequestError> {
        if (commit.batches, commit.rows) != (self.batches, self.rows) {
            let message = format!(
                "Commit says {} batches of {} rows, {} of {} arrived; nothing was written",
                commit.batches, commit.rows, self.batches, self.rows
            );
            return Err(RequestError::protocol(message).at("commit"));
        }
        if self.writing.is_some() {
            // What the rest takes on its way to its file.
            let (bytes, rows) = (self.appender.bytes() as u64, self.appender.rows());
            self.hold(tables::writing_bytes(bytes, rows, self.state.cpu.threads()) - bytes).await?;
        }
        let Self { state, appender, writing, replace_by, identity, held, rows, .. } = self;
        let (request, ticket): (_, Option<(u64, Ticket)>) = match identity {
            Some(Identity { digest, known: Known::Done(first), .. }) => {
                let commit = first.replay(digest.finish())?;
                let (version, rows) = (commit.version, commit.rows);
                return Ok(pb::Committed { version, rows, replayed: true, replaced: None });
            }
            Some(Identity { id, digest, known: Known::New(ticket) }) => {
                let digest = digest.finish();
                (Some(tables::request(&id, digest, rows)), Some((digest, ticket)))
            }
            None => (None, None),
        };
        let rows = NewRows { appender, writing, replace_by, request };
        // It goes on when the client is gone: the commit may be on its way.
        let write = tokio::spawn(caught_async(async move {
            let written = state.tables.write(rows).await?;
            if let Some((digest, ticket)) = ticket {
                ticket.done(digest, written.commit);
            }
            drop(held);
            stream.leave_place();
            Ok::<_, RequestError>(written)
        }));
        let Written { commit, replaced } = write.await.map_err(|_| RequestError::internal())??;
        Ok(pb::Committed { version: commit.version, rows: commit.rows, replayed: false, replaced })
    }
}
