//! `round` and `trunc` by places.

use std::sync::Arc;

use arrow_array::{
    Array as _, ArrayRef, Float64Array,
    cast::AsArray as _,
    types::{Decimal128Type, Float64Type, Int64Type},
};
use arrow_schema::{DataType, FieldRef};
use basalt_core::error::ErrorKind;
use datafusion::{
    arrow::compute::cast,
    common::Result,
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF},
};

use crate::{
    around::Call,
    error::Error,
    functions::{floats, of_rows},
};

/// The functions.
pub(crate) const NAMES: [&str; 2] = ["round", "trunc"];

/// The way that [`NAMES`] are called: what has more places than a float has stays as it is, a REAL is rounded as the double that
/// it is, for powers of ten have more digits than REALs have, and a whole number whose power of ten its type has not is no 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Places;

impl Call for Places {
    fn call(function: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, places] = args.args.as_slice() else { return function.invoke_with_args(args) };
        let of = value.data_type();
        if of == DataType::Float32 {
            return Self::call(function, widened(args)?)?.cast_to(&DataType::Float32, None);
        }
        if let Some(greatest) = greatest(&of) {
            let is_one = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
            let rows = if is_one(value) && is_one(places) { 1 } else { args.number_rows };
            check(value, places, rows, greatest)?;
        }
        let rounded = function.invoke_with_args(args.clone())?;
        if rounded.data_type() != DataType::Float64 {
            return Ok(rounded);
        }
        of_rows(&args, |rows| {
            mended(&rounded.to_array(rows)?, &value.to_array(rows)?, &places.to_array(rows)?)
        })
    }
}

/// The same of a double.
fn widened(mut args: ScalarFunctionArgs) -> Result<ScalarFunctionArgs> {
    let wide = |field: &FieldRef| Arc::new(field.as_ref().clone().with_data_type(DataType::Float64));
    if let Some(value) = args.args.first_mut() {
        *value = value.cast_to(&DataType::Float64, None)?;
    }
    if let Some(field) = args.arg_fields.first_mut() {
        *field = wide(field);
    }
    args.return_field = wide(&args.return_field);
    Ok(args)
}

/// The greatest number of a type of whole ones.
fn greatest(data_type: &DataType) -> Option<i128> {
    Some(match data_type {
        DataType::Int8 => i8::MAX.into(),
        DataType::Int16 => i16::MAX.into(),
        DataType::Int32 => i32::MAX.into(),
        DataType::Int64 => i64::MAX.into(),
        DataType::UInt8 => u8::MAX.into(),
        DataType::UInt16 => u16::MAX.into(),
        DataType::UInt32 => u32::MAX.into(),
        DataType::UInt64 => u64::MAX.into(),
        _ => return None,
    })
}

/// Whether whole numbers are rounded to a power of ten which their type has not, that they are nearer to than to 0.
fn check(value: &ColumnarValue, places: &ColumnarValue, rows: usize, greatest: i128) -> Result<()> {
    // What is no power of ten of so many bits is far from all of them.
    let power = |places: i64| {
        let zeros = u32::try_from(places.checked_neg()?).ok()?;
        10_i128.checked_pow(zeros).filter(|power| *power > greatest)
    };
    if let ColumnarValue::Scalar(places) = places {
        let places = cast(&places.to_array()?, &DataType::Int64)?;
        if !places.as_primitive::<Int64Type>().iter().flatten().any(|places| power(places).is_some()) {
            return Ok(());
        }
    }
    let values = cast(&value.to_array(rows)?, &DataType::Decimal128(20, 0))?;
    let places = cast(&places.to_array(rows)?, &DataType::Int64)?;
    let (values, places) = (values.as_primitive::<Decimal128Type>(), places.as_primitive::<Int64Type>());
    let is_beyond = |(value, places): (Option<i128>, Option<i64>)| {
        let power = places.and_then(power);
        value.zip(power).is_some_and(|(value, power)| value.abs() >= power / 2)
    };
    if values.iter().zip(places).any(is_beyond) {
        let message = "the result of 'round' does not fit its type";
        return Err(Error::new(ErrorKind::Overflow, message).into());
    }
    Ok(())
}

/// What was rounded, where it has become infinite, by what it was and its places.
fn mended(rounded: &ArrayRef, value: &ArrayRef, places: &ArrayRef) -> Result<ArrayRef> {
    let places = cast(places, &DataType::Int64)?;
    let places = places.as_primitive::<Int64Type>();
    let mended = |row: usize, rounded: f64, value: f64| match rounded.is_finite() || !value.is_finite() {
        true => rounded,
        false if places.value(row) > 0 => value,
        false => 0.0,
    };
    let (rounded, value) = (rounded.as_primitive::<Float64Type>(), floats(value)?);
    let of_row =
        |row: usize| rounded.is_valid(row).then(|| mended(row, rounded.value(row), value.value(row)));
    Ok(Arc::new((0..rounded.len()).map(of_row).collect::<Float64Array>()))
}
