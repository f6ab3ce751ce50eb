//! `round` and `trunc` by places.

use std::sync::Arc;

use arrow_array::{
    Array as _, ArrayRef, Float64Array, PrimitiveArray,
    cast::AsArray as _,
    types::{Float32Type, Float64Type, Int64Type},
};
use arrow_schema::{DataType, FieldRef};
use datafusion::{
    arrow::compute::cast,
    common::{Result, ScalarValue},
    logical_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature},
};

use crate::functions::floats;

/// `round` and `trunc`: what has more places than a float has stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Places(Arc<ScalarUDF>);

impl Places {
    /// The functions.
    pub(crate) const NAMES: [&'static str; 2] = ["round", "trunc"];

    pub(crate) fn over(function: Arc<ScalarUDF>) -> ScalarUDF {
        ScalarUDF::new_from_impl(Self(function))
    }
}

impl ScalarUDFImpl for Places {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.0.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let given = args.args.clone();
        let rows = args.number_rows;
        let rounded = self.0.invoke_with_args(args)?;
        let [value, places] = given.as_slice() else { return Ok(rounded) };
        if !rounded.data_type().is_floating() {
            return Ok(rounded);
        }
        let is_scalar = matches!(rounded, ColumnarValue::Scalar(_));
        let rows = if is_scalar { 1 } else { rows };
        let (rounded, value) = (rounded.to_array(rows)?, value.to_array(rows)?);
        let places = cast(&places.to_array(rows)?, &DataType::Int64)?;
        let places = places.as_primitive::<Int64Type>();
        let mended = |row: usize, rounded: f64, value: f64| match rounded.is_finite() || !value.is_finite() {
            true => rounded,
            false if places.value(row) > 0 => value,
            false => 0.0,
        };
        let array: ArrayRef = if *rounded.data_type() == DataType::Float32 {
            let (rounded, value) = (rounded.as_primitive::<Float32Type>(), cast(&value, &DataType::Float32)?);
            let value = value.as_primitive::<Float32Type>();
            #[allow(clippy::cast_possible_truncation, reason = "it was a float32")]
            let of_row = |row: usize| {
                let mended = mended(row, rounded.value(row).into(), value.value(row).into()) as f32;
                rounded.is_valid(row).then_some(mended)
            };
            Arc::new((0..rows).map(of_row).collect::<PrimitiveArray<Float32Type>>())
        } else {
            let (rounded, value) = (rounded.as_primitive::<Float64Type>(), floats(&value)?);
            let of_row =
                |row: usize| rounded.is_valid(row).then(|| mended(row, rounded.value(row), value.value(row)));
            Arc::new((0..rows).map(of_row).collect::<Float64Array>())
        };
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
            false => ColumnarValue::Array(array),
        })
    }
}
