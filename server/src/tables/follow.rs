//! Following what other nodes commit to the store.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, PoisonError},
};

use basalt_core::table::Table;
use basalt_storage::{CatalogState, StorageError, TableEntry, TableState};

use super::{
    AtRest, Tables,
    stored::Stored,
    unreadable::{newest, unreadable},
};
use crate::{panics::caught_async, status::Fault};

impl Tables {
    /// Looks for newer versions: of one table, or (`None`) of all and of the catalog.
    pub(crate) async fn refresh(&self, name: Option<&str>) -> Result<(), Fault> {
        let known = name.and_then(|name| self.shared.catalog.get(name).ok());
        if known.is_none() {
            self.refresh_catalog().await?;
        }
        match (name, known) {
            (Some(_), Some(table)) => self.follow(&table, None).await,
            // A table that was not known has been loaded with the catalog.
            (Some(_), None) => Ok(()),
            (None, _) => {
                for stored in self.list_stored() {
                    if let Err(fault) = caught_async(self.follow(&stored.table, None)).await {
                        tracing::warn!(table = stored.table.name(), error = fault.message(), "cannot follow");
                    }
                }
                Ok(())
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
        self.follow(table, Some(version)).await
    }

    /// Looks for newer versions of a table, unless it is at `version` or beyond, and notes whether it can be read.
    async fn follow(&self, table: &Table, version: Option<u64>) -> Result<(), Fault> {
        loop {
            let Some(stored) = self.newest_stored(table)? else { return Ok(()) };
            let is_there = || version.is_some_and(|version| stored.state().version() >= version);
            if is_there() {
                return Ok(());
            }
            let _advancing = stored.advancing.lock().await;
            // Whoever was there first has looked, and may have gone to other columns.
            if is_there() {
                return Ok(());
            }
            if !self.newest_stored(table)?.is_some_and(|newest| Arc::ptr_eq(&newest, &stored)) {
                continue;
            }
            return self.follow_locked(&stored).await;
        }
    }

    async fn follow_locked(&self, stored: &Arc<Stored>) -> Result<(), Fault> {
        let table = &*stored.table;
        let (followed, is_other) = match stored.refresh_locked().await {
            Ok(Followed::Here) => (Ok(()), false),
            Ok(Followed::OtherColumns(state)) => {
                let requests = state.requests_since(stored.state().version()).cloned();
                self.shared.ledger.restore(table, requests);
                (self.replace(stored, state).await, true)
            }
            Ok(Followed::Unreadable(fault)) => {
                self.note(table, Some(&fault));
                return Err(fault);
            }
            Err(fault) => (Err(fault), false),
        };
        match followed {
            Ok(()) => self.note(table, None),
            // What is held is a version like any other, unless it has columns that the table has no longer.
            Err(fault) if fault.is_outage() || (fault.is_of_memory() && !is_other) => return Err(fault),
            Err(fault) if stored.attached || is_other => {
                let fault = newest(table.name(), fault);
                self.note(table, Some(&fault));
                return Err(fault);
            }
            Err(fault) => return Err(fault),
        }
        Ok(())
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
        self.shared.catalog.set_readable(id);
        if let Some(stored) = stored
            && self.shared.catalog.find(stored.table.name()).is_ok_and(|table| table.id() == id)
        {
            let _ = self.shared.catalog.remove(stored.table.name());
            self.forget(&stored.table);
        }
    }

    pub(super) async fn open_table(&self, at_rest: &AtRest, entry: &TableEntry) -> Result<(), Fault> {
        let opened = match at_rest.log.open(entry).await {
            Ok((log, state)) => match self.add(at_rest, entry, log, state).await {
                Err(fault) if entry.attached => Err(newest(&entry.name, fault)),
                added => added.map(|_| ()),
            },
            Err(error) if entry.attached => Err(unreadable(&entry.name, error)),
            Err(error) => Err(error.into()),
        };
        if let Err(fault) = &opened
            && entry.attached
        {
            self.note_entry(&entry.name, entry.number(), Some(fault));
        }
        opened
    }
}

/// What looking for newer versions came to.
pub(super) enum Followed {
    /// The newest is here.
    Here,
    /// It has other columns; nothing was done.
    OtherColumns(Arc<TableState>),
    /// There is none that can be read.
    Unreadable(Fault),
}

impl Stored {
    /// Looks for newer versions. The caller holds the lock.
    pub(super) async fn refresh_locked(&self) -> Result<Followed, Fault> {
        let state = self.state();
        let newer = match self.attached {
            true => match self.refresh_attached(&state).await {
                Ok(newer) => newer,
                Err(error) if error.is_outage() => return Err(error.into()),
                Err(error) => return Ok(Followed::Unreadable(unreadable(self.table.name(), error))),
            },
            false => self.log.refresh(&state).await?,
        };
        if newer.version() > state.version() {
            if !newer.has_same_columns(&state) {
                return Ok(Followed::OtherColumns(newer));
            }
            self.shared.ledger.restore(&self.table, newer.requests_since(state.version()).cloned());
            self.advance(newer, HashMap::new(), &|_| {}).await?;
        }
        Ok(Followed::Here)
    }

    /// The newest state of a table of another writer, which may have been deleted and written anew. That the log is the
    /// same is looked at behind all that was read.
    async fn refresh_attached(&self, state: &Arc<TableState>) -> Result<Arc<TableState>, StorageError> {
        let newer = self.log.refresh(state).await;
        self.log.check_same(state).await?;
        let newer = newer?;
        if newer.id() == state.id() {
            return Ok(newer);
        }
        let why = format!("the table has another id, {}, not {}", newer.id(), state.id());
        Err(StorageError::Replaced { path: self.log.store().url().to_owned(), why })
    }
}
