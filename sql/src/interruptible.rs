//! Conditions of joins that compare every row with every other, or all rows of a key with each other. Such a join may work
//! for hours between two rows of its answer, and gives way only with a row: so its condition looks whether the answer is
//! still wanted, and has the thread's other statements go on elsewhere.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use arrow_array::RecordBatch;
use arrow_schema::{FieldRef, Schema};
use basalt_core::error::ErrorKind;
use datafusion::{
    common::Result,
    logical_expr::ColumnarValue,
    physical_plan::{
        ExecutionPlan, PhysicalExpr,
        joins::{NestedLoopJoinExec, SortMergeJoinExec, utils::JoinFilter},
    },
};

use crate::{error::Error, limits::TURN};

/// Whether nobody waits for a statement's answer any longer.
#[derive(Clone, Debug, Default)]
pub(crate) struct GivenUp(Arc<AtomicBool>);

tokio::task_local! {
    /// That of the statement which a task plans and runs.
    pub(crate) static GIVEN_UP: GivenUp;
}

impl GivenUp {
    /// That of this task's statement.
    pub(crate) fn of_task() -> Self {
        // Default: what is only described is not run.
        GIVEN_UP.try_with(Self::clone).unwrap_or_default()
    }

    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Fails once it is set.
    pub(crate) fn check(&self) -> Result<()> {
        match self.is_set() {
            true => Err(Error::new(ErrorKind::Cancelled, "nobody waits for the answer").into()),
            false => Ok(()),
        }
    }
}

/// The same join, whose condition is interruptible; `None`: it has none, or is no join, or a hash join, which is made with its keys.
pub(crate) fn interruptible(
    plan: &dyn ExecutionPlan,
    given_up: &GivenUp,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        let Some(filter) = join.filter() else { return Ok(None) };
        let join = NestedLoopJoinExec::try_new(
            Arc::clone(join.left()),
            Arc::clone(join.right()),
            Some(condition(filter, given_up)),
            join.join_type(),
            join.projection().as_ref().map(|projection| projection.to_vec()),
        )?;
        return Ok(Some(Arc::new(join)));
    }
    if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        let Some(filter) = join.filter() else { return Ok(None) };
        let join = SortMergeJoinExec::try_new(
            Arc::clone(join.left()),
            Arc::clone(join.right()),
            join.on.clone(),
            Some(condition(filter, given_up)),
            join.join_type(),
            join.sort_options.clone(),
            join.null_equality,
        )?;
        return Ok(Some(Arc::new(join)));
    }
    Ok(None)
}

/// The same condition of a join, which is interruptible.
pub(crate) fn condition(filter: &JoinFilter, given_up: &GivenUp) -> JoinFilter {
    let condition = Arc::new(Interruptible {
        inner: Arc::clone(filter.expression()),
        given_up: given_up.clone(),
        turns: Some(Turns::new()),
    });
    JoinFilter::new(condition, filter.column_indices().to_vec(), Arc::clone(filter.schema()))
}

/// The same expression, which fails once nobody waits for the answer.
pub(crate) fn heeding(inner: &Arc<dyn PhysicalExpr>, given_up: &GivenUp) -> Arc<dyn PhysicalExpr> {
    Arc::new(Interruptible { inner: Arc::clone(inner), given_up: given_up.clone(), turns: None })
}

#[derive(Debug)]
struct Interruptible {
    inner: Arc<dyn PhysicalExpr>,
    given_up: GivenUp,
    /// Where it has the thread's other statements go on.
    turns: Option<Turns>,
}

#[derive(Debug)]
struct Turns {
    begun: Instant,
    /// The last [`TURN`] since then in which others were let on.
    turn: AtomicU64,
}

impl Turns {
    fn new() -> Self {
        Self { begun: Instant::now(), turn: AtomicU64::new(0) }
    }

    /// Whether it is time for others.
    fn is_due(&self) -> bool {
        // A statement of 2^64 turns is not seen.
        let now = u64::try_from(self.begun.elapsed().as_millis() / TURN.as_millis()).unwrap_or(u64::MAX);
        self.turn.swap(now, Ordering::Relaxed) != now
    }
}

impl fmt::Display for Interruptible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.inner)
    }
}

impl PartialEq for Interruptible {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for Interruptible {}

impl Hash for Interruptible {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl PhysicalExpr for Interruptible {
    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.inner.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.given_up.check()?;
        if self.turns.as_ref().is_some_and(Turns::is_due) {
            // What waits for this thread is taken over by another, until this join gives way.
            return tokio::task::block_in_place(|| self.inner.evaluate(batch));
        }
        self.inner.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(match children.pop() {
            Some(inner) => Arc::new(Self {
                inner,
                given_up: self.given_up.clone(),
                turns: self.turns.is_some().then(Turns::new),
            }),
            None => self,
        })
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}
