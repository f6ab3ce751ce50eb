//! The log of a Delta table: its versions, each one file that is written if it is not there yet.
//!
//! After PROTOCOL.md of Delta Lake. A version is a file of actions in JSON; every so many of them a checkpoint in
//! Parquet holds what a replay up to there gives. What Basalt adds keeps to the protocol: the fragment of a file
//! stands in its `tags`, the next fragment's id and the ids of clients' writes are transactions (`txn`), which
//! checkpoints keep.

mod actions;
mod change;
mod checkpoint;
mod checkpoints;
mod columns;
mod commit;
mod file;
mod fragments;
mod json_checkpoint;
pub(crate) mod names;
mod protocol;
mod read_checkpoint;
mod readable;
mod replay;
mod retained;
mod same;
mod state;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use basalt_core::schema::Schema;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use actions::{Action, CommitInfo, Format};
pub(crate) use actions::{Descriptor, Metadata, Protocol};
pub use change::{Change, Operation};
use checkpoints::Start;
pub(crate) use checkpoints::whole_checkpoints;
pub use file::{DataFile, FIRST_FOREIGN_FRAGMENT, FragmentEntry};
pub use fragments::{Changes, Fragments};
pub(crate) use names::{FOLDER, LogFile};
pub(crate) use protocol::features;
pub use readable::ReadableVersion;
use replay::Replay;
pub(crate) use same::EntryDigest;
use same::Looked;
pub use state::{DoneRequest, Request, RowsDigest, TableState};

use crate::{
    data::{self, digest::Seen},
    environment::{age, millis},
    error::{Result, StorageError},
    limits::{COMMIT_BYTES, CONCURRENT_REQUESTS, LOG_YOUNG, LOOKS, NEWEST_FOR, SMALL_BYTES},
    schema,
    store::{Listed, Store},
};

/// A moment, by the clock of the machine and by one that nobody sets. The first goes on while a machine sleeps, the second
/// never goes back.
#[derive(Clone, Copy, Debug)]
struct Moment(SystemTime, Instant);

impl Moment {
    fn now(store: &Store) -> Self {
        Self(store.environment().wall(), Instant::now())
    }

    /// Whether less than `time` has passed, by either clock.
    fn is_within(self, time: Duration, store: &Store) -> bool {
        age(&**store.environment(), self.0).is_some_and(|passed| passed < time) && self.1.elapsed() < time
    }
}

/// The log of one table. A clone is the same log.
#[derive(Clone, Debug)]
pub struct TableLog {
    store: Store,
    /// A version, and a time at which it was the newest.
    newest: Arc<Mutex<Option<(u64, Moment)>>>,
    /// A version that was written and may not outlive a crash: its folder could not be synced.
    unsynced: Arc<Mutex<Option<u64>>>,
    /// See [`check_same`](Self::check_same).
    looked: Arc<Mutex<Looked>>,
    /// How long what is no longer part of the table can still be read.
    keep: Duration,
    /// What was read of files that have no digests in the log.
    seen: Seen,
    /// What the last vacuum has found of pinned versions.
    pub(crate) pinned_states: Arc<Mutex<BTreeMap<u64, Arc<TableState>>>>,
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
        let (newest, unsynced, looked, seen) =
            (Arc::default(), Arc::default(), Arc::default(), Seen::default());
        let pinned_states = Arc::default();
        Self { store, newest, unsynced, looked, keep: Duration::from_secs(600), seen, pinned_states }
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
        let now = store.now_millis();
        let metadata = Metadata {
            id: store.new_id().to_string(),
            name: Some(name.to_owned()),
            description: None,
            format: Format { provider: "parquet".into(), options: BTreeMap::new() },
            schema_string: Some(schema::to_delta(schema)?),
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
            txn_id: store.new_id().to_string(),
        };
        let actions =
            vec![Action::CommitInfo(info), Action::Protocol(protocol::first()), Action::MetaData(metadata)];
        let log = Self::new(store);
        if !log.write_first(&actions).await? {
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
        // Default: for good.
        i64::try_from(self.keep.as_millis()).unwrap_or(i64::MAX)
    }

    /// Reads the newest state: the last checkpoint, and the versions behind it.
    ///
    /// # Errors
    /// [`StorageError::NoTable`]; [`StorageError::Unsupported`] for a table that needs more than this reader
    /// knows; [`StorageError::Corrupt`] for a log with holes or other errors.
    pub async fn load(&self) -> Result<Arc<TableState>> {
        looked_again(|| self.load_once()).await
    }

    async fn load_once(&self) -> Result<Arc<TableState>> {
        let at = Moment::now(&self.store);
        let hint = self.last_checkpoint().await?;
        let Start { mut replay, from, lost } = self.load_checkpoint(hint.as_ref()).await?;
        let listed = self.store.list(FOLDER, from.checked_sub(1).map(names::commit).as_deref()).await?;
        let commits = listed.iter().filter_map(|file| match LogFile::of(&file.path)? {
            LogFile::Commit(version) if version >= from => Some(version),
            _ => None,
        });
        let commits: Vec<u64> = commits.collect();
        if let Some(lost) = lost {
            lost.check_replaced(from, &commits)?;
        }
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
        if commits.is_empty()
            && let Some(bytes) = self.store.get(&names::commit(replay.version()), COMMIT_BYTES).await?
        {
            replay.set_entry(EntryDigest::of(&bytes));
        }
        let state = self.replay(replay, commits).await?;
        // The hint comes after the checkpoint that it names, which comes after that version.
        if let Some(last) = hint.filter(|last| last.version > state.version) {
            let path = format!("{}/{}", self.store.url(), names::LAST_CHECKPOINT);
            let (last, end) = (last.version, state.version);
            let why = format!(
                "it names a checkpoint of version {last}, and the log ends with version {end}: its newest entries are \
                 gone. Put them back; or remove this file, if the table shall go on from version {end}"
            );
            return Err(StorageError::corrupt(path, why));
        }
        Ok(self.newest(state, at))
    }

    async fn replay(&self, mut replay: Replay, versions: Vec<u64>) -> Result<TableState> {
        let read = async |version: u64| {
            let path = names::commit(version);
            let bytes = self.store.get_known(&path, COMMIT_BYTES).await?;
            let actions = self.actions_of(version, &bytes).await?;
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
    async fn finish(&self, mut replay: Replay) -> Result<TableState> {
        // What the log itself lacks is not told as the lack of a file.
        replay.in_force()?;
        let count = async |file: Arc<DataFile>| {
            let rows = data::count_rows(&self.store, &self.seen, &file).await?;
            Ok::<_, StorageError>((file, rows))
        };
        let uncounted = replay.uncounted();
        let counts = stream::iter(uncounted).map(count).buffer_unordered(CONCURRENT_REQUESTS);
        for (file, rows) in counts.try_collect::<Vec<_>>().await? {
            replay.count(file.path(), rows);
        }
        replay.finish()
    }

    /// Takes a state as the newest; what was read of files that it does not have is forgotten.
    fn newest(&self, state: TableState, at: Moment) -> Arc<TableState> {
        self.seen.retain(|path| state.files.contains_key(path));
        self.was_newest(state.version, at);
        Arc::new(state)
    }

    /// Follows the log from a state on: the same state when there is no newer version.
    ///
    /// # Errors
    /// As [`load`](Self::load); [`StorageError::Corrupt`] when the state's own version is gone from the log.
    pub async fn refresh(&self, state: &Arc<TableState>) -> Result<Arc<TableState>> {
        self.sync_unsynced().await?;
        let followed = self.follow(state).await;
        if followed.is_err() {
            // The next commit looks before it writes.
            *lock(&self.newest) = None;
        }
        if matches!(followed, Err(StorageError::Unsupported { .. }))
            && let Some(loaded) = self.load_behind(state.version).await
        {
            return Ok(loaded);
        }
        followed
    }

    /// The newest state, where a checkpoint behind a version tells it: what stands between the two may be of a protocol that
    /// no reader here knows, and that the table no longer has.
    async fn load_behind(&self, version: u64) -> Option<Arc<TableState>> {
        let listed = self.list_from(version).await.ok()?;
        let newest = whole_checkpoints(&listed).into_keys().next_back()?;
        if newest.version <= version {
            return None;
        }
        self.load().await.ok().filter(|loaded| loaded.version > version)
    }

    async fn follow(&self, state: &Arc<TableState>) -> Result<Arc<TableState>> {
        let at = Moment::now(&self.store);
        let (unbroken, first) =
            futures_util::join!(self.is_unbroken_from(state.version), self.read_next(state.version));
        if !unbroken? {
            let loaded = self.load().await?;
            if loaded.version < state.version {
                return Err(self.gone(state.version));
            }
            return Ok(if loaded.version > state.version { loaded } else { Arc::clone(state) });
        }
        let mut next = first?;
        let mut replay = None;
        let mut version = state.version;
        while let Some((actions, digest)) = next {
            version += 1;
            let replay =
                replay.get_or_insert_with(|| Replay::of(state, self.store.url(), self.keep_millis()));
            replay.apply(version, actions)?;
            replay.set_entry(digest);
            next = self.read_next(version).await?;
        }
        match replay {
            Some(replay) => Ok(self.newest(self.finish(replay).await?, at)),
            None => {
                self.was_newest(state.version, at);
                Ok(Arc::clone(state))
            }
        }
    }

    /// The actions of the version behind one; `None` when it has no file.
    async fn read_next(&self, version: u64) -> Result<Option<(Vec<Action>, EntryDigest)>> {
        let Some(next) = version.checked_add(1) else { return Ok(None) };
        let path = names::commit(next);
        let Some(bytes) = self.store.get(&path, COMMIT_BYTES).await? else { return Ok(None) };
        let actions = self.actions_of(next, &bytes).await?;
        Ok(Some((actions, EntryDigest::of(&bytes))))
    }

    /// The actions of a version. What it removes leaves the table with it, whenever its writer says that it did: as long as
    /// the version before it is retained, so are the files of that.
    async fn actions_of(&self, version: u64, bytes: &[u8]) -> Result<Vec<Action>> {
        let path = names::commit(version);
        let mut actions = actions::parse(&format!("{}/{path}", self.store.url()), version, bytes)?;
        if !actions.iter().any(|action| matches!(action, Action::Remove(_))) {
            return Ok(actions);
        }
        let (at, _) = self.committed(&path, bytes).await?;
        for action in &mut actions {
            if let Action::Remove(remove) = action {
                remove.deletion_timestamp = remove.deletion_timestamp.max(at);
            }
        }
        Ok(actions)
    }

    /// When a commit was made, in milliseconds since 1970, and what it did. A writer that does not say the time has written the
    /// file at it.
    async fn committed(&self, path: &str, bytes: &[u8]) -> Result<(Option<i64>, Option<String>)> {
        let (said, operation) = actions::said(bytes);
        let at = match said {
            Some(at) => Some(at),
            None => self.store.head(path).await?.map(|file| millis(file.modified)),
        };
        Ok((at, operation))
    }

    fn looked(&self) -> MutexGuard<'_, Looked> {
        lock(&self.looked)
    }

    /// Whether every version behind one still has its file: then the first that has none was never made. A vacuum
    /// removes files of the log, an hour after they were written at the soonest, once a checkpoint has taken their place;
    /// from then on that there is no file says nothing. The log itself tells, not `_last_checkpoint`, which may be older
    /// than what was removed.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`] when neither the version nor anything behind it is there.
    async fn is_unbroken_from(&self, version: u64) -> Result<bool> {
        let own = self.store.head(&names::commit(version)).await?;
        let is_young =
            |file: Listed| file.seen.duration_since(file.modified).is_ok_and(|age| age < LOG_YOUNG);
        let is_there = own.is_some();
        if own.is_some_and(is_young) || is_there && self.newest_at(version).is_some() {
            return Ok(true);
        }
        let listed = self.list_from(version).await?;
        match whole_checkpoints(&listed).into_keys().next_back() {
            Some(newest) if newest.version > version => Ok(false),
            Some(newest) if newest.version == version => Ok(true),
            _ if listed.iter().any(|file| LogFile::of(&file.path) == Some(LogFile::Commit(version))) => {
                Ok(true)
            }
            _ => Err(self.gone(version)),
        }
    }

    /// The error of a log that has lost a version that was part of it.
    fn gone(&self, version: u64) -> StorageError {
        let path = format!("{}/{}", self.store.url(), names::commit(version));
        StorageError::corrupt(
            path,
            "this version was read before, and is gone: the log was removed or replaced",
        )
    }

    /// The files of the log from a version's on.
    async fn list_from(&self, version: u64) -> Result<Vec<Listed>> {
        self.store.list(FOLDER, version.checked_sub(1).map(names::commit).as_deref()).await
    }

    /// When a version was the newest, if that is not long ago.
    fn newest_at(&self, version: u64) -> Option<Moment> {
        let newest = *lock(&self.newest);
        newest
            .filter(|(newest, at)| *newest == version && at.is_within(NEWEST_FOR, &self.store))
            .map(|(_, at)| at)
    }

    fn was_newest(&self, version: u64, at: Moment) {
        *lock(&self.newest) = Some((version, at));
    }

    async fn last_checkpoint(&self) -> Result<Option<LastCheckpoint>> {
        // It is a hint: what is no such hint, or longer than one, is as good as none.
        let bytes = match self.store.get(names::LAST_CHECKPOINT, SMALL_BYTES).await {
            Err(StorageError::Limit { .. }) => return Ok(None),
            read => read?,
        };
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }
}

/// Looks again where a log seems to be damaged. Others commit and clean up meanwhile: a folder that is listed as files come may
/// show a version and not the one before it, and what it shows may be gone when it is read. What is damaged stays so.
async fn looked_again<T, F: Future<Output = Result<T>>>(look: impl Fn() -> F) -> Result<T> {
    for _ in 1..LOOKS {
        match look().await {
            Err(StorageError::Corrupt { .. } | StorageError::Missing { .. }) => {}
            seen => return seen,
        }
    }
    look().await
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
