//! For how long rows are kept: saying it, and freeing those that nobody reads any longer.
//!
//! What is older than it is kept is hidden from queries by the moment at which they are asked. Here its memory and its
//! files are won back, a fragment at a time: one that is hidden whole goes, and one that is hidden for the most part is
//! written anew without.

use std::sync::Arc;

use basalt_core::{
    exec::{self, Control},
    fragment::{Fragment, FragmentData, RowBuffer},
    keys::Native,
    query::Filter,
    schema::Schema,
    table::{Change, Cutoff, Retention, Snapshot, Table},
    value::Value,
};
use basalt_storage::{FragmentEntry, Operation, TableState, retention_properties};

use super::{
    Shared, Tables,
    commit::{Edit, Outcome},
    stored::Stored,
};
use crate::{limits, status::Fault, units::now_micros};

/// Fragments that lose hidden rows, and what takes their place.
struct Freed {
    was: Vec<Fragment>,
    add: Vec<FragmentData>,
    rows: u64,
}

impl Tables {
    /// Says for how long rows are part of a table; `None`: for good.
    pub(crate) async fn set_retention(
        &self,
        table: &Arc<Table>,
        retention: Option<Retention>,
    ) -> Result<(), Fault> {
        match self.stored(table)? {
            Some(stored) => stored.set_retention(retention.as_ref()).await,
            None => {
                let retention = Some(retention.map(Arc::new));
                table.commit(Change { retention, ..Change::default() })?;
                self.shared.expire_now.notify_one();
                Ok(())
            }
        }
    }

    /// Frees what retention hides: of the tables that are at rest, those that this node looks after.
    pub(super) async fn expire(&self) {
        let tables = self.shared.catalog.list();
        for table in tables.into_iter().filter(|table| table.snapshot().retention().is_some()) {
            let freed = match self.stored(&table) {
                Ok(Some(stored)) if stored.attached || !self.shared.peers().owns(table.id()) => continue,
                Ok(Some(stored)) => stored.expire().await,
                Ok(None) => expire_in_memory(&self.shared, &table).await,
                Err(fault) => Err(fault),
            };
            match freed {
                Ok(0) => {}
                Ok(rows) => {
                    self.shared.metrics.expired(rows);
                    tracing::info!(table = table.name(), rows, "freed rows that were too old");
                }
                Err(fault) if fault.is_conflict() => {}
                Err(fault) => {
                    tracing::warn!(table = table.name(), error = fault.message(), "cannot free old rows");
                }
            }
        }
    }
}

impl Stored {
    async fn set_retention(&self, retention: Option<&Retention>) -> Result<(), Fault> {
        self.check_writable()?;
        let _advancing = self.advancing.lock().await;
        let edit = Edit::Properties(retention_properties(retention).to_vec());
        if let Outcome::Version(version) = self.commit(Vec::new(), Vec::new(), edit).await? {
            self.shared.peers().committed(&self.table, version).await;
        }
        Ok(())
    }

    /// Frees what is hidden now; the answer is how many rows it was.
    async fn expire(&self) -> Result<u64, Fault> {
        let state = self.state();
        let Some(retention) = state.retention() else { return Ok(0) };
        let cutoff = retention.cutoff(now_micros());
        let (mut gone, mut partly, mut rows) = (Vec::new(), Vec::new(), 0);
        // A part of another writer's file cannot go without the others.
        for entry in state.fragments().iter().filter(|f| u64::from(f.rows) == f.file.rows()) {
            match hidden(&state, entry, cutoff) {
                Hidden::Whole => {
                    gone.push(entry.id);
                    rows += entry.file.rows().saturating_sub(entry.file.deleted_rows());
                }
                Hidden::Mostly => partly.push(entry.id),
                Hidden::Little => {}
            }
        }
        let snapshot = self.fragments_at(state.version(), &partly).await?;
        let freed = free(&self.shared, &self.table, snapshot, cutoff).await?;
        if gone.is_empty() && freed.was.is_empty() {
            return Ok(0);
        }
        let new = self.write_files(freed.add.into_iter().map(Arc::new).collect()).await?;
        let _advancing = self.advancing.lock().await;
        gone.extend(freed.was.iter().map(Fragment::id));
        let edit = Edit::Change { operation: Operation::Delete, base: state, gone, deletions: Vec::new() };
        if let Outcome::Version(version) = self.commit(new, Vec::new(), edit).await? {
            self.shared.peers().committed(&self.table, version).await;
        }
        Ok(rows + freed.rows)
    }
}

enum Hidden {
    Whole,
    /// If times are spread evenly: rewriting is worth a look.
    Mostly,
    Little,
}

/// How much a cut-off hides of a fragment, by what the log says of it.
fn hidden(state: &TableState, entry: &FragmentEntry, cutoff: Cutoff) -> Hidden {
    let Some(native) =
        state.schema().fields().get(cutoff.column).and_then(|field| Native::of(field.data_type))
    else {
        return Hidden::Little;
    };
    let stats = state.column_stats(&entry.file, cutoff.column);
    let key = |value: Option<Value>| value.and_then(|value| value.to_key(native));
    let (Some(first), Some(last)) = (key(stats.min), key(stats.max)) else { return Hidden::Little };
    if last < cutoff.least && stats.nulls == Some(0) {
        return Hidden::Whole;
    }
    let (span, past) = (last.abs_diff(first), cutoff.least.saturating_sub(first).max(0).unsigned_abs());
    match past > span / 2 && u64::from(entry.rows) >= limits::HOLLOW_ROWS {
        true => Hidden::Mostly,
        false => Hidden::Little,
    }
}

/// Frees what is hidden now of a table that is in memory alone.
async fn expire_in_memory(shared: &Arc<Shared>, table: &Arc<Table>) -> Result<u64, Fault> {
    let snapshot = table.snapshot();
    let Some(retention) = snapshot.retention() else { return Ok(0) };
    let cutoff = retention.cutoff(now_micros());
    let Freed { was, add, rows } = free(shared, table, Snapshot::clone(&snapshot), cutoff).await?;
    if !was.is_empty() {
        let add = add.into_iter().map(Arc::new).collect();
        table.commit(Change { was, add, ..Change::default() })?;
    }
    Ok(rows)
}

/// The fragments that a cut-off hides for the most part, and their other rows.
async fn free(
    shared: &Arc<Shared>,
    table: &Arc<Table>,
    snapshot: Snapshot,
    cutoff: Cutoff,
) -> Result<Freed, Fault> {
    let (table, control) = (Arc::clone(table), shared.memory.control());
    let mut held = shared.memory.reserve();
    held.set(snapshot.fragments().iter().map(|fragment| fragment.bytes() as u64).max().unwrap_or(0))?;
    let work = move || {
        let _held = held;
        free_rows(&table, &snapshot, cutoff, &control)
    };
    shared.cpu.run(work).await?
}

fn free_rows(table: &Table, snapshot: &Snapshot, cutoff: Cutoff, control: &Control) -> Result<Freed, Fault> {
    let mut freed = Freed { was: Vec::new(), add: Vec::new(), rows: 0 };
    let filter = cutoff.hides(table.schema()).unwrap_or(Filter::Constant(false));
    let (rows, _) = exec::select(table, snapshot, Some(&filter), control)?;
    for fragment in snapshot.fragments() {
        let Some((rest, n)) = fragment.delete(&rows) else { continue };
        if rest.live_rows() > 0 {
            let most = n as u64 * limits::HOLLOW_PART > fragment.rows() as u64;
            if !most || (n as u64) < limits::HOLLOW_ROWS {
                continue;
            }
            freed.add.push(encoded(&rest, table.schema())?);
        }
        freed.was.push(fragment.clone());
        freed.rows += n as u64;
    }
    Ok(freed)
}

/// The rows of a fragment that are not deleted, anew.
fn encoded(fragment: &Fragment, schema: &Schema) -> Result<FragmentData, Fault> {
    let mut rows = RowBuffer::new(schema);
    rows.push_fragment(fragment);
    Ok(rows.encode(schema)?)
}
