//! The rows of a spool: whoever asks first has them made, all of them, before anyone has one. They stay in memory as long
//! as the plan does.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use datafusion::{
    common::{
        DataFusionError, Result, Statistics, internal_err, tree_node::TreeNodeRecursion,
        utils::memory::RecordBatchMemoryCounter,
    },
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
    physical_expr::{EquivalenceProperties, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, Partitioning, PlanProperties,
        ReplaceChildrenOptions,
        execution_plan::{Boundedness, EmissionType},
        replace_children_if_necessary,
        statistics::StatisticsArgs,
        stream::RecordBatchStreamAdapter,
    },
};
use futures_util::{
    FutureExt as _, StreamExt as _, TryStreamExt as _,
    future::{BoxFuture, Shared},
    stream,
};

/// The rows, once somebody asks for them. Each who waits drives what makes them, so that nobody waits for one who does not.
pub(super) struct Made {
    /// Tells it from others of the plan.
    name: String,
    rows: Mutex<Option<Making>>,
}

type Making = Shared<BoxFuture<'static, std::result::Result<Arc<Held>, Arc<DataFusionError>>>>;

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Made").field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Held {
    batches: Vec<RecordBatch>,
    _memory: MemoryReservation,
}

impl Made {
    pub(super) fn new(name: String) -> Self {
        Self { name, rows: Mutex::default() }
    }

    fn by(&self, input: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Making {
        let mut making = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = making.get_or_insert_with(|| {
            let (input, context) = (Arc::clone(input), Arc::clone(context));
            held(input, context).map(|held| held.map(Arc::new).map_err(Arc::new)).boxed().shared()
        });
        begun.clone()
    }
}

async fn held(input: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Held> {
    let memory = MemoryConsumer::new("BasaltSpool").register(context.memory_pool());
    let mut rows = input.execute(0, context)?;
    let (mut batches, mut counted) = (Vec::new(), RecordBatchMemoryCounter::new());
    while let Some(batch) = rows.next().await.transpose()? {
        memory.try_grow(counted.count_batch(&batch) + size_of::<RecordBatch>())?;
        batches.push(batch);
    }
    Ok(Held { batches, _memory: memory })
}

/// One of the places where the rows are read.
#[derive(Debug)]
pub(super) struct SpoolExec {
    input: Arc<dyn ExecutionPlan>,
    /// Those of the input that are read here.
    columns: Vec<usize>,
    schema: SchemaRef,
    made: Arc<Made>,
    properties: Arc<PlanProperties>,
}

impl SpoolExec {
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        columns: Vec<usize>,
        schema: SchemaRef,
        made: Arc<Made>,
    ) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        Self { input, columns, schema, made, properties }
    }
}

impl DisplayAs for SpoolExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BasaltSpool: {}, columns={:?}", self.made.name, self.columns)
    }
}

impl ExecutionPlan for SpoolExec {
    fn name(&self) -> &str {
        "BasaltSpool"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("a spool has one input");
        };
        let (columns, schema, made) =
            (self.columns.clone(), Arc::clone(&self.schema), Arc::clone(&self.made));
        Ok(Arc::new(Self::new(input, columns, schema, made)))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        replace_children_if_necessary(self, children)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("a spool has one part, and {partition} is asked for");
        }
        let (columns, schema) = (self.columns.clone(), Arc::clone(&self.schema));
        let making = self.made.by(&self.input, &context);
        let rows = async move {
            let held = making.await.map_err(DataFusionError::Shared)?;
            let all = 0..held.batches.len();
            let of = move |at: usize| {
                let batch = &held.batches[at];
                let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                let read = columns.iter().map(|column| Arc::clone(batch.column(*column))).collect();
                Ok(RecordBatch::try_new_with_options(Arc::clone(&schema), read, &options)?)
            };
            Ok::<_, DataFusionError>(stream::iter(all.map(of)))
        };
        let rows = stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows)))
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let [input] = inputs else { return internal_err!("a spool has one input") };
        Ok(Arc::new(Statistics { num_rows: input.num_rows, ..Statistics::new_unknown(&self.schema) }))
    }
}
