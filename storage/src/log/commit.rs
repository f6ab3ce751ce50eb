//! Making the next version, and finding out for certain whether it was made.
//!
//! A version is made when its file is written, by whoever is first. A store may write it and lose the answer, or write
//! it later than its answer says: then what the file holds tells, and where there is none, a version without changes
//! takes the name, behind which the change can be tried again without ever being there twice.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use super::{
    Committed, Moment, TableLog,
    actions::{self, Action, CommitInfo},
    change::{self, Change, Deletions},
    lock,
    names::{self, LogFile},
    replay::Replay,
    state::TableState,
    whole_checkpoints,
};
use crate::{
    deletions,
    error::{CommitError, Result, StorageError},
    limits::{COMMIT_BYTES, LOG_YOUNG, NEWEST_FOR, RESOLVE_DELAY, RESOLVE_FOR},
};

impl TableLog {
    /// Makes the version behind `base`. One attempt: when another commit was first, the newer state comes back, and
    /// the caller decides whether the change still makes sense there; its files need not be written again.
    ///
    /// # Errors
    /// [`CommitError`]; [`StorageError::Corrupt`] also when the change names fragments that `base` does not have, and
    /// when `base` is gone from the log.
    pub async fn commit(
        &self,
        base: &Arc<TableState>,
        change: &Change,
    ) -> std::result::Result<Committed, CommitError> {
        self.check_young(&change.add)?;
        self.sync_unsynced().await?;
        let was_newest = self.newest_at(base.version);
        // A write to a directory can be prevented; elsewhere it is found out beside it, in the same time.
        let is_gone = self.store.is_local() && self.store.head(&names::commit(base.version)).await?.is_none();
        if was_newest.is_none() || is_gone {
            let newer = self.refresh(base).await?;
            if newer.version > base.version {
                return Err(CommitError::Conflict(newer));
            }
        }
        let was_newest = self.newest_at(base.version);
        let before = self.deleted_before(base, change).await?;
        let planned = change::plan(base, change, &before, self.store.now_millis(), || self.store.new_id())?;
        let version = base.version + 1;
        let bytes = Bytes::from(actions::serialize(version, &planned.actions)?);
        // What is no state is not written.
        let mut replay = Replay::of(base, self.store.url(), self.keep_millis());
        replay.apply(version, planned.actions)?;
        let state = Arc::new(replay.finish()?);
        if let Some((path, bytes)) = planned.vectors {
            self.store.put(&path, bytes).await?;
        }

        let at = Moment::now(&self.store);
        let (written, base_stands) = match self.store.is_local() {
            true => (self.write_version(base.version, version, bytes).await, Ok(true)),
            false => {
                let path = names::commit(base.version);
                let base_stands = async { Ok::<_, StorageError>(self.store.head(&path).await?.is_some()) };
                futures_util::join!(self.write_version(base.version, version, bytes), base_stands)
            }
        };
        if !written? {
            return Err(CommitError::Conflict(self.refresh(base).await?));
        }
        let is_known = was_newest.is_some_and(|at| at.is_within(NEWEST_FOR, &self.store));
        if !(is_known && matches!(base_stands, Ok(true))) {
            match self.is_part(base.version, version).await {
                Ok(true) => {}
                Ok(false) => {
                    // Whoever comes back with a version as old as this must not take it for one of the log.
                    let stray = [names::commit(version)];
                    self.store.delete("it was written where the log had been removed", stray).await?;
                    return Err(CommitError::Conflict(self.load().await?));
                }
                Err(e) => return Err(CommitError::Unknown(e)),
            }
        }
        self.was_newest(version, at);
        Ok(Committed { state, first_id: planned.first_id })
    }

    /// What is deleted of files of several fragments that lose other rows now: their fragments share one deletion vector.
    async fn deleted_before(&self, base: &TableState, change: &Change) -> Result<Deletions> {
        let mut before = Deletions::new();
        for file in change::parted_files(base, change) {
            let deleted = deletions::of_file(&self.store, file).await?;
            before.extend(deleted.map(|deleted| (file.path().to_owned(), deleted)));
        }
        Ok(before)
    }

    /// Whether a version that was written is part of the log, and not behind one that a vacuum has removed: its name
    /// would have been free, and nobody would ever read it.
    async fn is_part(&self, base: u64, version: u64) -> Result<bool> {
        let listed = self.list_from(base).await?;
        let commit = |version| {
            let mut listed = listed.iter();
            listed.find(|file| LogFile::of(&file.path) == Some(LogFile::Commit(version)))
        };
        let checkpoints = whole_checkpoints(&listed);
        let own = commit(version).ok_or_else(|| self.gone(version))?;
        // The checkpoint of a later version is written after this one; one that has taken its place, an hour before.
        let is_older =
            |at: std::time::SystemTime| at.checked_add(LOG_YOUNG).is_some_and(|at| at < own.modified);
        if checkpoints.iter().any(|(later, at)| later.version > version && is_older(*at)) {
            return Ok(false);
        }
        // A checkpoint may stand in the place of the version before. Where there is one of a later version, it may be what the
        // version before went for, whenever that was: whether ours is part of what it holds is not known then.
        let is_later = checkpoints.keys().any(|checkpoint| checkpoint.version > version);
        let is_base = || checkpoints.keys().any(|checkpoint| checkpoint.version >= base);
        match commit(base).is_some() || !is_later && is_base() {
            true => Ok(true),
            false => Err(self.gone(base)),
        }
    }

    /// Writes version 0 if there is none; `false` when there is.
    pub(super) async fn write_first(&self, actions: &[Action]) -> Result<bool> {
        let path = names::commit(0);
        let bytes = Bytes::from(actions::serialize(0, actions)?);
        let created = self.store.create(&path, bytes.clone()).await;
        if matches!(created, Ok(true)) {
            return Ok(true);
        }
        match (self.store.get(&path, COMMIT_BYTES).await, created) {
            (Ok(Some(found)), Err(_)) if found == bytes => self.store.sync(&path).await.map(|()| true),
            (Ok(Some(found)), _) => Ok(found == bytes),
            (_, Err(e)) | (Err(e), _) => Err(e),
            (Ok(None), Ok(_)) => Err(StorageError::corrupt(path, "it exists and cannot be read")),
        }
    }

    /// Writes a version if it is not there; `false` when another one is, and these bytes never will be.
    ///
    /// Whose version it is, its bytes say, which hold an id that no other commit has.
    async fn write_version(
        &self,
        base: u64,
        version: u64,
        bytes: Bytes,
    ) -> std::result::Result<bool, CommitError> {
        let path = names::commit(version);
        let error = match self.store.create(&path, bytes.clone()).await {
            Ok(true) => return Ok(true),
            Ok(false) => StorageError::corrupt(&path, "it exists and cannot be read"),
            Err(e) => e,
        };
        let until = Instant::now() + RESOLVE_FOR;
        let mut delay = RESOLVE_DELAY;
        loop {
            match self.store.get(&path, COMMIT_BYTES).await {
                Ok(Some(found)) if found == bytes => return self.written(version, &path).await,
                Ok(Some(_)) => return Ok(false),
                // What a directory has not got after an error it will not get.
                Ok(None) if self.store.is_local() => return Err(CommitError::Storage(error)),
                Ok(None) => {
                    let nothing = actions::serialize(version, &[Action::CommitInfo(self.no_change(base))]);
                    let nothing = nothing.map_err(CommitError::Unknown)?;
                    if matches!(self.store.create(&path, nothing).await, Ok(true)) {
                        tracing::warn!(
                            table = self.store.url(),
                            version,
                            "a commit without changes keeps a lost one out"
                        );
                        return Ok(false);
                    }
                }
                Err(_) => {}
            }
            if Instant::now() >= until {
                return Err(CommitError::Unknown(error));
            }
            sleep(delay).await;
            delay = (delay * 2).min(std::time::Duration::from_secs(1));
        }
    }

    /// A version of ours is there, though its writing failed: it counts once it would outlive a crash.
    async fn written(&self, version: u64, path: &str) -> std::result::Result<bool, CommitError> {
        match self.store.sync(path).await {
            Ok(()) => Ok(true),
            Err(e) => {
                *lock(&self.unsynced) = Some(version);
                Err(CommitError::Unknown(e))
            }
        }
    }

    /// Syncs what could not be synced when it was written; until then the log is not followed, for what was read
    /// there could be gone after a crash.
    pub(super) async fn sync_unsynced(&self) -> Result<()> {
        let Some(version) = *lock(&self.unsynced) else { return Ok(()) };
        self.store.sync(&names::commit(version)).await?;
        *lock(&self.unsynced) = None;
        Ok(())
    }

    /// The one action of a version that changes nothing.
    fn no_change(&self, base: u64) -> CommitInfo {
        CommitInfo {
            timestamp: self.store.now_millis(),
            operation: "NO CHANGE",
            operation_parameters: BTreeMap::new(),
            engine_info: concat!("basalt/", env!("CARGO_PKG_VERSION")),
            read_version: Some(base),
            txn_id: self.store.new_id().to_string(),
        }
    }
}
