//! A table as DataFusion sees it: its columns, how many rows it has, and a scan that the engine runs.

use std::sync::Arc;

use arrow_schema::{Schema as ArrowSchema, SchemaRef};
use async_trait::async_trait;
use basalt_core::query::{Expr as Value, Filter, Query, SelectItem};
use datafusion::{
    catalog::Session,
    common::{Result, Statistics, stats::Precision},
    datasource::{TableProvider, TableType},
    logical_expr::{Expr, TableProviderFilterPushDown},
    physical_plan::ExecutionPlan,
};

use crate::{
    catalog::{Rows, Table},
    filter::Translator,
    scan::{Scan, Shape},
};

/// One version of a table.
#[derive(Debug)]
pub(crate) struct BasaltTable {
    table: Arc<dyn Table>,
    schema: SchemaRef,
}

impl BasaltTable {
    pub(crate) fn new(table: Arc<dyn Table>) -> Self {
        let schema = table.schema().to_outer_arrow();
        Self { table, schema }
    }

    pub(crate) fn table(&self) -> &Arc<dyn Table> {
        &self.table
    }

    /// A condition of the engine that means the same as this one, and that it takes.
    pub(crate) fn filter(&self, expr: &Expr) -> Option<Filter> {
        let filter = Translator { schema: self.table.schema() }.filter(expr)?;
        let query = Query { filter: Some(filter.clone()), ..Query::default() };
        self.table.types(&query).map(|_| filter)
    }

    /// All of them; `None`: the engine does not take one.
    pub(crate) fn filters(&self, exprs: &[Expr]) -> Option<Option<Filter>> {
        let mut filters = exprs.iter().map(|expr| self.filter(expr)).collect::<Option<Vec<_>>>()?;
        Some(match filters.len() {
            0 => None,
            1 => filters.pop(),
            _ => Some(Filter::And(filters)),
        })
    }
}

#[async_trait]
impl TableProvider for BasaltTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let filter = self.filters(filters).ok_or_else(|| {
            crate::Error::Internal("a condition that was taken is not translated".to_owned())
        })?;
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let columns = projection.unwrap_or(&all);
        let limit = limit.map(|limit| limit as u64);
        let rows = selected(self.table.rows(), filter.as_ref(), limit);
        let fields = self.table.schema().fields();
        let (query, shape) = if columns.is_empty() {
            // Nothing of the rows is wanted but their number.
            let query = Query { select: vec![count()], filter, ..Query::default() };
            (query, Shape::Number { limit })
        } else {
            let select = columns
                .iter()
                .map(|column| SelectItem { expr: Value::Column(fields[*column].name.clone()), name: None });
            (Query { select: select.collect(), filter, limit, ..Query::default() }, Shape::Rows)
        };
        let schema: SchemaRef = Arc::new(ArrowSchema::project(&self.schema, columns)?);
        Ok(Arc::new(Scan::new(Arc::clone(&self.table), query, shape, schema, rows)))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let supported = filters.iter().map(|filter| match self.filter(filter) {
            Some(_) => TableProviderFilterPushDown::Exact,
            None => TableProviderFilterPushDown::Unsupported,
        });
        Ok(supported.collect())
    }

    fn statistics(&self) -> Option<Statistics> {
        let rows = selected(self.table.rows(), None, None);
        Some(Statistics { num_rows: rows, ..Statistics::new_unknown(&self.schema) })
    }
}

fn count() -> SelectItem {
    let function = basalt_core::query::AggregateFunction::Count;
    let aggregate = basalt_core::query::Aggregate { function, argument: None, distinct: false };
    SelectItem { expr: Value::Aggregate(Box::new(aggregate)), name: None }
}

/// How many rows a condition selects, as far as it is known.
pub(crate) fn selected(rows: Rows, filter: Option<&Filter>, limit: Option<u64>) -> Precision<usize> {
    let known =
        |rows: u64| usize::try_from(limit.map_or(rows, |limit| rows.min(limit))).unwrap_or(usize::MAX);
    match (rows, filter) {
        (Rows::Exactly(rows), None) => Precision::Exact(known(rows)),
        (rows, None) => Precision::Inexact(known(rows.most())),
        (rows, Some(filter)) => {
            #[allow(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is a guess"
            )]
            let some = (rows.most() as f64 * share(filter)).ceil() as u64;
            Precision::Inexact(known(some))
        }
    }
}

/// The share of the rows that a condition selects, by its form alone.
fn share(filter: &Filter) -> f64 {
    use basalt_core::query::CompareOp;
    match filter {
        Filter::And(filters) => filters.iter().map(share).product(),
        Filter::Or(filters) => filters.iter().map(share).sum::<f64>().min(1.0),
        Filter::Not(inner) => 1.0 - share(inner).min(0.9),
        Filter::Compare(CompareOp::Eq, ..) => 0.05,
        Filter::Compare(CompareOp::Ne, ..) => 0.95,
        Filter::Compare(..) => 0.3,
        Filter::Between(..) => 0.2,
        Filter::In(_, values) => (0.05 * f64::from(u32::try_from(values.len()).unwrap_or(u32::MAX))).min(0.5),
        Filter::IsNull(_) => 0.05,
        Filter::Constant(false) => 0.0,
        Filter::Constant(true) => 1.0,
        _ => 0.1,
    }
}
