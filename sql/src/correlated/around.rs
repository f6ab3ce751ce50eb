//! The query around correlated subqueries, while these become joins with it.

use datafusion::{
    common::{Column, Result},
    logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder},
};

use super::Names;
use crate::spool;

/// See the module.
pub(super) struct Around {
    /// With what was made of those before, beside its rows.
    pub(super) plan: LogicalPlan,
    /// Without: what is joined leaves each row once, so that its values are the same. Were they read from the plan, each
    /// subquery would read all before it once more.
    alone: LogicalPlan,
    is_settled: bool,
}

impl Around {
    pub(super) fn new(plan: LogicalPlan) -> Self {
        Self { alone: plan.clone(), plan, is_settled: false }
    }

    /// Has its rows be the same wherever they are read, for a subquery that is joined to them.
    pub(super) fn settle(&mut self, names: &mut Names<'_>) -> Result<()> {
        if !self.is_settled {
            // Nothing is joined to it yet but what reads nothing of it.
            self.plan = names.settled(self.plan.clone())?;
            self.alone = self.plan.clone();
            self.is_settled = true;
        }
        Ok(())
    }

    /// The smaller one of the plans that has some columns.
    pub(super) fn with(&self, columns: &[Column]) -> &LogicalPlan {
        let has_all = columns.iter().all(|column| self.alone.schema().has_column(column));
        if has_all { &self.alone } else { &self.plan }
    }

    /// Adds a column.
    pub(super) fn add(&mut self, value: &Expr, names: &mut Names<'_>) -> Result<()> {
        let with = |plan: &LogicalPlan| {
            let columns = plan.schema().columns().into_iter().map(Expr::Column);
            let all = columns.chain([value.clone()]).collect::<Vec<_>>();
            LogicalPlanBuilder::from(plan.clone()).project(all)?.build()
        };
        let all = with(&self.plan)?;
        if !spool::repeats(&all)? {
            self.plan = names.settled(all)?;
            self.alone = self.plan.clone();
            return Ok(());
        }
        let read = value.column_refs();
        if read.iter().all(|column| self.alone.schema().has_column(column)) {
            self.alone = with(&self.alone)?;
        }
        self.plan = all;
        Ok(())
    }
}
