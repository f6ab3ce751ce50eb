//! A relation whose rows are those of one query of the engine: the groups of a table, or the first of its rows.

use std::sync::Arc;

use arrow_schema::{Schema as ArrowSchema, SchemaRef};
use async_trait::async_trait;
use basalt_core::{
    logical::Logical as Held,
    query::{Expr as Value, Query},
};
use datafusion::{
    catalog::Session,
    common::{Result, Statistics, TableReference, stats::Precision},
    datasource::{TableProvider, TableType, provider_as_source},
    logical_expr::{Expr, TableScan, TableScanBuilder},
    physical_expr::PhysicalExpr,
    physical_plan::{ExecutionPlan, projection::ProjectionExec},
};

use crate::{
    scan::{Scan, Shape, describe},
    source::Source,
    table::selected,
};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Derived {
    pub(crate) source: Source,
    pub(crate) query: Query,
    /// A column for each that the query selects.
    pub(crate) schema: SchemaRef,
}

impl Derived {
    /// Whether the engine gives the types that the plan expects.
    pub(crate) fn types_agree(&self) -> bool {
        let given = self.source.types(&self.query);
        given.is_some_and(|given| {
            given.len() == self.schema.fields().len()
                && given.iter().zip(self.schema.fields()).all(|(given, field)| {
                    let held = Held::from_arrow(field.data_type());
                    given.to_arrow() == *field.data_type() || held.is_some_and(|held| held.form() == *given)
                })
        })
    }

    /// A scan of it in a plan. Its name says what it is, for people and so that it is the only one.
    pub(crate) fn scan_of(self, table: &str) -> Result<TableScan> {
        let mut name = table.to_owned();
        describe(&self.query, &mut name)?;
        TableScanBuilder::new(TableReference::bare(name), provider_as_source(Arc::new(self))).build()
    }

    fn rows(&self) -> Precision<usize> {
        let Query { select, group_by, filter, limit, .. } = &self.query;
        let is_total = select.iter().any(|item| matches!(item.expr, Value::Aggregate(_)));
        let rows = self.source.table().rows();
        match (group_by.is_empty(), is_total) {
            (true, true) => Precision::Exact(1),
            (true, false) => selected(rows, filter.as_ref(), *limit),
            (false, _) => {
                let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
                let rows = selected(rows, filter.as_ref(), None);
                rows.map(|rows| rows.div_ceil(10).min(limit)).to_inexact()
            }
        }
    }
}

#[async_trait]
impl TableProvider for Derived {
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
        let rows = self.rows();
        let limit = limit.map(|limit| limit as u64).into_iter().chain(self.query.limit).min();
        let mut query = Query { limit, ..self.query.clone() };
        if columns.is_empty() {
            // Of no columns there are still as many rows.
            query.select.truncate(1);
            let schema = Arc::new(ArrowSchema::project(&self.schema, &[0])?);
            let scan = Arc::new(Scan::new(self.source.clone(), query, Shape::Rows, schema, rows));
            let none: Vec<(Arc<dyn PhysicalExpr>, String)> = Vec::new();
            return Ok(Arc::new(ProjectionExec::try_new(none, scan)?));
        }
        query.select = columns.iter().map(|column| self.query.select[*column].clone()).collect();
        let schema = Arc::new(ArrowSchema::project(&self.schema, columns)?);
        Ok(Arc::new(Scan::new(self.source.clone(), query, Shape::Rows, schema, rows)))
    }

    fn statistics(&self) -> Option<Statistics> {
        None
    }
}
