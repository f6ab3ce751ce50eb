//! What DataFusion would do otherwise than the engine, put right before it chooses types: the sign of the least integer
//! is an error, and where a float meets a decimal the decimal becomes a float, never the float a decimal.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::{
    common::{
        DFSchema, Result,
        config::ConfigOptions,
        tree_node::{Transformed, TransformedResult as _, TreeNode as _},
    },
    logical_expr::{
        BinaryExpr, Case, Expr, ExprSchemable as _, LogicalPlan, cast, expr::InList,
        expr_rewriter::NamePreserver,
    },
    optimizer::AnalyzerRule,
};

use crate::arithmetic::negated;

/// Functions that give one of their arguments.
const CHOICES: [&str; 6] = ["coalesce", "nullif", "greatest", "least", "nvl", "ifnull"];

/// See the module.
#[derive(Debug)]
pub(crate) struct Meaning;

impl AnalyzerRule for Meaning {
    fn name(&self) -> &str {
        "meaning"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| {
            let inputs: Vec<_> = plan.inputs().iter().map(|input| Arc::clone(input.schema())).collect();
            let mut schema = DFSchema::empty();
            inputs.iter().for_each(|input| schema.merge(input));
            let names = NamePreserver::new(&plan);
            let mut changed = false;
            let plan = plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let expr = expr.transform_up(|expr| Ok(rewritten(expr, &schema)))?;
                changed |= expr.transformed;
                Ok(expr.update_data(|expr| name.restore(expr)))
            })?;
            match changed {
                // Types may be others now.
                true => plan.map_data(LogicalPlan::recompute_schema),
                false => Ok(plan),
            }
        })
        .data()
    }
}

fn rewritten(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::Negative(inner) => {
            let wraps = inner.get_type(schema).is_ok_and(|data_type| {
                data_type.is_signed_integer() || matches!(data_type, DataType::Decimal128(..))
            });
            match wraps {
                true => Transformed::yes(negated(*inner)),
                false => Transformed::no(Expr::Negative(inner)),
            }
        }
        Expr::BinaryExpr(BinaryExpr { mut left, op, mut right }) if op.supports_propagation() => {
            let changed = meet(&mut [&mut *left, &mut *right], schema);
            transformed(Expr::BinaryExpr(BinaryExpr { left, op, right }), changed)
        }
        Expr::Between(mut between) => {
            let sides = &mut [&mut *between.expr, &mut *between.low, &mut *between.high];
            let changed = meet(sides, schema);
            transformed(Expr::Between(between), changed)
        }
        Expr::InList(InList { mut expr, mut list, negated }) => {
            let mut sides: Vec<&mut Expr> = list.iter_mut().chain([&mut *expr]).collect();
            let changed = meet(&mut sides, schema);
            transformed(Expr::InList(InList { expr, list, negated }), changed)
        }
        Expr::Case(Case { mut expr, mut when_then_expr, mut else_expr }) => {
            let mut changed = false;
            if let Some(expr) = &mut expr {
                let whens = when_then_expr.iter_mut().map(|(when, _)| &mut **when);
                let mut sides: Vec<&mut Expr> = whens.chain([&mut **expr]).collect();
                changed |= meet(&mut sides, schema);
            }
            let thens = when_then_expr.iter_mut().map(|(_, then)| &mut **then);
            let mut sides: Vec<&mut Expr> = thens.chain(else_expr.as_deref_mut()).collect();
            changed |= meet(&mut sides, schema);
            transformed(Expr::Case(Case { expr, when_then_expr, else_expr }), changed)
        }
        Expr::ScalarFunction(mut function) if CHOICES.contains(&function.func.name()) => {
            let mut sides: Vec<&mut Expr> = function.args.iter_mut().collect();
            let changed = meet(&mut sides, schema);
            transformed(Expr::ScalarFunction(function), changed)
        }
        other => Transformed::no(other),
    }
}

fn transformed(expr: Expr, changed: bool) -> Transformed<Expr> {
    if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
}

/// Makes the decimals among expressions floats, where there is a float among them.
fn meet(sides: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let types: Vec<_> = sides.iter().map(|side| side.get_type(schema).unwrap_or(DataType::Null)).collect();
    let mut floats = types.iter().filter(|data_type| data_type.is_floating());
    let Some(first) = floats.next() else { return false };
    // A decimal that meets a float32 is the float32 that a person means by it.
    let float = if floats.all(|other| other == first) { first.clone() } else { DataType::Float64 };
    let mut changed = false;
    for (side, data_type) in sides.iter_mut().zip(types) {
        if data_type.is_decimal() {
            let decimal = std::mem::take(&mut **side);
            **side = cast(decimal, float.clone());
            changed = true;
        }
    }
    changed
}
