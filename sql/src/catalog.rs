//! What SQL asks of whoever has the tables.

use std::{fmt, sync::Arc};

use arrow_array::RecordBatch;
use async_trait::async_trait;
use basalt_core::{
    query::Query,
    schema::{DataType, Schema},
};
use futures_util::stream::BoxStream;

use crate::error::Result;

/// The tables of a server.
#[async_trait]
pub trait Catalog: fmt::Debug + Send + Sync {
    /// The names of all tables, ascending.
    ///
    /// # Errors
    /// What kept them from being listed.
    async fn tables(&self) -> Result<Vec<String>>;

    /// One version of a table: the newest that was acknowledged where none is named. A statement asks once for each
    /// table and version that it names, so it reads each of them at one version.
    ///
    /// # Errors
    /// What kept it from being read.
    async fn pin(&self, table: &str, version: Option<u64>) -> Result<Arc<dyn Table>>;
}

/// One version of a table.
#[async_trait]
pub trait Table: fmt::Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// The version.
    fn version(&self) -> u64;

    /// Its columns.
    fn schema(&self) -> &Schema;

    /// How many rows it has.
    fn rows(&self) -> Rows;

    /// Whether no value of a column stands twice, so that rows of other tables may be looked up by it.
    ///
    /// # Errors
    /// What kept it from being found out.
    async fn is_key(&self, column: &str) -> Result<bool>;

    /// The types of a query's columns; `None`: the engine does not take it as it is, so that it is evaluated above.
    fn types(&self, query: &Query) -> Option<Vec<DataType>>;

    /// Runs a query. Its semi-joins and attributes are of the versions that were pinned by their tables' names alone. The
    /// work begins with the first poll and ends when the stream is dropped.
    fn run(&self, query: Query) -> Answers;
}

/// The rows of a query of the engine, in its order.
pub type Answers = BoxStream<'static, Result<RecordBatch>>;

/// The rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// So many.
    Exactly(u64),
    /// Some of these are deleted or too old to be read.
    AtMost(u64),
}

impl Rows {
    /// No fewer than there are.
    pub fn most(self) -> u64 {
        match self {
            Self::Exactly(rows) | Self::AtMost(rows) => rows,
        }
    }
}
