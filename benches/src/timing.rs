//! Timing: the least of several runs, for machines whose speed drifts.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

/// The least time of one call of `f`, over runs that take about `budget` together (three at least).
pub fn least<T>(budget: Duration, mut f: impl FnMut() -> T) -> Duration {
    let (mut least, mut spent, mut runs) = (Duration::MAX, Duration::ZERO, 0);
    while runs < 3 || (spent < budget && runs < 10_000) {
        let start = Instant::now();
        black_box(f());
        let took = start.elapsed();
        least = least.min(took);
        spent += took;
        runs += 1;
    }
    least
}

/// Nanoseconds for each of `n`.
#[allow(clippy::cast_precision_loss, reason = "a figure to print")]
pub fn nanos_each(time: Duration, n: usize) -> f64 {
    time.as_nanos() as f64 / n as f64
}
