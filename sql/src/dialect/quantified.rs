//! Conditions on the rows of a subquery that the planner has in WHERE alone, or not at all, as counts, least and greatest
//! values of them. NULLs count as they do in the condition: what may be true and is not known is NULL.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, GroupByExpr, Query, SelectItem, SetExpr,
    UnaryOperator, VisitMut as _, VisitorMut, visit_expressions,
};

use super::exprs::arguments;
use crate::{
    error::{Error, Result},
    parse,
};

fn parsed(text: &str) -> Result<Expr> {
    let expr = parse::ast_parser(text).and_then(|mut parser| parser.parse_expr().ok());
    expr.map(|expr| Expr::Nested(Box::new(expr)))
        .ok_or_else(|| Error::unsupported("this condition on a subquery"))
}

/// The query of a subquery in parentheses.
fn query_of(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Subquery(query) => Some(query),
        Expr::Nested(inner) => query_of(inner),
        _ => None,
    }
}

/// The values of a row in parentheses; `None`: it is one value.
pub(super) fn row(left: &Expr) -> Option<Vec<&Expr>> {
    match left {
        Expr::Tuple(values) => Some(values.iter().collect()),
        Expr::Nested(inner) => row(inner),
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("row") => {
            let values = arguments(function)?.iter().map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value),
                _ => None,
            });
            values.collect()
        }
        _ => None,
    }
}

/// A row, compared with the rows of a query that has as many columns: equal rows are so in each value, others are compared
/// as structs.
fn row_compared(row: &[&Expr], op: &BinaryOperator, query: &Query, all: bool) -> Result<Expr> {
    if let SetExpr::Select(select) = &*query.body {
        let is_one =
            |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
        if select.projection.iter().all(is_one) && select.projection.len() != row.len() {
            let what = format!("a row of {} values before {} columns", row.len(), select.projection.len());
            return Err(Error::unsupported(what));
        }
    }
    let names: Vec<String> = (1..=row.len()).map(|at| format!("basalt_c{at}")).collect();
    let each = |op: &str, with: &str| {
        let pairs = row.iter().zip(&names).map(|(value, name)| format!("({value}) {op} basalt_q.{name}"));
        pairs.collect::<Vec<_>>().join(with)
    };
    let holds = match op {
        BinaryOperator::Eq => each("=", " AND "),
        BinaryOperator::NotEq => each("<>", " OR "),
        BinaryOperator::Lt | BinaryOperator::LtEq | BinaryOperator::Gt | BinaryOperator::GtEq => {
            let values: Vec<String> = row.iter().map(ToString::to_string).collect();
            let columns: Vec<String> = names.iter().map(|name| format!("basalt_q.{name}")).collect();
            format!("struct({}) {op} struct({})", values.join(", "), columns.join(", "))
        }
        _ => return Err(Error::unsupported(format!("{op} of rows before ANY or ALL"))),
    };
    let of = |condition: &str| {
        format!("(SELECT count(*) FROM ({query}) AS basalt_q ({}) WHERE {condition}) > 0", names.join(", "))
    };
    let unknown = of(&format!("({holds}) IS NULL"));
    parsed(&match all {
        false => format!("CASE WHEN {} THEN TRUE WHEN {unknown} THEN NULL ELSE FALSE END", of(&holds)),
        true => {
            let fails = of(&format!("NOT ({holds})"));
            format!("CASE WHEN {fails} THEN FALSE WHEN {unknown} THEN NULL ELSE TRUE END")
        }
    })
}

/// Rows of a condition that are to be IN a query: what is not known is passed over as what is not there, so that it is
/// asked whether there is such a row.
pub(super) fn rows_in(condition: &mut Expr) -> Result<()> {
    match condition {
        Expr::Nested(inner) => rows_in(inner),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            rows_in(left)?;
            rows_in(right)
        }
        Expr::InSubquery { expr: left, subquery, negated: false } => {
            let Some(row) = row(left) else { return Ok(()) };
            let names: Vec<String> = (1..=row.len()).map(|at| format!("basalt_c{at}")).collect();
            let pairs = row.iter().zip(&names).map(|(value, name)| format!("({value}) = basalt_q.{name}"));
            let holds = pairs.collect::<Vec<_>>().join(" AND ");
            let text = format!(
                "EXISTS (SELECT 1 FROM ({subquery}) AS basalt_q ({}) WHERE {holds})",
                names.join(", ")
            );
            *condition = parsed(&text)?;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// `left op ANY (query)` and `left op ALL (query)`.
pub(super) fn compared(left: &Expr, op: &BinaryOperator, right: &Expr, all: bool) -> Result<Expr> {
    let Some(query) = query_of(right) else { return Err(Error::Internal("no subquery".to_owned())) };
    if let Some(row) = row(left) {
        return row_compared(&row, op, query, all);
    }
    let of = |what: &str| match plain(query, Some(what)) {
        Some(text) => text,
        None => format!("(SELECT {what}(basalt_q.basalt_c) FROM ({query}) AS basalt_q (basalt_c))"),
    };
    let (least, most) = (of("min"), of("max"));
    let holds = match (op, all) {
        (BinaryOperator::Gt | BinaryOperator::GtEq, false) => format!("({left}) {op} {least}"),
        (BinaryOperator::Lt | BinaryOperator::LtEq, false) => format!("({left}) {op} {most}"),
        (BinaryOperator::Gt | BinaryOperator::GtEq, true) => format!("({left}) {op} {most}"),
        (BinaryOperator::Lt | BinaryOperator::LtEq, true) => format!("({left}) {op} {least}"),
        (BinaryOperator::NotEq, false) => format!("({left}) <> {least} OR ({left}) <> {most}"),
        (BinaryOperator::Eq, true) => format!("({left}) = {least} AND ({left}) = {most}"),
        (BinaryOperator::Eq, false) => return within(left, query, false),
        (BinaryOperator::NotEq, true) => return within(left, query, true),
        _ => return Err(Error::unsupported(format!("{op} before ANY or ALL"))),
    };
    let (count, known) = (counting(query), of("count"));
    let text = match all {
        false => format!(
            "CASE WHEN {count} = 0 THEN FALSE WHEN {holds} THEN TRUE \
             WHEN ({left}) IS NULL OR {count} > {known} THEN NULL ELSE FALSE END"
        ),
        true => format!(
            "CASE WHEN {count} = 0 THEN TRUE WHEN NOT ({holds}) THEN FALSE \
             WHEN ({left}) IS NULL OR {count} > {known} THEN NULL ELSE TRUE END"
        ),
    };
    parsed(&text)
}

/// `left [NOT] IN (query)`, by how many rows there are.
pub(super) fn within(left: &Expr, query: &Query, negated: bool) -> Result<Expr> {
    if let Some(row) = row(left) {
        let op = if negated { BinaryOperator::NotEq } else { BinaryOperator::Eq };
        return row_compared(&row, &op, query, negated);
    }
    let from = format!("FROM ({query}) AS basalt_q (basalt_c)");
    let text = format!(
        "CASE WHEN (SELECT count(*) {from} WHERE basalt_q.basalt_c = ({left})) > 0 THEN {} \
         WHEN (SELECT count(*) {from}) = 0 THEN {} \
         WHEN ({left}) IS NULL OR (SELECT count(*) {from} WHERE basalt_q.basalt_c IS NULL) > 0 THEN NULL \
         ELSE {} END",
        !negated, negated, negated
    );
    parsed(&text)
}

fn exists(query: &Query, negated: bool) -> Result<Expr> {
    parsed(&format!("{} {} 0", counting(query), if negated { "=" } else { ">" }))
}

/// How many rows a query has.
fn counting(query: &Query) -> String {
    plain(query, None).unwrap_or_else(|| format!("(SELECT count(*) FROM ({query}) AS basalt_q)"))
}

/// An aggregate of what a query selects, or the number of its rows, as the same query with another select list: one that is
/// around it could not reach the columns of what is around that. `None`: it does more than to select.
fn plain(query: &Query, aggregate: Option<&str>) -> Option<String> {
    let Query { with: None, body, limit_clause: None, fetch: None, .. } = query else { return None };
    let SetExpr::Select(select) = &**body else { return None };
    let is_plain = select.distinct.is_none()
        && select.top.is_none()
        && select.having.is_none()
        && select.qualify.is_none()
        && !select.from.is_empty()
        && matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let mut columns = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => columns.push(expr),
            _ if aggregate.is_none() => {}
            _ => return None,
        }
    }
    // A function may be an aggregate, or give several rows.
    let calls = columns.iter().any(|expr| {
        visit_expressions(*expr, |expr| match expr {
            Expr::Function(_) | Expr::Subquery(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .is_break()
    });
    if !is_plain || calls {
        return None;
    }
    let what = match (aggregate, columns.as_slice()) {
        (None, _) => "count(*)".to_owned(),
        (Some(aggregate), [column]) => format!("{aggregate}({column})"),
        _ => return None,
    };
    let mut select = (**select).clone();
    let what = parse::ast_parser(&what).and_then(|mut parser| parser.parse_expr().ok())?;
    select.projection = vec![SelectItem::UnnamedExpr(what)];
    let body = Box::new(SetExpr::Select(Box::new(select)));
    Some(format!("({})", Query { body, order_by: None, ..query.clone() }))
}

/// Puts counts into the places of EXISTS and IN of a select list, where the planner has them not.
pub(super) fn counted(item: &mut SelectItem) -> Result<bool> {
    let mut counted = Counted { depth: 0, changed: false, fault: None };
    let _ = item.visit(&mut counted);
    counted.fault.map_or(Ok(counted.changed), Err)
}

struct Counted {
    depth: usize,
    changed: bool,
    fault: Option<Error>,
}

impl VisitorMut for Counted {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        let made = match expr {
            Expr::Exists { subquery, negated } => exists(subquery, *negated),
            Expr::InSubquery { expr: left, subquery, negated } => within(left, subquery, *negated),
            Expr::AnyOp { left, compare_op, right, .. } if query_of(right).is_some() => {
                compared(left, compare_op, right, false)
            }
            Expr::AllOp { left, compare_op, right } if query_of(right).is_some() => {
                compared(left, compare_op, right, true)
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr: inner } => match &**inner {
                Expr::Exists { subquery, negated } => exists(subquery, !*negated),
                _ => return ControlFlow::Continue(()),
            },
            _ => return ControlFlow::Continue(()),
        };
        match made {
            Ok(made) => {
                self.changed = true;
                *expr = made;
                ControlFlow::Continue(())
            }
            Err(fault) => {
                self.fault = Some(fault);
                ControlFlow::Break(())
            }
        }
    }
}
