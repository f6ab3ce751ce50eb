//! Tables of the store that this node cannot read: a file is missing, or is not what was written; one that is attached is
//! gone, is another one, or has columns that cannot be taken.
//!
//! Requests for such a table get an error that says why, and not the rows that it had before. It keeps no other from being
//! served, it can be dropped, and its name stays taken. One that is held goes on being followed; one that could not be
//! loaded is tried again, less and less often. A node of a cluster has a table whole, all fragments that it holds, or not
//! at all: what it cannot read, others answer for, or nobody does.

use std::{
    sync::{PoisonError, Weak},
    time::Duration,
};

use basalt_core::table::Table;
use basalt_proto::v1::ErrorReason;
use basalt_storage::{StorageError, TableEntry};
use tokio::time::{Instant, sleep};

use super::{Durable, Tables};
use crate::{limits, panics::caught_async, status::RequestError, told::Told};

/// Errors of attached tables that the log has.
static TOLD: Told = Told::new();

/// A table that could not be loaded.
#[derive(Clone, Debug)]
pub(super) struct LeftOut {
    entry: TableEntry,
    /// When it is tried again, and how much later after that.
    next: Instant,
    pause: Duration,
}

/// The error of a request to attach a table of which a file is missing or damaged: what is at the address is no whole
/// table, and whether it will be nobody waits for.
pub(super) fn cannot_attach(error: RequestError) -> RequestError {
    match error.is_of_missing() || error.is_of_damage() {
        true => error.with_reason(ErrorReason::InvalidStore),
        false => error,
    }
}

/// The error of requests for a table whose log cannot be read.
pub(super) fn cannot_open(entry: &TableEntry, error: StorageError) -> RequestError {
    match entry.attached {
        true => unreadable(&entry.name, error),
        false => damaged(&entry.name, &error.into()),
    }
}

/// The error of requests for a table that cannot be loaded.
pub(super) fn cannot_load(entry: &TableEntry, error: RequestError) -> RequestError {
    match entry.attached {
        true => newest(&entry.name, error),
        false => damaged(&entry.name, &error),
    }
}

/// The error of a request for rows that cannot be read.
pub(super) fn cannot_read(table: &str, attached: bool, error: RequestError) -> RequestError {
    match attached {
        _ if error.is_outage() || error.is_of_memory() || !error.is_of_store() => error,
        true => newest(table, error),
        false => damaged(table, &error),
    }
}

/// A store that does not answer says nothing of the table: whoever asks may ask again.
fn damaged(table: &str, error: &RequestError) -> RequestError {
    if error.is_outage() {
        let message = format!("table {table:?} is not loaded, and is tried again: {}", error.message());
        return error.clone().with_message(message);
    }
    if error.is_of_memory() {
        let message = format!("table {table:?} does not fit into memory here: {}", error.message());
        return error.clone().with_message(message);
    }
    let message = format!("table {table:?} is damaged and cannot be read: {}", error.message());
    RequestError::new(ErrorReason::TableDamaged, message)
}

/// The error of requests for an attached table that cannot be read. Where it is stands in the log alone.
pub(super) fn unreadable(table: &str, error: StorageError) -> RequestError {
    let (reason, message) = match &error {
        StorageError::NoTable { .. } | StorageError::Address { .. } => {
            let message = format!(
                "table {table:?} is gone: there is no Delta table any longer where it was attached from; it is served \
                 again once it is back"
            );
            (ErrorReason::StoreUnavailable, message)
        }
        StorageError::Replaced { why, .. } => {
            let message = format!(
                "table {table:?} is not what was attached: {why}; drop it and attach it again to read what is there now"
            );
            (ErrorReason::InvalidStore, message)
        }
        _ => return newest(table, error.into()),
    };
    if TOLD.is_due(&format!("{table:?}: {error}")) {
        tracing::warn!(table, %error, "an attached table is not there");
    }
    RequestError::new(reason, message)
}

/// The error of requests for a table whose newest version cannot be taken in. A file that is missing may come behind the
/// version that names it; what is damaged stays so.
pub(super) fn newest(table: &str, error: RequestError) -> RequestError {
    let message = format!("the newest version of table {table:?} cannot be read: {}", error.message());
    match error.is_of_damage() {
        true => RequestError::new(ErrorReason::TableDamaged, message),
        false => error.with_message(message),
    }
}

impl Tables {
    /// Notes whether a table that is held can be read.
    pub(super) fn note(&self, table: &Table, unreadable: Option<&RequestError>) {
        let (catalog, name, id) = (&self.shared.catalog, table.name(), table.id());
        let known = catalog.unreadable().into_iter().find(|(_, known, _)| *known == id);
        match (unreadable, known) {
            (None, None) => {}
            (None, Some(_)) => {
                tracing::info!(table = name, "the table can be read again");
                catalog.set_readable(id);
            }
            (Some(error), known) => {
                let error = error.to_engine();
                if known.is_none_or(|(_, _, before)| before != error) {
                    tracing::warn!(table = name, error = error.message(), "the table cannot be read");
                    catalog.set_unreadable(name, id, error);
                }
            }
        }
    }

    /// Notes that a table could not be loaded, and when it is tried again.
    pub(super) fn note_left_out(&self, durable: &Durable, entry: &TableEntry, error: &RequestError) {
        let (table, why) = (&entry.name, error.message());
        let mut left_out = durable.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        let before = left_out.get(&entry.number()).map(|before| before.pause);
        if before.is_none() {
            if entry.attached || error.is_outage() || error.is_of_memory() {
                let location = entry.location.as_str();
                tracing::warn!(table, location, error = why, "the table cannot be read, and is left out");
            } else {
                let location = entry.location.as_str();
                tracing::error!(table, location, error = why, "the table is damaged, and left out");
            }
        }
        let (first, most) = limits::DAMAGED_PAUSE;
        let most = match entry.attached {
            _ if error.is_outage() => first,
            true => limits::REOPEN_INTERVAL,
            false => most,
        };
        let pause = before.map_or(first, |before| (2 * before).min(most));
        let known = LeftOut { entry: entry.clone(), next: Instant::now() + pause, pause };
        left_out.insert(entry.number(), known);
        self.shared.catalog.set_unreadable(&entry.name, entry.number(), error.to_engine());
    }

    /// Forgets that a table could not be read: it is read by now, or gone.
    pub(super) fn forget_unreadable(&self, durable: &Durable, id: u64) {
        durable.left_out.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        self.shared.catalog.set_readable(id);
    }

    /// Tries again to load those whose time has come.
    async fn retry(&self) {
        let Some(durable) = &self.durable else { return };
        let due: Vec<TableEntry> = {
            let left_out = durable.left_out.lock().unwrap_or_else(PoisonError::into_inner);
            let due = left_out.values().filter(|known| known.next <= Instant::now());
            due.map(|known| known.entry.clone()).collect()
        };
        for entry in due {
            match self.open_table(durable, &entry).await {
                // Reading it took its time, in which it was dropped.
                _ if !durable.has(entry.number()) => self.drop_if_gone(durable, entry.number()),
                Ok(()) => tracing::info!(table = entry.name, "the table can be read again"),
                Err(error) => self.note_left_out(durable, &entry, &error),
            }
        }
    }
}

/// Tries again for as long as there are tables. It is no part of the other work in the background, which must not wait
/// until a large table is read.
pub(crate) async fn run(tables: Weak<Tables>) {
    loop {
        sleep(limits::DAMAGED_PAUSE.0).await;
        let Some(tables) = tables.upgrade() else { return };
        let retried = async {
            tables.retry().await;
            Ok(())
        };
        // What panics is in the log.
        let _ = caught_async(retried).await;
    }
}
