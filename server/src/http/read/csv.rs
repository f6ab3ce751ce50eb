//! CSV in pieces of any size, by the rules of `basalt load`: its records, with their lines.

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use basalt_core::{
    limits::MAX_COLUMNS,
    schema::{Field, Schema},
};
use basalt_nested::{
    Texts,
    csv::{BOM, Failure, Record, Splitter},
};

use super::{batch_rows, invalid, keep, unread, values::values};
use crate::{limits, status::Result};

pub(super) const DELIMITER: u8 = b',';

/// Records behind a header. They are read when their rows are asked for: short ones are many rows, which take more than they.
pub(super) struct Csv {
    /// Those of the table that come, in their order.
    fields: Vec<Field>,
    scanner: Scanner,
    /// Of the last record, what there is of it.
    rest: Vec<u8>,
    /// Records that are whole; so many of their bytes are read.
    waiting: Vec<u8>,
    taken: usize,
    /// Behind the records that wait there are none.
    is_ended: bool,
    /// The line on which the next record begins.
    line: u64,
    /// Rows that are read, and not values yet.
    texts: Texts,
}

impl Csv {
    /// Begins with what stands up to the end of the first record that names columns; `None`: these lines are empty.
    /// The columns of a table are found whatever the case of their letters; `nulls` stand for null beside the empty text.
    pub(super) fn begin(start: &[u8], table: &Schema, nulls: &[String]) -> Result<Option<Self>> {
        let start = start.strip_prefix(BOM).unwrap_or(start);
        let (mut splitter, mut record) = (splitter(start, start.len(), 1), Record::default());
        if !splitter.next_filled(&mut record).map_err(|failure| told(failure, &[]))? {
            return Ok(None);
        }
        if record.len() > MAX_COLUMNS {
            return Err(invalid(format!("{} columns; the limit is {MAX_COLUMNS}", record.len())));
        }
        let column = |name: &[u8]| {
            let name = std::str::from_utf8(name).map_err(|_| invalid("the first line is not UTF-8"))?;
            let column = table.find(name.trim()).map_err(|error| error.at("columns"))?;
            Ok(table.fields()[column].clone())
        };
        let fields = record.fields().map(column).collect::<Result<Vec<_>>>()?;
        let line = splitter.line();
        if splitter.next(&mut record).map_err(|failure| told(failure, &fields))? {
            return Err(invalid("line 1 ends with a carriage return alone; lines end with a line feed"));
        }
        let texts = Texts::new(fields.len()).with_more_nulls(nulls.to_vec());
        let (scanner, rest, waiting) = (Scanner::default(), Vec::new(), Vec::new());
        Ok(Some(Self { fields, scanner, rest, waiting, taken: 0, is_ended: false, line, texts }))
    }

    /// The names of the columns.
    pub(super) fn columns(&self) -> Vec<String> {
        self.fields.iter().map(|field| field.name.clone()).collect()
    }

    /// Bytes that are kept until more come.
    pub(super) fn held(&self) -> u64 {
        (self.rest.len() + self.waiting.len() + self.texts.bytes()) as u64
    }

    /// Whether records wait to be read.
    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn take_in(&mut self, bytes: &[u8], rows: &mut VecDeque<RecordBatch>) -> Result<()> {
        let Some(end) = self.scanner.last_end(bytes) else { return keep(&mut self.rest, bytes) };
        let (whole, rest) = bytes.split_at(end);
        self.waiting.extend_from_slice(&std::mem::take(&mut self.rest));
        self.waiting.extend_from_slice(whole);
        keep(&mut self.rest, rest)?;
        self.go_on(rows)
    }

    /// Reads the records that wait until there are rows, or none of them are left.
    pub(super) fn go_on(&mut self, rows: &mut VecDeque<RecordBatch>) -> Result<()> {
        let waiting = &self.waiting[self.taken..];
        let mut splitter = splitter(waiting, waiting.len(), self.line);
        let (mut record, mut is_batch) = (Record::default(), false);
        while !is_batch && splitter.next(&mut record).map_err(|failure| told(failure, &self.fields))? {
            if let Err(wrong) = self.texts.push(&record) {
                return Err(place(record.line, wrong.column, &wrong.message, &self.fields));
            }
            is_batch = self.texts.rows() >= batch_rows(self.fields.len());
        }
        self.line = splitter.line();
        self.taken += usize::try_from(splitter.position()).map_err(unread)?;
        if !is_batch {
            (self.waiting, self.taken) = (Vec::new(), 0);
        }
        match is_batch || self.is_ended || self.texts.bytes() >= limits::HTTP_PIECE_BYTES {
            true => self.flush(rows),
            false => Ok(()),
        }
    }

    fn flush(&mut self, rows: &mut VecDeque<RecordBatch>) -> Result<()> {
        let (columns, lines) = self.texts.take();
        if !lines.is_empty() {
            rows.push_back(values(&columns, &self.fields, |row| format!("line {}", lines[row]))?);
        }
        Ok(())
    }

    pub(super) fn end(&mut self, rows: &mut VecDeque<RecordBatch>) -> Result<()> {
        // The last line may have no end.
        self.waiting.extend_from_slice(&std::mem::take(&mut self.rest));
        self.is_ended = true;
        self.go_on(rows)
    }
}

/// Of so many bytes, which are those of a piece of a body: they may be fewer than a splitter reads at a time.
fn splitter<R: std::io::Read>(input: R, bytes: usize, line: u64) -> Splitter<R> {
    Splitter::behind(input, DELIMITER, line, bytes.min(limits::CSV_HEADER_BYTES))
}

fn told(failure: Failure, fields: &[Field]) -> crate::status::RequestError {
    match failure {
        Failure::Read(error) => unread(error),
        Failure::Malformed { line, field, message } => place(line, Some(field), &message, fields),
    }
}

fn place(line: u64, column: Option<usize>, what: &str, fields: &[Field]) -> crate::status::RequestError {
    match column.map(|column| (column, fields.get(column))) {
        None => invalid(format!("line {line}: {what}")),
        Some((_, Some(field))) => invalid(format!("line {line}, column {:?}: {what}", field.name)),
        Some((column, None)) => invalid(format!("line {line}, column {}: {what}", column + 1)),
    }
}

/// Finds the ends of the records of CSV, which may have line breaks in quotes. A quote that does not begin a value is a
/// part of it.
#[derive(Debug)]
pub(super) struct Scanner {
    is_quoted: bool,
    /// The last byte has ended a quoted value, unless another quote follows.
    was_quote: bool,
    at_start: bool,
}

impl Default for Scanner {
    fn default() -> Self {
        Self { is_quoted: false, was_quote: false, at_start: true }
    }
}

impl Scanner {
    /// Whether a record ends with the next byte.
    fn ends_with(&mut self, byte: u8) -> bool {
        if self.is_quoted {
            self.is_quoted = byte != b'"';
            self.was_quote = !self.is_quoted;
            return false;
        }
        let was_quote = std::mem::take(&mut self.was_quote);
        let at_start = std::mem::replace(&mut self.at_start, matches!(byte, DELIMITER | b'\n' | b'\r'));
        match byte {
            b'"' => {
                self.is_quoted = at_start || was_quote;
                false
            }
            byte => byte == b'\n',
        }
    }

    /// The end of the first record of these bytes.
    pub(super) fn end_of_record(&mut self, bytes: &[u8]) -> Option<usize> {
        bytes.iter().position(|byte| self.ends_with(*byte)).map(|at| at + 1)
    }

    /// The end of the last record of the next bytes.
    pub(super) fn last_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut last = None;
        for (at, byte) in bytes.iter().enumerate() {
            if self.ends_with(*byte) {
                last = Some(at + 1);
            }
        }
        last
    }
}
