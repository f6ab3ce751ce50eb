//! What stands for several columns and is not the planner's: `COLUMNS(...)`, `*` with RENAME or ILIKE, `*` over a NATURAL
//! JOIN, and ORDER BY ALL of a list with `*`. The columns are those that FROM has, which is planned for it.

mod bags;
mod choose;
mod natural;

use std::ops::ControlFlow;

use datafusion::{
    execution::SessionState,
    sql::{
        parser::Statement,
        sqlparser::ast::{
            self, BinaryOperator, Expr, Ident, JoinConstraint, JoinOperator, OrderByKind, Query, Select,
            SelectItem, SetExpr, TableWithJoins, Value, VisitMut as _, VisitorMut, visit_expressions,
        },
    },
};

use choose::{Chosen, each, of_options};
use natural::{natural, put_natural};

use crate::{
    dialect,
    error::{Error, Result},
    limits, parse,
    plan::unplanned,
};

/// A column, and the table that it is of.
type Column = (Option<String>, String);

/// Puts columns into the places of what stands for several.
///
/// # Errors
/// What stands for none, or for columns that cannot be told.
pub(crate) async fn expand(session: &SessionState, statement: &mut Statement) -> Result<()> {
    let Some(statement) = dialect::inner(statement) else { return Ok(()) };
    for _ in 0..limits::STARS {
        let mut next = Next { with: Vec::new(), found: None };
        let _ = statement.visit(&mut next);
        let Some((with, wanted)) = next.found else { return distinct(statement) };
        let known = match &wanted {
            Wanted::Natural(select) => Known::Natural(natural(session, &with, select).await?),
            Wanted::Bags(left) => Known::Columns(columns(session, &with, left.as_ref().clone()).await?),
            Wanted::Select(select) => Known::Columns(columns(session, &with, from(select)?).await?),
            Wanted::Order(query) => match &*query.body {
                SetExpr::Select(select) if !is_all(query) => {
                    Known::Columns(columns(session, &with, from(select)?).await?)
                }
                body => Known::Columns(columns(session, &with, body.clone()).await?),
            },
        };
        let mut put = Put { known, done: None };
        let _ = statement.visit(&mut put);
        put.done.unwrap_or(Ok(()))?;
    }
    Err(Error::invalid(format!("more than {} select lists with COLUMNS or *", limits::STARS)))
}

/// DISTINCT ON, of which the columns are known now.
fn distinct(statement: &mut ast::Statement) -> Result<()> {
    struct Each(Result<()>);

    impl VisitorMut for Each {
        type Break = ();

        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            self.0 = dialect::distinct_on(query);
            if self.0.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }
    }

    let mut each = Each(Ok(()));
    let _ = statement.visit(&mut each);
    each.0
}

/// What is to be expanded next: it is the same for who looks for it and for who expands it.
enum Wanted {
    Natural(Box<Select>),
    /// The left side of EXCEPT ALL or INTERSECT ALL.
    Bags(Box<SetExpr>),
    Select(Box<Select>),
    Order(Box<Query>),
}

enum Known {
    /// For each join of each table in FROM, the columns of a natural one.
    Natural(Vec<Vec<Option<Vec<String>>>>),
    Columns(Vec<Column>),
}

struct Next {
    with: Vec<Option<ast::With>>,
    found: Option<(Option<ast::With>, Wanted)>,
}

impl Next {
    fn found(&mut self, wanted: Wanted) -> ControlFlow<()> {
        let mut all: Option<ast::With> = None;
        for with in self.with.iter().flatten() {
            // What is not expanded yet stands around this or behind it, and so does what reads that.
            let ready = with.cte_tables.iter().take_while(|table| !has_wanted(&table.query)).cloned();
            match &mut all {
                Some(all) => all.cte_tables.extend(ready),
                None => all = Some(ast::With { cte_tables: ready.collect(), ..with.clone() }),
            }
        }
        self.found = Some((all.filter(|all| !all.cte_tables.is_empty()), wanted));
        ControlFlow::Break(())
    }
}

impl VisitorMut for Next {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.with.push(query.with.clone());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(left) = bags::left(query) {
            return self.found(Wanted::Bags(Box::new(left)));
        }
        if orders(query) {
            return self.found(Wanted::Order(Box::new(query.clone())));
        }
        self.with.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if is_natural(select) {
            return self.found(Wanted::Natural(Box::new(select.clone())));
        }
        if wants(select) {
            return self.found(Wanted::Select(Box::new(select.clone())));
        }
        ControlFlow::Continue(())
    }
}

struct Put {
    known: Known,
    done: Option<Result<()>>,
}

impl VisitorMut for Put {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let counts = bags::has(&query.body);
        if !counts && !orders(query) {
            return ControlFlow::Continue(());
        }
        let Known::Columns(columns) = &self.known else { return ControlFlow::Break(()) };
        if counts {
            self.done = Some(bags::put(query, columns));
            return ControlFlow::Break(());
        }
        self.done = Some(order(query, columns));
        ControlFlow::Break(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        match &self.known {
            Known::Natural(joins) if is_natural(select) => self.done = Some(put_natural(select, joins)),
            Known::Columns(columns) if wants(select) => self.done = Some(put(select, columns)),
            _ => return ControlFlow::Continue(()),
        }
        ControlFlow::Break(())
    }
}

fn has_wanted(query: &Query) -> bool {
    let mut next = Next { with: Vec::new(), found: None };
    let _ = query.clone().visit(&mut next);
    next.found.is_some()
}

/// The columns of a FROM, or of a query.
async fn columns(session: &SessionState, with: &Option<ast::With>, body: SetExpr) -> Result<Vec<Column>> {
    let template = parse::ast_parser("SELECT 1").and_then(|mut parser| parser.parse_query().ok());
    let mut query = template.ok_or_else(|| Error::Internal("no query".to_owned()))?;
    query.with.clone_from(with);
    query.body = Box::new(body);
    let plan = session.statement_to_plan(parse::as_query(query)).await.map_err(unplanned)?;
    let columns = plan
        .schema()
        .iter()
        .map(|(table, field)| (table.map(|table| table.table().to_owned()), field.name().clone()));
    Ok(columns.collect())
}

/// `SELECT *` over a FROM.
fn from(select: &Select) -> Result<SetExpr> {
    over(select.from.clone())
}

fn over(from: Vec<TableWithJoins>) -> Result<SetExpr> {
    let template = parse::ast_parser("SELECT *").and_then(|mut parser| parser.parse_query().ok());
    let template = template.ok_or_else(|| Error::Internal("no query".to_owned()))?;
    let SetExpr::Select(mut all) = *template.body else { return Err(Error::Internal("no query".to_owned())) };
    all.from = from;
    dialect::expand_using(&mut all)?;
    Ok(SetExpr::Select(all))
}

fn is_columns(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if function.over.is_none() && function.name.to_string().eq_ignore_ascii_case("columns"))
}

fn has_columns(expr: &Expr) -> bool {
    visit_expressions(
        expr,
        |expr| if is_columns(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) },
    )
    .is_break()
}

/// `*` with what the planner has not: of several tables it leaves out no column that two of them have.
fn is_special(options: &ast::WildcardAdditionalOptions, of_several: bool) -> bool {
    let leaves_out = options.opt_exclude.is_some() || options.opt_except.is_some();
    if leaves_out && of_several {
        return true;
    }
    let parts = match &options.opt_exclude {
        Some(ast::ExcludeSelectItem::Single(name)) => name.0.len() > 1,
        Some(ast::ExcludeSelectItem::Multiple(names)) => names.iter().any(|name| name.0.len() > 1),
        None => false,
    };
    options.opt_rename.is_some() || options.opt_ilike.is_some() || parts
}

fn is_of_several(select: &Select) -> bool {
    select.from.len() > 1 || select.from.iter().any(|table| !table.joins.is_empty())
}

fn wants(select: &Select) -> bool {
    let grouped =
        matches!(&select.group_by, ast::GroupByExpr::Expressions(keys, _) if keys.iter().any(has_columns));
    let distinct = matches!(&select.distinct, Some(ast::Distinct::On(keys)) if keys.iter().any(has_columns));
    grouped
        || distinct
        || select.selection.as_ref().is_some_and(has_columns)
        || select.projection.iter().any(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => has_columns(expr),
            SelectItem::Wildcard(options) => is_special(options, is_of_several(select)),
            SelectItem::QualifiedWildcard(_, options) => is_special(options, false),
            _ => false,
        })
}

fn is_natural(select: &Select) -> bool {
    let mut joins = select.from.iter().flat_map(|table| &table.joins);
    joins.any(|join| constraint(&join.join_operator) == Some(&JoinConstraint::Natural))
}

fn constraint(join: &JoinOperator) -> Option<&JoinConstraint> {
    match join {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint) => Some(constraint),
        _ => None,
    }
}

/// ORDER BY ALL, where `*` is selected.
fn is_all(query: &Query) -> bool {
    matches!(keys(query), Some([key]) if matches!(&key.expr, Expr::Identifier(name)
        if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all")))
}

fn keys(query: &Query) -> Option<&[ast::OrderByExpr]> {
    match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(keys)) => Some(keys),
        _ => None,
    }
}

fn orders(query: &Query) -> bool {
    is_all(query) || keys(query).is_some_and(|keys| keys.iter().any(|key| has_columns(&key.expr)))
}

fn order(query: &mut Query, columns: &[Column]) -> Result<()> {
    let all = is_all(query);
    let Some(ast::OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &mut query.order_by else {
        return Ok(());
    };
    let mut expanded = Vec::new();
    for key in keys.drain(..) {
        let of = |expr: Expr| ast::OrderByExpr { expr, ..key.clone() };
        if all {
            let ordinals = (1..=columns.len()).map(|at| Expr::value(Value::Number(at.to_string(), false)));
            expanded.extend(ordinals.map(of));
        } else {
            let each = each(&key.expr, columns)?;
            expanded.extend(each.into_iter().map(|(expr, _, _)| of(expr)));
        }
    }
    *keys = expanded;
    Ok(())
}

fn put(select: &mut Select, columns: &[Column]) -> Result<()> {
    let mut items = Vec::new();
    let of_several = is_of_several(select);
    for item in std::mem::take(&mut select.projection) {
        match item {
            SelectItem::Wildcard(options) if is_special(&options, of_several) => {
                items.extend(of_options(&options, None, columns)?.into_iter().map(item_of));
            }
            SelectItem::QualifiedWildcard(kind, options) if is_special(&options, false) => {
                let ast::SelectItemQualifiedWildcardKind::ObjectName(table) = &kind else {
                    return Err(Error::unsupported("RENAME or ILIKE of the fields of an expression"));
                };
                items.extend(of_options(&options, Some(table), columns)?.into_iter().map(item_of));
            }
            SelectItem::UnnamedExpr(expr) if has_columns(&expr) => {
                for (expr, called, _) in each(&expr, columns)? {
                    items.push(match called {
                        Some(called) => {
                            SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', called) }
                        }
                        None => SelectItem::UnnamedExpr(expr),
                    });
                }
            }
            SelectItem::ExprWithAlias { expr, alias } if has_columns(&expr) => {
                for (expr, _, groups) in each(&expr, columns)? {
                    let alias = Ident::with_quote('"', with_groups(&alias.value, &groups)?);
                    items.push(SelectItem::ExprWithAlias { expr, alias });
                }
            }
            item => items.push(item),
        }
    }
    select.projection = items;
    if let Some(condition) = &mut select.selection {
        conjoined(condition, columns)?;
    }
    let lists = [
        match &mut select.distinct {
            Some(ast::Distinct::On(keys)) => Some(keys),
            _ => None,
        },
        match &mut select.group_by {
            ast::GroupByExpr::Expressions(keys, _) => Some(keys),
            ast::GroupByExpr::All(_) => None,
        },
    ];
    for keys in lists.into_iter().flatten() {
        let mut all = Vec::new();
        for key in keys.drain(..) {
            all.extend(each(&key, columns)?.into_iter().map(|(expr, _, _)| expr));
        }
        *keys = all;
    }
    Ok(())
}

fn item_of(chosen: Chosen) -> SelectItem {
    // Columns of two tables may have one name.
    if chosen.is_column() {
        return SelectItem::UnnamedExpr(chosen.expr);
    }
    SelectItem::ExprWithAlias { expr: chosen.expr, alias: Ident::with_quote('"', chosen.called) }
}

/// A name with what a pattern's groups have found in the places of `\1`, `\2` and so on.
fn with_groups(name: &str, groups: &[String]) -> Result<String> {
    let mut made = String::new();
    let mut chars = name.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            ('\\', Some('\\')) => made.push('\\'),
            ('\\', Some(digit)) => {
                let group = digit.to_digit(10).and_then(|at| groups.get(at as usize));
                made.push_str(group.ok_or_else(|| Error::invalid(format!("{name:?}: no group {digit}")))?);
            }
            (c, _) => made.push(c),
        }
    }
    Ok(made)
}

/// A condition on each of the columns.
fn conjoined(condition: &mut Expr, columns: &[Column]) -> Result<()> {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjoined(left, columns)?;
            conjoined(right, columns)
        }
        condition if has_columns(condition) => {
            let all = each(condition, columns)?.into_iter().map(|(expr, _, _)| Expr::Nested(Box::new(expr)));
            let both = |left, right| Expr::BinaryOp {
                left: Box::new(left),
                op: BinaryOperator::And,
                right: Box::new(right),
            };
            if let Some(all) = all.reduce(both) {
                *condition = Expr::Nested(Box::new(all));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
