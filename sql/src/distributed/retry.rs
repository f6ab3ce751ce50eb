//! A statement that runs as tasks, or, where a node fails it, as ever: what only reads may be run again. So its first rows
//! are held back; an answer of no more than that fails with no node.

use std::sync::Arc;

use arrow_array::RecordBatch;
use basalt_core::error::ErrorKind;
use datafusion::{
    common::DataFusionError,
    execution::{SendableRecordBatchStream, SessionState},
    logical_expr::LogicalPlan,
    physical_plan::{ExecutionPlan, execute_stream, stream::RecordBatchStreamAdapter},
};
use futures_util::{StreamExt as _, stream};
use tokio::sync::watch;

use super::{
    channel::failure,
    planner::{Distributed, distributed},
};
use crate::{
    engine::{Request, Shared},
    error::{Error, Result},
    execute::execute,
    limits,
    plan::{catalog, context},
    ran::told,
};

/// Begins to run a plan: as tasks on all nodes where that pays.
pub(crate) async fn run(
    shared: &Shared,
    request: &Request,
    session: &SessionState,
    logical: &LogicalPlan,
    plan: Arc<dyn ExecutionPlan>,
) -> Result<SendableRecordBatchStream> {
    if let Some(tasks) = distributed(shared, request, session, logical, &plan).await? {
        match first(tasks).await {
            Ok(rows) => return Ok(rows),
            Err(error) if is_of_statement(&error) => return Err(error),
            Err(error) => request.catalog.failed(&error),
        }
    }
    execute(shared, session, logical, plan).await
}

/// Whether a statement fails so wherever it is run.
fn is_of_statement(error: &Error) -> bool {
    error.statement().is_some_and(|error| {
        use ErrorKind::{Cancelled, DeadlineExceeded, DivisionByZero, Overflow, TypeMismatch};
        matches!(error.kind(), DivisionByZero | Overflow | TypeMismatch | Cancelled | DeadlineExceeded)
    })
}

/// Runs tasks until the answer is complete, or too long to be held back.
async fn first(tasks: Distributed) -> Result<SendableRecordBatchStream> {
    let Distributed { plan, session, mut failed } = tasks;
    let schema = plan.schema();
    let rows = execute_stream(Arc::clone(&plan), context(&session))?;
    let mut rows = told(catalog(&session), &plan, rows);
    let (mut held, mut bytes) = (Vec::new(), 0);
    while bytes < limits::HELD_BYTES {
        match next(&mut rows, &mut failed).await? {
            Some(batch) => {
                bytes += batch.get_array_memory_size();
                held.push(Ok(batch));
            }
            None => {
                return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(held))));
            }
        }
    }
    let rest = stream::unfold(Some((rows, failed)), async |rest| {
        let (mut rows, mut failed) = rest?;
        match next(&mut rows, &mut failed).await {
            Ok(batch) => batch.map(|batch| (Ok(batch), Some((rows, failed)))),
            Err(error) => Some((Err(DataFusionError::from(error)), None)),
        }
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(held).chain(rest))))
}

async fn next(
    rows: &mut SendableRecordBatchStream,
    failed: &mut watch::Receiver<Option<Error>>,
) -> Result<Option<RecordBatch>> {
    tokio::select! {
        biased;
        error = failure(failed) => Err(error),
        next = rows.next() => Ok(next.transpose()?),
    }
}
