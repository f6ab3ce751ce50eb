//! A cast to NUMERIC without digits, of which the type of what is cast says how many there are: a decimal stays what it is, a whole
//! number has none behind the point, and what has no digits of its own, as floats and texts, has ten. DataFusion has ten
//! of all, and cuts the others off.

use std::sync::Arc;

use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef};
use datafusion::{
    common::{DFSchema, Result},
    logical_expr::{
        ColumnarValue, Expr, ExprSchemable as _, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
        ScalarUDFImpl, Signature, Volatility, cast, expr::ScalarFunction, try_cast,
    },
};

use crate::{checked, error::Error};

/// The function that stands for such a CAST.
pub(crate) const NUMERIC: &str = "basalt_numeric";

/// And for a TRY_CAST.
pub(crate) const TRY_NUMERIC: &str = "basalt_try_numeric";

/// Digits behind the point of what does not say how many it has.
const SCALE: i8 = 10;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Numeric {
    is_try: bool,
    signature: Signature,
}

/// What a session has of them.
pub(crate) fn all() -> impl Iterator<Item = ScalarUDF> {
    [false, true].into_iter().map(|is_try| {
        ScalarUDF::new_from_impl(Numeric { is_try, signature: Signature::any(1, Volatility::Immutable) })
    })
}

/// Whether a call is one of these.
pub(crate) fn is_one(call: &ScalarFunction) -> bool {
    [NUMERIC, TRY_NUMERIC].contains(&call.func.name())
}

/// What such a call becomes, a cast or what is cast.
pub(crate) fn settled(call: ScalarFunction, schema: &DFSchema) -> Result<Expr> {
    let is_try = call.func.name() == TRY_NUMERIC;
    let inner =
        call.args.into_iter().next().ok_or_else(|| Error::Internal(format!("{NUMERIC} of nothing")))?;
    let of = inner.get_type(schema)?;
    let to = made_of(&of);
    Ok(match is_try {
        _ if of == to => inner,
        true => try_cast(inner, to),
        false => cast(inner, to),
    })
}

/// The decimal that has the values of a type.
fn made_of(of: &DataType) -> DataType {
    match of {
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) => of.clone(),
        DataType::Decimal256(..) => checked::narrower(of),
        DataType::Int8 | DataType::UInt8 => DataType::Decimal128(3, 0),
        DataType::Int16 | DataType::UInt16 => DataType::Decimal128(5, 0),
        DataType::Int32 | DataType::UInt32 => DataType::Decimal128(10, 0),
        DataType::Int64 => DataType::Decimal128(19, 0),
        DataType::UInt64 => DataType::Decimal128(20, 0),
        _ => DataType::Decimal128(DECIMAL128_MAX_PRECISION, SCALE),
    }
}

impl ScalarUDFImpl for Numeric {
    fn name(&self) -> &str {
        if self.is_try { TRY_NUMERIC } else { NUMERIC }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let of = types.first().ok_or_else(|| Error::Internal(format!("{NUMERIC} of nothing")))?;
        Ok(made_of(of))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let of = args.arg_fields.first().ok_or_else(|| Error::Internal(format!("{NUMERIC} of nothing")))?;
        let is_nullable = self.is_try || of.is_nullable();
        Ok(Arc::new(Field::new(self.name(), made_of(of.data_type()), is_nullable)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // It is a cast before anything runs.
        Err(Error::Internal(format!("{} in a plan that runs", self.name())).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_what_is_cast() {
        for (of, precision, scale) in [
            (DataType::Decimal128(20, 15), 20, 15),
            (DataType::Decimal128(38, 38), 38, 38),
            (DataType::Int16, 5, 0),
            (DataType::Int64, 19, 0),
            (DataType::UInt64, 20, 0),
            (DataType::Float64, 38, 10),
            (DataType::Utf8, 38, 10),
        ] {
            assert_eq!(made_of(&of), DataType::Decimal128(precision, scale), "{of}");
        }
    }
}
