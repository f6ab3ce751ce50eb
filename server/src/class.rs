//! Short queries and long ones: which of the two a request is, before anything of it is run.

use basalt_core::{
    exec::Estimate,
    plan::Plan,
    table::{Snapshot, Table},
};
use basalt_proto::v1 as pb;
use basalt_storage::TableState;
use tokio::time::Instant;

use crate::{convert, limits, state::State};

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

    /// Of a request for some fragments of a version. What asks other tables or names kept sets is long: it would have to
    /// be begun to know more. So is what cannot be bound, whose error is for whoever runs it.
    pub(crate) fn of_request(
        request: pb::QueryRequest,
        table: &Table,
        version: &TableState,
        fragments: &[u32],
        state: &State,
    ) -> Self {
        let Ok((query, true)) = convert::query(request, &state.sets) else { return Self::Long };
        let none = Snapshot::new(version.version(), Vec::new());
        let Ok(plan) = Plan::new(table, &none, &query) else { return Self::Long };
        Self::of_plan(&plan, table, version, fragments, state)
    }

    /// Of a plan, by those of some fragments that are in memory here: others are like them. Where there are none they are
    /// read first, which takes long.
    pub(crate) fn of_plan(
        plan: &Plan,
        table: &Table,
        version: &TableState,
        fragments: &[u32],
        state: &State,
    ) -> Self {
        match state.tables.resident_of(table, version, fragments, &plan.columns()) {
            Ok(snapshot) if fragments.is_empty() || !snapshot.fragments().is_empty() => {
                Self::of(plan.estimate(&snapshot))
            }
            _ => Self::Long,
        }
    }
}
