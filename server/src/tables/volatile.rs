//! What is done in the background to tables that are in memory alone: versions that nobody needs any longer are forgotten, and
//! with them the rows that they alone have; small fragments, and those of which many rows are deleted, are merged.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use basalt_core::{
    error::ErrorKind,
    fragment::{Fragment, RowBuffer},
    limits::{FRAGMENT_ROWS, KEPT_VERSIONS, PENDING_BYTES},
    table::{Change, Snapshot, Table},
};
use tokio::time::Instant;

use super::{
    Shared, Tables,
    tiers::{full_tiers, tier_of},
    writing::writing_bytes,
};
use crate::{limits, memory::Consumer, status::RequestError};

/// Since when tables have their versions.
#[derive(Debug, Default)]
pub(super) struct Ages {
    /// By the id of a table: its newest version whenever that was another one, and when it was first seen. Whatever is
    /// before it was superseded by then.
    seen: HashMap<u64, VecDeque<(Instant, u64)>>,
}

impl Ages {
    /// Forgets the versions that were superseded longer ago than they are kept, or than a moment ago where there is little
    /// memory left. Those that kept sets pin stay, and those that are read.
    pub(super) fn forget_old(&mut self, tables: &Tables) {
        let (memory, keep) = (&tables.shared.memory, tables.shared.keep);
        let free = memory.limit().saturating_sub(memory.held());
        let keep = match free < memory.limit() / limits::SHORT_MEMORY_PART {
            true => keep.min(limits::SHORT_MEMORY_KEEP),
            false => keep,
        };
        self.forget(&tables.shared.catalog.list(), keep, Instant::now());
    }

    fn forget(&mut self, tables: &[Arc<Table>], keep: Duration, now: Instant) {
        let mut before = std::mem::take(&mut self.seen);
        for table in tables {
            // Default: it is seen for the first time.
            let mut seen = before.remove(&table.id()).unwrap_or_default();
            let newest = table.snapshot().version();
            if seen.back().is_none_or(|(_, version)| *version != newest) {
                seen.push_back((now, newest));
            }
            let is_over = |(at, _): &(Instant, u64)| now.duration_since(*at) > keep;
            // The last of those that are over tells of all before it, and a table keeps no more than so many itself.
            while seen.get(1).is_some_and(is_over) || seen.len() > KEPT_VERSIONS + 1 {
                seen.pop_front();
            }
            // Again and again: what was read or pinned the last time may not be any longer.
            if let Some(first) = seen.front()
                && is_over(first)
            {
                table.forget_before(first.1);
            }
            self.seen.insert(table.id(), seen);
        }
    }
}

impl Shared {
    /// Bytes of the rows of a fragment before they are encoded, at most, that several are merged to.
    fn merged_bytes(&self) -> usize {
        self.part(limits::COMPACTION_MEMORY_PART)
    }

    /// The same where a write does it, for which nobody reserves more.
    #[cfg(feature = "sql")]
    pub(super) fn fragment_bytes(&self) -> usize {
        self.part(limits::FRAGMENT_MEMORY_PART)
    }

    fn part(&self, part: u64) -> usize {
        // Default: more than a fragment ever has.
        usize::try_from(self.memory.limit() / part).unwrap_or(usize::MAX).min(PENDING_BYTES)
    }
}

impl Tables {
    /// Those in memory alone of which fragments are to be merged.
    pub(super) fn to_merge(&self) -> Vec<Arc<Table>> {
        let (mut tables, most) = (self.shared.catalog.list(), self.shared.merged_bytes());
        tables.retain(|table| !choose(&table.snapshot(), most).is_empty());
        tables
    }

    /// Merges fragments of a table in memory alone; readers keep those that they read.
    pub(super) async fn merge_in_memory(self, table: Arc<Table>) {
        if let Err(error) = merge(&self.shared, &table).await {
            tracing::warn!(table = table.name(), error = error.message(), "cannot merge fragments");
        }
    }
}

/// The same; nothing where there is no memory for it, or another write comes first: then the next time.
async fn merge(shared: &Arc<Shared>, table: &Arc<Table>) -> Result<(), RequestError> {
    let started = Instant::now();
    let was = choose(&table.snapshot(), shared.merged_bytes());
    let (fragments, rows): (_, usize) = (was.len(), was.iter().map(Fragment::live_rows).sum());
    let bytes: usize = was.iter().map(Fragment::live_decoded_bytes).sum();
    let mut held = shared.memory.reserve(Consumer::Maintenance);
    if was.is_empty() || !held.try_set(writing_bytes(bytes as u64, rows as u64, shared.cpu.threads())) {
        return Ok(());
    }
    let (of, schema) = (Arc::clone(table), Arc::clone(table.schema()));
    let merge = move || {
        let mut rows = RowBuffer::new(&schema);
        was.iter().for_each(|fragment| rows.push_fragment(fragment));
        let add = match rows.rows() {
            0 => Vec::new(),
            _ => vec![Arc::new(rows.encode(&schema)?)],
        };
        of.commit(Change { was, add, ..Change::default() })
    };
    match shared.cpu.run(merge).await? {
        Ok(version) => {
            shared.memory.count_tables(&shared.catalog);
            shared.metrics.compaction();
            let (table, elapsed) = (table.name(), started.elapsed());
            tracing::info!(table, version, fragments, rows, ?elapsed, "merged small fragments");
            Ok(())
        }
        Err(error) if matches!(error.kind(), ErrorKind::WriteConflict | ErrorKind::TableNotFound) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The fragments to merge into one of no more than so many bytes of rows, by id. Those of which many rows are deleted, as
/// soon as these are enough to be worth it: they come out without such rows, so that nothing is written again for ever. Or
/// small ones, of which there are fewer afterwards.
fn choose(snapshot: &Snapshot, most: usize) -> Vec<Fragment> {
    let deleted = |f: &Fragment| (f.rows() - f.live_rows()) as u64;
    let is_hollow = |f: &Fragment| deleted(f) * limits::HOLLOW_PART > f.rows() as u64;
    let mut chosen: Vec<&Fragment> = snapshot.fragments().iter().filter(|f| is_hollow(f)).collect();
    if chosen.iter().map(|f| deleted(f)).sum::<u64>() >= limits::HOLLOW_ROWS {
        // First those that take the least memory meanwhile: there is more for the others then.
        chosen.sort_by_key(|f| f.live_rows());
    } else {
        chosen = choose_small(snapshot.fragments(), most);
    }
    let (mut rows, mut bytes) = (0, 0);
    let fits = chosen.into_iter().enumerate().take_while(|(i, f)| {
        rows += f.live_rows();
        bytes += f.live_decoded_bytes();
        // One by itself was one before.
        *i == 0 || rows <= FRAGMENT_ROWS && bytes <= most
    });
    let mut fits: Vec<Fragment> = fits.map(|(_, f)| f.clone()).collect();
    fits.sort_unstable_by_key(Fragment::id);
    fits
}

/// Once enough small fragments of about the same size have come together, these and all smaller ones, so that a row is
/// rewritten a logarithmic number of times. Any two of them fit into one.
fn choose_small(fragments: &[Fragment], most: usize) -> Vec<&Fragment> {
    if fragments.len() < limits::TIER_FRAGMENTS {
        return Vec::new();
    }
    let is_small = |f: &Fragment| f.live_rows() <= FRAGMENT_ROWS / 2 && f.live_decoded_bytes() <= most / 4;
    let tier = |f: &Fragment| tier_of(f.live_rows() as u64);
    let small: Vec<&Fragment> = fragments.iter().filter(|f| is_small(f)).collect();
    let full = full_tiers(small.iter().map(|f| tier(f))).next();
    match full {
        Some(full) => small.into_iter().filter(|f| tier(f) <= full).collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    use basalt_core::{
        limits::BLOCK_ROWS,
        schema::{DataType, Field, Schema},
        table::Appender,
    };
    use basalt_sip::Sip;

    use super::*;
    use crate::{Config, environment, state::State, tables::delete::without};

    const MINUTE: Duration = Duration::from_secs(60);

    fn state() -> State {
        let config = Config { threads: 2, store: "memory:".into(), ..Config::default() };
        State::new(environment::process(), &config, None).unwrap()
    }

    async fn table(state: &State) -> Arc<Table> {
        let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]).unwrap();
        state.tables.create("t", schema, None, Default::default()).await.unwrap()
    }

    /// The versions below five that can be read.
    fn kept(table: &Table) -> Vec<u64> {
        (0..5).filter(|version| table.snapshot_at(Some(*version)).is_ok()).collect()
    }

    #[tokio::test]
    async fn versions_that_are_too_old_are_forgotten() {
        let state = state();
        let table = table(&state).await;
        let (tables, mut ages, start) = ([Arc::clone(&table)], Ages::default(), Instant::now());
        ages.forget(&tables, MINUTE, start);
        table.commit(Change::default()).unwrap();
        table.commit(Change::default()).unwrap();
        ages.forget(&tables, MINUTE, start + MINUTE / 2);
        table.commit(Change::default()).unwrap();
        // The first two were superseded half a minute after the start, as far as anybody has seen.
        for (after, versions) in [(MINUTE, vec![0, 1, 2, 3]), (MINUTE * 3 / 2 + MINUTE / 60, vec![2, 3])] {
            ages.forget(&tables, MINUTE, start + after);
            assert_eq!(kept(&table), versions);
        }
        // A kept set needs one, and somebody reads it.
        let pin = state.tables.pin_version("t", 0, 2).await.unwrap().unwrap();
        let read = table.snapshot_at(Some(2)).unwrap();
        ages.forget(&tables, MINUTE, start + 3 * MINUTE);
        assert_eq!(kept(&table), [2, 3]);
        drop(pin);
        ages.forget(&tables, MINUTE, start + 3 * MINUTE);
        assert_eq!(kept(&table), [2, 3]);
        drop(read);
        ages.forget(&tables, MINUTE, start + 3 * MINUTE);
        assert_eq!(kept(&table), [3]);
        ages.forget(&[], MINUTE, start + 3 * MINUTE);
        assert!(ages.seen.is_empty(), "those of tables that are gone");
    }

    #[tokio::test]
    async fn where_memory_is_short_they_go_sooner() {
        let state = state();
        let table = table(&state).await;
        let mut ages = Ages::default();
        ages.forget_old(&state.tables);
        table.commit(Change::default()).unwrap();
        ages.forget_old(&state.tables);
        tokio::time::sleep(limits::SHORT_MEMORY_KEEP + Duration::from_millis(100)).await;
        ages.forget_old(&state.tables);
        assert_eq!(kept(&table), [0, 1]);
        let memory = &state.tables.shared.memory;
        let mut write = memory.reserve(Consumer::Writes);
        write.set(memory.limit() - memory.limit() / 8).unwrap();
        ages.forget_old(&state.tables);
        assert_eq!(kept(&table), [1]);
    }

    /// Takes about half of the rows of the newest version away, if so, and adds others, whose values are any numbers.
    fn change(table: &Arc<Table>, halves: bool, new: usize, seed: &mut u64) {
        let mut next = || {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *seed
        };
        let snapshot = table.snapshot();
        let rows = snapshot.fragments().iter().flat_map(|f| (0..f.rows()).map(move |row| f.address(row)));
        let gone: Vec<u64> = rows.filter(|_| halves && next() >> 63 == 1).collect();
        let (was, is) = without(&snapshot, &Sip::from_sorted_ids(&gone));
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values((0..new).map(|_| next().cast_signed())));
        let mut appender = Appender::new(Arc::clone(table), &[]).unwrap();
        appender.push(&RecordBatch::try_from_iter_with_nullable([("a", column, true)]).unwrap()).unwrap();
        let add = appender.finish().unwrap().into_iter().map(Arc::new).collect();
        table.commit(Change { was, is, add, ..Change::default() }).unwrap();
    }

    /// Merges as often as there is something to merge, and says how often that was.
    async fn merged(state: &State) -> usize {
        for n in 0..100 {
            let Some(table) = state.tables.to_merge().pop() else { return n };
            let version = table.snapshot().version();
            Tables::clone(&state.tables).merge_in_memory(Arc::clone(&table)).await;
            assert_eq!(table.snapshot().version(), version + 1);
        }
        panic!("it comes to no rest");
    }

    #[tokio::test]
    async fn small_fragments_are_merged_once_there_are_enough() {
        let state = state();
        let (table, mut seed) = (table(&state).await, 1);
        for _ in 1..limits::TIER_FRAGMENTS {
            change(&table, false, 5, &mut seed);
        }
        assert_eq!(merged(&state).await, 0);
        let read = table.snapshot();
        change(&table, false, 5, &mut seed);
        assert_eq!(merged(&state).await, 1);
        let now = table.snapshot();
        assert_eq!((now.fragments().len(), now.rows()), (1, 5 * limits::TIER_FRAGMENTS as u64));
        assert_eq!(read.fragments().len(), limits::TIER_FRAGMENTS - 1);
    }

    #[tokio::test]
    async fn a_table_of_which_rows_are_replaced_again_and_again_stays_as_large_as_its_rows() {
        let rows = 3 * BLOCK_ROWS;
        let state = state();
        let (table, mut seed) = (table(&state).await, 1);
        change(&table, false, rows, &mut seed);
        let fresh = table.snapshot().bytes();
        for _ in 0..12 {
            let before = table.snapshot().rows();
            change(&table, true, 0, &mut seed);
            let gone = usize::try_from(before - table.snapshot().rows()).unwrap();
            change(&table, false, gone, &mut seed);
            merged(&state).await;
        }
        let now = table.snapshot();
        assert_eq!(now.rows(), rows as u64);
        assert!(now.bytes() < 2 * fresh, "{} bytes; {fresh} at first", now.bytes());
        table.forget_before(now.version());
        assert_eq!(table.bytes(), now.bytes());
        assert_eq!(merged(&state).await, 0);
    }

    #[tokio::test]
    async fn nothing_is_merged_without_memory_for_it() {
        let state = state();
        let (table, mut seed) = (table(&state).await, 1);
        for _ in 0..limits::TIER_FRAGMENTS {
            change(&table, false, 5, &mut seed);
        }
        let memory = &state.tables.shared.memory;
        let mut write = memory.reserve(Consumer::Writes);
        write.set(memory.limit() - memory.held()).unwrap();
        Tables::clone(&state.tables).merge_in_memory(Arc::clone(&table)).await;
        assert_eq!(table.snapshot().fragments().len(), limits::TIER_FRAGMENTS);
        drop(write);
        assert_eq!(merged(&state).await, 1);
    }
}
