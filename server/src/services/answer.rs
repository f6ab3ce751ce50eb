//! The answer of a query on its way from the CPU pool to the client.
//!
//! The pool makes messages and hands them over in pieces, so that a small answer is one piece: one wake-up,
//! one write. A client that reads slowly makes the pool wait with the next piece, and a pool thread that
//! waits does other work meanwhile.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Instant,
};

use arrow_array::RecordBatch;
use basalt_core::{
    error::{Error, ErrorKind, Result},
    exec::Statistics,
    schema::Schema,
};
use basalt_proto::v1::{self as pb, ErrorReason, query_response::Kind};
use tokio::{
    sync::mpsc,
    time::{Sleep, sleep_until},
};
use tokio_stream::Stream;
use tonic::Status;

use crate::{
    call::Call,
    convert,
    cpu::{StopOnDrop, hand_over},
    limits,
    status::Fault,
};

/// Messages that belong to one answer, in order.
#[derive(Debug)]
pub(crate) struct Piece {
    messages: Vec<pb::QueryResponse>,
    /// In the last piece: the rows of the answer, and those that the filter selected.
    end: Option<(u64, u64)>,
}

/// The end on the CPU pool.
#[derive(Debug)]
pub(crate) struct Sink {
    sender: mpsc::Sender<std::result::Result<Piece, Fault>>,
    format: pb::Format,
    arrived: Instant,
    started: Instant,
    deadline: Instant,
    messages: Vec<pb::QueryResponse>,
    bytes: usize,
    rows: u64,
    fault: Option<Fault>,
    stalled: Arc<AtomicBool>,
}

impl Sink {
    pub(crate) fn new(
        sender: mpsc::Sender<std::result::Result<Piece, Fault>>,
        format: pb::Format,
        arrived: Instant,
        deadline: Instant,
    ) -> Self {
        let (started, messages) = (Instant::now(), Vec::with_capacity(3));
        Self {
            sender,
            format,
            arrived,
            started,
            deadline,
            messages,
            bytes: 0,
            rows: 0,
            fault: None,
            stalled: Arc::default(),
        }
    }

    /// Set once the client has left the answer unread for too long.
    pub(crate) fn stalled(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stalled)
    }

    pub(crate) fn header(&mut self, schema: &Schema, table_version: u64) {
        self.started = Instant::now();
        self.push(Kind::Header(pb::Header { schema: Some(convert::to_schema(schema)), table_version }));
    }

    /// Takes rows of the answer, cut to the size of messages.
    pub(crate) fn batch(&mut self, batch: RecordBatch) -> Result<()> {
        let (rows, bytes) = (batch.num_rows(), convert::message_bytes(&batch));
        if bytes > limits::ANSWER_MESSAGE_BYTES && rows > 1 {
            let half = rows / 2;
            self.batch(batch.slice(0, half))?;
            return self.batch(batch.slice(half, rows - half));
        }
        let message = match self.format {
            pb::Format::Unspecified | pb::Format::Columns => {
                convert::to_rows(&batch).map(|rows| (bytes, Kind::Batch(rows)))
            }
            pb::Format::ArrowIpc => convert::to_ipc(&batch).map(|ipc| (ipc.len(), Kind::ArrowIpc(ipc))),
        };
        let (bytes, kind) = message.map_err(|fault| self.stop(fault))?;
        if bytes > limits::ROW_BYTES {
            let message =
                format!("a row of the answer takes {bytes} bytes; a message holds {}", limits::ROW_BYTES);
            let fault = Fault::new(ErrorReason::MessageTooLarge, message);
            return Err(self.stop(fault.with("limit_bytes", limits::ROW_BYTES as u64)));
        }
        self.push(kind);
        self.rows += rows as u64;
        self.bytes += bytes;
        if self.bytes < limits::ANSWER_MESSAGE_BYTES {
            return Ok(());
        }
        self.bytes = 0;
        let messages = std::mem::take(&mut self.messages);
        self.send(Ok(Piece { messages, end: None }))
    }

    /// What stopped the engine: its own error, or the one that this sink stopped it with.
    pub(crate) fn fault(&mut self, error: Error) -> Fault {
        self.fault.take().unwrap_or_else(|| error.into())
    }

    /// The fault that this sink has stopped the engine with.
    pub(crate) fn kept_fault(&mut self) -> Option<Fault> {
        self.fault.take()
    }

    /// Ends the answer.
    pub(crate) fn finish(mut self, outcome: std::result::Result<Statistics, Fault>) {
        let last = outcome.map(|statistics| {
            let told = convert::statistics(&statistics, self.arrived, self.started);
            self.push(Kind::Trailer(pb::Trailer { rows: self.rows, complete: true, statistics: Some(told) }));
            let messages = std::mem::take(&mut self.messages);
            Piece { messages, end: Some((self.rows, statistics.rows_selected)) }
        });
        // An error says that nobody listens any longer, or that this one has stalled.
        if !self.stalled.load(Ordering::Acquire) {
            let _ = self.send(last);
        }
    }

    fn push(&mut self, kind: Kind) {
        self.messages.push(pb::QueryResponse { kind: Some(kind) });
    }

    /// Hands a piece over.
    fn send(&mut self, piece: std::result::Result<Piece, Fault>) -> Result<()> {
        let handed = hand_over(&self.sender, piece, self.deadline);
        if matches!(&handed, Err(error) if error.kind() == ErrorKind::DeadlineExceeded) {
            self.stalled.store(true, Ordering::Release);
        }
        handed
    }

    /// Keeps a fault that the engine has no kind for, and returns the error that stops the engine.
    fn stop(&mut self, fault: Fault) -> Error {
        self.fault = Some(fault);
        Error::new(ErrorKind::Cancelled, "the answer cannot be sent")
    }
}

/// An answer whose first piece has arrived.
#[derive(Debug)]
pub(crate) struct Pieces {
    pub(crate) first: Piece,
    pub(crate) rest: mpsc::Receiver<std::result::Result<Piece, Fault>>,
    pub(crate) stop: StopOnDrop,
    pub(crate) deadline: Instant,
    pub(crate) stalled: Arc<AtomicBool>,
}

impl Pieces {
    /// Waits for the first piece: what fails before is the answer to the call itself.
    pub(crate) async fn begin(
        mut rest: mpsc::Receiver<std::result::Result<Piece, Fault>>,
        stop: StopOnDrop,
        deadline: Instant,
        stalled: Arc<AtomicBool>,
    ) -> std::result::Result<Self, Fault> {
        match stop.until(deadline, rest.recv()).await? {
            Some(first) => Ok(Self { first: first?, rest, stop, deadline, stalled }),
            None => Err(Fault::internal()),
        }
    }
}

/// The end on the connection: a stream of messages. Dropping it stops the query.
#[derive(Debug)]
pub(crate) struct Answer {
    call: Call,
    ready: std::vec::IntoIter<pb::QueryResponse>,
    ended: bool,
    rest: mpsc::Receiver<std::result::Result<Piece, Fault>>,
    stop: StopOnDrop,
    deadline: Instant,
    stalled: Arc<AtomicBool>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Answer {
    pub(crate) fn new(call: Call, pieces: Pieces) -> Self {
        let Pieces { first, rest, stop, deadline, stalled } = pieces;
        let ready = Vec::new().into_iter();
        let mut answer = Self { call, ready, ended: false, rest, stop, deadline, stalled, timer: None };
        answer.take(first);
        answer
    }

    fn take(&mut self, piece: Piece) {
        self.ready = piece.messages.into_iter();
        if let Some((rows, selected)) = piece.end {
            (self.call.rows, self.call.selected, self.ended) = (rows, selected, true);
        }
    }

    fn fail(&mut self, fault: Fault) -> Poll<Option<std::result::Result<pb::QueryResponse, Status>>> {
        self.ended = true;
        Poll::Ready(Some(Err(self.call.fail(fault))))
    }
}

impl Stream for Answer {
    type Item = std::result::Result<pb::QueryResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(message) = self.ready.next() {
                return Poll::Ready(Some(Ok(message)));
            }
            if self.ended {
                self.call.done();
                return Poll::Ready(None);
            }
            match self.rest.poll_recv(context) {
                Poll::Ready(Some(Ok(piece))) => self.take(piece),
                Poll::Ready(Some(Err(fault))) => return self.fail(fault),
                // Without a last piece: the query gave up on a slow reader, or panicked.
                Poll::Ready(None) if self.stalled.load(Ordering::Acquire) => {
                    return self.fail(Fault::deadline());
                }
                Poll::Ready(None) => return self.fail(Fault::internal()),
                Poll::Pending => {
                    let deadline = self.deadline;
                    let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline.into())));
                    std::task::ready!(timer.as_mut().poll(context));
                    self.stop.0.expire();
                    return self.fail(Fault::deadline());
                }
            }
        }
    }
}
