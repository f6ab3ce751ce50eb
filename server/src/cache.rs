//! Columns of data files in memory, and deletion vectors: encoded, as queries read them.
//!
//! What a node holds by placement and what it has read for others is the same here. An item that somebody reads is
//! pinned by its reference count; of the others, those go first when memory is needed that were not read for long and
//! are cheap to read again: a clock goes round, and takes from each item one of the turns that it was given when it
//! was read last, more of them the more a byte of it costs (GCLOCK: Nicola, Dan and Dias, "Analysis of the
//! generalized clock buffer replacement scheme", 1992). Own code, since a cache of a library knows neither items that
//! must stay while they are read nor a pool of memory that others ask to make room.

mod elastic;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use basalt_core::{
    fragment::{Column, Deleted, FragmentData},
    invariant::Invariant as _,
};
use elastic::Elastic;
pub(crate) use elastic::{Allowed, Candidate, Counts, Told};
use tokio::sync::Semaphore;

use crate::{
    limits,
    memory::{Evict, Reservation},
};

/// Rows of a data file, for everyone who reads the table: those that a fragment of any version was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Rows {
    pub(crate) table: u64,
    /// [`Source::rows`](basalt_core::fragment::Source::rows).
    pub(crate) hash: u64,
}

/// What is kept of some rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Id {
    /// A column, by what it is in the files.
    Column(u64),
    /// A deletion vector, by the hash of its name.
    Deleted(u64),
}

/// What columns are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A query reads them, in their faster forms where there are such.
    Query,
    /// The same columns, for what is no client's query: to see what one would take, or to describe values.
    Aside,
    /// To merge, to write or to describe them: as they are held compactly.
    Maintenance,
}

#[derive(Debug)]
enum Item {
    Column(Arc<Column>),
    /// `None`: the vector deletes none of the rows.
    Deleted(Option<Arc<Deleted>>),
}

impl Item {
    fn is_read(&self) -> bool {
        match self {
            Self::Column(column) => Arc::strong_count(column) > 1,
            Self::Deleted(deleted) => deleted.as_ref().is_some_and(|deleted| Arc::strong_count(deleted) > 1),
        }
    }
}

#[derive(Debug)]
struct Resident {
    id: Id,
    item: Item,
    /// Turns of the clock that it gets when it is read, and that it has left.
    turns: u8,
    left: u8,
    held: Reservation,
    elastic: Elastic,
}

impl Resident {
    fn new(id: Id, item: Item, turns: u8, held: Reservation) -> Self {
        Self { id, item, turns, left: turns, held, elastic: Elastic::default() }
    }

    fn is_read(&self) -> bool {
        self.item.is_read() || self.elastic.is_read()
    }
}

#[derive(Debug, Default)]
struct Items {
    of: HashMap<Rows, Vec<Resident>>,
    /// Where the clock's hand goes: each item once, the next first.
    clock: VecDeque<(Rows, Id)>,
    /// Places on the clock whose items were forgotten, at most.
    forgotten: usize,
    /// Columns that have faster forms; some of them may have left the cache.
    faster: BTreeSet<(Rows, u64)>,
    /// Columns that were read often; some of them may have left the cache, or cooled down.
    hot: BTreeSet<(Rows, u64)>,
    /// Half-lives of heat that have passed.
    age: u32,
    /// How often memory was wanted that was not free.
    pressed: u64,
    /// Faster forms that were made, and that others had the memory of.
    made: u64,
    evicted: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct FragmentCache {
    items: Mutex<Items>,
    /// Held while rows are read, so that each is read once however many ask.
    loads: Mutex<HashMap<Rows, Weak<Semaphore>>>,
}

/// What is kept of some rows, as far as it was asked for.
#[derive(Debug)]
pub(crate) struct Found {
    /// In the order in which they were asked for.
    pub(crate) columns: Vec<Option<Arc<Column>>>,
    /// The outer `None`: it is not here.
    pub(crate) deleted: Option<Option<Arc<Deleted>>>,
}

impl Found {
    /// Whether nothing is missing.
    pub(crate) fn is_whole(&self) -> bool {
        self.deleted.is_some() && self.columns.iter().all(Option::is_some)
    }
}

impl FragmentCache {
    /// Some columns and the deletion vector (0: none) of many rows. What is found is pinned while the answer lives. Where
    /// something is missing no query has read anything yet.
    pub(crate) fn find(
        &self,
        rows: impl IntoIterator<Item = (Rows, u64)> + Clone,
        columns: &[u64],
        purpose: Purpose,
    ) -> Vec<Found> {
        let mut items = self.items();
        let Items { of, hot, age, .. } = &mut *items;
        let all = rows.clone();
        let find = |(rows, deletions): (Rows, u64)| {
            let mut found = Found {
                columns: vec![None; columns.len()],
                deleted: if deletions == 0 { Some(None) } else { None },
            };
            for resident in of.get_mut(&rows).into_iter().flatten() {
                match (&resident.item, resident.id) {
                    (Item::Column(column), Id::Column(id)) => {
                        let Some(place) = columns.iter().position(|wanted| *wanted == id) else { continue };
                        found.columns[place] = Some(resident.elastic.read(column, purpose));
                        if purpose == Purpose::Query && resident.elastic.used(*age) {
                            hot.insert((rows, id));
                        }
                    }
                    (Item::Deleted(deleted), Id::Deleted(id)) if id == deletions => {
                        found.deleted = Some(deleted.clone());
                    }
                    _ => continue,
                }
                resident.left = resident.turns;
            }
            found
        };
        let found: Vec<Found> = rows.into_iter().map(find).collect();
        if purpose == Purpose::Query && !found.iter().all(Found::is_whole) {
            for (rows, _) in all {
                for resident in of.get_mut(&rows).into_iter().flatten() {
                    if let Id::Column(id) = resident.id
                        && columns.contains(&id)
                    {
                        resident.elastic.unread(*age);
                    }
                }
            }
        }
        found
    }

    /// Keeps a column that took so long to read, and the memory that was reserved for it.
    pub(crate) fn keep_column(
        &self,
        rows: Rows,
        id: u64,
        column: Arc<Column>,
        took: Duration,
        held: Reservation,
    ) {
        let turns = turns(took, column.bytes() as u64);
        self.keep(rows, Resident::new(Id::Column(id), Item::Column(column), turns, held));
    }

    /// Keeps a deletion vector, and the memory that was reserved for it.
    pub(crate) fn keep_deleted(&self, rows: Rows, id: u64, deleted: Option<Arc<Deleted>>, held: Reservation) {
        let turns = limits::CACHE_TURNS;
        self.keep(rows, Resident::new(Id::Deleted(id), Item::Deleted(deleted), turns, held));
    }

    fn keep(&self, rows: Rows, resident: Resident) {
        let mut items = self.items();
        let id = resident.id;
        let of = items.of.entry(rows).or_default();
        // Whoever was first is kept: queries share it.
        if of.iter().any(|known| known.id == id) {
            return;
        }
        of.push(resident);
        items.clock.push_back((rows, id));
    }

    /// The one permit to read some rows.
    pub(crate) fn load(&self, rows: Rows) -> Arc<Semaphore> {
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(load) = loads.get(&rows).and_then(Weak::upgrade) {
            return load;
        }
        if loads.len() == loads.capacity() {
            loads.retain(|_, load| load.strong_count() > 0);
        }
        let load = Arc::new(Semaphore::new(1));
        loads.insert(rows, Arc::downgrade(&load));
        load
    }

    /// Lets go of everything of some rows: no version that is read has them.
    pub(crate) fn forget(&self, rows: Rows) {
        let mut items = self.items();
        let gone = items.of.remove(&rows);
        // Default: nothing of them was here.
        items.forgotten += gone.as_ref().map_or(0, Vec::len);
        items.forget_places();
        drop(items);
        drop(gone);
    }

    /// Lets go of everything of a table.
    pub(crate) fn forget_table(&self, table: u64) {
        let mut items = self.items();
        items.of.retain(|rows, _| rows.table != table);
        items.clock.retain(|(rows, _)| rows.table != table);
    }

    /// Lets everything of some rows go before what is read more: another node holds them.
    pub(crate) fn cool(&self, rows: Rows) {
        for resident in self.items().of.get_mut(&rows).into_iter().flatten() {
            resident.left = 0;
        }
    }

    /// Of each of many rows: how many columns are here, and their bytes.
    pub(crate) fn sizes(&self, rows: impl IntoIterator<Item = Rows>) -> Vec<(usize, u64)> {
        let items = self.items();
        let size = |rows: Rows| {
            let of = items.of.get(&rows).into_iter().flatten();
            of.filter(|resident| matches!(resident.id, Id::Column(_)))
                .fold((0, 0), |(n, bytes), resident| (n + 1, bytes + resident.held.bytes()))
        };
        rows.into_iter().map(size).collect()
    }

    /// The columns of a table that are here.
    pub(crate) fn columns_of(&self, table: u64) -> Vec<Arc<Column>> {
        let items = self.items();
        let of = items.of.iter().filter(|(rows, _)| rows.table == table).flat_map(|(_, of)| of);
        of.filter_map(|resident| match &resident.item {
            Item::Column(column) => Some(Arc::clone(column)),
            Item::Deleted(_) => None,
        })
        .collect()
    }

    fn items(&self) -> MutexGuard<'_, Items> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Items {
    /// Takes the places of what was forgotten off the clock, when they are half of it: where there is memory enough its hand
    /// never comes by.
    fn forget_places(&mut self) {
        if self.forgotten <= self.clock.len() / 2 {
            return;
        }
        let Self { of, clock, .. } = self;
        clock
            .retain(|(rows, id)| of.get(rows).is_some_and(|of| of.iter().any(|resident| resident.id == *id)));
        clock.shrink_to(2 * clock.len());
        self.forgotten = 0;
    }

    /// Moves the clock's hand on by one item; the item, if it goes.
    fn turn(&mut self) -> Option<Option<Resident>> {
        let (rows, id) = self.clock.pop_front()?;
        let Some(of) = self.of.get_mut(&rows) else { return Some(None) };
        let Some(place) = of.iter().position(|resident| resident.id == id) else { return Some(None) };
        let resident = &mut of[place];
        if resident.left > 0 || resident.is_read() {
            resident.left = resident.left.saturating_sub(1);
            self.clock.push_back((rows, id));
            return Some(None);
        }
        let gone = of.swap_remove(place);
        if of.is_empty() {
            self.of.remove(&rows);
        }
        Some(Some(gone))
    }
}

impl Evict for FragmentCache {
    fn evict_spare(&self, bytes: u64) -> u64 {
        self.give_back(bytes)
    }

    fn evict(&self, bytes: u64) -> u64 {
        // What nobody needs goes before what may be read again.
        let mut freed = self.give_back(bytes);
        if freed >= bytes {
            return freed;
        }
        let mut gone = Vec::new();
        let mut items = self.items();
        // As often as every item has turns; what is left then is pinned.
        let turns = items.clock.len() * (usize::from(limits::CACHE_TURNS) + 1);
        for _ in 0..turns {
            if freed >= bytes {
                break;
            }
            let Some(evicted) = items.turn() else { break };
            if let Some(resident) = evicted {
                freed += resident.held.bytes();
                gone.push(resident);
            }
        }
        drop(items);
        // Where nothing is locked: this tells the pool.
        drop(gone);
        freed
    }
}

/// Turns of the clock for an item: by what it takes to read a byte of it again.
fn turns(took: Duration, bytes: u64) -> u8 {
    let nanos_per_byte = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX) / bytes.max(1);
    let more = (nanos_per_byte / limits::CACHE_TURN_NANOS).min(u64::from(limits::CACHE_TURNS - 1));
    1 + u8::try_from(more).invariant("it is less than the most turns")
}

/// The rows of a fragment with some columns, given by their places in a schema of `width` columns.
pub(crate) fn assemble(
    rows: usize,
    width: usize,
    columns: &[usize],
    found: Vec<Option<Arc<Column>>>,
) -> basalt_core::error::Result<FragmentData> {
    let mut all = vec![None; width];
    for (place, column) in columns.iter().zip(found) {
        all[*place] = column;
    }
    FragmentData::of_columns(rows, all)
}

#[cfg(test)]
mod tests {
    use basalt_core::schema::{DataType, Field};

    use super::*;
    use crate::memory::{Consumer, MemoryPool};

    const SECOND: Duration = Duration::from_secs(1);

    fn cache(limit: u64) -> (Arc<MemoryPool>, Arc<FragmentCache>) {
        let (pool, cache) = (Arc::new(MemoryPool::new(limit)), Arc::<FragmentCache>::default());
        pool.set_cache(Arc::downgrade(&cache) as Weak<dyn Evict>);
        (pool, cache)
    }

    fn column() -> Arc<Column> {
        Arc::new(Column::from_keys(&Field::new("a", DataType::Int64, false), &[1, 2, 3], None).unwrap())
    }

    fn rows(hash: u64) -> Rows {
        Rows { table: 1, hash }
    }

    /// Keeps columns of ten bytes each, as they are counted.
    fn fill(pool: &Arc<MemoryPool>, cache: &FragmentCache, hashes: impl IntoIterator<Item = u64>) {
        for hash in hashes {
            let mut held = pool.reserve(Consumer::Cache);
            held.set(10).unwrap();
            cache.keep_column(rows(hash), 7, column(), Duration::ZERO, held);
        }
    }

    fn here(cache: &FragmentCache, hashes: std::ops::Range<u64>) -> Vec<u64> {
        let sizes = cache.sizes(hashes.clone().map(rows));
        hashes.zip(sizes).filter(|(_, (n, _))| *n > 0).map(|(hash, _)| hash).collect()
    }

    #[test]
    fn what_was_not_read_for_long_goes_first() {
        let (pool, cache) = cache(100);
        fill(&pool, &cache, 0..10);
        assert_eq!(pool.held(), 100);
        // All have had their turn, then some are read.
        let mut other = pool.reserve(Consumer::Writes);
        other.set(10).unwrap();
        assert_eq!(here(&cache, 0..10).len(), 9);
        let read = [3, 5, 8];
        drop(cache.find(read.map(|hash| (rows(hash), 0)), &[7], Purpose::Query));
        other.set(70).unwrap();
        assert_eq!(here(&cache, 0..10), read);
        assert_eq!(pool.held(), 100);
    }

    #[test]
    fn what_is_forgotten_takes_no_room_on_the_clock() {
        let (pool, cache) = cache(1 << 20);
        for hash in 0..1000 {
            fill(&pool, &cache, [hash]);
            if hash >= 10 {
                cache.forget(rows(hash - 10));
            }
        }
        assert_eq!(here(&cache, 980..1000).len(), 10);
        assert!(cache.items().clock.len() <= 20, "{}", cache.items().clock.len());
    }

    #[test]
    fn what_is_read_stays_and_the_rest_is_refused() {
        let (pool, cache) = cache(100);
        fill(&pool, &cache, 0..10);
        let found = cache.find((0..10).map(|hash| (rows(hash), 0)), &[7], Purpose::Query);
        assert!(found.iter().all(Found::is_whole));
        let mut other = pool.reserve(Consumer::Writes);
        assert_eq!(other.set(1).unwrap_err().reason(), "MEMORY_LIMIT");
        drop(found);
        other.set(1).unwrap();
        assert_eq!(here(&cache, 0..10).len(), 9);
    }

    #[test]
    fn what_costs_more_stays_longer() {
        let (pool, cache) = cache(100);
        for hash in 0..10 {
            let mut held = pool.reserve(Consumer::Cache);
            held.set(10).unwrap();
            cache.keep_column(
                rows(hash),
                7,
                column(),
                if hash % 2 == 0 { SECOND } else { Duration::ZERO },
                held,
            );
        }
        let mut other = pool.reserve(Consumer::Writes);
        other.set(50).unwrap();
        assert_eq!(here(&cache, 0..10), [0, 2, 4, 6, 8]);
    }

    #[test]
    fn what_is_forgotten_frees_its_memory() {
        let (pool, cache) = cache(100);
        fill(&pool, &cache, 0..10);
        cache.forget(rows(4));
        assert_eq!(pool.held(), 90);
        cache.forget_table(1);
        assert_eq!(pool.held(), 0);
        // The hand finds nothing, and stops.
        assert_eq!(cache.evict(10), 0);
    }

    #[test]
    fn a_deletion_vector_is_that_of_a_version() {
        let (pool, cache) = cache(100);
        let mut held = pool.reserve(Consumer::Cache);
        held.set(5).unwrap();
        cache.keep_deleted(rows(1), 77, None, held);
        let of = |deletions| cache.find([(rows(1), deletions)], &[], Purpose::Query).remove(0).is_whole();
        assert_eq!((of(0), of(77), of(78)), (true, true, false));
    }

    #[tokio::test]
    async fn rows_are_read_by_one_at_a_time() {
        let cache = FragmentCache::default();
        let (first, second) = (cache.load(rows(1)), cache.load(rows(1)));
        let permit = first.acquire().await;
        assert!(second.try_acquire().is_err());
        assert!(cache.load(rows(2)).try_acquire().is_ok());
        drop(permit);
        assert!(second.try_acquire().is_ok());
    }
}
