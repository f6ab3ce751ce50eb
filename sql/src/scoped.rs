//! Windows that hear of it when nobody waits for their statement. One computes all of a partition between two rows of its answer,
//! maybe in a task that DataFusion has begun, and its aggregates ask [`GivenUp::of_task`].

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use arrow_array::RecordBatch;
use datafusion::{
    common::{Result, tree_node::TreeNodeRecursion},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::PhysicalExpr,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        stream::RecordBatchStreamAdapter,
        windows::{BoundedWindowAggExec, WindowAggExec},
    },
};
use futures_util::{Stream, StreamExt as _};

use crate::interruptible::{GIVEN_UP, GivenUp};

/// The same windows, which hear of it; `None`: it is none.
pub(crate) fn scoped(plan: &Arc<dyn ExecutionPlan>, given_up: &GivenUp) -> Option<Arc<dyn ExecutionPlan>> {
    let is_one = plan.is::<WindowAggExec>() || plan.is::<BoundedWindowAggExec>();
    is_one.then(|| of(Arc::clone(plan), given_up.clone()))
}

fn of(input: Arc<dyn ExecutionPlan>, given_up: GivenUp) -> Arc<dyn ExecutionPlan> {
    Arc::new(Scoped { input, given_up })
}

#[derive(Debug)]
struct Scoped {
    input: Arc<dyn ExecutionPlan>,
    given_up: GivenUp,
}

impl Scoped {
    fn over(self: &Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Arc<dyn ExecutionPlan> {
        let given_up = self.given_up.clone();
        children.pop().map_or_else(|| Arc::clone(self) as _, |input| of(input, given_up))
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
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, Rows { rows, given_up })))
    }
}

struct Rows {
    rows: SendableRecordBatchStream,
    given_up: GivenUp,
}

impl Stream for Rows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { rows, given_up } = &mut *self;
        GIVEN_UP.sync_scope(given_up.clone(), || rows.poll_next_unpin(cx))
    }
}
