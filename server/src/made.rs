//! Tables that the owners of keys have made, and nobody has changed since: whoever has made one may take it back, so that a
//! load that failed leaves nothing, also where its key may drop no tables.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use basalt_core::table::Table;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use crate::{
    access::Caller,
    limits,
    status::{RequestError, Result},
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct MadeTables {
    all: Mutex<VecDeque<(u64, u64, Caller)>>,
    turns: Mutex<BTreeMap<String, Weak<Semaphore>>>,
}

impl MadeTables {
    fn all(&self) -> MutexGuard<'_, VecDeque<(u64, u64, Caller)>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn that a load holds which may make a table of this name: others of the same name wait for what becomes
    /// of it.
    pub(crate) async fn turn(&self, name: &str, deadline: Instant) -> Result<OwnedSemaphorePermit> {
        let turn = timeout_at(deadline, self.of_name(name).acquire_owned()).await;
        turn.map_err(|_| RequestError::deadline())?.map_err(|_| RequestError::internal())
    }

    fn of_name(&self, name: &str) -> Arc<Semaphore> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        let known = turns.get(name).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let turn = Arc::new(Semaphore::new(1));
            turns.insert(name.to_owned(), Arc::downgrade(&turn));
            turn
        })
    }

    /// A table was made, and is as it will be taken back.
    pub(crate) fn add(&self, table: &Table, caller: &Caller) {
        let mut all = self.all();
        all.push_back((table.id(), table.snapshot().version(), caller.clone()));
        if all.len() > limits::MADE_TABLES {
            all.pop_front();
        }
    }

    /// The version of a table that somebody has made, which is as it was then, and has no rows.
    pub(crate) fn empty_at(&self, table: &Table, caller: &Caller) -> Option<u64> {
        let now = table.snapshot();
        let is_it = |(id, version, by): &(u64, u64, Caller)| {
            *id == table.id() && *version == now.version() && by.is_same_as(caller)
        };
        (now.rows() == 0 && self.all().iter().any(is_it)).then(|| now.version())
    }
}
