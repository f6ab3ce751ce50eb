//! `round` and `trunc` by places.

use std::sync::Arc;

use arrow_array::{
    Array as _, ArrayRef, Float64Array, PrimitiveArray,
    cast::AsArray as _,
    types::{Float32Type, Float64Type, Int64Type},
};
use arrow_schema::DataType;
use datafusion::{
    arrow::compute::cast,
    common::Result,
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF},
};

use crate::{
    around::Call,
    functions::{floats, of_rows},
};

/// The functions.
pub(crate) const NAMES: [&str; 2] = ["round", "trunc"];

/// The way that [`NAMES`] are called: what has more places than a float has stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Places;

impl Call for Places {
    fn call(function: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rounded = function.invoke_with_args(args.clone())?;
        let [value, places] = args.args.as_slice() else { return Ok(rounded) };
        if !rounded.data_type().is_floating() {
            return Ok(rounded);
        }
        of_rows(&args, |rows| {
            mended(&rounded.to_array(rows)?, &value.to_array(rows)?, &places.to_array(rows)?)
        })
    }
}

/// What was rounded, where it has become infinite, by what it was and its places.
fn mended(rounded: &ArrayRef, value: &ArrayRef, places: &ArrayRef) -> Result<ArrayRef> {
    let rows = rounded.len();
    let places = cast(places, &DataType::Int64)?;
    let places = places.as_primitive::<Int64Type>();
    let mended = |row: usize, rounded: f64, value: f64| match rounded.is_finite() || !value.is_finite() {
        true => rounded,
        false if places.value(row) > 0 => value,
        false => 0.0,
    };
    Ok(if *rounded.data_type() == DataType::Float32 {
        let (rounded, value) = (rounded.as_primitive::<Float32Type>(), cast(value, &DataType::Float32)?);
        let value = value.as_primitive::<Float32Type>();
        #[allow(clippy::cast_possible_truncation, reason = "it was a float32")]
        let of_row = |row: usize| {
            let mended = mended(row, rounded.value(row).into(), value.value(row).into()) as f32;
            rounded.is_valid(row).then_some(mended)
        };
        Arc::new((0..rows).map(of_row).collect::<PrimitiveArray<Float32Type>>())
    } else {
        let (rounded, value) = (rounded.as_primitive::<Float64Type>(), floats(value)?);
        let of_row =
            |row: usize| rounded.is_valid(row).then(|| mended(row, rounded.value(row), value.value(row)));
        Arc::new((0..rows).map(of_row).collect::<Float64Array>())
    })
}
