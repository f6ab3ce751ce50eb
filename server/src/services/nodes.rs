//! The same requests where several nodes hold the table: coordinated by this one. Whoever coordinates waits for others,
//! on a thread that may.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use basalt_core::{
    exec::{BuiltSet, Control},
    query::Filter,
    table::{Snapshot, Table},
};
use basalt_proto::v1 as pb;
use tokio::time::timeout_at;

use super::{
    Query,
    answer::{Begun, Outlet, Queued, Sink},
    select::Found,
};
use crate::{
    call::Call,
    class::Class,
    cluster::{Coordinator, Reach, describe, explained, fetch, fresh},
    convert,
    cpu::{StopOnDrop, clock, on_own_thread_as},
    panics::{self, caught},
    sets::KeyDomain,
    state::State,
    status::{Fault, Result},
};

/// Whether requests are coordinated. A node of a cluster coordinates even while it knows of no other: memory then holds
/// what was placed on it, which need not be all of a table.
pub(super) fn in_cluster(state: &State) -> bool {
    state.cluster.is_some()
}

/// The filter of a deletion, whose semi-joins are sets.
pub(super) async fn resolve(
    state: &Arc<State>,
    request: pb::DeleteRequest,
    deadline: Instant,
) -> Result<Option<Filter>> {
    fetch::sets_of(state, request.filter.as_ref(), deadline).await;
    let resolve = move |state: &State, reach: &Reach, control: &Control| {
        let filter = convert::filter(request.filter, &request.table, &state.sets)?;
        let mut coordinator = Coordinator::new(reach, control, false);
        let pinned = coordinator.pin(&request.table, None)?;
        coordinator.resolve_filter(&pinned, filter)
    };
    coordinate(state, deadline, state.control(), resolve).await
}

/// How the nodes hold the columns of a table.
pub(super) async fn columns(
    state: &Arc<State>,
    table: &str,
    full: bool,
    deadline: Instant,
) -> Result<Vec<pb::ColumnInfo>> {
    let table = table.to_owned();
    let describe = move |_: &State, reach: &Reach, control: &Control| {
        let mut coordinator = Coordinator::new(reach, control, false);
        let pinned = coordinator.pin(&table, None)?;
        describe::columns(&mut coordinator, &pinned, full)
    };
    coordinate(state, deadline, state.control(), describe).await
}

impl Query {
    /// Starts a query; its pieces come from a thread of its own.
    pub(super) async fn start_at_nodes(&self, call: &mut Call, request: pb::QueryRequest) -> Result<Begun> {
        let deadline = self.0.deadline(call)?;
        self.prepare(call, &request.table, [&request.filter, &request.having], deadline).await?;
        let class = self.class(&request, deadline).await?;
        let slot = self.0.readers.admit(&call.connection(), class, deadline).await?;
        let permit = Some(self.0.cpu.admit(class, deadline).await?);
        let control = self.0.control();
        let stop = StopOnDrop(control.clone());
        let (writer, reader) = self.0.readers.queue(slot, control.clone());
        let (state, reach) =
            (Arc::clone(&self.0), Reach::new(Arc::clone(&self.0), deadline, control.clone())?);
        let (format, arrived) = (request.format(), call.at());
        on_own_thread_as(class, move |may_wait| {
            let outlet = Queued { writer, may_wait, cpu: &state.cpu, class, permit, deadline };
            let mut sink = Sink::new(outlet, format, arrived);
            let outcome = caught(|| answer(&state, &reach, request, &control, &mut sink));
            sink.finish(outcome);
        });
        Begun::queued(reader, stop, deadline).await
    }

    /// What a query is by the fragments that this node holds: others are like them.
    async fn class(&self, request: &pb::QueryRequest, deadline: Instant) -> Result<Class> {
        let Ok(table) = self.0.catalog.get(&request.table) else { return Ok(Class::Long) };
        let (state, request) = (Arc::clone(&self.0), request.clone());
        let permit = self.0.cpu.admit(Class::Short, deadline).await?;
        let class = self.0.cpu.run_as(Class::Short, move || {
            let _permit = permit;
            Class::of_request(request, &table, &table.snapshot(), &state.sets)
        });
        timeout_at(deadline.into(), class).await.map_err(|_| Fault::deadline())?
    }

    /// The set of a selection.
    pub(super) async fn find_at_nodes(
        &self,
        call: &mut Call,
        request: &pb::SelectRequest,
        deadline: Instant,
    ) -> Result<(Found, Duration)> {
        self.prepare(call, &request.table, [&request.filter, &None], deadline).await?;
        let (table, version) = (request.table.clone(), request.version);
        let (key, filter) = (request.key.clone(), request.filter.clone());
        let find = move |state: &State, reach: &Reach, control: &Control| {
            let started = Instant::now();
            let filter = convert::filter(filter, &table, &state.sets)?;
            let mut coordinator = Coordinator::new(reach, control, false);
            let pinned = coordinator.pin(&table, version)?;
            let (key, sip, statistics) = if key.is_empty() {
                let (sip, statistics) = coordinator.select(&pinned, filter)?;
                (None, sip, statistics)
            } else {
                check_key(&pinned.table, pinned.version, &key, control)?;
                let (set, statistics) = coordinator.select_values(&pinned, &key, filter)?;
                let BuiltSet::Keys { data_type, has_null, sip } = set else { return Err(Fault::internal()) };
                (Some(KeyDomain { column: key, data_type, has_null }), Arc::unwrap_or_clone(sip), statistics)
            };
            let (version, table_id) = (pinned.version, pinned.table.id());
            Ok((Found { key, sip, statistics, version, table_id }, started.elapsed()))
        };
        coordinate(&self.0, deadline, self.0.control(), find).await
    }

    /// How a query runs at the nodes.
    pub(super) async fn plan_at_nodes(
        &self,
        call: &mut Call,
        request: pb::ExplainRequest,
    ) -> Result<pb::ExplainResponse> {
        let (deadline, arrived) = (self.0.deadline(call)?, call.at());
        let query = request.query.unwrap_or_default();
        self.prepare(call, &query.table, [&query.filter, &query.having], deadline).await?;
        let explain = move |state: &State, reach: &Reach, control: &Control| {
            let started = Instant::now();
            let (table, version) = (query.table.clone(), query.version);
            let (query, _) = convert::query(query, &state.sets).map_err(|e| e.at("query"))?;
            let mut coordinator = Coordinator::new(reach, control, request.analyze);
            let pinned = coordinator.pin(&table, version)?;
            let (query, plan) = coordinator.resolve(&pinned, query).map_err(|e| e.at("query"))?;
            let statistics = match request.analyze {
                true => coordinator.run(&pinned, &query, &plan, &mut |_| Ok(()))?,
                false => Default::default(),
            };
            let snapshot = Snapshot::new(pinned.version, Vec::new());
            let mut explanation = plan.explain(&snapshot, false, control)?;
            explanation.statistics = statistics;
            let statistics = convert::statistics(&explanation.statistics, arrived, started);
            let told = convert::explanation(explanation, pinned.version, statistics);
            Ok(explained(told, coordinator.into_hops()))
        };
        let control = self.0.control();
        let control = if request.analyze { control.with_clock(clock) } else { control };
        coordinate(&self.0, deadline, control, explain).await
    }

    /// Makes the table as new as was announced, and gets the sets of other nodes that filters name.
    async fn prepare(
        &self,
        call: &mut Call,
        table: &str,
        filters: [&Option<pb::Filter>; 2],
        deadline: Instant,
    ) -> Result<()> {
        let prepared = async {
            fresh::table(&self.0, table).await?;
            for filter in filters {
                fetch::sets_of(&self.0, filter.as_ref(), deadline).await;
            }
            Result::Ok(())
        };
        timeout_at(deadline.into(), prepared).await.map_err(|_| Fault::deadline())??;
        call.table = self.0.catalog.get(table).ok();
        Ok(())
    }
}

/// Coordinates with a permit of its own; stops when the deadline passes or when this future is dropped.
async fn coordinate<T: Send + 'static>(
    state: &Arc<State>,
    deadline: Instant,
    control: Control,
    job: impl FnOnce(&State, &Reach, &Control) -> Result<T> + Send + 'static,
) -> Result<T> {
    let permit = state.cpu.admit(Class::Long, deadline).await?;
    let stop = StopOnDrop(control.clone());
    let (state, reach) = (Arc::clone(state), Reach::new(Arc::clone(state), deadline, control.clone())?);
    let running = on_own_thread_as(Class::Long, move |_| {
        let _permit = permit;
        caught(|| job(&state, &reach, &control))
    });
    stop.until(deadline, running).await?.map_err(|_| Fault::internal())?
}

/// Answers a query.
fn answer<O: Outlet>(
    state: &State,
    reach: &Reach,
    request: pb::QueryRequest,
    control: &Control,
    sink: &mut Sink<O>,
) -> Result<basalt_core::exec::Statistics> {
    let (table, version) = (request.table.clone(), request.version);
    let (query, _) = convert::query(request, &state.sets)?;
    let mut coordinator = Coordinator::new(reach, control, false);
    let pinned = coordinator.pin(&table, version)?;
    panics::wanted("coordinate", &table);
    let (query, plan) = coordinator.resolve(&pinned, query)?;
    sink.header(plan.schema(), pinned.version);
    let ran = coordinator.run(&pinned, &query, &plan, &mut |batch| sink.batch(batch));
    ran.map_err(|fault| sink.kept_fault().unwrap_or(fault))
}

/// That the values of a column are ids; said as by a node that runs the request itself.
fn check_key(table: &Table, version: u64, key: &str, control: &Control) -> Result<()> {
    basalt_core::exec::select_keys(table, &Snapshot::new(version, Vec::new()), key, None, control)?;
    Ok(())
}
