//! Casts to floats and from them as they are meant, those that the planner chose among them, behind all other rules of the
//! analyzer: a text that says that what is no number has a sign is NaN like others, a decimal becomes the float that is
//! nearest to it, and a float the decimal that it counts as.

use datafusion::{
    common::{
        DFSchema, Result, ScalarValue,
        config::ConfigOptions,
        tree_node::{Transformed, TransformedResult as _, TreeNode as _},
    },
    logical_expr::{
        Expr, ExprSchemable as _, LogicalPlan,
        expr::{Cast, TryCast},
        expr_rewriter::NamePreserver,
    },
    optimizer::AnalyzerRule,
};

use crate::{checked, decimals::floats, nan, nearest};

/// See the module.
#[derive(Debug)]
pub(crate) struct Floats;

impl AnalyzerRule for Floats {
    fn name(&self) -> &str {
        "floats"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| {
            let mut schema = DFSchema::empty();
            plan.inputs().iter().for_each(|input| schema.merge(input.schema()));
            let names = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let settled = expr.transform_up(|expr| match meant(&expr, &schema) {
                    Some(other) => Ok(Transformed::yes(other)),
                    None => Ok(Transformed::no(expr)),
                })?;
                Ok(settled.update_data(|expr| name.restore(expr)))
            })
        })
        .data()
    }
}

/// What a cast becomes; `None`: it is none, or right as it is.
fn meant(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    floats::of_cast(expr, schema).or_else(|| to_float(expr, schema))
}

/// What a cast to a float becomes.
fn to_float(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let (Expr::Cast(Cast { expr: inner, field }) | Expr::TryCast(TryCast { expr: inner, field })) = expr
    else {
        return None;
    };
    let to = field.data_type();
    if !to.is_floating() {
        return None;
    }
    match inner.as_ref() {
        Expr::Literal(value, _) if value.data_type().is_string() => {
            let float = value.cast_to(to).ok()?;
            let one = nan::of_scalar(float.clone());
            // Scalar values are the same where their bits are.
            (one != float).then_some(Expr::Literal(one, None))
        }
        Expr::Literal(value, _) => nearest::float(value, to).map(|float| Expr::Literal(float, None)),
        Expr::Negative(of) => match of.as_ref() {
            Expr::Literal(value, _) => {
                let negated: ScalarValue = value.arithmetic_negate().ok()?;
                nearest::float(&negated, to).map(|float| Expr::Literal(float, None))
            }
            _ => of_decimal(inner, to, schema),
        },
        inner => of_decimal(inner, to, schema),
    }
}

fn of_decimal(inner: &Expr, to: &arrow_schema::DataType, schema: &DFSchema) -> Option<Expr> {
    let from = inner.get_type(schema).ok()?;
    (from.is_decimal() && !nearest::is_exact(&from, to)).then(|| checked::float(inner.clone(), to))
}
