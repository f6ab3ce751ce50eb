//! One table at rest: its log, the versions that can be read, and what memory holds of them.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, atomic::AtomicBool},
    time::{Duration, Instant},
};

use basalt_core::{
    fragment::{Fragment, FragmentData},
    table::{Snapshot, Table},
};
use basalt_proto::v1::ErrorReason;
use basalt_storage::{FragmentEntry, TableLog, TableState};
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
};

use super::{Shared, columns::other_columns, commit::Write, files::Files, follow::Followed, load};
use crate::{
    limits,
    memory::{Consumer, Reservation},
    status::Fault,
};

/// See the module.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) table: Arc<Table>,
    pub(super) log: TableLog,
    /// It is another writer's.
    pub(super) attached: bool,
    pub(super) shared: Arc<Shared>,
    /// Writes that wait for a commit.
    pub(super) queue: mpsc::Sender<Write>,
    /// Held while the table goes to another version: across calls to the store, and never across one to a peer.
    pub(super) advancing: tokio::sync::Mutex<()>,
    pub(super) followed: Mutex<Followed>,
    pub(super) files: Files,
    /// What retention hides is to be freed.
    pub(super) expires: AtomicBool,
    states: RwLock<States>,
    /// Fragments of other nodes, and of versions that the table does not keep, the last used last.
    guests: Mutex<VecDeque<Guest>>,
}

/// The versions that can be read.
#[derive(Debug)]
struct States {
    newest: Arc<TableState>,
    /// The oldest first, each with when it was superseded.
    older: VecDeque<(Arc<TableState>, Instant)>,
}

/// A fragment that was loaded for a request.
#[derive(Debug)]
struct Guest {
    /// Of its source.
    rows: u64,
    data: Arc<FragmentData>,
    _held: Reservation,
}

/// The rows of an entry of the log, where a snapshot holds them, whichever of them are deleted there.
fn same_rows(held: &Snapshot, entry: &FragmentEntry) -> Option<Arc<FragmentData>> {
    let fragment = held.fragment(entry.id)?;
    let same = fragment.source().is_some_and(|source| source.rows == entry.source().rows);
    same.then(|| Arc::clone(fragment.data()))
}

/// What happens to a table on its way to a version.
pub(super) type Progress<'a> = &'a (dyn Fn(&FragmentData) + Sync);

impl Stored {
    pub(super) fn new(
        table: Arc<Table>,
        log: TableLog,
        attached: bool,
        shared: Arc<Shared>,
        state: Arc<TableState>,
        queue: mpsc::Sender<Write>,
    ) -> Self {
        Self {
            table,
            log,
            attached,
            shared,
            queue,
            advancing: tokio::sync::Mutex::default(),
            followed: Mutex::default(),
            files: Files::new(state.version()),
            expires: AtomicBool::new(true),
            states: RwLock::new(States { newest: state, older: VecDeque::new() }),
            guests: Mutex::default(),
        }
    }

    /// The newest state that this node has.
    pub(super) fn state(&self) -> Arc<TableState> {
        Arc::clone(&self.states.read().unwrap_or_else(PoisonError::into_inner).newest)
    }

    /// The state of a version that a request names.
    pub(super) fn state_at(&self, version: Option<u64>) -> Result<Arc<TableState>, Fault> {
        let states = self.states.read().unwrap_or_else(PoisonError::into_inner);
        let mut known = [&states.newest].into_iter().chain(states.older.iter().rev().map(|(state, _)| state));
        let found = known.find(|state| version.is_none_or(|version| state.version() == version));
        found.cloned().ok_or_else(|| {
            let (table, newest) = (self.table.name(), states.newest.version());
            let message = format!("this version of table {table:?} cannot be read; version {newest} can");
            Fault::new(ErrorReason::VersionGone, message)
        })
    }

    /// Fails for the table of another writer.
    pub(super) fn check_writable(&self) -> Result<(), Fault> {
        if self.attached {
            let message =
                format!("table {:?} is attached; its own writer alone writes to it", self.table.name());
            return Err(Fault::new(ErrorReason::ReadOnly, message).at("table"));
        }
        Ok(())
    }

    /// Goes to a newer version: what is neither held nor among `fresh` is loaded first.
    pub(super) async fn advance(
        &self,
        state: Arc<TableState>,
        fresh: HashMap<u32, Fragment>,
        progress: Progress<'_>,
    ) -> Result<(), Fault> {
        let current = self.table.snapshot();
        // What is encoded by other columns is not taken, whatever it was read from.
        if !state.has_same_columns(&self.state()) {
            return Err(other_columns(&self.table));
        }
        let taken = |entry: &FragmentEntry| -> Option<Fragment> {
            if let Some(fragment) = fresh.get(&entry.id) {
                return Some(fragment.clone().with_source(entry.source()));
            }
            current.fragment(entry.id).filter(|held| held.source() == Some(entry.source())).cloned()
        };
        let mine = |entry: &&FragmentEntry| self.shared.peers().holds(self.table.id(), entry.id);
        let (mut fragments, mut missing) = (Vec::new(), Vec::new());
        for entry in state.fragments().iter().filter(mine) {
            match taken(entry) {
                Some(fragment) => fragments.push(fragment),
                None => missing.push(entry),
            }
        }
        let data_of = |entry: &FragmentEntry| same_rows(&current, entry);
        let to_read = missing.iter().filter(|entry| data_of(entry).is_none());
        let mut reservation = self.shared.memory.reserve(Consumer::Maintenance);
        reservation.set(to_read.map(|entry| load::expected_bytes(entry)).sum())?;
        let permits = Arc::new(Semaphore::new(limits::LOADS));
        let mut loads = JoinSet::new();
        for entry in missing {
            let (log, state, entry, data) =
                (self.log.clone(), Arc::clone(&state), entry.clone(), data_of(entry));
            let (cpu, permits) = (Arc::clone(&self.shared.cpu), Arc::clone(&permits));
            loads.spawn(async move {
                let _permit = permits.acquire_owned().await;
                let is_read = data.is_none();
                load::fragment(&log, &state, &entry, data, &cpu).await.map(|fragment| (fragment, is_read))
            });
        }
        while let Some(loaded) = loads.join_next().await {
            let (fragment, is_read) = loaded.map_err(|_| Fault::internal())??;
            if is_read {
                self.shared.metrics.fragment_loaded(fragment.bytes() as u64);
                progress(fragment.data());
            }
            fragments.push(fragment);
        }
        let retention = state.retention().cloned();
        self.table.install(Snapshot::new(state.version(), fragments).with_retention(retention));
        drop(reservation);
        self.shared.memory.count_tables(&self.shared.catalog);
        let mut states = self.states.write().unwrap_or_else(PoisonError::into_inner);
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

    /// Notes that the newest state has a checkpoint.
    pub(super) fn replace_state(&self, state: Arc<TableState>) {
        let mut states = self.states.write().unwrap_or_else(PoisonError::into_inner);
        if states.newest.version() == state.version() {
            states.newest = state;
        }
    }

    /// Some fragments of a version that can be read. What is not held is loaded, and stays as long as there is room.
    pub(super) async fn fragments_at(&self, version: u64, ids: &[u32]) -> Result<Snapshot, Fault> {
        let kept = self.table.snapshot_at(Some(version)).ok();
        let mut retention = kept.as_ref().and_then(|kept| kept.retention().cloned());
        let mut fragments = Vec::with_capacity(ids.len());
        let mut missing = Vec::new();
        for id in ids {
            match kept.as_ref().and_then(|kept| kept.fragment(*id)) {
                Some(fragment) => fragments.push(fragment.clone()),
                None => missing.push(*id),
            }
        }
        if !missing.is_empty() {
            let state = self.state_at(Some(version)).map_err(|e| e.at("version"))?;
            retention = state.retention().cloned();
            let newest = self.table.snapshot();
            for id in missing {
                let Some(entry) = state.fragment(id) else {
                    let message =
                        format!("version {version} of table {:?} has no fragment {id}", self.table.name());
                    return Err(Fault::protocol(message));
                };
                let data = match same_rows(&newest, entry).or_else(|| self.guest(entry)) {
                    Some(data) => data,
                    None => self.load_guest(&state, entry).await?,
                };
                fragments.push(load::fragment(&self.log, &state, entry, Some(data), &self.shared.cpu).await?);
            }
        }
        Ok(Snapshot::new(version, fragments).with_retention(retention))
    }

    fn guest(&self, entry: &FragmentEntry) -> Option<Arc<FragmentData>> {
        let mut guests = self.guests();
        let at = guests.iter().position(|guest| guest.rows == entry.source().rows)?;
        let guest = guests.remove(at)?;
        let data = Arc::clone(&guest.data);
        guests.push_back(guest);
        Some(data)
    }

    async fn load_guest(
        &self,
        state: &TableState,
        entry: &FragmentEntry,
    ) -> Result<Arc<FragmentData>, Fault> {
        let mut held = self.shared.memory.reserve(Consumer::Cache);
        self.make_room(&mut held, load::expected_bytes(entry))?;
        let data = load::read(&self.log, state, entry, &self.shared.cpu).await?;
        self.make_room(&mut held, data.bytes() as u64)?;
        self.shared.metrics.fragment_loaded(data.bytes() as u64);
        self.guests().push_back(Guest { rows: entry.source().rows, data: Arc::clone(&data), _held: held });
        Ok(data)
    }

    /// Reserves memory; guests that were not used for the longest leave for it.
    fn make_room(&self, held: &mut Reservation, bytes: u64) -> Result<(), Fault> {
        loop {
            match held.set(bytes) {
                Ok(()) => return Ok(()),
                Err(fault) => {
                    if self.guests().pop_front().is_none() {
                        return Err(fault);
                    }
                }
            }
        }
    }

    fn guests(&self) -> MutexGuard<'_, VecDeque<Guest>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long what has left the table can be read: of more versions than are kept, as long as the oldest of these.
    pub(super) fn keeps(&self) -> Duration {
        let states = self.states.read().unwrap_or_else(PoisonError::into_inner);
        match states.older.front() {
            Some((_, at)) if states.older.len() >= limits::KEPT_STATES => {
                self.shared.keep.min((at.elapsed() + limits::COMMIT_TIME).max(limits::LEAST_KEEP))
            }
            _ => self.shared.keep,
        }
    }

    /// Forgets the versions that were superseded longer ago than they are kept; memory, what only they hold of
    /// fragments, much sooner.
    pub(super) fn forget_old(&self) {
        let mut states = self.states.write().unwrap_or_else(PoisonError::into_inner);
        while states.older.front().is_some_and(|(_, at)| at.elapsed() > self.shared.keep) {
            states.older.pop_front();
        }
        let recent = states.older.iter().find(|(_, at)| at.elapsed() <= limits::SNAPSHOT_AGE);
        let first = recent.map_or(states.newest.version(), |(state, _)| state.version());
        drop(states);
        self.table.forget_before(first);
    }
}
