//! Rules that are applied as long as anybody waits for the statement: a plan of many thousand operators takes them seconds,
//! between which nothing else can stop a thread that plans.

use std::sync::Arc;

use datafusion::{
    common::{Result, tree_node::Transformed},
    logical_expr::LogicalPlan,
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

use crate::interruptible::GivenUp;

#[derive(Debug)]
struct Wanted(Arc<dyn OptimizerRule + Send + Sync>);

/// A rule that fails once its statement is given up.
pub(crate) fn wanted(rule: Arc<dyn OptimizerRule + Send + Sync>) -> Arc<dyn OptimizerRule + Send + Sync> {
    Arc::new(Wanted(rule))
}

impl OptimizerRule for Wanted {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        GivenUp::of_task().check()?;
        self.0.rewrite(plan, config)
    }
}

#[cfg(test)]
mod tests {
    use basalt_core::error::ErrorKind;
    use datafusion::{
        logical_expr::{LogicalPlanBuilder, lit},
        optimizer::{Optimizer, OptimizerContext},
    };

    use super::*;
    use crate::{error::Error, interruptible::GIVEN_UP};

    #[test]
    fn a_statement_that_is_given_up_is_optimised_no_further() {
        let plan = LogicalPlanBuilder::empty(true).filter(lit(1).eq(lit(1))).unwrap().build().unwrap();
        let optimizer = Optimizer::with_rules(Optimizer::new().rules.into_iter().map(wanted).collect());
        let given_up = GivenUp::default();
        let optimise = || optimizer.optimize(plan.clone(), &OptimizerContext::new(), |_, _| {});
        GIVEN_UP.sync_scope(given_up.clone(), || optimise().unwrap());
        given_up.set();
        let error = Error::from(GIVEN_UP.sync_scope(given_up, || optimise().unwrap_err()));
        assert!(
            matches!(error, Error::Statement(ref error) if error.kind() == ErrorKind::Cancelled),
            "{error}"
        );
    }
}
