//! What memory holds of a data file's statistics: the bounds of each column as two numbers, and what these do not say.
//!
//! Every version of a table that is read has those of all of its files, so they take few bytes: of a column of whole
//! numbers sixteen, and three for what its bounds do not say. The text that the log has is made of them again where it
//! is needed, for a checkpoint or another entry of the log; where it would be another, it is kept.

use std::{fmt::Write as _, sync::Arc};

use basalt_core::{keys::Native, schema::DataType, value::Value};

use super::bounds::{Bounds, UNKNOWN};
use super::stats::{ColumnStats, Stats, greatest, json, least, parse, quoted, stats_type};
use crate::schema::TableSchema;

/// A value that is the bound.
const BOUND: &str = "";
/// A greatest timestamp whose microseconds the log leaves out.
const BOUND_IN_MILLIS: &str = "+";
/// A value that is not there.
const ABSENT: &str = "-";
/// What stands behind each value; no JSON that was written for one line has it.
const SEPARATOR: char = '\n';

/// What the log says of the columns of a data file.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Summary {
    /// The schema by which it was read; `None`: it was not read yet.
    schema: Option<Arc<TableSchema>>,
    /// Of each column that keeps the order of its type.
    bounds: Bounds,
    form: Form,
}

#[derive(Debug, Default, PartialEq)]
enum Form {
    /// Nothing is said.
    #[default]
    Nothing,
    /// The text that the log has.
    Text(Box<str>),
    /// For each column the least value, the greatest and the number of nulls, as the text has them, where the bounds do not say
    /// them. The text is as this crate writes it.
    Values {
        rows: u64,
        values: Box<str>,
        /// Rows were deleted since it was written.
        wide: bool,
    },
}

impl Summary {
    /// Of the statistics of an `add`. Without a schema they are kept as they are.
    pub(crate) fn new(stats: Option<String>, schema: Option<&Arc<TableSchema>>) -> Self {
        let (Some(text), Some(schema)) = (&stats, schema) else {
            // Default: nothing is said.
            let form = stats.map_or(Form::Nothing, |text| Form::Text(text.into()));
            return Self { schema: schema.cloned(), bounds: Bounds::default(), form };
        };
        let schema_known = Some(Arc::clone(schema));
        let Ok(parsed) = serde_json::from_str::<Stats<'_>>(text) else {
            return Self {
                schema: schema_known,
                bounds: Bounds::default(),
                form: Form::Text(text.as_str().into()),
            };
        };
        let is_said = |(name, _): (&str, DataType)| {
            [&parsed.min_values, &parsed.max_values, &parsed.null_count]
                .iter()
                .any(|said| said.contains_key(name))
        };
        // Of wide tables not all columns have statistics.
        let said =
            columns(schema).enumerate().filter(|(_, column)| is_said(*column)).map(|(i, _)| i + 1).last();
        // Default: no column has any.
        let columns = columns(schema).take(said.unwrap_or(0));
        let bounds =
            columns.clone().map(|(name, data_type)| bounds_of(&parsed.column(name, data_type), data_type));
        let mut summary =
            Self { schema: schema_known, bounds: Bounds::new(bounds.collect()), form: Form::Nothing };
        if let Some(rows) = parsed.num_records {
            let mut values = String::new();
            for ((name, data_type), bounds) in columns.zip(summary.bounds.as_slice()) {
                parsed.push(&mut values, name, data_type, *bounds);
            }
            values.shrink_to_fit();
            let wide = parsed.tight_bounds == Some(false);
            summary.form = Form::Values { rows, values: values.into(), wide };
        }
        // Another writer may say more, or the same in another way.
        if summary.to_stats().as_ref() != Some(text) {
            summary.form = Form::Text(text.as_str().into());
        }
        summary
    }

    /// The statistics as the log has them.
    pub(crate) fn to_stats(&self) -> Option<String> {
        let (rows, values, wide) = match &self.form {
            Form::Nothing => return None,
            Form::Text(text) => return Some(text.to_string()),
            Form::Values { rows, values, wide } => (rows, values, wide),
        };
        let schema = self.schema.as_ref()?;
        let mut objects = [String::new(), String::new(), String::new()];
        let mut tokens = values.split(SEPARATOR);
        for ((name, data_type), bounds) in columns(schema).zip(self.bounds.as_slice()) {
            let name = quoted(name);
            for (i, object) in objects.iter_mut().enumerate() {
                let token = tokens.next()?;
                let comma = if object.is_empty() { "" } else { "," };
                let _ = match token {
                    ABSENT => continue,
                    BOUND if i == 2 => write!(object, "{comma}{name}:0"),
                    BOUND | BOUND_IN_MILLIS => {
                        write!(object, "{comma}{name}:{}", text_of(*bounds, data_type, i == 1, token)?)
                    }
                    token => write!(object, "{comma}{name}:{token}"),
                };
            }
        }
        let [min, max, nulls] = objects;
        Some(match wide {
            false => format!(
                r#"{{"numRecords":{rows},"minValues":{{{min}}},"maxValues":{{{max}}},"nullCount":{{{nulls}}}}}"#
            ),
            true => format!(
                r#"{{"maxValues":{{{max}}},"minValues":{{{min}}},"nullCount":{{{nulls}}},"numRecords":{rows},"tightBounds":false}}"#
            ),
        })
    }

    /// Whether it was read by a schema.
    pub(crate) fn is_by(&self, schema: &Arc<TableSchema>) -> bool {
        self.schema.as_ref().is_some_and(|own| Arc::ptr_eq(own, schema))
    }

    /// The bounds of its columns, as far as they are known and all readers order their values in the same way.
    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Takes the same bounds from another piece of memory.
    pub(crate) fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// What is known of a column.
    pub(crate) fn column(&self, column: usize) -> ColumnStats {
        let known = || {
            let schema = self.schema.as_ref()?;
            let (name, data_type) = columns(schema).nth(column)?;
            let (values, wide) = match &self.form {
                Form::Nothing => return None,
                Form::Text(text) => {
                    return serde_json::from_str::<Stats<'_>>(text)
                        .ok()
                        .map(|stats| stats.column(name, data_type));
                }
                Form::Values { values, wide, .. } => (values, wide),
            };
            let mut tokens = values.split(SEPARATOR).skip(3 * column);
            let (min, max, nulls) = (tokens.next()?, tokens.next()?, tokens.next()?);
            let bounds = self.bounds.as_slice().get(column)?;
            let min = match min {
                ABSENT => None,
                BOUND => Some(Value::from_key(bounds.0, data_type)),
                token => parse(token, data_type).map(least),
            };
            let max = match max {
                ABSENT => None,
                BOUND | BOUND_IN_MILLIS => Some(Value::from_key(bounds.1, data_type)),
                token => parse(token, data_type).map(greatest),
            };
            let nulls = match nulls {
                ABSENT => None,
                BOUND => Some(0),
                token => token.parse().ok().filter(|n| !wide || *n == 0),
            };
            Some(ColumnStats { min, max, nulls })
        };
        // Default: of a file without statistics nothing is known.
        known().unwrap_or_default()
    }

    /// Bytes that the bounds take.
    pub(crate) fn bounds_bytes(&self) -> usize {
        size_of_val(self.bounds.as_slice())
    }

    /// Bytes that it takes beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        let text = match &self.form {
            Form::Nothing => 0,
            Form::Text(text) | Form::Values { values: text, .. } => text.len(),
        };
        self.bounds_bytes() + text
    }
}

fn columns(schema: &TableSchema) -> impl Iterator<Item = (&str, DataType)> + Clone {
    let types = schema.schema.fields().iter().map(stats_type);
    schema.physical.iter().map(String::as_str).zip(types)
}

/// The bounds of a column. Formats do not agree on NaN and on the sign of zero, so floats have none.
fn bounds_of(stats: &ColumnStats, data_type: DataType) -> (i64, i64) {
    let known = || {
        let native = Native::of(data_type).filter(|native| !matches!(native, Native::F32 | Native::F64))?;
        stats.min.as_ref()?.to_key(native).zip(stats.max.as_ref()?.to_key(native))
    };
    // Default: they are not known.
    known().unwrap_or(UNKNOWN)
}

/// A bound as the log has it.
fn text_of(bounds: (i64, i64), data_type: DataType, greatest: bool, token: &str) -> Option<String> {
    let key = if greatest { bounds.1 } else { bounds.0 };
    let key = if token == BOUND_IN_MILLIS { key.checked_sub(999)? } else { key };
    json(&Value::from_key(key, data_type), data_type, greatest)
}

impl Stats<'_> {
    /// Writes what is known of a column behind its bounds.
    fn push(&self, out: &mut String, name: &str, data_type: DataType, bounds: (i64, i64)) {
        let is_bound = |text: &str, greatest: bool, token: &str| {
            bounds != UNKNOWN && text_of(bounds, data_type, greatest, token).as_deref() == Some(text)
        };
        for i in 0..3 {
            let values = [&self.min_values, &self.max_values, &self.null_count][i];
            let token = match values.get(name).map(|value| value.get()) {
                None => ABSENT,
                Some("0") if i == 2 => BOUND,
                Some(text) if i < 2 && is_bound(text, i == 1, BOUND) => BOUND,
                Some(text)
                    if i == 1
                        && data_type == DataType::Timestamp
                        && is_bound(text, true, BOUND_IN_MILLIS) =>
                {
                    BOUND_IN_MILLIS
                }
                Some(text) => text,
            };
            out.push_str(token);
            out.push(SEPARATOR);
        }
    }
}

#[cfg(test)]
mod tests {
    use basalt_core::schema::{Field, Schema};

    use super::*;
    use crate::data::{columns_stats, wide_stats};

    fn schema(types: &[(&str, DataType)]) -> Arc<TableSchema> {
        let fields = types.iter().map(|(name, data_type)| Field::new(*name, *data_type, true)).collect();
        let schema = Arc::new(Schema::new(fields).unwrap());
        let text = crate::schema::to_delta(&schema).unwrap();
        Arc::new(TableSchema::parse(&text, crate::schema::Mapping::Name).unwrap())
    }

    const COLUMNS: [(&str, DataType); 8] = [
        ("id", DataType::Int64),
        ("at", DataType::Timestamp),
        ("day", DataType::Date32),
        ("price", DataType::Decimal { precision: 18, scale: 2 }),
        ("share", DataType::Float64),
        ("name", DataType::Utf8),
        ("big", DataType::Int64),
        ("none", DataType::Int32),
    ];
    const STATS: &str = r#"{"numRecords":7,"minValues":{"id":-5,"at":"2024-01-01T00:00:00.000001Z","day":"2024-01-01","price":-0.05,"share":0.25,"name":"a \"b\""},"maxValues":{"id":99,"at":"2024-01-02T00:00:00.000000Z","day":"2024-02-01","price":12.00,"share":1e300,"name":"z"},"nullCount":{"id":0,"at":0,"day":3,"price":0,"share":0,"name":0,"none":7}}"#;

    fn check(text: &str, in_few_bytes: bool) {
        let schema = schema(&COLUMNS);
        let summary = Summary::new(Some(text.to_owned()), Some(&schema));
        assert_eq!(summary.to_stats().as_deref(), Some(text));
        assert_eq!(matches!(summary.form, Form::Values { .. }), in_few_bytes, "{text}");
        let expected = columns_stats(Some(text), COLUMNS.into_iter());
        for (column, (name, data_type)) in COLUMNS.into_iter().enumerate() {
            // Default: nothing is known of text that is no statistics.
            let expected = expected.get(column).cloned().unwrap_or_default();
            assert_eq!(summary.column(column), expected, "{name} of {text}");
            let bounds = bounds_of(&expected, data_type);
            assert_eq!(
                summary.bounds().get(column),
                (bounds != UNKNOWN).then_some(bounds),
                "{name} of {text}"
            );
        }
        assert_eq!(summary.column(COLUMNS.len()), ColumnStats::default());
    }

    #[test]
    fn what_the_log_says_comes_back() {
        // The timestamps are as this crate writes them, and so is the rest.
        let ours = STATS
            .replace(
                "2024-01-01T00:00:00.000001Z",
                &text_of((1_704_067_200_000_001, 0), DataType::Timestamp, false, BOUND)
                    .unwrap()
                    .replace('"', ""),
            )
            .replace(
                "2024-01-02T00:00:00.000000Z",
                &text_of((0, 1_704_153_600_000_000), DataType::Timestamp, true, BOUND)
                    .unwrap()
                    .replace('"', ""),
            );
        check(&ours, true);
        check(&wide_stats(Some(&ours), 7).unwrap(), true);
        check(r#"{"numRecords":0,"minValues":{},"maxValues":{},"nullCount":{}}"#, true);
        let bytes = Summary::new(Some(ours.clone()), Some(&schema(&COLUMNS))).heap_bytes();
        assert!(bytes < 16 * COLUMNS.len() + 90, "{bytes}");
    }

    #[test]
    fn booleans_are_said_as_they_were() {
        let schema = schema(&[("a", DataType::Bool), ("n", DataType::Int64)]);
        let text = r#"{"numRecords":3,"minValues":{"a":false,"n":1},"maxValues":{"a":true,"n":2},"nullCount":{"a":1,"n":0}}"#;
        let summary = Summary::new(Some(text.to_owned()), Some(&schema));
        assert!(matches!(summary.form, Form::Values { .. }));
        assert_eq!(summary.to_stats().as_deref(), Some(text));
        assert_eq!(summary.column(0), ColumnStats { min: None, max: None, nulls: Some(1) });
        assert_eq!((summary.bounds().get(0), summary.bounds().get(1)), (None, Some((1, 2))));
    }

    #[test]
    fn what_others_say_in_their_way_is_kept() {
        for text in [
            r#"{"numRecords": 7, "minValues": {"id": 1}, "maxValues": {"id": 2}, "nullCount": {"id": 0}}"#,
            r#"{"numRecords":7,"minValues":{"id":1,"other":{"a":1}},"maxValues":{"id":2},"nullCount":{"id":0}}"#,
            r#"{"numRecords":7,"minValues":{"big":1,"id":1},"maxValues":{},"nullCount":{}}"#,
            r#"{"minValues":{"id":1},"maxValues":{"id":2},"nullCount":{"id":0}}"#,
            "{\"numRecords\":7,\"minValues\":{\"id\":{\n}},\"maxValues\":{},\"nullCount\":{}}",
            r#"{"numRecords":7,"tightBounds":true}"#,
            "[]",
            "",
        ] {
            check(text, false);
        }
        // Values that no column of the type has.
        check(
            r#"{"numRecords":7,"minValues":{"id":"x","none":99999999999},"maxValues":{"id":3,"none":1e3},"nullCount":{"id":-1}}"#,
            true,
        );
        // Decimals of many digits, which went through floats.
        check(
            r#"{"numRecords":7,"minValues":{"price":-9007199254740992.0},"maxValues":{"price":9007199254740992.0},"nullCount":{"price":0}}"#,
            true,
        );
        assert_eq!(Summary::new(None, Some(&schema(&COLUMNS))).to_stats(), None);
    }
}
