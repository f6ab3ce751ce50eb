//! LIKE and ILIKE of ANY or ALL of several patterns, which the planner has of one.

use basalt_core::error::ErrorKind;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, FunctionArg, FunctionArgExpr, Value};

use super::exprs::{arguments, bare, check_doubled};
use crate::{
    error::{Error, Result},
    limits,
};

/// A text that is compared with each of several patterns; `None`: it is something else. `doubled` counts the bytes of the text
/// beyond the first.
///
/// # Errors
/// What is no list of patterns as it stands, or too long.
pub(super) fn of_several(whole: &Expr, doubled: &mut usize) -> Result<Option<Expr>> {
    let (Expr::Like { any, expr: text, pattern, .. } | Expr::ILike { any, expr: text, pattern, .. }) = whole
    else {
        return Ok(None);
    };
    let (patterns, op) = match (any, all(pattern)) {
        (true, _) => (listed(pattern), BinaryOperator::Or),
        (false, Some(patterns)) => (Some(patterns), BinaryOperator::And),
        (false, None) => return Ok(None),
    };
    let patterns =
        patterns.ok_or_else(|| Error::unsupported("LIKE ANY of what is no list of patterns (ARRAY[...])"))?;
    if patterns.len() > limits::OPERATORS {
        let message = format!("LIKE of {} patterns; the limit is {}", patterns.len(), limits::OPERATORS);
        return Err(Error::new(ErrorKind::FilterTooLarge, message));
    }
    *doubled += patterns.len().saturating_sub(1) * text.to_string().len();
    check_doubled(*doubled, "patterns of LIKE")?;
    let one = |of: &Expr| {
        let (expr, pattern, any) = (text.clone(), Box::new(of.clone()), false);
        Expr::Nested(Box::new(match whole {
            Expr::ILike { negated, escape_char, .. } => {
                let (negated, escape_char) = (*negated, escape_char.clone());
                Expr::ILike { negated, any, expr, pattern, escape_char }
            }
            Expr::Like { negated, escape_char, .. } => {
                let (negated, escape_char) = (*negated, escape_char.clone());
                Expr::Like { negated, any, expr, pattern, escape_char }
            }
            other => other.clone(),
        }))
    };
    let compared: Vec<Expr> = patterns.into_iter().map(one).collect();
    // Of no patterns it is like all, and like none.
    let none = Expr::value(Value::Boolean(op == BinaryOperator::And));
    Ok(Some(if compared.is_empty() { none } else { Expr::Nested(Box::new(joined(compared, &op))) }))
}

/// All of them by one operator: halves of halves, so that the tree stays low.
fn joined(mut parts: Vec<Expr>, op: &BinaryOperator) -> Expr {
    let rest = parts.split_off(parts.len().div_ceil(2));
    match (parts.pop(), rest.is_empty()) {
        (Some(only), true) => only,
        (last, _) => {
            parts.extend(last);
            let (left, right) = (Box::new(joined(parts, op)), Box::new(joined(rest, op)));
            Expr::Nested(Box::new(Expr::BinaryOp { left, op: op.clone(), right }))
        }
    }
}

/// The patterns of `ALL (...)`, which the parser takes for a function.
fn all(pattern: &Expr) -> Option<Vec<&Expr>> {
    let Expr::Function(function) = pattern else { return None };
    let given = arguments(function).filter(|_| bare(&function.name).is_some_and(|name| name == "all"))?;
    let values = given.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value),
        _ => None,
    });
    let values = values.collect::<Option<Vec<_>>>()?;
    match values.as_slice() {
        [only] => listed(only),
        several => Some(several.to_vec()),
    }
}

/// The values of a list that stands there.
fn listed(list: &Expr) -> Option<Vec<&Expr>> {
    match list {
        Expr::Array(array) => Some(array.elem.iter().collect()),
        Expr::Tuple(values) => Some(values.iter().collect()),
        Expr::Nested(inner) => listed(inner),
        // As drivers write it: what it is cast to is a list of texts.
        Expr::Cast { expr, .. } if matches!(**expr, Expr::Array(_)) => listed(expr),
        _ => None,
    }
}
