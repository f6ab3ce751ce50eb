//! Many first rows of an order come from a sort of all: a heap of them costs more for each row than to sort, may not spill,
//! and is not stopped while a batch goes through it.

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TransformedResult as _, TreeNode as _},
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{ExecutionPlan, limit::LocalLimitExec, sorts::sort::SortExec},
};

use crate::limits;

/// See the module.
#[derive(Debug)]
pub(crate) struct FullSort;

impl PhysicalOptimizerRule for FullSort {
    fn name(&self) -> &str {
        "full_sort"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let sorts = |plan: Arc<dyn ExecutionPlan>| {
            let Some(sort) = plan.downcast_ref::<SortExec>() else { return Ok(Transformed::no(plan)) };
            match sort.fetch() {
                Some(fetch) if fetch > limits::TOP_ROWS => {
                    let all = SortExec::new(sort.expr().clone(), Arc::clone(sort.input()))
                        .with_preserve_partitioning(sort.preserve_partitioning());
                    Ok(Transformed::yes(Arc::new(LocalLimitExec::new(Arc::new(all), fetch)) as _))
                }
                _ => Ok(Transformed::no(plan)),
            }
        };
        plan.transform_up(sorts).data()
    }
}
