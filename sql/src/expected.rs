//! How many rows the operators of a plan should give, as EXPLAIN shows them. Scans are estimated by whoever has the tables, by a
//! sample of the rows; joins and groups follow from how many different keys there are. The planner does not wait for this: it
//! chooses by figures that cost nothing.

use std::{cell::RefCell, collections::HashMap, fmt::Write as _, sync::Arc, time::Instant};

use basalt_core::query::Expr as Value;
use datafusion::{
    common::{
        JoinSide, JoinType,
        display::{PlanType, StringifiedPlan},
    },
    execution::SessionState,
    logical_expr::LogicalPlan,
    physical_plan::{
        DisplayFormatType, ExecutionPlan, PhysicalExpr,
        aggregates::AggregateExec,
        coalesce_partitions::CoalescePartitionsExec,
        coop::CooperativeExec,
        displayable,
        explain::ExplainExec,
        filter::FilterExec,
        joins::{CrossJoinExec, HashJoinExec, SortMergeJoinExec},
        limit::{GlobalLimitExec, LocalLimitExec},
        projection::ProjectionExec,
        repartition::RepartitionExec,
        sorts::{sort::SortExec, sort_preserving_merge::SortPreservingMergeExec},
        union::UnionExec,
        windows::{BoundedWindowAggExec, WindowAggExec},
    },
};

use crate::{
    limits,
    scan::Scan,
    sideways::{Gather, column as column_of, projected},
};

/// The share of the rows that pass a condition above the scans of which nothing is known.
const SHARE: f64 = 1.0 / 3.0;

/// The same plan of EXPLAIN, which says of each operator how many rows it should give, as far as that can be told.
pub(crate) async fn told(
    session: &SessionState,
    logical: &LogicalPlan,
    physical: Arc<dyn ExecutionPlan>,
) -> Arc<dyn ExecutionPlan> {
    let (LogicalPlan::Explain(explain), Some(shown)) = (logical, physical.downcast_ref::<ExplainExec>())
    else {
        return physical;
    };
    // Each rule has a plan of its own there.
    if explain.verbose {
        return physical;
    }
    let Ok(inner) = session.create_physical_plan(&explain.plan).await else { return physical };
    let lines = displayable(inner.as_ref()).indent(false).to_string();
    let plans = shown.stringified_plans().iter().map(|plan| match plan.plan_type {
        // Other forms than this one have no lines to write to.
        PlanType::FinalPhysicalPlan if *plan.plan == lines => {
            StringifiedPlan::new(PlanType::FinalPhysicalPlan, with_rows(&inner))
        }
        _ => plan.clone(),
    });
    Arc::new(ExplainExec::new(physical.schema(), plans.collect(), false))
}

/// The lines of a plan, with what each operator should give.
fn with_rows(plan: &Arc<dyn ExecutionPlan>) -> String {
    let until = Instant::now() + limits::ESTIMATED_FOR;
    let estimates = Estimates { until, rows: RefCell::default(), distinct: RefCell::default() };
    let mut text = String::new();
    estimates.write(plan, 0, &mut text);
    text
}

/// What is known of the operators of one plan: each is asked once, and none any more once that has taken its time.
struct Estimates {
    until: Instant,
    /// By the address of the operator.
    rows: RefCell<HashMap<*const (), Option<f64>>>,
    /// By the address of the scan, and what the keys are there.
    distinct: RefCell<HashMap<(*const Scan, String), Option<f64>>>,
}

impl Estimates {
    fn write(&self, plan: &Arc<dyn ExecutionPlan>, depth: usize, text: &mut String) {
        struct Line<'a>(&'a dyn ExecutionPlan);
        impl std::fmt::Display for Line<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt_as(DisplayFormatType::Default, f)
            }
        }
        let _ = write!(text, "{:indent$}{}", "", Line(plan.as_ref()), indent = 2 * depth);
        let _ = match self.rows(plan) {
            Some(rows) => writeln!(text, ", rows=~{rows:.0}"),
            None => writeln!(text),
        };
        plan.children().into_iter().for_each(|child| self.write(child, depth + 1, text));
    }

    /// How many rows an operator should give; `None`: that cannot be told.
    fn rows(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<f64> {
        let at = Arc::as_ptr(plan).cast::<()>();
        if let Some(known) = self.rows.borrow().get(&at) {
            return *known;
        }
        let rows = self.rows_of(plan);
        self.rows.borrow_mut().insert(at, rows);
        rows
    }

    /// How many different keys a scan has.
    fn distinct_of(&self, scan: &Scan, keys: &[Value]) -> Option<f64> {
        let at = (std::ptr::from_ref(scan), format!("{keys:?}"));
        if let Some(known) = self.distinct.borrow().get(&at) {
            return *known;
        }
        let distinct = self.has_time().then(|| scan.distinct(keys).map(float)).flatten();
        self.distinct.borrow_mut().insert(at, distinct);
        distinct
    }

    fn has_time(&self) -> bool {
        Instant::now() < self.until
    }
}

impl Estimates {
    fn rows_of(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<f64> {
        if let Some(scan) = plan.downcast_ref::<Scan>() {
            return self.has_time().then(|| scan.expected().map(float)).flatten();
        }
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            let on: Vec<_> = join.on().iter().map(|(left, right)| (left, right)).collect();
            let joined = self.joined((join.left(), join.right()), &on, *join.join_type())?;
            return Some(if join.filter().is_some() { joined * SHARE } else { joined });
        }
        if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
            let on: Vec<_> = join.on().iter().map(|(left, right)| (left, right)).collect();
            let joined = self.joined((join.left(), join.right()), &on, join.join_type())?;
            return Some(if join.filter().is_some() { joined * SHARE } else { joined });
        }
        let mut below = plan.children().into_iter();
        if plan.is::<UnionExec>() {
            return below.map(|plan| self.rows(plan)).sum();
        }
        if plan.is::<CrossJoinExec>() {
            return below.map(|plan| self.rows(plan)).product();
        }
        let input = below.next()?;
        if below.next().is_some() {
            return None;
        }
        if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            let keys = aggregate.group_expr();
            if keys.is_empty() {
                return Some(1.0);
            }
            if keys.has_grouping_set() {
                return None;
            }
            let keys: Vec<_> = keys.expr().iter().map(|(key, _)| key).collect();
            return Some(self.distinct(input, &keys)?.min(self.rows(input)?));
        }
        let given = self.rows(input)?;
        if plan.is::<FilterExec>() {
            return Some(given * SHARE);
        }
        if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
            let left = (given - float(limit.skip() as u64)).max(0.0);
            return Some(limit.fetch().map_or(left, |most| left.min(float(most as u64))));
        }
        let passes = is_passing(plan)
            || plan.is::<ProjectionExec>()
            || plan.is::<LocalLimitExec>()
            || plan.is::<WindowAggExec>()
            || plan.is::<BoundedWindowAggExec>();
        passes.then(|| plan.fetch().map_or(given, |most| given.min(float(most as u64))))
    }

    /// The rows of a join by equal keys: each row has as many partners as the other side has rows for each of the keys that
    /// there are at all, of which the side that has fewer has some.
    fn joined(
        &self,
        (left, right): (&Arc<dyn ExecutionPlan>, &Arc<dyn ExecutionPlan>),
        on: &[(&Key, &Key)],
        kind: JoinType,
    ) -> Option<f64> {
        let (of_left, of_right) = (self.rows(left)?, self.rows(right)?);
        let (left_keys, right_keys): (Vec<_>, Vec<_>) = on.iter().copied().unzip();
        // Default: a side of which nothing is known has a key for each row.
        let distinct_left = self.distinct(left, &left_keys).unwrap_or(of_left);
        let distinct_right = self.distinct(right, &right_keys).unwrap_or(of_right);
        let keys = distinct_left.max(distinct_right).max(1.0);
        let inner = of_left * of_right / keys;
        let of_side = |own: f64, other: f64| own.min(own * other / keys);
        let (left_met, right_met) = (of_side(of_left, of_right), of_side(of_right, of_left));
        Some(match kind {
            JoinType::Inner => inner,
            JoinType::Left => inner.max(of_left),
            JoinType::Right => inner.max(of_right),
            JoinType::Full => inner.max(of_left).max(of_right),
            JoinType::LeftSemi => left_met,
            JoinType::RightSemi => right_met,
            JoinType::LeftAnti => of_left - left_met,
            JoinType::RightAnti => of_right - right_met,
            JoinType::LeftMark => of_left,
            JoinType::RightMark => of_right,
        })
    }

    /// How many different keys an input can have, if nothing is left out of the scan that they come from.
    fn distinct(&self, input: &Arc<dyn ExecutionPlan>, keys: &[&Key]) -> Option<f64> {
        let columns = keys.iter().map(|key| {
            let column = column_of(key, &input.schema())?;
            origin(input, column)
        });
        let columns = columns.collect::<Option<Vec<_>>>()?;
        let (first, _) = *columns.first()?;
        if columns.iter().all(|(scan, _)| std::ptr::eq(*scan, first)) {
            let values: Vec<_> = columns.into_iter().map(|(_, value)| value.clone()).collect();
            return self.distinct_of(first, &values);
        }
        columns.into_iter().map(|(scan, value)| self.distinct_of(scan, std::slice::from_ref(value))).product()
    }
}

/// Whether an operator gives the rows and the columns of its input.
fn is_passing(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<CooperativeExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<Gather>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>()
}

type Key = Arc<dyn PhysicalExpr>;

/// The scan that a column comes from, and what it is there.
fn origin(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Option<(&Scan, &Value)> {
    if let Some(scan) = plan.downcast_ref::<Scan>() {
        return Some((scan, scan.value(column)?));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let expr = &projection.expr().get(column)?.expr;
        return origin(projection.input(), column_of(expr, &projection.input().schema())?);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let column = projected(filter.projection().as_deref(), column)?;
        return origin(filter.input(), column);
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let (key, _) = aggregate.group_expr().expr().get(column)?;
        return origin(aggregate.input(), column_of(key, &aggregate.input().schema())?);
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let column = projected(join.projection.as_deref(), column)?;
        let of_left = join.left().schema().fields().len();
        let side = match join.join_type() {
            JoinType::LeftSemi | JoinType::LeftAnti => JoinSide::Left,
            JoinType::RightSemi | JoinType::RightAnti => JoinSide::Right,
            _ if column < of_left => JoinSide::Left,
            _ => JoinSide::Right,
        };
        return match side {
            JoinSide::Left => origin(join.left(), column),
            _ => origin(join.right(), column.checked_sub(if is_right_alone(join) { 0 } else { of_left })?),
        };
    }
    let mut below = plan.children().into_iter();
    let input = below.next()?;
    (is_passing(plan) && below.next().is_none()).then(|| origin(input, column))?
}

fn is_right_alone(join: &HashJoinExec) -> bool {
    matches!(join.join_type(), JoinType::RightSemi | JoinType::RightAnti)
}

#[allow(clippy::cast_precision_loss, reason = "an estimate")]
fn float(n: u64) -> f64 {
    n as f64
}
