//! Statistics of a data file in the log: numbers of rows and nulls, least and greatest values, as JSON.
//!
//! They are bounds that every reader may prune by. A text is cut off at 32 characters, and a greatest one that
//! was cut is followed by the greatest character; floats among which there is a NaN have no bounds, for readers
//! order NaN differently. Infinite floats, and dates and timestamps that the calendar of other readers does not have,
//! are no bounds either.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    sync::Arc,
};

use basalt_core::{
    limits::{DATES, TIMESTAMPS},
    logical::Logical,
    schema::{DataType, Field, Schema},
    time,
    value::{Value, compare},
};
use parquet::file::{metadata::ParquetMetaData, statistics::Statistics};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    error::{Result, StorageError},
    limits::{STATS_CHARS, STATS_COLUMNS},
};

/// Bytes that [`STATS_CHARS`] characters take at most.
pub(super) const TEXT_BYTES: usize = 4 * (STATS_CHARS + 1);

/// What is known of a column of a data file, of the rows that are not deleted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnStats {
    /// No value is less.
    pub min: Option<Value>,
    /// No value is greater.
    pub max: Option<Value>,
    /// How many rows are null; `None` when that is not known exactly.
    pub nulls: Option<u64>,
}

/// The statistics of a file that was just written. `with_nan`: the columns with a NaN.
pub(super) fn of_file(schema: &Schema, metadata: &ParquetMetaData, with_nan: &BTreeSet<usize>) -> String {
    let mut columns: Vec<ColumnStats> = Vec::new();
    for (i, field) in schema.fields().iter().enumerate().take(STATS_COLUMNS) {
        let chunks = metadata.row_groups().iter().map(|group| {
            let chunk = group.column(i);
            // Default: nothing is known of a chunk without statistics.
            chunk.statistics().map(|s| of_chunk(s, chunk.num_values(), field.data_type)).unwrap_or_default()
        });
        // Default: nothing is known of no rows.
        let mut column = chunks.reduce(merge).unwrap_or_default();
        if with_nan.contains(&i) || (stats_type(field) == DataType::Bool && field.data_type != DataType::Bool)
        {
            (column.min, column.max) = (None, None);
        }
        columns.push(column);
    }
    let object = |what: fn(&ColumnStats, DataType) -> Option<String>| {
        let mut out = String::new();
        for (field, column) in schema.fields().iter().zip(&columns) {
            if let Some(value) = what(column, stats_type(field)) {
                let comma = if out.is_empty() { "" } else { "," };
                let _ = write!(out, "{comma}{}:{value}", quoted(&field.name));
            }
        }
        out
    };
    let min = object(|column, data_type| json(column.min.as_ref()?, data_type, false));
    let max = object(|column, data_type| json(column.max.as_ref()?, data_type, true));
    let nulls = object(|column, _| column.nulls.map(|n| n.to_string()));
    let rows = metadata.file_metadata().num_rows();
    format!(r#"{{"numRecords":{rows},"minValues":{{{min}}},"maxValues":{{{max}}},"nullCount":{{{nulls}}}}}"#)
}

/// Of two chunks. The bound of no values is null, one that is not known is `None`.
fn merge(a: ColumnStats, b: ColumnStats) -> ColumnStats {
    let pick = |a: Option<Value>, b: Option<Value>, least: bool| match (a?, b?) {
        (Value::Null, other) | (other, Value::Null) => Some(other),
        (a, b) => Some(if compare(&a, &b)?.is_lt() == least { a } else { b }),
    };
    ColumnStats {
        min: pick(a.min, b.min, true),
        max: pick(a.max, b.max, false),
        nulls: a.nulls.zip(b.nulls).map(|(a, b)| a + b),
    }
}

fn of_chunk(statistics: &Statistics, values: i64, data_type: DataType) -> ColumnStats {
    let nulls = statistics.null_count_opt();
    let bounds = match statistics {
        _ if nulls.is_some_and(|nulls| i64::try_from(nulls) == Ok(values)) => {
            Some((Value::Null, Value::Null))
        }
        Statistics::Int32(s) => both(s.min_opt(), s.max_opt(), |v| integer(i128::from(*v), data_type)),
        Statistics::Int64(s) => both(s.min_opt(), s.max_opt(), |v| integer(i128::from(*v), data_type)),
        Statistics::Float(s) => both(s.min_opt(), s.max_opt(), |v| Some(Value::Float(f64::from(*v)))),
        Statistics::Double(s) => both(s.min_opt(), s.max_opt(), |v| Some(Value::Float(*v))),
        Statistics::ByteArray(s) => {
            both(s.min_opt(), s.max_opt(), |v| Some(Value::Text(v.as_utf8().ok()?.into())))
        }
        Statistics::FixedLenByteArray(s) => both(s.min_opt(), s.max_opt(), |v| big_endian(v.data())),
        Statistics::Boolean(s) => both(s.min_opt(), s.max_opt(), |v| Some(Value::Bool(*v))),
        Statistics::Int96(_) => None,
    };
    let (min, max) = bounds.unzip();
    ColumnStats { min, max, nulls }
}

fn both<T>(min: Option<&T>, max: Option<&T>, value: impl Fn(&T) -> Option<Value>) -> Option<(Value, Value)> {
    Some((value(min?)?, value(max?)?))
}

fn integer(value: i128, data_type: DataType) -> Option<Value> {
    Some(match data_type {
        DataType::Decimal { scale, .. } => Value::Decimal { unscaled: value, scale },
        DataType::Date32 => Value::Date(i32::try_from(value).ok()?),
        DataType::Timestamp => Value::Timestamp(i64::try_from(value).ok()?),
        DataType::Bool => return None,
        _ => Value::Int(value),
    })
}

fn big_endian(bytes: &[u8]) -> Option<Value> {
    let negative = bytes.first()? & 0x80 != 0;
    let mut wide = [if negative { 0xff } else { 0 }; 16];
    wide.get_mut(16_usize.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
    Some(Value::Int(i128::from_be_bytes(wide)))
}

/// The type by which bounds of a column are read and written. Those of a column that is held in the form of a text are
/// none of that text, so it has the type that has no bounds.
pub(super) fn stats_type(field: &Field) -> DataType {
    match field.logical {
        Some(Logical::Decimal { .. } | Logical::Binary) => DataType::Bool,
        Some(Logical::Time) | None => field.data_type,
    }
}

pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A bound as the log has it; `None` when it has none such.
pub(super) fn json(value: &Value, data_type: DataType, greatest: bool) -> Option<String> {
    Some(match value {
        Value::Int(v) => v.to_string(),
        Value::Decimal { unscaled, scale } => decimal(*unscaled, *scale),
        Value::Float(v) if !v.is_finite() => return None,
        #[allow(clippy::cast_possible_truncation, reason = "it was a float32")]
        Value::Float(v) if data_type == DataType::Float32 => serde_json::Value::from(*v as f32).to_string(),
        Value::Float(v) => serde_json::Value::from(*v).to_string(),
        Value::Date(v) if !DATES.contains(v) => return None,
        Value::Date(v) => quoted(&time::format_date(*v)),
        Value::Timestamp(v) if !TIMESTAMPS.contains(v) => return None,
        Value::Timestamp(v) => quoted(&time::format_timestamp(*v)),
        Value::Text(v) => {
            let mut rest = v.chars();
            let mut cut: String = rest.by_ref().take(STATS_CHARS).collect();
            match rest.next() {
                Some(char::MAX) if greatest => return None,
                Some(_) if greatest => cut.push(char::MAX),
                _ => {}
            }
            quoted(&cut)
        }
        // Nothing is left out by it here. deltalake takes a column with a number of nulls and without bounds for one that has
        // no value, and loses its rows.
        Value::Bool(v) => v.to_string(),
        Value::Null => return None,
    })
}

fn decimal(unscaled: i128, scale: u8) -> String {
    let scale = usize::from(scale);
    if scale == 0 {
        return unscaled.to_string();
    }
    let digits = format!("{:0>1$}", unscaled.unsigned_abs(), scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{}{whole}.{fraction}", if unscaled < 0 { "-" } else { "" })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stats<'a> {
    pub(super) num_records: Option<u64>,
    pub(super) tight_bounds: Option<bool>,
    #[serde(borrow, default)]
    pub(super) min_values: BTreeMap<String, &'a RawValue>,
    #[serde(borrow, default)]
    pub(super) max_values: BTreeMap<String, &'a RawValue>,
    #[serde(borrow, default)]
    pub(super) null_count: BTreeMap<String, &'a RawValue>,
}

/// The number of rows, where statistics have it.
pub(crate) fn num_records(stats: &str) -> serde_json::Result<Option<u64>> {
    #[derive(Deserialize)]
    struct Rows {
        #[serde(rename = "numRecords")]
        rows: Option<u64>,
    }
    serde_json::from_str::<Rows>(stats).map(|stats| stats.rows)
}

/// What statistics say of columns, given by name and type; what they do not say, or say wrongly, is not known.
#[cfg(test)]
pub(super) fn columns_stats<'a>(
    stats: Option<&str>,
    columns: impl Iterator<Item = (&'a str, DataType)>,
) -> Box<[ColumnStats]> {
    let Some(Ok(stats)) = stats.map(serde_json::from_str::<Stats<'_>>) else { return Box::default() };
    columns.map(|(name, data_type)| stats.column(name, data_type)).collect()
}

impl Stats<'_> {
    pub(super) fn column(&self, name: &str, data_type: DataType) -> ColumnStats {
        let bound = |values: &BTreeMap<String, &RawValue>| parse(values.get(name)?.get(), data_type);
        let nulls = self.null_count.get(name).and_then(|n| n.get().parse().ok());
        let (min, max) = (bound(&self.min_values).map(least), bound(&self.max_values).map(greatest));
        // Default: the protocol's.
        let tight = self.tight_bounds.unwrap_or(true);
        ColumnStats { min, max, nulls: nulls.filter(|n| tight || *n == 0) }
    }
}

/// What no value is less than, of a least value as the log has it.
pub(super) fn least(min: Value) -> Value {
    match min {
        Value::Decimal { unscaled, scale } => {
            Value::Decimal { unscaled: unscaled.saturating_sub(off(unscaled)), scale }
        }
        other => other,
    }
}

/// What no value is greater than, of a greatest one: other writers cut a timestamp off at milliseconds.
pub(super) fn greatest(max: Value) -> Value {
    match max {
        Value::Timestamp(at) if at % 1000 == 0 => Value::Timestamp(at.saturating_add(999)),
        Value::Decimal { unscaled, scale } => {
            Value::Decimal { unscaled: unscaled.saturating_add(off(unscaled)), scale }
        }
        other => other,
    }
}

/// How far a decimal may be from its bound: other writers make a float of it, which is within two of the float's last
/// places. One of so few digits that floats tell them apart comes back as it was.
fn off(unscaled: i128) -> i128 {
    if unscaled.unsigned_abs() < 10_u128.pow(f64::DIGITS) {
        return 0;
    }
    (unscaled >> (f64::MANTISSA_DIGITS - 2)).saturating_abs().saturating_add(1)
}

pub(super) fn parse(json: &str, data_type: DataType) -> Option<Value> {
    let text = || serde_json::from_str::<String>(json).ok();
    Some(match data_type {
        DataType::Bool => return None,
        DataType::Float32 | DataType::Float64 => Value::Float(json.parse().ok()?),
        DataType::Decimal { scale, .. } => parse_decimal(json, scale)?,
        DataType::Date32 => Value::Date(time::parse_date(&text()?)?),
        DataType::Timestamp => Value::Timestamp(time::parse_timestamp(&text()?)?),
        DataType::Utf8 => Value::Text(Arc::from(text()?)),
        _ => Value::Int(json.parse().ok()?),
    })
}

/// A number without an exponent, of at most `scale` digits behind the point.
fn parse_decimal(json: &str, scale: u8) -> Option<Value> {
    let (whole, fraction) = json.split_once('.').unwrap_or((json, ""));
    let zeros = usize::from(scale).checked_sub(fraction.len())?;
    let unscaled = format!("{whole}{fraction}{}", "0".repeat(zeros)).parse().ok()?;
    Some(Value::Decimal { unscaled, scale })
}

/// The same statistics for a file of which rows are deleted: the bounds hold and may not be reached.
pub(crate) fn wide_stats(stats: Option<&str>, rows: u64) -> Result<String> {
    let written = |e: serde_json::Error| StorageError::corrupt("statistics", e);
    let mut stats: BTreeMap<String, &RawValue> =
        serde_json::from_str(stats.unwrap_or("{}")).map_err(written)?;
    let rows = RawValue::from_string(rows.to_string()).map_err(written)?;
    let wide = RawValue::from_string("false".into()).map_err(written)?;
    stats.insert("numRecords".into(), &rows);
    stats.insert("tightBounds".into(), &wide);
    serde_json::to_string(&stats).map_err(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(value: Value, data_type: DataType) {
        let json = json(&value, data_type, true).unwrap();
        assert_eq!(parse(&json, data_type), Some(value), "{json}");
    }

    #[test]
    fn bounds_come_back() {
        round_trip(Value::Int(-7), DataType::Int8);
        round_trip(Value::Int(i128::from(u64::MAX)), DataType::UInt64);
        round_trip(Value::Float(f64::from(0.1f32)), DataType::Float64);
        round_trip(Value::Date(*DATES.start()), DataType::Date32);
        round_trip(Value::Date(*DATES.end()), DataType::Date32);
        round_trip(Value::Timestamp(*TIMESTAMPS.start()), DataType::Timestamp);
        round_trip(Value::Timestamp(*TIMESTAMPS.end()), DataType::Timestamp);
        round_trip(Value::Timestamp(-1), DataType::Timestamp);
        round_trip(Value::Text("a\"b\u{7}é".into()), DataType::Utf8);
        for unscaled in [0, 5, -5, 99, -100, 123_456_789_012_345_678] {
            for scale in [0, 1, 2, 18] {
                let data_type = DataType::Decimal { precision: 18, scale };
                round_trip(Value::Decimal { unscaled, scale }, data_type);
            }
        }
    }

    #[test]
    fn what_other_readers_cannot_name_has_no_bounds() {
        for days in [i32::MIN, DATES.start() - 1, DATES.end() + 1, i32::MAX] {
            assert_eq!(json(&Value::Date(days), DataType::Date32, true), None, "{days}");
        }
        for micros in [i64::MIN, TIMESTAMPS.start() - 1, TIMESTAMPS.end() + 1, i64::MAX] {
            assert_eq!(json(&Value::Timestamp(micros), DataType::Timestamp, true), None, "{micros}");
        }
        for float in [f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(json(&Value::Float(float), DataType::Float64, true), None, "{float}");
        }
    }

    #[test]
    fn decimals_that_went_through_floats_are_within_their_bounds() {
        for scale in [0, 1, 2, 5, 17] {
            let data_type = DataType::Decimal { precision: 18, scale };
            let mut unscaled = 7_i128;
            for step in 0..4000 {
                unscaled = (unscaled * 48_271 + step) % 1_000_000_000_000_000_000;
                for value in [unscaled, -unscaled, unscaled / 1000] {
                    #[allow(clippy::cast_precision_loss, reason = "as other writers do it")]
                    let float = value as f64 / 10_f64.powi(i32::from(scale));
                    let said = serde_json::Value::from(float).to_string();
                    let stats = format!(r#"{{"minValues":{{"a":{said}}},"maxValues":{{"a":{said}}}}}"#);
                    let column = columns_stats(Some(&stats), [("a", data_type)].into_iter());
                    let ColumnStats { min, max, .. } = column[0].clone();
                    // What is written with an exponent, or with more digits than the column has, is no bound.
                    let (Some(min), Some(max)) = (min, max) else { continue };
                    let value = Value::Decimal { unscaled: value, scale };
                    let is_within = compare(&min, &value).is_some_and(std::cmp::Ordering::is_le)
                        && compare(&max, &value).is_some_and(std::cmp::Ordering::is_ge);
                    assert!(is_within, "{value:?} {said}");
                }
            }
        }
        let bounds = |stats: &str, scale| {
            let data_type = DataType::Decimal { precision: 18, scale };
            let column = columns_stats(Some(stats), [("a", data_type)].into_iter())[0].clone();
            [column.min, column.max].map(|bound| match bound {
                Some(Value::Decimal { unscaled, .. }) => unscaled,
                other => panic!("{other:?}"),
            })
        };
        // Those of few digits are as they are said, and those of many are a little farther apart.
        let few = r#"{"minValues":{"a":-9999999999999.99},"maxValues":{"a":12.3}}"#;
        assert_eq!(bounds(few, 2), [-999_999_999_999_999, 1230]);
        let many = r#"{"minValues":{"a":-9007199254740992.0},"maxValues":{"a":9007199254740992.0}}"#;
        let [min, max] = bounds(many, 2);
        assert!((-900_719_925_474_099_700..-900_719_925_474_099_299).contains(&min), "{min}");
        assert!((900_719_925_474_099_299..900_719_925_474_099_700).contains(&max), "{max}");
    }

    #[test]
    fn booleans_have_bounds_in_the_log_alone() {
        let chunk = |min, max, nulls| {
            of_chunk(&Statistics::boolean(min, max, None, Some(nulls), false), 3, DataType::Bool)
        };
        let said = |column: &ColumnStats| {
            let bound = |value: &Option<Value>, greatest| json(value.as_ref()?, DataType::Bool, greatest);
            (bound(&column.min, false), bound(&column.max, true))
        };
        let text = |min: &str, max: &str| (Some(min.to_owned()), Some(max.to_owned()));
        let (no, yes) = (chunk(Some(false), Some(false), 0), chunk(Some(true), Some(true), 1));
        assert_eq!(said(&no), text("false", "false"));
        assert_eq!(said(&merge(no.clone(), yes.clone())), text("false", "true"));
        let nulls = chunk(None, None, 3);
        assert_eq!(said(&nulls), (None, None));
        assert_eq!(said(&merge(nulls, yes)), text("true", "true"));
        let stats = r#"{"numRecords":3,"minValues":{"a":false},"maxValues":{"a":true},"nullCount":{"a":1}}"#;
        let column = columns_stats(Some(stats), [("a", DataType::Bool)].into_iter())[0].clone();
        assert_eq!(column, ColumnStats { min: None, max: None, nulls: Some(1) });
    }

    #[test]
    fn long_texts_are_cut_to_bounds() {
        let long: Arc<str> = "é".repeat(40).into();
        let cut = |greatest| json(&Value::Text(Arc::clone(&long)), DataType::Utf8, greatest).unwrap();
        assert_eq!(cut(false), format!("{:?}", "é".repeat(32)));
        assert!(*serde_json::from_str::<String>(&cut(true)).unwrap() > *long);
        let top: Arc<str> = format!("{}{}", "a".repeat(32), char::MAX).into();
        assert_eq!(json(&Value::Text(top), DataType::Utf8, true), None);
    }

    #[test]
    fn wrong_statistics_say_nothing() {
        for stats in ["", "[]", "{\"minValues\":7}", "{\"minValues\":{\"a\":{}}}"] {
            let columns = columns_stats(Some(stats), [("a", DataType::Int64)].into_iter());
            assert!(columns.iter().all(|c| *c == ColumnStats::default()), "{stats}");
        }
        assert_eq!(num_records("{\"numRecords\":3,\"minValues\":{\"a\":{\"b\":1}}}").unwrap(), Some(3));
        assert!(num_records("{\"numRecords\":-3}").is_err());
    }
}
