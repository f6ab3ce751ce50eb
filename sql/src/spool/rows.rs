//! The rows of a spool: whoever asks first has them made, all of them, before anyone has one. They stay as long as the plan
//! does and somebody reads them: in memory, or where that has no room in a file, from which each reads them by itself.

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
        SendableRecordBatchStream, SpillFile, TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
    physical_expr::{EquivalenceProperties, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, Partitioning, PlanProperties,
        ReplaceChildrenOptions, SpillManager,
        execution_plan::{Boundedness, EmissionType},
        metrics::{ExecutionPlanMetricsSet, MetricsSet, SpillMetrics},
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

struct Held {
    /// Those in memory: all or none.
    batches: Vec<RecordBatch>,
    /// `None`: they are not there.
    _memory: Option<MemoryReservation>,
    /// Those that are not; the file goes away with who has it.
    spilled: Option<(SpillManager, Arc<dyn SpillFile>)>,
}

impl Held {
    /// The rows on the disk, for one more reader.
    fn spilled(&self) -> Result<Option<SendableRecordBatchStream>> {
        let read = |(manager, file): &(SpillManager, Arc<dyn SpillFile>)| {
            manager.read_spill_as_stream_unbuffered(Arc::clone(file), None)
        };
        self.spilled.as_ref().map(read).transpose()
    }
}

impl Made {
    pub(super) fn new(name: String) -> Self {
        Self { name, rows: Mutex::default() }
    }

    fn by(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        context: &Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Making {
        let mut making = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = making.get_or_insert_with(|| {
            let (input, context) = (Arc::clone(input), Arc::clone(context));
            // Of the places one tells of the disk, so that nothing counts twice.
            let metrics = SpillMetrics::new(metrics, 0);
            held(input, context, metrics).map(|held| held.map(Arc::new).map_err(Arc::new)).boxed().shared()
        });
        begun.clone()
    }
}

async fn held(
    input: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    metrics: SpillMetrics,
) -> Result<Held> {
    let (runtime, rows_at_once) = (context.runtime_env(), context.session_config().batch_size());
    // Where it has a disk it leaves room for who reads the rows.
    let memory = MemoryConsumer::new("BasaltSpool")
        .with_can_spill(runtime.disk_manager.tmp_files_enabled())
        .register(context.memory_pool());
    let manager = SpillManager::new(runtime, metrics, input.schema());
    let mut rows = input.execute(0, context)?;
    let (mut batches, mut counted) = (Vec::new(), RecordBatchMemoryCounter::new());
    while let Some(batch) = rows.next().await.transpose()? {
        if memory.try_grow(counted.count_batch(&batch) + size_of::<RecordBatch>()).is_ok() {
            batches.push(batch);
            continue;
        }
        let mut file = manager.create_in_progress_file("a spool is made")?;
        for batch in batches.into_iter().chain([batch]) {
            for piece in pieces(&batch, rows_at_once) {
                file.append_batch(&piece)?;
            }
        }
        drop((memory, counted));
        while let Some(batch) = rows.next().await.transpose()? {
            for piece in pieces(&batch, rows_at_once) {
                file.append_batch(&piece)?;
            }
        }
        let spilled = file.finish()?.map(|file| (manager, file));
        return Ok(Held { batches: Vec::new(), _memory: None, spilled });
    }
    Ok(Held { batches, _memory: Some(memory), spilled: None })
}

/// A batch may be all rows of a window, which no reader is to have at once.
fn pieces(batch: &RecordBatch, rows_at_once: usize) -> impl Iterator<Item = RecordBatch> {
    let all = batch.num_rows();
    (0..all).step_by(rows_at_once).map(move |from| batch.slice(from, rows_at_once.min(all - from)))
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
    metrics: ExecutionPlanMetricsSet,
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
        Self { input, columns, schema, made, properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    /// The same wherever its rows are read.
    pub(super) fn made(&self) -> usize {
        Arc::as_ptr(&self.made).addr()
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
        let making = self.made.by(&self.input, &context, &self.metrics);
        let rows = async move {
            let held = making.await.map_err(DataFusionError::Shared)?;
            let spilled = stream::iter(held.spilled()?).flatten();
            let all = 0..held.batches.len();
            let in_memory = all.map(move |at| Ok::<_, DataFusionError>(held.batches[at].clone()));
            let of = move |batch: Result<RecordBatch>| -> Result<RecordBatch> {
                let batch = batch?;
                let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                let read = columns.iter().map(|column| Arc::clone(batch.column(*column))).collect();
                Ok(RecordBatch::try_new_with_options(Arc::clone(&schema), read, &options)?)
            };
            Ok::<_, DataFusionError>(stream::iter(in_memory).chain(spilled).map(of))
        };
        let rows = stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
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

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, cast::AsArray as _, types::Int64Type};
    use arrow_schema::{DataType, Field, Schema};
    use datafusion::{
        datasource::memory::MemorySourceConfig,
        execution::{disk_manager::DiskManagerBuilder, runtime_env::RuntimeEnvBuilder},
    };

    use super::*;
    use crate::error::Error;

    const BATCHES: i64 = 40;
    const ROWS: i64 = 1000;
    /// For a few batches.
    const MEMORY: usize = 64 << 10;

    /// Two places that read the same rows, and what they run in.
    fn places(disk: u64) -> ([SpoolExec; 2], Arc<TaskContext>) {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        let batch = |at: i64| {
            let column = Int64Array::from_iter_values(at * ROWS..(at + 1) * ROWS);
            RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(column)]).unwrap()
        };
        let batches = (0..BATCHES).map(batch).collect::<Vec<_>>();
        let input = MemorySourceConfig::try_new_exec(&[batches], Arc::clone(&schema), None).unwrap();
        let made = Arc::new(Made::new("made".to_owned()));
        let place = || {
            let input = Arc::clone(&input) as Arc<dyn ExecutionPlan>;
            SpoolExec::new(input, vec![0], Arc::clone(&schema), Arc::clone(&made))
        };
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_limit(MEMORY, 1.0)
            .with_disk_manager_builder(DiskManagerBuilder::default().with_max_temp_directory_size(disk))
            .build_arc()
            .unwrap();
        ([place(), place()], Arc::new(TaskContext::default().with_runtime(runtime)))
    }

    async fn sum(rows: SendableRecordBatchStream) -> Result<i64> {
        let batches = rows.try_collect::<Vec<_>>().await?;
        let of =
            |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().iter().sum::<i64>();
        Ok(batches.iter().map(of).sum())
    }

    #[tokio::test]
    async fn rows_without_memory_are_on_disk_for_all_who_read_them_and_no_longer() {
        let (places, context) = places(1 << 20);
        let disk = Arc::clone(&context.runtime_env().disk_manager);
        let [first, second] = places.each_ref().map(|place| place.execute(0, Arc::clone(&context)).unwrap());
        let (first, second) = tokio::join!(sum(first), sum(second));
        let all = (0..BATCHES * ROWS).sum::<i64>();
        assert_eq!((first.unwrap(), second.unwrap()), (all, all));
        let spilled = places.iter().filter_map(|place| place.metrics().and_then(|of| of.spilled_bytes()));
        assert_eq!(spilled.filter(|bytes| *bytes > MEMORY).count(), 1);
        assert!(disk.used_disk_space() > 0);
        assert_eq!(context.memory_pool().reserved(), 0);
        // One who comes late, and goes early.
        let mut late = places[0].execute(0, Arc::clone(&context)).unwrap();
        assert!(late.next().await.unwrap().unwrap().num_rows() > 0);
        drop(places);
        assert!(disk.used_disk_space() > 0);
        drop(late);
        assert_eq!(disk.used_disk_space(), 0);
    }

    #[tokio::test]
    async fn all_who_read_rows_that_found_no_disk_are_told() {
        let (places, context) = places(MEMORY as u64);
        let [first, second] = places.each_ref().map(|place| place.execute(0, Arc::clone(&context)).unwrap());
        let (first, second) = tokio::join!(sum(first), sum(second));
        for told in [first, second] {
            let error = Error::from(told.unwrap_err());
            assert!(error.is_of_memory(), "{error}");
        }
    }
}
