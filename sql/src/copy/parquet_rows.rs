//! The rows of a Parquet file, one row group after the other: anybody may have written it.

use std::{fs::File, sync::Arc};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use basalt_core::exec::Memory;
use basalt_nested::parquet::{Footer, ParquetFile, Reading, Wanted};
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use super::{of_arrow, of_parquet};
use crate::{error::Result, interruptible::GivenUp, limits};

/// See the module.
pub(super) struct ParquetRows {
    file: ParquetFile<File>,
    reading: Reading,
    taken: Taken,
    footer_bytes: u64,
    /// The next row group.
    group: usize,
    /// Those of the one before it that are still to come.
    rows: Option<ParquetRecordBatchReader>,
    /// Rows before the next ones.
    before: u64,
}

impl ParquetRows {
    pub(super) fn new(file: File, memory: &Arc<dyn Memory>) -> Result<Self> {
        let footer = Footer::new(file, limits::COPY_FOOTER_BYTES).map_err(|error| of_parquet(&error))?;
        let footer_bytes = footer.bytes();
        let mut taken = Taken { memory: Arc::clone(memory), bytes: 0 };
        taken.set(footer_bytes)?;
        let file = ParquetFile::new(footer).map_err(|error| of_parquet(&error))?;
        let given_up = GivenUp::of_task();
        let reading = Reading {
            batch_rows: limits::COPY_ROWS,
            page_bytes: limits::COPY_PAGE_BYTES,
            wanted: Wanted::while_true(move || given_up.check().is_ok()),
        };
        Ok(Self { file, reading, taken, footer_bytes, group: 0, rows: None, before: 0 })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        self.file.schema()
    }

    /// The next rows, and how many stand before them.
    pub(super) fn next(&mut self) -> Result<Option<(RecordBatch, u64)>> {
        loop {
            if let Some(rows) = &mut self.rows {
                if let Some(batch) = rows.next().transpose().map_err(|error| of_arrow(&error))? {
                    let before = self.before;
                    self.before += batch.num_rows() as u64;
                    return Ok(Some((batch, before)));
                }
                self.rows = None;
            }
            if self.group == self.file.groups() {
                return Ok(None);
            }
            let rows = self.file.rows_of_group(self.group, &self.reading);
            let (rows, pages) = rows.map_err(|error| of_parquet(&error))?;
            self.group += 1;
            // A page is there as it was read from the file, too.
            self.taken.set(self.footer_bytes.saturating_add(pages.saturating_mul(2)))?;
            self.rows = Some(rows);
        }
    }
}

/// Memory that is given back in the end.
struct Taken {
    memory: Arc<dyn Memory>,
    bytes: usize,
}

impl Taken {
    fn set(&mut self, bytes: u64) -> Result<()> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if bytes > self.bytes {
            self.memory.grow(self.bytes, bytes - self.bytes)?;
        } else {
            self.memory.shrink(self.bytes - bytes);
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.memory.shrink(self.bytes);
    }
}
