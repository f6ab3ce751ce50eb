//! The type of a column of texts, from its values.

use arrow_schema::{DECIMAL128_MAX_PRECISION as MAX_DECIMAL_DIGITS, DataType, Field, TimeUnit};

use crate::{csv::Kind, says_infinity};

/// After so many values of a type, one that is of none is rather a mistake.
const MANY: u64 = 100;

/// How cells are read.
pub trait Rules {
    /// Whether a cell of a CSV stands for null, whatever its column is.
    fn is_null(&self, cell: &[u8]) -> bool;
    /// Whether a cell of a CSV stands for null unless its column is text.
    fn is_null_but_text(&self, cell: &[u8]) -> bool;
    /// Whether nobody has said what is null, so that it is a text where it is quoted.
    fn has_default_nulls(&self) -> bool;
    /// Whether a text is a date.
    fn is_date(&self, text: &str) -> bool;
    /// Whether a text is a timestamp, or a date, which is its midnight.
    fn is_timestamp(&self, text: &str) -> bool;
    /// Whether a text is a time of day.
    fn is_time(&self, text: &str) -> bool;
    /// Whether a number is rather a date or a timestamp, for somebody has said that these are written so.
    fn is_said(&self, _number: &str) -> bool {
        false
    }
}

/// What a column can still be.
#[derive(Clone, Copy, Debug)]
pub struct Guess {
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
    /// Every number is a date or a timestamp, as is said.
    said: bool,
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
            said: true,
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
    /// Of a column of which nothing is known. `is_wanted`: without it nothing is looked at.
    pub fn new(is_wanted: bool) -> Self {
        Self { is_wanted, ..Self::default() }
    }

    /// See [`Guess::new`].
    pub fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// How many cells without quotes were `NA`, which is null where it is no text.
    pub fn not_available(&self) -> u64 {
        self.na
    }

    /// Whether it is text because no type of numbers holds all of its digits.
    pub fn has_too_many_digits(&self) -> bool {
        self.number && self.finite && self.data_type() == DataType::Utf8
    }

    /// Takes a cell in. Where that alone has no type in common with many values before: how many, and what they are.
    pub fn see(&mut self, cell: &[u8], kind: Kind, rules: &impl Rules) -> Option<(u64, DataType)> {
        if !self.is_wanted {
            return None;
        }
        self.cells += 1;
        match kind {
            Kind::Null => {
                self.nulls = true;
                return None;
            }
            Kind::Quoted if rules.has_default_nulls() && rules.is_null(cell) => {
                (self.nulls_but_text, self.in_quotes) = (true, true);
                return None;
            }
            Kind::Csv | Kind::Quoted if rules.is_null(cell) => {
                self.nulls = true;
                return None;
            }
            Kind::Csv | Kind::Quoted if rules.is_null_but_text(cell) => {
                self.nulls_but_text = true;
                self.na += u64::from(kind == Kind::Csv);
                return None;
            }
            Kind::Text | Kind::Csv | Kind::Quoted | Kind::Bare => {}
        }
        self.seen = true;
        let Self { bool, number, said, date, timestamp, time, values, .. } = *self;
        if !self.has_type() {
            return None;
        }
        self.values += 1;
        // A string is no number, whatever it says.
        if matches!(kind, Kind::Text) {
            (self.bool, self.number) = (false, false);
        }
        if self.has_type() {
            self.narrow(cell, rules);
        }
        if self.has_type() || values < MANY {
            return None;
        }
        let was = Self { bool, number, said, date, timestamp, time, ..*self };
        Some((values, was.data_type()))
    }

    /// Whether it can be anything but text.
    fn has_type(&self) -> bool {
        self.bool || self.number || self.date || self.timestamp || self.time
    }

    /// What it can still be with one more value.
    fn narrow(&mut self, cell: &[u8], rules: &impl Rules) {
        let Ok(text) = std::str::from_utf8(cell.trim_ascii()) else {
            *self = Self { bool: false, number: false, date: false, timestamp: false, time: false, ..*self };
            return;
        };
        self.bool = self.bool && (text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false"));
        self.date = self.date && rules.is_date(text);
        // A date among timestamps is its midnight; dates alone are dates.
        self.timestamp = self.timestamp && rules.is_timestamp(text);
        self.time = self.time && rules.is_time(text);
        if self.number {
            self.said = self.said && rules.is_said(text);
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
    pub fn field(&self, name: &str, rows: u64) -> Field {
        // A column without a value has no type; text holds whatever comes later.
        let data_type = if self.seen { self.data_type() } else { DataType::Utf8 };
        let is_text = data_type == DataType::Utf8;
        let has_nulls = self.nulls || self.cells < rows || (self.nulls_but_text && !is_text);
        let is_empty = !self.seen && (!self.nulls_but_text || self.in_quotes);
        Field::new(name, data_type, has_nulls || is_empty)
    }

    /// What all of its values are.
    pub fn data_type(&self) -> DataType {
        let fits = |min: i128, max: i128| min <= self.min && self.max <= max;
        match self {
            Self { bool: true, .. } => DataType::Boolean,
            Self { number: true, said: true, date: true, .. } => DataType::Date32,
            Self { number: true, said: true, timestamp: true, .. } => timestamp(),
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
            Self { timestamp: true, .. } => timestamp(),
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

fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
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

/// So many characters are an integer of 64 bits, which is read sooner than one of 128.
const SHORT_NUMBER: usize = 18;
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
        let number = match text.len() <= SHORT_NUMBER {
            true => text.parse::<i64>().ok().map(i128::from),
            false => text.parse().ok(),
        };
        return number.map(Number::Int);
    }
    if matches!(first | 0x20, b'n' | b'i' | b'+') {
        let is_said = |float: f64| float.is_nan() || (float.is_infinite() && says_infinity(text));
        return text.parse::<f64>().is_ok_and(is_said).then_some(Number::Infinite);
    }
    let starts = first.is_ascii_digit() || first == b'.';
    (starts && text.parse::<f64>().is_ok_and(f64::is_finite)).then_some(Number::Float)
}
