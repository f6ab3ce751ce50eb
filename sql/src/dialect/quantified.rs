//! Conditions on the rows of a subquery that the planner has in WHERE alone, or not at all, as counts, least and greatest
//! values of them. NULLs count as they do in the condition: what may be true and is not known is NULL.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Array, ArrayElemTypeDef, BinaryOperator, CastKind, DataType, Expr, FunctionArg, FunctionArgExpr,
    GroupByExpr, Query, SelectItem, SetExpr, UnaryOperator, Value, Visit as _, VisitMut, Visitor, VisitorMut,
    visit_expressions,
};

use super::exprs::{arguments, literal};
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

/// A value that is compared with those of a list, of which one is enough. The planner's own form has NULLs in the list for
/// values that are not there; its ALL has them right, and ANY is where not all are otherwise.
pub(super) fn any_of_list(left: &Expr, op: &BinaryOperator, list: &Expr) -> Option<Expr> {
    if let (BinaryOperator::Eq, Expr::Array(values)) = (op, list)
        && !values.elem.is_empty()
    {
        let (expr, list) = (Box::new(left.clone()), values.elem.clone());
        return Some(Expr::Nested(Box::new(Expr::InList { expr, list, negated: false })));
    }
    let opposite = match op {
        BinaryOperator::Eq => BinaryOperator::NotEq,
        BinaryOperator::NotEq => BinaryOperator::Eq,
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        _ => return None,
    };
    let (left, right) = (Box::new(left.clone()), Box::new(list.clone()));
    let all = Expr::AllOp { left, compare_op: opposite, right };
    let not = Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(all))) };
    Some(Expr::Nested(Box::new(not)))
}

/// Whether it is a value that is no list: a parameter, or what was given for one.
pub(super) fn is_one_value(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_one_value(inner),
        Expr::Cast { expr, data_type, .. } => !matches!(data_type, DataType::Array(_)) && is_one_value(expr),
        Expr::Value(value) => !matches!(value.value, Value::Null),
        _ => false,
    }
}

/// Whether it is a parameter without a value.
pub(super) fn is_open(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_open(inner),
        Expr::Value(value) => matches!(value.value, Value::Placeholder(_)),
        _ => false,
    }
}

/// Whether it is a parameter without a value that is said to be a list of decimals, maybe of other digits than the other side has,
/// which the planner does not compare.
pub(super) fn is_open_decimals(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_open_decimals(inner),
        Expr::Cast { expr, data_type: DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)), .. } => {
            is_open(expr) && matches!(**item, DataType::Numeric(_) | DataType::Decimal(_))
        }
        _ => false,
    }
}

/// The values of a list that is written as PostgreSQL writes arrays, as drivers give them for a parameter: `'{1,NULL,"a b"}'`;
/// `None`: it is something else, or has lists in it.
fn listed(list: &Expr) -> Option<Vec<Option<String>>> {
    let text = match list {
        Expr::Nested(inner) => return listed(inner),
        Expr::Cast { expr, data_type: DataType::Array(_), .. } => return listed(expr),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text,
            _ => return None,
        },
        _ => return None,
    };
    array_values(text)
}

/// The values of such a text.
pub(crate) fn array_values(text: &str) -> Option<Vec<Option<String>>> {
    let mut rest = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
    let mut values = Vec::new();
    while !rest.is_empty() {
        let behind = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (mut value, mut chars) = (String::new(), quoted.chars());
                loop {
                    match chars.next()? {
                        '"' => break,
                        '\\' => value.push(chars.next()?),
                        other => value.push(other),
                    }
                }
                values.push(Some(value));
                chars.as_str().trim_start()
            }
            None => {
                // Default: it is the last.
                let end = rest.find(',').unwrap_or(rest.len());
                let value = rest[..end].trim();
                if value.is_empty() || value.contains(['{', '}', '"', '\\']) {
                    return None;
                }
                values.push((!value.eq_ignore_ascii_case("null")).then(|| value.to_owned()));
                &rest[end..]
            }
        };
        rest = match behind.strip_prefix(',') {
            Some(more) if more.trim().is_empty() => return None,
            Some(more) => more.trim_start(),
            None if behind.is_empty() => behind,
            None => return None,
        };
    }
    Some(values)
}

/// A condition in the place of one on a list that is not given yet: its parameter is a list of values such as the other side.
pub(super) fn of_parameter(left: &Expr, list: &Expr) -> Result<Expr> {
    parsed(&match is_open(left) {
        true => format!("CAST({list} AS TEXT) IS NULL OR ({left}) IS NULL"),
        false => format!("({list}) = make_array({left})"),
    })
}

/// A condition in the place of one on such a list: the parameter is of the type that it is said to be.
pub(super) fn of_decimals(left: &Expr, list: &Expr) -> Result<Expr> {
    parsed(&format!("({list}) IS NULL OR ({left}) IS NULL"))
}

/// A list that is written as PostgreSQL writes arrays, as one of texts; `None`: it is something else.
pub(super) fn array(list: &Expr) -> Option<Expr> {
    let elem = listed(list)?.into_iter().map(text_or_null).collect();
    Some(Expr::Array(Array { elem, named: true }))
}

/// Casts the literal texts of a list of these to one of intervals, each by itself: the planner's cast reads fewer forms.
pub(super) fn cast_intervals(list: &mut Expr, of: &ArrayElemTypeDef, kind: &CastKind) {
    let (Expr::Array(list), ArrayElemTypeDef::SquareBracket(of, _)) = (list, of) else { return };
    let is_null = |value: &Expr| matches!(value, Expr::Value(value) if value.value == Value::Null);
    let is_literal = |value: &Expr| literal(value).is_some() || is_null(value);
    if !matches!(**of, DataType::Interval { .. }) || !list.elem.iter().all(is_literal) {
        return;
    }
    for value in list.elem.iter_mut().filter(|value| !is_null(value)) {
        let (expr, data_type) = (Box::new(value.clone()), (**of).clone());
        *value = Expr::Cast { kind: kind.clone(), expr, data_type, array: false, format: None };
    }
}

fn text_or_null(value: Option<String>) -> Expr {
    Expr::value(value.map_or(Value::Null, Value::SingleQuotedString))
}

/// `= ANY` and `<> ALL` of the text of a list, as a condition on its values; `None`: it is something else.
pub(super) fn of_listed(expr: &Expr) -> Option<Expr> {
    let (left, list, negated) = match expr {
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => (left, right, false),
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => (left, right, true),
        _ => return None,
    };
    Some(in_texts(left, listed(list)?, negated))
}

/// Whether a value is one of those that texts say, or none of them.
fn in_texts(left: &Expr, values: Vec<Option<String>>, negated: bool) -> Expr {
    if values.is_empty() {
        return Expr::value(Value::Boolean(negated));
    }
    let list = values.into_iter().map(text_or_null).collect();
    Expr::Nested(Box::new(Expr::InList { expr: Box::new(left.clone()), list, negated }))
}

/// `left IN (value, (query), ...)`, where the planner takes no queries: whether it is any of them, each compared by itself.
pub(super) fn in_values(left: &Expr, values: &[Expr], negated: bool) -> Expr {
    let (queries, others): (Vec<Expr>, Vec<Expr>) =
        values.iter().cloned().partition(|value| query_of(value).is_some());
    let same = |value: Expr| {
        let (left, right) = (Box::new(left.clone()), Box::new(value));
        Expr::Nested(Box::new(Expr::BinaryOp { left, op: BinaryOperator::Eq, right }))
    };
    let listed = (!others.is_empty()).then(|| {
        let list = Expr::InList { expr: Box::new(left.clone()), list: others, negated: false };
        Expr::Nested(Box::new(list))
    });
    let any = listed.into_iter().chain(queries.into_iter().map(same)).reduce(|any, same| {
        let (left, right) = (Box::new(any), Box::new(same));
        Expr::BinaryOp { left, op: BinaryOperator::Or, right }
    });
    // Default: there are no values.
    let any = Expr::Nested(Box::new(any.unwrap_or_else(|| Expr::value(Value::Boolean(false)))));
    match negated {
        true => Expr::Nested(Box::new(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(any) })),
        false => any,
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
    check_once(query)?;
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
    check_once(query)?;
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

/// Whether a part of an expression, outside of its own subqueries, is such a one.
fn has(expr: &Expr, is_one: impl Fn(&Expr) -> bool) -> bool {
    struct Outside<F> {
        depth: usize,
        is_one: F,
    }

    impl<F: Fn(&Expr) -> bool> Visitor for Outside<F> {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match self.depth == 0 && (self.is_one)(expr) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }

    expr.visit(&mut Outside { depth: 0, is_one }).is_break()
}

fn has_columns(expr: &Expr) -> bool {
    has(expr, |expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)))
}

/// What a subquery is compared by, where that is a condition that may be unknown.
enum Compared<'a> {
    Within(&'a Expr),
    NotWithin(&'a Expr),
    Otherwise,
}

fn compared_by(expr: &Expr) -> Option<Compared<'_>> {
    Some(match expr {
        Expr::InSubquery { expr: left, negated: false, .. } => Compared::Within(left),
        Expr::InSubquery { expr: left, negated: true, .. } => Compared::NotWithin(left),
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } if query_of(right).is_some() => {
            Compared::Within(left)
        }
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } if query_of(right).is_some() => {
            Compared::NotWithin(left)
        }
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } if query_of(right).is_some() => {
            Compared::Otherwise
        }
        _ => return None,
    })
}

/// Puts counts into the places of IN in a condition, where it makes a difference whether it is false or unknown, which the
/// planner passes over: anywhere but in a chain of AND and OR, and of NOT IN anywhere but in one of AND.
pub(super) fn placed(condition: &mut Expr) -> Result<()> {
    placed_in(condition, true)
}

fn placed_in(condition: &mut Expr, is_conjunct: bool) -> Result<()> {
    match condition {
        Expr::Nested(inner) => return placed_in(inner, is_conjunct),
        Expr::BinaryOp { left, op: op @ (BinaryOperator::And | BinaryOperator::Or), right } => {
            let is_conjunct = is_conjunct && *op == BinaryOperator::And;
            placed_in(left, is_conjunct)?;
            return placed_in(right, is_conjunct);
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr: inner } if is_conjunct => {
            let mut inner = &**inner;
            while let Expr::Nested(below) = inner {
                inner = below;
            }
            if matches!(compared_by(inner), Some(Compared::Within(left)) if has_columns(left) && row(left).is_none())
            {
                return Ok(());
            }
        }
        _ => match compared_by(condition) {
            Some(Compared::Within(left)) if has_columns(left) => return Ok(()),
            Some(Compared::NotWithin(left)) if has_columns(left) && is_conjunct => return Ok(()),
            _ => {}
        },
    }
    let is_compared =
        |expr: &Expr| matches!(compared_by(expr), Some(Compared::Within(_) | Compared::NotWithin(_)));
    if !has(condition, is_compared) {
        return Ok(());
    }
    let mut counted = Counted { depth: 0, changed: false, fault: None };
    let _ = VisitMut::visit(condition, &mut counted);
    counted.fault.map_or(Ok(()), Err)
}

/// Refuses a subquery that is asked for several times, and asks others so: each level would multiply them.
fn check_once(query: &Query) -> Result<()> {
    let mut found = false;
    let _ = visit_expressions(query, |expr| {
        found |= matches!(expr, Expr::AnyOp { .. } | Expr::AllOp { .. }) && compared_by(expr).is_some();
        if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    match found {
        true => Err(Error::unsupported(
            "ANY or ALL of a subquery within a subquery that is compared by ANY, ALL or IN",
        )),
        false => Ok(()),
    }
}

/// Puts counts into the places of EXISTS and IN of a select list, where the planner has them not.
pub(crate) fn counted(item: &mut SelectItem) -> Result<bool> {
    let mut counted = Counted { depth: 0, changed: false, fault: None };
    let _ = VisitMut::visit(item, &mut counted);
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
