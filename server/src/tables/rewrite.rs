//! Tables whose deletions leave no deletion vectors: files that lose rows are written again without them.

use std::{collections::BTreeSet, sync::Arc};

use basalt_core::table::Table;
use basalt_proto::v1::ErrorReason;
use basalt_storage::{Deletes, TableState};

use super::{
    Tables,
    commit::{Edit, NewFragment},
    retention::rest_of,
    stored::Stored,
};
use crate::{memory::Reservation, status::RequestError};

/// A deletion as its table asks for it, and the fragments that take the place of those that lose rows.
pub(super) struct Rewritten {
    pub(super) edit: Edit,
    pub(super) new: Vec<NewFragment>,
    /// What these take until they are in the table.
    pub(super) held: Vec<Reservation>,
}

impl Tables {
    /// What deletions leave in a table's files; `None`: it has none.
    pub(crate) fn deletes(&self, table: &Table) -> Option<Deletes> {
        self.stored(table).ok().flatten().map(|stored| stored.state().deletes())
    }

    /// Says what deletions leave in a table's files from now on.
    pub(crate) async fn set_deletes(&self, table: &Arc<Table>, deletes: Deletes) -> Result<(), RequestError> {
        match self.stored(table)? {
            Some(stored) => {
                stored.check_writable()?;
                let edit = Edit::Properties(vec![deletes.property()]);
                stored.change(Vec::new(), edit).await.map(|_| ())
            }
            None => Err(no_files()),
        }
    }
}

/// The error of asking for files of a table that has none.
pub(super) fn no_files() -> RequestError {
    let message =
        "a table in memory alone has no files that deletions could rewrite; start the server with a store";
    RequestError::new(ErrorReason::InvalidStore, message).at("deletes")
}

/// The fragments of the files of some that are not among these.
fn others_of(base: &TableState, gone: &[u32]) -> Vec<u32> {
    let parts = gone.iter().filter_map(|id| base.fragment(*id)).filter(|entry| !entry.is_whole_file());
    let files: BTreeSet<&str> = parts.map(|entry| entry.file.path()).collect();
    if files.is_empty() {
        return Vec::new();
    }
    let others = base.fragments().iter().filter(|entry| !entry.is_whole_file() && !gone.contains(&entry.id));
    others.filter(|entry| files.contains(entry.file.path())).map(|entry| entry.id).collect()
}

impl Stored {
    /// What a deletion of rows comes to where the table wants no deletion vectors: the fragments that lose rows go, and
    /// others with the rest of their rows come. It is one commit, as the deletion is, and conflicts with the same.
    pub(super) async fn rewritten(&self, edit: Edit) -> Result<Rewritten, RequestError> {
        let (mut edit, mut new, mut held) = (edit, Vec::new(), Vec::new());
        if let Edit::Change { base, gone, deletions, .. } = &mut edit
            && base.deletes() == Deletes::Rewrite
        {
            for (id, deleted) in std::mem::take(deletions) {
                let snapshot = self.fragments_at(base, &[id], &self.all_columns()).await?;
                for fragment in snapshot.fragments() {
                    let rest = fragment.clone().with_deleted(Some(Arc::clone(&deleted)));
                    let (rows, takes) = rest_of(&self.shared, &self.table, rest).await?;
                    new.push(self.write_rows(rows).await?);
                    held.push(takes);
                }
                gone.push(id);
            }
            // A file goes with all that it has: of one of several fragments the others are written again too.
            for id in others_of(base, gone) {
                let snapshot = self.fragments_at(base, &[id], &self.all_columns()).await?;
                for fragment in snapshot.fragments() {
                    let (rows, takes) = rest_of(&self.shared, &self.table, fragment.clone()).await?;
                    new.extend(self.write_some(rows).await?);
                    held.push(takes);
                }
                gone.push(id);
            }
        }
        Ok(Rewritten { edit, new, held })
    }
}
