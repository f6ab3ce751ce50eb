//! The tables and views at one point of the journal.

use std::{collections::BTreeMap, sync::Arc};

use basalt_core::{
    error::{Error, ErrorKind},
    limits::MAX_TABLES,
};
use uuid::Uuid;

use super::{Change, Entry, Step, TableEntry, entry_path};
use crate::error::{Result, StorageError};

/// The tables at one point of the journal; immutable.
#[derive(Clone, Debug, Default)]
pub struct CatalogState {
    /// An entry so far has a seal: so has every later one. Older versions wrote none.
    pub(super) sealed: bool,
    /// Entries so far.
    pub(super) entries: u64,
    /// What tells the last of them from another of the same number.
    pub(super) last: Option<Uuid>,
    pub(super) tables: BTreeMap<String, TableEntry>,
    /// The texts of views, by name.
    pub(super) views: BTreeMap<String, Arc<str>>,
    /// Tables that were dropped, by folder, and when, in milliseconds since 1970.
    pub(crate) dropped: BTreeMap<String, (TableEntry, i64)>,
}

impl CatalogState {
    /// How many changes it has seen; it grows with each.
    pub fn version(&self) -> u64 {
        self.entries
    }

    /// All tables, by name.
    pub fn tables(&self) -> &BTreeMap<String, TableEntry> {
        &self.tables
    }

    /// The texts of all views, by name.
    pub fn views(&self) -> &BTreeMap<String, Arc<str>> {
        &self.views
    }

    pub(super) fn apply(&mut self, entry: Entry, sealed: bool) -> Result<()> {
        if self.sealed && !sealed {
            let why = "it was cut: the line that tells whether it is whole is missing";
            return Err(StorageError::corrupt(entry_path(self.entries), why));
        }
        self.sealed |= sealed;
        self.entries += 1;
        self.last = Some(entry.entry);
        match entry.step {
            Step::Begin(_) => {}
            Step::Create(table) => {
                self.tables.insert(table.name.clone(), table);
            }
            Step::Drop(id) => self.remove(id, entry.at),
            Step::Change(Change { drop, create }) => {
                drop.into_iter().for_each(|id| self.remove(id, entry.at));
                self.tables.extend(create.into_iter().map(|table| (table.name.clone(), table)));
            }
            Step::CreateView(view) => {
                self.views.insert(view.name, view.sql);
            }
            Step::DropView(name) => {
                self.views.remove(&name);
            }
        }
        Ok(())
    }

    /// Whether a folder is that of a table, or of one that was dropped.
    pub(crate) fn names(&self, folder: &str) -> bool {
        self.dropped.contains_key(folder) || self.tables.values().any(|table| table.location == folder)
    }

    pub(super) fn remove(&mut self, id: Uuid, at: i64) {
        if let Some(name) = self.tables.values().find(|table| table.id == id).map(|table| table.name.clone())
            && let Some(table) = self.tables.remove(&name)
            && !table.attached
        {
            self.dropped.insert(table.location.clone(), (table, at));
        }
    }

    /// The id of the table of a name, which must be the same as it was.
    pub(super) fn same(&self, name: &str, is_same: impl FnOnce(&TableEntry) -> bool) -> Result<Uuid> {
        let table = self.get(name)?;
        match is_same(table) {
            true => Ok(table.id),
            false => Err(Error::new(ErrorKind::TableNotFound, format!("table {name:?} was replaced")).into()),
        }
    }

    pub(super) fn get(&self, name: &str) -> Result<&TableEntry> {
        self.tables.get(name).ok_or_else(|| {
            let shown: String = name.chars().take(128).collect();
            Error::new(ErrorKind::TableNotFound, format!("there is no table {shown:?}")).at("table").into()
        })
    }

    pub(super) fn check_free(&self, name: &str) -> Result<()> {
        if self.tables.contains_key(name) {
            return Err(Error::new(ErrorKind::TableExists, format!("table {name:?} exists"))
                .at("name")
                .into());
        }
        if self.views.contains_key(name) {
            let message = format!("there is a view {name:?}");
            return Err(Error::new(ErrorKind::TableExists, message).at("name").into());
        }
        if self.tables.len() + self.views.len() >= MAX_TABLES {
            let message = format!("there are {MAX_TABLES} tables, the most");
            return Err(Error::new(ErrorKind::MemoryLimit, message).into());
        }
        Ok(())
    }
}
