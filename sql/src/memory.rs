//! The memory of one statement: what DataFusion's operators reserve is reserved in the server's pool.
//!
//! Operators that can spill take no more than leaves room for the merging of what they have spilled, which cannot; once they
//! hold much, none of them takes more than its part of what all of them hold, so that one that has just begun finds some.
//! One that holds nothing has nothing to spill, and takes what there is.

use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use basalt_core::exec::Memory;
use datafusion::{
    common::{DataFusionError, Result},
    execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation},
};

use crate::limits;

/// What merges sorted runs. In memory it only moves what its sorter holds, and must find room; from disk it reads so many
/// runs at once as it finds room for, and does with less where it finds little.
const MERGE: &str = "ExternalSorterMerge";

/// See the module.
#[derive(Debug)]
pub(crate) struct Pool {
    memory: Arc<dyn Memory>,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Reserved in the server's pool.
    taken: usize,
    /// What operators hold without having asked first, and the pool had no room for.
    owed: usize,
    /// Operators that can spill.
    spilling: usize,
    /// Merges that read from disk, by the numbers of their consumers.
    merging: HashSet<usize>,
}

impl Pool {
    pub(crate) fn new(memory: Arc<dyn Memory>) -> Self {
        Self { memory, counts: Mutex::default() }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is left free where one takes more that could spill what it holds, or do with less: as much as all hold, or half
    /// of that where it takes no more than its part.
    fn reserve(counts: &mut Counts, consumer: &MemoryConsumer, held: usize, more: usize) -> usize {
        if held == limits::MERGE_BYTES && consumer.name().starts_with(MERGE) {
            counts.merging.insert(consumer.id());
        }
        let may_do_with_less = match consumer.can_spill() {
            true => held > 0,
            false => held > limits::MERGE_BYTES && counts.merging.contains(&consumer.id()),
        };
        if !may_do_with_less {
            return 0;
        }
        let all = counts.taken.saturating_add(more);
        let operators = (counts.spilling + counts.merging.len()).max(1);
        let is_fair = held.saturating_add(more) <= all / operators;
        if is_fair { all / 2 } else { all }
    }

    /// Takes more of the server's pool, where so much would still be free.
    fn take(&self, counts: &mut Counts, more: usize, reserve: usize) -> Result<()> {
        // What is refused here makes an operator spill, where it can.
        let refused = |error: basalt_core::error::Error| {
            DataFusionError::ResourcesExhausted(error.message().to_owned())
        };
        if reserve > 0 {
            self.memory.grow(counts.taken, more.saturating_add(reserve)).map_err(refused)?;
            self.memory.shrink(reserve);
        } else {
            self.memory.grow(counts.taken, more).map_err(refused)?;
        }
        counts.taken += more;
        Ok(())
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "basalt({} bytes)", self.counts().taken)
    }
}

impl MemoryPool for Pool {
    fn name(&self) -> &str {
        "basalt"
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        let mut counts = self.counts();
        match self.memory.grow(counts.taken, additional) {
            Ok(()) => counts.taken += additional,
            Err(_) => counts.owed += additional,
        }
    }

    fn shrink(&self, _: &MemoryReservation, shrink: usize) {
        let mut counts = self.counts();
        let owed = counts.owed.min(shrink);
        counts.owed -= owed;
        let taken = counts.taken.min(shrink - owed);
        counts.taken -= taken;
        self.memory.shrink(taken);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let mut counts = self.counts();
        let reserve = Self::reserve(&mut counts, reservation.consumer(), reservation.size(), additional);
        self.take(&mut counts, additional, reserve)
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.counts().spilling += usize::from(consumer.can_spill());
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        let mut counts = self.counts();
        counts.spilling -= usize::from(consumer.can_spill());
        counts.merging.remove(&consumer.id());
    }

    fn reserved(&self) -> usize {
        let counts = self.counts();
        counts.taken + counts.owed
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Unknown
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let taken = self.counts().taken;
        if taken > 0 {
            self.memory.shrink(taken);
        }
    }
}
