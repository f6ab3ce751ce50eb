//! Of which types the parameters of a statement are that is described: what stands beside them says it.

use std::{collections::HashMap, sync::Arc};

use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field};
use basalt_core::error::ErrorKind;
use datafusion::{
    common::tree_node::{TreeNode as _, TreeNodeRecursion},
    logical_expr::{
        Expr, LogicalPlan,
        expr::{Cast, Placeholder},
    },
};

use crate::{
    arithmetic::{ArithmeticOpName, is_number},
    coerce,
    error::{Error, Result},
    plan::unplanned,
};

/// The name of a parameter that may be of any type; `None`: it is something else.
fn open(expr: &Expr) -> Option<&str> {
    match expr {
        // The planner gives two that meet the type of NULL.
        Expr::Placeholder(Placeholder { id, field })
            if field.as_ref().is_none_or(|field| field.data_type().is_null()) =>
        {
            Some(id)
        }
        _ => None,
    }
}

/// Gives a parameter that may be of any type, such as `own`, the one that it has beside the other side of `+ - * /`, if that is
/// one that says so. The planner does it where it has an operator; these become functions.
pub(crate) fn beside(op: ArithmeticOpName, side: &mut Expr, own: DataType, other: &DataType) -> DataType {
    if open(side).is_none() {
        return own;
    }
    match (side, taken(op, other)) {
        (Expr::Placeholder(placeholder), Some(data_type)) => {
            let field = Field::new(placeholder.id.clone(), data_type.clone(), true);
            placeholder.field = Some(Arc::new(field));
            data_type
        }
        _ => own,
    }
}

/// The type in which a parameter is taken beside a value of another type.
fn taken(op: ArithmeticOpName, other: &DataType) -> Option<DataType> {
    let whole = i16::from(DECIMAL128_MAX_PRECISION);
    Some(match other {
        _ if other.is_floating() => DataType::Float64,
        // What is divided is a float.
        _ if other.is_integer() && op == ArithmeticOpName::Divide => DataType::Float64,
        _ if other.is_integer() => DataType::Int64,
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
            // A product has the decimal places of both; what is given may have others in any case.
            let fits = i8::try_from(whole - i16::from(*scale)).is_ok_and(|rest| *scale <= rest);
            let scale = if op == ArithmeticOpName::Multiply && !fits { 0 } else { *scale };
            DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale)
        }
        DataType::Date32 | DataType::Timestamp(..) if op == ArithmeticOpName::Subtract => other.clone(),
        _ => return None,
    })
}

/// The types of a plan's parameters by their names, of one that stands in several places the type that has the values of all
/// of them; `None`: it may be of any type.
///
/// # Errors
/// A parameter would have to be of two types.
pub(crate) fn types(plan: &LogicalPlan) -> Result<HashMap<String, Option<DataType>>> {
    let mut known = Known::default();
    let said = plan.apply_with_subqueries(|plan| {
        plan.apply_expressions(|expr| {
            expr.apply(|expr| {
                known.said(expr);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    said.map_err(unplanned)?;
    let Known { mut types, conflict } = known;
    if let Some(conflict) = conflict {
        return Err(conflict);
    }
    if types.values().any(Option::is_none) {
        let done = plan.apply_with_subqueries(|plan| {
            plan.apply_expressions(|expr| {
                expr.apply(|expr| {
                    suggested(&mut types, expr);
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        });
        done.map_err(unplanned)?;
    }
    Ok(types)
}

#[derive(Debug, Default)]
struct Known {
    types: HashMap<String, Option<DataType>>,
    conflict: Option<Error>,
}

impl Known {
    /// Takes what an expression says of the types of parameters.
    fn said(&mut self, expr: &Expr) {
        match expr {
            Expr::Placeholder(Placeholder { id, field }) => {
                self.take(id, field.as_ref().map(|field| field.data_type()));
            }
            // What is cast has the type that it is cast to.
            Expr::Cast(Cast { expr, field }) => {
                if let Some(id) = open(expr) {
                    self.take(id, Some(field.data_type()));
                }
            }
            _ => {}
        }
    }

    fn take(&mut self, id: &str, of: Option<&DataType>) {
        let known = self.types.entry(id.to_owned()).or_default();
        let Some(of) = of.filter(|of| !of.is_null()) else { return };
        match known {
            None => *known = Some(of.clone()),
            Some(before) => match both(before, of) {
                Some(both) => *before = both,
                None if self.conflict.is_none() => {
                    let message = format!("the parameter {id} is taken as {before} and as {of}");
                    self.conflict = Some(Error::new(ErrorKind::TypeMismatch, message));
                }
                None => {}
            },
        }
    }
}

/// The type that has the values of both.
fn both(a: &DataType, b: &DataType) -> Option<DataType> {
    if a == b {
        return Some(a.clone());
    }
    if !is_number(a) || !is_number(b) {
        let are_texts = a.is_string() && b.is_string();
        return are_texts.then_some(DataType::Utf8).or_else(|| coerce::timestamp_of([a, b].into_iter()));
    }
    if a.is_floating() || b.is_floating() {
        return Some(DataType::Float64);
    }
    let scale = |of: &DataType| match of {
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
            Some(*scale)
        }
        _ => None,
    };
    Some(match scale(a).max(scale(b)) {
        Some(scale) => DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale),
        None => DataType::Int64,
    })
}

/// Takes what an expression lets one suppose of parameters of which nothing else is said.
fn suggested(types: &mut HashMap<String, Option<DataType>>, expr: &Expr) {
    // As PostgreSQL has it: the sign is first one of floats.
    if let Expr::Negative(inner) = expr {
        suggest(types, inner, &DataType::Float64);
    }
}

fn suggest(types: &mut HashMap<String, Option<DataType>>, expr: &Expr, of: &DataType) {
    if let Some(id) = open(expr)
        && let Some(known) = types.get_mut(id)
        && known.is_none()
    {
        *known = Some(of.clone());
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::TimeUnit;

    use super::*;

    #[test]
    fn a_parameter_is_of_the_type_of_what_it_is_beside() {
        use ArithmeticOpName::{Add, Divide, Multiply, Subtract};
        let decimal = |scale| DataType::Decimal128(38, scale);
        for (op, other, expected) in [
            (Multiply, DataType::Float32, Some(DataType::Float64)),
            (Add, DataType::Int32, Some(DataType::Int64)),
            (Divide, DataType::Int32, Some(DataType::Float64)),
            (Subtract, DataType::Decimal128(9, 2), Some(decimal(2))),
            (Multiply, DataType::Decimal128(9, 2), Some(decimal(2))),
            // Its product would have too many places.
            (Multiply, DataType::Decimal128(38, 20), Some(decimal(0))),
            (Subtract, DataType::Date32, Some(DataType::Date32)),
            (Add, DataType::Date32, None),
            (Add, DataType::Utf8, None),
        ] {
            assert_eq!(taken(op, &other), expected, "{op:?} {other}");
        }
    }

    #[test]
    fn what_stands_in_several_places_has_the_values_of_all() {
        let micros = |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into));
        for (a, b, expected) in [
            (DataType::Int16, DataType::Int32, Some(DataType::Int64)),
            (DataType::Int32, DataType::Float32, Some(DataType::Float64)),
            (DataType::Int32, DataType::Decimal128(9, 2), Some(DataType::Decimal128(38, 2))),
            (DataType::Utf8, DataType::Utf8View, Some(DataType::Utf8)),
            (DataType::Date32, micros(Some("UTC")), Some(micros(Some("UTC")))),
            (DataType::Int32, DataType::Utf8, None),
        ] {
            assert_eq!(both(&a, &b), expected, "{a} {b}");
            assert_eq!(both(&b, &a), expected, "{b} {a}");
        }
    }
}
