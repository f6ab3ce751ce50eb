//! Where a column of an operator comes from: the scans whose rows may be left out where its value is not one of some keys.

use std::sync::Arc;

use arrow_schema::{DataType, Schema};
use datafusion::{
    common::{JoinSide, JoinType, NullEquality, Result},
    physical_expr::{
        PhysicalExpr,
        expressions::{CastExpr, Column},
    },
    physical_plan::{
        ExecutionPlan,
        aggregates::AggregateExec,
        coalesce_partitions::CoalescePartitionsExec,
        coop::CooperativeExec,
        filter::FilterExec,
        joins::HashJoinExec,
        projection::ProjectionExec,
        repartition::RepartitionExec,
        replace_children_if_necessary,
        sorts::{sort::SortExec, sort_preserving_merge::SortPreservingMergeExec},
        union::UnionExec,
    },
};

use super::{Gather, Keys};
use crate::scan::Scan;

/// The place of the column that an expression is, or whose values it widens.
pub(crate) fn column(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<usize> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return Some(column.index());
    }
    let cast = expr.downcast_ref::<CastExpr>()?;
    let (from, to) = (cast.expr().data_type(schema).ok()?, cast.cast_type());
    // Keys of integers are compared by value, whatever their types are.
    (from.is_integer() && widens(&from, to)).then(|| column(cast.expr(), schema)).flatten()
}

/// Whether a type has all values of another.
fn widens(from: &DataType, to: &DataType) -> bool {
    let signed = |of: &DataType| of.is_signed_integer();
    to.is_integer()
        && from.primitive_width() < to.primitive_width()
        && (signed(from) == signed(to) || signed(to))
}

/// The same operator over scans that leave out what has none of the keys in a column; `None`: there is no such scan, or
/// it would change more than which rows there are.
pub(super) fn asked(
    plan: &Arc<dyn ExecutionPlan>,
    column: usize,
    keys: &Arc<Keys>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = plan.downcast_ref::<Scan>() {
        return Ok(scan.asked(column, keys).map(|scan| Arc::new(scan) as Arc<dyn ExecutionPlan>));
    }
    // Other rows would come within the limit.
    if plan.fetch().is_some() {
        return Ok(None);
    }
    let Some(inputs) = inputs(plan, column) else { return Ok(None) };
    let mut children: Vec<_> = plan.children().into_iter().cloned().collect();
    let mut is_asked = false;
    for (child, column) in inputs {
        if let Some(pruned) = asked(&children[child], column, keys)? {
            children[child] = pruned;
            is_asked = true;
        }
    }
    is_asked.then(|| replace_children_if_necessary(Arc::clone(plan), children)).transpose()
}

/// The inputs of an operator, and their columns, of which rows may be left out where rows of the operator with such a value
/// in a column may.
fn inputs(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Option<Vec<(usize, usize)>> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let expr = &projection.expr().get(column)?.expr;
        return self::column(expr, &projection.input().schema()).map(|column| vec![(0, column)]);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return Some(vec![(0, projected(filter.projection().as_deref(), column)?)]);
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let groups = aggregate.group_expr();
        if groups.has_grouping_set() || aggregate.limit_options().is_some() {
            return None;
        }
        let (key, _) = groups.expr().get(column)?;
        return self::column(key, &aggregate.input().schema()).map(|column| vec![(0, column)]);
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return of_join(join, column);
    }
    if plan.is::<UnionExec>() {
        return Some((0..plan.children().len()).map(|child| (child, column)).collect());
    }
    let same = plan.is::<CooperativeExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<Gather>();
    same.then(|| vec![(0, column)])
}

pub(crate) fn projected(projection: Option<&[usize]>, column: usize) -> Option<usize> {
    match projection {
        Some(columns) => columns.get(column).copied(),
        None => Some(column),
    }
}

fn of_join(join: &HashJoinExec, column: usize) -> Option<Vec<(usize, usize)>> {
    use JoinType::{Inner, Left, LeftAnti, LeftSemi, Right, RightAnti, RightSemi};
    let kind = *join.join_type();
    let column = projected(join.projection.as_deref(), column)?;
    let of_left = join.left().schema().fields().len();
    let (side, column) = match kind {
        LeftSemi | LeftAnti => (JoinSide::Left, column),
        RightSemi | RightAnti => (JoinSide::Right, column),
        _ if column < of_left => (JoinSide::Left, column),
        _ => (JoinSide::Right, column - of_left),
    };
    let is_kept = match side {
        JoinSide::Left => matches!(kind, Inner | Left | LeftSemi | LeftAnti),
        _ => matches!(kind, Inner | Right | RightSemi | RightAnti),
    };
    if !is_kept || join.null_aware {
        return None;
    }
    let (own, other) = if side == JoinSide::Left { (0, 1) } else { (1, 0) };
    let mut inputs = vec![(own, column)];
    // What the join makes equal to it; rows of the other side without a partner are in no answer, or told apart by none.
    if join.null_equality() == NullEquality::NullEqualsNothing {
        for (left, right) in join.on() {
            let (of_own, of_other) = if own == 0 { (left, right) } else { (right, left) };
            let children = [join.left(), join.right()];
            let place = |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Column>().map(Column::index);
            if place(of_own) == Some(column) {
                inputs.extend(self::column(of_other, &children[other].schema()).map(|place| (other, place)));
            }
        }
    }
    Some(inputs)
}
