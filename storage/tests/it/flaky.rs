//! Objects in memory whose store fails as stores over a network do: before a write, after it, or with the write done
//! later than its error says.

use std::{
    fmt,
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{TryStreamExt as _, stream::BoxStream};
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, memory::InMemory, path::Path,
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

/// What becomes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is done, and said to be.
    None,
    /// It is not done.
    Before,
    /// It is done, and the answer is lost, at once or after a time.
    After,
    Timeout,
    /// It is done some time after it was said to have failed, if its name is free then.
    Late(Duration),
}

type Choose = dyn FnMut(&Path) -> Fault + Send;

/// See the module. A clone is the same store.
#[derive(Clone)]
pub(crate) struct Flaky {
    objects: Arc<InMemory>,
    choose: Arc<Mutex<Box<Choose>>>,
    /// What must be new takes the place of what is there.
    pub(crate) overwrites: Arc<AtomicBool>,
    /// Reads fail as well.
    pub(crate) unreadable: Arc<AtomicBool>,
    /// Files by the ends of their paths, and how many listings are to leave each out: it came while they were made.
    pub(crate) unlisted: Arc<Mutex<Vec<(String, usize)>>>,
}

impl Flaky {
    pub(crate) fn new(choose: impl FnMut(&Path) -> Fault + Send + 'static) -> Self {
        Self {
            objects: Arc::default(),
            choose: Arc::new(Mutex::new(Box::new(choose))),
            overwrites: Arc::default(),
            unreadable: Arc::default(),
            unlisted: Arc::default(),
        }
    }

    pub(crate) fn choose(&self, choose: impl FnMut(&Path) -> Fault + Send + 'static) {
        *self.choose.lock().unwrap() = Box::new(choose);
    }

    fn readable(&self) -> Result<()> {
        if self.unreadable.load(Ordering::Relaxed) { Err(failed()) } else { Ok(()) }
    }
}

/// Faults of the log's files by chance: about one write of two.
pub(crate) fn by_chance(seed: u64) -> impl FnMut(&Path) -> Fault + Send + 'static {
    let mut random = StdRng::seed_from_u64(seed);
    move |path| {
        if !path.as_ref().contains("_delta_log") {
            return Fault::None;
        }
        match random.random_range(0..10) {
            0 => Fault::Before,
            1 => Fault::After,
            2 => Fault::Timeout,
            3 => Fault::Late(Duration::from_millis(random.random_range(0..200))),
            4 => Fault::Late(Duration::from_secs(random.random_range(0..30))),
            _ => Fault::None,
        }
    }
}

fn failed() -> Error {
    Error::Generic { store: "Flaky", source: "the connection broke".into() }
}

impl fmt::Debug for Flaky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Flaky")
    }
}

impl fmt::Display for Flaky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Flaky")
    }
}

#[async_trait]
impl ObjectStore for Flaky {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let overwrites = self.overwrites.load(Ordering::Relaxed);
        let options = if overwrites { PutOptions::default() } else { options };
        let fault = (self.choose.lock().unwrap())(path);
        match fault {
            Fault::None => self.objects.put_opts(path, payload, options).await,
            Fault::Before => Err(failed()),
            Fault::After | Fault::Timeout => {
                let done = self.objects.put_opts(path, payload, options).await;
                if fault == Fault::Timeout {
                    tokio::time::sleep(Duration::from_secs(30)).await;
                }
                done.and(Err(failed()))
            }
            Fault::Late(after) => {
                let (objects, path) = (Arc::clone(&self.objects), path.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    let _ = objects.put_opts(&path, payload, options).await;
                });
                Err(failed())
            }
        }
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.objects.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.readable()?;
        self.objects.get_opts(path, options).await
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.readable()?;
        self.objects.get_ranges(path, ranges).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.objects.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let mut unlisted = self.unlisted.lock().unwrap();
        let left_out: Vec<String> = unlisted.iter().map(|(path, _)| path.clone()).collect();
        unlisted.retain_mut(|(_, listings)| {
            *listings -= 1;
            *listings > 0
        });
        let is_listed = move |file: &ObjectMeta| {
            !left_out.iter().any(|path| file.location.as_ref().ends_with(path.as_str()))
        };
        match self.readable() {
            Ok(()) => {
                let listed = self.objects.list(prefix);
                Box::pin(listed.try_filter(move |file| std::future::ready(is_listed(file))))
            }
            Err(e) => Box::pin(futures_util::stream::once(async { Err(e) })),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.readable()?;
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.objects.copy_opts(from, to, options).await
    }
}
