//! NULL as the value of a subquery that has no row. The planner takes its column for one without NULLs where none of its rows
//! has one, and conditions on it for decided.

use std::sync::Arc;

use datafusion::{
    common::{Column, JoinType, Result},
    logical_expr::{LogicalPlan, LogicalPlanBuilder, Subquery, lit},
};

/// Has the value of a subquery be one that may be NULL, where it may; the answer: whether it was taken for none. A correlated
/// one is joined to what is around it, and known to lack rows there.
pub(crate) fn may_be_null(subquery: &mut Subquery) -> Result<bool> {
    let plan = &subquery.subquery;
    let is_known = plan.schema().fields().iter().any(|field| field.is_nullable()) && !is_literal(plan, 0);
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

/// Whether a column of a plan is one value, or computed from such: a function that may be NULL becomes a literal that is not.
fn is_literal(plan: &LogicalPlan, column: usize) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => is_literal(&alias.input, column),
        LogicalPlan::Filter(filter) => is_literal(&filter.input, column),
        LogicalPlan::Sort(sort) => is_literal(&sort.input, column),
        LogicalPlan::Limit(limit) => is_literal(&limit.input, column),
        LogicalPlan::Distinct(distinct) => is_literal(distinct.input(), column),
        LogicalPlan::Projection(projection) => {
            let below = &projection.input;
            let is_one = |of: &Column| {
                below.schema().index_of_column(of).is_ok_and(|column| is_literal(below, column))
            };
            let value = projection.expr.get(column);
            value.is_some_and(|value| value.column_refs().into_iter().all(is_one))
        }
        LogicalPlan::Values(_) => true,
        _ => false,
    }
}
