//! The tasks that this node runs, for its own statements and for those of others: begun when their plan is there, and over
//! when their statement is.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    fmt,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use arrow_schema::SchemaRef;
use basalt_core::{error::ErrorKind, exec::Memory};
use bytes::Bytes;
use datafusion::{
    common::{DataFusionError, config::ConfigOptions},
    execution::{
        SendableRecordBatchStream, SessionState, SessionStateBuilder, TaskContext,
        context::SessionConfig,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    physical_plan::{ExecutionPlan, metrics::MetricsSet},
};
use datafusion_distributed::{
    DistributedExt as _, DistributedTaskContext, ExecuteTaskRequest, MaybeEncoded, ProducerHead,
    SetPlanRequest, TaskKey, TaskMetrics, Worker, WorkerQueryContext, WorkerToCoordinatorMsg,
};
use futures_util::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, select},
    stream,
};
use http::HeaderMap;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};
use uuid::Uuid;

use super::{
    Head, Key, Leaves, NewTask, Nodes, RowsOfTask,
    channel::{self, Channels},
    codec,
    ipc::Writer,
    listed::refused,
    metrics,
};
use crate::{
    engine::Shared,
    error::{Error, Result},
    limits,
    memory::Pool,
};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    running: Mutex<HashMap<Key, Running>>,
    /// Statements that were given up before a task of theirs was over, the last of them: nobody waits for their tasks.
    given_up: Mutex<VecDeque<u128>>,
    /// Told of each that is begun, or given up.
    changed: watch::Sender<()>,
}

impl Default for Inner {
    fn default() -> Self {
        Self { running: Mutex::default(), given_up: Mutex::default(), changed: watch::Sender::new(()) }
    }
}

#[derive(Clone)]
struct Running {
    worker: Worker,
    schema: SchemaRef,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// What tasks are run with.
#[derive(Clone)]
pub(super) struct Of {
    pub(super) runtime: Arc<RuntimeEnv>,
    pub(super) options: Arc<ConfigOptions>,
}

impl fmt::Debug for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Of").finish_non_exhaustive()
    }
}

/// The memory and the disk of one task, or of all that one statement has at its own node.
pub(crate) fn runtime(shared: &Shared, memory: Arc<dyn Memory>) -> Result<Arc<RuntimeEnv>> {
    let runtime = RuntimeEnvBuilder {
        disk_manager: Some(Arc::clone(&shared.disk)),
        ..RuntimeEnvBuilder::new().with_memory_pool(Arc::new(Pool::new(memory)))
    };
    Ok(Arc::new(runtime.build()?))
}

impl Tasks {
    fn running(&self) -> MutexGuard<'_, HashMap<Key, Running>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn given_up(&self) -> MutexGuard<'_, VecDeque<u128>> {
        self.0.given_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a task, whose rows are then asked for by others. The future says what it has done, once it is over; dropping
    /// it ends the task.
    pub(super) async fn begin(
        &self,
        key: Key,
        tasks: u64,
        plan: Arc<dyn ExecutionPlan>,
        channels: Channels,
        ended: BoxFuture<'static, ()>,
    ) -> Result<BoxFuture<'static, Result<TaskMetrics>>> {
        let schema = plan.schema();
        let worker = Worker::from_session_builder(move |context: WorkerQueryContext| {
            let session = session(context, &channels);
            async move { session }
        });
        let request = SetPlanRequest {
            task_key: task_key(key),
            task_count: small(tasks)?,
            plan: MaybeEncoded::Decoded(plan),
            work_unit_feed_declarations: Vec::new(),
            // It finds its neighbours by the registry, and so not by this.
            target_worker_url: channel::url("")?,
            query_start_time_ns: 0,
        };
        let (dropped, gone) = oneshot::channel::<()>();
        let over = select(ended, gone).map(|_| ());
        let messages = stream::once(over).filter_map(|()| std::future::ready(None)).boxed();
        let mut told = worker.coordinator_channel(HeaderMap::new(), request, messages).await?;
        let registered = self.register(key, Running { worker, schema })?;
        Ok(async move {
            let _here = dropped;
            let mut done =
                TaskMetrics { pre_order_plan_metrics: Vec::new(), task_metrics: MetricsSet::new() };
            while let Some(message) = told.next().await {
                if let WorkerToCoordinatorMsg::TaskMetrics(metrics) = message? {
                    done = metrics;
                }
            }
            registered.over();
            Ok(done)
        }
        .boxed())
    }

    fn register(&self, key: Key, task: Running) -> Result<Registered> {
        let mut running = self.running();
        if running.len() >= limits::TASKS {
            let message = format!("{} tasks of statements run here", running.len());
            return Err(Error::new(ErrorKind::MemoryLimit, message));
        }
        match running.entry(key) {
            Entry::Occupied(_) => return Err(refused("it runs already")),
            Entry::Vacant(vacant) => vacant.insert(task),
        };
        drop(running);
        self.0.changed.send_replace(());
        Ok(Registered { tasks: self.clone(), key, is_over: false })
    }

    /// A task, which is waited for: those that ask for its rows are begun at the same time.
    async fn find(&self, key: Key) -> Result<Running> {
        let mut changed = self.0.changed.subscribe();
        let found = async {
            loop {
                if let Some(found) = self.running().get(&key).cloned() {
                    return Some(found);
                }
                if self.given_up().contains(&key.statement) {
                    return None;
                }
                changed.changed().await.ok()?;
            }
        };
        let found = timeout(limits::TASK_WAIT, found).await;
        let missing = || Error::Internal("a task that was not begun, or is over".to_owned());
        found.map_err(|_| missing())?.ok_or_else(missing)
    }

    /// Some partitions of a task's rows.
    pub(super) async fn rows(
        &self,
        key: Key,
        partitions: Range<usize>,
        head: ProducerHead,
    ) -> Result<Vec<SendableRecordBatchStream>> {
        let Running { worker, .. } = self.find(key).await?;
        rows(&worker, key, partitions, head).await
    }

    /// One partition of the rows of a task that another node asks for.
    async fn encoded(
        &self,
        asked: RowsOfTask,
        functions: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let RowsOfTask { key, partition, head } = asked;
        let (partition, Running { worker, schema }) = (small(partition)?, self.find(key).await?);
        let head = match head {
            Head::Own => ProducerHead::None,
            Head::Broadcast(partitions) => {
                ProducerHead::BroadcastExec { output_partitions: small(partitions)? }
            }
            Head::Hash(bytes) => {
                let partitioning = codec::decode_partitioning(&bytes, &schema, functions)?;
                ProducerHead::RepartitionExec { partitioning: MaybeEncoded::Decoded(partitioning) }
            }
        };
        let mut rows = rows(&worker, key, partition..partition + 1, head).await?;
        rows.pop().ok_or_else(|| Error::Internal("a task without rows".to_owned()))
    }
}

async fn rows(
    worker: &Worker,
    key: Key,
    partitions: Range<usize>,
    head: ProducerHead,
) -> Result<Vec<SendableRecordBatchStream>> {
    let request = ExecuteTaskRequest {
        task_key: task_key(key),
        target_partition_start: partitions.start,
        target_partition_end: partitions.end,
        producer_head: head,
    };
    let (rows, _) = worker.execute_task(request).await?;
    Ok(rows)
}

/// A number of partitions or tasks of another node, within what a plan has.
fn small(number: u64) -> Result<usize> {
    let small = usize::try_from(number).ok().filter(|number| *number <= limits::STAGE_PARTITIONS);
    small.ok_or_else(|| refused(format!("{number} partitions or tasks")))
}

fn task_key(key: Key) -> TaskKey {
    TaskKey {
        query_id: Uuid::from_u128(key.statement),
        // They come from a number of this size, or are found nowhere.
        stage_id: usize::try_from(key.stage).unwrap_or(usize::MAX),
        task_number: usize::try_from(key.task).unwrap_or(usize::MAX),
    }
}

/// A task is found until this is dropped.
struct Registered {
    tasks: Tasks,
    key: Key,
    is_over: bool,
}

impl Registered {
    fn over(mut self) {
        self.is_over = true;
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.tasks.running().remove(&self.key);
        if self.is_over {
            return;
        }
        let mut given_up = self.tasks.given_up();
        if !given_up.contains(&self.key.statement) {
            given_up.truncate(limits::TASKS - 1);
            given_up.push_front(self.key.statement);
        }
        drop(given_up);
        self.tasks.0.changed.send_replace(());
    }
}

/// What a task runs in.
fn session(
    mut context: WorkerQueryContext,
    channels: &Channels,
) -> std::result::Result<SessionState, DataFusionError> {
    // Default: one that the task's place in its stage is missing from, and that fails.
    let given = context.builder.config().take().unwrap_or_default();
    // Not all that it comes with: the worker itself is among it, which would hold what holds it.
    let mut config = SessionConfig::from(given.options().as_ref().clone());
    if let Some(place) = given.get_extension::<DistributedTaskContext>() {
        config.set_extension(place);
    }
    let (ours, options) = (&channels.of.options, config.options_mut());
    options.execution = ours.execution.clone();
    options.optimizer = ours.optimizer.clone();
    config.set_distributed_channel_resolver(channels.clone());
    let runtime = Arc::clone(&channels.of.runtime);
    Ok(SessionStateBuilder::new().with_config(config).with_runtime_env(runtime).build())
}

/// What another node's task may use here.
#[derive(Debug)]
pub struct Borrowed {
    /// The nodes that it reads from.
    pub nodes: Arc<dyn Nodes>,
    /// What its leaves read.
    pub leaves: Arc<dyn Leaves>,
    /// What it may hold.
    pub memory: Arc<dyn Memory>,
}

/// Begins a task of another node's statement.
pub(crate) async fn begin(
    shared: &Shared,
    task: NewTask,
    borrowed: Borrowed,
    ended: BoxFuture<'static, ()>,
) -> Result<BoxFuture<'static, Result<Vec<u8>>>> {
    let Borrowed { nodes, leaves, memory } = borrowed;
    let functions = shared.base.functions();
    let plan = codec::decode(&task.plan, functions, &*leaves).await?;
    let of = Of { runtime: runtime(shared, memory)?, options: Arc::clone(shared.base.options()) };
    let (failed, here) = watch::channel(None);
    let channels =
        Channels { nodes, tasks: shared.tasks.clone(), of, functions: Arc::clone(functions), failed };
    let told = shared.tasks.begin(task.key, task.tasks, plan, channels, ended).await?;
    Ok(async move {
        let _here = here;
        told.await.map(|done| metrics::encode(&done))
    }
    .boxed())
}

/// Sends a partition of the rows of a task to another node.
///
/// # Errors
/// Why it is not complete.
pub(crate) async fn send(shared: &Shared, rows: RowsOfTask, to: &mpsc::Sender<Result<Bytes>>) -> Result<()> {
    let mut rows = shared.tasks.encoded(rows, shared.base.functions()).await?;
    let mut writer = Writer::new(&rows.schema())?;
    while let Some(batch) = rows.next().await {
        // An error says that nobody reads them any longer.
        if to.send(Ok(writer.write(&batch?)?)).await.is_err() {
            return Ok(());
        }
    }
    let _ = to.send(Ok(writer.finish()?)).await;
    Ok(())
}
