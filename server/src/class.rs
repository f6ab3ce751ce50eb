//! Short queries and long ones: which of the two a request is, before anything of it is run.

use std::sync::Arc;

use basalt_core::{
    exec::Estimate,
    plan::Plan,
    query::{Expr, Filter, Query, SelectItem, SemiJoin},
    table::{Snapshot, Table},
};
use basalt_storage::TableState;
use tokio::time::Instant;

use crate::{
    access::{Action, Caller, Object},
    cache::Purpose,
    limits,
    state::State,
    tables::TableVersion,
};

/// Something for each class.
#[derive(Debug)]
pub(crate) struct ByClass<T> {
    short: T,
    long: T,
}

impl<T> ByClass<T> {
    pub(crate) fn new(short: T, long: T) -> Self {
        Self { short, long }
    }

    pub(crate) fn of(&self, class: Class) -> &T {
        match class {
            Class::Short => &self.short,
            Class::Long => &self.long,
        }
    }
}

/// What a query is scheduled as. A short one never waits for a long one: each class has threads and permits of its
/// own, and those of the long class run when no others want the processor, and for a small share of it always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Short,
    Long,
}

impl Class {
    /// Of a plan.
    pub(crate) fn of(estimate: Estimate) -> Self {
        match estimate {
            Estimate { expected, effort, .. }
                if expected <= limits::SHORT_EFFORT && effort <= limits::SHORT_EFFORT_AT_WORST =>
            {
                Self::Short
            }
            _ => Self::Long,
        }
    }

    /// Whether a request over some tables, given by their rows and fragments, is bound on the async thread where it came in.
    pub(crate) fn is_light_to_bind(bytes: usize, tables: impl IntoIterator<Item = (u64, usize)>) -> bool {
        let (mut rows, mut fragments) = (0_u64, 0);
        for (more, of) in tables {
            (rows, fragments) = (rows.saturating_add(more), of + fragments);
        }
        bytes <= limits::LIGHT_REQUEST_BYTES
            && rows <= limits::LIGHT_ROWS
            && rows.saturating_mul(bytes as u64) <= limits::LIGHT_BINDING
            && fragments <= limits::LIGHT_FRAGMENTS
    }

    /// Whether it is done at once, on the async thread where it came in.
    pub(crate) fn is_light(estimate: Estimate) -> bool {
        estimate.expected <= limits::LIGHT_EFFORT && estimate.effort <= limits::LIGHT_EFFORT_AT_WORST
    }

    /// Of rows to encode.
    pub(crate) fn of_write(rows: u64) -> Self {
        if rows <= limits::SHORT_WRITE_ROWS { Self::Short } else { Self::Long }
    }

    /// How long it waits for its turn. A short query that does not get on meets a server that is overloaded; a long one
    /// meets others of its kind, and waits as long as its client does.
    pub(crate) fn patience(self, deadline: Instant) -> Instant {
        match self {
            Self::Short => deadline.min(Instant::now() + limits::QUEUE_TIMEOUT),
            Self::Long => deadline,
        }
    }

    /// Of a plan, by those of some fragments that are in memory here: others are like them. `None`: there are none.
    pub(crate) fn of_plan(
        plan: &Plan,
        table: &Table,
        version: &TableState,
        fragments: &[u32],
        state: &State,
    ) -> Option<Self> {
        let snapshot = state.tables.resident_of(table, version, fragments, &plan.columns()).ok()?;
        let some = fragments.is_empty() || !snapshot.fragments().is_empty();
        some.then(|| Self::of(plan.estimate(&snapshot)))
    }

    /// Of a query with semi-joins where all that they read is in memory here: what its inner queries take, and what it takes
    /// itself if their sets keep no row from it. What cannot be told, or not at once, is long.
    pub(crate) fn of_joins(
        (query, bytes): (&Query, usize),
        (table, version): (&Arc<Table>, &TableVersion),
        caller: &Caller,
        state: &State,
    ) -> Self {
        let mut joins = Vec::new();
        let filter = query.filter.as_ref().map(|filter| without_joins(filter, &mut joins));
        let inner = |join: &SemiJoin| {
            caller.authorise(Action::Read, Object::Table(&join.table)).ok()?;
            let key = SelectItem { expr: Expr::Column(join.key.clone()), name: None };
            let query = Query { select: vec![key], filter: join.filter.clone(), ..Query::default() };
            let (table, version) = state.tables.pin(&join.table, join.version).ok()?;
            Some((query, table, version))
        };
        let outer = Query { filter, ..query.clone() };
        let all = std::iter::once(Some((outer, Arc::clone(table), version.clone())));
        let Some(all) = all.chain(joins.into_iter().map(inner)).collect::<Option<Vec<_>>>() else {
            return Self::Long;
        };
        let sizes = all.iter().map(|(_, _, version)| (version.rows(), version.fragment_count()));
        if !Self::is_light_to_bind(bytes, sizes) {
            return Self::Long;
        }
        let mut sum = Estimate::default();
        for (query, table, version) in &all {
            let Some(one) = estimate_here(query, table, version, state) else { return Self::Long };
            sum.effort = sum.effort.saturating_add(one.effort);
            sum.expected = sum.expected.saturating_add(one.expected);
        }
        Self::of(sum)
    }
}

/// A filter whose semi-joins let every key pass. Decoding has bounded how deep it is.
fn without_joins<'f>(filter: &'f Filter, joins: &mut Vec<&'f SemiJoin>) -> Filter {
    let mut all = |filters: &'f [Filter]| filters.iter().map(|filter| without_joins(filter, joins)).collect();
    match filter {
        Filter::And(filters) => Filter::And(all(filters)),
        Filter::Or(filters) => Filter::Or(all(filters)),
        Filter::Not(inner) => Filter::Not(Box::new(without_joins(inner, joins))),
        Filter::SemiJoin(join) => {
            joins.push(join);
            Filter::Not(Box::new(Filter::IsNull(Expr::Column(join.column.clone()))))
        }
        leaf => leaf.clone(),
    }
}

/// What a query takes whose fragments are all in memory here; `None` where they are not, or it cannot be bound.
fn estimate_here(query: &Query, table: &Table, version: &TableVersion, state: &State) -> Option<Estimate> {
    let none = Snapshot::new(version.number(), Vec::new());
    let plan = Plan::new(table, &none, query).ok()?;
    match version {
        TableVersion::InMemory(snapshot) => Some(plan.estimate(snapshot)),
        TableVersion::Stored(stored) => {
            let (fragments, columns) = (version.fragments(), plan.columns());
            let snapshot =
                state.tables.resident(table, stored, &fragments, &columns, Purpose::Aside).ok()??;
            Some(plan.estimate(&snapshot))
        }
    }
}
