//! Requests on their way to other nodes: the engine's queries, whose sets travel beside them.
//!
//! Where a filter has a set of keys or texts, the request has a semi-join without a filter, which stands for the next
//! of the sets; so a node needs no table but the one that it is asked about, and no set that is kept elsewhere.

use std::sync::Arc;

use basalt_core::{
    exec::BuiltSet,
    invariant::Invariant as _,
    query::{
        Aggregate, AggregateFunction, ArithmeticOp, Attribute, CompareOp, Expr, Filter, KeySet, Literal,
        OrderBy, Query, RowSet, SelectItem, SemiJoin, SipOrigin,
    },
    time_parts::{TimeFunction, Unit},
};
use basalt_proto::v1::{self as pb, expr, filter, row_set, value};
use basalt_sip::Sip;
use prost::bytes::Bytes;

/// What is needed of a set of keys that a column is asked for.
pub(crate) type Cut<'a> = &'a dyn Fn(&str, &KeySet) -> Arc<Sip>;

/// A query as a request, and its sets in their order. Its semi-joins are resolved.
pub(crate) fn to_query(
    query: &Query,
    table: &str,
    version: u64,
    cut: Cut<'_>,
) -> (pb::QueryRequest, Vec<BuiltSet>) {
    let mut sets = Vec::new();
    // Aggregates have other values than their columns.
    let whole = |_: &str, set: &KeySet| Arc::clone(&set.sip);
    let select = |item: &SelectItem| pb::SelectItem {
        expr: Some(to_expr(&item.expr)),
        name: item.name.clone().unwrap_or_default(),
    };
    let order = |key: &OrderBy| pb::OrderBy {
        expr: Some(to_expr(&key.expr)),
        descending: key.descending,
        nulls_first: key.nulls_first,
        of_table: key.of_table,
    };
    let request = pb::QueryRequest {
        table: table.to_owned(),
        select: query.select.iter().map(select).collect(),
        filter: query.filter.as_ref().map(|filter| to_filter(filter, &mut sets, cut)),
        group_by: query.group_by.iter().map(to_expr).collect(),
        having: query.having.as_ref().map(|having| to_filter(having, &mut sets, &whole)),
        order_by: query.order_by.iter().map(order).collect(),
        limit: query.limit,
        offset: query.offset,
        version: Some(version),
        format: pb::Format::Unspecified.into(),
    };
    (request, sets)
}

/// A filter whose semi-joins are resolved; its sets are appended to `sets`.
pub(crate) fn to_filter(filter: &Filter, sets: &mut Vec<BuiltSet>, cut: Cut<'_>) -> pb::Filter {
    use filter::Kind;
    let mut list = |filters: &[Filter]| filters.iter().map(|filter| to_filter(filter, sets, cut)).collect();
    let kind = match filter {
        Filter::And(filters) => Kind::And(pb::And { filters: list(filters) }),
        Filter::Or(filters) => Kind::Or(pb::Or { filters: list(filters) }),
        Filter::Not(inner) => Kind::Not(Box::new(to_filter(inner, sets, cut))),
        Filter::Compare(op, left, right) => Kind::Compare(pb::Compare {
            op: to_compare(*op).into(),
            left: Some(to_expr(left)),
            right: Some(to_expr(right)),
        }),
        Filter::Between(expr, low, high) => Kind::Between(pb::Between {
            expr: Some(to_expr(expr)),
            low: Some(to_expr(low)),
            high: Some(to_expr(high)),
        }),
        Filter::In(expr, values) => {
            let values = values.iter().map(to_value).collect();
            Kind::In(pb::In { expr: Some(to_expr(expr)), values })
        }
        Filter::IsNull(expr) => Kind::IsNull(to_expr(expr)),
        Filter::Like(expr, pattern) => {
            Kind::Like(pb::Like { expr: Some(to_expr(expr)), pattern: pattern.clone() })
        }
        Filter::Rows(rows) => Kind::Rows(to_rows(rows)),
        Filter::Keys(keys) => {
            let set = &keys.set;
            let (data_type, has_null, sip) = (set.data_type, set.has_null, cut(&keys.column, set));
            sets.push(BuiltSet::Keys { data_type, has_null, sip });
            stand_in(&keys.column, &set.origin)
        }
        Filter::Texts(texts) => {
            sets.push(BuiltSet::Texts { texts: Arc::clone(&texts.texts), has_null: texts.has_null });
            stand_in(&texts.column, &texts.origin)
        }
        Filter::SemiJoin(join) => {
            let SemiJoin { column, table, key, filter, version } = &**join;
            let filter = filter.as_ref().map(|filter| Box::new(to_filter(filter, sets, cut)));
            let (column, table, key) = (column.clone(), table.clone(), key.clone());
            Kind::SemiJoin(Box::new(pb::SemiJoin { column, table, key, filter, version: *version }))
        }
        Filter::Constant(constant) => Kind::Constant(*constant),
    };
    pb::Filter { kind: Some(kind) }
}

/// What stands for a set.
fn stand_in(column: &str, origin: &SipOrigin) -> filter::Kind {
    let (table, key) = match origin {
        SipOrigin::SemiJoin { table, key, .. } => (table.clone(), key.clone()),
        SipOrigin::Request | SipOrigin::Handle => Default::default(),
    };
    let column = column.to_owned();
    filter::Kind::SemiJoin(Box::new(pb::SemiJoin { column, table, key, filter: None, version: None }))
}

fn to_rows(rows: &RowSet) -> pb::RowSet {
    let scope = pb::Scope {
        table: rows.table.clone(),
        version: rows.version,
        table_id: rows.table_id.unwrap_or(0),
        key: None,
    };
    let sip = row_set::Set::Sip(Bytes::copy_from_slice(rows.sip.as_bytes()));
    pb::RowSet { scope: Some(scope), set: Some(sip) }
}

fn to_expr(expr: &Expr) -> pb::Expr {
    use expr::Kind;
    let boxed = |expr: &Expr| Some(Box::new(to_expr(expr)));
    let kind = match expr {
        Expr::Column(name) => Kind::Column(name.clone()),
        Expr::Attribute(Attribute { column, name, .. }) => {
            Kind::Attribute(pb::Attribute { column: column.clone(), attribute: name.clone() })
        }
        Expr::Literal(literal) => Kind::Literal(to_value(literal)),
        Expr::Arithmetic(op, left, right) => {
            let op = match op {
                ArithmeticOp::Add => pb::ArithmeticOp::Add,
                ArithmeticOp::Subtract => pb::ArithmeticOp::Subtract,
                ArithmeticOp::Multiply => pb::ArithmeticOp::Multiply,
                ArithmeticOp::Divide => pb::ArithmeticOp::Divide,
            };
            let (left, right) = (boxed(left), boxed(right));
            Kind::Arithmetic(Box::new(pb::Arithmetic { op: op.into(), left, right }))
        }
        Expr::Time(function, of) => {
            let (function, unit) = to_time_function(*function);
            Kind::Time(Box::new(pb::Time { function: function.into(), unit: unit.into(), of: boxed(of) }))
        }
        Expr::Aggregate(aggregate) => {
            let Aggregate { function, argument, distinct } = &**aggregate;
            let function = match function {
                AggregateFunction::Count => pb::AggregateFunction::Count,
                AggregateFunction::Sum => pb::AggregateFunction::Sum,
                AggregateFunction::Min => pb::AggregateFunction::Min,
                AggregateFunction::Max => pb::AggregateFunction::Max,
                AggregateFunction::Avg => pb::AggregateFunction::Avg,
            };
            let argument = argument.as_ref().and_then(boxed);
            let (function, distinct) = (function.into(), *distinct);
            Kind::Aggregate(Box::new(pb::Aggregate { function, argument, distinct }))
        }
    };
    pb::Expr { kind: Some(kind) }
}

fn to_value(literal: &Literal) -> pb::Value {
    let kind = match literal {
        Literal::Null => value::Kind::Null(true),
        Literal::Bool(value) => value::Kind::Bool(*value),
        Literal::Int(value) => value::Kind::Int(*value),
        Literal::UInt(value) => value::Kind::Uint(*value),
        Literal::Float(value) => value::Kind::Double(*value),
        Literal::Decimal { unscaled, scale } => {
            let unscaled = i64::try_from(*unscaled).invariant("a decimal of a request has 64 bits");
            value::Kind::Decimal(pb::Decimal { unscaled, scale: (*scale).into() })
        }
        Literal::Text(value) => value::Kind::Text(value.clone()),
        Literal::Date(value) => value::Kind::Date(*value),
        Literal::Timestamp(value) => value::Kind::Timestamp(*value),
    };
    pb::Value { kind: Some(kind) }
}

fn to_compare(op: CompareOp) -> pb::CompareOp {
    match op {
        CompareOp::Eq => pb::CompareOp::Eq,
        CompareOp::Ne => pb::CompareOp::Ne,
        CompareOp::Lt => pb::CompareOp::Lt,
        CompareOp::Le => pb::CompareOp::Le,
        CompareOp::Gt => pb::CompareOp::Gt,
        CompareOp::Ge => pb::CompareOp::Ge,
    }
}

fn to_time_function(function: TimeFunction) -> (pb::TimeFunction, pb::TimeUnit) {
    let to_unit = |unit| match unit {
        Unit::Second => pb::TimeUnit::Second,
        Unit::Minute => pb::TimeUnit::Minute,
        Unit::Hour => pb::TimeUnit::Hour,
        Unit::Day => pb::TimeUnit::Day,
        Unit::Week => pb::TimeUnit::Week,
        Unit::Month => pb::TimeUnit::Month,
        Unit::Quarter => pb::TimeUnit::Quarter,
        Unit::Year => pb::TimeUnit::Year,
    };
    match function {
        TimeFunction::Truncate(unit) => (pb::TimeFunction::Truncate, to_unit(unit)),
        TimeFunction::Part(unit) => (pb::TimeFunction::Part, to_unit(unit)),
        TimeFunction::DayOfWeek => (pb::TimeFunction::DayOfWeek, pb::TimeUnit::Unspecified),
        TimeFunction::DayOfYear => (pb::TimeFunction::DayOfYear, pb::TimeUnit::Unspecified),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{convert, memory::MemoryPool, sets::Sets};
    use basalt_core::{exec::place_sets, query::KeyFilter, schema::DataType};

    fn column(name: &str) -> Expr {
        Expr::Column(name.into())
    }

    fn sum(argument: Option<Expr>) -> Expr {
        let function = if argument.is_some() { AggregateFunction::Sum } else { AggregateFunction::Count };
        Expr::Aggregate(Box::new(Aggregate { function, argument, distinct: false }))
    }

    #[test]
    fn what_goes_out_comes_in() {
        let keys = |ids: &[u64]| {
            let origin = SipOrigin::SemiJoin { table: "u".into(), key: "k".into(), build_ns: 0 };
            let sip = Arc::new(Sip::from_sorted_ids(ids));
            let set = KeySet { data_type: DataType::Date32, has_null: true, sip, origin };
            Filter::Keys(KeyFilter { column: "a".into(), set })
        };
        let literals = [
            Literal::Null,
            Literal::Bool(true),
            Literal::Int(-1),
            Literal::UInt(u64::MAX),
            Literal::Float(0.5),
            Literal::Decimal { unscaled: -5, scale: 2 },
            Literal::Text("x".into()),
            Literal::Date(-1),
            Literal::Timestamp(7),
        ];
        let difference =
            Expr::Arithmetic(ArithmeticOp::Subtract, Box::new(column("a")), Box::new(column("b")));
        let truncations = Unit::ALL.into_iter().map(TimeFunction::Truncate);
        let parts = Unit::ALL.into_iter().map(TimeFunction::Part);
        let others = [TimeFunction::DayOfWeek, TimeFunction::DayOfYear];
        let times = truncations.chain(parts).chain(others);
        let times: Vec<_> = times.map(|function| Expr::Time(function, Box::new(column("t")))).collect();
        let rows = RowSet {
            table: "t".into(),
            version: 3,
            table_id: Some(9),
            sip: Arc::new(Sip::from_sorted_ids(&[1, 2])),
            origin: SipOrigin::Request,
        };
        let query = Query {
            select: times
                .into_iter()
                .chain([sum(Some(difference))])
                .map(|expr| SelectItem { expr, name: Some("n".into()) })
                .collect(),
            filter: Some(Filter::And(vec![
                keys(&[1, 5]),
                Filter::Not(Box::new(Filter::Or(vec![
                    Filter::Compare(CompareOp::Ge, column("a"), Expr::Literal(Literal::Int(1))),
                    Filter::Between(column("a"), column("b"), column("c")),
                    Filter::In(column("a"), literals.to_vec()),
                    keys(&[7]),
                ]))),
                Filter::IsNull(column("a")),
                Filter::Like(column("a"), "%".into()),
                Filter::Rows(rows),
                Filter::Constant(false),
            ])),
            group_by: vec![column("g")],
            having: Some(Filter::Compare(CompareOp::Ne, sum(None), Expr::Literal(Literal::Int(0)))),
            order_by: vec![OrderBy {
                expr: column("n"),
                descending: true,
                nulls_first: true,
                of_table: true,
            }],
            limit: Some(4),
            offset: 2,
        };
        let (request, sets) = to_query(&query, "t", 3, &|_, set| Arc::clone(&set.sip));
        assert_eq!((request.table.as_str(), request.version, sets.len()), ("t", Some(3), 2));
        let kept = Sets::new(0, Arc::new(MemoryPool::new(0)));
        let (mut back, _) = convert::query(request, &kept).unwrap();
        assert_ne!(back, query);
        place_sets(&mut back, sets).unwrap();
        assert_eq!(back, query);
        assert!(place_sets(&mut back, [BuiltSet::empty(DataType::Utf8)]).is_err());
    }
}
