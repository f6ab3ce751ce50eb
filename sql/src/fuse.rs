//! Aggregates of one table are taken by the engine: an aggregate over a scan becomes a scan whose rows are the groups.

use std::sync::Arc;

use arrow_schema::{Schema as ArrowSchema, SchemaRef};
use async_trait::async_trait;
use basalt_core::{
    query::{Expr as Value, Query, SelectItem},
    schema::DataType as Logical,
};
use datafusion::{
    catalog::Session,
    common::{
        Result, Statistics,
        stats::Precision,
        tree_node::{Transformed, TransformedResult as _, TreeNode as _},
    },
    datasource::{DefaultTableSource, TableProvider, TableType, provider_as_source},
    logical_expr::{Aggregate, Expr, LogicalPlan, Projection, TableScan, TableScanBuilder},
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
    physical_plan::ExecutionPlan,
};

use crate::{
    scan::{Scan, Shape, describe},
    source::Source,
    table::{BasaltTable, selected},
};

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
    let groups = Groups { source: table.source().clone(), query, schema: Arc::new(ArrowSchema::new(fields)) };
    if !groups.types_agree() {
        return Ok(None);
    }
    let mut name = scan.table_name.table().to_owned();
    describe(&groups.query, &mut name)?;
    let source = provider_as_source(Arc::new(groups));
    let scan = TableScanBuilder::new(datafusion::common::TableReference::bare(name), source).build()?;
    let columns = scan.projected_schema.columns();
    let named = aggregate.schema.iter().zip(columns).map(|((qualifier, field), column)| {
        Expr::Column(column).alias_qualified(qualifier.cloned(), field.name())
    });
    let projection = Projection::try_new_with_schema(
        named.collect(),
        Arc::new(LogicalPlan::TableScan(scan)),
        Arc::clone(&aggregate.schema),
    )?;
    Ok(Some(LogicalPlan::Projection(projection)))
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

/// The groups of a table.
#[derive(Debug)]
struct Groups {
    source: Source,
    query: Query,
    schema: SchemaRef,
}

impl Groups {
    /// Whether the engine gives the types that the plan expects.
    fn types_agree(&self) -> bool {
        let given = self.source.types(&self.query);
        given.is_some_and(|given| {
            given.len() == self.schema.fields().len()
                && given.iter().zip(self.schema.fields()).all(|(given, field)| {
                    Logical::from_arrow(field.data_type()) == Some(*given)
                        && given.to_arrow() == *field.data_type()
                })
        })
    }
}

#[async_trait]
impl TableProvider for Groups {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let columns = projection.unwrap_or(&all);
        let rows = match self.query.group_by.is_empty() {
            true => Precision::Exact(1),
            false => {
                let rows = selected(self.source.table().rows(), self.query.filter.as_ref(), None);
                rows.map(|rows| rows.div_ceil(10)).to_inexact()
            }
        };
        let mut query = Query { limit: limit.map(|limit| limit as u64), ..self.query.clone() };
        if columns.is_empty() {
            // Of no columns there are still as many rows.
            query.select.truncate(1);
            let schema = Arc::new(ArrowSchema::project(&self.schema, &[0])?);
            let scan = Arc::new(Scan::new(self.source.clone(), query, Shape::Rows, schema, rows));
            let none: Vec<(Arc<dyn datafusion::physical_expr::PhysicalExpr>, String)> = Vec::new();
            let bare = datafusion::physical_plan::projection::ProjectionExec::try_new(none, scan)?;
            return Ok(Arc::new(bare));
        }
        query.select = columns.iter().map(|column| self.query.select[*column].clone()).collect();
        let schema = Arc::new(ArrowSchema::project(&self.schema, columns)?);
        Ok(Arc::new(Scan::new(self.source.clone(), query, Shape::Rows, schema, rows)))
    }

    fn statistics(&self) -> Option<Statistics> {
        None
    }
}
