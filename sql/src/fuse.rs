//! Aggregates of one table are taken by the engine: an aggregate over a scan becomes a scan whose rows are the groups.

use std::sync::Arc;

use arrow_schema::Schema as ArrowSchema;
use basalt_core::query::{Expr as Value, Query, SelectItem};
use datafusion::{
    common::{
        DFSchemaRef, Result,
        tree_node::{Transformed, TransformedResult as _, TreeNode as _},
    },
    datasource::DefaultTableSource,
    logical_expr::{Aggregate, Expr, LogicalPlan, Projection, TableScan},
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

use crate::{derived::Derived, table::BasaltTable};

/// See the module.
#[derive(Debug)]
pub(crate) struct FuseAggregates;

impl OptimizerRule for FuseAggregates {
    fn name(&self) -> &str {
        "fuse_aggregates"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
        match fused(aggregate)? {
            Some(fused) => Ok(Transformed::yes(fused)),
            None => Ok(Transformed::no(plan)),
        }
    }
}

/// What gives the rows of an aggregate, and the names that its expressions have there.
fn fused(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let Some((scan, projections)) = scan_of(&aggregate.input) else { return Ok(None) };
    let Some(table) = table_of(scan) else { return Ok(None) };
    if scan.fetch.is_some() {
        return Ok(None);
    }
    let Some(filter) = table.filters(&scan.filters) else { return Ok(None) };
    let translator = table.translator();
    let below = |expr: &Expr| projections.iter().try_fold(expr.clone(), |expr, between| below(expr, between));
    let value = |expr: &Expr| translator.value(&below(expr)?);
    let keys = aggregate.group_expr.iter().map(value).collect::<Option<Vec<_>>>();
    let totals = aggregate
        .aggr_expr
        .iter()
        .map(|expr| Some(Value::Aggregate(Box::new(translator.aggregate(&below(expr)?)?))));
    let (Some(keys), Some(totals)) = (keys, totals.collect::<Option<Vec<_>>>()) else { return Ok(None) };
    let select = keys.iter().cloned().chain(totals).map(|expr| SelectItem { expr, name: None });
    let query = Query { select: select.collect(), filter, group_by: keys, ..Query::default() };
    if query.select.is_empty() {
        return Ok(None);
    }
    // A column of the leaf for each of the aggregate, whatever the names there are.
    let fields = aggregate.schema.fields().iter().enumerate();
    let fields: Vec<_> =
        fields.map(|(at, field)| field.as_ref().clone().with_name(format!("{at}"))).collect();
    let groups =
        Derived { source: table.source().clone(), query, schema: Arc::new(ArrowSchema::new(fields)) };
    if !groups.types_agree() {
        return Ok(None);
    }
    let scan = groups.scan_of(scan.table_name.table())?;
    let columns: Vec<usize> = (0..scan.projected_schema.fields().len()).collect();
    Ok(Some(named(scan, &columns, &aggregate.schema)?))
}

/// A scan as a plan of another schema, each of whose columns is one of the scan's.
pub(crate) fn named(scan: TableScan, columns: &[usize], schema: &DFSchemaRef) -> Result<LogicalPlan> {
    let of_scan = scan.projected_schema.columns();
    let named = schema.iter().zip(columns).map(|((qualifier, field), column)| {
        Expr::Column(of_scan[*column].clone()).alias_qualified(qualifier.cloned(), field.name())
    });
    let (named, input) = (named.collect(), Arc::new(LogicalPlan::TableScan(scan)));
    Ok(LogicalPlan::Projection(Projection::try_new_with_schema(named, input, Arc::clone(schema))?))
}

/// The scan below an aggregate, and the projections in between, from above.
pub(crate) fn scan_of(plan: &LogicalPlan) -> Option<(&TableScan, Vec<&Projection>)> {
    let (mut plan, mut projections) = (plan, Vec::new());
    loop {
        plan = match plan {
            LogicalPlan::TableScan(scan) => return Some((scan, projections)),
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::Projection(projection) => {
                projections.push(projection);
                &projection.input
            }
            _ => return None,
        };
    }
}

pub(crate) fn table_of(scan: &TableScan) -> Option<&BasaltTable> {
    let source = scan.source.downcast_ref::<DefaultTableSource>()?;
    source.table_provider.downcast_ref::<BasaltTable>()
}

/// An expression over the outputs of a projection as one over its inputs. Names alone count: what is in between gives
/// tables other names.
pub(crate) fn below(expr: Expr, projection: &Projection) -> Option<Expr> {
    let replaced = expr.transform_up(|expr| {
        let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
        let named = projection.schema.fields().iter().enumerate();
        let mut named = named.filter(|(_, field)| *field.name() == column.name);
        match (named.next(), named.next()) {
            (Some((at, _)), None) => Ok(Transformed::yes(projection.expr[at].clone().unalias())),
            _ => Err(crate::Error::invalid("a name that is not the only one").into()),
        }
    });
    replaced.data().ok()
}
