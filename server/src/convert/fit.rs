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
use arrow_cast::cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType as Arrow, Schema as ArrowSchema, TimeUnit};
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
    /// in its order.
    pub(crate) fn pieces(&self, batch: &RecordBatch) -> Result<VecDeque<RecordBatch>> {
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
                return Err(invalid(format!("a row with more than {most} MiB of texts")));
            } else if rows > 0 {
                pieces.push_back(batch);
            }
        }
        Ok(pieces)
    }

    /// The same rows in the columns' types.
    pub(crate) fn fit(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.fields.len());
        for (i, (column, field)) in batch.columns().iter().zip(self.fields.iter()).enumerate() {
            let fitted = fit(column, field).and_then(|fitted| {
                check_calendar(&fitted, field)?;
                Ok(fitted)
            });
            columns.push(fitted.map_err(|error| error.at(format!("columns[{i}]")))?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let fitted = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| invalid(error.to_string()))?;
        match self.fields.iter().all(|field| field.logical.is_none()) {
            true => Ok(fitted),
            false => self.to_form(&fitted),
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

fn fit(column: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    let wanted = field.to_arrow_type();
    let given = column.data_type();
    if *given == wanted {
        return Ok(Arc::clone(column));
    }
    if wanted == Arrow::Utf8 {
        return texts(column, field);
    }
    let of = match given {
        Arrow::Dictionary(_, values) => values,
        other => other,
    };
    if !is_kin(of, &wanted) {
        return Err(mismatch(field, given));
    }
    if let Some(fitted) = by_digits(column, of, field)? {
        return Ok(fitted);
    }
    let failed = |error: arrow_schema::ArrowError| invalid(format!("column {:?}: {error}", field.name));
    let options = CastOptions { safe: false, ..CastOptions::default() };
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
        let message = format!("column {:?}, row {row}: {value:e} does not fit a float32", field.name);
        return Err(invalid(message));
    }
    if !is_exact(of, &wanted) {
        let back = cast_with_options(&fitted, column.data_type(), &options).map_err(failed)?;
        if let Some(row) = first_difference(&column, &back) {
            return Err(is_none(&column, row, field));
        }
    }
    Ok(fitted)
}

fn is_none(column: &ArrayRef, row: usize, field: &Field) -> Error {
    let options = arrow_cast::display::FormatOptions::default();
    let shown = arrow_cast::display::ArrayFormatter::try_new(column, &options)
        .map_or_else(|error| error.to_string(), |formatter| formatter.value(row).to_string());
    invalid(format!("column {:?}, row {row}: {shown} is no {}", field.name, field.type_name()))
}

/// Floats as decimals and decimals as floats, of which the one is the shortest decimal of the other; `None`: these are others.
fn by_digits(column: &ArrayRef, of: &Arrow, field: &Field) -> Result<Option<ArrayRef>> {
    let plain = |to: &Arrow| {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let cast = cast_with_options(column, to, &options);
        cast.map_err(|error| invalid(format!("column {:?}: {error}", field.name)))
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
                Some(row) => Err(is_none(&floats, row, field)),
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
                Some(row) => Err(is_none(&given, row, field)),
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

fn texts(column: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    if is_nested(column.data_type()) {
        let texts = to_json_within(column, MAX_TEXT_BYTES, limits::FITTED_TEXT_BYTES);
        let texts = texts.map_err(|error| invalid(format!("column {:?}: {error}", field.name)))?;
        return Ok(Arc::new(texts));
    }
    if let Arrow::Dictionary(..) = column.data_type() {
        let texts = named_texts(column).ok_or_else(|| mismatch(field, column.data_type()))?;
        let mut builder = StringBuilder::with_capacity(texts.len(), 0);
        for (row, text) in texts.into_iter().enumerate() {
            if let Some(bytes) = text.map(str::len).filter(|bytes| *bytes > MAX_TEXT_BYTES) {
                let limit = format!("a text of {bytes} bytes; the limit is {MAX_TEXT_BYTES}");
                return Err(invalid(format!("column {:?}, row {row}: {limit}", field.name)));
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
mod tests {
    use arrow_array::{
        Date64Array, Decimal128Array, DictionaryArray, FixedSizeListArray, Float32Array, Float64Array,
        Int8Array, Int64Array, LargeStringArray, NullArray, StringArray, StringViewArray,
        TimestampNanosecondArray, types::Int8Type,
    };
    use basalt_core::schema::DataType;

    use super::*;

    fn fitted(data_type: DataType, column: ArrayRef) -> Result<ArrayRef> {
        let reader = BatchReader::new(&[Field::new("a", data_type, true)]);
        let batch = RecordBatch::try_from_iter_with_nullable([("a", column, true)]).unwrap();
        let pieces = reader.pieces(&batch)?;
        assert_eq!(pieces.len(), 1);
        let fitted = reader.fit(&pieces[0])?;
        assert!(reader.fits(&fitted) && !reader.fits(&pieces[0]));
        Ok(Arc::clone(fitted.column(0)))
    }

    #[test]
    fn what_a_column_holds_exactly_is_taken() {
        let ints: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None, Some(-7)]));
        for data_type in [DataType::Int8, DataType::Float32, DataType::Decimal { precision: 12, scale: 2 }] {
            let fitted = fitted(data_type, Arc::clone(&ints)).unwrap();
            let back = arrow_cast::cast(&fitted, &Arrow::Int64).unwrap();
            assert_eq!(back.to_data(), ints.to_data(), "{data_type}");
        }
        let whole: ArrayRef = Arc::new(Float64Array::from(vec![Some(7.0), None]));
        assert_eq!(fitted(DataType::Int64, whole).unwrap().as_ref(), &Int64Array::from(vec![Some(7), None]));
        let times: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1_000, 2_000]));
        let expected = arrow_array::TimestampMicrosecondArray::from(vec![1, 2]).with_timezone("UTC");
        assert_eq!(fitted(DataType::Timestamp, times).unwrap().as_ref(), &expected);
        let days: ArrayRef = Arc::new(Date64Array::from(vec![86_400_000]));
        assert_eq!(
            fitted(DataType::Date32, days).unwrap().as_ref(),
            &arrow_array::Date32Array::from(vec![1])
        );
        let nulls: ArrayRef = Arc::new(NullArray::new(2));
        assert_eq!(fitted(DataType::Int8, nulls).unwrap().null_count(), 2);
        let words = vec![Some("a"), None, Some("b"), Some("a")];
        let expected = StringArray::from(words.clone());
        let dictionary: DictionaryArray<Int8Type> = words.iter().copied().collect();
        let texts: [ArrayRef; 3] = [
            Arc::new(LargeStringArray::from(words.clone())),
            Arc::new(StringViewArray::from(words)),
            Arc::new(dictionary),
        ];
        for column in texts {
            assert_eq!(fitted(DataType::Utf8, column).unwrap().as_ref(), &expected);
        }
    }

    #[test]
    fn lists_are_json_in_columns_of_texts() {
        let words: DictionaryArray<Int8Type> =
            [Some("a \"b\""), None, Some("c"), Some("c")].into_iter().collect();
        let item = Arc::new(arrow_schema::Field::new_list_field(words.data_type().clone(), true));
        let lists = |words: DictionaryArray<Int8Type>, each: i32| {
            Arc::new(FixedSizeListArray::new(Arc::clone(&item), each, Arc::new(words), None)) as ArrayRef
        };
        let two = lists(words, 2);
        let expected = StringArray::from(vec![r#"["a \"b\"",null]"#, r#"["c","c"]"#]);
        assert_eq!(fitted(DataType::Utf8, Arc::clone(&two)).unwrap().as_ref(), &expected);
        let error = fitted(DataType::Int64, Arc::clone(&two)).unwrap_err().to_string();
        assert!(error.contains("is no value of"), "{error}");
        let schema = ArrowSchema::new(vec![arrow_schema::Field::new("l", two.data_type().clone(), true)]);
        let table = table_schema(&schema).unwrap();
        assert_eq!(table.fields(), [Field::new("l", DataType::Utf8, true)]);
        // What is named often is made piece by piece, and no text has more bytes than others.
        let long = "x".repeat(1000);
        let many: DictionaryArray<Int8Type> = std::iter::repeat_n(Some(long.as_str()), 64_000).collect();
        let reader = BatchReader::new(&[Field::new("a", DataType::Utf8, true)]);
        let batch = RecordBatch::try_from_iter([("a", lists(many.clone(), 1000))]).unwrap();
        let pieces = reader.pieces(&batch).unwrap();
        assert!(pieces.len() > 3, "{}", pieces.len());
        assert!(pieces.iter().all(|piece| reader.fit(piece).is_ok()));
        let batch = RecordBatch::try_from_iter([("a", lists(many.clone(), 2000))]).unwrap();
        let pieces = reader.pieces(&batch).unwrap();
        let error = reader.fit(&pieces[0]).unwrap_err().to_string();
        assert!(error.contains("more than 1048576 bytes"), "{error}");
        let batch = RecordBatch::try_from_iter([("a", lists(many, 64_000))]).unwrap();
        let error = reader.pieces(&batch).unwrap_err().to_string();
        assert!(error.contains("a row with more than 16 MiB of texts"), "{error}");
    }

    #[test]
    fn what_a_column_does_not_hold_is_an_error() {
        let check = |data_type, column: ArrayRef, words: &str| {
            let error = fitted(data_type, column).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        };
        check(DataType::Int8, Arc::new(Int64Array::from(vec![1, 128])), "128");
        check(DataType::UInt64, Arc::new(Int64Array::from(vec![-1])), "-1");
        check(DataType::Int64, Arc::new(Float64Array::from(vec![1.0, 1.5])), "row 1: 1.5 is no int64");
        check(DataType::Float64, Arc::new(Int64Array::from(vec![(1 << 53) + 1])), "is no float64");
        check(DataType::Timestamp, Arc::new(TimestampNanosecondArray::from(vec![1_001])), "is no timestamp");
        check(
            DataType::Float32,
            Arc::new(Float64Array::from(vec![f64::INFINITY, 1e39])),
            "row 1: 1e39 does not fit",
        );
        check(DataType::Int64, Arc::new(StringArray::from(vec!["1"])), "which Utf8 is no value of");
        check(DataType::Utf8, Arc::new(Int64Array::from(vec![1])), "which Int64 is no value of");
        check(
            DataType::Decimal { precision: 4, scale: 2 },
            Arc::new(Float64Array::from(vec![1.005])),
            "is no decimal(4,2)",
        );
    }

    #[test]
    fn a_float_is_its_shortest_decimal() {
        let wide = Field::from_arrow("a", &Arrow::Decimal128(38, 20), true).unwrap();
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![Some(123_456_789.123), None, Some(-0.1)]));
        let made = fit(&floats, &wide).unwrap();
        let expected = [Some(123_456_789_123 * 10_i128.pow(17)), None, Some(-(10_i128.pow(19)))];
        assert_eq!(made.as_primitive::<Decimal128Type>().iter().collect::<Vec<_>>(), expected);
        // And back, where a quotient of floats would be another one.
        let double = Field::new("a", DataType::Float64, true);
        assert_eq!(&fit(&made, &double).unwrap(), &floats);
        let keys = Int8Array::from(vec![Some(1), None, Some(0)]);
        let values = Float32Array::from(vec![12.34, 0.1]);
        let dictionary: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::new(values)));
        let narrow = Field::new("a", DataType::Decimal { precision: 18, scale: 9 }, true);
        let made = fit(&dictionary, &narrow).unwrap();
        let expected = [Some(100_000_000), None, Some(12_340_000_000)];
        assert_eq!(made.as_primitive::<Decimal128Type>().iter().collect::<Vec<_>>(), expected);
        let single = Field::new("a", DataType::Float32, true);
        let back = fit(&made, &single).unwrap();
        assert_eq!(
            back.as_primitive::<Float32Type>().iter().collect::<Vec<_>>(),
            [Some(0.1), None, Some(12.34)]
        );
        let error = |column: ArrayRef, field: &Field| fit(&column, field).unwrap_err().to_string();
        let cents = Field::new("a", DataType::Decimal { precision: 12, scale: 2 }, true);
        let sum = error(Arc::new(Float64Array::from(vec![12.34, 0.1 + 0.2, f64::NAN])), &cents);
        assert!(sum.contains("row 1: 0.30000000000000004 is no decimal(12,2)"), "{sum}");
        let large = error(Arc::new(Float64Array::from(vec![1.0, 1e10])), &cents);
        assert!(large.contains("row 1: ") && large.contains("is no decimal(12,2)"), "{large}");
        let long = Decimal128Array::from(vec![Some(1), Some(12_345_678_901_234_567_891)]);
        let long = long.with_precision_and_scale(38, 2).unwrap();
        let long = error(Arc::new(long), &double);
        assert!(long.contains("row 1: 123456789012345678.91 is no float64"), "{long}");
    }

    #[test]
    fn a_dictionary_of_a_long_text_is_taken_piece_by_piece() {
        let long = "x".repeat(1 << 20);
        let dictionary: DictionaryArray<Int8Type> = std::iter::repeat_n(Some(long.as_str()), 256).collect();
        let reader = BatchReader::new(&[Field::new("a", DataType::Utf8, true)]);
        let batch = RecordBatch::try_from_iter([("a", Arc::new(dictionary) as ArrayRef)]).unwrap();
        let pieces = reader.pieces(&batch).unwrap();
        assert!(pieces.len() > 8, "{}", pieces.len());
        assert_eq!(pieces.iter().map(RecordBatch::num_rows).sum::<usize>(), 256);
    }

    /// One text of a message may stand in all columns of a row, and in all rows.
    #[test]
    fn a_row_has_no_more_texts_than_are_taken_at_once() {
        let fields = |n: usize| -> Vec<Field> {
            (0..n).map(|i| Field::new(format!("c{i}"), DataType::Utf8, true)).collect()
        };
        let batch = |columns: Vec<ArrayRef>| {
            let columns = columns.into_iter().enumerate();
            RecordBatch::try_from_iter(columns.map(|(i, column)| (format!("c{i}"), column))).unwrap()
        };
        let long = "x".repeat(MAX_TEXT_BYTES);
        let dictionary: DictionaryArray<Int8Type> = [Some(long.as_str())].into_iter().collect();
        let dictionary: ArrayRef = Arc::new(dictionary);
        let pieces = |columns: Vec<ArrayRef>| {
            let reader = BatchReader::new(&fields(columns.len()));
            reader.pieces(&batch(columns)).map(|pieces| pieces.len())
        };
        assert_eq!(pieces(vec![Arc::clone(&dictionary); 16]).unwrap(), 1);
        let error = pieces(vec![dictionary; 17]).unwrap_err().to_string();
        assert!(error.contains("a row with more than 16 MiB of texts"), "{error}");
        // The same of bytes.
        let bytes = arrow_array::BinaryArray::from(vec![long.as_bytes()]);
        let bytes: ArrayRef = Arc::new(DictionaryArray::new(Int8Array::from(vec![0]), Arc::new(bytes)));
        assert!(pieces(vec![bytes; 17]).is_err());
        let longer = format!("{long}x");
        let dictionary: DictionaryArray<Int8Type> = [Some(longer.as_str())].into_iter().collect();
        let error = fitted(DataType::Utf8, Arc::new(dictionary)).unwrap_err().to_string();
        assert!(error.contains("row 0: a text of 1048577 bytes"), "{error}");
    }

    /// Columns of nulls take no bytes of a message, those of the table do.
    #[test]
    fn pieces_have_few_values() {
        let columns = (0..100).map(|i| (format!("c{i}"), Arc::new(NullArray::new(1 << 16)) as ArrayRef));
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)));
        let fields: Vec<_> = (0..100).map(|i| Field::new(format!("c{i}"), DataType::Int64, true)).collect();
        let pieces = BatchReader::new(&fields).pieces(&batch.unwrap()).unwrap();
        assert!(pieces.iter().all(|piece| piece.num_rows() * 100 <= limits::FITTED_VALUES));
        assert_eq!(pieces.iter().map(RecordBatch::num_rows).sum::<usize>(), 1 << 16);
    }
}
