//! Tables that were dropped or replaced of late: what reads a version of one, here or for another node, goes on with it. New
//! requests do not find them, and what is written to them is not acknowledged.
//!
//! Their columns leave memory with the drop; what is still read of them comes from the store again, which keeps the files
//! of a dropped table as long as those of an old version.

use std::{
    collections::VecDeque,
    sync::{Arc, PoisonError},
};

use basalt_core::table::Table;
use tokio::time::Instant;

use super::{Durable, TableVersion, Tables, stored::Stored};
use crate::limits;

/// Each with when it went, the first first.
pub(super) type Parting = VecDeque<(Instant, Arc<Stored>)>;

impl Durable {
    /// A table that went of late, by its id.
    pub(super) fn parting_of(&self, id: u64) -> Option<Arc<Stored>> {
        let parting = self.parting.lock().unwrap_or_else(PoisonError::into_inner);
        parting.iter().find(|(_, stored)| stored.table.id() == id).map(|(_, stored)| Arc::clone(stored))
    }
}

impl Tables {
    /// A version of a table that went of late, by the table's id.
    pub(crate) fn parting(&self, id: u64, version: u64) -> Option<(Arc<Table>, TableVersion)> {
        let stored = self.durable.as_ref()?.parting_of(id)?;
        let state = stored.state_at(Some(version)).ok()?;
        Some((Arc::clone(&stored.table), TableVersion::Stored(state)))
    }

    pub(super) fn part_with(&self, durable: &Durable, stored: Arc<Stored>) {
        if !stored.is_named() {
            return;
        }
        let mut parting = durable.parting.lock().unwrap_or_else(PoisonError::into_inner);
        parting.push_back((Instant::now(), stored));
        if parting.len() > limits::PARTING_TABLES {
            parting.pop_front();
        }
    }

    /// Forgets those that went long ago.
    pub(super) fn forget_parted(&self) {
        let Some(durable) = &self.durable else { return };
        let mut parting = durable.parting.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = parting.iter().take_while(|(at, _)| at.elapsed() > limits::PARTING).count();
        let gone: Vec<_> = parting.drain(..gone).collect();
        drop(parting);
        for (_, stored) in gone {
            if let Some(disk) = &self.shared.disk {
                disk.forget_table(&stored.state());
            }
            self.forget(&stored.table);
        }
    }
}
