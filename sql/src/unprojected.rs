//! A projection above a filter that leaves columns out itself. DataFusion's `ProjectionPushdown`, which comes twice, puts the
//! projection below such a filter as if both counted columns alike: then a statement fails, or another column of the same name
//! is taken. So the filter gives all columns again before the rule comes, which may have it leave out what it likes.

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TransformedResult as _, TreeNode as _},
    },
    physical_expr::{PhysicalExpr, expressions::Column},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan,
        filter::{FilterExec, FilterExecBuilder},
        projection::{ProjectionExec, ProjectionExpr},
    },
};

/// The rule that comes before DataFusion's.
#[derive(Debug)]
pub(crate) struct Unprojected;

impl PhysicalOptimizerRule for Unprojected {
    fn name(&self) -> &str {
        "unprojected"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(unprojected).data()
    }
}

fn unprojected(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else { return Ok(Transformed::no(plan)) };
    let Some(filter) = projection.input().downcast_ref::<FilterExec>() else {
        return Ok(Transformed::no(plan));
    };
    let Some(kept) = filter.projection() else { return Ok(Transformed::no(plan)) };
    let schema = filter.input().schema();
    let place = |expr: Arc<dyn PhysicalExpr>| {
        Ok(match expr.downcast_ref::<Column>() {
            Some(column) => {
                let at = kept[column.index()];
                Transformed::yes(Arc::new(Column::new(schema.field(at).name(), at)) as _)
            }
            None => Transformed::no(expr),
        })
    };
    let exprs = projection.expr().iter().map(|of| {
        Ok(ProjectionExpr { expr: Arc::clone(&of.expr).transform_up(place).data()?, alias: of.alias.clone() })
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let all = FilterExecBuilder::from(filter).apply_projection(None)?.build()?;
    let above = ProjectionExec::try_new(exprs, Arc::new(all))?;
    // One that has metadata of its own stays, and no rule moves it.
    let is_same = above.schema() == projection.schema();
    Ok(if is_same { Transformed::yes(Arc::new(above)) } else { Transformed::no(plan) })
}
