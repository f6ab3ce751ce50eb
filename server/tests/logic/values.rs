//! Values as the files write them, and when an answer is the expected one.

use arrow_array::{
    Array, RecordBatch,
    cast::AsArray as _,
    types::{Float32Type, Float64Type},
};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;
use sqllogictest::SortMode;

/// The rows of an answer, as text.
pub(crate) fn rows(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<Vec<String>> = batch.columns().iter().map(|column| texts(column)).collect();
        rows.extend(
            (0..batch.num_rows()).map(|row| columns.iter().map(|column| column[row].clone()).collect()),
        );
    }
    rows
}

fn texts(column: &dyn Array) -> Vec<String> {
    let options = FormatOptions::default()
        .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f"))
        .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"));
    let formatter = ArrayFormatter::try_new(column, &options).unwrap();
    let text = |row: usize| {
        let text = match column.data_type() {
            // With a point, or it would be compared as a whole number.
            DataType::Float64 => format!("{:?}", column.as_primitive::<Float64Type>().value(row)),
            DataType::Float32 => format!("{:?}", column.as_primitive::<Float32Type>().value(row)),
            // Without zeros at its end.
            DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_) => {
                let text = formatter.value(row).to_string();
                if text.contains('.') { text.trim_end_matches('0').to_owned() } else { text }
            }
            _ => formatter.value(row).to_string(),
        };
        if text.is_empty() { "(empty)".to_owned() } else { text }
    };
    (0..column.len()).map(|row| if column.is_null(row) { "NULL".to_owned() } else { text(row) }).collect()
}

/// Whether rows are those that a file expects. Where a file has but a hash, their number is compared.
pub(crate) fn agree(
    actual: &[Vec<String>],
    expected: &[String],
    columns: usize,
    sort: Option<SortMode>,
) -> bool {
    agree_by(actual, expected, columns, sort, |_, _| false)
}

/// How many rows a file expects.
pub(crate) fn number_of_rows(expected: &[String], width: usize) -> usize {
    let by_rows = expected.iter().all(|line| line.split('\t').count() == width);
    if by_rows { expected.len() } else { expected.len() / width.max(1) }
}

/// Whether so many rows as a file expects, and those that it expects, are among others.
pub(crate) fn are_among(actual: &[Vec<String>], expected: &[String], all: &[Vec<String>]) -> bool {
    let width = actual.first().map_or(1, Vec::len);
    let expected: Vec<Vec<String>> = match expected.len() == actual.len() {
        true => expected.iter().map(|line| parted(line, width)).collect(),
        false => expected.chunks(width).map(<[String]>::to_vec).collect(),
    };
    let among = |rows: &[Vec<String>]| {
        let mut left: Vec<&Vec<String>> = all.iter().collect();
        rows.iter().all(|row| {
            let found = left.iter().position(|other| {
                same_rows(std::slice::from_ref(*other), std::slice::from_ref(row), |_, _| false)
            });
            found.map(|at| left.swap_remove(at)).is_some()
        })
    };
    actual.len() == expected.len() && among(actual) && among(&expected)
}

/// The same, where values may also differ in a way.
pub(crate) fn agree_by(
    actual: &[Vec<String>],
    expected: &[String],
    columns: usize,
    sort: Option<SortMode>,
    related: fn(&str, &str) -> bool,
) -> bool {
    if let [only] = expected
        && let Some((number, _)) = only.split_once(" values hashing to ")
    {
        let values: usize = actual.iter().map(Vec::len).sum();
        return number.parse() == Ok(values);
    }
    let mut actual = actual.to_vec();
    let width = actual.first().map_or(columns, Vec::len);
    let by_rows = expected.len() == actual.len();
    let mut expected: Vec<Vec<String>> = match by_rows && width > 1 {
        true => expected.iter().map(|line| parted(line, width)).collect(),
        false => expected.chunks(width.max(1)).map(<[String]>::to_vec).collect(),
    };
    // Files of other origin part their values by spaces.
    if by_rows && width > 1 && expected.iter().all(|row| row.len() == 1) {
        let spaced = |row: &Vec<String>| row[0].split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let parted: Vec<_> = expected.iter().map(spaced).collect();
        if parted.iter().all(|row| row.len() == width) {
            expected = parted;
        }
    }
    match sort {
        Some(SortMode::RowSort) => {
            actual.sort();
            expected.sort();
        }
        Some(SortMode::ValueSort) => {
            let single = |rows: Vec<Vec<String>>| {
                let mut values: Vec<Vec<String>> =
                    rows.into_iter().flatten().map(|value| vec![value]).collect();
                values.sort();
                values
            };
            (actual, expected) = (single(actual), single(expected));
        }
        _ => {}
    }
    if same_rows(&actual, &expected, related) {
        return true;
    }
    if sort.is_none_or(|sort| sort == SortMode::NoSort) {
        return false;
    }
    // Written in another way they are sorted in another way.
    let key = |row: &Vec<String>| row.iter().map(|value| canonical(value)).collect::<Vec<_>>();
    actual.sort_by_key(key);
    expected.sort_by_key(key);
    same_rows(&actual, &expected, related)
}

/// The values of a line, between which there are tabs; some files have more than one there.
fn parted(line: &str, width: usize) -> Vec<String> {
    let values: Vec<String> = line.split('\t').map(str::to_owned).collect();
    match values.len() == width {
        true => values,
        false => values.into_iter().filter(|value| !value.is_empty()).collect(),
    }
}

fn same_rows(actual: &[Vec<String>], expected: &[Vec<String>], related: impl Fn(&str, &str) -> bool) -> bool {
    actual.len() == expected.len()
        && actual.iter().zip(expected).all(|(actual, expected)| {
            actual.len() == expected.len()
                && actual
                    .iter()
                    .zip(expected)
                    .all(|(actual, expected)| same(actual, expected) || related(actual, expected))
        })
}

/// A form in which the spellings of one value are the same, as far as that is simple.
fn canonical(value: &str) -> String {
    let value = value.trim();
    match value.to_lowercase().as_str() {
        "true" => return canonical("1"),
        "false" => return canonical("0"),
        _ => {}
    }
    match value.parse::<f64>() {
        Ok(number) if number.is_finite() => format!("{number:.6e}"),
        Ok(number) => number.to_string(),
        Err(_) => value.to_owned(),
    }
}

fn same(actual: &str, expected: &str) -> bool {
    let (actual, expected) = (actual.trim(), expected.trim());
    if actual == expected {
        return true;
    }
    if let Some(pattern) = expected.strip_prefix("<REGEX>:") {
        return regex::Regex::new(&format!("(?s)^(?:{pattern})$")).is_ok_and(|regex| regex.is_match(actual));
    }
    if let Some(pattern) = expected.strip_prefix("<!REGEX>:") {
        return regex::Regex::new(&format!("(?s)^(?:{pattern})$")).is_ok_and(|regex| !regex.is_match(actual));
    }
    let is_bool = |text: &str| text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false");
    if is_bool(actual) || is_bool(expected) {
        return canonical(actual) == canonical(expected);
    }
    // Whole numbers are compared exactly.
    if let (Ok(a), Ok(b)) = (actual.parse::<i128>(), expected.parse::<i128>()) {
        return a == b;
    }
    match (actual.parse::<f64>(), expected.parse::<f64>()) {
        (Ok(a), Ok(b)) if a.is_nan() || b.is_nan() => a.is_nan() && b.is_nan(),
        // A file that writes so many decimals has rounded, or cut, to them.
        (Ok(a), Ok(b)) if is_cut(expected) && (a - b).abs() < unit(expected) => true,
        // What is next to nothing is written by the files as something else that is.
        (Ok(a), Ok(b)) => {
            a == b || (a - b).abs() <= 1e-5 * a.abs().max(b.abs()) || a.abs().max(b.abs()) < 1e-20
        }
        _ => {
            let utc = |text: &str| text.strip_suffix("+00").unwrap_or(text).to_owned();
            utc(actual) == utc(expected) || listed(actual) == listed(expected)
        }
    }
}

/// Whether a number has four decimals or more, and no exponent.
fn is_cut(text: &str) -> bool {
    let decimals = text.split_once('.').map_or("", |(_, decimals)| decimals);
    decimals.len() >= 4 && decimals.bytes().all(|byte| byte.is_ascii_digit())
}

/// One of the last decimal of a number.
fn unit(text: &str) -> f64 {
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    10_f64.powi(-i32::try_from(decimals).unwrap_or(i32::MAX))
}

/// A list, a struct or a map, without what only says how its values are written.
fn listed(text: &str) -> String {
    if !text.starts_with(['[', '{']) {
        return text.to_owned();
    }
    let plain = text.replace(['"', '\''], "").replace(", ", ",").replace(": ", ":");
    plain.replace("(empty)", "").to_lowercase()
}
