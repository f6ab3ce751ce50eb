//! A table at one version, as requests pin it: what is known of its fragments without reading them.

use std::sync::Arc;

use basalt_core::{
    fragment::{Fragment, Source},
    keys::Native,
    limits::BLOCK_ROWS,
    table::{Retention, Snapshot},
};
use basalt_storage::{FragmentEntry, TableState};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) enum TableVersion {
    /// In a store: its columns are read when they are needed.
    Stored(Arc<TableState>),
    /// In memory alone.
    InMemory(Arc<Snapshot>),
}

impl TableVersion {
    /// The table's commit number.
    pub(crate) fn number(&self) -> u64 {
        match self {
            Self::Stored(state) => state.version(),
            Self::InMemory(snapshot) => snapshot.version(),
        }
    }

    /// Rows, without the deleted ones.
    pub(crate) fn rows(&self) -> u64 {
        match self {
            Self::Stored(state) => state.rows(),
            Self::InMemory(snapshot) => snapshot.rows(),
        }
    }

    /// For how long rows are part of it; `None`: for good.
    pub(crate) fn retention(&self) -> Option<&Arc<Retention>> {
        match self {
            Self::Stored(state) => state.retention(),
            Self::InMemory(snapshot) => snapshot.retention(),
        }
    }

    /// What deletions leave in its files, where it has some.
    #[cfg(feature = "sql")]
    pub(crate) fn deletes(&self) -> basalt_storage::Deletes {
        match self {
            Self::Stored(state) => state.deletes(),
            Self::InMemory(_) => basalt_storage::Deletes::default(),
        }
    }

    /// The ids of its fragments, ascending.
    pub(crate) fn fragments(&self) -> Arc<[u32]> {
        match self {
            Self::Stored(state) => state.fragments().iter().map(|fragment| fragment.id).collect(),
            Self::InMemory(snapshot) => snapshot.fragments().iter().map(Fragment::id).collect(),
        }
    }

    /// How many fragments it has.
    pub(crate) fn fragment_count(&self) -> usize {
        match self {
            Self::Stored(state) => state.fragments().len(),
            Self::InMemory(snapshot) => snapshot.fragments().len(),
        }
    }

    /// A key that none of a column is less than, and one that none is greater than.
    pub(crate) fn bounds(&self, fragment: u32, column: usize) -> Option<(i64, i64)> {
        match self {
            Self::Stored(state) => state.bounds(fragment, column),
            Self::InMemory(snapshot) => {
                let column = snapshot.fragment(fragment)?.data().loaded(column)?;
                // The keys of texts are codes of one fragment.
                Native::of(column.data_type())?;
                let ranges = column.zones().iter().filter_map(|zone| zone.range);
                ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
            }
        }
    }

    /// Rows of a fragment, and blocks.
    pub(crate) fn size(&self, fragment: u32) -> (u64, u64) {
        let size = match self {
            Self::Stored(state) => {
                let blocks = |entry: &FragmentEntry| u64::from(entry.rows).div_ceil(BLOCK_ROWS as u64);
                state.fragment(fragment).map(|entry| (entry.live_rows(), blocks(entry)))
            }
            Self::InMemory(snapshot) => {
                let size = |fragment: &Fragment| (fragment.live_rows() as u64, fragment.blocks() as u64);
                snapshot.fragment(fragment).map(size)
            }
        };
        // Default: of a fragment that it has not, there is nothing.
        size.unwrap_or_default()
    }

    /// Rows of a fragment, the deleted ones included: each has an address.
    pub(crate) fn addresses(&self, fragment: u32) -> u64 {
        let rows = match self {
            Self::Stored(state) => state.fragment(fragment).map(|entry| u64::from(entry.rows)),
            Self::InMemory(snapshot) => snapshot.fragment(fragment).map(|fragment| fragment.rows() as u64),
        };
        // Default: of a fragment that it has not, there is nothing.
        rows.unwrap_or_default()
    }

    /// What a fragment is read from; `None`: there is no such fragment.
    pub(crate) fn source(&self, fragment: u32) -> Option<Source> {
        match self {
            Self::Stored(state) => state.fragment(fragment).map(FragmentEntry::source),
            Self::InMemory(snapshot) => snapshot.fragment(fragment).map(source),
        }
    }

    /// Whether it is in a store, which other nodes read as well.
    #[cfg(feature = "sql")]
    pub(crate) fn is_stored(&self) -> bool {
        matches!(self, Self::Stored(_))
    }

    /// The id in the table's log; empty where it has none.
    pub(crate) fn log_id(&self) -> &str {
        match self {
            Self::Stored(state) => state.id(),
            Self::InMemory(_) => "",
        }
    }
}

/// What a fragment was read from. Of those in memory alone all have the same: an id comes to mean no other rows there.
pub(crate) fn source(fragment: &Fragment) -> Source {
    fragment.source().unwrap_or(Source { rows: 0, deletions: 0 })
}
