//! Tables whose deletions leave no deletion vectors: files that lose rows are written again without them.

use std::sync::Arc;

use basalt_core::table::Table;
use basalt_proto::v1::ErrorReason;
use basalt_storage::Deletes;

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
        }
        Ok(Rewritten { edit, new, held })
    }
}
