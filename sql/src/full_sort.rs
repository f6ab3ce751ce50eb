//! Many first rows of an order, where they are a large part of all, come from a sort of all: a heap of them costs more for
//! each row than to sort, may not spill, and is not stopped while a batch goes through it.

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TransformedResult as _, TreeNode as _},
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan,
        limit::LocalLimitExec,
        sorts::sort::SortExec,
        statistics::{StatisticsArgs, StatisticsContext},
    },
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
                Some(fetch) if fetch > limits::TOP_ROWS && is_much_of(sort.input(), fetch)? => {
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

/// Whether so many rows are a large part of an input's, as far as it is known how many these are.
fn is_much_of(input: &Arc<dyn ExecutionPlan>, rows: usize) -> Result<bool> {
    let all = StatisticsContext::new().compute(input.as_ref(), &StatisticsArgs::new())?.num_rows;
    Ok(all.get_value().is_none_or(|all| *all / limits::TOP_ROWS_PART <= rows))
}
