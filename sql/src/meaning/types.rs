//! What is asked of the types of expressions.

use arrow_schema::{DataType, TimeUnit};
use datafusion::{
    common::DFSchema,
    logical_expr::{Expr, ExprSchemable as _, expr::ScalarFunction},
};

use crate::{lists, nested};

pub(super) fn is_nested(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| nested::is_nested(&data_type))
}

pub(crate) fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| matches!(data_type, DataType::Interval(_)))
}

pub(super) fn is_list(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| !data_type.is_null() && lists::item(&data_type).is_some())
}

/// Whether it is known to be a value that is no list, nor NULL.
pub(super) fn is_no_list(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| !data_type.is_null() && lists::item(&data_type).is_none())
}

pub(super) fn is_decimal(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| data_type.is_decimal())
}

pub(super) fn is_date(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| data_type == DataType::Date32)
}

/// Whether it is a timestamp as columns have them, with a zone.
pub(super) fn is_zoned(expr: &Expr, schema: &DFSchema) -> bool {
    let of = expr.get_type(schema);
    of.is_ok_and(|of| matches!(of, DataType::Timestamp(TimeUnit::Microsecond, Some(_))))
}

/// Whether it is `date_bin` of dates or timestamps, without an origin.
pub(super) fn is_binned(function: &ScalarFunction, schema: &DFSchema) -> bool {
    let is_moment = |expr: &Expr| {
        let of = expr.get_type(schema);
        of.is_ok_and(|of| matches!(of, DataType::Date32 | DataType::Timestamp(..)))
    };
    function.func.name() == "date_bin"
        && matches!(function.args.as_slice(), [width, of] if is_interval(width, schema) && is_moment(of))
}

pub(super) fn is_bool(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| data_type == DataType::Boolean)
}

/// Whether text would become a decimal, which the cast does not round and reads without an exponent.
pub(super) fn is_decimal_text(expr: &Expr, to: &DataType, schema: &DFSchema) -> bool {
    matches!(to, DataType::Decimal128(_, 0..))
        && expr.get_type(schema).is_ok_and(|data_type| data_type.is_string())
}

/// Whether text would become bytes, of which it may say some by their numbers.
pub(super) fn is_bytes(expr: &Expr, to: &DataType, schema: &DFSchema) -> bool {
    to.is_binary() && expr.get_type(schema).is_ok_and(|data_type| data_type.is_string())
}

/// Whether text would become a time, which a number must not.
pub(super) fn is_clock(expr: &Expr, to: &DataType, schema: &DFSchema) -> bool {
    matches!(to, DataType::Time32(_) | DataType::Time64(_))
        && expr.get_type(schema).is_ok_and(|data_type| data_type.is_string())
}
