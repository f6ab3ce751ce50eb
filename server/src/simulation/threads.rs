//! Threads that may wait, of which only one runs at a time, and the simulation's own none then.
//!
//! A job has a thread of its own, as it has in a process, and as there the next job has it when it has ended. A task of its
//! node hands it the processor, and has it back when the job has ended or waits; whatever wakes the job wakes that task. So
//! the order in which jobs get on is that of the runtime's tasks, which is the same for the same seed.

use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    sync::{
        Mutex,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    task::{Context, Poll, Waker},
    thread,
};

use tokio::runtime::Handle;

use crate::environment::Job;

/// What a job says when it gives the processor back.
enum Turn {
    Waits,
    Ended,
}

/// The job's end.
struct Baton {
    waker: Waker,
    turns: Receiver<Waker>,
    back: SyncSender<Turn>,
}

/// Threads whose jobs have ended: the last is the next to have one.
static IDLE: Mutex<Vec<Worker>> = Mutex::new(Vec::new());

/// A thread that waits for a job.
struct Worker(SyncSender<Assigned>);

/// A job, and what it hears and says.
struct Assigned {
    runtime: Handle,
    job: Job,
    turns: Receiver<Waker>,
    back: SyncSender<Turn>,
}

impl Worker {
    fn new() -> Self {
        let (jobs, assigned) = sync_channel::<Assigned>(1);
        thread::spawn(move || assigned.iter().for_each(Assigned::run));
        Self(jobs)
    }
}

impl Assigned {
    fn run(self) {
        let Self { runtime, job, turns, back } = self;
        match turns.recv() {
            Ok(waker) => {
                let _runtime = runtime.enter();
                BATON.set(Some(Baton { waker, turns, back: back.clone() }));
                // What it has to say of a panic it says itself.
                let _ = catch_unwind(AssertUnwindSafe(job));
                drop(BATON.take());
            }
            Err(_) => drop(job),
        }
        // Behind this the simulation goes on: nothing of the job is left.
        drop(runtime);
        let _ = back.send(Turn::Ended);
    }
}

thread_local! {
    static BATON: RefCell<Option<Baton>> = const { RefCell::new(None) };
}

/// The node was crashed while its job waited.
struct Crashed;

/// Starts a job in the runtime of this thread.
pub(super) fn start(job: Job) {
    let (turn, turns) = sync_channel::<Waker>(1);
    let (back, backs) = sync_channel(1);
    let idle = IDLE.lock().unwrap().pop();
    let worker = idle.unwrap_or_else(Worker::new);
    let assigned = Assigned { runtime: Handle::current(), job, turns, back };
    assert!(worker.0.send(assigned).is_ok(), "a thread waits for jobs for as long as there may be some");
    tokio::spawn(Driver { turn: Some(turn), backs, worker: Some(worker) });
}

/// Waits on the thread of a job.
pub(super) fn block_on(mut future: Pin<&mut (dyn Future<Output = ()> + '_)>) {
    loop {
        let waker = BATON.with_borrow(|baton| baton.as_ref().unwrap().waker.clone());
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            return;
        }
        BATON.with_borrow_mut(|baton| {
            let baton = baton.as_mut().unwrap();
            let _ = baton.back.send(Turn::Waits);
            match baton.turns.recv() {
                Ok(waker) => baton.waker = waker,
                Err(_) => resume_unwind(Box::new(Crashed)),
            }
        });
    }
}

/// The task that hands a job the processor.
struct Driver {
    turn: Option<SyncSender<Waker>>,
    backs: Receiver<Turn>,
    worker: Option<Worker>,
}

impl Driver {
    /// The job has ended; its thread is the next one's.
    fn release(&mut self) {
        IDLE.lock().unwrap().extend(self.worker.take());
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let turn = self.turn.as_ref().unwrap();
        if turn.send(context.waker().clone()).is_ok() && matches!(self.backs.recv(), Ok(Turn::Waits)) {
            return Poll::Pending;
        }
        self.release();
        Poll::Ready(())
    }
}

impl Drop for Driver {
    /// Where the job waits, its node was crashed: it hears of it, and ends.
    fn drop(&mut self) {
        drop(self.turn.take());
        if self.worker.is_some() {
            while matches!(self.backs.recv(), Ok(Turn::Waits)) {}
            self.release();
        }
    }
}
