//! Casts to NUMERIC without digits, which keep those that a value has.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, FunctionArg, FunctionArgExpr, Query, Value,
    visit_expressions_mut,
};

use super::{
    exprs::{arguments, bare, literal, parsed},
    quantified,
};
use crate::{
    decimals::{
        self,
        numeric::{NUMERIC, TRY_NUMERIC},
    },
    error::Result,
};

/// Gives such a cast the digits of the text that is cast, or has it be a function that knows of which type its argument is. NULL,
/// and a parameter without a value, stay what the planner makes of them.
pub(super) fn undigited(cast: &mut Expr) -> Result<()> {
    let Expr::Cast { expr: inner, data_type, kind, .. } = cast else { return Ok(()) };
    if let Some(text) = written(inner) {
        if let Some((precision, scale)) = decimals::digits_of_text(text) {
            let digits = ExactNumberInfo::PrecisionAndScale(precision.into(), scale.into());
            *data_type = DataType::Decimal(digits);
        }
        return Ok(());
    }
    if is_null(inner) || quantified::is_open(inner) {
        return Ok(());
    }
    let name = match kind {
        CastKind::TryCast | CastKind::SafeCast => TRY_NUMERIC,
        _ => NUMERIC,
    };
    let call = parsed(&format!("{name}($1)"), std::slice::from_ref(inner.as_ref()), &mut 0)?;
    *cast = call;
    Ok(())
}

/// Makes casts of such functions again, in a query that people are to read.
pub(crate) fn as_casts(query: &mut Query) {
    let _ = visit_expressions_mut(query, |expr| {
        if let Some(cast) = cast_of(expr) {
            *expr = cast;
        }
        ControlFlow::<()>::Continue(())
    });
}

/// The cast that such a function was; `None`: it is none.
fn cast_of(call: &Expr) -> Option<Expr> {
    let Expr::Function(function) = call else { return None };
    let kind = match bare(&function.name)?.as_str() {
        NUMERIC => CastKind::Cast,
        TRY_NUMERIC => CastKind::TryCast,
        _ => return None,
    };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] = arguments(function)? else { return None };
    let expr = match value {
        Expr::Nested(inner) => inner.clone(),
        value => Box::new(value.clone()),
    };
    let data_type = DataType::Numeric(ExactNumberInfo::None);
    Some(Expr::Cast { kind, expr, data_type, array: false, format: None })
}

/// The literal text that is cast, maybe as a text first, as some drivers write their parameters.
fn written(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Nested(inner) => written(inner),
        Expr::Cast { expr, data_type: DataType::Text | DataType::Varchar(None), .. } => literal(expr),
        other => literal(other),
    }
}

fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_null(inner),
        Expr::Value(value) => matches!(value.value, Value::Null),
        _ => false,
    }
}
