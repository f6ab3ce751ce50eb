//! What stands beside one another in a comparison: literal texts beside bytes are the bytes that CAST makes of them, those beside
//! intervals and lists are such, and of rows each value is beside its own of the other rows, as it would be alone.

use datafusion::{
    common::{DFSchema, Result},
    logical_expr::{Between, BinaryExpr, Case, Expr, ExprSchemable as _, Operator, expr::InList},
};

use super::{meet, ordered, truth};
use crate::{functions, parameters, untyped};

/// Settles what a comparison compares; whether it is other than it was.
pub(super) fn settled(expr: &mut Expr, schema: &DFSchema) -> Result<bool> {
    let mut sides: Vec<&mut Expr> = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(*op) => vec![&mut **left, &mut **right],
        Expr::Between(Between { expr, low, high, .. }) => vec![&mut **expr, &mut **low, &mut **high],
        Expr::InList(InList { expr, list, .. }) => list.iter_mut().chain([&mut **expr]).collect(),
        Expr::Case(Case { expr: Some(expr), when_then_expr, .. }) => {
            when_then_expr.iter_mut().map(|(when, _)| &mut **when).chain([&mut **expr]).collect()
        }
        _ => return Ok(false),
    };
    alike(&mut sides, schema)
}

fn compares(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

fn alike(sides: &mut [&mut Expr], schema: &DFSchema) -> Result<bool> {
    let Some(width) = width(sides) else {
        return Ok(as_bytes(sides, schema) || untyped::beside(sides, schema)?);
    };
    let mut changed = false;
    for at in 0..width {
        let mut values: Vec<&mut Expr> =
            sides.iter_mut().filter_map(|row| values_mut(row)?.get_mut(at)).collect();
        changed |= alike(&mut values, schema)?;
        changed |= untyped::typed(&mut values, schema)?;
        changed |= parameters::compared(&mut values, schema);
        changed |= meet(&mut values, schema);
        changed |= truth(&mut values, schema);
        changed |= ordered(&mut values, schema);
    }
    Ok(changed)
}

/// How many values rows have; `None`: not all of them are rows whose values stand there, or of as many.
fn width(sides: &[&mut Expr]) -> Option<usize> {
    let mut widths = sides.iter().map(|side| Some(values(side)?.len()));
    let first = widths.next()??;
    widths.all(|width| width == Some(first)).then_some(first)
}

fn values(row: &Expr) -> Option<&[Expr]> {
    match row {
        Expr::ScalarFunction(row) if row.name() == "struct" => Some(row.args.as_slice()),
        _ => None,
    }
}

fn values_mut(row: &mut Expr) -> Option<&mut [Expr]> {
    match row {
        Expr::ScalarFunction(row) if row.name() == "struct" => Some(row.args.as_mut_slice()),
        _ => None,
    }
}

/// Makes bytes of the literal texts beside bytes.
fn as_bytes(sides: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let is_text = |side: &Expr| untyped::is_one(Some(side));
    let are_bytes = |side: &Expr| side.get_type(schema).is_ok_and(|of| of.is_binary());
    if !sides.iter().any(|side| is_text(side)) || !sides.iter().any(|side| are_bytes(side)) {
        return false;
    }
    for side in sides.iter_mut().filter(|side| is_text(side)) {
        **side = functions::bytes(std::mem::take(&mut **side), false);
    }
    true
}
