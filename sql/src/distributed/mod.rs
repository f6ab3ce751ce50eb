//! Statements whose work above the scans is large run as tasks on all nodes: joins, groups, sorts and windows of rows that
//! each node reads where they are. `datafusion-distributed` cuts the plan into stages; here is what it does not know: what
//! our leaves are, which node runs which task, how tasks and rows travel, and which operators another node may send.
//!
//! A stage of several tasks has one on each node, and its leaves have of each table the rows that this node is asked for
//! first. A stage of one task is run by the node that coordinates the statement, so that what cannot be shared out (groups
//! that the engine makes, joins that it answers by itself, system tables) is read there as ever, through all nodes.

mod channel;
mod codec;
mod framing;
mod ipc;
mod listed;
mod metrics;
mod planner;
mod retry;
mod worker;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use basalt_core::query::Query;
use bytes::Bytes;
use futures_util::{future::BoxFuture, stream::BoxStream};

pub use worker::Borrowed;

pub(crate) use planner::{Parts, Planner, explained, task_options};
pub(crate) use retry::run;
pub(crate) use worker::{Tasks, begin, runtime, send};

use crate::{catalog::Table, error::Result};

/// Which statements run as tasks on all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// Those whose scans give many rows to what is above them.
    #[default]
    Large,
    /// All that can be, for tests.
    Always,
    /// None.
    Never,
}

/// The nodes that may run tasks of a statement.
#[async_trait]
pub trait Nodes: fmt::Debug + Send + Sync {
    /// The names of those that take tasks now, this one first. They are alive, and of the same build.
    fn names(&self) -> Vec<Arc<str>>;

    /// Hands a task to another node, which has it when this returns. The future says what the task has done, once it is
    /// over; dropping it ends the task. `ended` is ready once no more rows of the task are wanted.
    ///
    /// # Errors
    /// Why the node does not take it.
    async fn begin(
        &self,
        node: &str,
        task: NewTask,
        ended: BoxFuture<'static, ()>,
    ) -> Result<BoxFuture<'static, Result<Vec<u8>>>>;

    /// Has another node run a task for one of its partitions: an Arrow IPC stream in pieces. It is complete where it ends
    /// without an error. Dropping it gives it up.
    ///
    /// # Errors
    /// Why there is none.
    async fn read(&self, node: &str, rows: RowsOfTask) -> Result<BoxStream<'static, Result<Bytes>>>;
}

/// What a node opens for the tasks that others send.
#[async_trait]
pub trait Leaves: fmt::Debug + Send + Sync {
    /// A scan, as [`Table::encode`] wrote it: some rows of one version of a table, and what is asked of them.
    ///
    /// # Errors
    /// Why it is not read here.
    async fn open(&self, leaf: &[u8]) -> Result<(Arc<dyn Table>, Query)>;
}

/// Which task of which statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Another one for each time that a statement is run.
    pub statement: u128,
    /// Its stage.
    pub stage: u64,
    /// The task's number in the stage.
    pub task: u64,
}

/// A task on its way to the node that runs it.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// Which it is.
    pub key: Key,
    /// Tasks of its stage.
    pub tasks: u64,
    /// Its operators.
    pub plan: Vec<u8>,
}

/// A partition of a task's rows that is asked for.
#[derive(Clone, Debug)]
pub struct RowsOfTask {
    /// The task.
    pub key: Key,
    /// The partition.
    pub partition: u64,
    /// What spreads the rows of the task over its partitions.
    pub head: Head,
}

/// What spreads the rows of a task over the partitions that others ask for.
#[derive(Clone, Debug)]
pub enum Head {
    /// Its own operators.
    Own,
    /// All rows go to all tasks of the next stage, so many partitions together.
    Broadcast(u64),
    /// Each row goes to one, by an encoded partitioning.
    Hash(Vec<u8>),
}
