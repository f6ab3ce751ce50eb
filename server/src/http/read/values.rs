//! Texts as values of their columns, exactly or not at all: `1.5` is no integer, and `0.005` has too many digits for a
//! decimal with two. What is wrong is told with its row and its column.

use std::sync::Arc;

use arrow_array::{
    Array as _, ArrayRef, RecordBatch, StringArray,
    builder::BinaryBuilder,
    cast::AsArray as _,
    types::{Float32Type, Float64Type},
};
use arrow_cast::cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType as Arrow, Field as ArrowField, Schema as ArrowSchema};
use basalt_core::{fragment::beyond_calendar, schema::Field};
use basalt_nested::{all_with_seconds, says_infinity};

use super::{invalid, unread};
use crate::status::{RequestError, Result};

/// Texts as values of columns; `place` says where a row came from, as `line 3`.
pub(super) fn values(
    columns: &[ArrayRef],
    fields: &[Field],
    place: impl Fn(usize) -> String,
) -> Result<RecordBatch> {
    let mut made = Vec::with_capacity(fields.len());
    for (column, field) in columns.iter().zip(fields) {
        made.push(value(column.as_string::<i32>(), field, &place)?);
    }
    let arrow = |field: &Field| ArrowField::new(&field.name, field.to_arrow_type(), true);
    let schema = ArrowSchema::new(fields.iter().map(arrow).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), made).map_err(unread)
}

fn value(texts: &StringArray, field: &Field, place: &impl Fn(usize) -> String) -> Result<ArrayRef> {
    let wrong = |row: usize, what: &str| invalid(format!("{}, column {:?}: {what}", place(row), field.name));
    let is_none = |row: usize| {
        let shown: String = texts.value(row).chars().take(80).collect();
        wrong(row, &format!("{shown:?} is no {}", field.type_name()))
    };
    if !field.nullable && texts.null_count() > 0 {
        // What is not there is no null where there are none.
        if field.to_arrow_type() == Arrow::Utf8 {
            let filled: StringArray = texts.iter().map(|text| Some(text.unwrap_or(""))).collect();
            return Ok(Arc::new(filled));
        }
        let row = (0..texts.len()).find(|row| texts.is_null(*row)).unwrap_or_default();
        return Err(wrong(row, "null in a column that is not nullable"));
    }
    let Some(made) = converted(texts, field) else {
        // One of them is none: most often nobody has to look for it.
        let row = (0..texts.len()).find(|row| converted(&texts.slice(*row, 1), field).is_none());
        return Err(row.map_or_else(RequestError::internal, is_none));
    };
    if let Some((row, shown)) = beyond_calendar(&made) {
        return Err(wrong(row, &format!("{shown} is not within the years 0001 to 9999")));
    }
    Ok(made)
}

/// The values; `None`: one of the texts is none.
fn converted(texts: &StringArray, field: &Field) -> Option<ArrayRef> {
    let wanted = field.to_arrow_type();
    match wanted {
        Arrow::Utf8 => return Some(Arc::new(texts.clone())),
        Arrow::Binary => return bytes_of(texts),
        Arrow::Decimal128(_, scale) => {
            let long = |text: &str| {
                let digits = text.trim().split_once('.').map_or("", |(_, digits)| digits);
                let digits = digits.split(['e', 'E']).next().unwrap_or_default();
                digits.trim_end_matches('0').len() > usize::from(scale.unsigned_abs())
            };
            if texts.iter().flatten().any(long) {
                return None;
            }
        }
        _ => {}
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let trimmed = || match texts.iter().flatten().any(|text| text.trim().len() < text.len()) {
        true => texts.iter().map(|text| text.map(str::trim)).collect(),
        false => texts.clone(),
    };
    let texts: ArrayRef = match wanted {
        // What has a time is more than a date.
        Arrow::Date32 if texts.iter().flatten().any(|text| !is_date(text.trim())) => return None,
        Arrow::Timestamp(..) => Arc::new(all_with_seconds(&trimmed())),
        Arrow::Date32 | Arrow::Time64(_) => Arc::new(trimmed()),
        _ => Arc::new(texts.clone()),
    };
    let made = cast_with_options(&texts, &wanted, &options).ok()?;
    (!has_overflow(texts.as_string(), &made)).then_some(made)
}

/// Whether a text has the form of a date, and no more: `2013-07-04`, or one beyond the years of four digits.
pub(super) fn is_date(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    text.split('-').count() == 3 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

/// Whether a number is too large for a float, which a cast takes for infinity.
fn has_overflow(texts: &StringArray, made: &ArrayRef) -> bool {
    let is_infinite = |row: usize| match made.data_type() {
        Arrow::Float64 => made.as_primitive::<Float64Type>().value(row).is_infinite(),
        Arrow::Float32 => made.as_primitive::<Float32Type>().value(row).is_infinite(),
        _ => false,
    };
    made.data_type().is_floating()
        && (0..made.len())
            .any(|row| made.is_valid(row) && is_infinite(row) && !says_infinity(texts.value(row)))
}

/// Bytes, each of which is two hexadecimal digits.
fn bytes_of(texts: &StringArray) -> Option<ArrayRef> {
    let mut values = BinaryBuilder::new();
    for text in texts {
        let Some(text) = text else {
            values.append_null();
            continue;
        };
        let digits = text.strip_prefix("\\x").unwrap_or(text).as_bytes();
        let (pairs, rest) = digits.as_chunks::<2>();
        let byte = |[high, low]: &[u8; 2]| {
            let digit = |digit: u8| char::from(digit).to_digit(16);
            u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()
        };
        let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        values.append_value(bytes.filter(|_| rest.is_empty())?);
    }
    Some(Arc::new(values.finish()))
}
