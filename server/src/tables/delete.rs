//! Deleting the rows that a filter selects.

use std::sync::Arc;

use basalt_core::{
    fragment::Fragment,
    query::Filter,
    table::{Change, Snapshot, Table},
};
use basalt_proto::v1::ErrorReason;
use basalt_sip::Sip;
use basalt_storage::Operation;

use super::{Tables, locate::RowPredicate, rewrite::Rewritten, stored::Stored};
use crate::{limits, status::RequestError};

/// What a deletion did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deletion {
    /// The first version without the rows.
    pub(crate) version: u64,
    /// How many they were.
    pub(crate) rows: u64,
}

/// Begins to commit, or says why not: whoever asked for it may have given it up.
pub(crate) type Commits<'a> = &'a (dyn Fn() -> Result<(), RequestError> + Send + Sync);

/// The fragments of a snapshot that have some rows, before and after these are deleted; what has no row left is gone.
pub(super) fn without(snapshot: &Snapshot, rows: &Sip) -> (Vec<Fragment>, Vec<Fragment>) {
    let changed = snapshot.fragments().iter().filter_map(|was| Some((was.clone(), was.delete(rows)?.0)));
    let (was, mut is): (_, Vec<Fragment>) = changed.unzip();
    is.retain(|fragment| fragment.live_rows() > 0);
    (was, is)
}

impl Tables {
    /// Deletes the rows that a filter (without semi-joins) selects, of the newest version that this node knows: the
    /// caller has looked into the store.
    pub(crate) async fn delete(
        &self,
        table: &Arc<Table>,
        filter: Option<Filter>,
    ) -> Result<Deletion, RequestError> {
        self.delete_unless(table, filter, &|| Ok(())).await
    }

    /// The same, unless it may not commit any longer once the rows are found.
    pub(crate) async fn delete_unless(
        &self,
        table: &Arc<Table>,
        filter: Option<Filter>,
        commits: Commits<'_>,
    ) -> Result<Deletion, RequestError> {
        let predicate = RowPredicate::Selected(Arc::new(filter));
        let stored = self.stored(table).map_err(|error| self.of_replaced(table, error))?;
        if let Some(stored) = &stored {
            stored.check_writable()?;
            stored.make_way().await?;
        }
        for _ in 0..limits::COMMIT_ATTEMPTS {
            let deleted = match &stored {
                Some(stored) => stored.delete(&predicate, commits).await,
                None => self.delete_in_memory(table, &predicate, commits).await,
            };
            match deleted {
                // Another write has changed these fragments: they are looked at again, if the table is the same one still.
                Err(error) if error.is_conflict() => {
                    if let Some(stored) = &stored
                        && !stored.is_still_named().await?
                    {
                        return Err(error);
                    }
                }
                deleted => {
                    self.shared.memory.count_tables(&self.shared.catalog);
                    return deleted.map_err(|error| self.of_replaced(table, error));
                }
            }
        }
        let message = format!("other writes change table {:?} all the time; try again", table.name());
        Err(RequestError::new(ErrorReason::WriteConflict, message))
    }

    async fn delete_in_memory(
        &self,
        table: &Arc<Table>,
        predicate: &RowPredicate,
        commits: Commits<'_>,
    ) -> Result<Deletion, RequestError> {
        let snapshot = table.snapshot();
        let found = predicate.within(&self.shared, table, Arc::clone(&snapshot)).await?;
        let rows = found.cardinality();
        if rows > 0 {
            commits()?;
        }
        let (of, at) = (Arc::clone(table), snapshot.version());
        let commit = move || {
            let (was, is) = without(&snapshot, &found);
            if was.is_empty() { Ok(at) } else { of.commit(Change { was, is, ..Change::default() }) }
        };
        let version = self.shared.cpu.run(commit).await??;
        Ok(Deletion { version, rows })
    }
}

impl Stored {
    async fn delete(&self, predicate: &RowPredicate, commits: Commits<'_>) -> Result<Deletion, RequestError> {
        let base = self.state();
        let found = self.find(&base, predicate).await?;
        let rows = found.cardinality();
        if rows == 0 {
            // Whoever has made this version may not have acknowledged it, nor told the others of it.
            self.acknowledge(base.version()).await;
            return Ok(Deletion { version: base.version(), rows });
        }
        commits()?;
        let edit = self.deletion(Operation::Delete, base, found).await?;
        let Rewritten { edit, new, held } = self.rewritten(edit).await?;
        let version = self.change(new, edit).await?;
        drop(held);
        Ok(Deletion { version, rows })
    }
}
