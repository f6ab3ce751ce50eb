//! The leaf of a plan: a query of the engine over one version of a table. The engine filters, and takes whole aggregates.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use arrow_array::{
    Array as _, ArrayRef, RecordBatch, RecordBatchOptions, Time64NanosecondArray, cast::AsArray as _,
    types::Int64Type,
};
use arrow_schema::{DataType, SchemaRef, TimeUnit};
use basalt_core::{
    limits::ANSWER_ROWS,
    logical::{self, Logical},
    plan::{expr_text, filter_text},
    query::{Attribute, Expr as Value, Filter, Query, SelectItem, SemiJoin},
};
use datafusion::{
    common::{Result, Statistics, instant::Instant, stats::Precision, tree_node::TreeNodeRecursion},
    execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext},
    physical_expr::{EquivalenceProperties, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, ReplaceChildrenOptions,
        coop::cooperative,
        execution_plan::{Boundedness, EmissionType},
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, SplitMetrics},
        statistics::StatisticsArgs,
        stream::BatchSplitStream,
    },
};
use futures_util::{Stream, StreamExt as _};

use crate::{Error, catalog::Answers, hops::Hops, limits, nan, sideways::Keys, source::Source, table::all};

/// What the rows of the leaf are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// Those of the query.
    Rows,
    /// As many rows without columns as the query counts, up to a limit.
    Number { limit: Option<u64> },
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Scan {
    source: Source,
    query: Query,
    shape: Shape,
    rows: Precision<usize>,
    /// It gives its rows in so many parts.
    parts: usize,
    /// What joins above will have of some of its columns.
    asked: Vec<Asked>,
    /// What nodes have done for it.
    hops: Hops,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// Rows are asked for alone that have one of some keys.
#[derive(Clone, Debug)]
struct Asked {
    /// A column of the table, or of one that it refers to.
    column: Value,
    keys: Arc<Keys>,
}

impl Asked {
    /// As a condition of a scan; `None`: the keys are not known.
    fn condition(&self, source: &Source) -> Option<Filter> {
        match &self.column {
            Value::Column(name) => self.keys.condition(name.clone()),
            Value::Attribute(Attribute { column, name, .. }) => {
                let reference = source.reference(column)?;
                let (table, key) = (reference.table.clone(), reference.column.clone());
                let filter = Some(self.keys.condition(name.clone())?);
                let join = SemiJoin { column: column.clone(), table, key, filter, version: None };
                Some(Filter::SemiJoin(Box::new(join)))
            }
            _ => None,
        }
    }
}

impl Scan {
    pub(crate) fn new(
        source: Source,
        query: Query,
        shape: Shape,
        schema: SchemaRef,
        rows: Precision<usize>,
    ) -> Self {
        let properties = properties(schema, 1);
        let (asked, hops, metrics) = (Vec::new(), Hops::default(), ExecutionPlanMetricsSet::new());
        Self { source, query, shape, rows, parts: 1, asked, hops, properties, metrics }
    }

    /// The scan of another node's task.
    pub(crate) fn of_rows(source: Source, query: Query, schema: SchemaRef) -> Self {
        Self::new(source, query, Shape::Rows, schema, Precision::Absent)
    }

    /// The same in so many parts, each of which has other rows.
    pub(crate) fn in_parts(self, parts: usize) -> Self {
        Self { properties: properties(self.schema(), parts), parts, ..self }
    }

    /// In how many parts it gives its rows.
    pub(crate) fn partitions(&self) -> usize {
        self.parts
    }

    /// Whether its rows are those of its table, so that each node may give some of them.
    pub(crate) fn is_divisible(&self) -> bool {
        self.may_be_filtered() && self.query.order_by.is_empty() && self.source.is_alone()
    }

    /// Whether joins above tell which rows they want.
    pub(crate) fn is_pruned(&self) -> bool {
        !self.asked.is_empty()
    }

    /// The same, of which a join wants no rows but those that have some keys in a column; `None`: it gives other rows then, or
    /// the engine has no such condition.
    pub(crate) fn asked(&self, column: usize, keys: &Arc<Keys>) -> Option<Self> {
        let Query { group_by, limit, .. } = &self.query;
        let column = &self.query.select.get(column)?.expr;
        let is_of_groups = group_by.is_empty() || group_by.contains(column);
        if !matches!(self.shape, Shape::Rows) || limit.is_some() || !is_of_groups {
            return None;
        }
        let field = self.source.field(column)?;
        if field.logical.is_some() || !keys.go_with(field.data_type) {
            return None;
        }
        let asked = Asked { column: column.clone(), keys: Arc::clone(keys) };
        Some(Self {
            source: self.source.clone(),
            query: self.query.clone(),
            shape: self.shape,
            rows: self.rows,
            parts: self.parts,
            asked: self.asked.iter().cloned().chain([asked]).collect(),
            hops: Hops::default(),
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// Whether it leaves out rows of its table, or groups them.
    pub(crate) fn selects_some(&self) -> bool {
        let Query { filter, group_by, having, limit, .. } = &self.query;
        let is_asked = self.is_pruned() || limit.is_some();
        is_asked || filter.is_some() || !group_by.is_empty() || having.is_some()
    }

    /// The most rows that its table may have.
    pub(crate) fn most_rows(&self) -> u64 {
        self.source.table().rows().most()
    }

    /// The same for each node: together they have the rows of this one, each once.
    pub(crate) fn shares(&self, nodes: &[Arc<str>]) -> Result<Vec<Self>> {
        let shares = self.source.table().shares(nodes)?;
        let shares = shares.into_iter().map(|table| {
            let (source, query) = (Source::new(table), self.query.clone());
            Self::of_rows(source, query, self.schema()).in_parts(self.parts)
        });
        Ok(shares.collect())
    }

    /// As it travels to the node that reads it.
    pub(crate) fn encode(&self) -> std::result::Result<Vec<u8>, Error> {
        if !self.is_divisible() {
            return Err(Error::Internal("a scan that does not travel".to_owned()));
        }
        self.source.table().encode(&self.query)
    }

    /// The condition that selects its rows, where that is all it does, and it is of this table alone (`Some(None)`: it
    /// selects all).
    pub(crate) fn selects(&self) -> Option<Option<&Filter>> {
        let is_all = self.may_be_filtered() && self.asked.is_empty() && self.source.is_alone();
        is_all.then_some(self.query.filter.as_ref())
    }

    /// Roughly the bytes that it gives, where it takes little time.
    pub(crate) fn light_bytes(&self) -> Option<u64> {
        self.source.light_bytes(&self.query)
    }

    /// How many rows it should give.
    pub(crate) fn expected(&self) -> Option<u64> {
        let Shape::Number { limit } = self.shape else {
            return self.source.expected(&self.query).map(|expected| expected.answer);
        };
        let selected = self.source.expected(&self.query)?.selected;
        Some(limit.map_or(selected, |limit| selected.min(limit)))
    }

    /// How many different keys its table has, given as expressions of its query.
    pub(crate) fn distinct(&self, keys: &[Value]) -> Option<u64> {
        let select = keys.iter().map(|key| SelectItem { expr: key.clone(), name: None });
        let query = Query { select: select.collect(), group_by: keys.to_vec(), ..Query::default() };
        self.source.expected(&query).map(|expected| expected.answer)
    }

    /// What stands in one of its columns.
    pub(crate) fn value(&self, column: usize) -> Option<&Value> {
        let value = &self.query.select.get(column)?.expr;
        (!matches!(value, Value::Aggregate(_))).then_some(value)
    }

    /// Whether the engine groups or sorts for it, which it does in memory alone.
    pub(crate) fn gathers(&self) -> bool {
        let Query { select, group_by, order_by, .. } = &self.query;
        let aggregates = select.iter().any(|item| matches!(item.expr, Value::Aggregate(_)));
        aggregates || !group_by.is_empty() || !order_by.is_empty()
    }

    /// Whether more conditions may be added to its query: they change nothing but which rows it gives.
    fn may_be_filtered(&self) -> bool {
        matches!(self.shape, Shape::Rows) && self.query.group_by.is_empty() && self.query.limit.is_none()
    }
}

impl DisplayAs for Scan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.source.table();
        write!(f, "BasaltScan: {}, version={}", table.name(), table.version())?;
        if let Some(share) = table.share() {
            write!(f, ", {share}")?;
        }
        describe(&self.query, f)?;
        if !self.asked.is_empty() {
            let asked =
                self.asked.iter().map(|asked| format!("{} IN {}", expr_text(&asked.column), asked.keys));
            write!(f, ", sips=[{}]", asked.collect::<Vec<_>>().join(", "))?;
        }
        // They are known once it has run.
        write!(f, "{}", self.hops)
    }
}

/// A query of the engine, for people.
pub(crate) fn describe(query: &Query, f: &mut impl fmt::Write) -> fmt::Result {
    let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(", ");
    write!(f, ", select=[{}]", list(&mut query.select.iter().map(|item| expr_text(&item.expr))))?;
    if let Some(condition) = &query.filter {
        write!(f, ", filter=[{}]", filter_text(condition))?;
    }
    if !query.group_by.is_empty() {
        write!(f, ", group_by=[{}]", list(&mut query.group_by.iter().map(expr_text)))?;
    }
    if !query.order_by.is_empty() {
        let key = |key: &basalt_core::query::OrderBy| {
            format!("{}{}", expr_text(&key.expr), if key.descending { " DESC" } else { "" })
        };
        write!(f, ", order_by=[{}]", list(&mut query.order_by.iter().map(key)))?;
    }
    match query.limit {
        Some(limit) => write!(f, ", limit={limit}"),
        None => Ok(()),
    }
}

impl ExecutionPlan for Scan {
    fn name(&self) -> &str {
        "BasaltScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let source = match self.parts {
            1 => self.source.clone(),
            parts => Source::new(self.source.table().part(partition, parts)?),
        };
        let rows = Box::pin(cooperative(Rows {
            begin: Begin {
                source,
                query: self.query.clone(),
                asked: self.asked.clone(),
                hops: self.hops.clone(),
            },
            answers: None,
            shape: self.shape,
            left: 0,
            asked: None,
            schema: self.schema(),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        }));
        let most = context.session_config().batch_size();
        if most >= ANSWER_ROWS {
            return Ok(rows);
        }
        Ok(Box::pin(BatchSplitStream::new(rows, most, SplitMetrics::new(&self.metrics, partition))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics { num_rows: self.rows, ..Statistics::new_unknown(&self.schema()) }))
    }
}

fn properties(schema: SchemaRef, parts: usize) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(schema),
        Partitioning::UnknownPartitioning(parts),
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}

/// What a leaf begins with.
struct Begin {
    source: Source,
    query: Query,
    asked: Vec<Asked>,
    hops: Hops,
}

impl Begin {
    /// What joins know is asked for here, with the first poll: then they have their build sides.
    fn run(&self) -> Answers {
        let mut bytes = 0;
        let known = self.asked.iter().filter(|asked| {
            let all = asked.keys.bytes().saturating_add(bytes);
            let fits = all <= limits::PASSED_BYTES;
            bytes = if fits { all } else { bytes };
            fits
        });
        let known = known.filter_map(|asked| asked.condition(&self.source));
        let filter = all(self.query.filter.iter().cloned().chain(known).collect());
        let asked = Query { filter, ..self.query.clone() };
        // What the engine does not take is left to the joins.
        let query = if self.source.types(&asked).is_some() { asked } else { self.query.clone() };
        self.source.run(query, &self.hops)
    }
}

/// The rows of a leaf.
struct Rows {
    begin: Begin,
    answers: Option<Answers>,
    shape: Shape,
    /// Rows without columns that are still to be given.
    left: u64,
    /// Since when somebody waits for the next rows.
    asked: Option<Instant>,
    schema: SchemaRef,
    metrics: BaselineMetrics,
}

impl Stream for Rows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let rows = &mut *self;
        // The engine works on threads of its own: what its rows took is how long they were waited for.
        let asked = *rows.asked.get_or_insert_with(Instant::now);
        let batch = loop {
            if rows.left > 0 {
                let some = rows.left.min(ANSWER_ROWS as u64);
                rows.left -= some;
                break Some(bare(&rows.schema, some));
            }
            let answers = rows.answers.get_or_insert_with(|| rows.begin.run());
            match (ready!(answers.poll_next_unpin(context)), rows.shape) {
                (None, _) => break None,
                (Some(Err(error)), _) => break Some(Err(error.into())),
                (Some(Ok(batch)), Shape::Rows) => break Some(shown(&batch, &rows.schema)),
                (Some(Ok(batch)), Shape::Number { limit }) => match number(&batch) {
                    Ok(all) => rows.left = limit.map_or(all, |limit| all.min(limit)),
                    Err(error) => break Some(Err(error.into())),
                },
            }
        };
        rows.metrics.elapsed_compute().add_elapsed(asked);
        rows.asked = None;
        rows.metrics.record_poll(Poll::Ready(batch))
    }
}

impl RecordBatchStream for Rows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Rows without columns.
fn bare(schema: &SchemaRef, rows: u64) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(usize::try_from(rows).ok());
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), Vec::new(), &options)?)
}

/// The one number of an answer.
fn number(batch: &RecordBatch) -> std::result::Result<u64, Error> {
    let column = batch.columns().first().and_then(|column| column.as_primitive_opt::<Int64Type>());
    column
        .filter(|column| column.len() == 1)
        .and_then(|column| u64::try_from(column.value(0)).ok())
        .ok_or_else(|| Error::Internal("a count that is no number".to_owned()))
}

/// Rows of the engine as those of a plan. Equal floats have the same bits here: operators above compare and hash by
/// them.
fn shown(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns =
        batch.columns().iter().zip(schema.fields()).map(|(column, field)| match column.data_type() {
            DataType::Float32 | DataType::Float64 => Ok(nan::same_bits(column)),
            DataType::Int64 if *field.data_type() == DataType::Time64(TimeUnit::Nanosecond) => {
                // What lies under a null may be anything.
                let nanoseconds: Time64NanosecondArray =
                    column.as_primitive::<Int64Type>().unary(|micros| micros.saturating_mul(1000));
                Ok(Arc::new(nanoseconds) as ArrayRef)
            }
            // What the engine holds in the form of another type is what it is from here on.
            given if given != field.data_type() => {
                logical::from_form(column, Logical::from_arrow(field.data_type()))
            }
            _ => Ok(Arc::clone(column)),
        });
    let columns = columns.collect::<basalt_core::error::Result<_>>().map_err(Error::from)?;
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
