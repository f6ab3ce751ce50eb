//! Which versions of a table can be read.

use std::sync::Arc;

use basalt_core::table::{Snapshot, Table};
use basalt_storage::ReadableVersion;

use super::Tables;
use crate::status::RequestError;

impl Tables {
    /// The versions of a table that can be read, the newest first, each with its rows where this node has them counted.
    pub(crate) async fn readable(
        &self,
        table: &Table,
    ) -> Result<Vec<(ReadableVersion, Option<u64>)>, RequestError> {
        let Some(stored) = self.newest_stored(table)? else {
            let in_memory = |snapshot: &Arc<Snapshot>| {
                let version =
                    ReadableVersion { version: snapshot.version(), committed: None, operation: None };
                (version, Some(snapshot.rows()))
            };
            return Ok(table.snapshots().iter().rev().map(in_memory).collect());
        };
        let readable = stored.log.readable(&stored.state()).await?;
        let counted = |version: ReadableVersion| {
            let state = stored.state_at(Some(version.version)).ok();
            let older = || self.older_at(table, version.version).map(|(_, state)| state);
            let rows = state.or_else(older).map(|state| state.rows());
            (version, rows)
        };
        Ok(readable.into_iter().map(counted).collect())
    }
}
