//! Intervals that are equal, though one is of months and the other of days: they are one value of groups, of DISTINCT, of sets, of
//! partitions and of joins by columns, as they are one to `=`. Of those that are equal the one of the most months, and then of the
//! most days, is shown.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, IntervalMonthDayNanoArray, cast::AsArray as _};
use arrow_schema::DataType;
use datafusion::{
    arrow::compute::cast,
    common::{Column, DFSchema, Result},
    functions_aggregate::min_max::max_udaf,
    logical_expr::{
        Aggregate, ColumnarValue, Distinct, Expr, ExprSchemable as _, LogicalPlan, Projection,
        ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, Window,
        expr::{AggregateFunction, ScalarFunction},
        when,
    },
};

use crate::{
    correlated,
    error::Error,
    functions::{INTERVAL, as_intervals, interval_order, of_arrays},
    interval,
    meaning::is_interval,
};

/// Whether values are intervals of which those are one that are equal.
fn are_one(expr: &Expr, schema: &DFSchema) -> bool {
    is_interval(expr, schema) && !is_read(expr)
}

/// Whether it is what subqueries read of the query around them. Such values are told apart as they are: a date and 30 days is
/// another date than one and a month.
fn is_read(expr: &Expr) -> bool {
    expr.column_refs().into_iter().any(correlated::is_of_domain)
}

fn is_span(expr: &Expr, schema: &DFSchema) -> bool {
    let is_difference = |of: DataType| matches!(of, DataType::Duration(_));
    is_interval(expr, schema) || expr.get_type(schema).is_ok_and(is_difference)
}

/// Puts numbers in the places of such intervals, which are the same where these are equal; whether there were any.
pub(crate) fn as_numbers<'a>(exprs: impl IntoIterator<Item = &'a mut Expr>, schema: &DFSchema) -> bool {
    let mut changed = false;
    for expr in exprs {
        if are_one(expr, schema) {
            *expr = interval_order(std::mem::take(expr));
            changed = true;
        }
    }
    changed
}

/// The same of the keys that two sides are joined by, one of which may be a difference of timestamps.
pub(crate) fn keys_as_numbers(
    (own, of_own): (&mut Expr, &DFSchema),
    (other, of_other): (&mut Expr, &DFSchema),
) -> bool {
    let are_spans = is_span(own, of_own) && is_span(other, of_other);
    let has_interval = is_interval(own, of_own) || is_interval(other, of_other);
    if !are_spans || !has_interval || is_read(own) || is_read(other) {
        return false;
    }
    for key in [own, other] {
        *key = interval_order(std::mem::take(key));
    }
    true
}

/// The same of the distinct values that an aggregate counts, and of what it is in the order of.
///
/// # Errors
/// Where it makes another thing of distinct intervals.
pub(crate) fn aggregated(of: &mut AggregateFunction, schema: &DFSchema) -> Result<bool> {
    let changed = as_numbers(of.params.order_by.iter_mut().map(|sort| &mut sort.expr), schema);
    if !of.params.distinct || !of.params.args.iter().any(|arg| are_one(arg, schema)) {
        return Ok(changed);
    }
    match of.func.name() {
        "count" => Ok(as_numbers(&mut of.params.args, schema)),
        "min" | "max" => Ok(changed),
        name => Err(Error::unsupported(format!("{name}(DISTINCT) of intervals")).into()),
    }
}

/// What the name of a least or greatest value begins with that is bytes of an interval.
const EXTREME: &str = "basalt_extreme_";

/// Has a window be of the least or the greatest of bytes, where it is of intervals; whether it is. A plan that has it is then one of
/// those that [`grouped`] changes.
pub(crate) fn extreme(name: &str, args: &mut Vec<Expr>, schema: &DFSchema) -> bool {
    let is_one = ["min", "max"].contains(&name) && args.iter().any(|arg| is_interval(arg, schema));
    if is_one {
        *args = std::mem::take(args).into_iter().map(bytes).collect();
    }
    is_one
}

/// Whether it is a window of the least or the greatest of such bytes, and was not made here.
fn is_of_bytes(window: &Expr) -> bool {
    match window {
        Expr::Alias(alias) => !alias.name.starts_with(EXTREME) && is_of_bytes(&alias.expr),
        Expr::WindowFunction(of) => {
            of.params.args.iter().any(
                |arg| matches!(arg, Expr::ScalarFunction(made) if made.func.name() == Kind::Bytes.name()),
            )
        }
        _ => false,
    }
}

/// Windows with intervals in the places of such bytes.
fn windowed(window: Window) -> Result<(LogicalPlan, bool)> {
    let are_bytes: Vec<bool> = window.window_expr.iter().map(is_of_bytes).collect();
    if !are_bytes.contains(&true) {
        return Ok((LogicalPlan::Window(window), false));
    }
    let shown = Arc::clone(&window.schema);
    let of_input = window.input.schema().fields().len();
    let functions = window.window_expr.into_iter().zip(&are_bytes).enumerate();
    let functions = functions.map(|(at, (expr, is_bytes))| match is_bytes {
        true => expr.unalias().alias(format!("{EXTREME}{at}")),
        false => expr,
    });
    let plan = LogicalPlan::Window(Window::try_new(functions.collect(), window.input)?);
    let columns = plan.schema().columns().into_iter().map(Expr::Column).enumerate();
    let selected = columns.zip(shown.iter()).map(|((at, column), (relation, field))| {
        match at.checked_sub(of_input).is_some_and(|at| are_bytes[at]) {
            true => interval_of(column).alias_qualified(relation.cloned(), field.name()),
            false => column,
        }
    });
    let selected = selected.collect();
    Ok((LogicalPlan::Projection(Projection::try_new(selected, Arc::new(plan))?), true))
}

/// A plan whose groups, or distinct rows, have one of the intervals that are equal, and whose least and greatest intervals are those
/// of how long they are; and whether it is another plan.
///
/// # Errors
/// Where intervals are among GROUPING SETS.
pub(crate) fn grouped(plan: LogicalPlan) -> Result<(LogicalPlan, bool)> {
    let groups = match plan {
        LogicalPlan::Aggregate(groups) => groups,
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let columns: Vec<_> = input.schema().columns().into_iter().map(Expr::Column).collect();
            if !columns.iter().any(|column| are_one(column, input.schema())) {
                return Ok((LogicalPlan::Distinct(Distinct::All(input)), false));
            }
            Aggregate::try_new(input, columns, Vec::new())?
        }
        LogicalPlan::Window(window) => return windowed(window),
        plan => return Ok((plan, false)),
    };
    let schema = Arc::clone(groups.input.schema());
    for sets in &groups.group_expr {
        if let Expr::GroupingSet(sets) = sets
            && sets.distinct_expr().into_iter().any(|key| are_one(key, &schema))
        {
            return Err(Error::unsupported("GROUPING SETS, ROLLUP and CUBE of intervals").into());
        }
    }
    // One that is the same for all rows has no other beside it.
    let is_one = |key: &Expr| key.any_column_refs() && are_one(key, &schema);
    let is_key: Vec<bool> = groups.group_expr.iter().map(is_one).collect();
    let is_extreme: Vec<bool> = groups.aggr_expr.iter().map(|expr| is_extreme(expr, &schema)).collect();
    if !is_key.contains(&true) && !is_extreme.contains(&true) {
        return Ok((LogicalPlan::Aggregate(groups), false));
    }
    let shown = Arc::clone(&groups.schema);
    let of_groups = shown.fields().len() - groups.aggr_expr.len();
    let (mut keys, mut ones) = (Vec::with_capacity(is_key.len()), Vec::new());
    for (at, (key, is_key)) in groups.group_expr.into_iter().zip(&is_key).enumerate() {
        if !is_key {
            keys.push(key);
            continue;
        }
        let key = key.unalias();
        ones.push((at, max_udaf().call(vec![bytes(key.clone())]).alias(format!("basalt_shown_{at}"))));
        keys.push(interval_order(key).alias(format!("basalt_length_{at}")));
    }
    let mut aggregates = Vec::with_capacity(groups.aggr_expr.len() + ones.len());
    for (at, (expr, is_extreme)) in groups.aggr_expr.into_iter().zip(&is_extreme).enumerate() {
        aggregates.push(match expr.unalias() {
            Expr::AggregateFunction(mut of) if *is_extreme => {
                of.params.args = std::mem::take(&mut of.params.args).into_iter().map(bytes).collect();
                Expr::AggregateFunction(of).alias(format!("{EXTREME}{at}"))
            }
            // By the name that it has.
            expr => {
                let (relation, name) = shown.qualified_field(of_groups + at);
                match expr.qualified_name() == (relation.cloned(), name.name().clone()) {
                    true => expr,
                    false => expr.alias_qualified(relation.cloned(), name.name()),
                }
            }
        });
    }
    let (places, ones): (Vec<usize>, Vec<Expr>) = ones.into_iter().unzip();
    aggregates.extend(ones);
    let plan = Aggregate::try_new(groups.input, keys, aggregates)?;
    let columns: Vec<Expr> = plan.schema.columns().into_iter().map(Expr::Column).collect();
    let mut selected = Vec::with_capacity(shown.fields().len());
    for (at, (relation, field)) in shown.iter().enumerate() {
        let own = columns[at].clone();
        let value = match places.iter().position(|place| *place == at) {
            // Of NULL there is none, and no other of the group.
            Some(one) => {
                let one = columns[shown.fields().len() + one].clone();
                when(own.is_not_null(), interval_of(one)).end()?
            }
            None if at >= of_groups && is_extreme[at - of_groups] => interval_of(own),
            None => own,
        };
        let column = Column::new(relation.cloned(), field.name());
        selected.push(match value == Expr::Column(column) {
            true => value,
            false => value.alias_qualified(relation.cloned(), field.name()),
        });
    }
    let plan = Projection::try_new(selected, Arc::new(LogicalPlan::Aggregate(plan)))?;
    Ok((LogicalPlan::Projection(plan), true))
}

/// Whether it is the least or the greatest of several intervals in a row, which would be told by their months first.
pub(crate) fn are_chosen(of: &ScalarFunction, schema: &DFSchema) -> bool {
    ["greatest", "least"].contains(&of.name()) && of.args.iter().any(|arg| is_interval(arg, schema))
}

/// The same of how long they are.
pub(crate) fn chosen(mut of: ScalarFunction) -> Expr {
    of.args = of.args.into_iter().map(bytes).collect();
    interval_of(Expr::ScalarFunction(of))
}

/// Whether it is the least or the greatest of intervals.
fn is_extreme(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Alias(alias) => is_extreme(&alias.expr, schema),
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            ["min", "max"].contains(&func.name()) && params.args.iter().any(|arg| is_interval(arg, schema))
        }
        _ => false,
    }
}

/// An interval as bytes that have its order, those that are equal in the order of their months and days.
fn bytes(interval: Expr) -> Expr {
    function(Kind::Bytes).call(vec![interval])
}

fn interval_of(bytes: Expr) -> Expr {
    function(Kind::Interval).call(vec![bytes])
}

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Bytes,
    Interval,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Bytes => "basalt_interval_bytes",
            Self::Interval => "basalt_interval_of_bytes",
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    kind: Kind,
    signature: Signature,
}

fn function(kind: Kind) -> ScalarUDF {
    ScalarUDF::new_from_impl(Function { kind, signature: Signature::any(1, Volatility::Immutable) })
}

/// What a task may have of them.
pub(crate) fn inner() -> impl Iterator<Item = ScalarUDF> {
    [Kind::Bytes, Kind::Interval].into_iter().map(function)
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.kind.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::Bytes => DataType::Binary,
            Kind::Interval => INTERVAL,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_arrays(&args, |arrays, _| {
            let made: ArrayRef = match self.kind {
                Kind::Bytes => {
                    let intervals = as_intervals(&arrays[0])?;
                    let all: BinaryArray = intervals.iter().map(|of| of.map(interval::bytes)).collect();
                    Arc::new(all)
                }
                Kind::Interval => {
                    let bytes = cast(&arrays[0], &DataType::Binary)?;
                    let bytes = bytes.as_binary::<i32>().iter();
                    let all: IntervalMonthDayNanoArray = bytes.map(|of| interval::of_bytes(of?)).collect();
                    Arc::new(all)
                }
            };
            Ok(made)
        })
    }
}
