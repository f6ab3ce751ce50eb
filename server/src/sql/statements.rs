//! Statements as every door runs them: admitted as what their plans are, over tables that are pinned once, until their
//! deadline.

use std::{collections::VecDeque, fmt, sync::Arc};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use basalt_core::{
    exec::{Control, Statistics},
    query::Literal,
    schema::{DataType, Schema},
};
use basalt_proto::v1::{self as pb, ErrorReason};
use basalt_sql::{Catalog, Command, CopyForm, Description};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{
    Copying, Tables, Transaction, error,
    turn::{GiveBack, Turn},
};
use crate::{
    access::Caller,
    class::Class,
    connection::Connection,
    convert::message_bytes,
    cpu::{Permit, StopOnDrop},
    limits,
    queries::Committing,
    readers::{Kept, Left, Slot},
    state::State,
    status::{RequestError, Result},
    trace,
};

/// A statement on its way from a door.
#[derive(Debug)]
pub(crate) struct Statement<'a> {
    pub(crate) sql: String,
    /// The values of `$1`, `$2`, ... or of each `?`.
    pub(crate) parameters: Vec<Literal>,
    /// Who asks.
    pub(crate) caller: &'a Caller,
    /// By which method, as the log and the metrics have it.
    pub(crate) method: &'static str,
    /// Where the answer goes.
    pub(crate) connection: &'a Arc<Connection>,
    /// It is given up then.
    pub(crate) deadline: Instant,
    /// A shutdown waits for the answer until it is read, or given up.
    pub(crate) running: Option<TaskTrackerToken>,
}

/// A statement that runs. Dropping it stops the work.
pub(crate) struct Running {
    pub(crate) answer: basalt_sql::Answer,
    pub(crate) tables: Arc<Tables>,
    pub(crate) control: Control,
    pub(crate) stop: StopOnDrop,
    pub(crate) deadline: Instant,
    /// It counts among the queries of this class that run; whoever waits for a reader gives it back.
    pub(crate) class: Class,
    pub(crate) permit: Permit,
    /// `None`: it takes one when there are many rows.
    pub(crate) slot: Option<Slot>,
    /// Where there is none: a shutdown waits for the answer.
    running: Option<TaskTrackerToken>,
    connection: Arc<Connection>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("answer", &self.answer).finish_non_exhaustive()
    }
}

impl Statement<'_> {
    /// Plans it, waits for the place of its answer and begins to run it. What it writes is committed when this returns.
    pub(crate) async fn begin(self, state: &Arc<State>) -> Result<Running> {
        self.begin_with(state, None, Copying::Not, Committing::default(), true).await
    }

    /// The same without the place of its answer, for a client that may send and take rows of COPY, and in a transaction, where
    /// there is one: what it writes is committed with the rest of that. `committing` is for a door that itself stops to wait for
    /// it.
    pub(crate) async fn begin_copying(
        self,
        state: &Arc<State>,
        transaction: Option<Arc<Transaction>>,
        copying: Copying,
        committing: Committing,
    ) -> Result<Running> {
        self.begin_with(state, transaction, copying, committing, false).await
    }

    async fn begin_with(
        self,
        state: &Arc<State>,
        transaction: Option<Arc<Transaction>>,
        copying: Copying,
        committing: Committing,
        takes_slot: bool,
    ) -> Result<Running> {
        let deadline = self.deadline;
        let control = state.control_of(self.caller);
        let times = (Instant::now(), state.environment.now_micros());
        let listed = state.queries.list(self.caller, self.method, &control, times, committing);
        let entry = listed.entry();
        entry.says(&self.sql);
        let stop = StopOnDrop::of_query(listed, &control);
        let turn = stop.until(deadline, Turn::begin(state, self.connection, deadline, takes_slot)).await??;
        let turn = Arc::new(turn);
        let _turn = GiveBack(Arc::clone(&turn));
        let tables = Tables::new(Arc::clone(state), self.caller, deadline, control.clone());
        let tables = tables.of_connection(self.connection, transaction).in_turn(&turn).seen_as(&entry);
        let tables = Arc::new(tables.copying(copying));
        let request = request(state, self.caller, &tables, self.sql, self.parameters);
        let step = trace::step("plan");
        let planned = async { state.sql.query(request).await.map_err(error) };
        let answer = stop.until(deadline, planned).await??;
        step.end();
        let (permit, mut slot) = turn.take();
        if takes_slot && slot.is_none() {
            return Err(RequestError::internal());
        }
        let permit = match permit {
            Some(permit) => permit,
            // It waited for the client's rows without one.
            None => state.cpu.admit_again(turn.class(), deadline).await?,
        };
        let mut running = self.running;
        if let Some(slot) = &mut slot {
            slot.running = running.take();
        }
        entry.runs();
        let (class, connection) = (turn.class(), Arc::clone(self.connection));
        Ok(Running { answer, tables, control, stop, deadline, class, permit, slot, running, connection })
    }

    /// Plans it and says what it takes and gives, in a transaction, where there is one; its parameters need no values, and are of
    /// these types as far as the client says.
    pub(crate) async fn describe(
        self,
        state: &Arc<State>,
        transaction: Option<Arc<Transaction>>,
        types: Vec<Option<DataType>>,
    ) -> Result<Description> {
        let deadline = self.deadline;
        let turn = Arc::new(Turn::begin(state, self.connection, deadline, false).await?);
        let _turn = GiveBack(Arc::clone(&turn));
        let control = state.control_of(self.caller);
        let stop = StopOnDrop::new(&control);
        let tables = Tables::new(Arc::clone(state), self.caller, deadline, control.clone());
        let tables = Arc::new(tables.of_connection(self.connection, transaction).in_turn(&turn));
        let request = request(state, self.caller, &tables, self.sql, self.parameters);
        let described = async { state.sql.describe(request, types).await.map_err(error) };
        stop.until(deadline, described).await?
    }
}

fn request(
    state: &State,
    caller: &Caller,
    tables: &Arc<Tables>,
    sql: String,
    parameters: Vec<Literal>,
) -> basalt_sql::Request {
    let catalog = Arc::clone(tables) as Arc<dyn Catalog>;
    basalt_sql::Request { sql, parameters, catalog, memory: state.memory.shared(caller.account()) }
}

impl Running {
    /// Its rows, for a door that has a task to wait in.
    pub(crate) fn rows(self, state: &Arc<State>) -> RowsOfStatement {
        let Self { answer, tables, stop, deadline, class, permit, slot, running, connection, .. } = self;
        let state = Arc::clone(state);
        let first = First { is_known: slot.is_some(), ..First::default() };
        let held = Some(Held { tables, stop, permit: Some(permit), slot, left: None });
        let read = (Vec::new(), Statistics::default());
        RowsOfStatement {
            answer,
            held,
            over: Ok(()),
            read,
            first,
            running,
            deadline,
            class,
            connection,
            state,
        }
    }
}

/// The rows of a statement that runs. Dropping them stops the work.
///
/// The first ones are not handed out before it is known whether there are many. Of few nothing else is held; whoever has
/// many waits for a place, where they may wait for their reader.
pub(crate) struct RowsOfStatement {
    answer: basalt_sql::Answer,
    /// `None`: all of its rows were taken, or it has failed.
    held: Option<Held>,
    /// What it has come to then.
    over: Result<()>,
    /// What it had read then.
    read: (Vec<pb::TableVersion>, Statistics),
    first: First,
    running: Option<TaskTrackerToken>,
    deadline: Instant,
    class: Class,
    connection: Arc<Connection>,
    state: Arc<State>,
}

/// The rows that are there before it is known whether there are many.
#[derive(Debug, Default)]
struct First {
    batches: VecDeque<RecordBatch>,
    bytes: u64,
    /// For them, until rows behind them are asked for.
    kept: Option<Kept>,
    /// When the first came.
    since: Option<Instant>,
    is_known: bool,
}

impl First {
    /// Adds rows; whether they are few still.
    fn add(&mut self, batch: RecordBatch, state: &State) -> bool {
        self.since.get_or_insert_with(Instant::now);
        self.bytes += bytes_of(&batch);
        self.batches.push_back(batch);
        let is_counted = state.readers.count(&mut self.kept, self.bytes, &state.memory);
        is_counted && self.bytes <= limits::LIGHT_ANSWER_BYTES
    }
}

/// What a statement holds until its rows are taken.
struct Held {
    tables: Arc<Tables>,
    stop: StopOnDrop,
    /// `None` while the door has the rows: it may be waiting for a client.
    permit: Option<Permit>,
    /// `None` while others may take it away.
    slot: Option<Slot>,
    left: Option<Arc<Left>>,
}

impl fmt::Debug for RowsOfStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowsOfStatement").field("answer", &self.answer).finish_non_exhaustive()
    }
}

impl RowsOfStatement {
    /// What the statement does.
    pub(crate) fn command(&self) -> Command {
        self.answer.command()
    }

    /// The rows are those of COPY TO STDOUT, in this form.
    pub(crate) fn copied(&self) -> Option<&CopyForm> {
        self.answer.copied()
    }

    /// The columns.
    pub(crate) fn schema(&self) -> &Schema {
        self.answer.schema()
    }

    /// It is given up then.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The columns as the rows have them: with lists and intervals, where the client takes such.
    pub(crate) fn arrow(&self) -> &SchemaRef {
        self.answer.arrow()
    }

    /// The next rows; `None`: the answer is complete. What came before an error is not an answer. Dropping the future loses no
    /// rows.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while !self.first.is_known {
            self.gather().await?;
        }
        if let Some(batch) = self.first.batches.pop_front() {
            return Ok(Some(batch));
        }
        self.first.kept = None;
        let next = self.take().await?;
        if next.is_none() {
            self.running = None;
        }
        Ok(next)
    }

    /// Takes the next of the first rows, or gets a place, where they are many or come slowly.
    async fn gather(&mut self) -> Result<()> {
        let next = match self.first.since {
            None => self.take().await,
            Some(since) => {
                let (state, connection) = (Arc::clone(&self.state), Arc::clone(&self.connection));
                let deadline = self.deadline;
                let slot = async {
                    sleep_until(since + limits::FIRST_ROWS_TIME).await;
                    state.readers.admit(&connection, Class::Long, deadline).await
                };
                tokio::select! {
                    biased;
                    next = self.take() => next,
                    // Without one there may be few rows all the same.
                    Ok(slot) = slot => return self.has_slot(Ok(slot)),
                }
            }
        };
        let is_few = match next {
            Ok(Some(batch)) if batch.num_rows() == 0 => true,
            Ok(Some(batch)) => self.first.add(batch, &self.state),
            // Who asks for rows behind these is told.
            Ok(None) | Err(_) => {
                self.first.is_known = true;
                return Ok(());
            }
        };
        if is_few {
            return Ok(());
        }
        let Some(held) = &mut self.held else { return Err(RequestError::internal()) };
        // Whoever waits for a place holds no permit. Answers of this size are all of one class, whatever they took to make.
        held.permit = None;
        let slot = self.state.readers.admit(&self.connection, Class::Long, self.deadline);
        let slot = held.stop.until(self.deadline, slot).await.and_then(|slot| slot);
        self.has_slot(slot)
    }

    /// The rows that are there are handed out, and others behind them; or none, where there is no place.
    fn has_slot(&mut self, slot: Result<Slot>) -> Result<()> {
        match (slot, &mut self.held) {
            (Ok(slot), Some(held)) => held.slot = Some(slot),
            (Ok(_), None) => {}
            (Err(error), _) => {
                self.first = First::default();
                self.end(Err(error));
            }
        }
        self.first.is_known = true;
        Ok(())
    }

    /// The next rows of the engine.
    async fn take(&mut self) -> Result<Option<RecordBatch>> {
        let Self { answer, held, over, deadline, class, state, .. } = self;
        let Some(held) = held else { return over.clone().map(|()| None) };
        let next = async {
            if let Some(left) = held.left.take() {
                held.slot = Some(left.back().ok_or_else(left_unread)?);
            }
            let _permit = match held.permit.take() {
                Some(permit) => permit,
                None => state.cpu.admit_again(*class, *deadline).await?,
            };
            let next = async { answer.next().await.map_err(error) };
            held.stop.until(*deadline, next).await?
        };
        let next = next.await;
        match &next {
            Ok(Some(batch)) => {
                if let Some(listed) = held.stop.listed() {
                    listed.entry().gives(batch.num_rows());
                }
            }
            Ok(None) => self.end(Ok(())),
            Err(failed) => self.end(Err(failed.clone())),
        }
        next
    }

    /// What has a shutdown wait for the answer, for whoever keeps it longer than the rows.
    pub(crate) fn take_running(&mut self) -> Option<TaskTrackerToken> {
        self.running.take()
    }

    /// Gives back what it holds.
    fn end(&mut self, over: Result<()>) {
        self.over = over;
        self.answer.end();
        if let Some(held) = self.held.take() {
            self.read = (held.tables.versions(), held.tables.statistics());
        }
    }

    /// Whether all of its rows were taken: it holds nothing any longer.
    pub(crate) fn is_complete(&self) -> bool {
        self.held.is_none() && self.over.is_ok()
    }

    /// Nobody asks for its next rows for now: it does not count among those that run, and in a while others may have its place.
    pub(crate) fn leave(&mut self) {
        let Some(held) = &mut self.held else { return };
        held.permit = None;
        if let Some(slot) = held.slot.take() {
            held.left = Some(self.state.readers.leave(slot));
        }
    }

    /// The same of rows that are asked for when their client comes back: a shutdown does not wait for those that are here.
    pub(crate) fn rest(&mut self) {
        self.leave();
        if self.held.is_none() {
            self.running = None;
        }
    }

    /// Somebody has asked for its rows just now.
    pub(crate) fn is_asked(&self) {
        if let Some(left) = self.held.as_ref().and_then(|held| held.left.as_ref()) {
            left.renew();
        }
    }

    /// Why there are no more rows: others have its place.
    pub(crate) fn given_up(&self) -> Option<RequestError> {
        let left = self.held.as_ref()?.left.as_ref()?;
        left.is_given_up().then(left_unread)
    }

    /// Waits until somebody has it stopped.
    pub(crate) async fn cancelled(&self) -> RequestError {
        match &self.held {
            Some(held) => held.stop.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// The versions that were read.
    pub(crate) fn versions(&self) -> Vec<pb::TableVersion> {
        match &self.held {
            Some(held) => held.tables.versions(),
            None => self.read.0.clone(),
        }
    }

    /// What the scans did.
    pub(crate) fn statistics(&self) -> Statistics {
        match &self.held {
            Some(held) => held.tables.statistics(),
            None => self.read.1,
        }
    }
}

/// About what rows take. What has parts is taken for all that they are parts of.
pub(crate) fn bytes_of(batch: &RecordBatch) -> u64 {
    let nested = batch.columns().iter().filter(|column| column.data_type().is_nested());
    (message_bytes(batch) + nested.map(|column| column.get_array_memory_size()).sum::<usize>()) as u64
}

fn left_unread() -> RequestError {
    let message = "the rows were left unread while other statements waited for the place of this one";
    RequestError::new(ErrorReason::DeadlineExceeded, message)
}
