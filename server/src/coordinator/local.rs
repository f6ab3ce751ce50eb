//! A task at this node, for its own queries and for those of others.

use std::sync::Arc;

use basalt_core::{
    exec::Control,
    fragment::Fragment,
    table::{Cutoff, Snapshot, Table},
};
use basalt_proto::{
    cluster::v1::{self as peer, End, task::Request},
    v1::ErrorReason,
};
use basalt_storage::TableState;
use prost::bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use super::{
    execute::{Waves, execute},
    fresh,
    remote::{Part, Task},
};
use crate::{
    cache::{Purpose, Told},
    class::Class,
    convert,
    cpu::{StopOnDrop, on_own_thread_as, until_stopped},
    memory::Consumer,
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

    /// What the task is; one that comes with sets is long, as its query was where it came from.
    pub(crate) async fn class(&self, task: &peer::Task) -> Result<Class> {
        match &task.request {
            Some(Request::Query(query))
                if task.sets.is_empty() && task.lookups.is_empty() && !task.analyze =>
            {
                let (state, query, rest) = (Arc::clone(&self.state), query.clone(), self.rest.clone());
                let (table, version) = (Arc::clone(&self.table), Arc::clone(&self.version));
                let class = move || Class::of_request(query, &table, &version, &rest, &state);
                self.state.cpu.run_as(Class::Short, class).await
            }
            _ => Ok(Class::Long),
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
    if let Some(found) = same(fresh::pin(state, &task.table, Some(task.version)).await?) {
        return Ok(found);
    }
    // It was dropped and made again, there or here.
    state.tables.refresh_catalog(Moment::now(&*state.environment)).await?;
    same(fresh::pin(state, &task.table, Some(task.version)).await?).ok_or_else(|| other_table(&task.table))
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
    let control = state.control();
    let reads = Reads::new(state, &head, deadline, control.clone()).await;
    let mut reads = reads.map_err(Failed::Read)?;
    let class = reads.class(&head).await.map_err(Failed::Request)?;
    let permit = state.cpu.admit_part(class, deadline).await.map_err(Failed::Request)?;
    let (stop, times) = (StopOnDrop(control.clone()), Times::since(arrived));
    let mut held = state.memory.reserve(Consumer::Parts);
    let (server, data) = (Arc::clone(state), task.data.clone());
    let running = on_own_thread_as(&state.environment, class, move |may_wait| {
        let _permit = permit;
        let control = server.cpu.spread(may_wait, class, control);
        let (mut messages, mut bytes) = (Vec::new(), 0);
        let mut sink = |message: Bytes| {
            bytes += message.len() as u64;
            messages.push(message);
            held.set(bytes)
        };
        let end = caught(|| execute(&mut reads, head, &data, &server.sets, &control, &mut sink));
        match end {
            Ok(end) => Ok((messages, held, times.on(end, reads.loaded))),
            Err(error) if reads.failed => Err(Failed::Read(error)),
            Err(error) => Err(Failed::Request(error)),
        }
    });
    let answer = stop.until(deadline, running).await.map_err(Failed::Request)?;
    let (messages, held, end) = answer.map_err(|_| Failed::Request(RequestError::internal()))??;
    let elapsed_ns = u64::try_from(arrived.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let (node, fragments) = (Arc::clone(name), share.to_vec());
    Ok(Part { node, fragments, messages, end, shipped: (0, 0), elapsed_ns, held })
}
