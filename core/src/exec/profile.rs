//! What the steps of a query took, for Explain. Nothing is measured unless a clock is set.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Control;

/// A step of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Sets become what is fast to ask.
    Prepare,
    /// Statistics decide blocks.
    Prune,
    /// A conjunct of the filter, by its place in the plan.
    Filter(usize),
    /// The selected rows of a block are aggregated or read.
    Block,
    /// The results of blocks are put together.
    Merge,
    /// Groups or sorted rows become the answer.
    Finish,
}

/// Steps that are no filters.
const OTHERS: usize = 5;

impl Step {
    fn place(self) -> usize {
        match self {
            Self::Prepare => 0,
            Self::Prune => 1,
            Self::Block => 2,
            Self::Merge => 3,
            Self::Finish => 4,
            Self::Filter(conjunct) => OTHERS + conjunct,
        }
    }
}

/// What a step took, of all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Rows that it was given.
    pub rows_in: u64,
    /// Rows that it left.
    pub rows_out: u64,
    /// The clock at its first beginning.
    pub started_ns: u64,
    /// Nanoseconds from its first beginning to its last end.
    pub elapsed_ns: u64,
    /// Nanoseconds that threads were at it, in sum.
    pub busy_ns: u64,
}

/// The steps of one run.
#[derive(Debug)]
pub(super) struct Profile {
    clock: fn() -> u64,
    meters: Vec<Meter>,
}

#[derive(Debug)]
struct Meter {
    rows_in: AtomicU64,
    rows_out: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
    busy: AtomicU64,
}

impl Profile {
    pub(super) fn new(clock: fn() -> u64, conjuncts: usize) -> Self {
        let meter = || Meter {
            rows_in: AtomicU64::new(0),
            rows_out: AtomicU64::new(0),
            first: AtomicU64::new(u64::MAX),
            last: AtomicU64::new(0),
            busy: AtomicU64::new(0),
        };
        Self { clock, meters: (0..OTHERS + conjuncts).map(|_| meter()).collect() }
    }

    /// What a step took; none when it was never taken.
    pub(super) fn usage(&self, step: Step) -> Option<Usage> {
        let meter = &self.meters[step.place()];
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Some(Usage {
            rows_in: read(&meter.rows_in),
            rows_out: read(&meter.rows_out),
            started_ns: read(&meter.first),
            elapsed_ns: read(&meter.last).checked_sub(read(&meter.first))?,
            busy_ns: read(&meter.busy),
        })
    }
}

/// Measures one piece of a step.
pub(super) struct Watch<'a>(Option<(&'a Profile, u64)>);

impl<'a> Watch<'a> {
    pub(super) fn start(control: &'a Control) -> Self {
        Self(control.profile().map(|profile| (profile, (profile.clock)())))
    }

    /// Whether anything is measured.
    pub(super) fn runs(&self) -> bool {
        self.0.is_some()
    }

    /// The piece is done.
    pub(super) fn stop(self, step: Step, rows_in: u64, rows_out: u64) {
        let Some((profile, started)) = self.0 else { return };
        let now = (profile.clock)();
        let meter = &profile.meters[step.place()];
        meter.rows_in.fetch_add(rows_in, Ordering::Relaxed);
        meter.rows_out.fetch_add(rows_out, Ordering::Relaxed);
        meter.first.fetch_min(started, Ordering::Relaxed);
        meter.last.fetch_max(now, Ordering::Relaxed);
        meter.busy.fetch_add(now - started, Ordering::Relaxed);
    }
}
