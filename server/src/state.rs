//! What all services share.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use basalt_core::{exec::Control, similar, table::Catalog};
use tokio::{sync::Notify, time::Instant};
use tokio_util::task::TaskTracker;

use crate::{
    Config, Error,
    access::{Access, Action, Caller, Object},
    call::Call,
    coordinator::TablesPeers,
    cpu::Cpu,
    environment::Environment,
    limits,
    made::MadeTables,
    membership::Cluster,
    memory::MemoryPool,
    metrics::Metrics,
    peers::Tasks,
    process,
    queries::{Committing, Listed, Queries, Watched},
    readers::Readers,
    reload::Reload,
    request_log::RequestLog,
    sets::Sets,
    status::RequestError,
    tables::{self, Tables},
    tls,
    trace::Traces,
    writes::Writes,
};

/// The tables, the CPU pool, and the limits that requests share.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) cpu: Arc<Cpu>,
    pub(crate) memory: Arc<MemoryPool>,
    pub(crate) sets: Sets,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) request_log: Arc<RequestLog>,
    pub(crate) access: Access,
    /// What the doors of clients are encrypted with; `None`: they are not.
    pub(crate) tls: Option<Arc<tls::Server>>,
    /// The same between nodes.
    pub(crate) peer_tls: Option<Arc<tls::Peers>>,
    /// Says that certificates and keys are to be read again.
    pub(crate) reload: Arc<Notify>,
    pub(crate) writes: Arc<Writes>,
    /// What keys have made of late.
    pub(crate) made: MadeTables,
    pub(crate) readers: Arc<Readers>,
    pub(crate) queries: Arc<Queries>,
    /// What follows requests.
    pub(crate) traces: Arc<Traces>,
    /// Plans and runs statements.
    #[cfg(feature = "sql")]
    pub(crate) sql: basalt_sql::Engine,
    /// The folders below which COPY reads and writes files.
    #[cfg(feature = "sql")]
    pub(crate) copy_roots: Vec<std::path::PathBuf>,
    /// `None`: the server is alone.
    pub(crate) cluster: Option<Arc<Cluster>>,
    tables_peers: Option<Arc<TablesPeers>>,
    /// Runs tasks of other nodes' statements; empty where none are run.
    pub(crate) tasks: OnceLock<Arc<dyn Tasks>>,
    /// Requests under way hold a token of it.
    pub(crate) running: TaskTracker,
    /// The tables are not there yet.
    loading: AtomicBool,
    stopping: AtomicBool,
    pub(crate) started: Instant,
    default_deadline: Duration,
    pub(crate) max_deadline: Duration,
}

impl State {
    /// Fails where somebody may not drop a table. Where he may only because he has made it, and it is empty still, the answer is
    /// the version at which it must be when it goes: not one with rows that come before it does.
    pub(crate) fn may_drop(&self, caller: &Caller, name: &str) -> Result<Option<u64>, RequestError> {
        let own = self.catalog.find(name).ok().and_then(|table| self.made.empty_at(&table, caller));
        caller.may_drop(name, own.is_some())?;
        Ok(own.filter(|_| !caller.allows(Action::Drop, Object::Table(name))))
    }

    /// `name` is that of this node in its cluster; without one the server is alone.
    pub(crate) fn new(
        environment: Arc<dyn Environment>,
        config: &Config,
        name: Option<String>,
    ) -> Result<Self, Error> {
        let limit = config.memory.resolve().map_err(Error::Config)?;
        let memory = Arc::new(MemoryPool::new(limit));
        let catalog = Arc::new(Catalog::with_seed(environment.number()));
        let cpu = Arc::new(Cpu::new(config.cpu_threads(), config.query_permits(), Arc::clone(&environment))?);
        let request_log = Arc::new(RequestLog::new(limits::REQUEST_IDS, limits::REQUEST_ID_AGE));
        let alone = || process::name(config.listen.port());
        let metrics = Arc::new(Metrics::new(&name.clone().unwrap_or_else(alone)));
        let tables = Tables::open(
            config,
            Arc::clone(&catalog),
            Arc::clone(&memory),
            Arc::clone(&request_log),
            Arc::clone(&cpu),
            Arc::clone(&metrics),
            Arc::clone(&environment),
        )?;
        // By which its queries are known to be of this node.
        let instance = environment.number();
        let queries = Queries::new(instance, config.slow_query);
        let traces = Traces::new(queries.numbers(), config, name.as_deref(), &environment)?;
        let peer_tls = config.peer_tls(name.as_deref())?;
        let cluster = name
            .map(|name| Arc::new(Cluster::new((&name, instance), config, &environment, peer_tls.clone())));
        if cluster.is_some() && !tables.is_durable() {
            let message = "store: the nodes of a cluster need one that they share, not memory:";
            return Err(Error::Config(message.to_owned()));
        }
        let tables_peers = cluster.clone().map(|cluster| Arc::new(TablesPeers::new(cluster)));
        if let Some(peers) = &tables_peers {
            tables.set_peers(Arc::clone(peers) as Arc<dyn tables::Peers>);
        }
        Ok(Self {
            catalog,
            loading: AtomicBool::new(tables.is_durable()),
            tables: Arc::new(tables),
            cpu,
            sets: Sets::new(config.kept_sets.of(limit), Arc::clone(&memory)),
            memory,
            metrics,
            request_log,
            access: config.access(&*environment)?,
            tls: config.tls()?,
            peer_tls,
            reload: Arc::default(),
            writes: Writes::new(limits::WRITES, limits::OPEN_WRITES),
            made: MadeTables::default(),
            readers: Readers::new(limit, config.query_permits()),
            queries,
            traces: Arc::new(traces),
            #[cfg(feature = "sql")]
            sql: crate::sql::engine(config)?,
            #[cfg(feature = "sql")]
            copy_roots: config.copy_roots()?,
            cluster,
            tables_peers,
            tasks: OnceLock::new(),
            running: TaskTracker::new(),
            stopping: AtomicBool::new(false),
            started: Instant::now(),
            environment,
            default_deadline: config.default_deadline,
            max_deadline: config.max_deadline,
        })
    }

    /// Tells those of its parts that ask other parts; once, before there are requests.
    pub(crate) fn connect(self: &Arc<Self>) {
        if let Some(peers) = &self.tables_peers {
            peers.set_server(self);
        }
        #[cfg(feature = "sql")]
        if self.sql.runs_tasks() && self.tasks.set(crate::sql::tasks::runner(self)).is_err() {
            tracing::error!("it is said twice who runs tasks");
        }
    }

    /// What is read again when its files change.
    pub(crate) fn reloaded(&self) -> Vec<Arc<dyn Reload>> {
        let server = self.tls.clone().map(|tls| tls as Arc<dyn Reload>);
        let peers = self.peer_tls.clone().map(|tls| tls as Arc<dyn Reload>);
        let keys =
            self.access.keys().cloned().map(|keys| {
                Arc::new(Watched { keys, queries: Arc::clone(&self.queries) }) as Arc<dyn Reload>
            });
        [server, peers, keys].into_iter().flatten().collect()
    }

    /// From now on new requests are refused.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.running.close();
    }

    pub(crate) fn is_loading(&self) -> bool {
        self.loading.load(Ordering::Acquire)
    }

    /// Loads the tables, and looks after them from then on.
    pub(crate) async fn load(&self) -> Result<(), Error> {
        if let Some(cluster) = &self.cluster {
            cluster.find().await;
        }
        self.tables.load().await?;
        self.loading.store(false, Ordering::Release);
        self.tables.in_background(tables::run(Arc::downgrade(&self.tables)));
        self.tables.in_background(tables::run_unreadable(Arc::downgrade(&self.tables)));
        self.tables.in_background(tables::run_verify(Arc::downgrade(&self.tables)));
        self.tables.in_background(tables::run_elastic(Arc::downgrade(&self.tables)));
        Ok(())
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Whether requests are served.
    pub(crate) fn is_ready(&self) -> bool {
        !self.is_stopping() && !self.is_loading()
    }

    /// How often the plan of a SQL statement was used again.
    pub(crate) fn plans_reused(&self) -> u64 {
        #[cfg(feature = "sql")]
        let reused = self.sql.plans_reused();
        #[cfg(not(feature = "sql"))]
        let reused = 0;
        reused
    }

    /// The same error, with the table that may be meant where there is none of a name: of those that the caller may see.
    pub(crate) fn meant(&self, error: RequestError, name: &str, caller: &Caller) -> RequestError {
        if error.reason() != "TABLE_NOT_FOUND" {
            return error;
        }
        let tables = self.catalog.list();
        let seen = tables.iter().map(|table| table.name()).filter(|table| caller.may_see(table));
        let message = format!("{}{}", error.message(), similar::hint(name, seen));
        error.with_message(message)
    }

    /// When a query is given up: the client's deadline within the limit, or the default. One that has passed
    /// already is an error.
    pub(crate) fn deadline(&self, call: &Call) -> Result<Instant, RequestError> {
        let wanted = call.deadline()?.unwrap_or_else(|| call.at() + self.default_deadline);
        let deadline = wanted.min(call.at() + self.max_deadline);
        if Instant::now() < deadline { Ok(deadline) } else { Err(RequestError::deadline()) }
    }

    /// How long a statement has whose client says nothing.
    #[cfg(feature = "sql")]
    pub(crate) fn default_deadline(&self) -> Duration {
        self.default_deadline.min(self.max_deadline)
    }

    /// The same for a client that says how long it waits from now on, or nothing.
    #[cfg(feature = "sql")]
    pub(crate) fn deadline_within(&self, wanted: Option<Duration>) -> Instant {
        Instant::now() + wanted.unwrap_or(self.default_deadline).min(self.max_deadline)
    }

    /// The control of one query, with its share of the memory.
    pub(crate) fn control(&self) -> Control {
        self.memory.control(self.environment.now_micros())
    }

    /// The same for somebody who may hold so much of it.
    pub(crate) fn control_of(&self, caller: &Caller) -> Control {
        self.memory.control_of(caller.account(), self.environment.now_micros())
    }

    /// Lists the query that a call asks for.
    pub(crate) fn list(&self, call: &Call, control: &Control) -> Listed {
        let times = (call.at(), self.environment.now_micros());
        // It writes nothing.
        self.queries.list(call.caller(), call.label(), control, times, Committing::default())
    }
}
