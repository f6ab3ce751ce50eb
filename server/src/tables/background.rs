//! What is done to tables while nobody waits for it: freeing what is too old; of those at rest also following other
//! nodes, merging small files, checkpoints of the log, removing what is no longer needed.

use std::{
    sync::{Arc, Weak},
    time::Instant,
};

use basalt_core::{
    fragment::{Fragment, RowBuffer},
    limits::{FRAGMENT_ROWS, PENDING_BYTES},
};
use basalt_storage::{FragmentEntry, Operation};
use futures_util::FutureExt as _;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::{Tables, commit::Edit, stored::Stored};
use crate::{
    limits,
    panics::{self, caught_async},
    status::Fault,
};

/// Looks after the tables for as long as there are any, whatever happens to one of them.
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
    let mut reopened = Instant::now();
    loop {
        ticks.tick().await;
        let Some(tables) = tables.upgrade() else { return };
        let asked = tables.shared.expire_now.notified().now_or_never().is_some();
        if asked || expired.is_none_or(|at| at.elapsed() > limits::EXPIRE_INTERVAL) {
            tables.expire().await;
            expired = Some(Instant::now());
        }
        if let Err(fault) = tables.refresh(None).await {
            tracing::warn!(error = fault.message(), "cannot follow the store");
        }
        if reopened.elapsed() > limits::REOPEN_INTERVAL {
            tables.reopen().await;
            reopened = Instant::now();
        }
        let vacuum = vacuumed.elapsed() > limits::VACUUM_INTERVAL;
        for stored in tables.list_stored() {
            stored.forget_old();
            if !stored.attached
                && tables.shared.peers().owns(stored.table.id())
                && let Err(fault) = caught_async(stored.tidy(vacuum)).await
            {
                tracing::warn!(
                    table = stored.table.name(),
                    error = fault.message(),
                    "work in the background"
                );
            }
        }
        if vacuum {
            vacuumed = Instant::now();
            tables.vacuum_catalog().await;
        }
        tables.shared.memory.count_tables(&tables.shared.catalog);
    }
}

impl Tables {
    async fn vacuum_catalog(&self) {
        let Some(at_rest) = &self.at_rest else { return };
        let state = Arc::clone(&*at_rest.state.lock().await);
        if let Err(error) = at_rest.log.vacuum(&state).await {
            tracing::warn!(%error, "cannot remove what is left of dropped tables");
        }
    }
}

impl Stored {
    async fn tidy(&self, vacuum: bool) -> Result<(), Fault> {
        panics::wanted("tidy", self.table.name());
        self.compact().await?;
        let state = self.state();
        if state.needs_checkpoint() {
            let state = self.log.checkpoint(&state).await?;
            self.replace_state(state);
        }
        if vacuum {
            let removed = self.log.vacuum(&self.state()).await?;
            if removed.files > 0 {
                let (files, bytes) = (removed.files, removed.bytes);
                tracing::info!(table = self.table.name(), files, bytes, "removed old files");
            }
        }
        Ok(())
    }

    /// Merges small fragments, if there are enough of them; readers keep those that they read.
    async fn compact(&self) -> Result<(), Fault> {
        let state = self.state();
        let chosen = choose(state.fragments());
        if chosen.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        let was = self.fragments_at(state.version(), &chosen).await?;
        let was: Vec<Fragment> = was.fragments().to_vec();
        let schema = Arc::clone(self.table.schema());
        let small = was.clone();
        let mut held = self.shared.memory.reserve();
        held.set(small.iter().map(|fragment| fragment.bytes() as u64).sum())?;
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
            (n, if rows.rows() > 0 { Some(rows.encode(&schema)) } else { None })
        };
        let (n, data) = self.shared.cpu.run(merge).await?;
        let was = was[..n].to_vec();
        let rows: usize = was.iter().map(Fragment::live_rows).sum();
        let new = match data {
            Some(data) => self.write_files(vec![Arc::new(data?)]).await?,
            None => Vec::new(),
        };
        let gone = was.iter().map(Fragment::id).collect();
        let edit = Edit::Change { operation: Operation::Compact, base: state, gone, deletions: Vec::new() };
        match self.change(new, edit).await {
            Ok(version) => {
                let (table, fragments, elapsed) = (self.table.name(), n, started.elapsed());
                self.shared.metrics.compaction();
                tracing::info!(table, version, fragments, rows, ?elapsed, "merged small fragments");
                Ok(())
            }
            // Rows were deleted meanwhile: the next time.
            Err(fault) if fault.is_conflict() => Ok(()),
            Err(fault) => Err(fault),
        }
    }
}

/// The fragments to merge: once enough of about the same size have come together, these and all smaller ones, so that a
/// row is rewritten a logarithmic number of times. Large ones come again when many of their rows are deleted.
fn choose(fragments: &[FragmentEntry]) -> Vec<u32> {
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
