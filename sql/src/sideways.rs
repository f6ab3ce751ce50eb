//! Sideways information passing within a statement: the keys that the build side of a hash join has are one more condition
//! of the scans that its other side reads, so that the engine leaves out on encoded columns what would be decoded to find no
//! partner. The join tests every row all the same.
//!
//! A column is followed down to its scan by its place, never by its name: columns of several tables may have one name.

mod gather;
mod keys;
mod trace;

use std::sync::Arc;

use datafusion::{
    common::{
        JoinType, NullEquality, Result,
        config::ConfigOptions,
        tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion},
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties as _, coalesce_partitions::CoalescePartitionsExec,
        coop::CooperativeExec, joins::HashJoinExec, projection::ProjectionExec,
        recursive_query::RecursiveQueryExec, repartition::RepartitionExec, replace_children_if_necessary,
    },
};

use crate::{limits, scan::Scan};

pub(crate) use gather::Gather;
pub(crate) use keys::Keys;
pub(crate) use trace::{column, projected};

/// See the module.
#[derive(Debug)]
pub(crate) struct Sideways;

impl PhysicalOptimizerRule for Sideways {
    fn name(&self) -> &str {
        "sideways"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // What runs as tasks of several nodes has its build sides elsewhere.
        if !options.optimizer.enable_join_dynamic_filter_pushdown {
            return Ok(plan);
        }
        let joins = |plan: Arc<dyn ExecutionPlan>| {
            if plan.is::<RecursiveQueryExec>() {
                // Its build sides are others each time round.
                return Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump));
            }
            match plan.downcast_ref::<HashJoinExec>().map(passing).transpose()?.flatten() {
                Some(join) => Ok(Transformed::yes(join)),
                None => Ok(Transformed::no(plan)),
            }
        };
        plan.transform_down(joins).data()
    }
}

/// The same join, whose build side tells its keys; `None`: no scan of the other side could leave anything out.
fn passing(join: &HashJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    // Rows of the other side that find no partner have no part in the answer.
    let drops = match join.join_type() {
        JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::RightSemi => true,
        // A null among the other side's rows tells something, too.
        JoinType::LeftAnti => !join.null_aware,
        _ => false,
    };
    if !drops || join.null_equality() != NullEquality::NullEqualsNothing || !selects(join.left()) {
        return Ok(None);
    }
    let (mut asked, mut told) = (Arc::clone(join.right()), Vec::new());
    let (source, parts) = source(join.left());
    for (build, probe) in join.on() {
        let data_type = build.data_type(&source.schema())?;
        let Some(place) = trace::column(probe, &asked.schema()) else { continue };
        let Some(keys) = Keys::new(build.to_string(), &data_type, parts) else { continue };
        let keys = Arc::new(keys);
        if let Some(pruned) = trace::asked(&asked, place, &keys)? {
            asked = pruned;
            told.push((Arc::clone(build), keys));
        }
    }
    if told.is_empty() {
        return Ok(None);
    }
    let build = gathering(join.left(), &mut |source| Arc::new(Gather::new(source, told.clone())))?;
    Ok(Some(join.builder().with_new_children(vec![build, asked])?.build_exec()?))
}

/// Whether an operator's rows may lack keys that the other side has: else they are not worth gathering.
fn selects(plan: &Arc<dyn ExecutionPlan>) -> bool {
    match plan.downcast_ref::<Scan>() {
        Some(scan) => scan.selects_some() || scan.most_rows() <= limits::FEW_KEYS,
        None if plan.is::<ProjectionExec>() || plan.is::<CooperativeExec>() || exchanges(plan) => {
            plan.children().into_iter().all(selects)
        }
        None => true,
    }
}

/// Whether an operator gives the rows that it is given, to others.
fn exchanges(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<CoalescePartitionsExec>() || plan.is::<RepartitionExec>()
}

/// What gives the rows of a build side, before they are shared out, and in how many parts.
fn source(plan: &Arc<dyn ExecutionPlan>) -> (&Arc<dyn ExecutionPlan>, usize) {
    match plan.children().as_slice() {
        [child] if exchanges(plan) => source(child),
        _ => (plan, plan.output_partitioning().partition_count()),
    }
}

/// The same build side, whose source is another: all keys are known there before the first of its parts has ended.
fn gathering(
    plan: &Arc<dyn ExecutionPlan>,
    gather: &mut dyn FnMut(Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    match plan.children().as_slice() {
        [child] if exchanges(plan) => {
            let child = gathering(child, gather)?;
            replace_children_if_necessary(Arc::clone(plan), vec![child])
        }
        _ => Ok(gather(Arc::clone(plan))),
    }
}
