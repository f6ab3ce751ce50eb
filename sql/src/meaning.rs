//! What DataFusion would do otherwise than the engine, put right before it chooses types: the sign of the least integer
//! is an error, where a float meets a decimal the decimal becomes a float, never the float a decimal, intervals are compared
//! by how long they are, and times and timestamps are written as people do.

mod compared;
mod types;

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};
use datafusion::{
    common::{
        DFSchema, Result, ScalarValue,
        config::ConfigOptions,
        tree_node::{Transformed, TransformedResult as _, TreeNode as _},
    },
    logical_expr::{
        BinaryExpr, Case, Cast, Distinct, Expr, ExprSchemable as _, LogicalPlan, LogicalPlanBuilder,
        Operator, SortExpr, Subquery, TryCast, cast, expr::InList, expr_rewriter::NamePreserver, lit,
    },
    optimizer::AnalyzerRule,
};

pub(crate) use types::is_interval;
use types::{
    is_binned, is_bool, is_bytes, is_clock, is_date, is_decimal, is_decimal_text, is_list, is_nested,
    is_no_list, is_zoned,
};

use crate::{
    absent,
    arithmetic::negated,
    checked, choices, coerce,
    decimals::{numeric, whole},
    epoch, equal_intervals,
    error::Error,
    functions, json, lists, named, parameters, timestamps, truncated, untyped, windows,
    zeros::{self, distinct_with_one_zero, is_computed, nested_with_one_zero, one_zero, windows_by_columns},
};

/// Functions that give one of their arguments, or all of them.
const CHOICES: [&str; 7] = ["coalesce", "nullif", "greatest", "least", "nvl", "ifnull", "make_array"];

/// Functions whose result is a double, also of a REAL.
pub(crate) const OF_DOUBLES: [&str; 24] = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "cot", "degrees",
    "exp", "ln", "log", "log10", "log2", "power", "radians", "sin", "sinh", "sqrt", "tan", "tanh",
];

/// See the module.
#[derive(Debug)]
pub(crate) struct Meaning;

impl AnalyzerRule for Meaning {
    fn name(&self) -> &str {
        "meaning"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        settled(plan)
    }
}

/// The rule, for a plan before others look at it: subqueries know the columns around them by the types that they have.
pub(crate) fn settled(plan: LogicalPlan) -> Result<LogicalPlan> {
    // Types of what is below may be others.
    let mut retyped = false;
    plan.transform_up_with_subqueries(|plan| {
        let (plan, is_other) = coerce::settled(plan)?;
        retyped |= is_other;
        let inputs: Vec<_> = plan.inputs().iter().map(|input| Arc::clone(input.schema())).collect();
        let mut schema = DFSchema::empty();
        inputs.iter().for_each(|input| schema.merge(input));
        let names = NamePreserver::new(&plan);
        let sorted = if let LogicalPlan::Sort(sort) = &plan { Some(Arc::clone(&sort.input)) } else { None };
        let mut changed = false;
        let plan = match plan {
            LogicalPlan::Window(mut window) => {
                changed = windows::timed(&mut window.window_expr, &schema);
                LogicalPlan::Window(window)
            }
            LogicalPlan::Sort(mut sort) => {
                nulls_apart(&mut sort.expr, &schema);
                LogicalPlan::Sort(sort)
            }
            // Its first values have the order as it is written, and the plan none of a key that stands twice.
            LogicalPlan::Distinct(Distinct::On(mut on)) => {
                on.sort_expr.iter_mut().for_each(choices::once);
                let order = on.sort_expr.iter_mut().flatten().map(|sort| &mut sort.expr);
                changed |= equal_intervals::as_numbers(on.on_expr.iter_mut().chain(order), &schema);
                LogicalPlan::Distinct(Distinct::On(on))
            }
            plan => plan,
        };
        let nesting: Option<Vec<LogicalPlan>> =
            zeros::nests(&plan)?.then(|| plan.inputs().into_iter().cloned().collect());
        let aggregated =
            if let LogicalPlan::Aggregate(groups) = &plan { Some(Arc::clone(&groups.input)) } else { None };
        let plan = if retyped { around_subqueries(plan, &schema)? } else { plan };
        let plan = plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let mut expr = expr.transform_up(|expr| rewritten(expr, &schema))?;
            if let Some(input) = &sorted {
                if is_interval(&expr.data, &schema) {
                    expr = Transformed::yes(functions::interval_order(expr.data));
                }
                if is_computed(&expr.data, input) {
                    expr.transformed |= one_zero(std::iter::once(&mut expr.data), &schema);
                }
            }
            if let Some(inputs) = &nesting {
                expr = expr.transform_data(|expr| nested_with_one_zero(expr, inputs, &schema))?;
            }
            if let Some(input) = &aggregated {
                expr = expr.transform_data(|expr| distinct_with_one_zero(expr, input, &schema))?;
            }
            changed |= expr.transformed;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })?;
        let plan = plan.transform_data(windows_by_columns)?;
        retyped |= changed;
        let plan = match retyped {
            true => plan.map_data(LogicalPlan::recompute_schema)?,
            false => plan,
        };
        plan.transform_data(|plan| {
            let (plan, is_other) = equal_intervals::grouped(plan)?;
            retyped |= is_other;
            Ok(if is_other { Transformed::yes(plan) } else { Transformed::no(plan) })
        })
    })
    .data()
}

/// Has the subqueries in a plan's expressions know the columns around them by the types that they have.
fn around_subqueries(plan: LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
    let around = |subquery: LogicalPlan| {
        let mut changed = false;
        let mut typed = |expr: Expr| match expr {
            Expr::OuterReferenceColumn(field, column) => match schema.qualified_field_from_column(&column) {
                Ok((_, now)) if now.data_type() != field.data_type() => {
                    changed = true;
                    Ok(Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(now), column)))
                }
                _ => Ok(Transformed::no(Expr::OuterReferenceColumn(field, column))),
            },
            other => Ok(Transformed::no(other)),
        };
        let plan = subquery.transform_down_with_subqueries(|plan| {
            plan.map_expressions(|expr| expr.transform_up(&mut typed))
        })?;
        if !changed {
            return Ok(plan);
        }
        // What is made of them is of other types too.
        let plan =
            plan.data.transform_up_with_subqueries(|plan| plan.recompute_schema().map(Transformed::yes));
        settled(plan.data()?).map(Transformed::yes)
    };
    plan.map_subqueries(around).data()
}

/// The place of what is NULL as a key of its own, before lists and structs: NULLs among their values would go with it.
pub(crate) fn nulls_apart(keys: &mut Vec<SortExpr>, schema: &DFSchema) {
    let mut apart = Vec::with_capacity(keys.len());
    for mut key in keys.drain(..) {
        if is_nested(&key.expr, schema) && key.nulls_first == key.asc {
            apart.push(SortExpr::new(key.expr.clone().is_null(), !key.nulls_first, true));
            key.nulls_first = !key.asc;
        }
        apart.push(key);
    }
    *keys = apart;
}

/// Gives a subquery's column that has no table a name of its own. Where IN is one of several conditions the planner lists the
/// column by that name and by the subquery's, which would be one column twice.
fn named(subquery: &mut Subquery) -> Result<bool> {
    const NAME: &str = "basalt_in";
    let Some(Expr::Column(column)) = subquery.subquery.head_output_expr()? else { return Ok(false) };
    if column.relation.is_some() {
        return Ok(false);
    }
    let column = Expr::Column(column).alias(NAME);
    let plan = LogicalPlanBuilder::from(Arc::clone(&subquery.subquery)).project([column])?.build()?;
    subquery.subquery = Arc::new(plan);
    Ok(true)
}

pub(crate) fn rewritten(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_other = compared::settled(&mut expr, schema)?;
    let mut meant = meant(expr, schema)?;
    meant.transformed |= is_other;
    Ok(meant)
}

fn meant(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        expr if named::inner(&expr).is_some() => {
            // Default: it is what it was.
            let inner = named::inner(&expr).cloned().unwrap_or(expr);
            Transformed::yes(inner)
        }
        Expr::Negative(inner) => {
            let wraps = inner.get_type(schema).is_ok_and(|data_type| {
                data_type.is_signed_integer() || matches!(data_type, DataType::Decimal128(..))
            });
            match inner.get_type(schema) {
                _ if wraps => Transformed::yes(negated(*inner)),
                // Another sign would make another value of NaN.
                Ok(DataType::Float64) => Transformed::yes(*inner * lit(-1.0_f64)),
                Ok(DataType::Float32) => Transformed::yes(*inner * lit(-1.0_f32)),
                _ => Transformed::no(Expr::Negative(inner)),
            }
        }
        Expr::ScalarFunction(mut function) if OF_DOUBLES.contains(&function.func.name()) => {
            let mut changed = false;
            for arg in &mut function.args {
                if arg.get_type(schema).is_ok_and(|data_type| data_type == DataType::Float32) {
                    *arg = cast(std::mem::take(arg), DataType::Float64);
                    changed = true;
                }
            }
            transformed(Expr::ScalarFunction(function), changed)
        }
        Expr::ScalarFunction(function) if numeric::is_one(&function) => {
            Transformed::yes(match numeric::settled(function, schema)? {
                made @ (Expr::Cast(_) | Expr::TryCast(_)) => rewritten(made, schema)?.data,
                same => same,
            })
        }
        Expr::ScalarFunction(function) if whole::is_one(&function, schema) => {
            Transformed::yes(whole::settled(function))
        }
        Expr::ScalarFunction(function) if epoch::is_of_interval(&function, schema) => {
            Transformed::yes(epoch::of_interval(function))
        }
        // Of nanoseconds, which it would be, there are fewer years.
        Expr::ScalarFunction(mut function)
            if function.func.name() == truncated::NAME
                && function.args.get(1).is_some_and(|of| is_date(of, schema)) =>
        {
            if let Some(of) = function.args.get_mut(1) {
                *of = cast(std::mem::take(of), DataType::Timestamp(TimeUnit::Microsecond, None));
            }
            Transformed::yes(Expr::ScalarFunction(function))
        }
        Expr::ScalarFunction(mut function)
            if function.func.name() == "to_char"
                && function.args.first().is_some_and(|of| is_zoned(of, schema)) =>
        {
            if let Some(of) = function.args.first_mut() {
                *of = cast(std::mem::take(of), DataType::Timestamp(TimeUnit::Microsecond, None));
            }
            Transformed::yes(Expr::ScalarFunction(function))
        }
        Expr::ScalarFunction(mut function) if is_binned(&function, schema) => {
            for of in function.args.iter_mut().skip(1).filter(|of| is_date(of, schema)) {
                *of = cast(std::mem::take(of), DataType::Timestamp(TimeUnit::Microsecond, None));
            }
            Transformed::yes(timestamps::binned(function.args))
        }
        // The planner would cast it later, and know only then how many places the result has.
        Expr::ScalarFunction(mut round)
            if round.func.name() == "round"
                && matches!(round.args.get(1), Some(Expr::Literal(ScalarValue::Int64(Some(_)), _))) =>
        {
            let mut changed = false;
            if let Some(Expr::Literal(places, _)) = round.args.get_mut(1)
                && let ScalarValue::Int64(Some(given)) = *places
                && let Ok(given) = i32::try_from(given)
            {
                *places = ScalarValue::Int32(Some(given));
                changed = true;
            }
            transformed(Expr::ScalarFunction(round), changed)
        }
        Expr::BinaryExpr(BinaryExpr { mut left, op: Operator::StringConcat, mut right }) => {
            let changed = written(&mut left, schema) | written(&mut right, schema);
            transformed(Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }), changed)
        }
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: op @ (Operator::IsDistinctFrom | Operator::IsNotDistinctFrom),
            right,
        }) if is_nested(&left, schema) || is_nested(&right, schema) => {
            let differs = lists::differs(*left, *right);
            Transformed::yes(match op {
                Operator::IsDistinctFrom => differs,
                _ => Expr::Not(Box::new(differs)),
            })
        }
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: op @ (Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq),
            right,
        }) if is_nested(&left, schema) && is_nested(&right, schema) => {
            let less = matches!(op, Operator::Lt | Operator::LtEq);
            let same = matches!(op, Operator::LtEq | Operator::GtEq);
            Transformed::yes(lists::ordered(*left, *right, less, same))
        }
        Expr::BinaryExpr(BinaryExpr { mut left, op, mut right }) if op.supports_propagation() => {
            let sides = &mut [&mut *left, &mut *right];
            let changed = meet(sides, schema) | truth(sides, schema) | ordered(sides, schema);
            transformed(Expr::BinaryExpr(BinaryExpr { left, op, right }), changed)
        }
        Expr::Between(of)
            if choices::are_unlike([&*of.expr, &*of.low, &*of.high], schema) && !of.expr.is_volatile() =>
        {
            Transformed::yes(choices::two_sided(of))
        }
        Expr::Between(mut between) => {
            let sides = &mut [&mut *between.expr, &mut *between.low, &mut *between.high];
            let changed = meet(sides, schema) | ordered(sides, schema);
            transformed(Expr::Between(between), changed)
        }
        Expr::InList(InList { mut expr, mut list, negated }) => {
            let mut sides: Vec<&mut Expr> = list.iter_mut().chain([&mut *expr]).collect();
            let mut changed =
                meet(&mut sides, schema) | truth(&mut sides, schema) | ordered(&mut sides, schema);
            // They are found by their bits, but for those of a column, which tables look for.
            if !matches!(*expr, Expr::Column(_)) {
                changed |= one_zero([&mut *expr].into_iter().chain(&mut list), schema);
            }
            let is_unlike = choices::are_unlike(list.iter().chain([&*expr]), schema) && !expr.is_volatile();
            if is_unlike || choices::is_choice(&list) {
                return Ok(Transformed::yes(choices::one_by_one(*expr, list, negated)));
            }
            transformed(Expr::InList(InList { expr, list, negated }), changed)
        }
        Expr::ScalarFunction(mut function)
            if function.func.name() == "nullif" && choices::has_floats(&function.args, schema) =>
        {
            let mut sides: Vec<&mut Expr> = function.args.iter_mut().collect();
            let changed = meet(&mut sides, schema);
            match &function.args[..] {
                [own, other] => Transformed::yes(choices::null_if(own.clone(), own.clone(), other.clone())),
                _ => transformed(Expr::ScalarFunction(function), changed),
            }
        }
        Expr::InSubquery(mut of) => {
            let changed =
                coerce::compared(&mut of.expr, &mut of.subquery, schema)? | named(&mut of.subquery)?;
            transformed(Expr::InSubquery(of), changed)
        }
        Expr::ScalarSubquery(mut of) => {
            let changed = absent::may_be_null(&mut of)?;
            transformed(Expr::ScalarSubquery(of), changed)
        }
        Expr::SetComparison(mut of) => {
            let changed = coerce::compared(&mut of.expr, &mut of.subquery, schema)?;
            transformed(Expr::SetComparison(of), changed)
        }
        Expr::Case(Case { mut expr, mut when_then_expr, mut else_expr }) => {
            let mut changed = false;
            if let Some(expr) = &mut expr {
                let whens = when_then_expr.iter_mut().map(|(when, _)| &mut **when);
                let mut sides: Vec<&mut Expr> = whens.chain([&mut **expr]).collect();
                changed |= meet(&mut sides, schema) | ordered(&mut sides, schema);
            }
            let thens = when_then_expr.iter_mut().map(|(_, then)| &mut **then);
            let mut sides: Vec<&mut Expr> = thens.chain(else_expr.as_deref_mut()).collect();
            changed |= untyped::typed(&mut sides, schema)?;
            changed |= meet(&mut sides, schema) | choices::alike(&mut sides, schema);
            transformed(Expr::Case(Case { expr, when_then_expr, else_expr }), changed)
        }
        Expr::ScalarFunction(mut function) if CHOICES.contains(&function.func.name()) => {
            let is_first_value = function.func.name() == "nullif" && untyped::is_one(function.args.first());
            let mut sides: Vec<&mut Expr> = function.args.iter_mut().collect();
            let mut changed = !is_first_value && untyped::typed(&mut sides, schema)?;
            changed |= meet(&mut sides, schema);
            untyped::check(&function.args, schema)?;
            if function.func.name() == "nullif"
                && choices::are_spans(&function.args, schema)
                && let [own, other] = function.args.as_slice()
            {
                let number = |of: &Expr| functions::interval_order(of.clone());
                return Ok(Transformed::yes(choices::null_if(own.clone(), number(own), number(other))));
            }
            if equal_intervals::are_chosen(&function, schema) {
                // The bytes that are chosen among say nothing of them.
                let mut sides: Vec<&mut Expr> = function.args.iter_mut().collect();
                parameters::compared(&mut sides, schema);
                return Ok(Transformed::yes(equal_intervals::chosen(function)));
            }
            transformed(Expr::ScalarFunction(function), changed)
        }
        Expr::ScalarFunction(function)
            if function.func.name() == "concat" && function.args.iter().any(|arg| is_list(arg, schema)) =>
        {
            Transformed::yes(lists::all_of(function.args))
        }
        Expr::ScalarFunction(function)
            if ["map", "make_map", "map_extract"].contains(&function.func.name())
                && function.args.iter().any(|arg| arg.get_type(schema).is_ok_and(|arg| arg.is_null())) =>
        {
            return Err(Error::unsupported(format!("{} of NULL", function.func.name())).into());
        }
        Expr::ScalarFunction(mut function) if ["concat", "concat_ws"].contains(&function.func.name()) => {
            let changed =
                function.args.iter_mut().fold(false, |changed, side| written(side, schema) | changed);
            transformed(Expr::ScalarFunction(function), changed)
        }
        // A text is an array of JSON.
        Expr::Cast(mut of) if json::is_list(&of.expr, of.field.data_type(), schema) => {
            *of.expr = json::as_list(*of.expr, of.field.data_type(), false);
            Transformed::yes(Expr::Cast(of))
        }
        Expr::TryCast(mut of) if json::is_list(&of.expr, of.field.data_type(), schema) => {
            *of.expr = json::as_list(*of.expr, of.field.data_type(), true);
            Transformed::yes(Expr::TryCast(of))
        }
        // Arrow would make a list of one value.
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })
            if lists::item(field.data_type()).is_some() && is_no_list(&expr, schema) =>
        {
            let of = functions::type_name(&expr.get_type(schema)?);
            return Err(Error::unsupported(format!("CAST of {of} to a list")).into());
        }
        Expr::Cast(mut of) if of.field.data_type().is_string() => {
            let changed = written(&mut of.expr, schema);
            transformed(Expr::Cast(of), changed)
        }
        Expr::TryCast(mut of) if of.field.data_type().is_string() => {
            let changed = written(&mut of.expr, schema);
            transformed(Expr::TryCast(of), changed)
        }
        Expr::Cast(mut of) if *of.field.data_type() == DataType::Boolean && is_decimal(&of.expr, schema) => {
            *of.expr = cast(*of.expr, DataType::Float64);
            Transformed::yes(Expr::Cast(of))
        }
        Expr::Cast(mut of) if of.field.data_type().is_decimal() && is_bool(&of.expr, schema) => {
            *of.expr = cast(*of.expr, DataType::Int64);
            Transformed::yes(Expr::Cast(of))
        }
        Expr::Cast(of) if is_decimal_text(&of.expr, of.field.data_type(), schema) => {
            let DataType::Decimal128(precision, scale) = *of.field.data_type() else {
                return Ok(Transformed::no(Expr::Cast(of)));
            };
            Transformed::yes(functions::decimal(*of.expr, precision, scale, false))
        }
        Expr::TryCast(of) if is_decimal_text(&of.expr, of.field.data_type(), schema) => {
            let DataType::Decimal128(precision, scale) = *of.field.data_type() else {
                return Ok(Transformed::no(Expr::TryCast(of)));
            };
            Transformed::yes(functions::decimal(*of.expr, precision, scale, true))
        }
        Expr::ScalarFunction(of) if checked::once(&of).is_some() => match checked::once(&of) {
            Some(inner) => Transformed::yes(inner),
            None => Transformed::no(Expr::ScalarFunction(of)),
        },
        expr @ (Expr::Cast(_) | Expr::TryCast(_)) if checked::is_one(&expr, schema) => {
            match checked::of_cast(&expr, schema)? {
                Some(checked) => Transformed::yes(checked),
                None => Transformed::no(expr),
            }
        }
        Expr::Cast(mut of) if is_bytes(&of.expr, of.field.data_type(), schema) => {
            *of.expr = functions::bytes(*of.expr, false);
            Transformed::yes(Expr::Cast(of))
        }
        Expr::TryCast(mut of) if is_bytes(&of.expr, of.field.data_type(), schema) => {
            *of.expr = functions::bytes(*of.expr, true);
            Transformed::yes(Expr::TryCast(of))
        }
        Expr::Cast(mut of) if is_clock(&of.expr, of.field.data_type(), schema) => {
            *of.expr = functions::clock(*of.expr, false);
            Transformed::yes(Expr::Cast(of))
        }
        Expr::TryCast(mut of) if is_clock(&of.expr, of.field.data_type(), schema) => {
            *of.expr = functions::clock(*of.expr, true);
            Transformed::yes(Expr::TryCast(of))
        }
        Expr::AggregateFunction(mut of) => {
            refuse(of.func.name(), &of.params.args, schema)?;
            let changed = joined(of.func.name(), &mut of.params.args, schema);
            let changed = equal_intervals::aggregated(&mut of, schema)? | changed;
            transformed(Expr::AggregateFunction(of), changed)
        }
        Expr::WindowFunction(mut of) => {
            let changed = windows::settled(&mut of, schema)?;
            transformed(Expr::WindowFunction(of), changed)
        }
        other => Transformed::no(other),
    })
}

/// Aggregates that would be taken otherwise than is meant.
pub(crate) fn refuse(name: &str, args: &[Expr], schema: &DFSchema) -> Result<()> {
    if ["min", "max"].contains(&name) && args.iter().any(|arg| is_nested(arg, schema)) {
        return Err(Error::unsupported(format!("{name} of lists and structs")).into());
    }
    if name == "nth_value" && !args.get(1).is_none_or(is_positive) {
        return Err(Error::invalid("nth_value counts from 1").into());
    }
    Ok(())
}

pub(crate) fn is_positive(arg: &Expr) -> bool {
    !matches!(arg, Expr::Literal(ScalarValue::Int64(Some(..=0)), _) | Expr::Negative(_))
}

/// Makes text of what is written otherwise than the cast does.
fn written(expr: &mut Expr, schema: &DFSchema) -> bool {
    let is_written = expr.get_type(schema).is_ok_and(|data_type| functions::is_written(&data_type));
    if is_written {
        *expr = functions::text(std::mem::take(expr));
    }
    is_written
}

/// Makes texts of what an aggregate joins as such.
pub(crate) fn joined(name: &str, args: &mut [Expr], schema: &DFSchema) -> bool {
    name == "string_agg" && args.first_mut().is_some_and(|arg| written(arg, schema))
}

/// Makes intervals that are compared the numbers by which they are, and the differences of timestamps beside them: as an
/// interval such a one has no days.
fn ordered(sides: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let is_difference =
        |side: &Expr| side.get_type(schema).is_ok_and(|data_type| matches!(data_type, DataType::Duration(_)));
    let is_null = |side: &Expr| side.get_type(schema).is_ok_and(|data_type| data_type.is_null());
    if !sides.iter().any(|side| is_interval(side, schema))
        || !sides.iter().all(|side| is_interval(side, schema) || is_difference(side) || is_null(side))
    {
        return false;
    }
    for side in sides.iter_mut().filter(|side| !is_null(side)) {
        let interval = std::mem::take(&mut **side);
        **side = functions::interval_order(interval);
    }
    true
}

fn transformed(expr: Expr, changed: bool) -> Transformed<Expr> {
    if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
}

/// Booleans beside texts: these say true or false; and beside whole numbers: they are 1 or 0, as DuckDB has both.
fn truth(sides: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let types: Vec<_> = sides.iter().map(|side| side.get_type(schema).unwrap_or(DataType::Null)).collect();
    let is_text = |side: &Expr| matches!(side, Expr::Literal(value, _) if value.data_type().is_string());
    let (mut texts, mut numbers) = (false, false);
    for (side, data_type) in sides.iter().zip(&types) {
        match data_type {
            DataType::Boolean | DataType::Null => {}
            _ if is_text(side) => texts = true,
            number if number.is_integer() => numbers = true,
            _ => return false,
        }
    }
    if !types.contains(&DataType::Boolean) || texts == numbers {
        return false;
    }
    for (side, data_type) in sides.iter_mut().zip(&types) {
        let wanted = match data_type {
            DataType::Boolean if numbers => DataType::Int64,
            DataType::Boolean | DataType::Null => continue,
            _ if texts => DataType::Boolean,
            _ => continue,
        };
        **side = cast(std::mem::take(&mut **side), wanted);
    }
    true
}

/// Makes the decimals among expressions floats, where there is a float among them, and dates and literal texts timestamps, where
/// there is one.
fn meet(sides: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let types: Vec<_> = sides.iter().map(|side| side.get_type(schema).unwrap_or(DataType::Null)).collect();
    if let Some(float) = coerce::float_of(types.iter()) {
        return coerce::cast_those(sides, &types, &float, DataType::is_decimal);
    }
    let Some(timestamp) = coerce::timestamp_of(types.iter()) else {
        return coerce::texts_as_timestamps(sides, &types);
    };
    coerce::cast_those(sides, &types, &timestamp, |data_type| !data_type.is_null())
}
