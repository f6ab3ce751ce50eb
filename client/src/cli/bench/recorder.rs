//! What became of the requests of a load.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hdrhistogram::Histogram;

use super::{mix::Operation, request::Failure};
use crate::cli::CliError;

/// Wrong answers that are kept word by word.
const KEPT_WRONG: usize = 10;

/// Latencies in nanoseconds.
pub(super) type Latencies = Histogram<u64>;

/// Room for latencies up to an hour, with three digits; longer ones count as an hour.
pub(super) fn latencies() -> Result<Latencies, CliError> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).map_err(|error| CliError::input(error.to_string()))
}

/// One operation's requests.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    /// Of those that were answered.
    pub(super) latencies: Latencies,
    /// The others, by reason.
    pub(super) errors: BTreeMap<String, u64>,
    /// Of those.
    pub(super) failures: Latencies,
    /// Further tries of both.
    pub(super) retries: u64,
}

impl Tally {
    pub(super) fn failed(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// Tallies that all workers fill.
#[derive(Debug)]
pub(super) struct Recorder {
    tallies: [Mutex<Tally>; Operation::ALL.len()],
    late: Mutex<Latencies>,
    wrong: Mutex<Wrong>,
}

/// Answers that are not the truth, in the warm-up too.
#[derive(Clone, Debug, Default)]
pub(super) struct Wrong {
    pub(super) count: u64,
    /// The first of them.
    pub(super) examples: Vec<String>,
}

impl Recorder {
    pub(super) fn new() -> Result<Self, CliError> {
        let latencies = latencies()?;
        let failures = latencies.clone();
        let tally = Tally { latencies: latencies.clone(), errors: BTreeMap::new(), failures, retries: 0 };
        Ok(Self {
            tallies: Operation::ALL.map(|_| Mutex::new(tally.clone())),
            late: Mutex::new(latencies),
            wrong: Mutex::default(),
        })
    }

    /// A request ended so long after it was to begin.
    pub(super) fn ended(
        &self,
        operation: Operation,
        latency: Duration,
        retries: u64,
        outcome: &Result<(), Failure>,
    ) {
        let mut tally = lock(&self.tallies[operation as usize]);
        tally.retries += retries;
        match outcome {
            Ok(()) => tally.latencies.saturating_record(nanoseconds(latency)),
            Err(failure) => {
                tally.failures.saturating_record(nanoseconds(latency));
                *tally.errors.entry(failure.reason()).or_default() += 1;
            }
        }
    }

    /// A request began so long after it was to.
    pub(super) fn began(&self, late: Duration) {
        lock(&self.late).saturating_record(nanoseconds(late));
    }

    pub(super) fn wrong(&self, message: String) {
        let mut wrong = lock(&self.wrong);
        wrong.count += 1;
        if wrong.examples.len() < KEPT_WRONG {
            wrong.examples.push(message);
        }
    }

    pub(super) fn tally(&self, operation: Operation) -> Tally {
        lock(&self.tallies[operation as usize]).clone()
    }

    pub(super) fn late(&self) -> Latencies {
        lock(&self.late).clone()
    }

    pub(super) fn wrong_answers(&self) -> Wrong {
        lock(&self.wrong).clone()
    }

    /// Requests answered and failed so far.
    pub(super) fn counts(&self) -> (u64, u64) {
        let tallies = self.tallies.iter().map(lock);
        tallies.fold((0, 0), |(ok, failed), tally| (ok + tally.latencies.len(), failed + tally.failed()))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
