//! Arrow types that no table has, as those that one has; without losing anything.

use std::{fmt::Display, sync::Arc};

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray,
    cast::AsArray as _,
    types::{Date32Type, Date64Type, TimestampMicrosecondType, TimestampNanosecondType},
};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, TimeUnit};

use crate::{
    calendar::{self, Date, Timestamp},
    text::UTC_OFFSET,
    types::{MAX_TABLE_DECIMAL_DIGITS, from_arrow, timestamp_type, type_name},
};

const MILLIS_A_DAY: i64 = 86_400_000;

/// The column that holds a file's column, where there is one.
pub(super) fn table_field(field: &Field) -> Option<Field> {
    let data_type = match field.data_type() {
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::Dictionary(_, values) => {
            return table_field(&field.clone().with_data_type(values.as_ref().clone()));
        }
        DataType::Timestamp(..) => timestamp_type(),
        DataType::Date64 => DataType::Date32,
        DataType::Float16 => DataType::Float32,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            if !(0..=MAX_TABLE_DECIMAL_DIGITS.cast_signed()).contains(scale) {
                return None;
            }
            // More digits are common and seldom used: casting checks that they are not.
            DataType::Decimal128((*precision).min(MAX_TABLE_DECIMAL_DIGITS), *scale)
        }
        other => other.clone(),
    };
    from_arrow(&data_type).map(|_| field.clone().with_data_type(data_type))
}

/// The array in another type, exactly, or an error.
pub(super) fn cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let from = array.data_type();
    if from == to {
        return Ok(ArrayRef::clone(array));
    }
    if !is_exact(from, to) {
        let message = format!("{} does not become {} without loss", type_name(from), type_name(to));
        return Err(ArrowError::CastError(message));
    }
    // Without `safe`, what does not fit is an error instead of a null.
    let options = CastOptions { safe: false, ..Default::default() };
    if let DataType::Dictionary(_, values) = from {
        return cast(&cast_with_options(array, values, &options)?, to);
    }
    if *from == DataType::Date64
        && array.as_primitive::<Date64Type>().iter().flatten().any(|ms| ms % MILLIS_A_DAY != 0)
    {
        return Err(ArrowError::CastError("a date with a time of day".to_owned()));
    }
    if let DataType::Timestamp(TimeUnit::Nanosecond, _) = from {
        let nanoseconds = array.as_primitive::<TimestampNanosecondType>();
        if nanoseconds.iter().flatten().any(|ns| ns % 1000 != 0) {
            return Err(ArrowError::CastError("a timestamp finer than a microsecond".to_owned()));
        }
    }
    if let DataType::Timestamp(unit, Some(_)) = to {
        // A time without a zone is UTC, so its number stays; Arrow would look it up in its calendar, which ends.
        let has_zone = matches!(from, DataType::Timestamp(_, Some(_)));
        let zone = has_zone.then(|| UTC_OFFSET.into());
        let array = cast_with_options(array, &DataType::Timestamp(*unit, zone), &options)?;
        return Ok(Arc::new(
            array.as_primitive::<TimestampMicrosecondType>().clone().with_data_type(to.clone()),
        ));
    }
    cast_with_options(array, to, &options)
}

/// The first row of a column of a table whose date or time is none from 0001 to 9999, and why it is not.
pub(super) fn beyond_calendar(array: &ArrayRef) -> Option<(usize, String)> {
    let why = |value: &dyn Display| format!("{value} is not within 0001-01-01 to 9999-12-31");
    if let Some(days) = array.as_primitive_opt::<Date32Type>() {
        let (row, days) = first(days, |days| !calendar::has_day(days))?;
        return Some((row, why(&Date(days))));
    }
    let (row, micros) =
        first(array.as_primitive_opt::<TimestampMicrosecondType>()?, |us| !calendar::has_time(us))?;
    Some((row, why(&Timestamp(micros))))
}

/// The first value that is not null and is such, and its row.
fn first<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    is_such: impl Fn(T::Native) -> bool,
) -> Option<(usize, T::Native)> {
    let values = array.iter().enumerate();
    values.filter_map(|(row, value)| Some((row, value?))).find(|(_, value)| is_such(*value))
}

/// Whether every value either stays what it is or is refused when it is cast.
fn is_exact(from: &DataType, to: &DataType) -> bool {
    let scale = |data_type: &DataType| match data_type {
        DataType::Decimal32(_, s)
        | DataType::Decimal64(_, s)
        | DataType::Decimal128(_, s)
        | DataType::Decimal256(_, s) => Some(*s),
        _ => None,
    };
    let is_text = |t: &DataType| matches!(t, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    match (from, to) {
        (DataType::Dictionary(_, values), _) => values.as_ref() == to || is_exact(values, to),
        _ if is_text(from) => is_text(to),
        _ if from.is_integer() && to.is_integer() => true,
        _ if from.is_integer() && to.is_floating() => {
            from.primitive_width() <= Some(2)
                || (from.primitive_width() == Some(4) && *to == DataType::Float64)
        }
        _ if from.is_floating() && to.is_floating() => from.primitive_width() <= to.primitive_width(),
        (DataType::Timestamp(..), DataType::Timestamp(..)) | (DataType::Date64, DataType::Date32) => true,
        _ => match (scale(from), scale(to)) {
            (Some(from), Some(to)) => from <= to,
            (None, Some(_)) => from.is_integer(),
            _ => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        Date64Array, Decimal128Array, DictionaryArray, Float64Array, Int64Array, LargeStringArray,
        StringArray, TimestampNanosecondArray, TimestampSecondArray, types::Int32Type,
    };
    use arrow_cast::display::array_value_to_string;

    use super::*;
    use crate::types::parse_type;

    #[track_caller]
    fn check(array: impl Array + 'static, to: &str, expected: Result<&str, &str>) {
        let array: ArrayRef = Arc::new(array);
        let to = parse_type(to).unwrap();
        let outcome = cast(&array, &to)
            .map(|a| match a.as_primitive_opt::<TimestampMicrosecondType>() {
                Some(times) => Timestamp(times.value(0)).to_string(),
                None => array_value_to_string(&a, 0).unwrap(),
            })
            .map_err(|e| e.to_string());
        match expected {
            Ok(value) => assert_eq!(outcome.as_deref(), Ok(value)),
            Err(part) => assert!(outcome.as_ref().is_err_and(|e| e.contains(part)), "{outcome:?}"),
        }
    }

    #[test]
    fn casts_are_exact_or_errors() {
        check(Int64Array::from(vec![300]), "int16", Ok("300"));
        check(Int64Array::from(vec![300]), "int8", Err("300"));
        check(Int64Array::from(vec![-1]), "uint64", Err("-1"));
        check(Int64Array::from(vec![1]), "float64", Err("int64 does not become float64"));
        check(Int64Array::from(vec![12]), "decimal(4,2)", Ok("12.00"));
        check(Int64Array::from(vec![120]), "decimal(4,2)", Err("too large"));
        check(Float64Array::from(vec![0.5]), "float32", Err("float64 does not become float32"));
        check(Float64Array::from(vec![1.0]), "int32", Err("float64 does not become int32"));
        check(LargeStringArray::from(vec!["x"]), "utf8", Ok("x"));
        check(StringArray::from(vec!["1"]), "int32", Err("utf8 does not become int32"));
        check(DictionaryArray::<Int32Type>::from_iter(["b", "a"]), "utf8", Ok("b"));
        check(TimestampNanosecondArray::from(vec![1_000]), "timestamp", Ok("1970-01-01T00:00:00.000001Z"));
        check(TimestampNanosecondArray::from(vec![1]), "timestamp", Err("finer than a microsecond"));
        check(Date64Array::from(vec![86_400_000]), "date32", Ok("1970-01-02"));
        check(Date64Array::from(vec![86_400_001]), "date32", Err("a date with a time of day"));
        check(
            Date64Array::from(vec![i64::MAX / MILLIS_A_DAY * MILLIS_A_DAY]),
            "date32",
            Err("without overflow"),
        );
        check(TimestampSecondArray::from(vec![i64::MAX]), "timestamp", Err(""));
        let decimal = |value| Decimal128Array::from(vec![value]).with_precision_and_scale(38, 2).unwrap();
        check(decimal(1250), "decimal(18,2)", Ok("12.50"));
        check(decimal(1250), "decimal(18,4)", Ok("12.5000"));
        check(decimal(1250), "decimal(18,1)", Err("without loss"));
        check(decimal(10_i128.pow(20)), "decimal(18,2)", Err("too large"));
    }

    #[test]
    fn columns_of_tables() {
        let check = |data_type: DataType, expected: Option<&str>| {
            let field = table_field(&Field::new("a", data_type, true));
            assert_eq!(field.map(|f| type_name(f.data_type())).as_deref(), expected);
        };
        check(DataType::Int8, Some("int8"));
        check(DataType::LargeUtf8, Some("utf8"));
        check(DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8View)), Some("utf8"));
        check(DataType::Timestamp(TimeUnit::Second, None), Some("timestamp"));
        check(DataType::Date64, Some("date32"));
        check(DataType::Decimal128(38, 10), Some("decimal(18,10)"));
        check(DataType::Decimal128(38, 20), None);
        check(DataType::Binary, None);
        check(DataType::Null, None);
    }
}
