//! What time it is where a store's files get theirs.
//!
//! How old a file is decides whether it is left alone, for it may be of a write that is under way elsewhere. The store says when
//! it was written; a node whose own clock is ahead would take what was written a moment ago for old. So who is about to
//! remove files by their age asks the store for the time: it writes a file, and looks when the store says that this was.

use std::time::SystemTime;

use super::Store;
use crate::{
    error::Result,
    limits::{CLOCKS_AGREE, STAMP_UNIT},
    pins,
};

/// What begins the names of the files that are written for that; they are where pins are.
const PREFIX: &str = "clock.";

impl Store {
    /// The time of day, by the clock of this machine or by the one that files get their times from: the earlier. Where
    /// they do not agree, that is a warning.
    ///
    /// # Errors
    /// [`StorageError::Store`](crate::StorageError::Store).
    pub(crate) async fn clock(&self) -> Result<SystemTime> {
        let path = format!("{}/{PREFIX}{}.json", pins::FOLDER, self.new_id().simple());
        let before = self.environment.wall();
        match self.put(&path, "{}").await {
            Ok(()) => {}
            // On a full disk what is old makes room, and is the only thing that can.
            Err(error) if self.is_local() => {
                tracing::warn!(%error, store = self.url(), "the store's time is not known: this machine's is taken for it");
                return Ok(before);
            }
            Err(error) => return Err(error),
        }
        let found = self.head(&path).await;
        let after = self.environment.wall();
        // Where it stays, a vacuum removes it, or it is a few bytes beside the catalog.
        if let Err(error) = self.delete_mark("it was there to tell the time", &path).await {
            tracing::debug!(%error, "removing what told the time");
        }
        let written = found?.ok_or_else(|| self.missing(&path))?.modified;
        // Default: it is not ahead, or not behind.
        let ahead = before.duration_since(written).unwrap_or_default();
        // Default: as above.
        let behind = written.duration_since(after).unwrap_or_default();
        if ahead > CLOCKS_AGREE {
            tracing::warn!(store = self.url(), by = ?ahead, "this machine's clock is ahead of the store's; set them");
        } else if behind > CLOCKS_AGREE {
            tracing::warn!(store = self.url(), by = ?behind, "this machine's clock is behind the store's; set them");
        }
        // Stores may leave out parts of a second.
        Ok(if ahead > STAMP_UNIT { written } else { before })
    }
}

/// Whether a path is that of a file that was written to tell the time.
pub(crate) fn is_reading(path: &str) -> bool {
    let name = path.strip_prefix(pins::FOLDER).and_then(|rest| rest.strip_prefix('/'));
    name.is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(".json"))
}
