//! Rules that are applied as long as anybody waits for the statement: a plan of many thousand operators takes them seconds,
//! between which nothing else can stop a thread that plans.

use std::sync::Arc;

use datafusion::{
    common::{Result, config::ConfigOptions, tree_node::Transformed},
    logical_expr::LogicalPlan,
    optimizer::{AnalyzerRule, ApplyOrder, OptimizerConfig, OptimizerRule},
    physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule},
    physical_plan::ExecutionPlan,
};

use crate::{bounded, interruptible::GivenUp};

#[derive(Debug)]
struct Wanted<R: ?Sized>(Arc<R>);

pub(crate) type Analysis = Arc<dyn AnalyzerRule + Send + Sync>;
pub(crate) type Rule = Arc<dyn OptimizerRule + Send + Sync>;
pub(crate) type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// An analysis that fails once its statement is given up.
pub(crate) fn analysis(rule: Analysis) -> Analysis {
    Arc::new(Wanted(rule))
}

/// A rule that fails once its statement is given up.
pub(crate) fn wanted(rule: Rule) -> Rule {
    Arc::new(Wanted(rule))
}

/// A rule of how plans run that fails once its statement is given up.
pub(crate) fn physical(rule: PhysicalRule) -> PhysicalRule {
    Arc::new(Wanted(rule))
}

impl AnalyzerRule for Wanted<dyn AnalyzerRule + Send + Sync> {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        GivenUp::of_task().check()?;
        self.0.analyze(plan, config)
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

impl OptimizerRule for Wanted<dyn OptimizerRule + Send + Sync> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        GivenUp::of_task().check()?;
        // Rules write constants down in names, again and again.
        bounded::check()?;
        self.0.rewrite(plan, config)
    }
}

impl PhysicalOptimizerRule for Wanted<dyn PhysicalOptimizerRule + Send + Sync> {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        GivenUp::of_task().check()?;
        self.0.optimize(plan, config)
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        GivenUp::of_task().check()?;
        self.0.optimize_with_context(plan, context)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
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
