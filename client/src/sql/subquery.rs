//! A SELECT whose answer is a set: in `IN (SELECT key ...)`, and of a selection.

use std::rc::Rc;

use sqlparser::ast::{self, Distinct, GroupByExpr, SelectItem, Spanned as _};

use super::{
    error::SqlError,
    expr::{Names, Reader},
    select::{From, from, plain_select, refuse},
    version::Versions,
};
use crate::{
    expr::Filter,
    set::{SemiJoin, keys_of},
};

/// `SELECT * | column FROM table [WHERE condition]`: rows, or the values of a column.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Selection {
    /// The table.
    pub table: String,
    /// Its version; the newest without it.
    pub version: Option<u64>,
    /// The column whose values are the set; without it the rows are.
    pub key: Option<String>,
    /// Which rows; all of them without it.
    pub filter: Option<Filter>,
}

/// The semi-join of `IN (query)`, as part of what `around` reads.
pub(super) fn semi_join(query: &ast::Query, around: Reader<'_>) -> Result<SemiJoin, SqlError> {
    let outer = [around.scope.outer.as_slice(), std::slice::from_ref(&around.scope.name)].concat();
    let Selection { table, version, key, filter } =
        selection(query, &outer, around.depth, &around.scope.versions)?;
    let Some(key) = key else {
        return Err(SqlError::unsupported("IN (SELECT *), which takes one column,").at(query.span()));
    };
    let join = keys_of(table, key);
    let join = match version {
        Some(version) => join.version(version),
        None => join,
    };
    Ok(match filter {
        Some(filter) => join.filter(filter),
        None => join,
    })
}

/// A query that is a set, with the names of the tables around it, and how deep it stands.
pub(super) fn selection(
    query: &ast::Query,
    outer: &[String],
    depth: usize,
    versions: &Rc<Versions>,
) -> Result<Selection, SqlError> {
    let select = plain_select(query)?;
    let grouped = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(exprs, modifiers) => !exprs.is_empty() || !modifiers.is_empty(),
    };
    refuse(
        || select.span(),
        [
            (matches!(select.distinct, Some(Distinct::On(_))), "DISTINCT ON"),
            (grouped, "GROUP BY in a set"),
            (select.having.is_some(), "HAVING in a set"),
            (query.order_by.is_some(), "ORDER BY in a set"),
            (query.limit_clause.is_some(), "LIMIT or OFFSET in a set"),
        ],
    )?;
    let From { table, version, scope } = from(select, outer, versions)?;
    let reader = Reader { scope: &scope, names: Names::Columns, depth };
    let key = match select.projection.as_slice() {
        [SelectItem::Wildcard(options)] if options.to_string().is_empty() => None,
        [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] => {
            let value = reader.value(expr)?;
            let column = value.column().ok_or_else(|| not_a_key(expr))?;
            Some(column.to_owned())
        }
        [first, ..] => return Err(not_a_key(first)),
        [] => return Err(not_a_key(select)),
    };
    let filter = select.selection.as_ref().map(|e| reader.filter(e)).transpose()?;
    Ok(Selection { table, version, key, filter })
}

fn not_a_key(what: &(impl ast::Spanned + std::fmt::Display)) -> SqlError {
    SqlError::unsupported("a set of anything but one column").at(what.span())
}
