//! The memory limit: one pool of reservations for the whole process.
//!
//! Whatever may grow by what clients, peers or the store send reserves its bytes here first, each as a consumer of its
//! kind. All together stay below the limit. What is needed to hear requests at all has a little beside it, so that a
//! server whose memory is full of tables can still be told to drop one.

mod account;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
};

use basalt_core::{
    error::{Error, ErrorKind},
    exec::{Control, Memory},
    schema::Schema,
    table::Catalog,
};
use basalt_proto::v1::ErrorReason;
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

pub(crate) use self::account::Account;
use self::account::Hold;
use crate::{limits, status::RequestError};

/// What memory is held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consumer {
    /// Tables that are in memory alone, with the versions that can still be read.
    Tables,
    /// Columns of all tables, by name and type, with or without rows.
    Schemas,
    /// Texts of views that are in memory alone.
    Views,
    /// Columns of data files, which are kept as long as there is room.
    Cache,
    /// Faster forms of columns of the cache, which nobody needs: whoever wants memory has theirs.
    Elastic,
    /// Loading, merging and rewriting fragments.
    Maintenance,
    /// Rows of write streams that are not committed yet.
    Writes,
    /// Groups, distinct values and sorted rows of queries.
    Queries,
    /// Partial answers and tasks that travel between nodes.
    Parts,
    KeptSets,
    /// Answers that wait for their readers.
    Answers,
    /// What the process has beside all that is counted, where the system was asked.
    Process,
    /// Connections of clients.
    Connections,
    /// What clients may have sent of a request before it is read.
    Requests,
    /// Messages of clients, from their announcement until they are dealt with.
    Messages,
    /// The same of other nodes.
    PeerConnections,
    PeerRequests,
    PeerMessages,
}

impl Consumer {
    pub(crate) const ALL: [Self; 18] = [
        Self::Tables,
        Self::Schemas,
        Self::Views,
        Self::Cache,
        Self::Elastic,
        Self::Maintenance,
        Self::Writes,
        Self::Queries,
        Self::Parts,
        Self::KeptSets,
        Self::Answers,
        Self::Process,
        Self::Connections,
        Self::Requests,
        Self::Messages,
        Self::PeerConnections,
        Self::PeerRequests,
        Self::PeerMessages,
    ];

    /// As it is called in the metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tables => "tables",
            Self::Schemas => "schemas",
            Self::Views => "views",
            Self::Cache => "cache",
            Self::Elastic => "elastic",
            Self::Maintenance => "maintenance",
            Self::Writes => "writes",
            Self::Queries => "queries",
            Self::Parts => "parts",
            Self::KeptSets => "kept_sets",
            Self::Answers => "answers",
            Self::Process => "process",
            Self::Connections => "connections",
            Self::Requests => "requests",
            Self::Messages => "messages",
            Self::PeerConnections => "peer_connections",
            Self::PeerRequests => "peer_requests",
            Self::PeerMessages => "peer_messages",
        }
    }

    /// Bytes that it may take beside a limit.
    pub(crate) fn floor(self, limit: u64) -> u64 {
        let least = match self {
            Self::Connections | Self::PeerConnections => limits::CONNECTIONS_FLOOR_BYTES,
            Self::Requests | Self::PeerRequests => limits::REQUESTS_FLOOR_BYTES,
            Self::Messages => limits::MESSAGE_COPIES * limits::MESSAGE_BYTES as u64,
            Self::PeerMessages => limits::MESSAGE_COPIES * limits::PEER_MESSAGE_BYTES as u64,
            _ => return 0,
        };
        least.max(limit / limits::FLOOR_PART)
    }
}

/// Who lets go of what it holds when others need memory.
pub(crate) trait Evict: fmt::Debug + Send + Sync {
    /// Gives back so many bytes, if it can, and first those that nobody needs; how many it were. Whoever calls it has
    /// locked nothing.
    fn evict(&self, bytes: u64) -> u64;

    /// The same of what nobody needs alone.
    fn evict_spare(&self, bytes: u64) -> u64;
}

/// See the module.
#[derive(Debug)]
pub(crate) struct MemoryPool {
    limit: u64,
    /// Bytes that each consumer may take beside the limit.
    floors: [u64; Consumer::ALL.len()],
    counts: Mutex<Counts>,
    /// Something was given back.
    freed: Notify,
    /// What it may take back.
    cache: OnceLock<Weak<dyn Evict>>,
}

#[derive(Debug, Default)]
struct Counts {
    used: [u64; Consumer::ALL.len()],
    /// Of all consumers, what is not beside the limit.
    held: u64,
}

impl MemoryPool {
    pub(crate) fn new(limit: u64) -> Self {
        let floors = Consumer::ALL.map(|consumer| consumer.floor(limit));
        Self { limit, floors, counts: Mutex::default(), freed: Notify::new(), cache: OnceLock::new() }
    }

    /// Says who makes room for others; once.
    pub(crate) fn set_cache(&self, cache: Weak<dyn Evict>) {
        if self.cache.set(cache).is_err() {
            tracing::error!("the cache of the memory pool is set twice");
        }
    }

    /// What would be held if a consumer used so much.
    fn held_with(&self, counts: &Counts, consumer: Consumer, bytes: u64) -> u64 {
        let (used, floor) = (counts.used[consumer as usize], self.floors[consumer as usize]);
        counts.held - used.saturating_sub(floor) + bytes.saturating_sub(floor)
    }

    fn count(&self, counts: &mut Counts, consumer: Consumer, bytes: u64) {
        counts.held = self.held_with(counts, consumer, bytes);
        counts.used[consumer as usize] = bytes;
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// The control of one query, or of other work on many rows, which takes of this memory what it needs.
    pub(crate) fn control(self: &Arc<Self>, now_micros: i64) -> Control {
        self.control_of(None, now_micros)
    }

    /// The same of somebody who may hold so much.
    pub(crate) fn control_of(self: &Arc<Self>, account: Option<Arc<Account>>, now_micros: i64) -> Control {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let shared = Arc::new(Shared { pool: Arc::clone(self), account });
        Control::with_memory(limit).sharing(shared).with_time(now_micros)
    }

    /// What else a query takes, beside what its control counts.
    #[cfg(feature = "sql")]
    pub(crate) fn shared(self: &Arc<Self>, account: Option<Arc<Account>>) -> Arc<dyn Memory> {
        Arc::new(Shared { pool: Arc::clone(self), account })
    }

    /// What one consumer may have at most, if there are no others.
    fn most(&self, consumer: Consumer) -> u64 {
        self.limit.saturating_add(self.floors[consumer as usize])
    }

    /// What is held in all, but for what may be beside the limit.
    pub(crate) fn held(&self) -> u64 {
        self.counts().held
    }

    /// What one consumer holds.
    pub(crate) fn used(&self, consumer: Consumer) -> u64 {
        self.counts().used[consumer as usize]
    }

    /// Counts the tables again, after a commit or a drop.
    pub(crate) fn count_tables(&self, catalog: &Catalog) {
        let mut tables = catalog.list();
        tables.extend(catalog.drafts());
        let bytes = tables.iter().map(|table| table.bytes() as u64).sum();
        let schemas = tables.iter().map(|table| schema_bytes(table.schema())).sum();
        let mut counts = self.counts();
        self.count(&mut counts, Consumer::Tables, bytes);
        self.count(&mut counts, Consumer::Schemas, schemas);
        drop(counts);
        self.freed.notify_waiters();
    }

    /// Counts what the process has, and nobody has reserved: of its bytes those beyond all that is counted and
    /// [`PROCESS_BYTES`](limits::PROCESS_BYTES). What is cached makes room for it.
    pub(crate) fn count_process(&self, anonymous: u64) {
        let mut counts = self.counts();
        let process = Consumer::Process as usize;
        let counted = counts.used.iter().sum::<u64>() - counts.used[process];
        let beyond = anonymous.saturating_sub(counted + limits::PROCESS_BYTES);
        let shrinks = beyond < counts.used[process];
        self.count(&mut counts, Consumer::Process, beyond);
        let over = counts.held.saturating_sub(self.limit);
        drop(counts);
        if over > 0
            && let Some(cache) = self.cache.get().and_then(Weak::upgrade)
        {
            cache.evict(over);
        }
        if shrinks {
            self.freed.notify_waiters();
        }
    }

    /// A reservation of nothing yet.
    pub(crate) fn reserve(self: &Arc<Self>, consumer: Consumer) -> Reservation {
        Reservation { pool: Arc::clone(self), consumer, account: None, bytes: 0 }
    }

    /// Counts more, for which what is cached makes room; nothing if that would be over the limit.
    fn grow(&self, consumer: Consumer, growth: u64) -> Result<(), RequestError> {
        self.grow_to(consumer, growth, self.limit).map_err(|held| {
            let message = format!(
                "what the server holds would be {held} bytes; the limit is {} (`memory`)",
                self.limit
            );
            RequestError::new(ErrorReason::MemoryLimit, message).with("limit_bytes", self.limit)
        })
    }

    /// The same for who may use so much of the limit; otherwise how much would be held.
    fn grow_to(&self, consumer: Consumer, growth: u64, limit: u64) -> Result<(), u64> {
        self.grow_with(consumer, growth, limit, &|cache, bytes| cache.evict(bytes))
    }

    /// The same, where `evict` makes room as far as it can.
    fn grow_with(
        &self,
        consumer: Consumer,
        growth: u64,
        limit: u64,
        evict: &dyn Fn(&dyn Evict, u64) -> u64,
    ) -> Result<(), u64> {
        loop {
            let Err(held) = self.grow_within(consumer, growth, limit) else { return Ok(()) };
            let cache = self.cache.get().and_then(Weak::upgrade);
            // Default: without a cache nobody makes room.
            if cache.map_or(0, |cache| evict(&*cache, held - limit)) == 0 {
                return Err(held);
            }
        }
    }

    /// Counts more; nothing if that would be over a limit: then how much would be held.
    fn grow_within(&self, consumer: Consumer, growth: u64, limit: u64) -> Result<(), u64> {
        let mut counts = self.counts();
        let bytes = counts.used[consumer as usize].saturating_add(growth);
        let held = self.held_with(&counts, consumer, bytes);
        if held > counts.held && held > limit {
            return Err(held);
        }
        self.count(&mut counts, consumer, bytes);
        Ok(())
    }

    fn shrink(&self, consumer: Consumer, bytes: u64) {
        let mut counts = self.counts();
        let left = counts.used[consumer as usize] - bytes;
        self.count(&mut counts, consumer, left);
        drop(counts);
        self.freed.notify_waiters();
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a table takes without rows.
pub(crate) fn schema_bytes(schema: &Schema) -> u64 {
    schema.fields().len() as u64 * limits::COLUMN_BYTES
}

/// The pool, for queries. One that holds more than its share leaves the last part of the limit to those that do not: a
/// query may take what is free, and still keeps no small one from running.
#[derive(Debug)]
struct Shared {
    pool: Arc<MemoryPool>,
    account: Option<Arc<Account>>,
}

impl Memory for Shared {
    fn grow(&self, taken: usize, more: usize) -> basalt_core::error::Result<()> {
        let (pool, share) = (&self.pool, self.pool.limit / limits::QUERY_MEMORY_PART);
        let all = (taken as u64).saturating_add(more as u64);
        let hold = Hold::of(self.account.as_ref(), more as u64, all).map_err(|refused| {
            let error = Error::new(ErrorKind::MemoryLimit, refused.message());
            if refused.is_retryable() { error.passing() } else { error }
        })?;
        let limit = if all <= share { pool.limit } else { pool.limit - share };
        pool.grow_to(Consumer::Queries, more as u64, limit).map_err(|held| {
            let rule = format!("of its {} (`memory`) a query that holds more than {share} leaves as much to others", pool.limit);
            // What could leave the cache has left it: the rest is read by this query or by others of its size.
            let never = all.saturating_add(pool.used(Consumer::Cache)) > limit;
            let message = if never {
                format!("the query needs {all} bytes of memory or more beside what it reads, which the server has for none; {rule}")
            } else {
                format!("the query needs {all} bytes of memory, with which the server would hold {held}; {rule}")
            };
            let error = Error::new(ErrorKind::MemoryLimit, message);
            // What others hold they give back.
            if never { error } else { error.passing() }
        })?;
        hold.keep();
        Ok(())
    }

    fn shrink(&self, bytes: usize) {
        if let Some(account) = &self.account {
            account.give_back(bytes as u64);
        }
        self.pool.shrink(Consumer::Queries, bytes as u64);
    }
}

/// Memory of one consumer, given back when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    pool: Arc<MemoryPool>,
    consumer: Consumer,
    /// Who may hold no more than so much of it.
    account: Option<Arc<Account>>,
    bytes: u64,
}

impl Reservation {
    /// For somebody who may hold so much; of one that holds nothing yet.
    pub(crate) fn of(mut self, account: Option<Arc<Account>>) -> Self {
        debug_assert_eq!(self.bytes, 0, "what is held already is nobody's");
        self.account = account;
        self
    }

    /// What its account holds as soon as the pool has it.
    fn hold(&self, growth: u64) -> Result<Hold<'_>, RequestError> {
        Hold::of(self.account.as_ref(), growth, self.bytes + growth)
    }

    /// Memory goes back to the pool, and with it to whoever waits for some.
    fn give_back(&self, bytes: u64) {
        if let Some(account) = &self.account {
            account.give_back(bytes);
        }
        self.pool.shrink(self.consumer, bytes);
    }

    /// Has somebody else hold it, or nobody; the pool has it all the while. Refused, and nothing changed, where that is more
    /// than he may hold.
    pub(crate) fn give_to(&mut self, account: Option<Arc<Account>>) -> Result<(), RequestError> {
        let is_same = match (&self.account, &account) {
            (Some(before), Some(account)) => Arc::ptr_eq(before, account),
            (before, account) => before.is_none() && account.is_none(),
        };
        if is_same {
            return Ok(());
        }
        Hold::of(account.as_ref(), self.bytes, self.bytes)?.keep();
        if let Some(before) = std::mem::replace(&mut self.account, account) {
            before.give_back(self.bytes);
        }
        Ok(())
    }

    /// What is held.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Says what is held now. Growth that would exceed the limit is refused and not counted.
    pub(crate) fn set(&mut self, bytes: u64) -> Result<(), RequestError> {
        if bytes < self.bytes {
            self.give_back(self.bytes - bytes);
        } else if bytes > self.bytes {
            let hold = self.hold(bytes - self.bytes)?;
            let grown = self.pool.grow(self.consumer, bytes - self.bytes);
            // What others hold they give back; what is more than all there is will never fit.
            let fits = bytes <= self.pool.most(self.consumer);
            grown.map_err(|refused| if fits { refused.retryable() } else { refused })?;
            hold.keep();
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Says what is held now, if there is memory that nobody needs: for this, nothing leaves the cache but faster forms.
    pub(crate) fn try_set(&mut self, bytes: u64) -> bool {
        let pool = Arc::clone(&self.pool);
        self.try_set_by(bytes, |consumer, growth| {
            pool.grow_with(consumer, growth, pool.limit, &|cache, bytes| cache.evict_spare(bytes)).is_ok()
        })
    }

    /// The same, where all that is held stays within a limit, and nobody gives anything back for it.
    pub(crate) fn try_set_within(&mut self, bytes: u64, limit: u64) -> bool {
        let pool = Arc::clone(&self.pool);
        self.try_set_by(bytes, |consumer, growth| pool.grow_within(consumer, growth, limit).is_ok())
    }

    fn try_set_by(&mut self, bytes: u64, grow: impl FnOnce(Consumer, u64) -> bool) -> bool {
        let fits = match bytes.checked_sub(self.bytes) {
            Some(growth) => match self.hold(growth) {
                Ok(hold) if grow(self.consumer, growth) => {
                    hold.keep();
                    true
                }
                _ => false,
            },
            None => {
                self.give_back(self.bytes - bytes);
                true
            }
        };
        if fits {
            self.bytes = bytes;
        }
        fits
    }

    /// The same as [`set`](Self::set); growth waits until others have given back enough, but not beyond `until`.
    pub(crate) async fn set_by(&mut self, bytes: u64, until: Instant) -> Result<(), RequestError> {
        let pool = Arc::clone(&self.pool);
        if bytes > pool.most(self.consumer) {
            // Whatever others give back.
            return self.set(bytes);
        }
        loop {
            let mut freed = std::pin::pin!(pool.freed.notified());
            // What is given back from here on is heard of.
            freed.as_mut().enable();
            let refused = match self.set(bytes) {
                Ok(()) => return Ok(()),
                Err(refused) => refused,
            };
            if timeout_at(until, freed).await.is_err() {
                return Err(refused);
            }
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.give_back(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn growth_beyond_the_limit_is_refused() {
        let memory = Arc::new(MemoryPool::new(100));
        let (mut a, mut b) = (memory.reserve(Consumer::Writes), memory.reserve(Consumer::KeptSets));
        a.set(60).unwrap();
        b.set(40).unwrap();
        assert_eq!(b.set(41).unwrap_err().reason(), "MEMORY_LIMIT");
        assert_eq!((memory.used(Consumer::Writes), memory.used(Consumer::KeptSets)), (60, 40));
        a.set(10).unwrap();
        b.set(90).unwrap();
        drop(a);
        b.set(100).unwrap();
        drop(b);
        assert_eq!((memory.held(), memory.used(Consumer::KeptSets)), (0, 0));
    }

    #[test]
    fn what_is_beside_the_limit_is_there_when_all_else_is_taken() {
        let memory = Arc::new(MemoryPool::new(100));
        let floor = Consumer::Messages.floor(100);
        let (mut write, mut message) = (memory.reserve(Consumer::Writes), memory.reserve(Consumer::Messages));
        write.set(100).unwrap();
        message.set(floor).unwrap();
        assert_eq!(message.set(floor + 1).unwrap_err().reason(), "MEMORY_LIMIT");
        assert_eq!((memory.held(), memory.used(Consumer::Messages)), (100, floor));
        write.set(70).unwrap();
        message.set(floor + 30).unwrap();
        assert_eq!(memory.held(), 100);
        assert!(write.set(71).is_err());
        // The order in which they are given back does not matter.
        let mut other = memory.reserve(Consumer::Messages);
        message.set(floor).unwrap();
        other.set(30).unwrap();
        drop(message);
        assert_eq!(memory.held(), 70);
        write.set(100).unwrap();
        drop((other, write));
        assert_eq!(memory.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn growth_waits_for_what_others_give_back() {
        let memory = Arc::new(MemoryPool::new(100));
        let (mut a, mut b) = (memory.reserve(Consumer::Writes), memory.reserve(Consumer::Parts));
        a.set(60).unwrap();
        let soon = |seconds| Instant::now() + Duration::from_secs(seconds);
        let refused = b.set_by(50, soon(5)).await.unwrap_err();
        assert_eq!(refused.reason(), "MEMORY_LIMIT");
        let until = soon(5);
        let waiting = tokio::spawn(async move { b.set_by(50, until).await.map(|()| b) });
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(!waiting.is_finished());
        a.set(50).unwrap();
        assert_eq!(waiting.await.unwrap().unwrap().bytes(), 50);
    }

    #[test]
    fn what_the_process_has_beside_its_counts_counts() {
        let memory = Arc::new(MemoryPool::new(100 << 20));
        let mut write = memory.reserve(Consumer::Writes);
        write.set(60 << 20).unwrap();
        memory.count_process((60 << 20) + limits::PROCESS_BYTES);
        assert_eq!(memory.held(), 60 << 20);
        // What was reserved is not all that was taken.
        memory.count_process((90 << 20) + limits::PROCESS_BYTES);
        assert_eq!((memory.held(), memory.used(Consumer::Process)), (90 << 20, 30 << 20));
        assert_eq!(write.set(71 << 20).unwrap_err().reason(), "MEMORY_LIMIT");
        write.set(70 << 20).unwrap();
        memory.count_process((90 << 20) + limits::PROCESS_BYTES);
        assert_eq!(memory.used(Consumer::Process), 20 << 20);
        memory.count_process(0);
        assert_eq!(memory.used(Consumer::Process), 0);
        write.set(100 << 20).unwrap();
    }

    #[tokio::test]
    async fn what_never_fits_is_not_waited_for() {
        let memory = Arc::new(MemoryPool::new(100));
        let mut other = memory.reserve(Consumer::Writes);
        other.set(50).unwrap();
        let (mut held, started) = (memory.reserve(Consumer::Parts), Instant::now());
        let until = started + Duration::from_secs(30);
        let refused = held.set_by(101, until).await.unwrap_err();
        assert_eq!((refused.reason(), refused.is_later()), ("MEMORY_LIMIT", false));
        assert!(started.elapsed() < Duration::from_secs(10));
        assert!(held.set(60).unwrap_err().is_later());
        // The same of queries.
        let refused = |bytes| RequestError::from(memory.control(0).reserve(bytes).unwrap_err());
        assert!(refused(60).is_later() && !refused(95).is_later());
        assert!(refused(95).message().contains("has for none"));
    }

    #[test]
    fn queries_take_what_is_free_and_leave_small_ones_their_share() {
        let memory = Arc::new(MemoryPool::new(800));
        let large = memory.control(0);
        large.reserve(600).unwrap();
        large.with_own_memory().reserve(70).unwrap();
        assert_eq!(memory.used(Consumer::Queries), 600);
        assert_eq!(large.clone().reserve(150).unwrap_err().kind(), ErrorKind::MemoryLimit);
        let small = memory.control(0);
        small.reserve(100).unwrap();
        assert_eq!(memory.held(), 700);
        drop((small, large));
        assert_eq!(memory.held(), 0);
    }
}
