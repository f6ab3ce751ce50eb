//! What a coordinator reaches: tables pinned as new as was announced, and tasks done by whoever holds the fragments.

use std::{future::Future, sync::Arc};

use basalt_core::{
    exec::Control,
    table::{Snapshot, Table},
};
use basalt_proto::cluster::v1::task::Request;
use tokio::time::{Instant, timeout_at};

use super::{
    Nodes, Pinned, coverage, fresh,
    local::{self, other_table},
    remote::{self, Part, Task},
    scatter::{Ask, Failure, scatter},
};
#[cfg(feature = "sql")]
use crate::membership::{Link, LinkState, Node};
use crate::{
    access::{Action, Caller, Object},
    cache::{Purpose, Told},
    cpu::until_stopped,
    membership::View,
    memory::{Consumer, Reservation},
    metrics::Metrics,
    state::State,
    status::{RequestError, Result},
    tables::TableVersion,
    trace::{self, Entered, Trace},
};

/// The cluster for one request. Its methods wait, on a thread that may.
#[derive(Debug)]
pub(crate) struct Reach {
    state: Arc<State>,
    view: Arc<View>,
    /// Whose request it is.
    caller: Caller,
    deadline: Instant,
    control: Control,
    trace: Option<Arc<Trace>>,
}

impl Reach {
    /// For the request that this thread works on, which is given up at `deadline`, or when its control says so.
    pub(crate) fn new(state: Arc<State>, caller: &Caller, deadline: Instant, control: Control) -> Self {
        let view = match &state.cluster {
            Some(cluster) => cluster.members().view(),
            None => View::alone(),
        };
        Self { state, view, caller: caller.clone(), deadline, control, trace: trace::current() }
    }

    /// The request, for threads that do not know what they work on.
    #[cfg(feature = "sql")]
    pub(crate) fn trace(&self) -> Option<Arc<Trace>> {
        self.trace.clone()
    }

    /// A version of a table, as new as what was acknowledged.
    pub(crate) async fn find(&self, name: &str, version: Option<u64>) -> Result<Pinned> {
        let found = timeout_at(self.deadline, fresh::pin(&self.state, name, version)).await;
        let (table, version) = found.map_err(|_| RequestError::deadline())??;
        Ok(self.pinned(table, version))
    }

    /// A version that this node has, whatever was announced.
    pub(super) fn known(&self, table: &Table, version: u64) -> Result<Pinned> {
        let found = self.state.tables.pin(table.name(), Some(version));
        let is_same = |(found, _): &(Arc<Table>, TableVersion)| found.id() == table.id();
        let (found, at) = match found {
            Ok(found) if is_same(&found) => found,
            other => match (self.state.tables.parting(table.id(), version), other) {
                (Some(parting), _) => parting,
                (None, Ok(_)) => return Err(other_table(table.name())),
                (None, Err(error)) => return Err(error),
            },
        };
        Ok(self.pinned(found, at))
    }

    /// A version at hand.
    pub(crate) fn pinned(&self, table: Arc<Table>, version: TableVersion) -> Pinned {
        let fragments = version.fragments();
        let cutoff = version.retention().map(|retention| retention.cutoff(self.control.time()));
        Pinned { table, version, fragments, cutoff }
    }

    /// Whose request it is.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }

    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// Whether some of these fragments of a table are this node's to read.
    pub(super) fn owns_some(&self, table: &Table, fragments: &[u32]) -> bool {
        let states: Vec<_> = self.view.nodes().iter().map(|node| node.state()).collect();
        let choice = self.view.choice(&states, table.id());
        let own = |fragment: &u32| {
            let place = choice.next(*fragment, |_| false);
            place.is_some_and(|place| self.view.nodes()[place].link.is_none())
        };
        fragments.iter().any(own)
    }

    /// The same for fragments that this node reads itself, whoever else has them.
    #[cfg(feature = "sql")]
    pub(crate) fn alone(&self) -> Self {
        Self {
            state: Arc::clone(&self.state),
            view: View::alone(),
            caller: self.caller.clone(),
            deadline: self.deadline,
            control: self.control.clone(),
            trace: self.trace.clone(),
        }
    }

    /// The nodes that take tasks of statements, this one first: those that live, and are of the same build.
    #[cfg(feature = "sql")]
    pub(crate) fn takers(&self) -> Vec<Arc<str>> {
        let own = &self.view.nodes()[self.view.own()];
        let takes = |node: &&Node| {
            let status = node.link.as_ref().and_then(|link| link.status());
            node.state() == LinkState::Alive
                && status.is_some_and(|status| status.takes_tasks && status.version == crate::VERSION)
        };
        let others = self.view.nodes().iter().filter(takes);
        std::iter::once(own).chain(others).map(|node| Arc::clone(&node.name)).collect()
    }

    /// The version of what this node says to others.
    #[cfg(feature = "sql")]
    pub(crate) fn protocol(&self) -> u32 {
        self.state.environment.protocol()
    }

    /// The way to another node.
    #[cfg(feature = "sql")]
    pub(crate) fn link(&self, name: &str) -> Option<Arc<Link>> {
        self.view.nodes().iter().find(|node| *node.name == *name)?.link.clone()
    }

    /// The fragments of a pinned version for which each of some nodes is the first of them to be asked.
    #[cfg(feature = "sql")]
    pub(crate) fn shares(&self, pinned: &Pinned, nodes: &[Arc<str>]) -> Result<Vec<Vec<u32>>> {
        let states: Vec<_> = self.view.nodes().iter().map(|node| node.state()).collect();
        let choice = self.view.choice(&states, pinned.table.id());
        let number = |place: usize| nodes.iter().position(|name| *name == self.view.nodes()[place].name);
        let mut shares = vec![Vec::new(); nodes.len()];
        for fragment in pinned.fragments.iter() {
            let node = choice.next(*fragment, |place| number(place).is_none()).and_then(number);
            shares[node.ok_or_else(RequestError::internal)?].push(*fragment);
        }
        Ok(shares)
    }

    fn wait<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        let _entered = Entered::new(self.trace.clone());
        self.state.environment.wait(until_stopped(&self.control, self.deadline, future))
    }
}

impl Nodes for Reach {
    fn pin(&self, name: &str, version: Option<u64>) -> Result<Pinned> {
        self.caller.authorise(Action::Read, Object::Table(name))?;
        let (table, version) = self.wait(fresh::pin(&self.state, name, version))?;
        Ok(self.pinned(table, version))
    }

    fn ask(&self, pinned: &Pinned, task: Task, fragments: &[u32]) -> Result<Vec<Part>> {
        let work = Work { reach: self, task, pinned };
        let table = (pinned.table.name(), pinned.table.id());
        self.wait(scatter(&self.view, table, fragments, self.deadline, &work))
    }

    fn in_memory(
        &self,
        pinned: &Pinned,
        fragments: &[u32],
        columns: &[usize],
        purpose: Purpose,
    ) -> Result<Option<Arc<Snapshot>>> {
        let snapshot = match &pinned.version {
            TableVersion::InMemory(snapshot) if fragments.len() == snapshot.fragments().len() => {
                Some(Snapshot::clone(snapshot))
            }
            TableVersion::InMemory(snapshot) => {
                let mut some = snapshot.fragments().to_vec();
                some.retain(|fragment| fragments.binary_search(&fragment.id()).is_ok());
                Some(Snapshot::new(snapshot.version(), some))
            }
            TableVersion::Stored(state) => {
                self.state.tables.resident(&pinned.table, state, fragments, columns, purpose)?
            }
        };
        Ok(snapshot.map(|snapshot| Arc::new(snapshot.with_cutoff(pinned.cutoff))))
    }

    fn elastic(&self, pinned: &Pinned) -> Result<Vec<Vec<Told>>> {
        match &pinned.version {
            TableVersion::InMemory(_) => Ok(Vec::new()),
            TableVersion::Stored(state) => self.state.tables.elastic(&pinned.table, state, &pinned.fragments),
        }
    }

    fn count(&self) -> usize {
        self.view.nodes().len()
    }

    fn memory(&self) -> Reservation {
        self.state.memory.reserve(Consumer::Parts)
    }
}

/// A task at whichever node it is asked of.
struct Work<'a> {
    reach: &'a Reach,
    task: Task,
    pinned: &'a Pinned,
}

impl Ask for Work<'_> {
    type Part = Part;

    async fn ask(&self, place: usize, fragments: &[u32]) -> std::result::Result<Part, Failure> {
        let Reach { state, view, deadline, .. } = self.reach;
        let (node, task, metrics) = (&view.nodes()[place], &self.task, &*state.metrics);
        let sets = task.head.sets.len() as u64;
        let part = match &node.link {
            None => {
                metrics.sips_dropped(sets);
                let part = local::part(state, &node.name, task, fragments, *deadline).await;
                part.map_err(|failure| match failure {
                    // Nobody else would do better.
                    local::Failed::Read(error) if view.nodes().len() > 1 => Failure::of_node(&error),
                    local::Failed::Read(error) | local::Failed::Request(error) => Failure::Request(error),
                })?
            }
            Some(link) => {
                let mut vain = InVain { metrics, sets };
                let part = remote::execute(&node.name, link, task, fragments, *deadline, state).await?;
                vain.sets = 0;
                part
            }
        };
        // Another node may have what the pinned version has.
        coverage::check(self.pinned.table.name(), &self.pinned.version, fragments, &part.end.answered)
            .map_err(|error| Failure::Node(error.message().to_owned()))?;
        if let (1.., Some(statistics)) = (sets, &part.end.statistics) {
            metrics.sip_applied(statistics.rows, statistics.rows_selected);
        }
        if let Some(Request::Select(_)) = &task.head.request {
            metrics.sip_built(part.messages.iter().map(|message| message.len() as u64).sum());
        }
        Ok(part)
    }
}

/// Sets that another node has got, and not answered yet.
struct InVain<'a> {
    metrics: &'a Metrics,
    sets: u64,
}

impl Drop for InVain<'_> {
    fn drop(&mut self) {
        self.metrics.sips_late(self.sets);
    }
}
