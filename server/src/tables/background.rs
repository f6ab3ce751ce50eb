//! What is done to tables while nobody waits for it: freeing what is too old; of durable ones also following other
//! nodes, merging small files, checkpoints of the log, removing what is no longer needed.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Weak, atomic::Ordering},
};

use basalt_core::{
    fragment::{Fragment, RowBuffer},
    limits::{FRAGMENT_ROWS, PENDING_BYTES},
};
use basalt_storage::{FragmentEntry, Fragments, Operation};
use futures_util::FutureExt as _;
use tokio::{
    task::{AbortHandle, JoinSet},
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};

use super::{Tables, commit::Edit, load::decoded_bytes, stored::Stored};
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
    let mut ticks = interval(limits::FOLLOW_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut vacuumed, mut expired) = (Instant::now(), None::<Instant>);
    let mut tasks = Tasks::default();
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
        } else if expires {
            tasks.start(0, Work::Tidy, Tables::clone(&tables).expire_all_in_memory());
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
#[derive(Default)]
struct Tasks {
    running: HashMap<(u64, Work), AbortHandle>,
    tasks: JoinSet<()>,
}

impl Tasks {
    fn start(&mut self, table: u64, work: Work, task: impl Future<Output = ()> + Send + 'static) {
        if let Entry::Vacant(free) = self.running.entry((table, work)) {
            free.insert(self.tasks.spawn(task));
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
            let state = self.log.checkpoint(&state).await?;
            self.replace_state(state);
        }
        Ok(())
    }

    /// Merges small fragments, if there are enough of them; readers keep those that they read.
    async fn compact(&self) -> Result<(), RequestError> {
        let state = self.state();
        let mut chosen = choose(state.fragments());
        // No more than memory has room for beside what is read.
        let mut bytes = self.shared.memory.limit() / limits::COMPACTION_MEMORY_PART;
        chosen.retain(|id| {
            let columns = self.all_columns();
            let decoded = |entry| decoded_bytes(&state, entry, &columns) / limits::ENCODE_ROW_BYTES * 9;
            let takes = state.fragment(*id).map_or(0, decoded);
            bytes = bytes.saturating_sub(takes);
            bytes > 0
        });
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
}

/// The fragments to merge: once enough of about the same size have come together, these and all smaller ones, so that a
/// row is rewritten a logarithmic number of times. Large ones come again when many of their rows are deleted.
fn choose(fragments: &Fragments) -> Vec<u32> {
    let whole = || fragments.iter().filter(|f| f.is_whole_file());
    let is_hollow = |f: &FragmentEntry| {
        let deleted = f.file.deleted_rows();
        deleted >= limits::HOLLOW_ROWS && deleted * limits::HOLLOW_PART > u64::from(f.rows)
    };
    let is_small = |f: &FragmentEntry| f.live_rows() <= FRAGMENT_ROWS as u64 / 2;
    let tier = |f: &FragmentEntry| f.live_rows().max(1).ilog2() / limits::TIER_BITS;
    let small = || whole().filter(|f| is_small(f));
    let mut tiers = [0; u64::BITS as usize];
    small().for_each(|f| tiers[tier(f) as usize] += 1);
    match tiers.iter().rposition(|n| *n >= limits::TIER_FRAGMENTS) {
        Some(full) => small().filter(|f| tier(f) as usize <= full).map(|f| f.id).collect(),
        None => whole().filter(|f| is_hollow(f)).map(|f| f.id).collect(),
    }
}
