//! `decimal_division(a, b, scale)` and `decimal_average(x)`: quotients of decimals that are decimals, where `/` and `avg`
//! give floats.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Decimal128Array,
    cast::AsArray as _,
    types::{Decimal128Type, Int64Type},
};
use arrow_schema::{DataType, Field, FieldRef};
use basalt_core::error::ErrorKind;
use datafusion::{
    arrow::{compute::cast, datatypes::i256},
    common::{Result, ScalarValue},
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    },
};

use super::MOST;
use crate::{error::Error, functions::of_arrays};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// Towards zero.
    Division,
    /// Of a sum, a count, and a value whose type it has; half of a digit goes to the even one.
    Average,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Quotient {
    kind: Kind,
    name: &'static str,
    signature: Signature,
}

/// The functions.
pub(crate) fn all() -> impl Iterator<Item = ScalarUDF> {
    [(Kind::Division, "decimal_division"), (Kind::Average, "basalt_decimal_average")].into_iter().map(
        |(kind, name)| {
            let signature = Signature::variadic_any(Volatility::Immutable);
            ScalarUDF::new_from_impl(Quotient { kind, name, signature })
        },
    )
}

fn takes(what: &str) -> Error {
    Error::new(ErrorKind::TypeMismatch, what.to_owned())
}

/// The type of a quotient; its scale may be given.
fn quotient_type(a: &DataType, b: &DataType, scale: Option<i64>) -> Result<DataType> {
    let (DataType::Decimal128(p1, s1), DataType::Decimal128(p2, s2)) = (a, b) else {
        return Err(takes("decimal_division takes two decimals and a scale").into());
    };
    let (p1, s1, p2, s2) = (i64::from(*p1), i64::from(*s1), i64::from(*p2), i64::from(*s2));
    let scale = match scale {
        Some(scale) if !(0..=38).contains(&scale) => {
            return Err(Error::invalid("the scale of decimal_division is from 0 to 38").into());
        }
        Some(scale) => scale,
        None => (s1 + p2 + 1).max(6),
    };
    let precision = p1 - s1 + s2 + scale;
    match (u8::try_from(precision.max(1)), i8::try_from(scale)) {
        (Ok(precision @ 1..=38), Ok(scale @ 0..=38)) => Ok(DataType::Decimal128(precision, scale)),
        _ => {
            let message = format!(
                "the quotient of {a} and {b} would have {precision} digits, of which {scale} behind the point; there are \
                 38: give decimal_division a scale, or cast to less"
            );
            Err(Error::invalid(message).into())
        }
    }
}

fn ten_to(exponent: i32) -> Option<i256> {
    i256::from_i128(10).checked_pow(u32::try_from(exponent).ok()?)
}

/// `a / b` as it stands with so many places more.
fn divided(a: i128, b: i128, more: i32) -> std::result::Result<i128, Error> {
    let lost = || Error::new(ErrorKind::Overflow, "the quotient does not fit its decimal");
    if b == 0 {
        return Err(Error::new(ErrorKind::DivisionByZero, "division by zero"));
    }
    let (a, b) = (i256::from_i128(a), i256::from_i128(b));
    let (a, b) = match more >= 0 {
        true => (ten_to(more).and_then(|by| a.checked_mul(by)), Some(b)),
        false => (Some(a), ten_to(-more).and_then(|by| b.checked_mul(by))),
    };
    let quotient = a.zip(b).and_then(|(a, b)| a.checked_div(b)).and_then(i256::to_i128);
    quotient.ok_or_else(lost)
}

/// The mean of so many whose sum is given.
fn average(sum: i128, count: i64) -> Option<i128> {
    let count = i128::from(count);
    if count == 0 {
        return None;
    }
    let (whole, rest) = (sum / count, (sum % count).unsigned_abs() * 2);
    let up = rest > count.unsigned_abs() || (rest == count.unsigned_abs() && whole % 2 != 0);
    Some(if up { whole + sum.signum() } else { whole })
}

impl Quotient {
    fn evaluate(&self, args: &[ArrayRef], made: &DataType) -> Result<ArrayRef> {
        let DataType::Decimal128(precision, scale) = *made else {
            return Err(Error::Internal(format!("a quotient that is {made}")).into());
        };
        let scale_of = |array: &ArrayRef| match array.data_type() {
            DataType::Decimal128(_, scale) => i32::from(*scale),
            _ => 0,
        };
        let a =
            args[0].as_primitive_opt::<Decimal128Type>().ok_or_else(|| takes("quotients are of decimals"))?;
        let quotients = match self.kind {
            Kind::Division => {
                let b = args[1].as_primitive_opt::<Decimal128Type>();
                let b = b.ok_or_else(|| takes("quotients are of decimals"))?;
                let more = scale_of(&args[1]) + i32::from(scale) - scale_of(&args[0]);
                let of_row = |(a, b): (Option<i128>, Option<i128>)| match (a, b) {
                    (Some(a), Some(b)) => divided(a, b, more).map(Some),
                    _ => Ok(None),
                };
                a.iter().zip(b.iter()).map(of_row).collect::<std::result::Result<Decimal128Array, _>>()?
            }
            Kind::Average => {
                let counts = cast(&args[1], &DataType::Int64)?;
                let counts = counts.as_primitive::<Int64Type>().iter();
                a.iter().zip(counts).map(|(sum, count)| average(sum?, count?)).collect()
            }
        };
        let within = 10_u128.checked_pow(precision.into()).unwrap_or(MOST);
        if quotients.iter().flatten().any(|value| value.unsigned_abs() >= within) {
            return Err(Error::new(ErrorKind::Overflow, "the quotient does not fit its decimal").into());
        }
        Ok(Arc::new(quotients.with_precision_and_scale(precision, scale)?))
    }
}

impl ScalarUDFImpl for Quotient {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(Error::Internal(format!("the type of {} is that of its field", self.name)).into())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type()).collect();
        let made = match (self.kind, types.as_slice()) {
            (Kind::Division, [a, b]) => quotient_type(a, b, None)?,
            (Kind::Division, [a, b, _]) => {
                let scale = match args.scalar_arguments.get(2) {
                    Some(Some(scale)) => scale.cast_to(&DataType::Int64)?,
                    _ => ScalarValue::Null,
                };
                let ScalarValue::Int64(Some(scale)) = scale else {
                    return Err(takes("the scale of decimal_division is a number in the statement").into());
                };
                quotient_type(a, b, Some(scale))?
            }
            (Kind::Average, [_, _, like @ DataType::Decimal128(..)]) => (*like).clone(),
            (Kind::Average, _) => return Err(takes("decimal_average takes decimals").into()),
            _ => return Err(takes("decimal_division takes two decimals and a scale").into()),
        };
        Ok(Arc::new(Field::new(self.name, made, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_arrays(&args, |arrays, _| self.evaluate(arrays, args.return_field.data_type()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_have_the_places_they_are_given() {
        assert_eq!(divided(1234, 35, 1).unwrap(), 352);
        assert_eq!(divided(-700, 200, 6).unwrap(), -3_500_000);
        assert!(divided(10_i128.pow(37), 3, 38).is_err());
        assert!(divided(1, 0, 0).is_err());
        assert_eq!(
            [average(7, 2), average(5, 2), average(-7, 2), average(0, 0)],
            [Some(4), Some(2), Some(-4), None]
        );
    }

    #[test]
    fn quotients_have_38_digits_at_most() {
        let decimal = DataType::Decimal128;
        assert_eq!(quotient_type(&decimal(4, 2), &decimal(4, 1), None).unwrap(), decimal(10, 7));
        assert_eq!(quotient_type(&decimal(4, 2), &decimal(4, 1), Some(0)).unwrap(), decimal(3, 0));
        assert!(quotient_type(&decimal(28, 8), &decimal(20, 5), None).is_err());
        assert!(quotient_type(&decimal(4, 2), &decimal(4, 1), Some(39)).is_err());
    }
}
