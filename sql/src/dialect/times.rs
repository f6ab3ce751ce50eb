//! Calls and words of times that are others in the planner's words.

use datafusion::sql::sqlparser::ast::{
    self, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments,
};

use super::{
    exprs::{arguments, check_doubled, literal, parsed, plain_number},
    known::{self, Known},
    operators::in_zone,
};
use crate::{
    error::{Error, Result},
    names::{self, Meant},
};

/// What a function of this name is instead; `None`: it stands for itself. `doubled` counts the bytes of what stands there twice.
pub(super) fn called(name: &str, function: &ast::Function, doubled: &mut usize) -> Result<Option<Expr>> {
    if matches!(name, "date_trunc" | "datetrunc")
        && let Some(
            [
                FunctionArg::Unnamed(FunctionArgExpr::Expr(part)),
                FunctionArg::Unnamed(FunctionArgExpr::Expr(of)),
                FunctionArg::Unnamed(FunctionArgExpr::Expr(zone)),
            ],
        ) = arguments(function)
    {
        // Their templates know no zone.
        if literal(part).and_then(years).is_some() {
            return Err(Error::unsupported("date_trunc of decades, centuries and millennia of a zone"));
        }
        let begun = in_zone("date_trunc", BEGUN, zone, &[part, of])?;
        return Ok(Some(Expr::Nested(Box::new(begun))));
    }
    let Some(
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(first)), FunctionArg::Unnamed(FunctionArgExpr::Expr(of))],
    ) = arguments(function)
    else {
        return Ok(None);
    };
    match name {
        "timezone" => {
            let (timestamp, time_zone) = (Box::new(of.clone()), Box::new(first.clone()));
            Ok(Some(Expr::Nested(Box::new(Expr::AtTimeZone { timestamp, time_zone }))))
        }
        "date_part" | "datepart" if is_null(first) => {
            let nothing =
                parsed("CASE WHEN FALSE THEN date_part('epoch', $1) END", std::slice::from_ref(of), &mut 0)?;
            Ok(Some(Expr::Nested(Box::new(nothing))))
        }
        "date_part" | "datepart" => literal(first).map_or(Ok(None), |name| part(name, of, doubled)),
        "date_trunc" | "datetrunc" => {
            let Some(template) = literal(first).and_then(years) else { return Ok(None) };
            Ok(Some(Expr::Nested(Box::new(parsed(template, std::slice::from_ref(of), &mut 0)?))))
        }
        _ => Ok(None),
    }
}

fn is_null(part: &Expr) -> bool {
    !known::is_open(part) && known::text_of(part) == Some(Known::Null)
}

/// When the part of a time began by the clocks of a zone.
const BEGUN: &str =
    "CAST(date_trunc($1, arrow_cast(CAST($2 AS TIMESTAMP WITH TIME ZONE), $3)) AS TIMESTAMP WITH TIME ZONE)";

/// The arguments of `make_interval`, in their order, and what each is as an interval.
const PARTS: [(&str, &str); 7] = [
    ("years", "basalt_interval($1, 'year')"),
    ("months", "basalt_interval($1, 'month')"),
    ("weeks", "basalt_interval($1, 'week')"),
    ("days", "basalt_interval($1, 'day')"),
    ("hours", "basalt_interval($1, 'hour')"),
    ("mins", "basalt_interval($1, 'minute')"),
    ("secs", "INTERVAL '1 microsecond' * CAST(round(CAST($1 AS DOUBLE) * 1000000) AS BIGINT)"),
];

/// The planner's takes whole seconds, and makes a time that has no others.
const MAKE_TIME: &str = "CAST(make_time($1, $2, CAST(floor($3) AS INTEGER)) AS TIME) + INTERVAL '1 microsecond' * CAST(round((CAST($3 AS DOUBLE) - floor(CAST($3 AS DOUBLE))) * 1000000) AS BIGINT)";

/// What makes an interval of its parts, or a time of seconds that may have a fraction; `None`: it is another.
pub(super) fn made(name: &str, function: &ast::Function, doubled: &mut usize) -> Result<Option<Expr>> {
    let Some(given) = arguments(function) else { return Ok(None) };
    let made = match (name, given) {
        ("make_interval", given) => interval(given)?,
        (
            "make_time",
            [
                FunctionArg::Unnamed(FunctionArgExpr::Expr(hour)),
                FunctionArg::Unnamed(FunctionArgExpr::Expr(minute)),
                FunctionArg::Unnamed(FunctionArgExpr::Expr(second)),
            ],
        ) if !is_whole(second) => {
            parsed(MAKE_TIME, &[hour.clone(), minute.clone(), second.clone()], doubled)?
        }
        _ => return Ok(None),
    };
    check_doubled(*doubled, format_args!("calls of {name}"))?;
    Ok(Some(Expr::Nested(Box::new(made))))
}

/// Whether it is written as a whole number, a text or a cast to an integer.
fn is_whole(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_whole(inner),
        Expr::Cast { data_type, .. } => {
            matches!(data_type, DataType::Int(_) | DataType::Integer(_) | DataType::BigInt(_))
        }
        expr => {
            literal(expr).is_some() || plain_number(expr).is_some_and(|number| !number.contains(['.', 'e']))
        }
    }
}

/// The interval of such arguments, by their places or names.
fn interval(given: &[FunctionArg]) -> Result<Expr> {
    let wrong = || {
        let names = PARTS.map(|(name, _)| name).join(", ");
        Error::invalid(format!("make_interval takes {names}, each once at most"))
    };
    let (mut known, mut values, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    for (place, argument) in given.iter().enumerate() {
        let (at, value) = match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => (Some(place), value),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
                (PARTS.iter().position(|(part, _)| name.value.eq_ignore_ascii_case(part)), value)
            }
            _ => return Err(wrong()),
        };
        let (name, template) = at.and_then(|at| PARTS.get(at)).ok_or_else(wrong)?;
        if known.contains(name) {
            return Err(wrong());
        }
        known.push(*name);
        values.push(value.clone());
        parts.push(template.replace("$1", &format!("${}", values.len())));
    }
    match parts.is_empty() {
        true => parsed("INTERVAL '0 seconds'", &[], &mut 0),
        false => parsed(&parts.join(" + "), &values, &mut 0),
    }
}

/// A part that the planner has not, but a template; `None`: another.
pub(super) fn part(name: &str, of: &Expr, doubled: &mut usize) -> Result<Option<Expr>> {
    let name = name.to_lowercase();
    if !["decade", "century", "millennium", "yearweek"].contains(&name.as_str()) {
        return Ok(None);
    }
    let template = match names::meant(&name, 1) {
        Some(Meant::Template(template)) => template.to_owned(),
        // It is a function of that name.
        _ => format!("{name}($1)"),
    };
    let part = parsed(&template, std::slice::from_ref(of), doubled)?;
    check_doubled(*doubled, format_args!("calls of {name}"))?;
    Ok(Some(Expr::Nested(Box::new(part))))
}

/// When the decade, the century or the millennium began. The first century and the first millennium begin with the year 1.
fn years(part: &str) -> Option<&'static str> {
    Some(match part.to_lowercase().as_str() {
        "decade" | "decades" => {
            "CAST(make_date(CAST(floor(date_part('year', $1) / 10) * 10 AS INTEGER), 1, 1) AS TIMESTAMP)"
        }
        "century" | "centuries" => {
            "CAST(make_date(CAST(floor((date_part('year', $1) - 1) / 100) * 100 AS INTEGER) + 1, 1, 1) AS TIMESTAMP)"
        }
        "millennium" | "millennia" | "millenniums" => {
            "CAST(make_date(CAST(floor((date_part('year', $1) - 1) / 1000) * 1000 AS INTEGER) + 1, 1, 1) AS TIMESTAMP)"
        }
        _ => return None,
    })
}

/// The time when the statement arrived, by a word of SQL's that the parser takes for a function without parentheses, or for the
/// name of a column.
pub(super) fn now(expr: &Expr) -> Result<Option<Expr>> {
    let name = match expr {
        Expr::Function(function) if matches!(function.args, FunctionArguments::None) => {
            let [part] = function.name.0.as_slice() else { return Ok(None) };
            part.as_ident()
        }
        Expr::Identifier(name) => Some(name),
        _ => None,
    };
    let Some(name) = name.filter(|name| name.quote_style.is_none()) else { return Ok(None) };
    let is = |word: &str| name.value.eq_ignore_ascii_case(word);
    let template = match (is("localtimestamp"), is("localtime")) {
        (true, _) => "CAST(now() AS TIMESTAMP)",
        (_, true) => "CAST(now() AS TIME)",
        _ => return Ok(None),
    };
    Ok(Some(Expr::Nested(Box::new(parsed(template, &[], &mut 0)?))))
}
