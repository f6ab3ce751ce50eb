//! The side of a semi-join or an anti-join that is only looked into has each key once. It may have few keys in many rows, as the
//! other side may, and DataFusion's hash join goes through each pair of equal keys before it gives a row, or gives way.

use std::sync::Arc;

use datafusion::{
    common::{Column, Result, tree_node::Transformed},
    datasource::DefaultTableSource,
    logical_expr::{Aggregate, Expr, Join, JoinType, LogicalPlan, TableScan},
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

use crate::{
    derived::Derived,
    fuse::{below, table_of},
};

/// The rule: behind what makes such joins conditions, before what takes groups.
#[derive(Debug)]
pub(crate) struct OncePerKey;

/// Its name.
pub(crate) const NAME: &str = "once_per_key";

impl OptimizerRule for OncePerKey {
    fn name(&self) -> &str {
        NAME
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = &plan else { return Ok(Transformed::no(plan)) };
        match once(join)? {
            Some(join) => Ok(Transformed::yes(LogicalPlan::Join(join))),
            None => Ok(Transformed::no(plan)),
        }
    }
}

fn once(join: &Join) -> Result<Option<Join>> {
    let looks = matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark);
    if !looks || join.on.is_empty() || join.filter.is_some() {
        return Ok(None);
    }
    let (of_left, keys): (Vec<&Expr>, Vec<&Expr>) = join.on.iter().map(|(left, right)| (left, right)).unzip();
    if is_once(&join.right, &keys) || is_once(&join.left, &of_left) {
        return Ok(None);
    }
    // What is computed of columns gets a name, beside those of the tables of that side.
    let table = join.right.schema().iter().find_map(|(table, _)| table.cloned());
    let (mut groups, mut on) = (Vec::<Expr>::new(), Vec::with_capacity(keys.len()));
    for (at, (left, key)) in join.on.iter().enumerate() {
        let (group, column) = match key {
            Expr::Column(column) => (key.clone(), column.clone()),
            computed => {
                let column = Column::new(table.clone(), format!("basalt_key_{at}"));
                (computed.clone().alias_qualified(column.relation.clone(), &column.name), column)
            }
        };
        on.push((left.clone(), Expr::Column(column)));
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    let right = Aggregate::try_new(Arc::clone(&join.right), groups, Vec::new())?;
    let right = Arc::new(LogicalPlan::Aggregate(right));
    let once = Join::try_new(
        Arc::clone(&join.left),
        right,
        on,
        None,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    // What says whether there is a partner is named by the tables of that side.
    Ok((once.schema == join.schema).then_some(once))
}

/// Whether a plan is known to have each key once.
fn is_once(plan: &LogicalPlan, keys: &[&Expr]) -> bool {
    let mut keys: Vec<Expr> = keys.iter().map(|key| (*key).clone()).collect();
    let mut under = plan;
    loop {
        under = match under {
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            // Some of its rows.
            LogicalPlan::Filter(filter) => &filter.input,
            LogicalPlan::Sort(sort) => &sort.input,
            LogicalPlan::Limit(limit) => &limit.input,
            LogicalPlan::Projection(projection) => {
                let inner = keys.into_iter().map(|key| below(key, projection)).collect::<Option<_>>();
                let Some(inner) = inner else { return false };
                keys = inner;
                &projection.input
            }
            LogicalPlan::Aggregate(aggregate) => {
                let groups = aggregate.schema.fields().iter().take(aggregate.group_expr.len());
                return groups.into_iter().all(|group| keys.iter().any(|key| is_column(key, group.name())));
            }
            LogicalPlan::TableScan(scan) => break is_once_in(scan, &keys),
            _ => return false,
        };
    }
}

fn is_once_in(scan: &TableScan, keys: &[Expr]) -> bool {
    if let Some(table) = table_of(scan) {
        let is_key = |key: &Expr| matches!(key, Expr::Column(column) if table.is_key(&column.name));
        return keys.iter().any(is_key);
    }
    let derived = scan
        .source
        .downcast_ref::<DefaultTableSource>()
        .and_then(|source| source.table_provider.downcast_ref::<Derived>());
    let Some(Derived { query, schema, .. }) = derived else { return false };
    let groups = schema.fields().iter().take(query.group_by.len());
    !query.group_by.is_empty()
        && groups.into_iter().all(|group| keys.iter().any(|key| is_column(key, group.name())))
}

fn is_column(key: &Expr, name: &str) -> bool {
    matches!(key, Expr::Column(column) if column.name == name)
}
