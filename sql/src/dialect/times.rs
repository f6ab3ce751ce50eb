//! Calls and words of times that are others in the planner's words.

use datafusion::sql::sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments};

use super::exprs::{arguments, literal, parsed};
use crate::{
    error::{Error, Result},
    limits,
    names::{self, Meant},
};

/// What a function of this name is instead; `None`: it stands for itself. `doubled` counts the bytes of what stands there twice.
pub(super) fn called(name: &str, function: &ast::Function, doubled: &mut usize) -> Result<Option<Expr>> {
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
        "date_part" | "datepart" => literal(first).map_or(Ok(None), |name| part(name, of, doubled)),
        "date_trunc" | "datetrunc" => {
            let Some(template) = literal(first).and_then(years) else { return Ok(None) };
            Ok(Some(Expr::Nested(Box::new(parsed(template, std::slice::from_ref(of), &mut 0)?))))
        }
        _ => Ok(None),
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
    if *doubled > limits::STATEMENT_BYTES {
        return Err(Error::invalid(format!("too many calls of {name} in one another")));
    }
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
