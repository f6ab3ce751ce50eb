//! Threads that may wait, of which only one runs at a time, and the simulation's own none then.
//!
//! A job has a thread of its own, as it has in a process. A task of its node hands it the processor, and has it back when
//! the job has ended or waits; whatever wakes the job wakes that task. So the order in which jobs get on is that of the
//! runtime's tasks, which is the same for the same seed.

use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    task::{Context, Poll, Waker},
    thread::{self, JoinHandle},
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

thread_local! {
    static BATON: RefCell<Option<Baton>> = const { RefCell::new(None) };
}

/// The node was crashed while its job waited.
struct Crashed;

/// Starts a job in the runtime of this thread.
pub(super) fn start(job: Job) {
    let runtime = Handle::current();
    let (turn, turns) = sync_channel::<Waker>(1);
    let (back, backs) = sync_channel(1);
    let thread = thread::spawn(move || {
        let _runtime = runtime.enter();
        let Ok(waker) = turns.recv() else { return };
        let ended = back.clone();
        BATON.set(Some(Baton { waker, turns, back }));
        // What it has to say of a panic it says itself.
        let _ = catch_unwind(AssertUnwindSafe(job));
        drop(BATON.take());
        let _ = ended.send(Turn::Ended);
    });
    tokio::spawn(Driver { turn: Some(turn), backs, thread: Some(thread) });
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
    thread: Option<JoinHandle<()>>,
}

impl Driver {
    fn join(&mut self) {
        drop(self.turn.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let turn = self.turn.as_ref().unwrap();
        if turn.send(context.waker().clone()).is_ok() && matches!(self.backs.recv(), Ok(Turn::Waits)) {
            return Poll::Pending;
        }
        self.join();
        Poll::Ready(())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.join();
    }
}
