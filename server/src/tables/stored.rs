//! One durable table: its log, the versions that can be read, and what memory holds of them.

use std::{
    collections::{HashSet, VecDeque},
    sync::{
        Arc, Mutex, PoisonError, RwLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use basalt_core::{
    fragment::{Deleted, FragmentData},
    table::{Table, not_there},
};
use basalt_proto::v1::ErrorReason;
use basalt_storage::{FragmentEntry, TableLog, TableState};
use tokio::{sync::mpsc, time::Instant};

use super::{
    Durable, Shared, columns::other_columns, commit::Write, files::Files, follow::Followed,
    fragments::snapshot_of, load::expected_bytes, pins::Pins,
};
use crate::{limits, status::RequestError, told::Told};

/// See the module.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) table: Arc<Table>,
    pub(super) log: TableLog,
    /// It is another writer's.
    pub(super) attached: bool,
    /// The store whose catalog names it.
    pub(super) durable: Weak<Durable>,
    pub(super) shared: Arc<Shared>,
    /// The catalog names it: before, it is a draft, which whoever makes it knows alone.
    pub(super) named: AtomicBool,
    /// Writes that wait for a commit.
    pub(super) queue: mpsc::Sender<Write>,
    /// Held while the table goes to another version: across calls to the store, and never across one to a peer.
    pub(super) advancing: tokio::sync::Mutex<()>,
    pub(super) followed: Mutex<Followed>,
    /// The newest version that was acknowledged here. Whoever made it may have failed before this node went to it.
    pub(super) acknowledged: AtomicU64,
    /// Why it could not be followed, as far as the log has it.
    pub(super) told: Told,
    pub(super) files: Files,
    /// What retention hides is to be freed.
    pub(super) expires: AtomicBool,
    /// The rows of fragments of which it was found that they take as many bytes as one may: nothing is merged with them.
    pub(super) full: Mutex<HashSet<u64>>,
    states: RwLock<States>,
    /// Versions that this node has not seen, or has forgotten, made again from the log: the last used last.
    rebuilt: Mutex<VecDeque<Arc<TableState>>>,
    /// Versions that are kept for sets.
    pub(super) pins: Mutex<Pins>,
    /// Rows that the newest version has no longer, and since when.
    retired: Mutex<VecDeque<(Instant, Vec<u64>)>>,
}

/// The versions that can be read.
#[derive(Debug)]
struct States {
    newest: Arc<TableState>,
    /// The oldest first, each with when it was superseded.
    older: VecDeque<(Arc<TableState>, Instant)>,
}

/// Hears of the bytes that are read for a table on its way to a version.
pub(super) type Progress<'a> = &'a (dyn Fn(u64) + Sync);

/// Rows that this node has encoded itself: of an entry of the version to go to, and which of them are deleted.
pub(super) type Fresh = (u32, Arc<FragmentData>, Option<Arc<Deleted>>);

impl Stored {
    pub(super) fn new(
        table: Arc<Table>,
        log: TableLog,
        attached: bool,
        durable: Weak<Durable>,
        shared: Arc<Shared>,
        state: Arc<TableState>,
        queue: mpsc::Sender<Write>,
    ) -> Self {
        Self {
            table,
            log,
            attached,
            durable,
            shared,
            named: AtomicBool::new(true),
            queue,
            advancing: tokio::sync::Mutex::default(),
            followed: Mutex::default(),
            acknowledged: AtomicU64::new(0),
            told: Told::default(),
            files: Files::new(state.version()),
            expires: AtomicBool::new(true),
            full: Mutex::default(),
            states: RwLock::new(States { newest: state, older: VecDeque::new() }),
            rebuilt: Mutex::default(),
            pins: Mutex::default(),
            retired: Mutex::default(),
        }
    }

    /// The newest state that this node has.
    pub(super) fn state(&self) -> Arc<TableState> {
        Arc::clone(&self.states.read().unwrap_or_else(PoisonError::into_inner).newest)
    }

    /// The state of a version that a request names.
    pub(super) fn state_at(&self, version: Option<u64>) -> Result<Arc<TableState>, RequestError> {
        let states = self.states.read().unwrap_or_else(PoisonError::into_inner);
        let mut known = [&states.newest].into_iter().chain(states.older.iter().rev().map(|(state, _)| state));
        let found = known.find(|state| version.is_none_or(|version| state.version() == version)).cloned();
        let rebuilt = || {
            let rebuilt = self.rebuilt.lock().unwrap_or_else(PoisonError::into_inner);
            rebuilt.iter().find(|state| version == Some(state.version())).cloned()
        };
        let pinned = || version.and_then(|version| self.pinned_at(version));
        found.or_else(rebuilt).or_else(pinned).ok_or_else(|| {
            let newest = states.newest.version();
            // Here are not all that can be read: others are made again from the log, for as long as they are kept.
            if let Some(version) = version.filter(|version| *version < newest && !self.attached) {
                let keep = humantime::format_duration(self.shared.keep);
                let message = format!(
                    "version {version} of table {:?} cannot be read any longer: one can for {keep} after the next one \
                     (`keep_versions`), and the newest is {newest}",
                    self.table.name()
                );
                return RequestError::new(ErrorReason::VersionGone, message);
            }
            // Default: none is kept beside the newest.
            let oldest = states.older.front().map_or(newest, |(state, _)| state.version());
            let message = match version {
                Some(version) => not_there(self.table.name(), version, oldest, newest),
                None => format!("no version of table {:?} can be read", self.table.name()),
            };
            RequestError::new(ErrorReason::VersionGone, message)
        })
    }

    /// Makes a version again from the log that this node has not, but that is still kept: it has not seen it, because
    /// another node committed it and the next at once, or because it was not there then. One with other columns, which
    /// this table does not read, is the answer.
    pub(super) async fn rebuild(&self, version: u64) -> Result<Option<Arc<TableState>>, RequestError> {
        let newest = self.state();
        if version >= newest.version() || self.state_at(Some(version)).is_ok() {
            return Ok(None);
        }
        let state = match self.before(version) {
            Some(before) => self.log.at_from(&newest, &before, version).await?,
            None => self.log.at(&newest, version).await?,
        };
        let Some(state) = state else { return Ok(None) };
        if !state.has_same_columns(&newest) {
            return Ok((!self.attached).then_some(state));
        }
        let mut rebuilt = self.rebuilt.lock().unwrap_or_else(PoisonError::into_inner);
        rebuilt.push_back(state);
        if rebuilt.len() > limits::REBUILT_VERSIONS {
            rebuilt.pop_front();
        }
        Ok(None)
    }

    /// The last version before another one that this node has gone to.
    fn before(&self, version: u64) -> Option<Arc<TableState>> {
        let states = self.states.read().unwrap_or_else(PoisonError::into_inner);
        let mut older = states.older.iter().rev().map(|(state, _)| state);
        older.find(|state| state.version() < version).cloned()
    }

    /// Whether the catalog names it.
    pub(super) fn is_named(&self) -> bool {
        self.named.load(Ordering::Acquire)
    }

    /// Fails for the table of another writer.
    pub(super) fn check_writable(&self) -> Result<(), RequestError> {
        if self.attached {
            let message =
                format!("table {:?} is attached; its own writer alone writes to it", self.table.name());
            return Err(RequestError::new(ErrorReason::ReadOnly, message).at("table"));
        }
        Ok(())
    }

    /// Goes to the version that the table is taken in with. What is on disk is not waited for: whether there is such.
    pub(super) async fn begin(&self, progress: Progress<'_>) -> Result<bool, RequestError> {
        let state = self.state();
        let mine = self.mine(&state);
        let (now, late) = self.put_off(&state, mine).await;
        late.iter().for_each(|entry| progress(expected_bytes(entry)));
        self.warm(&state, &now, progress).await?;
        self.install(&state);
        Ok(!late.is_empty())
    }

    /// Whether this node holds a fragment by its place.
    fn holds(&self, entry: &FragmentEntry) -> bool {
        self.shared.peers().holds(self.table.id(), entry.id)
    }

    /// What this node holds of a version by its place.
    fn mine<'s>(&self, state: &'s TableState) -> Vec<&'s FragmentEntry> {
        state.fragments().iter().filter(|entry| self.holds(entry)).collect()
    }

    pub(super) fn install(&self, state: &TableState) {
        self.table.install(snapshot_of(state, Vec::new()));
    }

    /// Goes to a newer version. What this node holds of it by its place is read first, as far as there is memory for it;
    /// what is `fresh` is at hand.
    pub(super) async fn advance(
        &self,
        state: Arc<TableState>,
        fresh: &[Fresh],
        progress: Progress<'_>,
    ) -> Result<(), RequestError> {
        let before = self.state();
        // What is encoded by other columns is not taken, whatever it was read from.
        if !state.has_same_columns(&before) {
            return Err(other_columns(&self.table));
        }
        for (id, data, deleted) in fresh {
            if let Some(entry) = state.fragment(*id).filter(|entry| self.holds(entry)) {
                self.keep(&state, entry, data, deleted.as_ref());
            }
        }
        // What it has in common with the version before was read for that, as far as there was memory.
        let changes = state.fragments().since(before.fragments());
        let mine: Vec<_> = changes.came.iter().copied().filter(|entry| self.holds(entry)).collect();
        self.warm(&state, &mine, progress).await?;
        let gone: Vec<u64> = changes.went.iter().map(|entry| entry.source().rows).collect();
        if !gone.is_empty() {
            self.retired.lock().unwrap_or_else(PoisonError::into_inner).push_back((Instant::now(), gone));
        }
        self.install(&state);
        let mut states = self.states.write().unwrap_or_else(PoisonError::into_inner);
        let state = state.with_checkpoint_of(&states.newest);
        let before = std::mem::replace(&mut states.newest, state);
        if before.retention() != states.newest.retention() {
            self.shared.expire_now.notify_one();
        }
        if before.version() < states.newest.version() {
            states.older.push_back((before, Instant::now()));
            if states.older.len() > limits::KEPT_STATES {
                states.older.pop_front();
            }
        }
        Ok(())
    }

    /// Reads what this node holds by its place, now that the nodes are others than before; what it holds no longer goes
    /// first when memory is needed.
    pub(super) async fn place(&self) -> Result<(), RequestError> {
        let state = self.state();
        let (mine, others): (Vec<_>, Vec<_>) = state.fragments().iter().partition(|entry| self.holds(entry));
        self.cool(others);
        self.warm(&state, &mine, &|_| {}).await
    }

    /// Notes that a state has a checkpoint, though there may be newer ones by now: they need none so soon.
    pub(super) fn note_checkpoint(&self, state: &TableState) {
        let mut states = self.states.write().unwrap_or_else(PoisonError::into_inner);
        states.newest = Arc::clone(&states.newest).with_checkpoint_of(state);
    }

    /// Forgets the versions that were superseded longer ago than they are kept; memory, what only they have, much sooner.
    pub(super) fn forget_old(&self) {
        let mut states = self.states.write().unwrap_or_else(PoisonError::into_inner);
        while states.older.front().is_some_and(|(_, at)| at.elapsed() > self.shared.keep) {
            states.older.pop_front();
        }
        drop(states);
        // What was kept too long is looked for in the log again, which says so.
        self.rebuilt.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        let over = retired.partition_point(|(at, _)| at.elapsed() > limits::SNAPSHOT_AGE);
        let over: Vec<u64> = retired.drain(..over).flat_map(|(_, rows)| rows).collect();
        drop(retired);
        // Rows may have come back.
        if !over.is_empty() {
            let state = self.state();
            let here: HashSet<u64> = state.fragments().iter().map(|entry| entry.source().rows).collect();
            self.forget_rows(over.into_iter().filter(|rows| !here.contains(rows)));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tables::tests::{rows, with_table};

    #[tokio::test]
    async fn a_checkpoint_is_noted_whatever_is_committed_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let (state, table) = with_table(folder.path()).await;
        let write = async || {
            state.tables.write(rows(&table, &[1])).await.unwrap();
        };
        let stored = state.tables.list_stored().remove(0);
        while !stored.state().needs_checkpoint() {
            write().await;
        }
        let before = stored.state();
        // It is written while others write.
        write().await;
        let noted = stored.log.checkpoint(&before).await.unwrap();
        stored.note_checkpoint(&noted);
        assert_eq!(stored.state().version(), before.version() + 1);
        assert!(!stored.state().needs_checkpoint());
        write().await;
        assert!(!stored.state().needs_checkpoint());
        // Also for one that was made of a state from before.
        let made = stored.log.refresh(&before).await.unwrap();
        stored.advance(made, &[], &|_| {}).await.unwrap();
        assert!(before.needs_checkpoint() && !stored.state().needs_checkpoint());
    }
}
