//! Real tables, column by column: bytes as Arrow, as Parquet and as ours, and what choosing the encoding costs.

pub mod flights;
pub mod measure;
pub mod report;
// The demo's rows and types, so that these are its sizes.
#[allow(dead_code, reason = "the demo asks more of it")]
#[path = "../../../server/src/demo/tpch.rs"]
mod tpch;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

/// A table, read as it is asked for.
#[allow(missing_debug_implementations, reason = "an iterator of its own making")]
pub struct Table {
    /// Its name.
    pub name: String,
    /// About how many rows it has.
    pub rows: u64,
    /// Its rows, in batches of any size.
    pub batches: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>,
}

/// The eight tables of TPC-H at a scale.
///
/// # Errors
/// Those of arrow.
pub fn tpch(scale: f64) -> Result<Vec<Table>, ArrowError> {
    let table = |table: tpch::Table| Table {
        name: table.name.to_owned(),
        rows: table.rows,
        batches: Box::new(table.batches),
    };
    Ok(tpch::tables(scale)?.into_iter().map(table).collect())
}
