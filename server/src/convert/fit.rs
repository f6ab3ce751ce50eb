//! Rows of the Arrow types that other programs use, as rows of a table's columns.
//!
//! A value is taken where the column's type holds exactly what the other one says: an int64 that is 7 in an int8 column, a
//! float64 that is 7.0 in an int64 column, a time in nanoseconds that is a whole number of microseconds. Anything else is an
//! error and no other value. What a float says is its shortest decimal. Floats of 64 bits are rounded to a float32 column,
//! whose type says that it holds no more. Lists, structs and maps are JSON in a column of texts.

use std::{collections::VecDeque, sync::Arc};

use arrow_array::{
    Array, ArrayRef, RecordBatch, RecordBatchOptions,
    builder::StringBuilder,
    cast::AsArray as _,
    types::{Decimal128Type, Float32Type, Float64Type},
};
use arrow_cast::{
    cast::{CastOptions, cast_with_options},
    display::{ArrayFormatter, FormatOptions},
};
use arrow_schema::{ArrowError, DataType as Arrow, Schema as ArrowSchema, TimeUnit};
use basalt_core::{
    decimals,
    error::{Error, ErrorKind, Result},
    fragment::check_calendar,
    limits::{MAX_COLUMNS, MAX_TEXT_BYTES},
    schema::{DataType, Field, Schema},
    value,
};
use basalt_nested::{is_nested, json_bytes, to_json_within};

use super::{BatchReader, rows::invalid};
use crate::limits;

impl BatchReader {
    /// Whether rows were made by this reader.
    pub(crate) fn fits(&self, batch: &RecordBatch) -> bool {
        Arc::ptr_eq(batch.schema_ref(), &self.forms)
    }

    /// Rows in pieces that take no more memory than a reader may when they are made to fit. Their columns are the reader's,
    /// in its order. The first row has the number `first` where one of them is named.
    pub(crate) fn pieces(&self, batch: &RecordBatch, first: u64) -> Result<VecDeque<RecordBatch>> {
        if batch.num_columns() != self.fields.len() {
            let message = format!("{} columns instead of {}", batch.num_columns(), self.fields.len());
            return Err(invalid(message).at("columns"));
        }
        let (mut left, mut pieces) = (vec![batch.clone()], VecDeque::new());
        while let Some(batch) = left.pop() {
            let (rows, columns) = (batch.num_rows(), batch.num_columns());
            let is_large = rows > limits::FITTED_ROWS || rows.saturating_mul(columns) > limits::FITTED_VALUES;
            let is_long = !is_large && text_bytes(&batch) > limits::FITTED_TEXT_BYTES;
            if rows > 1 && (is_large || is_long) {
                let half = rows / 2;
                left.push(batch.slice(half, rows - half));
                left.push(batch.slice(0, half));
            } else if is_long {
                let most = limits::FITTED_TEXT_BYTES >> 20;
                let row =
                    first + pieces.iter().map(|piece: &RecordBatch| piece.num_rows() as u64).sum::<u64>();
                return Err(invalid(format!("row {row}: a row with more than {most} MiB of texts")));
            } else if rows > 0 {
                pieces.push_back(batch);
            }
        }
        Ok(pieces)
    }

    /// The same rows in the columns' types. What does not fit is told with the number of its row, of which the first one has
    /// `first`.
    pub(crate) fn fit(&self, batch: &RecordBatch, first: u64) -> Result<RecordBatch> {
        self.made(batch, first).map_err(|error| match error.kind() {
            ErrorKind::TypeMismatch => error,
            // Default: no row is wrong by itself.
            _ => self.first_wrong(batch, first).unwrap_or(error),
        })
    }

    /// What is wrong with the first row that does not fit. A cast of many does not say which one it is, and most often nobody
    /// has to look for it.
    fn first_wrong(&self, batch: &RecordBatch, first: u64) -> Option<Error> {
        let (mut before, mut rows) = (0, batch.num_rows());
        while rows > 1 {
            let half = rows / 2;
            match self.made(&batch.slice(before, half), first) {
                Ok(_) => (before, rows) = (before + half, rows - half),
                Err(_) => rows = half,
            }
        }
        self.made(&batch.slice(before, rows), first + before as u64).err()
    }

    fn made(&self, batch: &RecordBatch, first: u64) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.fields.len());
        for (i, (column, field)) in batch.columns().iter().zip(self.fields.iter()).enumerate() {
            let fitted = fit(column, field, first).and_then(|fitted| {
                check_calendar(&fitted, field, first)?;
                Ok(fitted)
            });
            columns.push(fitted.map_err(|error| error.at(format!("columns[{i}]")))?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let fitted = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| invalid(error.to_string()))?;
        match self.fields.iter().all(|field| field.logical.is_none()) {
            true => Ok(fitted),
            false => self.to_form(&fitted, first),
        }
    }
}

/// The columns of a new table for rows of an Arrow schema.
pub(crate) fn table_schema(schema: &ArrowSchema) -> Result<Schema> {
    if schema.fields().len() > MAX_COLUMNS {
        let message = format!("{} columns; the limit is {MAX_COLUMNS}", schema.fields().len());
        return Err(Error::new(ErrorKind::InvalidSchema, message).at("fields"));
    }
    let column = |(i, field): (usize, &arrow_schema::FieldRef)| {
        let known = usual(field.data_type());
        Field::from_arrow(field.name(), &known, field.is_nullable()).ok_or_else(|| {
            let message = format!("column {:?}: no column holds {}", field.name(), field.data_type());
            Error::new(ErrorKind::InvalidSchema, message).at(format!("fields[{i}].type"))
        })
    };
    Schema::new(schema.fields().iter().enumerate().map(column).collect::<Result<_>>()?)
}

/// The type of a column that holds the values of another type.
fn usual(data_type: &Arrow) -> Arrow {
    match data_type {
        nested if is_nested(nested) => Arrow::Utf8,
        Arrow::LargeUtf8 | Arrow::Utf8View | Arrow::Null => Arrow::Utf8,
        Arrow::LargeBinary | Arrow::BinaryView => Arrow::Binary,
        Arrow::Timestamp(..) => DataType::Timestamp.to_arrow(),
        Arrow::Time32(_) | Arrow::Time64(_) => Arrow::Time64(TimeUnit::Microsecond),
        Arrow::Date64 => Arrow::Date32,
        Arrow::Float16 => Arrow::Float32,
        Arrow::Decimal32(precision, scale) | Arrow::Decimal64(precision, scale) => {
            Arrow::Decimal128(*precision, *scale)
        }
        Arrow::Dictionary(_, values) => usual(values),
        other => other.clone(),
    }
}

/// Bytes of the texts of rows, as often as they are named, and of those that are made of lists, structs and maps. Of a dictionary,
/// or of views, these may be many times the bytes that the rows came in.
fn text_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| texts_of(column)).fold(0, usize::saturating_add)
}

fn texts_of(array: &dyn Array) -> usize {
    let length = |value: Option<&str>| value.map_or(0, str::len);
    match array.data_type() {
        nested if is_nested(nested) => json_bytes(array, limits::FITTED_TEXT_BYTES),
        Arrow::Utf8View => array.as_string_view().iter().map(length).fold(0, usize::saturating_add),
        Arrow::BinaryView => {
            let lengths = array.as_binary_view().iter().flatten().map(<[u8]>::len);
            lengths.fold(0, usize::saturating_add)
        }
        Arrow::Dictionary(..) => {
            let Some(dictionary) = array.as_any_dictionary_opt() else { return 0 };
            let values = dictionary.values();
            if values.is_empty() || length_at(values, 0).is_none() {
                return 0;
            }
            let keys = dictionary.normalized_keys();
            let named = keys.iter().enumerate().filter(|(row, _)| array.is_valid(*row));
            named.filter_map(|(_, key)| length_at(values, *key)).fold(0, usize::saturating_add)
        }
        _ => 0,
    }
}

/// Bytes of one of a dictionary's values; `None` where they are no texts.
fn length_at(values: &ArrayRef, at: usize) -> Option<usize> {
    Some(match values.data_type() {
        Arrow::Utf8 | Arrow::LargeUtf8 | Arrow::Utf8View => text_at(values, at).len(),
        Arrow::Binary => values.as_binary::<i32>().value(at).len(),
        Arrow::LargeBinary => values.as_binary::<i64>().value(at).len(),
        Arrow::BinaryView => values.as_binary_view().value(at).len(),
        _ => return None,
    })
}

/// One of the values of a dictionary of texts.
fn text_at(values: &ArrayRef, at: usize) -> &str {
    match values.data_type() {
        Arrow::Utf8 => values.as_string::<i32>().value(at),
        Arrow::LargeUtf8 => values.as_string::<i64>().value(at),
        _ => values.as_string_view().value(at),
    }
}

/// The texts of a dictionary's rows; `None` where it has others than texts.
fn named_texts(array: &dyn Array) -> Option<Vec<Option<&str>>> {
    let dictionary = array.as_any_dictionary_opt()?;
    let values = dictionary.values();
    if !matches!(values.data_type(), Arrow::Utf8 | Arrow::LargeUtf8 | Arrow::Utf8View) {
        return None;
    }
    if values.is_empty() {
        return Some(vec![None; array.len()]);
    }
    let keys = dictionary.normalized_keys();
    let text = |(row, key): (usize, &usize)| {
        (array.is_valid(row) && values.is_valid(*key)).then(|| text_at(values, *key))
    };
    Some(keys.iter().enumerate().map(text).collect())
}

fn fit(column: &ArrayRef, field: &Field, first: u64) -> Result<ArrayRef> {
    let wanted = field.to_arrow_type();
    let given = column.data_type();
    if *given == wanted {
        return Ok(Arc::clone(column));
    }
    if wanted == Arrow::Utf8 {
        return texts(column, field, first);
    }
    let of = match given {
        Arrow::Dictionary(_, values) => values,
        other => other,
    };
    if !is_kin(of, &wanted) {
        return Err(mismatch(field, given));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    // A value of a dictionary that no row names is none of theirs.
    let column =
        &cast_with_options(column, of, &options).map_err(|error| unfit(column, field, first, &error))?;
    if let Some(fitted) = by_digits(column, of, field, first)? {
        return Ok(fitted);
    }
    let failed = |error: ArrowError| unfit(column, field, first, &error);
    // A time without a zone is one of UTC.
    let column = match of {
        Arrow::Timestamp(unit, _) if matches!(wanted, Arrow::Timestamp(..)) => {
            let utc = Arrow::Timestamp(*unit, Some("UTC".into()));
            cast_with_options(column, &utc, &options).map_err(failed)?
        }
        _ => Arc::clone(column),
    };
    let fitted = cast_with_options(&column, &wanted, &options).map_err(failed)?;
    if let (Arrow::Float64, Arrow::Float32) = (of, &wanted)
        && let Some((row, value)) = first_overflow(&column, &fitted)
    {
        let (name, row) = (&field.name, first + row as u64);
        return Err(invalid(format!("column {name:?}, row {row}: {value:e} does not fit a float32")));
    }
    if !is_exact(of, &wanted) {
        let back = cast_with_options(&fitted, column.data_type(), &options).map_err(failed)?;
        if let Some(row) = first_difference(&column, &back) {
            return Err(is_none(&column, row, field, first));
        }
    }
    Ok(fitted)
}

fn is_none(column: &ArrayRef, row: usize, field: &Field, first: u64) -> Error {
    let (name, shown, row) = (&field.name, shown(column, row), first + row as u64);
    invalid(format!("column {name:?}, row {row}: {shown} is no {}", field.type_name()))
}

/// A cast that failed: of one row it is known which value it was.
fn unfit(column: &ArrayRef, field: &Field, first: u64, error: &ArrowError) -> Error {
    match column.len() {
        1 => is_none(column, 0, field, first),
        _ => invalid(format!("column {:?}: {error}", field.name)),
    }
}

/// A value as text; a time that no calendar has is its number.
fn shown(column: &ArrayRef, row: usize) -> String {
    let text = |array: &ArrayRef, row: usize| {
        ArrayFormatter::try_new(array, &FormatOptions::default())?.value(row).try_to_string()
    };
    let number = |_: ArrowError| text(&arrow_cast::cast(&column.slice(row, 1), &Arrow::Int64)?, 0);
    // Default: what cannot be shown is told so.
    text(column, row).or_else(number).unwrap_or_else(|error| error.to_string())
}

/// Floats as decimals and decimals as floats, of which the one is the shortest decimal of the other; `None`: these are others.
fn by_digits(column: &ArrayRef, of: &Arrow, field: &Field, first: u64) -> Result<Option<ArrayRef>> {
    let plain = |to: &Arrow| {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let cast = cast_with_options(column, to, &options);
        cast.map_err(|error| unfit(column, field, first, &error))
    };
    let none = || mismatch(field, of);
    match (of, &field.to_arrow_type()) {
        (Arrow::Float16 | Arrow::Float32 | Arrow::Float64, Arrow::Decimal128(precision, scale)) => {
            // Those of 16 bits are floats of 32 bits.
            let width = if *of == Arrow::Float64 { Arrow::Float64 } else { Arrow::Float32 };
            let floats = plain(&width)?;
            let made = decimals::of_floats(&floats, *precision, scale.unsigned_abs()).ok_or_else(none)?;
            let lost = [decimals::first_beyond(&floats, &made), decimals::first_rounded(&floats, &made)];
            match lost.into_iter().flatten().min() {
                Some(row) => Err(is_none(&floats, row, field, first)),
                None => Ok(Some(Arc::new(made))),
            }
        }
        (
            Arrow::Decimal32(precision, scale)
            | Arrow::Decimal64(precision, scale)
            | Arrow::Decimal128(precision, scale),
            wanted @ (Arrow::Float32 | Arrow::Float64),
        ) if *scale >= 0 => {
            let given = plain(&Arrow::Decimal128(*precision, *scale))?;
            let (values, scale) = (given.as_primitive::<Decimal128Type>(), scale.unsigned_abs());
            let floats: ArrayRef = match wanted {
                Arrow::Float64 => {
                    Arc::new(values.unary::<_, Float64Type>(|unscaled| value::to_f64(unscaled, scale)))
                }
                _ => Arc::new(values.unary::<_, Float32Type>(|unscaled| value::to_f32(unscaled, scale))),
            };
            let back: ArrayRef = Arc::new(decimals::of_floats(&floats, *precision, scale).ok_or_else(none)?);
            match first_difference(&given, &back) {
                Some(row) => Err(is_none(&given, row, field, first)),
                None => Ok(Some(floats)),
            }
        }
        _ => Ok(None),
    }
}

/// Whether values of a type may be those of a column.
fn is_kin(of: &Arrow, column: &Arrow) -> bool {
    let is = match column {
        Arrow::Boolean => matches!(of, Arrow::Boolean),
        Arrow::Date32 | Arrow::Timestamp(..) => {
            matches!(of, Arrow::Date32 | Arrow::Date64 | Arrow::Timestamp(..))
        }
        Arrow::Utf8 => matches!(of, Arrow::Utf8 | Arrow::LargeUtf8 | Arrow::Utf8View),
        Arrow::Binary => matches!(of, Arrow::Binary | Arrow::LargeBinary | Arrow::BinaryView),
        Arrow::Time64(_) => matches!(of, Arrow::Time32(_) | Arrow::Time64(_)),
        _ => of.is_numeric(),
    };
    is || of.is_null()
}

/// Whether a cast that fails at what does not fit loses nothing else.
fn is_exact(of: &Arrow, column: &Arrow) -> bool {
    of.is_null()
        || matches!(column, Arrow::Boolean | Arrow::Binary)
        || (of.is_integer() && column.is_integer())
        || (of.is_floating() && column.is_floating())
}

/// The first row in which two arrays of a type differ.
fn first_difference(a: &ArrayRef, b: &ArrayRef) -> Option<usize> {
    if a.to_data() == b.to_data() {
        return None;
    }
    (0..a.len()).find(|row| a.slice(*row, 1).to_data() != b.slice(*row, 1).to_data())
}

/// The first float that is infinite in 32 bits, and was not.
fn first_overflow(column: &ArrayRef, fitted: &ArrayRef) -> Option<(usize, f64)> {
    let wide = cast_with_options(column, &Arrow::Float64, &CastOptions::default()).ok()?;
    let (wide, narrow) = (wide.as_primitive::<Float64Type>(), fitted.as_primitive::<Float32Type>());
    let mut rows = (0..wide.len()).filter(|row| wide.is_valid(*row));
    let row = rows.find(|row| wide.value(*row).is_finite() && narrow.value(*row).is_infinite())?;
    Some((row, wide.value(row)))
}

fn texts(column: &ArrayRef, field: &Field, first: u64) -> Result<ArrayRef> {
    if is_nested(column.data_type()) {
        let texts = to_json_within(column, MAX_TEXT_BYTES, limits::FITTED_TEXT_BYTES);
        let failed = |error: ArrowError| {
            let row = if column.len() == 1 { format!(", row {first}") } else { String::new() };
            invalid(format!("column {:?}{row}: {error}", field.name))
        };
        return Ok(Arc::new(texts.map_err(failed)?));
    }
    if let Arrow::Dictionary(..) = column.data_type() {
        let texts = named_texts(column).ok_or_else(|| mismatch(field, column.data_type()))?;
        let mut builder = StringBuilder::with_capacity(texts.len(), 0);
        for (row, text) in texts.into_iter().enumerate() {
            if let Some(bytes) = text.map(str::len).filter(|bytes| *bytes > MAX_TEXT_BYTES) {
                let limit = format!("a text of {bytes} bytes; the limit is {MAX_TEXT_BYTES}");
                let (name, row) = (&field.name, first + row as u64);
                return Err(invalid(format!("column {name:?}, row {row}: {limit}")));
            }
            builder.append_option(text);
        }
        return Ok(Arc::new(builder.finish()));
    }
    if !is_kin(column.data_type(), &Arrow::Utf8) {
        return Err(mismatch(field, column.data_type()));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(column, &Arrow::Utf8, &options)
        .map_err(|error| invalid(format!("column {:?}: {error}", field.name)))
}

fn mismatch(field: &Field, given: &Arrow) -> Error {
    let message = format!("column {:?} is {}, which {given} is no value of", field.name, field.type_name());
    Error::new(ErrorKind::TypeMismatch, message)
}

#[cfg(test)]
mod tests;
