//! Keys of GROUPING SETS, ROLLUP and CUBE that are expressions become columns below the aggregate. DataFusion's rules give an
//! expression that they change the name that it had, and a grouping set with a name is none any longer: it is not taken apart.

use std::sync::Arc;

use datafusion::{
    common::{
        Column, Result,
        tree_node::{Transformed, TransformedResult as _, TreeNode as _},
    },
    logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder},
};

use crate::sets::has_sets;

/// Such a column's name, with its number among the keys.
const KEY: &str = "basalt_key";

/// See the module.
pub(crate) fn as_columns(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::Aggregate(aggregate) => match keys(&aggregate) {
            keys if keys.is_empty() => Ok(Transformed::no(LogicalPlan::Aggregate(aggregate))),
            keys => below(aggregate, &keys).map(Transformed::yes),
        },
        plan => Ok(Transformed::no(plan)),
    })
    .data()
}

/// The expressions among the keys of an aggregate's grouping sets, each once.
fn keys(aggregate: &Aggregate) -> Vec<Expr> {
    let mut keys: Vec<Expr> = Vec::new();
    if !has_sets(aggregate) {
        return keys;
    }
    for key in &aggregate.group_expr {
        let all = match key {
            Expr::GroupingSet(sets) => sets.distinct_expr(),
            key => vec![key],
        };
        for key in all {
            if !matches!(key, Expr::Column(_)) && !keys.contains(key) {
                keys.push(key.clone());
            }
        }
    }
    keys
}

fn below(aggregate: Aggregate, keys: &[Expr]) -> Result<LogicalPlan> {
    let Aggregate { input, group_expr, aggr_expr, schema, .. } = aggregate;
    let name = |at: usize| format!("{KEY}_{at}");
    let columns = input.schema().columns().into_iter().map(Expr::Column);
    let computed = keys.iter().enumerate().map(|(at, key)| key.clone().alias(name(at)));
    let input =
        LogicalPlanBuilder::from(input).project(columns.chain(computed).collect::<Vec<_>>())?.build()?;
    // What is asked of a key, such as GROUPING, is asked of the column.
    let by_column = |expr: Expr| {
        let of = expr.transform_down(|part| {
            Ok(match keys.iter().position(|key| *key == part) {
                Some(at) => Transformed::yes(Expr::Column(Column::from_name(name(at)))),
                None => Transformed::no(part),
            })
        });
        of.data()
    };
    let group_expr = group_expr.into_iter().map(by_column).collect::<Result<Vec<_>>>()?;
    let aggr_expr = aggr_expr.into_iter().map(by_column).collect::<Result<Vec<_>>>()?;
    let grouped = Aggregate::try_new(Arc::new(input), group_expr, aggr_expr)?;
    let columns = grouped.schema.columns().into_iter().zip(schema.iter());
    // Nobody asks for the number of a row's set above, and what asks in the aggregate leaves none.
    let columns = columns.filter(|(column, _)| column.name != Aggregate::INTERNAL_GROUPING_ID);
    let named = columns.map(|(column, (qualifier, field))| {
        let is_same = column.relation.as_ref() == qualifier && column.name == *field.name();
        match is_same {
            true => Expr::Column(column),
            false => Expr::Column(column).alias_qualified(qualifier.cloned(), field.name()),
        }
    });
    let named = named.collect::<Vec<_>>();
    LogicalPlanBuilder::from(LogicalPlan::Aggregate(grouped)).project(named)?.build()
}
