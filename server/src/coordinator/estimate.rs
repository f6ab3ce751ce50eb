//! What a plan takes, told before any of it runs, wherever its fragments are.

use std::sync::Arc;

use basalt_core::{
    exec::{Estimate, Expected, Statistics},
    plan::Plan,
    table::Snapshot,
};

use super::{Nodes as _, Pinned, Reach};
use crate::{cache::Purpose, tables::TableVersion};

impl Reach {
    /// Of some fragments of a version. `None`: they have to be read from files, or it cannot be told.
    #[cfg(feature = "sql")]
    pub(crate) fn estimate(&self, plan: &Plan, pinned: &Pinned, fragments: &[u32]) -> Option<Estimate> {
        let TableVersion::Stored(version) = &pinned.version else {
            let here = self.in_memory(pinned, fragments, &plan.columns(), Purpose::Aside).ok()??;
            return Some(plan.estimate(&here));
        };
        let (tables, columns) = (&self.state().tables, plan.columns());
        let here = tables.resident(&pinned.table, version, fragments, &columns, Purpose::Aside).ok()?;
        match here {
            Some(snapshot) => Some(plan.estimate(&snapshot)),
            None => self.estimate_elsewhere(plan, pinned, fragments),
        }
    }

    /// What a plan should give: by the fragments of the version that are in memory here, as what others have is like them, or
    /// by bounds alone. `None`: it cannot be told.
    pub(crate) fn expected(&self, plan: &Plan, pinned: &Pinned) -> Option<Expected> {
        let here = self.here(plan, pinned)?;
        let fragments = pinned.fragments_for(plan.filter.as_ref(), &mut Statistics::default());
        let version = &pinned.version;
        let fragments: Vec<_> = fragments.iter().map(|id| (*id, version.size(*id).0)).collect();
        if here.fragments().is_empty() && !fragments.is_empty() {
            return plan.expected_by_bounds(&fragments, &|id, column| version.bounds(id, column));
        }
        let rows = fragments.iter().map(|(_, rows)| *rows).fold(0, u64::saturating_add);
        plan.expected(&here, rows)
    }

    /// Of the fragments that may have rows for a plan, those that are in memory here.
    pub(crate) fn here(&self, plan: &Plan, pinned: &Pinned) -> Option<Arc<Snapshot>> {
        let fragments = pinned.fragments_for(plan.filter.as_ref(), &mut Statistics::default());
        match &pinned.version {
            TableVersion::InMemory(_) => {
                self.in_memory(pinned, &fragments, &plan.columns(), Purpose::Aside).ok()?
            }
            TableVersion::Stored(version) => {
                let tables = &self.state().tables;
                let here = tables.resident_of(&pinned.table, version, &fragments, &plan.columns()).ok()?;
                Some(Arc::new(here.with_cutoff(pinned.cutoff)))
            }
        }
    }

    /// Of fragments of a version of which some are not in memory here.
    pub(crate) fn estimate_elsewhere(
        &self,
        plan: &Plan,
        pinned: &Pinned,
        fragments: &[u32],
    ) -> Option<Estimate> {
        let TableVersion::Stored(version) = &pinned.version else { return None };
        if self.view().nodes().len() == 1 {
            // They have to be read.
            return None;
        }
        // What others have is like what is here.
        let here =
            self.state().tables.resident_of(&pinned.table, version, fragments, &plan.columns()).ok()?;
        if fragments.is_empty() || !here.fragments().is_empty() {
            return Some(plan.estimate(&here));
        }
        if self.owns_some(&pinned.table, fragments) {
            return None;
        }
        let version = &pinned.version;
        let rows = |id: &u32| (*id, version.size(*id).0);
        let fragments: Vec<(u32, u64)> = fragments.iter().map(rows).collect();
        Some(plan.estimate_by_bounds(&fragments, &|id, column| version.bounds(id, column)))
    }
}
