//! EXCEPT ALL and INTERSECT ALL: rows that are the same are told apart by numbers, so that they are counted.

use datafusion::sql::sqlparser::ast::{Query, SetExpr, SetOperator, SetQuantifier};

use super::Column;
use crate::{
    error::{Error, Result},
    parse,
};

/// The first operation of a query that counts rows; what is below another comes before it.
pub(super) fn find(body: &mut SetExpr) -> Option<&mut SetExpr> {
    let SetExpr::SetOperation { left, right, .. } = &*body else { return None };
    let (in_left, in_right) = (has(left), has(right));
    if !has(body) || !(in_left || in_right) {
        return has(body).then_some(body);
    }
    match body {
        SetExpr::SetOperation { left, right, .. } => find(if in_left { left } else { right }),
        _ => None,
    }
}

pub(super) fn has(body: &SetExpr) -> bool {
    match body {
        SetExpr::SetOperation { op, set_quantifier, left, right } => {
            *op != SetOperator::Union && *set_quantifier == SetQuantifier::All || has(left) || has(right)
        }
        _ => false,
    }
}

/// The left side of the first operation that counts rows.
pub(super) fn left(query: &Query) -> Option<SetExpr> {
    let mut body = query.body.as_ref().clone();
    match find(&mut body)? {
        SetExpr::SetOperation { left, .. } => Some(left.as_ref().clone()),
        _ => None,
    }
}

/// Puts an operation on numbered rows into its place.
pub(super) fn put(query: &mut Query, columns: &[Column]) -> Result<()> {
    let Some(found) = find(&mut query.body) else { return Ok(()) };
    let SetExpr::SetOperation { op, left, right, .. } = &*found else { return Ok(()) };
    let names: Vec<String> = (1..=columns.len()).map(|at| format!("basalt_c{at}")).collect();
    let all = names.join(", ");
    let numbered = |side: &SetExpr| {
        format!(
            "SELECT {all}, row_number() OVER (PARTITION BY {all}) AS basalt_n FROM ({side}) AS basalt_q ({all})"
        )
    };
    let called = names
        .iter()
        .zip(columns)
        .map(|(name, (_, called))| format!("{name} AS \"{}\"", called.replace('"', "\"\"")));
    let text = format!(
        "SELECT {} FROM ({} {op} {}) AS basalt_q",
        called.collect::<Vec<_>>().join(", "),
        numbered(left),
        numbered(right)
    );
    let made = parse::ast_parser(&text).and_then(|mut parser| parser.parse_query().ok());
    let made = made.ok_or_else(|| Error::unsupported(format!("{op} ALL of these queries")))?;
    *found = SetExpr::Query(made);
    Ok(())
}
