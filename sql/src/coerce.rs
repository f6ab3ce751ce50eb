//! Decimals that meet floats in rows: in unions, VALUES, keys of joins and the columns of subqueries. DataFusion makes
//! decimals of both there, in which small floats are 0 and large ones an error; they become floats, as in expressions. And
//! dates that meet timestamps there, which become timestamps of microseconds.

use std::{collections::HashMap, sync::Arc};

use arrow_schema::{DataType, FieldRef, TimeUnit};
use datafusion::{
    common::{DFSchema, JoinConstraint, Result},
    logical_expr::expr::Cast,
    logical_expr::{Expr, ExprSchemable as _, Join, LogicalPlan, Projection, Subquery, Union, Values, cast},
    optimizer::analyzer::type_coercion::TypeCoercionRewriter,
};

use crate::{equal_intervals, functions, parameters, untyped};

/// The float that values of such types become, where there is a float and a decimal among them: a decimal that meets a
/// float32 is the float32 that a person means by it.
pub(crate) fn float_of<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> Option<DataType> {
    let mut floats = types.clone().filter(|data_type| data_type.is_floating());
    let first = floats.next()?;
    let float = if floats.all(|other| other == first) { first.clone() } else { DataType::Float64 };
    types.into_iter().any(DataType::is_decimal).then_some(float)
}

/// The timestamp that dates and timestamps become, where there are both, or timestamps of different units, or of a zone and
/// of none: DataFusion takes that of nanoseconds, which has no years after 2262.
pub(crate) fn timestamp_of<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> Option<DataType> {
    let mut known = types.filter(|data_type| !data_type.is_null()).peekable();
    let first = *known.peek()?;
    let (mut has_timestamp, mut is_one) = (false, true);
    let mut zone: Option<&Arc<str>> = None;
    for data_type in known {
        match data_type {
            DataType::Date32 => {}
            DataType::Timestamp(_, own) => {
                has_timestamp = true;
                match (zone, own) {
                    (Some(zone), Some(own)) if zone != own => return None,
                    (None, Some(own)) => zone = Some(own),
                    _ => {}
                }
            }
            _ => return None,
        }
        is_one &= data_type == first;
    }
    (has_timestamp && !is_one).then(|| DataType::Timestamp(TimeUnit::Microsecond, zone.cloned()))
}

/// Makes timestamps of the literal texts that meet timestamps of one type: the planner's would be of nanoseconds.
pub(crate) fn texts_as_timestamps(sides: &mut [&mut Expr], types: &[DataType]) -> bool {
    let is_text = |side: &Expr| matches!(side, Expr::Literal(value, _) if value.data_type().is_string());
    let mut others = types.iter().filter(|data_type| !data_type.is_null() && !data_type.is_string());
    let Some(timestamp @ DataType::Timestamp(TimeUnit::Microsecond, _)) = others.next() else { return false };
    if others.any(|other| other != timestamp) {
        return false;
    }
    let mut changed = false;
    for side in sides.iter_mut().filter(|side| is_text(side)) {
        **side = cast(functions::moment(std::mem::take(&mut **side)), timestamp.clone());
        changed = true;
    }
    changed
}

/// Casts those of some expressions whose types are such ones, and not this one already; whether there were any.
pub(crate) fn cast_those(
    sides: &mut [&mut Expr],
    types: &[DataType],
    to: &DataType,
    are: impl Fn(&DataType) -> bool,
) -> bool {
    let mut changed = false;
    for (side, _) in sides.iter_mut().zip(types).filter(|(_, data_type)| *data_type != to && are(data_type)) {
        **side = cast(std::mem::take(&mut **side), to.clone());
        changed = true;
    }
    changed
}

/// The type that values of a column become, where it is not the planner's to say: one of those above.
fn common_of<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> Option<DataType> {
    float_of(types.clone()).or_else(|| timestamp_of(types))
}

/// The plan with floats where its inputs' decimals meet floats, and with one type of each column of a union, which the planner
/// chooses later: by then conditions would have been made for another. And whether it is another plan.
pub(crate) fn settled(plan: LogicalPlan) -> Result<(LogicalPlan, bool)> {
    match plan {
        LogicalPlan::Union(mut union) => {
            let before = Arc::clone(&union.schema);
            parameters::of_union(&mut union)?;
            let plan = match union_of(union)? {
                LogicalPlan::Union(union) => TypeCoercionRewriter::coerce_union(union)?,
                plan => plan,
            };
            let is_other = *plan.schema() != before;
            Ok((plan, is_other))
        }
        LogicalPlan::Values(values) => values_of(values),
        LogicalPlan::Join(mut join) => {
            let is_other = parameters::of_sets(&mut join)?;
            let (plan, changed) = join_of(join)?;
            Ok((plan, is_other || changed))
        }
        plan => Ok((plan, false)),
    }
}

/// What is compared with the column of a subquery, and the subquery.
pub(crate) fn compared(expr: &mut Expr, subquery: &mut Subquery, schema: &DFSchema) -> Result<bool> {
    let Ok(own) = expr.get_type(schema) else { return Ok(false) };
    let [column] = &subquery.subquery.schema().fields()[..] else { return Ok(false) };
    if column.data_type().is_binary() && untyped::is_one(Some(&*expr)) {
        *expr = functions::bytes(std::mem::take(expr), false);
        return Ok(true);
    }
    let types = [&own, column.data_type()];
    let Some(float) = float_of(types.into_iter()) else {
        let Some(timestamp) = timestamp_of(types.into_iter()) else { return Ok(false) };
        let is_column_other = *column.data_type() != timestamp;
        if own != timestamp {
            *expr = cast(std::mem::take(expr), timestamp.clone());
        }
        if is_column_other {
            subquery.subquery = projected(&subquery.subquery, &[Some(timestamp)])?;
        }
        return Ok(true);
    };
    if own.is_decimal() {
        *expr = cast(std::mem::take(expr), float);
    } else {
        subquery.subquery = projected(&subquery.subquery, &[Some(float)])?;
    }
    Ok(true)
}

fn union_of(mut union: Union) -> Result<LogicalPlan> {
    let columns = union.schema.fields().len();
    if union.inputs.iter().any(|input| input.schema().fields().len() != columns) {
        // The planner says what is wrong.
        return Ok(LogicalPlan::Union(union));
    }
    let types =
        |column: usize| union.inputs.iter().map(move |input| input.schema().field(column).data_type());
    let floats: Vec<_> = (0..columns).map(|column| common_of(types(column))).collect();
    if floats.iter().all(Option::is_none) {
        return Ok(LogicalPlan::Union(union));
    }
    union.inputs = union.inputs.iter().map(|input| projected(input, &floats)).collect::<Result<_>>()?;
    union.schema = Arc::new(retyped(&union.schema, &floats)?);
    Ok(LogicalPlan::Union(union))
}

/// Rows of which some were floats before all became decimals of one type.
fn values_of(mut values: Values) -> Result<(LogicalPlan, bool)> {
    let schema = DFSchema::empty();
    let was = |value: &Expr| match value {
        Expr::Cast(Cast { expr, field }) if field.data_type().is_decimal() => expr.get_type(&schema).ok(),
        value => value.get_type(&schema).ok(),
    };
    let mut floats = Vec::with_capacity(values.schema.fields().len());
    for (column, field) in values.schema.fields().iter().enumerate() {
        let types: Vec<_> = match field.data_type().is_decimal() {
            true => values.values.iter().filter_map(|row| was(row.get(column)?)).collect(),
            false => Vec::new(),
        };
        floats.push(float_of(types.iter()));
    }
    if floats.iter().all(Option::is_none) {
        return Ok((LogicalPlan::Values(values), false));
    }
    for row in &mut values.values {
        for (value, float) in row.iter_mut().zip(&floats) {
            let Some(float) = float else { continue };
            let given = match std::mem::take(value) {
                Expr::Cast(Cast { expr, field }) if field.data_type().is_decimal() => *expr,
                given => given,
            };
            *value = given.cast_to(float, &schema)?;
        }
    }
    values.schema = Arc::new(retyped(&values.schema, &floats)?);
    Ok((LogicalPlan::Values(values), true))
}

fn join_of(mut join: Join) -> Result<(LogicalPlan, bool)> {
    let (left, right) = (join.left.schema(), join.right.schema());
    let mut changed = false;
    for (own, other) in &mut join.on {
        let (Ok(first), Ok(second)) = (own.get_type(left), other.get_type(right)) else { continue };
        if let Some(float) = float_of([&first, &second].into_iter()) {
            let decimal = if first.is_decimal() { own } else { other };
            *decimal = cast(std::mem::take(decimal), float);
            changed = true;
        } else if let Some(timestamp) = timestamp_of([&first, &second].into_iter()) {
            changed |= cast_those(&mut [own, other], &[first, second], &timestamp, |_| true);
        } else {
            changed |= equal_intervals::keys_as_numbers((own, &**left), (other, &**right));
        }
    }
    if changed {
        // Its columns are chosen by now, and a key is no column of both sides any more.
        join.join_constraint = JoinConstraint::On;
    }
    Ok((LogicalPlan::Join(join), changed))
}

/// The rows of a plan, with other types of some columns.
fn projected(plan: &Arc<LogicalPlan>, types: &[Option<DataType>]) -> Result<Arc<LogicalPlan>> {
    let columns = plan.schema().iter().zip(types).map(|((qualifier, field), other)| {
        let column = Expr::from((qualifier, field));
        match other {
            Some(other) if field.data_type() != other => {
                cast(column, other.clone()).alias_qualified(qualifier.cloned(), field.name())
            }
            _ => column,
        }
    });
    let projection = Projection::try_new(columns.collect(), Arc::clone(plan))?;
    Ok(Arc::new(LogicalPlan::Projection(projection)))
}

fn retyped(schema: &DFSchema, types: &[Option<DataType>]) -> Result<DFSchema> {
    let fields = schema.iter().zip(types).map(|((qualifier, field), other)| {
        let field = match other {
            Some(other) => FieldRef::new(field.as_ref().clone().with_data_type(other.clone())),
            None => Arc::clone(field),
        };
        (qualifier.cloned(), field)
    });
    DFSchema::new_with_metadata(fields.collect(), HashMap::clone(schema.metadata()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_timestamps_are_of_microseconds_and_of_the_zone_that_one_has() {
        let of = |unit, zone: Option<&str>| DataType::Timestamp(unit, zone.map(Into::into));
        let (column, now) = (of(TimeUnit::Microsecond, Some("UTC")), of(TimeUnit::Nanosecond, Some("UTC")));
        let plain = of(TimeUnit::Microsecond, None);
        let common = |types: &[DataType]| timestamp_of(types.iter());
        assert_eq!(common(&[DataType::Date32, column.clone()]), Some(column.clone()));
        assert_eq!(common(&[now.clone(), DataType::Null, column.clone()]), Some(column.clone()));
        assert_eq!(common(&[plain.clone(), now]), Some(column.clone()));
        assert_eq!(common(&[DataType::Date32, plain.clone()]), Some(plain));
        assert_eq!(common(&[column.clone(), column.clone()]), None);
        assert_eq!(common(&[column, of(TimeUnit::Microsecond, Some("+01:00"))]), None);
        assert_eq!(common(&[DataType::Date32, DataType::Date32]), None);
    }
}
