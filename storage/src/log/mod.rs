//! The log of a Delta table: its versions, each one file that is written if it is not there yet.
//!
//! After PROTOCOL.md of Delta Lake. A version is a file of actions in JSON; every so many of them a checkpoint in
//! Parquet holds what a replay up to there gives. What Basalt adds keeps to the protocol: the fragment of a file
//! stands in its `tags`, the next fragment's id and the ids of clients' writes are transactions (`txn`), which
//! checkpoints keep.

mod actions;
mod change;
mod checkpoint;
mod columns;
mod names;
mod pile;
mod protocol;
mod read_checkpoint;
mod same;
mod state;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use basalt_core::schema::Schema;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use actions::{Action, CommitInfo, Format};
pub(crate) use actions::{Descriptor, Metadata};
pub use change::{Change, Operation};
pub(crate) use names::{FOLDER, LogFile};
pub(crate) use same::EntryDigest;
use same::Looked;
use state::Replay;
pub use state::{DataFile, DoneRequest, FIRST_FOREIGN_FRAGMENT, FragmentEntry, Request, TableState};

use crate::{
    data::{self, digest::Seen},
    error::{CommitError, Result, StorageError},
    limits::{CHECKPOINT_PARTS, COMMIT_BYTES, CONCURRENT_REQUESTS, NEWEST_FOR, SMALL_BYTES},
    schema,
    store::Store,
};

/// The log of one table. A clone is the same log.
#[derive(Clone, Debug)]
pub struct TableLog {
    store: Store,
    /// A version, and a time at which it was the newest.
    newest: Arc<Mutex<Option<(u64, SystemTime)>>>,
    /// See [`check_same`](Self::check_same).
    looked: Arc<Mutex<Looked>>,
    /// How long what is no longer part of the table can still be read.
    keep: Duration,
    /// What was read of files that have no digests in the log.
    seen: Seen,
}

/// What a commit did.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The table's new state.
    pub state: Arc<TableState>,
    /// The id of the first fragment that was added; the others follow it, in the order of [`Change::add`].
    pub first_id: u32,
}

/// `_last_checkpoint`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LastCheckpoint {
    version: u64,
    size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parts: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size_in_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    num_of_add_files: Option<u64>,
}

impl TableLog {
    /// The log of the table in a folder; nothing is read yet.
    pub fn new(store: Store) -> Self {
        let (newest, looked, seen) = (Arc::default(), Arc::default(), Seen::default());
        Self { store, newest, looked, keep: Duration::from_secs(600), seen }
    }

    /// The same, with another time for which files that are no longer part of the table stay readable; ten
    /// minutes otherwise.
    #[must_use]
    pub fn keeping(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// Makes an empty table, at version 0.
    ///
    /// # Errors
    /// [`StorageError::Exists`] when there is one; [`StorageError::Invalid`] for a schema that Delta cannot hold.
    pub async fn create(
        store: Store,
        name: &str,
        schema: &Schema,
        properties: BTreeMap<String, String>,
    ) -> Result<(Self, Arc<TableState>)> {
        let now = now_millis();
        let metadata = Metadata {
            id: Uuid::new_v4().to_string(),
            name: Some(name.to_owned()),
            description: None,
            format: Format { provider: "parquet".into(), options: BTreeMap::new() },
            schema_string: schema::to_delta(schema)?,
            partition_columns: Vec::new(),
            created_time: Some(now),
            configuration: properties.into_iter().map(|(key, value)| (key, Some(value))).collect(),
        };
        let info = CommitInfo {
            timestamp: now,
            operation: "CREATE TABLE",
            operation_parameters: BTreeMap::new(),
            engine_info: concat!("basalt/", env!("CARGO_PKG_VERSION")),
            read_version: None,
            txn_id: Uuid::new_v4().to_string(),
        };
        let actions =
            vec![Action::CommitInfo(info), Action::Protocol(protocol::first()), Action::MetaData(metadata)];
        let log = Self::new(store);
        if !log.write_commit(0, &actions).await? {
            return Err(StorageError::Exists { path: log.store.url().to_owned() });
        }
        let mut replay = Replay::new(log.store.url(), log.keep_millis());
        replay.apply(0, actions)?;
        Ok((log, Arc::new(replay.finish()?)))
    }

    /// Where the table is.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// How long files that are no longer part of the table stay readable.
    pub fn keep(&self) -> Duration {
        self.keep
    }

    pub(crate) fn seen(&self) -> &Seen {
        &self.seen
    }

    pub(crate) fn keep_millis(&self) -> i64 {
        i64::try_from(self.keep.as_millis()).unwrap_or(i64::MAX)
    }

    /// Reads the newest state: the last checkpoint, and the versions behind it.
    ///
    /// # Errors
    /// [`StorageError::NoTable`]; [`StorageError::Unsupported`] for a table that needs more than this reader
    /// knows; [`StorageError::Corrupt`] for a log with holes or other faults.
    pub async fn load(&self) -> Result<Arc<TableState>> {
        let at = SystemTime::now();
        let (replay, from) = match self.load_checkpoint().await? {
            Some(found) => found,
            None => (Replay::new(self.store.url(), self.keep_millis()), 0),
        };
        let listed = self.store.list(FOLDER, from.checked_sub(1).map(names::commit).as_deref()).await?;
        let commits = listed.iter().filter_map(|file| match LogFile::of(&file.path)? {
            LogFile::Commit(version) if version >= from => Some(version),
            _ => None,
        });
        let commits: Vec<u64> = commits.collect();
        if commits.is_empty() && from == 0 {
            return Err(StorageError::NoTable { path: self.store.url().to_owned() });
        }
        for (found, expected) in commits.iter().zip(from..) {
            if *found != expected {
                return Err(StorageError::corrupt(
                    self.store.url(),
                    format!("version {expected} is missing"),
                ));
            }
        }
        let mut replay = replay;
        if commits.is_empty()
            && let Some(bytes) = self.store.get(&names::commit(replay.version()), COMMIT_BYTES).await?
        {
            replay.set_entry(EntryDigest::of(&bytes));
        }
        let state = self.replay(replay, commits).await?;
        self.was_newest(state.version, at);
        Ok(state)
    }

    async fn replay(&self, mut replay: Replay, versions: Vec<u64>) -> Result<Arc<TableState>> {
        let read = async |version: u64| {
            let path = names::commit(version);
            let bytes = self.store.get_known(&path, COMMIT_BYTES).await?;
            let actions = actions::parse(&format!("{}/{path}", self.store.url()), &bytes)?;
            Ok::<_, StorageError>((version, EntryDigest::of(&bytes), actions))
        };
        let mut commits = stream::iter(versions).map(read).buffered(CONCURRENT_REQUESTS);
        while let Some((version, digest, actions)) = commits.try_next().await? {
            replay.apply(version, actions)?;
            replay.set_entry(digest);
        }
        drop(commits);
        self.finish(replay).await
    }

    /// Counts the rows of files for which the log does not say it.
    async fn finish(&self, mut replay: Replay) -> Result<Arc<TableState>> {
        let count = async |file: Arc<DataFile>| {
            let rows = data::count_rows(&self.store, &self.seen, &file).await?;
            Ok::<_, StorageError>((file, rows))
        };
        let uncounted = replay.uncounted();
        let counts = stream::iter(uncounted).map(count).buffer_unordered(CONCURRENT_REQUESTS);
        for (file, rows) in counts.try_collect::<Vec<_>>().await? {
            replay.count(file.path(), rows);
        }
        let state = replay.finish()?;
        self.seen.retain(|path| state.files.contains_key(path));
        Ok(Arc::new(state))
    }

    /// Follows the log from a state on: the same state when there is no newer version.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub async fn refresh(&self, state: &Arc<TableState>) -> Result<Arc<TableState>> {
        let at = SystemTime::now();
        let mut replay = None;
        let mut version = state.version;
        while let Some(next) = version.checked_add(1) {
            let path = names::commit(next);
            let Some(bytes) = self.store.get(&path, COMMIT_BYTES).await? else { break };
            let actions = actions::parse(&format!("{}/{path}", self.store.url()), &bytes)?;
            let replay =
                replay.get_or_insert_with(|| Replay::of(state, self.store.url(), self.keep_millis()));
            replay.apply(next, actions)?;
            replay.set_entry(EntryDigest::of(&bytes));
            version = next;
        }
        let newest = match replay {
            Some(replay) => self.finish(replay).await?,
            None if self.was_newest_lately(version) => Arc::clone(state),
            None if self.last_checkpoint().await?.is_some_and(|last| last.version > version) => {
                return self.load().await;
            }
            None => Arc::clone(state),
        };
        self.was_newest(newest.version, at);
        Ok(newest)
    }

    fn was_newest_lately(&self, version: u64) -> bool {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.is_some_and(|(newest, at)| {
            newest == version && at.elapsed().is_ok_and(|passed| passed < NEWEST_FOR)
        })
    }

    fn looked(&self) -> MutexGuard<'_, Looked> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn was_newest(&self, version: u64, at: SystemTime) {
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Some((version, at));
    }

    async fn last_checkpoint(&self) -> Result<Option<LastCheckpoint>> {
        let bytes = self.store.get(names::LAST_CHECKPOINT, SMALL_BYTES).await?;
        // It is a hint: what is no such hint is as good as none.
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// The newest checkpoint that is whole, and the version behind it.
    async fn load_checkpoint(&self) -> Result<Option<(Replay, u64)>> {
        let hint = self.last_checkpoint().await?;
        let after = hint.as_ref().and_then(|hint| hint.version.checked_sub(1)).map(names::commit);
        let mut newest = self.newest_checkpoint(after.as_deref()).await?;
        if newest.is_none() && after.is_some() {
            newest = self.newest_checkpoint(None).await?;
        }
        let Some((version, parts)) = newest else { return Ok(None) };
        let mut actions = Vec::new();
        for part in 1..=parts {
            let path = match parts {
                1 => names::checkpoint(version),
                _ => names::checkpoint_part(version, part, parts),
            };
            actions.extend(read_checkpoint::read(&self.store, &path).await?);
        }
        let mut replay = Replay::new(self.store.url(), self.keep_millis());
        replay.apply(version, actions)?;
        replay.set_checkpoint(version);
        Ok(Some((replay, version + 1)))
    }

    /// The version of the newest checkpoint of which no part is missing, and its number of parts.
    async fn newest_checkpoint(&self, after: Option<&str>) -> Result<Option<(u64, u64)>> {
        let mut found: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for file in self.store.list(FOLDER, after).await? {
            if let Some(LogFile::Checkpoint { version, parts, .. }) = LogFile::of(&file.path)
                && parts <= CHECKPOINT_PARTS
                && version < u64::MAX
            {
                *found.entry((version, parts)).or_default() += 1;
            }
        }
        Ok(found.into_iter().rev().find(|((_, parts), found)| parts == found).map(|(key, _)| key))
    }

    /// Makes the version behind `base`. One attempt: when another commit was first, the newer state comes back, and
    /// the caller decides whether the change still makes sense there; its files need not be written again.
    ///
    /// # Errors
    /// [`CommitError`]; [`StorageError::Corrupt`] also when the change names fragments that `base` does not have.
    pub async fn commit(
        &self,
        base: &Arc<TableState>,
        change: &Change,
    ) -> std::result::Result<Committed, CommitError> {
        if !self.was_newest_lately(base.version) {
            let newer = self.refresh(base).await?;
            if newer.version > base.version {
                return Err(CommitError::Conflict(newer));
            }
        }
        let planned = change::plan(base, change, now_millis())?;
        if let Some((path, bytes)) = planned.vectors {
            self.store.put(&path, bytes).await?;
        }
        let (version, at) = (base.version + 1, SystemTime::now());
        if !self.write_commit(version, &planned.actions).await? {
            return Err(CommitError::Conflict(self.refresh(base).await?));
        }
        let mut replay = Replay::of(base, self.store.url(), self.keep_millis());
        replay.apply(version, planned.actions)?;
        self.was_newest(version, at);
        Ok(Committed { state: Arc::new(replay.finish()?), first_id: planned.first_id })
    }

    /// Writes a version if it is not there; `false` when another writer's is.
    ///
    /// A store may have written it and lost the answer, and a client that asks again is told that it exists: so
    /// whose version it is, its bytes say, which hold an id that no other commit has.
    async fn write_commit(&self, version: u64, actions: &[Action]) -> Result<bool> {
        let path = names::commit(version);
        let bytes = bytes::Bytes::from(actions::serialize(actions)?);
        let created = self.store.create(&path, bytes.clone()).await;
        if matches!(created, Ok(true)) {
            return Ok(true);
        }
        match (self.store.get(&path, COMMIT_BYTES).await, created) {
            (Ok(Some(found)), _) => Ok(found == bytes),
            (_, Err(e)) | (Err(e), _) => Err(e),
            (Ok(None), Ok(_)) => Err(StorageError::corrupt(path, "it exists and cannot be read")),
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
