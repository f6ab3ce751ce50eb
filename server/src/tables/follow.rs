//! Following what other nodes commit to the store.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, PoisonError},
};

use basalt_core::table::Table;
use basalt_storage::{CatalogState, TableEntry};

use super::{AtRest, Tables, stored::Stored};
use crate::status::Fault;

impl Tables {
    /// Looks for newer versions: of one table, or (`None`) of all and of the catalog.
    pub(crate) async fn refresh(&self, name: Option<&str>) -> Result<(), Fault> {
        let known = name.and_then(|name| self.shared.catalog.get(name).ok());
        let catalog = if known.is_none() { self.refresh_catalog().await } else { Ok(()) };
        match (name, known) {
            (Some(_), Some(table)) => match self.stored(&table)? {
                Some(stored) => stored.refresh().await,
                None => Ok(()),
            },
            // A table that was not known has been loaded with the catalog.
            (Some(_), None) => catalog,
            (None, _) => {
                // Tables are followed though the catalog cannot be.
                for stored in self.list_stored() {
                    if let Err(fault) = stored.refresh().await {
                        tracing::warn!(table = stored.table.name(), error = fault.message(), "cannot follow");
                    }
                }
                catalog
            }
        }
    }

    /// Looks for tables that are new or gone.
    pub(crate) async fn refresh_catalog(&self) -> Result<(), Fault> {
        let Some(at_rest) = &self.at_rest else { return Ok(()) };
        let mut state = at_rest.state.lock().await;
        let next = at_rest.log.refresh(&state).await?;
        let before = std::mem::replace(&mut *state, next);
        self.follow_catalog(at_rest, &before, &state, None).await;
        Ok(())
    }

    /// Looks for newer versions of a table, unless it is at `version` or beyond.
    pub(crate) async fn refresh_to(&self, table: &Table, version: u64) -> Result<(), Fault> {
        let Some(stored) = self.stored(table)? else { return Ok(()) };
        if stored.state().version() >= version {
            return Ok(());
        }
        let _advancing = stored.advancing.lock().await;
        // Whoever was there first has looked.
        if stored.state().version() >= version { Ok(()) } else { stored.refresh_locked().await }
    }

    /// Loads what this node holds by now, and lets go what it holds no longer: the nodes are others than before.
    pub(crate) async fn place_anew(&self) {
        for stored in self.list_stored() {
            let _advancing = stored.advancing.lock().await;
            if let Err(fault) = stored.advance(stored.state(), HashMap::new(), &|_| {}).await {
                tracing::warn!(
                    table = stored.table.name(),
                    error = fault.message(),
                    "cannot place fragments anew"
                );
            }
        }
    }

    /// Takes in the tables that are new in the catalog, apart from one that the caller takes in, and lets go those
    /// that are gone.
    pub(super) async fn follow_catalog(
        &self,
        at_rest: &AtRest,
        before: &CatalogState,
        now: &CatalogState,
        own: Option<&TableEntry>,
    ) {
        if before.version() == now.version() {
            return;
        }
        let ids =
            |state: &CatalogState| state.tables().values().map(TableEntry::number).collect::<BTreeSet<_>>();
        let (old, new) = (ids(before), ids(now));
        for id in old.difference(&new) {
            self.let_go(at_rest, *id);
        }
        let entries = now.tables().values().filter(|entry| !old.contains(&entry.number()));
        for entry in entries.filter(|entry| Some(*entry) != own) {
            if let Err(fault) = self.open_table(at_rest, entry).await {
                tracing::warn!(table = entry.name, error = fault.message(), "cannot load a new table");
            }
        }
    }

    /// Lets go a table that is gone from the catalog.
    pub(super) fn let_go(&self, at_rest: &AtRest, id: u64) {
        let stored = at_rest.tables.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if let Some(stored) = stored
            && self.shared.catalog.get(stored.table.name()).is_ok_and(|table| table.id() == id)
        {
            let _ = self.shared.catalog.remove(stored.table.name());
            self.forget(&stored.table);
        }
    }

    async fn open_table(&self, at_rest: &AtRest, entry: &TableEntry) -> Result<(), Fault> {
        let log = at_rest.log.table(entry)?;
        let state = log.load().await?;
        self.add(at_rest, entry, log, state).await.map(|_| ())
    }
}

impl Stored {
    /// Looks for newer versions.
    pub(super) async fn refresh(self: &Arc<Self>) -> Result<(), Fault> {
        let _advancing = self.advancing.lock().await;
        self.refresh_locked().await
    }

    /// The same for a caller that holds the lock.
    pub(super) async fn refresh_locked(&self) -> Result<(), Fault> {
        let state = self.state();
        let newer = self.log.refresh(&state).await?;
        if newer.version() > state.version() {
            self.shared.ledger.restore(&self.table, newer.requests_since(state.version()).cloned());
            self.advance(newer, HashMap::new(), &|_| {}).await?;
        }
        Ok(())
    }
}
