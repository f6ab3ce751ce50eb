//! VALUES in the planner's words.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement,
    sqlparser::ast::{
        self, Expr, Ident, SelectItem, SetExpr, SetOperator, SetQuantifier, TableFactor, UnaryOperator,
        Value, Values, Visit as _, VisitMut as _, Visitor, VisitorMut,
    },
};

use super::{exprs::literal, inner};
use crate::{
    decimals,
    error::{Error, Result},
    parse::ast_parser,
    write::{select, template},
};

/// Makes queries of rows that have queries among their values: the planner's VALUES has none.
pub(crate) fn as_queries(statement: &mut Statement) -> Result<()> {
    let Some(statement) = inner(statement) else { return Ok(()) };
    let mut rewrite = AsQueries(Ok(()));
    let _ = statement.visit(&mut rewrite);
    rewrite.0
}

struct AsQueries(Result<()>);

impl VisitorMut for AsQueries {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        self.0 = body_as_queries(&mut query.body);
        if self.0.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

fn body_as_queries(body: &mut SetExpr) -> Result<()> {
    match body {
        SetExpr::SetOperation { left, right, .. } => {
            body_as_queries(left)?;
            body_as_queries(right)
        }
        SetExpr::Values(values) if values.rows.iter().any(|row| row.content.iter().any(has_query)) => {
            *body = united(std::mem::take(&mut values.rows).into_iter().map(|row| row.content).collect())?;
            Ok(())
        }
        _ => Ok(()),
    }
}

fn has_query(expr: &Expr) -> bool {
    struct Query;
    impl Visitor for Query {
        type Break = ();
        fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    expr.visit(&mut Query).is_break()
}

/// The rows as one query: halves of halves, for the planner goes down a union part by part.
fn united(mut rows: Vec<Vec<Expr>>) -> Result<SetExpr> {
    if rows.len() > 1 {
        let rest = rows.split_off(rows.len() / 2);
        return Ok(SetExpr::SetOperation {
            op: SetOperator::Union,
            set_quantifier: SetQuantifier::All,
            left: Box::new(united(rows)?),
            right: Box::new(united(rest)?),
        });
    }
    let lost = || Error::Internal("a row is no query".to_owned());
    let query = ast_parser("SELECT 1").and_then(|mut parser| parser.parse_query().ok()).ok_or_else(lost)?;
    let SetExpr::Select(mut select) = *query.body else { return Err(lost()) };
    let values = rows.into_iter().flatten().enumerate();
    select.projection = values
        .map(|(at, expr)| {
            // As VALUES calls them.
            SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', format!("column{}", at + 1)) }
        })
        .collect();
    Ok(SetExpr::Select(select))
}

/// Selects what a query of VALUES alone gives, which is to stand behind IN: the planner has no such query there.
pub(super) fn selected(query: &mut ast::Query) -> Result<()> {
    let mut body = &*query.body;
    while let SetExpr::Query(inner) = body {
        body = &inner.body;
    }
    if !matches!(body, SetExpr::Values(_)) {
        return Ok(());
    }
    let mut around = template("SELECT * FROM (SELECT 1) AS basalt_values")?;
    let from = select(&mut around)?.from.first_mut().map(|from| &mut from.relation);
    let Some(TableFactor::Derived { subquery, .. }) = from else {
        return Err(Error::Internal("a query in FROM is not parsed".to_owned()));
    };
    std::mem::swap(&mut **subquery, query);
    *query = *around;
    Ok(())
}

/// Makes numbers of the literal texts of a column whose others are literal numbers: the planner would make texts of these.
pub(super) fn typed(body: &mut SetExpr) {
    match body {
        SetExpr::SetOperation { left, right, .. } => {
            typed(left);
            typed(right);
        }
        SetExpr::Values(values) => {
            // Default: there are no columns.
            let columns = values.rows.first().map_or(0, |row| row.content.len());
            (0..columns).for_each(|column| typed_column(values, column));
        }
        _ => {}
    }
}

fn typed_column(values: &mut Values, column: usize) {
    let mut has_numbers = false;
    for row in &values.rows {
        match row.content.get(column) {
            Some(value) if is_number(value) => has_numbers = true,
            Some(value) if literal(value).is_some() || is_null(value) => {}
            _ => return,
        }
    }
    if !has_numbers {
        return;
    }
    for value in values.rows.iter_mut().filter_map(|row| row.content.get_mut(column)) {
        let Some(text) = literal(value) else { continue };
        *value = match decimals::of_text(text) {
            Some(_) => number(text.trim()),
            None => Expr::Cast {
                kind: ast::CastKind::Cast,
                expr: Box::new(value.clone()),
                data_type: ast::DataType::DoublePrecision,
                array: false,
                format: None,
            },
        };
    }
}

/// What a text such as `-1.5` says.
fn number(text: &str) -> Expr {
    let digits = text.trim_start_matches(['-', '+']);
    let value = Expr::value(Value::Number(digits.to_owned(), false));
    match text.starts_with('-') {
        true => Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(value) },
        false => value,
    }
}

fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(value.value, Value::Number(..)),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => is_number(expr),
        _ => false,
    }
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if value.value == Value::Null)
}
