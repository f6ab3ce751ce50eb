//! Expressions as text.

use super::expr::{BoundExpr, Slots, literal_value};
use crate::{
    query::{AggregateFunction, ArithmeticOp, Expr},
    time_parts::TimeFunction,
};

/// An expression as SQL writes it: the name of an output that has none.
pub fn expr_text(expr: &Expr) -> String {
    match expr {
        Expr::Column(name) => name.clone(),
        Expr::Attribute(attribute) => attribute.to_string(),
        Expr::Literal(literal) => {
            BoundExpr::Literal(literal_value(literal)).display(&Slots::default()).to_string()
        }
        Expr::Arithmetic(op, left, right) => {
            let side = |e: &Expr| match e {
                Expr::Arithmetic(..) => format!("({})", expr_text(e)),
                e => expr_text(e),
            };
            let op = match op {
                ArithmeticOp::Add => '+',
                ArithmeticOp::Subtract => '-',
                ArithmeticOp::Multiply => '*',
                ArithmeticOp::Divide => '/',
            };
            format!("{} {op} {}", side(left), side(right))
        }
        Expr::Time(function, of) => {
            let of = expr_text(of);
            match function {
                TimeFunction::Truncate(unit) => format!("date_trunc('{}', {of})", unit.name()),
                TimeFunction::Part(unit) => format!("extract({} FROM {of})", unit.name()),
                TimeFunction::DayOfWeek => format!("extract(dow FROM {of})"),
                TimeFunction::DayOfYear => format!("extract(doy FROM {of})"),
            }
        }
        Expr::Aggregate(aggregate) => {
            let name = match aggregate.function {
                AggregateFunction::Count => "count",
                AggregateFunction::Sum => "sum",
                AggregateFunction::Min => "min",
                AggregateFunction::Max => "max",
                AggregateFunction::Avg => "avg",
            };
            let distinct = if aggregate.distinct { "DISTINCT " } else { "" };
            match &aggregate.argument {
                Some(argument) => format!("{name}({distinct}{})", expr_text(argument)),
                None => format!("{name}(*)"),
            }
        }
    }
}
