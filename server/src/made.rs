//! Tables that the owners of keys have made, and nobody has changed since: whoever has made one may take it back, so that a
//! load that failed leaves nothing, also where its key may drop no tables.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use basalt_core::table::Table;

use crate::{access::Caller, limits};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct MadeTables(Mutex<VecDeque<(u64, u64, Caller)>>);

impl MadeTables {
    fn all(&self) -> MutexGuard<'_, VecDeque<(u64, u64, Caller)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A table was made, and is as it will be taken back.
    pub(crate) fn add(&self, table: &Table, caller: &Caller) {
        let mut all = self.all();
        all.push_back((table.id(), table.snapshot().version(), caller.clone()));
        if all.len() > limits::MADE_TABLES {
            all.pop_front();
        }
    }

    /// Whether somebody has made a table, which is as it was then, and has no rows.
    pub(crate) fn is_of(&self, table: &Table, caller: &Caller) -> bool {
        let now = table.snapshot();
        let is_it = |(id, version, by): &(u64, u64, Caller)| {
            *id == table.id() && *version == now.version() && by.is_same_as(caller)
        };
        now.rows() == 0 && self.all().iter().any(is_it)
    }
}
