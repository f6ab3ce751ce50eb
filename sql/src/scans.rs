//! How many times a statement may read tables: each scan has a thread while it runs, and takes its time to be planned. So do
//! queries in expressions of one another.

use std::{collections::HashSet, sync::Arc};

use basalt_core::error::ErrorKind;
use datafusion::{
    common::tree_node::{TreeNode as _, TreeNodeRecursion},
    logical_expr::LogicalPlan,
    physical_plan::ExecutionPlan,
};

use crate::{
    error::{Error, Result},
    limits,
    scan::Scan,
    spool,
};

/// Fails where so many tables are read that they cannot all be left out; to find out would take long.
pub(crate) fn few_planned(plan: &LogicalPlan) -> Result<()> {
    let mut scans = 0;
    plan.apply_with_subqueries(|plan| {
        scans += usize::from(matches!(plan, LogicalPlan::TableScan(_)) && !spool::is_spool(plan));
        Ok(TreeNodeRecursion::Continue)
    })?;
    at_most(scans, limits::SCANS_PLANNED)
}

/// Fails where queries stand so deep in expressions of one another that it would take long to plan them: twice as long for each.
pub(crate) fn not_deep(plan: &LogicalPlan) -> Result<()> {
    let deep = queries(plan)?;
    if deep <= limits::QUERIES_DEEP {
        return Ok(());
    }
    let message = format!(
        "{deep} queries in expressions of one another; the limit is {} (those in FROM and WITH are not counted)",
        limits::QUERIES_DEEP
    );
    Err(Error::new(ErrorKind::FilterTooDeep, message))
}

/// How many queries are in expressions of one another, at most.
fn queries(plan: &LogicalPlan) -> datafusion::common::Result<usize> {
    let mut deepest = 0;
    plan.apply(|node| {
        node.apply_subqueries(|query| {
            deepest = deepest.max(1 + queries(query)?);
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(deepest)
}

/// Fails where a plan has more scans than may run.
pub(crate) fn few(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    at_most(scans(plan, &mut HashSet::new()), limits::SCANS)
}

/// The leaves that the engine runs. What is made once counts once, wherever it is read.
fn scans(plan: &Arc<dyn ExecutionPlan>, made: &mut HashSet<usize>) -> usize {
    if spool::made(plan).is_some_and(|spool| !made.insert(spool)) {
        return 0;
    }
    let below: usize = plan.children().into_iter().map(|child| scans(child, made)).sum();
    below + usize::from(plan.is::<Scan>())
}

fn at_most(scans: usize, limit: usize) -> Result<()> {
    if scans <= limit {
        return Ok(());
    }
    let message = format!("the statement reads tables {scans} times; the limit is {}", limits::SCANS);
    Err(Error::new(ErrorKind::FilterTooLarge, message))
}
