//! One client's connection: what it may hold at once, and how it is closed.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use tokio::{sync::Semaphore, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    class::{ByClass, Class},
    cpu::{Cpu, Permit},
    limits,
    status::RequestError,
};

/// See the module. Its requests share it.
#[derive(Debug)]
pub(crate) struct Connection {
    id: u64,
    /// For answers that may wait to be read.
    pub(crate) answers: ByClass<Arc<Semaphore>>,
    /// Queries that have not begun to be answered.
    asking: AtomicUsize,
    /// What was turned away of them.
    turned_away: Mutex<Option<TurnedAway>>,
    /// Until when nothing is read from it.
    pause: Mutex<Option<Instant>>,
    /// Answers that were given up unread and whose last message it still has to take.
    abandoned: AtomicUsize,
    activity: Mutex<Activity>,
    /// By the name that it gave, and the number that it has for its client.
    #[cfg(feature = "sql")]
    client: std::sync::OnceLock<(String, i32)>,
    leave: CancellationToken,
    close: CancellationToken,
}

#[derive(Debug)]
struct Activity {
    /// Requests under way.
    requests: usize,
    /// When there was one last.
    last: Instant,
    /// There may be no more.
    is_leaving: bool,
}

impl Connection {
    pub(crate) fn new() -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let answers = || Arc::new(Semaphore::new(limits::CONNECTION_ANSWERS));
        Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            answers: ByClass::new(answers(), answers()),
            asking: AtomicUsize::new(0),
            turned_away: Mutex::new(None),
            pause: Mutex::new(None),
            abandoned: AtomicUsize::new(0),
            activity: Mutex::new(Activity { requests: 0, last: Instant::now(), is_leaving: false }),
            #[cfg(feature = "sql")]
            client: std::sync::OnceLock::new(),
            leave: CancellationToken::new(),
            close: CancellationToken::new(),
        })
    }

    /// No other connection of this process has it.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Its client has said who it is.
    #[cfg(feature = "sql")]
    pub(crate) fn is_of(&self, user: &str, number: i32) {
        self.client.get_or_init(|| (user.to_owned(), number));
    }

    /// By the name that it gave, and the number that it has for its client.
    #[cfg(feature = "sql")]
    pub(crate) fn client(&self) -> Option<&(String, i32)> {
        self.client.get()
    }

    /// A query comes, which is counted until its answer begins.
    pub(crate) fn asks(self: &Arc<Self>) -> Asking {
        let before = self.asking.fetch_add(1, Ordering::Relaxed);
        Asking { connection: Arc::clone(self), is_alone: before == 0 }
    }

    /// Whether a query that comes now is turned away before it is read. To read and bind it, and so to see whether it is one of
    /// those that need no turn, costs more than many a query does: where queries of this connection were turned away one
    /// after the other, the next ones are taken for their like, but for one in some.
    pub(crate) fn is_turned_away(&self, cpu: &Cpu) -> bool {
        if self.asking.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut turned_away = self.turned_away();
        let known = turned_away.as_mut().filter(|known| {
            known.queries >= limits::ALIKE_QUERIES && known.last.elapsed() < limits::ALIKE_FOR
        });
        let Some(known) = known.filter(|known| cpu.is_crowded(known.class)) else { return false };
        known.unread += 1;
        let is_turned_away = !known.unread.is_multiple_of(limits::ALIKE_UNREAD);
        drop(turned_away);
        if is_turned_away {
            self.paused().get_or_insert_with(|| Instant::now() + limits::READ_PAUSE);
        }
        is_turned_away
    }

    /// Until when nothing is to be read from it, for queries that came were turned away unread. It is told once.
    pub(crate) fn pause(&self) -> Option<Instant> {
        self.paused().take()
    }

    fn paused(&self) -> MutexGuard<'_, Option<Instant>> {
        self.pause.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the permit of a class. A query that is the only one of its connection is not turned away for others that
    /// wait.
    pub(crate) async fn admit(
        &self,
        cpu: &Cpu,
        class: Class,
        deadline: Instant,
        is_alone: bool,
    ) -> Result<Permit, RequestError> {
        let permit = cpu.admit(class, deadline, is_alone).await;
        if permit.as_ref().is_err_and(|error| error.reason() == OVERLOADED) {
            let (mut turned_away, last) = (self.turned_away(), Instant::now());
            let is_same =
                |known: &&mut TurnedAway| known.class == class && known.last.elapsed() < limits::ALIKE_FOR;
            match turned_away.as_mut().filter(is_same) {
                Some(known) => (known.queries, known.last) = (known.queries.saturating_add(1), last),
                None => *turned_away = Some(TurnedAway { class, queries: 1, last, unread: 0 }),
            }
        }
        permit
    }

    /// A query needed no turn among the long ones: others of this connection may be like it.
    pub(crate) fn was_light(&self) {
        *self.turned_away() = None;
    }

    fn turned_away(&self) -> MutexGuard<'_, Option<TurnedAway>> {
        self.turned_away.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request is under way as long as this is there; `None`: the connection is leaving, and has given its place away.
    pub(crate) fn visit(self: &Arc<Self>) -> Option<Arc<Visit>> {
        let mut activity = self.activity();
        if activity.is_leaving {
            return None;
        }
        activity.requests += 1;
        Some(Arc::new(Visit(Arc::clone(self))))
    }

    /// Since when no request has been under way; `None`: one is.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let activity = self.activity();
        (activity.requests == 0).then_some(activity.last)
    }

    fn activity(&self) -> MutexGuard<'_, Activity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancelled when the connection is to end, for it was idle.
    pub(crate) fn left(&self) -> CancellationToken {
        self.leave.clone()
    }

    /// Has it end, unless a request has come meanwhile.
    pub(crate) fn leave(&self) -> bool {
        let mut activity = self.activity();
        activity.is_leaving |= activity.requests == 0;
        if activity.is_leaving {
            self.leave.cancel();
        }
        activity.is_leaving
    }

    /// Cancelled when the connection is to be closed.
    pub(crate) fn closed(&self) -> CancellationToken {
        self.close.clone()
    }

    /// Closes it, with all of its streams.
    pub(crate) fn close(&self) {
        self.close.cancel();
    }

    /// An answer was given up. What is on its way stays in memory until the client takes it, so a connection with many
    /// of them is closed.
    pub(crate) fn abandon(&self) {
        if self.abandoned.fetch_add(1, Ordering::Relaxed) >= limits::CONNECTION_ABANDONED {
            self.close();
        }
    }

    /// The client has taken what was left of such an answer, or has reset it.
    pub(crate) fn settle(&self) {
        self.abandoned.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether it has answers that were given up.
    pub(crate) fn has_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed) > 0
    }
}

/// The reason of who is turned away.
const OVERLOADED: &str = "OVERLOADED";

/// Queries of one class that were turned away, with none in between that needed no turn.
#[derive(Debug)]
struct TurnedAway {
    class: Class,
    queries: u32,
    last: Instant,
    /// Turned away since without being read.
    unread: u32,
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Visit(Arc<Connection>);

impl Drop for Visit {
    fn drop(&mut self) {
        let mut activity = self.0.activity();
        activity.requests -= 1;
        activity.last = Instant::now();
    }
}

/// A query that has not begun to be answered.
#[derive(Debug)]
pub(crate) struct Asking {
    connection: Arc<Connection>,
    is_alone: bool,
}

impl Asking {
    /// Whether there was no other one on its connection when it came.
    #[cfg(feature = "sql")]
    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Waits for the permit of a class, as [`Connection::admit`] does.
    pub(crate) async fn admit(
        &self,
        cpu: &Cpu,
        class: Class,
        deadline: Instant,
    ) -> Result<Permit, RequestError> {
        self.connection.admit(cpu, class, deadline, self.is_alone).await
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.connection.asking.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        task::{JoinSet, yield_now},
        time::advance,
    };

    use super::*;
    use crate::environment::process;

    #[tokio::test(start_paused = true)]
    async fn queries_like_those_that_are_turned_away_are_not_read() {
        let cpu = Arc::new(Cpu::new(1, 1, process()).unwrap());
        let deadline = Instant::now() + Duration::from_secs(60);
        // A turn takes 20 ms, and 20 wait.
        let first = cpu.admit(Class::Long, deadline, true).await;
        advance(Duration::from_millis(20)).await;
        drop(first);
        let held = cpu.admit(Class::Long, deadline, true).await;
        let mut waiting = JoinSet::new();
        for _ in 0..20 {
            let cpu = Arc::clone(&cpu);
            waiting.spawn(async move { cpu.admit(Class::Long, deadline, true).await.map(drop) });
        }
        yield_now().await;
        advance(limits::QUEUE_WINDOW).await;

        let (flooding, other) = (Connection::new(), Connection::new());
        let (asking, _other) = (flooding.asks(), other.asks());
        let turn_away = async || {
            for _ in 0..limits::ALIKE_QUERIES {
                assert!(!flooding.is_turned_away(&cpu), "few say nothing");
                flooding.admit(&cpu, Class::Long, deadline, false).await.unwrap_err();
            }
            assert!(flooding.is_turned_away(&cpu));
        };
        turn_away().await;
        let unread = (1..2 * limits::ALIKE_UNREAD).filter(|_| flooding.is_turned_away(&cpu)).count();
        assert_eq!(unread, 2 * limits::ALIKE_UNREAD as usize - 3, "one in {}", limits::ALIKE_UNREAD);
        assert!(!other.is_turned_away(&cpu), "it has asked nothing of the kind");

        flooding.was_light();
        turn_away().await;
        advance(limits::ALIKE_FOR).await;
        assert!(!flooding.is_turned_away(&cpu), "that is long ago");

        flooding.was_light();
        turn_away().await;
        drop(asking);
        assert!(!flooding.is_turned_away(&cpu), "it is the only question");

        let _asking = flooding.asks();
        assert!(flooding.is_turned_away(&cpu));
        waiting.shutdown().await;
        drop(held);
        assert!(!flooding.is_turned_away(&cpu), "nobody waits");
    }
}
