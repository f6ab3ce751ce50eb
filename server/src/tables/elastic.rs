//! Memory that is free makes columns faster: those that queries read often get a faster form beside them, made in the
//! background, one at a time, and never where that memory is wanted.

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
};

use basalt_core::schema::Optimize;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::{Tables, stored::Stored};
use crate::{
    cache::{Allowed, Candidate, FragmentCache},
    class::Class,
    cpu::{Cpu, on_own_thread_as},
    environment::Environment,
    limits,
    memory::{Consumer, MemoryPool},
    panics::{caught, caught_async},
    status::RequestError,
};

/// Makes columns faster for as long as there are tables.
pub(crate) async fn run(tables: Weak<Tables>) {
    let mut ticks = interval(limits::ELASTIC_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut aged, mut turn) = (Instant::now(), Turn::default());
    loop {
        ticks.tick().await;
        let Some(tables) = tables.upgrade() else { return };
        if aged.elapsed() >= limits::HEAT_HALF_LIFE {
            aged = Instant::now();
            tables.shared.cache.age();
        }
        let allowed = tables.may_be_faster(&tables.shared.cache.hot_tables());
        let elastic = tables.shared.elastic();
        let done = caught_async(async { elastic.turn(&allowed, &mut turn).await }).await;
        if let Err(error) = done {
            tracing::warn!(error = error.message(), "columns cannot be made faster");
            turn.pause();
        }
    }
}

impl Tables {
    /// The columns of some tables that may have faster forms: all but those that are optimized for size, since whoever asked
    /// for that wants the fewest bytes.
    fn may_be_faster(&self, tables: &BTreeSet<u64>) -> Allowed {
        let ids = |stored: &Arc<Stored>| {
            let state = stored.state();
            let fields = state.schema().fields().iter().enumerate();
            let may = fields.filter(|(_, field)| field.optimize != Optimize::Size);
            (stored.table.id(), may.filter_map(|(place, _)| state.column_id(place)).collect())
        };
        self.list_stored().iter().filter(|stored| tables.contains(&stored.table.id())).map(ids).collect()
    }
}

/// What is known from one turn to the next.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// How often memory was wanted that was not free, when that was asked last.
    pressed: u64,
    /// None is made before.
    paused: Option<Instant>,
}

impl Turn {
    fn pause(&mut self) {
        self.paused = Some(Instant::now() + limits::ELASTIC_PAUSE);
    }
}

/// What it takes to make columns faster.
pub(super) struct Elastic<'a> {
    pub(super) cache: &'a FragmentCache,
    pub(super) memory: &'a Arc<MemoryPool>,
    pub(super) cpu: &'a Cpu,
    pub(super) environment: &'a Arc<dyn Environment>,
    /// Bytes that all faster forms may take.
    pub(super) most: u64,
}

/// What became of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It has a faster form now, or there is none.
    Done,
    NoRoom,
}

impl Elastic<'_> {
    /// Makes the hottest columns faster that there is room for.
    pub(super) async fn turn(&self, allowed: &Allowed, turn: &mut Turn) -> Result<(), RequestError> {
        // Columns that may have none lose theirs, whether others can be made or not.
        let candidates = self.cache.hottest(allowed);
        let pressed = self.cache.pressed();
        if std::mem::replace(&mut turn.pressed, pressed) != pressed {
            turn.pause();
        }
        if self.most == 0 || turn.paused.is_some_and(|until| Instant::now() < until) {
            return Ok(());
        }
        turn.paused = None;
        for candidate in candidates {
            // Whoever waits for a processor is not to wait longer, and whoever wants memory is to have it.
            if self.are_waiting() || self.cache.pressed() != pressed {
                break;
            }
            let started = Instant::now();
            let outcome = self.promote(candidate).await?;
            let took = started.elapsed();
            if self.are_running() && outcome == Outcome::Done {
                sleep(took * limits::ELASTIC_REST).await;
            }
        }
        Ok(())
    }

    fn are_waiting(&self) -> bool {
        self.cpu.waiting(Class::Short) + self.cpu.waiting(Class::Long) > 0
    }

    fn are_running(&self) -> bool {
        self.cpu.running(Class::Short) + self.cpu.running(Class::Long) > 0
    }

    /// What may be held in all for a faster form to be made.
    fn room(&self) -> u64 {
        let limit = self.memory.limit();
        limit - limit / limits::ELASTIC_FREE_PART
    }

    /// Whether there is room for so much while a faster form is made, and for its bytes; colder columns make it.
    fn has_room(&self, takes: u64, bytes: u64, heat: f32) -> bool {
        let lacks = |held: u64, more: u64, most: u64| held.saturating_add(more).saturating_sub(most);
        let over_all = lacks(self.memory.held(), takes, self.room());
        let over_most = lacks(self.memory.used(Consumer::Elastic), bytes, self.most);
        match over_all.max(over_most) {
            0 => true,
            over => {
                takes <= self.room()
                    && bytes <= self.most
                    && self.cache.make_way(over, heat / limits::ELASTIC_HOTTER)
            }
        }
    }

    async fn promote(&self, candidate: Candidate) -> Result<Outcome, RequestError> {
        let Some(column) = candidate.column.upgrade() else { return Ok(Outcome::Done) };
        let takes = column.bytes_while_made_faster() as u64;
        let mut making = self.memory.reserve(Consumer::Maintenance);
        // Default: how large it will be is not known.
        if !self.has_room(takes, candidate.bytes.unwrap_or(0), candidate.heat)
            || !making.try_set_within(takes, self.room())
        {
            return Ok(Outcome::NoRoom);
        }
        let was = column.encoding();
        let made = on_own_thread_as(self.environment, Class::Long, move |_| {
            caught(|| Ok((column.faster()?.map(Arc::new), making)))
        });
        let made = made.await.map_err(|_| RequestError::internal()).flatten();
        // One of which nothing can be made keeps others from nothing.
        let (faster, making) = made.inspect_err(|_| self.cache.keep_faster(&candidate, None))?;
        drop(making);
        let Some(faster) = faster else {
            self.cache.keep_faster(&candidate, None);
            return Ok(Outcome::Done);
        };
        let bytes = faster.bytes() as u64;
        let mut held = self.memory.reserve(Consumer::Elastic);
        if !self.has_room(bytes, bytes, candidate.heat) || !held.try_set_within(bytes, self.room()) {
            self.cache.size_faster(&candidate, bytes);
            return Ok(Outcome::NoRoom);
        }
        tracing::debug!(
            table = candidate.rows.table,
            was,
            now = faster.encoding(),
            bytes,
            "a column has a faster form"
        );
        self.cache.keep_faster(&candidate, Some((faster, held)));
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use basalt_core::{
        fragment::Column,
        schema::{DataType, Field},
    };

    use super::*;
    use crate::{
        cache::{Purpose, Rows},
        environment,
        memory::Evict,
    };

    const ID: u64 = 7;
    const ROWS: u64 = 1 << 16;

    struct Tested {
        memory: Arc<MemoryPool>,
        cache: Arc<FragmentCache>,
        cpu: Cpu,
        environment: Arc<dyn Environment>,
        most: u64,
        turn: Turn,
    }

    fn rows(hash: u64) -> Rows {
        Rows { table: 1, hash }
    }

    /// A few values, each half as often as the one before: their codes are compressed to two bits.
    fn column() -> Arc<Column> {
        let field = Field::new("a", DataType::Int64, false);
        let mut state = 1_u64;
        let keys = (0..ROWS).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            i64::from((state >> 33 | 1 << 20).trailing_zeros())
        });
        Arc::new(Column::from_keys(&field, &keys.collect::<Vec<_>>(), None).unwrap())
    }

    /// What the faster form takes, and what it takes to make it.
    fn sizes() -> (u64, u64) {
        let column = column();
        (column.faster().unwrap().unwrap().bytes() as u64, column.bytes_while_made_faster() as u64)
    }

    impl Tested {
        fn new(limit: u64, most: u64, columns: u64) -> Self {
            let (memory, cache) = (Arc::new(MemoryPool::new(limit)), Arc::<FragmentCache>::default());
            memory.set_cache(Arc::downgrade(&cache) as Weak<dyn Evict>);
            let environment = environment::process();
            let cpu = Cpu::new(1, 1, Arc::clone(&environment)).unwrap();
            for hash in 0..columns {
                let (column, mut held) = (column(), memory.reserve(Consumer::Cache));
                held.set(column.bytes() as u64).unwrap();
                cache.keep_column(rows(hash), ID, column, Duration::ZERO, held);
            }
            Self { memory, cache, cpu, environment, most, turn: Turn::default() }
        }

        async fn turn(&mut self) {
            let Self { memory, cache, cpu, environment, most, turn } = self;
            let elastic = Elastic { cache, memory, cpu, environment, most: *most };
            elastic.turn(&Allowed::from([(1, vec![ID])]), turn).await.unwrap();
        }

        fn read(&self, hash: u64, times: usize) -> Arc<Column> {
            let read =
                || self.cache.find([(rows(hash), 0)], &[ID], Purpose::Query).remove(0).columns.remove(0);
            (1..times).for_each(|_| drop(read().unwrap()));
            read().unwrap()
        }

        fn faster(&self, columns: u64) -> Vec<u64> {
            let is_faster = |hash: &u64| self.cache.told(rows(*hash), &[ID])[0].faster.is_some();
            (0..columns).filter(is_faster).collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_hot_column_has_a_faster_form_with_the_same_values() {
        let mut tested = Tested::new(1 << 30, 1 << 29, 2);
        let was = tested.read(0, 4);
        tested.read(1, 3);
        tested.turn().await;
        assert_eq!(tested.faster(2), [0]);
        let (bytes, faster) = (sizes().0, tested.read(0, 1));
        assert_ne!(faster.encoding(), was.encoding());
        assert!(faster.bytes() > was.bytes());
        assert!((0..was.rows()).all(|row| faster.value(row) == was.value(row)));
        assert_eq!(
            (tested.memory.used(Consumer::Elastic), tested.memory.used(Consumer::Maintenance)),
            (bytes, 0)
        );
        // Nothing is made again.
        tested.turn().await;
        assert_eq!(tested.cache.counts().made, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn where_there_is_no_room_none_is_made() {
        let (bytes, takes) = sizes();
        let all = column().bytes() as u64 + takes;
        let limit = all * limits::ELASTIC_FREE_PART / (limits::ELASTIC_FREE_PART - 1) + 8;
        for (limit, most, made) in
            [(limit, bytes, 1), (limit - 16, bytes, 0), (limit, bytes - 1, 0), (limit, 0, 0)]
        {
            let mut tested = Tested::new(limit, most, 1);
            tested.read(0, 9);
            tested.turn().await;
            assert_eq!(tested.cache.counts().made, made, "{limit} {most}");
            assert_eq!(tested.memory.used(Consumer::Elastic), made * bytes);
        }
        // It is tried again where its size is known and there is room.
        let mut tested = Tested::new(limit, bytes - 1, 1);
        tested.read(0, 9);
        tested.turn().await;
        assert_eq!(tested.cache.hottest(&Allowed::from([(1, vec![ID])]))[0].bytes, Some(bytes));
        tested.most = bytes;
        tested.turn().await;
        assert_eq!(tested.faster(1), [0]);
    }

    #[tokio::test(start_paused = true)]
    async fn none_is_made_while_others_want_memory() {
        let (bytes, takes) = sizes();
        let mut tested = Tested::new(4 * takes, takes, 1);
        tested.read(0, 9);
        tested.turn().await;
        assert_eq!(tested.faster(1), [0]);
        let mut other = tested.memory.reserve(Consumer::Writes);
        other.set(4 * takes - tested.memory.held() + 1).unwrap();
        assert_eq!((tested.faster(1).len(), tested.memory.used(Consumer::Elastic)), (0, 0));
        drop(other);
        for (passes, made) in
            [(Duration::ZERO, 0), (limits::ELASTIC_PAUSE / 2, 0), (limits::ELASTIC_PAUSE, bytes)]
        {
            tokio::time::advance(passes).await;
            tested.turn().await;
            assert_eq!(tested.memory.used(Consumer::Elastic), made, "{passes:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn hotter_columns_have_the_room_of_colder_ones() {
        let (bytes, _) = sizes();
        let mut tested = Tested::new(1 << 30, 2 * bytes, 3);
        for (hash, times) in [(0, 5), (1, 6), (2, 9)] {
            tested.turn().await;
            tested.read(hash, times);
        }
        tested.turn().await;
        // Not much hotter.
        assert_eq!(tested.faster(3), [0, 1]);
        tested.read(2, 2);
        tested.turn().await;
        assert_eq!(tested.faster(3), [1, 2]);
        assert_eq!(tested.cache.counts().evicted, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_processor_waits_no_longer() {
        let tested = Tested::new(1 << 30, 1 << 29, 1);
        tested.read(0, 9);
        let soon = Instant::now() + Duration::from_secs(5);
        let permit = tested.cpu.admit(Class::Long, soon, true).await.unwrap();
        let mut waiting = std::pin::pin!(tested.cpu.admit(Class::Long, soon, true));
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        let Tested { memory, cache, cpu, environment, .. } = &tested;
        let (elastic, mut turn) =
            (Elastic { cache, memory, cpu, environment, most: 1 << 29 }, Turn::default());
        let allowed = Allowed::from([(1, vec![ID])]);
        elastic.turn(&allowed, &mut turn).await.unwrap();
        assert!(tested.faster(1).is_empty());
        drop(permit);
        drop(waiting.await.unwrap());
        elastic.turn(&allowed, &mut turn).await.unwrap();
        assert_eq!(tested.faster(1), [0]);
    }
}
