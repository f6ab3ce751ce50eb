//! The threads that long queries run on: they have a lower priority, and are used again.
//!
//! A thread that ends leaves memory behind, which its allocator keeps for the next: pages in which others still hold
//! something, and those that it had at hand. So a thread that is done waits for the next query for a while, and few
//! wait at once.

use std::{
    collections::VecDeque,
    io,
    sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use crate::limits;

/// Lets all other threads of the process go first. What is not Linux has no priorities of threads.
pub(crate) fn lower_priority() {
    #[cfg(target_os = "linux")]
    if let Err(error) = lower() {
        tracing::warn!(%error, "long queries run with the priority of short ones");
    }
}

/// Lower than the process by so much, however low the thread is that has begun this one, and whose priority it has.
#[cfg(target_os = "linux")]
fn lower() -> rustix::io::Result<()> {
    use rustix::process::{getpid, getpriority_process, setpriority_process};
    let lowest = getpriority_process(Some(getpid()))? + limits::LONG_NICE;
    // Where there is no process it is of this thread.
    if getpriority_process(None)? == lowest { Ok(()) } else { setpriority_process(None, lowest) }
}

/// What a thread does.
type Job = Box<dyn FnOnce() + Send>;

/// Those of the process.
pub(crate) static LONG_THREADS: LazyLock<LongThreads> = LazyLock::new(LongThreads::default);

/// See the module.
#[derive(Default)]
pub(crate) struct LongThreads {
    state: Mutex<State>,
    /// There is a job for a thread that waits.
    given: Condvar,
}

#[derive(Default)]
struct State {
    /// Each of them has a thread that waits for it.
    jobs: VecDeque<Job>,
    /// Threads that wait and have no job yet.
    idle: usize,
}

impl LongThreads {
    /// Runs a job on a thread that waits, or on a new one: none waits for another.
    ///
    /// # Errors
    /// Where no thread can be had; the job is dropped.
    pub(crate) fn run(&'static self, job: Job) -> io::Result<()> {
        let mut state = self.lock();
        if state.idle > 0 {
            state.idle -= 1;
            state.jobs.push_back(job);
            drop(state);
            self.given.notify_one();
            return Ok(());
        }
        drop(state);
        let thread = thread::Builder::new().name("basalt-long".to_owned()).spawn(move || {
            lower_priority();
            job();
            while let Some(job) = self.next() {
                job();
            }
        });
        thread.map(drop)
    }

    /// The next job; `None` when the thread is to end: nobody has given it one for long, or enough others wait.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        if state.idle >= limits::SPARE_LONG_THREADS {
            return None;
        }
        state.idle += 1;
        let mut patience = limits::SPARE_LONG_THREAD_AGE;
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if patience.is_zero() {
                state.idle -= 1;
                return None;
            }
            let (woken, timeout) =
                self.given.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if timeout.timed_out() {
                patience = Duration::ZERO;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, sync::mpsc};

    use super::*;

    fn threads() -> &'static LongThreads {
        Box::leak(Box::default())
    }

    /// Runs a job and waits until its thread waits again.
    fn thread_of(threads: &'static LongThreads) -> thread::ThreadId {
        let (sender, receiver) = mpsc::channel();
        let before = threads.lock().idle;
        threads.run(Box::new(move || sender.send(thread::current().id()).unwrap())).unwrap();
        let id = receiver.recv().unwrap();
        while threads.lock().idle < before.max(1) {
            thread::yield_now();
        }
        id
    }

    #[test]
    fn queries_one_after_the_other_have_one_thread() {
        let threads = threads();
        let ids: HashSet<_> = (0..100).map(|_| thread_of(threads)).collect();
        assert_eq!(ids.len(), 1);
    }

    /// A thread has the priority of the one that has begun it.
    #[cfg(target_os = "linux")]
    #[test]
    fn threads_of_long_queries_begin_others_that_are_no_lower() {
        use rustix::process::{getpid, getpriority_process};
        let lowered = || {
            lower_priority();
            getpriority_process(None).unwrap()
        };
        let both = thread::spawn(move || (lowered(), thread::spawn(lowered).join().unwrap()));
        let expected = getpriority_process(Some(getpid())).unwrap() + limits::LONG_NICE;
        assert_eq!(both.join().unwrap(), (expected, expected));
    }

    /// Nobody waits for the thread of another, and few threads stay.
    #[test]
    fn queries_at_once_have_threads_of_their_own() {
        let threads = threads();
        let n = 4 * limits::SPARE_LONG_THREADS;
        let barrier = std::sync::Arc::new(std::sync::Barrier::new(n + 1));
        for _ in 0..n {
            let barrier = std::sync::Arc::clone(&barrier);
            threads
                .run(Box::new(move || {
                    barrier.wait();
                }))
                .unwrap();
        }
        barrier.wait();
        while threads.lock().idle < limits::SPARE_LONG_THREADS {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(50));
        assert_eq!(threads.lock().idle, limits::SPARE_LONG_THREADS);
        assert!(threads.lock().jobs.is_empty());
    }
}
