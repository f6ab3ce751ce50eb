//! Expressions and filters, on their way in.

use std::sync::Arc;

use basalt_core::{
    error::{Error, ErrorKind, Result},
    limits::{MAX_FILTER_DEPTH, MAX_FILTER_NODES, MAX_IN_LIST},
    query::{
        Aggregate, AggregateFunction, ArithmeticOp, CompareOp, Expr, Filter, Literal, RowSet, SipOrigin,
    },
};
use basalt_proto::v1::{self as pb, expr, filter, value};
use basalt_sip::{Limits, Sip};

use crate::limits;

/// Reads the trees of one request and counts their nodes together.
///
/// It goes down one call for each level and stops at the first level that is too deep; prost's own limit of
/// 100 levels has bounded the message before.
#[derive(Debug)]
pub(crate) struct Trees<'a> {
    table: &'a str,
    nodes: usize,
}

impl<'a> Trees<'a> {
    /// For a request about `table`.
    pub(crate) fn new(table: &'a str) -> Self {
        Self { table, nodes: 0 }
    }

    pub(crate) fn filter(&mut self, filter: pb::Filter, depth: usize) -> Result<Filter> {
        self.enter(depth)?;
        let below = depth + 1;
        let kind = filter
            .kind
            .ok_or_else(|| invalid("a filter without a kind, or of a kind that is not known here"))?;
        Ok(match kind {
            filter::Kind::And(and) => Filter::And(self.filters(and.filters, below, "and")?),
            filter::Kind::Or(or) => Filter::Or(self.filters(or.filters, below, "or")?),
            filter::Kind::Not(inner) => {
                Filter::Not(Box::new(self.filter(*inner, below).map_err(|e| e.at("not"))?))
            }
            filter::Kind::Compare(compare) => {
                let at = |e: Error| e.at("compare");
                let op = compare_op(compare.op).map_err(at)?;
                let left = self.needed(compare.left, below, "left").map_err(at)?;
                Filter::Compare(op, left, self.needed(compare.right, below, "right").map_err(at)?)
            }
            filter::Kind::Between(between) => {
                let at = |e: Error| e.at("between");
                let value = self.needed(between.expr, below, "expr").map_err(at)?;
                let low = self.needed(between.low, below, "low").map_err(at)?;
                Filter::Between(value, low, self.needed(between.high, below, "high").map_err(at)?)
            }
            filter::Kind::In(list) => self.list(list, below).map_err(|e| e.at("in"))?,
            filter::Kind::IsNull(inner) => {
                Filter::IsNull(self.expr(inner, below).map_err(|e| e.at("is_null"))?)
            }
            filter::Kind::Like(like) => {
                Filter::Like(self.needed(like.expr, below, "expr").map_err(|e| e.at("like"))?, like.pattern)
            }
            filter::Kind::Rows(rows) => Filter::Rows(row_set(rows).map_err(|e| e.at("rows"))?),
            filter::Kind::RowAddresses(rows) => Filter::Rows(RowSet {
                table: self.table.to_owned(),
                version: rows.version,
                sip: Arc::new(Sip::from_sorted_ids(&rows.addresses)),
                origin: SipOrigin::Request,
            }),
            filter::Kind::Constant(value) => Filter::Constant(value),
        })
    }

    fn filters(&mut self, filters: Vec<pb::Filter>, depth: usize, name: &str) -> Result<Vec<Filter>> {
        let mut out = Vec::with_capacity(filters.len().min(MAX_FILTER_NODES));
        for (i, filter) in filters.into_iter().enumerate() {
            out.push(self.filter(filter, depth).map_err(|e| e.at(format!("{name}[{i}]")))?);
        }
        Ok(out)
    }

    fn list(&mut self, list: pb::In, depth: usize) -> Result<Filter> {
        if list.values.len() > MAX_IN_LIST {
            let message = format!("{} values in a list; the limit is {MAX_IN_LIST}", list.values.len());
            return Err(Error::new(ErrorKind::FilterTooLarge, message).at("values"));
        }
        let value = self.needed(list.expr, depth, "expr")?;
        let mut values = Vec::with_capacity(list.values.len());
        for (i, value) in list.values.into_iter().enumerate() {
            values.push(literal(value).map_err(|e| e.at(format!("values[{i}]")))?);
        }
        Ok(Filter::In(value, values))
    }

    /// An expression that a message must have.
    pub(crate) fn needed(&mut self, expr: Option<pb::Expr>, depth: usize, name: &str) -> Result<Expr> {
        let expr = expr.ok_or_else(|| invalid("an expression is missing").at(name))?;
        self.expr(expr, depth).map_err(|e| e.at(name))
    }

    pub(crate) fn expr(&mut self, expr: pb::Expr, depth: usize) -> Result<Expr> {
        self.enter(depth)?;
        let below = depth + 1;
        let kind = expr
            .kind
            .ok_or_else(|| invalid("an expression without a kind, or of a kind that is not known here"))?;
        Ok(match kind {
            expr::Kind::Column(name) => Expr::Column(name),
            expr::Kind::Literal(value) => Expr::Literal(literal(value).map_err(|e| e.at("literal"))?),
            expr::Kind::Arithmetic(arithmetic) => {
                let at = |e: Error| e.at("arithmetic");
                let op = arithmetic_op(arithmetic.op).map_err(at)?;
                let left = self.needed(arithmetic.left.map(|e| *e), below, "left").map_err(at)?;
                let right = self.needed(arithmetic.right.map(|e| *e), below, "right").map_err(at)?;
                Expr::Arithmetic(op, Box::new(left), Box::new(right))
            }
            expr::Kind::Aggregate(aggregate) => {
                let at = |e: Error| e.at("aggregate");
                let function = aggregate_function(aggregate.function).map_err(at)?;
                let argument = match aggregate.argument {
                    Some(argument) => Some(self.needed(Some(*argument), below, "argument").map_err(at)?),
                    None => None,
                };
                Expr::Aggregate(Box::new(Aggregate { function, argument, distinct: aggregate.distinct }))
            }
        })
    }

    fn enter(&mut self, depth: usize) -> Result<()> {
        self.nodes += 1;
        if depth > MAX_FILTER_DEPTH {
            let message = format!("deeper than {MAX_FILTER_DEPTH} levels");
            return Err(Error::new(ErrorKind::FilterTooDeep, message));
        }
        if self.nodes > MAX_FILTER_NODES {
            let message = format!("filters and expressions of more than {MAX_FILTER_NODES} nodes");
            return Err(Error::new(ErrorKind::FilterTooLarge, message));
        }
        Ok(())
    }
}

fn literal(value: pb::Value) -> Result<Literal> {
    Ok(
        match value
            .kind
            .ok_or_else(|| invalid("a value without a kind, or of a kind that is not known here"))?
        {
            value::Kind::Null(_) => Literal::Null,
            value::Kind::Bool(value) => Literal::Bool(value),
            value::Kind::Int(value) => Literal::Int(value),
            value::Kind::Uint(value) => Literal::UInt(value),
            value::Kind::Double(value) => Literal::Float(value),
            value::Kind::Decimal(pb::Decimal { unscaled, scale }) => match u8::try_from(scale) {
                Ok(scale @ 0..=38) => Literal::Decimal { unscaled, scale },
                _ => {
                    return Err(
                        invalid(format!("a decimal of scale {scale}; the limit is 38")).at("decimal.scale")
                    );
                }
            },
            value::Kind::Text(value) => Literal::Text(value),
            value::Kind::Date(value) => Literal::Date(value),
            value::Kind::Timestamp(value) => Literal::Timestamp(value),
        },
    )
}

fn row_set(rows: pb::RowSet) -> Result<RowSet> {
    let scope = rows.scope.ok_or_else(|| invalid("a SIP without its scope").at("scope"))?;
    // The message limit has bounded the bytes; the ids that they stand for are bounded here.
    let limits = Limits { body_bytes: limits::MESSAGE_BYTES, ..Limits::default() };
    let sip = Sip::from_bytes(rows.sip, &limits)
        .map_err(|e| Error::new(ErrorKind::InvalidSip, e.to_string()).at("sip"))?;
    Ok(RowSet {
        table: scope.table,
        version: scope.version,
        sip: Arc::new(sip),
        origin: SipOrigin::Request,
    })
}

fn compare_op(op: i32) -> Result<CompareOp> {
    Ok(match pb::CompareOp::try_from(op) {
        Ok(pb::CompareOp::Eq) => CompareOp::Eq,
        Ok(pb::CompareOp::Ne) => CompareOp::Ne,
        Ok(pb::CompareOp::Lt) => CompareOp::Lt,
        Ok(pb::CompareOp::Le) => CompareOp::Le,
        Ok(pb::CompareOp::Gt) => CompareOp::Gt,
        Ok(pb::CompareOp::Ge) => CompareOp::Ge,
        Ok(pb::CompareOp::Unspecified) | Err(_) => return Err(unknown(op, "comparison", "op")),
    })
}

fn arithmetic_op(op: i32) -> Result<ArithmeticOp> {
    Ok(match pb::ArithmeticOp::try_from(op) {
        Ok(pb::ArithmeticOp::Add) => ArithmeticOp::Add,
        Ok(pb::ArithmeticOp::Subtract) => ArithmeticOp::Subtract,
        Ok(pb::ArithmeticOp::Multiply) => ArithmeticOp::Multiply,
        Ok(pb::ArithmeticOp::Divide) => ArithmeticOp::Divide,
        Ok(pb::ArithmeticOp::Unspecified) | Err(_) => return Err(unknown(op, "operation", "op")),
    })
}

fn aggregate_function(function: i32) -> Result<AggregateFunction> {
    Ok(match pb::AggregateFunction::try_from(function) {
        Ok(pb::AggregateFunction::Count) => AggregateFunction::Count,
        Ok(pb::AggregateFunction::Sum) => AggregateFunction::Sum,
        Ok(pb::AggregateFunction::Min) => AggregateFunction::Min,
        Ok(pb::AggregateFunction::Max) => AggregateFunction::Max,
        Ok(pb::AggregateFunction::Avg) => AggregateFunction::Avg,
        Ok(pb::AggregateFunction::Unspecified) | Err(_) => {
            return Err(unknown(function, "function", "function"));
        }
    })
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidQuery, message)
}

fn unknown(number: i32, what: &str, place: &str) -> Error {
    invalid(format!("{number} is no {what}")).at(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: filter::Kind) -> pb::Filter {
        pb::Filter { kind: Some(kind) }
    }

    fn column(name: &str) -> pb::Expr {
        pb::Expr { kind: Some(expr::Kind::Column(name.into())) }
    }

    fn read(filter: pb::Filter) -> Result<Filter> {
        Trees::new("t").filter(filter, 1).map_err(|e| e.at("filter"))
    }

    fn check(filter: pb::Filter, kind: ErrorKind, place: &str) {
        let error = read(filter).unwrap_err();
        assert_eq!((error.kind(), error.place()), (kind, Some(place)), "{error}");
    }

    #[test]
    fn errors_name_their_place() {
        let compare =
            |op: i32, right| of(filter::Kind::Compare(pb::Compare { op, left: Some(column("a")), right }));
        let and = |filters| of(filter::Kind::And(pb::And { filters }));
        let fine = compare(1, Some(column("b")));
        check(
            and(vec![fine.clone(), compare(1, None)]),
            ErrorKind::InvalidQuery,
            "filter.and[1].compare.right",
        );
        check(compare(0, Some(column("b"))), ErrorKind::InvalidQuery, "filter.compare.op");
        check(compare(99, Some(column("b"))), ErrorKind::InvalidQuery, "filter.compare.op");
        check(pb::Filter::default(), ErrorKind::InvalidQuery, "filter");

        let decimal = value::Kind::Decimal(pb::Decimal { unscaled: 1, scale: 39 });
        let values =
            vec![pb::Value { kind: Some(value::Kind::Null(true)) }, pb::Value { kind: Some(decimal) }];
        let list = of(filter::Kind::In(pb::In { expr: Some(column("a")), values }));
        check(
            of(filter::Kind::Not(Box::new(list))),
            ErrorKind::InvalidQuery,
            "filter.not.in.values[1].decimal.scale",
        );

        let rows = |scope, sip: &'static [u8]| of(filter::Kind::Rows(pb::RowSet { scope, sip: sip.into() }));
        check(rows(None, &[0]), ErrorKind::InvalidQuery, "filter.rows.scope");
        check(rows(Some(pb::Scope::default()), &[0xee]), ErrorKind::InvalidSip, "filter.rows.sip");
        assert_eq!(
            read(fine),
            Ok(Filter::Compare(CompareOp::Eq, Expr::Column("a".into()), Expr::Column("b".into())))
        );
    }

    #[test]
    fn depth_and_size_are_limited() {
        let nested = |depth| {
            (1..depth)
                .fold(of(filter::Kind::Constant(true)), |inner, _| of(filter::Kind::Not(Box::new(inner))))
        };
        assert!(read(nested(MAX_FILTER_DEPTH)).is_ok());
        assert_eq!(read(nested(MAX_FILTER_DEPTH + 1)).unwrap_err().kind(), ErrorKind::FilterTooDeep);

        let wide = |n| of(filter::Kind::Or(pb::Or { filters: vec![of(filter::Kind::Constant(true)); n] }));
        assert!(read(wide(MAX_FILTER_NODES - 1)).is_ok());
        assert_eq!(read(wide(MAX_FILTER_NODES)).unwrap_err().kind(), ErrorKind::FilterTooLarge);

        let values = vec![pb::Value { kind: Some(value::Kind::Int(1)) }; MAX_IN_LIST + 1];
        let list = of(filter::Kind::In(pb::In { expr: Some(column("a")), values }));
        check(list, ErrorKind::FilterTooLarge, "filter.in.values");
    }

    #[test]
    fn row_addresses_become_a_set_of_the_table() {
        let addresses = pb::RowAddresses { version: 4, addresses: vec![9, 3, 9] };
        let Ok(Filter::Rows(rows)) = read(of(filter::Kind::RowAddresses(addresses))) else {
            panic!("a row set")
        };
        assert_eq!((rows.table.as_str(), rows.version), ("t", 4));
        assert_eq!(rows.sip.iter().collect::<Vec<_>>(), [3, 9]);
    }
}
