//! For how long rows are kept: saying it, and freeing those that nobody reads any longer.
//!
//! What is older than it is kept is hidden from queries by the moment at which they are asked. Here its memory and its
//! files are won back, a fragment at a time: one that is hidden whole goes, and one that is hidden for the most part is
//! written again without.

use std::sync::{Arc, atomic::Ordering};

use basalt_core::{
    fragment::{Fragment, RowBuffer},
    keys::Native,
    table::{Change, Cutoff, Retention, Table},
    value::Value,
};
use basalt_sip::Sip;
use basalt_storage::{FragmentEntry, Operation, TableState, retention_properties};

use super::{
    Shared, Tables,
    commit::{Edit, NewFragment},
    locate::RowPredicate,
    stored::Stored,
};
use crate::{
    limits,
    memory::{Consumer, Reservation},
    status::RequestError,
};

impl Tables {
    /// Says for how long rows are part of a table; `None`: for good.
    pub(crate) async fn set_retention(
        &self,
        table: &Arc<Table>,
        retention: Option<Retention>,
    ) -> Result<(), RequestError> {
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

    /// Frees what retention hides of the tables that are in memory alone.
    pub(super) async fn expire_all_in_memory(self) {
        let tables = self.shared.catalog.list();
        for table in tables.into_iter().filter(|table| table.snapshot().retention().is_some()) {
            freed(&self.shared, &table, expire_in_memory(&self.shared, &table).await);
        }
    }
}

/// Tells what was freed of a table.
fn freed(shared: &Shared, table: &Table, freed: Result<u64, RequestError>) {
    match freed {
        Ok(0) => {}
        Ok(rows) => {
            shared.metrics.expired(rows);
            tracing::info!(table = table.name(), rows, "freed rows that were too old");
        }
        Err(error) if error.is_conflict() => {}
        Err(error) => {
            tracing::warn!(table = table.name(), error = error.message(), "cannot free old rows");
        }
    }
}

impl Stored {
    async fn set_retention(&self, retention: Option<&Retention>) -> Result<(), RequestError> {
        self.check_writable()?;
        let edit = Edit::Properties(retention_properties(retention).to_vec());
        self.change(Vec::new(), edit).await.map(|_| ())
    }

    /// Frees what retention hides.
    pub(super) async fn expire(&self) {
        let outcome = self.free_hidden().await;
        // Another write was first: there is nothing wrong, and no need to wait for the next round.
        if outcome.as_ref().is_err_and(RequestError::is_conflict) {
            self.expires.store(true, Ordering::Relaxed);
        }
        freed(&self.shared, &self.table, outcome);
    }

    /// Frees what is hidden now; the answer is how many rows it was.
    async fn free_hidden(&self) -> Result<u64, RequestError> {
        let state = self.state();
        let Some(retention) = state.retention() else { return Ok(0) };
        let cutoff = retention.cutoff(self.shared.environment.now_micros());
        let (mut gone, mut partly) = (Vec::new(), Vec::new());
        for entry in state.fragments().iter().filter(|entry| entry.is_whole_file()) {
            match hidden(&state, entry, cutoff) {
                Hidden::Whole => gone.push(entry),
                Hidden::Some => partly.push(entry),
                Hidden::Nothing => {}
            }
        }
        self.replace(&state, gone.iter().map(|entry| entry.id).collect(), Vec::new()).await?;
        let mut freed = gone.into_iter().map(FragmentEntry::live_rows).sum();
        if partly.is_empty() {
            return Ok(freed);
        }
        let rows = self.find(&state, &RowPredicate::Hidden(cutoff)).await?;
        for entry in partly {
            match worth(count(&rows, entry.id), entry.live_rows()) {
                Worth::Removing => self.replace(&state, vec![entry.id], Vec::new()).await?,
                Worth::Rewriting => self.rewrite(&state, entry.id, &rows).await?,
                Worth::Nothing => continue,
            }
            freed += count(&rows, entry.id);
        }
        Ok(freed)
    }

    /// Writes a fragment again without some rows.
    async fn rewrite(&self, base: &Arc<TableState>, id: u32, rows: &Sip) -> Result<(), RequestError> {
        let snapshot = self.fragments_at(base, &[id], &self.all_columns()).await?;
        for fragment in snapshot.fragments() {
            let (rows, held) = rest_without(&self.shared, &self.table, fragment, rows).await?;
            let new = self.write_rows(rows).await?;
            self.replace(base, vec![id], vec![new]).await?;
            drop(held);
        }
        Ok(())
    }

    /// Takes fragments away, as long as they and the retention are as they were in `base`.
    async fn replace(
        &self,
        base: &Arc<TableState>,
        gone: Vec<u32>,
        new: Vec<NewFragment>,
    ) -> Result<(), RequestError> {
        if gone.is_empty() {
            return Ok(());
        }
        let (operation, base) = (Operation::Delete, Arc::clone(base));
        let edit = Edit::Change { operation, base, exactly: false, gone, deletions: Vec::new() };
        self.change(new, edit).await.map(|_| ())
    }
}

/// How much of a fragment a cut-off hides, as far as the log tells.
enum Hidden {
    Whole,
    Some,
    Nothing,
}

fn hidden(state: &TableState, entry: &FragmentEntry, cutoff: Cutoff) -> Hidden {
    let native = state.schema().fields().get(cutoff.column).and_then(|field| Native::of(field.data_type));
    let Some(native) = native else { return Hidden::Nothing };
    let stats = state.column_stats(&entry.file, cutoff.column);
    let key = |value: Option<Value>| value.and_then(|value| value.to_key(native));
    match (key(stats.min), key(stats.max)) {
        (_, Some(last)) if last < cutoff.least && stats.nulls == Some(0) => Hidden::Whole,
        (Some(first), _) if first < cutoff.least => Hidden::Some,
        _ => Hidden::Nothing,
    }
}

/// What a fragment is worth of which `hidden` of `live` rows are hidden.
enum Worth {
    Removing,
    Rewriting,
    Nothing,
}

fn worth(hidden: u64, live: u64) -> Worth {
    if hidden > 0 && hidden >= live {
        Worth::Removing
    } else if hidden >= limits::HOLLOW_ROWS && hidden * limits::HOLLOW_PART > live {
        Worth::Rewriting
    } else {
        Worth::Nothing
    }
}

/// How many of the addresses are of a fragment's rows.
fn count(rows: &Sip, fragment: u32) -> u64 {
    let up_to = |id: u32| rows.rank(u64::from(id) << 32 | u64::from(u32::MAX));
    up_to(fragment) - fragment.checked_sub(1).map_or(0, up_to)
}

/// The rows of a fragment that are not among some, and the memory that they take until they are in the table.
async fn rest_without(
    shared: &Arc<Shared>,
    table: &Arc<Table>,
    fragment: &Fragment,
    rows: &Sip,
) -> Result<(RowBuffer, Reservation), RequestError> {
    let rest = fragment.delete(rows).map_or_else(|| fragment.clone(), |(rest, _)| rest);
    rest_of(shared, table, rest).await
}

/// The rows of a fragment that are not deleted, and the memory that they take until they are in the table.
pub(super) async fn rest_of(
    shared: &Arc<Shared>,
    table: &Arc<Table>,
    rest: Fragment,
) -> Result<(RowBuffer, Reservation), RequestError> {
    let mut held = shared.memory.reserve(Consumer::Maintenance);
    held.set(rest.bytes() as u64)?;
    let schema = Arc::clone(table.schema());
    let decode = move || {
        let mut rows = RowBuffer::new(&schema);
        rows.push_fragment(&rest);
        rows
    };
    Ok((shared.cpu.run(decode).await?, held))
}

/// Frees what is hidden now of a table that is in memory alone.
async fn expire_in_memory(shared: &Arc<Shared>, table: &Arc<Table>) -> Result<u64, RequestError> {
    let snapshot = table.snapshot();
    let Some(retention) = snapshot.retention() else { return Ok(0) };
    let predicate = RowPredicate::Hidden(retention.cutoff(shared.environment.now_micros()));
    let rows = predicate.within(shared, table, Arc::clone(&snapshot)).await?;
    let mut freed = 0;
    for fragment in snapshot.fragments() {
        let n = count(&rows, fragment.id());
        let (add, _held) = match worth(n, fragment.live_rows() as u64) {
            Worth::Nothing => continue,
            Worth::Removing => (Vec::new(), None),
            Worth::Rewriting => {
                let (rest, held) = rest_without(shared, table, fragment, &rows).await?;
                let schema = Arc::clone(table.schema());
                let data = shared.cpu.run(move || rest.encode(&schema)).await??;
                (vec![Arc::new(data)], Some(held))
            }
        };
        let (was, expires) = (vec![fragment.clone()], Some(Arc::clone(retention)));
        table.commit(Change { was, add, expires, ..Change::default() })?;
        shared.memory.count_tables(&shared.catalog);
        freed += n;
    }
    Ok(freed)
}
