//! Writing a data file.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use arrow_array::{Array as _, ArrayRef, RecordBatch, cast::AsArray as _, types};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema as arrow;
use basalt_core::{
    error::{Error, ErrorKind},
    limits::FRAGMENT_ROWS,
    schema::{DataType, Schema},
};
use parquet::{
    arrow::{ArrowWriter, arrow_writer::ArrowWriterOptions},
    basic::{Compression, ZstdLevel},
    file::properties::{EnabledStatistics, WriterProperties},
};
use uuid::Uuid;

use super::{digest, page_checksums, stats};
use crate::{
    error::{Result, StorageError},
    limits::ROW_GROUP_ROWS,
    log::TableLog,
    schema::stored_type,
};

/// A data file that is written and durable, and not yet part of a table.
#[derive(Clone, Debug)]
pub struct NewFile {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) rows: u32,
    pub(crate) stats: String,
    pub(crate) encoded_bytes: Option<u64>,
    /// See [`digest::TAG`].
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
        let started = Instant::now();
        let schema = Arc::clone(schema);
        let encoded = tokio::task::spawn_blocking(move || encode(&schema, &batches)).await;
        let Encoded { bytes, rows, stats, digests } =
            encoded.map_err(|e| StorageError::corrupt("a new data file", e))??;
        let path = format!("part-{}.zstd.parquet", Uuid::new_v4());
        let size = bytes.len() as u64;
        let encode = started.elapsed();
        self.store().put(&path, bytes).await?;
        // The put syncs a local file, and says so of a remote one.
        let put = started.elapsed().saturating_sub(encode);
        tracing::debug!(path, rows, bytes = size, ?encode, ?put, "data file");
        Ok(NewFile { path, bytes: size, rows, stats, encoded_bytes: None, digests })
    }
}

fn invalid(message: String) -> StorageError {
    Error::new(ErrorKind::InvalidBatch, message).into()
}

/// What a file is, before it is written.
struct Encoded {
    bytes: Vec<u8>,
    rows: u32,
    stats: String,
    digests: String,
}

fn encode(schema: &Schema, batches: &[RecordBatch]) -> Result<Encoded> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let counted = u32::try_from(rows).ok().filter(|_| (1..=FRAGMENT_ROWS).contains(&rows));
    let counted =
        counted.ok_or_else(|| invalid(format!("{rows} rows; a data file has 1 to {FRAGMENT_ROWS}")))?;
    let fields = schema.fields();
    let stored = fields.iter().map(|f| arrow::Field::new(&f.name, stored_type(f.data_type), f.nullable));
    let stored = Arc::new(arrow::Schema::new(stored.collect::<Vec<_>>()));
    let written = |e: parquet::errors::ParquetError| StorageError::corrupt("a new data file", e);
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).map_err(written)?))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_statistics_truncate_length(Some(stats::TEXT_BYTES))
        .set_created_by(concat!("basalt version ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    // The Arrow schema that the writer would add says nothing that Parquet's own does not.
    let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
    let mut bytes = Vec::new();
    let mut writer =
        ArrowWriter::try_new_with_options(&mut bytes, Arc::clone(&stored), options).map_err(written)?;
    let mut with_nan = BTreeSet::new();
    for batch in batches {
        if batch.num_columns() != fields.len() {
            return Err(invalid(format!("{} columns instead of {}", batch.num_columns(), fields.len())));
        }
        let columns = batch.columns().iter().zip(fields).enumerate();
        let columns = columns.map(|(i, (column, field))| {
            if has_nan(column) {
                with_nan.insert(i);
            }
            to_stored(column, field.data_type).map_err(|e| invalid(format!("column {:?}: {e}", field.name)))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let batch = RecordBatch::try_new(Arc::clone(&stored), columns).map_err(|e| invalid(e.to_string()))?;
        writer.write(&batch).map_err(written)?;
    }
    let metadata = writer.close().map_err(written)?;
    let (bytes, metadata) = page_checksums::add(&bytes, &metadata).map_err(written)?;
    let stats = stats::of_file(schema, &metadata, &with_nan);
    let no_digests = || StorageError::corrupt("a new data file", "its footer does not fit it");
    let digests = digest::tag(&bytes, &metadata).ok_or_else(no_digests)?;
    Ok(Encoded { bytes, rows: counted, stats, digests })
}

fn to_stored(column: &ArrayRef, data_type: DataType) -> std::result::Result<ArrayRef, arrow::ArrowError> {
    let fits = match (column.data_type(), data_type) {
        (arrow::DataType::Decimal128(_, s), DataType::Decimal { scale, .. }) => *s == scale.cast_signed(),
        (arrow::DataType::Timestamp(unit, _), DataType::Timestamp) => *unit == arrow::TimeUnit::Microsecond,
        (given, _) => *given == data_type.to_arrow(),
    };
    if !fits {
        let message = format!("{} instead of {}", column.data_type(), data_type.to_arrow());
        return Err(arrow::ArrowError::SchemaError(message));
    }
    let stored = stored_type(data_type);
    if *column.data_type() == stored {
        return Ok(Arc::clone(column));
    }
    cast_with_options(column, &stored, &CastOptions { safe: false, ..CastOptions::default() })
}

fn has_nan(column: &ArrayRef) -> bool {
    match column.data_type() {
        arrow::DataType::Float32 => {
            column.as_primitive::<types::Float32Type>().values().iter().any(|v| v.is_nan())
        }
        arrow::DataType::Float64 => {
            column.as_primitive::<types::Float64Type>().values().iter().any(|v| v.is_nan())
        }
        _ => false,
    }
}
