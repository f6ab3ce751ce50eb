//! One client's connection: what it may hold at once, and how it is closed.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use tokio::{sync::Semaphore, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{class::ByClass, limits};

/// See the module. Its requests share it.
#[derive(Debug)]
pub(crate) struct Connection {
    id: u64,
    /// For answers that may wait to be read.
    pub(crate) answers: ByClass<Arc<Semaphore>>,
    /// Queries that have not begun to be answered.
    asking: AtomicUsize,
    /// Answers that were given up unread and whose last message it still has to take.
    abandoned: AtomicUsize,
    activity: Mutex<Activity>,
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
            abandoned: AtomicUsize::new(0),
            activity: Mutex::new(Activity { requests: 0, last: Instant::now(), is_leaving: false }),
            leave: CancellationToken::new(),
            close: CancellationToken::new(),
        })
    }

    /// No other connection of this process has it.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// A query comes, which is counted until its answer begins.
    pub(crate) fn asks(self: &Arc<Self>) -> Asking {
        let before = self.asking.fetch_add(1, Ordering::Relaxed);
        Asking { connection: Arc::clone(self), is_alone: before == 0 }
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
    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.connection.asking.fetch_sub(1, Ordering::Relaxed);
    }
}
