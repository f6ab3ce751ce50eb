//! What runs for a statement, told to whoever has the tables: the operators above the scans, and once they are done how much of
//! their rows went to the disk.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::{
    common::Result,
    execution::{RecordBatchStream, SendableRecordBatchStream},
    physical_plan::{
        ExecutionPlan,
        metrics::{Count, MetricValue},
    },
};
use futures_util::Stream;

use crate::catalog::Catalog;

/// Operators that do next to nothing with rows, or are leaves.
const PASSING: [&str; 15] = [
    "BasaltHidden",
    "BasaltScan",
    "BasaltScoped",
    "BasaltSip",
    "CoalesceBatchesExec",
    "CoalescePartitionsExec",
    "CooperativeExec",
    "DataSourceExec",
    "EmptyExec",
    "GlobalLimitExec",
    "LocalLimitExec",
    "PlaceholderRowExec",
    "ProjectionExec",
    "RepartitionExec",
    "SortPreservingMergeExec",
];

/// The rows of a plan that runs. The catalog is told what it is of, and, when nobody reads them any longer, what it has spilled.
pub(crate) fn told(
    catalog: Option<Arc<dyn Catalog>>,
    plan: &Arc<dyn ExecutionPlan>,
    rows: SendableRecordBatchStream,
) -> SendableRecordBatchStream {
    let Some(catalog) = catalog else { return rows };
    let mut operators = Vec::new();
    gather(plan, &mut operators);
    catalog.runs_above(&operators);
    match operators.is_empty() {
        true => rows,
        false => Box::pin(Told { catalog, plan: Some(Arc::clone(plan)), spilled: Vec::new(), rows }),
    }
}

/// The names of the operators, each once, those that work first first.
fn gather<'a>(plan: &'a Arc<dyn ExecutionPlan>, names: &mut Vec<&'a str>) {
    plan.children().into_iter().for_each(|child| gather(child, names));
    let name = plan.name();
    if !PASSING.contains(&name) {
        // Default: it has no such end.
        let name = name.strip_suffix("Exec").unwrap_or(name);
        if !names.contains(&name) {
            names.push(name);
        }
    }
}

/// What operators count of the bytes that they write to the disk.
fn spilled(plan: &Arc<dyn ExecutionPlan>, counts: &mut Vec<Count>) {
    // Default: it does not measure what it does.
    let own = plan.metrics().unwrap_or_default();
    counts.extend(own.iter().filter_map(|metric| match metric.value() {
        MetricValue::SpilledBytes(bytes) => Some(bytes.clone()),
        _ => None,
    }));
    plan.children().into_iter().for_each(|child| spilled(child, counts));
}

struct Told {
    catalog: Arc<dyn Catalog>,
    /// Until all of its operators have begun: it holds what they hold.
    plan: Option<Arc<dyn ExecutionPlan>>,
    spilled: Vec<Count>,
    rows: SendableRecordBatchStream,
}

impl Stream for Told {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.rows.as_mut().poll_next(context);
        if let Some(plan) = self.plan.take() {
            spilled(&plan, &mut self.spilled);
        }
        polled
    }
}

impl RecordBatchStream for Told {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let bytes: usize = self.spilled.iter().map(Count::value).sum();
        if bytes > 0 {
            self.catalog.spilled(bytes as u64);
        }
    }
}
