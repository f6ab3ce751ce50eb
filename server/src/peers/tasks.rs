//! Tasks of other nodes' SQL statements: handed over, and read from by whoever needs their rows.

use std::{collections::VecDeque, fmt, sync::Arc};

use basalt_core::exec::Control;
use basalt_proto::{
    cluster::v1::{
        BeginTaskRequest, BeginTaskResponse, Begun, EndOfRows, ReadTaskRequest, ReadTaskResponse,
        begin_task_response, read_task_response,
    },
    v1::ErrorReason,
};
use futures_util::{
    FutureExt as _, StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use prost::bytes::Bytes;
use tokio::time::{Instant, timeout, timeout_at};
use tonic::Streaming;

use super::{Messages, same_protocol};
use crate::{
    access::Caller,
    call::Call,
    cpu::StopOnDrop,
    limits,
    state::State,
    status::{RequestError, Result},
};

/// Who runs tasks, where they are.
#[tonic::async_trait]
pub(crate) trait Tasks: fmt::Debug + Send + Sync {
    /// Begins a task. The future says what it has done, once it is over; dropping it ends the task. `ended` is ready once
    /// no more of its rows are wanted.
    async fn begin(
        &self,
        task: BeginTaskRequest,
        from: Asked<'_>,
        ended: BoxFuture<'static, ()>,
    ) -> Result<BoxFuture<'static, Result<Vec<u8>>>>;

    /// Runs it for one of its partitions.
    fn read(&self, rows: ReadTaskRequest) -> Result<BoxStream<'static, Result<Bytes>>>;
}

/// For whom, how long, and with what.
#[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "tasks are SQL's"))]
pub(crate) struct Asked<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) deadline: Instant,
    pub(crate) control: Control,
}

fn tasks(state: &State) -> Result<&Arc<dyn Tasks>> {
    let none = || RequestError::new(ErrorReason::PeerProtocol, "this node runs no tasks of SQL statements");
    state.tasks.get().ok_or_else(none)
}

/// A task that was begun. Dropping it ends the task.
pub(super) struct Task {
    done: BoxFuture<'static, Result<Vec<u8>>>,
    deadline: Instant,
    stop: StopOnDrop,
}

/// Begins a task.
pub(super) async fn begin(
    state: &Arc<State>,
    call: &mut Call,
    mut stream: Streaming<BeginTaskRequest>,
) -> Result<Task> {
    let deadline = state.deadline(call)?;
    let message = timeout(limits::MESSAGE_WAIT + limits::MESSAGE_TIMEOUT, stream.message()).await;
    let task = match message.map_err(|_| RequestError::deadline())? {
        Ok(Some(task)) => task,
        Ok(None) => return Err(RequestError::protocol("there is no task")),
        Err(status) => {
            let error = RequestError::of_reading(&status);
            return Err(error.unwrap_or_else(|| RequestError::protocol(status.message())));
        }
    };
    same_protocol(state, task.protocol)?;
    if task.build != crate::VERSION {
        let message = format!("a task of build {:?}; this node is of {:?}", task.build, crate::VERSION);
        return Err(RequestError::new(ErrorReason::PeerProtocol, message));
    }
    let control = state.control();
    let stop = StopOnDrop::new(&control);
    // Nothing else comes: the end, however it comes, says that no more rows are wanted.
    let ended = async move { while let Ok(Some(_)) = stream.message().await {} };
    let from = Asked { caller: call.caller(), deadline, control };
    let begun = tasks(state)?.begin(task, from, ended.boxed());
    let done = stop.until(deadline, begun).await??;
    Ok(Task { done, deadline, stop })
}

impl Task {
    /// What is told of it.
    pub(super) fn answers(self, call: Call) -> Messages<BeginTaskResponse> {
        enum Left {
            Begin(Task),
            Wait(Task),
            Nothing,
        }
        use begin_task_response::Kind;
        Box::pin(stream::unfold((call, Left::Begin(self)), async |(mut call, left)| {
            let answer = |kind| Ok(BeginTaskResponse { kind: Some(kind) });
            match left {
                Left::Begin(task) => Some((answer(Kind::Begun(Begun {})), (call, Left::Wait(task)))),
                Left::Wait(Task { done, deadline, stop }) => {
                    let told = match stop.until(deadline, done).await.and_then(|done| done) {
                        Ok(done) => {
                            call.done();
                            answer(Kind::Done(done))
                        }
                        Err(error) => Err(call.fail(error)),
                    };
                    Some((told, (call, Left::Nothing)))
                }
                Left::Nothing => None,
            }
        }))
    }
}

/// Rows of a task. Dropping them gives them up.
pub(super) struct Rows {
    rows: BoxStream<'static, Result<Bytes>>,
    deadline: Instant,
    /// Of the last piece, what is still to be sent.
    left: VecDeque<Bytes>,
    is_over: bool,
}

/// Runs a task for one of its partitions.
pub(super) fn read(state: &Arc<State>, call: &Call, request: ReadTaskRequest) -> Result<Rows> {
    same_protocol(state, request.protocol)?;
    let (deadline, rows) = (state.deadline(call)?, tasks(state)?.read(request)?);
    Ok(Rows { rows, deadline, left: VecDeque::new(), is_over: false })
}

impl Rows {
    /// The next message; `None`: all were sent.
    async fn next(&mut self) -> Result<Option<read_task_response::Kind>> {
        use read_task_response::Kind;
        if self.is_over {
            return Ok(None);
        }
        if self.left.is_empty() {
            let next = timeout_at(self.deadline, self.rows.next()).await;
            match next.map_err(|_| RequestError::deadline())?.transpose()? {
                Some(piece) => {
                    let cut = (0..piece.len()).step_by(limits::PEER_PIECE_BYTES);
                    let piece = |at: usize| piece.slice(at..piece.len().min(at + limits::PEER_PIECE_BYTES));
                    self.left.extend(cut.map(piece));
                }
                None => self.is_over = true,
            }
        }
        Ok(Some(self.left.pop_front().map_or(Kind::End(EndOfRows {}), Kind::Rows)))
    }

    pub(super) fn answers(self, call: Call) -> Messages<ReadTaskResponse> {
        Box::pin(stream::unfold(Some((call, self)), async |left| {
            let (mut call, mut rows) = left?;
            match rows.next().await {
                Ok(Some(kind)) => {
                    if rows.is_over {
                        call.done();
                    }
                    Some((Ok(ReadTaskResponse { kind: Some(kind) }), Some((call, rows))))
                }
                Ok(None) => None,
                Err(error) => Some((Err(call.fail(error)), None)),
            }
        }))
    }
}
