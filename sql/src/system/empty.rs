//! Queries over virtual tables that are always empty: they have no rows, so that nothing that they would do with rows has
//! to be understood.

use std::{collections::BTreeSet, ops::ControlFlow};

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, JoinOperator, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins,
    Visit as _, Visitor,
};

use super::rewrite::{expr, virtual_table, words};

/// Functions that give one row of none.
const AGGREGATES: [&str; 14] = [
    "count",
    "sum",
    "min",
    "max",
    "avg",
    "array_agg",
    "string_agg",
    "json_agg",
    "jsonb_agg",
    "bool_and",
    "bool_or",
    "every",
    "json_object_agg",
    "jsonb_object_agg",
];

/// Whether a query reads virtual tables alone, or a list that `pg_catalog` makes rows of.
pub(super) fn is_of_system(query: &Query) -> bool {
    let SetExpr::Select(select) = &*query.body else { return false };
    let of_system = |from: &TableWithJoins| match &from.relation {
        TableFactor::Table { name, args: None, .. } => virtual_table(name).is_some(),
        TableFactor::Table { name, .. } => {
            words(name).is_some_and(|words| words.first() == Some(&"pg_catalog"))
        }
        _ => false,
    };
    !select.from.is_empty() && select.from.iter().all(of_system)
}

/// Whether a query has no rows, because it is over a virtual table that has none.
pub(super) fn is_empty(query: &Query) -> bool {
    query.with.is_none() && is_empty_set(&query.body)
}

fn is_empty_set(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => is_empty_select(select),
        SetExpr::Query(query) => is_empty(query),
        SetExpr::SetOperation { left, right, .. } => is_empty_set(left) && is_empty_set(right),
        _ => false,
    }
}

fn is_empty_select(select: &Select) -> bool {
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    let item = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            grouped || !aggregates(expr)
        }
        _ => false,
    };
    select.from.iter().any(is_empty_join) && select.projection.iter().all(item)
}

fn is_empty_join(from: &TableWithJoins) -> bool {
    let mut empty = is_empty_factor(&from.relation);
    for join in &from.joins {
        let of = is_empty_factor(&join.relation);
        empty = match &join.join_operator {
            JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_) => empty || of,
            JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => empty,
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => of,
            _ => empty && of,
        };
    }
    empty
}

fn is_empty_factor(factor: &TableFactor) -> bool {
    match factor {
        TableFactor::Table { name, args: None, .. } => {
            virtual_table(name).is_some_and(|table| !table.has_rows)
        }
        TableFactor::Derived { subquery, .. } => is_empty(subquery),
        TableFactor::NestedJoin { table_with_joins, .. } => is_empty_join(table_with_joins),
        _ => false,
    }
}

/// Whether an expression has an aggregate, by its name; those of subqueries are theirs.
pub(super) fn aggregates(expr: &Expr) -> bool {
    struct Found {
        queries: usize,
    }

    impl Visitor for Found {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.queries += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.queries -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
            let name = words(&function.name).and_then(|words| Some(words.last()?.to_lowercase()));
            match name {
                Some(name) if self.queries == 0 && AGGREGATES.contains(&name.as_str()) => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }

    expr.visit(&mut Found { queries: 0 }).is_break()
}

/// Takes what is always empty out of a query, which keeps its columns' names.
pub(super) fn empty(query: &mut Query) {
    if empty_set(&mut query.body) && is_plain_order(query) {
        query.order_by = None;
    }
}

/// Whether its order is no matter: it has no rows.
fn is_plain_order(query: &Query) -> bool {
    matches!(&*query.body, SetExpr::Select(_) | SetExpr::SetOperation { .. })
}

/// Returns whether nothing is left of it.
fn empty_set(body: &mut SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => {
            if !is_empty_select(select) {
                return false;
            }
            let mut names = BTreeSet::new();
            let items = select.projection.iter().enumerate();
            let items: Vec<_> = items.map(|(at, item)| null_item(at, item, &mut names)).collect();
            let sql = format!("(SELECT {} WHERE false)", items.join(", "));
            let Some(Expr::Subquery(query)) = expr(&sql) else { return false };
            *body = *query.body;
            true
        }
        SetExpr::Query(query) => {
            empty(query);
            false
        }
        SetExpr::SetOperation { left, right, .. } => {
            let (left, right) = (empty_set(left), empty_set(right));
            left && right
        }
        _ => false,
    }
}

/// NULL under the name that a column has; the planner takes each name once.
fn null_item(at: usize, item: &SelectItem, names: &mut BTreeSet<String>) -> String {
    let name = match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        SelectItem::UnnamedExpr(expr) => name(expr),
        _ => None,
    };
    let name = name.filter(|name| names.insert(name.clone())).unwrap_or_else(|| format!("?column?{at}"));
    format!("NULL AS \"{}\"", name.replace('"', "\"\""))
}

/// The name that PostgreSQL gives a column.
fn name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(ident) => Some(ident.value.clone()),
        Expr::CompoundIdentifier(parts) => Some(parts.last()?.value.clone()),
        Expr::Function(function) => Some((*words(&function.name)?.last()?).to_owned()),
        Expr::Cast { expr, .. } => name(expr),
        _ => None,
    }
}
