//! DISTINCT ON in an order of its own.

use datafusion::sql::sqlparser::ast::{self, Expr, SetExpr, Value};

use crate::{
    error::{Error, Result},
    parse,
};

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
    let on: Vec<Expr> = on.iter().map(meant).collect();
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
