//! Selects within expressions, and LATERAL ones, which see the columns of the query around them: what is theirs is said to be.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Expr, Query, Select, SetExpr, TableFactor, VisitMut as _, VisitorMut,
};

use super::using;
use crate::error::{Error, Result};

/// Says of which table columns are that tables are joined by.
///
/// # Errors
/// Where that is not known from the statement alone.
pub(super) fn qualify(statement: &mut ast::Statement) -> Result<()> {
    let mut within = Within { depth: 0, fault: None };
    let _ = statement.visit(&mut within);
    within.fault.map_or(Ok(()), Err)
}

/// The same for a select whose natural joins have become joins by columns, wherever it stands.
///
/// # Errors
/// The same.
pub(crate) fn qualify_natural(select: &mut Select) -> Result<()> {
    using::qualify(select, None, false)
}

struct Within {
    /// Expressions and LATERAL tables around.
    depth: usize,
    fault: Option<Error>,
}

fn has_query(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Subquery(_)
            | Expr::Exists { .. }
            | Expr::InSubquery { .. }
            | Expr::AnyOp { .. }
            | Expr::AllOp { .. }
    ) || matches!(expr, Expr::Function(function) if matches!(function.args, ast::FunctionArguments::Subquery(_)))
}

impl Within {
    fn select(&mut self, body: &mut SetExpr, order_by: Option<&mut ast::OrderBy>) -> Result<()> {
        match body {
            SetExpr::Select(select) => using::qualify(select, order_by, true),
            SetExpr::SetOperation { left, right, .. } => {
                self.select(left, None)?;
                self.select(right, None)
            }
            // Another query, which comes by itself.
            _ => Ok(()),
        }
    }
}

impl VisitorMut for Within {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if self.depth == 0 {
            return ControlFlow::Continue(());
        }
        match self.select(&mut query.body, query.order_by.as_mut()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(fault) => {
                self.fault = Some(fault);
                ControlFlow::Break(())
            }
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.depth += usize::from(has_query(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.depth -= usize::from(has_query(expr));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.depth += usize::from(matches!(factor, TableFactor::Derived { lateral: true, .. }));
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.depth -= usize::from(matches!(factor, TableFactor::Derived { lateral: true, .. }));
        ControlFlow::Continue(())
    }
}
