//! REPLACE and REGEXP_REPLACE, which make long texts of short ones: what is put in the place of each match counts as often as
//! there are matches, before it is allocated.
//!
//! What takes the place of a pattern's match is written as in PostgreSQL and DuckDB: `\1` to `\9` stand for groups, `\0` and
//! `\&` for all of it, `\\` for a backslash, and a dollar for itself.

use std::borrow::Cow;

use arrow_array::{Array, ArrayRef, LargeStringArray, cast::AsArray as _};
use arrow_schema::DataType;
use basalt_core::error::ErrorKind;
use datafusion::{
    arrow::compute::cast,
    common::{DataFusionError, Result, ScalarValue},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF},
};

use crate::{
    around::{Call, Texts, of_parts, some_rows},
    error::Error,
    limits,
};

const REPLACE: &str = "replace";
const BY_PATTERN: &str = "regexp_replace";
pub(crate) const NAMES: [&str; 2] = [REPLACE, BY_PATTERN];

/// The way that [`NAMES`] are called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Replaced;

impl Call for Replaced {
    fn call(function: &ScalarUDF, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Some(to) = args.args.get_mut(2).filter(|_| function.name() == BY_PATTERN) {
            *to = written(to)?;
        }
        let [text, from, to, more @ ..] = args.args.as_slice() else {
            return invoke(function, args);
        };
        if is_little(text, to) {
            return invoke(function, args);
        }
        let is_once = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_once { 1 } else { args.number_rows };
        let texts = Replacing::new(text, from, to)?;
        let is_replace = function.name() == REPLACE;
        let most = |row: usize| match is_replace {
            true => texts.most(row),
            false => texts.most_of_pattern(row, !more.is_empty()),
        };
        // What is put in may be as long as the texts were, and this.
        let room = texts.text.bytes().saturating_add(limits::TEXTS_BYTES);
        let too_long = || {
            let message = format!("{} would make more than {room} bytes", function.name());
            Err(Error::new(ErrorKind::MemoryLimit, message).into())
        };
        let at_once = texts.rows_at_once(rows);
        if (0..rows).map(most).fold(0, u64::saturating_add) <= room {
            return in_parts(function, args, rows, at_once);
        }
        if is_replace {
            let exact = (0..rows).map(|row| texts.exact(row)).fold(0, u64::saturating_add);
            return if exact <= room { in_parts(function, args, rows, at_once) } else { too_long() };
        }
        // How often a pattern is found is known once it is: row by row.
        let (mut made, mut bytes) = (Vec::with_capacity(rows), 0_u64);
        for row in 0..rows {
            if most(row) > room {
                return too_long();
            }
            let one = some_rows(function, &args, row, 1).map_err(|error| told(function, error))?;
            bytes = bytes.saturating_add(one.get_buffer_memory_size() as u64);
            if bytes > room {
                return too_long();
            }
            made.push(one);
        }
        of_parts(&made, is_once)
    }
}

/// What takes the place of matches, as the function below reads it.
fn written(to: &ColumnarValue) -> Result<ColumnarValue> {
    let of = |array: &ArrayRef| -> Result<ArrayRef> {
        let texts = cast(array, &DataType::LargeUtf8)?;
        let texts = texts.as_string::<i64>().iter();
        let written: LargeStringArray = texts.map(|text| text.map(replacement)).collect();
        Ok(cast(&written, array.data_type())?)
    };
    Ok(match to {
        ColumnarValue::Array(array) => ColumnarValue::Array(of(array)?),
        ColumnarValue::Scalar(scalar) => {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&of(&scalar.to_array()?)?, 0)?)
        }
    })
}

/// The same text for the crate `regex`, with groups by a backslash as the function below takes them.
fn replacement(text: &str) -> Cow<'_, str> {
    if !text.contains(['\\', '$']) {
        return text.into();
    }
    // It stands for no group, and so for nothing: behind it a digit is a digit.
    const NOTHING: &str = "${-}";
    let (mut made, mut rest) = (String::with_capacity(text.len() * 2), text.chars().peekable());
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('$', _) => made.push_str("$$"),
            ('\\', Some(group @ ('0'..='9' | '&'))) => {
                made.extend(['\\', if *group == '&' { '0' } else { *group }]);
                rest.next();
                if rest.peek().is_some_and(char::is_ascii_digit) {
                    made.push_str(NOTHING);
                }
            }
            ('\\', _) => {
                let _ = rest.next_if_eq(&'\\');
                made.push('\\');
                made.push_str(NOTHING);
            }
            (c, _) => made.push(c),
        }
    }
    made.into()
}

/// Whether nothing has to be counted, for a text that is the same for all rows is put into few bytes.
fn is_little(text: &ColumnarValue, to: &ColumnarValue) -> bool {
    let (ColumnarValue::Array(texts), ColumnarValue::Scalar(to)) = (text, to) else { return false };
    let Some(Some(to)) = to.try_as_str() else { return false };
    let bytes = (texts.get_array_memory_size() as u64 + texts.len() as u64).saturating_mul(2);
    bytes.saturating_mul(to.len() as u64) <= limits::TEXTS_BYTES
}

/// What a function answers.
fn invoke(function: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
    function.invoke_with_args(args).map_err(|error| told(function, error))
}

/// A pattern that is none is an error of the statement.
fn told(function: &ScalarUDF, error: DataFusionError) -> DataFusionError {
    match error {
        DataFusionError::External(why) if function.name() == BY_PATTERN => {
            Error::invalid(format!("{BY_PATTERN}: {why}")).into()
        }
        other => other,
    }
}

/// The answer for all rows, so many at a time.
fn in_parts(
    function: &ScalarUDF,
    args: ScalarFunctionArgs,
    rows: usize,
    at_once: usize,
) -> Result<ColumnarValue> {
    if rows <= at_once {
        return invoke(function, args);
    }
    let parts = (0..rows).step_by(at_once);
    let parts = parts.map(|row| some_rows(function, &args, row, at_once.min(rows - row)));
    let parts = parts.collect::<Result<Vec<_>>>().map_err(|error| told(function, error))?;
    of_parts(&parts, false)
}

/// What is searched, what for, and what takes its place.
struct Replacing {
    text: Texts,
    from: Texts,
    to: Texts,
}

impl Replacing {
    fn new(text: &ColumnarValue, from: &ColumnarValue, to: &ColumnarValue) -> Result<Self> {
        Ok(Self { text: Texts::new(text)?, from: Texts::new(from)?, to: Texts::new(to)? })
    }

    /// For how many rows a call may be: the function has a text that all rows have once for each of them.
    fn rows_at_once(&self, rows: usize) -> usize {
        let ones = [&self.text, &self.from, &self.to].into_iter().filter(|texts| texts.is_one);
        let of_each: u64 = ones.map(Texts::bytes).sum();
        let most = limits::TEXTS_BYTES.checked_div(of_each).and_then(|most| usize::try_from(most).ok());
        // Default: none is long.
        most.unwrap_or(rows).max(1)
    }

    fn row(&self, row: usize) -> Option<(&str, &str, &str)> {
        Some((self.text.get(row)?, self.from.get(row)?, self.to.get(row)?))
    }

    /// What REPLACE makes of a row, at most.
    fn most(&self, row: usize) -> u64 {
        let Some((text, from, to)) = self.row(row) else { return 0 };
        let (text, from, to) = (text.len() as u64, from.len() as u64, to.len() as u64);
        // A text without a character stands before each of them, and behind the last.
        let matches = text.checked_div(from).unwrap_or(text + 1);
        text.saturating_add(matches.saturating_mul(to))
    }

    /// What it makes.
    fn exact(&self, row: usize) -> u64 {
        let Some((text, from, to)) = self.row(row) else { return 0 };
        let matches = text.matches(from).count() as u64;
        (text.len() as u64).saturating_add(matches.saturating_mul(to.len() as u64))
    }

    /// What REGEXP_REPLACE makes of a row, at most: of the first match, or of all of them.
    fn most_of_pattern(&self, row: usize, is_of_all: bool) -> u64 {
        let Some((text, _, to)) = self.row(row) else { return 0 };
        let (text, to) = (text.len() as u64, to.len() as u64);
        let matches = if is_of_all { text + 1 } else { 1 };
        // Two bytes of it stand for a group, which is a match at most; all matches are the text.
        let groups = (to / 2).saturating_mul(text);
        text.saturating_add(matches.saturating_mul(to)).saturating_add(groups)
    }
}
