//! Whole numbers that clients send as decimals, where functions take integers.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, DataType, ExactNumberInfo, Expr, FunctionArg, FunctionArgExpr, FunctionArguments,
    ObjectName, TableFactor, UnaryOperator, VisitMut as _, VisitorMut,
};

use super::exprs::{bare, literal};

/// Functions, with the places of their arguments that are integers.
const TAKEN: [(&str, &[usize]); 31] = [
    ("array_repeat", &[1]),
    ("bit_count", &[0]),
    ("chr", &[0]),
    ("factorial", &[0]),
    ("generate_series", &[0, 1, 2]),
    ("hex", &[0]),
    ("lag", &[1]),
    ("lead", &[1]),
    ("left", &[1]),
    ("left_grapheme", &[1]),
    ("lpad", &[1]),
    ("make_date", &[0, 1, 2]),
    ("make_interval", &[0, 1, 2, 3, 4, 5]),
    ("make_time", &[0, 1, 2]),
    ("make_timestamp", &[0, 1, 2, 3, 4]),
    ("nth_value", &[1]),
    ("ntile", &[0]),
    ("overlay", &[2, 3]),
    ("range", &[0, 1, 2]),
    ("repeat", &[1]),
    ("right", &[1]),
    ("right_grapheme", &[1]),
    ("round", &[1]),
    ("rpad", &[1]),
    ("split_part", &[2]),
    ("substr", &[1, 2]),
    ("substring", &[1, 2]),
    ("substring_grapheme", &[1, 2]),
    ("to_base", &[0, 1, 2]),
    ("to_hex", &[0]),
    ("trunc", &[1]),
];

/// Has what stands there be integers.
pub(super) fn rewrite(statement: &mut ast::Statement) {
    let _ = statement.visit(&mut Integers);
}

/// Has a decimal without a fraction, as drivers send whole numbers of theirs, be the integer that it is.
pub(super) fn whole(value: &mut Expr) {
    if let Expr::Cast { expr, data_type, .. } = value
        && matches!(data_type, DataType::Decimal(ExactNumberInfo::PrecisionAndScale(_, 0)))
        && literal(expr).is_some_and(|text| text.parse::<i64>().is_ok())
    {
        *data_type = DataType::BigInt(None);
    }
}

/// The same of those that are added, subtracted and multiplied.
fn settled(value: &mut Expr) {
    match value {
        Expr::Nested(inner)
        | Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr: inner } => settled(inner),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply,
            right,
        } => {
            settled(left);
            settled(right);
        }
        value => whole(value),
    }
}

fn of_call(name: &ObjectName, args: &mut [FunctionArg]) {
    let Some(name) = bare(name) else { return };
    let Some((_, places)) = TAKEN.iter().find(|(function, _)| *function == name.as_str()) else { return };
    for place in *places {
        if let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(value))) = args.get_mut(*place) {
            settled(value);
        }
    }
}

struct Integers;

impl VisitorMut for Integers {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, args: Some(list), .. } => of_call(name, &mut list.args),
            TableFactor::Function { name, args, .. } => of_call(name, args),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) => {
                if let FunctionArguments::List(list) = &mut function.args {
                    of_call(&function.name, &mut list.args);
                }
            }
            Expr::Substring { substring_from, substring_for, .. } => {
                for value in [substring_from, substring_for].into_iter().flatten() {
                    settled(value);
                }
            }
            Expr::Overlay { overlay_from, overlay_for, .. } => {
                settled(overlay_from);
                if let Some(value) = overlay_for {
                    settled(value);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
