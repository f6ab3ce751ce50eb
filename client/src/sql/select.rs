//! The clauses of a SELECT.

use std::{collections::HashMap, rc::Rc};

use basalt_proto::v1::{self, Format, QueryRequest, expr::Kind};
use sqlparser::{
    ast::{
        self, Distinct, GroupByExpr, LimitClause, OrderByKind, SelectItem, SetExpr, Spanned, TableFactor,
        Value,
    },
    tokenizer::Span,
};

use super::{
    error::SqlError,
    expr::{Names, Reader, Scope, literal, shown},
    version::Versions,
};
use crate::expr::{Expr, OrderBy};

/// The request for a parsed query over a table of these columns, and whether they must be known for it.
pub(super) fn convert(
    query: &ast::Query,
    columns: Option<&[String]>,
    versions: &Rc<Versions>,
) -> Result<(QueryRequest, bool), SqlError> {
    let select = plain_select(query)?;
    let From { table, version, scope } = from(select, &[], versions)?;
    if select.projection.is_empty() {
        return Err(SqlError::new("the select list is empty: which columns?").at(select.span()));
    }
    let (items, aliases) = select_list(&select.projection, of_rows(&scope))?;
    let mut scope = Scope { aliases, columns: columns.map(<[String]>::to_vec), ..scope };

    let filter = select.selection.as_ref().map(|e| of_rows(&scope).filter(e)).transpose()?;
    let mut group_by = group_by(&select.group_by, &items, &scope)?;
    scope.keys = group_by.iter().filter_map(|key| key.column().map(str::to_owned)).collect();
    let of_groups = Reader { names: Names::KeyFirst, ..of_rows(&scope) };
    let having = select.having.as_ref().map(|e| of_groups.filter(e)).transpose()?;
    let order_by = match &query.order_by {
        Some(order_by) => self::order_by(order_by, &items, &scope)?,
        None => Vec::new(),
    };
    match &select.distinct {
        None | Some(Distinct::All) => {}
        Some(Distinct::On(_)) => return Err(SqlError::unsupported("DISTINCT ON").at(select.span())),
        Some(Distinct::Distinct) if items.is_empty() => {
            return Err(SqlError::unsupported("SELECT DISTINCT * (name the columns)").at(select.span()));
        }
        Some(Distinct::Distinct) if !group_by.is_empty() => {
            return Err(SqlError::unsupported("DISTINCT together with GROUP BY").at(select.span()));
        }
        Some(Distinct::Distinct) => {
            let ordered = order_by.iter().map(|(key, _)| key);
            let scalar = having.is_some() || items.iter().chain(ordered).any(is_computed_from_groups);
            match items.iter().position(|item| has_column(&item.clone().into())) {
                // A scalar aggregate: all rows are one group, as they are without DISTINCT.
                Some(loose) if scalar => return Err(not_grouped(&select.projection[loose])),
                _ if scalar => {}
                _ => group_by = keys(&items),
            }
        }
    }
    let (limit, offset) = limit(query.limit_clause.as_ref())?;
    let request = QueryRequest {
        table,
        select: items.into_iter().map(Into::into).collect(),
        filter: filter.map(Into::into),
        group_by: group_by.into_iter().map(Into::into).collect(),
        having: having.map(Into::into),
        order_by: order_by.into_iter().map(|(_, key)| key.into()).collect(),
        limit,
        offset,
        version,
        format: Format::Columns.into(),
    };
    Ok((request, scope.needs_columns.get()))
}

fn not_grouped(item: &SelectItem) -> SqlError {
    let expr = match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => shown(expr),
        _ => format!("`{item}`"),
    };
    let message = format!("{expr} stands neither in GROUP BY nor inside an aggregate");
    SqlError::new(message).at(item.span())
}

/// The SELECT of a query that has nothing else but, perhaps, an order and limits.
pub(super) fn plain_select(query: &ast::Query) -> Result<&ast::Select, SqlError> {
    let ast::Query {
        with,
        body,
        order_by: _,
        limit_clause: _,
        fetch,
        locks,
        for_clause,
        settings,
        format_clause,
        pipe_operators,
    } = query;
    refuse(
        || with.as_ref().map_or_else(|| body.span(), Spanned::span),
        [
            (with.is_some(), "WITH"),
            (fetch.is_some(), "FETCH (LIMIT does the same)"),
            (!locks.is_empty() || for_clause.is_some(), "FOR"),
            (settings.is_some(), "SETTINGS"),
            (format_clause.is_some(), "FORMAT"),
            (!pipe_operators.is_empty(), "a pipe operator"),
        ],
    )?;
    let select = match body.as_ref() {
        SetExpr::Select(select) => select,
        SetExpr::SetOperation { op, right, .. } => return Err(SqlError::unsupported(op).at(right.span())),
        SetExpr::Query(query) => {
            return Err(SqlError::unsupported("a query in parentheses").at(query.span()));
        }
        _ => return Err(SqlError::unsupported("anything but SELECT")),
    };
    refuse_clauses(select)?;
    Ok(select)
}

/// The select list and WHERE do not see the select list's names.
fn of_rows(scope: &Scope) -> Reader<'_> {
    Reader { scope, names: Names::Columns, depth: 0 }
}

pub(super) fn refuse<const N: usize>(
    span: impl FnOnce() -> Span,
    constructs: [(bool, &str); N],
) -> Result<(), SqlError> {
    match constructs.iter().find(|(present, _)| *present) {
        Some((_, construct)) => Err(SqlError::unsupported(construct).at(span())),
        None => Ok(()),
    }
}

fn refuse_clauses(select: &ast::Select) -> Result<(), SqlError> {
    refuse(
        || select.span(),
        [
            (select.top.is_some(), "TOP (LIMIT does the same)"),
            (select.exclude.is_some(), "EXCLUDE"),
            (select.into.is_some(), "INTO"),
            (!select.lateral_views.is_empty(), "LATERAL VIEW"),
            (select.prewhere.is_some(), "PREWHERE"),
            (!select.connect_by.is_empty(), "CONNECT BY"),
            (!select.cluster_by.is_empty(), "CLUSTER BY"),
            (!select.distribute_by.is_empty(), "DISTRIBUTE BY"),
            (!select.sort_by.is_empty(), "SORT BY"),
            (!select.named_window.is_empty(), "WINDOW"),
            (select.qualify.is_some(), "QUALIFY"),
            (select.value_table_mode.is_some(), "SELECT AS"),
            (select.select_modifiers.is_some(), "a modifier of SELECT"),
        ],
    )
}

/// What a SELECT reads.
pub(super) struct From {
    pub(super) table: String,
    /// `None`: the newest.
    pub(super) version: Option<u64>,
    pub(super) scope: Scope,
}

/// The table's name, its version, and what it may be called beside the `outer` tables of the queries around.
pub(super) fn from(
    select: &ast::Select,
    outer: &[String],
    versions: &Rc<Versions>,
) -> Result<From, SqlError> {
    let table = match select.from.as_slice() {
        [] => return Err(SqlError::new("FROM is missing: which table?").at(select.span())),
        [table] => table,
        [_, second, ..] => return Err(SqlError::unsupported("more than one table").at(second.span())),
    };
    if let Some(join) = table.joins.first() {
        return Err(
            SqlError::unsupported("JOIN (column IN (SELECT ...) filters by another table)").at(join.span())
        );
    }
    let span = table.relation.span();
    let TableFactor::Table { name, alias, args, with_hints, version, sample, partitions, .. } =
        &table.relation
    else {
        return Err(SqlError::unsupported("FROM with anything but a table's name").at(span));
    };
    refuse(
        || span,
        [
            (args.is_some(), "a table function"),
            (!with_hints.is_empty(), "a table hint"),
            (version.is_some(), "a table's version but by FOR VERSION AS OF"),
            (sample.is_some(), "TABLESAMPLE"),
            (!partitions.is_empty(), "PARTITION"),
            (name.0.len() > 1, "a table's name of several parts"),
            (alias.as_ref().is_some_and(|a| !a.columns.is_empty()), "names for a table's columns"),
        ],
    )?;
    let Some(name) = name.0.first().and_then(|part| part.as_ident()) else {
        return Err(SqlError::unsupported("FROM with anything but a table's name").at(span));
    };
    let table = name.value.clone();
    let version = versions.of(name, alias.as_ref().map(|alias| &alias.name))?;
    let name = alias.as_ref().map_or_else(|| table.clone(), |a| a.name.value.clone());
    let scope = Scope { name, outer: outer.to_vec(), versions: Rc::clone(versions), ..Scope::default() };
    Ok(From { table, version, scope })
}

/// What the names of a select list stand for; `None`: two items have the name.
type Aliases = HashMap<String, Option<Expr>>;

/// The answer's columns (none for `*`), and those that have a name of their own.
fn select_list(projection: &[SelectItem], reader: Reader<'_>) -> Result<(Vec<Expr>, Aliases), SqlError> {
    let mut items = Vec::with_capacity(projection.len());
    let mut aliases = HashMap::new();
    for item in projection {
        match item {
            SelectItem::Wildcard(options) => {
                let plain = options.to_string().is_empty();
                if projection.len() > 1 || !plain {
                    return Err(SqlError::unsupported("`*` together with anything else").at(item.span()));
                }
            }
            SelectItem::UnnamedExpr(expr) => items.push(reader.value(expr)?),
            SelectItem::ExprWithAlias { expr, alias } => {
                let value = reader.value(expr)?;
                let one = aliases.entry(alias.value.clone()).or_insert_with(|| Some(value.clone()));
                if one.as_ref() != Some(&value) {
                    *one = None;
                }
                items.push(value.alias(&alias.value));
            }
            SelectItem::QualifiedWildcard(..) | SelectItem::ExprWithAliases { .. } => {
                return Err(SqlError::unsupported(format!("`{item}`")).at(item.span()));
            }
        }
    }
    Ok((items, aliases))
}

fn group_by(clause: &GroupByExpr, items: &[Expr], scope: &Scope) -> Result<Vec<Expr>, SqlError> {
    let reader = Reader { names: Names::ColumnFirst, ..of_rows(scope) };
    match clause {
        GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers) if !modifiers.is_empty() => {
            Err(SqlError::unsupported("a modifier of GROUP BY").at(clause.span()))
        }
        GroupByExpr::All(_) => Ok(keys(items)),
        GroupByExpr::Expressions(exprs, _) => {
            exprs.iter().map(|expr| position_or_value(expr, items, "GROUP BY", reader)).collect()
        }
    }
}

/// What is not computed from a whole group.
fn keys(items: &[Expr]) -> Vec<Expr> {
    items.iter().filter(|item| !is_computed_from_groups(item)).cloned().collect()
}

fn is_computed_from_groups(expr: &Expr) -> bool {
    has_aggregate(&expr.clone().into())
}

fn has_aggregate(expr: &v1::Expr) -> bool {
    match &expr.kind {
        Some(Kind::Aggregate(_)) => true,
        Some(Kind::Arithmetic(a)) => [&a.left, &a.right].into_iter().flatten().any(|e| has_aggregate(e)),
        _ => false,
    }
}

/// Whether it has a column outside its aggregates.
fn has_column(expr: &v1::Expr) -> bool {
    match &expr.kind {
        Some(Kind::Column(_) | Kind::Attribute(_)) => true,
        Some(Kind::Arithmetic(a)) => [&a.left, &a.right].into_iter().flatten().any(|e| has_column(e)),
        _ => false,
    }
}

/// What each key is computed from, and the key.
fn order_by(clause: &ast::OrderBy, items: &[Expr], scope: &Scope) -> Result<Vec<(Expr, OrderBy)>, SqlError> {
    let exprs = match &clause.kind {
        OrderByKind::Expressions(exprs) if clause.interpolate.is_none() => exprs,
        _ => return Err(SqlError::unsupported("ORDER BY ALL or INTERPOLATE").at(clause.span())),
    };
    let key = |order: &ast::OrderByExpr| {
        let is_name = matches!(bare(&order.expr), ast::Expr::Identifier(_));
        let names = if is_name { Names::AliasFirst } else { Names::ColumnFirst };
        let expr = position_or_value(&order.expr, items, "ORDER BY", Reader { names, ..of_rows(scope) })?;
        // The names of the select list have been read already.
        let key = match order.options.asc {
            None | Some(true) => expr.clone().asc().of_table(),
            Some(false) => expr.clone().desc().of_table(),
        };
        if order.with_fill.is_some() {
            return Err(SqlError::unsupported("WITH FILL").at(order.span()));
        }
        Ok((expr, if order.options.nulls_first == Some(true) { key.nulls_first() } else { key }))
    };
    exprs.iter().map(key).collect()
}

/// `2` is the select list's second item; anything else is an expression.
fn position_or_value(
    expr: &ast::Expr,
    items: &[Expr],
    clause: &str,
    reader: Reader<'_>,
) -> Result<Expr, SqlError> {
    let expr = bare(expr);
    let Some(position) = unsigned(expr) else {
        if literal(expr).is_ok() {
            let message = format!("{clause} {}: a literal is neither a position nor a name", shown(expr));
            return Err(SqlError::new(message).at(expr.span()));
        }
        return reader.value(expr);
    };
    let item = usize::try_from(position).ok().and_then(|p| p.checked_sub(1)).and_then(|p| items.get(p));
    item.cloned().ok_or_else(|| {
        let message = match items.len() {
            0 => format!("{clause} {position}: positions do not go with `*`, name the column"),
            n => format!("{clause} {position}: the select list has {n} columns"),
        };
        SqlError::new(message).at(expr.span())
    })
}

/// An expression without the parentheses around it.
fn bare(mut expr: &ast::Expr) -> &ast::Expr {
    while let ast::Expr::Nested(nested) = expr {
        expr = nested;
    }
    expr
}

fn limit(clause: Option<&LimitClause>) -> Result<(Option<u64>, u64), SqlError> {
    let count = |expr: &ast::Expr, what: &str| {
        let message = || format!("{what} takes a number of rows, not `{expr}`");
        unsigned(expr).ok_or_else(|| SqlError::new(message()).at(expr.span()))
    };
    match clause {
        None => Ok((None, 0)),
        Some(LimitClause::LimitOffset { limit_by, .. }) if !limit_by.is_empty() => {
            Err(SqlError::unsupported("LIMIT BY"))
        }
        Some(LimitClause::LimitOffset { limit, offset, .. }) => Ok((
            limit.as_ref().map(|e| count(e, "LIMIT")).transpose()?,
            offset.as_ref().map(|o| count(&o.value, "OFFSET")).transpose()?.unwrap_or(0),
        )),
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
            Ok((Some(count(limit, "LIMIT")?), count(offset, "OFFSET")?))
        }
    }
}

fn unsigned(expr: &ast::Expr) -> Option<u64> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}
