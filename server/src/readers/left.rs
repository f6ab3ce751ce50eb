//! Slots of answers that nobody asks for: of portals whose clients have not come back for more rows.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::Slot;
use crate::class::Class;

/// A slot that others may take away.
#[derive(Debug)]
pub(crate) struct Left {
    pub(super) class: Class,
    /// The number of its connection.
    pub(super) of: u64,
    /// When its rows were last asked for.
    since: Mutex<Instant>,
    slot: Mutex<Option<Slot>>,
}

impl Left {
    pub(super) fn new(slot: Slot) -> Self {
        let (class, of, since) = (slot.class, slot.connection.id(), Mutex::new(Instant::now()));
        Self { class, of, since, slot: Mutex::new(Some(slot)) }
    }

    /// See the field.
    pub(super) fn since(&self) -> Instant {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its rows are asked for, and there are some at hand.
    pub(crate) fn renew(&self) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Its answer goes on; `None`: others have the slot.
    pub(crate) fn back(&self) -> Option<Slot> {
        self.slot().take()
    }

    /// Whether others have it.
    pub(crate) fn is_given_up(&self) -> bool {
        self.slot().is_none()
    }

    fn slot(&self) -> MutexGuard<'_, Option<Slot>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
