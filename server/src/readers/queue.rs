//! The queue of an answer's pieces, from the query that makes them to the connection that they leave by.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use basalt_core::{
    error::{Error, ErrorKind, Result},
    exec::Stop,
};
use basalt_proto::v1 as pb;
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use super::{Readers, Slot};
use crate::{class::Class, connection::Connection, cpu::MayWait, limits, status::RequestError};

/// Messages that belong together, in order.
pub(crate) type Piece = VecDeque<pb::QueryResponse>;

/// The rows of an answer, and those that the filter selected.
pub(crate) type Counts = (u64, u64);

/// See the module.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) class: Class,
    pub(super) connection: Arc<Connection>,
    stop: Stop,
    state: Mutex<State>,
    /// The writer waits for it.
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    pieces: VecDeque<Piece>,
    end: Option<std::result::Result<Counts, RequestError>>,
    /// Since when the reader has not come back for what is there, or was on its way with what it has taken last; `None`
    /// while it waits for more.
    unread_since: Option<Instant>,
    given_up: bool,
    /// What was given up is not the end alone.
    lost: bool,
    /// The reader is.
    gone: bool,
    slot: Option<Slot>,
    reader: Option<Waker>,
}

impl Queue {
    /// That of the query which `stop` ends.
    pub(super) fn new(slot: Slot, stop: Stop) -> Arc<Self> {
        Arc::new(Self {
            class: slot.class,
            connection: Arc::clone(&slot.connection),
            stop,
            room: Notify::new(),
            state: Mutex::new(State { slot: Some(slot), ..State::default() }),
        })
    }

    /// Since when its reader has not come back.
    pub(super) fn unread_since(&self) -> Option<Instant> {
        self.lock().unread_since
    }

    /// Frees what the answer holds, and ends its query; its reader is told when it comes back. `false`: it was over.
    pub(super) fn give_up(&self) -> bool {
        let mut state = self.lock();
        if state.given_up || state.gone {
            return false;
        }
        state.given_up = true;
        state.lost = !state.pieces.is_empty() || state.end.is_none();
        let freed = (std::mem::take(&mut state.pieces), state.slot.take());
        state.unread_since = None;
        self.connection.abandon();
        self.stop.expire();
        state.wake();
        drop(state);
        self.room.notify_one();
        drop(freed);
        true
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lock().pieces.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end where the query runs.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(super) readers: Arc<Readers>,
    pub(super) queue: Arc<Queue>,
}

impl Writer {
    /// Whether there is no room for a piece.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`] when nobody listens any longer, [`ErrorKind::DeadlineExceeded`] when the answer was given
    /// up.
    pub(crate) fn is_full(&self) -> Result<bool> {
        self.queue.lock().is_full()
    }

    /// Waits until half of the queue is free.
    ///
    /// # Errors
    /// Those of [`Writer::is_full`]; the answer is given up when this takes too long.
    pub(crate) fn wait(&self, may_wait: &MayWait, deadline: Instant) -> Result<()> {
        loop {
            let state = self.queue.lock();
            state.is_full()?;
            if state.pieces.len() <= limits::WAITING_PIECES / 2 {
                return Ok(());
            }
            let (now, since) = (Instant::now(), state.unread_since);
            let until = deadline.min(since.unwrap_or(now) + limits::SLOW_READER_TIMEOUT);
            drop(state);
            if until <= now {
                self.readers.give_up(&self.queue);
                return Err(too_slow());
            }
            // Room that is made meanwhile is kept for this.
            let _ = may_wait.wait(timeout_at(until, self.queue.room.notified()));
        }
    }

    /// Adds a piece, which does not wait: [`Writer::is_full`] is asked before.
    ///
    /// # Errors
    /// Those of [`Writer::is_full`].
    pub(crate) fn push(&self, piece: Piece) -> Result<()> {
        let mut state = self.queue.lock();
        state.is_full()?;
        state.pieces.push_back(piece);
        state.unread_since.get_or_insert_with(Instant::now);
        state.wake();
        Ok(())
    }

    /// Ends the answer.
    pub(crate) fn end(self, last: std::result::Result<(Piece, Counts), RequestError>) {
        let end = last.map(|(piece, counts)| {
            // Whoever is gone needs no last piece.
            let _ = self.push(piece);
            counts
        });
        let mut state = self.queue.lock();
        state.end = Some(end);
        state.wake();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        if state.end.is_none() {
            // The query has panicked.
            state.end = Some(Err(RequestError::internal()));
            state.wake();
        }
    }
}

impl State {
    /// Those of [`Writer::is_full`].
    fn is_full(&self) -> Result<bool> {
        if self.gone {
            return Err(Error::new(ErrorKind::Cancelled, "the client gave up"));
        }
        if self.given_up {
            return Err(too_slow());
        }
        Ok(self.pieces.len() >= limits::WAITING_PIECES)
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

fn too_slow() -> Error {
    Error::new(ErrorKind::DeadlineExceeded, "the client read the answer too slowly")
}

/// The end on the connection. Dropping it ends the query's waiting.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(super) queue: Arc<Queue>,
}

/// What comes next.
#[derive(Debug)]
pub(crate) enum Next {
    Message(pb::QueryResponse),
    End(Counts),
    Failed(RequestError),
}

impl Reader {
    /// Ready when there is something to read; an error without any message before it is the answer to the call itself.
    pub(crate) fn poll_first(&self, context: &Context<'_>) -> Poll<std::result::Result<(), RequestError>> {
        let mut state = self.queue.lock();
        match &state.end {
            _ if !state.pieces.is_empty() => Poll::Ready(Ok(())),
            _ if state.given_up => Poll::Ready(Err(too_slow().into())),
            Some(Err(error)) => Poll::Ready(Err(error.clone())),
            Some(Ok(_)) => Poll::Ready(Ok(())),
            None => {
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// The next message. The slot is free again with the end.
    pub(crate) fn poll_next(&self, context: &Context<'_>) -> Poll<Next> {
        let mut guard = self.queue.lock();
        let state = &mut *guard;
        if let Some(piece) = state.pieces.front_mut() {
            let message = piece.pop_front();
            if piece.is_empty() {
                state.pieces.pop_front();
                self.queue.room.notify_one();
            }
            state.unread_since = Some(Instant::now());
            if let Some(message) = message {
                return Poll::Ready(Next::Message(message));
            }
        }
        if state.given_up && state.lost {
            return Poll::Ready(Next::Failed(too_slow().into()));
        }
        match state.end.clone() {
            Some(end) => {
                state.unread_since = None;
                let slot = state.slot.take();
                drop(guard);
                drop(slot);
                Poll::Ready(end.map_or_else(Next::Failed, Next::End))
            }
            None => {
                state.unread_since = None;
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.gone = true;
        if state.given_up {
            self.queue.connection.settle();
        }
        let held = (std::mem::take(&mut state.pieces), state.slot.take());
        state.unread_since = None;
        drop(state);
        drop(held);
        self.queue.room.notify_one();
    }
}
