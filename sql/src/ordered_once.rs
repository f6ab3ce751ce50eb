//! An aggregate is ordered by each expression once: the second time decides nothing. They become the same where others are
//! simplified, and `first_value` of DataFusion expects as many columns as it was given, of which it drops the second itself.

use datafusion::{
    common::{
        Result,
        tree_node::{Transformed, TreeNode as _},
    },
    logical_expr::{Expr, LogicalPlan, SortExpr, expr_rewriter::NamePreserver},
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

/// See the module.
#[derive(Debug)]
pub(crate) struct OrderedOnce;

impl OptimizerRule for OrderedOnce {
    fn name(&self) -> &str {
        "ordered_once"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !matches!(plan, LogicalPlan::Aggregate(_)) {
            return Ok(Transformed::no(plan));
        }
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let once = expr.transform_up(|expr| match expr {
                Expr::AggregateFunction(mut function) => {
                    let all = function.params.order_by.len();
                    let mut kept: Vec<SortExpr> = Vec::with_capacity(all);
                    for sort in std::mem::take(&mut function.params.order_by) {
                        // What was simplified keeps its name by an alias.
                        let bare = |sort: &SortExpr| sort.expr.clone().unalias_nested().data;
                        if kept.iter().all(|other| bare(other) != bare(&sort)) {
                            kept.push(sort);
                        }
                    }
                    let is_shorter = kept.len() < all;
                    function.params.order_by = kept;
                    Ok(Transformed::new_transformed(Expr::AggregateFunction(function), is_shorter))
                }
                expr => Ok(Transformed::no(expr)),
            })?;
            Ok(once.update_data(|expr| name.restore(expr)))
        })
    }
}
