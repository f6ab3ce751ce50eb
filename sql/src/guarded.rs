//! Rules of DataFusion that can make another statement of one, kept from where they do.

use std::sync::Arc;

use datafusion::{
    common::{
        NullEquality, Result,
        tree_node::{Transformed, TreeNode as _},
    },
    logical_expr::{
        Aggregate, Expr, Filter, GroupingSet, JoinType, LogicalPlan,
        utils::{conjunction, split_conjunction},
    },
    optimizer::{
        ApplyOrder, OptimizerConfig, OptimizerRule, eliminate_cross_join::EliminateCrossJoin,
        push_down_filter::PushDownFilter, simplify_expressions::SimplifyExpressions,
    },
};

use crate::in_lists;

/// A rule that is left out where it may not be applied, or sees less than there is.
#[derive(Debug)]
enum Guarded {
    /// A condition without columns is put below an aggregate of all rows, which gives a row of none.
    PushDown(PushDownFilter),
    /// Joins by IS NOT DISTINCT FROM become joins by `=` beside others.
    CrossJoins(EliminateCrossJoin),
    /// Two lists of IN become one, whatever their values are.
    Simplify(SimplifyExpressions),
}

/// DataFusion's rules, with guards before those that need one.
pub(crate) fn guarded(rule: Arc<dyn OptimizerRule + Send + Sync>) -> Arc<dyn OptimizerRule + Send + Sync> {
    match rule.name() {
        "push_down_filter" => Arc::new(Guarded::PushDown(PushDownFilter::new())),
        "eliminate_cross_join" => Arc::new(Guarded::CrossJoins(EliminateCrossJoin::new())),
        "simplify_expressions" => Arc::new(Guarded::Simplify(SimplifyExpressions::new())),
        _ => rule,
    }
}

impl OptimizerRule for Guarded {
    fn name(&self) -> &str {
        match self {
            Self::PushDown(rule) => rule.name(),
            Self::CrossJoins(rule) => rule.name(),
            Self::Simplify(rule) => rule.name(),
        }
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        match self {
            Self::PushDown(rule) => rule.apply_order(),
            Self::CrossJoins(rule) => rule.apply_order(),
            Self::Simplify(rule) => rule.apply_order(),
        }
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match self {
            Self::PushDown(rule) => match &plan {
                LogicalPlan::Filter(filter) => match above_all(filter) {
                    Some((constants, rest)) => stay_above(rule, config, plan, constants, rest),
                    None => rule.rewrite(plan, config),
                },
                _ => rule.rewrite(plan, config),
            },
            Self::CrossJoins(rule) => match plan.exists(|plan| Ok(is_null_equal(plan)))? {
                true => Ok(Transformed::no(plan)),
                false => rule.rewrite(plan, config),
            },
            Self::Simplify(rule) => in_lists::kept_apart(plan, |plan| rule.rewrite(plan, config)),
        }
    }
}

fn is_null_equal(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join)
        if join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNull)
}

/// Whether an aggregate gives a row where there are no rows.
fn is_of_nothing(aggregate: &Aggregate) -> bool {
    let has_empty = |expr: &Expr| match expr {
        Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => sets.iter().any(Vec::is_empty),
        Expr::GroupingSet(GroupingSet::Rollup(_) | GroupingSet::Cube(_)) => true,
        _ => false,
    };
    aggregate.group_expr.is_empty() || aggregate.group_expr.iter().any(has_empty)
}

/// The conditions without columns, and the others, of a filter that is above such an aggregate, or above filters above it.
fn above_all(filter: &Filter) -> Option<(Vec<Expr>, Vec<Expr>)> {
    let mut all: Vec<&Expr> = split_conjunction(&filter.predicate);
    let mut input = &filter.input;
    while let LogicalPlan::Filter(below) = &**input {
        all.extend(split_conjunction(&below.predicate));
        input = &below.input;
    }
    let LogicalPlan::Aggregate(aggregate) = &**input else { return None };
    if !is_of_nothing(aggregate) {
        return None;
    }
    let (constants, rest): (Vec<&Expr>, Vec<&Expr>) =
        all.into_iter().partition(|expr| expr.column_refs().is_empty());
    let owned = |exprs: Vec<&Expr>| exprs.into_iter().cloned().collect::<Vec<_>>();
    (!constants.is_empty()).then(|| (owned(constants), owned(rest)))
}

/// The same filter, of which only what has columns goes down.
fn stay_above(
    rule: &PushDownFilter,
    config: &dyn OptimizerConfig,
    plan: LogicalPlan,
    constants: Vec<Expr>,
    rest: Vec<Expr>,
) -> Result<Transformed<LogicalPlan>> {
    let Some(rest) = conjunction(rest) else { return Ok(Transformed::no(plan)) };
    let mut below = &plan;
    while let LogicalPlan::Filter(filter) = below {
        below = &filter.input;
    }
    let pushed =
        rule.rewrite(LogicalPlan::Filter(Filter::try_new(rest, Arc::new(below.clone()))?), config)?;
    match (pushed.transformed, conjunction(constants)) {
        (true, Some(constants)) => {
            Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(constants, Arc::new(pushed.data))?)))
        }
        _ => Ok(Transformed::no(plan)),
    }
}
