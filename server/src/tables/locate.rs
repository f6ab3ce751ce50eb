//! The rows that a write takes away, wherever they are: each node finds those that it holds, and the writer marks them
//! in the log, for which nobody needs their values.

use std::sync::Arc;

use basalt_core::{
    exec::{self, SameKeys},
    fragment::Deleted,
    plan::Plan,
    query::Filter,
    table::{Cutoff, Snapshot, Table},
};
use basalt_sip::Sip;
use basalt_storage::{Operation, TableState};

use super::{Shared, commit::Edit, fragments::snapshot_of, stored::Stored};
use crate::{panics, status::RequestError};

/// Which rows.
#[derive(Clone, Debug)]
pub(crate) enum RowPredicate {
    /// Those that a filter without semi-joins selects; `None`: all. Rows that retention hides are not among them.
    Selected(Arc<Option<Filter>>),
    /// Those with the keys of new rows, hidden or not.
    SameKeys(Arc<SameKeys>),
    /// Those that a cut-off hides.
    Hidden(Cutoff),
}

impl RowPredicate {
    /// The columns of a version that tell which they are, by their places.
    fn columns(&self, table: &Table, state: &TableState) -> Result<Vec<usize>, RequestError> {
        let filter = match self {
            Self::SameKeys(keys) => return Ok(keys.columns().to_vec()),
            Self::Hidden(cutoff) => return Ok(vec![cutoff.column]),
            Self::Selected(filter) => filter.as_ref().as_ref(),
        };
        // What retention hides is not selected.
        let none = Arc::new(snapshot_of(state, Vec::new())).seen_at(0);
        Ok(Plan::filter_columns(table, &none, filter)?)
    }

    /// Their addresses in a snapshot that has all fragments.
    pub(super) async fn within(
        &self,
        shared: &Shared,
        table: &Arc<Table>,
        snapshot: Arc<Snapshot>,
    ) -> Result<Sip, RequestError> {
        let (table, predicate, control) = (Arc::clone(table), self.clone(), shared.control());
        let find = move || {
            panics::wanted("find", table.name());
            match &predicate {
                Self::Selected(filter) => {
                    let seen = snapshot.seen_at(control.time());
                    exec::select(&table, &seen, filter.as_ref().as_ref(), &control).map(|(rows, _)| rows)
                }
                Self::SameKeys(keys) => keys.rows(&table, &snapshot, &control),
                Self::Hidden(cutoff) => {
                    exec::select(&table, &snapshot, Some(&cutoff.hides(table.schema())), &control)
                        .map(|(rows, _)| rows)
                }
            }
        };
        Ok(shared.cpu.run(find).await??)
    }
}

impl Stored {
    /// The addresses of rows in a version.
    pub(super) async fn find(
        &self,
        state: &TableState,
        predicate: &RowPredicate,
    ) -> Result<Sip, RequestError> {
        if self.is_named()
            && let Some(found) = self.shared.peers().find(&self.table, state.version(), predicate).await?
        {
            return Ok(found);
        }
        let ids: Vec<u32> = state.fragments().iter().map(|entry| entry.id).collect();
        let columns = predicate.columns(&self.table, state)?;
        let snapshot = Arc::new(self.fragments_at(state, &ids, &columns).await?);
        predicate.within(&self.shared, &self.table, snapshot).await
    }

    /// The deletion of rows of a version, by their addresses; fragments of which no row is left go.
    pub(super) async fn deletion(
        &self,
        operation: Operation,
        base: Arc<TableState>,
        rows: Sip,
    ) -> Result<Edit, RequestError> {
        let mut touched = Vec::new();
        for entry in base.fragments().iter() {
            let (first, n) = (u64::from(entry.id) << 32, entry.rows as usize);
            if rows.view().next_at_or_after(first).is_none_or(|next| next >= first + n as u64) {
                continue;
            }
            let fragment = self.fragments_at(&base, &[entry.id], &[]).await?;
            let before = fragment.fragment(entry.id).and_then(|fragment| fragment.deleted().cloned());
            touched.push((entry.id, n, before));
        }
        let delete = move || {
            let (mut gone, mut deletions) = (Vec::new(), Vec::new());
            for (id, n, before) in touched {
                match Deleted::more(before.as_deref(), id, n, &rows) {
                    Some(deleted) if deleted.rows() == n => gone.push(id),
                    Some(deleted) => deletions.push((id, Arc::new(deleted))),
                    None => {}
                }
            }
            Edit::Change { operation, base, exactly: false, gone, deletions }
        };
        self.shared.cpu.run(delete).await
    }
}
