//! A Parquet file that came as a body, with what such a body may have.

use arrow_schema::Schema as ArrowSchema;
use basalt_core::exec::Stop;
use basalt_nested::parquet::{Footer, ParquetFile as Checked, Reading, Wanted};
use hyper::body::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use super::{batch_rows, invalid, unread};
use crate::{limits, status::Result};

/// A file that is whole, and whose footer is not decoded yet: that takes memory.
pub(super) struct ParquetFooter {
    footer: Footer<Bytes>,
    file_bytes: u64,
}

impl ParquetFooter {
    pub(super) fn new(file: Bytes) -> Result<Self> {
        let file_bytes = file.len() as u64;
        let footer = Footer::new(file, limits::HTTP_PARQUET_BYTES).map_err(unread)?;
        Ok(Self { footer, file_bytes })
    }

    /// The bytes of the file, and those that its footer takes once it is decoded.
    pub(super) fn bytes(&self) -> u64 {
        self.file_bytes + self.footer.bytes()
    }

    pub(super) fn decode(self) -> Result<ParquetFile> {
        let bytes = self.bytes();
        let file = Checked::new(self.footer).map_err(unread)?;
        Ok(ParquetFile { file, bytes })
    }
}

/// A file that is whole, and its footer.
pub(super) struct ParquetFile {
    file: Checked<Bytes>,
    bytes: u64,
}

impl ParquetFile {
    pub(super) fn schema(&self) -> &ArrowSchema {
        self.file.schema()
    }

    /// Its rows, and the bytes that it takes while they are read.
    pub(super) fn rows(self, stop: &Stop) -> Result<(ParquetRecordBatchReader, u64)> {
        if self.file.group_bytes() > limits::PARQUET_READ_BYTES {
            let most = limits::PARQUET_READ_BYTES;
            return Err(invalid(format!("a row group of more than {most} bytes")));
        }
        let stop = stop.clone();
        let reading = Reading {
            batch_rows: batch_rows(self.schema().fields().len()),
            page_bytes: limits::PARQUET_PAGE_BYTES,
            wanted: Wanted::while_true(move || stop.check().is_ok()),
        };
        let (rows, pages) = self.file.rows(&reading).map_err(unread)?;
        Ok((rows, self.bytes + pages))
    }
}
