//! The queries, DuckDB's answers to them, and when two answers are the same.

use std::{cmp::Ordering, collections::BTreeMap, fmt::Write as _};

use arrow_schema::DataType;
use basalt_client::{QueryResult, cli::output::JsonWriter};
use serde::Deserialize;
use serde_json::Value;

/// Floats may differ by this part of themselves: DuckDB adds them in another order, which rounds differently.
/// The longest sum here is of 26,115 values, each rounding is at most 2^-53 of the sum.
const TOLERANCE: f64 = 1e-9;

/// The rows of an answer.
pub(crate) type Rows = Vec<Vec<Value>>;

/// One expected answer.
#[derive(Debug, Deserialize)]
pub(crate) struct Golden {
    /// Names and kinds.
    columns: Vec<(String, String)>,
    /// Decimals and timestamps as text.
    pub(crate) rows: Rows,
}

/// The expected answers by the names of their queries.
pub(crate) fn read(golden: &str) -> BTreeMap<String, Golden> {
    serde_json::from_str(golden).unwrap()
}

/// That every query of a list gives what it should, by `check`, which says where its answer differs.
pub(crate) async fn check_all(
    list: &str,
    golden: &str,
    check: impl AsyncFn(&str, &Golden) -> Result<(), String>,
) {
    let answers = read(golden);
    let (mut report, mut failed) = (String::new(), 0);
    for (name, sql) in queries(list) {
        let Some(expected) = answers.get(&name) else { panic!("golden.json lacks {name}; run golden.py") };
        if let Err(difference) = check(&sql, expected).await {
            failed += 1;
            write!(report, "\n{name}: {difference}\n  {}\n", sql.replace('\n', "\n  ")).unwrap();
        }
    }
    assert!(failed == 0, "{failed} of {} queries differ\n{report}", answers.len());
}

/// The queries with their names, in the file's order: a line `-- name`, then SQL up to a semicolon.
pub(crate) fn queries(text: &str) -> Vec<(String, String)> {
    let mut queries = Vec::new();
    let mut name = "";
    let mut sql = String::new();
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("-- ") {
            (name, sql) = (comment, String::new());
        } else if let Some(end) = line.strip_suffix(';') {
            queries.push((name.to_owned(), format!("{sql}{end}")));
        } else {
            sql.push_str(line);
            sql.push('\n');
        }
    }
    queries
}

/// How `golden.json` calls a type.
pub(crate) fn kind(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Boolean => "bool",
        DataType::Float32 | DataType::Float64 => "float",
        DataType::Decimal128(..) => "decimal",
        DataType::Timestamp(..) => "timestamp",
        DataType::Utf8 => "text",
        data_type if data_type.is_integer() => "int",
        _ => "unexpected",
    }
}

impl Golden {
    /// Names and kinds of the columns.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&str, &str)> {
        self.columns.iter().map(|(name, kind)| (name.as_str(), kind.as_str()))
    }

    /// Where an answer differs.
    pub(crate) fn compare_answer(&self, answer: &QueryResult, ordered: bool) -> Result<(), String> {
        let fields = answer.schema.fields().iter();
        let columns: Vec<_> = fields.map(|f| (f.name().clone(), kind(f.data_type()))).collect();
        if columns.iter().map(|(name, kind)| (name.as_str(), *kind)).ne(self.columns()) {
            return Err(format!("columns {columns:?}, expected {:?}", self.columns().collect::<Vec<_>>()));
        }
        let mut json = Vec::new();
        let mut writer = JsonWriter::new(&mut json, &answer.schema).unwrap();
        answer.batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
        let objects: Vec<Value> = serde_json::from_slice(&json).map_err(|error| error.to_string())?;
        let row = |object: &Value| columns.iter().map(|(name, _)| object[name].clone()).collect();
        self.compare(objects.iter().map(row).collect(), ordered)
    }

    /// Whether `rows` are the expected ones, in their order if it was asked for.
    pub(crate) fn compare(&self, mut rows: Rows, ordered: bool) -> Result<(), String> {
        let mut expected = self.rows.clone();
        if !ordered {
            rows.sort_by(|a, b| order(a, b));
            expected.sort_by(|a, b| order(a, b));
        }
        for (i, (row, expected)) in rows.iter().zip(&expected).enumerate() {
            let same =
                self.columns.iter().zip(row.iter().zip(expected)).all(|((_, kind), (a, b))| same(kind, a, b));
            if !same {
                return Err(format!("row {i} is {row:?}, expected {expected:?}"));
            }
        }
        if rows.len() == expected.len() {
            Ok(())
        } else {
            Err(format!("{} rows, expected {}", rows.len(), expected.len()))
        }
    }
}

fn same(kind: &str, value: &Value, expected: &Value) -> bool {
    match kind {
        _ if value.is_null() || expected.is_null() => value == expected,
        "float" => match (value.as_f64(), expected.as_f64()) {
            (Some(a), Some(b)) => (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()),
            _ => false,
        },
        // Those of this test have at most 15 digits, which a float holds exactly.
        "decimal" => value.as_f64() == expected.as_str().and_then(|text| text.parse().ok()),
        _ => value == expected,
    }
}

fn order(a: &[Value], b: &[Value]) -> Ordering {
    let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok());
    let cells = |(a, b): (&Value, &Value)| match (number(a), number(b)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => a.to_string().cmp(&b.to_string()),
    };
    a.iter().zip(b).map(cells).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}
