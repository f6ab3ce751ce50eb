//! A task of another node's query: read, run on the fragments that it names, answered piece by piece.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use basalt_core::limits::MAX_FILTER_NODES;
use basalt_proto::cluster::v1::{
    self as peer, End, ExecuteRequest, ExecuteResponse, execute_request, execute_response::Kind,
};
use prost::bytes::{Bytes, BytesMut};
use tokio::{
    sync::mpsc,
    time::{timeout, timeout_at},
};
use tokio_stream::Stream;
use tonic::{Status, Streaming};

use super::same_protocol;
use crate::{
    call::Call,
    coordinator::{Messages, Place, Reads, Task, Times, execute},
    cpu::{StopOnDrop, hand_over, on_own_thread_as},
    limits,
    memory::{Consumer, Reservation},
    panics::caught,
    state::State,
    status::{RequestError, Result},
};

/// Starts a task.
pub(super) async fn start(
    state: &Arc<State>,
    call: &mut Call,
    stream: Streaming<ExecuteRequest>,
) -> Result<(Pieces, StopOnDrop)> {
    let deadline = state.deadline(call)?;
    let mut held = state.memory.reserve(Consumer::Parts);
    let task = timeout_at(deadline, read(state, call, stream, &mut held))
        .await
        .map_err(|_| RequestError::deadline())??;
    let control = state.control();
    let mut reads = Reads::new(state, &task.head, deadline, control.clone()).await?;
    call.table = Some(Arc::clone(&reads.table));
    let stop = StopOnDrop::new(&control);
    let class = match reads.place(&task.head).await? {
        Place::Thread(class) => class,
        Place::Here(plan, snapshot) => {
            let (messages, end) = reads.at_once(&plan, &snapshot, call.at(), held)?;
            return Ok((Pieces::all(messages, end), stop));
        }
    };
    let permit = state.cpu.admit_part(class, deadline).await?;
    let (sender, pieces) = mpsc::channel(limits::WAITING_PIECES);
    let times = Times::since(call.at());
    let server = Arc::clone(state);
    on_own_thread_as(&state.environment, class, move |may_wait| {
        let _held = (permit, held);
        let control = server.cpu.spread(may_wait, class, control);
        let mut sink = |bytes: Bytes| Ok(hand_over(may_wait, &sender, Ok(Kind::Partial(bytes)), deadline)?);
        let Task { head, data } = task;
        let end = caught(|| execute(&mut reads, head, &data, &server.sets, &control, &mut sink));
        let end = end.map(|end| Kind::End(times.on(end, reads.loaded)));
        // Whoever does not listen any longer need not hear of it.
        let _ = hand_over(may_wait, &sender, end, deadline);
    });
    Ok((Pieces::Come(pieces), stop))
}

/// Reads a task, whose bytes are as many as it says. They are counted as they come.
async fn read(
    state: &State,
    call: &Call,
    mut stream: Streaming<ExecuteRequest>,
    held: &mut Reservation,
) -> Result<Task> {
    let Some(execute_request::Kind::Task(head)) = next(&mut stream).await? else {
        return Err(RequestError::protocol("the first message is no task"));
    };
    same_protocol(state, head.protocol)?;
    call.authorise(&head)?;
    if !head.fragments.is_sorted_by(|a, b| a < b) {
        return Err(RequestError::protocol("the fragments do not ascend"));
    }
    let lengths = lengths(&head)?;
    let (mut data, mut piece) = (Vec::with_capacity(lengths.len()), Bytes::new());
    for length in lengths {
        if piece.len() >= length {
            held.set(held.bytes() + length as u64)?;
            data.push(piece.split_to(length));
            continue;
        }
        let before = held.bytes();
        let mut bytes = BytesMut::new();
        while bytes.len() < length {
            if piece.is_empty() {
                let Some(execute_request::Kind::Data(next)) = next(&mut stream).await? else {
                    return Err(RequestError::protocol("there are fewer bytes than the task says"));
                };
                piece = next;
            }
            let taken = piece.split_to(piece.len().min(length - bytes.len()));
            // It doubles what it has allocated.
            held.set(before + 2 * (bytes.len() + taken.len()) as u64)?;
            bytes.extend_from_slice(&taken);
        }
        data.push(bytes.freeze());
    }
    if !piece.is_empty() || next(&mut stream).await?.is_some() {
        return Err(RequestError::protocol("there are more bytes than the task says"));
    }
    Ok(Task { head, data })
}

/// The bytes of each set, then of each lookup.
fn lengths(task: &peer::Task) -> Result<Vec<usize>> {
    if task.sets.len() + task.lookups.len() > MAX_FILTER_NODES {
        return Err(RequestError::protocol("there are more sets than a filter may have parts"));
    }
    let sets = task.sets.iter().map(|set| set.bytes);
    let all: Vec<u64> = sets.chain(task.lookups.iter().map(|lookup| lookup.bytes)).collect();
    let total = all.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
    if total > limits::TASK_DATA_BYTES {
        let message = format!("{total} bytes of sets; the limit is {}", limits::TASK_DATA_BYTES);
        return Err(RequestError::protocol(message));
    }
    Ok(all.into_iter().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)).collect())
}

/// The next message: other nodes have all of a task when they begin to send it.
async fn next(stream: &mut Streaming<ExecuteRequest>) -> Result<Option<execute_request::Kind>> {
    let message = timeout(limits::MESSAGE_WAIT + limits::MESSAGE_TIMEOUT, stream.message()).await;
    match message.map_err(|_| RequestError::deadline())? {
        Ok(None) => Ok(None),
        Ok(Some(ExecuteRequest { kind: Some(kind) })) => Ok(Some(kind)),
        Ok(Some(ExecuteRequest { kind: None })) => Err(RequestError::protocol("a message without a kind")),
        Err(status) => {
            Err(RequestError::of_reading(&status).unwrap_or_else(|| RequestError::protocol(status.message())))
        }
    }
}

/// What a task comes to.
pub(super) enum Pieces {
    /// It was done where it came in.
    All(
        std::vec::IntoIter<Kind>,
        #[expect(dead_code, reason = "it is given back when this is dropped")] Reservation,
    ),
    /// From the thread that does it.
    Come(mpsc::Receiver<Result<Kind>>),
}

impl Pieces {
    fn all(Messages { all, held }: Messages, end: End) -> Self {
        let mut pieces: Vec<Kind> = all.into_iter().map(Kind::Partial).collect();
        pieces.push(Kind::End(end));
        Self::All(pieces.into_iter(), held)
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Kind>>> {
        match self {
            Self::All(pieces, _) => Poll::Ready(pieces.next().map(Ok)),
            Self::Come(pieces) => pieces.poll_recv(context),
        }
    }
}

/// The answer to a task. Dropping it stops the work.
pub(super) struct Running {
    call: Call,
    pieces: Pieces,
    ended: bool,
    _stop: StopOnDrop,
}

impl Running {
    pub(super) fn new(call: Call, (pieces, stop): (Pieces, StopOnDrop)) -> Self {
        Self { call, pieces, ended: false, _stop: stop }
    }

    fn fail(&mut self, error: RequestError) -> Status {
        self.ended = true;
        self.call.fail(error)
    }
}

impl Stream for Running {
    type Item = std::result::Result<ExecuteResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let piece = std::task::ready!(self.pieces.poll_next(context));
        Poll::Ready(Some(match piece {
            Some(Ok(kind)) => {
                if let Kind::End(end) = &kind {
                    self.call.selected = end.statistics.as_ref().map_or(0, |s| s.rows_selected);
                    self.call.done();
                    self.ended = true;
                }
                Ok(ExecuteResponse { kind: Some(kind) })
            }
            Some(Err(error)) => Err(self.fail(error)),
            // It panicked, or gave up on a slow reader.
            None => Err(self.fail(RequestError::internal())),
        }))
    }
}
