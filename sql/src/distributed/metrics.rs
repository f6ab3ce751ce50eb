//! What a task tells of its operators, for EXPLAIN ANALYZE: rows, times and bytes, and nothing that is an estimate.

use std::{borrow::Cow, sync::Arc};

use datafusion::physical_plan::metrics::{Count, Metric, MetricValue, MetricsSet, Time};
use datafusion_distributed::TaskMetrics;
use prost::Message;

use crate::limits;

#[derive(Clone, PartialEq, Message)]
struct Told {
    /// In the order in which a walk down the plan meets them.
    #[prost(message, repeated, tag = "1")]
    operators: Vec<Operator>,
}

#[derive(Clone, PartialEq, Message)]
struct Operator {
    #[prost(message, repeated, tag = "1")]
    values: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(uint64, tag = "2")]
    value: u64,
    #[prost(bool, tag = "3")]
    is_time: bool,
}

/// For another node.
pub(super) fn encode(metrics: &TaskMetrics) -> Vec<u8> {
    let operators = metrics.pre_order_plan_metrics.iter().map(|set| {
        let set = set.aggregate_by_name();
        let values = set.iter().filter_map(|metric| {
            let is_time = match metric.value() {
                MetricValue::OutputRows(_) | MetricValue::Count { .. } | MetricValue::OutputBytes(_) => false,
                MetricValue::ElapsedCompute(_) | MetricValue::Time { .. } => true,
                _ => return None,
            };
            let (name, value) = (metric.value().name().to_owned(), metric.value().as_usize() as u64);
            Some(Value { name, value, is_time })
        });
        Operator { values: values.collect() }
    });
    Told { operators: operators.collect() }.encode_to_vec()
}

/// Of another node; what is not understood is left out.
pub(super) fn decode(bytes: &[u8]) -> TaskMetrics {
    // Default: it has told of nothing.
    let told = Told::decode(bytes).unwrap_or_default();
    let operators = told.operators.into_iter().take(limits::TASK_OPERATORS).map(|operator| {
        let mut set = MetricsSet::new();
        operator.values.into_iter().for_each(|value| set.push(Arc::new(Metric::new(metric(value), None))));
        set
    });
    TaskMetrics { pre_order_plan_metrics: operators.collect(), task_metrics: MetricsSet::new() }
}

fn metric(Value { name, value, is_time }: Value) -> MetricValue {
    let count = || {
        let count = Count::new();
        count.add(usize::try_from(value).unwrap_or(usize::MAX));
        count
    };
    let time = || {
        let time = Time::new();
        time.add_duration(std::time::Duration::from_nanos(value));
        time
    };
    match (name.as_str(), is_time) {
        ("output_rows", _) => MetricValue::OutputRows(count()),
        ("elapsed_compute", _) => MetricValue::ElapsedCompute(time()),
        ("output_bytes", _) => MetricValue::OutputBytes(count()),
        (_, true) => MetricValue::Time { name: Cow::Owned(name), time: time() },
        (_, false) => MetricValue::Count { name: Cow::Owned(name), count: count() },
    }
}
