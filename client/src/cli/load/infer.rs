//! The types of a CSV's columns, from all of its rows.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::{
    csv::{self, Options},
    source::{InputFile, Progress},
};
use crate::{
    cli::CliError,
    text::{parse_date, parse_timestamp},
    types::timestamp_type,
};

/// Rows between two reports of the progress.
const ROWS_A_REPORT: u64 = 4096;

/// The schema that fits every row of every file.
pub(crate) fn schema(
    files: &[InputFile],
    options: &Options,
    max_bad: u64,
    progress: &Progress,
) -> Result<SchemaRef, CliError> {
    let mut names: Vec<String> = Vec::new();
    let mut guesses: Vec<Guess> = Vec::new();
    let (mut bytes_before, mut bad, mut seen) = (0, 0, 0_u64);
    for file in files {
        let mut rows = csv::Records::open(file, options)?;
        let columns = rows.columns();
        if names.is_empty() {
            names = columns.to_vec();
            guesses = names.iter().map(|_| Guess::default()).collect();
        }
        let places: Vec<usize> = columns
            .iter()
            .map(|c| names.iter().position(|n| n == c))
            .collect::<Option<_>>()
            .filter(|places: &Vec<usize>| places.len() == names.len())
            .ok_or_else(|| file.error(format!("its columns are not {}", names.join(", "))))?;
        while let Some(record) = rows.next()? {
            match record {
                Ok(record) => {
                    for (cell, &place) in record.fields().zip(&places) {
                        guesses[place].see(cell, options.is_null(cell));
                    }
                }
                Err(reason) => {
                    bad += 1;
                    if bad > max_bad {
                        return Err(CliError::Input(reason));
                    }
                }
            }
            seen += 1;
            if seen % ROWS_A_REPORT == 0 {
                progress(bytes_before + rows.bytes_read())?;
            }
        }
        bytes_before += file.bytes;
    }
    let fields: Vec<_> = names.iter().zip(&guesses).map(|(name, guess)| guess.field(name)).collect();
    Ok(Arc::new(Schema::new(fields)))
}

/// What a column can still be.
#[derive(Clone, Copy, Debug)]
struct Guess {
    seen: bool,
    nulls: bool,
    bool: bool,
    number: bool,
    /// A number with a point or an exponent was seen.
    fraction: bool,
    date: bool,
    timestamp: bool,
    min: i128,
    max: i128,
}

impl Default for Guess {
    fn default() -> Self {
        Self {
            seen: false,
            nulls: false,
            bool: true,
            number: true,
            fraction: false,
            date: true,
            timestamp: true,
            min: 0,
            max: 0,
        }
    }
}

impl Guess {
    fn see(&mut self, cell: &[u8], is_null: bool) {
        if is_null {
            self.nulls = true;
            return;
        }
        self.seen = true;
        if !(self.bool || self.number || self.date || self.timestamp) {
            return;
        }
        let Ok(text) = std::str::from_utf8(cell.trim_ascii()) else {
            *self = Self { bool: false, number: false, date: false, timestamp: false, ..*self };
            return;
        };
        self.bool = self.bool && (text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false"));
        self.date = self.date && parse_date(text).is_some();
        self.timestamp = self.timestamp && parse_timestamp(text).is_some();
        if self.number {
            match number(text) {
                Some(Number::Int(n)) => {
                    self.min = self.min.min(n);
                    self.max = self.max.max(n);
                }
                Some(Number::Float) => self.fraction = true,
                None => self.number = false,
            }
        }
    }

    fn field(&self, name: &str) -> Field {
        // A column without a value has no type; text holds whatever comes later.
        Field::new(name, if self.seen { self.data_type() } else { DataType::Utf8 }, self.nulls || !self.seen)
    }

    fn data_type(&self) -> DataType {
        let fits = |min: i128, max: i128| min <= self.min && self.max <= max;
        match self {
            Self { bool: true, .. } => DataType::Boolean,
            Self { number: true, fraction: true, .. } => DataType::Float64,
            Self { number: true, .. } if fits(i32::MIN.into(), i32::MAX.into()) => DataType::Int32,
            Self { number: true, .. } if fits(i64::MIN.into(), i64::MAX.into()) => DataType::Int64,
            Self { number: true, .. } if fits(0, u64::MAX.into()) => DataType::UInt64,
            Self { date: true, .. } => DataType::Date32,
            Self { timestamp: true, .. } => timestamp_type(),
            _ => DataType::Utf8,
        }
    }
}

enum Number {
    Int(i128),
    Float,
}

/// A number as people write numbers: `007` is a code, whose zeros are part of it.
fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let mut bytes = digits.bytes();
    let first = bytes.next()?;
    if first == b'0' && bytes.next().is_some_and(|b| b.is_ascii_digit()) {
        return None;
    }
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok().map(Number::Int);
    }
    let starts = first.is_ascii_digit() || first == b'.';
    (starts && text.parse::<f64>().is_ok_and(f64::is_finite)).then_some(Number::Float)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::type_name;

    #[track_caller]
    fn check(cells: &[&str], expected: &str) {
        let mut guess = Guess::default();
        for cell in cells {
            guess.see(cell.as_bytes(), cell.is_empty());
        }
        let field = guess.field("a");
        let null = if field.is_nullable() { " null" } else { "" };
        assert_eq!(format!("{}{null}", type_name(field.data_type())), expected, "{cells:?}");
    }

    #[test]
    fn types() {
        check(&["1", "-2", "0"], "int32");
        check(&["1", ""], "int32 null");
        check(&["2147483647"], "int32");
        check(&["2147483648"], "int64");
        check(&["-9223372036854775808"], "int64");
        check(&["9223372036854775808"], "uint64");
        check(&["9223372036854775808", "-1"], "utf8");
        check(&["1", "2.5"], "float64");
        check(&["1e3", ".5", "-0.25"], "float64");
        check(&["1", "x"], "utf8");
        check(&["NaN"], "utf8");
        check(&["inf"], "utf8");
        check(&["1e999"], "utf8");
        check(&["007", "123"], "utf8");
        check(&["0.5", "0"], "float64");
        check(&["+5"], "utf8");
        check(&["-"], "utf8");
        check(&["true", "FALSE"], "bool");
        check(&["true", "1"], "utf8");
        check(&["2013-07-04", "1969-12-31"], "date32");
        check(&["2013-07-04T10:00:00Z", "2013-07-04 11:00:00"], "timestamp");
        check(&["2013-07-04T10:00:00Z", "2013-07-04"], "utf8");
        check(&["2013-02-30"], "utf8");
        check(&["", ""], "utf8 null");
        check(&[], "utf8 null");
        check(&[" 7", "8 "], "int32");
    }
}
