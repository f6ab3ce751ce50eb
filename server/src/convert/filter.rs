//! Expressions and filters, on their way in.

use std::sync::Arc;

use basalt_core::{
    limits::{MAX_FILTER_DEPTH, MAX_FILTER_NODES, MAX_IN_LIST},
    query::{
        Aggregate, AggregateFunction, ArithmeticOp, Attribute, CompareOp, Expr, Filter, Literal, RowSet,
        SemiJoin, SipOrigin,
    },
    time_parts::{TimeFunction, Unit},
};
use basalt_proto::v1::{self as pb, ErrorReason, expr, filter, value};
use basalt_sip::Sip;

use super::sets::{key_set, row_set};
use crate::{
    sets::Sets,
    status::{RequestError, Result},
};

/// Reads the trees of one request and counts their nodes together.
///
/// It goes down one call for each level and stops at the first level that is too deep; prost's own limit of
/// 100 levels has bounded the message before.
#[derive(Debug)]
pub(crate) struct Trees<'a> {
    table: &'a str,
    sets: &'a Sets,
    nodes: usize,
    /// Whether more may be asked for than the request holds: a kept set, or another table.
    outside: bool,
}

impl<'a> Trees<'a> {
    /// For a request about `table`, whose filters may name kept sets.
    pub(crate) fn new(table: &'a str, sets: &'a Sets) -> Self {
        Self { table, sets, nodes: 0, outside: false }
    }

    /// Whether kept sets, semi-joins or attributes were among what was read.
    pub(crate) fn outside(&self) -> bool {
        self.outside
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
                let at = |e: RequestError| e.at("compare");
                let op = compare_op(compare.op).map_err(at)?;
                let left = self.needed(compare.left, below, "left").map_err(at)?;
                Filter::Compare(op, left, self.needed(compare.right, below, "right").map_err(at)?)
            }
            filter::Kind::Between(between) => {
                let at = |e: RequestError| e.at("between");
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
            filter::Kind::Rows(rows) => {
                let rows = row_set(rows, self.sets).map_err(|e| e.at("rows"))?;
                self.outside |= rows.origin == SipOrigin::Handle;
                Filter::Rows(rows)
            }
            filter::Kind::Keys(keys) => {
                let keys = key_set(keys, self.sets).map_err(|e| e.at("keys"))?;
                self.outside |= keys.set.origin == SipOrigin::Handle;
                Filter::Keys(keys)
            }
            filter::Kind::SemiJoin(join) => {
                Filter::SemiJoin(Box::new(self.semi_join(*join, below).map_err(|e| e.at("semi_join"))?))
            }
            filter::Kind::RowAddresses(rows) => Filter::Rows(RowSet {
                table: self.table.to_owned(),
                version: rows.version,
                table_id: None,
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

    fn semi_join(&mut self, join: pb::SemiJoin, depth: usize) -> Result<SemiJoin> {
        let mut inner = Trees { table: &join.table, ..*self };
        let filter = join.filter.map(|f| inner.filter(*f, depth)).transpose().map_err(|e| e.at("filter"))?;
        (self.nodes, self.outside) = (inner.nodes, true);
        let pb::SemiJoin { column, table, key, version, .. } = join;
        Ok(SemiJoin { column, table, key, filter, version })
    }

    fn list(&mut self, list: pb::In, depth: usize) -> Result<Filter> {
        if list.values.len() > MAX_IN_LIST {
            let message = format!("{} values in a list; the limit is {MAX_IN_LIST}", list.values.len());
            return Err(RequestError::new(ErrorReason::FilterTooLarge, message).at("values"));
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
            expr::Kind::Attribute(pb::Attribute { column, attribute }) => {
                self.outside = true;
                Expr::Attribute(Attribute { column, name: attribute, lookup: None })
            }
            expr::Kind::Literal(value) => Expr::Literal(literal(value).map_err(|e| e.at("literal"))?),
            expr::Kind::Arithmetic(arithmetic) => {
                let at = |e: RequestError| e.at("arithmetic");
                let op = arithmetic_op(arithmetic.op).map_err(at)?;
                let left = self.needed(arithmetic.left.map(|e| *e), below, "left").map_err(at)?;
                let right = self.needed(arithmetic.right.map(|e| *e), below, "right").map_err(at)?;
                Expr::Arithmetic(op, Box::new(left), Box::new(right))
            }
            expr::Kind::Time(time) => {
                let at = |e: RequestError| e.at("time");
                let function = time_function(&time).map_err(at)?;
                let of = self.needed(time.of.map(|e| *e), below, "of").map_err(at)?;
                Expr::Time(function, Box::new(of))
            }
            expr::Kind::Aggregate(aggregate) => {
                let at = |e: RequestError| e.at("aggregate");
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
            return Err(RequestError::new(ErrorReason::FilterTooDeep, message));
        }
        if self.nodes > MAX_FILTER_NODES {
            let message = format!("filters and expressions of more than {MAX_FILTER_NODES} nodes");
            return Err(RequestError::new(ErrorReason::FilterTooLarge, message));
        }
        Ok(())
    }
}

/// The parameters of a statement.
#[cfg(feature = "sql")]
pub(crate) fn parameters(values: Vec<pb::Value>) -> Result<Vec<Literal>> {
    let each = values.into_iter().enumerate();
    each.map(|(i, value)| literal(value).map_err(|error| error.at(format!("parameters[{i}]")))).collect()
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
                Ok(scale @ 0..=38) => Literal::Decimal { unscaled: unscaled.into(), scale },
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

fn time_function(time: &pb::Time) -> Result<TimeFunction> {
    let unit = || {
        Ok(match pb::TimeUnit::try_from(time.unit) {
            Ok(pb::TimeUnit::Second) => Unit::Second,
            Ok(pb::TimeUnit::Minute) => Unit::Minute,
            Ok(pb::TimeUnit::Hour) => Unit::Hour,
            Ok(pb::TimeUnit::Day) => Unit::Day,
            Ok(pb::TimeUnit::Week) => Unit::Week,
            Ok(pb::TimeUnit::Month) => Unit::Month,
            Ok(pb::TimeUnit::Quarter) => Unit::Quarter,
            Ok(pb::TimeUnit::Year) => Unit::Year,
            Ok(pb::TimeUnit::Unspecified) | Err(_) => return Err(unknown(time.unit, "unit", "unit")),
        })
    };
    Ok(match pb::TimeFunction::try_from(time.function) {
        Ok(pb::TimeFunction::Truncate) => TimeFunction::Truncate(unit()?),
        Ok(pb::TimeFunction::Part) => TimeFunction::Part(unit()?),
        Ok(pb::TimeFunction::DayOfWeek) => TimeFunction::DayOfWeek,
        Ok(pb::TimeFunction::DayOfYear) => TimeFunction::DayOfYear,
        Ok(pb::TimeFunction::Unspecified) | Err(_) => {
            return Err(unknown(time.function, "function", "function"));
        }
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

pub(crate) fn invalid(message: impl Into<String>) -> RequestError {
    RequestError::new(ErrorReason::InvalidQuery, message)
}

fn unknown(number: i32, what: &str, place: &str) -> RequestError {
    invalid(format!("{number} is no {what}")).at(place)
}

#[cfg(test)]
mod tests {
    use basalt_proto::v1::row_set;

    use super::*;
    use crate::memory::MemoryPool;

    fn of(kind: filter::Kind) -> pb::Filter {
        pb::Filter { kind: Some(kind) }
    }

    fn column(name: &str) -> pb::Expr {
        pb::Expr { kind: Some(expr::Kind::Column(name.into())) }
    }

    fn read(filter: pb::Filter) -> Result<Filter> {
        let sets = Sets::new(0, Arc::new(MemoryPool::new(0)));
        Trees::new("t", &sets).filter(filter, 1).map_err(|e| e.at("filter"))
    }

    fn check(filter: pb::Filter, reason: &str, place: &str) {
        let error = read(filter).unwrap_err();
        assert_eq!((error.reason(), error.place()), (reason, Some(place)), "{}", error.message());
    }

    #[test]
    fn errors_name_their_place() {
        let compare =
            |op: i32, right| of(filter::Kind::Compare(pb::Compare { op, left: Some(column("a")), right }));
        let and = |filters| of(filter::Kind::And(pb::And { filters }));
        let fine = compare(1, Some(column("b")));
        check(and(vec![fine.clone(), compare(1, None)]), "INVALID_QUERY", "filter.and[1].compare.right");
        check(compare(0, Some(column("b"))), "INVALID_QUERY", "filter.compare.op");
        check(compare(99, Some(column("b"))), "INVALID_QUERY", "filter.compare.op");
        check(pb::Filter::default(), "INVALID_QUERY", "filter");

        let decimal = value::Kind::Decimal(pb::Decimal { unscaled: 1, scale: 39 });
        let values =
            vec![pb::Value { kind: Some(value::Kind::Null(true)) }, pb::Value { kind: Some(decimal) }];
        let list = of(filter::Kind::In(pb::In { expr: Some(column("a")), values }));
        check(
            of(filter::Kind::Not(Box::new(list))),
            "INVALID_QUERY",
            "filter.not.in.values[1].decimal.scale",
        );

        let rows = |scope, sip: &'static [u8]| {
            let set = Some(row_set::Set::Sip(sip.into()));
            of(filter::Kind::Rows(pb::RowSet { scope, set }))
        };
        check(rows(None, &[0]), "INVALID_QUERY", "filter.rows.scope");
        check(rows(Some(pb::Scope::default()), &[0xee]), "INVALID_SIP", "filter.rows.sip");
        assert_eq!(
            read(fine).unwrap(),
            Filter::Compare(CompareOp::Eq, Expr::Column("a".into()), Expr::Column("b".into()))
        );
    }

    #[test]
    fn depth_and_size_are_limited() {
        let nested = |depth| {
            (1..depth)
                .fold(of(filter::Kind::Constant(true)), |inner, _| of(filter::Kind::Not(Box::new(inner))))
        };
        assert!(read(nested(MAX_FILTER_DEPTH)).is_ok());
        assert_eq!(read(nested(MAX_FILTER_DEPTH + 1)).unwrap_err().reason(), "FILTER_TOO_DEEP");

        let wide = |n| of(filter::Kind::Or(pb::Or { filters: vec![of(filter::Kind::Constant(true)); n] }));
        assert!(read(wide(MAX_FILTER_NODES - 1)).is_ok());
        assert_eq!(read(wide(MAX_FILTER_NODES)).unwrap_err().reason(), "FILTER_TOO_LARGE");

        let values = vec![pb::Value { kind: Some(value::Kind::Int(1)) }; MAX_IN_LIST + 1];
        let list = of(filter::Kind::In(pb::In { expr: Some(column("a")), values }));
        check(list, "FILTER_TOO_LARGE", "filter.in.values");
    }

    #[test]
    fn the_inner_filter_of_a_semi_join_is_about_the_inner_table() {
        let join = |filter| {
            let (table, key) = ("u".into(), "k".into());
            let filter = Some(Box::new(filter));
            of(filter::Kind::SemiJoin(Box::new(pb::SemiJoin {
                column: "a".into(),
                table,
                key,
                filter,
                version: Some(3),
            })))
        };
        let addresses = of(filter::Kind::RowAddresses(pb::RowAddresses { version: 3, addresses: vec![1] }));
        let and = of(filter::Kind::And(pb::And { filters: vec![join(addresses.clone()), addresses] }));
        let Filter::And(filters) = read(and).unwrap() else { panic!("an and") };
        let [Filter::SemiJoin(join_read), Filter::Rows(outer)] = filters.as_slice() else {
            panic!("a semi-join and rows")
        };
        let Some(Filter::Rows(inner)) = &join_read.filter else { panic!("rows") };
        assert_eq!((inner.table.as_str(), outer.table.as_str()), ("u", "t"));
        assert_eq!((join_read.key.as_str(), join_read.version), ("k", Some(3)));

        // Its nodes and levels count with those around it.
        let many = of(filter::Kind::Or(pb::Or {
            filters: vec![of(filter::Kind::Constant(true)); MAX_FILTER_NODES - 1],
        }));
        check(
            join(many),
            "FILTER_TOO_LARGE",
            &format!("filter.semi_join.filter.or[{}]", MAX_FILTER_NODES - 2),
        );
        let deep = (1..=MAX_FILTER_DEPTH).fold(of(filter::Kind::Constant(true)), |inner, _| join(inner));
        assert_eq!(read(deep).unwrap_err().reason(), "FILTER_TOO_DEEP");
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
