//! By what the values of a domain are joined with the rows that have them: NULL is the same as NULL.

use datafusion::{
    arrow::datatypes::DataType,
    common::{Column, DFSchema, ExprSchema as _, Result, ScalarValue, tree_node::TreeNodeRecursion},
    logical_expr::{Expr, LogicalPlan, lit, when},
};

use super::refused;

/// Columns on both sides as pairs that are equal, where they are or both are NULL.
pub(super) fn pairs(
    left: &[Column],
    of_left: &DFSchema,
    right: &[Column],
    of_right: &DFSchema,
) -> Result<Vec<(Expr, Expr)>> {
    let mut pairs = Vec::with_capacity(2 * left.len());
    for (left, right) in left.iter().zip(right) {
        let data_type = of_left.field_from_column(left)?.data_type().clone();
        let nullable = of_left.nullable(left)? || of_right.nullable(right)?;
        let (left, right) = (Expr::Column(left.clone()), Expr::Column(right.clone()));
        if !nullable {
            pairs.push((value(left.clone(), &data_type)?, value(right.clone(), &data_type)?));
            continue;
        }
        let known = |expr: &Expr| when(expr.clone().is_null(), lit(1_i64)).otherwise(lit(0_i64));
        let of = |expr: &Expr| {
            let none = lit(ScalarValue::new_default(&data_type)?);
            when(expr.clone().is_null(), none).otherwise(value(expr.clone(), &data_type)?)
        };
        pairs.push((known(&left)?, known(&right)?));
        // Of those without a type there is no other value.
        if !data_type.is_null() {
            pairs.push((of(&left)?, of(&right)?));
        }
    }
    Ok(pairs)
}

/// One zero.
pub(super) fn value(expr: Expr, data_type: &DataType) -> Result<Expr> {
    Ok(match data_type {
        DataType::Float64 => expr + lit(0.0_f64),
        DataType::Float32 => expr + lit(0.0_f32),
        DataType::Map(..) => return Err(refused("that reads a map of the query around it")),
        nested if has_floats(nested) => {
            return Err(refused("that reads a list or a struct of floats of the query around it"));
        }
        _ => expr,
    })
}

fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            has_floats(item.data_type())
        }
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        DataType::Map(..) => true,
        other => other.is_floating(),
    }
}

/// Fails for a subquery that would be another value for each row: it is evaluated once for rows that are the same to it.
pub(super) fn steady(plan: &LogicalPlan) -> Result<()> {
    let mut is_volatile = false;
    plan.apply_with_subqueries(|plan| {
        plan.apply_expressions(|expr| {
            is_volatile |= expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if is_volatile { Err(refused("of random values")) } else { Ok(()) }
}
