//! The sign of what has none, such as a rank or a count: the planner refuses it, and takes a difference.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement,
    sqlparser::ast::{Expr, UnaryOperator, VisitMut as _, VisitorMut},
};

use super::{
    exprs::{is_interval, parsed},
    inner,
};
use crate::error::{Error, Result};

/// Makes differences from 0 of signs.
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
            match parsed("(0 - $1)", std::slice::from_ref(&**of), &mut 0) {
                Ok(difference) => *expr = difference,
                Err(error) => return ControlFlow::Break(error),
            }
        }
        ControlFlow::Continue(())
    }
}
