//! The query around correlated subqueries, while these become joins with it.

use datafusion::{
    common::{Column, Result},
    logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder},
};

/// See the module.
pub(super) struct Around {
    /// With what was made of those before, beside its rows.
    pub(super) plan: LogicalPlan,
    /// Without: what is joined leaves each row once, so that its values are the same. Were they read from the plan, each
    /// subquery would read all before it once more.
    alone: LogicalPlan,
}

impl Around {
    pub(super) fn new(plan: LogicalPlan) -> Self {
        Self { alone: plan.clone(), plan }
    }

    /// The smaller one of the plans that has some columns.
    pub(super) fn with(&self, columns: &[Column]) -> &LogicalPlan {
        let has_all = columns.iter().all(|column| self.alone.schema().has_column(column));
        if has_all { &self.alone } else { &self.plan }
    }

    /// Adds a column.
    pub(super) fn add(&mut self, value: &Expr) -> Result<()> {
        let with = |plan: &LogicalPlan| {
            let columns = plan.schema().columns().into_iter().map(Expr::Column);
            let all = columns.chain([value.clone()]).collect::<Vec<_>>();
            LogicalPlanBuilder::from(plan.clone()).project(all)?.build()
        };
        let read = value.column_refs();
        if read.iter().all(|column| self.alone.schema().has_column(column)) {
            self.alone = with(&self.alone)?;
        }
        self.plan = with(&self.plan)?;
        Ok(())
    }
}
