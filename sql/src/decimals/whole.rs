//! `ceil`, `floor` and `trunc` of decimals, which are whole numbers. DataFusion gives them the type of what they are of, in
//! which there is no 1 beside 0.5 and no 100 beside 99.5.

use std::sync::Arc;

use arrow_array::{ArrayRef, Decimal128Array, cast::AsArray as _, types::Decimal128Type};
use arrow_schema::DataType;
use datafusion::{
    common::{DFSchema, Result},
    logical_expr::{
        ColumnarValue, Expr, ExprSchemable as _, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility, expr::ScalarFunction,
    },
};

use crate::{error::Error, functions::of_arrays};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Ceil,
    Floor,
    Trunc,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Whole {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

/// What each is called, and the function of DataFusion that it stands for.
const ALL: [(&str, &str, Kind); 3] = [
    ("basalt_ceil", "ceil", Kind::Ceil),
    ("basalt_floor", "floor", Kind::Floor),
    ("basalt_trunc", "trunc", Kind::Trunc),
];

fn function(name: &'static str, kind: Kind) -> ScalarUDF {
    let signature = Signature::variadic_any(Volatility::Immutable);
    ScalarUDF::new_from_impl(Whole { name, kind, signature })
}

/// What a task may have beside the functions that a session has.
pub(crate) fn inner() -> impl Iterator<Item = ScalarUDF> {
    ALL.into_iter().map(|(name, _, kind)| function(name, kind))
}

fn known(call: &ScalarFunction) -> Option<(&'static str, Kind)> {
    let known = ALL.into_iter().find(|(_, known, _)| *known == call.func.name());
    known.map(|(name, _, kind)| (name, kind))
}

/// Whether a call is one of these, of a decimal with places behind the point.
pub(crate) fn is_one(call: &ScalarFunction, schema: &DFSchema) -> bool {
    let has_places = |of: &Expr| matches!(of.get_type(schema), Ok(DataType::Decimal128(_, 1..)));
    known(call).is_some() && matches!(call.args.as_slice(), [of] if has_places(of))
}

/// What such a call becomes.
pub(crate) fn settled(call: ScalarFunction) -> Expr {
    match known(&call) {
        Some((name, kind)) => function(name, kind).call(call.args),
        None => Expr::ScalarFunction(call),
    }
}

impl Kind {
    /// Digits of what it makes of a decimal.
    fn digits(self, precision: u8, scale: u8) -> u8 {
        let carried = u8::from(self != Self::Trunc);
        (precision.saturating_sub(scale) + carried).max(1)
    }

    fn of(self, unscaled: i128, one: i128) -> i128 {
        let (down, is_whole) = (unscaled.div_euclid(one), unscaled % one == 0);
        match self {
            Self::Floor => down,
            Self::Ceil => down + i128::from(!is_whole),
            Self::Trunc => unscaled / one,
        }
    }
}

impl ScalarUDFImpl for Whole {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::Decimal128(precision, scale @ 1..)] => {
                Ok(DataType::Decimal128(self.kind.digits(*precision, scale.unsigned_abs()), 0))
            }
            _ => Err(Error::Internal(format!("{} of {types:?}", self.name)).into()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let made = args.return_field.data_type().clone();
        of_arrays(&args, |arrays, _| match (arrays, &made) {
            ([given], DataType::Decimal128(precision, _)) => whole(self.kind, given, *precision),
            _ => Err(Error::Internal(format!("{} makes {made}", self.name)).into()),
        })
    }
}

fn whole(kind: Kind, given: &ArrayRef, precision: u8) -> Result<ArrayRef> {
    let places = match given.data_type() {
        DataType::Decimal128(_, scale) => u32::from(scale.unsigned_abs()),
        _ => 0,
    };
    let one = 10_i128.checked_pow(places).ok_or_else(|| Error::Internal(format!("{places} places")))?;
    let made: Decimal128Array = given.as_primitive::<Decimal128Type>().unary(|value| kind.of(value, one));
    Ok(Arc::new(made.with_precision_and_scale(precision, 0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_whole_numbers() {
        for (unscaled, one, expected) in [
            (5, 10, [1, 0, 0]),
            (-5, 10, [0, -1, 0]),
            (995, 10, [100, 99, 99]),
            (-99, 10, [-9, -10, -9]),
            (30, 10, [3, 3, 3]),
            (0, 10, [0, 0, 0]),
            (10_i128.pow(38) - 1, 10_i128.pow(38), [1, 0, 0]),
        ] {
            let made = [Kind::Ceil, Kind::Floor, Kind::Trunc].map(|kind| kind.of(unscaled, one));
            assert_eq!(made, expected, "{unscaled}");
        }
    }

    #[test]
    fn there_is_room_for_one_digit_more() {
        assert_eq!([Kind::Ceil.digits(1, 1), Kind::Ceil.digits(3, 1), Kind::Ceil.digits(38, 38)], [1, 3, 1]);
        assert_eq!(
            [Kind::Trunc.digits(1, 1), Kind::Trunc.digits(3, 1), Kind::Trunc.digits(38, 1)],
            [1, 2, 37]
        );
    }
}
