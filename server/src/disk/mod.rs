//! Encoded columns on local disk, so that a restart need not encode everything again.
//!
//! It is the tier between the [cache in memory](crate::cache) and the store: what is not in memory is looked for here
//! first, and what was encoded is written here in the background. Nothing depends on it. A file that does not check is
//! deleted and the column is read from the store; there is no order in which files are written, so none is synced; where
//! the disk is full or fails, the cache is left alone for a while.
//!
//! There is one file for the columns of a fragment that were encoded together ([`file`]), under a name that is a hash of
//! the rows, so that a look-up opens it without an index of all of them; with a file for each column, a large table would
//! have millions. Files are never changed: columns that are encoded later have a file of their own, up to [`PARTS`],
//! which are then written again as one.

pub(crate) mod file;
mod known;
mod writer;

pub(crate) use self::known::Name;
use std::{
    fmt,
    fs::{self, DirBuilder, File, TryLockError},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use basalt_core::{encoding, fragment::ColumnParts};
use basalt_storage::{FragmentEntry, TableState};
use tokio::{
    sync::{
        mpsc::{Sender, channel},
        oneshot,
    },
    time::Instant,
};
use twox_hash::XxHash3_64;

use self::{
    file::{Entry, Opened, Problem},
    known::Files,
};
use crate::{
    cache::{FragmentCache, Rows},
    class::Class,
    environment::{Environment, run},
    limits,
    metrics::Metrics,
};

/// Files of the same rows, at most.
const PARTS: u8 = 4;
/// What folders of the cache are called; versions follow.
const FOLDER: &str = "basalt-columns-";
/// What is being written.
const UNFINISHED: &str = "tmp";

/// The rows of a fragment, for good: server and process do not matter.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    table: u64,
    rows: u64,
    n: u32,
    /// All that tells these rows from others; the hashes above are of parts of it.
    text: Arc<str>,
}

impl Key {
    pub(crate) fn new(state: &TableState, entry: &FragmentEntry) -> Self {
        let (table, file) = (state.id(), &entry.file);
        let (path, bytes, first) = (file.path(), file.bytes(), entry.first_row);
        let text = format!("{table}\n{path}\n{bytes} bytes, row {first}, {} rows", entry.rows);
        let rows = entry.source().rows;
        Self { table: table_hash(table), rows, n: entry.rows, text: text.into() }
    }

    fn name(&self, part: u8) -> Name {
        Name { table: self.table, rows: self.rows, part }
    }
}

fn table_hash(id: &str) -> u64 {
    XxHash3_64::oneshot(id.as_bytes())
}

/// What the thread that writes is to do.
#[derive(Debug)]
enum Job {
    /// Writes those columns of some rows that memory has and the disk has not.
    Keep { key: Key, held: Rows, columns: Vec<u64> },
    /// Deletes what there is of some rows, or of all of a table.
    Forget { table: u64, rows: Option<u64> },
}

/// What all share who read and write.
struct Shared {
    folder: PathBuf,
    limit: u64,
    files: Mutex<Files>,
    reads: Pause,
    writes: Pause,
    waiting: AtomicU64,
    stopping: AtomicBool,
    cache: Arc<FragmentCache>,
    metrics: Arc<Metrics>,
    environment: Arc<dyn Environment>,
}

/// See the module.
pub(crate) struct DiskCache {
    shared: Arc<Shared>,
    /// `None` once it is closed.
    jobs: Mutex<Option<Sender<Job>>>,
    /// Closed when the thread that writes has ended.
    writer: Mutex<Option<oneshot::Receiver<()>>>,
    lock: File,
}

impl fmt::Debug for DiskCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskCache").field("folder", &self.shared.folder).finish_non_exhaustive()
    }
}

/// Columns that were found, and where they lie.
#[derive(Debug)]
pub(crate) struct Found {
    files: Vec<(Name, Arc<Opened>)>,
    /// The place among the columns that were asked for, that of the file, and the column.
    columns: Vec<(usize, usize, Entry)>,
}

impl Found {
    /// Bytes of the columns.
    pub(crate) fn bytes(&self) -> u64 {
        self.columns.iter().map(|(_, _, entry)| entry.bytes()).sum()
    }
}

/// A column as it was read. Its hash is right; that it is a column is for whoever opens it to see.
#[derive(Debug)]
pub(crate) struct Read {
    /// The place among the columns that were asked for.
    pub(crate) place: usize,
    pub(crate) parts: ColumnParts,
    /// The file that it was in.
    pub(crate) name: Name,
}

impl DiskCache {
    /// The cache in a folder, which is made if it is not there. `None`, with a warning, where it cannot be used.
    pub(crate) fn open(
        folder: &Path,
        limit: u64,
        cache: Arc<FragmentCache>,
        metrics: Arc<Metrics>,
        environment: Arc<dyn Environment>,
    ) -> Option<Arc<Self>> {
        let refuse = |why: &str| {
            tracing::warn!(folder = %folder.display(), "the server runs without its cache on disk: {why}");
        };
        let lock = match lock(folder) {
            Ok(lock) => lock,
            Err(TryLockError::WouldBlock) => {
                refuse("another server uses it");
                return None;
            }
            Err(TryLockError::Error(error)) => {
                refuse(&error.to_string());
                return None;
            }
        };
        let shared = Arc::new(Shared {
            folder: folder.join(format!("{FOLDER}{}-{}", file::VERSION, encoding::FORMAT_VERSION)),
            limit,
            files: Mutex::new(Files::new(Instant::now())),
            reads: Pause::default(),
            writes: Pause::default(),
            waiting: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            cache,
            metrics,
            environment,
        });
        let (sender, jobs) = channel(limits::CACHE_WRITES);
        let (writing, (ended, writer)) = (Arc::clone(&shared), oneshot::channel());
        let write = move || {
            writing.run(jobs);
            drop(ended);
        };
        // Queries and writes come first.
        match shared.environment.thread("basalt-cache", Class::Long, Box::new(write)) {
            Ok(()) => {
                let (jobs, writer) = (Mutex::new(Some(sender)), Mutex::new(Some(writer)));
                Some(Arc::new(Self { shared, jobs, writer, lock }))
            }
            Err(error) => {
                refuse(&error.to_string());
                None
            }
        }
    }

    /// Looks for columns of some rows.
    pub(crate) async fn find(&self, key: Key, columns: Vec<u64>) -> Option<Found> {
        if !self.shared.reads.is_over() {
            return None;
        }
        let shared = Arc::clone(&self.shared);
        let n = columns.len();
        let found = run(&*self.shared.environment, move || shared.find(&key, &columns)).await.ok();
        let hits = found.as_ref().map_or(0, |found| found.columns.len());
        self.shared.metrics.disk_cache_found(hits as u64, (n - hits) as u64);
        found.filter(|found| !found.columns.is_empty())
    }

    /// Reads what was found; what is damaged is left out.
    pub(crate) async fn read(&self, found: Found) -> Vec<Read> {
        let shared = Arc::clone(&self.shared);
        run(&*self.shared.environment, move || shared.read(found)).await.unwrap_or_default()
    }

    /// What was read is no column: its file is deleted.
    pub(crate) fn is_damaged(&self, read: Name, why: &str) {
        self.shared.damaged(read, why);
    }

    /// Which of some rows have files here.
    pub(crate) async fn which(&self, keys: Vec<Key>) -> Vec<bool> {
        let (shared, n) = (Arc::clone(&self.shared), keys.len());
        let is_there =
            move |key: &Key| (0..PARTS).any(|part| fs::symlink_metadata(shared.path(key.name(part))).is_ok());
        let which = run(&*self.shared.environment, move || keys.iter().map(is_there).collect()).await;
        which.unwrap_or_else(|_| vec![false; n])
    }

    /// Columns of some rows were encoded and are in memory: they are written in the background, unless too many wait.
    pub(crate) fn keep(&self, key: Key, held: Rows, columns: Vec<u64>) {
        if u64::from(key.n) >= limits::CACHE_LEAST_ROWS && self.shared.writes.is_over() {
            self.send(Job::Keep { key, held, columns });
        }
    }

    /// No version has some rows any longer.
    pub(crate) fn forget(&self, state: &TableState, rows: u64) {
        self.send(Job::Forget { table: table_hash(state.id()), rows: Some(rows) });
    }

    /// A table is gone.
    pub(crate) fn forget_table(&self, state: &TableState) {
        self.send(Job::Forget { table: table_hash(state.id()), rows: None });
    }

    /// Bytes that it has, as far as they are counted.
    pub(crate) fn bytes(&self) -> u64 {
        self.shared.files().bytes()
    }

    /// What waits to be written.
    pub(crate) fn waiting(&self) -> u64 {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// Stops writing: what waits is left out. Another server may use the folder afterwards.
    pub(crate) async fn close(self: &Arc<Self>) {
        self.stop();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            // It ends with the file in hand.
            let _ = writer.await;
        }
        let _ = self.lock.unlock();
    }

    fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        *self.jobs.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn send(&self, job: Job) {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(jobs) = &*jobs else { return };
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        // Where too many wait: it is written when it is encoded the next time, or goes when there is need.
        if jobs.try_send(job).is_err() {
            self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for DiskCache {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn table(&self, table: u64) -> PathBuf {
        self.folder.join(format!("{table:016x}"))
    }

    fn path(&self, name: Name) -> PathBuf {
        self.table(name.table).join(format!("{:016x}.{}", name.rows, name.part))
    }

    fn find(&self, key: &Key, columns: &[u64]) -> Found {
        let mut found = Found { files: Vec::new(), columns: Vec::new() };
        for (name, opened) in self.opened(key) {
            let entries = opened.entries().iter().filter_map(|entry| {
                let place = columns.iter().position(|id| *id == entry.id)?;
                Some((place, *entry))
            });
            let known = |place: usize| found.columns.iter().any(|(known, ..)| *known == place);
            let entries: Vec<_> = entries.filter(|(place, _)| !known(*place)).collect();
            if !entries.is_empty() {
                let at = found.files.len();
                found.columns.extend(entries.into_iter().map(|(place, entry)| (place, at, entry)));
                found.files.push((name, Arc::new(opened)));
            }
        }
        found
    }

    /// The files of some rows; what is damaged is deleted.
    fn opened(&self, key: &Key) -> Vec<(Name, Opened)> {
        let mut all = Vec::new();
        for name in (0..PARTS).map(|part| key.name(part)) {
            match Opened::open(&self.path(name), &key.text, key.n) {
                Ok(opened) => all.push((name, opened)),
                Err(problem) => self.note(name, problem),
            }
        }
        all
    }

    fn read(&self, found: Found) -> Vec<Read> {
        let now = Instant::now();
        for (name, opened) in &found.files {
            self.files().touch(*name, now);
            // For the next process; where it fails, this one goes sooner then.
            let _ = opened.file().set_modified(self.environment.wall());
        }
        let mut all = Vec::with_capacity(found.columns.len());
        for (place, at, entry) in found.columns {
            let (name, opened) = &found.files[at];
            match opened.read(&entry) {
                Ok(parts) => all.push(Read { place, parts, name: *name }),
                Err(problem) => self.note(*name, problem),
            }
        }
        if !all.is_empty() {
            self.reads.works();
        }
        all
    }

    fn note(&self, name: Name, problem: Problem) {
        match problem {
            Problem::Missing => self.files().remove(name),
            Problem::Damaged(why) => self.damaged(name, why),
            Problem::Io(error) => self.reads.fails("read", &error),
        }
    }

    fn damaged(&self, name: Name, why: &str) {
        let path = self.path(name);
        tracing::info!(file = %path.display(), "a file of the cache is deleted: {why}");
        self.metrics.disk_cache_damaged();
        self.delete(name);
    }

    fn delete_all(&self, names: impl IntoIterator<Item = Name>) {
        for name in names {
            self.delete(name);
        }
    }

    /// Deletes a file; whether it is gone.
    fn delete(&self, name: Name) -> bool {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                self.writes.fails("deleted from", &error);
                false
            }
            _ => {
                self.files().remove(name);
                true
            }
        }
    }
}

/// Takes the folder for this process.
fn lock(folder: &Path) -> Result<File, TryLockError> {
    let open = || {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        File::options().write(true).create(true).truncate(false).open(folder.join("basalt-columns.lock"))
    };
    let lock = open().map_err(TryLockError::Error)?;
    lock.try_lock()?;
    Ok(lock)
}

/// The time for which a disk that fails is left alone.
#[derive(Debug, Default)]
struct Pause {
    until: Mutex<Option<Instant>>,
    /// Whether it has been warned since it worked last.
    is_known: AtomicBool,
}

impl Pause {
    fn is_over(&self) -> bool {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_none_or(|until| Instant::now() >= until)
    }

    fn fails(&self, what: &str, error: &io::Error) {
        let until = Instant::now() + limits::CACHE_PAUSE;
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
        if !self.is_known.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "the cache on disk cannot be {what}, and is left alone for a while");
        }
    }

    fn works(&self) {
        self.is_known.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
