//! A table whose columns change: the columns belong to the version. A newer version with others becomes a table of its
//! own under the same name and id, which takes the old one's place at one moment. Queries that run go on with the old
//! one, and its versions are read by it as long as they are kept. Columns that are the same in both are in memory once.

use std::sync::{Arc, PoisonError};

use basalt_core::table::Table;
use basalt_proto::v1::ErrorReason;
use basalt_storage::TableState;
use tokio::sync::mpsc;

use super::{Tables, follow::Followed, stored::Stored};
use crate::{limits, status::RequestError};

impl Tables {
    /// Goes to a version with other columns, which was the newest at a moment. The caller holds the lock of the old ones.
    pub(super) async fn replace(
        &self,
        old: &Arc<Stored>,
        state: Arc<TableState>,
        followed: Followed,
    ) -> Result<(), RequestError> {
        let Some(durable) = &self.durable else { return Ok(()) };
        let (name, id) = (old.table.name(), old.table.id());
        let table = Arc::new(Table::new(name, id, (**state.schema()).clone(), state.version()));
        let (sender, queue) = mpsc::channel(limits::WRITES);
        let (log, shared) = (old.log.clone(), Arc::clone(&self.shared));
        let (attached, of) = (old.attached, old.durable.clone());
        let new = Stored::new(Arc::clone(&table), log, attached, of, shared, Arc::clone(&state), sender);
        new.set_followed(|known| *known = followed);
        let new = Arc::new(new);
        let has_more = new.begin(&|_| {}).await?;
        let mut tables = durable.tables.write().unwrap_or_else(PoisonError::into_inner);
        // It may have been dropped meanwhile.
        let is_there = tables.get(&id).is_some_and(|known| Arc::ptr_eq(known, old));
        if is_there && self.shared.catalog.replace(table).is_ok() {
            self.shared.begin_commits(&new, queue);
            if has_more {
                let late = Arc::clone(&new);
                self.in_background(async move { late.read_late().await });
            }
            tables.insert(id, new);
            self.keep_older(durable, Arc::clone(old));
            tracing::info!(table = name, version = state.version(), "the table has other columns");
        }
        drop(tables);
        self.shared.memory.count_tables(&self.shared.catalog);
        Ok(())
    }
}

/// The error of what was begun with columns that the table has no longer.
pub(super) fn other_columns(table: &Table) -> RequestError {
    let message = format!("the columns of table {:?} have changed; ask again", table.name());
    RequestError::new(ErrorReason::VersionGone, message)
}
