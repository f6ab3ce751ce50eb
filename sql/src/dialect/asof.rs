//! `ASOF JOIN`: each row of the left side with the nearest one of the right, as a join with the first row of what its
//! condition leaves, in the order of its inequality.

use datafusion::sql::sqlparser::{
    ast::{
        BinaryOperator, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, Select, SetExpr,
        TableAlias, TableFactor, Value, visit_expressions,
    },
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};
use std::ops::ControlFlow;

use super::words::keyword;
use crate::{
    error::{Error, Result},
    parse,
};

/// Writes ASOF as the parser's word for a join of another kind, which is refused where it was written.
pub(super) fn marked(tokens: &mut [TokenWithSpan]) -> Result<()> {
    let joins = [
        Keyword::JOIN,
        Keyword::LEFT,
        Keyword::INNER,
        Keyword::SEMI,
        Keyword::ANTI,
        Keyword::RIGHT,
        Keyword::FULL,
    ];
    for at in 1..tokens.len() {
        if !joins.contains(&keyword(&tokens[at].token)) {
            continue;
        }
        let before = &mut tokens[at - 1];
        match keyword(&before.token) {
            Keyword::GLOBAL => {
                let place = before.span.start;
                return Err(Error::unsupported("GLOBAL JOIN").at(place.line, place.column));
            }
            Keyword::ASOF => before.token = Token::make_keyword("GLOBAL"),
            _ => {}
        }
    }
    Ok(())
}

/// Joins that are marked, in the planner's words.
pub(super) fn join(join: &mut Join) -> Result<()> {
    if !std::mem::take(&mut join.global) {
        return Ok(());
    }
    let (constraint, is_left) = match &join.join_operator {
        JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (constraint, false),
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (constraint, true),
        // Whether there is a nearest row is whether there is one.
        JoinOperator::Semi(JoinConstraint::On(condition))
        | JoinOperator::Anti(JoinConstraint::On(condition))
        | JoinOperator::LeftSemi(JoinConstraint::On(condition))
        | JoinOperator::LeftAnti(JoinConstraint::On(condition)) => {
            let Some(name) = name(&join.relation) else { return Err(nameless()) };
            return order(condition, &name).map(drop);
        }
        _ => return Err(Error::unsupported("this kind of ASOF JOIN (inner, left, semi and anti are)")),
    };
    let JoinConstraint::On(condition) = constraint else {
        return Err(Error::unsupported("NATURAL ASOF JOIN (with ON or USING it is)"));
    };
    let Some(name) = name(&join.relation) else { return Err(nameless()) };
    let (nearest, descending) = order(condition, &name)?;
    let direction = if descending { "DESC" } else { "ASC" };
    let text = format!("SELECT * FROM t WHERE {condition} ORDER BY {nearest} {direction} LIMIT 1");
    let query = parse::ast_parser(&text).and_then(|mut parser| parser.parse_query().ok());
    let mut query = query.ok_or_else(|| Error::unsupported("this condition of an ASOF JOIN"))?;
    let of = TableFactor::Derived { lateral: false, subquery: query.clone(), alias: None, sample: None };
    let relation = std::mem::replace(&mut join.relation, of);
    let SetExpr::Select(select) = &mut *query.body else { return Err(nameless()) };
    put(select, relation);
    let alias = TableAlias { explicit: true, name, columns: Vec::new(), at: None };
    join.relation = TableFactor::Derived { lateral: true, subquery: query, alias: Some(alias), sample: None };
    let always = JoinConstraint::On(Expr::value(Value::Boolean(true)));
    join.join_operator = if is_left { JoinOperator::Left(always) } else { JoinOperator::Inner(always) };
    Ok(())
}

fn put(select: &mut Select, relation: TableFactor) {
    if let Some(from) = select.from.first_mut() {
        from.relation = relation;
    }
}

fn nameless() -> Error {
    Error::unsupported("ASOF JOIN with what has no name")
}

/// What a table is called.
fn name(relation: &TableFactor) -> Option<Ident> {
    match relation {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(alias.name.clone())
        }
        TableFactor::Table { name: ObjectName(parts), alias: None, args: None, .. } => {
            parts.last()?.as_ident().cloned()
        }
        _ => None,
    }
}

/// By what the rows of the right side are ordered, the nearest first, and whether from the greatest on.
fn order(condition: &Expr, right: &Ident) -> Result<(Expr, bool)> {
    let mut found = None;
    let mut conditions = vec![condition];
    while let Some(condition) = conditions.pop() {
        let (left, op, other) = match condition {
            Expr::Nested(inner) => {
                conditions.push(inner);
                continue;
            }
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                conditions.extend([&**left, &**right]);
                continue;
            }
            Expr::BinaryOp { left, op, right } => (left, op, right),
            _ => continue,
        };
        let descends = match op {
            BinaryOperator::GtEq | BinaryOperator::Gt => true,
            BinaryOperator::LtEq | BinaryOperator::Lt => false,
            _ => continue,
        };
        // What compares something else is one more condition.
        let nearest = match (side(left, right), side(other, right)) {
            (Side::Others, Side::Right) => ((**other).clone(), descends),
            (Side::Right, Side::Others) => ((**left).clone(), !descends),
            _ => continue,
        };
        if found.replace(nearest).is_some() {
            return Err(Error::invalid("ASOF JOIN takes one inequality"));
        }
    }
    found.ok_or_else(|| Error::invalid("ASOF JOIN takes an inequality"))
}

/// Whose columns an expression reads.
#[derive(Debug, PartialEq, Eq)]
enum Side {
    Right,
    Others,
    Both,
    None,
}

fn side(expr: &Expr, table: &Ident) -> Side {
    let (mut right, mut others) = (false, false);
    let _ = visit_expressions(expr, |expr| {
        match expr {
            Expr::CompoundIdentifier(parts)
                if parts.first().is_some_and(|part| part.value == table.value) =>
            {
                right = true;
            }
            Expr::CompoundIdentifier(_) | Expr::Identifier(_) => others = true,
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    match (right, others) {
        (true, false) => Side::Right,
        (false, true) => Side::Others,
        (true, true) => Side::Both,
        (false, false) => Side::None,
    }
}
