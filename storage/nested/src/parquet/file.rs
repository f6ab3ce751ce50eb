//! A file of anybody's, from its last bytes to its rows: believed no further than it was checked.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef, Fields, Schema};
use bytes::Bytes;
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader},
    },
    errors::{ParquetError, Result},
    file::{metadata::ParquetMetaDataReader, reader::ChunkReader},
};

use super::{Groups, Wanted, check_fit, check_footer, in_micros, pages::wrong};

/// Bytes behind a footer: its length, and `PAR1`.
const END: usize = 8;
const MAGIC: &[u8] = b"PAR1";

/// A file whose footer was checked, and is not decoded: what that takes can be had before.
#[derive(Debug)]
pub struct Footer<R> {
    reader: R,
    thrift: Bytes,
    bytes: u64,
}

impl<R: ChunkReader> Footer<R> {
    /// That of a file, if it has no more than so many bytes.
    ///
    /// # Errors
    /// What is wrong with it; that the file cannot be read.
    pub fn new(reader: R, most: usize) -> Result<Self> {
        let size = reader.len();
        let none = || wrong("it is no Parquet file");
        let end = size.checked_sub(END as u64).ok_or_else(none)?;
        let last = reader.get_bytes(end, END)?;
        let [a, b, c, d, ..] =
            *last.first_chunk::<END>().filter(|last| last.ends_with(MAGIC)).ok_or_else(none)?;
        let length = u32::from_le_bytes([a, b, c, d]);
        let start =
            end.checked_sub(u64::from(length)).ok_or_else(|| wrong("its footer is longer than the file"))?;
        let length = usize::try_from(length).ok().filter(|length| *length <= most);
        let length = length.ok_or_else(|| wrong(format!("its footer has more than {most} bytes")))?;
        let thrift = reader.get_bytes(start, length)?;
        let bytes = check_footer(&thrift).map_err(wrong)?;
        Ok(Self { reader, thrift, bytes })
    }

    /// The bytes that it takes when it is decoded, about.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// How rows are read.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Rows of a batch, at most.
    pub batch_rows: usize,
    /// Bytes of a page when it is decompressed, at most.
    pub page_bytes: usize,
    /// Until when.
    pub wanted: Wanted,
}

/// A file whose footer is decoded, and whose columns are within it.
#[derive(Debug)]
pub struct ParquetFile<R> {
    reader: Arc<R>,
    metadata: ArrowReaderMetadata,
    schema: Arc<Schema>,
}

impl<R: ChunkReader + 'static> ParquetFile<R> {
    /// The file of a footer.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(footer: Footer<R>) -> Result<Self> {
        let Footer { reader, thrift, .. } = footer;
        let metadata = ParquetMetaDataReader::decode_metadata(&thrift)?;
        check_fit(&metadata, reader.len()).map_err(wrong)?;
        // What another writer says of Arrow's types is not needed, and need not be right.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = ArrowReaderMetadata::try_new(Arc::new(metadata), options)?;
        let micros = in_micros(metadata.schema(), metadata.parquet_schema());
        // Default: there are no times of 96 bits.
        let schema = micros.unwrap_or_else(|| Arc::clone(metadata.schema()));
        Ok(Self { reader: Arc::new(reader), metadata, schema })
    }

    /// The columns; times of 96 bits are microseconds.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// How many row groups it has.
    pub fn groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    /// The bytes of the largest row group, as it says itself.
    pub fn group_bytes(&self) -> i64 {
        let groups = self.metadata.metadata().row_groups();
        // Default: there are no rows.
        groups.iter().map(|group| group.total_byte_size()).max().unwrap_or(0)
    }

    /// The rows of all row groups, and the bytes of what is there at once while they are read: pages that are decompressed, and
    /// the values of lists, of which a row may have any number.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn rows(&self, reading: &Reading) -> Result<(ParquetRecordBatchReader, u64)> {
        self.rows_of((0..self.groups()).collect(), reading)
    }

    /// Those of one of them.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub fn rows_of_group(&self, group: usize, reading: &Reading) -> Result<(ParquetRecordBatchReader, u64)> {
        if group >= self.groups() {
            return Err(ParquetError::IndexOutOfBound(group, self.groups()));
        }
        self.rows_of(vec![group], reading)
    }

    fn rows_of(&self, groups: Vec<usize>, reading: &Reading) -> Result<(ParquetRecordBatchReader, u64)> {
        let Reading { batch_rows, page_bytes, wanted } = reading.clone();
        let (reader, metadata) = (Arc::clone(&self.reader), Arc::clone(self.metadata.metadata()));
        let groups = Groups::shared(reader, metadata, groups, page_bytes, wanted);
        let bytes = groups.room()?;
        let fields: Fields = self.schema().fields().iter().map(in_views).collect();
        let rows = groups.read(ProjectionMask::all(), Some(&fields), None, batch_rows)?;
        Ok((rows, bytes))
    }
}

/// A column whose texts share their bytes with its pages: a text of a dictionary may be that of every row, and of every element of
/// a list.
fn in_views(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::List(element) => DataType::List(in_views(element)),
        DataType::LargeList(element) => DataType::LargeList(in_views(element)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(in_views).collect()),
        DataType::Map(entries, sorted) => DataType::Map(in_views(entries), *sorted),
        _ => return Arc::clone(field),
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}
