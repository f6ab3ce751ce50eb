//! `format` as PostgreSQL has it, where its first argument is a literal with one of PostgreSQL's specifiers and no brace, which
//! are what DuckDB's has.

use datafusion::sql::sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr};

use super::exprs::{arguments, literal, parsed};
use crate::{
    error::Result,
    given::quoted,
    strings::specified::{check, parts},
};

/// What a call of `format` is in the planner's words; `None`: it is DuckDB's. Each argument stands there once, whatever the
/// number of its specifiers: `random()` has one value in a row.
///
/// # Errors
/// A specifier without an argument, or with a width.
pub(super) fn format(function: &ast::Function) -> Result<Option<Expr>> {
    let Some([FunctionArg::Unnamed(FunctionArgExpr::Expr(first)), rest @ ..]) = arguments(function) else {
        return Ok(None);
    };
    let Some(text) = literal(first).filter(|text| text.contains('%') && !text.contains('{')) else {
        return Ok(None);
    };
    let Some(parts) = parts(text)? else { return Ok(None) };
    let given = rest.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    let Some(given) = given.collect::<Option<Vec<_>>>() else { return Ok(None) };
    check(text, &parts, given.len())?;
    let values: Vec<String> = (1..=given.len()).map(|at| format!(", CAST(${at} AS TEXT)")).collect();
    let call = format!("basalt_format({}{})", quoted(text), values.concat());
    Ok(Some(Expr::Nested(Box::new(parsed(&call, &given, &mut 0)?))))
}
