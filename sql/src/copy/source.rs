//! The files that COPY reads, piece by piece. Records of CSV are those that `basalt load` finds.

use std::{
    fs::File,
    io::{self, Read},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema as ArrowSchema, SchemaRef};
use basalt_core::{error::ErrorKind, schema::Schema};
use basalt_nested::{
    Texts,
    csv::{Failure, Record, Splitter},
};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::{Format, of_arrow, of_io, of_parquet};
use crate::{
    error::{Error, Result},
    limits,
};

/// A file that is read.
pub(super) enum In {
    /// With the rows before the next ones.
    Parquet(Box<ParquetRecordBatchReader>, SchemaRef, u64),
    Csv(Box<Csv>),
}

/// Some rows, and where they stand.
pub(super) struct Piece {
    pub(super) batch: RecordBatch,
    places: Places,
}

enum Places {
    /// In a file without lines: so many stand before.
    Behind(u64),
    Lines(Vec<u64>),
}

impl Piece {
    /// Where a row stands in its file.
    pub(super) fn place(&self, row: usize) -> String {
        match &self.places {
            Places::Behind(rows) => format!("row {} of the file", rows + row as u64 + 1),
            Places::Lines(lines) => {
                format!("line {} of the file", lines.get(row).copied().unwrap_or_default())
            }
        }
    }
}

impl In {
    pub(super) fn new(format: Format, file: File, table: &Schema, columns: &[String]) -> Result<Self> {
        match format {
            Format::Parquet => {
                let builder = ParquetRecordBatchReaderBuilder::try_new(file);
                let builder = builder.map_err(|error| of_parquet(&error))?.with_batch_size(limits::COPY_ROWS);
                let schema = Arc::clone(builder.schema());
                let reader = builder.build().map_err(|error| of_parquet(&error))?;
                Ok(Self::Parquet(Box::new(reader), schema, 0))
            }
            Format::Csv { delimiter, quote, header } => {
                let read = Arc::<AtomicUsize>::default();
                let input = Bounded { file, read: Arc::clone(&read) };
                let splitter = Splitter::new(input, delimiter).map_err(|error| of_io(&error))?;
                let mut splitter = splitter.quoted_by(quote);
                let names: Vec<String> = match header {
                    true => header_of(&mut splitter)?,
                    false if columns.is_empty() => {
                        table.fields().iter().map(|field| field.name.clone()).collect()
                    }
                    false => columns.to_vec(),
                };
                let texts = Texts::new(names.len());
                let fields = names.iter().map(|name| Field::new(name, DataType::Utf8, true));
                let schema: SchemaRef = Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>()));
                Ok(Self::Csv(Box::new(Csv { splitter, read, schema, texts })))
            }
        }
    }

    pub(super) fn schema(&self) -> SchemaRef {
        match self {
            Self::Parquet(_, schema, _) => Arc::clone(schema),
            Self::Csv(csv) => Arc::clone(&csv.schema),
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<Piece>> {
        match self {
            Self::Parquet(reader, _, rows) => {
                let Some(batch) = reader.next().transpose().map_err(|error| of_arrow(&error))? else {
                    return Ok(None);
                };
                let places = Places::Behind(*rows);
                *rows += batch.num_rows() as u64;
                Ok(Some(Piece { batch, places }))
            }
            Self::Csv(csv) => csv.next(),
        }
    }
}

/// The records of a CSV behind its header.
pub(super) struct Csv {
    splitter: Splitter<Bounded>,
    read: Arc<AtomicUsize>,
    schema: SchemaRef,
    texts: Texts,
}

impl Csv {
    fn next(&mut self) -> Result<Option<Piece>> {
        let mut record = Record::default();
        self.read.store(0, Ordering::Relaxed);
        while self.texts.rows() < limits::COPY_ROWS
            && self.splitter.next(&mut record).map_err(|failure| self.told(failure))?
        {
            if let Err(wrong) = self.texts.push(&record) {
                return Err(self.at(record.line, wrong.column, &wrong.message));
            }
        }
        let (columns, lines) = self.texts.take();
        if lines.is_empty() {
            return Ok(None);
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        Ok(Some(Piece { batch: batch.map_err(|error| of_arrow(&error))?, places: Places::Lines(lines) }))
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
        Error::new(ErrorKind::InvalidBatch, format!("line {line} of the file:{column} {what}"))
    }
}

/// The names in the first line that has a character.
fn header_of(splitter: &mut Splitter<Bounded>) -> Result<Vec<String>> {
    let mut record = Record::default();
    let wrong = |failure| match failure {
        Failure::Read(error) => of_io(&error),
        Failure::Malformed { line, message, .. } => {
            Error::invalid(format!("line {line} of the file: {message}"))
        }
    };
    if !splitter.next_filled(&mut record).map_err(wrong)? {
        return Err(Error::invalid("the file is empty: not even a header"));
    }
    let name = |name: &[u8]| {
        let name =
            std::str::from_utf8(name).map_err(|_| Error::invalid("the header of the file is not UTF-8"));
        name.map(|name| name.trim().to_owned())
    };
    record.fields().map(name).collect()
}

/// A file of which only so much is read for one batch: a field that never ends is an error.
struct Bounded {
    file: File,
    read: Arc<AtomicUsize>,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // What is read ahead is of the next batch.
        let before = self.read.load(Ordering::Relaxed);
        if before > limits::COPY_BATCH_BYTES {
            let message =
                format!("{} rows have more than {} bytes", limits::COPY_ROWS, limits::COPY_BATCH_BYTES);
            return Err(io::Error::other(message));
        }
        let n = self.file.read(buffer)?;
        self.read.fetch_add(n, Ordering::Relaxed);
        Ok(n)
    }
}
