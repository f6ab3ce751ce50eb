//! What storage asks of the process that it runs in: the time of day, numbers that nobody guesses, threads that may
//! wait, and the objects behind an address.
//!
//! Every [`Store`](crate::Store) has one, and whatever works on a store asks it; so a test can run many nodes in one
//! thread, in a time of its own. Time that passes is tokio's, and follows the runtime.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use object_store::ObjectStore;
use tokio::sync::oneshot;
use uuid::Uuid;

/// See the module.
pub trait Environment: fmt::Debug + Send + Sync + 'static {
    /// The time of day.
    fn wall(&self) -> SystemTime;

    /// Bits that no other call gives, in any process, as far as chance goes.
    fn random(&self) -> u128;

    /// Runs a job that waits for files or takes the processor for long: not on an async thread. It runs to its end even
    /// if nobody waits for it any longer.
    fn run(&self, job: Box<dyn FnOnce() + Send>);

    /// The objects at an address; `None`: those that the address names, on a disk of this machine or in a bucket.
    fn objects(&self, _url: &str) -> Option<Arc<dyn ObjectStore>> {
        None
    }
}

/// The process as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process;

impl Process {
    /// For whoever has none.
    pub(crate) fn shared() -> Arc<dyn Environment> {
        Arc::new(Self)
    }
}

impl Environment for Process {
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn random(&self) -> u128 {
        Uuid::new_v4().as_u128()
    }

    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        // Whoever waits for it has a channel of its own.
        drop(tokio::task::spawn_blocking(job));
    }
}

/// A job has ended without a result.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("it panicked")]
pub struct Panicked;

/// Runs a job (see [`Environment::run`]) and waits for its result.
///
/// # Errors
/// [`Panicked`].
pub async fn run<T: Send + 'static>(
    environment: &dyn Environment,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Panicked> {
    let (sender, result) = oneshot::channel();
    // An error says that nobody waits any longer.
    environment.run(Box::new(move || drop(sender.send(job()))));
    result.await.map_err(|_| Panicked)
}

/// An id that nothing else has.
pub(crate) fn new_id(environment: &dyn Environment) -> Uuid {
    uuid::Builder::from_random_bytes(environment.random().to_be_bytes()).into_uuid()
}

/// Milliseconds since 1970.
pub(crate) fn now_millis(environment: &dyn Environment) -> i64 {
    millis(environment.wall())
}

/// The same of a time.
pub(crate) fn millis(at: SystemTime) -> i64 {
    // Default: a time before 1970 is its beginning, one beyond all times their end.
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    // Default: as above.
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// How long ago a moment was, by the time of day; `None` for one that is to come.
pub(crate) fn age(environment: &dyn Environment, at: SystemTime) -> Option<Duration> {
    environment.wall().duration_since(at).ok()
}
