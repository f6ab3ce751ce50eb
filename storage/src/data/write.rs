//! Writing a data file.

use std::sync::Arc;

use arrow_array::RecordBatch;
use basalt_core::{limits::PARALLEL_ROWS, schema::Schema};
use rayon::prelude::*;
use tokio::time::Instant;

use super::encode::{EncodedFile, FileEncoder, invalid};
use crate::{
    error::{Result, StorageError},
    log::TableLog,
};

/// A data file that is written and durable, and not yet part of a table.
#[derive(Clone, Debug)]
pub struct NewFile {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) rows: u32,
    pub(crate) stats: String,
    pub(crate) encoded_bytes: Option<u64>,
    /// See [`super::digest::TAG`].
    pub(crate) digests: String,
}

impl NewFile {
    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its place below the table, as the log has it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its rows.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// The same file, with the bytes that its fragment takes in memory.
    #[must_use]
    pub fn with_encoded_bytes(self, bytes: u64) -> Self {
        Self { encoded_bytes: Some(bytes), ..self }
    }
}

impl TableLog {
    /// Writes rows as a data file: 1 to 2^20 of them, in batches of the columns of `schema`. It becomes part of the
    /// table with a commit; without one, a later vacuum removes it.
    ///
    /// # Errors
    /// [`StorageError::Invalid`] when the batches do not fit the schema; [`StorageError::Store`].
    pub async fn write_data(&self, schema: &Arc<Schema>, batches: Vec<RecordBatch>) -> Result<NewFile> {
        let schema = Arc::clone(schema);
        let encoded = self.store().run(move || encode(&schema, &batches)).await;
        let encoded = encoded.map_err(|e| StorageError::corrupt("a new data file", e))??;
        self.put_data(encoded).await
    }

    /// The same of rows that are encoded already.
    ///
    /// # Errors
    /// [`StorageError::Store`].
    pub async fn put_data(&self, file: EncodedFile) -> Result<NewFile> {
        let started = Instant::now();
        let EncodedFile { bytes, rows, stats, digests } = file;
        let path = format!("part-{}.zstd.parquet", self.store().new_id());
        let size = bytes.len() as u64;
        // The put syncs a local file, and says so of a remote one.
        self.store().put(&path, bytes).await?;
        tracing::debug!(path, rows, bytes = size, put = ?started.elapsed(), "data file");
        Ok(NewFile { path, bytes: size, rows, stats, encoded_bytes: None, digests })
    }

    /// Removes data files that no commit has named or ever will; what cannot be removed is left to a later vacuum.
    pub async fn discard(&self, files: Vec<NewFile>) {
        let paths = files.into_iter().map(|file| file.path);
        if let Err(error) = self.store().delete("its write was not committed", paths).await {
            tracing::warn!(%error, "cannot remove a data file that was not committed");
        }
    }
}

fn encode(schema: &Arc<Schema>, batches: &[RecordBatch]) -> Result<EncodedFile> {
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let encoder = FileEncoder::new(schema, rows)?;
    let width = schema.fields().len();
    if let Some(batch) = batches.iter().find(|batch| batch.num_columns() != width) {
        return Err(invalid(format!("{} columns instead of {width}", batch.num_columns())));
    }
    let column = |place: usize| {
        let arrays: Vec<_> = batches.iter().map(|batch| Arc::clone(batch.column(place))).collect();
        encoder.column(place, &arrays)
    };
    let columns = match rows < PARALLEL_ROWS {
        true => (0..width).map(column).collect::<Result<_>>()?,
        false => (0..width).into_par_iter().map(column).collect::<Result<_>>()?,
    };
    encoder.finish(columns)
}
