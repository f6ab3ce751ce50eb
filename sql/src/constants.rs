//! Columns that are constant in an input need not be so behind it: a grouping set leaves keys out, for which NULL stands, and
//! the parts of a union have constants of their own. DataFusion takes both for constants where it sorts, leaves them out of the
//! order, and compares first rows of parts without them. So it is not told of constants there.

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion},
    },
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{EquivalenceProperties, PhysicalExpr},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties as _, PlanProperties,
        ReplaceChildrenOptions, aggregates::AggregateExec, union::UnionExec,
    },
};

/// The rule that comes before all others.
#[derive(Debug)]
pub(crate) struct HideConstants;

impl PhysicalOptimizerRule for HideConstants {
    fn name(&self) -> &str {
        "hide_constants"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let hide = |plan: Arc<dyn ExecutionPlan>| {
            let has_sets =
                plan.downcast_ref::<AggregateExec>().is_some_and(|of| !of.group_expr().is_single());
            // A key may be a constant itself.
            let is_hidden = match has_sets {
                true => has_constants(&plan),
                false => plan.is::<UnionExec>() && plan.children().into_iter().any(has_constants),
            };
            Ok(if is_hidden { Transformed::yes(hidden(&plan)) } else { Transformed::no(plan) })
        };
        plan.transform_up(hide).data()
    }
}

fn has_constants(plan: &Arc<dyn ExecutionPlan>) -> bool {
    !plan.equivalence_properties().constants().is_empty()
}

/// An input of whose constants nothing is known.
pub(crate) fn hidden(input: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let of_input = input.properties();
    let properties = PlanProperties::new(
        EquivalenceProperties::new(input.schema()),
        input.output_partitioning().clone(),
        of_input.emission_type,
        of_input.boundedness,
    );
    Arc::new(Hidden { input: Arc::clone(input), properties: Arc::new(properties) })
}

/// See [`hidden`].
#[derive(Debug)]
pub(crate) struct Hidden {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for Hidden {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for Hidden {
    fn name(&self) -> &str {
        "BasaltHidden"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
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
        Ok(children.first().map_or(self.clone() as _, hidden))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(children.first().map_or(self.clone() as _, hidden))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
