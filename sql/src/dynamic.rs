//! What a join learns while it runs, for the scan of its other side: the keys that its build side has. The scan asks for
//! it when it begins, and gives it to the engine as one more condition; the join tests every row all the same, so that
//! what cannot be said here is left out.

use std::sync::Arc;

use basalt_core::{
    query::{CompareOp, Expr, Filter, KeyFilter, KeySet, Literal, Query, SipOrigin},
    schema::{DataType, Schema},
};
use basalt_sip::Sip;
use datafusion::{
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr,
        expressions::{BinaryExpr, Column, DynamicFilterPhysicalExpr, InListExpr, Literal as Constant},
    },
};

use crate::filter::literal;

/// A condition that the rows of a scan may be asked for; `None`: nothing is known (yet).
pub(crate) fn condition(filters: &[Arc<dyn PhysicalExpr>], query: &Query, schema: &Schema) -> Option<Filter> {
    let columns = Of { query, schema };
    let known: Vec<_> = filters
        .iter()
        .filter_map(|filter| filter.downcast_ref::<DynamicFilterPhysicalExpr>()?.current().ok())
        .filter_map(|current| at_least(&current, columns))
        .collect();
    joined(known)
}

fn joined(mut filters: Vec<Filter>) -> Option<Filter> {
    match filters.len() {
        0 => None,
        1 => filters.pop(),
        _ => Some(Filter::And(filters)),
    }
}

/// A condition that is true wherever `expr` is.
fn at_least(expr: &Arc<dyn PhysicalExpr>, columns: Of<'_>) -> Option<Filter> {
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        let (left, right) = (binary.left(), binary.right());
        let op = match binary.op() {
            Operator::And => {
                return joined(
                    [left, right].into_iter().filter_map(|side| at_least(side, columns)).collect(),
                );
            }
            Operator::Or => {
                return Some(Filter::Or(vec![at_least(left, columns)?, at_least(right, columns)?]));
            }
            Operator::Eq => CompareOp::Eq,
            Operator::Lt => CompareOp::Lt,
            Operator::LtEq => CompareOp::Le,
            Operator::Gt => CompareOp::Gt,
            Operator::GtEq => CompareOp::Ge,
            _ => return None,
        };
        let (column, _) = columns.column(left)?;
        let constant = constant(right)?;
        return Some(Filter::Compare(op, Expr::Column(column), Expr::Literal(constant)));
    }
    let list = expr.downcast_ref::<InListExpr>().filter(|list| !list.negated())?;
    let (name, data_type) = columns.column(list.expr())?;
    let values = list.list().iter().map(|value| literal(value.downcast_ref::<Constant>()?.value()));
    let mut values = values.collect::<Option<Vec<_>>>()?;
    // No row equals null.
    values.retain(|value| *value != Literal::Null);
    if data_type == DataType::Utf8 {
        return Some(Filter::In(Expr::Column(name), values));
    }
    let ids = values.iter().map(|value| id(value, data_type)).collect::<Option<Vec<_>>>()?;
    let sip = Arc::new(Sip::from_ids(ids));
    let set = KeySet { data_type, has_null: false, sip, origin: SipOrigin::Request };
    Some(Filter::Keys(KeyFilter { column: name, set }))
}

/// What the columns of a scan are.
#[derive(Clone, Copy)]
struct Of<'a> {
    query: &'a Query,
    schema: &'a Schema,
}

impl Of<'_> {
    /// A column of the table. Floats are left to the join: what equals what is said by their bits there.
    fn column(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<(String, DataType)> {
        let place = expr.downcast_ref::<Column>()?.index();
        let Expr::Column(name) = &self.query.select.get(place)?.expr else { return None };
        let field = &self.schema.fields()[self.schema.index_of(name)?];
        let data_type = field.data_type;
        (!data_type.is_float() && field.logical.is_none()).then(|| (name.clone(), data_type))
    }
}

fn constant(expr: &Arc<dyn PhysicalExpr>) -> Option<Literal> {
    match literal(expr.downcast_ref::<Constant>()?.value())? {
        Literal::Null => None,
        literal => Some(literal),
    }
}

/// The id of a value in a set of a column's keys.
fn id(value: &Literal, data_type: DataType) -> Option<u64> {
    match (value, data_type) {
        (Literal::Bool(value), DataType::Bool) => Some(u64::from(*value)),
        (Literal::Int(value), data_type) if data_type.is_integer() => Some(value.cast_unsigned()),
        (Literal::UInt(value), data_type) if data_type.is_integer() => Some(*value),
        (Literal::Date(days), DataType::Date32) => Some(i64::from(*days).cast_unsigned()),
        (Literal::Timestamp(micros), DataType::Timestamp) => Some(micros.cast_unsigned()),
        (Literal::Decimal { unscaled, scale }, DataType::Decimal { scale: of_column, .. })
            if *scale == of_column =>
        {
            Some(unscaled.cast_unsigned())
        }
        _ => None,
    }
}
