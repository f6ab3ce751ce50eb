//! The memory limit: tables, writes under way and kept sets together stay below it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use basalt_core::{exec::Control, table::Catalog};
use basalt_proto::v1::ErrorReason;

use crate::{limits, status::Fault, units};

/// What is held, and how much may be.
#[derive(Debug)]
pub(crate) struct Memory {
    limit: u64,
    tables: AtomicU64,
    pending: AtomicU64,
}

impl Memory {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, tables: AtomicU64::new(0), pending: AtomicU64::new(0) }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// The control of one query, or of other work on many rows, with its share of the memory.
    pub(crate) fn control(&self) -> Control {
        let bytes = self.limit / limits::QUERY_MEMORY_PART;
        Control::with_memory(usize::try_from(bytes).unwrap_or(usize::MAX)).with_time(units::now_micros())
    }

    /// What tables, writes and kept sets hold.
    pub(crate) fn held(&self) -> u64 {
        self.tables.load(Ordering::Relaxed) + self.pending.load(Ordering::Relaxed)
    }

    /// Counts the tables again, after a commit or a drop.
    pub(crate) fn count_tables(&self, catalog: &Catalog) {
        let bytes = catalog.list().iter().map(|table| table.bytes() as u64).sum();
        self.tables.store(bytes, Ordering::Relaxed);
    }

    /// What the tables hold.
    pub(crate) fn tables(&self) -> u64 {
        self.tables.load(Ordering::Relaxed)
    }

    /// What all reservations hold.
    pub(crate) fn pending(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }

    /// A reservation of nothing yet.
    pub(crate) fn reserve(self: &Arc<Self>) -> Reservation {
        Reservation { memory: Arc::clone(self), bytes: 0 }
    }
}

/// Memory of one write or one kept set, given back when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Reservation {
    /// What is held.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Says what is held now. Growth that would exceed the limit is refused and not counted.
    pub(crate) fn set(&mut self, bytes: u64) -> Result<(), Fault> {
        let Memory { limit, tables, pending } = &*self.memory;
        if bytes <= self.bytes {
            pending.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        } else {
            let growth = bytes - self.bytes;
            let held = pending.fetch_add(growth, Ordering::Relaxed) + growth + tables.load(Ordering::Relaxed);
            if held > *limit {
                pending.fetch_sub(growth, Ordering::Relaxed);
                let message =
                    format!("tables, writes and kept sets would hold {held} bytes; the limit is {limit}");
                return Err(Fault::new(ErrorReason::MemoryLimit, message).with("limit_bytes", *limit));
            }
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.memory.pending.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_beyond_the_limit_is_refused() {
        let memory = Arc::new(Memory::new(100));
        let (mut a, mut b) = (memory.reserve(), memory.reserve());
        a.set(60).unwrap();
        b.set(40).unwrap();
        assert_eq!(b.set(41).unwrap_err().reason(), "MEMORY_LIMIT");
        a.set(10).unwrap();
        b.set(90).unwrap();
        drop(a);
        b.set(100).unwrap();
        drop(b);
        assert_eq!(memory.pending(), 0);
    }
}
