//! Decimals as the floats that are nearest to them. A float of the digits, divided by a power of ten, is rounded twice where the digits
//! are more than a float has.

use std::{str::FromStr, sync::Arc};

use arrow_array::{
    Array as _, ArrayRef, Float64Array, PrimitiveArray,
    cast::AsArray as _,
    types::{ArrowPrimitiveType, Decimal128Type, Decimal256Type, Float32Type, Float64Type},
};
use arrow_schema::DataType;
use basalt_core::value;
use datafusion::{
    arrow::compute::cast,
    common::{Result, ScalarValue},
};

/// Whether a float of the digits, divided by a power of ten, is the nearest one: both are floats then that are exact, and their
/// quotient is rounded once.
pub(crate) fn is_exact(from: &DataType, to: &DataType) -> bool {
    let DataType::Decimal128(precision, scale) = from else { return false };
    match to {
        DataType::Float64 => *precision <= 15 && (0..=22).contains(scale),
        // The division is one of 64 bits, which have more than twice as many digits.
        DataType::Float32 => *precision <= 7 && (0..=10).contains(scale),
        _ => false,
    }
}

/// The decimals as floats; `None`: they are none, or something else is wanted.
pub(crate) fn floats(array: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    Some(match (array.data_type(), to) {
        (DataType::Decimal128(_, scale @ 0..), DataType::Float64) => {
            let scale = scale.unsigned_abs();
            let floats: Float64Array =
                array.as_primitive::<Decimal128Type>().unary(|unscaled| value::to_f64(unscaled, scale));
            Arc::new(floats)
        }
        (DataType::Decimal128(..) | DataType::Decimal256(..), DataType::Float64) => {
            Arc::new(read::<Float64Type>(array))
        }
        (DataType::Decimal128(..) | DataType::Decimal256(..), DataType::Float32) => {
            Arc::new(read::<Float32Type>(array))
        }
        _ => return None,
    })
}

/// Numbers as doubles.
pub(crate) fn doubles(array: &ArrayRef) -> Result<ArrayRef> {
    let is_exact = is_exact(array.data_type(), &DataType::Float64);
    match (!is_exact).then(|| floats(array, &DataType::Float64)).flatten() {
        Some(floats) => Ok(floats),
        None => Ok(cast(array, &DataType::Float64)?),
    }
}

/// A decimal as a float.
pub(crate) fn float(value: &ScalarValue, to: &DataType) -> Option<ScalarValue> {
    let array = floats(&value.to_array().ok()?, to)?;
    ScalarValue::try_from_array(&array, 0).ok()
}

/// Each value as its text is read: correctly rounded.
fn read<T: ArrowPrimitiveType>(array: &ArrayRef) -> PrimitiveArray<T>
where
    T::Native: FromStr,
{
    let text = |row: usize| match array.data_type() {
        DataType::Decimal128(..) => array.as_primitive::<Decimal128Type>().value_as_string(row),
        _ => array.as_primitive::<Decimal256Type>().value_as_string(row),
    };
    (0..array.len()).map(|row| array.is_valid(row).then(|| text(row).parse().ok()).flatten()).collect()
}

#[cfg(test)]
mod tests {
    use arrow_array::Decimal128Array;

    use super::*;

    #[test]
    fn what_is_left_to_the_cast_is_nearest_too() {
        let mut compared = 0;
        for (precision, scale) in
            (1..=38).flat_map(|precision| [0, 1, 2, 5, 9, 10, 15, 22].map(|scale| (precision, scale)))
        {
            let data_type = DataType::Decimal128(precision, scale);
            if u8::try_from(scale).unwrap() > precision {
                continue;
            }
            let most = 10_i128.pow(precision.into()) - 1;
            let values = (0..200).map(|i| most / 201 * i + most % (i + 1)).chain([most, -most, most - 1]);
            let array = Decimal128Array::from_iter_values(values.map(|value| value.min(most)));
            let array: ArrayRef = Arc::new(array.with_precision_and_scale(precision, scale).unwrap());
            for to in [DataType::Float64, DataType::Float32].iter().filter(|to| is_exact(&data_type, to)) {
                let (ours, theirs) = (floats(&array, to).unwrap(), cast(&array, to).unwrap());
                assert_eq!(&ours, &theirs, "{data_type} as {to}");
                compared += 1;
            }
        }
        assert!(compared > 60, "{compared}");
        assert!(!is_exact(&DataType::Decimal128(17, 2), &DataType::Float64));
        assert!(!is_exact(&DataType::Decimal128(8, 2), &DataType::Float32));
    }

    #[test]
    fn a_decimal_is_the_nearest_float() {
        let of = |unscaled: i128, scale: i8| {
            let array = Decimal128Array::from(vec![Some(unscaled), None]);
            let array: ArrayRef = Arc::new(array.with_precision_and_scale(38, scale).unwrap());
            let floats = floats(&array, &DataType::Float64).unwrap();
            assert!(floats.is_null(1));
            floats.as_primitive::<Float64Type>().value(0)
        };
        assert_eq!(of(37_331_193_139_504_204, 17), 0.373_311_931_395_042_04);
        assert_eq!(of(1, 30), 1e-30);
        assert_eq!(of(-12_345, 2), -123.45);
    }
}
