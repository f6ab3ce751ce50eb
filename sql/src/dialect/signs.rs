//! The sign of what has none, such as a rank or a count: the planner refuses it, and takes a difference.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement,
    sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, VisitMut as _, VisitorMut},
};

use super::{
    exprs::{is_interval, parsed},
    inner,
};
use crate::error::{Error, Result};

/// Makes differences from 0 of signs. That of a difference becomes the other difference: of timestamps there is none from 0.
///
/// # Errors
/// None but a bug.
pub(crate) fn as_differences(statement: &mut Statement) -> Result<()> {
    let Some(statement) = inner(statement) else { return Ok(()) };
    match statement.visit(&mut Signs) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Signs;

impl VisitorMut for Signs {
    type Break = Error;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Expr::UnaryOp { op: UnaryOperator::Minus, expr: of } = expr
            && !matches!(**of, Expr::Value(_))
            && !is_interval(of)
        {
            let negated = match difference(of) {
                Some([left, right]) => parsed("($1 - $2)", &[right, left], &mut 0),
                None => parsed("(0 - $1)", std::slice::from_ref(&**of), &mut 0),
            };
            match negated {
                Ok(difference) => *expr = difference,
                Err(error) => return ControlFlow::Break(error),
            }
        }
        ControlFlow::Continue(())
    }
}

/// The sides of a difference.
fn difference(expr: &Expr) -> Option<[Expr; 2]> {
    match expr {
        Expr::Nested(inner) => difference(inner),
        Expr::BinaryOp { left, op: BinaryOperator::Minus, right } => {
            Some([left.as_ref().clone(), right.as_ref().clone()])
        }
        _ => None,
    }
}
