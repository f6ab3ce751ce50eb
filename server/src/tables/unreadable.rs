//! Tables that cannot be read: requests for one get an error that says why, and not the rows that it had before. The
//! others are served. What is mended is served again.

use std::sync::{Arc, PoisonError};

use basalt_core::table::Table;
use basalt_proto::v1::ErrorReason;
use basalt_storage::{StorageError, TableEntry};

use super::{AtRest, Tables};
use crate::status::Fault;

/// The error of requests for an attached table that cannot be read.
pub(super) fn unreadable(table: &str, error: StorageError) -> Fault {
    match &error {
        StorageError::NoTable { path } | StorageError::Address { url: path, .. } => {
            let message = format!(
                "table {table:?} is gone: there is no Delta table at {path} any longer; it is served again once it is \
                 back"
            );
            Fault::new(ErrorReason::StoreUnavailable, message)
        }
        StorageError::Replaced { path, why } => {
            let message = format!(
                "table {table:?} is not what was attached: at {path}, {why}; drop it and attach it again to read what \
                 is there now"
            );
            Fault::new(ErrorReason::InvalidStore, message)
        }
        _ => newest(table, error.into()),
    }
}

/// The error of requests for a table whose newest version cannot be taken in.
pub(super) fn newest(table: &str, fault: Fault) -> Fault {
    let message = format!("the newest version of table {table:?} cannot be read: {}", fault.message());
    fault.with_message(message)
}

impl Tables {
    /// Notes whether a table that is held can be read.
    pub(super) fn note(&self, table: &Table, unreadable: Option<&Fault>) {
        let (name, id) = (table.name(), table.id());
        self.note_entry(name, id, unreadable);
    }

    /// The same of one that may never have been read.
    pub(super) fn note_entry(&self, name: &str, id: u64, unreadable: Option<&Fault>) {
        let catalog = &self.shared.catalog;
        let known = catalog.unreadable().into_iter().find(|(_, known, _)| *known == id);
        match (unreadable, known) {
            (None, None) => {}
            (None, Some(_)) => {
                tracing::info!(table = name, "the table can be read again");
                catalog.set_readable(id);
            }
            (Some(fault), known) => {
                let error = fault.to_engine();
                if known.is_none_or(|(_, _, before)| before != error) {
                    tracing::warn!(table = name, error = fault.message(), "the table cannot be read");
                    catalog.set_unreadable(name, id, error);
                }
            }
        }
    }

    /// Tries again to read the attached tables that could not be read.
    pub(super) async fn reopen(&self) {
        let Some(at_rest) = &self.at_rest else { return };
        let unreadable = self.shared.catalog.unreadable();
        if unreadable.is_empty() {
            return;
        }
        let state = Arc::clone(&*at_rest.state.lock().await);
        let entries = state.tables().values().filter(|entry| entry.attached);
        for entry in entries.filter(|entry| unreadable.iter().any(|(_, id, _)| *id == entry.number())) {
            if !self.is_held(at_rest, entry) && self.open_table(at_rest, entry).await.is_ok() {
                let now = at_rest.state.lock().await;
                if !now.tables().values().any(|known| known.id == entry.id) {
                    // It was dropped while it was read.
                    self.let_go(at_rest, entry.number());
                }
            }
        }
    }

    fn is_held(&self, at_rest: &AtRest, entry: &TableEntry) -> bool {
        let tables = at_rest.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.contains_key(&entry.number())
    }
}
