//! Versions before the newest: which of them are retained, and their states, rebuilt from the log.
//!
//! A version is retained for [`TableLog::keep`] after the next one took its place, by the time that the next one's
//! commit says, which is also the time by which a vacuum counts the files that left the table with it. Of more than
//! [`KEPT_VERSIONS`] versions only the newest are retained. A pinned version ([`Pin`](crate::Pin)) is retained as long
//! as it is pinned. Every node decides that by the store alone, so a node that
//! never had a version answers for it like all others.

use std::sync::Arc;

use super::{
    TableLog,
    checkpoints::Start,
    looked_again,
    names::{self, FOLDER, LogFile},
    replay::Replay,
    state::TableState,
    whole_checkpoints,
};
use crate::{
    error::{Result, StorageError},
    limits::{CHECKPOINT_EVERY, COMMIT_BYTES, KEPT_VERSIONS},
};

impl TableLog {
    /// The state of a version that is not newer than `newest`, on any node; `None` when the version is not retained any
    /// more, or is newer. It is rebuilt from the last checkpoint that is not behind it and the commits from there on,
    /// which takes as long as opening the table; what it has in common with `newest` takes no memory again. The files of
    /// a state that comes back stay readable for a while longer than the version is retained.
    ///
    /// # Errors
    /// Those of [`load`](Self::load); [`StorageError::Corrupt`] also when the log lacks what a retained version needs.
    pub async fn at(&self, newest: &Arc<TableState>, version: u64) -> Result<Option<Arc<TableState>>> {
        if version == newest.version {
            return Ok(Some(Arc::clone(newest)));
        }
        if self.can_be_read(newest, version).await? { self.rebuild(newest, version).await } else { Ok(None) }
    }

    /// The same from a state before it that the caller has: where few versions are between them, nothing is read but these.
    ///
    /// # Errors
    /// As [`at`](Self::at).
    pub async fn at_from(
        &self,
        newest: &Arc<TableState>,
        before: &Arc<TableState>,
        version: u64,
    ) -> Result<Option<Arc<TableState>>> {
        let is_between = before.version < version && version < newest.version;
        if !is_between || version - before.version > CHECKPOINT_EVERY {
            return self.at(newest, version).await;
        }
        if !self.can_be_read(newest, version).await? {
            return Ok(None);
        }
        let replay = Replay::of(before, self.store.url(), self.keep_millis());
        match self.replay(replay, (before.version + 1..=version).collect()).await {
            Ok(state) if state.id() == newest.id() => Ok(Some(Arc::new(state.sharing(newest)?))),
            // What a later checkpoint has is removed from the log.
            Ok(_) | Err(StorageError::Missing { .. }) => self.rebuild(newest, version).await,
            Err(error) => Err(error),
        }
    }

    async fn can_be_read(&self, newest: &TableState, version: u64) -> Result<bool> {
        Ok(version < newest.version
            && (self.is_retained(newest.version, version).await? || self.is_pinned(version).await?))
    }

    /// The state of a version before the newest; `None` where the log has no longer what it is made of.
    pub(crate) async fn rebuild(
        &self,
        newest: &Arc<TableState>,
        version: u64,
    ) -> Result<Option<Arc<TableState>>> {
        looked_again(|| self.rebuild_once(newest, version)).await
    }

    async fn rebuild_once(&self, newest: &Arc<TableState>, version: u64) -> Result<Option<Arc<TableState>>> {
        let listed = self.store.list(FOLDER, None).await?;
        let Start { replay, from, .. } = self.read_newest(&listed, version).await?;
        let wanted = |file: &crate::store::Listed| match LogFile::of(&file.path) {
            Some(LogFile::Commit(commit)) => (from..=version).contains(&commit).then_some(commit),
            _ => None,
        };
        let commits: Vec<u64> = listed.iter().filter_map(wanted).collect();
        let missing = (from..=version).zip(commits.iter().copied().map(Some).chain(std::iter::repeat(None)));
        if let Some((missing, _)) = { missing }.find(|(expected, found)| Some(*expected) != *found) {
            // Whoever cleans up removes what stands before a later checkpoint.
            if whole_checkpoints(&listed).keys().any(|checkpoint| checkpoint.version > missing) {
                return Ok(None);
            }
            return Err(StorageError::corrupt(
                self.store.url(),
                format!("version {missing} is missing, which version {version} is made of"),
            ));
        }
        let state = self.replay(replay, commits).await?;
        if state.id() != newest.id() {
            let why = format!("its version {version} is of another table, with the id {}", state.id());
            return Err(StorageError::Replaced { path: self.store.url().to_owned(), why });
        }
        Ok(Some(Arc::new(state.sharing(newest)?)))
    }

    /// Whether a version before the newest can still be read.
    pub(crate) async fn is_retained(&self, newest: u64, version: u64) -> Result<bool> {
        if newest - version >= KEPT_VERSIONS {
            return Ok(false);
        }
        let path = names::commit(version + 1);
        let Some(bytes) = self.store.get(&path, COMMIT_BYTES).await? else { return Ok(false) };
        let (superseded, _) = self.committed(&path, &bytes).await?;
        Ok(superseded.is_some_and(|at| self.store.now_millis().saturating_sub(at) <= self.keep_millis()))
    }
}
