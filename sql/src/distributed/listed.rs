//! Which operators another node may send: those that read what is below them. None reads or writes files, and none that is
//! not listed here is made.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{TreeNode as _, TreeNodeRecursion},
    logical_expr::{Expr, LogicalPlan},
    physical_plan::{ExecutionPlan, aggregates::AggregateExec, joins::HashJoinExec, limit::GlobalLimitExec},
};
use datafusion_proto::protobuf::{PhysicalPlanNode, physical_plan_node::PhysicalPlanType as Type};
use prost::Message as _;

use super::codec;
use crate::{
    error::{Error, Result},
    limits,
};

/// What is known of a task's plan before anything of it is made.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// Its leaves, as they were encoded.
    pub(super) leaves: Vec<Vec<u8>>,
    nodes: usize,
}

/// Reads the operators of a task; those that are not listed are refused.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(plan: &[u8]) -> Result<(PhysicalPlanNode, Checked)> {
    if plan.len() > limits::TASK_BYTES {
        return Err(refused(format!("a plan of {} bytes; the limit is {}", plan.len(), limits::TASK_BYTES)));
    }
    // It nests no deeper than prost reads messages.
    let root = PhysicalPlanNode::decode(plan).map_err(|error| refused(format!("not a plan: {error}")))?;
    let mut checked = Checked::default();
    checked.node(&root)?;
    Ok((root, checked))
}

impl Checked {
    fn node(&mut self, node: &PhysicalPlanNode) -> Result<()> {
        self.nodes += 1;
        if self.nodes > limits::TASK_OPERATORS {
            return Err(refused(format!("more than {} operators", limits::TASK_OPERATORS)));
        }
        let kind = node.physical_plan_type.as_ref().ok_or_else(|| refused("an operator without a kind"))?;
        let (one, two) = match kind {
            Type::Projection(node) => (&node.input, None),
            Type::Filter(node) => (&node.input, None),
            Type::Aggregate(node) => (&node.input, None),
            Type::Sort(node) => (&node.input, None),
            Type::SortPreservingMerge(node) => (&node.input, None),
            Type::Merge(node) => (&node.input, None),
            Type::Repartition(node) => (&node.input, None),
            Type::GlobalLimit(node) => (&node.input, None),
            Type::LocalLimit(node) => (&node.input, None),
            Type::Window(node) => (&node.input, None),
            Type::Cooperative(node) => (&node.input, None),
            Type::HashJoin(node) => (&node.left, Some(&node.right)),
            Type::SortMergeJoin(node) => (&node.left, Some(&node.right)),
            Type::CrossJoin(node) => (&node.left, Some(&node.right)),
            Type::Union(node) => return node.inputs.iter().try_for_each(|input| self.node(input)),
            Type::Interleave(node) => return node.inputs.iter().try_for_each(|input| self.node(input)),
            Type::Extension(extension) => {
                if let Some(leaf) = codec::leaf(&extension.node)? {
                    self.leaves.push(leaf);
                }
                return extension.inputs.iter().try_for_each(|input| self.node(input));
            }
            _ => return Err(refused("an operator that no task has")),
        };
        for input in [Some(one), two].into_iter().flatten() {
            let input = input.as_ref().ok_or_else(|| refused("an operator without its input"))?;
            self.node(input)?;
        }
        Ok(())
    }
}

/// Operators of statements that are run as tasks, beside those of `datafusion-distributed`. A join of all rows with all is
/// none of them: its condition stops it, where nobody waits any longer, in the process of its statement alone.
const OPERATORS: [&str; 22] = [
    "BasaltScan",
    "BasaltHidden",
    "BasaltSip",
    "ProjectionExec",
    "FilterExec",
    "AggregateExec",
    "SortExec",
    "SortExec(TopK)",
    "SortPreservingMergeExec",
    "CoalescePartitionsExec",
    "RepartitionExec",
    "GlobalLimitExec",
    "LocalLimitExec",
    "WindowAggExec",
    "BoundedWindowAggExec",
    "CooperativeExec",
    "HashJoinExec",
    "SortMergeJoinExec",
    "CrossJoinExec",
    "UnionExec",
    "InterleaveExec",
    "AnalyzeExec",
];

/// What those add.
const OF_STAGES: [&str; 7] = [
    "DistributedExec",
    "DistributedAnalyzeExec",
    "DistributedLeafExec",
    "NetworkShuffleExec",
    "NetworkCoalesceExec",
    "NetworkBroadcastExec",
    "BroadcastExec",
];

/// Whether all operators of a plan may be run as tasks.
pub(super) fn all(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut all = true;
    let visited = plan.apply(|node| {
        let name = node.name();
        let is_listed = (OPERATORS.contains(&name) || OF_STAGES.contains(&name)) && is_shared(node);
        all &= is_listed;
        Ok(if is_listed { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    all && visited.is_ok()
}

/// Whether an operator means the same in each of several tasks, and travels whole.
fn is_shared(node: &Arc<dyn ExecutionPlan>) -> bool {
    // A null on the other side decides about all rows, and each task has some of that side alone.
    let is_of_all = node.downcast_ref::<HashJoinExec>().is_some_and(|join| join.null_aware);
    // The one group of `GROUPING SETS (())` has nothing that its rows could be brought together by.
    let is_without_keys = node.downcast_ref::<AggregateExec>().is_some_and(|aggregate| {
        let keys = aggregate.group_expr();
        keys.has_grouping_set() && keys.expr().is_empty()
    });
    // As long as DataFusion's encoding takes numbers of rows to be.
    let is_long = |rows: usize| u32::try_from(rows).is_err();
    let skips = node.downcast_ref::<GlobalLimitExec>().is_some_and(|limit| is_long(limit.skip()));
    !(is_of_all || is_without_keys || skips || node.fetch().is_some_and(is_long))
}

/// Whether a statement has a function of a window with FILTER, DISTINCT, or IGNORE NULLS: of some of these DataFusion's encoding
/// leaves that out.
pub(super) fn has_window_of_some(logical: &LogicalPlan) -> bool {
    let mut found = false;
    let visited = logical.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::WindowFunction(call) = expr {
                    let of = &call.params;
                    found |= of.filter.is_some() || of.distinct || of.null_treatment.is_some();
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    found || visited.is_err()
}

/// The error of a task that is not run here.
pub(super) fn refused(why: impl std::fmt::Display) -> Error {
    Error::invalid(format!("a task that is not run here: {why}"))
}
