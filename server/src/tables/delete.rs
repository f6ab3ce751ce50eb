//! Deleting the rows that a filter selects.

use std::sync::Arc;

use basalt_core::{
    exec,
    fragment::Fragment,
    query::Filter,
    table::{Change, Snapshot, Table},
};
use basalt_proto::v1::ErrorReason;
use basalt_sip::Sip;
use basalt_storage::Operation;

use super::{
    Tables,
    commit::{Edit, Outcome},
    stored::Stored,
};
use crate::{limits, status::Fault};

/// What a deletion did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deletion {
    /// The first version without the rows.
    pub(crate) version: u64,
    /// How many they were.
    pub(crate) rows: u64,
}

/// The fragments of a snapshot that have some rows, before and after these are deleted; what has no row left is gone.
pub(super) fn without(snapshot: &Snapshot, rows: &Sip) -> (Vec<Fragment>, Vec<Fragment>) {
    let changed = snapshot.fragments().iter().filter_map(|was| Some((was.clone(), was.delete(rows)?.0)));
    let (was, mut is): (_, Vec<Fragment>) = changed.unzip();
    is.retain(|fragment| fragment.live_rows() > 0);
    (was, is)
}

impl Tables {
    /// Deletes the rows that a filter (without semi-joins) selects.
    pub(crate) async fn delete(&self, table: &Arc<Table>, filter: Option<Filter>) -> Result<Deletion, Fault> {
        let filter = Arc::new(filter);
        let stored = self.stored(table)?;
        if let Some(stored) = &stored {
            stored.check_writable()?;
        }
        for _ in 0..limits::COMMIT_ATTEMPTS {
            let snapshot = match &stored {
                Some(stored) => stored.whole().await?,
                None => table.snapshot(),
            };
            let control = self.shared.memory.control();
            let snapshot = snapshot.seen_at(control.time());
            let (rows, was, is) = {
                let (table, snapshot, filter) =
                    (Arc::clone(table), Arc::clone(&snapshot), Arc::clone(&filter));
                let select = move || -> Result<_, Fault> {
                    let (rows, _) = exec::select(&table, &snapshot, filter.as_ref().as_ref(), &control)?;
                    let (was, is) = without(&snapshot, &rows);
                    Ok((rows.cardinality(), was, is))
                };
                self.shared.cpu.run(select).await??
            };
            if was.is_empty() {
                return Ok(Deletion { version: snapshot.version(), rows });
            }
            let committed = match &stored {
                Some(stored) => stored.commit_deletion(was, is).await,
                None => table.commit(Change { was, is, ..Change::default() }).map_err(Fault::from),
            };
            match committed {
                // Another write has changed these fragments: they are looked at again.
                Err(fault) if fault.is_conflict() => {}
                committed => {
                    self.shared.memory.count_tables(&self.shared.catalog);
                    return Ok(Deletion { version: committed?, rows });
                }
            }
        }
        let message = format!("other writes change table {:?} all the time; try again", table.name());
        Err(Fault::new(ErrorReason::WriteConflict, message))
    }
}

impl Stored {
    async fn commit_deletion(&self, was: Vec<Fragment>, is: Vec<Fragment>) -> Result<u64, Fault> {
        let _advancing = self.advancing.lock().await;
        let edit = Edit::Change { operation: Operation::Delete, was, is };
        match self.commit(Vec::new(), Vec::new(), edit).await? {
            Outcome::Version(version) => {
                self.shared.peers().committed(&self.table, version).await;
                Ok(version)
            }
            Outcome::Known => Ok(self.table.snapshot().version()),
        }
    }
}
