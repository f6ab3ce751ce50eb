//! ORDER BY of an expression: a name in it is first that of a column of the tables, and only then one of the answer, as in
//! DuckDB and PostgreSQL. DataFusion takes it the other way round, so that such an expression is computed below, where there are no others.

use std::{collections::BTreeMap, ops::ControlFlow};

use datafusion::{
    common::TableReference,
    execution::SessionState,
    sql::{
        parser::Statement,
        sqlparser::{
            ast::{
                self, Expr, Ident, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor,
                Value, ValueWithSpan, VisitMut as _, VisitorMut, visit_expressions_mut,
            },
            dialect::GenericDialect,
            parser::Parser,
        },
    },
};

use crate::{
    dialect,
    error::{Error, Result},
};

/// The names of the columns of tables.
type Tables = BTreeMap<String, Vec<String>>;

/// Has what a statement orders by mean what it should.
///
/// # Errors
/// What orders nothing: a constant that is not the number of a column.
pub(crate) async fn by_columns(session: &SessionState, statement: &mut Statement) -> Result<()> {
    let Some(statement) = dialect::inner(statement) else { return Ok(()) };
    let mut asked = Asked::default();
    if let ControlFlow::Break(error) = statement.visit(&mut asked) {
        return Err(error);
    }
    let mut tables = Tables::new();
    for name in asked.tables {
        let provider = match session.schema_for_ref(TableReference::bare(name.as_str())) {
            Ok(schema) => schema.table(&name).await,
            Err(error) => Err(error),
        };
        // What is no table here is planned, or refused, as it stands.
        if let Ok(Some(provider)) = provider {
            let columns = provider.schema().fields().iter().map(|field| field.name().clone()).collect();
            tables.insert(name, columns);
        }
    }
    if !tables.is_empty() {
        let _ = statement.visit(&mut Apart(&tables));
    }
    Ok(())
}

/// The tables of queries some of whose order may mean the answer's columns.
#[derive(Default)]
struct Asked {
    tables: Vec<String>,
}

impl VisitorMut for Asked {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &query.order_by {
            for order in orders {
                if let Expr::Value(ValueWithSpan { value, span }) = &order.expr
                    && let Value::SingleQuotedString(_) | Value::Boolean(_) = value
                {
                    let error = Error::invalid("ORDER BY of a constant orders nothing: \"name\" is a column");
                    return ControlFlow::Break(error.at(span.start.line, span.start.column));
                }
            }
        }
        if let Some((select, orders)) = ordered(query) {
            let aliases = aliases(select);
            let mut is_meant = false;
            for order in orders {
                each_name(order, |name| {
                    is_meant |= aliases.contains_key(&name.value);
                    None
                });
            }
            if is_meant {
                self.tables.extend(relations(select).map(|(name, _)| name.to_owned()));
            }
        }
        ControlFlow::Continue(())
    }
}

struct Apart<'a>(&'a Tables);

impl VisitorMut for Apart<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(apart) = apart(query, self.0) {
            *query = apart;
        }
        ControlFlow::Continue(())
    }
}

/// The same query with what it orders by computed below, beside its columns: `SELECT b FROM (SELECT 0 - b AS b, t.b * 2 AS
/// "order 1" FROM t) ORDER BY "order 1"`. `None`: there is no need, or the columns have no names to ask for them by.
fn apart(query: &mut Query, tables: &Tables) -> Option<Query> {
    let mut outer = query.clone();
    let (select, orders) = ordered(&mut outer)?;
    if select.distinct.is_some() {
        return None;
    }
    let names = select.projection.iter().map(name_of).collect::<Option<Vec<_>>>()?;
    let (mut inner, called, mut is_needed) = (select.clone(), aliases(select), false);
    for (at, order) in orders.enumerate() {
        let mut below = order.clone();
        each_name(&mut below, |name| {
            let column = relations(&inner)
                .filter(|(table, _)| tables.get(*table).is_some_and(|columns| columns.contains(&name.value)));
            let mut tables = column.map(|(_, called)| called.clone());
            match (called.get(&name.value), tables.next(), tables.next()) {
                (Some(_), Some(table), None) => {
                    is_needed = true;
                    Some(Expr::CompoundIdentifier(vec![table, name.clone()]))
                }
                (Some(expr), None, _) => Some(Expr::Nested(Box::new(expr.clone()))),
                _ => None,
            }
        });
        let alias = Ident::with_quote('"', format!("order {}", at + 1));
        *order = Expr::Identifier(alias.clone());
        inner.projection.push(SelectItem::ExprWithAlias { expr: below, alias });
    }
    let mut parsed = Parser::parse_sql(&GenericDialect {}, "SELECT 1 FROM (SELECT 1) AS ordered").ok()?;
    let Some(ast::Statement::Query(template)) = parsed.pop() else { return None };
    let SetExpr::Select(mut around) = *template.body else { return None };
    around.projection =
        names.into_iter().map(|name| SelectItem::UnnamedExpr(Expr::Identifier(name))).collect();
    let TableFactor::Derived { subquery, .. } = &mut around.from.first_mut()?.relation else { return None };
    *subquery.body = SetExpr::Select(Box::new(inner));
    *outer.body = SetExpr::Select(around);
    is_needed.then_some(outer)
}

/// What a column of a SELECT is called, where that is written.
fn name_of(item: &SelectItem) -> Option<Ident> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => names.last().cloned(),
        _ => None,
    }
}

/// A SELECT and what it is ordered by.
fn ordered(query: &mut Query) -> Option<(&Select, impl Iterator<Item = &mut Expr>)> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &mut query.order_by else {
        return None;
    };
    // A name alone, or a number, is a column of the answer.
    let orders = orders.iter_mut().map(|order| &mut order.expr);
    Some((select, orders.filter(|order| !matches!(order, Expr::Identifier(_) | Expr::Value(_)))))
}

/// What a SELECT calls by a new name.
fn aliases(select: &Select) -> BTreeMap<String, Expr> {
    let named = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            let keeps = match expr {
                Expr::Identifier(name) => name.value == alias.value,
                Expr::CompoundIdentifier(names) => names.last().is_some_and(|name| name.value == alias.value),
                _ => false,
            };
            (!keeps).then(|| (alias.value.clone(), expr.clone()))
        }
        _ => None,
    });
    named.collect()
}

/// The tables of a FROM, and what they are called there.
fn relations(select: &Select) -> impl Iterator<Item = (&str, &Ident)> {
    let joined = select
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    joined.filter_map(|relation| match relation {
        TableFactor::Table { name, alias, args: None, .. } => {
            let [part] = name.0.as_slice() else { return None };
            let name = part.as_ident()?;
            match alias {
                Some(alias) if !alias.columns.is_empty() => None,
                Some(alias) => Some((name.value.as_str(), &alias.name)),
                None => Some((name.value.as_str(), name)),
            }
        }
        _ => None,
    })
}

/// Puts another expression in the place of each name for which there is one.
fn each_name(order: &mut Expr, mut other: impl FnMut(&Ident) -> Option<Expr>) {
    let _ = visit_expressions_mut(order, |expr| {
        if let Expr::Identifier(name) = expr
            && let Some(other) = other(name)
        {
            *expr = other;
        }
        ControlFlow::<()>::Continue(())
    });
}
