//! Versions of a table that have other columns than the newest: each is read by a table of its own, which is not written
//! to any longer. Those that this node has seen are kept for as long as their versions are; one that it has not is made
//! from the log when somebody asks for it. Of attached tables there are none: their writers keep no versions for us.

use std::{
    collections::VecDeque,
    sync::{Arc, MutexGuard, PoisonError},
};

use basalt_core::table::Table;
use basalt_storage::TableState;
use tokio::{sync::mpsc, time::Instant};

use super::{Durable, Tables, stored::Stored};
use crate::limits;

/// A table with columns from before, and since when it is that.
pub(super) type Older = VecDeque<(Instant, Arc<Stored>)>;

impl Tables {
    /// Those that are still kept, the oldest first.
    fn older<'d>(&self, durable: &'d Durable) -> MutexGuard<'d, Older> {
        let mut older = durable.older.lock().unwrap_or_else(PoisonError::into_inner);
        older.retain(|(at, stored)| at.elapsed() <= self.shared.keep || stored.has_pins());
        older
    }

    /// Those whose versions kept sets pin.
    pub(super) fn older_with_pins(&self) -> Vec<Arc<Stored>> {
        let Some(durable) = &self.durable else { return Vec::new() };
        let older = self.older(durable);
        older.iter().filter(|(_, stored)| stored.has_pins()).map(|(_, stored)| Arc::clone(stored)).collect()
    }

    /// Keeps a table whose columns are others from a newer version on.
    pub(super) fn keep_older(&self, durable: &Durable, stored: Arc<Stored>) {
        if stored.attached {
            return;
        }
        let mut older = self.older(durable);
        older.push_back((Instant::now(), stored));
        // Those that kept sets need are beside these, and no more than there may be pins: without its table a pin is not
        // renewed.
        let unpinned = older.iter().filter(|(_, stored)| !stored.has_pins()).count();
        let mut many = unpinned.saturating_sub(limits::OTHER_COLUMNS);
        older.retain(|(_, stored)| {
            let goes = many > 0 && !stored.has_pins();
            many -= usize::from(goes);
            !goes
        });
    }

    /// That of a table itself, which is not the newest of its name.
    pub(super) fn older_of(&self, table: &Table) -> Option<Arc<Stored>> {
        let older = self.older(self.durable.as_ref()?);
        older
            .iter()
            .find(|(_, stored)| std::ptr::eq(&*stored.table, table))
            .map(|(_, stored)| Arc::clone(stored))
    }

    /// The one that reads a version of a table.
    pub(super) fn older_at(&self, table: &Table, version: u64) -> Option<(Arc<Table>, Arc<TableState>)> {
        let (stored, state) = self.older_stored_at(table, version)?;
        Some((Arc::clone(&stored.table), state))
    }

    pub(super) fn older_stored_at(
        &self,
        table: &Table,
        version: u64,
    ) -> Option<(Arc<Stored>, Arc<TableState>)> {
        let older = self.older(self.durable.as_ref()?);
        let mut older = older.iter().rev().filter(|(_, stored)| stored.table.id() == table.id());
        older.find_map(|(_, stored)| Some((Arc::clone(stored), stored.state_at(Some(version)).ok()?)))
    }

    /// Takes in a version that was made from the log.
    pub(super) fn take_older(&self, newest: &Stored, state: Arc<TableState>) {
        let Some(durable) = &self.durable else { return };
        let (name, id) = (newest.table.name(), newest.table.id());
        let table = Arc::new(Table::new(name, id, (**state.schema()).clone(), state.version()));
        // Nobody takes what would be written to it.
        let (sender, _) = mpsc::channel(1);
        let (log, shared) = (newest.log.clone(), Arc::clone(&self.shared));
        let (attached, of) = (newest.attached, newest.durable.clone());
        let stored = Stored::new(table, log, attached, of, shared, Arc::clone(&state), sender);
        stored.install(&state);
        self.keep_older(durable, Arc::new(stored));
    }

    /// Lets go those of a table that is gone.
    pub(super) fn forget_older(&self, durable: &Durable, id: u64) {
        self.older(durable).retain(|(_, stored)| stored.table.id() != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::tests::with_table;

    #[tokio::test]
    async fn those_that_kept_sets_need_stay_however_often_columns_change() {
        let folder = tempfile::tempdir().unwrap();
        let (state, table) = with_table(folder.path()).await;
        let tables = &state.tables;
        let stored = tables.newest_stored(&table).unwrap().unwrap();
        tables.take_older(&stored, stored.state());
        let pin = tables.pin_version("t", 0, stored.state().version()).await.unwrap();
        assert!(pin.is_some());
        for _ in 0..2 * limits::OTHER_COLUMNS {
            tables.take_older(&stored, stored.state());
        }
        assert_eq!(tables.older_with_pins().len(), 1);
        let durable = tables.durable.as_ref().unwrap();
        assert_eq!(tables.older(durable).len(), limits::OTHER_COLUMNS + 1);
        // It goes with the others when nobody needs it.
        drop(pin);
        for stored in tables.older_with_pins() {
            stored.renew_pins().await;
        }
        tables.take_older(&stored, stored.state());
        assert_eq!(tables.older(durable).len(), limits::OTHER_COLUMNS);
    }
}
