//! What a query obeys: cancellation, its deadline, its memory; and the clock that times it.

use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicUsize, Ordering},
};

use super::profile::Profile;
use crate::error::{Error, ErrorKind, Result};

/// Stops work from outside, at the next block, and bounds its memory.
#[derive(Clone, Debug)]
pub struct Control {
    state: Arc<AtomicU8>,
    used: Arc<AtomicUsize>,
    memory: usize,
    time: i64,
    clock: Option<fn() -> u64>,
    profile: Option<Arc<Profile>>,
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
            state: Arc::default(),
            used: Arc::default(),
            memory: bytes,
            time: i64::MIN,
            clock: None,
            profile: None,
        }
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
        Self { used: Arc::default(), ..self.clone() }
    }

    /// The same work, whose parts are timed by a clock of nanoseconds that never goes back.
    #[must_use]
    pub fn with_clock(self, clock: fn() -> u64) -> Self {
        Self { clock: Some(clock), ..self }
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

    /// The caller is gone: the work ends with [`ErrorKind::Cancelled`].
    pub fn cancel(&self) {
        let _ = self.state.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The time is over: the work ends with [`ErrorKind::DeadlineExceeded`].
    pub fn expire(&self) {
        let _ = self.state.compare_exchange(0, 2, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// An error once the work is to stop.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`], [`ErrorKind::DeadlineExceeded`].
    pub fn check(&self) -> Result<()> {
        match self.state.load(Ordering::Relaxed) {
            0 => Ok(()),
            1 => Err(Error::new(ErrorKind::Cancelled, "the caller cancelled")),
            _ => Err(Error::new(ErrorKind::DeadlineExceeded, "the deadline passed")),
        }
    }

    /// Counts memory that the work holds from now on.
    ///
    /// # Errors
    /// [`ErrorKind::MemoryLimit`] when it is more than the work may hold.
    pub fn reserve(&self, bytes: usize) -> Result<()> {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if used > self.memory {
            let message = format!("the query needs more than its {} bytes of memory", self.memory);
            return Err(Error::new(ErrorKind::MemoryLimit, message));
        }
        Ok(())
    }

    /// Gives back memory that [`Control::reserve`] counted.
    pub(crate) fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
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
