//! Answers that wait for their readers.
//!
//! A large answer goes through a queue of few pieces. While it is full nobody works for the query: it gives its permit
//! back and sleeps on a thread of its own. What that may cost is bounded: such queries hold a slot, of which there are
//! few for a connection and some for all. When slots are short, answers that nobody reads are given up for those that
//! wait, first of the connection that has the most of them; so are portals that their clients have left alone. Statements of SQL
//! at other doors than gRPC's take a slot once their first rows turn out to be many (`sql/statements.rs`): whoever keeps all
//! slots keeps nobody from a small answer, nor from writing.

#[cfg(feature = "sql")]
mod left;
mod queue;

use std::{
    collections::{BTreeMap, VecDeque},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use basalt_core::exec::Stop;
use basalt_proto::v1::ErrorReason;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep, sleep_until},
};
use tokio_util::task::task_tracker::TaskTrackerToken;

#[cfg(feature = "sql")]
pub(crate) use self::left::Left;
use self::queue::Queue;
pub(crate) use self::queue::{Counts, Next, Piece, Reader, Writer};
use crate::{
    class::{ByClass, Class},
    connection::Connection,
    cpu::Waiting,
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
    #[cfg(feature = "sql")]
    left: Mutex<Vec<Weak<Left>>>,
    /// The connections of the answers that were given up, in that order.
    abandoned: Mutex<VecDeque<Weak<Connection>>>,
}

/// An answer that nobody reads.
enum Unread {
    Queue(Arc<Queue>),
    #[cfg(feature = "sql")]
    Left(Arc<Left>),
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
    ) -> Result<Self, RequestError> {
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
            #[cfg(feature = "sql")]
            left: Mutex::default(),
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
    ) -> Result<Slot, RequestError> {
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
    ) -> Result<OwnedSemaphorePermit, RequestError> {
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
        let mut unread = BTreeMap::<u64, Vec<(Instant, Unread)>>::new();
        for queue in self.queues().iter().filter_map(Weak::upgrade) {
            let (id, since) = (queue.connection.id(), queue.unread_since());
            if let Some(since) = since
                && now.saturating_duration_since(since) >= limits::UNREAD_TIMEOUT
                && queue.class == class
                && of.is_none_or(|of| of == id)
            {
                unread.entry(id).or_default().push((since, Unread::Queue(queue)));
            }
        }
        #[cfg(feature = "sql")]
        for left in self.left().iter().filter_map(Weak::upgrade) {
            if now.saturating_duration_since(left.since()) >= limits::LEFT_TIMEOUT
                && left.class == class
                && of.is_none_or(|of| of == left.of)
                && !left.is_given_up()
            {
                unread.entry(left.of).or_default().push((left.since(), Unread::Left(left)));
            }
        }
        let most = unread.into_values().max_by_key(Vec::len).unwrap_or_default();
        match most.into_iter().min_by_key(|(since, _)| *since) {
            Some((_, Unread::Queue(queue))) => self.give_up(&queue),
            #[cfg(feature = "sql")]
            Some((_, Unread::Left(left))) => drop(left.back()),
            None => {}
        }
    }

    /// Gives up all answers that have been left unread for a while.
    pub(crate) fn give_up_unread(&self) {
        let now = Instant::now();
        let queues: Vec<_> = self.queues().iter().filter_map(Weak::upgrade).collect();
        for queue in queues {
            let since = queue.unread_since();
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
        let kept = Kept { readers: Arc::clone(self), bytes, held };
        let all = self.kept.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        (bytes == 0 || all <= self.most_kept).then_some(kept)
    }

    /// The same for an answer that grows or shrinks; `false`: it is not counted further.
    #[cfg(feature = "sql")]
    pub(crate) fn count(
        self: &Arc<Self>,
        kept: &mut Option<Kept>,
        bytes: u64,
        pool: &Arc<MemoryPool>,
    ) -> bool {
        match kept {
            Some(kept) => kept.set(bytes),
            none => {
                *none = self.keep(bytes, pool);
                none.is_some()
            }
        }
    }

    /// A queue for the answer of a query that `stop` ends.
    pub(crate) fn queue(self: &Arc<Self>, slot: Slot, stop: Stop) -> (Writer, Reader) {
        let queue = Queue::new(slot, stop);
        let mut queues = self.queues();
        if queues.len() == queues.capacity() {
            queues.retain(|queue| queue.strong_count() > 0);
        }
        queues.push(Arc::downgrade(&queue));
        drop(queues);
        (Writer { readers: Arc::clone(self), queue: Arc::clone(&queue) }, Reader { queue })
    }

    /// Nobody asks for the next rows of an answer: in a while its slot is given to those that wait.
    #[cfg(feature = "sql")]
    pub(crate) fn leave(&self, slot: Slot) -> Arc<Left> {
        let left = Arc::new(Left::new(slot));
        let mut all = self.left();
        if all.len() == all.capacity() {
            all.retain(|left| left.strong_count() > 0);
        }
        all.push(Arc::downgrade(&left));
        left
    }

    #[cfg(feature = "sql")]
    fn left(&self) -> MutexGuard<'_, Vec<Weak<Left>>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees what an answer holds. Its reader is told when it comes back.
    fn give_up(&self, queue: &Queue) {
        if !queue.give_up() {
            return;
        }
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
    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "it is held"))]
    held: Reservation,
}

#[cfg(feature = "sql")]
impl Kept {
    /// Counts other bytes from now on; `false`: there are too many, and it counts those before.
    fn set(&mut self, bytes: u64) -> bool {
        let bytes = bytes.saturating_sub(limits::UNCOUNTED_ANSWER_BYTES);
        let (more, less) = (bytes.saturating_sub(self.bytes), self.bytes.saturating_sub(bytes));
        let all = self.readers.kept.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        let fits = more == 0 || all <= self.readers.most_kept;
        if !fits || self.held.set(bytes).is_err() {
            self.readers.kept.fetch_sub(more, Ordering::Relaxed);
            return false;
        }
        self.readers.kept.fetch_sub(less, Ordering::Relaxed);
        self.bytes = bytes;
        true
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.readers.kept.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn overloaded() -> RequestError {
    RequestError::new(
        ErrorReason::Overloaded,
        "too many statements run, or their answers wait to be read; try again later",
    )
}

#[cfg(test)]
mod tests;
