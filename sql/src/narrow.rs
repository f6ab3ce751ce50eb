//! Constants that are wide: an operator that gives one beside its rows writes it once for each of them, so that a batch of the usual
//! number of rows would take gigabytes. Statements that have such constants run in smaller batches.

use datafusion::{
    common::{
        Result, ScalarValue,
        tree_node::{TreeNode as _, TreeNodeRecursion},
    },
    execution::SessionState,
    logical_expr::{BinaryExpr, Expr, LogicalPlan, expr::InList},
};

use crate::limits;

/// Has a session make batches in which the constants of a plan take no more than they may. Whether it has made others before.
pub(crate) fn narrow(session: &mut SessionState, optimised: &LogicalPlan) -> Result<bool> {
    let rows = limits::CONSTANTS_BYTES / constants(optimised)?.max(1);
    // A little more is no harm, and most of it is never written for each row.
    if rows >= session.config().batch_size() / limits::NARROW_PART {
        return Ok(false);
    }
    *session.config_mut() = session.config().clone().with_batch_size(rows.max(1));
    Ok(true)
}

/// Bytes that the constants of a plan take beside one row, at most.
fn constants(plan: &LogicalPlan) -> Result<usize> {
    let mut bytes = 0_usize;
    plan.apply_with_subqueries(|node| {
        // Each of its rows has its own, which may come beside many others.
        if let LogicalPlan::Values(values) = node {
            let of_row = |row: &Vec<Expr>| row.iter().map(literal).fold(0, usize::saturating_add);
            bytes = bytes.saturating_add(values.values.iter().map(of_row).max().unwrap_or_default());
            return Ok(TreeNodeRecursion::Continue);
        }
        node.apply_expressions(|expr| {
            bytes = bytes.saturating_add(of_expression(expr)?);
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(bytes)
}

/// Those of an expression, but for what values are compared with: that is there once.
fn of_expression(expr: &Expr) -> Result<usize> {
    let (mut all, mut once) = (0_usize, 0_usize);
    expr.apply(|expr| {
        match expr {
            Expr::Literal(value, _) => all = all.saturating_add(width(value)),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() => {
                once = once.saturating_add(literal(left) + literal(right));
            }
            Expr::Like(like) | Expr::SimilarTo(like) => once = once.saturating_add(literal(&like.pattern)),
            Expr::InList(InList { list, .. }) => {
                once = list.iter().map(literal).fold(once, usize::saturating_add);
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(all.saturating_sub(once))
}

fn literal(expr: &Expr) -> usize {
    match expr {
        Expr::Literal(value, _) => width(value),
        _ => 0,
    }
}

/// About what a value takes in each row.
fn width(value: &ScalarValue) -> usize {
    value.size() - size_of::<ScalarValue>()
}

#[cfg(test)]
mod tests {
    use datafusion::{
        execution::SessionStateBuilder,
        logical_expr::LogicalPlanBuilder,
        prelude::{col, lit},
    };

    use super::*;

    #[test]
    fn of_wide_constants_batches_have_few_rows() {
        let rows_beside = |bytes: usize| {
            let mut session = SessionStateBuilder::new().build();
            let plan = LogicalPlanBuilder::empty(true).project([lit("x".repeat(bytes))]).unwrap();
            let is_narrow = narrow(&mut session, &plan.build().unwrap()).unwrap();
            (is_narrow, session.config().batch_size())
        };
        assert_eq!(rows_beside(10), (false, 8192));
        assert_eq!(rows_beside(1 << 20), (true, limits::CONSTANTS_BYTES >> 20));
        assert_eq!(rows_beside(2 * limits::CONSTANTS_BYTES), (true, 1));
    }

    #[test]
    fn what_is_written_for_each_row_counts() {
        let wide = || lit("x".repeat(1000));
        let width = |expr: &Expr| of_expression(expr).unwrap();
        assert!((1000..1100).contains(&width(&wide())));
        assert_eq!((width(&col("a")), width(&lit(1))), (0, 0));
        assert_eq!(width(&col("a").eq(wide())), 0);
        assert_eq!(width(&col("a").in_list(vec![wide(), wide()], false)), 0);
        assert_eq!(width(&col("a").like(wide())), 0);
        let chosen = datafusion::prelude::when(col("a").eq(wide()), wide()).end().unwrap();
        assert!((1000..1100).contains(&width(&chosen)));
    }
}
