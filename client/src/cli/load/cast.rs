//! Arrow types that no table has, as those that one has; without losing anything but what is finer than a microsecond.

use std::{fmt::Display, sync::Arc};

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, StringArray,
    cast::AsArray as _,
    types::{
        Date32Type, Date64Type, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
        TimestampNanosecondType,
    },
};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, TimeUnit};

use crate::{
    calendar::{self, Date, Timestamp},
    convert::{ENCODING_KEY, OPTIMIZE_KEY, REFERENCES_KEY},
    text::UTC_OFFSET,
    types::{MAX_DECIMAL_DIGITS, from_arrow, timestamp_type, type_name},
};

const MILLIS_A_DAY: i64 = 86_400_000;

/// The column that holds a file's column, where there is one.
pub(super) fn table_field(field: &Field) -> Option<Field> {
    let data_type = match field.data_type() {
        nested if basalt_nested::is_nested(nested) => DataType::Utf8,
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        // Nothing but nulls: text holds whatever comes later.
        DataType::Null => return Some(Field::new(field.name(), DataType::Utf8, true)),
        DataType::Dictionary(_, values) => {
            return table_field(&field.clone().with_data_type(values.as_ref().clone()));
        }
        DataType::RunEndEncoded(_, values) => {
            return table_field(&field.clone().with_data_type(values.data_type().clone()));
        }
        DataType::Timestamp(..) => timestamp_type(),
        DataType::Date64 => DataType::Date32,
        DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => DataType::Binary,
        DataType::Time32(_) | DataType::Time64(_) => time_type(),
        DataType::Float16 => DataType::Float32,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            // A scale below zero is that many zeros more.
            let whole = precision.saturating_add(scale.min(&0).unsigned_abs());
            let scale = *scale.max(&0);
            if scale > MAX_DECIMAL_DIGITS.cast_signed() {
                return None;
            }
            // What has more digits than a type is checked when it is cast.
            DataType::Decimal128(whole.min(MAX_DECIMAL_DIGITS), scale)
        }
        other => other.clone(),
    };
    from_arrow(&data_type)?;
    // What it refers to and how it is encoded is the table's, too.
    let ours = [ENCODING_KEY, OPTIMIZE_KEY, REFERENCES_KEY].into_iter();
    let ours = ours.filter_map(|key| Some((key.to_owned(), field.metadata().get(key)?.clone())));
    Some(Field::new(field.name(), data_type, field.is_nullable()).with_metadata(ours.collect()))
}

/// The array in another type, exactly, or an error; and how many times were cut to microseconds, towards the past.
pub(super) fn cast(array: &ArrayRef, to: &DataType) -> Result<(ArrayRef, u64), ArrowError> {
    let from = array.data_type();
    if from == to {
        return Ok((ArrayRef::clone(array), 0));
    }
    if !is_exact(from, to) {
        let message = format!("{} does not become {} without loss", type_name(from), type_name(to));
        return Err(ArrowError::CastError(message));
    }
    // Without `safe`, what does not fit is an error instead of a null.
    let options = CastOptions { safe: false, ..Default::default() };
    if *to == DataType::Utf8 && basalt_nested::is_nested(from) {
        return Ok((Arc::new(basalt_nested::to_json(array)?), 0));
    }
    match from {
        DataType::Dictionary(_, values) => return cast(&cast_with_options(array, values, &options)?, to),
        DataType::RunEndEncoded(_, values) => {
            return cast(&cast_with_options(array, values.data_type(), &options)?, to);
        }
        _ => {}
    }
    if *from == DataType::Date64
        && array.as_primitive::<Date64Type>().iter().flatten().any(|ms| ms % MILLIS_A_DAY != 0)
    {
        return Err(ArrowError::CastError("a date with a time of day".to_owned()));
    }
    if let DataType::Timestamp(TimeUnit::Nanosecond, zone) = from
        && matches!(to, DataType::Timestamp(..))
    {
        let nanoseconds = array.as_primitive::<TimestampNanosecondType>();
        let cut = nanoseconds.iter().flatten().filter(|ns| ns % 1000 != 0).count() as u64;
        let micros: PrimitiveArray<TimestampMicrosecondType> = nanoseconds.unary(|ns| ns.div_euclid(1000));
        let micros: ArrayRef = Arc::new(micros.with_timezone_opt(zone.clone()));
        return Ok((cast(&micros, to)?.0, cut));
    }
    if let DataType::Time64(TimeUnit::Nanosecond) = from
        && *to == time_type()
    {
        let nanoseconds = array.as_primitive::<Time64NanosecondType>();
        let cut = nanoseconds.iter().flatten().filter(|ns| ns % 1000 != 0).count() as u64;
        let micros: PrimitiveArray<Time64MicrosecondType> = nanoseconds.unary(|ns| ns.div_euclid(1000));
        return Ok((Arc::new(micros), cut));
    }
    if let (DataType::Timestamp(..) | DataType::Date32, DataType::Timestamp(unit, Some(_))) = (from, to) {
        // A time without a zone is UTC, so its number stays; Arrow would look it up in its calendar, which ends.
        let has_zone = matches!(from, DataType::Timestamp(_, Some(_)));
        let zone = has_zone.then(|| UTC_OFFSET.into());
        let array = cast_with_options(array, &DataType::Timestamp(*unit, zone), &options)?;
        let array = array.as_primitive::<TimestampMicrosecondType>().clone().with_data_type(to.clone());
        return Ok((Arc::new(array), 0));
    }
    if *to == DataType::Utf8 {
        return Ok((to_text(array, &options)?, 0));
    }
    let cast = cast_with_options(array, to, &options)?;
    if from.is_integer() && to.is_floating() {
        // What a float cannot hold would be another number.
        let back = cast_with_options(&cast, from, &options)?;
        let same = array.to_data() == back.to_data();
        if !same {
            return Err(ArrowError::CastError(format!("an integer that no {} is equal to", type_name(to))));
        }
    }
    Ok((cast, 0))
}

/// Values as the CSV of an answer has them.
fn to_text(array: &ArrayRef, options: &CastOptions<'_>) -> Result<ArrayRef, ArrowError> {
    if let Some(days) = array.as_primitive_opt::<Date32Type>() {
        let texts = days.iter().map(|day| day.map(|day| Date(day).to_string()));
        return Ok(Arc::new(texts.collect::<StringArray>()));
    }
    if let DataType::Timestamp(..) = array.data_type() {
        let (times, _) = cast(array, &timestamp_type())?;
        let times = times.as_primitive::<TimestampMicrosecondType>();
        let texts = times.iter().map(|time| time.map(|time| Timestamp(time).to_string()));
        return Ok(Arc::new(texts.collect::<StringArray>()));
    }
    if let Some(values) = array.as_any().downcast_ref::<BooleanArray>() {
        let texts = values.iter().map(|value| value.map(|value| value.to_string()));
        return Ok(Arc::new(texts.collect::<StringArray>()));
    }
    if let DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) =
        array.data_type()
    {
        // Not what the bytes may say, but their digits.
        let bytes = cast_with_options(array, &DataType::Binary, options)?;
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let texts = bytes.as_binary::<i32>().iter().map(|bytes| bytes.map(hex));
        return Ok(Arc::new(texts.collect::<StringArray>()));
    }
    cast_with_options(array, &DataType::Utf8, options)
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
        (DataType::RunEndEncoded(_, values), _) => {
            values.data_type() == to || is_exact(values.data_type(), to)
        }
        (DataType::Null, _) => true,
        _ if is_text(from) => is_text(to),
        // Each of them has a text.
        (_, DataType::Utf8) => {
            basalt_nested::is_nested(from)
                || from.is_numeric()
                || is_binary(from)
                || matches!(
                    from,
                    DataType::Boolean
                        | DataType::Date32
                        | DataType::Timestamp(..)
                        | DataType::Time32(_)
                        | DataType::Time64(_)
                )
        }
        _ if from.is_integer() && (to.is_integer() || to.is_floating()) => true,
        _ if from.is_floating() && to.is_floating() => from.primitive_width() <= to.primitive_width(),
        // So many digits are those of one float, which is found by a division of two that are exact.
        (DataType::Decimal128(digits, scale), DataType::Float64) => {
            u32::from(*digits) <= f64::DIGITS && *scale >= 0
        }
        (_, DataType::Binary) => is_binary(from),
        (DataType::Timestamp(..) | DataType::Date32, DataType::Timestamp(..))
        | (DataType::Time32(_) | DataType::Time64(_), DataType::Time64(TimeUnit::Microsecond))
        | (DataType::Date64, DataType::Date32) => true,
        _ => match (scale(from), scale(to)) {
            (Some(from), Some(to)) => from <= to,
            (None, Some(_)) => from.is_integer(),
            _ => false,
        },
    }
}

fn is_binary(data_type: &DataType) -> bool {
    use DataType as T;
    matches!(data_type, T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_))
}

fn time_type() -> DataType {
    DataType::Time64(TimeUnit::Microsecond)
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        Date32Array, Date64Array, Decimal128Array, DictionaryArray, Float64Array, Int64Array,
        LargeStringArray, StringArray, TimestampNanosecondArray, TimestampSecondArray, types::Int32Type,
    };
    use arrow_cast::display::array_value_to_string;

    use super::*;
    use crate::types::parse_type;

    #[track_caller]
    fn check(array: impl Array + 'static, to: &str, expected: Result<&str, &str>) {
        let array: ArrayRef = Arc::new(array);
        let to = parse_type(to).unwrap();
        let outcome = cast(&array, &to)
            .map(|(a, _)| match a.as_primitive_opt::<TimestampMicrosecondType>() {
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
        check(Int64Array::from(vec![1]), "float64", Ok("1.0"));
        check(
            Int64Array::from(vec![(1 << 53) + 1]),
            "float64",
            Err("an integer that no float64 is equal to"),
        );
        check(Int64Array::from(vec![i64::MAX]), "float64", Err(""));
        check(Int64Array::from(vec![-7]), "utf8", Ok("-7"));
        check(Date32Array::from(vec![1]), "utf8", Ok("1970-01-02"));
        check(Date32Array::from(vec![1]), "timestamp", Ok("1970-01-02T00:00:00Z"));
        check(Int64Array::from(vec![12]), "decimal(4,2)", Ok("12.00"));
        check(Int64Array::from(vec![120]), "decimal(4,2)", Err("too large"));
        check(Float64Array::from(vec![0.5]), "float32", Err("float64 does not become float32"));
        check(Float64Array::from(vec![1.0]), "int32", Err("float64 does not become int32"));
        check(LargeStringArray::from(vec!["x"]), "utf8", Ok("x"));
        check(StringArray::from(vec!["1"]), "int32", Err("utf8 does not become int32"));
        check(DictionaryArray::<Int32Type>::from_iter(["b", "a"]), "utf8", Ok("b"));
        check(TimestampNanosecondArray::from(vec![1_000]), "timestamp", Ok("1970-01-01T00:00:00.000001Z"));
        check(TimestampNanosecondArray::from(vec![-1]), "timestamp", Ok("1969-12-31T23:59:59.999999Z"));
        let array: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![-1, 0, 1000, 1001]));
        assert_eq!(cast(&array, &timestamp_type()).unwrap().1, 2);
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
        check(DataType::Decimal128(38, 10), Some("decimal(38,10)"));
        check(DataType::Decimal256(76, 20), Some("decimal(38,20)"));
        check(DataType::Decimal256(76, 40), None);
        check(DataType::FixedSizeBinary(16), Some("binary"));
        check(DataType::Time32(TimeUnit::Second), Some("time"));
        check(DataType::Decimal128(5, -2), Some("decimal(7,0)"));
        check(DataType::new_list(DataType::Int8, true), Some("utf8"));
        check(DataType::Null, Some("utf8"));
        check(DataType::Duration(TimeUnit::Second), None);
    }
}
