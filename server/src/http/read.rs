//! Bodies on their way in, and rows of them in one of the formats.
//!
//! Values of CSV and JSON are read as the texts that they are, and those as values of their columns, so that none is
//! rounded or cut.

mod columns;
mod csv;
mod depth;
mod keys;
mod messages;
mod nested;
mod parquet_file;
mod values;

use std::{collections::VecDeque, sync::Arc};

use arrow_array::RecordBatch;
use arrow_json::reader::{Decoder as JsonDecoder, ReaderBuilder as JsonBuilder};
use arrow_schema::{DataType as Arrow, Field as ArrowField, Schema as ArrowSchema};
use axum::body::Body;
use basalt_core::{
    exec::Stop,
    schema::{Field, Schema},
};
use basalt_proto::v1::ErrorReason;
use hyper::body::{Body as _, Bytes};
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use tokio::time::{Instant, timeout_at};

use crate::{
    limits, panics,
    status::{RequestError, Result},
};
pub(crate) use columns::{Start, columns, room};
use csv::{Csv, Scanner};
use depth::Depth;
use messages::Messages;
use nested::Nested;
use parquet_file::ParquetFooter;
use values::values;

/// The next bytes of a body; `None`: it has ended.
pub(super) async fn next(body: &mut Body, deadline: Instant) -> Result<Option<Bytes>> {
    loop {
        let until = deadline.min(Instant::now() + limits::HTTP_IDLE_TIMEOUT);
        let frame = std::future::poll_fn(|context| std::pin::Pin::new(&mut *body).poll_frame(context));
        match timeout_at(until, frame).await {
            Err(_) => {
                let message = "the body of the request did not arrive in time";
                return Err(RequestError::new(ErrorReason::DeadlineExceeded, message));
            }
            Ok(None) => return Ok(None),
            Ok(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Ok(Some(Err(error))) => {
                let message = format!("the body of the request broke off: {error}");
                return Err(RequestError::new(ErrorReason::Cancelled, message));
            }
        }
    }
}

pub(super) fn too_large(what: &str, most: usize) -> RequestError {
    let message = format!("{what} has more than {most} bytes");
    RequestError::new(ErrorReason::MessageTooLarge, message).with("limit_bytes", most as u64)
}

fn invalid(message: impl Into<String>) -> RequestError {
    RequestError::new(ErrorReason::InvalidBatch, message)
}

/// The formats in which rows come, by their media types.
pub(super) const TYPES: [&str; 7] = [
    "application/x-ndjson",
    "application/jsonl",
    "application/x-jsonlines",
    "text/csv",
    "application/vnd.apache.arrow.stream",
    "application/vnd.apache.parquet",
    "application/x-parquet",
];

/// Makes rows of bytes.
pub(crate) struct Decoder {
    kind: Kind,
    /// The columns of the table.
    table: Arc<Schema>,
    /// Those that come, once they are known.
    columns: Option<Vec<String>>,
    rows: VecDeque<RecordBatch>,
    /// What is null in CSV, beside the empty text.
    nulls: Vec<String>,
    /// Ends what takes long.
    stop: Stop,
}

enum Kind {
    Lines(Box<Lines>),
    /// Until its first line is whole: what there is of it.
    CsvHeader(Vec<u8>),
    Csv(Box<Csv>),
    Arrow(Messages),
    Parquet(Vec<u8>),
    /// It is all there.
    ParquetFooter(Box<ParquetFooter>),
    /// It is all there; what it takes while it is read.
    ParquetRows(Box<ParquetRecordBatchReader>, u64),
    Over,
}

impl Decoder {
    /// For a body of one of [`TYPES`].
    pub(crate) fn new(media_type: &str, table: &Arc<Schema>) -> Result<Self> {
        let mut columns = None;
        let kind = match media_type {
            "text/csv" => Kind::CsvHeader(Vec::new()),
            "application/vnd.apache.arrow.stream" => Kind::Arrow(Messages::default()),
            "application/vnd.apache.parquet" | "application/x-parquet" => Kind::Parquet(Vec::new()),
            _ => {
                columns = Some(table.fields().iter().map(|field| field.name.clone()).collect());
                Kind::Lines(Box::new(Lines::new(table)?))
            }
        };
        let (rows, nulls, stop) = (VecDeque::new(), Vec::new(), Stop::default());
        Ok(Self { kind, table: Arc::clone(table), columns, rows, nulls, stop })
    }

    /// The same, where these texts of a CSV are null as well.
    pub(crate) fn with_nulls(self, nulls: Vec<String>) -> Self {
        Self { nulls, ..self }
    }

    /// The same, where somebody else may end it.
    pub(crate) fn with_stop(self, stop: Stop) -> Self {
        Self { stop, ..self }
    }

    /// One that has nothing left.
    pub(crate) fn over() -> Self {
        let table = Arc::new(Schema::of_answer(Vec::new()));
        let (rows, nulls, stop) = (VecDeque::new(), Vec::new(), Stop::default());
        Self { kind: Kind::Over, table, columns: None, rows, nulls, stop }
    }

    /// The names of the columns that come, in their order, once they are known.
    pub(crate) fn columns(&self) -> Option<&Vec<String>> {
        self.columns.as_ref()
    }

    /// Bytes that are kept until more come.
    pub(crate) fn held(&self) -> u64 {
        match &self.kind {
            Kind::Parquet(bytes) | Kind::CsvHeader(bytes) => bytes.len() as u64,
            Kind::Lines(lines) => {
                (lines.rest.len() + lines.waiting.len() + lines.pending + lines.nested.held()) as u64
            }
            Kind::Csv(csv) => csv.held(),
            Kind::Arrow(messages) => messages.unread.len() as u64 + messages.reader.held(),
            Kind::ParquetFooter(footer) => footer.bytes(),
            Kind::ParquetRows(_, bytes) => *bytes,
            Kind::Over => 0,
        }
    }

    /// Takes bytes in.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        caught(|| self.take_in(bytes))
    }

    /// The body has ended. From here on [`held`](Self::held) counts what [`finish`](Self::finish) takes first, so that it can
    /// be had before.
    pub(crate) fn close(&mut self) -> Result<()> {
        caught(|| self.look())
    }

    /// The body has ended, and is read.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let ended = caught(|| self.end());
        self.told(ended)
    }

    /// What failed; that it was stopped, where it was.
    fn told<T>(&self, done: Result<T>) -> Result<T> {
        if done.is_err() {
            self.stop.check()?;
        }
        done
    }

    /// The next rows that are there, in the order of the columns.
    pub(crate) fn next(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(batch) = self.rows.pop_front() {
            return Ok(Some(batch));
        }
        match &mut self.kind {
            Kind::Lines(lines) if !lines.waiting.is_empty() => {
                let rows = &mut self.rows;
                caught(|| lines.go_on(rows))?;
                Ok(self.rows.pop_front())
            }
            Kind::Csv(csv) if csv.waits() => {
                let rows = &mut self.rows;
                caught(|| csv.go_on(rows))?;
                Ok(self.rows.pop_front())
            }
            Kind::ParquetRows(reader, _) => {
                let next = caught(|| reader.next().transpose().map_err(unread));
                self.told(next)
            }
            _ => Ok(None),
        }
    }

    fn take_in(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.kind {
            Kind::Lines(lines) => lines.take_in(bytes, &mut self.rows),
            Kind::CsvHeader(header) => {
                header.extend_from_slice(bytes);
                match Scanner::default().end_of_record(header) {
                    Some(end) => {
                        self.begin_csv(end)?;
                        match &self.kind {
                            // So many lines without a character stand before it.
                            Kind::CsvHeader(header) if header.len() > limits::CSV_HEADER_BYTES => {
                                Err(too_large("what stands before the first line", limits::CSV_HEADER_BYTES))
                            }
                            _ => Ok(()),
                        }
                    }
                    None if header.len() > limits::CSV_HEADER_BYTES => {
                        Err(too_large("the first line", limits::CSV_HEADER_BYTES))
                    }
                    None => Ok(()),
                }
            }
            Kind::Csv(csv) => csv.take_in(bytes, &mut self.rows),
            Kind::Arrow(messages) => {
                messages.take_in(bytes, &mut self.rows)?;
                if let (None, Some(schema)) = (&self.columns, messages.reader.schema()) {
                    self.columns = Some(names(schema));
                }
                Ok(())
            }
            Kind::Parquet(file) => {
                if file.len() + bytes.len() > limits::HTTP_PARQUET_BYTES {
                    return Err(too_large(
                        "a Parquet file, which is read when all of it is there,",
                        limits::HTTP_PARQUET_BYTES,
                    ));
                }
                file.extend_from_slice(bytes);
                Ok(())
            }
            Kind::ParquetFooter(_) | Kind::ParquetRows(..) | Kind::Over => Ok(()),
        }
    }

    fn look(&mut self) -> Result<()> {
        if let Kind::Parquet(file) = &mut self.kind {
            let footer = ParquetFooter::new(Bytes::from(std::mem::take(file)))?;
            self.kind = Kind::ParquetFooter(Box::new(footer));
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.look()?;
        match std::mem::replace(&mut self.kind, Kind::Over) {
            Kind::Lines(mut lines) => {
                let ended = lines.end(&mut self.rows);
                self.kind = Kind::Lines(lines);
                ended
            }
            Kind::CsvHeader(header) => {
                let end = header.len();
                self.kind = Kind::CsvHeader(header);
                self.begin_csv(end)?;
                match self.kind {
                    Kind::Csv(_) => self.end(),
                    _ => Err(invalid("an empty body: the first line names the columns")),
                }
            }
            Kind::Csv(mut csv) => {
                let ended = csv.end(&mut self.rows);
                self.kind = Kind::Csv(csv);
                ended
            }
            Kind::Arrow(messages) => messages.end(),
            Kind::ParquetFooter(footer) => {
                let file = footer.decode()?;
                self.columns = Some(names(file.schema()));
                let (reader, bytes) = file.rows(&self.stop)?;
                self.kind = Kind::ParquetRows(Box::new(reader), bytes);
                Ok(())
            }
            over => {
                self.kind = over;
                Ok(())
            }
        }
    }

    /// Reads the first line of CSV, which ends there, and what has come behind it.
    fn begin_csv(&mut self, mut end: usize) -> Result<()> {
        let Kind::CsvHeader(bytes) = std::mem::replace(&mut self.kind, Kind::Over) else { return Ok(()) };
        let mut csv = match Csv::begin(&bytes[..end], &self.table, &self.nulls)? {
            Some(csv) => csv,
            None => {
                // Lines without a character may stand before it.
                let from = bytes[end..].iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
                let Some(from) = from.map(|at| end + at) else {
                    self.kind = Kind::CsvHeader(bytes);
                    return Ok(());
                };
                // Its end may not have come yet.
                let Some(whole) = Scanner::default().end_of_record(&bytes[from..]) else {
                    self.kind = Kind::CsvHeader(bytes);
                    return Ok(());
                };
                end = from + whole;
                match Csv::begin(&bytes[..end], &self.table, &self.nulls)? {
                    Some(csv) => csv,
                    None => {
                        self.kind = Kind::CsvHeader(bytes);
                        return Ok(());
                    }
                }
            }
        };
        csv.take_in(&bytes[end..], &mut self.rows)?;
        self.columns = Some(csv.columns());
        self.kind = Kind::Csv(Box::new(csv));
        Ok(())
    }
}

fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    panics::reading(work).unwrap_or_else(|| Err(invalid("the body cannot be read")))
}

fn unread(error: impl std::fmt::Display) -> RequestError {
    invalid(format!("the body cannot be read: {error}"))
}

fn names(schema: &ArrowSchema) -> Vec<String> {
    schema.fields().iter().map(|field| field.name().clone()).collect()
}

/// The columns as they are read first.
fn texts(fields: &[Field]) -> Arc<ArrowSchema> {
    let text = |field: &Field| ArrowField::new(&field.name, Arrow::Utf8, true);
    Arc::new(ArrowSchema::new(fields.iter().map(text).collect::<Vec<_>>()))
}

/// Rows of a batch that has so many columns.
fn batch_rows(columns: usize) -> usize {
    (limits::HTTP_BATCH_VALUES / columns.max(1)).clamp(1, limits::HTTP_BATCH_ROWS)
}

/// Lines of JSON, each an object. They are decoded when their rows are asked for: an empty object has as many values as any other.
struct Lines {
    decoder: JsonDecoder,
    fields: Vec<Field>,
    /// Of the last line, what there is of it.
    rest: Vec<u8>,
    /// Lines that are whole; the decoder has had so many of their bytes.
    waiting: Vec<u8>,
    decoded: usize,
    /// Behind the lines that wait there are none.
    is_ended: bool,
    /// Bytes that the decoder has.
    pending: usize,
    /// Rows before those that the decoder has.
    before: usize,
    depth: Depth,
    nested: Nested,
}

impl Lines {
    fn new(table: &Schema) -> Result<Self> {
        let fields = table.fields().to_vec();
        let builder = JsonBuilder::new(texts(&fields))
            .with_coerce_primitive(true)
            .with_strict_mode(true)
            .with_batch_size(batch_rows(fields.len()));
        let decoder = builder.build_decoder().map_err(unread)?;
        let (rest, waiting, depth, nested) = (Vec::new(), Vec::new(), Depth::new(&fields), Nested::default());
        let (decoded, pending, before) = (0, 0, 0);
        Ok(Self { decoder, fields, rest, waiting, decoded, is_ended: false, pending, before, depth, nested })
    }

    fn take_in(&mut self, bytes: &[u8], rows: &mut VecDeque<RecordBatch>) -> Result<()> {
        self.depth.check(bytes)?;
        let bytes = self.nested.take_in(bytes)?;
        let bytes: &[u8] = &bytes;
        let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else {
            return keep(&mut self.rest, bytes);
        };
        let (whole, rest) = bytes.split_at(end + 1);
        self.waiting.extend_from_slice(&std::mem::take(&mut self.rest));
        self.waiting.extend_from_slice(whole);
        keep(&mut self.rest, rest)?;
        self.go_on(rows)
    }

    /// Decodes the lines that wait until there are rows, or none of them are left.
    fn go_on(&mut self, rows: &mut VecDeque<RecordBatch>) -> Result<()> {
        while self.decoded < self.waiting.len() {
            let taken = self.decoder.decode(&self.waiting[self.decoded..]).map_err(unread)?;
            self.pending += taken;
            self.decoded += taken;
            // It takes no more than a batch at once.
            if self.decoded < self.waiting.len() {
                if taken == 0 && self.decoder.is_empty() {
                    return Err(invalid("the body is no JSON"));
                }
                if self.flush(rows)? {
                    return Ok(());
                }
            }
        }
        (self.waiting, self.decoded) = (Vec::new(), 0);
        if self.decoder.has_partial_record() {
            if self.is_ended {
                return Err(invalid("the body ends within a line"));
            }
            // An object may stand on many lines, but not on any number of them.
            return match self.pending > limits::HTTP_ROW_BYTES {
                true => Err(too_large("a row", limits::HTTP_ROW_BYTES)),
                false => Ok(()),
            };
        }
        if self.is_ended || self.pending >= limits::HTTP_PIECE_BYTES {
            self.flush(rows)?;
        }
        Ok(())
    }

    /// Makes rows of what the decoder has; whether there are any.
    fn flush(&mut self, rows: &mut VecDeque<RecordBatch>) -> Result<bool> {
        self.pending = 0;
        let Some(batch) = self.decoder.flush().map_err(unread)? else { return Ok(false) };
        let before = self.before;
        let place = |row: usize| format!("row {}", before + row + 1);
        rows.push_back(values(batch.columns(), &self.fields, place)?);
        self.before += batch.num_rows();
        Ok(true)
    }

    fn end(&mut self, rows: &mut VecDeque<RecordBatch>) -> Result<()> {
        // The last line may have no end.
        self.waiting.extend_from_slice(&std::mem::take(&mut self.rest));
        self.waiting.push(b'\n');
        self.is_ended = true;
        self.go_on(rows)
    }
}

/// Keeps what is not a whole row yet.
fn keep(rest: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
    if rest.len() + bytes.len() > limits::HTTP_ROW_BYTES {
        return Err(too_large("a row", limits::HTTP_ROW_BYTES));
    }
    rest.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests;
