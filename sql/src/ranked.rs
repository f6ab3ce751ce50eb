//! Windows that number the rows of each part, of which a filter keeps the first few: `row_number() OVER (PARTITION BY k
//! ORDER BY t DESC) = 1`. A row that has as many before it in what is read already is none of them: it is left out before the
//! rows go to other threads and are sorted. All else stays as it was planned, for what is left out is never an answer.

mod best;

use std::{fmt, sync::Arc};

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use datafusion::{
    arrow::compute::BatchCoalescer,
    common::{
        Result, ScalarValue,
        tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion},
    },
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr,
        expressions::{BinaryExpr, Column, Literal},
        split_conjunction,
        window::{StandardWindowExpr, WindowExpr},
    },
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        execution_plan::replace_children_if_necessary,
        filter::FilterExec,
        projection::ProjectionExec,
        repartition::RepartitionExec,
        sorts::{sort::SortExec, sort_preserving_merge::SortPreservingMergeExec},
        stream::RecordBatchStreamAdapter,
        windows::{BoundedWindowAggExec, WindowUDFExpr},
    },
};
use futures_util::{StreamExt as _, stream};

use self::best::{Best, By, Rule};
use crate::limits;

const NAME: &str = "BasaltRanked";

/// The same plan, in which rows are left out that such filters leave out.
pub(crate) fn ranked(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let leave_out = |plan: Arc<dyn ExecutionPlan>| {
        let Some(filter) = plan.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(plan)) };
        for condition in split_conjunction(filter.predicate()) {
            if let Some((column, first)) = first_rows(condition)
                && let Some(input) = below(filter.input(), column, first)?
            {
                return Ok(Transformed::yes(replace_children_if_necessary(plan, vec![input])?));
            }
        }
        Ok(Transformed::no(plan))
    };
    plan.transform_down(leave_out).data()
}

/// The column of numbers of which a condition leaves none but the first, and how many.
fn first_rows(condition: &Arc<dyn PhysicalExpr>) -> Option<(usize, usize)> {
    let both = condition.downcast_ref::<BinaryExpr>()?;
    let sides = (both.left().downcast_ref::<Column>(), both.right().downcast_ref::<Literal>());
    let (column, op, literal) = match sides {
        (Some(column), Some(literal)) => (column, *both.op(), literal),
        _ => {
            let literal = both.left().downcast_ref::<Literal>()?;
            (both.right().downcast_ref::<Column>()?, both.op().swap()?, literal)
        }
    };
    let ScalarValue::UInt64(Some(number)) = literal.value().cast_to(&DataType::UInt64).ok()? else {
        return None;
    };
    let first = match op {
        Operator::Eq | Operator::LtEq => number,
        Operator::Lt => number.checked_sub(1)?,
        _ => return None,
    };
    let is_few = literal.value().data_type().is_integer() && (1..=limits::RANKED_ROWS).contains(&first);
    is_few.then_some((column.index(), usize::try_from(first).ok()?))
}

/// The same window, between which and its filter no row is made or left out, over fewer rows; `None`: its rows all count.
fn below(
    plan: &Arc<dyn ExecutionPlan>,
    column: usize,
    first: usize,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let passed = if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let of = projection.expr().get(column).and_then(|of| of.expr.downcast_ref::<Column>());
        let Some(of) = of else { return Ok(None) };
        Some((projection.input(), of.index()))
    } else {
        plan.downcast_ref::<RepartitionExec>().map(|parts| (parts.input(), column))
    };
    if let Some((input, column)) = passed {
        return match below(input, column, first)? {
            Some(input) => replace_children_if_necessary(Arc::clone(plan), vec![input]).map(Some),
            None => Ok(None),
        };
    }
    let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() else { return Ok(None) };
    let at = column.checked_sub(window.input().schema().fields().len());
    let Some((by, rule)) = at.and_then(|at| rule(window.window_expr(), at)) else { return Ok(None) };
    let of = |input: &Arc<dyn ExecutionPlan>| -> Arc<dyn ExecutionPlan> {
        let (input, properties) = (Arc::clone(input), Arc::clone(input.properties()));
        Arc::new(Ranked { input, by: Arc::new(by), rule, first, properties })
    };
    match before_sort(window.input(), of)? {
        Some(sorted) => replace_children_if_necessary(Arc::clone(plan), vec![sorted]).map(Some),
        None => Ok(None),
    }
}

/// The same sort of other rows, before they go to the thread that their part is sorted by; `None`: it is none of all rows.
fn before_sort(
    plan: &Arc<dyn ExecutionPlan>,
    of: impl FnOnce(&Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let fewer = if let Some(merged) = plan.downcast_ref::<SortPreservingMergeExec>() {
        if merged.fetch().is_some() {
            return Ok(None);
        }
        let Some(sorted) = before_sort(merged.input(), of)? else { return Ok(None) };
        sorted
    } else {
        let Some(sort) = plan.downcast_ref::<SortExec>() else { return Ok(None) };
        if sort.fetch().is_some() {
            return Ok(None);
        }
        match sort.input().downcast_ref::<RepartitionExec>() {
            Some(parts) => replace_children_if_necessary(Arc::clone(sort.input()), vec![of(parts.input())])?,
            None => of(sort.input()),
        }
    };
    replace_children_if_necessary(Arc::clone(plan), vec![fewer]).map(Some)
}

/// What the window's functions number rows by, where none of them reads a row behind those with the number.
fn rule(functions: &[Arc<dyn WindowExpr>], at: usize) -> Option<(By, Rule)> {
    let name = |function: &Arc<dyn WindowExpr>| {
        let standard = function.as_any().downcast_ref::<StandardWindowExpr>()?;
        let function = standard.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>()?;
        Some(function.fun().name().to_owned())
    };
    let numbered = functions.get(at)?;
    let (parts, order) = (numbered.partition_by(), numbered.order_by());
    let mut rule = match name(numbered)?.as_str() {
        "row_number" => Rule::RowNumber,
        "rank" => Rule::Rank,
        _ => return None,
    };
    for function in functions {
        match name(function)?.as_str() {
            "row_number" => {}
            "rank" | "dense_rank" => rule = Rule::Rank,
            _ => return None,
        }
        if function.partition_by() != parts || function.order_by() != order {
            return None;
        }
    }
    // Without an order all are of the first rank.
    let leaves_out = rule == Rule::RowNumber || !order.is_empty();
    leaves_out.then(|| (By { parts: parts.to_vec(), order: order.to_vec() }, rule))
}

/// Leaves out rows that have as many of their part before them.
#[derive(Debug)]
struct Ranked {
    input: Arc<dyn ExecutionPlan>,
    by: Arc<By>,
    rule: Rule,
    first: usize,
    properties: Arc<PlanProperties>,
}

impl Ranked {
    fn over(&self, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Self {
        let input = children.pop().unwrap_or_else(|| Arc::clone(&self.input));
        let properties = Arc::clone(input.properties());
        Self { input, by: Arc::clone(&self.by), rule: self.rule, first: self.first, properties }
    }
}

impl DisplayAs for Ranked {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: first={}", self.name(), self.first)
    }
}

impl ExecutionPlan for Ranked {
    fn name(&self) -> &str {
        NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        of: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let order = self.by.order.iter().map(|key| &key.expr);
        for expr in self.by.parts.iter().chain(order) {
            if of(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.over(children)))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.over(children)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.input.schema();
        let memory = MemoryConsumer::new(self.name()).register(context.memory_pool());
        let state = State {
            best: Best::new(&self.by, &schema, self.rule, self.first)?,
            by: Arc::clone(&self.by),
            memory,
            rows: self.input.execute(partition, Arc::clone(&context))?,
            made: BatchCoalescer::new(Arc::clone(&schema), context.session_config().batch_size()),
            is_over: false,
        };
        let batches = stream::try_unfold(state, |mut state| async move {
            Ok(state.next().await?.map(|batch| (batch, state)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

/// One stream of rows.
struct State {
    /// `None`: it takes more than it saves, and nothing is left out any more.
    best: Option<Best>,
    by: Arc<By>,
    memory: MemoryReservation,
    rows: SendableRecordBatchStream,
    made: BatchCoalescer,
    is_over: bool,
}

impl State {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.made.next_completed_batch() {
                return Ok(Some(batch));
            }
            if self.is_over {
                return Ok(None);
            }
            let Some(batch) = self.rows.next().await.transpose()? else {
                self.is_over = true;
                self.best = None;
                self.memory.free();
                self.made.finish_buffered_batch()?;
                continue;
            };
            let Some(best) = &mut self.best else {
                self.made.push_batch(batch)?;
                continue;
            };
            let kept = best.kept(&self.by, &batch)?;
            self.made.push_batch_with_filter(batch, &kept)?;
            let bytes = best.bytes();
            if !best.is_worth_it() || bytes > limits::RANKED_BYTES || self.memory.try_resize(bytes).is_err() {
                self.best = None;
                self.memory.free();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::{
        arrow::util::pretty::pretty_format_batches,
        physical_plan::{collect, displayable},
        prelude::{SessionConfig, SessionContext},
    };

    use super::*;

    /// Rows of 40 parts, in no order. Some are equal in `o`, and in `n`, which have NULLs.
    async fn table(rows: usize) -> SessionContext {
        let session = SessionContext::new_with_config(
            SessionConfig::new().with_target_partitions(3).with_batch_size(500),
        );
        let made = format!(
            "CREATE TABLE t AS SELECT value AS id, value * 7919 % 100003 AS o, value * 31 % 40 AS k,
             nullif(value * 7 % 11, 3) AS n, 'v' || (value * 101 % 977) AS s FROM range({rows})"
        );
        session.sql(&made).await.unwrap().collect().await.unwrap();
        session
    }

    /// A query's rows, with and without what is left out, and the plan that leaves it out.
    async fn both(session: &SessionContext, query: &str) -> ([String; 2], String) {
        // Each is run once: their operators hold what they have begun.
        let plan = async || session.sql(query).await.unwrap().create_physical_plan().await.unwrap();
        let fewer = ranked(plan().await).unwrap();
        let shown = displayable(fewer.as_ref()).indent(false).to_string();
        let mut answers = Vec::new();
        for plan in [plan().await, fewer] {
            let batches = collect(plan, session.task_ctx()).await.unwrap();
            answers.push(pretty_format_batches(&batches).unwrap().to_string());
        }
        (answers.try_into().unwrap(), shown)
    }

    #[tokio::test]
    async fn first_rows_of_parts_are_the_same_without_those_behind_them() {
        let session = table(20_000).await;
        let of = |function: &str, over: &str, filter: &str| {
            format!(
                "SELECT * FROM (SELECT *, {function} OVER ({over}) AS r FROM t) WHERE {filter} ORDER BY id, r"
            )
        };
        for (function, over, filter) in [
            ("row_number()", "PARTITION BY k ORDER BY o, id", "r = 1"),
            ("row_number()", "PARTITION BY k ORDER BY o DESC, id", "r <= 3"),
            ("row_number()", "PARTITION BY k, n ORDER BY s DESC, id", "2 > r"),
            ("row_number()", "PARTITION BY k ORDER BY n NULLS FIRST, o, id", "r = 2"),
            ("row_number()", "PARTITION BY s ORDER BY n DESC NULLS LAST, id", "r <= 64 AND k > 3"),
            ("row_number()", "ORDER BY o, id", "r <= 5"),
            ("rank()", "PARTITION BY k ORDER BY n", "r = 1"),
            ("rank()", "PARTITION BY k ORDER BY n DESC", "r < 50"),
            ("rank()", "ORDER BY n", "r = 1"),
        ] {
            let query = of(function, over, filter);
            let ([all, fewer], plan) = both(&session, &query).await;
            assert!(plan.contains(NAME), "{query}\n{plan}");
            assert!(all.lines().count() > 4, "{query}");
            assert_eq!(all, fewer, "{query}");
        }
    }

    #[tokio::test]
    async fn other_functions_over_the_same_window_see_what_they_read() {
        let session = table(5000).await;
        for (more, expected) in [
            ("rank() OVER (PARTITION BY k ORDER BY n, id)", true),
            ("dense_rank() OVER (PARTITION BY k ORDER BY n, id)", true),
            ("count(*) OVER (PARTITION BY k ORDER BY n, id)", false),
            ("lead(id) OVER (PARTITION BY k ORDER BY n, id)", false),
            ("count(*) OVER (PARTITION BY k)", true),
            ("row_number() OVER (PARTITION BY s ORDER BY id)", true),
        ] {
            let query = format!(
                "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY n, id) AS r, {more} AS m FROM t)
                 WHERE r = 1 ORDER BY id"
            );
            let ([all, fewer], plan) = both(&session, &query).await;
            assert_eq!(all, fewer, "{query}");
            // Which of two windows is above is the planner's choice: the rows of one below are all there.
            assert!(expected || !plan.contains(NAME), "{query}\n{plan}");
        }
        for filter in ["r = 0", "r > 1", "r <> 1", "r <= 65", "r = k", "r < 1", "o = 1"] {
            let query = format!(
                "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY n, id) AS r FROM t) WHERE {filter} ORDER BY id"
            );
            let ([all, fewer], plan) = both(&session, &query).await;
            assert!(!plan.contains(NAME), "{query}\n{plan}");
            assert_eq!(all, fewer, "{query}");
        }
    }
}
