//! A table as DataFusion sees it: its columns, how many rows it has, and a scan that the engine runs.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use arrow_schema::{DataType as ArrowType, Field as ArrowField, Schema as ArrowSchema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use basalt_core::{
    query::{Expr as Value, Filter, Query, ROW_ADDRESS, SelectItem},
    schema::{DataType, Field, Schema},
};
use datafusion::{
    catalog::Session,
    common::{
        Column, DFSchema, Result, Statistics,
        stats::Precision,
        tree_node::{Transformed, TransformedResult as _, TreeNode as _},
    },
    datasource::{TableProvider, TableType},
    logical_expr::{Expr, TableProviderFilterPushDown, lit, utils::conjunction},
    physical_plan::{ExecutionPlan, filter::FilterExecBuilder},
};

use crate::{
    catalog::{Rows, Table},
    distributed::Parts,
    filter::Translator,
    scan::{Scan, Shape},
    source::Source,
};

/// One version of a table, or of one with what its columns refer to: rows that the engine gives.
#[derive(Debug)]
pub(crate) struct BasaltTable {
    source: Source,
    columns: Arc<Columns>,
    schema: SchemaRef,
    /// What all its rows meet.
    conditions: Arc<[Filter]>,
    /// Columns of which no value stands twice, where that is known. Other tables' rows may be looked up by them.
    keys: Arc<BTreeSet<String>>,
    /// Whether it is the version that other tables' queries find by its name.
    is_current: bool,
}

/// What the columns of a relation are in queries of the engine, and their types.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    places: HashMap<String, usize>,
    values: Vec<(Value, DataType)>,
    /// Those that the engine holds in the form of another type.
    held: BTreeSet<String>,
}

impl Columns {
    /// Adds a column; false where one has its name.
    pub(crate) fn add(&mut self, name: &str, value: Value, data_type: DataType) -> bool {
        let is_new = self.places.insert(name.to_owned(), self.values.len()).is_none();
        self.values.push((value, data_type));
        is_new
    }

    /// Whether the engine holds a column in the form of another type, so that it compares and adds no values of it.
    pub(crate) fn is_held(&self, name: &str) -> bool {
        self.held.contains(name)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&(Value, DataType)> {
        self.values.get(*self.places.get(name)?)
    }
}

impl BasaltTable {
    /// A table as it is. `is_current`: its name alone means this version in the statement.
    pub(crate) fn new(table: Arc<dyn Table>, is_current: bool, keys: BTreeSet<String>) -> Self {
        let mut columns = Columns::default();
        for field in table.schema().fields() {
            columns.add(&field.name, Value::Column(field.name.clone()), field.data_type);
            if field.logical.is_some() {
                columns.held.insert(field.name.clone());
            }
        }
        let schema = outer(table.schema());
        let (source, columns, keys) = (Source::new(table), Arc::new(columns), Arc::new(keys));
        Self { source, columns, schema, conditions: Arc::default(), keys, is_current }
    }

    /// The newest version of a table, with the addresses of its rows as one more column, for a statement that changes them.
    pub(crate) fn with_addresses(table: Arc<dyn Table>) -> Self {
        let mut with = Self::new(table, true, BTreeSet::new());
        Arc::make_mut(&mut with.columns).add(
            ROW_ADDRESS,
            Value::Column(ROW_ADDRESS.to_owned()),
            DataType::UInt64,
        );
        let address = Arc::new(ArrowField::new(ROW_ADDRESS, DataType::UInt64.to_arrow(), false));
        let fields: Vec<_> = with.schema.fields().iter().cloned().chain([address]).collect();
        with.schema = Arc::new(ArrowSchema::new(fields));
        with
    }

    /// Rows of a source that meet a condition. No table refers to them.
    pub(crate) fn of(source: Source, columns: Columns, schema: SchemaRef, conditions: Vec<Filter>) -> Self {
        let (columns, conditions) = (Arc::new(columns), conditions.into());
        Self { source, columns, schema, conditions, keys: Arc::default(), is_current: false }
    }

    /// The same over another source, of tables that are the same.
    pub(crate) fn over(&self, source: Source) -> Self {
        let Self { columns, schema, conditions, keys, is_current, .. } = self;
        let (columns, schema) = (Arc::clone(columns), Arc::clone(schema));
        let (conditions, keys) = (Arc::clone(conditions), Arc::clone(keys));
        Self { source, columns, schema, conditions, keys, is_current: *is_current }
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    pub(crate) fn columns(&self) -> &Columns {
        &self.columns
    }

    pub(crate) fn conditions(&self) -> &[Filter] {
        &self.conditions
    }

    /// Whether other tables' queries may look up its rows by a column.
    pub(crate) fn is_key(&self, column: &str) -> bool {
        self.is_current && self.keys.contains(column)
    }

    /// Whether other tables' queries may select by values of its columns.
    pub(crate) fn is_current(&self) -> bool {
        self.is_current
    }

    pub(crate) fn translator(&self) -> Translator<'_> {
        Translator { columns: &self.columns, table: self.source.table().as_ref() }
    }

    /// A condition of the engine that means the same as this one, and that it takes.
    pub(crate) fn filter(&self, expr: &Expr) -> Option<Filter> {
        let filter = self.translator().filter(expr)?;
        let query = Query { filter: Some(filter.clone()), ..Query::default() };
        self.source.types(&query).map(|_| filter)
    }

    /// All of them, and what all rows meet; `None`: the engine does not take one.
    pub(crate) fn filters(&self, exprs: &[Expr]) -> Option<Option<Filter>> {
        let filters = exprs.iter().map(|expr| self.filter(expr)).collect::<Option<Vec<_>>>()?;
        Some(all(self.conditions.iter().cloned().chain(filters).collect()))
    }
}

impl BasaltTable {
    /// The rows that meet conditions of which one is none of the engine's any longer: rules have changed it after the engine
    /// had taken it.
    async fn filtered(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let filters = filters.iter().map(|filter| unqualified(filter.clone())).collect::<Result<Vec<_>>>()?;
        // Default: of no condition all rows are there.
        let all = conjunction(filters).unwrap_or_else(|| lit(true));
        let every: Vec<usize> = (0..self.schema.fields().len()).collect();
        let wanted = projection.unwrap_or(&every);
        // What is wanted first, and behind it what is only looked at.
        let mut columns = wanted.clone();
        for column in all.column_refs() {
            let at = self.schema.index_of(&column.name)?;
            if !columns.contains(&at) {
                columns.push(at);
            }
        }
        let rows = self.scan(session, Some(&columns), &[], None).await?;
        let schema = DFSchema::try_from(rows.schema())?;
        let filter = FilterExecBuilder::new(session.create_physical_expr(all, &schema)?, rows);
        let wanted = (0..wanted.len()).collect();
        Ok(Arc::new(filter.apply_projection(Some(wanted))?.build()?))
    }
}

fn unqualified(expr: Expr) -> Result<Expr> {
    let of = |expr: Expr| match expr {
        Expr::Column(column) => Ok(Transformed::yes(Expr::Column(Column::from_name(column.name)))),
        other => Ok(Transformed::no(other)),
    };
    expr.transform(of).data()
}

/// The columns of a table as DataFusion sees them. Its times of day have nanoseconds, as literals and in functions, and
/// compare with no others.
fn outer(schema: &Schema) -> SchemaRef {
    let fields =
        schema.fields().iter().map(|field| ArrowField::new(&field.name, outer_type(field), field.nullable));
    Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>()))
}

/// The type of a column there.
pub(crate) fn outer_type(field: &Field) -> ArrowType {
    match field.to_arrow_type() {
        ArrowType::Time64(TimeUnit::Microsecond) => ArrowType::Time64(TimeUnit::Nanosecond),
        other => other,
    }
}

/// One condition for all of these: a list of them, not lists in a list.
pub(crate) fn all(filters: Vec<Filter>) -> Option<Filter> {
    let parts = |filter| if let Filter::And(filters) = filter { filters } else { vec![filter] };
    let mut filters: Vec<_> = filters.into_iter().flat_map(parts).collect();
    match filters.len() {
        0 => None,
        1 => filters.pop(),
        _ => Some(Filter::And(filters)),
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
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(filter) = self.filters(filters) else {
            return self.filtered(session, projection, filters).await;
        };
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let columns = projection.unwrap_or(&all);
        let limit = limit.map(|limit| limit as u64);
        let rows = selected(self.source.table().rows(), filter.as_ref(), limit);
        let (query, shape) = if columns.is_empty() {
            // Nothing of the rows is wanted but their number.
            let query = Query { select: vec![count()], filter, ..Query::default() };
            (query, Shape::Number { limit })
        } else {
            let select = columns
                .iter()
                .map(|column| SelectItem { expr: self.columns.values[*column].0.clone(), name: None });
            (Query { select: select.collect(), filter, limit, ..Query::default() }, Shape::Rows)
        };
        let schema: SchemaRef = Arc::new(ArrowSchema::project(&self.schema, columns)?);
        let scan = Scan::new(self.source.clone(), query, shape, schema, rows);
        let table = self.source.table();
        let parts = session.config().get_extension::<Parts>().filter(|parts| {
            table.is_divisible() && scan.is_divisible() && table.rows().most() >= parts.least_rows
        });
        Ok(Arc::new(match parts {
            Some(parts) => scan.in_parts(parts.parts),
            None => scan,
        }))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let supported = filters.iter().map(|filter| match self.filter(filter) {
            Some(_) => TableProviderFilterPushDown::Exact,
            None => TableProviderFilterPushDown::Unsupported,
        });
        Ok(supported.collect())
    }

    fn statistics(&self) -> Option<Statistics> {
        let rows = selected(self.source.table().rows(), all(self.conditions.to_vec()).as_ref(), None);
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
        Filter::SemiJoin(join) => join.filter.as_ref().map_or(1.0, share),
        _ => 0.1,
    }
}
