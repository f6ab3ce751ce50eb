//! Removing the files of dropped tables, and of those that got no name.
//!
//! Nothing else of a store's folders is removed: what the catalog does not name, and no mark says to be a draft, may be a
//! table whose entry was lost, or another program's.

use std::{sync::Arc, time::SystemTime};

use crate::{
    catalog::{CatalogLog, CatalogState, JOURNAL, MARK, TABLES, TableEntry},
    environment::millis,
    error::{Result, StorageError},
    limits::ORPHAN_AGE,
    log::{FOLDER, TableLog},
    vacuum::Vacuumed,
};

impl CatalogLog {
    /// Removes the files of tables that were dropped longer ago than the catalog keeps them, and of [drafts](Self::draft)
    /// whose makers are gone, and logs each. The folder must be the one that the table was given when it was made, no table
    /// may be there, and the log in it must be that table's.
    ///
    /// # Errors
    /// Those of [`refresh`](Self::refresh), with nothing removed; [`StorageError::Store`]; what was removed until then
    /// is gone.
    pub async fn vacuum(&self, state: &Arc<CatalogState>) -> Result<Vacuumed> {
        let state = self.refresh(state).await?;
        // Default: for good.
        let keep = i64::try_from(self.keep.as_millis()).unwrap_or(i64::MAX);
        let mut done = Vacuumed::default();
        let folders = self.store.folders(TABLES).await?;
        let unnamed: Vec<_> = folders.iter().filter(|folder| !state.names(folder)).cloned().collect();
        let is_any = !unnamed.is_empty() || folders.iter().any(|folder| state.dropped.contains_key(folder));
        let clock = match is_any {
            true => self.store.clock().await?,
            // Nothing is removed by its age.
            false => SystemTime::UNIX_EPOCH,
        };
        for (folder, is_old) in self.drafts_among(unnamed, clock).await? {
            if is_old {
                let removed = self.remove_folder("its table got no name", &folder).await?;
                let (files, bytes) = (removed.files, removed.bytes);
                tracing::info!(folder, files, bytes, "removed a table that got no name");
                done.files += files;
                done.bytes += bytes;
            }
        }
        for folder in folders {
            let Some((table, at)) = state.dropped.get(&folder) else { continue };
            let is_live = state.tables().values().any(|table| table.location == folder);
            if is_live || !table.is_in_own_folder() || millis(clock).saturating_sub(*at) <= keep {
                continue;
            }
            if let Some(other) = self.other_table(table).await? {
                let store = self.store.url();
                tracing::warn!(
                    store,
                    folder,
                    other,
                    "a dropped table's folder holds another table, and stays"
                );
                continue;
            }
            let removed = self.remove_folder("its table was dropped", &folder).await?;
            if removed.files > 0 {
                let (table, files, bytes) = (table.name.as_str(), removed.files, removed.bytes);
                tracing::info!(table, folder, files, bytes, "removed a dropped table");
            }
            done.files += removed.files;
            done.bytes += removed.bytes;
        }
        self.store.delete_leftovers(JOURNAL, ORPHAN_AGE).await;
        Ok(done)
    }

    /// The id of the Delta table in a dropped table's folder, if it is another's. A log that cannot be read, and an
    /// entry of a version that did not note the id, say nothing against it.
    async fn other_table(&self, table: &TableEntry) -> Result<Option<String>> {
        let Some(expected) = &table.delta_id else { return Ok(None) };
        match TableLog::new(self.store.folder(&table.location)?).load().await {
            Ok(found) if found.id() != expected => Ok(Some(found.id().to_owned())),
            Err(error @ StorageError::Store { .. }) => Err(error),
            _ => Ok(None),
        }
    }

    /// Removes the folder of a table that Basalt has made: its log, and what marks it as a draft, at last, so that a removal
    /// that is cut off can still tell whose folder it is.
    pub(crate) async fn remove_folder(&self, why: &'static str, folder: &str) -> Result<Vacuumed> {
        let files = self.store.list(folder, None).await?;
        let mut done = Vacuumed::default();
        done.add(&files);
        let log = format!("{folder}/{FOLDER}/");
        let mark = format!("{folder}/{MARK}");
        let (mark, files): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| file.path == mark);
        let (log, data): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| file.path.starts_with(&log));
        for files in [data, log, mark] {
            self.store.delete(why, files.into_iter().map(|file| file.path)).await?;
        }
        self.store.delete_leftovers(folder, std::time::Duration::ZERO).await;
        self.store.delete_empty_folders(folder).await;
        Ok(done)
    }
}
