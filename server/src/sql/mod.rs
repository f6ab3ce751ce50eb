//! The tables as SQL asks for them: each pinned once for a statement, and each query of the engine answered by the
//! coordinator, so that it is complete, or an error, on any number of nodes.

mod run;
mod statements;
mod stream;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use basalt_core::{
    error::ErrorKind,
    exec::{Control, Statistics},
    plan::Plan,
    query::Query,
    schema::{DataType, Schema},
};
use basalt_proto::v1 as pb;
use basalt_sql::{Answers, Catalog, Error, Rows, Table, async_trait};
use tokio::{runtime::Handle, time::Instant};

use crate::{
    Config,
    access::Caller,
    coordinator::{Pinned, Reach, fresh},
    limits,
    long_threads::lower_priority,
    state::State,
    status::{RequestError, Result},
};

pub(crate) use statements::{RowsOfStatement, Running, Statement};
pub(crate) use stream::RowStream;

/// The threads that plan statements and run what is above the scans. They have the priority of long queries.
pub(crate) fn engine(config: &Config) -> std::result::Result<basalt_sql::Engine, crate::Error> {
    let spill = config.cache.as_ref().map(|folder| (folder.join("sql"), limits::SPILL_BYTES));
    let options =
        basalt_sql::Options { threads: config.cpu_threads(), on_thread_start: lower_priority, spill };
    basalt_sql::Engine::new(options).map_err(|error| crate::Error::Start(error.to_string()))
}

/// The tables of one statement.
#[derive(Debug)]
pub(crate) struct Tables {
    state: Arc<State>,
    reach: Arc<Reach>,
    control: Control,
    deadline: Instant,
    runtime: Handle,
    done: Arc<Mutex<Done>>,
}

/// What was read for a statement.
#[derive(Debug, Default)]
struct Done {
    versions: BTreeMap<(String, u64), ()>,
    statistics: Statistics,
}

impl Tables {
    /// For a request that is given up at `deadline`, or when its control says so; in a runtime.
    pub(crate) fn new(state: Arc<State>, caller: &Caller, deadline: Instant, control: Control) -> Self {
        let reach = Arc::new(Reach::new(Arc::clone(&state), caller, deadline, control.clone()));
        Self { state, reach, control, deadline, runtime: Handle::current(), done: Arc::default() }
    }

    fn done(&self) -> MutexGuard<'_, Done> {
        lock(&self.done)
    }

    /// The versions that were read.
    pub(crate) fn versions(&self) -> Vec<pb::TableVersion> {
        let version =
            |(table, version): &(String, u64)| pb::TableVersion { table: table.clone(), version: *version };
        self.done().versions.keys().map(version).collect()
    }

    /// What the scans did.
    pub(crate) fn statistics(&self) -> Statistics {
        self.done().statistics
    }

    /// Does what waits for the store or for other nodes on the threads that may.
    async fn on_runtime<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> basalt_sql::Result<T> {
        let done = self.runtime.spawn(work).await.unwrap_or_else(|_| Err(RequestError::internal()));
        done.map_err(carried)
    }
}

fn lock(done: &Mutex<Done>) -> MutexGuard<'_, Done> {
    done.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Catalog for Tables {
    async fn tables(&self) -> basalt_sql::Result<Vec<String>> {
        let state = Arc::clone(&self.state);
        self.on_runtime(async move {
            fresh::catalog(&state).await?;
            let mut names: Vec<_> =
                state.catalog.list().iter().map(|table| table.name().to_owned()).collect();
            names.sort_unstable();
            Ok(names)
        })
        .await
    }

    async fn pin(&self, table: &str, version: Option<u64>) -> basalt_sql::Result<Arc<dyn Table>> {
        let (reach, name) = (Arc::clone(&self.reach), table.to_owned());
        let pinned = self.on_runtime(async move { reach.find(&name, version).await }).await?;
        self.done().versions.insert((pinned.table.name().to_owned(), pinned.version.number()), ());
        Ok(Arc::new(At {
            pinned,
            reach: Arc::clone(&self.reach),
            state: Arc::clone(&self.state),
            control: self.control.clone(),
            deadline: self.deadline,
            runtime: self.runtime.clone(),
            done: Arc::clone(&self.done),
        }))
    }
}

/// A table at the version that a statement reads.
#[derive(Clone)]
struct At {
    pinned: Pinned,
    reach: Arc<Reach>,
    state: Arc<State>,
    control: Control,
    deadline: Instant,
    runtime: Handle,
    done: Arc<Mutex<Done>>,
}

impl fmt::Debug for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.pinned.table.name(), self.pinned.version.number())
    }
}

impl Table for At {
    fn name(&self) -> &str {
        self.pinned.table.name()
    }

    fn version(&self) -> u64 {
        self.pinned.version.number()
    }

    fn schema(&self) -> &Schema {
        self.pinned.table.schema()
    }

    fn rows(&self) -> Rows {
        let rows = self.pinned.version.rows();
        // What is too old to be read is among them.
        if self.pinned.cutoff.is_some() { Rows::AtMost(rows) } else { Rows::Exactly(rows) }
    }

    fn types(&self, query: &Query) -> Option<Vec<DataType>> {
        let plan = Plan::new(&self.pinned.table, &self.pinned.snapshot(), query).ok()?;
        Some(plan.schema().fields().iter().map(|field| field.data_type).collect())
    }

    fn run(&self, query: Query) -> Answers {
        run::run(self.clone(), query)
    }
}

/// An error on its way through SQL.
#[derive(Debug)]
struct Carried(RequestError);

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.message())
    }
}

impl std::error::Error for Carried {}

fn carried(error: RequestError) -> Error {
    Error::Tables(Arc::new(Carried(error)))
}

/// What a client is told of an error of SQL.
pub(crate) fn error(error: Error) -> RequestError {
    match error {
        Error::Statement(error) => error.into(),
        Error::Tables(error) => match error.downcast_ref::<Carried>() {
            Some(Carried(error)) => error.clone(),
            None => internal(&error.to_string()),
        },
        Error::Internal(message) => internal(&message),
    }
}

fn internal(message: &str) -> RequestError {
    tracing::error!(error = message, "a SQL statement failed");
    RequestError::internal()
}

/// The error of a scan that nobody waits for.
fn gone() -> basalt_core::error::Error {
    basalt_core::error::Error::new(ErrorKind::Cancelled, "nobody reads the scan")
}
