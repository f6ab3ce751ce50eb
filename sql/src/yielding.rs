//! Joins give way now and then. One that makes very many rows of few would else not be stopped before it ends: a task
//! ends where it waits, and what it reads may be read long since.

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        tree_node::{Transformed, TransformedResult as _, TreeNode as _},
    },
    physical_plan::{
        ExecutionPlan,
        coop::CooperativeExec,
        joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec},
    },
};

use crate::{
    interruptible::{GivenUp, interruptible},
    scoped::scoped,
};

/// The same plan, whose joins give way after a few batches, and those with a condition, and what is [`scoped`], before.
pub(crate) fn yielding(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let given_up = GivenUp::of_task();
    let give_way = |plan: Arc<dyn ExecutionPlan>| {
        if let Some(scoped) = scoped(&plan, &given_up)? {
            return Ok(Transformed::yes(scoped));
        }
        let interruptible = interruptible(&*plan, &given_up)?;
        Ok(giving_way(interruptible.unwrap_or(plan)))
    };
    plan.transform_up(give_way).data()
}

/// The same plan, whose joins give way after a few batches.
pub(crate) fn cooperative(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|plan| Ok(giving_way(plan))).data()
}

fn giving_way(plan: Arc<dyn ExecutionPlan>) -> Transformed<Arc<dyn ExecutionPlan>> {
    let joins = plan.is::<HashJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<SortMergeJoinExec>();
    match joins {
        true => Transformed::yes(Arc::new(CooperativeExec::new(plan)) as Arc<dyn ExecutionPlan>),
        false => Transformed::no(plan),
    }
}
