//! What is known of a version's fragments without anybody reading them: from the log, or, of a table that is in memory
//! alone, from there.

use std::sync::Arc;

use basalt_core::{fragment::Source, keys::Native, limits::BLOCK_ROWS, table::Snapshot};
use basalt_storage::{FragmentEntry, TableState};

use super::{coordinate::Known, coverage};

/// A version of a table.
#[derive(Debug)]
pub(super) struct FromLog(pub(super) Arc<TableState>);

impl Known for FromLog {
    fn bounds(&self, fragment: u32, column: usize) -> Option<(i64, i64)> {
        self.0.bounds(fragment, column)
    }

    fn size(&self, fragment: u32) -> (u64, u64) {
        let Some(entry) = self.0.fragment(fragment) else { return (0, 0) };
        (entry.live_rows(), u64::from(entry.rows).div_ceil(BLOCK_ROWS as u64))
    }

    fn source(&self, fragment: u32) -> Option<Source> {
        self.0.fragment(fragment).map(FragmentEntry::source)
    }

    fn log_id(&self) -> &str {
        self.0.id()
    }
}

/// A version of a table that is in memory alone.
#[derive(Debug)]
pub(super) struct InMemory(pub(super) Arc<Snapshot>);

impl Known for InMemory {
    fn bounds(&self, fragment: u32, column: usize) -> Option<(i64, i64)> {
        let column = self.0.fragment(fragment)?.data().loaded(column)?;
        // The keys of texts are codes of one fragment.
        Native::of(column.data_type())?;
        column.zones().iter().filter_map(|zone| zone.range).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    fn size(&self, fragment: u32) -> (u64, u64) {
        let Some(fragment) = self.0.fragment(fragment) else { return (0, 0) };
        (fragment.live_rows() as u64, fragment.blocks() as u64)
    }

    fn source(&self, fragment: u32) -> Option<Source> {
        self.0.fragment(fragment).map(coverage::source)
    }
}
