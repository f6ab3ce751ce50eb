//! What COPY reads, piece by piece: files, or what a client sends. Records of CSV are those that `basalt load` finds.

use std::{
    fmt,
    fs::File,
    io::{self, Read},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow_array::{ArrayRef, RecordBatch, builder::BinaryBuilder, cast::AsArray as _};
use arrow_schema::{DataType, Field, Schema as ArrowSchema, SchemaRef};
use basalt_core::{error::ErrorKind, exec::Memory, logical::Logical, schema::Schema};
use basalt_nested::{
    Texts,
    csv::{Failure, Kind, Record, Splitter},
};

use super::{
    CopyForm, CopyFormat, Format, columns_of_client, lines::Lines, of_arrow, of_io, parquet_rows::ParquetRows,
};
use crate::{
    bytes::{of_hex, of_postgres},
    catalog::Input,
    error::{Error, Result},
    limits,
};

/// What is read.
pub(super) enum In {
    Parquet(Box<ParquetRows>),
    Fields(Box<Fields>),
}

/// Some rows, and where they stand.
pub(super) struct Piece {
    pub(super) batch: RecordBatch,
    places: Places,
}

enum Places {
    /// In a file without lines: so many stand before.
    Behind(u64),
    Lines(Vec<u64>, Whose),
}

/// Whose the lines are.
#[derive(Clone, Copy)]
enum Whose {
    File,
    Client,
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "of the file",
            Self::Client => "of the input",
        })
    }
}

impl Piece {
    /// Where a row stands in its file.
    pub(super) fn place(&self, row: usize) -> String {
        match &self.places {
            Places::Behind(rows) => format!("row {} of the file", rows + row as u64 + 1),
            Places::Lines(lines, of) => {
                format!("line {} {of}", lines.get(row).copied().unwrap_or_default())
            }
        }
    }
}

impl In {
    pub(super) fn new(
        format: Format,
        file: File,
        table: &Schema,
        columns: &[String],
        memory: &Arc<dyn Memory>,
    ) -> Result<Self> {
        match format {
            Format::Parquet => Ok(Self::Parquet(Box::new(ParquetRows::new(file, memory)?))),
            Format::Csv { delimiter, quote, header } => {
                let (read, input) = bounded(Box::new(file), memory);
                let mut splitter = split(input, delimiter, quote)?;
                let names: Vec<String> = match header {
                    true => header_of(&mut splitter, Whose::File)?,
                    false if columns.is_empty() => {
                        table.fields().iter().map(|field| field.name.clone()).collect()
                    }
                    false => columns.to_vec(),
                };
                let texts = Texts::new(names.len());
                let fields = Fields::new(Records::Csv(splitter, None), Whose::File, read, &names, texts);
                Ok(Self::Fields(Box::new(fields.with_bytes_of(table, columns))))
            }
        }
    }

    /// What a client sends. Its header names the columns where each of its names is one of them; where none is, as in
    /// PostgreSQL, it means nothing.
    pub(super) fn of_client(
        form: &CopyForm,
        input: Input,
        table: &Schema,
        columns: &[String],
        memory: &Arc<dyn Memory>,
    ) -> Result<Self> {
        let mut names: Vec<_> =
            columns_of_client(table, columns)?.into_iter().map(|field| field.name).collect();
        let (read, input) = bounded(input, memory);
        let mut records = match form.format {
            CopyFormat::Csv => Records::Csv(split(input, form.delimiter, form.quote)?, Some(form.quote)),
            // Binary rows are text by now.
            CopyFormat::Text | CopyFormat::Binary => {
                Records::Text(Lines::new(input, form.delimiter, &form.null))
            }
        };
        if form.header {
            let header = match &mut records {
                Records::Csv(splitter, _) => header_of(splitter, Whose::Client)?,
                Records::Text(lines) => {
                    let mut record = Record::default();
                    lines.next(&mut record).map_err(|failure| told(failure, Whose::Client))?;
                    header_names(&record)?
                }
            };
            let is_one = |name: &String| {
                let found = table.find(name).ok().map(|at| table.fields()[at].name.as_str());
                found.is_some_and(|found| names.iter().any(|name| name == found))
            };
            match header.iter().find(|name| !is_one(name)) {
                None if header.len() == names.len() => names = header,
                // Some names are known: the others are mistakes.
                Some(other) if header.iter().any(is_one) => {
                    let message = format!("the header has {other:?}, which is no column that COPY fills");
                    return Err(Error::new(ErrorKind::ColumnNotFound, message));
                }
                _ => {}
            }
        }
        let texts = Texts::new(names.len()).with_null(&form.null);
        let fields = Fields::new(records, Whose::Client, read, &names, texts);
        Ok(Self::Fields(Box::new(fields.with_bytes_of(table, columns))))
    }

    pub(super) fn schema(&self) -> SchemaRef {
        match self {
            Self::Parquet(rows) => Arc::clone(rows.schema()),
            Self::Fields(fields) => Arc::clone(&fields.schema),
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<Piece>> {
        match self {
            Self::Parquet(rows) => {
                let next = rows.next()?;
                Ok(next.map(|(batch, before)| Piece { batch, places: Places::Behind(before) }))
            }
            Self::Fields(fields) => fields.next(),
        }
    }
}

/// Records of texts behind their header.
pub(super) struct Fields {
    records: Records,
    of: Whose,
    read: Arc<BatchBytes>,
    schema: SchemaRef,
    texts: Texts,
}

enum Records {
    /// With the quote that may stand in no field which it does not open: PostgreSQL has it open and close a part of the field.
    Csv(Splitter<Bounded>, Option<u8>),
    Text(Lines<Bounded>),
}

impl Records {
    fn next(&mut self, record: &mut Record) -> std::result::Result<bool, Failure> {
        match self {
            Self::Csv(splitter, strictly) => {
                let is_one = splitter.next(record)?;
                strictly.map_or(Ok(()), |quote| opened(record, quote))?;
                Ok(is_one)
            }
            Self::Text(lines) => lines.next(record),
        }
    }
}

impl Fields {
    fn new(records: Records, of: Whose, read: Arc<BatchBytes>, names: &[String], texts: Texts) -> Self {
        let fields = names.iter().map(|name| Field::new(name, DataType::Utf8, true));
        let schema = Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>()));
        Self { records, of, read, schema, texts }
    }

    /// The same, where texts of columns of bytes that COPY fills are read as bytes: in files their digits, which COPY writes, and
    /// those of a client as PostgreSQL reads them.
    fn with_bytes_of(mut self, table: &Schema, columns: &[String]) -> Self {
        let is_filled = |at: usize| {
            columns.is_empty() || columns.iter().any(|column| table.find(column).is_ok_and(|own| own == at))
        };
        let field = |field: &Arc<Field>| {
            let at = table.find(field.name()).ok().filter(|at| is_filled(*at));
            let is_binary = at.is_some_and(|at| table.fields()[at].logical == Some(Logical::Binary));
            if is_binary {
                Arc::new(Field::new(field.name(), DataType::Binary, true))
            } else {
                Arc::clone(field)
            }
        };
        self.schema = Arc::new(ArrowSchema::new(self.schema.fields().iter().map(field).collect::<Vec<_>>()));
        self
    }

    fn next(&mut self) -> Result<Option<Piece>> {
        let mut record = Record::default();
        self.read.reset();
        while self.texts.rows() < limits::COPY_ROWS
            && self.texts.bytes() < limits::COPY_TEXT_BYTES
            && self.records.next(&mut record).map_err(|failure| self.told(failure))?
        {
            if let Err(wrong) = self.texts.push(&record) {
                return Err(self.at(record.line, wrong.column, &wrong.message));
            }
        }
        let (columns, lines) = self.texts.take();
        if lines.is_empty() {
            return Ok(None);
        }
        let columns =
            columns.into_iter().zip(self.schema.fields()).map(|(column, field)| match field.data_type() {
                DataType::Binary => self.bytes(&column, &lines, field.name()),
                _ => Ok(column),
            });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        let places = Places::Lines(lines, self.of);
        Ok(Some(Piece { batch: batch.map_err(|error| of_arrow(&error))?, places }))
    }

    fn bytes(&self, texts: &ArrayRef, lines: &[u64], name: &str) -> Result<ArrayRef> {
        let bytes_of: fn(&str) -> Option<Vec<u8>> = match self.of {
            Whose::File => of_hex,
            Whose::Client => of_postgres,
        };
        let mut read = BinaryBuilder::new();
        for (text, line) in texts.as_string::<i32>().iter().zip(lines) {
            match text.map(bytes_of) {
                None => read.append_null(),
                Some(Some(bytes)) => read.append_value(bytes),
                Some(None) => {
                    let column = self.schema.index_of(name).ok();
                    return Err(self.at(*line, column, "this stands for no bytes"));
                }
            }
        }
        Ok(Arc::new(read.finish()))
    }

    fn told(&self, failure: Failure) -> Error {
        match failure {
            Failure::Read(error) => of_io(&error),
            Failure::Malformed { line, field, message } => self.at(line, Some(field), &message),
        }
    }

    fn at(&self, line: u64, column: Option<usize>, what: &str) -> Error {
        let column = column.and_then(|column| self.schema.fields().get(column));
        let column = column.map_or_else(String::new, |field| format!(" column {:?}:", field.name()));
        Error::new(ErrorKind::InvalidBatch, format!("line {line} {}:{column} {what}", self.of))
    }
}

/// Fails where a quote stands in a field that it does not open.
fn opened(record: &Record, quote: u8) -> std::result::Result<(), Failure> {
    let has_quote = |(field, kind): (&[u8], Kind)| kind == Kind::Csv && field.contains(&quote);
    match record.fields().zip(record.kinds()).position(has_quote) {
        None => Ok(()),
        Some(field) => {
            let message = "a quote stands in a field that it does not open; a field with quotes is quoted, and they are written twice";
            Err(Failure::Malformed { line: record.line, field, message: message.to_owned() })
        }
    }
}

fn split(input: Bounded, delimiter: u8, quote: u8) -> Result<Splitter<Bounded>> {
    let splitter = Splitter::new(input, delimiter).map_err(|error| of_io(&error))?;
    Ok(splitter.quoted_by(quote))
}

/// What is wrong with a header.
fn told(failure: Failure, of: Whose) -> Error {
    match failure {
        Failure::Read(error) => of_io(&error),
        Failure::Malformed { line, message, .. } => Error::invalid(format!("line {line} {of}: {message}")),
    }
}

/// The names in the first line that has a character.
fn header_of(splitter: &mut Splitter<Bounded>, of: Whose) -> Result<Vec<String>> {
    let mut record = Record::default();
    match (splitter.next_filled(&mut record).map_err(|failure| told(failure, of))?, of) {
        (false, Whose::File) => Err(Error::invalid("the file is empty: not even a header")),
        _ => header_names(&record),
    }
}

fn header_names(header: &Record) -> Result<Vec<String>> {
    let name = |name: &[u8]| {
        let name = std::str::from_utf8(name).map_err(|_| Error::invalid("the header is not UTF-8"));
        name.map(|name| name.trim().to_owned())
    };
    header.fields().map(name).collect()
}

/// What is read, of which only so much is for one batch: a field that never ends is an error.
struct Bounded {
    input: Input,
    read: Arc<BatchBytes>,
}

/// What was read for one batch: the memory that its rows take.
struct BatchBytes {
    bytes: AtomicUsize,
    memory: Arc<dyn Memory>,
}

impl BatchBytes {
    /// The rows of a batch are given on.
    fn reset(&self) {
        self.memory.shrink(limits::COPY_TIMES * self.bytes.swap(0, Ordering::Relaxed));
    }
}

impl Drop for BatchBytes {
    fn drop(&mut self) {
        self.reset();
    }
}

fn bounded(input: Input, memory: &Arc<dyn Memory>) -> (Arc<BatchBytes>, Bounded) {
    let read = Arc::new(BatchBytes { bytes: AtomicUsize::new(0), memory: Arc::clone(memory) });
    (Arc::clone(&read), Bounded { input, read })
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // What is read ahead is of the next batch.
        let before = self.read.bytes.load(Ordering::Relaxed);
        if before > limits::COPY_BATCH_BYTES {
            let message =
                format!("{} rows have more than {} bytes", limits::COPY_ROWS, limits::COPY_BATCH_BYTES);
            return Err(io::Error::other(message));
        }
        let n = self.input.read(buffer)?;
        let times = limits::COPY_TIMES;
        self.read.memory.grow(times * before, times * n).map_err(io::Error::other)?;
        self.read.bytes.fetch_add(n, Ordering::Relaxed);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Counted(AtomicUsize);

    impl Memory for Counted {
        fn grow(&self, taken: usize, more: usize) -> basalt_core::error::Result<()> {
            assert_eq!(self.0.fetch_add(more, Ordering::Relaxed), taken);
            Ok(())
        }

        fn shrink(&self, less: usize) {
            self.0.fetch_sub(less, Ordering::Relaxed);
        }
    }

    #[test]
    fn what_is_read_is_counted_as_often_as_it_is_held() {
        let counted = Arc::new(Counted::default());
        let memory: Arc<dyn Memory> = Arc::clone(&counted) as _;
        let held = || counted.0.load(Ordering::Relaxed);
        let (read, mut input) = bounded(Box::new(&[1_u8; 100][..]), &memory);
        input.read_exact(&mut [0; 60]).unwrap();
        // As it came, as texts, and as columns.
        assert_eq!(held(), 180);
        read.reset();
        assert_eq!(held(), 0);
        input.read_exact(&mut [0; 40]).unwrap();
        drop((read, input));
        assert_eq!(held(), 0);
    }
}
