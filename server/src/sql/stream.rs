//! The rows of a statement on their way to a client that may be slow, or gone.
//!
//! They come from a task of their own, so that deadlines hold and what the statement has is given back also while the
//! client's connection takes nothing: nobody asks for the next rows then.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    task::{Context, Poll},
};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use basalt_core::logical::outer_batch;
use basalt_proto::v1::ErrorReason;
use basalt_sql::Command;
use futures_util::Stream;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{Copying, RowsOfStatement, Statement, Transaction};
use crate::{
    convert, limits,
    memory::{Consumer, Reservation},
    panics::caught_async,
    queries::Committing,
    state::State,
    status::{RequestError, Result},
    trace,
};

/// The rows as a stream, which ends with `None` where they are complete and with an error where they are not. Dropping it
/// stops the statement.
#[derive(Debug)]
pub(crate) struct RowStream {
    command: Command,
    schema: SchemaRef,
    /// The only one; the task that fills it has none.
    waiting: Arc<Mutex<Waiting>>,
    /// What the statement came to, once there are no more pieces.
    outcome: Arc<OnceLock<Result<()>>>,
    is_over: bool,
}

/// The rows that wait.
#[derive(Debug)]
struct Waiting {
    /// `None`: they were given up.
    pieces: Option<mpsc::Receiver<RecordBatch>>,
    /// For those that nobody has taken behind the end of the task.
    memory: Option<Reservation>,
    /// A shutdown waits for the answer until it is taken, or given up.
    running: Option<TaskTrackerToken>,
}

impl RowStream {
    /// Begins to run a statement, perhaps in a transaction, and to hand out its rows.
    pub(crate) async fn begin(
        state: &Arc<State>,
        statement: Statement<'_>,
        transaction: Option<&Arc<Transaction>>,
    ) -> Result<Self> {
        let running =
            statement.begin_copying(state, transaction.cloned(), Copying::Not, Committing::default()).await?;
        let mut rows = running.rows(state);
        let (command, schema) = (rows.command(), rows.schema().to_outer_arrow());
        let (sender, pieces) = mpsc::channel(limits::WAITING_PIECES);
        let waiting = Arc::new(Mutex::new(Waiting {
            pieces: Some(pieces),
            memory: None,
            running: rows.take_running(),
        }));
        let outcome = Arc::new(OnceLock::new());
        let (told, shared) = (Arc::clone(&outcome), Arc::downgrade(&waiting));
        let mut memory = state.memory.reserve(Consumer::Answers);
        tokio::spawn(trace::carried(async move {
            let handed_out = caught_async(hand_out(rows, &sender, &mut memory)).await;
            let is_complete = handed_out.is_ok();
            // It is the first: it is said once.
            let _ = told.set(handed_out);
            if let Some(waiting) = shared.upgrade() {
                let mut waiting = lock(&waiting);
                // Whoever waits for rows is woken by the sender's end; whoever has some to take is not here.
                if !is_complete {
                    waiting.running = None;
                    waiting.pieces.take_if(|pieces| !pieces.is_empty());
                }
                waiting.memory = is_complete.then_some(memory);
            }
            drop(sender);
        }));
        Ok(Self { command, schema, waiting, outcome, is_over: false })
    }

    /// What the statement does.
    pub(crate) fn command(&self) -> Command {
        self.command
    }

    /// The columns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next rows; `None`: the answer is complete.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await.transpose()
    }
}

impl Stream for RowStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let batch = match &mut lock(&self.waiting).pieces {
            Some(pieces) => std::task::ready!(pieces.poll_recv(context)),
            None => None,
        };
        Poll::Ready(batch.map(Ok).or_else(|| {
            self.is_over = true;
            match self.outcome.get() {
                Some(Ok(())) => None,
                Some(Err(error)) => Some(Err(error.clone())),
                // The task was ended with its runtime.
                None => Some(Err(RequestError::internal())),
            }
        }))
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn hand_out(
    mut rows: RowsOfStatement,
    sender: &mpsc::Sender<RecordBatch>,
    memory: &mut Reservation,
) -> Result<()> {
    // What is held in the form of another type is what it is for others.
    let logical: Vec<_> = rows.schema().fields().iter().map(|field| field.logical).collect();
    let is_held_otherwise = logical.iter().any(Option::is_some);
    // The bytes of the pieces that may wait still.
    let mut waiting = VecDeque::new();
    loop {
        let next = tokio::select! {
            biased;
            () = sender.closed() => return Err(gone()),
            next = rows.next() => next?,
        };
        let Some(mut batch) = next else { return Ok(()) };
        if is_held_otherwise {
            batch = outer_batch(&batch, &logical)?;
        }
        for batch in pieces(batch) {
            waiting.push_back(convert::message_bytes(&batch) as u64);
            if waiting.len() > limits::WAITING_PIECES + 1 {
                waiting.pop_front();
            }
            let bytes = waiting.iter().sum::<u64>().saturating_sub(limits::UNCOUNTED_ANSWER_BYTES);
            let until = rows.deadline().min(Instant::now() + limits::SLOW_READER_TIMEOUT);
            let sent = async {
                memory.set_by(bytes, rows.deadline()).await?;
                match timeout_at(until, sender.send(batch)).await {
                    Ok(sent) => sent.map_err(|_| gone()),
                    Err(_) => Err(too_slow()),
                }
            };
            tokio::select! {
                biased;
                sent = sent => sent?,
                error = rows.cancelled() => return Err(error),
                () = sender.closed() => return Err(gone()),
            }
        }
    }
}

/// Rows in pieces of about the size of a message, none of them empty.
fn pieces(batch: RecordBatch) -> Vec<RecordBatch> {
    let (mut left, mut pieces) = (vec![batch], Vec::new());
    while let Some(batch) = left.pop() {
        let rows = batch.num_rows();
        if rows > 1 && convert::message_bytes(&batch) > limits::ANSWER_MESSAGE_BYTES {
            let half = rows / 2;
            left.push(batch.slice(half, rows - half));
            left.push(batch.slice(0, half));
        } else if rows > 0 {
            pieces.push(batch);
        }
    }
    pieces
}

fn too_slow() -> RequestError {
    let message = "the client read the answer too slowly, or not until its deadline";
    RequestError::new(ErrorReason::DeadlineExceeded, message)
}

fn gone() -> RequestError {
    RequestError::new(ErrorReason::Cancelled, "the client gave up")
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int64Array};

    use super::*;

    #[test]
    fn pieces_are_all_rows_in_order() {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..300_000));
        let batch = RecordBatch::try_from_iter([("a", values)]).unwrap();
        let parts = pieces(batch.clone());
        assert!(parts.len() > 2 && parts.iter().all(|part| part.num_rows() > 0));
        assert_eq!(arrow_select::concat::concat_batches(&batch.schema(), &parts).unwrap(), batch);
        assert!(pieces(batch.slice(0, 0)).is_empty());
    }
}
