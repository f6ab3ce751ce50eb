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
                match committed.state.has_same_columns(&state) {
                    true => stored.advance(committed.state, &[], &|_| {}).await?,
                    false => self.take_over(stored, committed.state, at).await?,
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
