//! DISTINCT in the order of expressions, and DISTINCT ON in an order of its own.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement,
    sqlparser::ast::{
        self, Expr, Ident, SelectItem, SetExpr, Value, VisitMut as _, VisitorMut, visit_expressions_mut,
    },
};

use super::inner;
use crate::{
    error::{Error, Result},
    parse,
};

/// Has queries with DISTINCT that are ordered by an expression of their list be ordered by its place there: the planner looks for
/// the columns in it.
pub(crate) fn ordered_by_place(statement: &mut Statement) {
    if let Some(statement) = inner(statement) {
        let _ = statement.visit(&mut ByPlace);
    }
}

struct ByPlace;

impl VisitorMut for ByPlace {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        let (Some(order), SetExpr::Select(select)) = (&mut query.order_by, &*query.body) else {
            return ControlFlow::Continue(());
        };
        let ast::OrderByKind::Expressions(keys) = &mut order.kind else { return ControlFlow::Continue(()) };
        if !matches!(select.distinct, Some(ast::Distinct::Distinct)) {
            return ControlFlow::Continue(());
        }
        // Behind what stands for several columns, places are not known.
        let items = select.projection.iter().map_while(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(text_of(expr)),
            _ => None,
        });
        let items: Vec<String> = items.collect();
        for key in keys {
            if matches!(key.expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_)) {
                continue;
            }
            let text = text_of(&key.expr);
            if let Some(at) = items.iter().position(|item| *item == text) {
                key.expr = Expr::value(Value::Number((at + 1).to_string(), false));
            }
        }
        ControlFlow::Continue(())
    }
}

/// The text of an expression, the same however names without quotes are written.
fn text_of(expr: &Expr) -> String {
    fn plain(name: &mut Ident) {
        if name.quote_style.is_none() {
            name.value.make_ascii_lowercase();
        }
    }
    let mut expr = expr.clone();
    let _ = visit_expressions_mut(&mut expr, |expr| {
        match expr {
            Expr::Identifier(name) => plain(name),
            Expr::CompoundIdentifier(names) => names.iter_mut().for_each(plain),
            Expr::Function(function) => {
                for part in &mut function.name.0 {
                    if let ast::ObjectNamePart::Identifier(name) = part {
                        plain(name);
                    }
                }
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    expr.to_string()
}

/// The expressions of DISTINCT ON, where the planner takes neither numbers of columns nor an ORDER BY that begins with
/// others: the row that is first in that order is kept by its number.
pub(crate) fn distinct_on(query: &mut ast::Query) -> Result<()> {
    let keys = match query.order_by.as_ref().map(|order| &order.kind) {
        Some(ast::OrderByKind::Expressions(keys)) => keys.clone(),
        Some(_) => return Ok(()),
        None => Vec::new(),
    };
    let SetExpr::Select(select) = &mut *query.body else { return Ok(()) };
    let Some(ast::Distinct::On(on)) = &select.distinct else { return Ok(()) };
    let meant = |expr: &Expr| -> Expr {
        let named = match expr {
            Expr::Value(ast::ValueWithSpan { value: Value::Number(number, _), .. }) => {
                number.parse::<usize>().ok().and_then(|at| select.projection.get(at.checked_sub(1)?))
            }
            Expr::Identifier(name) => select.projection.iter().find(|item| {
                matches!(item, ast::SelectItem::ExprWithAlias { alias, .. } if alias.value == name.value)
            }),
            _ => None,
        };
        match named {
            Some(ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }) => {
                expr.clone()
            }
            _ => expr.clone(),
        }
    };
    let mut once: Vec<Expr> = Vec::with_capacity(on.len());
    for key in on.iter().map(meant) {
        if !once.contains(&key) {
            once.push(key);
        }
    }
    let on = once;
    let fits = keys.len() >= on.len() && keys.iter().zip(&on).all(|(key, on)| meant(&key.expr) == *on);
    if keys.is_empty() || fits || select.qualify.is_some() {
        select.distinct = Some(ast::Distinct::On(on));
        return Ok(());
    }
    let ordered: Vec<String> = keys
        .iter()
        .map(|key| ast::OrderByExpr { expr: meant(&key.expr), ..key.clone() }.to_string())
        .collect();
    let parted: Vec<String> = on.iter().map(ToString::to_string).collect();
    let text =
        format!("row_number() OVER (PARTITION BY {} ORDER BY {}) = 1", parted.join(", "), ordered.join(", "));
    let condition = parse::ast_parser(&text).and_then(|mut parser| parser.parse_expr().ok());
    select.qualify = Some(condition.ok_or_else(|| Error::unsupported("DISTINCT ON of these expressions"))?);
    select.distinct = None;
    Ok(())
}
