//! Casts of floats to decimals, alone and in lists, and what floats are that go to a decimal's column. Arrow's cast
//! multiplies floats, and says more digits than the float has; here a float is its shortest decimal, rounded.

use std::sync::Arc;

use arrow_array::{
    Array as _, ArrayRef, FixedSizeListArray, LargeListArray, ListArray,
    cast::AsArray as _,
    types::{Float32Type, Float64Type},
};
use arrow_schema::{DataType, Field, FieldRef};
use basalt_core::{decimals, error::ErrorKind};
use datafusion::{
    common::{DFSchema, Result, ScalarValue},
    logical_expr::{
        Cast, ColumnarValue, Expr, ExprSchemable as _, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
        ScalarUDFImpl, Signature, TryCast, Volatility, cast, lit, try_cast,
    },
};

use crate::{error::Error, functions::of_rows};

/// A function of a float, or a list of floats, and the digits and the places of decimals.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OfFloats {
    is_try: bool,
    signature: Signature,
}

fn function(is_try: bool) -> ScalarUDF {
    ScalarUDF::new_from_impl(OfFloats { is_try, signature: Signature::variadic_any(Volatility::Immutable) })
}

/// What a task may have beside the functions that a session has.
pub(crate) fn inner() -> impl Iterator<Item = ScalarUDF> {
    [false, true].into_iter().map(function)
}

/// What a cast becomes that makes decimals of floats; `None`: it is another expression.
pub(crate) fn of_cast(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let (inner, to, is_try) = match expr {
        Expr::Cast(Cast { expr, field }) => (expr.as_ref(), field.data_type().clone(), false),
        Expr::TryCast(TryCast { expr, field }) => (expr.as_ref(), field.data_type().clone(), true),
        // These are casts from later on.
        Expr::ScalarFunction(function) => {
            let is_try = match function.func.name() {
                "arrow_cast" | "cast_to_type" => false,
                "arrow_try_cast" | "try_cast_to_type" => true,
                _ => return None,
            };
            (function.args.first()?, expr.get_type(schema).ok()?, is_try)
        }
        _ => return None,
    };
    let (precision, scale) = digits(&to)?;
    let made = made_of(&inner.get_type(schema).ok()?, precision, scale)?;
    let digits = [lit(i64::from(precision)), lit(i64::from(scale))];
    let call = function(is_try).call(std::iter::once(inner.clone()).chain(digits).collect());
    Some(match is_try {
        _ if made == to => call,
        // Lists of another form.
        true => try_cast(call, to),
        false => cast(call, to),
    })
}

/// The digits of decimals, and of those in lists.
fn digits(data_type: &DataType) -> Option<(u8, i8)> {
    match data_type {
        DataType::Decimal128(precision, scale @ 0..) => Some((*precision, *scale)),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            digits(item.data_type())
        }
        _ => None,
    }
}

/// The type of the same with decimals for floats; `None`: there are no floats.
fn made_of(data_type: &DataType, precision: u8, scale: i8) -> Option<DataType> {
    let of_item = |item: &FieldRef| {
        let made = made_of(item.data_type(), precision, scale)?;
        Some(Arc::new(item.as_ref().clone().with_data_type(made).with_nullable(true)))
    };
    Some(match data_type {
        DataType::Float32 | DataType::Float64 => DataType::Decimal128(precision, scale),
        DataType::List(item) => DataType::List(of_item(item)?),
        DataType::LargeList(item) => DataType::LargeList(of_item(item)?),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(of_item(item)?, *size),
        _ => return None,
    })
}

fn lost(what: &DataType) -> Error {
    Error::Internal(format!("{what} as decimals"))
}

/// Floats as decimals of a type, an error where one does not fit, or null.
pub(crate) fn decimals(
    floats: &ArrayRef,
    to: &DataType,
    is_try: bool,
) -> std::result::Result<ArrayRef, Error> {
    let DataType::Decimal128(precision, scale @ 0..) = to else { return Err(lost(to)) };
    let made = decimals::of_floats(floats, *precision, scale.unsigned_abs());
    let made = made.ok_or_else(|| lost(floats.data_type()))?;
    match decimals::first_beyond(floats, &made) {
        Some(row) if !is_try => {
            let shown = match floats.data_type() {
                DataType::Float32 => format!("{:?}", floats.as_primitive::<Float32Type>().value(row)),
                _ => format!("{:?}", floats.as_primitive::<Float64Type>().value(row)),
            };
            let message = format!("{shown} does not fit a decimal({precision},{scale})");
            Err(Error::new(ErrorKind::Overflow, message))
        }
        _ => Ok(Arc::new(made)),
    }
}

/// The same, of lists too, whose type is that of [`made_of`].
fn nested(given: &ArrayRef, to: &DataType, is_try: bool) -> Result<ArrayRef> {
    Ok(match (given.data_type(), to) {
        (DataType::List(_), DataType::List(item)) => {
            let (_, offsets, values, nulls) = given.as_list::<i32>().clone().into_parts();
            let values = nested(&values, item.data_type(), is_try)?;
            Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, nulls)?)
        }
        (DataType::LargeList(_), DataType::LargeList(item)) => {
            let (_, offsets, values, nulls) = given.as_list::<i64>().clone().into_parts();
            let values = nested(&values, item.data_type(), is_try)?;
            Arc::new(LargeListArray::try_new(Arc::clone(item), offsets, values, nulls)?)
        }
        (DataType::FixedSizeList(..), DataType::FixedSizeList(item, _)) => {
            let (_, size, values, nulls) = given.as_fixed_size_list().clone().into_parts();
            let values = nested(&values, item.data_type(), is_try)?;
            Arc::new(FixedSizeListArray::try_new(Arc::clone(item), size, values, nulls)?)
        }
        _ => decimals(given, to, is_try)?,
    })
}

impl ScalarUDFImpl for OfFloats {
    fn name(&self) -> &str {
        if self.is_try { "basalt_try_decimal_of_float" } else { "basalt_decimal_of_float" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(Error::Internal(format!("the type of {} is that of its field", self.name())).into())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let number = |at: usize| match args.scalar_arguments.get(at) {
            Some(Some(ScalarValue::Int64(Some(number)))) => Some(*number),
            _ => None,
        };
        let made = || {
            let (precision, scale) = (u8::try_from(number(1)?).ok()?, i8::try_from(number(2)?).ok()?);
            let given = args.arg_fields.first()?;
            let is_type = (1..=38).contains(&precision) && (0..=38).contains(&scale);
            let made = made_of(given.data_type(), precision, scale).filter(|_| is_type)?;
            Some(Field::new(self.name(), made, self.is_try || given.is_nullable()))
        };
        let field =
            made().ok_or_else(|| Error::Internal(format!("{} without its arguments", self.name())))?;
        Ok(Arc::new(field))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_rows(&args, |rows| {
            let given = args.args.first().ok_or_else(|| lost(&DataType::Null))?;
            nested(&given.to_array(rows)?, args.return_field.data_type(), self.is_try)
        })
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Decimal128Array, Float32Array, Float64Array, types::Decimal128Type};

    use super::*;
    use crate::decimals::read;

    #[test]
    fn floats_are_what_their_texts_are() {
        let mut seed = 11_u64;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed
        };
        let wide: Vec<f64> = (0..20_000)
            .map(|i| match i % 3 {
                0 => f64::from_bits(next()),
                1 => (next() >> 20) as f64 / 1000.0,
                _ => (next() >> 40) as f64 / 8.0,
            })
            .collect();
        let narrow: Vec<f32> = (0..20_000).map(|_| f32::from_bits((next() >> 32) as u32)).collect();
        for (precision, scale) in [(38, 0), (38, 4), (38, 20), (38, 38), (18, 2), (5, 2), (1, 0)] {
            let to = DataType::Decimal128(precision, scale);
            let array: ArrayRef = Arc::new(Float64Array::from(wide.clone()));
            let made = decimals(&array, &to, true).unwrap();
            for (float, made) in wide.iter().zip(made.as_primitive::<Decimal128Type>()) {
                assert_eq!(made, read(&format!("{float:e}"), precision, scale), "{float:e} as {to}");
            }
            let array: ArrayRef = Arc::new(Float32Array::from(narrow.clone()));
            let made = decimals(&array, &to, true).unwrap();
            for (float, made) in narrow.iter().zip(made.as_primitive::<Decimal128Type>()) {
                assert_eq!(made, read(&format!("{float:e}"), precision, scale), "{float:e} as {to}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error_or_null() {
        let array: ArrayRef = Arc::new(Float64Array::from(vec![None, Some(99.994), Some(99.995)]));
        let to = DataType::Decimal128(4, 2);
        let error = decimals(&array, &to, false).unwrap_err().to_string();
        assert!(error.contains("99.995 does not fit a decimal(4,2)"), "{error}");
        let expected = Decimal128Array::from(vec![None, Some(9999), None]);
        let expected = expected.with_precision_and_scale(4, 2).unwrap();
        assert_eq!(decimals(&array, &to, true).unwrap().as_ref(), &expected);
    }

    #[test]
    fn lists_of_floats_are_lists_of_decimals() {
        let given: ListArray = ListArray::from_iter_primitive::<Float64Type, _, _>([
            Some(vec![Some(0.1), None]),
            None,
            Some(vec![Some(1e22)]),
        ]);
        let to = made_of(given.data_type(), 38, 1).unwrap();
        let made = nested(&(Arc::new(given) as ArrayRef), &to, false).unwrap();
        let values = made.as_list::<i32>().values().as_primitive::<Decimal128Type>();
        assert_eq!(values.iter().collect::<Vec<_>>(), [Some(1), None, Some(10_i128.pow(23))]);
        assert!(made.is_null(1));
    }
}
