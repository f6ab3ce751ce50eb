//! Bits of whole numbers: `<<` and `>>` of int64, and all operators of those of more than 64 bits.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Decimal128Array, Int64Array,
    cast::AsArray as _,
    types::{Decimal128Type, Int64Type},
};
use arrow_schema::DataType;
use basalt_core::error::ErrorKind;
use datafusion::{
    arrow::compute::cast,
    common::Result as DataFusionResult,
    logical_expr::{
        ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    },
};

use crate::{
    decimals::{MOST, WHOLE},
    error::Error,
    functions::of_arrays,
};

/// What is done with two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    And,
    Or,
    Xor,
    Left,
    Right,
}

impl Op {
    fn name(self) -> &'static str {
        match self {
            Self::And => "basalt_bits_and",
            Self::Or => "basalt_bits_or",
            Self::Xor => "basalt_bits_xor",
            Self::Left => "basalt_bits_left",
            Self::Right => "basalt_bits_right",
        }
    }

    /// Of numbers of 38 digits.
    fn of(self, a: i128, b: i128) -> Result<i128, Error> {
        let value = match self {
            Self::And => Some(a & b),
            Self::Or => Some(a | b),
            Self::Xor => Some(a ^ b),
            Self::Left if a < 0 => {
                return Err(Error::invalid("bits of a negative number are not moved left"));
            }
            Self::Left | Self::Right if b < 0 => return Err(backwards()),
            Self::Left if a == 0 => Some(0),
            Self::Left => u32::try_from(b).ok().and_then(|b| {
                let moved = a.checked_shl(b)?;
                (moved >> b == a).then_some(moved)
            }),
            // Nothing is left of what was moved by all places.
            Self::Right => Some(u32::try_from(b).ok().and_then(|b| a.checked_shr(b)).unwrap_or_default()),
        };
        let lost = || Error::new(ErrorKind::Overflow, "the result does not fit a decimal of 38 digits");
        value.filter(|value| value.unsigned_abs() <= MOST).ok_or_else(lost)
    }
}

fn backwards() -> Error {
    Error::invalid("bits are moved by 0 or more places")
}

/// `value << by` or `value >> by` of int64.
fn shifted(value: i64, by: i64, is_left: bool) -> Result<i64, Error> {
    let places = u32::try_from(by).map_err(|_| backwards())?;
    let moved = match is_left {
        true if value == 0 => Some(0),
        true => value.checked_shl(places).filter(|moved| moved >> places == value),
        // Nothing is left of what was moved by all places.
        false => Some(value.checked_shr(places).unwrap_or_default()),
    };
    let symbol = if is_left { "<<" } else { ">>" };
    let lost = || Error::new(ErrorKind::Overflow, format!("the result of '{symbol}' does not fit an int64"));
    moved.ok_or_else(lost)
}

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Shift { is_left: bool },
    Wide(Op),
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bits {
    kind: Kind,
    signature: Signature,
}

fn function(kind: Kind) -> ScalarUDF {
    ScalarUDF::new_from_impl(Bits { kind, signature: Signature::any(2, Volatility::Immutable) })
}

/// What a task may have of them.
pub(crate) fn inner() -> impl Iterator<Item = ScalarUDF> {
    let wide = [Op::And, Op::Or, Op::Xor, Op::Left, Op::Right].map(Kind::Wide);
    wide.into_iter().chain([true, false].map(|is_left| Kind::Shift { is_left })).map(function)
}

/// An operation on two numbers of which one has more than 64 bits.
pub(crate) fn call(op: Op, left: Expr, right: Expr) -> Expr {
    function(Kind::Wide(op)).call(vec![left, right])
}

/// `left << right` or `left >> right` of int64.
pub(crate) fn shift(left: Expr, right: Expr, is_left: bool) -> Expr {
    function(Kind::Shift { is_left }).call(vec![left, right])
}

/// What is made of each two values that are there.
fn zip<A, B, O>(
    a: impl Iterator<Item = Option<A>>,
    b: impl Iterator<Item = Option<B>>,
    of: impl Fn(A, B) -> Result<O, Error>,
) -> impl Iterator<Item = Result<Option<O>, Error>> {
    a.zip(b).map(move |(a, b)| a.zip(b).map(|(a, b)| of(a, b)).transpose())
}

impl ScalarUDFImpl for Bits {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Wide(op) => op.name(),
            Kind::Shift { is_left: true } => "basalt_shift_left",
            Kind::Shift { is_left: false } => "basalt_shift_right",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(match self.kind {
            Kind::Wide(_) => WHOLE,
            Kind::Shift { .. } => DataType::Int64,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        of_arrays(&args, |arrays, _| {
            let data_type = self.return_type(&[])?;
            let (a, b) = (cast(&arrays[0], &data_type)?, cast(&arrays[1], &data_type)?);
            Ok(match self.kind {
                Kind::Wide(op) => {
                    let (a, b) = (a.as_primitive::<Decimal128Type>(), b.as_primitive::<Decimal128Type>());
                    let made = zip(a.iter(), b.iter(), |a, b| op.of(a, b));
                    let made = made.collect::<Result<Decimal128Array, _>>()?;
                    Arc::new(made.with_precision_and_scale(38, 0)?) as ArrayRef
                }
                Kind::Shift { is_left } => {
                    let (a, b) = (a.as_primitive::<Int64Type>(), b.as_primitive::<Int64Type>());
                    let made = zip(a.iter(), b.iter(), |a, b| shifted(a, b, is_left));
                    Arc::new(made.collect::<Result<Int64Array, _>>()?)
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_move_until_they_do_not_fit() {
        assert_eq!(Op::Left.of(1, 100).unwrap(), 1 << 100);
        assert_eq!((Op::Left.of(0, 1000).unwrap(), Op::Right.of(-5, 1000).unwrap()), (0, 0));
        assert_eq!((Op::Right.of(-27, 1).unwrap(), Op::Xor.of(1, 3).unwrap()), (-14, 2));
        for (value, by) in [(1, 127), (3, 126), (1, 200), (-1, 1), (1, -1)] {
            assert!(Op::Left.of(value, by).is_err(), "{value} << {by}");
        }
    }
}
