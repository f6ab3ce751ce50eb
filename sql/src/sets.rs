//! Keys of GROUPING SETS, ROLLUP and CUBE that a join or a condition makes equal are equal below the aggregate, and no
//! longer above it, where a set leaves one of them out. DataFusion takes them for equal above it too, and drops one of them
//! from an order. So they are told apart below, by functions that give what they are given.

use std::{collections::HashSet, sync::Arc};

use datafusion::{
    common::{
        Column, Result,
        config::ConfigOptions,
        tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion},
    },
    logical_expr::{Aggregate, BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator},
    optimizer::AnalyzerRule,
};

use crate::functions;

/// See the module.
#[derive(Debug)]
pub(crate) struct KeysApart;

impl AnalyzerRule for KeysApart {
    fn name(&self) -> &str {
        "keys_apart"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Aggregate(aggregate) if has_sets(&aggregate) && equates(&aggregate.input)? => {
                Ok(Transformed::yes(LogicalPlan::Aggregate(apart(aggregate)?)))
            }
            plan => Ok(Transformed::no(plan)),
        })
        .data()
    }
}

/// Whether an aggregate has grouping sets.
pub(crate) fn has_sets(aggregate: &Aggregate) -> bool {
    aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_)))
}

/// Whether a join or a condition below makes anything equal.
fn equates(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply(|plan| {
        found |= match plan {
            LogicalPlan::Join(_) => true,
            LogicalPlan::Filter(filter) => filter
                .predicate
                .exists(|expr| Ok(matches!(expr, Expr::BinaryExpr(BinaryExpr { op: Operator::Eq, .. }))))?,
            _ => false,
        };
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn apart(aggregate: Aggregate) -> Result<Aggregate> {
    let keys = aggregate.group_expr.iter().flat_map(Expr::column_refs);
    let keys: HashSet<Column> = keys.cloned().collect();
    let columns = aggregate.input.schema().columns().into_iter().enumerate();
    let columns = columns.map(|(number, column)| match keys.contains(&column) {
        true => {
            let (relation, name) = (column.relation.clone(), column.name.clone());
            functions::same(Expr::Column(column), number).alias_qualified(relation, name)
        }
        false => Expr::Column(column),
    });
    let columns: Vec<Expr> = columns.collect();
    let input = LogicalPlanBuilder::from(Arc::unwrap_or_clone(aggregate.input)).project(columns)?.build()?;
    Aggregate::try_new(Arc::new(input), aggregate.group_expr, aggregate.aggr_expr)
}
