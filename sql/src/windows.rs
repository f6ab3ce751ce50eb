//! Windows as they are meant: in orders that DataFusion has no ranges of, and over frames that move, of which its aggregates
//! are wrong or have none.

use std::sync::Arc;

use arrow_array::types::IntervalMonthDayNano;
use arrow_schema::{DataType, TimeUnit};
use datafusion::{
    common::{DFSchema, Result, ScalarValue},
    functions::expr_fn::encode,
    functions_aggregate::min_max::{max_udaf, min_udaf},
    logical_expr::{
        Expr, ExprSchemable as _, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
        cast,
        expr::{NullTreatment, Sort, WindowFunction},
        expr_rewriter::NamePreserver,
        lit,
    },
};

use crate::{
    equal_intervals,
    error::Error,
    first_last,
    functions::INTERVAL,
    gathered::moving::moving,
    meaning::{is_interval, is_positive, joined, nulls_apart, refuse},
    shifted,
};

/// Whether anything of it is another afterwards.
pub(crate) fn settled(of: &mut WindowFunction, schema: &DFSchema) -> Result<bool> {
    let name = of.fun.name().to_owned();
    refuse(&name, &of.params.args, schema)?;
    if of.params.args.iter().any(Expr::is_volatile) {
        return Err(Error::unsupported("a window over random values").into());
    }
    let moves = !of.params.window_frame.start_bound.is_unbounded();
    if moves && ["bit_xor", "bit_and", "bit_or"].contains(&&*name) {
        return Err(Error::unsupported(format!("{name} over a frame whose start moves")).into());
    }
    let is_range = of.params.window_frame.units == WindowFrameUnits::Range;
    let mut groups = false;
    let is_offset = offsets(&of.params.window_frame).next().is_some();
    // Rows of one key are a group of them, and the planner knows no ranges of these.
    if is_range && of.params.order_by.iter().any(|sort| has_no_ranges(sort, schema)) {
        if is_offset {
            let what = "a range with an offset in the order of times of day, structs or maps";
            return Err(Error::unsupported(what).into());
        }
        let frame = &of.params.window_frame;
        of.params.window_frame = WindowFrame::new_bounds(
            WindowFrameUnits::Groups,
            frame.start_bound.clone(),
            frame.end_bound.clone(),
        );
        groups = true;
    }
    let of_bytes = |sort: &Sort| sort.expr.get_type(schema).is_ok_and(|data_type| data_type.is_binary());
    if is_range && is_offset && of.params.order_by.iter().any(of_bytes) {
        return Err(Error::unsupported("a range with an offset in the order of bytes").into());
    }
    let of_moments = |sort: &Sort| {
        let of = sort.expr.get_type(schema);
        of.is_ok_and(|of| matches!(of, DataType::Date32 | DataType::Timestamp(..)))
    };
    if is_range
        && of.params.order_by.iter().any(of_moments)
        && offsets(&of.params.window_frame).any(is_number)
    {
        let what = "a range of a number that is no whole number of days in the order of dates or timestamps";
        return Err(Error::unsupported(what).into());
    }
    let ignores = of.params.null_treatment == Some(NullTreatment::IgnoreNulls);
    if ignores && ["lag", "lead"].contains(&&*name) && !of.params.args.get(1).is_none_or(is_positive) {
        return Err(Error::unsupported("lag and lead by 0 or less with IGNORE NULLS").into());
    }
    if ["lag", "lead"].contains(&&*name) && of.params.args.get(1).is_some_and(Expr::any_column_refs) {
        return Err(Error::unsupported("lag and lead by a number of rows that is no constant").into());
    }
    if ["lag", "lead"].contains(&&*name) && of.params.args.get(2).is_some_and(Expr::any_column_refs) {
        return Err(Error::unsupported("lag and lead with a default that is no constant").into());
    }
    let of_intervals = |sort: &Sort| is_interval(&sort.expr, schema);
    if is_range && is_offset && of.params.order_by.iter().any(of_intervals) {
        return Err(Error::unsupported("a range with an offset in the order of intervals").into());
    }
    let mut changed = groups | joined(&name, &mut of.params.args, schema);
    changed |= equal_intervals::extreme(&name, &mut of.params.args, schema);
    // Those that are equal are rows of one partition, and beside one another in an order.
    changed |= equal_intervals::as_numbers(&mut of.params.partition_by, schema);
    changed |= equal_intervals::as_numbers(of.params.order_by.iter_mut().map(|sort| &mut sort.expr), schema);
    if of.params.distinct && name == "count" {
        changed |= equal_intervals::as_numbers(&mut of.params.args, schema);
    }
    let keys = of.params.order_by.len();
    nulls_apart(&mut of.params.order_by, schema);
    changed |= of.params.order_by.len() != keys;
    changed |= moves && moved(of, &name, schema);
    let is_one = |by: &Expr| matches!(by, Expr::Literal(ScalarValue::Int64(Some(1)), _));
    if ignores
        && !of.params.args.get(1).is_none_or(is_one)
        && let Some(whole) = shifted::whole(&name)
    {
        of.fun = WindowFunctionDefinition::WindowUDF(Arc::new(whole));
        changed = true;
    }
    if ignores
        && of.params.args.len() == 1
        && matches!(of.fun, WindowFunctionDefinition::WindowUDF(_))
        && let Some(valid) = first_last::valid(&name)
    {
        of.fun = WindowFunctionDefinition::WindowUDF(Arc::new(valid));
        changed = true;
    }
    for sort in &mut of.params.order_by {
        // Their digits have the same order, and ranges.
        if sort.expr.get_type(schema).is_ok_and(|data_type| data_type == DataType::Binary) {
            sort.expr = encode(std::mem::take(&mut sort.expr), lit("hex"));
            changed = true;
        }
    }
    Ok(changed)
}

/// Has windows be in the order of timestamps, not of dates, where a frame of one of them goes by hours, which dates have not:
/// all of them, for those that are sorted alike are made together. A number beside dates is one of days.
pub(crate) fn timed(windows: &mut [Expr], schema: &DFSchema) -> bool {
    let is_date = |sort: &Sort| sort.expr.get_type(schema).is_ok_and(|of| of == DataType::Date32);
    let (mut changed, mut has_hours) = (false, false);
    let names = NamePreserver::new_for_projection();
    for window in windows.iter_mut() {
        let name = names.save(window);
        let Some(of) = function(window) else { continue };
        let is_range = of.params.window_frame.units == WindowFrameUnits::Range;
        if !is_range || !of.params.order_by.iter().any(is_date) {
            continue;
        }
        let frame = &mut of.params.window_frame;
        for bound in [&mut frame.start_bound, &mut frame.end_bound] {
            let (WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by)) = bound else { continue };
            if let Some(days) = by.try_as_str().flatten().and_then(|text| text.parse().ok()) {
                *by = ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(0, days, 0)));
                changed = true;
            }
        }
        has_hours |= offsets(frame).any(|by| {
            let interval = by.cast_to(&INTERVAL);
            matches!(interval, Ok(ScalarValue::IntervalMonthDayNano(Some(by))) if by.nanoseconds != 0)
        });
        *window = name.restore(std::mem::take(window));
    }
    if !has_hours {
        return changed;
    }
    for window in windows {
        let name = names.save(window);
        let Some(of) = function(window) else { continue };
        for sort in of.params.order_by.iter_mut().filter(|sort| is_date(sort)) {
            sort.expr =
                cast(std::mem::take(&mut sort.expr), DataType::Timestamp(TimeUnit::Microsecond, None));
        }
        *window = name.restore(std::mem::take(window));
    }
    true
}

/// The function of an expression that a plan of windows has.
fn function(window: &mut Expr) -> Option<&mut WindowFunction> {
    match window {
        Expr::WindowFunction(of) => Some(of.as_mut()),
        Expr::Alias(alias) => function(alias.expr.as_mut()),
        _ => None,
    }
}

/// How far the bounds of a frame are, those that are not without an end.
fn offsets(frame: &WindowFrame) -> impl Iterator<Item = &ScalarValue> {
    [&frame.start_bound, &frame.end_bound].into_iter().filter_map(|bound| match bound {
        WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by) if !by.is_null() => Some(by),
        _ => None,
    })
}

fn has_no_ranges(sort: &Sort, schema: &DFSchema) -> bool {
    let of = sort.expr.get_type(schema);
    of.is_ok_and(|of| {
        matches!(of, DataType::Time32(_) | DataType::Time64(_) | DataType::Struct(_) | DataType::Map(..))
    })
}

fn is_number(offset: &ScalarValue) -> bool {
    offset.try_as_str().flatten().is_some_and(|text| text.parse::<f64>().is_ok())
}

/// An aggregate from which values are taken away again.
fn moved(of: &mut WindowFunction, name: &str, schema: &DFSchema) -> bool {
    let is_bool = || {
        let arg = of.params.args.first();
        arg.is_some_and(|arg| arg.get_type(schema).is_ok_and(|data_type| data_type == DataType::Boolean))
    };
    let other = match name {
        // False is less than true.
        "bool_and" if is_bool() => min_udaf(),
        "bool_or" if is_bool() => max_udaf(),
        _ if of.params.distinct => return false,
        name => match moving(name) {
            Some(own) => Arc::new(own),
            None => return false,
        },
    };
    of.fun = WindowFunctionDefinition::AggregateUDF(other);
    true
}
