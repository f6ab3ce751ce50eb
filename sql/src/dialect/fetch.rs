//! FETCH FIRST, which the planner has as LIMIT, and numbers of rows that a client sends as decimals.

use datafusion::sql::sqlparser::ast::{Expr, LimitClause, Query, Value};

use super::integers::whole;

/// Puts it there, unless there is a LIMIT already.
pub(super) fn rewrite(query: &mut Query) {
    fetched(query);
    match &mut query.limit_clause {
        Some(LimitClause::LimitOffset { limit, offset, .. }) => {
            limit.iter_mut().chain(offset.iter_mut().map(|offset| &mut offset.value)).for_each(whole);
        }
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => [offset, limit].into_iter().for_each(whole),
        None => {}
    }
}

fn fetched(query: &mut Query) {
    if query.fetch.is_none() {
        return;
    }
    let rows = match query.limit_clause.get_or_insert_with(none) {
        LimitClause::LimitOffset { limit, .. } if limit.is_none() => limit,
        _ => return,
    };
    *rows = query.fetch.take().map(|fetch| fetch.quantity.unwrap_or_else(one));
}

fn none() -> LimitClause {
    LimitClause::LimitOffset { limit: None, offset: None, limit_by: Vec::new() }
}

/// Without a number it is one row.
fn one() -> Expr {
    Expr::value(Value::Number("1".to_owned(), false))
}
