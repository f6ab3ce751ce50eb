//! Tasks and rows on their way between the nodes, as `datafusion-distributed` asks for them.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use arrow_array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::{
    common::{DataFusionError, Result, exec_err},
    execution::TaskContext,
    physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder},
};
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest, GetWorkerInfoResponse,
    MaybeEncoded, ProducerHead, SetPlanRequest, TaskKey, TaskMetrics, WorkerChannel, WorkerToCoordinatorMsg,
};
use futures_util::{
    FutureExt as _, Stream, StreamExt as _,
    future::{BoxFuture, try_join_all},
    stream::{self, BoxStream},
};
use http::HeaderMap;
use tokio::sync::watch;
use url::Url;

use super::{Head, Key, NewTask, Nodes, RowsOfTask, Tasks, codec, ipc::Reader, metrics, worker::Of};
use crate::error::Error;

/// The way to a node by its name.
pub(super) fn url(node: &str) -> Result<Url> {
    Url::parse(&format!("basalt:{node}")).map_err(|error| DataFusionError::External(Box::new(error)))
}

/// The ways from this node to those of a statement.
#[derive(Clone, Debug)]
pub(super) struct Channels {
    pub(super) nodes: Arc<dyn Nodes>,
    pub(super) tasks: Tasks,
    /// What tasks are run with that this node hands to itself.
    pub(super) of: Of,
    /// All functions, by name.
    pub(super) functions: Arc<TaskContext>,
    /// Told why a task was not begun; who reads from it would wait for it in vain. Where nobody is told any longer, the
    /// statement, or the task that reads, is over or given up.
    pub(super) failed: watch::Sender<Option<Error>>,
}

impl Channels {
    /// What a task answers. Who asked for it may go on to wait where nobody wants it any longer: there it ends.
    async fn unless_given_up<T>(&self, answer: impl Future<Output = crate::Result<T>>) -> crate::Result<T> {
        tokio::select! {
            biased;
            () = self.failed.closed() => Err(given_up()),
            answer = answer => answer,
        }
    }

    /// Ready once nobody wants what is read here any longer.
    fn over(&self) -> BoxFuture<'static, ()> {
        let failed = self.failed.clone();
        async move { failed.closed().await }.boxed()
    }
}

fn given_up() -> Error {
    Error::Internal("a statement that was given up".to_owned())
}

#[async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        Ok(Box::new(Channel { node: url.path().to_owned(), channels: self.clone() }))
    }
}

/// The way to one node.
struct Channel {
    node: String,
    channels: Channels,
}

impl Channel {
    /// Whether it is this one.
    fn is_own(&self) -> bool {
        self.channels.nodes.names().first().is_some_and(|own| **own == *self.node)
    }

    async fn begin(
        &self,
        request: SetPlanRequest,
        ended: BoxFuture<'static, ()>,
    ) -> crate::Result<BoxFuture<'static, crate::Result<TaskMetrics>>> {
        let (key, tasks) = (key(request.task_key), request.task_count as u64);
        if self.is_own() {
            let MaybeEncoded::Decoded(plan) = request.plan else {
                return Err(Error::Internal("an encoded task for this node".to_owned()));
            };
            return self.channels.tasks.begin(key, tasks, plan, self.channels.clone(), ended).await;
        }
        let plan = match request.plan {
            MaybeEncoded::Decoded(plan) => codec::encode(plan, &self.channels.functions)?,
            MaybeEncoded::Encoded(plan) => plan,
        };
        let task = NewTask { key, tasks, plan };
        let told = self.channels.nodes.begin(&self.node, task, ended).await?;
        Ok(async move { told.await.map(|told| metrics::decode(&told)) }.boxed())
    }
}

fn key(key: TaskKey) -> Key {
    let TaskKey { query_id, stage_id, task_number } = key;
    Key { statement: query_id.as_u128(), stage: stage_id as u64, task: task_number as u64 }
}

#[async_trait]
impl WorkerChannel for Channel {
    async fn coordinator_channel(
        &mut self,
        _: HeaderMap,
        request: SetPlanRequest,
        messages: BoxStream<'static, CoordinatorToWorkerMsg>,
        _: ExecutionPlanMetricsSet,
        _: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        // The stream has no messages that our leaves wait for; its end says that the statement is over.
        let ended = messages.for_each(|_| std::future::ready(())).boxed();
        let failed = self.channels.failed.clone();
        let told = self.begin(request, ended).await.inspect_err(|error| {
            failed.send_replace(Some(error.clone()));
        })?;
        let channels = self.channels.clone();
        let told = async move {
            // Who waits for it does so on its own, also for a statement that nobody waits for: what the task holds is let go
            // with this.
            let told = channels.unless_given_up(told).await.inspect_err(|error| {
                failed.send_replace(Some(error.clone()));
            });
            Ok(WorkerToCoordinatorMsg::TaskMetrics(told?))
        };
        let first = stream::iter([Ok(WorkerToCoordinatorMsg::LoadInfoEos)]);
        Ok(first.chain(stream::once(told)).boxed())
    }

    async fn execute_task(
        &mut self,
        _: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        _: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let ExecuteTaskRequest { task_key, target_partition_start, target_partition_end, producer_head } =
            request;
        let (key, partitions) = (key(task_key), target_partition_start..target_partition_end);
        if self.is_own() {
            let rows = self.channels.tasks.rows(key, partitions, producer_head);
            let rows = self.channels.unless_given_up(rows).await?;
            return Ok(rows.into_iter().map(|rows| rows.boxed()).collect());
        }
        let head = match producer_head {
            ProducerHead::None => Head::Own,
            ProducerHead::BroadcastExec { output_partitions } => Head::Broadcast(output_partitions as u64),
            ProducerHead::RepartitionExec { partitioning: MaybeEncoded::Decoded(partitioning) } => {
                Head::Hash(codec::encode_partitioning(&partitioning, &self.channels.functions)?)
            }
            ProducerHead::RepartitionExec { partitioning: MaybeEncoded::Encoded(partitioning) } => {
                Head::Hash(partitioning)
            }
        };
        // Each is a stream of its own, so that one that is not read yet holds up no other. All are asked for at once: what
        // spreads the rows waits until each of its partitions is.
        let asked = partitions.map(|partition| {
            let rows = RowsOfTask { key, partition: partition as u64, head: head.clone() };
            self.channels.nodes.read(&self.node, rows)
        });
        let pieces = self.channels.unless_given_up(try_join_all(asked)).await?;
        let pool = &self.channels.of.runtime.memory_pool;
        let received = pieces.into_iter().map(|pieces| {
            let bytes = MetricBuilder::new(&metrics).global_counter("bytes_received");
            Received {
                pieces,
                reader: Reader::new(pool),
                bytes,
                given_up: self.channels.over(),
                is_over: false,
            }
            .boxed()
        });
        Ok(received.collect())
    }

    async fn get_worker_info(&mut self, _: GetWorkerInfoRequest) -> Result<GetWorkerInfoResponse> {
        exec_err!("nodes tell of themselves elsewhere")
    }
}

/// Rows of another node's task.
struct Received {
    pieces: BoxStream<'static, crate::Result<Bytes>>,
    reader: Reader,
    bytes: Count,
    given_up: BoxFuture<'static, ()>,
    is_over: bool,
}

impl Received {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<crate::Result<Option<RecordBatch>>> {
        loop {
            if let Some(batch) = self.reader.next()? {
                return Poll::Ready(Ok(Some(batch)));
            }
            if self.given_up.poll_unpin(context).is_ready() {
                return Poll::Ready(Err(given_up()));
            }
            let Some(piece) = ready!(self.pieces.poll_next_unpin(context)).transpose()? else {
                self.is_over = true;
                return Poll::Ready(self.reader.finish().map(|()| None));
            };
            self.bytes.add(piece.len());
            self.reader.push(piece)?;
        }
    }
}

impl Stream for Received {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let batch = ready!(self.poll(context));
        self.is_over |= batch.is_err();
        Poll::Ready(batch.map_err(DataFusionError::from).transpose())
    }
}

/// Waits until a task was not begun.
pub(super) async fn failure(failed: &mut watch::Receiver<Option<Error>>) -> Error {
    loop {
        if let Some(error) = failed.borrow_and_update().clone() {
            return error;
        }
        if failed.changed().await.is_err() {
            // Nobody can tell any more.
            poll_fn(|_| Poll::<()>::Pending).await;
        }
    }
}
