//! The rows that a write of this node takes away, found by those that hold them.

use std::sync::{Arc, OnceLock, Weak};

use basalt_core::{exec::Question, plan::Plan, query::Filter, table::Table};
use basalt_sip::Sip;
use tokio::time::Instant;

use super::{Coordinator, Nodes, Pinned, Reach};
use crate::{
    access::Caller,
    cpu::{StopOnDrop, on_own_thread},
    limits,
    membership::Cluster,
    state::State,
    status::{RequestError, Result},
    tables::{self, RowPredicate},
};

/// What tables ask of a cluster.
#[derive(Debug)]
pub(crate) struct TablesPeers {
    cluster: Arc<Cluster>,
    /// The server whose tables these are.
    server: OnceLock<Weak<State>>,
}

impl TablesPeers {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster, server: OnceLock::new() }
    }

    /// Tells it which server it is a part of; once, before there are requests.
    pub(crate) fn set_server(&self, state: &Arc<State>) {
        if self.server.set(Arc::downgrade(state)).is_err() {
            tracing::error!("the server of the tables is set twice");
        }
    }
}

#[tonic::async_trait]
impl tables::Peers for TablesPeers {
    fn holds(&self, table: u64, fragment: u32) -> bool {
        self.cluster.members().view().holds(table, fragment)
    }

    fn owns(&self, table: u64) -> bool {
        self.cluster.members().view().owns(table)
    }

    async fn find(&self, table: &Arc<Table>, version: u64, rows: &RowPredicate) -> Result<Option<Sip>> {
        let state = self.server.get().and_then(Weak::upgrade).ok_or_else(RequestError::internal)?;
        find(state, table, version, rows).await
    }

    async fn committed(&self, table: &Table, version: u64) {
        self.cluster.committed(table.id(), version).await;
    }

    async fn catalog_changed(&self, version: u64) {
        self.cluster.catalog_changed(version).await;
    }
}

/// The addresses of rows in a version that this node knows; `None` where what tells them is too large to travel.
///
/// It takes no permit of a query: other writes to the table wait for this one, and queries that have one may wait for
/// those.
async fn find(
    state: Arc<State>,
    table: &Arc<Table>,
    version: u64,
    predicate: &RowPredicate,
) -> Result<Option<Sip>> {
    let (control, deadline) = (state.control(), Instant::now() + limits::MAX_DEADLINE);
    let (stop, caller) = (StopOnDrop::new(&control), Caller::itself(&state.access));
    let environment = Arc::clone(&state.environment);
    let reach = Reach::new(state, &caller, deadline, control.clone());
    let (table, predicate) = (Arc::clone(table), predicate.clone());
    let running = on_own_thread(&environment, move |_| {
        let seen = reach.known(&table, version)?;
        let whole = || Pinned { cutoff: None, ..seen.clone() };
        let mut coordinator = Coordinator::new(&reach, &control, false);
        let keys = match predicate {
            RowPredicate::Selected(filter) => {
                return selected(&mut coordinator, &seen, Option::clone(&filter));
            }
            RowPredicate::Hidden(cutoff) => {
                return selected(&mut coordinator, &whole(), Some(cutoff.hides(table.schema())));
            }
            RowPredicate::SameKeys(keys) => keys,
        };
        match keys.question() {
            Question::Filter(filter) => selected(&mut coordinator, &whole(), Some(filter)),
            Question::Rows(query) if !travels(query.filter.as_ref()) => Ok(None),
            Question::Rows(query) => {
                let (pinned, mut found) = (whole(), Vec::new());
                let plan = Plan::new(&table, &pinned.snapshot(), &query)?;
                coordinator.run(&pinned, &query, &plan, &mut |rows| {
                    let more = keys.among(&rows)?;
                    control.reserve(size_of_val(more.as_slice()))?;
                    found.extend(more);
                    Ok(())
                })?;
                Ok(Some(Sip::from_ids(found)))
            }
        }
    });
    stop.until(deadline, running).await?.map_err(|_| RequestError::internal())?
}

fn selected<N: Nodes>(
    coordinator: &mut Coordinator<'_, N>,
    pinned: &Pinned,
    filter: Option<Filter>,
) -> Result<Option<Sip>> {
    match travels(filter.as_ref()) {
        true => Ok(Some(coordinator.select(pinned, filter)?.0)),
        false => Ok(None),
    }
}

/// Whether the sets of a filter fit into a task: those of keys follow it, those of rows are a part of it.
fn travels(filter: Option<&Filter>) -> bool {
    let (mut keys, mut rows) = (0, 0);
    if let Some(filter) = filter {
        filter.leaves(&mut |leaf| match leaf {
            Filter::Keys(of) => keys += of.set.sip.as_bytes().len() as u64,
            Filter::Texts(of) => keys += of.texts.bytes() as u64,
            Filter::Rows(of) => rows += of.sip.as_bytes().len(),
            _ => {}
        });
    }
    keys < limits::TASK_DATA_BYTES / 2 && rows < limits::PEER_MESSAGE_BYTES / 2
}
