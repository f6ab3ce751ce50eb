//! The sign of what has none, such as a rank or a count: the planner refuses it, and takes a difference.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement,
    sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value, VisitMut as _, VisitorMut},
};

use super::exprs::is_interval;

/// Makes differences from 0 of signs.
pub(crate) fn as_differences(statement: &mut Statement) {
    let statement = match statement {
        Statement::Explain(explain) => return as_differences(&mut explain.statement),
        Statement::Statement(statement) => statement,
        _ => return,
    };
    let _ = statement.visit(&mut Signs);
}

struct Signs;

impl VisitorMut for Signs {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } = expr
            && !matches!(**inner, Expr::Value(_))
            && !is_interval(inner)
        {
            let inner = std::mem::replace(&mut **inner, Expr::value(Value::Null));
            let difference = Expr::BinaryOp {
                left: Box::new(Expr::value(Value::Number("0".to_owned(), false))),
                op: BinaryOperator::Minus,
                right: Box::new(inner),
            };
            *expr = Expr::Nested(Box::new(difference));
        }
        ControlFlow::Continue(())
    }
}
