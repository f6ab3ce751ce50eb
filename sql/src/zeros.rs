//! -0.0 is 0 in every order and every group: what tables hold has one zero, what is computed may have two.

use datafusion::{
    common::{
        DFSchema, Result,
        tree_node::{Transformed, TreeNode as _},
    },
    logical_expr::{Distinct, Expr, ExprSchemable as _, LogicalPlan},
};

use crate::{functions, top::unaliased};

/// Whether a key of an order is computed, here or below, so that it may be -0.0: what tables hold has one zero.
pub(crate) fn is_computed(key: &Expr, input: &LogicalPlan) -> bool {
    let Expr::Column(column) = key else { return true };
    let at = |schema: &DFSchema| schema.maybe_index_of_column(column);
    let of = |below: &LogicalPlan, at: usize| {
        let (qualifier, field) = below.schema().qualified_field(at);
        is_computed(&Expr::from((qualifier, field)), below)
    };
    match input {
        LogicalPlan::TableScan(_) => false,
        LogicalPlan::Projection(below) => {
            let made = at(&below.schema).and_then(|at| below.expr.get(at));
            made.is_none_or(|made| is_computed(unaliased(made), &below.input))
        }
        LogicalPlan::SubqueryAlias(below) => at(&below.schema).is_none_or(|at| of(&below.input, at)),
        LogicalPlan::Union(union) => {
            at(&union.schema).is_none_or(|at| union.inputs.iter().any(|input| of(input, at)))
        }
        LogicalPlan::Filter(below) => is_computed(key, &below.input),
        LogicalPlan::Sort(below) => is_computed(key, &below.input),
        LogicalPlan::Limit(below) => is_computed(key, &below.input),
        LogicalPlan::Distinct(Distinct::All(below)) => is_computed(key, below),
        LogicalPlan::Join(join) => {
            let side = if at(join.left.schema()).is_some() { &join.left } else { &join.right };
            is_computed(key, side)
        }
        LogicalPlan::Window(window) => at(window.input.schema()).is_none() || is_computed(key, &window.input),
        LogicalPlan::Aggregate(groups) => {
            let made =
                at(&groups.schema).and_then(|at| groups.group_expr.iter().chain(&groups.aggr_expr).nth(at));
            match made.map(unaliased) {
                Some(column @ Expr::Column(_)) => is_computed(column, &groups.input),
                Some(Expr::AggregateFunction(of)) => {
                    of.params.args.iter().any(|arg| is_computed(arg, &groups.input))
                }
                _ => true,
            }
        }
        _ => true,
    }
}

/// Windows in the order of floats that are computed.
pub(crate) fn windows_with_one_zero(
    expr: Expr,
    input: &LogicalPlan,
    schema: &DFSchema,
) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::WindowFunction(mut of) => {
            let keys = of.params.order_by.iter_mut().map(|sort| &mut sort.expr);
            let changed = one_zero(keys.filter(|key| is_computed(key, input)), schema);
            let windows = Expr::WindowFunction(of);
            Ok(if changed { Transformed::yes(windows) } else { Transformed::no(windows) })
        }
        other => Ok(Transformed::no(other)),
    })
}

/// Aggregates of distinct floats that are computed.
pub(crate) fn distinct_with_one_zero(
    expr: Expr,
    input: &LogicalPlan,
    schema: &DFSchema,
) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::AggregateFunction(mut of) if of.params.distinct => {
            let args = of.params.args.iter_mut().filter(|arg| is_computed(arg, input));
            let changed = one_zero(args, schema);
            let distinct = Expr::AggregateFunction(of);
            Ok(if changed { Transformed::yes(distinct) } else { Transformed::no(distinct) })
        }
        other => Ok(Transformed::no(other)),
    })
}

/// Has floats be told apart as numbers.
pub(crate) fn one_zero<'a>(exprs: impl Iterator<Item = &'a mut Expr>, schema: &DFSchema) -> bool {
    let mut changed = false;
    for expr in exprs {
        let is_done =
            matches!(expr, Expr::ScalarFunction(function) if function.func.name() == functions::ONE_ZERO);
        if !is_done && expr.get_type(schema).is_ok_and(|data_type| data_type.is_floating()) {
            *expr = functions::one_zero(expr.clone());
            changed = true;
        }
    }
    changed
}
