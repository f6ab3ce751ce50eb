//! ORDER BY of an expression: a name in it is first that of a column of the tables, and only then one of the answer, as in
//! DuckDB and PostgreSQL. DataFusion takes it the other way round, so that such an expression is computed below, where there are no others.
//! So is a column with the name of its table, where the answer has another one of its name: the planner has no two of them; and
//! so is what has a query in it, which the planner has in columns alone.

use std::{collections::BTreeMap, ops::ControlFlow};

use datafusion::{
    execution::SessionState,
    logical_expr::LogicalPlan,
    sql::{
        parser::Statement,
        sqlparser::ast::{
            self, Expr, GroupByExpr, Ident, JoinOperator, ObjectName, OrderBy, OrderByKind, Query, Select,
            SelectItem, SetExpr, TableFactor, TableWithJoins, Value, ValueWithSpan, VisitMut as _,
            VisitorMut, With, visit_expressions,
        },
    },
};

use crate::{
    dialect,
    error::{Error, Result},
    logical, parse,
};

/// Has what a statement orders by mean what it should; `of_queries`: what has a query in it is computed below, too.
///
/// # Errors
/// What orders nothing: a constant that is not the number of a column.
pub(crate) async fn by_columns(
    session: &SessionState,
    statement: &mut Statement,
    of_queries: bool,
) -> Result<()> {
    let Some(statement) = dialect::inner(statement) else { return Ok(()) };
    let mut plain = Plain { has_expressions: false };
    if let ControlFlow::Break(error) = statement.visit(&mut plain) {
        return Err(error);
    }
    if !plain.has_expressions {
        return Ok(());
    }
    if of_queries {
        let _ = statement.visit(&mut Whole);
    }
    // Those within others come first: the others read what they are now.
    let mut kept = 0;
    loop {
        let mut next = Next { of_queries, left: kept, met: Vec::new(), found: None };
        let _ = statement.visit(&mut next);
        let Some(found) = next.found else { return Ok(()) };
        let columns = columns(session, found.queries).await;
        let mut put = Put { of_queries, left: kept, columns: &columns, is_done: false };
        let _ = statement.visit(&mut put);
        kept += usize::from(!put.is_done);
    }
}

/// Whether a statement orders by what has a query in it.
pub(crate) fn has_queries(statement: &mut Statement) -> bool {
    struct Any;

    impl VisitorMut for Any {
        type Break = ();

        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            if keys(query).iter().any(|key| has_query(&key.expr)) {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        }
    }

    dialect::inner(statement).is_some_and(|statement| statement.visit(&mut Any).is_break())
}

/// Takes names and numbers out of parentheses, and refuses other constants.
struct Plain {
    has_expressions: bool,
}

impl VisitorMut for Plain {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &mut query.order_by else {
            return ControlFlow::Continue(());
        };
        for order in orders {
            let within = without_parentheses(&order.expr);
            if matches!(within, Expr::Identifier(_) | Expr::Value(_)) {
                order.expr = within.clone();
            } else {
                self.has_expressions = true;
            }
            if let Expr::Value(ValueWithSpan { value, span }) = &order.expr
                && let Value::SingleQuotedString(_) | Value::Boolean(_) = value
            {
                let error = Error::invalid("ORDER BY of a constant orders nothing: \"name\" is a column");
                return ControlFlow::Break(error.at(span.start.line, span.start.column));
            }
        }
        ControlFlow::Continue(())
    }
}

/// Puts around what has no other columns than the answer's a query that has these, where one with a query in it is ordered by.
struct Whole;

impl VisitorMut for Whole {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if !keys(query).iter().any(|key| has_query(&key.expr)) {
            return ControlFlow::Continue(());
        }
        let is_called = match &*query.body {
            SetExpr::Select(select)
                if matches!(select.distinct, Some(ast::Distinct::Distinct))
                    || matches!(select.group_by, GroupByExpr::All(_)) =>
            {
                has_one_name_each(select)
            }
            SetExpr::SetOperation { .. } | SetExpr::Query(_) => true,
            _ => return ControlFlow::Continue(()),
        };
        if let Some(select) = around((*query.body).clone(), None, is_called) {
            *query.body = SetExpr::Select(select);
        }
        ControlFlow::Continue(())
    }
}

/// Looks for the next query that may be ordered by other columns than the answer's.
struct Next {
    of_queries: bool,
    /// So many of them stay as they are.
    left: usize,
    /// How many queries were met in each of those around.
    met: Vec<usize>,
    found: Option<Found>,
}

struct Found {
    /// What selects from all that it does, and then from each of it alone.
    queries: Vec<Query>,
    /// How many queries are around it.
    depth: usize,
    /// The number it has among the queries of the one around.
    at: usize,
}

impl VisitorMut for Next {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        if let Some(met) = self.met.last_mut() {
            *met += 1;
        }
        self.met.push(0);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.met.pop();
        let depth = self.met.len();
        // Default: nothing is around.
        let at = self.met.last().copied().unwrap_or_default();
        let (queries, with) = match self.found.take() {
            Some(found) if depth < found.depth => {
                (found.queries, query.with.as_ref().and_then(|with| seen(with, found.at)))
            }
            Some(found) => {
                self.found = Some(found);
                return ControlFlow::Continue(());
            }
            None => {
                let Some((select, orders)) = ordered(query) else { return ControlFlow::Continue(()) };
                if !is_meant(select, orders, self.of_queries) {
                    return ControlFlow::Continue(());
                }
                if let Some(left) = self.left.checked_sub(1) {
                    self.left = left;
                    return ControlFlow::Continue(());
                }
                (over(select), query.with.clone())
            }
        };
        let queries: Vec<Query> = match with {
            Some(with) => queries.into_iter().filter_map(|query| within(query, &with)).collect(),
            None => queries,
        };
        self.found = Some(Found { queries, depth, at });
        ControlFlow::Continue(())
    }
}

/// Puts columns below the query that was found.
struct Put<'a> {
    of_queries: bool,
    left: usize,
    columns: &'a [String],
    is_done: bool,
}

impl VisitorMut for Put<'_> {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let is_next =
            ordered(query).is_some_and(|(select, orders)| is_meant(select, orders, self.of_queries));
        if !is_next {
            return ControlFlow::Continue(());
        }
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            return ControlFlow::Continue(());
        }
        if let Some(apart) = apart(query, self.columns, self.of_queries) {
            *query = apart;
            self.is_done = true;
        }
        ControlFlow::Break(())
    }
}

/// The names of the columns that queries select from, as often as there are such columns: of the first one, or else of those of the
/// others that are planned.
async fn columns(session: &SessionState, queries: Vec<Query>) -> Vec<String> {
    let mut names = Vec::new();
    for (at, query) in queries.into_iter().enumerate() {
        let plan = logical::planned(session, parse::as_query(Box::new(query))).await;
        // What is no table here is refused when its own query is planned.
        if let Ok(LogicalPlan::Projection(projection)) = plan {
            names.extend(projection.input.schema().fields().iter().map(|field| field.name().clone()));
            if at == 0 {
                break;
            }
        }
    }
    names
}

/// `SELECT 1` from all that a SELECT is from, and from each of it alone, which may be planned where one of them is not: it has
/// columns of a query around.
pub(crate) fn over(select: &Select) -> Vec<Query> {
    let joined = select
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    let alone = joined.map(|relation| vec![TableWithJoins { relation: relation.clone(), joins: Vec::new() }]);
    let all = std::iter::once(select.from.clone()).chain(alone.filter(|_| is_of_several(select)));
    let queries = all.filter_map(|from| {
        let mut query = query("SELECT 1")?;
        let SetExpr::Select(select) = &mut *query.body else { return None };
        select.from = from;
        Some(query)
    });
    queries.collect()
}

/// What the query of this number in a query sees of its WITH: in WITH, what stands before.
pub(crate) fn seen(with: &With, at: usize) -> Option<With> {
    let mut with = with.clone();
    if at <= with.cte_tables.len() {
        with.cte_tables.truncate(if with.recursive { at } else { at.saturating_sub(1) });
    }
    (!with.cte_tables.is_empty()).then_some(with)
}

/// A query in one that has a WITH.
pub(crate) fn within(inner: Query, with: &With) -> Option<Query> {
    let mut around = query("SELECT 1")?;
    around.with = Some(with.clone());
    *around.body = SetExpr::Query(Box::new(inner));
    Some(around)
}

fn query(text: &str) -> Option<Query> {
    parse::ast_parser(text).and_then(|mut parser| parser.parse_query().ok()).map(|query| *query)
}

/// `SELECT *` of what a query selects, but of some columns.
fn around(body: SetExpr, but: Option<Vec<ObjectName>>, is_called: bool) -> Option<Box<Select>> {
    let template = query("SELECT * FROM (SELECT 1) AS ordered")?;
    let SetExpr::Select(mut around) = *template.body else { return None };
    let opt_exclude = but.map(ast::ExcludeSelectItem::Multiple);
    let options = ast::WildcardAdditionalOptions { opt_exclude, ..Default::default() };
    around.projection = vec![SelectItem::Wildcard(options)];
    let TableFactor::Derived { subquery, alias, .. } = &mut around.from.first_mut()?.relation else {
        return None;
    };
    *subquery.body = body;
    if !is_called {
        *alias = None;
    }
    Some(around)
}

/// The same query with what it orders by computed below, beside its columns: `SELECT * EXCLUDE ("order 1") FROM (SELECT 0 - b
/// AS b, t.b * 2 AS "order 1" FROM t) ORDER BY "order 1"`. `None`: there is no need, or other rows would come of it.
fn apart(query: &Query, columns: &[String], of_queries: bool) -> Option<Query> {
    let mut outer = query.clone();
    let (select, orders) = ordered(&mut outer)?;
    let (mut inner, called, mut is_needed) = (select.clone(), aliases(select), false);
    let has_star = select
        .projection
        .iter()
        .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
    let mut below = Vec::new();
    let mut prefix = "order".to_owned();
    while called.keys().any(|name| name.starts_with(&prefix)) {
        prefix.push('_');
    }
    for (at, order) in orders.enumerate() {
        let mut expr = order.clone();
        if let Expr::Identifier(name) = &expr
            && is_of_answer(select, name)
        {
            let name = written(name);
            match called.get(&name) {
                // Beside a star it has another name above.
                Some(own) if has_star && columns.contains(&name) => expr = (*own).clone(),
                // Above are the answer's columns alone.
                _ => continue,
            }
        } else if !of_queries && asks_answer(&mut expr, &called, columns) {
            // What only the answer has, a query can ask for above alone.
            continue;
        } else {
            is_needed |= of_queries && has_query(&expr);
            each_name(&mut expr, |names| {
                let [name] = names else {
                    is_needed |= is_hidden(select, names);
                    return None;
                };
                let name = written(name);
                let own = called.get(&name)?;
                match columns.iter().filter(|column| **column == name).count() {
                    0 => Some(Expr::Nested(Box::new((*own).clone()))),
                    // Below it is the column, or the one that both have in common.
                    times if times == 1 || merges(select) => {
                        is_needed = true;
                        None
                    }
                    _ => None,
                }
            });
        }
        let alias = Ident::with_quote('"', format!("{prefix} {}", at + 1));
        *order = Expr::Identifier(alias.clone());
        below.push(ObjectName::from(vec![alias.clone()]));
        let mut column = SelectItem::ExprWithAlias { expr, alias };
        // As in any other column.
        dialect::counted(&mut column).ok()?;
        inner.projection.push(column);
    }
    if !is_needed {
        return None;
    }
    let around = around(SetExpr::Select(Box::new(inner)), Some(below), has_one_name_each(select))?;
    *outer.body = SetExpr::Select(around);
    Some(outer)
}

fn is_of_several(select: &Select) -> bool {
    select.from.len() > 1 || select.from.iter().any(|from| !from.joins.is_empty())
}

/// Whether what a SELECT gives can be called as one table: columns of several tables may have one name.
fn has_one_name_each(select: &Select) -> bool {
    !is_of_several(select) || merges(select)
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
fn is_meant<'a>(select: &Select, orders: impl Iterator<Item = &'a mut Expr>, of_queries: bool) -> bool {
    // Each column of theirs is one by which rows are alike.
    if select.distinct.is_some() || matches!(select.group_by, GroupByExpr::All(_)) {
        return false;
    }
    let (called, mut is_meant) = (aliases(select), false);
    // A name alone is that of a column of the answer, where it has one.
    for order in orders.filter(|order| !matches!(order, Expr::Identifier(_))) {
        is_meant |= of_queries && has_query(order);
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
        && (relations(select).any(|table| is_called(table, first))
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
pub(crate) fn written(name: &Ident) -> String {
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

fn without_parentheses(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => without_parentheses(inner),
        expr => expr,
    }
}

/// What a query is ordered by.
fn keys(query: &Query) -> &[ast::OrderByExpr] {
    match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(keys)) => keys,
        _ => &[],
    }
}

fn has_query(expr: &Expr) -> bool {
    visit_expressions(expr, |expr| match expr {
        Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
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

/// What the tables of a FROM are called there.
fn relations(select: &Select) -> impl Iterator<Item = &Ident> {
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
                Some(alias) => Some(&alias.name),
                None => Some(name),
            }
        }
        _ => None,
    })
}

/// Puts another expression in the place of each name for which there is one; those behind points are names together. In a query
/// names are first those of its own tables: they stay.
fn each_name(order: &mut Expr, other: impl FnMut(&[Ident]) -> Option<Expr>) {
    names(order, false, other);
}

/// Whether a query in an expression has a name that is one of the answer's, and none of these columns.
fn asks_answer(order: &mut Expr, called: &BTreeMap<String, &Expr>, columns: &[String]) -> bool {
    let mut asks = false;
    names(order, true, |names| {
        if let [name] = names {
            let name = written(name);
            asks |= called.contains_key(&name) && !columns.contains(&name);
        }
        None
    });
    asks
}

/// The same of those in queries, or of those in none.
fn names(order: &mut Expr, of_queries: bool, other: impl FnMut(&[Ident]) -> Option<Expr>) {
    let _ = order.visit(&mut EachName { other, of_queries, queries: 0 });
}

struct EachName<F> {
    other: F,
    of_queries: bool,
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
        if self.of_queries != (self.queries > 0) {
            return ControlFlow::Continue(());
        }
        let names = match &*expr {
            Expr::Identifier(name) => std::slice::from_ref(name),
            Expr::CompoundIdentifier(names) => names.as_slice(),
            _ => return ControlFlow::Continue(()),
        };
        if let Some(other) = (self.other)(names) {
            *expr = other;
        }
        ControlFlow::Continue(())
    }
}
