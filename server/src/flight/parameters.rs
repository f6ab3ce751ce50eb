//! Parameters on their way in: the rows of a batch as the literals of a statement.

use arrow_array::{
    Array, RecordBatch,
    cast::AsArray as _,
    types::{Date32Type, Decimal128Type, Float64Type, Int64Type, TimestampMicrosecondType, UInt64Type},
};
use arrow_cast::cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, TimeUnit};
use basalt_core::query::Literal;
use basalt_proto::v1::ErrorReason;

use crate::{
    limits,
    status::{RequestError, Result},
};

/// What all parameters count as, with those of a batch beside `before`, in the way of [`super::prepared::literal_bytes`]: known
/// before they are copied.
pub(super) fn room(batch: &RecordBatch, before: u64) -> Result<u64> {
    let (rows, columns) = (batch.num_rows(), batch.num_columns());
    if columns > basalt_sql::limits::PARAMETERS || rows.saturating_mul(columns.max(1)) > limits::BOUND_VALUES
    {
        let message = format!(
            "{rows} rows of {columns} parameters; the limits are {} parameters and {} values in all",
            basalt_sql::limits::PARAMETERS,
            limits::BOUND_VALUES
        );
        return Err(RequestError::new(ErrorReason::InvalidQuery, message).at("parameters"));
    }
    let values = (rows as u64).saturating_mul(columns as u64 + 1);
    let texts = batch.columns().iter().map(|column| text_bytes(column)).fold(0, u64::saturating_add);
    let bytes = values.saturating_mul(limits::PARAMETER_BYTES).saturating_add(texts).saturating_add(before);
    if bytes > limits::BOUND_BYTES {
        let message = format!("parameters of more than {} bytes", limits::BOUND_BYTES);
        return Err(RequestError::new(ErrorReason::MessageTooLarge, message));
    }
    Ok(bytes)
}

/// Bytes of the texts of a column, as often as it names them: views may name one long text very often.
fn text_bytes(array: &dyn Array) -> u64 {
    fn all<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> u64 {
        texts.flatten().map(|text| text.len() as u64).fold(0, u64::saturating_add)
    }
    match array.data_type() {
        DataType::Utf8 => all(array.as_string::<i32>().iter()),
        DataType::LargeUtf8 => all(array.as_string::<i64>().iter()),
        DataType::Utf8View => all(array.as_string_view().iter()),
        _ => 0,
    }
}

/// The literals of each row of a batch for which there is [`room`].
pub(super) fn rows(batch: &RecordBatch) -> Result<Vec<Vec<Literal>>> {
    let (rows, columns) = (batch.num_rows(), batch.num_columns());
    let mut literals: Vec<Vec<Literal>> = (0..rows).map(|_| Vec::with_capacity(columns)).collect();
    for (i, column) in batch.columns().iter().enumerate() {
        let of = column_literals(column).map_err(|error| error.at(format!("parameters[{i}]")))?;
        for (row, literal) in literals.iter_mut().zip(of) {
            row.push(literal);
        }
    }
    Ok(literals)
}

/// The values of an array.
fn column_literals(array: &dyn Array) -> Result<Vec<Literal>> {
    let data_type = array.data_type();
    let wide = match data_type {
        DataType::Null => return Ok(vec![Literal::Null; array.len()]),
        DataType::Boolean => {
            let values = array.as_boolean().iter();
            return Ok(values.map(|value| value.map_or(Literal::Null, Literal::Bool)).collect());
        }
        DataType::UInt64 => DataType::UInt64,
        other if other.is_integer() => DataType::Int64,
        other if other.is_floating() => DataType::Float64,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Decimal128(precision, scale) => DataType::Decimal128(*precision, *scale),
        DataType::Date32 | DataType::Date64 => DataType::Date32,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => return nanoseconds(array),
        DataType::Timestamp(..) => DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => return Ok(texts(array)),
        _ => return Err(mismatch(data_type)),
    };
    let array = &cast(array, &wide)?;
    Ok(match wide {
        DataType::UInt64 => natives(array.as_primitive::<UInt64Type>().iter(), Literal::UInt),
        DataType::Int64 => natives(array.as_primitive::<Int64Type>().iter(), Literal::Int),
        DataType::Float64 => natives(array.as_primitive::<Float64Type>().iter(), Literal::Float),
        DataType::Date32 => natives(array.as_primitive::<Date32Type>().iter(), Literal::Date),
        DataType::Decimal128(_, scale) => {
            let scale = u8::try_from(scale).map_err(|_| mismatch(data_type))?;
            let decimal = |value: Option<i128>| match value {
                None => Ok(Literal::Null),
                Some(unscaled) if unscaled.unsigned_abs() < 10_u128.pow(38) => {
                    Ok(Literal::Decimal { unscaled, scale })
                }
                Some(_) => {
                    let message = "a decimal parameter has at most 38 digits";
                    Err(RequestError::new(ErrorReason::InvalidQuery, message))
                }
            };
            array.as_primitive::<Decimal128Type>().iter().map(decimal).collect::<Result<_>>()?
        }
        _ => natives(array.as_primitive::<TimestampMicrosecondType>().iter(), Literal::Timestamp),
    })
}

fn natives<T>(values: impl Iterator<Item = Option<T>>, literal: fn(T) -> Literal) -> Vec<Literal> {
    values.map(|value| value.map_or(Literal::Null, literal)).collect()
}

fn texts(array: &dyn Array) -> Vec<Literal> {
    let text = |text: Option<&str>| text.map_or(Literal::Null, |text| Literal::Text(text.to_owned()));
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().iter().map(text).collect(),
        DataType::LargeUtf8 => array.as_string::<i64>().iter().map(text).collect(),
        _ => array.as_string_view().iter().map(text).collect(),
    }
}

/// Times of which microseconds hold all.
fn nanoseconds(array: &dyn Array) -> Result<Vec<Literal>> {
    let nanos = cast(array, &DataType::Int64)?;
    let micros = |value: Option<i64>| match value {
        None => Ok(Literal::Null),
        Some(value) if value % 1000 == 0 => Ok(Literal::Timestamp(value / 1000)),
        Some(_) => {
            let message = "a time with nanoseconds; times have microseconds here";
            Err(RequestError::new(ErrorReason::InvalidQuery, message))
        }
    };
    nanos.as_primitive::<Int64Type>().iter().map(micros).collect()
}

fn cast(array: &dyn Array, to: &DataType) -> Result<arrow_array::ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    // A time with a zone is the same instant without one.
    cast_with_options(array, to, &options)
        .map_err(|error| RequestError::new(ErrorReason::TypeMismatch, error.to_string()))
}

fn mismatch(data_type: &DataType) -> RequestError {
    RequestError::new(ErrorReason::TypeMismatch, format!("{data_type} is no type of a parameter"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float32Array, Int8Array, LargeStringArray,
        NullArray, StringViewArray, TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
    };

    use super::*;

    #[test]
    fn each_type_has_its_literal() {
        let columns: Vec<(ArrayRef, Literal)> = vec![
            (Arc::new(NullArray::new(1)), Literal::Null),
            (Arc::new(BooleanArray::from(vec![true])), Literal::Bool(true)),
            (Arc::new(Int8Array::from(vec![-5])), Literal::Int(-5)),
            (Arc::new(Int8Array::from(vec![None])), Literal::Null),
            (Arc::new(UInt64Array::from(vec![u64::MAX])), Literal::UInt(u64::MAX)),
            (Arc::new(Float32Array::from(vec![0.5])), Literal::Float(0.5)),
            (
                Arc::new(Decimal128Array::from(vec![123]).with_precision_and_scale(10, 2).unwrap()),
                Literal::Decimal { unscaled: 123, scale: 2 },
            ),
            (
                Arc::new(Decimal128Array::from(vec![1 << 70]).with_precision_and_scale(38, 2).unwrap()),
                Literal::Decimal { unscaled: 1 << 70, scale: 2 },
            ),
            (Arc::new(LargeStringArray::from(vec!["a"])), Literal::Text("a".into())),
            (Arc::new(StringViewArray::from(vec!["b"])), Literal::Text("b".into())),
            (Arc::new(TimestampSecondArray::from(vec![1])), Literal::Timestamp(1_000_000)),
            (
                Arc::new(TimestampSecondArray::from(vec![1]).with_timezone("+05:00")),
                Literal::Timestamp(1_000_000),
            ),
            (Arc::new(TimestampNanosecondArray::from(vec![1_000])), Literal::Timestamp(1)),
        ];
        for (column, expected) in columns {
            assert_eq!(column_literals(&column).unwrap(), [expected], "{:?}", column.data_type());
        }
        let refused: [ArrayRef; 3] = [
            Arc::new(BinaryArray::from(vec![b"a".as_slice()])),
            Arc::new(Decimal128Array::from(vec![i128::MAX])),
            Arc::new(TimestampNanosecondArray::from(vec![1])),
        ];
        for column in refused {
            assert!(column_literals(&column).is_err(), "{:?}", column.data_type());
        }
    }

    /// A message may name the same bytes in many columns, and in many rows of views.
    #[test]
    fn what_parameters_take_is_known_before_they_are_copied() {
        let batch = |columns: Vec<ArrayRef>| {
            let names = (0..columns.len()).map(|i| format!("p{i}"));
            RecordBatch::try_from_iter_with_nullable(
                names.zip(columns).map(|(name, column)| (name, column, true)),
            )
            .unwrap()
        };
        let small = batch(vec![
            Arc::new(LargeStringArray::from(vec![Some("abc"), None])),
            Arc::new(StringViewArray::from(vec!["a text that is too long for a view", "b"])),
            Arc::new(Int8Array::from(vec![Some(1), None])),
        ]);
        let counted = crate::flight::prepared::literal_bytes(&rows(&small).unwrap());
        assert_eq!(room(&small, 7).unwrap(), 7 + counted);
        let rest = limits::BOUND_BYTES - counted;
        assert_eq!(room(&small, rest).unwrap(), limits::BOUND_BYTES);
        assert_eq!(room(&small, rest + 1).unwrap_err().reason(), "MESSAGE_TOO_LARGE");
        // One text of 1 MiB, in 100 columns that share it.
        let text: ArrayRef = Arc::new(LargeStringArray::from(vec!["x".repeat(1 << 20)]));
        let shared = batch(vec![text; 100]);
        assert_eq!(room(&shared, 0).unwrap_err().reason(), "MESSAGE_TOO_LARGE");
    }
}
