//! Of which types the parameters of a statement are that is described: what stands beside them says it.

use std::{collections::HashMap, sync::Arc};

use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field, IntervalUnit};
use basalt_core::error::ErrorKind;
use datafusion::{
    common::{
        DFSchema, JoinType, NullEquality, Result as PlanResult,
        tree_node::{TreeNode as _, TreeNodeRecursion},
    },
    logical_expr::{
        BinaryExpr, Distinct, Expr, ExprSchemable as _, Join, Limit, LogicalPlan, Operator, Projection,
        Subquery, SubqueryAlias, Union,
        expr::{AggregateFunctionParams, Cast, Placeholder, WindowFunction},
        utils::merge_schema,
    },
};

use crate::{
    arithmetic::{ArithmeticOpName, is_number},
    coerce,
    error::{Error, Result},
    functions::INTERVAL,
    meaning::OF_DOUBLES,
    plan::unplanned,
    top::unaliased,
};

/// Functions that choose among values of one type, and lists.
const CHOICES: [&str; 7] = ["coalesce", "nullif", "greatest", "least", "nvl", "ifnull", "make_array"];

/// Functions of any number, whose first argument is first one of floats, as PostgreSQL has it.
const OF_NUMBERS: [&str; 7] = ["abs", "ceil", "floor", "round", "sign", "signum", "trunc"];

/// Functions of two bounds and a step.
const SERIES: [&str; 2] = ["generate_series", "range"];

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

/// Gives parameters that may be of any type, and are compared with values as what is of a row is, the type that these have, as
/// the planner does where they stand alone; whether there were any.
pub(crate) fn compared(sides: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let values: Vec<&Expr> = sides.iter().map(|side| &**side).collect();
    let Some(common) = common(&values, schema) else { return false };
    let mut changed = false;
    for side in sides.iter_mut().filter(|side| open(side).is_some()) {
        if let Expr::Placeholder(placeholder) = &mut **side {
            let field = Field::new(placeholder.id.clone(), common.clone(), true);
            placeholder.field = Some(Arc::new(field));
            changed = true;
        }
    }
    changed
}

/// The type of those of some values that have one, where there are parameters among them that may be of any.
fn common(values: &[&Expr], schema: &DFSchema) -> Option<DataType> {
    if !values.iter().any(|value| open(value).is_some()) {
        return None;
    }
    let known = values.iter().filter(|value| open(value).is_none());
    let known = known.filter_map(|value| value.get_type(schema).ok()).filter(|of| !of.is_null());
    known.map(Some).reduce(|a, b| both(&a?, &b?)).flatten()
}

/// The type in which a parameter is taken beside a value of another type.
fn taken(op: ArithmeticOpName, other: &DataType) -> Option<DataType> {
    let whole = i16::from(DECIMAL128_MAX_PRECISION);
    Some(match other {
        _ if other.is_floating() => DataType::Float64,
        // What is divided is a float, also where nothing is said of both sides.
        _ if (other.is_integer() || other.is_null()) && op == ArithmeticOpName::Divide => DataType::Float64,
        _ if other.is_integer() => DataType::Int64,
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
            // A product has the decimal places of both; what is given may have others in any case.
            let fits = i8::try_from(whole - i16::from(*scale)).is_ok_and(|rest| *scale <= rest);
            let scale = if op == ArithmeticOpName::Multiply && !fits { 0 } else { *scale };
            DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale)
        }
        DataType::Date32 | DataType::Timestamp(..) if op == ArithmeticOpName::Subtract => other.clone(),
        DataType::Interval(_) if op == ArithmeticOpName::Multiply => DataType::Int64,
        DataType::Timestamp(..) if op == ArithmeticOpName::Add => {
            DataType::Interval(IntervalUnit::MonthDayNano)
        }
        _ => return None,
    })
}

/// The type of what is given for a parameter of a type: columns of the answer that are made of it are of that.
pub(crate) fn given(data_type: &DataType) -> DataType {
    match data_type {
        _ if data_type.is_integer() => DataType::Int64,
        _ if data_type.is_floating() => DataType::Float64,
        _ => data_type.clone(),
    }
}

/// Gives the parameters that are columns of a union the types of what is given for values of the columns that they meet there,
/// and those that meet none the type of NULL: the planner looks for that of one with another name at a column of that name.
pub(crate) fn of_union(union: &mut Union) -> PlanResult<()> {
    let columns = union.schema.fields().len();
    // Where they have not as many columns, the planner says so.
    if union.inputs.iter().any(|input| input.schema().fields().len() != columns)
        || !union.inputs.iter().any(|input| has_open(input))
    {
        return Ok(());
    }
    let types = met(&union.inputs);
    union.inputs = union.inputs.iter().map(|input| typed(input, &types)).collect::<PlanResult<_>>()?;
    Ok(())
}

/// The same of the sides of INTERSECT and EXCEPT, which are joins by all of their columns; whether there are such parameters,
/// and values that they meet.
pub(crate) fn of_sets(join: &mut Join) -> PlanResult<bool> {
    let sides = [Arc::clone(&join.left), Arc::clone(&join.right)];
    if !is_set(join)
        || sides.iter().any(|side| side.schema().fields().len() != join.on.len())
        || !sides.iter().any(|side| has_open(side))
    {
        return Ok(false);
    }
    let types = met(&sides);
    if types.iter().all(DataType::is_null) {
        return Ok(false);
    }
    join.left = typed(&join.left, &types)?;
    join.right = typed(&join.right, &types)?;
    Ok(true)
}

/// Whether a join is made of INTERSECT or EXCEPT.
fn is_set(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
}

/// Whether a column of one of several queries is a parameter that may be of any type.
fn has_open(input: &LogicalPlan) -> bool {
    match input {
        LogicalPlan::Projection(projection) => projection.expr.iter().any(is_open),
        LogicalPlan::Distinct(Distinct::All(input)) => has_open(input),
        LogicalPlan::SubqueryAlias(alias) => has_open(&alias.input),
        _ => false,
    }
}

fn is_open(expr: &Expr) -> bool {
    open(unaliased(expr)).is_some()
}

/// The types of what is given for values of the columns of queries whose columns meet.
fn met(inputs: &[Arc<LogicalPlan>]) -> Vec<DataType> {
    let type_of = |at: usize| {
        let known = inputs.iter().map(|input| input.schema().field(at).data_type().clone());
        let known = known.filter(|of| !of.is_null()).map(Some);
        let common = known.reduce(|a, b| both(&a?, &b?)).flatten();
        common.as_ref().map_or(DataType::Null, given)
    };
    let columns = inputs.first().map_or(0, |input| input.schema().fields().len());
    (0..columns).map(type_of).collect()
}

/// A query whose columns that are parameters of any type are of these types.
fn typed(input: &Arc<LogicalPlan>, types: &[DataType]) -> PlanResult<Arc<LogicalPlan>> {
    if !has_open(input) {
        return Ok(Arc::clone(input));
    }
    let typed = match &**input {
        LogicalPlan::Projection(projection) => {
            let columns = projection.expr.iter().zip(types).map(|(expr, of)| match open(unaliased(expr)) {
                Some(id) => {
                    let field = Arc::new(Field::new(id, of.clone(), true));
                    let placeholder = Placeholder::new_with_field(id.to_owned(), Some(field));
                    Expr::Placeholder(placeholder).alias(expr.schema_name().to_string())
                }
                None => expr.clone(),
            });
            let input = Arc::clone(&projection.input);
            LogicalPlan::Projection(Projection::try_new(columns.collect(), input)?)
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            LogicalPlan::Distinct(Distinct::All(typed(input, types)?))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let input = typed(&alias.input, types)?;
            LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(input, alias.alias.clone())?)
        }
        _ => return Ok(Arc::clone(input)),
    };
    Ok(Arc::new(typed))
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
        let mut suggested = Suggested(types);
        let done = plan.apply_with_subqueries(|plan| {
            suggested.of_plan(plan);
            let schema = merge_schema(&plan.inputs());
            plan.apply_expressions(|expr| {
                expr.apply(|expr| {
                    suggested.of_expr(expr, &schema);
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        });
        done.map_err(unplanned)?;
        types = suggested.0;
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
    if let (DataType::List(a), DataType::List(b)) = (a, b) {
        return Some(DataType::new_list(both(a.data_type(), b.data_type())?, true));
    }
    if is_span(a) && is_span(b) {
        return Some(INTERVAL);
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

/// Whether it is the type of intervals or of differences of timestamps.
fn is_span(of: &DataType) -> bool {
    matches!(of, DataType::Interval(_) | DataType::Duration(_))
}

/// The types of parameters, those of which nothing else is said as the places let one suppose them in which they stand.
struct Suggested(HashMap<String, Option<DataType>>);

impl Suggested {
    fn of_plan(&mut self, plan: &LogicalPlan) {
        match plan {
            LogicalPlan::Limit(Limit { skip, fetch, .. }) => {
                for rows in [skip, fetch].into_iter().flatten() {
                    self.suggest(rows, &DataType::Int64);
                }
            }
            LogicalPlan::Filter(filter) => self.suggest(&filter.predicate, &DataType::Boolean),
            // Those that count rows have what numbers them between the join and its parameters.
            LogicalPlan::Join(join) if is_set(join) => {
                for at in 0..join.on.len() {
                    self.of_columns(&join.left, &join.right, at);
                    self.of_columns(&join.right, &join.left, at);
                }
            }
            _ => {}
        }
    }

    /// Parameters that are a column of one of two queries whose columns meet: they are of the other's type.
    fn of_columns(&mut self, own: &LogicalPlan, other: &LogicalPlan, at: usize) {
        if let Some(of) = other.schema().fields().get(at).filter(|of| !of.data_type().is_null()) {
            self.of_column(own, at, &given(of.data_type()));
        }
    }

    /// Parameters that are a column of a query, of this type.
    fn of_column(&mut self, query: &LogicalPlan, at: usize, of: &DataType) {
        match query {
            LogicalPlan::Projection(projection) => match projection.expr.get(at).map(unaliased) {
                Some(Expr::Column(column)) => {
                    if let Some(at) = projection.input.schema().maybe_index_of_column(column) {
                        self.of_column(&projection.input, at, of);
                    }
                }
                Some(value) => self.suggest(value, of),
                None => {}
            },
            // What it adds stands behind the columns that it has.
            LogicalPlan::Window(window) if at < window.input.schema().fields().len() => {
                self.of_column(&window.input, at, of);
            }
            LogicalPlan::SubqueryAlias(alias) => self.of_column(&alias.input, at, of),
            LogicalPlan::Distinct(Distinct::All(input)) => self.of_column(input, at, of),
            LogicalPlan::Union(union) => union.inputs.iter().for_each(|input| self.of_column(input, at, of)),
            _ => {}
        }
    }

    /// The value of a subquery beside what is compared with it.
    fn of_subquery(&mut self, subquery: &Subquery, compared: &Expr, schema: &DFSchema) {
        if let Ok(of) = compared.get_type(schema)
            && !of.is_null()
        {
            self.of_column(&subquery.subquery, 0, &of);
        }
    }

    fn of_expr(&mut self, expr: &Expr, schema: &DFSchema) {
        match expr {
            Expr::Not(inner)
            | Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner)
            | Expr::IsUnknown(inner)
            | Expr::IsNotUnknown(inner) => self.suggest(inner, &DataType::Boolean),
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
                self.suggest(left, &DataType::Boolean);
                self.suggest(right, &DataType::Boolean);
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() => {
                for (own, other) in [(left, right), (right, left)] {
                    if let Expr::ScalarSubquery(subquery) = &**own {
                        self.of_subquery(subquery, other, schema);
                    }
                }
            }
            Expr::InSubquery(of) => self.of_subquery(&of.subquery, &of.expr, schema),
            // As PostgreSQL has it: the sign is first one of floats.
            Expr::Negative(inner) => self.suggest(inner, &DataType::Float64),
            Expr::Between(between) => self.alike(&[&*between.expr, &*between.low, &*between.high], schema),
            Expr::InList(of) => {
                self.alike(&of.list.iter().chain([&*of.expr]).collect::<Vec<_>>(), schema);
            }
            Expr::Case(of) => {
                let values = of.when_then_expr.iter().map(|(_, then)| &**then);
                self.alike(&values.chain(of.else_expr.as_deref()).collect::<Vec<_>>(), schema);
                let whens = of.when_then_expr.iter().map(|(when, _)| &**when);
                match &of.expr {
                    Some(compared) => self.alike(&whens.chain([&**compared]).collect::<Vec<_>>(), schema),
                    None => whens.for_each(|when| self.suggest(when, &DataType::Boolean)),
                }
            }
            Expr::ScalarFunction(function) if CHOICES.contains(&function.name()) => {
                self.alike(&function.args.iter().collect::<Vec<_>>(), schema);
            }
            Expr::ScalarFunction(function) if OF_DOUBLES.contains(&function.name()) => {
                function.args.iter().for_each(|arg| self.suggest(arg, &DataType::Float64));
            }
            Expr::ScalarFunction(function) if OF_NUMBERS.contains(&function.name()) => {
                function.args.iter().take(1).for_each(|arg| self.suggest(arg, &DataType::Float64));
            }
            Expr::ScalarFunction(function) if SERIES.contains(&function.name()) => {
                self.alike(&function.args.iter().take(2).collect::<Vec<_>>(), schema);
                function.args.iter().for_each(|arg| self.suggest(arg, &DataType::Int64));
            }
            // So many of a unit.
            Expr::ScalarFunction(function) if function.name() == "basalt_interval" => {
                function.args.iter().take(1).for_each(|arg| self.suggest(arg, &DataType::Int64));
            }
            Expr::AggregateFunction(function) => {
                let AggregateFunctionParams { args, filter, .. } = &function.params;
                filter.iter().for_each(|condition| self.suggest(condition, &DataType::Boolean));
                if ["quantile", "percentile"].iter().any(|share| function.func.name().contains(share)) {
                    args.iter().for_each(|arg| self.suggest(arg, &DataType::Float64));
                }
            }
            Expr::WindowFunction(function) => self.of_window(function, schema),
            _ => {}
        }
    }

    fn of_window(&mut self, function: &WindowFunction, schema: &DFSchema) {
        let filter = &function.params.filter;
        filter.iter().for_each(|condition| self.suggest(condition, &DataType::Boolean));
        match (function.fun.name(), &function.params.args[..]) {
            ("ntile", [count]) => self.suggest(count, &DataType::Int64),
            ("nth_value" | "lag" | "lead" | "basalt_lag" | "basalt_lead", [value, by, rest @ ..]) => {
                self.suggest(by, &DataType::Int64);
                if let [otherwise] = rest {
                    self.alike(&[value, otherwise], schema);
                }
            }
            _ => {}
        }
    }

    /// Values that are of one type, which is that of those that have one.
    fn alike(&mut self, values: &[&Expr], schema: &DFSchema) {
        if let Some(common) = common(values, schema) {
            values.iter().for_each(|value| self.suggest(value, &common));
        }
    }

    fn suggest(&mut self, expr: &Expr, of: &DataType) {
        if let Some(id) = open(expr)
            && let Some(known) = self.0.get_mut(id)
            && known.is_none()
        {
            *known = Some(of.clone());
        }
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
            (
                Add,
                DataType::Timestamp(TimeUnit::Microsecond, None),
                Some(DataType::Interval(IntervalUnit::MonthDayNano)),
            ),
            (Add, DataType::Utf8, None),
            (Divide, DataType::Null, Some(DataType::Float64)),
            (Multiply, DataType::Null, None),
        ] {
            assert_eq!(taken(op, &other), expected, "{op:?} {other}");
        }
    }

    #[test]
    fn what_stands_in_several_places_has_the_values_of_all() {
        let list = |item| DataType::new_list(item, true);
        let micros = |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into));
        for (a, b, expected) in [
            (DataType::Int16, DataType::Int32, Some(DataType::Int64)),
            (DataType::Int32, DataType::Float32, Some(DataType::Float64)),
            (DataType::Int32, DataType::Decimal128(9, 2), Some(DataType::Decimal128(38, 2))),
            (DataType::Utf8, DataType::Utf8View, Some(DataType::Utf8)),
            (DataType::Date32, micros(Some("UTC")), Some(micros(Some("UTC")))),
            (DataType::Int32, DataType::Utf8, None),
            (list(DataType::Int32), list(DataType::Int64), Some(list(DataType::Int64))),
            (list(DataType::Int32), DataType::Int32, None),
            (DataType::Duration(TimeUnit::Microsecond), INTERVAL, Some(INTERVAL)),
            (INTERVAL, DataType::Int64, None),
        ] {
            assert_eq!(both(&a, &b), expected, "{a} {b}");
            assert_eq!(both(&b, &a), expected, "{b} {a}");
        }
    }
}
