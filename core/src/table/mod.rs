//! Tables: versions of fragments, appended to by writers and read through snapshots.

mod appender;
mod catalog;
mod merge;
mod retention;

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

pub use appender::{Appender, Commit};
pub use catalog::Catalog;
pub use retention::{Cutoff, Retention};

use crate::{
    error::{Error, ErrorKind, Result},
    fragment::{Fragment, FragmentData},
    limits::KEPT_VERSIONS,
    schema::Schema,
    similar,
};

/// The state of a table at one version.
#[derive(Clone, Debug)]
pub struct Snapshot {
    version: u64,
    fragments: Arc<[Fragment]>,
    rows: u64,
    retention: Option<Arc<Retention>>,
    cutoff: Option<Cutoff>,
}

impl Snapshot {
    /// The fragments of a version.
    pub fn new(version: u64, mut fragments: Vec<Fragment>) -> Self {
        fragments.sort_unstable_by_key(Fragment::id);
        let rows = fragments.iter().map(|f| f.live_rows() as u64).sum();
        Self { version, fragments: fragments.into(), rows, retention: None, cutoff: None }
    }

    /// The same, with the retention that the table has at this version.
    #[must_use]
    pub fn with_retention(self, retention: Option<Arc<Retention>>) -> Self {
        Self { retention, ..self }
    }

    /// The same, from which queries read no row that a cut-off hides.
    #[must_use]
    pub fn with_cutoff(self, cutoff: Option<Cutoff>) -> Self {
        Self { cutoff, ..self }
    }

    /// As who asks at a time, in microseconds since 1970, sees it: rows that are older than they are kept are hidden.
    #[must_use]
    pub fn seen_at(self: Arc<Self>, now: i64) -> Arc<Self> {
        match self.retention.as_ref().map(|retention| retention.cutoff(now)) {
            Some(cutoff) => Arc::new(Self::clone(&self).with_cutoff(Some(cutoff))),
            None => self,
        }
    }

    /// The version: one more with each commit.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The fragments, by id.
    pub fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    /// The fragment with an id.
    pub fn fragment(&self, id: u32) -> Option<&Fragment> {
        self.fragments.binary_search_by_key(&id, Fragment::id).ok().map(|at| &self.fragments[at])
    }

    /// For how long rows are part of the table; `None`: for good.
    pub fn retention(&self) -> Option<&Arc<Retention>> {
        self.retention.as_ref()
    }

    /// What hides rows from queries.
    pub fn cutoff(&self) -> Option<Cutoff> {
        self.cutoff
    }

    /// Rows in all; deleted ones are not counted, hidden ones are.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes held in all.
    pub fn bytes(&self) -> usize {
        self.fragments.iter().map(Fragment::bytes).sum()
    }
}

/// What a commit changes of the snapshot that it was made from.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// The version that it was made from, where it is right for no other.
    pub at: Option<u64>,
    /// Another retention.
    pub retention: Option<Option<Arc<Retention>>>,
    /// The retention for which `was` goes: it is still the table's.
    pub expires: Option<Arc<Retention>>,
    /// Fragments that it takes away or replaces, as they were.
    pub was: Vec<Fragment>,
    /// What they are from now on, under the same ids; those of `was` that are missing here are gone.
    pub is: Vec<Fragment>,
    /// New fragments.
    pub add: Vec<Arc<FragmentData>>,
}

impl Change {
    /// Whether all that it replaces is in a snapshot as it was.
    fn fits(&self, snapshot: &Snapshot) -> bool {
        self.at.is_none_or(|at| at == snapshot.version)
            && (self.expires.is_none() || self.expires == snapshot.retention)
            && self.was.iter().all(|was| snapshot.fragment(was.id()).is_some_and(|is| is.is_same(was)))
    }
}

/// A table: its schema, its newest snapshot, and some older ones.
#[derive(Debug)]
pub struct Table {
    name: String,
    id: u64,
    schema: Arc<Schema>,
    versions: RwLock<Versions>,
    /// Held while a commit makes the next snapshot; the id of the next fragment.
    commit: Mutex<u32>,
    dropped: AtomicBool,
    /// Columns of which it is known whether their values are keys of rows at a version.
    keys: Mutex<(u64, Vec<(usize, bool)>)>,
}

#[derive(Debug)]
struct Versions {
    newest: Arc<Snapshot>,
    /// Oldest first.
    older: VecDeque<Arc<Snapshot>>,
    /// Those that stay, however old they are, and how often each was asked for.
    pinned: BTreeMap<u64, usize>,
}

impl Versions {
    /// Forgets the oldest of too many, as far as they are not pinned.
    fn cut(&mut self) {
        let mut many = self.older.len().saturating_sub(KEPT_VERSIONS + self.pinned_older());
        let Self { older, pinned, .. } = self;
        older.retain(|snapshot| {
            let goes = many > 0 && !pinned.contains_key(&snapshot.version);
            many -= usize::from(goes);
            !goes
        });
    }

    fn pinned_older(&self) -> usize {
        self.older.iter().filter(|snapshot| self.pinned.contains_key(&snapshot.version)).count()
    }
}

impl Table {
    /// A table without rows. The id is its own: rows' addresses name it, so that those of a table that is gone
    /// are never taken for those of another with its name.
    pub fn new(name: &str, id: u64, schema: Schema, version: u64) -> Self {
        let newest = Arc::new(Snapshot::new(version, Vec::new()));
        Self {
            name: name.to_owned(),
            id,
            schema: Arc::new(schema),
            versions: RwLock::new(Versions { newest, older: VecDeque::new(), pinned: BTreeMap::new() }),
            commit: Mutex::new(0),
            dropped: AtomicBool::new(false),
            keys: Mutex::default(),
        }
    }

    /// Whether it is known that no value of a column stands twice in a version.
    pub fn is_key(&self, column: usize, version: u64) -> Option<bool> {
        let keys = lock(&self.keys);
        let known = keys.1.iter().find(|(known, _)| keys.0 == version && *known == column);
        known.map(|(_, is_key)| *is_key)
    }

    /// Remembers whether no value of a column stands twice in a version, until there is a newer one.
    pub fn found_key(&self, column: usize, version: u64, is_key: bool) {
        let mut keys = lock(&self.keys);
        if keys.0 < version {
            *keys = (version, Vec::new());
        }
        if keys.0 == version && keys.1.iter().all(|(known, _)| *known != column) {
            keys.1.push((column, is_key));
        }
    }

    /// Its id.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its columns.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The newest version.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.read().newest)
    }

    /// The versions that can be read, the oldest first.
    pub fn snapshots(&self) -> Vec<Arc<Snapshot>> {
        let versions = self.read();
        versions.older.iter().chain([&versions.newest]).cloned().collect()
    }

    /// The snapshot of a version that a request names; `None` names the newest.
    ///
    /// # Errors
    /// [`ErrorKind::VersionGone`] when it is not there: any longer, or yet.
    pub fn snapshot_at(&self, version: Option<u64>) -> Result<Arc<Snapshot>> {
        let versions = self.read();
        let Some(version) = version else { return Ok(Arc::clone(&versions.newest)) };
        let mut kept = versions.older.iter().chain([&versions.newest]);
        let found = kept.find(|snapshot| snapshot.version == version).cloned();
        found.ok_or_else(|| {
            let newest = versions.newest.version;
            // Default: none is kept beside the newest.
            let oldest = versions.older.front().map_or(newest, |snapshot| snapshot.version);
            Error::new(ErrorKind::VersionGone, not_there(&self.name, version, oldest, newest))
        })
    }

    /// The same as who asks at a time sees it; see [`Snapshot::seen_at`].
    ///
    /// # Errors
    /// Those of [`Table::snapshot_at`].
    pub fn seen_at(&self, version: Option<u64>, now: i64) -> Result<Arc<Snapshot>> {
        self.snapshot_at(version).map(|snapshot| snapshot.seen_at(now))
    }

    /// That a request which names a version means that of a snapshot.
    pub(crate) fn check_version(&self, snapshot: &Snapshot, version: Option<u64>) -> Result<()> {
        match version {
            Some(version) if version != snapshot.version => Err(self.gone(version, snapshot.version)),
            _ => Ok(()),
        }
    }

    fn gone(&self, version: u64, read: u64) -> Error {
        let message =
            format!("version {version} of table {:?} cannot be read; version {read} can", self.name);
        Error::new(ErrorKind::VersionGone, message)
    }

    /// Makes a snapshot that was committed elsewhere the newest, unless there is a newer one. One of the same
    /// version takes the other's place: it may hold other fragments.
    pub fn install(&self, snapshot: Snapshot) {
        let mut versions = self.versions.write().unwrap_or_else(PoisonError::into_inner);
        if snapshot.version < versions.newest.version {
            return;
        }
        let before = std::mem::replace(&mut versions.newest, Arc::new(snapshot));
        if before.version < versions.newest.version {
            versions.older.push_back(before);
            versions.cut();
        }
    }

    /// Forgets the versions before one that nobody needs: those that are pinned or read stay, and the newest.
    pub fn forget_before(&self, version: u64) {
        let mut versions = self.versions.write().unwrap_or_else(PoisonError::into_inner);
        let Versions { older, pinned, .. } = &mut *versions;
        older.retain(|snapshot| {
            snapshot.version >= version || pinned.contains_key(&snapshot.version) || is_read(snapshot)
        });
    }

    /// Keeps a version, however old, until it is unpinned as often as it was pinned; whether it is there.
    ///
    /// # Errors
    /// How many versions are pinned, where that is `most` already.
    pub fn pin(&self, version: u64, most: usize) -> std::result::Result<bool, usize> {
        let mut versions = self.versions.write().unwrap_or_else(PoisonError::into_inner);
        let Versions { newest, older, pinned } = &mut *versions;
        if newest.version != version && !older.iter().any(|snapshot| snapshot.version == version) {
            return Ok(false);
        }
        if pinned.len() >= most && !pinned.contains_key(&version) {
            return Err(pinned.len());
        }
        *pinned.entry(version).or_default() += 1;
        Ok(true)
    }

    /// See [`Table::pin`].
    pub fn unpin(&self, version: u64) {
        let mut versions = self.versions.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(times) = versions.pinned.get_mut(&version) {
            *times -= 1;
            if *times == 0 {
                versions.pinned.remove(&version);
                versions.cut();
            }
        }
    }

    /// Bytes held by all versions that are kept; what several share is counted once.
    pub fn bytes(&self) -> usize {
        let versions = self.read();
        let mut seen: HashSet<*const FragmentData> = HashSet::new();
        let mut bytes = versions.newest.bytes();
        if !versions.older.is_empty() {
            seen.extend(versions.newest.fragments.iter().map(|f| Arc::as_ptr(f.data())));
        }
        for fragment in versions.older.iter().flat_map(|snapshot| snapshot.fragments.iter()) {
            if seen.insert(Arc::as_ptr(fragment.data())) {
                bytes += fragment.bytes();
            }
        }
        bytes
    }

    /// Commits a change of this table, which nobody else keeps: the answer is its version.
    ///
    /// # Errors
    /// [`ErrorKind::WriteConflict`] when something that it replaces is not there as it was: make it again from
    /// the newest snapshot. [`ErrorKind::TableNotFound`] when the table was dropped meanwhile.
    pub fn commit(&self, change: Change) -> Result<u64> {
        let mut next_id = lock(&self.commit);
        if self.dropped.load(Ordering::Acquire) {
            return Err(no_table(&self.name));
        }
        let snapshot = self.snapshot();
        if !change.fits(&snapshot) {
            let message = format!("another write has changed the same rows of table {:?}", self.name);
            return Err(Error::new(ErrorKind::WriteConflict, message));
        }
        let gone: HashSet<u32> = change.was.iter().map(Fragment::id).collect();
        let stays = snapshot.fragments.iter().filter(|fragment| !gone.contains(&fragment.id()));
        let mut fragments: Vec<Fragment> = stays.cloned().chain(change.is).collect();
        let mut id = *next_id;
        for data in change.add {
            fragments.push(Fragment::new(id, data));
            id = id
                .checked_add(1)
                .ok_or_else(|| Error::new(ErrorKind::MemoryLimit, "the table has no fragment ids left"))?;
        }
        *next_id = id;
        let version = snapshot.version + 1;
        let retention = change.retention.unwrap_or_else(|| snapshot.retention.clone());
        self.install(Snapshot::new(version, fragments).with_retention(retention));
        Ok(version)
    }

    /// The same. Where the change has one new fragment, this is merged with small ones at the end of the snapshot that the
    /// change was made from, up to so many bytes of rows, unless another commit has changed these.
    ///
    /// # Errors
    /// Those of [`Table::commit`] and of the encodings.
    pub fn commit_merged(&self, snapshot: &Snapshot, change: Change, most: usize) -> Result<u64> {
        // Encoding happens before the lock is taken: a rayon thread that waits for it takes up other jobs, and
        // another commit of this table among them would wait for a lock that its own thread holds. What is right for one
        // version alone does not wait for it.
        if change.at.is_none()
            && let Some(merged) = merge::merge(snapshot, &self.schema, &change, most)?
        {
            match self.commit(merged) {
                // Another commit has replaced the same fragments; then the next one merges.
                Err(error) if error.kind() == ErrorKind::WriteConflict => {}
                done => return done,
            }
        }
        self.commit(change)
    }

    /// Marks the table as gone: a commit that runs is waited for, a later one fails.
    fn set_dropped(&self) {
        let _ = self.set_dropped_at(None);
    }

    /// The same where this is its newest version.
    fn set_dropped_at(&self, at: Option<u64>) -> bool {
        let _commit = lock(&self.commit);
        let is_at = at.is_none_or(|at| at == self.snapshot().version);
        if is_at {
            self.dropped.store(true, Ordering::Release);
        }
        is_at
    }

    /// What it was marked for has not happened.
    fn set_kept(&self) {
        self.dropped.store(false, Ordering::Release);
    }

    /// Makes its newest version no lower than `least`, and the only one: as it was a draft, nobody has asked for others.
    fn lift(&self, least: u64) {
        let _commit = lock(&self.commit);
        let mut versions = self.versions.write().unwrap_or_else(PoisonError::into_inner);
        versions.older.clear();
        if versions.newest.version < least {
            let Snapshot { fragments, rows, retention, cutoff, .. } = &*versions.newest;
            let (fragments, retention) = (Arc::clone(fragments), retention.clone());
            let lifted = Snapshot { version: least, fragments, rows: *rows, retention, cutoff: *cutoff };
            versions.newest = Arc::new(lifted);
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Versions> {
        self.versions.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether somebody beside its table has a version: then its rows are in memory whether it is forgotten or not.
fn is_read(snapshot: &Arc<Snapshot>) -> bool {
    // Who asks at a time has a snapshot of his own of the same fragments.
    Arc::strong_count(snapshot) > 1 || Arc::strong_count(&snapshot.fragments) > 1
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is said of a version of a table that is not there, by the oldest and the newest one that are.
pub fn not_there(table: &str, version: u64, oldest: u64, newest: u64) -> String {
    let are = match oldest == newest {
        true => format!("version {newest} can be read"),
        false => format!("versions {oldest} to {newest} can be read"),
    };
    match version > newest {
        true => format!("there is no version {version} of table {table:?} yet; the newest is {newest}"),
        false => format!("version {version} of table {table:?} cannot be read any longer; {are}"),
    }
}

fn no_table(name: &str) -> Error {
    let shown: String = name.chars().take(128).collect();
    Error::new(ErrorKind::TableNotFound, format!("there is no table {shown:?}")).at("table")
}

/// The error of a column that the table does not have, with the nearest name if one is near.
pub(crate) fn no_column(table: &Table, name: &str) -> Error {
    let shown: String = name.chars().take(128).collect();
    let meant = similar::hint(name, table.schema().fields().iter().map(|field| field.name.as_str()));
    Error::new(ErrorKind::ColumnNotFound, format!("table {:?} has no column {shown:?}{meant}", table.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_is_not_there_is_told_by_those_that_are() {
        let yet = "there is no version 7 of table \"t\" yet; the newest is 2";
        assert_eq!(not_there("t", 7, 1, 2), yet);
        let gone = "version 1 of table \"t\" cannot be read any longer; version 3 can be read";
        assert_eq!(not_there("t", 1, 3, 3), gone);
    }
}
