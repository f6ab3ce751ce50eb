//! The first rows of an order are found by the engine: it gives a scan's first rows, or groups, to a sort that has a limit.
//! The sort stays above: it has few rows then, and DataFusion knows that they are in order.

use std::sync::Arc;

use arrow_schema::Schema as ArrowSchema;
use basalt_core::query::{Expr as Value, OrderBy, Query, SelectItem};
use datafusion::{
    common::{
        Column, Result,
        tree_node::{Transformed, TreeNode as _},
    },
    datasource::DefaultTableSource,
    logical_expr::{Expr, LogicalPlan, Sort, SortExpr, TableScan},
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

use crate::{
    derived::Derived,
    functions::ONE_ZERO,
    fuse::{below, named, scan_of, table_of},
    limits,
    source::Source,
};

/// See the module.
#[derive(Debug)]
pub(crate) struct FuseTop;

impl OptimizerRule for FuseTop {
    fn name(&self) -> &str {
        "fuse_top"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Sort(sort) = &plan else { return Ok(Transformed::no(plan)) };
        match fused(sort)? {
            Some(input) => {
                Ok(Transformed::yes(LogicalPlan::Sort(Sort { input: Arc::new(input), ..sort.clone() })))
            }
            None => Ok(Transformed::no(plan)),
        }
    }
}

/// The input of a sort, of which the engine gives as many rows as the sort wants.
fn fused(sort: &Sort) -> Result<Option<LogicalPlan>> {
    let Some(limit) = sort.fetch.filter(|fetch| *fetch <= limits::TOP_ROWS) else { return Ok(None) };
    let Some((scan, projections)) = scan_of(&sort.input) else { return Ok(None) };
    let Some(Rows { source, mut query }) = rows(scan) else { return Ok(None) };
    let order = sort.expr.iter().map(|key| {
        let expr = projections.iter().try_fold(key.expr.clone(), |expr, between| below(expr, between))?;
        key_of(scan, &query, &expr, key)
    });
    let Some(order) = order.collect::<Option<Vec<_>>>() else { return Ok(None) };
    query.order_by = order;
    query.limit = Some(limit as u64);
    let schema = Arc::new(ArrowSchema::new(scan.projected_schema.fields().clone()));
    let first = Derived { source, query, schema };
    if !first.types_agree() {
        return Ok(None);
    }
    let columns: Vec<usize> = (0..scan.projected_schema.fields().len()).collect();
    let first = named(first.scan_of(scan.table_name.table())?, &columns, &scan.projected_schema)?;
    let replaced = LogicalPlan::clone(&sort.input).transform_down(|plan| match plan {
        LogicalPlan::TableScan(_) => {
            Ok(Transformed::new(first.clone(), true, datafusion::common::tree_node::TreeNodeRecursion::Stop))
        }
        plan => Ok(Transformed::no(plan)),
    })?;
    Ok(Some(replaced.data))
}

/// The rows of a scan as the engine gives them, in no order yet.
struct Rows {
    source: Source,
    query: Query,
}

fn rows(scan: &TableScan) -> Option<Rows> {
    if scan.fetch.is_some() || scan.projected_schema.fields().is_empty() {
        return None;
    }
    if let Some(table) = table_of(scan) {
        let filter = table.filters(&scan.filters)?;
        let select = scan.projected_schema.fields().iter().map(|field| {
            let (expr, _) = table.columns().get(field.name())?;
            Some(SelectItem { expr: expr.clone(), name: None })
        });
        let query = Query { select: select.collect::<Option<Vec<_>>>()?, filter, ..Query::default() };
        return Some(Rows { source: table.source().clone(), query });
    }
    let source = scan.source.downcast_ref::<DefaultTableSource>()?;
    let groups = source.table_provider.downcast_ref::<Derived>()?;
    // It has no order and no limit yet.
    let is_whole =
        groups.query.order_by.is_empty() && groups.query.limit.is_none() && scan.filters.is_empty();
    let mut query = is_whole.then(|| groups.query.clone())?;
    if let Some(columns) = &scan.projection {
        query.select = columns.iter().map(|column| groups.query.select[*column].clone()).collect();
    }
    Some(Rows { source: groups.source.clone(), query })
}

/// A key of the order, where its expression is over the columns of the scan.
fn key_of(scan: &TableScan, query: &Query, expr: &Expr, key: &SortExpr) -> Option<OrderBy> {
    let expr = match (table_of(scan), unaliased(expr)) {
        (Some(table), expr) => table.translator().value(expr)?,
        (None, Expr::Column(Column { name, .. })) => {
            let place = scan.projected_schema.fields().iter().position(|field| field.name() == name)?;
            query.select.get(place)?.expr.clone()
        }
        _ => return None,
    };
    // A literal orders nothing.
    let orders = !matches!(expr, Value::Literal(_));
    orders.then_some(OrderBy { expr, descending: !key.asc, nulls_first: key.nulls_first, of_table: true })
}

/// An expression without its name, and without what has its zeros be one.
pub(crate) fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        // The engine's order has one zero.
        Expr::ScalarFunction(function) if function.func.name() == ONE_ZERO => {
            function.args.first().map_or(expr, unaliased)
        }
        expr => expr,
    }
}
