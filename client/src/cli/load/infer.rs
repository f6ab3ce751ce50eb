//! The types of the columns of CSV and JSON files, from all of their rows.

use std::collections::BTreeMap;

use arrow_schema::{DataType, Field, TimeUnit};
use basalt_nested::{csv::Kind, says_infinity};

use super::{
    FileFormat,
    options::Options,
    rows::Records,
    source::{InputFile, Progress},
};
use crate::{
    cli::{CliError, human},
    text::parse_time_of_day,
    types::{MAX_DECIMAL_DIGITS, timestamp_type, type_name},
};

/// After so many values of a type, one that is of none is rather a mistake.
const MANY: u64 = 100;
/// Rows between two reports of the progress.
const ROWS_A_REPORT: u64 = 4096;

/// The columns that are found in some files.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) fields: Vec<Field>,
    /// Columns that nobody wants.
    pub(super) left_out: Vec<String>,
    /// Why a column is text whose values were nearly all something else.
    pub(super) notes: Vec<String>,
    /// They have no rows: of their columns nothing is known but the names.
    pub(super) is_empty: bool,
}

/// The columns that fit every row of every file: those of a CSV are in every other, a key of JSON may be missing.
pub(super) fn columns(
    files: &[&InputFile],
    options: &Options,
    max_bad: u64,
    progress: &Progress,
) -> Result<Found, CliError> {
    let (mut all, mut found) = (Columns::default(), Found::default());
    // The columns of the CSVs.
    let mut expected: Option<Vec<String>> = None;
    let (mut bytes_before, mut bad, mut seen) = (0, 0, 0_u64);
    for file in files {
        let mut rows = Records::to_infer(file, options)?;
        if file.format != FileFormat::Json {
            let names = rows.columns();
            match &expected {
                None => expected = Some(names.to_vec()),
                Some(expected) => {
                    let has_same =
                        names.len() == expected.len() && names.iter().all(|name| expected.contains(name));
                    if !has_same {
                        return Err(file.error(format!("its columns are not {}", expected.join(", "))));
                    }
                }
            }
        }
        let mut places: Vec<usize> = rows.columns().iter().map(|name| all.place(name, options)).collect();
        loop {
            let fields = match rows.next()? {
                None => break,
                Some(Ok(record)) => {
                    all.rows += 1;
                    for (&place, (cell, kind)) in places.iter().zip(record.fields().zip(record.kinds())) {
                        if let Some((values, was)) = all.guesses[place].see(cell, kind, options) {
                            let shown = String::from_utf8_lossy(&cell[..cell.len().min(40)]).into_owned();
                            let (name, was) = (&all.names[place], type_name(&was));
                            found.notes.push(format!(
                                "column {name:?} is text, for {shown:?} in row {} of {}; the {} values before are {was}",
                                seen + 1,
                                file.name(),
                                human::count(values),
                            ));
                        }
                    }
                    record.len()
                }
                Some(Err(reason)) => {
                    bad += 1;
                    if bad > max_bad {
                        return Err(CliError::Input(reason));
                    }
                    0
                }
            };
            if fields > places.len() {
                // Keys that no row had before: their cells are seen now.
                let new: Vec<usize> =
                    rows.columns()[places.len()..].iter().map(|name| all.place(name, options)).collect();
                if let Some(record) = rows.last() {
                    let cells = record.fields().zip(record.kinds()).skip(places.len());
                    for (&place, (cell, kind)) in new.iter().zip(cells) {
                        all.guesses[place].see(cell, kind, options);
                    }
                }
                places.extend(new);
            }
            seen += 1;
            if seen % ROWS_A_REPORT == 0 {
                progress(bytes_before + rows.bytes_read().min(file.bytes))?;
            }
        }
        bytes_before += file.bytes;
    }
    for (name, guess) in all.names.iter().zip(&all.guesses) {
        if guess.is_wanted && guess.number && guess.finite && guess.data_type() == DataType::Utf8 {
            found.notes.push(format!("column {name:?} is text: no type of numbers holds all of its digits"));
        }
        if options.wants(name) {
            let field = guess.field(name, all.rows);
            if guess.na > 0 && *field.data_type() == DataType::Utf8 {
                let times = human::plural(guess.na, "time");
                found.notes.push(format!(
                    "column {name:?} is text, and \"NA\" stands in it {times} (--null '' --null NA makes it null)"
                ));
            }
            found.fields.push(field);
        } else {
            found.left_out.push(name.clone());
        }
    }
    found.is_empty = all.rows == 0;
    Ok(found)
}

/// The columns of all files.
#[derive(Default)]
struct Columns {
    names: Vec<String>,
    index: BTreeMap<String, usize>,
    guesses: Vec<Guess>,
    /// Rows seen so far.
    rows: u64,
}

impl Columns {
    fn place(&mut self, name: &str, options: &Options) -> usize {
        if let Some(place) = self.index.get(name) {
            return *place;
        }
        let place = self.names.len();
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), place);
        self.guesses.push(Guess { is_wanted: options.wants(name), ..Guess::default() });
        place
    }
}

/// What a column can still be.
#[derive(Clone, Copy, Debug)]
struct Guess {
    is_wanted: bool,
    /// Rows that had a cell of it.
    cells: u64,
    /// Its values as long as they had a type in common.
    values: u64,
    seen: bool,
    nulls: bool,
    /// A cell that is null unless the column is text.
    nulls_but_text: bool,
    /// Cells without quotes that are `NA`.
    na: u64,
    /// One that is in quotes, and would be null without them.
    in_quotes: bool,
    bool: bool,
    number: bool,
    /// A number was seen that is finite.
    finite: bool,
    /// A number with a point or an exponent was seen, or one that is not finite.
    fraction: bool,
    /// A number with an exponent was seen, or one that is not finite.
    inexact: bool,
    /// A fraction was seen that no float holds as it is written.
    beyond: bool,
    /// The most digits behind a point.
    scale: usize,
    /// The most digits before one.
    whole: usize,
    date: bool,
    timestamp: bool,
    time: bool,
    min: i128,
    max: i128,
}

impl Default for Guess {
    fn default() -> Self {
        Self {
            is_wanted: true,
            cells: 0,
            values: 0,
            seen: false,
            nulls: false,
            nulls_but_text: false,
            na: 0,
            in_quotes: false,
            bool: true,
            number: true,
            finite: false,
            fraction: false,
            inexact: false,
            beyond: false,
            scale: 0,
            whole: 0,
            date: true,
            timestamp: true,
            time: true,
            min: 0,
            max: 0,
        }
    }
}

impl Guess {
    /// Takes a cell in. Where that alone has no type in common with many values before: how many, and what they are.
    fn see(&mut self, cell: &[u8], kind: Kind, options: &Options) -> Option<(u64, DataType)> {
        if !self.is_wanted {
            return None;
        }
        self.cells += 1;
        match kind {
            Kind::Null => {
                self.nulls = true;
                return None;
            }
            Kind::Quoted if options.has_default_nulls() && options.is_null(cell, true) => {
                (self.nulls_but_text, self.in_quotes) = (true, true);
                return None;
            }
            Kind::Csv | Kind::Quoted if options.is_null(cell, true) => {
                self.nulls = true;
                return None;
            }
            Kind::Csv | Kind::Quoted if options.is_null_but_text(cell) => {
                self.nulls_but_text = true;
                self.na += u64::from(kind == Kind::Csv);
                return None;
            }
            Kind::Text | Kind::Csv | Kind::Quoted | Kind::Bare => {}
        }
        self.seen = true;
        let Self { bool, number, date, timestamp, time, values, .. } = *self;
        // A string is no number, whatever it says.
        if matches!(kind, Kind::Text) {
            (self.bool, self.number) = (false, false);
        }
        if !self.has_type() {
            return None;
        }
        self.values += 1;
        self.narrow(cell, options);
        let was = Self { bool, number, date, timestamp, time, ..*self };
        (!self.has_type() && values >= MANY).then(|| (values, was.data_type()))
    }

    /// Whether it can be anything but text.
    fn has_type(&self) -> bool {
        self.bool || self.number || self.date || self.timestamp || self.time
    }

    /// What it can still be with one more value.
    fn narrow(&mut self, cell: &[u8], options: &Options) {
        let Ok(text) = std::str::from_utf8(cell.trim_ascii()) else {
            *self = Self { bool: false, number: false, date: false, timestamp: false, time: false, ..*self };
            return;
        };
        self.bool = self.bool && (text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false"));
        self.date = self.date && options.formats.date(text).is_some();
        // A date among timestamps is its midnight; dates alone are dates.
        self.timestamp = self.timestamp && options.formats.timestamp(text).is_some();
        self.time = self.time && parse_time_of_day(text).is_some();
        if self.number {
            match number(text) {
                Some(Number::Int(n)) => {
                    self.finite = true;
                    // A zero may have a sign, which no unsigned integer has.
                    self.min = self.min.min(if text.starts_with('-') { n.min(-1) } else { n });
                    self.max = self.max.max(n);
                }
                Some(Number::Float) => {
                    (self.finite, self.fraction) = (true, true);
                    let (whole, fraction) =
                        text.trim_start_matches('-').split_once('.').unwrap_or((text, ""));
                    if whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
                        self.whole = self.whole.max(whole.len());
                        self.scale = self.scale.max(fraction.len());
                        self.beyond = self.beyond || is_beyond(text, whole.len(), fraction.len());
                    } else {
                        self.inexact = true;
                    }
                }
                Some(Number::Infinite) => (self.fraction, self.inexact) = (true, true),
                None => self.number = false,
            }
        }
    }

    /// The column, in `rows` rows.
    fn field(&self, name: &str, rows: u64) -> Field {
        // A column without a value has no type; text holds whatever comes later.
        let data_type = if self.seen { self.data_type() } else { DataType::Utf8 };
        let is_text = data_type == DataType::Utf8;
        let has_nulls = self.nulls || self.cells < rows || (self.nulls_but_text && !is_text);
        let is_empty = !self.seen && (!self.nulls_but_text || self.in_quotes);
        Field::new(name, data_type, has_nulls || is_empty)
    }

    fn data_type(&self) -> DataType {
        let fits = |min: i128, max: i128| min <= self.min && self.max <= max;
        match self {
            Self { bool: true, .. } => DataType::Boolean,
            // `NaN` and `inf` alone are rather words.
            Self { number: true, finite: false, .. } => DataType::Utf8,
            Self { number: true, fraction: true, inexact: false, .. }
                if self.beyond || !fits(-EXACT, EXACT) =>
            {
                // A number that no float holds, and a fraction that no integer does.
                self.decimal().unwrap_or(DataType::Utf8)
            }
            Self { number: true, fraction: true, .. } if !fits(-EXACT, EXACT) => DataType::Utf8,
            Self { number: true, fraction: true, .. } => DataType::Float64,
            Self { number: true, .. } if fits(i32::MIN.into(), i32::MAX.into()) => DataType::Int32,
            Self { number: true, .. } if fits(i64::MIN.into(), i64::MAX.into()) => DataType::Int64,
            Self { number: true, .. } if fits(0, u64::MAX.into()) => DataType::UInt64,
            Self { number: true, .. } => self.decimal().unwrap_or(DataType::Utf8),
            Self { date: true, .. } => DataType::Date32,
            Self { timestamp: true, .. } => timestamp_type(),
            Self { time: true, .. } => DataType::Time64(TimeUnit::Microsecond),
            _ => DataType::Utf8,
        }
    }

    /// The decimal that holds every number, if it has not too many digits.
    fn decimal(&self) -> Option<DataType> {
        let digits = |n: i128| n.unsigned_abs().checked_ilog10().map_or(1, |log| log as usize + 1);
        let whole = digits(self.min).max(digits(self.max)).max(self.whole);
        let scale = i8::try_from(self.scale).ok()?;
        let fits = whole + self.scale <= usize::from(MAX_DECIMAL_DIGITS);
        fits.then_some(DataType::Decimal128(MAX_DECIMAL_DIGITS, scale))
    }
}

/// Whether no float is written so: neither in its fewest digits, nor in as many as these.
fn is_beyond(text: &str, whole: usize, fraction: usize) -> bool {
    // So few digits are those of one float.
    if whole + fraction <= f64::DIGITS as usize {
        return false;
    }
    let Ok(float) = text.parse::<f64>() else { return false };
    let (digits, fewest) = (padded(text), float.abs().to_string());
    // Every one of them has a point.
    let is_fewest = digits.trim_end_matches('0').trim_end_matches('.') == fewest;
    !is_fewest && format!("{:.fraction$}", float.abs()) != digits
}

/// A number without its sign, and with a digit before its point.
fn padded(text: &str) -> String {
    let digits = text.trim_start_matches('-');
    if digits.starts_with('.') { format!("0{digits}") } else { digits.to_owned() }
}

/// Beyond these floats are not all integers.
const EXACT: i128 = 1 << f64::MANTISSA_DIGITS;

enum Number {
    Int(i128),
    Float,
    /// NaN or an infinity.
    Infinite,
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
    if matches!(first | 0x20, b'n' | b'i' | b'+') {
        let is_said = |float: f64| float.is_nan() || (float.is_infinite() && says_infinity(text));
        return text.parse::<f64>().is_ok_and(is_said).then_some(Number::Infinite);
    }
    let starts = first.is_ascii_digit() || first == b'.';
    (starts && text.parse::<f64>().is_ok_and(f64::is_finite)).then_some(Number::Float)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cells: &[&str], expected: &str) {
        let mut guess = Guess::default();
        let options = Options::new(&super::super::tests::args(&["t", "f.csv"]));
        for cell in cells {
            guess.see(cell.as_bytes(), Kind::Csv, &options);
        }
        let field = guess.field("a", cells.len() as u64);
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
        check(&["9223372036854775808", "-1"], "decimal(38,0)");
        check(&["9223372036854775808", "-0"], "decimal(38,0)");
        check(&["-0", "1"], "int32");
        check(&["100000000000000000000", "1"], "decimal(38,0)");
        check(&["9007199254740993", "0.25"], "decimal(38,2)");
        check(&["12345678901234567890.123456789", "1"], "decimal(38,9)");
        check(&["-12345678901234567.89"], "decimal(38,2)");
        check(&["0.10000000000000001", ".1", "0.1000000000000000055511151231257827"], "float64");
        check(&["-0.30000000000000004", "1234567.8901234567"], "float64");
        check(&["0.12345678901234567891"], "decimal(38,20)");
        check(&["3.1000000000000000", "1e5"], "float64");
        check(&["3.1000000000000000", "100.00000000000000000"], "float64");
        check(&["0.12345678901234567891", "NaN"], "float64");
        check(&["9007199254740993", "1e3"], "utf8");
        check(&["9007199254740992", "0.25"], "float64");
        check(&["1", &"9".repeat(39)], "utf8");
        check(&["10:30", "23:59:59.5"], "time");
        check(&["10:30", "24:00"], "utf8");
        check(&["1", "2.5"], "float64");
        check(&["1e3", ".5", "-0.25"], "float64");
        check(&["1", "x"], "utf8");
        check(&["NaN"], "utf8");
        check(&["inf"], "utf8");
        check(&["1", "NaN", "-inf", "+Infinity", "nan"], "float64");
        check(&["NA", "1"], "int32 null");
        check(&["NA", "x"], "utf8");
        check(&["NA"], "utf8");
        check(&["NA", "", "x"], "utf8 null");
        check(&["1", "nano"], "utf8");
        check(&["1e999"], "utf8");
        check(&["007", "123"], "utf8");
        check(&["0.5", "0"], "float64");
        check(&["+5"], "utf8");
        check(&["-"], "utf8");
        check(&["true", "FALSE"], "bool");
        check(&["true", "1"], "utf8");
        check(&["2013-07-04", "1969-12-31"], "date32");
        check(&["2013-07-04T10:00:00Z", "2013-07-04 11:00:00"], "timestamp");
        check(&["2013-07-04T10:00:00Z", "2013-07-04"], "timestamp");
        check(&["2013-07-04", "2013-07-04 10:00"], "timestamp");
        check(&["2013-07-04 10:60"], "utf8");
        check(&["2013-02-30"], "utf8");
        check(&["", ""], "utf8 null");
        check(&[], "utf8 null");
        check(&[" 7", "8 "], "int32");
    }
}
