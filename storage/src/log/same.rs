//! Whether a log is still the one that a state was read from.
//!
//! A table of another writer may be deleted and written again under its address. Version numbers do not tell: the new
//! log has the same ones. What tells is the file of the state's own version, which a log never changes.

use std::{
    hash::{DefaultHasher, Hasher as _},
    sync::Arc,
};

use super::{DataFile, TableLog, TableState, names};
use crate::{
    error::{Result, StorageError},
    limits::COMMIT_BYTES,
    store::Mark,
};

/// Tells a version's file from others of its name. It is compared within one process alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryDigest {
    bytes: usize,
    hash: u64,
}

impl EntryDigest {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        Self { bytes: bytes.len(), hash: hasher.finish() }
    }
}

/// The file that was looked at last, by its version, and how the store described it when the log was the same.
pub(super) type Looked = Option<(u64, Mark)>;

impl TableLog {
    /// Makes sure that the log is the one that a state was read from. What was read behind the state *before* this call
    /// is of the same log then, since a log that is written again begins with its first version.
    ///
    /// One request for what the store says of a file, as long as that does not change.
    ///
    /// # Errors
    /// [`StorageError::NoTable`] when there is no table any longer, [`StorageError::Replaced`] when there is another,
    /// and those of [`load`](Self::load).
    pub async fn check_same(&self, state: &TableState) -> Result<()> {
        // Other writers remove entries that a checkpoint covers; the hint to the checkpoint stays.
        let entry = names::commit(state.version);
        for path in [entry.as_str(), names::LAST_CHECKPOINT] {
            let Some(mark) = self.store().mark(path).await? else { continue };
            let looked = Some((state.version, mark));
            if *self.looked() == looked {
                return Ok(());
            }
            let same = match state.entry {
                Some(digest) if path == entry => {
                    let Some(bytes) = self.store().get(path, COMMIT_BYTES).await? else { continue };
                    if EntryDigest::of(&bytes) == digest {
                        Ok(())
                    } else {
                        self.check_newest(state, false).await
                    }
                }
                _ => self.check_newest(state, true).await,
            };
            if same.is_ok() {
                *self.looked() = looked;
            }
            return same;
        }
        self.check_newest(state, true).await
    }

    /// The same, by the newest version; without `may_be_same` it is known that the log is another, and not why.
    async fn check_newest(&self, state: &TableState, may_be_same: bool) -> Result<()> {
        let newest = self.load().await?;
        let why = if newest.id() != state.id() {
            format!("another table is there, with the id {}, not {}", newest.id(), state.id())
        } else if newest.version < state.version {
            format!("it went back from version {} to {}", state.version, newest.version)
        } else if !may_be_same || (newest.version == state.version && !newest.has_same_files(state)) {
            format!("its version {} was written again", state.version)
        } else {
            return Ok(());
        };
        Err(StorageError::Replaced { path: self.store().url().to_owned(), why })
    }
}

impl TableState {
    /// Whether another state has the same data files, with the same rows deleted.
    fn has_same_files(&self, other: &Self) -> bool {
        let same = |((path, a), (other, b)): ((_, &Arc<DataFile>), (_, &Arc<DataFile>))| {
            path == other && a.bytes() == b.bytes() && a.deletion_vector == b.deletion_vector
        };
        self.files.len() == other.files.len() && self.files.iter().zip(&other.files).all(same)
    }
}
