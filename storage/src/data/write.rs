//! Writing a data file.

use std::{sync::Arc, time::Duration};

use arrow_array::RecordBatch;
use basalt_core::{
    error::{Error, ErrorKind},
    limits::PARALLEL_ROWS,
    schema::Schema,
};
use rayon::prelude::*;
use tokio::time::Instant;

use super::encode::{EncodedFile, FileEncoder, invalid};
use crate::{
    error::{Result, StorageError},
    limits::DRAFT_AGE,
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
    /// Milliseconds since 1970.
    made: i64,
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
        let (size, made) = (bytes.len() as u64, self.store().now_millis());
        // The put syncs a local file, and says so of a remote one.
        self.store().put(&path, bytes).await?;
        tracing::debug!(path, rows, bytes = size, put = ?started.elapsed(), "data file");
        Ok(NewFile { path, bytes: size, rows, stats, encoded_bytes: None, digests, made })
    }

    /// That files may still be committed: those that were written long ago a vacuum takes for what is left of a write that
    /// was cut off.
    ///
    /// # Errors
    /// [`StorageError::Invalid`] with [`ErrorKind::InvalidQuery`].
    pub fn check_young<'a>(&self, files: impl IntoIterator<Item = &'a NewFile>) -> Result<()> {
        let now = self.store().now_millis();
        // Default: a clock that was put back makes none old.
        let age = |file: &NewFile| Duration::from_millis(u64::try_from(now - file.made).unwrap_or(0));
        match files.into_iter().all(|file| age(file) <= DRAFT_AGE) {
            true => Ok(()),
            false => {
                let message = "the write was begun too long ago, and is given up; nothing of it was written";
                Err(Error::new(ErrorKind::InvalidQuery, message).into())
            }
        }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow_array::Int64Array;
    use basalt_core::schema::{DataType, Field};

    use super::*;
    use crate::{log::Change, store::Store};

    #[tokio::test]
    async fn what_was_written_half_a_day_ago_is_not_committed() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]).unwrap());
        let (log, table) = TableLog::create(Store::in_memory(), "t", &schema, BTreeMap::new()).await.unwrap();
        let rows = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![1])) as _)]).unwrap();
        let file = log.write_data(&schema, vec![rows]).await.unwrap();
        for (hours, is_committed) in [(11, true), (13, false)] {
            let old = NewFile { made: file.made - hours * 3_600_000, ..file.clone() };
            let committed = log.commit(&table, &Change { add: vec![old], ..Change::default() }).await;
            assert_eq!(committed.is_ok(), is_committed, "{committed:?}");
        }
    }
}
