//! The CPU pool: where queries run and columns are encoded, apart from the async threads.

use std::{
    marker::PhantomData,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use basalt_core::{
    error::{Error as EngineError, ErrorKind},
    exec::Control,
};
use basalt_proto::v1::ErrorReason;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::{
    runtime::Handle,
    sync::{
        OwnedSemaphorePermit, Semaphore,
        mpsc::{self, error::TrySendError},
        oneshot,
    },
    task::{JoinHandle, spawn_blocking},
    time::{sleep, timeout_at},
};

use crate::{Error, limits, panics::caught, status::Fault};

/// The pool, and who may use it for a query.
#[derive(Debug)]
pub(crate) struct Cpu {
    pool: Arc<ThreadPool>,
    permits: Arc<Semaphore>,
    /// For parts of the queries of a cluster. A query that waits for its parts holds a permit of the others, so
    /// that nodes whose queries wait for each other's parts always get on.
    parts: Arc<Semaphore>,
    concurrent: usize,
    waiting: AtomicUsize,
}

impl Cpu {
    pub(crate) fn new(threads: usize, concurrent: usize) -> Result<Self, Error> {
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("basalt-cpu-{i}"))
            // Jobs catch their panics; of one that does not, whoever waits sees the channel close.
            .panic_handler(|_| tracing::error!("a job on the CPU pool panicked"))
            .build()
            .map_err(|e| Error::Start(e.to_string()))?;
        Ok(Self {
            pool: Arc::new(pool),
            permits: Arc::new(Semaphore::new(concurrent)),
            parts: Arc::new(Semaphore::new(concurrent)),
            concurrent,
            waiting: AtomicUsize::new(0),
        })
    }

    /// Queries that may run at once.
    pub(crate) fn concurrent(&self) -> usize {
        self.concurrent
    }

    /// Queries that hold a permit.
    pub(crate) fn running(&self) -> usize {
        self.concurrent.saturating_sub(self.permits.available_permits())
    }

    /// Queries that wait for a permit.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Does a job on the pool, for a thread that may wait for it.
    pub(crate) fn install<T: Send>(&self, _: &MayWait, job: impl FnOnce() -> T + Send) -> T {
        self.pool.install(job)
    }

    /// A control with which a query does its work on the pool, and hands its answer out on the thread that runs it.
    pub(crate) fn spread(&self, _: &MayWait, control: Control) -> Control {
        control.with_pool(Arc::clone(&self.pool))
    }

    /// Waits for the permit of a query that has given its own back.
    ///
    /// # Errors
    /// [`ErrorKind::DeadlineExceeded`].
    pub(crate) fn admit_again(
        &self,
        _: &MayWait,
        deadline: Instant,
    ) -> basalt_core::error::Result<OwnedSemaphorePermit> {
        let permit = timeout_at(deadline.into(), Arc::clone(&self.permits).acquire_owned());
        let permit = Handle::current().block_on(permit).ok().and_then(Result::ok);
        permit.ok_or_else(|| EngineError::new(ErrorKind::DeadlineExceeded, "the deadline passed"))
    }

    /// Runs a job. It runs to its end even if nobody waits for it any longer.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let (sender, receiver) = oneshot::channel();
        self.pool.spawn(move || {
            // An error says that the caller is gone.
            let _ = sender.send(caught(|| Ok(job())));
        });
        receiver.await.map_err(|_| Fault::internal())?
    }

    /// Runs a query with a permit of its own. It is told to stop when the deadline passes or when this
    /// future is dropped; the permit is free again when it has stopped.
    pub(crate) async fn query<T: Send + 'static>(
        &self,
        deadline: Instant,
        control: Control,
        job: impl FnOnce(&Control) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let permit = self.admit(deadline).await?;
        let stop = StopOnDrop(control.clone());
        let running = self.run(move || {
            let _permit = permit;
            job(&control)
        });
        stop.until(deadline, running).await??
    }

    /// Waits for the permit of a part.
    pub(crate) async fn admit_part(&self, deadline: Instant) -> Result<OwnedSemaphorePermit, Fault> {
        let permit = timeout_at(deadline.into(), Arc::clone(&self.parts).acquire_owned()).await;
        permit.map_err(|_| Fault::deadline())?.map_err(|_| Fault::internal())
    }

    /// Waits for a permit: not past the deadline, not long, and not with too many others.
    pub(crate) async fn admit(&self, deadline: Instant) -> Result<OwnedSemaphorePermit, Fault> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Ok(permit);
        }
        let overloaded = || {
            let message = format!("{} queries run and others wait; try again later", self.concurrent);
            Fault::new(ErrorReason::Overloaded, message).with("concurrent_queries", self.concurrent as u64)
        };
        let waiting = Waiting::new(&self.waiting);
        if waiting.before >= limits::WAITING_QUERIES {
            return Err(overloaded());
        }
        let until = deadline.min(Instant::now() + limits::QUEUE_TIMEOUT);
        match timeout_at(until.into(), Arc::clone(&self.permits).acquire_owned()).await {
            Ok(permit) => permit.map_err(|_| Fault::internal()),
            Err(_) if until == deadline => Err(Fault::deadline()),
            Err(_) => Err(overloaded()),
        }
    }
}

/// Shows that a thread may wait for others: it belongs neither to the runtime nor to the pool, and this cannot leave it.
/// Whatever waits for a client or for another node asks for one.
#[derive(Debug)]
pub(crate) struct MayWait(PhantomData<*const ()>);

/// Runs a job on a thread that may wait.
pub(crate) fn on_own_thread<T: Send + 'static>(
    job: impl FnOnce(&MayWait) -> T + Send + 'static,
) -> JoinHandle<T> {
    spawn_blocking(move || job(&MayWait(PhantomData)))
}

/// Hands something over to a task that may be slow.
///
/// # Errors
/// [`ErrorKind::Cancelled`] when nobody listens any longer, [`ErrorKind::DeadlineExceeded`] when whoever does is too
/// slow.
pub(crate) fn hand_over<T>(
    _: &MayWait,
    sender: &mpsc::Sender<T>,
    item: T,
    deadline: Instant,
) -> basalt_core::error::Result<()> {
    let cancelled = || EngineError::new(ErrorKind::Cancelled, "the client gave up");
    let item = match sender.try_send(item) {
        Ok(()) => return Ok(()),
        Err(TrySendError::Full(item)) => item,
        Err(TrySendError::Closed(_)) => return Err(cancelled()),
    };
    let until = deadline.min(Instant::now() + limits::SLOW_READER_TIMEOUT);
    match Handle::current().block_on(timeout_at(until.into(), sender.send(item))) {
        Ok(sent) => sent.map_err(|_| cancelled()),
        Err(_) => Err(EngineError::new(ErrorKind::DeadlineExceeded, "the client read the answer too slowly")),
    }
}

/// Waits for what a request needs, until its deadline or until its control says that it is over.
pub(crate) async fn until_stopped<T>(
    control: &Control,
    deadline: Instant,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let stopped = async {
        loop {
            sleep(limits::CONTROL_INTERVAL).await;
            if let Err(error) = control.check() {
                return error;
            }
        }
    };
    tokio::select! {
        answer = timeout_at(deadline.into(), work) => answer.unwrap_or_else(|_| Err(Fault::deadline())),
        error = stopped => Err(error.into()),
    }
}

/// Nanoseconds since it was first asked.
pub(crate) fn clock() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Cancels what still runs when its caller goes away; without effect on what is over.
#[derive(Debug)]
pub(crate) struct StopOnDrop(pub(crate) Control);

impl StopOnDrop {
    /// Waits for what it stops, until the deadline.
    pub(crate) async fn until<T>(
        &self,
        deadline: Instant,
        work: impl Future<Output = T>,
    ) -> Result<T, Fault> {
        timeout_at(deadline.into(), work).await.map_err(|_| {
            self.0.expire();
            Fault::deadline()
        })
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Counts itself among those that wait.
pub(crate) struct Waiting<'a> {
    count: &'a AtomicUsize,
    pub(crate) before: usize,
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(count: &'a AtomicUsize) -> Self {
        Self { count, before: count.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_job_that_panics_gives_its_permit_back() {
        let cpu = Cpu::new(1, 1).unwrap();
        let deadline = Instant::now() + std::time::Duration::from_secs(30);
        for _ in 0..3 {
            let panics = |_: &Control| -> Result<(), Fault> { panic!("wanted") };
            let fault = cpu.query(deadline, Control::default(), panics).await.unwrap_err();
            assert_eq!(fault.reason(), "INTERNAL");
        }
        assert_eq!(cpu.query(deadline, Control::default(), |_| Ok(5)).await.unwrap(), 5);
        assert_eq!(cpu.running(), 0);
    }
}
