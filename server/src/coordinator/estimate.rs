//! What a plan takes, told before any of it runs, wherever its fragments are.

use basalt_core::{exec::Estimate, plan::Plan};

use super::{Pinned, Reach};
#[cfg(feature = "sql")]
use crate::cache::Purpose;
use crate::tables::TableVersion;

impl Reach {
    /// Of some fragments of a version. `None`: they have to be read from files, or it cannot be told.
    #[cfg(feature = "sql")]
    pub(crate) fn estimate(&self, plan: &Plan, pinned: &Pinned, fragments: &[u32]) -> Option<Estimate> {
        let TableVersion::Stored(version) = &pinned.version else {
            return Some(plan.estimate(&pinned.snapshot()));
        };
        let (tables, columns) = (&self.state().tables, plan.columns());
        let here = tables.resident(&pinned.table, version, fragments, &columns, Purpose::Aside).ok()?;
        match here {
            Some(snapshot) => Some(plan.estimate(&snapshot)),
            None => self.estimate_elsewhere(plan, pinned, fragments),
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
