//! Data files: the rows of a table in Parquet.

mod alike;
mod bounds;
mod convert;
pub(crate) mod digest;
mod encode;
mod filled;
pub(crate) mod footer;
mod nested;
pub(crate) mod page_checksums;
mod partition;
mod read;
mod stats;
mod summary;
mod write;

pub(crate) use bounds::Bounds;
pub use encode::{EncodedColumn, EncodedFile, FileEncoder};
pub(crate) use footer::count_rows;
pub(crate) use nested::Shape;
pub use read::DataReader;
pub(crate) use read::catching;
pub use stats::ColumnStats;
#[cfg(test)]
use stats::columns_stats;
pub(crate) use stats::{num_records, wide_stats};
pub(crate) use summary::Summary;
pub use write::NewFile;
