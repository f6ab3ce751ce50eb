//! The memory of one statement: what DataFusion's operators reserve is reserved in the server's pool.
//!
//! Operators that can spill take no more than leaves room for the merging of what they have spilled, which cannot; once they
//! hold much, none of them takes more than its part of what all of them hold, so that one that has just begun finds some.
//! One that holds nothing has nothing to spill, and takes what there is. So does what cannot spill of an operator that can:
//! the table that is filled from merged runs, a merge's cursors, and what is left where all that could be was spilled.

use std::{
    collections::HashMap,
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
    /// Merges that read from disk.
    merging: usize,
    /// By the numbers of consumers.
    operators: HashMap<usize, Operator>,
}

/// A consumer, which may have several reservations.
#[derive(Debug, Default)]
struct Operator {
    /// Held in all its reservations.
    held: usize,
    /// What it would have held where it was refused last, and has not asked since.
    refused: Option<usize>,
    /// A merge that reads from disk.
    merges: bool,
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
        let operator = counts.operators.entry(consumer.id()).or_default();
        if held == limits::MERGE_BYTES && consumer.name().starts_with(MERGE) && !operator.merges {
            operator.merges = true;
            counts.merging += 1;
        }
        let wanted = operator.held.saturating_add(more);
        // Beside a reservation of its own it merges what was spilled; after a refusal it has spilled what it could.
        let is_last =
            operator.held > held || operator.refused.take().is_some_and(|refused| wanted <= refused);
        let may_do_with_less = match consumer.can_spill() {
            true => held > 0,
            false => held > limits::MERGE_BYTES && operator.merges,
        };
        if is_last || !may_do_with_less {
            return 0;
        }
        let all = counts.taken.saturating_add(more);
        let operators = (counts.spilling + counts.merging).max(1);
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

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        let mut counts = self.counts();
        match self.memory.grow(counts.taken, additional) {
            Ok(()) => counts.taken += additional,
            Err(_) => counts.owed += additional,
        }
        counts.operators.entry(reservation.consumer().id()).or_default().held += additional;
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        let mut counts = self.counts();
        let owed = counts.owed.min(shrink);
        counts.owed -= owed;
        let taken = counts.taken.min(shrink - owed);
        counts.taken -= taken;
        if let Some(operator) = counts.operators.get_mut(&reservation.consumer().id()) {
            operator.held = operator.held.saturating_sub(shrink);
        }
        self.memory.shrink(taken);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let mut counts = self.counts();
        let reserve = Self::reserve(&mut counts, reservation.consumer(), reservation.size(), additional);
        let taken = self.take(&mut counts, additional, reserve);
        let operator = counts.operators.entry(reservation.consumer().id()).or_default();
        match taken {
            Ok(()) => operator.held += additional,
            Err(_) => operator.refused = Some(operator.held.saturating_add(additional)),
        }
        taken
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.counts().spilling += usize::from(consumer.can_spill());
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        let mut counts = self.counts();
        counts.spilling -= usize::from(consumer.can_spill());
        let merged = counts.operators.remove(&consumer.id()).is_some_and(|operator| operator.merges);
        counts.merging -= usize::from(merged);
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use basalt_core::error::{Error, ErrorKind};

    use super::*;

    const MIB: usize = 1 << 20;

    /// Memory for so many bytes.
    #[derive(Debug)]
    struct Bounded {
        limit: usize,
        taken: AtomicUsize,
    }

    impl Memory for Bounded {
        fn grow(&self, _: usize, more: usize) -> basalt_core::error::Result<()> {
            let fits = |taken: usize| Some(taken + more).filter(|all| *all <= self.limit);
            let grown = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
            grown.map(|_| ()).map_err(|_| Error::new(ErrorKind::MemoryLimit, "no memory".to_owned()))
        }

        fn shrink(&self, bytes: usize) {
            self.taken.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn pool() -> Arc<dyn MemoryPool> {
        Arc::new(Pool::new(Arc::new(Bounded { limit: 84 * MIB, taken: AtomicUsize::new(0) })))
    }

    fn register(pool: &Arc<dyn MemoryPool>, name: &str) -> MemoryReservation {
        MemoryConsumer::new(name).with_can_spill(true).register(pool)
    }

    #[test]
    fn what_can_spill_leaves_room_for_merging() {
        let pool = pool();
        let (full, few) = (register(&pool, "full"), register(&pool, "few"));
        full.try_grow(MIB).unwrap();
        full.try_grow(41 * MIB).unwrap();
        full.try_grow(MIB).unwrap_err();
        few.try_grow(MIB).unwrap();
        few.try_grow(10 * MIB).unwrap();
    }

    #[test]
    fn a_table_filled_from_merged_runs_finds_what_is_free() {
        let pool = pool();
        let (full, replayed) = (register(&pool, "full"), register(&pool, "replayed"));
        let others = [(); 8].map(|()| register(&pool, "other"));
        full.try_grow(32 * MIB).unwrap();
        let merge = replayed.new_empty();
        merge.try_grow(9 * MIB).unwrap();
        replayed.try_grow(MIB).unwrap();
        // More than its part, and more than leaves as much free as all hold: but it has nothing to spill.
        replayed.try_grow(4 * MIB).unwrap();
        drop((merge, replayed, full, others));
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn what_has_spilled_keeps_what_is_left() {
        let pool = pool();
        let (full, spilled) = (register(&pool, "full"), register(&pool, "spilled"));
        spilled.try_grow(MIB).unwrap();
        full.try_grow(41 * MIB).unwrap();
        spilled.try_grow(30 * MIB).unwrap_err();
        spilled.try_grow(20 * MIB).unwrap();
        // Once only.
        spilled.try_grow(MIB).unwrap_err();
    }
}
