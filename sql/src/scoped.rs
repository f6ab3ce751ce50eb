//! Windows and sorts that hear of it when nobody waits for their statement. A window computes all of a partition between two rows
//! of its answer, maybe in a task that DataFusion has begun, and its aggregates ask [`GivenUp::of_task`]. Sorted rows are merged as
//! long as somebody takes them, and who takes all of them before its first row would never wait: so they give way now and then.

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
    physical_expr::PhysicalExpr,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        sorts::{sort::SortExec, sort_preserving_merge::SortPreservingMergeExec},
        stream::RecordBatchStreamAdapter,
        windows::{BoundedWindowAggExec, WindowAggExec},
    },
};
use futures_util::{Stream, StreamExt as _};

use crate::{
    interruptible::{GIVEN_UP, GivenUp},
    limits::TURN,
};

/// The same windows, or sorted rows, which hear of it; `None`: it is none.
pub(crate) fn scoped(plan: &Arc<dyn ExecutionPlan>, given_up: &GivenUp) -> Option<Arc<dyn ExecutionPlan>> {
    let is_window = plan.is::<WindowAggExec>() || plan.is::<BoundedWindowAggExec>();
    let is_sorted = plan.is::<SortExec>() || plan.is::<SortPreservingMergeExec>();
    (is_window || is_sorted).then(|| of(Arc::clone(plan), given_up.clone(), is_sorted))
}

fn of(input: Arc<dyn ExecutionPlan>, given_up: GivenUp, gives_way: bool) -> Arc<dyn ExecutionPlan> {
    Arc::new(Scoped { input, given_up, gives_way })
}

#[derive(Debug)]
struct Scoped {
    input: Arc<dyn ExecutionPlan>,
    given_up: GivenUp,
    gives_way: bool,
}

impl Scoped {
    fn over(self: &Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Arc<dyn ExecutionPlan> {
        let given_up = self.given_up.clone();
        children.pop().map_or_else(|| Arc::clone(self) as _, |input| of(input, given_up, self.gives_way))
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
        self.input.properties()
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
    use arrow_schema::Schema;
    use basalt_core::error::ErrorKind;
    use futures_util::{stream, task::noop_waker};

    use super::*;
    use crate::error::Error;

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
        assert_eq!(Error::from(error).statement().map(|error| error.kind()), Some(ErrorKind::Cancelled));
    }
}
