//! Filters that operators make while they run, such as what a join has found on one side, go down to the scans by the names
//! of columns. Where several columns below have the name, they may come to another; such plans are made again without them.

use std::sync::Arc;

use arrow_schema::Schema as ArrowSchema;
use datafusion::{
    physical_expr::utils::collect_columns,
    physical_plan::{
        ExecutionPlan, PhysicalExpr, aggregates::AggregateExec, joins::HashJoinExec,
        projection::ProjectionExec, sorts::sort::SortExec,
    },
};

/// Whether a filter that an operator of the plan makes could be taken for one of another column.
pub(crate) fn may_be(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_one = |below: &Arc<dyn ExecutionPlan>, expr: &Arc<dyn PhysicalExpr>| {
        collect_columns(expr).iter().any(|column| is_ambiguous(below, column.name()))
    };
    let of_source = if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        join.on().iter().any(|(_, right)| is_one(join.right(), right))
    } else if let Some(sort) = plan.downcast_ref::<SortExec>() {
        sort.fetch().is_some() && sort.expr().iter().any(|key| is_one(sort.input(), &key.expr))
    } else if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let mut arguments = aggregate.aggr_expr().iter().flat_map(|function| function.expressions());
        aggregate.group_expr().is_empty() && arguments.any(|argument| is_one(aggregate.input(), &argument))
    } else {
        false
    };
    of_source || plan.children().into_iter().any(may_be)
}

/// How many columns have a name.
fn named(schema: &ArrowSchema, name: &str) -> usize {
    schema.fields().iter().filter(|field| field.name() == name).count()
}

/// Whether a name says no more which column is meant, at an operator or below it.
fn is_ambiguous(plan: &Arc<dyn ExecutionPlan>, name: &str) -> bool {
    if named(&plan.schema(), name) > 1 {
        return true;
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        // What it is called below.
        let made = projection.expr().iter().filter(|made| made.alias == name);
        let below = made.flat_map(|made| collect_columns(&made.expr));
        return below.into_iter().any(|column| is_ambiguous(projection.input(), column.name()));
    }
    let children = plan.children();
    let place = plan.schema().index_of(name).ok();
    match children.as_slice() {
        [] => false,
        [child] => is_ambiguous(child, name),
        many if many.iter().all(|child| child.schema().fields().len() == plan.schema().fields().len()) => {
            // Each is a part of the rows: there the name stands where it stands above.
            many.iter().any(|child| child.schema().index_of(name).ok() != place || is_ambiguous(child, name))
        }
        many => {
            let having = many.iter().filter(|child| named(&child.schema(), name) > 0);
            having.clone().count() > 1 || having.into_iter().any(|child| is_ambiguous(child, name))
        }
    }
}
