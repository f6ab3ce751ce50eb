//! A task at this node, for its own queries and for those of others.

use std::sync::Arc;

use basalt_core::{
    exec::Control,
    fragment::Fragment,
    plan::Plan,
    table::{Cutoff, Snapshot, Table},
};
use basalt_proto::{
    cluster::v1::{self as peer, End, task::Request},
    v1::{self as pb, ErrorReason},
};
use basalt_storage::TableState;
use prost::{Message as _, bytes::Bytes};
use tokio::{
    task::yield_now,
    time::{Instant, timeout_at},
};

use super::{
    execute::{Waves, execute, execute_plan},
    fresh,
    remote::{Part, Task},
};
use crate::{
    cache::{Purpose, Told},
    class::Class,
    convert,
    cpu::{StopOnDrop, on_own_thread_as, until_stopped},
    memory::{Consumer, Reservation},
    moment::Moment,
    panics::caught,
    state::State,
    status::{RequestError, Result},
    tables::TableVersion,
};

/// The fragments of a task at this node. What is not in memory is read when its turn comes, so that memory need not hold
/// all of them at once.
pub(crate) struct Reads {
    state: Arc<State>,
    pub(crate) table: Arc<Table>,
    version: Arc<TableState>,
    cutoff: Option<Cutoff>,
    /// Those that are still to come.
    rest: Vec<u32>,
    deadline: Instant,
    control: Control,
    purpose: Purpose,
    /// How many were read.
    pub(crate) loaded: u32,
    /// Some could not be.
    failed: bool,
}

impl Reads {
    /// Nothing is read yet.
    pub(crate) async fn new(
        state: &Arc<State>,
        task: &peer::Task,
        deadline: Instant,
        control: Control,
    ) -> Result<Self> {
        let (table, version) =
            timeout_at(deadline, pinned(state, task)).await.map_err(|_| RequestError::deadline())??;
        let cutoff = task.cutoff.map(|cutoff| convert::cutoff(cutoff, table.schema())).transpose()?;
        Ok(Self {
            state: Arc::clone(state),
            table,
            version,
            cutoff,
            rest: task.fragments.clone(),
            deadline,
            control,
            purpose: match &task.request {
                Some(Request::Describe(_)) => Purpose::Maintenance,
                _ if task.aside => Purpose::Aside,
                _ => Purpose::Query,
            },
            loaded: 0,
            failed: false,
        })
    }

    /// Where the task is done; one that comes with sets is long, as its query was where it came from.
    pub(crate) async fn place(&self, task: &peer::Task) -> Result<Place> {
        let Some(Request::Query(query)) = &task.request else { return Ok(Place::Thread(Class::Long)) };
        if !task.sets.is_empty() || !task.lookups.is_empty() || task.analyze {
            return Ok(Place::Thread(Class::Long));
        }
        let bind = Bind {
            state: Arc::clone(&self.state),
            table: Arc::clone(&self.table),
            version: Arc::clone(&self.version),
            fragments: self.rest.clone(),
            none: self.none(),
            cutoff: self.cutoff,
            purpose: self.purpose,
        };
        let query = query.clone();
        let table = (self.version.rows(), self.version.fragments().len());
        if Class::is_light_to_bind(query.encoded_len(), [table]) {
            return caught(|| Ok(bind.place(query)));
        }
        self.state.cpu.run_as(Class::Short, move || bind.place(query)).await
    }

    /// Does what [`Place::Here`] says; its messages are added to what is held.
    pub(crate) fn at_once(
        &self,
        plan: &Plan,
        snapshot: &Snapshot,
        arrived: Instant,
        held: Reservation,
    ) -> Result<(Messages, End)> {
        let (times, mut messages) = (Times::since(arrived), Messages::new(held));
        let of = (&*self.table, plan, snapshot);
        let end = caught(|| execute_plan(of, &self.control, &mut |message| messages.push(message)))?;
        Ok((messages, times.on(end, 0)))
    }
}

/// Where a task is done.
pub(crate) enum Place {
    /// Where it came in, at once: all that it reads is in memory, and is read in less time than the way to a thread takes.
    Here(Box<Plan>, Snapshot),
    /// On a thread of its class.
    Thread(Class),
}

/// What the query of a task is bound to.
struct Bind {
    state: Arc<State>,
    table: Arc<Table>,
    version: Arc<TableState>,
    fragments: Vec<u32>,
    none: Snapshot,
    cutoff: Option<Cutoff>,
    purpose: Purpose,
}

impl Bind {
    /// What cannot be bound is long, and its error is for whoever runs it; so is what has all to be read first.
    fn place(self, query: pb::QueryRequest) -> Place {
        let long = Place::Thread(Class::Long);
        let Self { state, table, version, fragments, none, cutoff, purpose } = self;
        let Ok((query, true)) = convert::query(query, &state.sets) else { return long };
        let Ok(plan) = Plan::new(&table, &none, &query) else { return long };
        let columns = plan.columns();
        let resident =
            |purpose| state.tables.resident(&table, &version, &fragments, &columns, purpose).ok().flatten();
        match resident(Purpose::Aside).map(|snapshot| plan.estimate(&snapshot)) {
            Some(estimate) if Class::is_light(estimate) => match resident(purpose) {
                Some(snapshot) => Place::Here(Box::new(plan), snapshot.with_cutoff(cutoff)),
                None => Place::Thread(Class::of(estimate)),
            },
            Some(estimate) => Place::Thread(Class::of(estimate)),
            None => Class::of_plan(&plan, &table, &version, &fragments, &state).map_or(long, Place::Thread),
        }
    }
}

impl Waves for Reads {
    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table)
    }

    fn none(&self) -> Snapshot {
        Snapshot::new(self.version.version(), Vec::new()).with_cutoff(self.cutoff)
    }

    fn next(&mut self, columns: &[usize]) -> Result<Option<Arc<Snapshot>>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tables = &self.state.tables;
        let wave = tables.wave(&self.table, &self.version, &self.rest, columns, self.purpose, self.deadline);
        let wave = self.state.environment.wait(until_stopped(&self.control, self.deadline, wave));
        let (snapshot, loaded) = wave.inspect_err(|_| self.failed = true)?;
        self.rest.drain(..snapshot.fragments().len());
        self.loaded += loaded;
        Ok(Some(Arc::new(snapshot.with_cutoff(self.cutoff))))
    }

    fn elastic(&self, snapshot: &Snapshot) -> Result<Vec<Vec<Told>>> {
        let ids: Vec<u32> = snapshot.fragments().iter().map(Fragment::id).collect();
        self.state.tables.elastic(&self.table, &self.version, &ids)
    }
}

/// The table of a task. Where its version is known the store need not be looked into.
async fn pinned(state: &State, task: &peer::Task) -> Result<(Arc<Table>, Arc<TableState>)> {
    let same = |(table, held): (Arc<Table>, TableVersion)| match held {
        TableVersion::Stored(version) => {
            let is_same =
                table.id() == task.table_id && (task.log_id.is_empty() || task.log_id == version.id());
            is_same.then_some((table, version))
        }
        TableVersion::InMemory(_) => None,
    };
    if let Some(found) = state.tables.pin(&task.table, Some(task.version)).ok().and_then(same) {
        return Ok(found);
    }
    if let Some(found) = state.tables.parting(task.table_id, task.version).and_then(same) {
        return Ok(found);
    }
    if let Some(found) = same(fresh::pin(state, &task.table, Some(task.version)).await?) {
        return Ok(found);
    }
    // It was dropped and made again, there or here.
    state.tables.refresh_catalog(Moment::now(&*state.environment)).await?;
    same(fresh::pin(state, &task.table, Some(task.version)).await?).ok_or_else(|| other_table(&task.table))
}

/// The version of a table that the scan of another node's statement reads.
#[cfg(feature = "sql")]
pub(crate) async fn version_of_task(state: &State, task: &peer::Task) -> Result<(Arc<Table>, TableVersion)> {
    let (table, version) = pinned(state, task).await?;
    Ok((table, TableVersion::Stored(version)))
}

/// The error of a name that means another table by now.
pub(super) fn other_table(name: &str) -> RequestError {
    RequestError::new(ErrorReason::VersionGone, format!("table {name:?} is another one here"))
}

/// What a task has taken.
pub(crate) struct Times {
    arrived: Instant,
    started: Instant,
}

impl Times {
    /// Of a task that arrived then and starts now.
    pub(crate) fn since(arrived: Instant) -> Self {
        Self { arrived, started: Instant::now() }
    }

    pub(crate) fn on(&self, end: End, loaded: u32) -> End {
        let ns = |since: Instant| u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        End { elapsed_ns: ns(self.arrived), execute_ns: ns(self.started), loaded, ..end }
    }
}

/// Why there is no part.
pub(super) enum Failed {
    /// This node cannot read a fragment; another one may.
    Read(RequestError),
    /// It is the request's.
    Request(RequestError),
}

/// The messages of a part, with the memory that they take.
pub(crate) struct Messages {
    pub(crate) all: Vec<Bytes>,
    pub(crate) held: Reservation,
}

impl Messages {
    /// None yet; they are added to what is held.
    fn new(held: Reservation) -> Self {
        Self { all: Vec::new(), held }
    }

    fn push(&mut self, message: Bytes) -> Result<()> {
        self.held.set(self.held.bytes() + message.len() as u64)?;
        self.all.push(message);
        Ok(())
    }
}

/// This node's own part of its query.
pub(super) async fn part(
    state: &Arc<State>,
    name: &Arc<str>,
    task: &Task,
    share: &[u32],
    deadline: Instant,
) -> std::result::Result<Part, Failed> {
    let arrived = Instant::now();
    let head = peer::Task { fragments: share.to_vec(), ..task.head.clone() };
    let reads = Reads::new(state, &head, deadline, state.control()).await.map_err(Failed::Read)?;
    let (messages, end) = match reads.place(&head).await.map_err(Failed::Request)? {
        Place::Here(plan, snapshot) => {
            // The others that are asked hear of it first.
            yield_now().await;
            let held = state.memory.reserve(Consumer::Parts);
            reads.at_once(&plan, &snapshot, arrived, held).map_err(Failed::Request)?
        }
        Place::Thread(class) => {
            let task = Task { head, data: task.data.clone() };
            part_on_thread(class, reads, task, arrived, deadline).await?
        }
    };
    let elapsed_ns = u64::try_from(arrived.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let (node, fragments, Messages { all, held }) = (Arc::clone(name), share.to_vec(), messages);
    Ok(Part { node, fragments, messages: all, end, shipped: (0, 0), elapsed_ns, held })
}

/// The same on a thread, with a permit.
async fn part_on_thread(
    class: Class,
    mut reads: Reads,
    task: Task,
    arrived: Instant,
    deadline: Instant,
) -> std::result::Result<(Messages, End), Failed> {
    let state = Arc::clone(&reads.state);
    let permit = state.cpu.admit_part(class, deadline).await.map_err(Failed::Request)?;
    let (stop, times) = (StopOnDrop::new(&reads.control), Times::since(arrived));
    let environment = Arc::clone(&state.environment);
    let running = on_own_thread_as(&environment, class, move |may_wait| {
        let _permit = permit;
        let control = state.cpu.spread(may_wait, class, reads.control.clone());
        let mut messages = Messages::new(state.memory.reserve(Consumer::Parts));
        let Task { head, data } = task;
        let mut sink = |message| messages.push(message);
        let end = caught(|| execute(&mut reads, head, &data, &state.sets, &control, &mut sink));
        match end {
            Ok(end) => Ok((messages, times.on(end, reads.loaded))),
            Err(error) if reads.failed => Err(Failed::Read(error)),
            Err(error) => Err(Failed::Request(error)),
        }
    });
    let answer = stop.until(deadline, running).await.map_err(Failed::Request)?;
    answer.map_err(|_| Failed::Request(RequestError::internal()))?
}
