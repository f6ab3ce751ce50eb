//! LATERAL before `unnest`, which takes columns of the tables before it without the word too.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    FunctionArg, FunctionArgExpr, Statement, TableFactor, VisitMut as _, VisitorMut,
};

use super::{elements::unnest, exprs::bare};

/// Leaves the word out.
pub(super) fn as_unnest(statement: &mut Statement) {
    let _ = statement.visit(&mut Lateral);
}

struct Lateral;

impl VisitorMut for Lateral {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Function { lateral: true, name, args, with_ordinality, alias } = factor
            && bare(name).is_some_and(|name| name == "unnest")
        {
            let values = args.iter().map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
                _ => None,
            });
            if let Some(array_exprs) = values.collect::<Option<Vec<_>>>() {
                *factor = unnest(array_exprs, alias.take(), *with_ordinality);
            }
        }
        ControlFlow::Continue(())
    }
}
