//! When requests begin.
//!
//! An open load has its times fixed beforehand, whether or not earlier requests were answered, and a latency
//! counts from the fixed time: a server that stalls is charged for all who would have come meanwhile (what
//! leaves them out is called coordinated omission). A closed load sends the next request when the last one on the
//! same connection was answered.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::sync::Semaphore;

/// A request that may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Its number.
    pub(super) index: u64,
    /// When it was to begin.
    pub(super) at: Instant,
}

/// Gives arrivals to workers.
#[derive(Debug)]
pub(super) struct Pace {
    start: Instant,
    end: Instant,
    next: AtomicU64,
    stopped: AtomicBool,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    interval: Duration,
    arrivals: u64,
    /// Those whose time has come.
    due: Semaphore,
}

impl Pace {
    /// `rate` requests a second, evenly, or without one as many as the workers get done. Begins now.
    pub(super) fn start(time: Duration, rate: Option<f64>) -> Arc<Self> {
        let start = Instant::now();
        let open = rate.map(|rate| {
            let interval = Duration::from_secs_f64(1.0 / rate).max(Duration::from_nanos(1));
            let arrivals = u64::try_from(time.as_nanos() / interval.as_nanos()).unwrap_or(u64::MAX);
            Open { interval, arrivals, due: Semaphore::new(0) }
        });
        let (next, stopped) = (AtomicU64::new(0), AtomicBool::new(false));
        let pace = Arc::new(Self { start, end: start + time, next, stopped, open });
        if pace.open.is_some() {
            // The timers of an async runtime are true to a millisecond, which is longer than many a request takes.
            let pace = Arc::clone(&pace);
            thread::spawn(move || pace.run());
        }
        pace
    }

    pub(super) fn started(&self) -> Instant {
        self.start
    }

    /// Whether its time is over.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.end || self.stopped.load(Ordering::Relaxed)
    }

    /// No further arrivals.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        if let Some(open) = &self.open {
            open.due.close();
        }
    }

    /// The next arrival, when its time has come; `None` when there are no more.
    pub(super) async fn next(&self) -> Option<Arrival> {
        if let Some(open) = &self.open {
            open.due.acquire().await.ok()?.forget();
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            return (index < open.arrivals).then(|| Arrival { index, at: self.time_of(open, index) });
        }
        let at = Instant::now();
        (!self.is_over()).then(|| Arrival { index: self.next.fetch_add(1, Ordering::Relaxed), at })
    }

    fn time_of(&self, open: &Open, index: u64) -> Instant {
        self.start + open.interval.mul_f64(index as f64)
    }

    /// Makes arrivals due at their times.
    fn run(&self) {
        let Some(open) = &self.open else { return };
        let mut index = 0;
        while index < open.arrivals && !self.stopped.load(Ordering::Relaxed) {
            let now = Instant::now();
            let mut due = 0;
            while index < open.arrivals && self.time_of(open, index) <= now {
                (index, due) = (index + 1, due + 1);
            }
            open.due.add_permits(due);
            thread::sleep(self.time_of(open, index).saturating_duration_since(Instant::now()));
        }
        // Whoever still waits sees that there is nothing more.
        open.due.add_permits(Semaphore::MAX_PERMITS / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_open_load_keeps_its_times() {
        let pace = Pace::start(Duration::from_millis(50), Some(1000.0));
        let mut arrivals = Vec::new();
        while let Some(arrival) = pace.next().await {
            assert!(arrival.at <= Instant::now());
            arrivals.push(arrival);
        }
        assert_eq!(arrivals.len(), 50);
        for (index, arrival) in (0..).zip(&arrivals) {
            assert_eq!(arrival.index, index);
            assert_eq!(arrival.at - pace.started(), Duration::from_millis(index));
        }
    }

    #[tokio::test]
    async fn a_closed_load_ends_with_its_time() {
        let pace = Pace::start(Duration::from_millis(5), None);
        let mut last = 0;
        while let Some(arrival) = pace.next().await {
            last = arrival.index;
            assert!(arrival.at < pace.started() + Duration::from_millis(5));
            tokio::task::yield_now().await;
        }
        assert!(last > 0);
    }

    #[tokio::test]
    async fn a_load_can_be_stopped() {
        for rate in [None, Some(10.0)] {
            let pace = Pace::start(Duration::from_secs(3600), rate);
            assert!(pace.next().await.is_some());
            pace.stop();
            assert!(pace.next().await.is_none());
        }
    }
}
