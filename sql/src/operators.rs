//! Operators between values and subscripts, in the functions that have the engine's meaning of them.

use std::sync::Arc;

use arrow_array::types::IntervalMonthDayNano;
use arrow_schema::{DataType, Field, TimeUnit};
use basalt_core::{error::ErrorKind, limits::TIMESTAMPS};
use datafusion::{
    common::{Column, DFSchema, Result, ScalarValue, TableReference},
    logical_expr::{
        Expr, ExprSchemable as _, GetFieldAccess, Operator, binary_expr,
        planner::{ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr},
    },
    sql::sqlparser::ast::BinaryOperator,
};

use crate::{
    arithmetic::{Arithmetic, ArithmeticOpName, is_number},
    bits, checked, coerce, decimals,
    error::Error,
    functions, lists, nested, parameters, system, untyped,
};

/// See the module.
#[derive(Debug)]
pub(crate) struct Planner;

impl ExprPlanner for Planner {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let lists = |expr: &RawBinaryExpr| {
            let item = |side: &Expr| side.get_type(schema).ok().and_then(|side| lists::item(&side));
            let (left, right) = (item(&expr.left), item(&expr.right));
            // A NULL alone is no list.
            matches!((left, right), (Some(left), Some(right)) if !(left.is_null() && right.is_null()))
                && [&expr.left, &expr.right]
                    .iter()
                    .any(|side| side.get_type(schema).is_ok_and(|side| !side.is_null()))
        };
        let is_null = |side: &Expr| side.get_type(schema).is_ok_and(|side| side.is_null());
        let op = match expr.op {
            BinaryOperator::Plus | BinaryOperator::StringConcat if lists(&expr) => {
                return Ok(PlannerResult::Planned(lists::concatenated(expr.left, expr.right)));
            }
            // The planner must know which texts they would be.
            BinaryOperator::StringConcat if is_null(&expr.left) && is_null(&expr.right) => {
                let left = datafusion::logical_expr::cast(expr.left, DataType::Utf8);
                let joined = binary_expr(left, Operator::StringConcat, expr.right);
                return Ok(PlannerResult::Planned(joined));
            }
            // The planner would say that they have no type in common.
            BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
            | BinaryOperator::AtArrow
            | BinaryOperator::ArrowAt => {
                untyped::beside(&mut [&mut expr.left, &mut expr.right], schema)?;
                return Ok(PlannerResult::Original(expr));
            }
            BinaryOperator::Plus => ArithmeticOpName::Add,
            BinaryOperator::Minus => ArithmeticOpName::Subtract,
            BinaryOperator::Multiply => ArithmeticOpName::Multiply,
            BinaryOperator::Divide => ArithmeticOpName::Divide,
            BinaryOperator::PGBitwiseShiftLeft
            | BinaryOperator::PGBitwiseShiftRight
            | BinaryOperator::BitwiseAnd
            | BinaryOperator::BitwiseOr
            | BinaryOperator::PGBitwiseXor => return of_bits(expr, schema),
            BinaryOperator::Modulo => {
                let of = |side: &Expr| side.get_type(schema).is_ok_and(|of| of.is_floating());
                return Ok(match of(&expr.left) || of(&expr.right) {
                    true => {
                        let rest = binary_expr(expr.left, Operator::Modulo, expr.right);
                        PlannerResult::Planned(functions::one_nan(rest))
                    }
                    false => PlannerResult::Original(expr),
                });
            }
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        let left = parameters::beside(op, &mut expr.left, left, &right);
        let right = parameters::beside(op, &mut expr.right, right, &left);
        let is_times = |interval: &DataType, times: &DataType| {
            op == ArithmeticOpName::Multiply
                && matches!(interval, DataType::Interval(_))
                // Drivers send whole numbers as decimals.
                && (times.is_integer() || times.is_null() || decimals::is_integer(times))
        };
        if is_times(&left, &right) {
            return Ok(PlannerResult::Planned(functions::interval_times(expr.left, expr.right)));
        }
        if is_times(&right, &left) {
            return Ok(PlannerResult::Planned(functions::interval_times(expr.right, expr.left)));
        }
        if let Some(planned) = of_dates(op, &expr, &left, &right) {
            return Ok(PlannerResult::Planned(planned));
        }
        if op == ArithmeticOpName::Subtract
            && let Some(timestamp) = coerce::timestamp_of([&left, &right].into_iter())
        {
            let alike = |side: Expr, of: &DataType| match *of == timestamp {
                true => side,
                false => datafusion::logical_expr::cast(side, timestamp.clone()),
            };
            let (left, right) = (alike(expr.left, &left), alike(expr.right, &right));
            return Ok(PlannerResult::Planned(binary_expr(left, Operator::Minus, right)));
        }
        let is_timed = [timed(&left, &expr.right, &right), timed(&right, &expr.left, &left)];
        if let Some(operator) = moved(op, &left, &right) {
            let side = |side: Expr, of: &DataType, beside: &DataType, is_timed| match of {
                _ if is_timed => datafusion::logical_expr::cast(side, MICROSECONDS),
                DataType::Time32(_) | DataType::Time64(_) => since_midnight(side),
                DataType::Interval(_) => as_duration(side, beside),
                _ => side,
            };
            let first = side(expr.left, &left, &right, is_timed[0]);
            let second = side(expr.right, &right, &left, is_timed[1]);
            return Ok(PlannerResult::Planned(checked::within(binary_expr(first, operator, second))));
        }
        let null = |data_type: &DataType| *data_type == DataType::Null;
        let numbers = (is_number(&left) || null(&left)) && (is_number(&right) || null(&right));
        if !numbers || (null(&left) && null(&right)) {
            return Ok(PlannerResult::Original(expr));
        }
        Ok(PlannerResult::Planned(Arithmetic::call(op, expr.left, expr.right)))
    }

    /// What is no field of a column may be a column of a table called as that column, in a query around.
    fn plan_compound_identifier(
        &self,
        field: &Field,
        _: Option<&TableReference>,
        names: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let data_type = field.data_type();
        let has_no_fields =
            data_type.is_primitive() || data_type.is_string() || *data_type == DataType::Boolean;
        Ok(match names {
            [name] if has_no_fields => PlannerResult::Planned(Expr::Column(Column::new(
                Some(TableReference::bare(field.name().as_str())),
                name,
            ))),
            _ => PlannerResult::Original(Vec::new()),
        })
    }

    fn plan_field_access(
        &self,
        expr: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let of = expr.expr.get_type(schema)?;
        if let (DataType::Map(entries, _), GetFieldAccess::ListIndex { key }) = (&of, &expr.field_access)
            && let DataType::Struct(fields) = entries.data_type()
            && fields.first().is_some_and(|key| nested::is_nested(key.data_type()))
        {
            return Ok(PlannerResult::Planned(lists::entry(expr.expr, key.as_ref().clone())));
        }
        if !of.is_string() && lists::item(&of).is_none() {
            return Ok(PlannerResult::Original(expr));
        }
        if of.is_string() {
            check_texts(&expr)?;
        }
        let RawFieldAccessExpr { field_access, expr } = expr;
        match field_access {
            GetFieldAccess::ListIndex { key } => Ok(PlannerResult::Planned(lists::element(expr, *key))),
            GetFieldAccess::ListRange { start, stop, stride } => match *stride {
                Expr::Literal(ScalarValue::Int64(Some(1)), _) => {
                    Ok(PlannerResult::Planned(lists::slice(expr, *start, *stop)))
                }
                step => Ok(PlannerResult::Planned(lists::slice_by(expr, *start, *stop, step))),
            },
            field_access => Ok(PlannerResult::Original(RawFieldAccessExpr { field_access, expr })),
        }
    }
}

/// Fails for a part of a column of texts, which is where tables have lists and structs, as JSON: it would be a character of that.
fn check_texts(part: &RawFieldAccessExpr) -> Result<()> {
    let (Expr::Column(column) | Expr::OuterReferenceColumn(_, column)) = &part.expr else { return Ok(()) };
    if system::is_list(&column.name) {
        return Ok(());
    }
    let name = system::quoted_name(&column.name);
    let message = match part.field_access {
        GetFieldAccess::NamedStructField { .. } => format!(
            "{:?} is a column of texts, which have no fields: {name} ->> 'key' is one of a struct that is stored there, as JSON",
            column.name
        ),
        GetFieldAccess::ListIndex { .. } | GetFieldAccess::ListRange { .. } => format!(
            "{:?} is a column of texts, whose parts are characters: CAST({name} AS VARCHAR[])[1] is a value of a list that is \
             stored there, as JSON, and substr({name}, 1, 1) a character",
            column.name
        ),
    };
    Err(Error::new(ErrorKind::TypeMismatch, message).into())
}

/// What is done with the bits of whole numbers. The planner's own have 64 bits; it moves them without asking what is lost.
fn of_bits(expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
        return Ok(PlannerResult::Original(expr));
    };
    let is_whole = |side: &DataType| side.is_integer() || side.is_null() || decimals::is_whole(side);
    let is_wide = decimals::is_whole(&left) || decimals::is_whole(&right);
    let op = match expr.op {
        BinaryOperator::BitwiseAnd => bits::Op::And,
        BinaryOperator::BitwiseOr => bits::Op::Or,
        BinaryOperator::PGBitwiseXor => bits::Op::Xor,
        BinaryOperator::PGBitwiseShiftLeft => bits::Op::Left,
        _ => bits::Op::Right,
    };
    let is_moved = matches!(op, bits::Op::Left | bits::Op::Right);
    match is_whole(&left) && is_whole(&right) {
        // The planner would have 0 of NULL.
        true if op == bits::Op::Xor && expr.left == expr.right => {
            let subtract = ArithmeticOpName::Subtract;
            Ok(PlannerResult::Planned(Arithmetic::call(subtract, expr.left, expr.right)))
        }
        true if is_wide => Ok(PlannerResult::Planned(bits::call(op, expr.left, expr.right))),
        true if is_moved => {
            Ok(PlannerResult::Planned(bits::shift(expr.left, expr.right, op == bits::Op::Left)))
        }
        // The planner would take the whole part of what has a fraction.
        false if is_moved || [&left, &right].iter().any(|side| side.is_floating() || side.is_decimal()) => {
            Err(Error::new(ErrorKind::TypeMismatch, "bits are those of whole numbers").into())
        }
        _ => Ok(PlannerResult::Original(expr)),
    }
}

const MICROSECONDS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

const DAY_MICROS: i64 = 86_400_000_000;

/// Whether a date meets a time, or an interval or a difference of timestamps that may have hours: the date becomes a timestamp
/// then, or they would be lost.
fn timed(date: &DataType, other: &Expr, interval: &DataType) -> bool {
    let is_whole = match other {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), _) => interval.nanoseconds == 0,
        _ => false,
    };
    let has_hours = matches!(
        interval,
        DataType::Interval(_) | DataType::Duration(_) | DataType::Time32(_) | DataType::Time64(_)
    );
    *date == DataType::Date32 && has_hours && !is_whole
}

/// A constant interval that moves a timestamp, as the microseconds that it has: arrow adds an interval by its parts in a calendar, row
/// by row. One with months or parts of microseconds stays as it is, and one that is longer than all times, whose sum is an error of
/// arrow's.
fn as_duration(interval: Expr, moment: &DataType) -> Expr {
    match &interval {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(by)), metadata) if has_even_days(moment) => {
            match micros(*by) {
                Some(micros) => {
                    Expr::Literal(ScalarValue::DurationMicrosecond(Some(micros)), metadata.clone())
                }
                None => interval,
            }
        }
        _ => interval,
    }
}

/// Whether it is a timestamp in microseconds all of whose days have 24 hours.
fn has_even_days(moment: &DataType) -> bool {
    let is_utc = |zone: &Option<Arc<str>>| zone.as_deref().is_none_or(|zone| zone == "UTC");
    matches!(moment, DataType::Timestamp(TimeUnit::Microsecond, zone) if is_utc(zone))
}

/// How many microseconds an interval has in any month.
pub(crate) fn micros(interval: IntervalMonthDayNano) -> Option<i64> {
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    if months != 0 || nanoseconds % 1000 != 0 {
        return None;
    }
    let micros = i64::from(days).checked_mul(DAY_MICROS)?.checked_add(nanoseconds / 1000)?;
    let longest = TIMESTAMPS.end().abs_diff(*TIMESTAMPS.start());
    (micros.unsigned_abs() <= longest).then_some(micros)
}

/// A time of a day as how long after midnight it is.
fn since_midnight(time: Expr) -> Expr {
    use datafusion::logical_expr::cast;
    let micros = cast(cast(time, DataType::Time64(TimeUnit::Microsecond)), DataType::Int64);
    cast(micros, DataType::Duration(TimeUnit::Microsecond))
}

/// The operator that moves a date or a timestamp to another one.
fn moved(op: ArithmeticOpName, left: &DataType, right: &DataType) -> Option<Operator> {
    let is_moment = |side: &DataType| matches!(side, DataType::Date32 | DataType::Timestamp(..));
    let by = |side: &DataType| {
        matches!(
            side,
            DataType::Interval(_) | DataType::Duration(_) | DataType::Time32(_) | DataType::Time64(_)
        )
    };
    match op {
        ArithmeticOpName::Add if is_moment(left) && by(right) || by(left) && is_moment(right) => {
            Some(Operator::Plus)
        }
        ArithmeticOpName::Subtract if is_moment(left) && by(right) => Some(Operator::Minus),
        _ => None,
    }
}

/// A date and a number of days, or the days between two dates.
fn of_dates(op: ArithmeticOpName, expr: &RawBinaryExpr, left: &DataType, right: &DataType) -> Option<Expr> {
    use datafusion::logical_expr::cast;
    let days = |date: &Expr| cast(cast(date.clone(), DataType::Int32), DataType::Int64);
    let date = |days: Expr| checked::within(cast(cast(days, DataType::Int32), DataType::Date32));
    let call = |left: Expr, right: Expr| Arithmetic::call(op, left, right);
    let adds = matches!(op, ArithmeticOpName::Add | ArithmeticOpName::Subtract);
    // Drivers send whole numbers as decimals.
    let is_whole = |number: &DataType| number.is_integer() || decimals::is_integer(number);
    let whole = |number: &Expr, of: &DataType| match decimals::is_integer(of) {
        true => cast(number.clone(), DataType::Int64),
        false => number.clone(),
    };
    match (left, right) {
        (DataType::Date32, DataType::Date32) if op == ArithmeticOpName::Subtract => {
            Some(call(days(&expr.left), days(&expr.right)))
        }
        (DataType::Date32, number) if is_whole(number) && adds => {
            Some(date(call(days(&expr.left), whole(&expr.right, number))))
        }
        (number, DataType::Date32) if is_whole(number) && op == ArithmeticOpName::Add => {
            Some(date(call(whole(&expr.left, number), days(&expr.right))))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_intervals_without_months_are_durations() {
        let literal = |months, days, nanoseconds| {
            let by = IntervalMonthDayNano::new(months, days, nanoseconds);
            Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(by)), None)
        };
        let duration = |micros| Expr::Literal(ScalarValue::DurationMicrosecond(Some(micros)), None);
        let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        for moment in [&MICROSECONDS, &utc] {
            assert_eq!(as_duration(literal(0, 2, 1000), moment), duration(2 * DAY_MICROS + 1));
            assert_eq!(as_duration(literal(0, -1, -3_000_000), moment), duration(-DAY_MICROS - 3000));
            assert_eq!(as_duration(literal(0, 0, 0), moment), duration(0));
            for (months, days, nanoseconds) in
                [(1, 0, 0), (0, 0, 1), (0, i32::MAX, 0), (0, i32::MIN, 0), (0, 0, 1500)]
            {
                let kept = literal(months, days, nanoseconds);
                assert_eq!(as_duration(kept.clone(), moment), kept);
            }
        }
        let berlin = DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into()));
        let nanos = DataType::Timestamp(TimeUnit::Nanosecond, None);
        for moment in [&berlin, &nanos, &DataType::Date32] {
            assert_eq!(as_duration(literal(0, 1, 0), moment), literal(0, 1, 0));
        }
    }
}
