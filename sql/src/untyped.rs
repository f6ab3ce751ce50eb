//! Literal texts that stand for a value of another type, as they do in PostgreSQL and DuckDB: where CASE, COALESCE and others
//! choose among them and numbers, dates or booleans, `'9'` is the number 9. DataFusion would make texts of the numbers, of
//! which `'10'` is less than `'9'`.

use arrow_schema::DataType;
use datafusion::{
    common::{DFSchema, Result},
    logical_expr::{
        Expr, ExprSchemable as _, cast, type_coercion::other::get_coerce_type_for_case_expression,
    },
};

use crate::{coerce, decimals, meaning};

/// Gives the literal texts among some expressions the type that the others have in common; whether there were any.
pub(crate) fn typed(sides: &mut [&mut Expr], schema: &DFSchema) -> Result<bool> {
    if !sides.iter().any(|side| text(side).is_some()) {
        return Ok(false);
    }
    let others = sides.iter().filter(|side| text(side).is_none());
    let types: Vec<_> = others.map(|side| side.get_type(schema).unwrap_or(DataType::Null)).collect();
    let Some(wanted) = common(&types) else { return Ok(false) };
    for side in sides {
        let Some(literal) = text(side) else { continue };
        **side = match decimals::of_text(literal).filter(|_| wanted.is_decimal()) {
            // All of its digits count.
            Some(decimal) => Expr::Literal(decimal, None),
            None => meaning::rewritten(cast(std::mem::take(&mut **side), wanted.clone()), schema)?.data,
        };
    }
    Ok(true)
}

/// Whether it is a literal text.
pub(crate) fn is_one(expr: Option<&Expr>) -> bool {
    expr.and_then(text).is_some()
}

fn text(expr: &Expr) -> Option<&str> {
    let Expr::Literal(value, _) = expr else { return None };
    value.try_as_str().flatten()
}

/// The type of values of such types, where a literal text may be one of them.
fn common(types: &[DataType]) -> Option<DataType> {
    let known = types.iter().filter(|of| !of.is_null());
    let common = coerce::float_of(known.clone())
        .or_else(|| coerce::timestamp_of(known))
        .or_else(|| get_coerce_type_for_case_expression(types, None))?;
    let is_said = |of: &DataType| {
        of.is_numeric() || of.is_binary() || matches!(of, DataType::Boolean | DataType::Date32)
    };
    let is_time = matches!(common, DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_));
    (is_said(&common) || is_time).then_some(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_of_numbers_dates_and_booleans_alone() {
        let of = |types: &[DataType]| common(types);
        assert_eq!(of(&[DataType::Int32, DataType::Null]), Some(DataType::Int32));
        assert_eq!(of(&[DataType::Int32, DataType::Int64]), Some(DataType::Int64));
        assert_eq!(of(&[DataType::Decimal128(9, 2), DataType::Float64]), Some(DataType::Float64));
        assert_eq!(of(&[DataType::Boolean]), Some(DataType::Boolean));
        assert_eq!(of(&[DataType::Int32, DataType::Utf8]), None);
        assert_eq!(of(&[DataType::Null]), None);
        assert_eq!(of(&[]), None);
    }
}
