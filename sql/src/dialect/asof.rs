//! `ASOF JOIN`: each row of the left side with the nearest one of the right, as a join with the first row of what its
//! condition leaves, in the order of its inequality.

use datafusion::sql::sqlparser::{
    ast::{
        self, BinaryOperator, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, Select, SetExpr, TableAlias,
        TableFactor, Value, visit_expressions,
    },
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};
use std::ops::ControlFlow;

use crate::{
    error::{Error, Result},
    parse,
};

/// Writes ASOF as the parser's word for a join of another kind, which is refused where it was written.
pub(super) fn marked(tokens: &mut [TokenWithSpan]) -> Result<()> {
    let joins = [Keyword::JOIN, Keyword::LEFT, Keyword::INNER, Keyword::SEMI, Keyword::ANTI, Keyword::RIGHT, Keyword::FULL];
    let keyword = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    };
    for at in 1..tokens.len() {
        if !joins.contains(&keyword(&tokens[at])) {
            continue;
        }
        let before = &mut tokens[at - 1];
        match keyword(before) {
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
        return Err(Error::unsupported("ASOF JOIN with USING or NATURAL (with ON it is)"));
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
        TableFactor::Table { name: ObjectName(parts), alias: None, args: None, .. } => parts.last()?.as_ident().cloned(),
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
        let nearest = match (reads(left, right), reads(other, right)) {
            (false, true) => ((**other).clone(), descends),
            (true, false) => ((**left).clone(), !descends),
            _ => {
                let what = format!("ASOF JOIN: the inequality compares no column of {right} by its name with others");
                return Err(Error::invalid(what));
            }
        };
        if found.replace(nearest).is_some() {
            return Err(Error::invalid("ASOF JOIN takes one inequality"));
        }
    }
    found.ok_or_else(|| Error::invalid("ASOF JOIN takes an inequality"))
}

/// Whether an expression names a table.
fn reads(expr: &Expr, table: &Ident) -> bool {
    visit_expressions(expr, |expr| match expr {
        Expr::CompoundIdentifier(parts)
            if parts.len() > 1 && parts.first().is_some_and(|part| part.value == table.value) =>
        {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// A subquery of the first rows that DISTINCT ON leaves is in the order of ORDER BY, whatever that is.
pub(super) fn distinct_on(query: &mut ast::Query) -> Result<()> {
    let keys = match query.order_by.as_ref().map(|order| &order.kind) {
        Some(ast::OrderByKind::Expressions(keys)) => keys.clone(),
        _ => return Ok(()),
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
            Some(ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }) => expr.clone(),
            _ => expr.clone(),
        }
    };
    let on: Vec<Expr> = on.iter().map(meant).collect();
    let first = keys.len().min(on.len());
    let fits = keys[..first].iter().all(|key| on.contains(&meant(&key.expr))) && keys.len() >= on.len();
    if fits || select.qualify.is_some() {
        return Ok(());
    }
    let has_star = |expr: &Expr| matches!(expr, Expr::Identifier(name) if name.value.eq_ignore_ascii_case("all"));
    if keys.iter().any(|key| has_star(&key.expr)) {
        return Ok(());
    }
    let ordered: Vec<String> =
        keys.iter().map(|key| ast::OrderByExpr { expr: meant(&key.expr), ..key.clone() }.to_string()).collect();
    let parted: Vec<String> = on.iter().map(ToString::to_string).collect();
    let text = format!(
        "row_number() OVER (PARTITION BY {} ORDER BY {}) = 1",
        parted.join(", "),
        ordered.join(", ")
    );
    let condition = parse::ast_parser(&text).and_then(|mut parser| parser.parse_expr().ok());
    select.qualify = Some(condition.ok_or_else(|| Error::unsupported("DISTINCT ON of these expressions"))?);
    select.distinct = None;
    Ok(())
}
