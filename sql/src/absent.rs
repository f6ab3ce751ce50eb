//! NULL as the value of a subquery that has no row. The planner takes its column for one without NULLs where none of its rows
//! has one, and conditions on it for decided.

use std::sync::Arc;

use datafusion::{
    common::{JoinType, Result},
    logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Subquery, lit},
};

/// Has the value of a subquery be one that may be NULL, where it may; the answer: whether it was taken for none. A correlated
/// one is joined to what is around it, and known to lack rows there.
pub(crate) fn may_be_null(subquery: &mut Subquery) -> Result<bool> {
    let plan = &subquery.subquery;
    let is_known = plan.schema().fields().iter().any(|field| field.is_nullable()) && is_stored(plan, 0);
    if is_known || !subquery.outer_ref_columns.is_empty() || has_a_row(plan) {
        return Ok(false);
    }
    // A function of the value would be computed from a literal, and be one.
    let one = LogicalPlanBuilder::empty(true);
    let plan = one.join_on(LogicalPlan::clone(plan), JoinType::Left, [lit(true)])?.build()?;
    subquery.subquery = Arc::new(plan);
    Ok(true)
}

/// Whether a plan has a row whatever its tables have.
fn has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_a_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_a_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(none) => none.produce_one_row,
        _ => false,
    }
}

/// Whether a column of a plan is one of a table as it is, or an aggregate's value. Anything else may become a literal, which
/// is not NULL, where it is simplified.
fn is_stored(plan: &LogicalPlan, column: usize) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_stored(&alias.input, column),
        LogicalPlan::Filter(filter) => is_stored(&filter.input, column),
        LogicalPlan::Sort(sort) => is_stored(&sort.input, column),
        LogicalPlan::Limit(limit) => is_stored(&limit.input, column),
        LogicalPlan::Distinct(distinct) => is_stored(distinct.input(), column),
        LogicalPlan::Aggregate(aggregate) if column >= aggregate.group_expr.len() => true,
        LogicalPlan::Projection(projection) => {
            let below = &projection.input;
            match projection.expr.get(column).cloned().map(Expr::unalias) {
                Some(Expr::Column(of)) => {
                    below.schema().index_of_column(&of).is_ok_and(|at| is_stored(below, at))
                }
                _ => false,
            }
        }
        _ => false,
    }
}
