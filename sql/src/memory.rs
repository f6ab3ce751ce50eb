//! The memory of one statement: what DataFusion's operators reserve is reserved in the server's pool.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use basalt_core::exec::Memory;
use datafusion::{
    common::{DataFusionError, Result},
    execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation},
};

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
}

impl Pool {
    pub(crate) fn new(memory: Arc<dyn Memory>) -> Self {
        Self { memory, counts: Mutex::default() }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn try_grow(&self, _: &MemoryReservation, additional: usize) -> Result<()> {
        let mut counts = self.counts();
        // What is refused here makes an operator spill, where it can.
        self.memory
            .grow(counts.taken, additional)
            .map_err(|error| DataFusionError::ResourcesExhausted(error.message().to_owned()))?;
        counts.taken += additional;
        Ok(())
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
