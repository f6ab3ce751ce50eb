//! What is done to tables while nobody waits for it: freeing what is too old; of durable ones also following other
//! nodes, merging small files, checkpoints of the log, removing what is no longer needed.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::{Arc, PoisonError, Weak, atomic::Ordering},
};

use basalt_core::{
    fragment::{Fragment, RowBuffer},
    limits::{FRAGMENT_ROWS, PENDING_BYTES},
};
use basalt_storage::{FragmentEntry, Operation, TableState};
use futures_util::FutureExt as _;
use tokio::{
    task::{AbortHandle, JoinSet},
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};

use super::{
    Tables,
    commit::Edit,
    load::decoded_bytes,
    stored::Stored,
    tasks::Background,
    tiers::{full_tiers, tier_of},
    volatile::Ages,
};
use crate::{
    limits,
    memory::Consumer,
    panics::{self, caught_async},
    status::RequestError,
};

/// Looks after the tables for as long as there are any, whatever happens to one of them. What is done for a table is a
/// task of its own, of which there is one of each kind at a time: nothing waits for a table, or a call to the store, that
/// is slow.
pub(crate) async fn run(tables: Weak<Tables>) {
    while caught_async(async {
        look_after(&tables).await;
        Ok(())
    })
    .await
    .is_err()
    {
        sleep(limits::FOLLOW_INTERVAL).await;
    }
}

async fn look_after(tables: &Weak<Tables>) {
    let Some(background) = tables.upgrade().map(|tables| Arc::clone(&tables.shared.background)) else {
        return;
    };
    let mut ticks = interval(limits::FOLLOW_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut vacuumed, mut expired) = (Instant::now(), None::<Instant>);
    let (mut tasks, mut ages) = (Tasks::new(background), Ages::default());
    loop {
        ticks.tick().await;
        let Some(tables) = tables.upgrade() else { return };
        let asked = tables.shared.expire_now.notified().now_or_never().is_some();
        let expires = asked || expired.is_none_or(|at| at.elapsed() > limits::EXPIRE_INTERVAL);
        if expires {
            expired = Some(Instant::now());
        }
        tasks.forget_ended();
        tables.forget_parted();
        if tables.is_durable() {
            tasks.start(0, Work::Follow, Tables::clone(&tables).follow_catalog());
        } else {
            ages.forget_old(&tables);
            for table in tables.to_merge() {
                tasks.start(table.id(), Work::Tidy, Tables::clone(&tables).merge_in_memory(table));
            }
            if expires {
                tasks.start(0, Work::Tidy, Tables::clone(&tables).expire_all_in_memory());
            }
        }
        for stored in tables.list_stored() {
            // Its maker alone looks after a draft.
            if !stored.is_named() {
                continue;
            }
            stored.forget_old();
            let id = stored.table.id();
            if expires {
                stored.expires.store(true, Ordering::Relaxed);
            }
            tasks.start(id, Work::Follow, Tables::clone(&tables).follow_store(Arc::clone(&stored)));
            if stored.has_pins() {
                tasks.start(id, Work::Pin, Arc::clone(&stored).renew_pins());
            }
            if !stored.attached {
                tasks.start(id, Work::Tidy, stored.look_after());
            }
        }
        let older = tables.older_with_pins();
        if !older.is_empty() {
            tasks.start(0, Work::Pin, async move {
                for stored in older {
                    stored.renew_pins().await;
                }
            });
        }
        if vacuumed.elapsed() > limits::VACUUM_INTERVAL {
            vacuumed = Instant::now();
            tasks.start(0, Work::Tidy, Tables::clone(&tables).vacuum_catalog());
        }
        tables.shared.memory.count_tables(&tables.shared.catalog);
    }
}

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Work {
    /// What other nodes commit is taken in.
    Follow,
    /// Leases of versions that kept sets need are renewed.
    Pin,
    /// Files are merged, old ones removed, and what else there is to do.
    Tidy,
}

/// Work under way, by its table; 0 is the catalog. It ends with this.
struct Tasks {
    background: Arc<Background>,
    running: HashMap<(u64, Work), AbortHandle>,
    tasks: JoinSet<()>,
}

impl Tasks {
    fn new(background: Arc<Background>) -> Self {
        Self { background, running: HashMap::new(), tasks: JoinSet::new() }
    }

    fn start(&mut self, table: u64, work: Work, task: impl Future<Output = ()> + Send + 'static) {
        if let Entry::Vacant(free) = self.running.entry((table, work)) {
            free.insert(self.tasks.spawn(self.background.until_over(task)));
        }
    }

    fn forget_ended(&mut self) {
        while let Some(ended) = self.tasks.try_join_next() {
            if let Err(error) = ended {
                tracing::error!(%error, "work in the background");
            }
        }
        self.running.retain(|_, task| !task.is_finished());
    }
}

impl Tables {
    async fn follow_catalog(self) {
        if let Err(error) = self.refresh_catalog(self.shared.now()).await {
            tracing::warn!(error = error.message(), "cannot follow the store");
        }
    }

    async fn follow_store(self, stored: Arc<Stored>) {
        match self.refresh_since(&stored.table, self.shared.now()).await {
            Ok(()) => stored.told.forget(),
            Err(error) if stored.told.is_due(error.message()) => {
                tracing::warn!(table = stored.table.name(), error = error.message(), "cannot follow");
            }
            Err(_) => {}
        }
    }

    async fn vacuum_catalog(self) {
        let Some(durable) = &self.durable else { return };
        // What it removes it logs.
        if let Err(error) = durable.log.vacuum(&durable.state()).await {
            tracing::warn!(%error, "cannot remove what is left of dropped tables");
        }
    }
}

impl Stored {
    async fn look_after(self: Arc<Self>) {
        let table = self.table.name();
        match timeout(limits::TIDY_TIMEOUT, caught_async(self.tidy())).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(table, error = error.message(), "work in the background"),
            Err(_) => tracing::warn!(table, "work in the background takes too long, and is begun again"),
        }
    }

    async fn tidy(&self) -> Result<(), RequestError> {
        panics::wanted("tidy", self.table.name());
        let owns = self.shared.peers().owns(self.table.id());
        if owns && self.expires.swap(false, Ordering::Relaxed) {
            self.expire().await;
        }
        let merged = if owns { self.merge().await } else { Ok(()) };
        // On a full disk nothing can be merged before something is removed.
        self.vacuum(owns).await?;
        merged
    }

    /// Merges small fragments, and makes a checkpoint of the log where one is due.
    async fn merge(&self) -> Result<(), RequestError> {
        self.compact().await?;
        let state = self.state();
        if state.needs_checkpoint() {
            let noted = self.log.checkpoint(&state).await?;
            self.note_checkpoint(&noted);
        }
        Ok(())
    }

    /// Merges small fragments, if there are enough of them; readers keep those that they read.
    async fn compact(&self) -> Result<(), RequestError> {
        let state = self.state();
        let candidates = self.candidates(&state);
        let chosen = self.chosen(&state, &candidates);
        if chosen.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        let was = self.fragments_at(&state, &chosen, &self.all_columns()).await?;
        let was: Vec<Fragment> = was.fragments().to_vec();
        let schema = Arc::clone(self.table.schema());
        let small = was.clone();
        let mut held = self.shared.memory.reserve(Consumer::Maintenance);
        let columns = self.all_columns();
        let decoded = |entry: &FragmentEntry| decoded_bytes(&state, entry, &columns);
        let rows = chosen.iter().filter_map(|id| state.fragment(*id)).map(decoded);
        held.set((rows.sum::<u64>() / limits::ENCODE_ROW_BYTES * 9).min(self.shared.memory.limit() / 2))?;
        let merge = move || {
            let mut rows = RowBuffer::new(&schema);
            // What does not fit waits for the next time.
            let fits = small.iter().take_while(|fragment| {
                let fits =
                    rows.rows() + fragment.live_rows() <= FRAGMENT_ROWS && rows.bytes() <= PENDING_BYTES;
                if fits {
                    rows.push_fragment(fragment);
                }
                fits
            });
            let n = fits.count();
            (n, rows)
        };
        let (n, merged) = self.shared.cpu.run(merge).await?;
        let was = was[..n].to_vec();
        let is_hollow =
            |id: u32| candidates.iter().any(|candidate| candidate.id == id && candidate.is_hollow);
        if let [alone] = was.as_slice()
            && !is_hollow(alone.id())
        {
            // Nothing fits beside its texts: it would be written as it is, again and again.
            self.note_full(&state, alone.id());
            return Ok(());
        }
        let rows: usize = was.iter().map(Fragment::live_rows).sum();
        let new = self.write_some(merged).await?.into_iter().collect();
        let gone = was.iter().map(Fragment::id).collect();
        let (operation, base) = (Operation::Compact, state);
        let edit = Edit::Change { operation, base, exactly: false, gone, deletions: Vec::new() };
        match self.change(new, edit).await {
            Ok(version) => {
                let (table, fragments, elapsed) = (self.table.name(), n, started.elapsed());
                self.shared.metrics.compaction();
                tracing::info!(table, version, fragments, rows, ?elapsed, "merged small fragments");
                Ok(())
            }
            // Rows were deleted meanwhile: the next time.
            Err(error) if error.is_conflict() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The fragments of a version that may be worth rewriting.
    fn candidates(&self, state: &TableState) -> Vec<Candidate> {
        let full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = state.fragments().iter().filter(|entry| entry.is_whole_file());
        let candidates = whole.map(|entry| Candidate::of(entry, full.contains(&entry.source().rows)));
        candidates.filter(|candidate| candidate.tier.is_some() || candidate.is_hollow).collect()
    }

    /// Those that are merged: no more than memory has room for beside what is read.
    fn chosen(&self, state: &TableState, candidates: &[Candidate]) -> Vec<u32> {
        let room = self.shared.memory.limit() / limits::COMPACTION_MEMORY_PART;
        let columns = self.all_columns();
        choose(candidates, room, |id| {
            let decoded = |entry: &FragmentEntry| decoded_bytes(state, entry, &columns);
            state.fragment(id).map_or(0, decoded) / limits::ENCODE_ROW_BYTES * 9
        })
    }

    /// Notes that a fragment takes as many bytes as one may, and forgets those that are gone.
    fn note_full(&self, state: &TableState, id: u32) {
        let here: HashSet<u64> = state.fragments().iter().map(|entry| entry.source().rows).collect();
        let mut full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        full.retain(|rows| here.contains(rows));
        full.extend(state.fragment(id).map(|entry| entry.source().rows));
    }
}

/// A fragment that is all of its file.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    id: u32,
    /// Its size, as far as that of others is compared with it; `None` for one that is not small.
    tier: Option<u32>,
    /// Many of its rows are deleted.
    is_hollow: bool,
}

impl Candidate {
    /// `is_full`: it takes as many bytes as a fragment may, whatever its rows are.
    fn of(entry: &FragmentEntry, is_full: bool) -> Self {
        let (live, deleted) = (entry.live_rows(), entry.file.deleted_rows());
        let is_small = live <= FRAGMENT_ROWS as u64 / 2 && !is_full;
        Self {
            id: entry.id,
            tier: is_small.then(|| tier_of(live)),
            is_hollow: deleted >= limits::HOLLOW_ROWS
                && deleted * limits::HOLLOW_PART > u64::from(entry.rows),
        }
    }
}

/// The fragments to merge: once enough of about the same size have come together, these and all smaller ones, so that a
/// row is rewritten a logarithmic number of times; as many as there is room for by what each takes, but at least two of that
/// size, or it is looked among the smaller ones. Large ones come again when many of their rows are deleted.
fn choose(candidates: &[Candidate], mut room: u64, takes: impl Fn(u32) -> u64) -> Vec<u32> {
    for full in full_tiers(candidates.iter().filter_map(|candidate| candidate.tier)) {
        let of_tiers =
            |c: &Candidate| Some((Reverse(c.tier.filter(|tier| *tier <= full)?), takes(c.id), c.id));
        let mut found: Vec<_> = candidates.iter().filter_map(of_tiers).collect();
        // Those of this size first, of which the least leave room for most.
        found.sort_unstable();
        let mut left = room;
        found.retain(|(_, takes, _)| fits(*takes, &mut left));
        if found.iter().filter(|(Reverse(tier), ..)| *tier == full).count() > 1 {
            let mut chosen: Vec<u32> = found.into_iter().map(|(.., id)| id).collect();
            chosen.sort_unstable();
            return chosen;
        }
    }
    let hollow = candidates.iter().filter(|candidate| candidate.is_hollow).map(|candidate| candidate.id);
    hollow.filter(|id| fits(takes(*id), &mut room)).collect()
}

/// Takes so much of what is left, if there is as much.
fn fits(takes: u64, left: &mut u64) -> bool {
    match left.checked_sub(takes) {
        Some(rest) => {
            *left = rest;
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_tier(tier: u32, ids: std::ops::Range<u32>) -> impl Iterator<Item = Candidate> {
        ids.map(move |id| Candidate { id, tier: Some(tier), is_hollow: false })
    }

    #[test]
    fn enough_of_a_size_are_merged_with_all_smaller_ones() {
        let full = u32::try_from(limits::TIER_FRAGMENTS).unwrap();
        let few: Vec<_> = of_tier(2, 0..full - 1).chain(of_tier(1, 10..12)).collect();
        assert!(choose(&few, 1000, |_| 1).is_empty());
        let larger = Candidate { id: 3, tier: Some(5), is_hollow: false };
        let large = Candidate { id: 40, tier: None, is_hollow: false };
        let all: Vec<_> = of_tier(1, 20..22).chain(of_tier(2, 4..4 + full)).chain([larger, large]).collect();
        let expected: Vec<u32> = (4..4 + full).chain(20..22).collect();
        assert_eq!(choose(&all, 1000, |_| 1), expected);
    }

    #[test]
    fn one_fragment_is_not_merged_into_one() {
        let full = u32::try_from(limits::TIER_FRAGMENTS).unwrap();
        let large = || of_tier(5, 0..full);
        // There is room for one of them, or for none: nothing, and what is smaller does not wait for them.
        for takes in [60, 200] {
            let alone: Vec<_> = large().collect();
            assert!(choose(&alone, 100, |_| takes).is_empty(), "{takes}");
            let few: Vec<_> = large().chain(of_tier(0, 50..52)).collect();
            assert!(choose(&few, 100, |id| if id < full { takes } else { 1 }).is_empty(), "{takes}");
            let many: Vec<_> = large().chain(of_tier(0, 50..50 + full)).collect();
            let chosen = choose(&many, 100, |id| if id < full { takes } else { 1 });
            assert_eq!(chosen, (50..50 + full).collect::<Vec<_>>(), "{takes}");
        }
        // The first one alone is too large, and two others are not.
        let chosen = choose(&large().collect::<Vec<_>>(), 100, |id| match id {
            0 => 200,
            2 | 4 => 45,
            _ => 60,
        });
        assert_eq!(chosen, [2, 4]);
        // Smaller ones take no room from them.
        let both: Vec<_> = of_tier(0, 0..full).chain(of_tier(5, 50..50 + full)).collect();
        assert_eq!(choose(&both, 100, |id| if id < full { 10 } else { 45 }), [0, 50, 51]);
    }

    #[test]
    fn hollow_fragments_are_rewritten_one_by_one_too() {
        let hollow = |id, tier| Candidate { id, tier, is_hollow: true };
        let full = u32::try_from(limits::TIER_FRAGMENTS).unwrap();
        let few = [hollow(1, None), hollow(2, Some(5)), hollow(3, None)];
        assert_eq!(choose(&few, 100, |_| 60), [1]);
        assert_eq!(choose(&few, 100, |id| if id == 1 { 200 } else { 40 }), [2, 3]);
        // Also where those of a size cannot be merged.
        let all: Vec<_> = of_tier(5, 10..10 + full).chain(few).collect();
        assert_eq!(choose(&all, 100, |_| 60), [1]);
    }
}
