//! Literal texts that stand for a value of another type, as they do in PostgreSQL and DuckDB: where CASE, COALESCE and others
//! choose among them and numbers, dates or booleans, `'9'` is the number 9. DataFusion would make texts of the numbers, of
//! which `'10'` is less than `'9'`. Beside intervals and lists, which it does not compare with texts, `'1 day'` is an interval and
//! `'{1,2}'` a list.

use arrow_schema::{DataType, TimeUnit};
use basalt_core::error::ErrorKind;
use datafusion::{
    common::{DFSchema, Result, ScalarValue},
    logical_expr::{
        Expr, ExprSchemable as _, cast, type_coercion::other::get_coerce_type_for_case_expression,
    },
};

use crate::{coerce, decimals, dialect, error::Error, functions::INTERVAL, interval, meaning, operators};

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
        let made = match decimals::of_text(literal).filter(|_| wanted.is_decimal()) {
            // All of its digits count.
            Some(decimal) => Some(Expr::Literal(decimal, None)),
            None => value(literal, &wanted)?,
        };
        let made = made.unwrap_or_else(|| cast(std::mem::take(&mut **side), wanted.clone()));
        **side = meaning::rewritten(made, schema)?.data;
    }
    Ok(true)
}

/// Gives the literal texts that are compared with intervals or lists the type of these; whether there were any.
pub(crate) fn beside(sides: &mut [&mut Expr], schema: &DFSchema) -> Result<bool> {
    if !sides.iter().any(|side| text(side).is_some()) {
        return Ok(false);
    }
    let others = sides.iter().filter(|side| text(side).is_none());
    let types: Vec<_> = others.map(|side| side.get_type(schema).unwrap_or(DataType::Null)).collect();
    let wanted = match common(&types) {
        // They are compared by how long they are.
        Some(DataType::Duration(_)) => INTERVAL,
        Some(of) if has_parts(&of) => of,
        _ => return Ok(false),
    };
    for side in sides {
        let Some(literal) = text(side) else { continue };
        let made = value(literal, &wanted)?;
        **side = made.unwrap_or_else(|| cast(std::mem::take(&mut **side), wanted.clone()));
    }
    Ok(true)
}

/// Fails where a text that is no literal is among intervals or lists: the planner would cast it.
pub(crate) fn check(sides: &[Expr], schema: &DFSchema) -> Result<()> {
    let any =
        |is: fn(&DataType) -> bool| sides.iter().any(|side| side.get_type(schema).is_ok_and(|of| is(&of)));
    if any(has_parts) && any(DataType::is_string) {
        let message = "values of one type are chosen among, not texts and intervals or lists";
        return Err(Error::new(ErrorKind::TypeMismatch, message).into());
    }
    Ok(())
}

/// Whether it is the type of intervals, of differences of timestamps or of lists.
pub(crate) fn has_parts(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_) | DataType::Duration(_) | DataType::List(_))
}

/// The value that a text says, where a cast is not to make it; `None`: a cast is.
fn value(text: &str, of: &DataType) -> Result<Option<Expr>> {
    let literal = |value| Ok(Some(Expr::Literal(value, None)));
    match of {
        DataType::Interval(_) | DataType::Duration(_) => {
            let wrong = || Error::invalid(format!("{text:?} is no interval"));
            let interval = interval::parse(text, None).ok_or_else(wrong)?;
            match operators::micros(interval).filter(|_| *of == DataType::Duration(TimeUnit::Microsecond)) {
                Some(micros) => literal(ScalarValue::DurationMicrosecond(Some(micros))),
                None => literal(ScalarValue::IntervalMonthDayNano(Some(interval))),
            }
        }
        DataType::List(item) => {
            let Some(values) = dialect::array_values(text) else { return Ok(None) };
            let (values, given) = match *item.data_type() == INTERVAL {
                // The cast reads fewer forms.
                true => (values.into_iter().map(span).collect::<Result<Vec<_>>>()?, INTERVAL),
                false => (values.into_iter().map(ScalarValue::Utf8).collect(), DataType::Utf8),
            };
            let list = ScalarValue::List(ScalarValue::new_list(&values, &given, true));
            Ok(Some(cast(Expr::Literal(list, None), of.clone())))
        }
        _ => Ok(None),
    }
}

/// The interval that a text says.
fn span(text: Option<String>) -> Result<ScalarValue> {
    let Some(text) = text else { return Ok(ScalarValue::IntervalMonthDayNano(None)) };
    let interval = interval::parse(&text, None);
    let interval = interval.ok_or_else(|| Error::invalid(format!("{text:?} is no interval")))?;
    Ok(ScalarValue::IntervalMonthDayNano(Some(interval)))
}

/// Whether it is a literal text.
pub(crate) fn is_one(expr: Option<&Expr>) -> bool {
    expr.and_then(text).is_some()
}

/// What a literal text says.
pub(crate) fn text(expr: &Expr) -> Option<&str> {
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
    (is_said(&common) || is_time || has_parts(&common)).then_some(common)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lists;

    #[test]
    fn a_text_is_one_of_numbers_dates_booleans_intervals_and_lists_alone() {
        let of = |types: &[DataType]| common(types);
        assert_eq!(of(&[DataType::Int32, DataType::Null]), Some(DataType::Int32));
        assert_eq!(of(&[DataType::Int32, DataType::Int64]), Some(DataType::Int64));
        assert_eq!(of(&[DataType::Decimal128(9, 2), DataType::Float64]), Some(DataType::Float64));
        assert_eq!(of(&[DataType::Boolean]), Some(DataType::Boolean));
        let difference = DataType::Duration(TimeUnit::Microsecond);
        assert_eq!(of(&[difference.clone(), DataType::Null]), Some(difference.clone()));
        assert_eq!(of(&[difference, INTERVAL]), Some(INTERVAL));
        assert_eq!(of(&[lists::list_type(DataType::Int64)]), Some(lists::list_type(DataType::Int64)));
        assert_eq!(of(&[INTERVAL, DataType::Utf8]), None);
        assert_eq!(of(&[DataType::Int32, DataType::Utf8]), None);
        assert_eq!(of(&[DataType::Null]), None);
        assert_eq!(of(&[]), None);
    }
}
