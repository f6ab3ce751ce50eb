//! Operators that work for long between two rows of their answer, and hear of it when nobody waits for their statement. They run
//! in tasks that DataFusion has begun, which know of no statement.
//!
//! * A window computes all of a partition at once, and an aggregate that keeps its values all of a group: they ask
//!   [`GivenUp::of_task`], which is set here.
//! * A sort sorts each batch of what it has taken, a hash join puts each batch of its build side into its table: what they sort
//!   by, and what they join by, is an expression that fails.
//! * Sorted rows are merged, and joined rows made, as long as somebody takes them. Who takes all of them before its first row would
//!   never wait: so they give way now and then.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use arrow_array::RecordBatch;
use datafusion::{
    common::{Result, tree_node::TreeNodeRecursion},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{LexOrdering, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        aggregates::AggregateExec,
        joins::HashJoinExec,
        sorts::{sort::SortExec, sort_preserving_merge::SortPreservingMergeExec},
        stream::RecordBatchStreamAdapter,
        windows::{BoundedWindowAggExec, WindowAggExec},
    },
};
use futures_util::{Stream, StreamExt as _};

use crate::{
    gathered,
    interruptible::{self, GIVEN_UP, GivenUp, heeding},
    limits::TURN,
};

/// The same operator, which hears of it; `None`: it is none of these.
pub(crate) fn scoped(
    plan: &Arc<dyn ExecutionPlan>,
    given_up: &GivenUp,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let (input, gives_way) = if let Some(sort) = plan.downcast_ref::<SortExec>() {
        (sort_that_hears(sort, given_up).unwrap_or_else(|| Arc::clone(plan)), true)
    } else if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        (join_that_hears(join, given_up)?, true)
    } else if plan.is::<SortPreservingMergeExec>() {
        (Arc::clone(plan), true)
    } else if plan.is::<WindowAggExec>() || plan.is::<BoundedWindowAggExec>() || keeps_values(plan) {
        (Arc::clone(plan), false)
    } else {
        return Ok(None);
    };
    // Those of the operator as it was planned: what is sorted by another expression is in no known order.
    let properties = Arc::clone(plan.properties());
    Ok(Some(Arc::new(Scoped { input, properties, given_up: given_up.clone(), gives_way })))
}

/// Whether it is an aggregation by functions that keep the values of groups.
fn keeps_values(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let aggregate = plan.downcast_ref::<AggregateExec>();
    aggregate
        .is_some_and(|plan| plan.aggr_expr().iter().any(|function| gathered::keeps_values(function.fun())))
}

/// `None`: it keeps its first rows alone.
fn sort_that_hears(sort: &SortExec, given_up: &GivenUp) -> Option<Arc<dyn ExecutionPlan>> {
    if sort.fetch().is_some() {
        return None;
    }
    let mut by = sort.expr().to_vec();
    let first = by.first_mut()?;
    first.expr = heeding(&first.expr, given_up);
    let same = SortExec::new(LexOrdering::new(by)?, Arc::clone(sort.input()));
    Some(Arc::new(same.with_preserve_partitioning(sort.preserve_partitioning())))
}

fn join_that_hears(join: &HashJoinExec, given_up: &GivenUp) -> Result<Arc<dyn ExecutionPlan>> {
    let mut on = join.on().to_vec();
    if let Some((build, _)) = on.first_mut() {
        *build = heeding(build, given_up);
    }
    let condition = join.filter().map(|filter| interruptible::condition(filter, given_up));
    join.builder().with_on(on).with_filter(condition).build_exec()
}

#[derive(Debug)]
struct Scoped {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    given_up: GivenUp,
    gives_way: bool,
}

impl Scoped {
    fn over(self: &Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Arc<dyn ExecutionPlan> {
        children.pop().map_or_else(
            || Arc::clone(self) as _,
            |input| {
                let properties = Arc::clone(input.properties());
                Arc::new(Self {
                    input,
                    properties,
                    given_up: self.given_up.clone(),
                    gives_way: self.gives_way,
                })
            },
        )
    }
}

impl DisplayAs for Scoped {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for Scoped {
    fn name(&self) -> &str {
        "BasaltScoped"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
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
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.over(children))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.over(children))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let (schema, given_up) = (rows.schema(), self.given_up.clone());
        let since = self.gives_way.then(Instant::now);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, Rows { rows, given_up, since })))
    }
}

struct Rows {
    rows: SendableRecordBatchStream,
    given_up: GivenUp,
    /// When they have given way, where they do.
    since: Option<Instant>,
}

impl Stream for Rows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { rows, given_up, since } = &mut *self;
        if let Some(since) = since {
            if let Err(error) = given_up.check() {
                return Poll::Ready(Some(Err(error)));
            }
            if since.elapsed() >= TURN {
                *since = Instant::now();
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        GIVEN_UP.sync_scope(given_up.clone(), || rows.poll_next_unpin(cx))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, cast::AsArray as _, types::Int64Type};
    use arrow_schema::{DataType, Field, Schema};
    use basalt_core::error::ErrorKind;
    use datafusion::{
        common::NullEquality,
        datasource::memory::MemorySourceConfig,
        logical_expr::JoinType,
        physical_expr::{PhysicalSortExpr, expressions::Column},
        physical_plan::{ExecutionPlanProperties as _, common::collect, joins::PartitionMode},
    };
    use futures_util::{stream, task::noop_waker};

    use super::*;
    use crate::error::Error;

    fn is_cancelled(error: datafusion::error::DataFusionError) -> bool {
        Error::from(error).statement().is_some_and(|error| error.kind() == ErrorKind::Cancelled)
    }

    fn numbers() -> Arc<dyn ExecutionPlan> {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        let batch = |values: [i64; 3]| {
            RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int64Array::from(values.to_vec()))])
                .unwrap()
        };
        let batches = vec![batch([5, 1, 3]), batch([4, 2, 6])];
        MemorySourceConfig::try_new_exec(&[batches], Arc::clone(&schema), None).unwrap()
    }

    fn sort() -> Arc<dyn ExecutionPlan> {
        let by = PhysicalSortExpr::new_default(Arc::new(Column::new("n", 0)));
        Arc::new(SortExec::new([by].into(), numbers()))
    }

    fn join() -> Arc<dyn ExecutionPlan> {
        let key = || Arc::new(Column::new("n", 0)) as Arc<dyn PhysicalExpr>;
        let (on, mode, equality) =
            (vec![(key(), key())], PartitionMode::CollectLeft, NullEquality::NullEqualsNothing);
        let join =
            HashJoinExec::try_new(numbers(), sort(), on, None, &JoinType::Inner, None, mode, equality, false);
        Arc::new(join.unwrap())
    }

    /// What they do between two looks of [`Rows`], too: this runs them without it.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_sort_and_the_table_of_a_join_hear_that_nobody_wants_them() {
        for made in [sort, join] {
            for is_given_up in [false, true] {
                let (plan, given_up) = (made(), GivenUp::default());
                let same = scoped(&plan, &given_up).unwrap().unwrap();
                assert_eq!(same.output_ordering(), plan.output_ordering());
                let unlooked = Arc::clone(same.children()[0]);
                if is_given_up {
                    given_up.set();
                }
                let rows = unlooked.execute(0, Arc::default()).unwrap();
                match collect(rows).await {
                    Ok(batches) => {
                        assert!(!is_given_up, "{}", plan.name());
                        let first = |batch: &RecordBatch| {
                            batch.column(0).as_primitive::<Int64Type>().values().to_vec()
                        };
                        assert_eq!(batches.iter().flat_map(first).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
                    }
                    Err(error) => assert!(is_given_up && is_cancelled(error), "{}", plan.name()),
                }
            }
        }
    }

    /// Who takes all rows that are there never waits by itself.
    #[test]
    fn sorted_rows_give_way_and_end_once_nobody_wants_them() {
        let schema = Arc::new(Schema::empty());
        let batch = RecordBatch::new_empty(Arc::clone(&schema));
        let endless = stream::repeat_with(move || Ok(batch.clone()));
        let rows = Box::pin(RecordBatchStreamAdapter::new(schema, endless));
        let given_up = GivenUp::default();
        let mut rows = Rows { rows, given_up: given_up.clone(), since: Some(Instant::now()) };
        let waker = noop_waker();
        let mut cx = Context::from_waker(&waker);
        while let Poll::Ready(batch) = rows.poll_next_unpin(&mut cx) {
            assert!(batch.is_some_and(|batch| batch.is_ok()));
        }
        assert!(rows.poll_next_unpin(&mut cx).is_ready(), "they go on where they gave way");
        given_up.set();
        let Poll::Ready(Some(Err(error))) = rows.poll_next_unpin(&mut cx) else {
            panic!("rows that nobody wants")
        };
        assert!(is_cancelled(error));
    }
}
