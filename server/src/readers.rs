//! Answers that wait for their readers.
//!
//! A large answer goes through a queue of few pieces. While it is full nobody works for the query: it gives its permit
//! back and sleeps on a thread of its own. What that may cost is bounded: such queries hold a slot, of which there are
//! few for a connection and some for all. When slots are short, answers that nobody reads are given up for those that
//! wait, first of the connection that has the most of them.

use std::{
    collections::{BTreeMap, VecDeque},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use basalt_core::{
    error::{Error, ErrorKind, Result},
    exec::Control,
};
use basalt_proto::v1::{self as pb, ErrorReason};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep, sleep_until, timeout_at},
};
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::{
    class::{ByClass, Class},
    connection::Connection,
    cpu::{MayWait, Waiting},
    limits,
    memory::{Consumer, MemoryPool, Reservation},
    status::RequestError,
};

/// Who has a slot, and who waits for one.
#[derive(Debug)]
pub(crate) struct Readers {
    slots: ByClass<Arc<Semaphore>>,
    waiting: AtomicUsize,
    /// Bytes of small answers, which hold no slot, and how many they may be.
    kept: AtomicU64,
    most_kept: u64,
    queues: Mutex<Vec<Weak<Queue>>>,
    /// The connections of the answers that were given up, in that order.
    abandoned: Mutex<VecDeque<Weak<Connection>>>,
}

/// The right to answer at length, for one query.
#[derive(Debug)]
pub(crate) struct Slot {
    class: Class,
    connection: Arc<Connection>,
    /// A shutdown waits for the answer until it is read, or given up.
    pub(crate) running: Option<TaskTrackerToken>,
    /// For the pieces that wait.
    memory: Option<Reservation>,
    _own: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Slot {
    /// Waits for the memory of the pieces that may wait.
    pub(crate) async fn with_memory(
        mut self,
        pool: &Arc<MemoryPool>,
        deadline: Instant,
    ) -> std::result::Result<Self, RequestError> {
        let mut held = pool.reserve(Consumer::Answers);
        held.set_by(limits::ANSWER_SLOT_BYTES as u64, self.class.patience(deadline)).await?;
        self.memory = Some(held);
        Ok(self)
    }
}

impl Readers {
    /// As many as fit into their share of the memory limit, and no fewer than queries may run.
    pub(crate) fn new(memory: u64, concurrent: usize) -> Arc<Self> {
        let fit = usize::try_from(memory / limits::ANSWERS_MEMORY_PART).unwrap_or(usize::MAX)
            / limits::ANSWER_SLOT_BYTES;
        let (least, most) = limits::WAITING_ANSWERS;
        let slots = |n: usize| Arc::new(Semaphore::new(n.clamp(least, most).max(concurrent)));
        Arc::new(Self {
            slots: ByClass::new(slots(fit / limits::SHORT_ANSWERS_PART), slots(fit)),
            waiting: AtomicUsize::new(0),
            kept: AtomicU64::new(0),
            most_kept: memory / limits::ANSWERS_MEMORY_PART,
            queues: Mutex::default(),
            abandoned: Mutex::default(),
        })
    }

    /// Waits for a slot: not past the deadline, a short query not long, and not with too many others. Whoever holds a permit of the
    /// pool gives it back before.
    pub(crate) async fn admit(
        &self,
        connection: &Arc<Connection>,
        class: Class,
        deadline: Instant,
    ) -> std::result::Result<Slot, RequestError> {
        let until = class.patience(deadline);
        let late = || if until == deadline { RequestError::deadline() } else { overloaded() };
        let own =
            self.acquire(connection.answers.of(class), class, Some(connection.id()), until, late).await?;
        let of_all = self.acquire(self.slots.of(class), class, None, until, late).await?;
        let connection = Arc::clone(connection);
        Ok(Slot { class, connection, running: None, memory: None, _own: own, _of_all: of_all })
    }

    async fn acquire(
        &self,
        slots: &Arc<Semaphore>,
        class: Class,
        of: Option<u64>,
        until: Instant,
        late: impl Fn() -> RequestError,
    ) -> std::result::Result<OwnedSemaphorePermit, RequestError> {
        if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
            return Ok(slot);
        }
        let waiting = Waiting::new(&self.waiting);
        if waiting.before >= limits::WAITING_QUERIES {
            return Err(overloaded());
        }
        let mut slot = pin!(Arc::clone(slots).acquire_owned());
        loop {
            tokio::select! {
                biased;
                slot = &mut slot => return slot.map_err(|_| RequestError::internal()),
                () = sleep_until(until) => return Err(late()),
                () = sleep(limits::UNREAD_INTERVAL) => self.make_room(class, of),
            }
        }
    }

    /// Gives up the answer of a class that has been left unread for longest, of the connection that has most of these; of
    /// this connection, if one is named.
    fn make_room(&self, class: Class, of: Option<u64>) {
        let now = Instant::now();
        let mut unread = BTreeMap::<u64, Vec<(Instant, Arc<Queue>)>>::new();
        for queue in self.queues().iter().filter_map(Weak::upgrade) {
            let (id, since) = (queue.connection.id(), queue.lock().unread_since);
            if let Some(since) = since
                && now.saturating_duration_since(since) >= limits::UNREAD_TIMEOUT
                && queue.class == class
                && of.is_none_or(|of| of == id)
            {
                unread.entry(id).or_default().push((since, queue));
            }
        }
        let most = unread.into_values().max_by_key(Vec::len).unwrap_or_default();
        if let Some((_, queue)) = most.into_iter().min_by_key(|(since, _)| *since) {
            self.give_up(&queue);
        }
    }

    /// Gives up all answers that have been left unread for a while.
    pub(crate) fn give_up_unread(&self) {
        let now = Instant::now();
        let queues: Vec<_> = self.queues().iter().filter_map(Weak::upgrade).collect();
        for queue in queues {
            let since = queue.lock().unread_since;
            if since.is_some_and(|since| now.saturating_duration_since(since) >= limits::UNREAD_TIMEOUT) {
                self.give_up(&queue);
            }
        }
    }

    /// Counts a small answer until it is read; `None` where there are too many of them, so that it needs a slot.
    pub(crate) fn keep(self: &Arc<Self>, bytes: u64, pool: &Arc<MemoryPool>) -> Option<Kept> {
        let bytes = bytes.saturating_sub(limits::UNCOUNTED_ANSWER_BYTES);
        let mut held = pool.reserve(Consumer::Answers);
        held.set(bytes).ok()?;
        let kept = Kept { readers: Arc::clone(self), bytes, _held: held };
        let all = self.kept.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        (bytes == 0 || all <= self.most_kept).then_some(kept)
    }

    /// A queue for the answer of a query that obeys `control`.
    pub(crate) fn queue(self: &Arc<Self>, slot: Slot, control: Control) -> (Writer, Reader) {
        let queue = Arc::new(Queue {
            class: slot.class,
            connection: Arc::clone(&slot.connection),
            control,
            room: Notify::new(),
            state: Mutex::new(State { slot: Some(slot), ..State::default() }),
        });
        let mut queues = self.queues();
        if queues.len() == queues.capacity() {
            queues.retain(|queue| queue.strong_count() > 0);
        }
        queues.push(Arc::downgrade(&queue));
        drop(queues);
        (Writer { readers: Arc::clone(self), queue: Arc::clone(&queue) }, Reader { queue })
    }

    /// Frees what an answer holds. Its reader is told when it comes back.
    fn give_up(&self, queue: &Queue) {
        let mut state = queue.lock();
        if state.given_up || state.gone {
            return;
        }
        state.given_up = true;
        state.lost = !state.pieces.is_empty() || state.end.is_none();
        let freed = (std::mem::take(&mut state.pieces), state.slot.take());
        state.unread_since = None;
        queue.connection.abandon();
        queue.control.expire();
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
        drop(state);
        queue.room.notify_one();
        drop(freed);
        let mut abandoned = self.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
        abandoned.retain(|of| of.upgrade().is_some_and(|connection| connection.has_abandoned()));
        abandoned.push_back(Arc::downgrade(&queue.connection));
        if abandoned.len() > limits::ABANDONED
            && let Some(first) = abandoned.pop_front().and_then(|first| first.upgrade())
        {
            first.close();
        }
    }

    fn queues(&self) -> MutexGuard<'_, Vec<Weak<Queue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes of a small answer.
#[derive(Debug)]
pub(crate) struct Kept {
    readers: Arc<Readers>,
    bytes: u64,
    _held: Reservation,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.readers.kept.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn overloaded() -> RequestError {
    RequestError::new(ErrorReason::Overloaded, "too many answers wait to be read; try again later")
}

/// Messages that belong together, in order.
pub(crate) type Piece = VecDeque<pb::QueryResponse>;

/// The rows of an answer, and those that the filter selected.
pub(crate) type Counts = (u64, u64);

/// See the module.
#[derive(Debug)]
struct Queue {
    class: Class,
    connection: Arc<Connection>,
    control: Control,
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
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end where the query runs.
#[derive(Debug)]
pub(crate) struct Writer {
    readers: Arc<Readers>,
    queue: Arc<Queue>,
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
    queue: Arc<Queue>,
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::{cpu::on_own_thread, environment::process};

    fn piece() -> Piece {
        Piece::from([pb::QueryResponse::default()])
    }

    async fn next(reader: &Reader) -> Next {
        std::future::poll_fn(|context| reader.poll_next(context)).await
    }

    /// An answer that is as long as fits, and that nobody reads.
    async fn unread(readers: &Arc<Readers>, connection: &Arc<Connection>) -> (Writer, Reader) {
        let slot =
            readers.admit(connection, Class::Long, Instant::now() + limits::QUEUE_TIMEOUT).await.unwrap();
        let (writer, reader) = readers.queue(slot, Control::default());
        while !writer.is_full().unwrap() {
            writer.push(piece()).unwrap();
        }
        (writer, reader)
    }

    #[tokio::test]
    async fn what_is_read_gets_on() {
        let readers = Readers::new(0, 1);
        let (writer, reader) = unread(&readers, &Connection::new()).await;
        let deadline = Instant::now() + limits::DEFAULT_DEADLINE;
        let written = on_own_thread(&process(), move |may_wait| {
            for _ in 0..100 {
                writer.wait(may_wait, deadline).unwrap();
                writer.push(piece()).unwrap();
            }
            writer.end(Ok((piece(), (7, 8))));
        });
        let mut messages = 0;
        let counts = loop {
            match next(&reader).await {
                Next::Message(_) => messages += 1,
                Next::End(counts) => break counts,
                Next::Failed(error) => panic!("{error:?}"),
            }
        };
        written.await.unwrap();
        assert_eq!((messages, counts), (limits::WAITING_PIECES + 101, (7, 8)));
    }

    #[tokio::test]
    async fn a_query_whose_thread_is_gone_has_failed() {
        let readers = Readers::new(0, 1);
        let (writer, reader) = unread(&readers, &Connection::new()).await;
        drop(writer);
        for _ in 0..limits::WAITING_PIECES {
            assert!(matches!(next(&reader).await, Next::Message(_)));
        }
        assert!(matches!(next(&reader).await, Next::Failed(error) if error.reason() == "INTERNAL"));
    }

    #[tokio::test]
    async fn the_unread_make_room_for_those_who_wait() {
        let readers = Readers::new(0, 1);
        let (hoarder, other) = (Connection::new(), Connection::new());
        let (slots, _) = limits::WAITING_ANSWERS;
        let mut held = Vec::new();
        held.push(unread(&readers, &other).await);
        for _ in 1..slots {
            held.push(unread(&readers, &hoarder).await);
        }
        let deadline = Instant::now() + limits::DEFAULT_DEADLINE;
        let slot =
            timeout(limits::UNREAD_TIMEOUT * 2, readers.admit(&Connection::new(), Class::Long, deadline))
                .await;
        slot.expect("no slot").unwrap();
        // The oldest is left alone: its connection has one only.
        assert!(held[0].0.is_full().unwrap());
        let (writer, reader) = &held[1];
        assert_eq!(writer.is_full().unwrap_err().kind(), ErrorKind::DeadlineExceeded);
        assert!(writer.queue.lock().pieces.is_empty(), "what is given up holds nothing");
        assert!(matches!(next(reader).await, Next::Failed(error) if error.reason() == "DEADLINE_EXCEEDED"));
        assert!(!hoarder.closed().is_cancelled());
    }

    #[tokio::test]
    async fn a_connection_that_leaves_many_answers_is_closed() {
        let readers = Readers::new(0, 1);
        let (hoarder, reading) = (Connection::new(), Connection::new());
        let mut held = Vec::new();
        for connection in [&hoarder, &reading] {
            for _ in 0..=limits::CONNECTION_ABANDONED {
                let (writer, reader) = unread(&readers, connection).await;
                readers.give_up(&writer.queue);
                if connection.id() == hoarder.id() {
                    held.push(reader);
                }
            }
        }
        assert!(hoarder.closed().is_cancelled() && !reading.closed().is_cancelled());
    }

    #[test]
    fn small_answers_are_counted_together() {
        let readers = Readers::new(limits::ANSWERS_MEMORY_PART * 3 * limits::LIGHT_ANSWER_BYTES, 1);
        let pool = Arc::new(MemoryPool::new(u64::MAX));
        let kept: Vec<_> = (0..3).map(|_| readers.keep(limits::LIGHT_ANSWER_BYTES, &pool).unwrap()).collect();
        assert!(readers.keep(limits::LIGHT_ANSWER_BYTES, &pool).is_none());
        assert!(readers.keep(limits::UNCOUNTED_ANSWER_BYTES, &pool).is_some());
        drop(kept);
        assert_eq!(readers.kept.load(Ordering::Relaxed), 0);
        assert!(readers.keep(limits::LIGHT_ANSWER_BYTES, &pool).is_some());
        assert_eq!(pool.held(), 0);
        // Where there is no memory none is kept.
        let pool = Arc::new(MemoryPool::new(limits::LIGHT_ANSWER_BYTES));
        let _kept = readers.keep(limits::LIGHT_ANSWER_BYTES, &pool).unwrap();
        assert!(readers.keep(limits::LIGHT_ANSWER_BYTES, &pool).is_none());
    }

    #[tokio::test]
    async fn an_answer_that_waits_holds_its_memory() {
        let (readers, connection) = (Readers::new(0, 1), Connection::new());
        let pool = Arc::new(MemoryPool::new(limits::ANSWER_SLOT_BYTES as u64 * 3 / 2));
        let soon = || Instant::now() + Duration::from_millis(200);
        let slot = readers.admit(&connection, Class::Long, soon()).await.unwrap();
        let slot = slot.with_memory(&pool, soon()).await.unwrap();
        assert_eq!(pool.used(Consumer::Answers), limits::ANSWER_SLOT_BYTES as u64);
        let other = readers.admit(&connection, Class::Long, soon()).await.unwrap();
        let error = other.with_memory(&pool, soon()).await.unwrap_err();
        assert_eq!(error.reason(), "MEMORY_LIMIT");
        drop(slot);
        assert_eq!(pool.used(Consumer::Answers), 0);
    }

    #[tokio::test]
    async fn a_connection_waits_for_itself_first() {
        let readers = Readers::new(u64::MAX, 1);
        let (hoarder, deadline) = (Connection::new(), Instant::now() + Duration::from_millis(300));
        let mut held = Vec::new();
        for _ in 0..limits::CONNECTION_ANSWERS {
            held.push(unread(&readers, &hoarder).await);
        }
        // A short query of the same connection does not wait for long answers.
        readers.admit(&hoarder, Class::Short, deadline).await.unwrap();
        let error = readers.admit(&hoarder, Class::Long, deadline).await.unwrap_err();
        assert_eq!(error.reason(), "DEADLINE_EXCEEDED");
        unread(&readers, &Connection::new()).await;
    }
}
