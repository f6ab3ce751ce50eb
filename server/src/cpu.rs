//! The CPU's threads: where queries run and columns are encoded, apart from the async threads.
//!
//! There is a pool for each class of queries, and permits of each class. The threads of the long class have a lower
//! priority than all others of the process (`nice`), so that whatever a short query needs, async threads among it, gets
//! a processor at once, and a long query goes on in the share that is always left to it. A short query is one job of
//! its pool, or has a thread of its own where it may wait. A long one has a thread of its own and hands at most
//! [`WINDOW`](basalt_core::limits::WINDOW) blocks at a time to its pool, which takes them in the order in which they
//! come: so long queries take turns.

mod admission;

use std::{
    marker::PhantomData,
    pin::pin,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use basalt_core::{
    error::{Error as EngineError, ErrorKind},
    exec::{Control, Stop},
};
use basalt_proto::v1::ErrorReason;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot,
    },
    time::{Instant, sleep, timeout, timeout_at},
};

use admission::{Admission, Ask, Held, Refused};

use crate::{
    Error,
    class::{ByClass, Class},
    environment::Environment,
    limits,
    long_threads::lower_priority,
    panics::caught,
    queries::{Committing, Listed},
    status::RequestError,
    trace::{self, Entered},
};

/// The pools, and who may use them for a query.
#[derive(Debug)]
pub(crate) struct Cpu {
    lanes: ByClass<Lane>,
    concurrent: usize,
    environment: Arc<dyn Environment>,
}

/// What the queries of one class have.
#[derive(Debug)]
struct Lane {
    pool: Arc<ThreadPool>,
    permits: Arc<Admission>,
    /// For parts of the queries of a cluster. A query that waits for its parts holds a permit of the others, so
    /// that nodes whose queries wait for each other's parts always get on.
    parts: Arc<Admission>,
}

impl Lane {
    fn new(class: Class, threads: usize, concurrent: usize) -> Result<Self, Error> {
        let name = match class {
            Class::Short => "basalt-short",
            Class::Long => "basalt-long",
        };
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(move |i| format!("{name}-{i}"))
            .start_handler(move |_| {
                if class == Class::Long {
                    lower_priority();
                }
            })
            // Jobs catch their panics; of one that does not, whoever waits sees the channel close.
            .panic_handler(|_| tracing::error!("a job on the CPU pool panicked"))
            .build()
            .map_err(|e| Error::Start(e.to_string()))?;
        Ok(Self {
            pool: Arc::new(pool),
            permits: Admission::new(concurrent),
            parts: Admission::new(concurrent),
        })
    }
}

/// The right to run, for one query.
#[derive(Debug)]
pub(crate) struct Permit {
    class: Class,
    _held: Held,
}

impl Cpu {
    pub(crate) fn new(
        threads: usize,
        concurrent: usize,
        environment: Arc<dyn Environment>,
    ) -> Result<Self, Error> {
        let lane = |class| Lane::new(class, threads, concurrent);
        Ok(Self { lanes: ByClass::new(lane(Class::Short)?, lane(Class::Long)?), concurrent, environment })
    }

    fn lane(&self, class: Class) -> &Lane {
        self.lanes.of(class)
    }

    /// Threads of a pool.
    pub(crate) fn threads(&self) -> usize {
        self.lane(Class::Long).pool.current_num_threads()
    }

    /// Queries of each class that may run at once.
    pub(crate) fn concurrent(&self) -> usize {
        self.concurrent
    }

    /// Queries of a class that hold a permit.
    pub(crate) fn running(&self, class: Class) -> usize {
        self.concurrent.saturating_sub(self.lane(class).permits.free())
    }

    /// Queries of a class that wait for a permit.
    pub(crate) fn waiting(&self, class: Class) -> usize {
        self.lane(class).permits.waiting()
    }

    /// A control with which a long query does its work on its pool, and hands its answer out on the thread that runs it.
    /// A short one does all of it there: the way to a pool and back takes longer than others could save it.
    pub(crate) fn spread(&self, _: &MayWait, class: Class, control: Control) -> Control {
        match class {
            Class::Short => control,
            Class::Long => control.with_pool(Arc::clone(&self.lane(class).pool)),
        }
    }

    /// Waits for the permit of a query that has given its own back, on a thread that may wait.
    ///
    /// # Errors
    /// [`ErrorKind::DeadlineExceeded`].
    pub(crate) fn wait_again(
        &self,
        may_wait: &MayWait,
        class: Class,
        deadline: Instant,
    ) -> basalt_core::error::Result<Permit> {
        let permit = may_wait.wait(self.admit_again(class, deadline)).ok();
        permit.ok_or_else(|| EngineError::new(ErrorKind::DeadlineExceeded, "the deadline passed"))
    }

    /// Runs a job of no query. It runs to its end even if nobody waits for it any longer.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RequestError> {
        self.run_as(Class::Long, job).await
    }

    /// The same among the queries of a class.
    pub(crate) async fn run_as<T: Send + 'static>(
        &self,
        class: Class,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RequestError> {
        let (sender, receiver) = oneshot::channel();
        let trace = trace::current();
        let job = move || {
            let _entered = Entered::new(trace);
            // An error says that the caller is gone.
            let _ = sender.send(caught(|| Ok(job())));
        };
        self.environment.on_pool(&self.lane(class).pool, Box::new(job));
        receiver.await.map_err(|_| RequestError::internal())?
    }

    /// Runs a query with its permit, which is free again when it has stopped.
    pub(crate) async fn run_query<T: Send + 'static>(
        &self,
        permit: Permit,
        control: Control,
        job: impl FnOnce(Control) -> Result<T, RequestError> + Send + 'static,
    ) -> Result<T, RequestError> {
        match permit.class {
            Class::Short => {
                let run = move || {
                    let _permit = permit;
                    job(control)
                };
                self.run_as(Class::Short, run).await?
            }
            Class::Long => {
                let pool = Arc::clone(&self.lane(Class::Long).pool);
                let run = move |_: &MayWait| {
                    let _permit = permit;
                    caught(|| job(control.with_pool(pool)))
                };
                on_own_thread_as(&self.environment, Class::Long, run)
                    .await
                    .map_err(|_| RequestError::internal())?
            }
        }
    }

    /// Runs a query of unknown length with a permit of its own. It is told to stop when the deadline passes or when
    /// this future is dropped.
    pub(crate) async fn query<T: Send + 'static>(
        &self,
        deadline: Instant,
        control: Control,
        job: impl FnOnce(&Control) -> Result<T, RequestError> + Send + 'static,
    ) -> Result<T, RequestError> {
        let permit = self.admit(Class::Long, deadline, true).await?;
        let stop = StopOnDrop::new(&control);
        let running = self.run_query(permit, control, move |control| job(&control));
        stop.until(deadline, running).await?
    }

    /// Waits for the permit of a part.
    pub(crate) async fn admit_part(&self, class: Class, deadline: Instant) -> Result<Permit, RequestError> {
        self.begun(&self.lane(class).parts, class, deadline).await
    }

    /// Waits for the permit of a query that has given its own back, or begins another part of its work: it is not turned
    /// away, as what was done for it would be lost.
    pub(crate) async fn admit_again(&self, class: Class, deadline: Instant) -> Result<Permit, RequestError> {
        self.begun(&self.lane(class).permits, class, deadline).await
    }

    async fn begun(
        &self,
        permits: &Arc<Admission>,
        class: Class,
        deadline: Instant,
    ) -> Result<Permit, RequestError> {
        let held = permits.take(deadline, Ask::Begun).await;
        Ok(Permit { class, _held: held.map_err(|_| RequestError::deadline())? })
    }

    /// Waits for a permit: not past the deadline, and a short query not long. One that would wait for nothing is turned
    /// away at once. A client with one question at a time waits in any queue: it makes no other longer.
    pub(crate) async fn admit(
        &self,
        class: Class,
        deadline: Instant,
        is_alone: bool,
    ) -> Result<Permit, RequestError> {
        let until = class.patience(deadline);
        match self.lane(class).permits.take(until, Ask::New { class, is_alone }).await {
            Ok(held) => Ok(Permit { class, _held: held }),
            Err(Refused::Late) if until == deadline => Err(RequestError::deadline()),
            Err(_) => Err(self.overloaded()),
        }
    }

    /// Whether a query of a class that comes now is turned away, unless it is the only question of its connection.
    pub(crate) fn is_crowded(&self, class: Class) -> bool {
        self.lane(class).permits.is_crowded(class)
    }

    /// Why a query is turned away.
    pub(crate) fn overloaded(&self) -> RequestError {
        let message = format!("{} queries run and others wait; try again later", self.concurrent);
        RequestError::new(ErrorReason::Overloaded, message).with("concurrent_queries", self.concurrent as u64)
    }
}

/// Shows that a thread may wait for others: it belongs neither to the runtime nor to a pool, and this cannot leave it.
/// Whatever waits for a client or for another node asks for one.
#[derive(Debug)]
pub(crate) struct MayWait(Arc<dyn Environment>, PhantomData<*const ()>);

impl MayWait {
    /// Waits.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.wait(future)
    }
}

/// Runs a job that takes little of the CPU on a thread that may wait.
pub(crate) fn on_own_thread<T: Send + 'static>(
    environment: &Arc<dyn Environment>,
    job: impl FnOnce(&MayWait) -> T + Send + 'static,
) -> oneshot::Receiver<T> {
    on_own_thread_as(environment, Class::Short, job)
}

/// Threads of [`on_own_thread`], of all servers of the process.
static OWN_THREADS: AtomicUsize = AtomicUsize::new(0);

struct OwnThread;

impl OwnThread {
    fn new() -> Self {
        OWN_THREADS.fetch_add(1, Ordering::AcqRel);
        Self
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        OWN_THREADS.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Waits, for a moment, until queries that were cancelled have left their threads: they wait with the help of the runtime,
/// which panics when it ends meanwhile.
pub(crate) async fn threads_ended() {
    let ended = async {
        while OWN_THREADS.load(Ordering::Acquire) > 0 {
            sleep(limits::CONTROL_INTERVAL).await;
        }
    };
    if timeout(limits::CLOSE_TIMEOUT, ended).await.is_err() {
        tracing::warn!(
            threads = OWN_THREADS.load(Ordering::Acquire),
            "queries that were cancelled still run"
        );
    }
}

/// The same with the priority of a class. Where no thread can be had the job is dropped.
pub(crate) fn on_own_thread_as<T: Send + 'static>(
    environment: &Arc<dyn Environment>,
    class: Class,
    job: impl FnOnce(&MayWait) -> T + Send + 'static,
) -> oneshot::Receiver<T> {
    let (sender, receiver) = oneshot::channel();
    let (token, counted, trace) = (Arc::clone(environment), OwnThread::new(), trace::current());
    let run = move || {
        let _counted = counted;
        let _entered = Entered::new(trace);
        // An error says that nobody waits for it.
        let _ = sender.send(job(&MayWait(token, PhantomData)));
    };
    if let Err(error) = environment.on_own_thread(class, Box::new(run)) {
        tracing::error!(%error, "no thread for a query");
    }
    receiver
}

/// Hands something over to a task that may be slow.
///
/// # Errors
/// [`ErrorKind::Cancelled`] when nobody listens any longer, [`ErrorKind::DeadlineExceeded`] when whoever does is too
/// slow.
pub(crate) fn hand_over<T>(
    may_wait: &MayWait,
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
    match may_wait.wait(timeout_at(until, sender.send(item))) {
        Ok(sent) => sent.map_err(|_| cancelled()),
        Err(_) => Err(EngineError::new(ErrorKind::DeadlineExceeded, "the client read the answer too slowly")),
    }
}

/// Waits for what a request needs, until its deadline or until its control says that it is over.
pub(crate) async fn until_stopped<T>(
    control: &Control,
    deadline: Instant,
    work: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, RequestError> {
    let stopped = async {
        loop {
            sleep(limits::CONTROL_INTERVAL).await;
            if let Err(error) = control.check() {
                return error;
            }
        }
    };
    tokio::select! {
        biased;
        answer = timeout_at(deadline, work) => answer.unwrap_or_else(|_| Err(RequestError::deadline())),
        error = stopped => Err(error.into()),
    }
}

/// Nanoseconds since it was first asked, by the processor's own clock on whatever thread: they are shown, and nothing is
/// decided by them.
pub(crate) fn clock() -> u64 {
    static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Cancels what still runs when its caller goes away; without effect on what is over.
#[derive(Debug)]
pub(crate) struct StopOnDrop {
    pub(crate) stop: Stop,
    /// Where people see it, and stop it.
    listed: Option<Listed>,
}

impl StopOnDrop {
    pub(crate) fn new(control: &Control) -> Self {
        Self { stop: control.stop().clone(), listed: None }
    }

    /// For work that has no control.
    pub(crate) fn unseen() -> Self {
        Self { stop: Stop::default(), listed: None }
    }

    /// The same for a query that people see.
    pub(crate) fn of_query(listed: Listed, control: &Control) -> Self {
        Self { stop: control.stop().clone(), listed: Some(listed) }
    }

    /// How it is seen, where it is.
    #[cfg(feature = "sql")]
    pub(crate) fn listed(&self) -> Option<&Listed> {
        self.listed.as_ref()
    }

    /// Waits until somebody has it stopped.
    pub(crate) async fn cancelled(&self) -> RequestError {
        match &self.listed {
            Some(listed) => listed.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Waits for what it stops, until the deadline.
    pub(crate) async fn until<T>(
        &self,
        deadline: Instant,
        work: impl Future<Output = T>,
    ) -> Result<T, RequestError> {
        let mut work = pin!(work);
        let (over, is_late) = tokio::select! {
            biased;
            done = timeout_at(deadline, &mut work) => match done {
                Ok(done) => return Ok(done),
                Err(_) => (RequestError::deadline(), true),
            },
            error = self.cancelled() => (error, false),
        };
        // Default: what is not listed writes nothing.
        let committing = self.listed.as_ref().map(Listed::committing).unwrap_or_default();
        if !committing.give_up() {
            return Committing::outcome(work, over.message()).await;
        }
        if is_late {
            self.stop.expire();
        }
        Err(over)
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.stop.cancel();
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
    use std::{sync::mpsc, time::Duration};

    use super::*;
    use crate::environment::process;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(30)
    }

    /// The current thread's priority, as Linux tells it: the greater, the lower.
    #[cfg(target_os = "linux")]
    fn niceness() -> i32 {
        rustix::process::getpriority_process(None).unwrap()
    }

    #[tokio::test]
    async fn a_job_that_panics_gives_its_permit_back() {
        let cpu = Cpu::new(1, 1, process()).unwrap();
        for class in [Class::Short, Class::Long].into_iter().cycle().take(6) {
            let permit = cpu.admit(class, soon(), true).await.unwrap();
            let panics = |_: Control| -> Result<(), RequestError> { panic!("wanted") };
            let error = cpu.run_query(permit, Control::default(), panics).await.unwrap_err();
            assert_eq!(error.reason(), "INTERNAL");
        }
        assert_eq!(cpu.query(soon(), Control::default(), |_| Ok(5)).await.unwrap(), 5);
        assert_eq!((cpu.running(Class::Short), cpu.running(Class::Long)), (0, 0));
    }

    #[tokio::test]
    async fn a_short_query_runs_while_long_ones_have_all_that_is_theirs() {
        let cpu = Arc::new(Cpu::new(1, 1, process()).unwrap());
        let (end, ended) = mpsc::channel::<()>();
        // The thread of the pool is taken, the permit of queries, that of parts, and others wait for them.
        let held = cpu.admit(Class::Long, soon(), true).await.unwrap();
        let part = cpu.admit_part(Class::Long, soon()).await.unwrap();
        let same = Arc::clone(&cpu);
        let busy = tokio::spawn(async move { same.run(move || ended.recv()).await });
        let same = Arc::clone(&cpu);
        let waits = tokio::spawn(async move { same.query(soon(), Control::default(), |_| Ok(())).await });
        while cpu.waiting(Class::Long) == 0 {
            tokio::task::yield_now().await;
        }
        for _ in 0..3 {
            let permit = cpu.admit(Class::Short, soon(), true).await.unwrap();
            assert_eq!(cpu.run_query(permit, Control::default(), |_| Ok(7)).await.unwrap(), 7);
            let permit = cpu.admit_part(Class::Short, soon()).await.unwrap();
            assert_eq!(cpu.run_query(permit, Control::default(), |_| Ok(8)).await.unwrap(), 8);
        }
        assert_eq!((cpu.running(Class::Short), cpu.waiting(Class::Long)), (0, 1));
        drop((end, held, part));
        assert!(busy.await.unwrap().unwrap().is_err());
        waits.await.unwrap().unwrap();
    }

    /// Long queries share the pool by turns: none of them is a job of the pool as a whole.
    #[tokio::test]
    async fn a_long_query_has_a_thread_of_its_own() {
        let cpu = Cpu::new(1, 2, process()).unwrap();
        for (class, in_pool) in [(Class::Short, true), (Class::Long, false)] {
            let permit = cpu.admit(class, soon(), true).await.unwrap();
            let where_it_runs = |_: Control| Ok(rayon::current_thread_index().is_some());
            let told = cpu.run_query(permit, Control::default(), where_it_runs).await.unwrap();
            assert_eq!(told, in_pool, "{class:?}");
        }
    }

    /// Nobody who was there first is passed by somebody who came later.
    #[tokio::test]
    async fn long_queries_are_admitted_in_their_order() {
        let cpu = Arc::new(Cpu::new(1, 1, process()).unwrap());
        let first = cpu.admit(Class::Long, soon(), true).await.unwrap();
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let mut all = tokio::task::JoinSet::new();
        for n in 0..100 {
            let (cpu_of, order_of) = (Arc::clone(&cpu), Arc::clone(&order));
            all.spawn(async move {
                let note = move |_: &Control| {
                    order_of.lock().unwrap().push(n);
                    Ok(())
                };
                cpu_of.query(soon(), Control::default(), note).await
            });
            while cpu.waiting(Class::Long) <= n {
                tokio::task::yield_now().await;
            }
        }
        drop(first);
        while let Some(done) = all.join_next().await {
            done.unwrap().unwrap();
        }
        assert_eq!(*order.lock().unwrap(), Vec::from_iter(0..100));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_threads_of_long_queries_have_a_lower_priority() {
        let cpu = Cpu::new(1, 1, process()).unwrap();
        let here = niceness();
        let lower = (here + limits::LONG_NICE).min(19);
        for (class, wanted) in [(Class::Short, here), (Class::Long, lower)] {
            assert_eq!(cpu.run_as(class, niceness).await.unwrap(), wanted, "{class:?}: the pool");
            let own = on_own_thread_as(&process(), class, |_| niceness()).await.unwrap();
            assert_eq!(own, wanted, "{class:?}: a thread of its own");
            let permit = cpu.admit(class, soon(), true).await.unwrap();
            let query = cpu.run_query(permit, Control::default(), |_| Ok(niceness())).await.unwrap();
            assert_eq!(query, wanted, "{class:?}: a query");
        }
        assert_eq!(niceness(), here);
    }
}
