//! What is told of a table's columns, and how what several nodes tell becomes one.

use std::cmp::{Ordering, Reverse};

use basalt_core::{
    describe::{self, ColumnSummary},
    error::Result,
    exec::Control,
    schema::Schema,
    table::Snapshot,
    value::{self, Value},
};
use basalt_proto::v1::{self as pb, value::Kind};

use super::schema::to_field;
use crate::{cache::Told, limits};

/// How the columns of a snapshot are held, apart from their entropy; `estimates` has all of them read.
pub(crate) fn columns(
    schema: &Schema,
    snapshot: &Snapshot,
    estimates: bool,
    control: &Control,
) -> Result<Vec<pb::ColumnInfo>> {
    let mut columns = Vec::with_capacity(schema.fields().len());
    for (index, field) in schema.fields().iter().enumerate() {
        control.check()?;
        let summary = ColumnSummary::new(snapshot, schema, index);
        let estimates = if estimates { describe::estimates(snapshot, index, control)? } else { Vec::new() };
        let estimates = estimates.into_iter().map(|estimate| pb::EncodingEstimate {
            encoding: estimate.encoding.to_owned(),
            fragments: estimate.fragments,
            bytes: estimate.bytes,
            exact: estimate.exact,
        });
        let encodings = summary.encodings.into_iter().map(|used| pb::EncodingUse {
            encoding: used.encoding,
            fragments: used.fragments,
            rows: used.rows,
            bytes: used.bytes,
        });
        let (min, max) = summary.range.unzip();
        columns.push(pb::ColumnInfo {
            field: Some(to_field(field)),
            rows: summary.rows,
            nulls: summary.nulls,
            bytes: summary.bytes,
            plain_bytes: summary.plain_bytes,
            encodings: encodings.collect(),
            entropy_bits: None,
            min: min.and_then(to_value),
            max: max.and_then(to_value),
            estimates: estimates.collect(),
            heat: 0.0,
            faster: Vec::new(),
        });
    }
    Ok(columns)
}

/// Adds what another node holds of a column.
pub(crate) fn add_column(sum: &mut pb::ColumnInfo, other: pb::ColumnInfo) {
    sum.min = extreme((&*sum, sum.min.as_ref()), (&other, other.min.as_ref()), Ordering::Less);
    sum.max = extreme((&*sum, sum.max.as_ref()), (&other, other.max.as_ref()), Ordering::Greater);
    sum.rows = sum.rows.saturating_add(other.rows);
    sum.nulls = sum.nulls.saturating_add(other.nulls);
    sum.bytes = sum.bytes.saturating_add(other.bytes);
    sum.plain_bytes = sum.plain_bytes.saturating_add(other.plain_bytes);
    add_encodings(&mut sum.encodings, other.encodings);
    sum.heat = sum.heat.max(other.heat);
    add_encodings(&mut sum.faster, other.faster);
    for estimate in other.estimates {
        match sum.estimates.iter_mut().find(|known| known.encoding == estimate.encoding) {
            Some(known) => {
                known.fragments = known.fragments.saturating_add(estimate.fragments);
                known.bytes = known.bytes.saturating_add(estimate.bytes);
                known.exact &= estimate.exact;
            }
            None => sum.estimates.push(estimate),
        }
    }
}

fn add_encodings(sum: &mut Vec<pb::EncodingUse>, others: impl IntoIterator<Item = pb::EncodingUse>) {
    for used in others {
        match sum.iter_mut().find(|known| known.encoding == used.encoding) {
            Some(known) => {
                known.fragments = known.fragments.saturating_add(used.fragments);
                known.rows = known.rows.saturating_add(used.rows);
                known.bytes = known.bytes.saturating_add(used.bytes);
            }
            None => sum.push(used),
        }
    }
    sum.sort_by_key(|used| Reverse(used.rows));
}

/// Adds what is told of the columns of each of some fragments.
pub(crate) fn tell(columns: &mut [pb::ColumnInfo], fragments: Vec<Vec<Told>>) {
    for told in fragments {
        for (column, Told { heat, faster }) in columns.iter_mut().zip(told) {
            column.heat = column.heat.max(heat);
            let form = |(encoding, rows, bytes)| pb::EncodingUse { encoding, fragments: 1, rows, bytes };
            add_encodings(&mut column.faster, faster.map(form));
        }
    }
}

/// The one of two columns' extremes that is `order` to the other; none where one is not known.
fn extreme(
    (a, of_a): (&pb::ColumnInfo, Option<&pb::Value>),
    (b, of_b): (&pb::ColumnInfo, Option<&pb::Value>),
    order: Ordering,
) -> Option<pb::Value> {
    let has_values = |column: &pb::ColumnInfo| column.rows > column.nulls;
    match (has_values(a), has_values(b)) {
        (false, _) => of_b.cloned(),
        (_, false) => of_a.cloned(),
        (true, true) => {
            let (of_a, of_b) = (of_a?, of_b?);
            let compared = value::compare(&from_value(of_b)?, &from_value(of_a)?)?;
            Some(if compared == order { of_b.clone() } else { of_a.clone() })
        }
    }
}

fn to_value(value: Value) -> Option<pb::Value> {
    let kind = match value {
        Value::Null => Kind::Null(true),
        Value::Bool(value) => Kind::Bool(value),
        Value::Int(value) => match i64::try_from(value) {
            Ok(value) => Kind::Int(value),
            Err(_) => Kind::Uint(u64::try_from(value).ok()?),
        },
        Value::Decimal { unscaled, scale } => {
            Kind::Decimal(pb::Decimal { unscaled: i64::try_from(unscaled).ok()?, scale: scale.into() })
        }
        Value::Float(value) => Kind::Double(value),
        Value::Date(value) => Kind::Date(value),
        Value::Timestamp(value) => Kind::Timestamp(value),
        Value::Text(value) if value.len() > limits::RANGE_TEXT_BYTES => return None,
        Value::Text(value) => Kind::Text(value.as_ref().to_owned()),
    };
    Some(pb::Value { kind: Some(kind) })
}

fn from_value(value: &pb::Value) -> Option<Value> {
    Some(match value.kind.as_ref()? {
        Kind::Null(_) => Value::Null,
        Kind::Bool(value) => Value::Bool(*value),
        Kind::Int(value) => Value::Int((*value).into()),
        Kind::Uint(value) => Value::Int((*value).into()),
        Kind::Decimal(value) => {
            Value::Decimal { unscaled: value.unscaled.into(), scale: u8::try_from(value.scale).ok()? }
        }
        Kind::Double(value) => Value::Float(*value),
        Kind::Date(value) => Value::Date(*value),
        Kind::Timestamp(value) => Value::Timestamp(*value),
        Kind::Text(value) => Value::Text(value.as_str().into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(rows: u64, nulls: u64, range: Option<(i64, i64)>, encoding: &str) -> pb::ColumnInfo {
        let used = pb::EncodingUse { encoding: encoding.into(), fragments: 1, rows, bytes: 2 * rows };
        let (min, max) = range.unzip();
        let value = |value: i64| to_value(Value::Int(value.into()));
        pb::ColumnInfo {
            rows,
            nulls,
            bytes: 2 * rows,
            plain_bytes: 8 * rows,
            encodings: vec![used],
            min: min.and_then(value),
            max: max.and_then(value),
            ..Default::default()
        }
    }

    #[test]
    fn columns_add_up() {
        let mut sum = column(10, 0, Some((3, 9)), "packed");
        add_column(&mut sum, column(30, 5, Some((-1, 4)), "plain"));
        add_column(&mut sum, column(25, 0, Some((4, 5)), "packed"));
        let expected = pb::ColumnInfo {
            encodings: [("packed", 2, 35), ("plain", 1, 30)]
                .map(|(encoding, fragments, rows)| pb::EncodingUse {
                    encoding: encoding.into(),
                    fragments,
                    rows,
                    bytes: 2 * rows,
                })
                .to_vec(),
            ..column(65, 5, Some((-1, 9)), "")
        };
        assert_eq!(sum, expected);
        // Without values there is no range to widen, and a range that one does not know is nobody's.
        let mut nulls = column(7, 7, None, "constant");
        add_column(&mut nulls, column(1, 0, Some((2, 2)), "constant"));
        assert_eq!((nulls.min, nulls.max), (to_value(Value::Int(2)), to_value(Value::Int(2))));
        add_column(&mut sum, column(1, 0, None, "raw"));
        assert_eq!((sum.min, sum.max), (None, None));
    }
}
