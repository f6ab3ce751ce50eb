//! Rows of a version that go, by their addresses, and others that come in their place, in one commit.

use std::sync::Arc;

use basalt_core::table::{Change, Table};
use basalt_proto::v1::ErrorReason;
use basalt_sip::Sip;
use basalt_storage::{Operation, TableState};

use super::{
    Tables,
    commit::{Edit, NewRows},
    delete::without,
    rewrite::Rewritten,
    stored::Stored,
    version::TableVersion,
};
use crate::{limits, status::RequestError};

/// See the module.
#[derive(Debug)]
pub(crate) struct Update {
    /// The version that the addresses are of.
    pub(crate) base: TableVersion,
    /// Rows that go.
    pub(crate) gone: Sip,
    /// Rows that come.
    pub(crate) rows: NewRows,
    /// It is a conflict that there is a newer version, and not only that the same rows have changed.
    pub(crate) exactly: bool,
}

impl Tables {
    /// Makes a version of it; a conflict leaves nothing.
    pub(crate) async fn update(&self, update: Update) -> Result<(), RequestError> {
        let Update { base, gone, rows, exactly } = update;
        let table = Arc::clone(rows.table());
        let (operation, is_nothing) = match rows.appender.rows() {
            0 => (Operation::Delete, gone.is_empty()),
            _ => (Operation::Update, false),
        };
        if is_nothing {
            if let TableVersion::Stored(base) = &base {
                // Whoever has made this version may not have told the others of it.
                self.tell(&table, base.version()).await;
            }
            return Ok(());
        }
        match (self.stored(&table).map_err(|error| self.of_replaced(&table, error))?, base) {
            (Some(stored), TableVersion::Stored(base)) => {
                stored.update(operation, base, gone, rows, exactly).await?;
            }
            (None, TableVersion::InMemory(snapshot)) => {
                // Larger ones are merged in the background: others that have read them would meet a conflict.
                let most = self.shared.fragment_bytes().min(limits::SMALL_FRAGMENT_BYTES);
                let of = Arc::clone(&table);
                let commit = move || {
                    let add = rows.appender.finish()?.into_iter().map(Arc::new).collect();
                    let (was, is) = without(&snapshot, &gone);
                    let at = exactly.then(|| snapshot.version());
                    let change = Change { at, was, is, add, ..Change::default() };
                    of.commit_merged(&snapshot, change, most)
                };
                let committed = self.shared.cpu.run(commit).await?;
                committed.map_err(|error| self.of_replaced(&table, error.into()))?;
            }
            _ => return Err(other_table(&table)),
        }
        self.shared.memory.count_tables(&self.shared.catalog);
        Ok(())
    }
}

fn other_table(table: &Table) -> RequestError {
    let message = format!("table {:?} is another one than was read", table.name());
    RequestError::new(ErrorReason::WriteConflict, message)
}

impl Stored {
    async fn update(
        &self,
        operation: Operation,
        base: Arc<TableState>,
        gone: Sip,
        rows: NewRows,
        exactly: bool,
    ) -> Result<(), RequestError> {
        self.check_writable()?;
        self.make_way().await?;
        let NewRows { appender, writing, .. } = rows;
        let mut new = match writing {
            Some(writing) => writing.finish().await?,
            None => Vec::new(),
        };
        new.extend(self.write_some(appender.into_rows()).await?);
        let mut deletion = self.deletion(operation, base, gone).await?;
        if let Edit::Change { exactly: is_exact, .. } = &mut deletion {
            *is_exact = exactly;
        }
        let Rewritten { edit, new: rest, held } = self.rewritten(deletion).await?;
        new.extend(rest);
        let files: Vec<_> = new.iter().map(|new| new.file.clone()).collect();
        match self.change(new, edit).await {
            Err(error) if error.is_conflict() => {
                // A new attempt writes others. Nothing names these, but the log of a table that is gone, which somebody may read.
                // Default: what is not known is left to a vacuum.
                if self.is_still_named().await.unwrap_or(false) {
                    self.log.discard(files).await;
                }
                Err(error)
            }
            done => {
                drop(held);
                done.map(|_| ())
            }
        }
    }
}
