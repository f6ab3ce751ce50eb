//! Other columns for a table: a version of its log that has the same files, and the table that takes the place of the one
//! with the columns from before.

use std::sync::Arc;

use basalt_core::table::Table;
use basalt_proto::v1::ErrorReason;
use basalt_storage::{Alteration, Change, CommitError, Operation};

use super::{Tables, columns::other_columns, stored::Stored};
use crate::{limits, status::RequestError};

impl Tables {
    /// Changes the columns of a table; `only_at`: only where this is the newest version.
    pub(crate) async fn alter(
        &self,
        table: &Arc<Table>,
        alterations: Vec<Alteration>,
        only_at: Option<u64>,
    ) -> Result<(), RequestError> {
        let Some(stored) = self.stored(table)? else {
            let message =
                "the columns of a table in memory alone do not change; start the server with a store";
            return Err(RequestError::new(ErrorReason::InvalidStore, message));
        };
        stored.check_writable()?;
        stored.make_way().await?;
        let change = Change { operation: Operation::Alter, alterations, ..Change::default() };
        for _ in 0..limits::COMMIT_ATTEMPTS {
            if let Some(version) = self.try_to_alter(&stored, &change, only_at).await? {
                self.tell(table, version).await;
                return Ok(());
            }
        }
        let message = format!("other nodes write to table {:?} all the time; try again", table.name());
        Err(RequestError::new(ErrorReason::WriteConflict, message))
    }

    /// The version that a change of the columns has made; `None`: another commit came first, and is taken in.
    #[expect(
        clippy::await_holding_invalid_type,
        reason = "versions of a table come one after the other; nothing but the store is waited for"
    )]
    async fn try_to_alter(
        &self,
        stored: &Arc<Stored>,
        change: &Change,
        only_at: Option<u64>,
    ) -> Result<Option<u64>, RequestError> {
        let left = stored.left_closed().await?;
        let _advancing = stored.advancing.lock().await;
        let (state, at) = (stored.state(), self.shared.now());
        if state.closed_at() != left {
            return Ok(None);
        }
        if only_at.is_some_and(|version| version != state.version()) {
            let message = format!("another write to table {:?} came first", stored.table.name());
            return Err(RequestError::new(ErrorReason::WriteConflict, message));
        }
        let change = Change { closed: left.map(|_| false), ..change.clone() };
        match stored.log.commit(&state, &change).await {
            Ok(committed) => {
                let version = committed.state.version();
                let shown = match committed.state.has_same_columns(&state) {
                    true => stored.advance(committed.state, &[], &|_| {}).await,
                    false => self.take_over(stored, committed.state, at).await,
                };
                // It is written, whatever comes of showing it: who follows the log shows it then.
                if let Err(error) = shown {
                    let (table, error) = (stored.table.name(), error.message());
                    tracing::warn!(table, version, error, "cannot show columns that were committed");
                }
                stored.check_named(version).await?;
                Ok(Some(version))
            }
            Err(CommitError::Conflict(newer)) if newer.has_same_columns(&state) => {
                self.shared.metrics.commit_conflict();
                stored.advance(newer, &[], &|_| {}).await?;
                Ok(None)
            }
            Err(CommitError::Conflict(_)) => Err(other_columns(&stored.table)),
            Err(CommitError::Storage(error)) => Err(error.into()),
            Err(CommitError::Unknown(error)) => {
                tracing::error!(table = stored.table.name(), %error, "whether columns were changed is not known");
                let why = error.without_places();
                let message =
                    format!("whether the columns were changed is not known: {why}; look at the table");
                Err(RequestError::new(ErrorReason::OutcomeUnknown, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use basalt_core::schema::{DataType, Field};

    use super::*;
    use crate::tables::tests::{rows, with_table};

    #[tokio::test]
    async fn a_change_that_was_committed_and_cannot_be_shown_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        let (state, table) = with_table(folder.path()).await;
        state.tables.write(rows(&table, &[1, 2])).await.unwrap();

        // The new column is not read without the file.
        let tables = std::fs::read_dir(folder.path().join("tables")).unwrap();
        let place = tables.map(|entry| entry.unwrap().path()).next().unwrap();
        let files = std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path());
        let data: Vec<_> = files.filter(|path| path.is_file()).collect();
        assert_eq!(data.len(), 1);
        std::fs::remove_file(&data[0]).unwrap();
        let add = Alteration::Add(Field::new("b", DataType::Int64, true));
        state.tables.alter(&table, vec![add.clone()], None).await.unwrap();
        let log = basalt_storage::TableLog::new(
            basalt_storage::Store::open_existing(place.to_str().unwrap()).unwrap(),
        );
        let committed = log.load().await.unwrap();
        assert_eq!((committed.version(), committed.schema().fields().len()), (2, 2));
        // Whoever asks for it again is told that it is there, or that the columns are others.
        state.tables.alter(&table, vec![add], None).await.unwrap_err();
        assert_eq!(log.load().await.unwrap().version(), 2);
    }
}
