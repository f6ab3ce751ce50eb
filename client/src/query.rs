//! Queries: built and run.

use basalt_proto::v1::{self, Format};

use crate::{
    answer::{QueryResult, QueryStream},
    call::Call,
    client::Client,
    error::Result,
    expr::{Expr, Filter, OrderBy},
    plan::Plan,
    set::RowSet,
};

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
        let (table, format) = (table.into(), Format::Columns.into());
        Query::of_request(self.clone(), v1::QueryRequest { table, format, ..Default::default() })
    }
}

impl Query {
    pub(crate) fn of_request(client: Client, request: v1::QueryRequest) -> Self {
        Self { client, request }
    }

    /// The request as it will be sent.
    pub(crate) fn message(&self) -> &v1::QueryRequest {
        &self.request
    }

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

    /// Runs the query and gathers the whole answer. Tried again when the server is not available.
    ///
    /// # Errors
    /// What the server objects to, with its place in the request; [`Error::Incomplete`](crate::Error::Incomplete).
    pub async fn collect(self) -> Result<QueryResult> {
        let query = &self;
        self.client.retrying(|call| async move { query.open(call).await?.gather().await }).await
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
        self.client.retrying(|call| self.open(call)).await
    }

    async fn open(&self, call: Call) -> Result<QueryStream> {
        let request = call.request(self.request.clone())?;
        let messages = call.call(call.queries().query(request)).await?;
        QueryStream::open(call, messages).await
    }

    /// How the query runs; with `analyze` it is run.
    ///
    /// # Errors
    /// Those of [`Query::collect`].
    pub async fn explain(self, analyze: bool) -> Result<Plan> {
        let query = &self.request;
        let answer = self.client.retrying(|call| async move {
            let request = v1::ExplainRequest { query: Some(query.clone()), analyze };
            call.call(call.queries().explain(call.request(request)?)).await
        });
        answer.await.map(Plan::from)
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
