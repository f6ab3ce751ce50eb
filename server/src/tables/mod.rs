//! The tables that the server serves: in memory alone, or durable in a store and held in memory.
//!
//! On storage, the store's log is what counts. A write is acknowledged when its version is in the log ([`commit`]); what
//! other nodes commit is followed ([`follow`]); what memory holds is a copy that a start loads again ([`load`]).

#[cfg(feature = "sql")]
mod alter;
mod attach;
mod background;
mod catalog;
mod closed;
mod columns;
mod commit;
mod delete;
mod drafts;
mod elastic;
mod files;
mod follow;
mod fragments;
mod load;
mod locate;
mod older;
mod parting;
mod pins;
#[cfg(feature = "sql")]
mod readable;
mod retention;
mod rewrite;
mod stored;
mod tasks;
#[cfg(test)]
mod tests;
mod tiers;
mod unreadable;
#[cfg(feature = "sql")]
mod update;
mod verify;
mod version;
#[cfg(feature = "sql")]
mod views;
mod volatile;
mod writing;

use std::{
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak},
    time::Duration,
};

use basalt_core::{
    exec::Control,
    fragment::Column,
    schema::Schema,
    table::{Catalog, Retention, Snapshot, Table},
};
use basalt_proto::v1::ErrorReason;
use basalt_sip::Sip;
use basalt_storage::{CatalogLog, Deletes, Request, RowsDigest, Store, TableState};

use futures_util::future::join_all;
use tokio::{
    sync::{Notify, Semaphore},
    time::{Instant, timeout},
};

pub(crate) use background::run;
pub(crate) use commit::{NewRows, Replaces, Written};
pub(crate) use drafts::{Draft, Gone};
use drafts::{in_memory, properties_of};
pub(crate) use elastic::run as run_elastic;
pub(crate) use fragments::Held;
pub(crate) use locate::RowPredicate;
pub(crate) use pins::VersionPin;
use stored::Stored;
pub(crate) use unreadable::run as run_unreadable;
#[cfg(feature = "sql")]
pub(crate) use update::Update;
pub(crate) use verify::{Page as Verified, run as run_verify};
pub(crate) use version::{TableVersion, source};
pub(crate) use writing::{Writing, writing_bytes};

use crate::{
    Config, Error,
    access::Roots,
    cache::{Counts, FragmentCache, Purpose, Told},
    class::Class,
    cpu::Cpu,
    disk::DiskCache,
    environment::Environment,
    limits,
    memory::{Evict, MemoryPool},
    metrics::Metrics,
    moment::Moment,
    request_log::RequestLog,
    status::RequestError,
};

/// What a cluster knows of tables: which node holds what, and who is told of a commit.
#[tonic::async_trait]
pub(crate) trait Peers: fmt::Debug + Send + Sync {
    /// Whether this node holds a fragment of a table.
    fn holds(&self, table: u64, fragment: u32) -> bool;

    /// Whether the work in the background on a table is this node's.
    fn owns(&self, table: u64) -> bool;

    /// The addresses of rows in a version, found by the nodes that hold them; `None`: this one finds them itself.
    async fn find(
        &self,
        table: &Arc<Table>,
        version: u64,
        rows: &RowPredicate,
    ) -> Result<Option<Sip>, RequestError>;

    /// A version was committed, and is not acknowledged yet.
    async fn committed(&self, table: &Table, version: u64);

    /// The catalog has changed, and that is not acknowledged yet. `version` counts its changes.
    async fn catalog_changed(&self, version: u64);
}

/// A server without peers.
#[derive(Debug)]
struct Alone;

#[tonic::async_trait]
impl Peers for Alone {
    fn holds(&self, _: u64, _: u32) -> bool {
        true
    }

    fn owns(&self, _: u64) -> bool {
        true
    }

    async fn find(&self, _: &Arc<Table>, _: u64, _: &RowPredicate) -> Result<Option<Sip>, RequestError> {
        Ok(None)
    }

    async fn committed(&self, _: &Table, _: u64) {}

    async fn catalog_changed(&self, _: u64) {}
}

/// What every table needs of the server.
#[derive(Debug)]
struct Shared {
    environment: Arc<dyn Environment>,
    catalog: Arc<Catalog>,
    memory: Arc<MemoryPool>,
    cache: Arc<FragmentCache>,
    /// `None`: columns are in memory and in the store alone.
    disk: Option<Arc<DiskCache>>,
    /// Bytes that faster forms of columns may take.
    elastic: u64,
    request_log: Arc<RequestLog>,
    cpu: Arc<Cpu>,
    metrics: Arc<Metrics>,
    peers: OnceLock<Arc<dyn Peers>>,
    /// Held by the one table that reads from disk what its start did not wait for.
    late: Semaphore,
    /// Reading of a column that takes more than its part of the memory: one at a time.
    large: Semaphore,
    /// Data files that are written at once.
    files: Semaphore,
    commit_delay: Duration,
    keep: Duration,
    /// Where tables of other writers may be.
    roots: Roots,
    /// A table has another retention: what it hides is freed soon.
    expire_now: Notify,
    /// What is done while no request waits for it.
    background: Arc<tasks::Background>,
}

impl Shared {
    fn now(&self) -> Moment {
        Moment::now(&*self.environment)
    }

    /// The control of work with its share of the memory.
    fn control(&self) -> Control {
        self.memory.control(self.environment.now_micros())
    }

    /// What makes columns faster.
    fn elastic(&self) -> elastic::Elastic<'_> {
        elastic::Elastic {
            cache: &self.cache,
            memory: &self.memory,
            cpu: &self.cpu,
            environment: &self.environment,
            most: self.elastic,
        }
    }

    fn peers(&self) -> &dyn Peers {
        self.peers.get().map_or(&Alone, |peers| &**peers)
    }
}

/// Durable tables.
#[derive(Debug)]
struct Durable {
    log: CatalogLog,
    known: Mutex<catalog::Known>,
    /// By the id of the table.
    tables: RwLock<BTreeMap<u64, Arc<Stored>>>,
    /// Those with columns that their newest versions have no longer.
    older: Mutex<older::Older>,
    /// Those that were dropped or replaced of late.
    parting: Mutex<parting::Parting>,
    /// Those that could not be loaded, by id.
    left_out: Mutex<BTreeMap<u64, unreadable::LeftOut>>,
}

/// See the module. A clone is the same tables.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    shared: Arc<Shared>,
    durable: Option<Arc<Durable>>,
    progress: Arc<load::Loading>,
    /// Held while files are verified: one at a time, for what it takes of memory and of the store.
    verifying: Arc<Semaphore>,
    /// The texts of views, where there is no store that has them.
    #[cfg(feature = "sql")]
    views: Arc<Mutex<views::Views>>,
}

impl Tables {
    /// The tables of a store, or of memory (`memory:`). Nothing is read before [`Tables::load`].
    pub(crate) fn open(
        config: &Config,
        catalog: Arc<Catalog>,
        memory: Arc<MemoryPool>,
        request_log: Arc<RequestLog>,
        cpu: Arc<Cpu>,
        metrics: Arc<Metrics>,
        environment: Arc<dyn Environment>,
    ) -> Result<Self, Error> {
        let durable = match config.store.as_str() {
            "memory:" => None,
            url => {
                let storage = Arc::clone(&environment) as Arc<dyn basalt_storage::Environment>;
                let store = Store::open_in(storage, url).map_err(|e| Error::Start(format!("store: {e}")))?;
                Some(Arc::new(Durable {
                    log: CatalogLog::new(store, config.keep_versions),
                    known: Mutex::default(),
                    tables: RwLock::default(),
                    older: Mutex::default(),
                    parting: Mutex::default(),
                    left_out: Mutex::default(),
                }))
            }
        };
        let (peers, commit_delay, keep) = (OnceLock::new(), config.commit_delay, config.keep_versions);
        // The store's folder is there by now.
        let roots = Roots::new(&config.attach_roots, &config.store, config.secrets.as_deref())?;
        let files = Semaphore::new(limits::FILE_WRITES);
        let expire_now = Notify::new();
        let elastic = config.elastic.of(memory.limit());
        let cache = Arc::<FragmentCache>::default();
        memory.set_cache(Arc::downgrade(&cache) as Weak<dyn Evict>);
        let open = |folder: &PathBuf| {
            DiskCache::open(
                folder,
                config.cache_size,
                Arc::clone(&cache),
                Arc::clone(&metrics),
                Arc::clone(&environment),
            )
        };
        let disk = config.cache.as_ref().and_then(open);
        let shared = Shared {
            environment,
            catalog,
            memory,
            cache,
            disk,
            elastic,
            late: Semaphore::new(1),
            large: Semaphore::new(1),
            request_log,
            cpu,
            metrics,
            peers,
            files,
            commit_delay,
            keep,
            roots,
            expire_now,
            background: Arc::default(),
        };
        let (progress, verifying) = (Arc::default(), Arc::new(Semaphore::new(1)));
        Ok(Self {
            shared: Arc::new(shared),
            durable,
            progress,
            verifying,
            #[cfg(feature = "sql")]
            views: Arc::default(),
        })
    }

    /// The cache on disk, where there is one.
    pub(crate) fn disk(&self) -> Option<&DiskCache> {
        self.shared.disk.as_deref()
    }

    /// Begins a task that no request waits for, which ends when the server stops.
    pub(crate) fn in_background(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.shared.background.spawn(task);
    }

    /// Ends what no request waits for.
    pub(crate) async fn end_background(&self) {
        self.shared.background.end().await;
    }

    /// Lets another server have what this one alone may use. Requests should have ended.
    pub(crate) async fn close(&self) {
        let given_up =
            self.list_stored().into_iter().map(|stored| async move { stored.give_up_pins().await });
        // What is left of them ends with its lease.
        let _ = timeout(limits::CLOSE_TIMEOUT, join_all(given_up)).await;
        if let Some(disk) = &self.shared.disk {
            disk.close().await;
        }
    }

    /// Tells the other nodes of a version that is to be acknowledged, whoever has committed it.
    pub(crate) async fn tell(&self, table: &Table, version: u64) {
        match self.newest_stored(table) {
            Ok(Some(stored)) => stored.acknowledge(version).await,
            _ => self.shared.peers().committed(table, version).await,
        }
    }

    /// Tells it of the cluster; once, before [`Tables::load`].
    pub(crate) fn set_peers(&self, peers: Arc<dyn Peers>) {
        if self.shared.peers.set(peers).is_err() {
            tracing::error!("the peers of the tables are set twice");
        }
    }

    /// Whether tables outlive the process.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable.is_some()
    }

    /// Adds an empty table.
    pub(crate) async fn create(
        &self,
        name: &str,
        schema: Schema,
        retention: Option<Retention>,
        deletes: Deletes,
    ) -> Result<Arc<Table>, RequestError> {
        let Some(durable) = &self.durable else {
            #[cfg(feature = "sql")]
            let _views = self.without_views([name], 0)?;
            let table = || self.shared.catalog.create(name, schema);
            return in_memory(table, retention, deletes);
        };
        let properties = properties_of(retention.as_ref(), deletes);
        let created = durable.log.create(&durable.state(), name, &schema, properties).await;
        let created = self.or_refused(durable, created).await?;
        let version = created.catalog.version();
        let table = self.take_in_own(durable, created).await?;
        self.shared.peers().catalog_changed(version).await;
        Ok(table)
    }

    /// Removes a table; queries that run go on with their snapshot. One that this node could not load has none.
    pub(crate) async fn remove(&self, name: &str) -> Result<Option<Arc<Table>>, RequestError> {
        let table = self.shared.catalog.find(name);
        if let Some(durable) = &self.durable {
            let state = durable.state();
            let known = match state.tables().contains_key(name) {
                true => state,
                false => durable.log.refresh(&state).await?,
            };
            self.changed(durable, durable.log.remove(&known, name).await).await?;
            return Ok(table.ok());
        }
        let table = self.shared.catalog.remove(name)?;
        self.forget(&table);
        Ok(Some(table))
    }

    /// What is known of a table that is gone.
    fn forget(&self, table: &Table) {
        self.shared.request_log.forget(table);
        self.shared.cache.forget_table(table.id());
        self.shared.memory.count_tables(&self.shared.catalog);
    }

    /// Commits rows; they are durable, where the table is, when this returns.
    pub(crate) async fn write(&self, rows: NewRows) -> Result<Written, RequestError> {
        let table = Arc::clone(rows.table());
        match self.stored(&table).map_err(|error| self.of_replaced(&table, error))? {
            Some(stored) => stored.write(rows).await,
            None => {
                let shared = Arc::clone(&self.shared);
                let class = Class::of_write(rows.appender.rows());
                let written = self.shared.cpu.run_as(class, move || commit::in_memory(&shared, rows)).await?;
                self.shared.memory.count_tables(&self.shared.catalog);
                written.map_err(|error| self.of_replaced(&table, error))
            }
        }
    }

    /// How a table is kept; `None`: in memory alone.
    fn stored(&self, table: &Table) -> Result<Option<Arc<Stored>>, RequestError> {
        match self.newest_stored(table)? {
            Some(stored) if !std::ptr::eq(&*stored.table, table) => {
                self.older_of(table).map(Some).ok_or_else(|| columns::other_columns(table))
            }
            stored => Ok(stored),
        }
    }

    /// The same with the columns that the table has now.
    fn newest_stored(&self, table: &Table) -> Result<Option<Arc<Stored>>, RequestError> {
        let Some(durable) = &self.durable else { return Ok(None) };
        let tables = durable.tables.read().unwrap_or_else(PoisonError::into_inner);
        let known = tables.get(&table.id()).cloned();
        drop(tables);
        match known.or_else(|| durable.parting_of(table.id())) {
            Some(stored) => Ok(Some(stored)),
            None => {
                let message = format!("there is no table {:?} any longer", table.name());
                Err(RequestError::new(ErrorReason::TableNotFound, message).at("table"))
            }
        }
    }

    /// A table at a version (`None`: the newest), with all fragments that it has, in memory or not.
    pub(crate) fn pin(
        &self,
        name: &str,
        version: Option<u64>,
    ) -> Result<(Arc<Table>, TableVersion), RequestError> {
        let table = self.shared.catalog.get(name)?;
        let Some(stored) = self.newest_stored(&table)? else {
            let snapshot = table.snapshot_at(version).map_err(|e| e.at("version"))?;
            return Ok((table, TableVersion::InMemory(snapshot)));
        };
        let older = |version: u64| self.older_at(&table, version);
        match (stored.state_at(version), version) {
            (Ok(state), _) => Ok((Arc::clone(&stored.table), TableVersion::Stored(state))),
            (Err(gone), Some(version)) => {
                let (table, state) = older(version).ok_or_else(|| gone.at("version"))?;
                Ok((table, TableVersion::Stored(state)))
            }
            (Err(gone), None) => Err(gone.at("version")),
        }
    }

    /// Makes an older version readable here, if it is kept.
    pub(crate) async fn rebuild(&self, table: &Table, version: u64) -> Result<(), RequestError> {
        match self.newest_stored(table)? {
            Some(_) if self.older_at(table, version).is_some() => Ok(()),
            Some(stored) => {
                if let Some(state) = stored.rebuild(version).await? {
                    self.take_older(&stored, state);
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The newest version of a table in the store that this node knows; `None`: it is in memory alone.
    pub(crate) fn state(&self, table: &Table) -> Option<Arc<TableState>> {
        Some(self.newest_stored(table).ok()??.state())
    }

    /// Some fragments of a version with some columns, all of them in memory; `None` where something is missing.
    pub(crate) fn resident(
        &self,
        table: &Table,
        version: &TableState,
        fragments: &[u32],
        columns: &[usize],
        purpose: Purpose,
    ) -> Result<Option<Snapshot>, RequestError> {
        let stored = self.stored(table)?.ok_or_else(|| in_memory_only(table.name()))?;
        stored.resident(version, fragments, columns, purpose)
    }

    /// Those of some fragments of a version that are in memory with some columns.
    pub(crate) fn resident_of(
        &self,
        table: &Table,
        version: &TableState,
        fragments: &[u32],
        columns: &[usize],
    ) -> Result<Snapshot, RequestError> {
        let stored = self.stored(table)?.ok_or_else(|| in_memory_only(table.name()))?;
        stored.resident_of(version, fragments, columns)
    }

    /// The first of some fragments of a version with some columns: as many as memory has room for at once, and at least
    /// one. The number says how many were read for it.
    pub(crate) async fn wave(
        &self,
        table: &Table,
        version: &TableState,
        fragments: &[u32],
        columns: &[usize],
        purpose: Purpose,
        deadline: Instant,
    ) -> Result<(Snapshot, u32), RequestError> {
        let stored = self.stored(table)?.ok_or_else(|| in_memory_only(table.name()))?;
        let wave = stored.wave(version, fragments, columns, purpose, deadline).await;
        wave.map_err(|error| unreadable::cannot_read(table.name(), stored.attached, error))
    }

    /// What memory holds of the newest version of a table.
    pub(crate) fn held(&self, table: &Table) -> Held {
        match self.newest_stored(table) {
            Ok(Some(stored)) => stored.held(&stored.state()),
            _ => {
                let snapshot = table.snapshot();
                let (fragments, bytes) = (snapshot.fragments().len() as u64, snapshot.bytes() as u64);
                Held { fragments, rows: snapshot.rows(), bytes }
            }
        }
    }

    /// What is told of the columns of some fragments of a version: by fragment, in the order of the columns. Nothing of a
    /// table in memory alone.
    pub(crate) fn elastic(
        &self,
        table: &Table,
        version: &TableState,
        fragments: &[u32],
    ) -> Result<Vec<Vec<Told>>, RequestError> {
        let Some(stored) = self.stored(table)? else { return Ok(Vec::new()) };
        stored.told(version, fragments)
    }

    /// Of all faster forms.
    pub(crate) fn elastic_counts(&self) -> Counts {
        self.shared.cache.counts()
    }

    /// The rows of the newest version of a table that this node knows.
    pub(crate) fn rows(&self, table: &Table) -> u64 {
        match self.newest_stored(table) {
            Ok(Some(stored)) => stored.state().rows(),
            _ => table.snapshot().rows(),
        }
    }

    /// The columns of a table that memory holds.
    pub(crate) fn columns_held(&self, table: &Table) -> Vec<Arc<Column>> {
        match self.newest_stored(table) {
            Ok(Some(_)) => self.shared.cache.columns_of(table.id()),
            _ => {
                let snapshot = table.snapshot();
                snapshot.fragments().iter().flat_map(|fragment| fragment.columns()).cloned().collect()
            }
        }
    }

    fn list_stored(&self) -> Vec<Arc<Stored>> {
        let tables = self.durable.as_ref().map(|durable| &durable.tables);
        let tables = tables.map(|tables| tables.read().unwrap_or_else(PoisonError::into_inner));
        tables.map(|tables| tables.values().cloned().collect()).unwrap_or_default()
    }
}

fn in_memory_only(name: &str) -> RequestError {
    RequestError::new(
        ErrorReason::InvalidStore,
        format!("table {name:?} is in the memory of one server alone"),
    )
}

/// The request of a write that has an id.
pub(crate) fn request(id: &str, digest: RowsDigest, rows: u64) -> Request {
    Request { id: id.to_owned(), digest, rows }
}
