//! Some records of a CSV or of JSON, parsed column by column into Arrow arrays.

use std::{cell::Cell, ops::Range, sync::Arc};

use arrow_array::{
    ArrayRef, ArrowPrimitiveType, RecordBatch,
    builder::{BinaryBuilder, BooleanBuilder, PrimitiveBuilder, StringBuilder},
    types::{
        Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
        Time64MicrosecondType, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_schema::{ArrowError, DataType, Field, SchemaRef};
use basalt_nested::{
    csv::{Kind, Record, shown},
    says_infinity,
};

use super::options::Options;
use crate::{
    text::{parse_hex, parse_time_of_day, parse_wide_decimal},
    types::type_name,
};

/// Rows parsed at a time.
const CHUNK_ROWS: usize = 1 << 16;
/// Cells parsed at a time: so many stay in a cache near the processor while they are read column by column.
const CHUNK_CELLS: usize = 1 << 17;
/// Rows that are parsed at a time however many cells they have: each message says its columns again.
const CHUNK_LEAST_ROWS: usize = 1 << 10;
/// Bytes of text parsed at a time.
const CHUNK_BYTES: usize = 8 << 20;

/// Some records, cell behind cell.
pub(super) struct Chunk {
    columns: usize,
    data: Vec<u8>,
    /// Where each cell ends.
    ends: Vec<usize>,
    /// What each cell is.
    kinds: Vec<Kind>,
    lines: Vec<u64>,
}

/// Rows as a batch.
pub(super) struct Parsed {
    pub(super) batch: RecordBatch,
    /// How many values of each column were cut to microseconds.
    pub(super) cut: Vec<u64>,
}

/// The first bad cell of a row.
pub(super) struct BadCell {
    row: usize,
    /// The column in the schema.
    column: usize,
    /// It stands for null where none may be.
    is_null: bool,
}

impl Chunk {
    pub(super) fn new(columns: usize) -> Self {
        Self { columns, data: Vec::new(), ends: Vec::new(), kinds: Vec::new(), lines: Vec::new() }
    }

    pub(super) fn is_full(&self) -> bool {
        let has_cells = self.ends.len() >= CHUNK_CELLS && self.rows() >= CHUNK_LEAST_ROWS;
        has_cells || self.rows() >= CHUNK_ROWS || self.data.len() >= CHUNK_BYTES
    }

    pub(super) fn push(&mut self, record: &Record) {
        let start = self.data.len();
        self.data.extend_from_slice(&record.data);
        self.ends.extend(record.ends.iter().map(|end| start + end));
        self.kinds.extend_from_slice(&record.kinds);
        self.lines.push(record.line);
    }

    pub(super) fn clear(&mut self) {
        self.data.clear();
        self.ends.clear();
        self.kinds.clear();
        self.lines.clear();
    }

    pub(super) fn rows(&self) -> usize {
        self.lines.len()
    }

    fn range(&self, row: usize, place: usize) -> Range<usize> {
        let i = row * self.columns + place;
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        start..self.ends[i]
    }

    pub(super) fn cell(&self, row: usize, place: usize) -> &[u8] {
        &self.data[self.range(row, place)]
    }

    pub(super) fn kind(&self, row: usize, place: usize) -> Kind {
        self.kinds[row * self.columns + place]
    }

    /// Leaves out the rows of bad cells, which come in the rows' order.
    pub(super) fn remove(&mut self, bad: &[BadCell]) {
        let old = std::mem::replace(self, Self::new(self.columns));
        let mut bad = bad.iter().map(|b| b.row).peekable();
        for row in 0..old.rows() {
            if bad.next_if_eq(&row).is_some() {
                continue;
            }
            for place in 0..old.columns {
                self.data.extend_from_slice(old.cell(row, place));
                self.ends.push(self.data.len());
            }
            self.kinds.extend_from_slice(&old.kinds[row * old.columns..(row + 1) * old.columns]);
            self.lines.push(old.lines[row]);
        }
    }

    /// The rows as a batch; `places` says where in a record each column of the schema stands. If there are
    /// bad rows: the first bad cell of each, in the rows' order.
    pub(super) fn parse(
        &self,
        schema: &SchemaRef,
        places: &[usize],
        options: &Options,
    ) -> Result<Result<Parsed, ArrowError>, Vec<BadCell>> {
        let mut bad = Vec::new();
        let mut cut = Vec::with_capacity(places.len());
        let mut columns = Vec::with_capacity(places.len());
        let whole = std::str::from_utf8(&self.data).ok();
        for (column, (field, &place)) in schema.fields().iter().zip(places).enumerate() {
            let mut bad_cell = |row, is_null| bad.push(BadCell { row, column, is_null });
            let cells_cut = Cell::new(0);
            let mut cells =
                Cells { chunk: self, whole, place, field, options, cut: &cells_cut, bad_cell: &mut bad_cell };
            columns.push(cells.parse());
            cut.push(cells_cut.get());
        }
        if bad.is_empty() {
            let batch = RecordBatch::try_new(Arc::clone(schema), columns);
            return Ok(batch.map(|batch| Parsed { batch, cut }));
        }
        bad.sort_by_key(|b| (b.row, b.column));
        bad.dedup_by_key(|b| b.row);
        Err(bad)
    }

    /// `17:dep_delay: "abc" is not an int32`: the line, the column and what is wrong.
    pub(super) fn describe(
        &self,
        bad: &BadCell,
        schema: &SchemaRef,
        places: &[usize],
        options: &Options,
    ) -> String {
        let field = schema.field(bad.column);
        let shown = shown(self.cell(bad.row, places[bad.column]));
        let reason = if bad.is_null && self.kind(bad.row, places[bad.column]) == Kind::Null {
            "null, and the column is not nullable".to_owned()
        } else if bad.is_null {
            format!(
                "{shown:?} stands for null, and the column is not nullable (ALTER TABLE ... ALTER COLUMN ... DROP NOT NULL lets it be)"
            )
        } else {
            format!("{shown:?} is not {}", wanted(field.data_type(), options))
        };
        format!("{}:{}: {reason}", self.lines[bad.row], field.name())
    }
}

fn wanted(data_type: &DataType, options: &Options) -> String {
    let name = type_name(data_type);
    match data_type {
        DataType::Date32 | DataType::Timestamp(..) if options.formats.replace(data_type) => {
            format!("a {name} as --date-format says")
        }
        DataType::Utf8 => "UTF-8".to_owned(),
        DataType::Date32 => "a date32 like 2013-07-04".to_owned(),
        DataType::Timestamp(..) => "a timestamp like 2013-07-04T10:00:00Z".to_owned(),
        DataType::Time64(_) => "a time like 10:30:00".to_owned(),
        DataType::Binary => "a binary like 00ff, two hexadecimal digits for each byte".to_owned(),
        _ if name.starts_with('i') => format!("an {name}"),
        _ => format!("a {name}"),
    }
}

/// The cells of one column.
struct Cells<'a> {
    chunk: &'a Chunk,
    /// All cells, where they are a text together, of which each is mostly one, too.
    whole: Option<&'a str>,
    place: usize,
    field: &'a Field,
    options: &'a Options,
    /// Times that were cut to microseconds.
    cut: &'a Cell<u64>,
    bad_cell: &'a mut dyn FnMut(usize, bool),
}

impl<'a> Cells<'a> {
    fn parse(&mut self) -> ArrayRef {
        match self.field.data_type() {
            DataType::Boolean => {
                let mut builder = BooleanBuilder::with_capacity(self.chunk.rows());
                self.each(parse_bool, |value| builder.append_option(value));
                Arc::new(builder.finish())
            }
            DataType::Int8 => self.primitive::<Int8Type>(|s| s.parse().ok()),
            DataType::Int16 => self.primitive::<Int16Type>(|s| s.parse().ok()),
            DataType::Int32 => self.primitive::<Int32Type>(|s| s.parse().ok()),
            DataType::Int64 => self.primitive::<Int64Type>(|s| s.parse().ok()),
            DataType::UInt8 => self.primitive::<UInt8Type>(|s| s.parse().ok()),
            DataType::UInt16 => self.primitive::<UInt16Type>(|s| s.parse().ok()),
            DataType::UInt32 => self.primitive::<UInt32Type>(|s| s.parse().ok()),
            DataType::UInt64 => self.primitive::<UInt64Type>(|s| s.parse().ok()),
            // A number that is too large is not infinity, which is said.
            DataType::Float32 => self.primitive::<Float32Type>(|s| {
                s.parse().ok().filter(|value: &f32| !value.is_infinite() || says_infinity(s))
            }),
            DataType::Float64 => self.primitive::<Float64Type>(|s| {
                s.parse().ok().filter(|value: &f64| !value.is_infinite() || says_infinity(s))
            }),
            DataType::Date32 => {
                let options = self.options;
                self.primitive::<Date32Type>(|s| options.formats.date(s))
            }
            DataType::Timestamp(..) => {
                let (options, cut) = (self.options, self.cut);
                self.primitive::<TimestampMicrosecondType>(|s| {
                    let time = options.formats.timestamp(s)?;
                    cut.set(cut.get() + u64::from(time.was_cut));
                    Some(time.micros)
                })
            }
            &DataType::Decimal128(precision, scale) => {
                self.primitive::<Decimal128Type>(|s| parse_wide_decimal(s, precision, scale.cast_unsigned()))
            }
            DataType::Time64(_) => {
                let cut = self.cut;
                self.primitive::<Time64MicrosecondType>(|s| {
                    let (micros, was_cut) = parse_time_of_day(s)?;
                    cut.set(cut.get() + u64::from(was_cut));
                    Some(micros)
                })
            }
            DataType::Binary => {
                let mut builder = BinaryBuilder::new();
                self.each(parse_hex, |value| builder.append_option(value));
                Arc::new(builder.finish())
            }
            _ => self.text(),
        }
    }

    fn primitive<T: ArrowPrimitiveType>(&mut self, parse: impl Fn(&str) -> Option<T::Native>) -> ArrayRef {
        let mut builder = PrimitiveBuilder::<T>::with_capacity(self.chunk.rows())
            .with_data_type(self.field.data_type().clone());
        self.each(parse, |value| builder.append_option(value));
        Arc::new(builder.finish())
    }

    fn text(&mut self) -> ArrayRef {
        let mut builder = StringBuilder::with_capacity(self.chunk.rows(), self.chunk.rows() * 8);
        for row in 0..self.chunk.rows() {
            let cell = self.chunk.cell(row, self.place);
            match self.text_of(row) {
                _ if self.is_null(row, cell) => {
                    self.null(row);
                    builder.append_null();
                }
                Some(text) => builder.append_value(text),
                None => {
                    (self.bad_cell)(row, false);
                    builder.append_null();
                }
            }
        }
        Arc::new(builder.finish())
    }

    /// Parses every cell without the spaces around it.
    fn each<T>(&mut self, parse: impl Fn(&str) -> Option<T>, mut append: impl FnMut(Option<T>)) {
        for row in 0..self.chunk.rows() {
            let cell = self.chunk.cell(row, self.place);
            if self.is_null(row, cell) {
                self.null(row);
                append(None);
                continue;
            }
            let value = self.text_of(row).map(str::trim_ascii).and_then(&parse);
            if value.is_none() {
                (self.bad_cell)(row, false);
            }
            append(value);
        }
    }

    /// The cell of a row, where it is a text.
    fn text_of(&self, row: usize) -> Option<&'a str> {
        let cell = self.chunk.range(row, self.place);
        match self.whole {
            // Not where the cell ends within a character.
            Some(whole) => whole.get(cell),
            None => std::str::from_utf8(&self.chunk.data[cell]).ok(),
        }
    }

    fn is_null(&self, row: usize, cell: &[u8]) -> bool {
        match self.chunk.kind(row, self.place) {
            Kind::Csv => self.options.is_null(cell, matches!(self.field.data_type(), DataType::Utf8)),
            Kind::Quoted => self.options.is_null_in_quotes(cell, self.field.data_type()),
            Kind::Null => true,
            Kind::Text | Kind::Bare => false,
        }
    }

    fn null(&mut self, row: usize) {
        if !self.field.is_nullable() {
            (self.bad_cell)(row, true);
        }
    }
}

fn parse_bool(text: &str) -> Option<bool> {
    let is_one_of = |words: [&str; 3]| words.iter().any(|w| text.eq_ignore_ascii_case(w));
    if is_one_of(["true", "t", "1"]) { Some(true) } else { is_one_of(["false", "f", "0"]).then_some(false) }
}
