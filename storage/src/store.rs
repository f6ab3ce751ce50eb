//! Places for bytes: a local directory, memory, or a bucket, all through [`ObjectStore`].
//!
//! A local write is durable before it returns: the file is written under a temporary name (`name#1`), synced,
//! then linked (where it must be new) or renamed to its own, and the folders that changed are synced.

use std::{
    fmt,
    ops::Range,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::{
    Error, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload,
    local::LocalFileSystem, memory::InMemory, path::Path,
};

use crate::{
    error::{Result, StorageError},
    limits::CONCURRENT_REQUESTS,
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
}

impl Store {
    /// Opens a store: `memory:` (a new, empty one), `s3://bucket/prefix` (with the options that the variables
    /// `AWS_*` give, such as `AWS_ENDPOINT_URL` and `AWS_ALLOW_HTTP`), or a local directory as a path or a
    /// `file://` address. The directory is made if it is not there.
    ///
    /// # Errors
    /// [`StorageError::Address`] when there can be no such store.
    pub fn open(url: &str) -> Result<Self> {
        match Scheme::of(url)? {
            Scheme::Memory => Ok(Self::in_memory()),
            Scheme::S3 => Self::bucket(url),
            Scheme::Directory(path) => {
                create_folder(&path).map_err(|e| address(url, e))?;
                Self::directory(url, path)
            }
        }
    }

    /// Opens a store that is there: like [`open`](Self::open), but no directory is made.
    ///
    /// # Errors
    /// [`StorageError::Address`].
    pub fn open_existing(url: &str) -> Result<Self> {
        match Scheme::of(url)? {
            Scheme::Memory => Err(address(url, "there is nothing in a new one")),
            Scheme::S3 => Self::bucket(url),
            Scheme::Directory(path) => Self::directory(url, path),
        }
    }

    /// A new store in memory; its clones share it.
    pub fn in_memory() -> Self {
        Self::new(Arc::new(InMemory::new()), "memory:".into())
    }

    fn new(objects: Arc<dyn ObjectStore>, url: String) -> Self {
        Self { objects, root: Path::default(), url, local: None }
    }

    fn directory(url: &str, path: PathBuf) -> Result<Self> {
        let path = path.canonicalize().map_err(|e| address(url, e))?;
        let objects = LocalFileSystem::new_with_prefix(&path).map_err(|e| address(url, e))?.with_fsync(true);
        let mut store = Self::new(Arc::new(objects), path.display().to_string());
        store.local = Some(path);
        Ok(store)
    }

    #[cfg(feature = "s3")]
    fn bucket(url: &str) -> Result<Self> {
        // The HTTP client takes the process's provider; the first to set one is right.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let bucket = object_store::aws::AmazonS3Builder::from_env().with_url(url).build();
        let mut store = Self::new(Arc::new(bucket.map_err(|e| address(url, e))?), String::new());
        let prefix = url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, p)| p);
        store.root = Path::parse(prefix).map_err(|e| address(url, e))?;
        url.trim_end_matches('/').clone_into(&mut store.url);
        Ok(store)
    }

    #[cfg(not(feature = "s3"))]
    fn bucket(url: &str) -> Result<Self> {
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
        Ok(Self { objects: Arc::clone(&self.objects), root, url, local })
    }

    /// Its address, for people: the URL, or the directory.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn place(&self, path: &str) -> Result<Path> {
        let joined =
            if self.root.as_ref().is_empty() { path.to_owned() } else { format!("{}/{path}", self.root) };
        Path::parse(joined).map_err(|e| address(path, e))
    }

    fn error(&self, path: &str, source: Error) -> StorageError {
        StorageError::Store { path: format!("{}/{path}", self.url), source }
    }

    /// A whole file of at most `limit` bytes; `None` when there is none.
    pub(crate) async fn get(&self, path: &str, limit: u64) -> Result<Option<Bytes>> {
        match self.objects.get(&self.place(path)?).await {
            Ok(found) if found.meta.size > limit => Err(self.too_large(path, found.meta.size, limit)),
            Ok(found) => found.bytes().await.map(Some).map_err(|e| self.error(path, e)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(self.error(path, e)),
        }
    }

    /// What the store says of a file without reading it; `None` when there is none.
    pub(crate) async fn mark(&self, path: &str) -> Result<Option<Mark>> {
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

    /// A file that has to be there.
    pub(crate) async fn get_known(&self, path: &str, limit: u64) -> Result<Bytes> {
        self.get(path, limit).await?.ok_or_else(|| self.missing(path))
    }

    fn missing(&self, path: &str) -> StorageError {
        StorageError::corrupt(format!("{}/{path}", self.url), "the file is missing")
    }

    /// The last `bytes` of a file (all of a shorter one), and its size.
    pub(crate) async fn get_end(&self, path: &str, bytes: u64) -> Result<(Bytes, u64)> {
        let options = GetOptions { range: Some(GetRange::Suffix(bytes)), ..GetOptions::default() };
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
        let prefix = self.place(folder)?;
        let listing = match after {
            Some(after) => self.objects.list_with_offset(Some(&prefix), &self.place(after)?),
            None => self.objects.list(Some(&prefix)),
        };
        let skip = self.root.as_ref().len() + usize::from(!self.root.as_ref().is_empty());
        let listed = |meta: ObjectMeta| Listed {
            path: meta.location.as_ref().get(skip..).unwrap_or_default().to_owned(),
            size: meta.size,
            modified: meta.last_modified.into(),
        };
        let mut files: Vec<_> = match listing.map_ok(listed).try_collect().await {
            Ok(files) => files,
            Err(Error::NotFound { .. }) => Vec::new(),
            Err(e) => return Err(self.error(folder, e)),
        };
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    /// The folders right below a folder, from this store's root.
    pub(crate) async fn folders(&self, folder: &str) -> Result<Vec<String>> {
        let prefix = self.place(folder)?;
        let skip = self.root.as_ref().len() + usize::from(!self.root.as_ref().is_empty());
        match self.objects.list_with_delimiter(Some(&prefix)).await {
            Ok(found) => {
                let relative = |path: &Path| path.as_ref().get(skip..).unwrap_or_default().to_owned();
                Ok(found.common_prefixes.iter().map(relative).collect())
            }
            Err(Error::NotFound { .. }) => Ok(Vec::new()),
            Err(e) => Err(self.error(folder, e)),
        }
    }

    /// Removes files; one that is not there is no error. Returns how many there were.
    pub(crate) async fn delete(&self, paths: impl IntoIterator<Item = String>) -> Result<usize> {
        let delete = async |path: String| match self.objects.delete(&self.place(&path)?).await {
            Ok(()) => Ok(1),
            Err(Error::NotFound { .. }) => Ok(0),
            Err(e) => Err(self.error(&path, e)),
        };
        let deletions = stream::iter(paths).map(delete).buffer_unordered(CONCURRENT_REQUESTS);
        deletions.try_fold(0, async |sum, n| Ok(sum + n)).await
    }

    /// Removes what writes that were cut off have left in a local directory and below it: temporary files that
    /// are older than `age`, then folders without anything. Other stores show nothing of such a write.
    pub(crate) async fn delete_leftovers(&self, age: Duration) -> Result<usize> {
        let Some(folder) = self.local.clone() else { return Ok(0) };
        let walk = tokio::task::spawn_blocking(move || delete_leftovers(&folder, age)).await;
        Ok(walk.unwrap_or_default())
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.url).finish()
    }
}

/// What a store says of a file: as long as it stays, so does what the file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    size: u64,
    modified: SystemTime,
    e_tag: Option<String>,
}

/// A file of a listing.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) path: String,
    pub(crate) size: u64,
    pub(crate) modified: SystemTime,
}

impl Listed {
    /// How long ago it was written.
    pub(crate) fn age(&self) -> Duration {
        self.modified.elapsed().unwrap_or_default()
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

fn delete_leftovers(folder: &std::path::Path, age: Duration) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let mut deleted = 0;
    for entry in entries.flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        let old = meta.modified().is_ok_and(|at| at.elapsed().is_ok_and(|passed| passed > age));
        if meta.is_dir() {
            deleted += delete_leftovers(&entry.path(), age);
            // Refused for a folder that is not empty.
            if old && std::fs::remove_dir(entry.path()).is_ok() {
                deleted += 1;
            }
        } else if old && is_leftover(&entry.file_name().to_string_lossy()) {
            deleted += usize::from(std::fs::remove_file(entry.path()).is_ok());
        }
    }
    deleted
}

/// Whether a file name is that of a write under way: it ends with `#` and digits.
fn is_leftover(name: &str) -> bool {
    name.rsplit_once('#').is_some_and(|(_, n)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}
