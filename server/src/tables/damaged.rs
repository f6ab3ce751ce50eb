//! Tables of the store that this node cannot read: a file is missing, or is not what was written.
//!
//! Such a table keeps no other from being served. Requests that name it are told that it is damaged, it can be dropped,
//! and its name stays taken. Reading it is tried again from time to time, less and less often. A node of a cluster has
//! a table whole, all fragments that it holds, or not at all: what it cannot read, others answer for, or nobody does.

use std::{
    sync::{PoisonError, Weak},
    time::{Duration, Instant},
};

use basalt_storage::TableEntry;
use tokio::time::sleep;

use super::{AtRest, Tables};
use crate::{limits, status::Fault};

/// A table that could not be read.
#[derive(Clone, Debug)]
pub(super) struct Damaged {
    entry: TableEntry,
    /// When it is tried again, and how much later after that.
    next: Instant,
    pause: Duration,
}

impl Tables {
    /// Notes that a table cannot be read.
    pub(super) fn note_damaged(&self, at_rest: &AtRest, entry: &TableEntry, fault: &Fault) {
        let why = fault.message();
        let mut damaged = at_rest.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        let before = damaged.get(&entry.number()).map(|before| before.pause);
        if before.is_none() {
            tracing::error!(table = entry.name, error = why, "a table is damaged, and left out");
        }
        let (first, most) = limits::DAMAGED_PAUSE;
        let pause = before.map_or(first, |before| (2 * before).min(most));
        let known = Damaged { entry: entry.clone(), next: Instant::now() + pause, pause };
        damaged.insert(entry.number(), known);
        let what = match fault.reason() {
            "MEMORY_LIMIT" => "does not fit into memory here",
            _ => "is damaged and cannot be read",
        };
        self.shared.catalog.set_damaged(&entry.name, format!("table {:?} {what}: {why}", entry.name));
    }

    /// Forgets that a table could not be read: it is read by now, or gone.
    pub(super) fn forget_damaged(&self, at_rest: &AtRest, id: u64) {
        let known = at_rest.damaged.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if let Some(known) = known {
            self.shared.catalog.forget_damaged(&known.entry.name);
        }
    }

    /// Tries again to read those whose time has come.
    async fn retry_damaged(&self) {
        let Some(at_rest) = &self.at_rest else { return };
        let due: Vec<TableEntry> = {
            let damaged = at_rest.damaged.lock().unwrap_or_else(PoisonError::into_inner);
            let due = damaged.values().filter(|known| known.next <= Instant::now());
            due.map(|known| known.entry.clone()).collect()
        };
        for entry in due {
            let opened = self.open_table(at_rest, &entry).await;
            match opened {
                // Reading it took its time, in which it was dropped.
                _ if !at_rest.has(entry.number()) => self.drop_if_gone(at_rest, entry.number()),
                Ok(()) => tracing::info!(table = entry.name, "a table that was damaged can be read"),
                Err(fault) => self.note_damaged(at_rest, &entry, &fault),
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
        tables.retry_damaged().await;
    }
}
