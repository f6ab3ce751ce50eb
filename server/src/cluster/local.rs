//! A task at this node, for its own queries and for those of others.

use std::{sync::Arc, time::Instant};

use basalt_core::table::{Snapshot, Table};
use basalt_proto::{
    cluster::v1::{self as peer, End, task::Request},
    v1::ErrorReason,
};
use basalt_storage::TableState;
use tokio::time::timeout_at;

use super::{
    execute::execute,
    fresh,
    remote::{Part, Task},
    scatter::Failure,
};
use crate::{
    class::Class,
    convert,
    cpu::StopOnDrop,
    memory::Consumer,
    moment::Moment,
    state::State,
    status::{Fault, Result},
};

/// The fragments of a task, and how many of them were loaded for it.
pub(super) async fn fragments(
    state: &State,
    task: &peer::Task,
    deadline: Instant,
) -> Result<(Arc<Table>, Arc<Snapshot>, u32)> {
    let find = async {
        let table = pinned(state, task).await?;
        let held = table.snapshot();
        let missing = task.fragments.iter().filter(|id| held.fragment(**id).is_none()).count();
        let cutoff = task.cutoff.map(|cutoff| convert::cutoff(cutoff, table.schema())).transpose()?;
        let snapshot = state.tables.snapshot(&table, task.version, &task.fragments).await?;
        let snapshot = Arc::new(snapshot.with_cutoff(cutoff));
        Ok((table, snapshot, u32::try_from(missing).unwrap_or(u32::MAX)))
    };
    timeout_at(deadline.into(), find).await.map_err(|_| Fault::deadline())?
}

/// The table of a task. Where its version is known the store need not be looked into.
async fn pinned(state: &State, task: &peer::Task) -> Result<Arc<Table>> {
    let same = |(table, at): &(Arc<Table>, Arc<TableState>)| {
        table.id() == task.table_id && (task.log_id.is_empty() || task.log_id == at.id())
    };
    if let Ok(found) = state.tables.pin(&task.table, Some(task.version))
        && same(&found)
    {
        return Ok(found.0);
    }
    let mut found = fresh::pin(state, &task.table, Some(task.version)).await?;
    if !same(&found) {
        // It was dropped and made again, there or here.
        state.tables.refresh_catalog(Moment::now()).await?;
        found = fresh::pin(state, &task.table, Some(task.version)).await?;
    }
    if same(&found) { Ok(found.0) } else { Err(other_table(&task.table)) }
}

/// The error of a name that means another table by now.
pub(super) fn other_table(name: &str) -> Fault {
    Fault::new(ErrorReason::VersionGone, format!("table {name:?} is another one here"))
}

/// What a task is; one that comes with sets is long, as its query was where it came from.
pub(super) async fn class(
    state: &Arc<State>,
    table: &Arc<Table>,
    snapshot: &Arc<Snapshot>,
    task: &peer::Task,
) -> Result<Class> {
    match &task.request {
        Some(Request::Query(query)) if task.sets.is_empty() && task.lookups.is_empty() && !task.analyze => {
            let (state, query) = (Arc::clone(state), query.clone());
            let (table, snapshot) = (Arc::clone(table), Arc::clone(snapshot));
            let cpu = Arc::clone(&state.cpu);
            cpu.run_as(Class::Short, move || Class::of_request(query, &table, &snapshot, &state.sets)).await
        }
        _ => Ok(Class::Long),
    }
}

/// What a task has taken.
pub(super) struct Times {
    arrived: Instant,
    started: Instant,
}

impl Times {
    /// Of a task that arrived then and starts now.
    pub(super) fn since(arrived: Instant) -> Self {
        Self { arrived, started: Instant::now() }
    }

    pub(super) fn on(&self, end: End, loaded: u32) -> End {
        let ns = |since: Instant| u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        End { elapsed_ns: ns(self.arrived), execute_ns: ns(self.started), loaded, ..end }
    }
}

/// This node's own part of its query.
pub(super) async fn part(
    state: &Arc<State>,
    name: &Arc<str>,
    task: &Task,
    share: &[u32],
    deadline: Instant,
) -> std::result::Result<Part, Failure> {
    let arrived = Instant::now();
    let head = peer::Task { fragments: share.to_vec(), ..task.head.clone() };
    // What is not here might be elsewhere.
    let found = fragments(state, &head, deadline).await;
    let (table, snapshot, loaded) = found.map_err(|fault| Failure::Node(fault.message().to_owned()))?;
    let class = class(state, &table, &snapshot, &head).await.map_err(Failure::Request)?;
    let permit = state.cpu.admit_part(class, deadline).await.map_err(Failure::Request)?;
    let (control, times) = (state.control(), Times::since(arrived));
    let stop = StopOnDrop(control.clone());
    let mut held = state.memory.reserve(Consumer::Parts);
    let (server, data) = (Arc::clone(state), task.data.clone());
    let running = state.cpu.run_query(permit, control, move |control| {
        let (mut messages, mut bytes) = (Vec::new(), 0);
        let end = execute(&table, &snapshot, head, &data, &server.sets, &control, &mut |message| {
            bytes += message.len() as u64;
            messages.push(message);
            held.set(bytes)
        })?;
        Ok((messages, held, times.on(end, loaded)))
    });
    let answer = stop.until(deadline, running).await.flatten();
    let (messages, held, end) = answer.map_err(Failure::Request)?;
    let elapsed_ns = u64::try_from(arrived.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let (node, fragments) = (Arc::clone(name), share.to_vec());
    Ok(Part { node, fragments, messages, end, shipped: (0, 0), elapsed_ns, held })
}
