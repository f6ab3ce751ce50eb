//! CSV files: their records, with lines for messages.
//!
//! A cell in quotes is a text where its column is one: `""` is empty, and no null. Elsewhere, and where `--null` says what
//! is null, quotes make no difference.

use std::{
    io::Read,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arrow_schema::Schema;
use basalt_nested::csv::{Failure, Record, Splitter, shown};

use super::{names, options::Options, source::InputFile};
use crate::cli::CliError;

/// The header of a file, or `None` where it has none.
pub(super) fn header(
    file: &InputFile,
    options: &Options,
    known: Option<&Schema>,
) -> Result<Option<Vec<String>>, CliError> {
    if !options.has_header {
        return Ok(None);
    }
    Records::open(file, options, known).map(|records| Some(records.columns))
}

/// What of a file's columns has another name than its header says.
pub(super) fn renamed(
    file: &InputFile,
    options: &Options,
    known: Option<&Schema>,
) -> Result<Vec<String>, CliError> {
    Records::open(file, options, known).map(|records| records.renamed)
}

/// The fields of the first row of a file without a header; `None` for an empty file.
pub(super) fn first_row_columns(file: &InputFile, options: &Options) -> Result<Option<usize>, CliError> {
    let columns = Records::open(file, options, None)?.columns.len();
    Ok((columns > 0).then_some(columns))
}

/// The records of one file.
pub(super) struct Records<'a> {
    file: &'a InputFile,
    splitter: Splitter<Box<dyn Read + Send>>,
    bytes: Arc<AtomicU64>,
    columns: Vec<String>,
    /// What has another name than its header says.
    renamed: Vec<String>,
    record: Record,
    /// The record was read ahead, to count its fields.
    ahead: bool,
}

impl<'a> Records<'a> {
    /// Opens a file whose columns may be known.
    pub(super) fn open(
        file: &'a InputFile,
        options: &Options,
        known: Option<&Schema>,
    ) -> Result<Self, CliError> {
        let (input, bytes) = file.open_text()?;
        let splitter = Splitter::new(input, file.delimiter).map_err(|e| file.error(e))?;
        let (columns, renamed, record) = (Vec::new(), Vec::new(), Record::default());
        let mut records = Self { file, splitter, bytes, columns, renamed, record, ahead: false };
        let found = records.read(!options.has_header)?;
        if options.has_header && !found {
            return Err(file.error("it is empty: not even a header"));
        }
        let mut headers = Vec::with_capacity(records.record.len());
        for (i, cell) in records.record.fields().enumerate() {
            let header = if options.has_header { cell } else { b"" };
            let header = std::str::from_utf8(header).map_err(|_| {
                let line = records.record.line;
                let cell = shown(cell);
                CliError::Input(format!("{}:{line}: column {}: {cell:?} is not UTF-8", file.name(), i + 1))
            })?;
            headers.push(header.trim());
        }
        let (columns, renamed) = names::of_headers(headers, known.filter(|_| options.has_header));
        Ok(Self { columns, renamed, ahead: !options.has_header && found, ..records })
    }

    /// The names of the columns.
    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Bytes of the file that were read.
    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The next record; the inner error is of a row that has another number of fields. In a file of one column a line
    /// without a character is a row, as is everything else that has one field.
    pub(super) fn next(&mut self) -> Result<Option<Result<&Record, String>>, CliError> {
        if !std::mem::take(&mut self.ahead) && !self.read(self.columns.len() <= 1)? {
            return Ok(None);
        }
        let (fields, columns) = (self.record.len(), self.columns.len());
        Ok(Some(if fields == columns {
            Ok(&self.record)
        } else {
            Err(format!("{}:{}: {fields} fields, not {columns}", self.file.name(), self.record.line))
        }))
    }

    /// Reads the next record, which may be a line without a character, or the next other one.
    fn read(&mut self, may_be_blank: bool) -> Result<bool, CliError> {
        let (splitter, record) = (&mut self.splitter, &mut self.record);
        let found = if may_be_blank { splitter.next(record) } else { splitter.next_filled(record) };
        found.map_err(|failure| match failure {
            Failure::Read(error) => self.file.error(error),
            Failure::Malformed { line, field, message } => {
                let numbered = || format!(" column {}", field + 1);
                let column = self.columns.get(field).cloned().unwrap_or_else(numbered);
                CliError::Input(format!("{}:{line}:{column}: {message}", self.file.name()))
            }
        })
    }
}
