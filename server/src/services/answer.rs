//! The answer of a query on its way from where it runs to the client.
//!
//! Whoever runs a query makes messages and puts them out in pieces, so that a small answer is one piece: one wake-up, one
//! write. A small answer is kept whole until it is read. A large one goes through a queue, and its query waits while that
//! is full, on a thread that may: there is no other way to wait here.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use arrow_array::RecordBatch;
use basalt_core::{
    error::{Error, ErrorKind, Result},
    exec::Statistics,
    logical::{self, Logical},
    schema::Schema,
};
use basalt_proto::v1::{self as pb, ErrorReason, query_response::Kind};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_stream::Stream;
use tonic::Status;

use crate::{
    call::Call,
    class::Class,
    convert,
    cpu::{Cpu, MayWait, Permit, StopOnDrop},
    limits,
    queries::Entry,
    readers::{Counts, Kept, Next, Piece, Reader, Writer},
    status::RequestError,
};

/// Where the pieces of an answer go.
pub(crate) trait Outlet {
    /// What the end of the answer comes to.
    type Done;

    /// Hears of the bytes of a message before it is made.
    fn message(&mut self, bytes: usize) -> Result<()> {
        let _ = bytes;
        Ok(())
    }

    /// Takes a piece.
    fn piece(&mut self, piece: Piece) -> Result<()>;

    /// Takes the last piece, or what went wrong.
    fn end(self, last: std::result::Result<(Piece, Counts), RequestError>) -> Self::Done;
}

/// Keeps an answer that is expected to be small, and stops the query when it is not.
#[derive(Debug, Default)]
pub(crate) struct Whole {
    messages: Piece,
    bytes: u64,
    is_large: bool,
}

/// A whole answer, and the bytes of its values.
#[derive(Debug)]
pub(crate) struct Small {
    pub(crate) messages: Piece,
    pub(crate) counts: Counts,
    pub(crate) bytes: u64,
}

impl Outlet for Whole {
    /// `None`: it is larger than what is kept.
    type Done = std::result::Result<Option<Small>, RequestError>;

    fn message(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes as u64;
        self.is_large = self.bytes > limits::LIGHT_ANSWER_BYTES;
        match self.is_large {
            true => Err(Error::new(ErrorKind::Cancelled, "the answer is not small")),
            false => Ok(()),
        }
    }

    fn piece(&mut self, mut piece: Piece) -> Result<()> {
        self.messages.append(&mut piece);
        Ok(())
    }

    fn end(self, last: std::result::Result<(Piece, Counts), RequestError>) -> Self::Done {
        let Self { mut messages, bytes, is_large } = self;
        match last {
            Err(_) if is_large => Ok(None),
            Err(error) => Err(error),
            Ok((mut piece, counts)) => {
                messages.append(&mut piece);
                Ok(Some(Small { messages, counts, bytes }))
            }
        }
    }
}

/// Puts a large answer into its queue. While there is no room it waits, without its permit.
#[derive(Debug)]
pub(crate) struct Queued<'a> {
    pub(crate) writer: Writer,
    pub(crate) may_wait: &'a MayWait,
    pub(crate) cpu: &'a Cpu,
    pub(crate) class: Class,
    pub(crate) permit: Option<Permit>,
    pub(crate) deadline: Instant,
}

impl Outlet for Queued<'_> {
    type Done = ();

    fn piece(&mut self, piece: Piece) -> Result<()> {
        if self.writer.is_full()? {
            self.permit = None;
            self.writer.wait(self.may_wait, self.deadline)?;
            self.permit = Some(self.cpu.wait_again(self.may_wait, self.class, self.deadline)?);
        }
        self.writer.push(piece)
    }

    fn end(self, last: std::result::Result<(Piece, Counts), RequestError>) {
        self.writer.end(last);
    }
}

/// Makes messages of an answer's rows.
#[derive(Debug)]
pub(crate) struct Sink<O> {
    outlet: O,
    format: pb::Format,
    arrived: Instant,
    started: Instant,
    messages: Piece,
    /// What the columns are, where they are held in the form of another type.
    logical: Vec<Option<Logical>>,
    bytes: usize,
    rows: u64,
    versions: Vec<pb::TableVersion>,
    error: Option<RequestError>,
    /// Where people see how far it is.
    seen: Option<Arc<Entry>>,
}

impl<O: Outlet> Sink<O> {
    pub(crate) fn new(outlet: O, format: pb::Format, arrived: Instant) -> Self {
        let (started, messages) = (Instant::now(), Piece::with_capacity(3));
        Self {
            outlet,
            format,
            arrived,
            started,
            messages,
            logical: Vec::new(),
            bytes: 0,
            rows: 0,
            versions: Vec::new(),
            error: None,
            seen: None,
        }
    }

    /// The same for a query that people see.
    pub(crate) fn seen_as(self, entry: &Arc<Entry>) -> Self {
        Self { seen: Some(Arc::clone(entry)), ..self }
    }

    pub(crate) fn header(&mut self, schema: &Schema, table_version: u64) {
        self.started = Instant::now();
        self.logical = schema.fields().iter().map(|field| field.logical).collect();
        self.push(Kind::Header(pb::Header { schema: Some(convert::to_schema(schema)), table_version }));
    }

    /// The rows with the types that they have for others, not those in whose forms the engine holds them.
    fn outer(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        if self.logical.iter().all(Option::is_none) {
            return Ok(batch);
        }
        match logical::outer_batch(&batch, &self.logical) {
            Ok(batch) => Ok(batch),
            Err(error) => Err(self.stop(error.into())),
        }
    }

    /// Takes rows of the answer, cut to the size of messages.
    pub(crate) fn batch(&mut self, batch: RecordBatch) -> Result<()> {
        let batch = self.outer(batch)?;
        let (rows, bytes) = (batch.num_rows(), convert::message_bytes(&batch));
        if bytes > limits::ANSWER_MESSAGE_BYTES && rows > 1 {
            let half = rows / 2;
            self.batch(batch.slice(0, half))?;
            return self.batch(batch.slice(half, rows - half));
        }
        self.outlet.message(bytes)?;
        let message = match self.format {
            pb::Format::Unspecified | pb::Format::Columns => {
                convert::to_rows(&batch).map(|rows| (bytes, Kind::Batch(rows)))
            }
            pb::Format::ArrowIpc => convert::to_ipc(&batch).map(|ipc| (ipc.len(), Kind::ArrowIpc(ipc))),
        };
        let (bytes, kind) = message.map_err(|error| self.stop(error))?;
        if bytes > limits::ROW_BYTES {
            let message =
                format!("a row of the answer takes {bytes} bytes; a message holds {}", limits::ROW_BYTES);
            let error = RequestError::new(ErrorReason::MessageTooLarge, message);
            return Err(self.stop(error.with("limit_bytes", limits::ROW_BYTES as u64)));
        }
        self.push(kind);
        self.rows += rows as u64;
        if let Some(entry) = &self.seen {
            entry.gives(rows);
        }
        self.bytes += bytes;
        if self.bytes < limits::ANSWER_MESSAGE_BYTES {
            return Ok(());
        }
        self.bytes = 0;
        let messages = std::mem::take(&mut self.messages);
        self.outlet.piece(messages)
    }

    /// The versions that a statement has read, for its trailer.
    #[cfg(feature = "sql")]
    pub(crate) fn read(&mut self, versions: Vec<pb::TableVersion>) {
        self.versions = versions;
    }

    /// What stopped the engine: its own error, or the one that this sink stopped it with.
    pub(crate) fn error(&mut self, error: Error) -> RequestError {
        self.error.take().unwrap_or_else(|| error.into())
    }

    /// The error that this sink has stopped the engine with.
    pub(crate) fn kept_error(&mut self) -> Option<RequestError> {
        self.error.take()
    }

    /// Ends the answer.
    pub(crate) fn finish(mut self, outcome: std::result::Result<Statistics, RequestError>) -> O::Done {
        let last = outcome.map(|statistics| {
            let told = convert::statistics(&statistics, self.arrived, self.started);
            let versions = std::mem::take(&mut self.versions);
            let trailer = pb::Trailer { rows: self.rows, complete: true, statistics: Some(told), versions };
            self.push(Kind::Trailer(trailer));
            (std::mem::take(&mut self.messages), (self.rows, statistics.rows_selected))
        });
        self.outlet.end(last)
    }

    fn push(&mut self, kind: Kind) {
        self.messages.push_back(pb::QueryResponse { kind: Some(kind) });
    }

    /// Keeps an error that the engine has no kind for, and returns the error that stops the engine.
    fn stop(&mut self, error: RequestError) -> Error {
        self.error = Some(error);
        Error::new(ErrorKind::Cancelled, "the answer cannot be sent")
    }
}

/// An answer that has begun.
#[derive(Debug)]
pub(crate) enum Begun {
    /// All of it.
    Whole { messages: Piece, counts: Counts, _kept: Kept },
    /// The rest comes from a query that runs; dropping this stops it.
    Queued { reader: Reader, stop: StopOnDrop, deadline: Instant },
}

impl Begun {
    /// Waits for the first piece: what fails before is the answer to the call itself.
    pub(crate) async fn queued(
        reader: Reader,
        stop: StopOnDrop,
        deadline: Instant,
    ) -> std::result::Result<Self, RequestError> {
        stop.until(deadline, std::future::poll_fn(|context| reader.poll_first(context))).await??;
        Ok(Self::Queued { reader, stop, deadline })
    }
}

/// The end on the connection: a stream of messages. Dropping it stops the query.
#[derive(Debug)]
pub(crate) struct Answer {
    call: Call,
    begun: Begun,
    ended: bool,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Answer {
    pub(crate) fn new(call: Call, begun: Begun) -> Self {
        Self { call, begun, ended: false, timer: None }
    }
}

impl Stream for Answer {
    type Item = std::result::Result<pb::QueryResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { call, begun, ended, timer } = &mut *self;
        if *ended {
            return Poll::Ready(None);
        }
        let next = match begun {
            Begun::Whole { messages, counts, .. } => {
                messages.pop_front().map_or(Next::End(*counts), Next::Message)
            }
            Begun::Queued { reader, stop, deadline } => match reader.poll_next(context) {
                // What was made before somebody had it stopped is not sent.
                Poll::Ready(next) => {
                    stop.stop.check().map_or_else(|error| Next::Failed(error.into()), |()| next)
                }
                Poll::Pending => {
                    let until = *deadline;
                    let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
                    std::task::ready!(timer.as_mut().poll(context));
                    stop.stop.expire();
                    Next::Failed(RequestError::deadline())
                }
            },
        };
        Poll::Ready(match next {
            Next::Message(message) => Some(Ok(message)),
            Next::End(counts) => {
                *ended = true;
                (call.rows, call.selected) = counts;
                call.done();
                None
            }
            Next::Failed(error) => {
                *ended = true;
                Some(Err(call.fail(error)))
            }
        })
    }
}
