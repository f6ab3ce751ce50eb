//! Which plans take little time, so that their statements need not wait among those that take long.

use std::sync::Arc;

use datafusion::physical_plan::{ExecutionPlan, statistics::StatisticsArgs};

use crate::{limits, scan::Scan};

/// Operators that take about as long as their inputs and what they give are large.
const OPERATORS: [&str; 24] = [
    "AggregateExec",
    "BasaltSip",
    "BoundedWindowAggExec",
    "CoalesceBatchesExec",
    "CoalescePartitionsExec",
    "CooperativeExec",
    "CrossJoinExec",
    "EmptyExec",
    "ExplainExec",
    "FilterExec",
    "GlobalLimitExec",
    "HashJoinExec",
    "InterleaveExec",
    "LocalLimitExec",
    "NestedLoopJoinExec",
    "PartialSortExec",
    "PlaceholderRowExec",
    "ProjectionExec",
    "RepartitionExec",
    "SortExec",
    "SortExec(TopK)",
    "SortPreservingMergeExec",
    "UnionExec",
    "WindowAggExec",
];

/// Whether a plan takes little time, as far as it can be told: its scans do, and all rows of one with all of the others are
/// few. What reads a file, makes rows of nothing, or goes round is not known.
pub(crate) fn is_light(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let (mut scans, mut bytes) = (0, 1);
    weigh(plan, &mut scans, &mut bytes)
}

fn weigh(plan: &Arc<dyn ExecutionPlan>, scans: &mut usize, bytes: &mut u64) -> bool {
    let of_leaf = match plan.downcast_ref::<Scan>() {
        Some(scan) => Some(scan.light_bytes()),
        // Values of the statement itself.
        None if plan.name() == "DataSourceExec" => Some(bytes_of_values(plan)),
        None => None,
    };
    match of_leaf {
        Some(Some(more)) => {
            *scans += 1;
            *bytes = bytes.saturating_mul(more.max(1));
            *scans <= limits::LIGHT_SCANS && *bytes <= limits::LIGHT_PLAN_BYTES
        }
        Some(None) => false,
        None => {
            let inputs = plan.children();
            OPERATORS.contains(&plan.name()) && inputs.into_iter().all(|input| weigh(input, scans, bytes))
        }
    }
}

fn bytes_of_values(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    let statistics = plan.statistics_from_inputs(&[], &StatisticsArgs::default()).ok()?;
    let bytes = statistics.total_byte_size.get_value().or(statistics.num_rows.get_value())?;
    u64::try_from(*bytes).ok()
}
