//! ORDER BY of an expression: a name in it is first that of a column of the tables, and only then one of the answer, as in
//! DuckDB and PostgreSQL. DataFusion takes it the other way round, so that such an expression is computed below, where there are no others.
//! So is a column with the name of its table, where the answer has another one of its name: the planner has no two of them.

use std::{collections::BTreeMap, ops::ControlFlow};

use datafusion::{
    common::TableReference,
    execution::SessionState,
    sql::{
        parser::Statement,
        sqlparser::{
            ast::{
                self, Expr, GroupByExpr, Ident, JoinOperator, ObjectName, OrderBy, OrderByKind, Query,
                Select, SelectItem, SetExpr, TableFactor, Value, ValueWithSpan, VisitMut as _, VisitorMut,
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
    if !asked.is_meant {
        return Ok(());
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
    let _ = statement.visit(&mut Apart(&tables));
    Ok(())
}

/// The tables of queries some of whose order may mean the answer's columns.
#[derive(Default)]
struct Asked {
    tables: Vec<String>,
    is_meant: bool,
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
        if let Some((select, orders)) = ordered(query)
            && is_meant(select, orders)
        {
            self.is_meant = true;
            self.tables.extend(relations(select).map(|(name, _)| name.to_owned()));
        }
        ControlFlow::Continue(())
    }
}

struct Apart<'a>(&'a Tables);

impl VisitorMut for Apart<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if ordered(query).is_some_and(|(select, orders)| is_meant(select, orders))
            && let Some(apart) = apart(query, self.0)
        {
            *query = apart;
        }
        ControlFlow::Continue(())
    }
}

/// The same query with what it orders by computed below, beside its columns: `SELECT * EXCLUDE ("order 1") FROM (SELECT 0 - b
/// AS b, t.b * 2 AS "order 1" FROM t) ORDER BY "order 1"`. `None`: there is no need, or other rows would come of it.
fn apart(query: &Query, tables: &Tables) -> Option<Query> {
    let mut outer = query.clone();
    let (select, orders) = ordered(&mut outer)?;
    // Each column of theirs is one by which rows are alike.
    if select.distinct.is_some() || matches!(select.group_by, GroupByExpr::All(_)) {
        return None;
    }
    let (mut inner, called, mut is_needed) = (select.clone(), aliases(select), false);
    let mut below = Vec::new();
    let mut prefix = "order".to_owned();
    while called.keys().any(|name| name.starts_with(&prefix)) {
        prefix.push('_');
    }
    for (at, order) in orders.enumerate() {
        // Above are the answer's columns alone.
        if matches!(&*order, Expr::Identifier(name) if is_of_answer(select, name)) {
            continue;
        }
        let mut expr = order.clone();
        each_name(&mut expr, |names| {
            let [name] = names else {
                is_needed |= is_hidden(select, names);
                return None;
            };
            let name = written(name);
            let column = relations(select)
                .filter(|(table, _)| tables.get(*table).is_some_and(|columns| columns.contains(&name)));
            let mut tables = column.map(|(_, called)| called.clone());
            match (called.get(&name), tables.next(), tables.next()) {
                (Some(_), Some(table), None) => {
                    is_needed = true;
                    Some(Expr::CompoundIdentifier(vec![table, Ident::with_quote('"', name.as_str())]))
                }
                // Below it is the column that both have in common.
                (Some(_), Some(_), Some(_)) if merges(select) => {
                    is_needed = true;
                    None
                }
                (Some(expr), None, _) => Some(Expr::Nested(Box::new((*expr).clone()))),
                _ => None,
            }
        });
        let alias = Ident::with_quote('"', format!("{prefix} {}", at + 1));
        *order = Expr::Identifier(alias.clone());
        below.push(ObjectName::from(vec![alias.clone()]));
        inner.projection.push(SelectItem::ExprWithAlias { expr, alias });
    }
    if !is_needed {
        return None;
    }
    let mut parsed = Parser::parse_sql(&GenericDialect {}, "SELECT * FROM (SELECT 1) AS ordered").ok()?;
    let Some(ast::Statement::Query(template)) = parsed.pop() else { return None };
    let SetExpr::Select(mut around) = *template.body else { return None };
    let opt_exclude = Some(ast::ExcludeSelectItem::Multiple(below));
    let options = ast::WildcardAdditionalOptions { opt_exclude, ..Default::default() };
    around.projection = vec![SelectItem::Wildcard(options)];
    let TableFactor::Derived { subquery, .. } = &mut around.from.first_mut()?.relation else { return None };
    *subquery.body = SetExpr::Select(Box::new(inner));
    *outer.body = SetExpr::Select(around);
    Some(outer)
}

/// Whether joins of a SELECT have columns in common.
fn merges(select: &Select) -> bool {
    use ast::JoinConstraint::{Natural, Using};
    select.from.iter().flat_map(|from| &from.joins).any(|join| match &join.join_operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => matches!(constraint, Using(_) | Natural),
        _ => false,
    })
}

/// Whether what a SELECT is ordered by has names that may be those of other columns than the answer's.
fn is_meant<'a>(select: &Select, orders: impl Iterator<Item = &'a mut Expr>) -> bool {
    let (called, mut is_meant) = (aliases(select), false);
    // A name alone is that of a column of the answer, where it has one.
    for order in orders.filter(|order| !matches!(order, Expr::Identifier(_))) {
        each_name(order, |names| {
            is_meant |= match names {
                [name] => called.contains_key(&written(name)),
                names => is_hidden(select, names),
            };
            None
        });
    }
    is_meant
}

/// Whether the answer has another column of the name of this one, which is called with its table.
fn is_hidden(select: &Select, names: &[Ident]) -> bool {
    let ([first, ..], Some(last)) = (names, names.last()) else { return false };
    let is_called = |called: &Ident, name: &Ident| written(called) == written(name);
    let mut items = select.projection.iter();
    let is_other = items.any(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if is_called(alias, last) => match expr {
            Expr::Identifier(own) => !is_called(own, last),
            Expr::CompoundIdentifier(own) => own.as_slice() != names,
            _ => true,
        },
        _ => false,
    });
    // What a column of the answer is called stands for its fields.
    is_other
        && (relations(select).any(|(_, table)| is_called(table, first))
            || !aliases(select).contains_key(&written(first)))
}

/// Whether the answer has a column of this name.
fn is_of_answer(select: &Select, name: &Ident) -> bool {
    select.projection.iter().any(|item| match (name_of(item), item) {
        (Some(own), _) => written(&own) == written(name),
        (None, SelectItem::UnnamedExpr(expr)) => expr.to_string() == name.value,
        _ => false,
    })
}

/// A name as columns have it: it is in lower case where it is not in quotes.
fn written(name: &Ident) -> String {
    match name.quote_style {
        None => name.value.to_lowercase(),
        Some(_) => name.value.clone(),
    }
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
    // A number is a column of the answer.
    let orders = orders.iter_mut().map(|order| &mut order.expr);
    Some((select, orders.filter(|order| !matches!(order, Expr::Value(_)))))
}

/// What a SELECT calls by a new name.
fn aliases(select: &Select) -> BTreeMap<String, &Expr> {
    let named = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            let keeps = match expr {
                Expr::Identifier(name) => written(name) == written(alias),
                Expr::CompoundIdentifier(names) => {
                    names.last().is_some_and(|name| written(name) == written(alias))
                }
                _ => false,
            };
            (!keeps).then(|| (written(alias), expr))
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

/// Puts another expression in the place of each name for which there is one; those behind points are names together. In a query
/// names are first those of its own tables: they stay.
fn each_name(order: &mut Expr, other: impl FnMut(&[Ident]) -> Option<Expr>) {
    let _ = order.visit(&mut EachName { other, queries: 0 });
}

struct EachName<F> {
    other: F,
    queries: usize,
}

impl<F: FnMut(&[Ident]) -> Option<Expr>> VisitorMut for EachName<F> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let names = match &*expr {
            Expr::Identifier(name) if self.queries == 0 => std::slice::from_ref(name),
            Expr::CompoundIdentifier(names) if self.queries == 0 => names.as_slice(),
            _ => return ControlFlow::Continue(()),
        };
        if let Some(other) = (self.other)(names) {
            *expr = other;
        }
        ControlFlow::Continue(())
    }
}
