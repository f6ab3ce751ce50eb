//! The threads that plan and run statements, and the answers that come from them.

use std::{
    any::Any,
    fmt,
    panic::AssertUnwindSafe,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use basalt_core::{
    error::ErrorKind,
    exec::Memory,
    query::Literal,
    schema::{DataType, Schema},
};
use bytes::Bytes;
use datafusion::execution::disk_manager::{DiskManager, DiskManagerBuilder, DiskManagerMode};
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture};
use tokio::{
    runtime::{self, Handle, Runtime},
    sync::{mpsc, oneshot},
    task::AbortHandle,
};

use crate::{
    catalog::Catalog,
    command::{Command, Description},
    copy::CopyForm,
    describe,
    distributed::{self, Borrowed, Distribution, NewTask, RowsOfTask, Tasks},
    error::{Error, Result},
    headings::Naming,
    interruptible::{GIVEN_UP, GivenUp},
    limits,
    located::located,
    plan::{self, Planned},
    plans::Plans,
    spilled::Spilled,
};

/// What an [`Engine`] has.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads that plan and run statements, and parts that a plan is split into.
    pub threads: usize,
    /// Called on each of them before anything else.
    pub on_thread_start: fn(),
    /// Where operators write what memory has no room for, and how many bytes at most; `None`: they fail.
    pub spill: Option<(PathBuf, u64)>,
    /// Which statements run as tasks on all nodes.
    pub distribution: Distribution,
    /// How long a statement may run whose client says nothing: what SHOW tells, for it is the caller who ends it.
    pub timeout: Duration,
}

/// A statement.
#[derive(Debug)]
pub struct Request {
    /// Its text.
    pub sql: String,
    /// The values of `$1`, `$2`, ... or of each `?`.
    pub parameters: Vec<Literal>,
    /// The tables.
    pub catalog: Arc<dyn Catalog>,
    /// What it may hold.
    pub memory: Arc<dyn Memory>,
}

impl Request {
    /// How the answer's columns are called that have no name.
    pub(crate) fn naming(&self) -> Naming {
        if self.catalog.speaks_postgres() { Naming::Short } else { Naming::Text }
    }
}

/// Plans and runs statements.
#[derive(Debug)]
pub struct Engine {
    /// `None` once it is dropped.
    runtime: Option<Runtime>,
    handle: Handle,
    shared: Arc<dyn Sharing>,
}

/// Where [`Shared`] is. Whoever holds an engine in a future must show that it is `Send`, and the compiler goes through all
/// types of DataFusion's session for each such future: behind a trait it need not.
trait Sharing: fmt::Debug + Send + Sync {
    fn get(self: Arc<Self>) -> Arc<Shared>;
}

impl Sharing for Shared {
    fn get(self: Arc<Self>) -> Arc<Shared> {
        self
    }
}

/// What statements share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) disk: Arc<DiskManager>,
    /// Where that writes.
    _spilled: Option<Spilled>,
    pub(crate) base: plan::Base,
    pub(crate) distribution: Distribution,
    pub(crate) timeout: Duration,
    /// Those that run here.
    pub(crate) tasks: Tasks,
    /// Those of statements that were asked before.
    pub(crate) plans: Plans,
}

impl Engine {
    /// Starts its threads.
    ///
    /// # Errors
    /// When there are none to be had, or the folder for what memory has no room for cannot be made.
    pub fn new(options: Options) -> Result<Self> {
        let started = |error: std::io::Error| Error::Internal(error.to_string());
        let spilled = options.spill.as_ref().map(|(folder, _)| Spilled::within(folder));
        let spilled = spilled.transpose().map_err(started)?;
        let mode = match (&spilled, options.spill) {
            (Some(Spilled { folder, .. }), Some((_, bytes))) => {
                let mode = DiskManagerMode::Directories(vec![folder.clone()]);
                DiskManagerBuilder::default().with_mode(mode).with_max_temp_directory_size(bytes)
            }
            _ => DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled),
        };
        let disk = Arc::new(mode.build()?);
        let number = AtomicUsize::new(0);
        let on_thread_start = options.on_thread_start;
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(options.threads.max(1))
            .thread_name_fn(move || format!("basalt-sql-{}", number.fetch_add(1, Ordering::Relaxed)))
            .thread_stack_size(limits::STACK_BYTES)
            .on_thread_start(on_thread_start)
            .enable_time()
            .build()
            .map_err(started)?;
        let threads = options.threads.max(1);
        let (distribution, tasks) = (options.distribution, Tasks::default());
        let timeout = options.timeout;
        let base = plan::Base::new(threads)?;
        let shared = Arc::new(Shared {
            disk,
            _spilled: spilled,
            base,
            distribution,
            timeout,
            tasks,
            plans: Plans::new(),
        });
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime), shared })
    }

    fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared).get()
    }

    /// Plans a statement and begins to run it. Dropping the future or the answer stops the work.
    ///
    /// # Errors
    /// What is wrong with the statement, and what kept it from being run.
    pub async fn query(&self, request: Request) -> Result<Answer> {
        let (head, of_head) = oneshot::channel();
        let (sender, batches) = mpsc::channel(limits::WAITING_BATCHES);
        let (shared, given_up) = (self.shared(), GivenUp::default());
        let task = self.handle.spawn(GIVEN_UP.scope(given_up.clone(), async move {
            let sql = request.sql.clone();
            match located(plan::plan(&shared, request).await, &sql) {
                Ok(Planned { command, shown, mut batches, copied }) => {
                    let columns = (shown.schema().clone(), Arc::clone(shown.arrow()));
                    if head.send(Ok((command, columns, copied))).is_err() {
                        return;
                    }
                    loop {
                        let next = async { Ok(batches.next().await) };
                        let next = AssertUnwindSafe(next).catch_unwind().await;
                        let batch = match next.unwrap_or_else(|panic| Err(of_panic(&*panic))) {
                            Ok(Some(batch)) => {
                                batch.map_err(Error::from).and_then(|batch| shown.batch(&batch))
                            }
                            Ok(None) => break,
                            Err(error) => Err(error),
                        };
                        let is_last = batch.is_err();
                        // An error says that nobody reads the answer any longer.
                        if sender.send(Piece::Batch(batch)).await.is_err() || is_last {
                            return;
                        }
                    }
                    let _ = sender.send(Piece::End).await;
                }
                Err(error) => drop(head.send(Err(error))),
            }
        }));
        let task = AbortOnDrop(task.abort_handle(), given_up);
        let (command, (schema, arrow), copied) = of_head.await.map_err(|_| panicked())??;
        Ok(Answer { command, schema, arrow, copied, batches, ended: false, task: Some(task) })
    }

    /// Plans a statement and says what it takes and gives; it is not run. The values of its parameters are not needed; `types`
    /// are those that the client says they have, in turn.
    ///
    /// # Errors
    /// What is wrong with the statement, and what kept it from being planned.
    pub async fn describe(&self, request: Request, types: Vec<Option<DataType>>) -> Result<Description> {
        let (shared, given_up) = (self.shared(), GivenUp::default());
        let mut task = self.handle.spawn(GIVEN_UP.scope(given_up.clone(), async move {
            let sql = request.sql.clone();
            located(describe::describe(&shared, request, &types).await, &sql)
        }));
        let _abort = AbortOnDrop(task.abort_handle(), given_up);
        (&mut task).await.map_err(|_| panicked())?
    }

    /// How often the plan of a statement that was asked before was used again.
    pub fn plans_reused(&self) -> u64 {
        self.shared().plans.reused()
    }

    /// Whether statements run as tasks, its own and those of other nodes.
    pub fn runs_tasks(&self) -> bool {
        self.shared().distribution != Distribution::Never
    }

    /// Begins a task of another node's statement, whose rows are then asked for. The future says what it has done, once it
    /// is over; dropping it ends the task. `ended` is ready once no more rows are wanted.
    ///
    /// # Errors
    /// Why it is not run here.
    pub async fn begin_task(
        &self,
        task: NewTask,
        borrowed: Borrowed,
        ended: BoxFuture<'static, ()>,
    ) -> Result<BoxFuture<'static, Result<Vec<u8>>>> {
        let shared = self.shared();
        let mut begun =
            self.handle.spawn(async move { distributed::begin(&shared, task, borrowed, ended).await });
        let _abort = AbortOnDrop(begun.abort_handle(), GivenUp::default());
        let told = (&mut begun).await.map_err(|_| panicked())??;
        let mut over = self.handle.spawn(told);
        let abort = AbortOnDrop(over.abort_handle(), GivenUp::default());
        Ok(Box::pin(async move {
            let _abort = abort;
            (&mut over).await.map_err(|_| panicked())?
        }))
    }

    /// Runs a task for one of its partitions. Dropping the rows gives them up.
    pub fn rows_of_task(&self, rows: RowsOfTask) -> EncodedRows {
        let (sender, pieces) = mpsc::channel(limits::WAITING_BATCHES);
        let shared = self.shared();
        let task = self.handle.spawn(async move {
            let last = match distributed::send(&shared, rows, &sender).await {
                Ok(()) => Ok(Bytes::new()),
                Err(error) => Err(error),
            };
            let _ = sender.send(last).await;
        });
        EncodedRows { pieces, ended: false, _task: AbortOnDrop(task.abort_handle(), GivenUp::default()) }
    }
}

/// Rows of a task as they travel: an Arrow IPC stream in pieces. Dropping it gives them up.
#[derive(Debug)]
pub struct EncodedRows {
    pieces: mpsc::Receiver<Result<Bytes>>,
    ended: bool,
    _task: AbortOnDrop,
}

impl EncodedRows {
    /// The next piece; `None`: they are complete.
    ///
    /// # Errors
    /// What kept them from being so.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        if self.ended {
            return Ok(None);
        }
        match self.pieces.recv().await {
            // No other piece is empty.
            Some(Ok(piece)) if piece.is_empty() => {
                self.ended = true;
                Ok(None)
            }
            Some(piece) => piece.map(Some),
            None => Err(panicked()),
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // It may be dropped where nothing may wait.
            runtime.shutdown_background();
        }
    }
}

fn panicked() -> Error {
    Error::Internal("the thread of a statement panicked".to_owned())
}

/// The error of a panic. Arrow has no other way to say that the texts of a batch do not fit into one column.
fn of_panic(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    match text.is_some_and(|text| text.contains("offset overflow")) {
        true => Error::new(
            ErrorKind::MemoryLimit,
            "the texts of a column are longer than 2 GiB in some thousand rows together: ask for shorter ones",
        ),
        false => panicked(),
    }
}

#[derive(Debug)]
struct AbortOnDrop(AbortHandle, GivenUp);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
        self.1.set();
    }
}

#[derive(Debug)]
enum Piece {
    Batch(Result<RecordBatch>),
    /// There are no more.
    End,
}

/// The rows of a statement. Dropping it stops the work.
#[derive(Debug)]
pub struct Answer {
    command: Command,
    schema: Schema,
    arrow: SchemaRef,
    copied: Option<CopyForm>,
    batches: mpsc::Receiver<Piece>,
    ended: bool,
    task: Option<AbortOnDrop>,
}

impl Answer {
    /// What the statement does.
    pub fn command(&self) -> Command {
        self.command
    }

    /// The rows are those of COPY TO STDOUT, which the client takes in this form.
    pub fn copied(&self) -> Option<&CopyForm> {
        self.copied.as_ref()
    }

    /// The columns. Where the client takes lists and intervals, which are texts here, [`Self::arrow`] has them.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The columns as the rows have them.
    pub fn arrow(&self) -> &SchemaRef {
        &self.arrow
    }

    /// The next rows; `None`: the answer is complete.
    ///
    /// # Errors
    /// What kept the statement from being answered: what came before is not an answer.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if self.ended {
            return Ok(None);
        }
        match self.batches.recv().await {
            Some(Piece::Batch(batch)) => batch.map(Some),
            Some(Piece::End) => {
                self.ended = true;
                Ok(None)
            }
            None => Err(panicked()),
        }
    }

    /// Stops the work and gives back what it holds: there are no more rows.
    pub fn end(&mut self) {
        self.ended = true;
        drop(self.task.take());
        let (_, none) = mpsc::channel(1);
        self.batches = none;
    }
}
