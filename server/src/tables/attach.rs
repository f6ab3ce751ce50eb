//! Tables of other writers: whether they may be attached, which is asked each time that one is opened, for the server may
//! have been started with other roots than when it was attached.

use std::sync::Arc;

use basalt_core::table::Table;
use basalt_proto::v1::ErrorReason;
use basalt_storage::{TableEntry, TableLog, TableState};

use super::{
    Durable, Tables,
    unreadable::{cannot_attach, cannot_open},
};
use crate::status::RequestError;

impl Tables {
    /// Fails for an address at which nothing may be attached.
    pub(crate) fn may_attach(&self, url: &str) -> Result<(), RequestError> {
        self.shared.roots.check(url)
    }

    /// The log of a table of the catalog, and its newest state.
    pub(super) async fn open_log(
        &self,
        durable: &Durable,
        entry: &TableEntry,
    ) -> Result<(TableLog, Arc<TableState>), RequestError> {
        self.check_place(entry, &entry.location)?;
        let (log, state) = durable.log.open(entry).await.map_err(|error| cannot_open(entry, error))?;
        // Links may lead elsewhere by now.
        self.check_place(entry, log.store().url())?;
        Ok((log, state))
    }

    /// Fails for a table that is attached from where nothing may be.
    pub(super) fn check_place(&self, entry: &TableEntry, url: &str) -> Result<(), RequestError> {
        if !entry.attached || self.may_attach(url).is_ok() {
            return Ok(());
        }
        let message = format!(
            "table {:?} is attached from a place that no --attach-root (attach_roots) of this server allows; it is read \
             once the server is started with one that does, and can be dropped",
            entry.name
        );
        Err(RequestError::new(ErrorReason::InvalidStore, message))
    }

    /// Attaches the table of another writer, which is read only, by its address.
    pub(crate) async fn attach(&self, name: &str, url: &str) -> Result<Arc<Table>, RequestError> {
        let Some(durable) = &self.durable else {
            let message =
                "a server that keeps its tables in memory alone attaches none; start it with a store";
            return Err(RequestError::new(ErrorReason::InvalidStore, message));
        };
        let found = durable.log.look_at(&durable.state(), name, url).await;
        let found = found.map_err(|e| cannot_attach(e.into()).at("url"))?;
        // Links may lead elsewhere by now.
        self.may_attach(found.0.store().url())?;
        let attached = durable.log.attach(&durable.state(), name, found).await;
        let created = self.or_refused(durable, attached).await.map_err(|e| e.at("url"))?;
        let (version, entry) = (created.catalog.version(), created.entry.clone());
        let added = self.take_in_own(durable, created).await.map_err(|error| match error.is_of_store() {
            true => cannot_attach(error).at("url"),
            false => error,
        });
        match &added {
            Ok(_) => self.shared.peers().catalog_changed(version).await,
            // What cannot be loaded is not attached.
            Err(_) if durable.has(entry.number()) => {
                if let Ok(next) = durable.log.remove(&durable.state(), name).await {
                    self.take_in(durable, next, None);
                }
            }
            Err(_) => {}
        }
        added
    }
}
