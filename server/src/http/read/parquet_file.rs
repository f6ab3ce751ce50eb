//! A Parquet file that came as a body: believed no further than it was checked.

use std::sync::Arc;

use arrow_schema::{DataType as Arrow, Field as ArrowField, Schema as ArrowSchema};
use basalt_nested::parquet::{Groups, check_footer, footer_of};
use hyper::body::Bytes;
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader},
    },
    file::metadata::ParquetMetaDataReader,
};

use super::{batch_rows, invalid, unread};
use crate::{limits, status::Result};

/// A file that is whole, and its footer.
pub(super) struct ParquetFile {
    file: Bytes,
    metadata: ArrowReaderMetadata,
}

impl ParquetFile {
    pub(super) fn new(file: Bytes) -> Result<Self> {
        let footer = footer_of(&file).map_err(unread)?;
        check_footer(footer).map_err(unread)?;
        let metadata = ParquetMetaDataReader::decode_metadata(footer).map_err(unread)?;
        // What another writer says of Arrow's types is not needed, and need not be right.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = ArrowReaderMetadata::try_new(Arc::new(metadata), options).map_err(unread)?;
        Ok(Self { file, metadata })
    }

    pub(super) fn schema(&self) -> &ArrowSchema {
        self.metadata.schema()
    }

    /// Its rows, and the bytes that it takes while they are read.
    pub(super) fn rows(self) -> Result<(ParquetRecordBatchReader, u64)> {
        let Self { file, metadata } = self;
        let groups = metadata.metadata().row_groups();
        if groups.iter().any(|group| group.total_byte_size() > limits::PARQUET_READ_BYTES) {
            let most = limits::PARQUET_READ_BYTES;
            return Err(invalid(format!("a row group of more than {most} bytes")));
        }
        let fields: Vec<_> = metadata.schema().fields().iter().map(|field| in_views(field)).collect();
        let rows = batch_rows(fields.len());
        let (bytes, all) = (file.len() as u64, (0..groups.len()).collect());
        let groups = Groups::new(file, Arc::clone(metadata.metadata()), all, limits::PARQUET_PAGE_BYTES);
        let bytes = bytes + groups.bytes().map_err(unread)?;
        let reader = groups.read(ProjectionMask::all(), Some(&fields.into()), None, rows);
        Ok((reader.map_err(unread)?, bytes))
    }
}

/// A column whose texts share their bytes with its pages: a text of a dictionary may be that of every row.
fn in_views(field: &ArrowField) -> ArrowField {
    let data_type = match field.data_type() {
        Arrow::Utf8 | Arrow::LargeUtf8 => Arrow::Utf8View,
        Arrow::Binary | Arrow::LargeBinary => Arrow::BinaryView,
        other => other.clone(),
    };
    field.clone().with_data_type(data_type)
}
