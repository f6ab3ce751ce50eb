//! What a table's columns hold, and at what cost: sizes, encodings, ranges, entropy.

use std::{cmp::Ordering, collections::BTreeMap};

use hashbrown::{HashMap, hash_map::EntryRef};

use crate::{
    error::Result,
    exec::Control,
    fragment::{Column, Values},
    limits::BATCH_ROWS,
    mask::selects,
    schema::{DataType, Schema},
    table::Snapshot,
    value::{self, Value},
};

/// One way in which fragments of a column are held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodingUse {
    /// Outermost first, with the validity's behind `+`.
    pub encoding: String,
    /// Fragments held so.
    pub fragments: u64,
    /// Their rows.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What one column of a snapshot holds.
#[derive(Clone, Debug)]
pub struct ColumnSummary {
    /// Rows, nulls counted; here and below, rows that are deleted count as long as they take memory.
    pub rows: u64,
    /// Rows that are null.
    pub nulls: u64,
    /// Bytes held: values, validity, indexes, tables, headers, statistics.
    pub bytes: u64,
    /// Bytes of the same rows as plain Arrow arrays.
    pub plain_bytes: u64,
    /// How the fragments are held, most rows first.
    pub encodings: Vec<EncodingUse>,
    /// The least and the greatest value.
    pub range: Option<(Value, Value)>,
}

impl ColumnSummary {
    /// Summarises a column without reading it.
    pub fn new(snapshot: &Snapshot, schema: &Schema, index: usize) -> Self {
        let field = &schema.fields()[index];
        let mut summary =
            Self { rows: 0, nulls: 0, bytes: 0, plain_bytes: 0, encodings: Vec::new(), range: None };
        let mut encodings: BTreeMap<String, EncodingUse> = BTreeMap::new();
        for fragment in snapshot.fragments() {
            let column = fragment.column(index);
            let bytes = column.bytes() as u64;
            summary.rows += fragment.rows() as u64;
            summary.nulls += column.nulls() as u64;
            summary.bytes += bytes;
            summary.plain_bytes += plain_bytes(column);
            let used = encodings.entry(column.encoding()).or_default();
            used.fragments += 1;
            used.rows += fragment.rows() as u64;
            used.bytes += bytes;
            summary.range = match (summary.range.take(), column.range()) {
                (Some((a, b)), Some((c, d))) => {
                    Some((least(a, c, Ordering::Less), least(b, d, Ordering::Greater)))
                }
                (a, b) => a.or(b),
            };
        }
        summary.encodings =
            encodings.into_iter().map(|(encoding, used)| EncodingUse { encoding, ..used }).collect();
        summary.encodings.sort_by_key(|used| std::cmp::Reverse(used.rows));
        if field.data_type.is_float() {
            summary.range = summary.range.map(|(lo, hi)| (positive_zero(lo), positive_zero(hi)));
        }
        summary
    }
}

/// The one of two values that is `order` to the other.
fn least(a: Value, b: Value, order: Ordering) -> Value {
    if value::compare(&b, &a) == Some(order) { b } else { a }
}

fn positive_zero(value: Value) -> Value {
    match value {
        Value::Float(f) => Value::Float(f + 0.0),
        value => value,
    }
}

/// Arrow's layout: values (text: 32-bit offsets and bytes), and one bit a row where there are nulls.
fn plain_bytes(column: &Column) -> u64 {
    let rows = column.rows() as u64;
    let values = match (column.data_type(), column.values()) {
        (DataType::Bool, _) => rows.div_ceil(8),
        (_, Values::Keys(_)) => rows * column.data_type().plain_width() as u64,
        (_, Values::Text(_)) => (rows + 1) * 4 + column.text_bytes() as u64,
    };
    values + if column.nulls() > 0 { rows.div_ceil(8) } else { 0 }
}

/// The size of a column's values by one encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodingEstimate {
    /// The encoding, without what holds its parts.
    pub encoding: &'static str,
    /// Fragments that it can hold.
    pub fragments: u64,
    /// What it would take for them.
    pub bytes: u64,
    /// Whether `bytes` is exact.
    pub exact: bool,
}

/// Every encoding's size estimate for a column's values, as the chooser sees it. Reads the whole column.
///
/// # Errors
/// [`crate::error::ErrorKind::MemoryLimit`] when `control` has no room for a fragment's values, and its stops.
pub fn estimates(snapshot: &Snapshot, index: usize, control: &Control) -> Result<Vec<EncodingEstimate>> {
    let mut sums: Vec<EncodingEstimate> = Vec::new();
    for fragment in snapshot.fragments() {
        control.check()?;
        let column = fragment.column(index);
        control.reserve(column.decoded_bytes())?;
        for estimate in column.estimates() {
            let new = EncodingEstimate { encoding: estimate.name, fragments: 0, bytes: 0, exact: true };
            let place = sums.iter().position(|sum| sum.encoding == estimate.name).unwrap_or(sums.len());
            if place == sums.len() {
                sums.push(new);
            }
            let sum = &mut sums[place];
            sum.fragments += 1;
            sum.bytes += estimate.bytes as u64;
            sum.exact &= estimate.exact;
        }
        control.release(column.decoded_bytes());
    }
    Ok(sums)
}

/// The order-0 entropy of a column in bits for one row, null counting as one value: what no encoding that
/// knows only how often each value occurs can go below. Reads the whole column.
///
/// # Errors
/// [`crate::error::ErrorKind::MemoryLimit`] when the distinct values take more than `control` allows, and its stops.
pub fn entropy(snapshot: &Snapshot, index: usize, control: &Control) -> Result<f64> {
    let mut keys: HashMap<i64, u64> = HashMap::new();
    let mut texts: HashMap<String, u64> = HashMap::new();
    let (mut rows, mut nulls, mut text_bytes, mut held) = (0, 0, 0, 0);
    let mut batch = vec![0; BATCH_ROWS];
    for fragment in snapshot.fragments() {
        let column = fragment.column(index);
        rows += fragment.rows() as u64;
        nulls += column.nulls() as u64;
        match column.values() {
            Values::Text(_) => column.for_each_text(|text| match texts.entry_ref(text) {
                EntryRef::Occupied(mut rows) => *rows.get_mut() += 1,
                EntryRef::Vacant(entry) => {
                    text_bytes += text.len();
                    entry.insert(1);
                }
            }),
            Values::Keys(values) => {
                for start in (0..column.rows()).step_by(BATCH_ROWS) {
                    let rows = (column.rows() - start).min(BATCH_ROWS);
                    let valid = column.validity_words(start, rows);
                    values.decode(start, &mut batch[..rows]);
                    for (i, key) in batch[..rows].iter().enumerate() {
                        if selects(valid.as_deref(), i) {
                            *keys.entry(*key).or_default() += 1;
                        }
                    }
                }
            }
        }
        control.check()?;
        let now = keys.capacity() * 17 + texts.capacity() * 25 + text_bytes;
        control.reserve(now - held)?;
        held = now;
    }
    control.release(held);
    let counts = keys.into_values().chain(texts.into_values()).chain(std::iter::once(nulls));
    Ok(entropy_of(counts, rows))
}

/// Shannon's entropy of a distribution given by counts, in bits.
#[allow(clippy::cast_precision_loss, reason = "counts of rows are below 2^53")]
pub fn entropy_of(counts: impl Iterator<Item = u64>, total: u64) -> f64 {
    let total = total as f64;
    counts.filter(|n| *n > 0).map(|n| n as f64 / total).map(|p| -p * p.log2()).sum::<f64>().abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropies() {
        assert!((entropy_of([50, 50].into_iter(), 100) - 1.0).abs() < 1e-12);
        assert!((entropy_of([99, 1, 0].into_iter(), 100) - 0.080_793).abs() < 1e-6);
        assert_eq!(entropy_of([7].into_iter(), 7), 0.0);
    }
}
