//! Writing rows: all of them visible at once, or none.

use std::{collections::VecDeque, fmt, sync::Arc};

use arrow_array::{Array as _, RecordBatch, cast::AsArray as _};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use basalt_proto::v1::{self, WriteRequest, write_request, write_response};
use prost::Message as _;
use tokio::{sync::mpsc, time};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::{
    call::Call,
    client::Client,
    convert::{batch_to_ipc, batch_to_proto, schema_from_proto},
    error::{Error, Result},
    expr::Filter,
    options::WriteOptions,
};

/// Bytes that a message should have: large enough to pay for itself, small enough to keep both ends busy.
const TARGET_MESSAGE_BYTES: usize = 1 << 20;
/// What a message of a server that does not tell its limits may have.
const DEFAULT_MESSAGE_BYTES: usize = 4 << 20;
/// Rows of a batch for a server that does not tell its limits.
const DEFAULT_BATCH_ROWS: usize = 1 << 20;

/// Rows from which on the schema that an Arrow message says each time is little beside them.
const ARROW_ROWS: usize = 256;

/// How far a write is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Rows sent.
    pub rows_sent: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Rows that the server has read and checked.
    pub rows_acknowledged: u64,
}

/// A finished write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Committed {
    /// The table's version that first shows the rows.
    pub version: u64,
    /// How many rows.
    pub rows: u64,
    /// The rows were there already, from an earlier write with the same request id.
    pub replayed: bool,
    /// How many older rows they took the place of; `None` where that is not known, as of a write that is replayed.
    pub replaced: Option<u64>,
}

/// What a deletion did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deleted {
    /// The first version without the rows.
    pub version: u64,
    /// How many they were.
    pub rows: u64,
}

impl Client {
    /// Deletes the rows that a filter selects, all at once. Asked again after an answer that was lost, it finds
    /// nothing more to delete.
    ///
    /// # Errors
    /// What is wrong with the filter; `TABLE_NOT_FOUND`, `READ_ONLY`, `WRITE_CONFLICT`, and those of any call.
    pub async fn delete(&self, table: &str, filter: Filter) -> Result<Deleted> {
        let request = v1::DeleteRequest { table: table.to_owned(), filter: Some(filter.into()) };
        let call = self.once();
        let answer = call.call(call.ingest().delete(call.request(request)?)).await?;
        Ok(Deleted { version: answer.version, rows: answer.rows })
    }

    /// Opens a write. Nothing is visible before [`Writer::commit`]; a writer that is dropped leaves nothing.
    ///
    /// # Errors
    /// `TABLE_NOT_FOUND`, `COLUMN_NOT_FOUND`, `REQUEST_IN_PROGRESS`, and those of any call.
    ///
    /// ```no_run
    /// # async fn example(client: &basalt_client::Client, batch: arrow_array::RecordBatch) -> basalt_client::Result<()> {
    /// use basalt_client::WriteOptions;
    ///
    /// let mut writer = client.write("flights", WriteOptions::default()).await?;
    /// writer.send(&batch).await?;
    /// let committed = writer.commit().await?;
    /// println!("{} rows are in version {}", committed.rows, committed.version);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn write(&self, table: &str, options: WriteOptions) -> Result<Writer> {
        Writer::open(self.once(), table, options).await
    }

    /// Writes all batches and commits; the columns go by the names in their schema, which all share. Tried
    /// again from the start, with the same request id, when the connection breaks or the server is not
    /// available: no row is ever there twice.
    ///
    /// # Errors
    /// Those of [`Client::write`], [`Writer::send`] and [`Writer::commit`].
    pub async fn write_all(&self, table: &str, batches: &[RecordBatch]) -> Result<Committed> {
        let columns = |batch: &RecordBatch| -> Vec<String> {
            batch.schema_ref().fields().iter().map(|f| f.name().clone()).collect()
        };
        let options =
            WriteOptions { columns: batches.first().map(columns).unwrap_or_default(), ..Default::default() };
        if let Some(other) = batches.iter().map(columns).find(|c| *c != options.columns) {
            let message = format!("batches of different columns: {:?} and {other:?}", options.columns);
            return Err(Error::InvalidBatch(message));
        }
        let options = &options;
        // A write takes as long as its rows do: each try has the deadline for its opening.
        self.repeat(None, |call| async move {
            let mut writer = Writer::open(call, table, options.clone()).await?;
            for batch in batches {
                writer.send(batch).await?;
            }
            writer.commit().await
        })
        .await
    }
}

/// An open write.
pub struct Writer {
    connection: Connection,
    schema: SchemaRef,
    /// The same columns without what is said of them. The server says which nulls are wrong.
    columns: SchemaRef,
    window_bytes: usize,
    max_message_bytes: usize,
    max_batch_rows: usize,
    sequence: u64,
    /// The bytes of the messages under way, oldest first.
    unacknowledged: VecDeque<usize>,
    unacknowledged_bytes: usize,
    progress: Progress,
    on_progress: Option<Box<dyn FnMut(Progress) + Send>>,
}

impl Writer {
    /// Opens a write at the server that a call goes to.
    async fn open(call: Call, table: &str, options: WriteOptions) -> Result<Self> {
        let limits = call.info().await?.limits;
        let (requests, receiver) = mpsc::channel(2);
        let WriteOptions { request_id, columns, replace_by, replace_all } = options;
        let open = v1::Open { table: table.to_owned(), request_id, columns, replace_by, replace_all };
        // The receiver is here, so there is someone to send to.
        let _ = requests.send(WriteRequest { kind: Some(write_request::Kind::Open(open)) }).await;
        let stream = call.unbounded(ReceiverStream::new(receiver))?;
        let responses = call.call(call.ingest().write(stream)).await?;

        let begins_by = call.begins_by();
        let mut connection = Connection { call, requests, responses };
        let opened = time::timeout_at(begins_by, connection.response()).await;
        let write_response::Kind::Opened(opened) = opened.map_err(|_| Error::Deadline)?? else {
            return Err(malformed("a write that does not start with its opening"));
        };
        let schema = schema_from_proto(&opened.schema.ok_or_else(|| malformed("no schema of the table"))?)?;
        let column = |f: &Arc<Field>| Field::new(f.name(), f.data_type().clone(), true);
        let columns = Arc::new(Schema::new(schema.fields().iter().map(column).collect::<Vec<_>>()));
        let at_most = |limit: u64, default| match usize::try_from(limit) {
            Ok(0) | Err(_) => default,
            Ok(limit) => limit,
        };
        let window_bytes = at_most(opened.window_bytes, DEFAULT_MESSAGE_BYTES);
        Ok(Self {
            connection,
            schema,
            columns,
            window_bytes,
            max_message_bytes: at_most(limits.message_bytes, DEFAULT_MESSAGE_BYTES).min(window_bytes),
            max_batch_rows: at_most(u64::from(limits.batch_rows), DEFAULT_BATCH_ROWS),
            sequence: 0,
            unacknowledged: VecDeque::new(),
            unacknowledged_bytes: 0,
            progress: Progress::default(),
            on_progress: None,
        })
    }

    /// The schema, as the server gave it on opening.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How far the write is.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// Calls `f` whenever [`Writer::progress`] changes.
    pub fn on_progress(&mut self, f: impl FnMut(Progress) + Send + 'static) {
        self.on_progress = Some(Box::new(f));
    }

    /// Sends rows, in as many messages as the server's limits ask for, and waits where its window is full.
    ///
    /// # Errors
    /// What the server objects to in this batch or an earlier one; [`Error::InvalidBatch`] when a single row
    /// is larger than a message may be.
    pub async fn send(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = rows_in(batch, TARGET_MESSAGE_BYTES.min(self.max_message_bytes)).min(self.max_batch_rows);
        let mut pieces: Vec<_> = (0..batch.num_rows())
            .step_by(rows)
            .map(|at| batch.slice(at, rows.min(batch.num_rows() - at)))
            .rev()
            .collect();
        while let Some(piece) = pieces.pop() {
            let request = self.batch(&piece)?;
            let bytes = request.encoded_len();
            if bytes <= self.max_message_bytes {
                self.send_message(request, bytes, piece.num_rows()).await?;
            } else if piece.num_rows() > 1 {
                // Rows of very different sizes: the estimate was too low here.
                let half = piece.num_rows() / 2;
                pieces.push(piece.slice(half, piece.num_rows() - half));
                pieces.push(piece.slice(0, half));
            } else {
                let limit = self.max_message_bytes;
                let message = format!("one row takes {bytes} bytes; a message may have {limit}");
                return Err(Error::InvalidBatch(message));
            }
        }
        Ok(())
    }

    fn batch(&self, rows: &RecordBatch) -> Result<WriteRequest> {
        let rows = match as_table(&self.columns, rows) {
            Some(rows) => v1::batch::Rows::ArrowIpc(batch_to_ipc(&rows)?.into()),
            None => v1::batch::Rows::Columns(batch_to_proto(rows)?),
        };
        let batch = v1::Batch { sequence: self.sequence + 1, rows: Some(rows) };
        Ok(WriteRequest { kind: Some(write_request::Kind::Batch(batch)) })
    }

    async fn send_message(&mut self, request: WriteRequest, bytes: usize, rows: usize) -> Result<()> {
        while self.unacknowledged_bytes + bytes > self.window_bytes && !self.unacknowledged.is_empty() {
            self.acknowledgement().await?;
        }
        self.connection.send(request).await?;
        self.sequence += 1;
        self.unacknowledged.push_back(bytes);
        self.unacknowledged_bytes += bytes;
        self.progress.rows_sent += rows as u64;
        self.progress.bytes_sent += bytes as u64;
        self.report();
        Ok(())
    }

    async fn acknowledgement(&mut self) -> Result<()> {
        match self.connection.response().await? {
            write_response::Kind::Ack(ack) => self.acknowledged(ack),
            _ => Err(malformed("something else than an acknowledgement")),
        }
    }

    fn acknowledged(&mut self, ack: v1::Ack) -> Result<()> {
        let expected = self.sequence + 1 - self.unacknowledged.len() as u64;
        let Some(bytes) = self.unacknowledged.pop_front().filter(|_| ack.sequence == expected) else {
            return Err(malformed(format!("batch {} acknowledged, not {expected}", ack.sequence)));
        };
        self.unacknowledged_bytes -= bytes;
        self.progress.rows_acknowledged = ack.rows;
        self.report();
        Ok(())
    }

    fn report(&mut self) {
        if let Some(f) = &mut self.on_progress {
            f(self.progress);
        }
    }

    /// Makes all rows visible at once.
    ///
    /// # Errors
    /// What the server objects to in any batch; `REQUEST_ID_REUSED`, `MEMORY_LIMIT`. After a broken
    /// connection the rows may be there or not: a second write with the same request id tells.
    pub async fn commit(mut self) -> Result<Committed> {
        let commit = v1::Commit { batches: self.sequence, rows: self.progress.rows_sent };
        self.connection.send(WriteRequest { kind: Some(write_request::Kind::Commit(commit)) }).await?;
        loop {
            match self.connection.response().await? {
                write_response::Kind::Ack(ack) => self.acknowledged(ack)?,
                write_response::Kind::Committed(v1::Committed { version, rows, replayed, replaced }) => {
                    if rows != self.progress.rows_sent {
                        return Err(malformed(format!(
                            "{rows} rows committed, {} sent",
                            self.progress.rows_sent
                        )));
                    }
                    return Ok(Committed { version, rows, replayed, replaced });
                }
                write_response::Kind::Opened(_) => return Err(malformed("a write opened twice")),
            }
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("schema", &self.schema).field("progress", &self.progress).finish()
    }
}

/// Both directions of the stream.
struct Connection {
    call: Call,
    requests: mpsc::Sender<WriteRequest>,
    responses: Streaming<v1::WriteResponse>,
}

impl Connection {
    async fn send(&mut self, request: WriteRequest) -> Result<()> {
        if self.requests.send(request).await.is_ok() {
            return Ok(());
        }
        // The server listens no longer: it has said why, behind what is still to be read.
        loop {
            self.response().await?;
        }
    }

    async fn response(&mut self) -> Result<write_response::Kind> {
        match self.responses.message().await.map_err(|status| self.call.error(&status))? {
            Some(response) => response.kind.ok_or_else(|| malformed("an empty message")),
            None => Err(Error::Incomplete),
        }
    }
}

/// Many rows that have the table's own types, under its names: they are sent as they lie in memory. Integers of few bytes on
/// the wire take longer to write and to read than all other work on the way.
fn as_table(columns: &SchemaRef, rows: &RecordBatch) -> Option<RecordBatch> {
    let mut types = rows.columns().iter().zip(columns.fields());
    let is_same = rows.num_columns() == columns.fields().len()
        && types.all(|(array, field)| array.data_type() == field.data_type());
    if rows.num_rows() < ARROW_ROWS || !is_same {
        return None;
    }
    RecordBatch::try_new(Arc::clone(columns), rows.columns().to_vec()).ok()
}

/// How many rows of `batch` make about `bytes` in a message; at least one.
fn rows_in(batch: &RecordBatch, bytes: usize) -> usize {
    let rows = batch.num_rows().max(1);
    let total: usize = batch
        .columns()
        .iter()
        .map(|column| match column.data_type() {
            DataType::Utf8 => {
                let offsets = column.as_string::<i32>().value_offsets();
                let text = offsets.last().zip(offsets.first()).map_or(0, |(end, start)| end - start);
                text.cast_unsigned() as usize + 2 * rows
            }
            DataType::Boolean => rows,
            DataType::Int8 | DataType::Int16 | DataType::UInt8 | DataType::UInt16 => 4 * rows,
            other => other.primitive_width().unwrap_or(8) * rows,
        })
        .sum();
    (bytes / total.div_ceil(rows).max(1)).max(1)
}

fn malformed(message: impl Into<String>) -> Error {
    Error::Malformed(message.into())
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, BooleanArray, Int8Array, Int64Array, StringArray};

    use super::*;

    #[test]
    fn rows_of_the_tables_types_are_sent_as_they_lie() {
        let columns = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, true)]));
        let of = |array: ArrayRef| {
            let batch = RecordBatch::try_from_iter([("a", array)]).unwrap();
            as_table(&columns, &batch).map(|batch| batch.schema().field(0).name().clone())
        };
        assert_eq!(of(Arc::new(Int64Array::from(vec![1; ARROW_ROWS]))), Some("k".to_owned()));
        assert_eq!(of(Arc::new(Int64Array::from(vec![1; ARROW_ROWS - 1]))), None);
        assert_eq!(of(Arc::new(Int8Array::from(vec![1; ARROW_ROWS]))), None);
    }

    #[test]
    fn rows_of_a_message() {
        let check = |column: ArrayRef, bytes, expected| {
            let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
            assert_eq!(rows_in(&batch, bytes), expected, "{batch:?}");
        };
        check(Arc::new(Int64Array::from(vec![1; 100])), 80, 10);
        check(Arc::new(Int8Array::from(vec![1; 100])), 80, 20);
        check(Arc::new(BooleanArray::from(vec![true; 100])), 80, 80);
        check(Arc::new(StringArray::from(vec!["12345678"; 100])), 80, 8);
        check(Arc::new(StringArray::from(vec!["1234567890"; 100]).slice(90, 10)), 120, 10);
        check(Arc::new(StringArray::from(vec!["long".repeat(100); 2])), 80, 1);
        check(Arc::new(Int64Array::from(Vec::<i64>::new())), 80, 10);
    }
}
