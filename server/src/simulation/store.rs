//! The one store of a simulation: objects in memory behind a network that is slow and fails, before a write took place or
//! after it.

use std::{
    collections::BTreeMap,
    fmt,
    ops::Range,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, memory::InMemory, path::Path,
};
use prost::bytes::Bytes;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use super::{node::Clock, trace::Trace};

/// What all nodes share.
#[derive(Debug, Default)]
pub(super) struct Objects {
    objects: InMemory,
    modified: Mutex<BTreeMap<Path, SystemTime>>,
    /// Of a thousand calls, how many fail.
    failing: Mutex<u32>,
}

impl Objects {
    pub(super) fn fail(&self, failing: u32) {
        *self.failing.lock().unwrap() = failing;
    }

    fn dated(&self, mut meta: ObjectMeta) -> ObjectMeta {
        if let Some(at) = self.modified.lock().unwrap().get(&meta.location) {
            meta.last_modified = (*at).into();
        }
        meta
    }
}

/// The store as a node sees it.
pub(super) struct View {
    shared: Arc<Objects>,
    clock: Clock,
    chance: Mutex<StdRng>,
    trace: Trace,
    node: usize,
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("View")
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("simulated")
    }
}

fn failed() -> Error {
    Error::Generic { store: "simulated", source: "the connection broke".into() }
}

impl View {
    pub(super) fn new(shared: &Arc<Objects>, clock: Clock, seed: u64, trace: &Trace, node: usize) -> Self {
        let chance = Mutex::new(StdRng::seed_from_u64(seed));
        Self { shared: Arc::clone(shared), clock, chance, trace: trace.clone(), node }
    }

    /// Whether a call fails, and how long the way there and back take.
    fn fate(&self, call: &str, path: Option<&Path>) -> (bool, Duration, Duration) {
        let failing = *self.shared.failing.lock().unwrap();
        let mut chance = self.chance.lock().unwrap();
        let fails = chance.random_range(0..1000) < failing;
        let mut time = || {
            let slow = chance.random_range(0..50) == 0;
            Duration::from_millis(chance.random_range(1..if slow { 400 } else { 12 }))
        };
        let (there, back) = (time(), time());
        drop(chance);
        let path = path.map_or("", AsRef::as_ref);
        self.trace.add(self.clock.now(), &format!("node {} {call} {path} {fails} {there:?}", self.node));
        (fails, there, back)
    }

    async fn read<T>(&self, call: &str, path: &Path, read: impl Future<Output = Result<T>>) -> Result<T> {
        let (fails, there, back) = self.fate(call, Some(path));
        tokio::time::sleep(there).await;
        if fails {
            return Err(failed());
        }
        let found = read.await;
        tokio::time::sleep(back).await;
        found
    }
}

#[tonic::async_trait]
impl ObjectStore for View {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let (fails, there, back) = self.fate("put", Some(path));
        let before = fails && self.chance.lock().unwrap().random();
        tokio::time::sleep(there).await;
        if before {
            return Err(failed());
        }
        let create = matches!(options.mode, PutMode::Create);
        let done = self.shared.objects.put_opts(path, payload, options).await;
        if done.is_ok() {
            self.shared.modified.lock().unwrap().insert(path.clone(), self.clock.wall());
        }
        self.trace
            .add(self.clock.now(), &format!("node {} put {path} {create}: {}", self.node, done.is_ok()));
        tokio::time::sleep(back).await;
        if fails { Err(failed()) } else { done }
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.shared.objects.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let mut found = self.read("get", path, self.shared.objects.get_opts(path, options)).await?;
        found.meta = self.shared.dated(found.meta);
        Ok(found)
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.read("ranges", path, self.shared.objects.get_ranges(path, ranges)).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (fails, there, _) = self.fate("delete", None);
        let wait = futures_util::stream::once(async move {
            tokio::time::sleep(there).await;
            if fails { Some(Err(failed())) } else { None }
        });
        let deleted = self.shared.objects.delete_stream(paths);
        wait.filter_map(async |failed| failed).chain(deleted).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (fails, there, _) = self.fate("list", prefix);
        let (shared, prefix) = (Arc::clone(&self.shared), prefix.cloned());
        let listed = async move {
            tokio::time::sleep(there).await;
            if fails {
                return Err(failed());
            }
            let found: Vec<ObjectMeta> = shared.objects.list(prefix.as_ref()).try_collect().await?;
            let found: Vec<_> = found.into_iter().map(|meta| Ok(shared.dated(meta))).collect();
            Ok(futures_util::stream::iter(found))
        };
        futures_util::stream::once(listed).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let path = prefix.cloned().unwrap_or_default();
        let mut found = self.read("folders", &path, self.shared.objects.list_with_delimiter(prefix)).await?;
        found.objects = found.objects.into_iter().map(|meta| self.shared.dated(meta)).collect();
        Ok(found)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.shared.objects.copy_opts(from, to, options).await
    }
}
