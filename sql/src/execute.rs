//! How a plan runs at this node. A hash join keeps one side in memory, and cannot spill it, nor does the engine what it groups
//! and sorts; where that does not fit, and there is a disk for what does not, the statement is planned again with joins of sorted
//! rows, and with groups and orders that are DataFusion's.

use std::sync::Arc;

use basalt_core::error::ErrorKind;
use datafusion::{
    common::{DataFusionError, JoinType},
    execution::{SendableRecordBatchStream, SessionState},
    logical_expr::LogicalPlan,
    physical_plan::{
        ExecutionPlan, execute_stream,
        joins::{HashJoinExec, SortMergeJoinExec},
        stream::RecordBatchStreamAdapter,
    },
};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::{
    engine::Shared,
    error::{Error, Result},
    plan::{catalog, context, physical},
    ran::told,
    ranked::ranked,
    rules::unfused,
    scan::Scan,
    yielding::yielding,
};

/// Begins to run the plan of a statement.
pub(crate) async fn execute(
    shared: &Shared,
    session: &SessionState,
    logical: &LogicalPlan,
    plan: Arc<dyn ExecutionPlan>,
) -> Result<SendableRecordBatchStream> {
    let joins = has(&plan, &|plan| plan.is::<HashJoinExec>());
    let gathers = has(&plan, &|plan| plan.downcast_ref::<Scan>().is_some_and(Scan::gathers));
    let may_spill = shared.disk.tmp_files_enabled() && (joins || gathers);
    let mut rows = begun(session, plan)?;
    if !may_spill {
        return Ok(rows);
    }
    // What was handed out is not taken back; a side, and what is grouped, is complete in memory before the first row is.
    let first = match rows.next().await {
        Some(Err(error)) => {
            let error = Error::from(error);
            if !error.is_of_memory() {
                return Err(error);
            }
            drop(rows);
            let mut session = if gathers { unfused(session) } else { session.clone() };
            session.config_mut().options_mut().optimizer.prefer_hash_join = false;
            let plan = physical(&session, logical).await?;
            // DataFusion's joins of sorted rows fail at some conditions beside those of their keys, and semi-joins panic at NaN
            // where the keys of one batch go on in the next.
            if has(&plan, &|plan| {
                plan.downcast_ref::<SortMergeJoinExec>()
                    .is_some_and(|join| join.filter().is_some() || looks_for_floats(join))
            }) {
                return Err(error);
            }
            let rows = begun(&session, plan)?;
            let schema = rows.schema();
            // Where they fail it is as it was without them.
            let rows = rows.map_err(move |other| {
                let other = Error::from(other);
                DataFusionError::from(if is_of_join(&other) { error.clone() } else { other })
            });
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)));
        }
        first => first,
    };
    let schema = rows.schema();
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(first).chain(rows))))
}

fn begun(session: &SessionState, plan: Arc<dyn ExecutionPlan>) -> Result<SendableRecordBatchStream> {
    let plan = yielding(ranked(plan)?)?;
    let rows = execute_stream(Arc::clone(&plan), context(session))?;
    Ok(told(catalog(session), &plan, rows))
}

/// Whether it is a semi-join or an anti-join by floats.
fn looks_for_floats(join: &SortMergeJoinExec) -> bool {
    use JoinType::{LeftAnti, LeftMark, LeftSemi, RightAnti, RightMark, RightSemi};
    let schema = join.left().schema();
    matches!(join.join_type(), LeftAnti | LeftMark | LeftSemi | RightAnti | RightMark | RightSemi)
        && join.on().iter().any(|(key, _)| key.data_type(&schema).is_ok_and(|of| of.is_floating()))
}

/// Whether it is a join that failed, and not the statement.
fn is_of_join(error: &Error) -> bool {
    error.statement().is_some_and(|error| error.kind() == ErrorKind::InvalidQuery)
}

fn has(plan: &Arc<dyn ExecutionPlan>, is_one: &dyn Fn(&Arc<dyn ExecutionPlan>) -> bool) -> bool {
    is_one(plan) || plan.children().into_iter().any(|child| has(child, is_one))
}
