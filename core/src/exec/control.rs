//! What a query obeys: cancellation, its deadline, its memory; and the clock that times it.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
};

use rayon::ThreadPool;

use super::profile::Profile;
use crate::error::{Error, ErrorKind, Result};

/// Stops work from outside, at the next block, and bounds its memory.
#[derive(Clone, Debug)]
pub struct Control {
    stop: Stop,
    used: Arc<Used>,
    memory: usize,
    time: i64,
    clock: Option<fn() -> u64>,
    profile: Option<Arc<Profile>>,
    pool: Option<Arc<ThreadPool>>,
}

/// Stops the work of a [`Control`], and holds none of its memory: who waits for the work, or for its answer to be read, has
/// this alone, so that the work's memory is free when it ends.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicU8>);

impl Stop {
    /// The caller is gone: the work ends with [`ErrorKind::Cancelled`].
    pub fn cancel(&self) {
        let _ = self.0.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The time is over: the work ends with [`ErrorKind::DeadlineExceeded`].
    pub fn expire(&self) {
        let _ = self.0.compare_exchange(0, 2, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Somebody else has asked for its end: the work ends with [`ErrorKind::Cancelled`], and says so.
    pub fn kill(&self) {
        let _ = self.0.compare_exchange(0, 3, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// An error once the work is to stop.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`], [`ErrorKind::DeadlineExceeded`].
    pub fn check(&self) -> Result<()> {
        match self.0.load(Ordering::Relaxed) {
            0 => Ok(()),
            1 => Err(Error::new(ErrorKind::Cancelled, "the caller cancelled")),
            3 => Err(Error::new(ErrorKind::Cancelled, "the query was cancelled by a request to do so")),
            _ => Err(Error::new(ErrorKind::DeadlineExceeded, "the deadline passed")),
        }
    }
}

/// Memory that work shares with others.
pub trait Memory: fmt::Debug + Send + Sync {
    /// Takes more for work that has taken so much.
    ///
    /// # Errors
    /// [`ErrorKind::MemoryLimit`] when there is none.
    fn grow(&self, taken: usize, more: usize) -> Result<()>;

    /// Gives back some of what was taken.
    fn shrink(&self, bytes: usize);
}

/// What is taken of a [`Memory`] at once, so that work need not ask for every batch.
const CHUNK: usize = 256 << 10;

/// Memory that a [`Control`] and its clones count.
#[derive(Debug, Default)]
struct Used {
    bytes: AtomicUsize,
    shared: Option<Arc<dyn Memory>>,
    /// What of it was taken: no less than `bytes`, where it was had.
    taken: Mutex<usize>,
}

impl Used {
    fn of(shared: Option<Arc<dyn Memory>>) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicUsize::new(0), shared, taken: Mutex::new(0) })
    }

    fn add(&self, bytes: usize) -> Result<usize> {
        let used = self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if let Some(shared) = &self.shared {
            let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
            if used > *taken {
                let exact = used - *taken;
                let rounded = exact.checked_next_multiple_of(CHUNK).unwrap_or(exact);
                *taken += match shared.grow(*taken, rounded) {
                    Ok(()) => rounded,
                    Err(_) => shared.grow(*taken, exact).map(|()| exact)?,
                };
            }
        }
        Ok(used)
    }

    fn sub(&self, bytes: usize) {
        let used = self.bytes.fetch_sub(bytes, Ordering::Relaxed) - bytes;
        if let Some(shared) = &self.shared {
            let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
            let spare = taken.saturating_sub(used);
            if spare > 2 * CHUNK {
                shared.shrink(spare - CHUNK);
                *taken -= spare - CHUNK;
            }
        }
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        let taken = *self.taken.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = self.shared.as_ref().filter(|_| taken > 0) {
            shared.shrink(taken);
        }
    }
}

impl Default for Control {
    fn default() -> Self {
        Self::with_memory(usize::MAX)
    }
}

impl Control {
    /// Work that may hold `bytes` of groups, distinct values and sorted rows.
    pub fn with_memory(bytes: usize) -> Self {
        Self {
            stop: Stop::default(),
            used: Arc::default(),
            memory: bytes,
            time: i64::MIN,
            clock: None,
            profile: None,
            pool: None,
        }
    }

    /// The same work, before it holds anything; what it holds it takes of memory that it shares, until its last clone
    /// is dropped.
    #[must_use]
    pub fn sharing(self, memory: Arc<dyn Memory>) -> Self {
        Self { used: Used::of(Some(memory)), ..self }
    }

    /// The same work, asked for at a time, in microseconds since 1970; without one no row is too old to be read.
    #[must_use]
    pub fn with_time(self, time: i64) -> Self {
        Self { time, ..self }
    }

    /// When it was asked for: what it does not read for its age is one and the same everywhere.
    pub fn time(&self) -> i64 {
        self.time
    }

    /// A part of the work that may hold as much by itself; it stops with the others.
    #[must_use]
    pub fn with_own_memory(&self) -> Self {
        Self { used: Used::of(self.used.shared.clone()), ..self.clone() }
    }

    /// The same work, whose parts are timed by a clock of nanoseconds that never goes back.
    #[must_use]
    pub fn with_clock(self, clock: fn() -> u64) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// The same work, whose blocks go to a pool when the thread that runs it is in none. What it hands to its sink it
    /// hands out on its own thread, which may wait there without keeping one of the pool from other work.
    #[must_use]
    pub fn with_pool(self, pool: Arc<ThreadPool>) -> Self {
        Self { pool: Some(pool), ..self }
    }

    /// Does a part of the work on the pool that was given; here, where there is none or this is a thread of one.
    pub(super) fn install<T: Send>(&self, part: impl FnOnce() -> T + Send) -> T {
        match &self.pool {
            Some(pool) if rayon::current_thread_index().is_none() => pool.install(part),
            _ => part(),
        }
    }

    /// The same work, whose steps are timed where there is a clock: `conjuncts` of them are filters.
    pub(super) fn profiled(&self, conjuncts: usize) -> Self {
        let profile = self.clock.map(|clock| Arc::new(Profile::new(clock, conjuncts)));
        Self { profile, ..self.clone() }
    }

    /// What the steps took, where they are timed.
    pub(super) fn profile(&self) -> Option<&Profile> {
        self.profile.as_deref()
    }

    /// Whether there is a clock.
    pub(super) fn has_clock(&self) -> bool {
        self.clock.is_some()
    }

    /// Nanoseconds of the clock; 0 without one.
    pub(crate) fn now(&self) -> u64 {
        // Default: durations are 0 then, and nobody asks for them.
        self.clock.map_or(0, |clock| clock())
    }

    /// What stops the work.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// As [`Stop::cancel`].
    pub fn cancel(&self) {
        self.stop.cancel();
    }

    /// As [`Stop::expire`].
    pub fn expire(&self) {
        self.stop.expire();
    }

    /// An error once the work is to stop.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`], [`ErrorKind::DeadlineExceeded`].
    pub fn check(&self) -> Result<()> {
        self.stop.check()
    }

    /// What the work may hold.
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    /// Counts memory that the work holds from now on.
    ///
    /// # Errors
    /// [`ErrorKind::MemoryLimit`] when it is more than the work may hold.
    pub fn reserve(&self, bytes: usize) -> Result<()> {
        let used = self.used.add(bytes)?;
        if used > self.memory {
            let message = format!("the query needs more than its {} bytes of memory", self.memory);
            return Err(Error::new(ErrorKind::MemoryLimit, message));
        }
        Ok(())
    }

    /// Gives back memory that [`Control::reserve`] counted.
    pub(crate) fn release(&self, bytes: usize) {
        self.used.sub(bytes);
    }
}

/// Memory that a [`Control`] counts until this is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    control: &'a Control,
    bytes: usize,
}

impl<'a> Held<'a> {
    pub(super) fn new(control: &'a Control) -> Self {
        Self { control, bytes: 0 }
    }

    /// What counts it.
    pub(super) fn control(&self) -> &'a Control {
        self.control
    }

    /// How much it is.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// It is held for as long as the work goes on.
    pub(super) fn keep(mut self) {
        self.bytes = 0;
    }

    /// Says how much it is now.
    pub(super) fn set(&mut self, bytes: usize) -> Result<()> {
        let before = std::mem::replace(&mut self.bytes, bytes);
        match bytes.checked_sub(before) {
            Some(growth) => self.control.reserve(growth),
            None => {
                self.control.release(before - bytes);
                Ok(())
            }
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.control.release(self.bytes);
    }
}
