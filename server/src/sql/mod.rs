//! The tables as SQL asks for them: each pinned once for a statement, and each query of the engine answered by the
//! coordinator, so that it is complete, or an error, on any number of nodes.

mod asker;
mod buffer;
mod copy;
mod copying;
mod define;
pub(crate) mod numbers;
mod run;
mod statements;
mod stream;
mod system;
pub(crate) mod tasks;
mod transaction;
mod turn;
mod write;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    fs::File,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use basalt_core::{
    error::ErrorKind,
    exec::{Control, Expected, Statistics},
    plan::Plan,
    query::{Filter, Query},
    schema::{DataType, Schema},
    table::Retention,
};
use basalt_proto::v1::{self as pb, ErrorReason};
use basalt_sql::{
    Alteration, Answers, Catalog, Change, Error, Hops, Identity, Input, NewTable, Rows, Sink, Table, Writer,
    Written, async_trait,
    distributed::Nodes,
    system::{Client, ServerRow, ServerTable},
};
use basalt_storage::Deletes;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::{runtime::Handle, time::Instant};

use crate::{
    Config,
    access::{Action, Caller, Object},
    class::Class,
    connection::Connection,
    coordinator::{Pinned, Reach, fresh},
    limits, logged,
    long_threads::lower_priority,
    panics::caught_async,
    peers,
    queries::Entry,
    state::State,
    status::{RequestError, Result},
    trace::{self, Entered},
};

use asker::Asker;
pub(crate) use copying::{Copying, Sender};
pub(crate) use statements::{RowsOfStatement, Running, Statement, bytes_of};
pub(crate) use stream::RowStream;
use transaction::Meaning;
pub(crate) use transaction::Transaction;
use turn::Turn;

/// The threads that plan statements and run what is above the scans.
pub(crate) fn engine(config: &Config) -> std::result::Result<basalt_sql::Engine, crate::Error> {
    let spill = config.cache.as_ref().map(|folder| (folder.join("sql"), limits::SPILL_BYTES));
    let (threads, distribution) = (config.cpu_threads(), config.distribute.into());
    let timeout = config.default_deadline.min(config.max_deadline);
    let options =
        basalt_sql::Options { threads, on_thread_start: lower_priority, spill, distribution, timeout };
    basalt_sql::Engine::new(options).map_err(|error| crate::Error::Start(error.to_string()))
}

/// The tables of one statement.
#[derive(Debug)]
pub(crate) struct Tables {
    state: Arc<State>,
    reach: Arc<Reach>,
    asker: Asker,
    copying: Copying,
    control: Control,
    deadline: Instant,
    runtime: Handle,
    done: Arc<Mutex<Done>>,
}

/// What was read for a statement.
#[derive(Default)]
struct Done {
    versions: BTreeSet<(String, u64)>,
    /// Tables as their names alone mean them.
    current: BTreeMap<String, Pinned>,
    statistics: Statistics,
}

impl fmt::Debug for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Done").field("versions", &self.versions).finish_non_exhaustive()
    }
}

impl Tables {
    /// For a request that is given up at `deadline`, or when its control says so; in a runtime.
    pub(crate) fn new(state: Arc<State>, caller: &Caller, deadline: Instant, control: Control) -> Self {
        let reach = Arc::new(Reach::new(Arc::clone(&state), caller, deadline, control.clone()));
        let asker = Asker {
            caller: caller.clone(),
            connection: 0,
            client: None,
            transaction: None,
            turn: None,
            entry: None,
            trace: reach.trace(),
        };
        let (copying, runtime, done) = (Copying::default(), Handle::current(), Arc::default());
        Self { state, reach, asker, copying, control, deadline, runtime, done }
    }

    /// The same for a connection that may have a transaction open.
    pub(crate) fn of_connection(
        self,
        connection: &Connection,
        transaction: Option<Arc<Transaction>>,
    ) -> Self {
        let client = connection.client().map(|(user, number)| Client { user: user.clone(), number: *number });
        Self { asker: Asker { connection: connection.id(), client, transaction, ..self.asker }, ..self }
    }

    /// The same for a client that may send or take rows of COPY.
    fn copying(self, copying: Copying) -> Self {
        Self { copying, ..self }
    }

    /// The same for a statement whose class is told once it is planned.
    fn in_turn(self, turn: &Arc<Turn>) -> Self {
        Self { asker: Asker { turn: Some(Arc::clone(turn)), ..self.asker }, ..self }
    }

    /// The same for a statement that is listed.
    fn seen_as(self, entry: &Arc<Entry>) -> Self {
        Self { asker: Asker { entry: Some(Arc::clone(entry)), ..self.asker }, ..self }
    }

    fn done(&self) -> MutexGuard<'_, Done> {
        lock(&self.done)
    }

    /// The versions that were read.
    pub(crate) fn versions(&self) -> Vec<pb::TableVersion> {
        let version =
            |(table, version): &(String, u64)| pb::TableVersion { table: table.clone(), version: *version };
        self.done().versions.iter().map(version).collect()
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
        on(&self.runtime, trace::scope(self.reach.trace(), work)).await.map_err(carried)
    }
}

/// Does work of a runtime. What waits for nothing is done here: the way to another thread and back takes longer.
async fn on<T: Send + 'static>(
    runtime: &Handle,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let mut work = Box::pin(caught_async(work));
    let begun = {
        let _entered = runtime.enter();
        work.as_mut().now_or_never()
    };
    match begun {
        Some(done) => done,
        None => runtime.spawn(work).await.unwrap_or_else(|_| Err(RequestError::internal())),
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
            // One that another node has just made may still be on its way here: whoever reads it waits for it.
            Ok(state.tables.names())
        })
        .await
        .map(|mut names| {
            if let Some(transaction) = &self.asker.transaction {
                transaction.names(&mut names);
            }
            names.retain(|name| self.asker.caller.may_see(name));
            names
        })
    }

    async fn pin(&self, table: &str, version: Option<u64>) -> basalt_sql::Result<Arc<dyn Table>> {
        self.asker.authorise(Action::Read, Object::Table(table)).map_err(carried)?;
        let transaction = self.asker.transaction.as_ref();
        let (pinned, has_rows) = match transaction.map_or(Meaning::Outside, |of| of.meaning(table)) {
            Meaning::Made(table, has_rows) => {
                let pinned = self.state.tables.pin_draft(&table).map_err(carried)?;
                if version.is_some_and(|version| version != pinned.number()) {
                    let message = format!(
                        "table {:?} was made by this transaction, and has no older version",
                        table.name()
                    );
                    return Err(carried(RequestError::new(ErrorReason::VersionGone, message)));
                }
                (self.reach.pinned(table, pinned), has_rows)
            }
            Meaning::Nothing => return Err(carried(no_table(table))),
            Meaning::Outside => {
                let (reach, name) = (Arc::clone(&self.reach), table.to_owned());
                (self.on_runtime(async move { reach.find(&name, version).await }).await?, false)
            }
        };
        let is_written = has_rows || self.asker.has_written(&pinned.table);
        {
            let mut done = self.done();
            done.versions.insert((pinned.table.name().to_owned(), pinned.version.number()));
            if version.is_none() {
                done.current.insert(pinned.table.name().to_owned(), pinned.clone());
            }
        }
        Ok(Arc::new(At {
            pinned,
            reach: Arc::clone(&self.reach),
            state: Arc::clone(&self.state),
            asker: self.asker.clone(),
            is_written,
            share: None,
            control: self.control.clone(),
            deadline: self.deadline,
            runtime: self.runtime.clone(),
            done: Arc::clone(&self.done),
        }))
    }

    async fn create_table(&self, table: NewTable, if_not_exists: bool) -> basalt_sql::Result<()> {
        self.create(table, if_not_exists).await
    }

    async fn create_table_as(&self, table: NewTable) -> basalt_sql::Result<Box<dyn Writer>> {
        self.create_as(table).await
    }

    async fn drop_table(&self, table: &str, if_exists: bool) -> basalt_sql::Result<()> {
        self.remove(table, if_exists).await
    }

    async fn views(&self) -> basalt_sql::Result<BTreeMap<String, Arc<str>>> {
        // The tables were asked for before, and with them all that the journal has.
        let mut views = self.state.tables.views();
        views.retain(|name, _| self.asker.caller.may_see(name));
        Ok(views)
    }

    fn sees(&self, table: &str) -> bool {
        self.asker.caller.may_see(table)
    }

    fn not_found(&self, table: &str, writes: bool) {
        self.asker.not_found(&self.state, table, writes);
    }

    async fn create_view(&self, name: &str, sql: &str, replace: bool) -> basalt_sql::Result<()> {
        self.make_view(name, sql, replace).await
    }

    async fn copy_source(&self, path: &str) -> basalt_sql::Result<File> {
        self.source(path)
    }

    async fn copy_sink(&self, path: &str) -> basalt_sql::Result<Box<dyn Sink>> {
        self.sink(path)
    }

    async fn copy_input(&self) -> basalt_sql::Result<Input> {
        if let Some(turn) = &self.asker.turn {
            turn.rest();
        }
        let input = self.copying.input().ok_or_else(basalt_sql::no_client)?;
        input.map_err(carried)
    }

    fn copies_out(&self) -> basalt_sql::Result<()> {
        if matches!(self.copying, Copying::Out) { Ok(()) } else { Err(basalt_sql::no_client()) }
    }

    async fn admit(&self, is_light: bool) -> basalt_sql::Result<()> {
        match &self.asker.turn {
            Some(turn) => turn.planned(is_light).await.map_err(carried),
            None => Ok(()),
        }
    }

    async fn drop_view(&self, name: &str, if_exists: bool) -> basalt_sql::Result<()> {
        self.remove_view(name, if_exists).await
    }

    fn client(&self) -> Option<Client> {
        self.asker.client.clone()
    }

    fn speaks_postgres(&self) -> bool {
        // Its clients alone say who they are.
        self.asker.client.is_some()
    }

    fn nodes(&self) -> Option<Arc<dyn Nodes>> {
        self.state.cluster.as_ref()?;
        Some(Arc::new(tasks::Others::new(&self.reach, self.deadline, self.runtime.clone())))
    }

    async fn server_rows(&self, table: ServerTable) -> basalt_sql::Result<Vec<ServerRow>> {
        self.rows_of_server(table).await.map_err(carried)
    }

    async fn cancel(&self, id: &str) -> basalt_sql::Result<()> {
        let cancelled = peers::cancel(&self.state, &self.asker.caller, id);
        trace::scope(self.reach.trace(), cancelled).await.map_err(carried)
    }

    fn runs_above(&self, operators: &[&str]) {
        self.asker.entry.iter().for_each(|entry| entry.runs_above(operators));
    }

    fn spilled(&self, bytes: u64) {
        self.asker.entry.iter().for_each(|entry| entry.spilled(bytes));
    }

    fn failed(&self, error: &Error) {
        let _entered = Entered::new(self.reach.trace());
        let told = match error {
            error if logged::literals() => error.to_string(),
            Error::Statement(error) => format!("{:?}", error.kind()),
            Error::Tables { error, .. } => {
                let reason = error.downcast_ref::<Carried>().map(|Carried(error)| error.reason());
                reason.unwrap_or("a table").to_owned()
            }
            Error::Internal(message) => logged::text(message).to_owned(),
        };
        tracing::info!(error = told, "a statement that ran at several nodes is run again by this one");
    }
}

/// A table at the version that a statement reads.
#[derive(Clone)]
struct At {
    pinned: Pinned,
    reach: Arc<Reach>,
    state: Arc<State>,
    asker: Asker,
    /// The transaction has changed it, and what that has come to is not to be read before its commit.
    is_written: bool,
    /// Of which node it has the fragments, where it has not all of them.
    share: Option<Arc<str>>,
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

#[async_trait]
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
        let some = self.pinned.cutoff.is_some() || self.is_written;
        if some { Rows::AtMost(rows) } else { Rows::Exactly(rows) }
    }

    fn identity(&self) -> Option<Identity> {
        // What is too old to be read is so at another time only.
        let may_change = self.is_written || self.share.is_some() || self.pinned.version.retention().is_some();
        let (table, version) = (self.pinned.table.id(), self.version());
        (!may_change).then_some(Identity { table, version })
    }

    async fn is_key(&self, column: &str) -> basalt_sql::Result<bool> {
        if self.is_written {
            return Ok(false);
        }
        let Pinned { table, version, cutoff, .. } = &self.pinned;
        let slot = table.schema().index_of(column);
        // What is hidden now may be another part of the version later.
        let slot = slot.filter(|_| cutoff.is_none());
        if let Some(is_key) = slot.and_then(|slot| table.is_key(slot, version.number())) {
            return Ok(is_key);
        }
        if let Some(turn) = &self.asker.turn {
            turn.lengthen().await.map_err(carried)?;
        }
        let mut counts = self.run(Query::counts(column));
        let mut is_key = false;
        while let Some(batch) = counts.next().await {
            is_key = Query::counts_are_equal(&batch?);
        }
        if let Some(slot) = slot {
            table.found_key(slot, version.number(), is_key);
        }
        Ok(is_key)
    }

    fn range(&self, column: &str) -> Option<(i64, i64)> {
        let schema = self.pinned.table.schema();
        let slot = schema.index_of(column)?;
        let data_type = schema.fields()[slot].data_type;
        let is_its_key = matches!(data_type, DataType::Decimal { .. })
            || (data_type.is_integer() && !data_type.is_unsigned());
        if !is_its_key {
            return None;
        }
        let version = &self.pinned.version;
        let mut range = (0, 0);
        for fragment in version.fragments().iter() {
            let (least, greatest) = version.bounds(*fragment, slot)?;
            range = (range.0.min(least), range.1.max(greatest));
        }
        Some(range)
    }

    fn types(&self, query: &Query) -> Option<Vec<DataType>> {
        let plan = Plan::new(&self.pinned.table, &self.pinned.snapshot(), query).ok()?;
        Some(plan.schema().fields().iter().map(|field| field.data_type).collect())
    }

    fn expected(&self, query: &Query) -> Option<Expected> {
        if self.is_written {
            return None;
        }
        let plan = Plan::new(&self.pinned.table, &self.pinned.snapshot(), query).ok()?;
        self.reach.expected(&plan, &self.pinned)
    }

    fn light_bytes(&self, query: &Query) -> Option<u64> {
        if self.is_written {
            return None;
        }
        let plan = Plan::new(&self.pinned.table, &self.pinned.snapshot(), query).ok()?;
        let fragments = self.pinned.fragments_for(plan.filter.as_ref(), &mut Statistics::default());
        let estimate = self.reach.estimate(&plan, &self.pinned, &fragments)?;
        (Class::of(estimate) == Class::Short).then_some(estimate.expected_answer_bytes)
    }

    fn retention(&self) -> Option<Retention> {
        self.pinned.version.retention().map(|retention| Retention::clone(retention))
    }

    fn rewrites(&self) -> bool {
        self.pinned.version.deletes() == Deletes::Rewrite
    }

    fn run(&self, query: Query) -> Answers {
        self.run_with(query, &Hops::default())
    }

    fn run_with(&self, query: Query, hops: &Hops) -> Answers {
        if self.is_written {
            let error = transaction::is_written(self.pinned.table.name());
            return Box::pin(futures_util::stream::iter([Err(carried(error))]));
        }
        run::run(self.clone(), query, hops)
    }

    async fn write(&self, change: Change) -> basalt_sql::Result<Box<dyn Writer>> {
        self.begin_write(change).map_err(carried)
    }

    async fn alter(&self, alterations: Vec<Alteration>, exactly: bool) -> basalt_sql::Result<Written> {
        self.change_columns(alterations, exactly).await
    }

    async fn delete(&self, filter: Option<Filter>) -> basalt_sql::Result<Option<u64>> {
        self.delete_selected(filter).await
    }

    fn is_divisible(&self) -> bool {
        self.has_shares()
    }

    fn shares(&self, nodes: &[Arc<str>]) -> basalt_sql::Result<Vec<Arc<dyn Table>>> {
        self.shared_out(nodes).map_err(carried)
    }

    fn share(&self) -> Option<String> {
        self.share.as_ref().map(ToString::to_string)
    }

    fn part(&self, part: usize, of: usize) -> basalt_sql::Result<Arc<dyn Table>> {
        Ok(self.part_of(part, of))
    }

    fn encode(&self, query: &Query) -> basalt_sql::Result<Vec<u8>> {
        self.encoded(query).map_err(carried)
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
    let no_memory = error.is_of_memory();
    Error::Tables { error: Arc::new(Carried(error)), no_memory }
}

/// What a client is told of an error of SQL.
pub(crate) fn error(error: Error) -> RequestError {
    match error {
        Error::Statement(error) => error.into(),
        Error::Tables { error, .. } => match error.downcast_ref::<Carried>() {
            Some(Carried(error)) => error.clone(),
            None => internal(&error.to_string()),
        },
        Error::Internal(message) => internal(&message),
    }
}

fn internal(message: &str) -> RequestError {
    tracing::error!(error = logged::text(message), "a SQL statement failed");
    RequestError::internal()
}

fn no_table(name: &str) -> RequestError {
    RequestError::new(ErrorReason::TableNotFound, format!("there is no table {name:?}")).at("table")
}

/// The error of a scan that nobody waits for.
fn gone() -> basalt_core::error::Error {
    basalt_core::error::Error::new(ErrorKind::Cancelled, "nobody reads the scan")
}

#[cfg(test)]
mod tests;
