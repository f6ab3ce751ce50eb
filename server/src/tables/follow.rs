//! Following what other nodes commit to the store, and the writers of attached tables.

use std::sync::{Arc, PoisonError, atomic::Ordering};

use basalt_core::table::Table;
use basalt_storage::{StorageError, TableState};
use tokio::time::timeout;

use super::{
    Tables,
    stored::Stored,
    unreadable::{newest, unreadable},
};
use crate::{limits, moment::Moment, status::RequestError};

impl Tables {
    /// Looks for newer versions of a table, unless it is at `version` or beyond.
    pub(crate) async fn refresh_to(&self, table: &Table, version: u64) -> Result<(), RequestError> {
        self.follow(table, |stored| stored.state().version() >= version).await
    }

    /// Looks for newer versions of a table, unless that was done since a moment.
    pub(crate) async fn refresh_since(&self, table: &Table, since: Moment) -> Result<(), RequestError> {
        self.follow(table, |stored| stored.has_acknowledged() && stored.followed().looked.is_since(since))
            .await
    }

    /// Looks for newer versions of a table that was not followed for longer than it should be: the process stood still,
    /// or the store does. Nobody waits for long, or gets an error, for that: a store that fails keeps nobody from reading.
    pub(crate) async fn follow_at_once(&self, table: &Table) {
        let Ok(Some(stored)) = self.newest_stored(table) else { return };
        if stored.was_followed() {
            return;
        }
        match timeout(limits::FOLLOW_INTERVAL, self.refresh_since(table, self.shared.now())).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(table = table.name(), error = error.message(), "cannot follow"),
            Err(_) => stored.set_followed(|followed| followed.tried = self.shared.now()),
        }
    }

    /// Reads what this node holds by its place from now on: the nodes are others than before. No answer needs it.
    pub(crate) async fn place(&self) {
        for stored in self.list_stored() {
            if let Err(error) = stored.place().await {
                tracing::warn!(
                    table = stored.table.name(),
                    error = error.message(),
                    "cannot read what was placed here"
                );
            }
        }
    }

    /// Looks for newer versions of a table, if there is need, and notes whether it can be read. Whoever waits while others
    /// look finds that there is none.
    #[expect(
        clippy::await_holding_invalid_type,
        reason = "versions of a table come one after the other; nothing but the store is waited for"
    )]
    async fn follow(&self, table: &Table, fresh: impl Fn(&Stored) -> bool) -> Result<(), RequestError> {
        loop {
            let Some(stored) = self.newest_stored(table)? else { return Ok(()) };
            if fresh(&stored) {
                return Ok(());
            }
            let _advancing = stored.advancing.lock().await;
            // Whoever was there first has looked, and may have gone to other columns.
            if !self.newest_stored(table)?.is_some_and(|newest| Arc::ptr_eq(&newest, &stored)) {
                continue;
            }
            return if fresh(&stored) { Ok(()) } else { self.follow_locked(&stored).await };
        }
    }

    /// Goes to a version with other columns that this node has made itself at a moment; the caller holds the lock.
    #[cfg(feature = "sql")]
    pub(super) async fn take_over(
        &self,
        stored: &Arc<Stored>,
        state: Arc<TableState>,
        at: Moment,
    ) -> Result<(), RequestError> {
        self.replace(stored, state, Followed { looked: at, tried: at }).await
    }

    async fn follow_locked(&self, stored: &Arc<Stored>) -> Result<(), RequestError> {
        let (table, at) = (&*stored.table, self.shared.now());
        let (followed, is_other) = match stored.refresh_locked().await {
            Ok(Newest::Here) => (Ok(()), false),
            Ok(Newest::OtherColumns(state)) => {
                let requests = state.requests_since(stored.state().version()).cloned();
                self.shared.request_log.restore(table, self.shared.environment.wall(), requests);
                let followed = Followed { looked: at, tried: at };
                (self.replace(stored, state, followed).await, true)
            }
            Ok(Newest::Unreadable(error)) => {
                self.note(table, Some(&error));
                return Err(error);
            }
            Err(error) => (Err(error), false),
        };
        match followed {
            Ok(()) => self.note(table, None),
            // What is held is a version like any other, unless it has columns that the table has no longer.
            Err(error) if error.is_outage() || (error.is_of_memory() && !is_other) => return Err(error),
            Err(error) if stored.attached || is_other => {
                let error = newest(table.name(), error);
                self.note(table, Some(&error));
                return Err(error);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// When a table was followed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Followed {
    /// The store had nothing newer then than what this node has.
    looked: Moment,
    /// It was looked into, or could not be.
    tried: Moment,
}

/// Where the newest version of a table is.
pub(super) enum Newest {
    /// It is here.
    Here,
    /// It has other columns; nothing was done.
    OtherColumns(Arc<TableState>),
    /// There is none that can be read.
    Unreadable(RequestError),
}

impl Stored {
    /// Looks for newer versions, for a caller that holds the lock.
    pub(super) async fn refresh_locked(&self) -> Result<Newest, RequestError> {
        let at = self.shared.now();
        let newest = self.newest().await;
        self.set_followed(|followed| {
            followed.tried = at;
            if matches!(newest, Ok(Newest::Here)) {
                followed.looked = at;
            }
        });
        newest
    }

    async fn newest(&self) -> Result<Newest, RequestError> {
        let state = self.state();
        let newer = match self.attached {
            true => match self.refresh_attached(&state).await {
                Ok(newer) => newer,
                Err(error) if error.is_outage() => return Err(error.into()),
                Err(error) => return Ok(Newest::Unreadable(unreadable(self.table.name(), error))),
            },
            false => self.log.refresh(&state).await?,
        };
        if newer.version() > state.version() {
            if !newer.has_same_columns(&state) {
                return Ok(Newest::OtherColumns(newer));
            }
            self.shared.request_log.restore(
                &self.table,
                self.shared.environment.wall(),
                newer.requests_since(state.version()).cloned(),
            );
            self.advance(newer, &[], &|_| {}).await?;
        }
        Ok(Newest::Here)
    }

    /// The newest state of a table of another writer, which may have been deleted and written again. That the log is the
    /// same is looked at behind all that was read.
    async fn refresh_attached(&self, state: &Arc<TableState>) -> Result<Arc<TableState>, StorageError> {
        let newer = self.log.refresh(state).await;
        self.log.check_same(state).await?;
        let newer = newer?;
        if newer.id() == state.id() {
            return Ok(newer);
        }
        let why = format!("the table has another id, {}, not {}", newer.id(), state.id());
        Err(StorageError::Replaced { path: self.log.store().url().to_owned(), why })
    }

    /// A version is to be acknowledged: what is read here from now on has it, and so do the other nodes before this ends.
    pub(super) async fn acknowledge(&self, version: u64) {
        self.acknowledged.fetch_max(version, Ordering::AcqRel);
        if self.is_named() {
            self.shared.peers().committed(&self.table, version).await;
        }
    }

    /// Whether the newest version here has all that was acknowledged here.
    fn has_acknowledged(&self) -> bool {
        self.state().version() >= self.acknowledged.load(Ordering::Acquire)
    }

    fn followed(&self) -> Followed {
        *self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_followed(&self, set: impl FnOnce(&mut Followed)) {
        set(&mut self.followed.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether it was followed lately, or could not be.
    fn was_followed(&self) -> bool {
        self.followed().tried.is_within(limits::FOLLOWED_FOR, &*self.shared.environment)
    }
}
