//! Casts in a function that tells their name, where a statement is refused because the planner calls a cast as what is cast.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement,
    sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, Select, SelectItem, VisitMut as _, VisitorMut},
};

use super::{
    exprs::{arguments, bare, parsed},
    inner,
};
use crate::{
    error::{Error, Result},
    named::NAME,
};

/// Gives the casts of a statement names. `outer`: also where one is all that is selected as a column, whose name may be known
/// further out.
///
/// # Errors
/// None but a bug.
pub(crate) fn name_casts(statement: &mut Statement, outer: bool) -> Result<()> {
    let Some(statement) = inner(statement) else { return Ok(()) };
    match statement.visit(&mut Casts { outer }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Casts {
    outer: bool,
}

impl VisitorMut for Casts {
    type Break = Error;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if matches!(expr, Expr::Cast { .. }) {
            match parsed(&format!("{NAME}($1)"), std::slice::from_ref(expr), &mut 0) {
                Ok(call) => *expr = call,
                Err(error) => return ControlFlow::Break(error),
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        for item in select.projection.iter_mut().filter(|_| !self.outer) {
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            if let Some(cast) = called(expr) {
                *expr = cast;
            }
        }
        ControlFlow::Continue(())
    }
}

/// What such a call is of.
fn called(expr: &Expr) -> Option<Expr> {
    let Expr::Function(function) = expr else { return None };
    match arguments(function)? {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(inner))] if bare(&function.name)? == NAME => {
            Some(inner.clone())
        }
        _ => None,
    }
}
