//! The columns of tables, in fragments, as tables in Markdown.

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use arrow_select::concat::concat_batches;
use basalt_core::limits::FRAGMENT_ROWS;
use indicatif::{ProgressBar, ProgressStyle};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    errors::ParquetError,
    file::properties::WriterProperties,
};

use super::{
    Table,
    measure::{Measured, measure, share},
};
use crate::table;

/// The columns of a table by name, and its rows.
type Columns = (Vec<(String, Measured)>, usize);

/// Measures the first rows of a table, at most so many, and prints a line for each column; returns what they come to
/// together.
///
/// # Errors
/// Those of arrow and Parquet.
pub fn print_table(source: Table, most: usize) -> Result<Measured, Box<dyn std::error::Error>> {
    let name = source.name.clone();
    let (columns, rows) = measure_table(source, most)?;
    let total = total(&columns);
    let lines = columns.iter().map(|(name, column)| line(name, column)).chain([line("total", &total)]);
    let lines: Vec<_> = lines.collect();
    table::print(&format!("{name}, {} rows, bytes", table::grouped(rows)), &HEADER, &lines);
    Ok(total)
}

/// All columns together.
pub fn total(columns: &[(String, Measured)]) -> Measured {
    let mut total = Measured::default();
    columns.iter().for_each(|(_, column)| total.add(column));
    Measured { chosen: Vec::new(), smallest_names: Vec::new(), ..total }
}

/// Measures the columns of the first rows of a table, at most so many, and shows how far it is.
///
/// # Errors
/// Those of arrow and Parquet.
#[allow(clippy::unwrap_used, reason = "a constant")]
pub fn measure_table(mut source: Table, most: usize) -> Result<Columns, Box<dyn std::error::Error>> {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} rows").unwrap();
    let rows = source.rows.min(most as u64);
    let progress = ProgressBar::new(rows).with_style(style).with_message(source.name.clone());
    let mut columns: Vec<(String, Measured)> = Vec::new();
    let mut left = most;
    let mut measured_rows = 0;
    while let Some(fragment) = next_fragment(&mut source, left.min(FRAGMENT_ROWS))? {
        let parquet = parquet_bytes(&fragment)?;
        if columns.is_empty() {
            let names = fragment.schema_ref().fields().iter().map(|field| field.name().clone());
            columns = names.map(|name| (name, Measured::default())).collect();
        }
        for (place, (array, (_, sum))) in fragment.columns().iter().zip(&mut columns).enumerate() {
            sum.add(&Measured { parquet: parquet[place], ..measure(array.as_ref()) });
        }
        left -= fragment.num_rows();
        measured_rows += fragment.num_rows();
        progress.set_position(measured_rows as u64);
        if left == 0 {
            break;
        }
    }
    progress.finish_and_clear();
    Ok((columns, measured_rows))
}

/// The columns of what is printed.
pub const HEADER: [&str; 11] = [
    "column",
    "Arrow",
    "Parquet, zstd",
    "ours",
    "of Arrow",
    "of Parquet",
    "chosen",
    "smallest of all",
    "which",
    "regret (<= 3 %)",
    "choosing (< 15 %)",
];

/// A line under [`HEADER`].
pub fn line(name: &str, measured: &Measured) -> Vec<String> {
    vec![
        name.to_owned(),
        table::grouped(measured.arrow),
        table::grouped(measured.parquet),
        table::grouped(measured.ours),
        format!("{:.1} %", share(measured.ours, measured.arrow)),
        format!("{:.1} %", share(measured.ours, measured.parquet)),
        measured.chosen.join(", "),
        table::grouped(measured.smallest),
        measured.smallest_names.join(", "),
        format!("{:.2} %", measured.regret()),
        format!("{:.1} %", measured.choice()),
    ]
}

/// The next rows, at most so many; `None` at the end.
fn next_fragment(source: &mut Table, most: usize) -> Result<Option<RecordBatch>, ArrowError> {
    let mut batches: Vec<RecordBatch> = Vec::new();
    let mut rows = 0;
    while rows < most
        && let Some(batch) = source.batches.next().transpose()?
    {
        rows += batch.num_rows();
        batches.push(batch);
    }
    let Some(last) = batches.pop() else { return Ok(None) };
    let over = rows.saturating_sub(most);
    let (kept, rest) = (last.num_rows() - over, last.slice(last.num_rows() - over, over));
    batches.push(last.slice(0, kept));
    if over > 0 {
        let next = std::mem::replace(&mut source.batches, Box::new(std::iter::empty()));
        source.batches = Box::new(std::iter::once(Ok(rest)).chain(next));
    }
    concat_batches(&batches[0].schema(), &batches).map(Some)
}

/// The bytes of each column, as one row group with zstd at its usual level.
fn parquet_bytes(fragment: &RecordBatch) -> Result<Vec<usize>, ParquetError> {
    let zstd = Compression::ZSTD(ZstdLevel::try_new(3)?);
    let properties =
        WriterProperties::builder().set_compression(zstd).set_max_row_group_row_count(None).build();
    let mut writer = ArrowWriter::try_new(std::io::sink(), fragment.schema(), Some(properties))?;
    writer.write(fragment)?;
    let file = writer.close()?;
    let mut bytes = vec![0; fragment.num_columns()];
    for group in file.row_groups() {
        for (bytes, column) in bytes.iter_mut().zip(group.columns()) {
            *bytes += usize::try_from(column.compressed_size()).unwrap_or(0);
        }
    }
    Ok(bytes)
}
