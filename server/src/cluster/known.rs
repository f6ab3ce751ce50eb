//! What the log says of fragments without anybody reading them.

use std::sync::Arc;

use basalt_core::{fragment::Source, limits::BLOCK_ROWS};
use basalt_storage::{FragmentEntry, TableState};

use super::coordinate::Known;

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
