//! CSV files: their records, with lines for messages.
//!
//! Quotes are undone before nulls are looked for, so a quoted `"NA"` is null too.

use std::{fs::File, sync::Arc};

use arrow_array::RecordBatch;
use arrow_schema::{Field, SchemaRef};

use super::{
    LoadArgs,
    chunk::{Chunk, shown},
    records::{Failure, Record, Splitter},
    source::InputFile,
};
use crate::cli::CliError;

/// How CSVs are written.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    delimiter: Option<u8>,
    has_header: bool,
    nulls: Vec<Vec<u8>>,
    longest_null: usize,
}

impl Options {
    pub(crate) fn new(args: &LoadArgs) -> Self {
        let nulls: Vec<_> = args.null.iter().map(|n| n.clone().into_bytes()).collect();
        let longest_null = nulls.iter().map(Vec::len).max().unwrap_or(0);
        Self { delimiter: args.delimiter, has_header: !args.no_header, nulls, longest_null }
    }

    pub(crate) fn is_null(&self, cell: &[u8]) -> bool {
        cell.len() <= self.longest_null && self.nulls.iter().any(|null| null == cell)
    }
}

/// The header of a file, or `None` where it has none.
pub(crate) fn header(file: &InputFile, options: &Options) -> Result<Option<Vec<String>>, CliError> {
    if !options.has_header {
        return Ok(None);
    }
    Records::open(file, options).map(|records| Some(records.columns))
}

/// The fields of the first row of a file without a header; `None` for an empty file.
pub(crate) fn first_row_columns(file: &InputFile, options: &Options) -> Result<Option<usize>, CliError> {
    let columns = Records::open(file, options)?.columns.len();
    Ok((columns > 0).then_some(columns))
}

/// The records of one file.
pub(crate) struct Records<'a> {
    file: &'a InputFile,
    splitter: Splitter<File>,
    columns: Vec<String>,
    record: Record,
    /// The record was read ahead, to count its fields.
    ahead: bool,
}

impl<'a> Records<'a> {
    pub(crate) fn open(file: &'a InputFile, options: &Options) -> Result<Self, CliError> {
        let by_extension = if file.path.extension().is_some_and(|e| e == "tsv") { b'\t' } else { b',' };
        let delimiter = options.delimiter.unwrap_or(by_extension);
        let splitter = Splitter::new(file.open()?, delimiter).map_err(|e| file.error(e))?;
        let (columns, record) = (Vec::new(), Record::default());
        let mut records = Self { file, splitter, columns, record, ahead: false };
        let mut found = records.read()?;
        while options.has_header && found && records.record.is_blank {
            found = records.read()?;
        }
        if options.has_header && !found {
            return Err(file.error("it is empty: not even a header"));
        }
        let mut columns = Vec::with_capacity(records.record.len());
        for (i, cell) in records.record.fields().enumerate() {
            let header = if options.has_header { cell } else { b"" };
            let name = std::str::from_utf8(header).map_err(|_| {
                let line = records.record.line;
                let cell = shown(cell);
                CliError::Input(format!("{}:{line}: column {}: {cell:?} is not UTF-8", file.name(), i + 1))
            })?;
            columns.push(column_name(name, i));
        }
        Ok(Self { columns, ahead: !options.has_header && found, ..records })
    }

    /// The names of the columns.
    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Bytes of the file behind what was read.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.splitter.position()
    }

    /// The next record; the inner error is of a row that has another number of fields. In a file of one column a line
    /// without a character is a row, as is everything else that has one field.
    pub(crate) fn next(&mut self) -> Result<Option<Result<&Record, String>>, CliError> {
        let mut found = std::mem::take(&mut self.ahead) || self.read()?;
        while found && self.record.is_blank && self.columns.len() > 1 {
            found = self.read()?;
        }
        if !found {
            return Ok(None);
        }
        let (fields, columns) = (self.record.len(), self.columns.len());
        Ok(Some(if fields == columns {
            Ok(&self.record)
        } else {
            Err(format!("{}:{}: {fields} fields, not {columns}", self.file.name(), self.record.line))
        }))
    }

    fn read(&mut self) -> Result<bool, CliError> {
        self.splitter.next(&mut self.record).map_err(|failure| match failure {
            Failure::Read(error) => self.file.error(error),
            Failure::Malformed { line, field, message } => {
                let numbered = || format!(" column {}", field + 1);
                let column = self.columns.get(field).cloned().unwrap_or_else(numbered);
                CliError::Input(format!("{}:{line}:{column}: {message}", self.file.name()))
            }
        })
    }
}

/// A header as a column's name: what cannot stand in one becomes `_`. Without a header the position names it.
fn column_name(header: &str, index: usize) -> String {
    let mut name: String = header.trim().chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
    if name.is_empty() {
        return format!("column{}", index + 1);
    }
    if name.starts_with(|c: char| c.is_numeric()) {
        name.insert(0, '_');
    }
    name
}

/// Reads a file into batches of `schema` and hands them to `send`, with the bytes behind them, until it does
/// not want more. Bad rows are added to `bad`, until they are too many.
pub(crate) fn read(
    file: &InputFile,
    schema: &SchemaRef,
    options: &Options,
    max_bad: u64,
    bad: &mut Vec<String>,
    send: &mut dyn FnMut(RecordBatch, u64) -> bool,
) -> Result<(), CliError> {
    let mut records = Records::open(file, options)?;
    let places = places(file, records.columns(), schema, options)?;
    let mut chunk = Chunk::new(records.columns().len());
    let mut remember = |reason: String| {
        if bad.len() as u64 >= max_bad {
            return Err(CliError::Input(match max_bad {
                0 => reason,
                n => format!("more than {n} bad rows; the next is {reason}"),
            }));
        }
        bad.push(reason);
        Ok(())
    };
    loop {
        let mut end = false;
        while !chunk.is_full() {
            match records.next()? {
                Some(Ok(record)) => chunk.push(record),
                Some(Err(reason)) => remember(reason)?,
                None => {
                    end = true;
                    break;
                }
            }
        }
        let batch = loop {
            match chunk.parse(schema, &places, options) {
                Ok(batch) => break batch.map_err(|e| file.error(e))?,
                Err(bad_cells) => {
                    for cell in &bad_cells {
                        remember(format!("{}:{}", file.name(), chunk.describe(cell, schema, &places)))?;
                    }
                    chunk.remove(&bad_cells);
                }
            }
        };
        chunk.clear();
        if (batch.num_rows() > 0 && !send(batch, records.bytes_read())) || end {
            return Ok(());
        }
    }
}

/// Where in a record each column of the schema stands.
fn places(
    file: &InputFile,
    columns: &[String],
    schema: &SchemaRef,
    options: &Options,
) -> Result<Vec<usize>, CliError> {
    if !options.has_header {
        return Ok((0..schema.fields().len()).collect());
    }
    let place = |field: &Arc<Field>| {
        let place = columns.iter().position(|c| c == field.name());
        place.ok_or_else(|| file.error(format!("column {:?} is missing", field.name())))
    };
    schema.fields().iter().map(place).collect()
}
