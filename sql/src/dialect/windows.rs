//! Windows and calls that the planner would not take as they stand: frames without rows, `fill` over a window, and `try` around
//! a call.

use datafusion::sql::sqlparser::ast::{
    self, CastKind, Expr, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident,
    ObjectName, Value, WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
};

use super::{
    exprs::{bare, plain_number, text},
    known::{self, Known},
};
use crate::{
    error::{Error, Result},
    fill,
};

/// More rows than a partition has.
const BEYOND: &str = "1000000000000";

/// Has an offset that is known be a number, as the planner wants it. Where it is a parameter without a value, of a statement that is
/// described, it is any number or interval; the parameter is returned in the type that it has then, so that the plan tells.
fn settled(by: &mut Expr) -> Option<Expr> {
    if matches!(by, Expr::Nested(_)) {
        *by = known::bare(by).clone();
    }
    if !known::is_open(by) {
        if let Some(Known::Text(number)) = known::value_of(by)
            && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        {
            *by = Expr::value(Value::Number(number, false));
        }
        return None;
    }
    if matches!(by, Expr::Cast { data_type: ast::DataType::Interval { .. }, .. }) {
        let day = ast::Interval {
            value: Box::new(text("1 day".to_owned())),
            leading_field: None,
            leading_precision: None,
            last_field: None,
            fractional_seconds_precision: None,
        };
        return Some(std::mem::replace(by, Expr::Interval(day)));
    }
    let open = std::mem::replace(by, Expr::value(Value::Number("1".to_owned(), false)));
    Some(Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(open),
        data_type: ast::DataType::BigInt(None),
        array: false,
        format: None,
    })
}

/// Has a frame that ends before it begins, which has no rows, be one behind all rows: the planner knows no other without any.
pub(super) fn frame(window: &mut WindowSpec) {
    use WindowFrameBound::{Following, Preceding};
    let Some(frame) = &mut window.window_frame else { return };
    for bound in [Some(&mut frame.start_bound), frame.end_bound.as_mut()].into_iter().flatten() {
        if let Preceding(Some(by)) | Following(Some(by)) = bound {
            window.partition_by.extend(settled(by));
        }
    }
    let offset = |by: &Option<Box<Expr>>| -> Option<f64> { plain_number(by.as_deref()?)?.parse().ok() };
    let ends_before = match (&frame.start_bound, &frame.end_bound) {
        (Following(start), Some(Following(end))) => (offset(end), offset(start)),
        (Preceding(start), Some(Preceding(end))) => (offset(start), offset(end)),
        _ => return,
    };
    if let (Some(less), Some(more)) = ends_before
        && less < more
        && less >= 0.0
    {
        let beyond = || Following(Some(Box::new(Expr::value(Value::Number(BEYOND.to_owned(), false)))));
        frame.units = WindowFrameUnits::Rows;
        (frame.start_bound, frame.end_bound) = (beyond(), Some(beyond()));
    }
}

/// `fill(value ORDER BY key) OVER (...)`: the key is an argument, and so is that of the window where there is none.
pub(super) fn fill(function: &mut ast::Function) -> Result<()> {
    let window = match &mut function.over {
        Some(WindowType::WindowSpec(window))
            if window.window_name.is_none() && window.window_frame.is_none() =>
        {
            window
        }
        Some(_) => return Err(Error::unsupported("fill over a window with a name or a frame")),
        None => return Err(Error::invalid("fill is called over a window")),
    };
    let FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
    let own = list.clauses.iter().position(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)));
    let of_window = std::mem::take(&mut window.order_by);
    let keys = match own.map(|at| list.clauses.remove(at)) {
        Some(FunctionArgumentClause::OrderBy(keys)) => keys,
        _ => of_window,
    };
    let is_plain = list.clauses.is_empty() && list.duplicate_treatment.is_none() && function.filter.is_none();
    match (keys.as_slice(), list.args.len()) {
        ([key], 1) if is_plain && function.null_treatment.is_none() => {
            list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(key.expr.clone())));
            function.name = ObjectName::from(vec![Ident::new(fill::NAME)]);
            Ok(())
        }
        _ => Err(Error::invalid(
            "fill takes one value, in the order of one key: its own, or that of its window",
        )),
    }
}

/// What `try(value)` stands for: functions that give NULL where others give an error.
pub(super) fn tried(function: &ast::Function) -> Result<Expr> {
    let other = || Error::unsupported("try of other than a cast or parse_formatted_bytes");
    let FunctionArguments::List(list) = &function.args else { return Err(other()) };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] = list.args.as_slice() else {
        return Err(other());
    };
    match value {
        Expr::Cast { expr, data_type, format, array, .. } => Ok(Expr::Cast {
            kind: CastKind::TryCast,
            expr: expr.clone(),
            data_type: data_type.clone(),
            format: format.clone(),
            array: *array,
        }),
        Expr::Function(inner) if bare(&inner.name).as_deref() == Some("parse_formatted_bytes") => {
            let name = ObjectName::from(vec![Ident::new("basalt_try_parse_formatted_bytes")]);
            Ok(Expr::Function(ast::Function { name, ..inner.clone() }))
        }
        _ => Err(other()),
    }
}
