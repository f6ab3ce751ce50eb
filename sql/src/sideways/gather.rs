//! Gathers the keys of a build side while its rows go by.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::{
    common::{Result, Statistics, internal_err, tree_node::TreeNodeRecursion},
    execution::{
        RecordBatchStream, SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
    physical_expr::PhysicalExpr,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        execution_plan::CardinalityEffect, metrics::MetricsSet, replace_children_if_necessary,
        statistics::StatisticsArgs,
    },
};
use futures_util::{Stream, StreamExt as _};

use super::{Keys, keys::Found};

/// What is told of each row, and to whom.
type Told = (Arc<dyn PhysicalExpr>, Arc<Keys>);

/// See the module.
#[derive(Debug)]
pub(crate) struct Gather {
    input: Arc<dyn ExecutionPlan>,
    told: Vec<Told>,
}

impl Gather {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, told: Vec<Told>) -> Self {
        Self { input, told }
    }
}

impl DisplayAs for Gather {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told: Vec<_> = self.told.iter().map(|(_, keys)| keys.to_string()).collect();
        write!(f, "BasaltSip: [{}]", told.join(", "))
    }
}

impl ExecutionPlan for Gather {
    fn name(&self) -> &str {
        "BasaltSip"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut recursion = TreeNodeRecursion::Continue;
        for (expr, _) in &self.told {
            recursion = recursion.visit_sibling(|| f(expr))?;
        }
        Ok(recursion)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(Self { input, told: self.told.clone() })),
            _ => internal_err!("keys are gathered of one input"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        replace_children_if_necessary(self, children)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let mut parts = Vec::new();
        for (expr, keys) in &self.told {
            let found = keys.part(&expr.data_type(&schema)?);
            let reservation = MemoryConsumer::new("BasaltSip").register(context.memory_pool());
            let expr = Arc::clone(expr);
            parts.push(Part {
                expr,
                keys: Arc::clone(keys),
                found: found.map(|found| (found, reservation)),
                next: 0,
            });
        }
        Ok(Box::pin(Rows { input: self.input.execute(partition, context)?, parts, schema }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        None
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::clone(input)),
            _ => internal_err!("keys are gathered of one input"),
        }
    }
}

/// The keys of one expression over a part of the rows.
struct Part {
    expr: Arc<dyn PhysicalExpr>,
    keys: Arc<Keys>,
    /// `None`: they are too many.
    found: Option<(Found, MemoryReservation)>,
    /// At so many they are looked through for those that are there twice.
    next: usize,
}

/// As many are gathered before any are looked for that are there twice.
const FIRST: usize = 1 << 16;

impl Part {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let Some((found, reservation)) = &mut self.found else { return Ok(()) };
        let values = self.expr.evaluate(batch)?.into_array(batch.num_rows())?;
        let mut fits = found.extend(&values).is_some();
        if found.len() > self.next.max(FIRST) || found.len() > found.most() {
            found.compact();
            self.next = found.len().saturating_mul(2);
            fits &= found.len() <= found.most();
        }
        // Where there is no memory for them nothing is lost but time.
        if !fits || reservation.try_resize(found.bytes()).is_err() {
            self.found = None;
        }
        Ok(())
    }
}

struct Rows {
    input: SendableRecordBatchStream,
    parts: Vec<Part>,
    schema: SchemaRef,
}

impl Stream for Rows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let rows = &mut *self;
        let next = ready!(rows.input.poll_next_unpin(context));
        match &next {
            Some(Ok(batch)) => {
                for part in &mut rows.parts {
                    if let Err(error) = part.add(batch) {
                        return Poll::Ready(Some(Err(error)));
                    }
                }
            }
            Some(Err(_)) => rows.parts.clear(),
            None => rows.parts.drain(..).for_each(|part| part.keys.add(part.found)),
        }
        Poll::Ready(next)
    }
}

impl RecordBatchStream for Rows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
