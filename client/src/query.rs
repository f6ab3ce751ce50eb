//! Queries: built, run, read.

use std::{io::Cursor, sync::Arc};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_schema::SchemaRef;
use basalt_proto::v1::{self, Format, query_response};
use tokio::time;
use tonic::Streaming;

use crate::{
    client::Client,
    convert::{batch_from_proto, schema_from_proto},
    error::{Error, Result},
    expr::{Expr, Filter, OrderBy},
    set::RowSet,
};

/// What a query did: rows and blocks read and pruned, time.
pub type Statistics = v1::Statistics;

/// How a query runs, for people and as data.
pub type Plan = v1::ExplainResponse;

/// A query over one table, being built; [`Query::collect`] or [`Query::stream`] runs it.
///
/// ```no_run
/// # async fn example(client: &basalt_client::Client) -> basalt_client::Result<()> {
/// use basalt_client::{avg, col, count};
///
/// let answer = client
///     .query("flights")
///     .select([col("carrier"), count().alias("n"), avg(col("dep_delay")).alias("delay")])
///     .filter(col("distance").between(500, 1000).and(col("dep_delay").is_not_null()))
///     .group_by([col("carrier")])
///     .having(count().gt(1000))
///     .order_by([col("delay").desc()])
///     .limit(10)
///     .collect()
///     .await?;
/// for batch in &answer.batches {
///     println!("{batch:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Query {
    client: Client,
    request: v1::QueryRequest,
}

impl Client {
    /// A query over `table`: all of its rows and columns by default.
    pub fn query(&self, table: impl Into<String>) -> Query {
        self.query_of(v1::QueryRequest {
            table: table.into(),
            format: Format::Columns.into(),
            ..Default::default()
        })
    }

    /// A query from a request made elsewhere, such as by the SQL front.
    pub fn query_of(&self, request: v1::QueryRequest) -> Query {
        Query { client: self.clone(), request }
    }
}

impl Query {
    /// The columns of the answer. With an aggregate here, or with [`Query::group_by`], there is one row a
    /// group, and every other expression must be one of the keys.
    #[must_use]
    pub fn select(mut self, columns: impl IntoIterator<Item = Expr>) -> Self {
        self.request.select.extend(columns.into_iter().map(Into::into));
        self
    }

    /// Only rows for which it is true. Several filters must all be true.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.request.filter = Some(both(self.request.filter.take(), filter.into()));
        self
    }

    /// Only the rows of a set that [`Query::select_rows`] made.
    #[must_use]
    pub fn rows(self, rows: &RowSet) -> Self {
        self.filter(rows.filter())
    }

    /// The keys of the groups.
    #[must_use]
    pub fn group_by(mut self, keys: impl IntoIterator<Item = Expr>) -> Self {
        self.request.group_by.extend(keys.into_iter().map(v1::Expr::from));
        self
    }

    /// Only groups for which it is true; may hold aggregates.
    #[must_use]
    pub fn having(mut self, filter: Filter) -> Self {
        self.request.having = Some(both(self.request.having.take(), filter.into()));
        self
    }

    /// The order, which may also name columns of the answer. Without it groups come in the order of their
    /// keys, rows in the order of their addresses.
    #[must_use]
    pub fn order_by<K: Into<OrderBy>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.request.order_by.extend(keys.into_iter().map(|k| v1::OrderBy::from(k.into())));
        self
    }

    /// At most so many rows.
    #[must_use]
    pub fn limit(mut self, rows: u64) -> Self {
        self.request.limit = Some(rows);
        self
    }

    /// After leaving out so many.
    #[must_use]
    pub fn offset(mut self, rows: u64) -> Self {
        self.request.offset = rows;
        self
    }

    /// The version to read instead of the newest; one that is gone is an error.
    #[must_use]
    pub fn version(mut self, version: u64) -> Self {
        self.request.version = Some(version);
        self
    }

    /// Has the batches travel as Arrow IPC instead of packed arrays; the answer is the same.
    #[must_use]
    pub fn as_arrow_ipc(mut self) -> Self {
        self.request.format = Format::ArrowIpc.into();
        self
    }

    /// The request as it will be sent.
    pub fn request(&self) -> &v1::QueryRequest {
        &self.request
    }

    /// Runs the query and gathers the whole answer. Tried again when the server is not available.
    ///
    /// # Errors
    /// What the server objects to, with its place in the request; [`Error::Incomplete`].
    pub async fn collect(self) -> Result<QueryResult> {
        self.client.retrying(|| async { self.open().await?.gather().await }).await
    }

    /// Runs the query and gives its batches as they come.
    ///
    /// # Errors
    /// Those of [`Query::collect`].
    ///
    /// ```no_run
    /// # async fn example(client: &basalt_client::Client) -> basalt_client::Result<()> {
    /// let mut stream = client.query("flights").stream().await?;
    /// while let Some(batch) = stream.next().await? {
    ///     println!("{} rows", batch.num_rows());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn stream(self) -> Result<QueryStream> {
        self.client.retrying(|| self.open()).await
    }

    async fn open(&self) -> Result<QueryStream> {
        let client = &self.client;
        let give_up_at = client.give_up_at();
        let messages = client.call(client.queries().query(client.request(self.request.clone()))).await?;
        QueryStream::open(client.clone(), messages, give_up_at).await
    }

    /// How the query runs; with `analyze` it is run.
    ///
    /// # Errors
    /// Those of [`Query::collect`].
    pub async fn explain(self, analyze: bool) -> Result<Plan> {
        let client = &self.client;
        client
            .retrying(|| async {
                let request = v1::ExplainRequest { query: Some(self.request.clone()), analyze };
                client.call(client.queries().explain(client.request(request))).await
            })
            .await
    }

    /// The connection, and the request as it would be sent.
    pub(crate) fn into_parts(self) -> (Client, v1::QueryRequest) {
        (self.client, self.request)
    }
}

fn both(first: Option<v1::Filter>, second: v1::Filter) -> v1::Filter {
    use basalt_proto::v1::filter::Kind;
    match first {
        None => second,
        Some(v1::Filter { kind: Some(Kind::And(mut and)) }) => {
            and.filters.push(second);
            v1::Filter { kind: Some(Kind::And(and)) }
        }
        Some(first) => v1::Filter { kind: Some(Kind::And(v1::And { filters: vec![first, second] })) },
    }
}

/// A complete answer.
#[derive(Clone, Debug)]
pub struct QueryResult {
    /// The columns.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: Vec<RecordBatch>,
    /// How many rows.
    pub rows: u64,
    /// The table's version that was read; 0 of a SQL statement.
    pub version: u64,
    /// The versions that a SQL statement has read.
    pub versions: Vec<v1::TableVersion>,
    /// What the query did.
    pub statistics: Statistics,
}

/// An answer as it comes. It is complete when [`QueryStream::next`] gave `None`, and only then.
#[derive(Debug)]
pub struct QueryStream {
    client: Client,
    messages: Streaming<v1::QueryResponse>,
    give_up_at: time::Instant,
    schema: SchemaRef,
    version: u64,
    versions: Vec<v1::TableVersion>,
    rows: u64,
    statistics: Option<Statistics>,
}

impl QueryStream {
    pub(crate) async fn open(
        client: Client,
        mut messages: Streaming<v1::QueryResponse>,
        give_up_at: time::Instant,
    ) -> Result<Self> {
        let header = match message(&client, &mut messages, give_up_at).await? {
            Some(query_response::Kind::Header(header)) => header,
            Some(_) => return Err(malformed("it does not start with its header")),
            None => return Err(Error::Incomplete),
        };
        let schema =
            schema_from_proto(&header.schema.ok_or_else(|| malformed("a header without its schema"))?)?;
        let version = header.table_version;
        let versions = Vec::new();
        Ok(Self { client, messages, give_up_at, schema, version, versions, rows: 0, statistics: None })
    }

    /// The whole answer.
    pub(crate) async fn gather(mut self) -> Result<QueryResult> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next().await? {
            batches.push(batch);
        }
        let Self { schema, version, versions, statistics, rows, .. } = self;
        let statistics = statistics.unwrap_or_default();
        Ok(QueryResult { schema, version, versions, batches, rows, statistics })
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The table's version that is read.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The versions that a SQL statement has read, once the answer is complete.
    pub fn versions(&self) -> &[v1::TableVersion] {
        &self.versions
    }

    /// What the query did, once the answer is complete.
    pub fn statistics(&self) -> Option<&Statistics> {
        self.statistics.as_ref()
    }

    /// The next batch; `None` when the answer is complete.
    ///
    /// # Errors
    /// [`Error::Incomplete`] when the stream ends early; what the server says; [`Error::Malformed`].
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if self.statistics.is_some() {
            return Ok(None);
        }
        let batch = match message(&self.client, &mut self.messages, self.give_up_at).await? {
            Some(query_response::Kind::Batch(batch)) => batch_from_proto(&self.schema, batch)?,
            Some(query_response::Kind::ArrowIpc(bytes)) => batch_from_ipc(&self.schema, &bytes)?,
            Some(query_response::Kind::Trailer(trailer)) => return self.finish(trailer).await.map(|()| None),
            Some(query_response::Kind::Header(_)) => return Err(malformed("a second header")),
            None => return Err(Error::Incomplete),
        };
        self.rows += batch.num_rows() as u64;
        Ok(Some(batch))
    }

    async fn finish(&mut self, trailer: v1::Trailer) -> Result<()> {
        if !trailer.complete || trailer.rows != self.rows {
            let message = format!("{} rows came, its trailer counts {}", self.rows, trailer.rows);
            return Err(malformed(message));
        }
        if message(&self.client, &mut self.messages, self.give_up_at).await?.is_some() {
            return Err(malformed("something behind the trailer"));
        }
        self.statistics = Some(trailer.statistics.unwrap_or_default());
        self.versions = trailer.versions;
        Ok(())
    }
}

/// The next message's content; `None` at the stream's end.
async fn message(
    client: &Client,
    messages: &mut Streaming<v1::QueryResponse>,
    give_up_at: time::Instant,
) -> Result<Option<query_response::Kind>> {
    let message = time::timeout_at(give_up_at, messages.message()).await.map_err(|_| Error::Deadline)?;
    match message.map_err(|status| client.error(&status))? {
        Some(response) => response.kind.map(Some).ok_or_else(|| malformed("an empty message")),
        None => Ok(None),
    }
}

/// The one batch of an Arrow IPC stream.
fn batch_from_ipc(schema: &SchemaRef, bytes: &[u8]) -> Result<RecordBatch> {
    let mut reader = StreamReader::try_new(Cursor::new(bytes), None).map_err(|e| malformed(e.to_string()))?;
    let batch = reader.next().ok_or_else(|| malformed("an Arrow stream without a batch"))?;
    let batch = batch.map_err(|e| malformed(e.to_string()))?;
    if reader.next().is_some() {
        return Err(malformed("an Arrow stream of several batches"));
    }
    RecordBatch::try_new(Arc::clone(schema), batch.columns().to_vec()).map_err(|e| malformed(e.to_string()))
}

fn malformed(message: impl Into<String>) -> Error {
    Error::Malformed(message.into())
}
