//! FETCH FIRST, which the planner has as LIMIT.

use datafusion::sql::sqlparser::ast::{Expr, LimitClause, Query, Value};

/// Puts it there, unless there is a LIMIT already.
pub(super) fn rewrite(query: &mut Query) {
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
