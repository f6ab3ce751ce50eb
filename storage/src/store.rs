//! Places for bytes: a local directory, memory, or a bucket, all through [`ObjectStore`].
//!
//! A local write is durable before it returns: the file is written under a temporary name (`name#1`), synced,
//! then linked (where it must be new) or renamed to its own, and the folders that changed are synced.

use std::{
    fmt,
    ops::Range,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::{
    Error, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload,
    local::LocalFileSystem, memory::InMemory, path::Path,
};
use uuid::Uuid;

mod clock;
mod files;
mod leftovers;
mod probe;

pub(crate) use clock::is_reading;
pub(crate) use files::{Listed, Mark};

use crate::{
    environment::{self, Environment, Panicked, Process},
    error::{Result, StorageError},
    limits::{CONCURRENT_REQUESTS, LOGGED_DELETIONS},
    links,
};

/// A folder of an object store; a clone is the same folder.
#[derive(Clone)]
pub struct Store {
    objects: Arc<dyn ObjectStore>,
    root: Path,
    /// For people.
    url: String,
    /// The folder, where it is one of this machine.
    local: Option<PathBuf>,
    /// The folder that no link leads a read out of, where that is asked: the table of another writer.
    within: Option<PathBuf>,
    environment: Arc<dyn Environment>,
}

impl Store {
    /// Opens a store: `memory:` (a new, empty one), `s3://bucket/prefix` (with the options that the variables
    /// `AWS_*` give, such as `AWS_ENDPOINT_URL` and `AWS_ALLOW_HTTP`), or a local directory as a path or a
    /// `file://` address. The directory is made if it is not there.
    ///
    /// # Errors
    /// [`StorageError::Address`] when there can be no such store.
    pub fn open(url: &str) -> Result<Self> {
        Self::open_in(Process::shared(), url)
    }

    /// The same in an environment, which may have other objects at the address.
    ///
    /// # Errors
    /// [`StorageError::Address`].
    pub fn open_in(environment: Arc<dyn Environment>, url: &str) -> Result<Self> {
        if let Some(objects) = environment.objects(url) {
            return Ok(Self::new(environment, objects, url.into()));
        }
        match Scheme::of(url)? {
            Scheme::Memory => Ok(Self::new(environment, Arc::new(InMemory::new()), url.into())),
            Scheme::S3 => Self::bucket(environment, url),
            Scheme::Directory(path) => {
                create_folder(&path).map_err(|e| address(url, e))?;
                Self::directory(environment, url, path)
            }
        }
    }

    /// Opens a store that is there, and may be another writer's: like [`open`](Self::open), but no directory is made, and of
    /// a local one nothing is read that is elsewhere, behind symbolic links.
    ///
    /// # Errors
    /// [`StorageError::Address`].
    pub fn open_existing(url: &str) -> Result<Self> {
        Self::open_existing_in(Process::shared(), url)
    }

    /// The same in an environment, which may have other objects at the address.
    pub(crate) fn open_existing_in(environment: Arc<dyn Environment>, url: &str) -> Result<Self> {
        if let Some(objects) = environment.objects(url) {
            return Ok(Self::new(environment, objects, url.into()));
        }
        match Scheme::of(url)? {
            Scheme::Memory => Err(address(url, "there is nothing in a new one")),
            Scheme::S3 => Self::bucket(environment, url),
            Scheme::Directory(path) => {
                let mut store = Self::directory(environment, url, path)?;
                store.within.clone_from(&store.local);
                Ok(store)
            }
        }
    }

    /// A new store in memory; its clones share it.
    pub fn in_memory() -> Self {
        Self::new(Process::shared(), Arc::new(InMemory::new()), "memory:".into())
    }

    /// A store over objects of any kind: for tests that need one that fails.
    #[doc(hidden)]
    pub fn over(objects: Arc<dyn ObjectStore>) -> Self {
        Self::new(Process::shared(), objects, "test:".into())
    }

    fn new(environment: Arc<dyn Environment>, objects: Arc<dyn ObjectStore>, url: String) -> Self {
        Self { objects, root: Path::default(), url, local: None, within: None, environment }
    }

    /// Where it is asked for time, ids and threads.
    pub(crate) fn environment(&self) -> &Arc<dyn Environment> {
        &self.environment
    }

    /// Milliseconds since 1970.
    pub(crate) fn now_millis(&self) -> i64 {
        environment::now_millis(&*self.environment)
    }

    /// An id that nothing else has.
    pub(crate) fn new_id(&self) -> Uuid {
        environment::new_id(&*self.environment)
    }

    /// Runs a job that waits for files or takes the processor for long.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> std::result::Result<T, Panicked> {
        environment::run(&*self.environment, job).await
    }

    fn directory(environment: Arc<dyn Environment>, url: &str, path: PathBuf) -> Result<Self> {
        let path = path.canonicalize().map_err(|e| address(url, e))?;
        let objects = LocalFileSystem::new_with_prefix(&path).map_err(|e| address(url, e))?.with_fsync(true);
        let mut store = Self::new(environment, Arc::new(objects), path.display().to_string());
        store.local = Some(path);
        Ok(store)
    }

    #[cfg(feature = "s3")]
    fn bucket(environment: Arc<dyn Environment>, url: &str) -> Result<Self> {
        // The HTTP client takes the process's provider; the first to set one is right.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let bucket = object_store::aws::AmazonS3Builder::from_env().with_url(url).build();
        let bucket = Arc::new(bucket.map_err(|e| address(url, e))?);
        let mut store = Self::new(environment, bucket, String::new());
        // Default: the whole bucket.
        let prefix = url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, p)| p);
        store.root = Path::parse(prefix).map_err(|e| address(url, e))?;
        url.trim_end_matches('/').clone_into(&mut store.url);
        Ok(store)
    }

    #[cfg(not(feature = "s3"))]
    fn bucket(_: Arc<dyn Environment>, url: &str) -> Result<Self> {
        Err(address(url, "this build has no S3 (feature `s3`)"))
    }

    /// A folder in it; `folder` is `/`-separated.
    ///
    /// # Errors
    /// [`StorageError::Address`] when the name leads elsewhere, such as `..`.
    pub fn folder(&self, folder: &str) -> Result<Self> {
        let root = self.place(folder)?;
        let url = format!("{}/{folder}", self.url);
        let local = self.local.as_ref().map(|local| local.join(folder));
        let (objects, environment) = (Arc::clone(&self.objects), Arc::clone(&self.environment));
        Ok(Self { objects, root, url, local, within: self.within.clone(), environment })
    }

    /// Its address, for people: the URL, or the directory.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The folder, where it is one of this machine.
    pub(crate) fn local(&self) -> Option<&std::path::Path> {
        self.local.as_deref()
    }

    /// Whether there can be a file of this name below it, which a listing would give the same name.
    pub(crate) fn has_place(&self, path: &str) -> bool {
        let is_whole = !path.is_empty() && !path.starts_with('/') && !path.ends_with('/');
        is_whole && self.place(path).is_ok()
    }

    fn place(&self, path: &str) -> Result<Path> {
        let joined =
            if self.root.as_ref().is_empty() { path.to_owned() } else { format!("{}/{path}", self.root) };
        Path::parse(joined).map_err(|e| address(path, e))
    }

    fn error(&self, path: &str, source: Error) -> StorageError {
        StorageError::Store { path: format!("{}/{path}", self.url), source }
    }

    fn io_error(&self, path: &str, error: std::io::Error) -> StorageError {
        self.error(path, Error::Generic { store: "LocalFileSystem", source: Box::new(error) })
    }

    /// What is read of a file, where its folder is not to be left: of what is open, which is in it. `None` where any is read.
    async fn within<T: Send + 'static>(
        &self,
        path: &str,
        read: impl FnOnce(links::Opened) -> std::io::Result<T> + Send + 'static,
    ) -> Option<Result<Option<T>>> {
        let (within, local) = (self.within.clone()?, self.local.as_ref()?);
        if let Err(error) = self.place(path) {
            return Some(Err(error));
        }
        let file = local.join(path);
        let read = move || Ok(links::open(&within, &file)?.map(read).transpose()?);
        let done = self.run(read).await.unwrap_or_else(|e| Err(std::io::Error::other(e).into()));
        Some(done.map_err(|failed| match failed {
            links::Failed::Outside => StorageError::corrupt(format!("{}/{path}", self.url), links::OUTSIDE),
            links::Failed::Io(error) => self.io_error(path, error),
        }))
    }

    /// Fails where links lead from a folder to outside of the one that is not to be left.
    async fn check_links(&self, path: &str) -> Result<()> {
        let (Some(within), Some(local)) = (self.within.clone(), &self.local) else { return Ok(()) };
        let file = local.join(path);
        let asked = self.run(move || links::is_within(&within, &file)).await;
        match asked.unwrap_or_else(|e| Err(std::io::Error::other(e))) {
            Ok(true) => Ok(()),
            Ok(false) => Err(StorageError::corrupt(format!("{}/{path}", self.url), links::OUTSIDE)),
            Err(e) => Err(self.io_error(path, e)),
        }
    }

    /// A whole file of at most `limit` bytes; `None` when there is none.
    pub(crate) async fn get(&self, path: &str, limit: u64) -> Result<Option<Bytes>> {
        let read = move |file: links::Opened| match file.size {
            size if size > limit => Ok(Err(size)),
            size => file.read(0..size).map(Ok),
        };
        if let Some(found) = self.within(path, read).await {
            let found = found?.transpose();
            return found.map_err(|size| self.too_large(path, size, limit));
        }
        match self.objects.get(&self.place(path)?).await {
            Ok(found) if found.meta.size > limit => Err(self.too_large(path, found.meta.size, limit)),
            Ok(found) => found.bytes().await.map(Some).map_err(|e| self.error(path, e)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(self.error(path, e)),
        }
    }

    /// What the store says of a file without reading it; `None` when there is none.
    pub(crate) async fn mark(&self, path: &str) -> Result<Option<Mark>> {
        let mark = |file: links::Opened| {
            let links::Opened { size, modified, number, .. } = file;
            Ok(Mark { size, modified, e_tag: Some(number.to_string()) })
        };
        if let Some(found) = self.within(path, mark).await {
            return found;
        }
        match self.objects.head(&self.place(path)?).await {
            Ok(ObjectMeta { size, last_modified, e_tag, .. }) => {
                Ok(Some(Mark { size, modified: last_modified.into(), e_tag }))
            }
            Err(Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(self.error(path, e)),
        }
    }

    pub(crate) fn too_large(&self, path: &str, found: u64, limit: u64) -> StorageError {
        StorageError::Limit { path: format!("{}/{path}", self.url), what: "its size in bytes", found, limit }
    }

    /// A file without its bytes; `None` when there is none.
    pub(crate) async fn head(&self, path: &str) -> Result<Option<Listed>> {
        if let Some(found) = self.within(path, |file| Ok((file.size, file.modified))).await {
            let (path, seen) = (path.to_owned(), self.environment.wall());
            return Ok(found?.map(|(size, modified)| Listed { path, size, modified, seen }));
        }
        match self.objects.head(&self.place(path)?).await {
            Ok(meta) => self.listed(meta).map(Some),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(self.error(path, e)),
        }
    }

    /// Whether it is a directory of this machine. There a write that failed is over; elsewhere it may be done later.
    pub(crate) fn is_local(&self) -> bool {
        self.local.is_some()
    }

    /// Makes a file durable whose writing failed at an unknown point; other stores have nothing that is not durable.
    pub(crate) async fn sync(&self, path: &str) -> Result<()> {
        let Some(file) = self.local.as_ref().map(|local| local.join(path)) else { return Ok(()) };
        let sync = move || {
            std::fs::File::open(&file)?.sync_all()?;
            file.parent().map_or(Ok(()), |folder| std::fs::File::open(folder)?.sync_all())
        };
        let synced = self.run(sync).await.unwrap_or_else(|e| Err(std::io::Error::other(e)));
        synced.map_err(|e| self.io_error(path, e))
    }

    /// A file that has to be there.
    pub(crate) async fn get_known(&self, path: &str, limit: u64) -> Result<Bytes> {
        self.get(path, limit).await?.ok_or_else(|| self.missing(path))
    }

    fn missing(&self, path: &str) -> StorageError {
        StorageError::Missing { path: format!("{}/{path}", self.url) }
    }

    /// The last `bytes` of a file (all of a shorter one), and its size.
    pub(crate) async fn get_end(&self, path: &str, bytes: u64) -> Result<(Bytes, u64)> {
        let options = GetOptions { range: Some(GetRange::Suffix(bytes)), ..GetOptions::default() };
        let end = move |file: links::Opened| {
            Ok((file.read(file.size.saturating_sub(bytes)..file.size)?, file.size))
        };
        if let Some(found) = self.within(path, end).await {
            return found?.ok_or_else(|| self.missing(path));
        }
        match self.objects.get_opts(&self.place(path)?, options).await {
            Ok(found) => {
                let size = found.meta.size;
                Ok((found.bytes().await.map_err(|e| self.error(path, e))?, size))
            }
            Err(Error::NotFound { .. }) => Err(self.missing(path)),
            Err(e) => Err(self.error(path, e)),
        }
    }

    /// Ranges of a file, in their order.
    pub(crate) async fn get_ranges(&self, path: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let wanted = ranges.to_vec();
        let read = move |file: links::Opened| wanted.into_iter().map(|range| file.read(range)).collect();
        if let Some(found) = self.within(path, read).await {
            return found?.ok_or_else(|| self.missing(path));
        }
        match self.objects.get_ranges(&self.place(path)?, ranges).await {
            Ok(found) => Ok(found),
            Err(Error::NotFound { .. }) => Err(self.missing(path)),
            Err(e) => Err(self.error(path, e)),
        }
    }

    /// Writes a file that must not be there yet; `false` when it is.
    pub(crate) async fn create(&self, path: &str, bytes: impl Into<PutPayload>) -> Result<bool> {
        match self.objects.put_opts(&self.place(path)?, bytes.into(), PutMode::Create.into()).await {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            Err(e) => Err(self.error(path, e)),
        }
    }

    /// Writes a file, or replaces it whole.
    pub(crate) async fn put(&self, path: &str, bytes: impl Into<PutPayload>) -> Result<()> {
        let put = self.objects.put(&self.place(path)?, bytes.into()).await;
        put.map(|_| ()).map_err(|e| self.error(path, e))
    }

    /// Every file below a folder whose path is greater than `after`, by path from this store's root.
    pub(crate) async fn list(&self, folder: &str, after: Option<&str>) -> Result<Vec<Listed>> {
        self.check_links(folder).await?;
        if let Some(top) = self.local.clone().filter(|_| self.within.is_some()) {
            return self.list_within(top, folder, after).await;
        }
        let prefix = self.place(folder)?;
        let listing = match after {
            Some(after) => self.objects.list_with_offset(Some(&prefix), &self.place(after)?),
            None => self.objects.list(Some(&prefix)),
        };
        let mut files: Vec<_> = match listing.try_collect::<Vec<_>>().await {
            Ok(files) => files.into_iter().map(|meta| self.listed(meta)).collect::<Result<_>>()?,
            Err(Error::NotFound { .. }) => Vec::new(),
            Err(e) => return Err(self.error(folder, e)),
        };
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    /// The same of a folder that is not to be left.
    async fn list_within(&self, top: PathBuf, folder: &str, after: Option<&str>) -> Result<Vec<Listed>> {
        let asked = folder.to_owned();
        let found = self.run(move || links::files(&top, &asked)).await;
        let found = found.unwrap_or_else(|e| Err(std::io::Error::other(e)));
        let seen = self.environment.wall();
        let listed = |file: links::Found| {
            let links::Found { path, size, modified } = file;
            after.is_none_or(|after| path.as_str() > after).then_some(Listed { path, size, modified, seen })
        };
        let mut files: Vec<_> =
            found.map_err(|e| self.io_error(folder, e))?.into_iter().filter_map(listed).collect();
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    fn listed(&self, meta: ObjectMeta) -> Result<Listed> {
        let skip = self.root.as_ref().len() + usize::from(!self.root.as_ref().is_empty());
        let (size, modified) = (meta.size, meta.last_modified.into());
        Ok(Listed { path: self.below(&meta.location, skip)?, size, modified, seen: self.environment.wall() })
    }

    /// The folders right below a folder, from this store's root.
    pub(crate) async fn folders(&self, folder: &str) -> Result<Vec<String>> {
        self.check_links(folder).await?;
        let prefix = self.place(folder)?;
        let skip = self.root.as_ref().len() + usize::from(!self.root.as_ref().is_empty());
        match self.objects.list_with_delimiter(Some(&prefix)).await {
            Ok(found) => found.common_prefixes.iter().map(|path| self.below(path, skip)).collect(),
            Err(Error::NotFound { .. }) => Ok(Vec::new()),
            Err(e) => Err(self.error(folder, e)),
        }
    }

    /// A path that the store has listed, without the root's `skip` bytes.
    fn below(&self, path: &Path, skip: usize) -> Result<String> {
        let below = path.as_ref().get(skip..).filter(|_| path.prefix_matches(&self.root));
        let below = below.filter(|below| !below.is_empty());
        let why = || StorageError::corrupt(path.as_ref(), "the store lists it outside of the folder");
        below.map(str::to_owned).ok_or_else(why)
    }

    /// Removes files, and logs each; one that is not there is no error. Every deletion in a store is done here, in
    /// [`Store::delete_mark`] or in [`Store::delete_leftovers`]. Returns how many there were.
    pub(crate) async fn delete(
        &self,
        why: &'static str,
        paths: impl IntoIterator<Item = String>,
    ) -> Result<usize> {
        // After an error no further one is begun, and what is under way is waited for, so that it is logged.
        let failed = AtomicBool::new(false);
        let delete = async |path: String| {
            if failed.load(Ordering::Relaxed) {
                return Ok(None);
            }
            match self.objects.delete(&self.place(&path)?).await {
                Ok(()) => Ok(Some(path)),
                Err(Error::NotFound { .. }) => Ok(None),
                Err(e) => Err(self.error(&path, e)),
            }
        };
        let mut deletions = stream::iter(paths).map(delete).buffer_unordered(CONCURRENT_REQUESTS);
        let (mut deleted, mut outcome) = (Vec::new(), Ok(()));
        while let Some(done) = deletions.next().await {
            match done {
                Ok(path) => deleted.extend(path),
                Err(e) => {
                    failed.store(true, Ordering::Relaxed);
                    outcome = outcome.and(Err(e));
                }
            }
        }
        self.log_deleted(why, &deleted);
        outcome.map(|()| deleted.len())
    }

    /// Removes a file with which nothing is lost, such as a mark; that is logged at `debug`.
    pub(crate) async fn delete_mark(&self, why: &'static str, path: &str) -> Result<()> {
        match self.objects.delete(&self.place(path)?).await {
            Ok(()) => tracing::debug!(store = self.url.as_str(), path, why, "removed"),
            Err(Error::NotFound { .. }) => {}
            Err(e) => return Err(self.error(path, e)),
        }
        Ok(())
    }

    fn log_deleted(&self, why: &'static str, paths: &[String]) {
        let (store, few) = (self.url.as_str(), paths.len() <= LOGGED_DELETIONS);
        for path in paths {
            if few {
                tracing::info!(store, path, why, "removed");
            } else {
                tracing::debug!(store, path, why, "removed");
            }
        }
        if !few {
            tracing::info!(store, files = paths.len(), why, "removed files; `debug` names each");
        }
    }

    /// Removes a folder of a local store, and those in it, as far as they hold no files. Other stores have no folders.
    pub(crate) async fn delete_empty_folders(&self, folder: &str) {
        let Some(folder) = self.local.as_ref().map(|local| local.join(folder)) else { return };
        let _ = self.run(move || delete_empty_folders(&folder)).await;
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.url).finish()
    }
}

enum Scheme {
    Memory,
    S3,
    Directory(PathBuf),
}

impl Scheme {
    fn of(url: &str) -> Result<Self> {
        if url == "memory:" {
            return Ok(Self::Memory);
        }
        match url.split_once("://") {
            Some(("s3" | "s3a", _)) => Ok(Self::S3),
            Some(("file", path)) => Ok(Self::Directory(path.into())),
            Some((scheme, _)) => Err(address(
                url,
                format!("{scheme}:// is not known; there are a directory, memory: and s3://"),
            )),
            None if url.is_empty() => Err(address(url, "it is empty")),
            None => Ok(Self::Directory(url.into())),
        }
    }
}

fn address(url: &str, why: impl ToString) -> StorageError {
    StorageError::Address { url: url.to_owned(), why: why.to_string() }
}

/// Makes a folder and those above it, durably: each parent of a new one is synced.
fn create_folder(path: &std::path::Path) -> std::io::Result<()> {
    let path = std::path::absolute(path)?;
    let first_new = path.ancestors().take_while(|folder| !folder.exists()).count();
    std::fs::create_dir_all(&path)?;
    for parent in path.ancestors().skip(1).take(first_new) {
        std::fs::File::open(parent)?.sync_all()?;
    }
    Ok(())
}

fn delete_empty_folders(folder: &std::path::Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            delete_empty_folders(&entry.path());
        }
    }
    // Refused for a folder that is not empty.
    let _ = std::fs::remove_dir(folder);
}
