//! The tables of nycflights13 from their CSV files.

use std::{env, error::Error, path::PathBuf, sync::Arc};

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use basalt_core::time::parse_timestamp;

use super::Table;

/// The tables that are worth measuring.
const NAMES: [&str; 3] = ["flights", "weather", "planes"];

/// The tables; none where the files were not fetched.
///
/// # Errors
/// Where a file is not the CSV that it should be.
pub fn tables() -> Result<Vec<Table>, Box<dyn Error>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../testdata");
    let folder = env::var_os("BASALT_TESTDATA").map_or(root, PathBuf::from).join("nycflights13");
    let paths = NAMES.map(|name| (name, folder.join(name).with_extension("csv")));
    let tables = paths.into_iter().filter(|(_, path)| path.exists()).map(|(name, path)| {
        let batch = read(csv::Reader::from_path(path)?)?;
        let rows = batch.num_rows() as u64;
        Ok(Table { name: name.to_owned(), rows, batches: Box::new(std::iter::once(Ok(batch))) })
    });
    tables.collect()
}

fn read(mut csv: csv::Reader<std::fs::File>) -> Result<RecordBatch, Box<dyn Error>> {
    let names = csv.headers()?.clone();
    let mut columns: Vec<Vec<Option<String>>> = vec![Vec::new(); names.len()];
    let mut record = csv::StringRecord::new();
    while csv.read_record(&mut record)? {
        for (column, field) in columns.iter_mut().zip(&record) {
            column.push((!["", "NA"].contains(&field)).then(|| field.to_owned()));
        }
    }
    let arrays = names.iter().zip(&columns).map(|(name, column)| (name, array(column)));
    Ok(RecordBatch::try_from_iter(arrays)?)
}

/// The fields as the narrowest of integers, floats, timestamps and texts that holds them all.
fn array(fields: &[Option<String>]) -> ArrayRef {
    fn parsed<T>(fields: &[Option<String>], parse: impl Fn(&str) -> Option<T>) -> Option<Vec<Option<T>>> {
        let value =
            |field: &Option<String>| field.as_deref().map_or(Some(None), |field| parse(field).map(Some));
        fields.iter().map(value).collect()
    }
    if let Some(values) = parsed(fields, |field| field.parse().ok()) {
        Arc::new(Int64Array::from(values))
    } else if let Some(values) = parsed(fields, |field| field.parse().ok()) {
        Arc::new(Float64Array::from(values))
    } else if let Some(values) = parsed(fields, parse_timestamp) {
        Arc::new(TimestampMicrosecondArray::from(values))
    } else {
        Arc::new(StringArray::from_iter(fields.iter().map(Option::as_deref)))
    }
}
