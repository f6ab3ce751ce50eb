//! Tables that others are about to take the place of, made of what they have: a commit in between would go with the old
//! table, though it was acknowledged. So the log of the old table is closed behind the version that was read, and only then
//! has the catalog the new one in its place, within [`limits::CLOSED_FOR`] or not at all.
//!
//! Whoever finds a log closed waits until the catalog has no such table any more, or it is open again. Where neither comes,
//! because whoever has closed it was cut off, an entry without effect makes the catalog another than that one knew, after
//! which it can only find that it is too late; and the next commit opens the table.

use std::{
    fmt::Display,
    sync::{Arc, PoisonError},
};

use basalt_core::table::Table;
use basalt_proto::v1::ErrorReason;
use basalt_storage::StorageError;
use tokio::time::{Instant, sleep};

use super::{Durable, Shared, Tables, commit::Edit, drafts::Gone, follow::Newest, stored::Stored};
use crate::{limits, status::RequestError};

/// Tables with the versions at which they were closed.
pub(super) type Closed = Vec<(Arc<Stored>, u64)>;

impl Durable {
    /// Closes those tables that must be as they were; all of them, or none.
    pub(super) async fn close(&self, gone: &[Gone]) -> Result<Closed, RequestError> {
        let mut closed = Closed::new();
        for (gone, at) in gone.iter().filter_map(|gone| Some((gone, gone.at?))) {
            match self.close_one(gone, at).await {
                Ok(done) => closed.extend(done),
                Err(error) => {
                    open(closed).await;
                    return Err(error);
                }
            }
        }
        Ok(closed)
    }

    async fn close_one(&self, gone: &Gone, at: u64) -> Result<Option<(Arc<Stored>, u64)>, RequestError> {
        let stored = gone.id.and_then(|id| {
            self.tables.read().unwrap_or_else(PoisonError::into_inner).get(&id).map(Arc::clone)
        });
        let Some(stored) = stored else {
            let message = format!("table {:?} was dropped or replaced meanwhile", gone.name);
            return Err(RequestError::new(ErrorReason::WriteConflict, message));
        };
        // The rows of another writer's table stay where they are.
        if stored.attached {
            return Ok(None);
        }
        let version = stored.change(Vec::new(), Edit::Closed(true, at)).await?;
        Ok(Some((stored, version)))
    }
}

/// Opens tables again.
pub(super) async fn open(closed: Closed) {
    for (stored, at) in closed {
        if let Err(error) = stored.change(Vec::new(), Edit::Closed(false, at)).await {
            let (table, error) = (stored.table.name(), error.message());
            tracing::warn!(table, error, "a table stays closed until somebody writes to it");
        }
    }
}

/// Nothing was written: whoever names the table anew finds the other one, or that there is none.
fn gone_meanwhile(table: &Table) -> RequestError {
    let message = format!("table {:?} was replaced or dropped meanwhile; try again", table.name());
    RequestError::new(ErrorReason::WriteConflict, message).at("table")
}

/// The error of a change that was not made: where another table has taken the place of this one, it may be made to that.
pub(super) fn of_replaced(shared: &Shared, table: &Table, error: RequestError) -> RequestError {
    let is_replaced = || shared.catalog.get(table.name()).is_ok_and(|now| now.id() != table.id());
    if error.reason() == "TABLE_NOT_FOUND" && is_replaced() { gone_meanwhile(table) } else { error }
}

impl Tables {
    /// See [`of_replaced`].
    pub(super) fn of_replaced(&self, table: &Table, error: RequestError) -> RequestError {
        of_replaced(&self.shared, table, error)
    }
}

/// Which table the catalog has by the name of one.
enum NameIsOf {
    This,
    Another,
    None,
}

impl Stored {
    /// Waits while the table is closed. The answer is the version that has closed it, where nobody goes on with what it was
    /// closed for, so that the next commit opens it.
    pub(super) async fn left_closed(&self) -> Result<Option<u64>, RequestError> {
        let Some(mut closed_at) = self.state().closed_at() else { return Ok(None) };
        let mut until = Instant::now() + limits::LEFT_CLOSED_FOR;
        while Instant::now() < until {
            if !self.is_still_named().await? {
                return Err(self.gone_meanwhile());
            }
            sleep(limits::CLOSED_LOOK).await;
            match self.looked_closed_at().await? {
                None => return Ok(None),
                Some(at) if at != closed_at => {
                    (closed_at, until) = (at, Instant::now() + limits::LEFT_CLOSED_FOR);
                }
                Some(_) => {}
            }
        }
        if let Some(durable) = self.durable.upgrade() {
            durable.log.touch(&durable.state()).await?;
        }
        if !self.is_still_named().await? {
            return Err(self.gone_meanwhile());
        }
        Ok(Some(closed_at))
    }

    /// That what was committed as `version` is not lost with the table: it is in the catalog still, or was closed behind that
    /// version by somebody who has made another one in its place, which has it too. Another server may have dropped it, and
    /// may not know this one to tell it so. For a caller that holds the lock.
    pub(super) async fn check_named(&self, version: u64) -> Result<(), RequestError> {
        let unknown = |error: &dyn Display| {
            let message =
                format!("the change was made; whether the table was dropped before is not known: {error}");
            RequestError::new(ErrorReason::OutcomeUnknown, message)
        };
        match self.name_is_of().await.map_err(|error| unknown(&error))? {
            NameIsOf::This => Ok(()),
            NameIsOf::None => Err(self.gone()),
            NameIsOf::Another => {
                let closed_at = self.closed_at_locked().await.map_err(|error| unknown(&error.message()))?;
                match closed_at.is_some_and(|at| at > version) {
                    true => Ok(()),
                    // It went with a table that nobody reads any more.
                    false => Err(self.gone_meanwhile()),
                }
            }
        }
    }

    /// Whether the catalog has it at this moment.
    pub(super) async fn is_still_named(&self) -> Result<bool, StorageError> {
        Ok(matches!(self.name_is_of().await?, NameIsOf::This))
    }

    async fn name_is_of(&self) -> Result<NameIsOf, StorageError> {
        let is_asked = !self.attached && self.is_named();
        let Some(durable) = self.durable.upgrade().filter(|_| is_asked) else { return Ok(NameIsOf::This) };
        let newest = durable.log.newer(&durable.state()).await?;
        if newest.tables().values().any(|entry| entry.number() == self.table.id()) {
            return Ok(NameIsOf::This);
        }
        Ok(if newest.tables().contains_key(self.table.name()) { NameIsOf::Another } else { NameIsOf::None })
    }

    fn gone_meanwhile(&self) -> RequestError {
        gone_meanwhile(&self.table)
    }

    /// The same of the newest version.
    #[expect(
        clippy::await_holding_invalid_type,
        reason = "versions of a table come one after the other; nothing but the store is waited for"
    )]
    async fn looked_closed_at(&self) -> Result<Option<u64>, RequestError> {
        let _advancing = self.advancing.lock().await;
        self.closed_at_locked().await
    }

    /// The same, for a caller that holds the lock.
    pub(super) async fn closed_at_locked(&self) -> Result<Option<u64>, RequestError> {
        match self.refresh_locked().await? {
            Newest::Here => Ok(self.state().closed_at()),
            Newest::OtherColumns(state) => Ok(state.closed_at()),
            Newest::Unreadable(error) => Err(error),
        }
    }
}
