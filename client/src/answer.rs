//! Answers: whole, or as they come.

use std::{
    future::poll_fn,
    io::Cursor,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_schema::SchemaRef;
use basalt_proto::v1::{self, query_response};
use futures_core::{FusedStream, Stream};
use tokio::time::{self, Sleep};
use tonic::Streaming;

use crate::{
    call::Call,
    convert::{batch_from_proto, schema_from_proto},
    error::{Error, Result},
    mirror::all,
    plan::{Statistics, TableVersion},
};

/// A complete answer.
///
/// ```no_run
/// # async fn example(client: &basalt_client::Client) -> basalt_client::Result<()> {
/// let answer = client.query("flights").limit(10).collect().await?;
/// println!("{} rows of version {}, {} us", answer.rows, answer.version, answer.statistics.elapsed_us);
/// for batch in &answer.batches {
///     println!("{batch:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
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
    pub versions: Vec<TableVersion>,
    /// What the query did.
    pub statistics: Statistics,
}

/// An answer as it comes: a [`Stream`] of batches, which is complete when it has ended without an error, and only then. One
/// that is dropped before has the server stop its work.
///
/// ```no_run
/// # async fn example(client: &basalt_client::Client) -> basalt_client::Result<()> {
/// use futures_util::TryStreamExt as _;
///
/// let batches = client.query("flights").stream().await?;
/// let rows = batches.try_fold(0, |rows, batch| async move { Ok(rows + batch.num_rows()) }).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct QueryStream {
    call: Call,
    messages: Streaming<v1::QueryResponse>,
    timeout: Pin<Box<Sleep>>,
    schema: SchemaRef,
    version: u64,
    versions: Vec<TableVersion>,
    rows: u64,
    statistics: Option<Statistics>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Batches come, then a trailer.
    Batches,
    /// The trailer was there, and nothing may be behind it.
    Trailer,
    Complete,
    Failed,
}

impl QueryStream {
    pub(crate) async fn open(call: Call, mut messages: Streaming<v1::QueryResponse>) -> Result<Self> {
        let first = time::timeout_at(call.begins_by(), messages.message()).await;
        let first = first.map_err(|_| Error::Deadline)?.map_err(|status| call.error(&status))?;
        let header = match first.ok_or(Error::Incomplete)?.kind {
            Some(query_response::Kind::Header(header)) => header,
            Some(_) => return Err(malformed("it does not start with its header")),
            None => return Err(malformed("an empty message")),
        };
        let schema = header.schema.ok_or_else(|| malformed("a header without its schema"))?;
        Ok(Self {
            timeout: Box::pin(time::sleep_until(call.give_up_at())),
            call,
            messages,
            schema: schema_from_proto(&schema)?,
            version: header.table_version,
            versions: Vec::new(),
            rows: 0,
            statistics: None,
            state: State::Batches,
        })
    }

    /// The whole answer.
    ///
    /// # Errors
    /// Those of [`QueryStream::next`].
    pub async fn gather(mut self) -> Result<QueryResult> {
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
    pub fn versions(&self) -> &[TableVersion] {
        &self.versions
    }

    /// What the query did, once the answer is complete.
    pub fn statistics(&self) -> Option<&Statistics> {
        self.statistics.as_ref()
    }

    /// The next batch; `None` when the answer is complete. The stream as a [`Stream`] says the same.
    ///
    /// # Errors
    /// [`Error::Incomplete`] when the stream ends early, and after any other error; what the server says;
    /// [`Error::Malformed`].
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if self.state == State::Failed {
            return Err(Error::Incomplete);
        }
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await.transpose()
    }

    /// The next message's content; `None` at the stream's end.
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<query_response::Kind>>> {
        let message = match Pin::new(&mut self.messages).poll_next(cx) {
            Poll::Ready(message) => message,
            Poll::Pending => {
                ready!(self.timeout.as_mut().poll(cx));
                return Poll::Ready(Err(Error::Deadline));
            }
        };
        Poll::Ready(match message {
            None => Ok(None),
            Some(Ok(response)) => response.kind.map(Some).ok_or_else(|| malformed("an empty message")),
            Some(Err(status)) => Err(self.call.error(&status)),
        })
    }

    /// The next batch, whatever went before.
    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<RecordBatch>>> {
        loop {
            let message = ready!(self.poll_message(cx))?;
            let batch = match (self.state, message) {
                (State::Trailer, None) => return Poll::Ready(Ok(None)),
                (State::Trailer, Some(_)) => {
                    return Poll::Ready(Err(malformed("something behind the trailer")));
                }
                (_, None) => return Poll::Ready(Err(Error::Incomplete)),
                (_, Some(query_response::Kind::Batch(batch))) => batch_from_proto(&self.schema, batch)?,
                (_, Some(query_response::Kind::ArrowIpc(bytes))) => batch_from_ipc(&self.schema, &bytes)?,
                (_, Some(query_response::Kind::Header(_))) => {
                    return Poll::Ready(Err(malformed("a second header")));
                }
                (_, Some(query_response::Kind::Trailer(trailer))) => {
                    self.take_trailer(trailer)?;
                    continue;
                }
            };
            self.rows += batch.num_rows() as u64;
            return Poll::Ready(Ok(Some(batch)));
        }
    }

    fn take_trailer(&mut self, trailer: v1::Trailer) -> Result<()> {
        if !trailer.complete || trailer.rows != self.rows {
            let message = format!("{} rows came, its trailer counts {}", self.rows, trailer.rows);
            return Err(malformed(message));
        }
        self.state = State::Trailer;
        self.statistics = Some(trailer.statistics.map(Statistics::from).unwrap_or_default());
        self.versions = all(trailer.versions);
        Ok(())
    }
}

impl Stream for QueryStream {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let stream = self.get_mut();
        if stream.is_terminated() {
            return Poll::Ready(None);
        }
        let batch = ready!(stream.poll_batch(cx));
        match &batch {
            Ok(Some(_)) => {}
            Ok(None) => stream.state = State::Complete,
            Err(_) => (stream.state, stream.statistics) = (State::Failed, None),
        }
        Poll::Ready(batch.transpose())
    }
}

impl FusedStream for QueryStream {
    fn is_terminated(&self) -> bool {
        matches!(self.state, State::Complete | State::Failed)
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
