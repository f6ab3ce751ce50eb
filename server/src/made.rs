//! Tables that the owners of keys have made, and nobody has changed since: whoever has made one may take it back, so that a
//! load that failed leaves nothing, also where its key may drop no tables.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use basalt_core::table::Table;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinHandle,
};

use crate::{access::Caller, coordinator::fresh, limits, state::State, status::Result};

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

    /// What a load holds that may make a table of this name, and take it back: others of the same name wait for what becomes of it.
    pub(crate) fn turn(&self, name: &str) -> Arc<Semaphore> {
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

    /// Whether somebody has made a table, which is as it was then, and has no rows.
    pub(crate) fn is_of(&self, table: &Table, caller: &Caller) -> bool {
        let now = table.snapshot();
        let is_it = |(id, version, by): &(u64, u64, Caller)| {
            *id == table.id() && *version == now.version() && by.is_same_as(caller)
        };
        now.rows() == 0 && self.all().iter().any(is_it)
    }
}

/// A table that was made for a query or a load, or in a transaction; it goes when it is dropped before [`Made::keep`], if it is as it was made.
#[derive(Debug)]
pub(crate) struct Made {
    state: Arc<State>,
    /// `None`: it stays.
    table: Option<Arc<Table>>,
    runtime: Handle,
    /// Its maker's turn, until it is known what becomes of it.
    turn: Option<OwnedSemaphorePermit>,
}

impl Made {
    /// Of a table that has just been made.
    pub(crate) fn new(state: &Arc<State>, table: Arc<Table>, runtime: &Handle) -> Self {
        Self { state: Arc::clone(state), table: Some(table), runtime: runtime.clone(), turn: None }
    }

    /// The same, which keeps others from making one of that name.
    pub(crate) fn in_turn(mut self, turn: OwnedSemaphorePermit) -> Self {
        self.turn = Some(turn);
        self
    }

    /// It has its rows.
    pub(crate) fn keep(mut self) {
        self.table = None;
    }

    /// Drops the table, and waits until it is dropped.
    pub(crate) async fn undo(mut self) {
        if let Some(dropped) = self.drop_table() {
            // It goes on when nobody waits, and tells what kept it.
            let _ = dropped.await;
        }
    }

    fn drop_table(&mut self) -> Option<JoinHandle<()>> {
        let made = self.table.take()?;
        let (state, turn) = (Arc::clone(&self.state), self.turn.take());
        let token = state.running.token();
        Some(self.runtime.spawn(async move {
            let name = made.name();
            let removed = remove_unwritten(&state, &made).await;
            if let Some(error) = removed.err().filter(|error| error.reason() != "TABLE_NOT_FOUND") {
                tracing::warn!(
                    table = name,
                    error = error.message(),
                    "cannot drop a table that has no rows yet"
                );
            }
            drop((token, turn));
        }))
    }
}

/// Drops a table, unless others have written to it, or have put another in its place.
async fn remove_unwritten(state: &State, made: &Table) -> Result<()> {
    fresh::newest(state, made.name(), None).await?;
    let (table, version) = state.tables.pin(made.name(), None)?;
    if table.id() == made.id() && version.rows() == 0 {
        state.tables.remove(made.name()).await?;
    }
    Ok(())
}

impl Drop for Made {
    fn drop(&mut self) {
        drop(self.drop_table());
    }
}
