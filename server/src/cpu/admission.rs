//! Who may run now, who waits for a turn, and who is turned away.
//!
//! Permits are handed out in the order in which they were asked for. A burst waits: it is over when it has been served. A
//! queue that does not empty is another thing: whoever joins it makes all wait longer, in the end for answers that nobody
//! waits for any more, and nothing is gained. So arrivals are counted by windows of time, and after one in which hardly
//! anybody found a permit the queue is taken for a standing one: it may grow until it takes as long as people do not notice,
//! and who comes then is turned away at once, unless it is the only question of its connection: clients that ask one after
//! the other have such queues, and make them no longer. Bursts and standing queues are told apart in controlled delay (Nichols
//! and Jacobson, "Controlling queue delay", 2012); Maurer ("Fail at scale", 2015) describes its use at the door of a server.
//! What takes long anyway is waited for: it is turned away where its turn would come after its deadline.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use crate::{class::Class, limits};

/// A number of permits, and the queue for them.
#[derive(Debug)]
pub(super) struct Admission {
    permits: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    free: usize,
    /// Those that wait, in the order in which they came; some may have gone.
    waiting: VecDeque<oneshot::Sender<Held>>,
    /// How many of them still wait.
    present: usize,
    /// How long a permit is held, on average over the last ones.
    turn: Duration,
    window: Window,
    /// Whether the queue was a standing one in the last window.
    is_standing: bool,
}

/// What was seen since some moment.
#[derive(Debug)]
struct Window {
    since: Instant,
    arrived: u32,
    /// Of these, how many found a permit.
    at_once: u32,
}

impl Window {
    fn new(since: Instant) -> Self {
        Self { since, arrived: 0, at_once: 0 }
    }

    /// Whether those who came have met a queue, but for one in ten.
    fn met_a_queue(&self) -> bool {
        self.arrived > 0 && self.at_once <= self.arrived / 10
    }
}

/// A permit, which is free again when it is dropped.
#[derive(Debug)]
pub(super) struct Held {
    /// `None`: it is another's by now.
    admission: Option<Arc<Admission>>,
    since: Instant,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(admission) = self.admission.take() {
            admission.give_back(self.since.elapsed());
        }
    }
}

/// Why there is no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Too many wait, or for too long.
    Crowded,
    /// It was waited for, and the time is over.
    Late,
}

/// For what a permit is asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ask {
    /// A query that comes; `is_alone`: there is no other one on its connection.
    New { class: Class, is_alone: bool },
    /// What was begun, and is to be ended.
    Begun,
}

impl Admission {
    pub(super) fn new(permits: usize) -> Arc<Self> {
        let inner = Inner {
            free: permits,
            waiting: VecDeque::new(),
            present: 0,
            turn: Duration::ZERO,
            window: Window::new(Instant::now()),
            is_standing: false,
        };
        Arc::new(Self { permits, inner: Mutex::new(inner) })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Permits that nobody holds.
    pub(super) fn free(&self) -> usize {
        self.inner().free
    }

    pub(super) fn waiting(&self) -> usize {
        self.inner().present
    }

    /// Whether it turns away who comes now and is not the only question of its connection.
    pub(super) fn is_crowded(&self, class: Class) -> bool {
        let inner = self.inner();
        inner.free == 0 && self.is_too_long(&inner, class)
    }

    /// How long one more would wait.
    fn wait(&self, inner: &Inner) -> Duration {
        inner.turn.mul_f64((inner.present + 1) as f64 / self.permits as f64)
    }

    /// Whether the queue is a standing one, and too long for a class.
    fn is_too_long(&self, inner: &Inner, class: Class) -> bool {
        let turns_are_short = class == Class::Short || inner.turn <= limits::QUEUE_TURN;
        turns_are_short && inner.is_standing && self.wait(inner) > limits::QUEUE_TARGET
    }

    /// Waits for a permit, for no longer than `until`.
    pub(super) async fn take(self: &Arc<Self>, until: Instant, ask: Ask) -> Result<Held, Refused> {
        let (turn, _waits) = {
            let mut inner = self.inner();
            let now = Instant::now();
            inner.arrives(now);
            if inner.free > 0 {
                inner.free -= 1;
                inner.window.at_once += 1;
                return Ok(Held { admission: Some(Arc::clone(self)), since: now });
            }
            if self.turns_away(&inner, now, until, ask) {
                return Err(Refused::Crowded);
            }
            let (sender, turn) = oneshot::channel();
            inner.waits(sender);
            (turn, Waits(self))
        };
        timeout_at(until, turn).await.ok().and_then(Result::ok).ok_or(Refused::Late)
    }

    fn turns_away(&self, inner: &Inner, now: Instant, until: Instant, ask: Ask) -> bool {
        let is_full = inner.present >= limits::WAITING_QUERIES;
        match ask {
            Ask::New { class, is_alone } => {
                let is_crowded = self.is_too_long(inner, class) && !is_alone;
                let is_hopeless = self.wait(inner) > until.saturating_duration_since(now);
                is_full || is_crowded || (class == Class::Long && is_hopeless)
            }
            Ask::Begun => false,
        }
    }

    fn give_back(self: &Arc<Self>, held: Duration) {
        let now = Instant::now();
        let mut inner = self.inner();
        inner.turn = match inner.turn {
            Duration::ZERO => held,
            turn => (turn * 7 + held) / 8,
        };
        while let Some(next) = inner.waiting.pop_front() {
            match next.send(Held { admission: Some(Arc::clone(self)), since: now }) {
                Ok(()) => return,
                // Whoever it was has gone, and the next one gets it.
                Err(mut unwanted) => unwanted.admission = None,
            }
        }
        inner.free += 1;
    }
}

impl Inner {
    fn arrives(&mut self, now: Instant) {
        let past = now.saturating_duration_since(self.window.since);
        let is_enough = self.window.arrived >= limits::QUEUE_SAMPLE || past >= 10 * limits::QUEUE_WINDOW;
        if past >= limits::QUEUE_WINDOW && is_enough {
            // Nothing is known of a long time in which hardly anybody came.
            let is_known = past < 20 * limits::QUEUE_WINDOW;
            self.is_standing = is_known && self.window.met_a_queue();
            self.window = Window::new(now);
        }
        self.window.arrived += 1;
    }

    fn waits(&mut self, turn: oneshot::Sender<Held>) {
        self.waiting.push_back(turn);
        self.present += 1;
        if self.waiting.len() > 2 * self.present + limits::WAITING_QUERIES {
            self.waiting.retain(|turn| !turn.is_closed());
        }
    }
}

/// Counts itself among those that wait.
struct Waits<'a>(&'a Arc<Admission>);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.inner().present -= 1;
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        task::JoinSet,
        time::{advance, sleep},
    };

    use super::*;

    const SHORT: Ask = Ask::New { class: Class::Short, is_alone: false };
    const LONG: Ask = Ask::New { class: Class::Long, is_alone: true };
    const MILLI: Duration = Duration::from_millis(1);

    fn in_seconds(seconds: u64) -> Instant {
        Instant::now() + Duration::from_secs(seconds)
    }

    /// What a request takes of a processor, of which there is one.
    const WORK: Duration = Duration::from_millis(10);

    /// Requests that come at a pace, and how long each has waited for its permit; `None`: it was turned away.
    async fn load(admission: &Arc<Admission>, requests: usize, every: Duration) -> Vec<Option<Duration>> {
        let processor = Admission::new(1);
        let mut all = Vec::with_capacity(requests);
        for _ in 0..requests {
            let (admission, processor) = (Arc::clone(admission), Arc::clone(&processor));
            all.push(tokio::spawn(async move {
                let came = Instant::now();
                let held = admission.take(in_seconds(60), SHORT).await.ok()?;
                let waited = came.elapsed();
                let working = processor.take(in_seconds(600), Ask::Begun).await;
                sleep(WORK).await;
                drop((working, held));
                Some(waited)
            }));
            sleep(every).await;
        }
        let mut waits = Vec::with_capacity(requests);
        for one in all {
            waits.push(one.await.unwrap());
        }
        waits
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_waits_and_is_served() {
        let admission = Admission::new(4);
        let waits = load(&admission, 400, Duration::ZERO).await;
        assert!(waits.iter().all(Option::is_some));
        assert!(waits.iter().flatten().max().is_some_and(|wait| *wait > WORK * 390));
    }

    /// Twice and ten times what can be served: as much is served as can be, and nobody waits for long.
    #[tokio::test(start_paused = true)]
    async fn a_standing_queue_grows_no_longer() {
        for factor in [2_u32, 10] {
            let admission = Admission::new(4);
            let waits = load(&admission, 4000, WORK / factor).await;
            let (begin, steady) = waits.split_at(1000);
            let longest = begin.iter().flatten().max().copied().unwrap_or_default();
            assert!(longest > WORK * 4, "it began as a burst: {longest:?}");
            let served: Vec<Duration> = steady.iter().flatten().copied().collect();
            let could = 3000 / factor as usize;
            assert!(served.len() >= could * 95 / 100, "{} of {could} served at {factor}x", served.len());
            let longest = served.iter().max().copied().unwrap_or_default();
            assert!(longest <= limits::QUEUE_TARGET + WORK * 4, "{longest:?} at {factor}x");
            // What can be served is, and a burst is again one.
            sleep(4 * limits::QUEUE_WINDOW).await;
            for (requests, every) in [(500, WORK * 10 / 7), (100, Duration::ZERO)] {
                assert!(load(&admission, requests, every).await.iter().all(Option::is_some));
            }
            assert_eq!((admission.free(), admission.waiting()), (4, 0));
        }
    }

    /// Some clients, each of which waits for its answer before it asks again, are no overload.
    #[tokio::test(start_paused = true)]
    async fn clients_that_wait_for_their_answers_are_served() {
        let admission = Admission::new(4);
        let processor = Admission::new(1);
        let mut clients = JoinSet::new();
        for _ in 0..8 {
            let (admission, processor) = (Arc::clone(&admission), Arc::clone(&processor));
            clients.spawn(async move {
                for _ in 0..200 {
                    let held = admission.take(in_seconds(60), SHORT).await.unwrap();
                    let working = processor.take(in_seconds(600), Ask::Begun).await;
                    sleep(WORK).await;
                    drop((working, held));
                }
            });
        }
        clients.join_all().await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_gone_is_passed_over() {
        let admission = Admission::new(1);
        let held = admission.take(in_seconds(1), SHORT).await.unwrap();
        let late = admission.take(Instant::now() + MILLI, Ask::Begun).await;
        assert_eq!(late.unwrap_err(), Refused::Late);
        let same = Arc::clone(&admission);
        let gives_up = tokio::spawn(async move { same.take(in_seconds(60), Ask::Begun).await });
        let same = Arc::clone(&admission);
        let waits = tokio::spawn(async move { same.take(in_seconds(60), Ask::Begun).await });
        while admission.waiting() < 2 {
            sleep(MILLI).await;
        }
        gives_up.abort();
        assert!(gives_up.await.is_err());
        assert_eq!((admission.free(), admission.waiting()), (0, 1));
        drop(held);
        drop(waits.await.unwrap().unwrap());
        assert_eq!((admission.free(), admission.waiting()), (1, 0));
    }

    /// One whose time would be over before its turn is told so at once.
    #[tokio::test(start_paused = true)]
    async fn what_cannot_begin_in_time_is_refused() {
        let admission = Admission::new(1);
        let held = admission.take(in_seconds(1), LONG).await.unwrap();
        advance(Duration::from_secs(2)).await;
        drop(held);
        let _held = admission.take(in_seconds(9), LONG).await.unwrap();
        let same = Arc::clone(&admission);
        let waits = tokio::spawn(async move { same.take(in_seconds(9), LONG).await });
        while admission.waiting() == 0 {
            sleep(MILLI).await;
        }
        let came = Instant::now();
        let refused = admission.take(in_seconds(1), LONG).await.unwrap_err();
        assert_eq!((refused, came.elapsed()), (Refused::Crowded, Duration::ZERO));
        assert_eq!(waits.await.unwrap().unwrap_err(), Refused::Late);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_wait_than_may() {
        let admission = Admission::new(1);
        let _held = admission.take(in_seconds(1), SHORT).await.unwrap();
        let mut all = JoinSet::new();
        for _ in 0..=limits::WAITING_QUERIES {
            let admission = Arc::clone(&admission);
            all.spawn(async move { admission.take(in_seconds(1), SHORT).await.unwrap_err() });
        }
        let all = all.join_all().await;
        assert_eq!(all.iter().filter(|refused| **refused == Refused::Crowded).count(), 1);
    }
}
