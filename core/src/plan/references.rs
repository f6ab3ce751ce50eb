//! Filters on attributes become semi-joins: `lo_suppkey.s_region = 'ASIA'` is
//! `lo_suppkey IN (SELECT s_suppkey FROM supplier WHERE s_region = 'ASIA')`, so that it is a set, prunes blocks, and
//! reads no attribute for any row.
//!
//! That holds where the condition is not negated: an attribute is null where no row has the key, so the condition is
//! null there, while `IN` is false. Negation is therefore pushed into the inner filter, by De Morgan's laws. Conditions
//! on attributes of one column are one semi-join, for a key stands in one row.

use crate::{
    error::{Error, ErrorKind, Result},
    limits::MAX_FILTER_DEPTH,
    query::{Expr, Filter, SemiJoin},
    schema::{Reference, Schema},
    table::{Table, no_column},
};

/// What a column of a table refers to.
///
/// # Errors
/// [`ErrorKind::ColumnNotFound`]; [`ErrorKind::InvalidQuery`] when it refers to nothing.
pub(crate) fn reference<'a>(table: &'a Table, column: &str) -> Result<&'a Reference> {
    let mut fields = table.schema().fields().iter();
    let field = fields.find(|field| field.name == column).ok_or_else(|| no_column(table, column))?;
    field.references.as_ref().ok_or_else(|| {
        let message = format!("column {column:?} of table {:?} refers to no other table", table.name());
        Error::new(ErrorKind::InvalidQuery, message)
    })
}

/// Makes semi-joins of the conditions on attributes that can be; the columns of all attributes have references.
pub(crate) fn semi_joins(filter: &mut Filter, schema: &Schema) {
    let mut any = false;
    let _ = filter.attributes::<()>(&mut |_| {
        any = true;
        Ok(())
    });
    if any {
        let whole = std::mem::replace(filter, Filter::Constant(true));
        *filter = rewritten(whole, false, schema, 0);
    }
}

fn rewritten(filter: Filter, negated: bool, schema: &Schema, depth: usize) -> Filter {
    let not = |filter: Filter| if negated { Filter::Not(Box::new(filter)) } else { filter };
    // Too deep: binding says so.
    if depth > MAX_FILTER_DEPTH {
        return not(filter);
    }
    match filter {
        Filter::Not(inner) => rewritten(*inner, !negated, schema, depth + 1),
        filter if let Some(column) = about(&filter, 0).map(str::to_owned) => {
            semi_join(&column, not(filter), schema)
        }
        Filter::And(filters) => {
            let filters = combined(filters, Filter::And, negated, schema, depth);
            if negated { Filter::Or(filters) } else { Filter::And(filters) }
        }
        Filter::Or(filters) => {
            let filters = combined(filters, Filter::Or, negated, schema, depth);
            if negated { Filter::And(filters) } else { Filter::Or(filters) }
        }
        filter => not(filter),
    }
}

/// The parts of a list, those about one column together.
fn combined(
    filters: Vec<Filter>,
    list: fn(Vec<Filter>) -> Filter,
    negated: bool,
    schema: &Schema,
    depth: usize,
) -> Vec<Filter> {
    let mut parts: Vec<(Option<String>, Vec<Filter>)> = Vec::new();
    for filter in filters {
        let column = about(&filter, 0).map(str::to_owned);
        match parts.iter_mut().find(|(known, _)| column.is_some() && *known == column) {
            Some((_, part)) => part.push(filter),
            None => parts.push((column, vec![filter])),
        }
    }
    let one = |mut part: Vec<Filter>| if part.len() == 1 { part.remove(0) } else { list(part) };
    parts.into_iter().map(|(_, part)| rewritten(one(part), negated, schema, depth + 1)).collect()
}

fn semi_join(column: &str, mut filter: Filter, schema: &Schema) -> Filter {
    let Some(reference) = schema.index_of(column).and_then(|i| schema.fields()[i].references.as_ref()) else {
        return filter;
    };
    inner(&mut filter);
    Filter::SemiJoin(Box::new(SemiJoin {
        column: column.to_owned(),
        table: reference.table.clone(),
        key: reference.column.clone(),
        filter: Some(filter),
        version: None,
    }))
}

/// The column whose attributes a filter compares with literals, or with each other, if it does nothing else: it is
/// then null where they are all null.
fn about(filter: &Filter, depth: usize) -> Option<&str> {
    fn attribute(expr: &Expr) -> Option<&str> {
        if let Expr::Attribute(attribute) = expr { Some(&attribute.column) } else { None }
    }
    if depth > MAX_FILTER_DEPTH {
        return None;
    }
    let is_literal = |expr: &Expr| matches!(expr, Expr::Literal(_));
    match filter {
        Filter::And(filters) | Filter::Or(filters) => {
            let (first, rest) = filters.split_first()?;
            let column = about(first, depth + 1)?;
            rest.iter().all(|filter| about(filter, depth + 1) == Some(column)).then_some(column)
        }
        Filter::Not(inner) => about(inner, depth + 1),
        Filter::Compare(_, left, right) => match (attribute(left), attribute(right)) {
            (Some(left), Some(right)) => (left == right).then_some(left),
            (Some(column), None) => is_literal(right).then_some(column),
            (None, Some(column)) => is_literal(left).then_some(column),
            (None, None) => None,
        },
        Filter::Between(expr, low, high) => attribute(expr).filter(|_| is_literal(low) && is_literal(high)),
        // Of no values it is false, not null.
        Filter::In(expr, values) => attribute(expr).filter(|_| !values.is_empty()),
        Filter::Like(expr, _) => attribute(expr),
        _ => None,
    }
}

/// The same filter, as the table with the attributes sees it.
fn inner(filter: &mut Filter) {
    let own = |expr: &mut Expr| {
        if let Expr::Attribute(attribute) = expr {
            *expr = Expr::Column(std::mem::take(&mut attribute.name));
        }
    };
    match filter {
        Filter::And(filters) | Filter::Or(filters) => filters.iter_mut().for_each(inner),
        Filter::Not(filter) => inner(filter),
        Filter::Compare(_, left, right) => [left, right].into_iter().for_each(own),
        Filter::Between(expr, ..) | Filter::In(expr, _) | Filter::Like(expr, _) => own(expr),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        query::{Attribute, CompareOp, Literal},
        schema::{DataType, Field},
    };

    fn attribute(column: &str, name: &str) -> Expr {
        Expr::Attribute(Attribute { column: column.to_owned(), name: name.to_owned(), lookup: None })
    }

    fn is(left: Expr, value: i64) -> Filter {
        Filter::Compare(CompareOp::Eq, left, Expr::Literal(Literal::Int(value)))
    }

    fn not(filter: Filter) -> Filter {
        Filter::Not(Box::new(filter))
    }

    fn check(mut filter: Filter, expected: Filter) {
        let field = |name: &str| Field {
            references: Some(Reference { table: format!("t{name}"), column: "k".to_owned() }),
            ..Field::new(name, DataType::Int64, true)
        };
        semi_joins(&mut filter, &Schema::new(vec![field("a"), field("b")]).unwrap());
        assert_eq!(filter, expected);
    }

    #[test]
    fn conditions_on_one_column_are_one_semi_join() {
        let column = |name: &str| Expr::Column(name.to_owned());
        let join = |name: &str, filter| {
            let (column, table) = (name.to_owned(), format!("t{name}"));
            let (key, filter) = ("k".to_owned(), Some(filter));
            Filter::SemiJoin(Box::new(SemiJoin { column, table, key, filter, version: None }))
        };
        let (ax, ay, bx) =
            (|| is(attribute("a", "x"), 1), || is(attribute("a", "y"), 2), || is(attribute("b", "x"), 3));
        let (x, y) = (|value| is(column("x"), value), |value| is(column("y"), value));

        check(ax(), join("a", x(1)));
        check(is(column("a"), 1), is(column("a"), 1));
        check(
            Filter::And(vec![ax(), bx(), ay()]),
            Filter::And(vec![join("a", Filter::And(vec![x(1), y(2)])), join("b", x(3))]),
        );
        // Null where a has no row: NOT IN would be true.
        check(not(ax()), join("a", not(x(1))));
        check(
            not(Filter::And(vec![ax(), not(bx())])),
            Filter::Or(vec![join("a", not(x(1))), join("b", x(3))]),
        );
        // True where a has no row.
        let is_null = || Filter::IsNull(attribute("a", "x"));
        check(is_null(), is_null());
        check(Filter::Or(vec![is_null(), ay()]), Filter::Or(vec![is_null(), join("a", y(2))]));
        let in_none = Filter::In(attribute("a", "x"), Vec::new());
        check(not(in_none.clone()), not(in_none));
        let other = Filter::Compare(CompareOp::Lt, attribute("a", "x"), column("b"));
        check(not(other.clone()), not(other));
    }
}
