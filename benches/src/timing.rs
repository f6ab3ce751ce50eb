//! Timing: the least of many calls, for machines whose speed drifts.

use std::{
    collections::BTreeMap,
    env,
    hint::black_box,
    time::{Duration, Instant},
};

use criterion::{Criterion, Throughput};

const SMALL: &str = "--small";

/// Whether a quick look is asked for: by `--small`, or by cargo, which gives benchmarks among the tests no
/// `--bench`.
pub fn small() -> bool {
    given(SMALL) || given("--test") || !given("--bench")
}

fn given(flag: &str) -> bool {
    env::args().any(|argument| argument == flag)
}

/// Criterion with a memory: it drives the runs and prints its estimates; the least time of a call of each
/// benchmark is kept for the tables.
pub struct Driver {
    criterion: Criterion,
    least: BTreeMap<(String, String), f64>,
}

impl Driver {
    /// A driver that listens to criterion's flags.
    pub fn from_args() -> Self {
        let criterion = Criterion::default().without_plots().sample_size(20).nresamples(1000);
        let timed = |warm_up, measurement| {
            criterion
                .warm_up_time(Duration::from_millis(warm_up))
                .measurement_time(Duration::from_millis(measurement))
        };
        // Criterion refuses flags that it does not know.
        let criterion = if given(SMALL) { timed(10, 30) } else { timed(100, 400).configure_from_args() };
        Self { criterion, least: BTreeMap::new() }
    }

    /// Times calls of `f`, each of which goes through `elements`.
    pub fn time<T>(&mut self, group: &str, id: &str, elements: usize, mut f: impl FnMut() -> T) {
        let mut least = None;
        let mut benches = self.criterion.benchmark_group(group);
        benches.throughput(Throughput::Elements(elements as u64));
        benches.bench_function(id, |bencher| {
            bencher.iter_custom(|calls| {
                let mut total = Duration::ZERO;
                for _ in 0..calls {
                    let start = Instant::now();
                    black_box(f());
                    let took = start.elapsed();
                    total += took;
                    least = Some(least.map_or(took, |least: Duration| least.min(took)));
                }
                total
            });
        });
        benches.finish();
        if let Some(least) = least {
            self.least.insert((group.to_owned(), id.to_owned()), nanos_each(least, elements));
        }
    }

    /// The nanoseconds for each element in the fastest call; `None` where the flags left the benchmark out.
    pub fn nanos(&self, group: &str, id: &str) -> Option<f64> {
        self.least.get(&(group.to_owned(), id.to_owned())).copied()
    }
}

/// Nanoseconds for each of `n`.
#[allow(clippy::cast_precision_loss, reason = "a figure to print")]
fn nanos_each(time: Duration, n: usize) -> f64 {
    time.as_nanos() as f64 / n as f64
}

/// Contenders that are timed in turns, so that a machine whose speed drifts does so for all of them; the least time
/// of a call counts.
#[derive(Default)]
pub struct Race<'a> {
    contenders: Vec<Box<dyn FnMut() + 'a>>,
}

/// The shortest time that the clock is trusted with.
const MEASURABLE: Duration = Duration::from_micros(20);
/// What a contender takes of one turn, unless a call takes longer.
const TURN: Duration = Duration::from_millis(1);
/// The turns that everybody gets whose calls are not slow; those get one.
const LEAST_TURNS: u32 = 3;
/// A call is slow if it takes longer than this, many times what everybody should take.
const SLOW: f64 = 0.2;

impl<'a> Race<'a> {
    /// A race of nobody.
    pub fn new() -> Self {
        Self::default()
    }

    /// Enters a contender.
    pub fn enter<T>(&mut self, mut f: impl FnMut() -> T + 'a) {
        self.contenders.push(Box::new(move || {
            black_box(f());
        }));
    }

    /// The least seconds of a call of each, in the order in which they entered, from about `each` for everybody; from
    /// a single call if only a quick look is asked for.
    pub fn run(mut self, each: Duration) -> Vec<f64> {
        let called = |f: &mut dyn FnMut(), calls: u32| {
            let start = Instant::now();
            (0..calls).for_each(|_| f());
            start.elapsed()
        };
        let first: Vec<Duration> = self.contenders.iter_mut().map(|f| called(f, 1)).collect();
        let mut least: Vec<f64> = first.iter().map(Duration::as_secs_f64).collect();
        if small() {
            return least;
        }
        // The first call is slower than the others, if anything.
        let calls = first.iter().map(|first| MEASURABLE.as_nanos().div_ceil(first.as_nanos().max(1)));
        let mut calls: Vec<u32> = calls.map(|calls| u32::try_from(calls).unwrap_or(u32::MAX)).collect();
        let end = Instant::now() + each * u32::try_from(first.len()).unwrap_or(u32::MAX);
        let mut turns = 0;
        while turns < LEAST_TURNS || Instant::now() < end {
            for (place, f) in self.contenders.iter_mut().enumerate() {
                if turns > 0 && least[place] > SLOW {
                    continue;
                }
                let mut left = TURN;
                while !left.is_zero() {
                    let took = called(f, calls[place]);
                    least[place] = least[place].min(took.as_secs_f64() / f64::from(calls[place]));
                    if took < MEASURABLE {
                        calls[place] *= 2;
                    }
                    left = left.saturating_sub(took);
                }
            }
            turns += 1;
        }
        least
    }
}
