//! Expressions, conditions and queries as text, for people.

use super::expr::{BoundExpr, Slots, literal_value};
use crate::{
    query::{AggregateFunction, ArithmeticOp, CompareOp, Expr, Filter, Query},
    time_parts::TimeFunction,
};

/// An expression as SQL writes it: the name of an output that has none.
pub fn expr_text(expr: &Expr) -> String {
    match expr {
        Expr::Column(name) => name.clone(),
        Expr::Attribute(attribute) => attribute.to_string(),
        Expr::Literal(literal) => {
            BoundExpr::Literal(literal_value(literal)).display(&Slots::default()).to_string()
        }
        Expr::Arithmetic(op, left, right) => {
            let side = |e: &Expr| match e {
                Expr::Arithmetic(..) => format!("({})", expr_text(e)),
                e => expr_text(e),
            };
            let op = match op {
                ArithmeticOp::Add => '+',
                ArithmeticOp::Subtract => '-',
                ArithmeticOp::Multiply => '*',
                ArithmeticOp::Divide => '/',
            };
            format!("{} {op} {}", side(left), side(right))
        }
        Expr::Time(function, of) => {
            let of = expr_text(of);
            match function {
                TimeFunction::Truncate(unit) => format!("date_trunc('{}', {of})", unit.name()),
                TimeFunction::Part(unit) => format!("extract({} FROM {of})", unit.name()),
                TimeFunction::DayOfWeek => format!("extract(dow FROM {of})"),
                TimeFunction::DayOfYear => format!("extract(doy FROM {of})"),
            }
        }
        Expr::Aggregate(aggregate) => {
            let name = match aggregate.function {
                AggregateFunction::Count => "count",
                AggregateFunction::Sum => "sum",
                AggregateFunction::Min => "min",
                AggregateFunction::Max => "max",
                AggregateFunction::Avg => "avg",
            };
            let distinct = if aggregate.distinct { "DISTINCT " } else { "" };
            match &aggregate.argument {
                Some(argument) => format!("{name}({distinct}{})", expr_text(argument)),
                None => format!("{name}(*)"),
            }
        }
    }
}

/// Values of a list that are shown.
const SHOWN: usize = 5;

/// A condition nearly as SQL writes it: of a long list the first values are shown, and of a set none.
pub fn filter_text(filter: &Filter) -> String {
    let list = |filters: &[Filter], by: &str| {
        filters.iter().map(|filter| format!("({})", filter_text(filter))).collect::<Vec<_>>().join(by)
    };
    match filter {
        Filter::And(filters) => list(filters, " AND "),
        Filter::Or(filters) => list(filters, " OR "),
        Filter::Not(inner) => match &**inner {
            Filter::IsNull(expr) => format!("{} IS NOT NULL", expr_text(expr)),
            inner => format!("NOT ({})", filter_text(inner)),
        },
        Filter::Compare(op, left, right) => {
            let op = match op {
                CompareOp::Eq => "=",
                CompareOp::Ne => "<>",
                CompareOp::Lt => "<",
                CompareOp::Le => "<=",
                CompareOp::Gt => ">",
                CompareOp::Ge => ">=",
            };
            format!("{} {op} {}", expr_text(left), expr_text(right))
        }
        Filter::Between(expr, low, high) => {
            format!("{} BETWEEN {} AND {}", expr_text(expr), expr_text(low), expr_text(high))
        }
        Filter::In(expr, values) => {
            let shown = values.iter().take(SHOWN).map(|literal| expr_text(&Expr::Literal(literal.clone())));
            let shown = shown.collect::<Vec<_>>().join(", ");
            let rest = match values.len() {
                ..=SHOWN => String::new(),
                n => format!(", ... {n} values"),
            };
            format!("{} IN ({shown}{rest})", expr_text(expr))
        }
        Filter::IsNull(expr) => format!("{} IS NULL", expr_text(expr)),
        Filter::Like(expr, pattern) => format!("{} LIKE '{}'", expr_text(expr), pattern.replace('\'', "''")),
        Filter::Constant(constant) => constant.to_string(),
        Filter::SemiJoin(join) => {
            let inner = join.filter.as_ref().map(|inner| format!(" WHERE {}", filter_text(inner)));
            // Default: all its rows.
            format!("{} IN ({}.{}{})", join.column, join.table, join.key, inner.unwrap_or_default())
        }
        Filter::Rows(_) | Filter::Keys(_) | Filter::Texts(_) => "a set".to_owned(),
    }
}

/// A query of a table nearly as SQL writes it.
pub fn query_text(table: &str, query: &Query) -> String {
    let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(", ");
    let select = match query.select.as_slice() {
        [] => "*".to_owned(),
        items => list(&mut items.iter().map(|item| expr_text(&item.expr))),
    };
    let mut text = format!("SELECT {select} FROM {table}");
    let mut clause = |name: &str, of: String| text.extend([" ", name, " ", &of]);
    if let Some(filter) = &query.filter {
        clause("WHERE", filter_text(filter));
    }
    if !query.group_by.is_empty() {
        clause("GROUP BY", list(&mut query.group_by.iter().map(expr_text)));
    }
    if let Some(having) = &query.having {
        clause("HAVING", filter_text(having));
    }
    if !query.order_by.is_empty() {
        let key = |key: &crate::query::OrderBy| {
            format!("{}{}", expr_text(&key.expr), if key.descending { " DESC" } else { "" })
        };
        clause("ORDER BY", list(&mut query.order_by.iter().map(key)));
    }
    if let Some(limit) = query.limit {
        clause("LIMIT", limit.to_string());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::{Literal, OrderBy, SelectItem};

    #[test]
    fn queries_read_like_sql() {
        let column = |name: &str| Expr::Column(name.to_owned());
        let few = Filter::In(column("a"), (1..=3).map(Literal::Int).collect());
        let many = Filter::In(column("b"), (1..=100).map(Literal::Int).collect());
        let query = Query {
            select: vec![SelectItem { expr: column("a"), name: None }],
            filter: Some(Filter::And(vec![few, Filter::Not(Box::new(many)), Filter::IsNull(column("c"))])),
            order_by: vec![OrderBy {
                expr: column("a"),
                descending: true,
                nulls_first: false,
                of_table: false,
            }],
            limit: Some(10),
            ..Query::default()
        };
        assert_eq!(
            query_text("t", &query),
            "SELECT a FROM t WHERE (a IN (1, 2, 3)) AND (NOT (b IN (1, 2, 3, 4, 5, ... 100 values))) AND (c IS NULL) \
             ORDER BY a DESC LIMIT 10"
        );
        assert_eq!(query_text("t", &Query::default()), "SELECT * FROM t");
    }
}
