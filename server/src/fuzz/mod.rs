//! What the fuzz targets of the server do with an input; `fuzz/README.md` lists them. A unit test runs them over the kept
//! corpus, so that they go on to pass where nobody fuzzes.
//!
//! A target panics where a door would do what it must not. Errors are what hostile inputs come to.

#![allow(clippy::expect_used, reason = "a target fails by panicking")]

mod doors;
mod requests;
mod rows;
mod script;
mod seeds;
#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use basalt_core::{
    logical::Logical,
    schema::{DataType, Field, Reference, Schema},
    table::{Appender, Catalog, Snapshot, Table},
};

pub use seeds::seeds;

use crate::{convert::BatchReader, http::read::Decoder, memory::MemoryPool, sets::Sets};

/// Bytes that a target may allocate at once: so many for each byte of the input, and so many besides.
pub type Bound = (usize, usize);

/// The name of a target, what it does, and what it may take.
pub type Target = (&'static str, fn(&[u8]), Bound);

/// All of them.
pub const TARGETS: &[Target] = &[
    ("query", requests::query, (64, 96 << 20)),
    ("task", requests::task, (64, 96 << 20)),
    ("part", requests::part, (64, 96 << 20)),
    ("message", requests::message, (64, 16 << 20)),
    ("batch", rows::batch, (64, 32 << 20)),
    ("csv_rows", rows::csv, (64, 32 << 20)),
    ("json_rows", rows::json, (64, 32 << 20)),
    ("arrow_rows", rows::arrow, (64, 32 << 20)),
    ("parquet_rows", rows::parquet, (64, 256 << 20)),
    ("cache_file", rows::cache_file, (64, 8 << 20)),
    ("http", doors::http, (64, 64 << 20)),
    #[cfg(feature = "sql")]
    ("postgres", doors::postgres, (64, 64 << 20)),
    #[cfg(feature = "sql")]
    ("statement", doors::statement, (64, 256 << 20)),
];

/// Tables that the targets ask.
struct Tables {
    catalog: Catalog,
    /// A column of each type, and one that refers to the other table.
    all: Arc<Table>,
    snapshot: Arc<Snapshot>,
    sets: Sets,
}

/// The columns of [`Tables::all`].
fn fields() -> Vec<Field> {
    let kinds = DataType::KINDS.iter().map(|kind| (kind.to_string(), *kind, None));
    let logical = [Logical::Decimal { precision: 30, scale: 3 }, Logical::Binary, Logical::Time];
    let logical = logical.iter().map(|logical| (logical.to_string(), logical.form(), Some(*logical)));
    let name = |name: String| name.split('(').next().unwrap_or_default().to_owned();
    let field = |(i, (text, data_type, logical)): (usize, (String, DataType, Option<Logical>))| Field {
        logical,
        // Two are decimals.
        ..Field::new(if logical.is_some() { format!("l{i}") } else { name(text) }, data_type, true)
    };
    let mut fields: Vec<Field> = kinds.chain(logical).enumerate().map(field).collect();
    let references = Some(Reference { table: "u".to_owned(), column: "k".to_owned() });
    fields.push(Field { references, ..Field::new("u", DataType::Int32, true) });
    fields
}

/// What a cell of a column of a type says at a row.
fn cell(field: &Field, row: u32) -> String {
    if row % 7 == 3 && field.name != "k" {
        return String::new();
    }
    let n = row * row % 101;
    match (field.logical, field.data_type) {
        (Some(Logical::Time), _) => format!("10:{:02}:{:02}.5", n % 60, row % 60),
        (Some(Logical::Binary), _) => format!("{:02x}", n % 5),
        (Some(Logical::Decimal { .. }), _) => format!("{n}.5"),
        (_, DataType::Bool) => n.is_multiple_of(2).to_string(),
        (_, DataType::Float32 | DataType::Float64) => match row {
            5 => "NaN".to_owned(),
            6 => "-0.0".to_owned(),
            _ => format!("{}.25", i64::from(n) - 50),
        },
        (_, DataType::Date32) => format!("20{:02}-01-02", n % 100),
        (_, DataType::Timestamp) => format!("20{:02}-01-02T03:04:05Z", n % 100),
        (_, DataType::Utf8) => format!("text {n}"),
        _ if field.name == "u" || field.name == "k" => (row % 50).to_string(),
        _ => n.to_string(),
    }
}

/// A table with rows.
fn table(catalog: &Catalog, name: &str, fields: Vec<Field>, rows: u32) -> Arc<Table> {
    let schema = Schema::new(fields).expect("a schema");
    let table = catalog.create(name, schema).expect("a table");
    let schema = Arc::clone(table.schema());
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name.as_str()).collect();
    let mut text = names.join(",") + "\n";
    for row in 0..rows {
        let cells: Vec<String> = schema.fields().iter().map(|field| cell(field, row)).collect();
        text += &(cells.join(",") + "\n");
    }
    let mut decoder = Decoder::new("text/csv", &schema).expect("a decoder");
    decoder.push(text.as_bytes()).expect("rows");
    decoder.finish().expect("rows");
    let reader = BatchReader::new(schema.fields());
    while let Some(batch) = decoder.next().expect("rows") {
        let mut appender = Appender::new(Arc::clone(&table), &[]).expect("a write");
        appender.push(&reader.fit(&batch, 1).expect("rows that fit")).expect("rows");
        appender.commit().expect("a commit");
    }
    table
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let catalog = Catalog::with_seed(7);
    let of_keys = vec![Field::new("k", DataType::Int32, false), Field::new("name", DataType::Utf8, true)];
    table(&catalog, "u", of_keys, 50);
    let all = table(&catalog, "t", fields(), 200);
    let snapshot = all.snapshot();
    let sets = Sets::new(1 << 20, Arc::new(MemoryPool::new(1 << 30)));
    Tables { catalog, all, snapshot, sets }
});

/// The parts of an input, each behind its length in two bytes; the last is what is left.
fn parts(mut data: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while let Some((length, rest)) = data.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (part, rest) = rest.split_at(length);
        parts.push(part);
        data = rest;
    }
    parts
}

/// The other way round.
fn joined<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut data = Vec::new();
    for part in parts {
        data.extend(u16::try_from(part.len()).unwrap_or(u16::MAX).to_le_bytes());
        data.extend_from_slice(part);
    }
    data
}
