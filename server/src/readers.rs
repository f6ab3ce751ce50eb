//! Answers that wait for their readers.
//!
//! A large answer goes through a queue of few pieces. While it is full nobody works for the query: it gives its permit
//! back and sleeps on a thread of its own. What that may cost is bounded: such queries hold a slot, of which there are
//! few for a connection and some for all. When slots are short, answers that nobody reads are given up for those that
//! wait, first of the connection that has the most of them.

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
        let mut unread = BTreeMap::<u64, Vec<(Instant, Arc<Queue>)>>::new();
        for queue in self.queues().iter().filter_map(Weak::upgrade) {
            let (id, since) = (queue.connection.id(), queue.unread_since());
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
        let kept = Kept { readers: Arc::clone(self), bytes, _held: held };
        let all = self.kept.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        (bytes == 0 || all <= self.most_kept).then_some(kept)
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
    _held: Reservation,
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
