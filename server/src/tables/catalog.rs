//! What is known of the catalog, and the tables that come and go with it.
//!
//! The journal in the store orders what happens: what is known here only ever goes on along it. So nothing is held
//! while the store is asked or a table loaded: whoever has read further says so, and each table that is new then is
//! loaded once, by a task of its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, MutexGuard, PoisonError},
};

use basalt_core::table::Table;
use basalt_proto::v1::ErrorReason;
use basalt_storage::{CatalogState, Created, StorageError, TableEntry};
use tokio::sync::watch;

use super::{Durable, Tables, unreadable::cannot_load};
use crate::{limits, moment::Moment, panics::caught_async, status::RequestError};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Known {
    state: Arc<CatalogState>,
    /// When the store was last looked into.
    looked: Moment,
    /// The tables that are on their way into memory. A channel closes when its table is there or cannot be.
    opening: BTreeMap<u64, watch::Receiver<()>>,
}

fn ids(state: &CatalogState) -> BTreeSet<u64> {
    state.tables().values().map(TableEntry::number).collect()
}

/// A table on its way into memory, until it is dropped.
pub(super) struct Opening {
    durable: Arc<Durable>,
    id: u64,
    _sender: watch::Sender<()>,
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.durable.known().opening.remove(&self.id);
    }
}

impl Durable {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest state that this node has read.
    pub(super) fn state(&self) -> Arc<CatalogState> {
        Arc::clone(&self.known().state)
    }

    /// The ids of the tables that are in it.
    fn ids(&self) -> BTreeSet<u64> {
        ids(&self.known().state)
    }

    /// Whether a table is in it.
    pub(super) fn has(&self, id: u64) -> bool {
        self.known().state.tables().values().any(|entry| entry.number() == id)
    }

    /// The id of the table of a name, and whether it is on its way.
    fn entry_of(&self, name: &str) -> Option<(u64, bool)> {
        let known = self.known();
        let id = known.state.tables().get(name)?.number();
        Some((id, known.opening.contains_key(&id)))
    }

    /// Waits for tables that are on their way: for that of a name, or for all.
    async fn opened(&self, name: Option<&str>) {
        let waiting: Vec<_> = {
            let known = self.known();
            let id = name.map(|name| known.state.tables().get(name).map(TableEntry::number));
            let asked = known.opening.iter().filter(|(opening, _)| id.is_none_or(|id| id == Some(**opening)));
            asked.map(|(_, opening)| opening.clone()).collect()
        };
        for mut opening in waiting {
            while opening.changed().await.is_ok() {}
        }
    }
}

impl Tables {
    /// Looks for tables that are new or gone, unless that was done since a moment. Those that are new are loaded by
    /// tasks of their own.
    pub(crate) async fn refresh_catalog(&self, since: Moment) -> Result<(), RequestError> {
        let Some(durable) = &self.durable else { return Ok(()) };
        let state = {
            let known = durable.known();
            if known.looked.is_since(since) {
                return Ok(());
            }
            Arc::clone(&known.state)
        };
        let at = self.shared.now();
        let next = durable.log.refresh(&state).await?;
        self.take_in(durable, next, None);
        let mut known = durable.known();
        known.looked = known.looked.later(at);
        Ok(())
    }

    /// Goes to what a change of the catalog has made of it, and tells the others.
    pub(super) async fn changed(
        &self,
        durable: &Arc<Durable>,
        change: Result<Arc<CatalogState>, StorageError>,
    ) -> Result<(), RequestError> {
        let next = self.or_refused(durable, change).await?;
        let version = next.version();
        self.take_in(durable, next, None);
        self.shared.peers().catalog_changed(version).await;
        Ok(())
    }

    /// What a change of the catalog has made, or why it was refused. That a name is taken, or is none or another's, says what it
    /// has: this node has it, and the others have heard of it, before anybody is told.
    pub(super) async fn or_refused<T>(
        &self,
        durable: &Durable,
        change: Result<T, StorageError>,
    ) -> Result<T, RequestError> {
        let error = match change {
            Ok(made) => return Ok(made),
            Err(error) => RequestError::from(error),
        };
        if matches!(error.reason(), "TABLE_NOT_FOUND" | "TABLE_EXISTS" | "WRITE_CONFLICT") {
            self.refresh_catalog(self.shared.now()).await?;
            self.shared.peers().catalog_changed(durable.state().version()).await;
        }
        Err(error)
    }

    /// The ids of all tables of the store, loaded or not.
    pub(crate) fn ids(&self) -> BTreeSet<u64> {
        self.durable.as_ref().map_or_else(BTreeSet::new, |durable| durable.ids())
    }

    /// Looks for a table that is not there, and waits while it is loaded. Where another takes its place by then, it is that
    /// one, and so on.
    pub(crate) async fn look_for(&self, name: &str) -> Result<Arc<Table>, RequestError> {
        let catalog = &self.shared.catalog;
        let Some(durable) = &self.durable else { return Ok(catalog.get(name)?) };
        for _ in 0..limits::COMMIT_ATTEMPTS {
            durable.opened(Some(name)).await;
            if let Ok(table) = catalog.get(name) {
                return Ok(table);
            }
            self.refresh_catalog(self.shared.now()).await?;
            let entry = durable.entry_of(name);
            let may_come = entry.is_some_and(|(_, is_opening)| is_opening);
            if !may_come && catalog.get(name).is_err() && durable.entry_of(name) == entry {
                break;
            }
        }
        Ok(catalog.get(name)?)
    }

    /// Goes to what the catalog has by now, and waits until the table that has a name there is loaded.
    #[cfg(feature = "sql")]
    pub(crate) async fn look_again(&self, name: &str) -> Result<(), RequestError> {
        let Some(durable) = &self.durable else { return Ok(()) };
        self.refresh_catalog(self.shared.now()).await?;
        durable.opened(Some(name)).await;
        Ok(())
    }

    /// Waits for all tables that are being loaded.
    pub(crate) async fn opened(&self) {
        if let Some(durable) = &self.durable {
            durable.opened(None).await;
        }
    }

    /// Goes on to a state, if that is newer: lets go the tables that are gone, and loads those that are new, apart from
    /// one that the caller loads.
    pub(super) fn take_in(
        &self,
        durable: &Arc<Durable>,
        next: Arc<CatalogState>,
        own: Option<&TableEntry>,
    ) -> Option<Opening> {
        let mut known = durable.known();
        if next.version() <= known.state.version() {
            return None;
        }
        let (old, new) = (ids(&known.state), ids(&next));
        let mut named = BTreeSet::new();
        for id in new.difference(&old) {
            // Before what it takes the place of is let go: its name always means a table.
            if self.name_draft(durable, *id) {
                named.insert(*id);
            }
        }
        for id in old.difference(&new) {
            self.let_go(durable, *id);
        }
        let mut mine = None;
        let is_new = |entry: &&TableEntry| {
            let id = entry.number();
            !old.contains(&id) && !named.contains(&id)
        };
        for entry in next.tables().values().filter(is_new) {
            let (sender, receiver) = watch::channel(());
            let id = entry.number();
            known.opening.insert(id, receiver);
            let opening = Opening { durable: Arc::clone(durable), id, _sender: sender };
            if own == Some(entry) {
                mine = Some(opening);
            } else {
                self.in_background(self.clone().load_new(Arc::clone(durable), entry.clone(), opening));
            }
        }
        known.state = next;
        mine
    }

    /// Takes in a table that this node has just made. Another task may have read of it in the journal, and loads it.
    pub(super) async fn take_in_own(
        &self,
        durable: &Arc<Durable>,
        created: Created,
    ) -> Result<Arc<Table>, RequestError> {
        let Created { catalog, entry, log, table } = created;
        if let Some(opening) = self.take_in(durable, catalog, Some(&entry)) {
            let added = self.add(durable, &entry, log, table).await;
            if let Err(error) = &added {
                // The catalog has it, whatever the maker does about that.
                self.note_left_out(durable, &entry, &cannot_load(&entry, error.clone()));
            }
            drop(opening);
            added?;
        } else {
            durable.opened(Some(&entry.name)).await;
        }
        self.drop_if_gone(durable, entry.number());
        let tables = durable.tables.read().unwrap_or_else(PoisonError::into_inner);
        let stored = tables.get(&entry.number()).map(|stored| Arc::clone(&stored.table));
        stored.ok_or_else(|| {
            let message = format!("table {:?} was dropped while it was loaded", entry.name);
            RequestError::new(ErrorReason::TableNotFound, message)
        })
    }

    async fn load_new(self, durable: Arc<Durable>, entry: TableEntry, opening: Opening) {
        if let Err(error) = self.open_table(&durable, &entry).await {
            self.note_left_out(&durable, &entry, &error);
        }
        self.drop_if_gone(&durable, entry.number());
        drop(opening);
    }

    /// Loads a table of the catalog.
    pub(super) async fn open_table(&self, durable: &Durable, entry: &TableEntry) -> Result<(), RequestError> {
        let open = async {
            let (log, state) = self.open_log(durable, entry).await?;
            self.add(durable, entry, log, state).await.map_err(|error| cannot_load(entry, error))
        };
        caught_async(open).await.map(|_| ())
    }

    /// Lets go a table that was dropped while it was loaded.
    pub(super) fn drop_if_gone(&self, durable: &Durable, id: u64) {
        if !durable.has(id) {
            self.let_go(durable, id);
        }
    }

    /// Lets go a table that is gone from the catalog.
    fn let_go(&self, durable: &Durable, id: u64) {
        self.forget_unreadable(durable, id);
        self.forget_older(durable, id);
        let mut tables = durable.tables.write().unwrap_or_else(PoisonError::into_inner);
        let stored = tables.remove(&id);
        if let Some(stored) = &stored {
            // At no moment is it in neither place: a statement that has found it goes on to read it.
            self.part_with(durable, Arc::clone(stored));
        }
        drop(tables);
        if let (Some(stored), Some(disk)) = (&stored, &self.shared.disk) {
            disk.forget_table(&stored.state());
        }
        if let Some(stored) = stored {
            if self.shared.catalog.find(stored.table.name()).is_ok_and(|table| table.id() == id) {
                let _ = self.shared.catalog.remove(stored.table.name());
            }
            self.forget(&stored.table);
        }
    }

    /// Begins with a state that was read at a moment.
    pub(super) fn start_with(&self, durable: &Durable, state: &Arc<CatalogState>, looked: Moment) {
        *durable.known() = Known { state: Arc::clone(state), looked, opening: BTreeMap::new() };
    }
}
