//! Following what other nodes commit to the store.

use std::{collections::HashMap, sync::PoisonError};

use basalt_core::table::Table;
use tokio::time::timeout;

use super::{Tables, stored::Stored};
use crate::{limits, moment::Moment, status::Fault};

impl Tables {
    /// Looks for newer versions of a table, unless it is at `version` or beyond.
    pub(crate) async fn refresh_to(&self, table: &Table, version: u64) -> Result<(), Fault> {
        match self.stored(table)? {
            Some(stored) => stored.refresh_unless(|stored| stored.state().version() >= version).await,
            None => Ok(()),
        }
    }

    /// Looks for newer versions of a table, unless that was done since a moment.
    pub(crate) async fn refresh_since(&self, table: &Table, since: Moment) -> Result<(), Fault> {
        match self.stored(table)? {
            Some(stored) => stored.refresh_since(since).await,
            None => Ok(()),
        }
    }

    /// Looks for newer versions of a table that was not followed for longer than it should be: the process stood still,
    /// or the store does. Nobody waits for long, or gets an error, for that: a store that fails keeps nobody from reading.
    pub(crate) async fn follow_at_once(&self, table: &Table) {
        let Ok(Some(stored)) = self.stored(table) else { return };
        if stored.was_followed() {
            return;
        }
        match timeout(limits::FOLLOW_INTERVAL, stored.refresh_since(Moment::now())).await {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => tracing::debug!(table = table.name(), error = fault.message(), "cannot follow"),
            Err(_) => stored.followed.lock().unwrap_or_else(PoisonError::into_inner).tried = Moment::now(),
        }
    }

    /// Loads what this node holds by now, and lets go what it holds no longer: the nodes are others than before.
    pub(crate) async fn place_anew(&self) {
        for stored in self.list_stored() {
            if let Err(fault) = stored.place_anew().await {
                tracing::warn!(
                    table = stored.table.name(),
                    error = fault.message(),
                    "cannot place fragments anew"
                );
            }
        }
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

impl Stored {
    /// Looks for newer versions, unless that was done since a moment.
    pub(super) async fn refresh_since(&self, since: Moment) -> Result<(), Fault> {
        self.refresh_unless(|stored| stored.followed().looked.is_since(since)).await
    }

    /// Looks for newer versions, if there is need. Whoever waits while others look finds that there is none.
    #[expect(
        clippy::await_holding_invalid_type,
        reason = "versions of a table come one after the other; nothing but the store is waited for"
    )]
    async fn refresh_unless(&self, fresh: impl Fn(&Self) -> bool) -> Result<(), Fault> {
        if fresh(self) {
            return Ok(());
        }
        let _advancing = self.advancing.lock().await;
        if fresh(self) { Ok(()) } else { self.refresh_locked().await }
    }

    #[expect(
        clippy::await_holding_invalid_type,
        reason = "versions of a table come one after the other; nothing but the store is waited for"
    )]
    async fn place_anew(&self) -> Result<(), Fault> {
        let _advancing = self.advancing.lock().await;
        self.advance(self.state(), HashMap::new(), &|_| {}).await
    }

    /// Looks for newer versions, for a caller that holds the lock.
    pub(super) async fn refresh_locked(&self) -> Result<(), Fault> {
        let at = Moment::now();
        let followed = self.follow().await;
        let mut known = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        known.tried = at;
        if followed.is_ok() {
            known.looked = at;
        }
        followed
    }

    async fn follow(&self) -> Result<(), Fault> {
        let state = self.state();
        let newer = self.log.refresh(&state).await?;
        if newer.version() > state.version() {
            self.shared.ledger.restore(&self.table, newer.requests_since(state.version()).cloned());
            self.advance(newer, HashMap::new(), &|_| {}).await?;
        }
        Ok(())
    }

    fn followed(&self) -> Followed {
        *self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was followed lately, or could not be.
    fn was_followed(&self) -> bool {
        self.followed().tried.is_within(limits::FOLLOWED_FOR)
    }
}
