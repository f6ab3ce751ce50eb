//! Encoding a data file: columns of Arrow arrays in, bytes of Parquet out.
//!
//! Each column is encoded by itself, its row groups at once, so that whoever has the columns may encode them in
//! parallel, beside what else is made of them; then the file is put together.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ops::Range,
    sync::Arc,
};

use arrow_array::{Array as _, ArrayRef, cast::AsArray as _, types};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema as arrow;
use basalt_core::{
    error::{Error, ErrorKind},
    limits::FRAGMENT_ROWS,
    schema::{DataType, Field, Schema},
};
use parquet::{
    arrow::{
        ArrowSchemaConverter, PARQUET_FIELD_ID_META_KEY,
        arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves},
    },
    basic::{Compression, ZstdLevel},
    errors::ParquetError,
    file::{
        metadata::ParquetMetaData,
        properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr},
        writer::SerializedFileWriter,
    },
    schema::types::SchemaDescriptor,
};
use rayon::prelude::*;

use super::{digest, page_checksums, stats};
use crate::{
    error::{Result, StorageError},
    limits::ROW_GROUP_ROWS,
    log::TableState,
    schema::stored_type,
};

/// Pieces of a row group that are looked at to see whether values come again, and rows of each.
const SAMPLE_PIECES: usize = 64;
/// See [`SAMPLE_PIECES`].
const SAMPLE_ROWS: usize = 64;

/// From so many bytes on a column of a row group is compressed.
const COMPRESSED_FROM: usize = 2048;

/// Encodes the columns of a data file.
#[derive(Clone, Debug)]
pub struct FileEncoder {
    /// The columns, by the names that they have in files.
    schema: Arc<Schema>,
    /// The ids that they have there; `None`: none.
    ids: Option<Arc<[i32]>>,
    rows: usize,
    counted: u32,
}

/// A column of a data file.
#[derive(Debug)]
pub struct EncodedColumn {
    /// One for each row group.
    chunks: Vec<ArrowColumnChunk>,
    has_nan: bool,
}

/// A data file before it is in the store.
#[derive(Debug)]
pub struct EncodedFile {
    pub(super) bytes: Vec<u8>,
    pub(super) rows: u32,
    pub(super) stats: String,
    pub(super) digests: String,
}

impl EncodedFile {
    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl FileEncoder {
    /// For a file of `rows` rows of the columns of `schema`.
    ///
    /// # Errors
    /// [`StorageError::Invalid`] when they are not 1 to 2^20.
    pub fn new(schema: &Arc<Schema>, rows: usize) -> Result<Self> {
        let counted = u32::try_from(rows).ok().filter(|_| (1..=FRAGMENT_ROWS).contains(&rows));
        let counted =
            counted.ok_or_else(|| invalid(format!("{rows} rows; a data file has 1 to {FRAGMENT_ROWS}")))?;
        Ok(Self { schema: Arc::clone(schema), ids: None, rows, counted })
    }

    /// For a file of `rows` rows of a table, which may have other names for its columns than files have.
    ///
    /// # Errors
    /// Those of [`FileEncoder::new`].
    pub fn of(table: &TableState, rows: usize) -> Result<Self> {
        let (schema, ids) = table.in_files();
        Ok(Self { ids, ..Self::new(&schema, rows)? })
    }

    fn id(&self, place: usize) -> Option<i32> {
        self.ids.as_ref()?.get(place).copied()
    }

    /// Encodes the column at a place of the schema: the rows of `arrays`, one behind the other.
    ///
    /// # Errors
    /// [`StorageError::Invalid`] when they do not fit the schema.
    pub fn column(&self, place: usize, arrays: &[ArrayRef]) -> Result<EncodedColumn> {
        let field = self.schema.fields().get(place);
        let field = field.ok_or_else(|| invalid(format!("there is no column {place}")))?;
        let misfit = |why: String| invalid(format!("column {:?}: {why}", field.name));
        let rows: usize = arrays.iter().map(|array| array.len()).sum();
        if rows != self.rows {
            return Err(misfit(format!("{rows} rows instead of {}", self.rows)));
        }
        for array in arrays {
            check(array, field).map_err(misfit)?;
        }
        let has_nan = arrays.iter().any(has_nan);
        let groups: Vec<_> = (0..rows).step_by(ROW_GROUP_ROWS).collect();
        let chunk = |start: usize| {
            let group = slices(arrays, start..rows.min(start + ROW_GROUP_ROWS));
            let stored = group.iter().map(|array| to_stored(array, field));
            let stored = stored.collect::<std::result::Result<Vec<_>, _>>();
            chunk(field, self.id(place), &stored.map_err(misfit)?).map_err(unwritten)
        };
        // Of a single one no other thread is asked.
        let chunks = match groups.as_slice() {
            [only] => vec![chunk(*only)?],
            _ => groups.into_par_iter().map(chunk).collect::<Result<_>>()?,
        };
        Ok(EncodedColumn { chunks, has_nan })
    }

    /// Puts the file together of its columns, in the order of the schema.
    ///
    /// # Errors
    /// [`StorageError::Invalid`] when they are not those of the schema.
    pub fn finish(self, columns: Vec<EncodedColumn>) -> Result<EncodedFile> {
        let fields = self.schema.fields();
        if columns.len() != fields.len() {
            return Err(invalid(format!("{} columns instead of {}", columns.len(), fields.len())));
        }
        let nan = |(place, column): (usize, &EncodedColumn)| column.has_nan.then_some(place);
        let with_nan: BTreeSet<usize> = columns.iter().enumerate().filter_map(nan).collect();
        let chunks = columns.iter().flat_map(|column| &column.chunks);
        let size: u64 = chunks.map(|chunk| chunk.close().bytes_written).sum();
        // Default: what is larger grows.
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        let metadata = self.write(columns, &mut bytes).map_err(unwritten)?;
        let (bytes, metadata) = page_checksums::add(&bytes, &metadata).map_err(unwritten)?;
        let stats = stats::of_file(&self.schema, &metadata, &with_nan);
        let no_digests = || StorageError::corrupt("a new data file", "its footer does not fit it");
        let digests = digest::tag(&bytes, &metadata).ok_or_else(no_digests)?;
        Ok(EncodedFile { bytes, rows: self.counted, stats, digests })
    }

    fn write(
        &self,
        columns: Vec<EncodedColumn>,
        bytes: &mut Vec<u8>,
    ) -> std::result::Result<ParquetMetaData, ParquetError> {
        let schema = parquet_schema(self.schema.fields(), self.ids.as_deref())?;
        let mut file = SerializedFileWriter::new(bytes, schema.root_schema_ptr(), properties(true, false)?)?;
        let mut columns: Vec<_> = columns.into_iter().map(|column| column.chunks.into_iter()).collect();
        for _ in (0..self.rows).step_by(ROW_GROUP_ROWS) {
            let mut group = file.next_row_group()?;
            for chunk in columns.iter_mut().filter_map(Iterator::next) {
                chunk.append_to_row_group(&mut group)?;
            }
            group.close()?;
        }
        file.close()
    }
}

pub(super) fn invalid(message: String) -> StorageError {
    Error::new(ErrorKind::InvalidBatch, message).into()
}

fn unwritten(error: ParquetError) -> StorageError {
    StorageError::corrupt("a new data file", error)
}

/// What columns are written with.
fn properties(dictionary: bool, small: bool) -> std::result::Result<WriterPropertiesPtr, ParquetError> {
    let compression =
        if small { Compression::UNCOMPRESSED } else { Compression::ZSTD(ZstdLevel::try_new(1)?) };
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_dictionary_enabled(dictionary)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_statistics_truncate_length(Some(stats::TEXT_BYTES))
        .set_created_by(concat!("basalt version ", env!("CARGO_PKG_VERSION")).to_owned());
    Ok(Arc::new(properties.build()))
}

/// The fields of a file. The Arrow schema that could stand in it says nothing that Parquet's own does not.
fn arrow_schema(fields: &[Field], ids: Option<&[i32]>) -> arrow::Schema {
    let stored = fields.iter().enumerate().map(|(place, field)| {
        let stored = arrow::Field::new(&field.name, stored_type(field), field.nullable);
        match ids.and_then(|ids| ids.get(place)) {
            Some(id) => {
                stored.with_metadata(HashMap::from([(PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string())]))
            }
            None => stored,
        }
    });
    arrow::Schema::new(stored.collect::<Vec<_>>())
}

fn parquet_schema(
    fields: &[Field],
    ids: Option<&[i32]>,
) -> std::result::Result<SchemaDescriptor, ParquetError> {
    ArrowSchemaConverter::new().convert(&arrow_schema(fields, ids))
}

/// Encodes a column of a row group, as that of a file of this column alone.
fn chunk(
    field: &Field,
    id: Option<i32>,
    arrays: &[ArrayRef],
) -> std::result::Result<ArrowColumnChunk, ParquetError> {
    let (fields, ids) = (std::slice::from_ref(field), id.as_ref().map(std::slice::from_ref));
    let (arrow, parquet) = (Arc::new(arrow_schema(fields, ids)), parquet_schema(fields, ids)?);
    let properties = properties(repeats(arrays), is_small(arrays))?;
    let file = SerializedFileWriter::new(std::io::sink(), parquet.root_schema_ptr(), properties)?;
    let factory = ArrowRowGroupWriterFactory::new(&file, Arc::clone(&arrow));
    let no_writer = || ParquetError::General(format!("no writer for the column {:?}", field.name));
    let mut writer = factory.create_column_writers(0)?.pop().ok_or_else(no_writer)?;
    for array in arrays {
        for leaf in compute_leaves(arrow.field(0), array)? {
            writer.write(&leaf)?;
        }
    }
    writer.close()
}

/// Whether a column of a row group is so small that compression cannot make up for what it takes to begin: tens of
/// microseconds, of whoever writes it and of everybody who reads it.
fn is_small(arrays: &[ArrayRef]) -> bool {
    // Default: what cannot be counted is large.
    let bytes = |array: &ArrayRef| array.to_data().get_slice_memory_size().unwrap_or(COMPRESSED_FROM);
    arrays.iter().map(bytes).sum::<usize>() < COMPRESSED_FROM
}

/// Whether the values of a column of a row group come again often enough for a dictionary of them to pay. Where nearly
/// all of a sample are different, it would take most of the time of writing, and the file would be larger with it.
fn repeats(arrays: &[ArrayRef]) -> bool {
    let rows: usize = arrays.iter().map(|array| array.len()).sum();
    let step = (rows / SAMPLE_PIECES).max(SAMPLE_ROWS);
    let pieces = (0..rows).step_by(step).map(|start| slices(arrays, start..rows.min(start + SAMPLE_ROWS)));
    let (mut distinct, mut sampled) = (HashSet::new(), 0);
    for piece in pieces.flatten() {
        // What is under a null is in no file.
        sampled += piece.len() - piece.null_count();
        add_hashes(&piece, &mut distinct);
    }
    distinct.len() * 16 <= sampled * 15
}

/// Adds the hashes of the values of an array that are not null. Booleans have none, and no dictionary.
fn add_hashes(array: &ArrayRef, hashes: &mut HashSet<u64>) {
    let valid = |row: &usize| array.is_valid(*row);
    if let Some(texts) = array.as_string_opt::<i32>() {
        let rows = (0..texts.len()).filter(valid);
        hashes.extend(rows.map(|row| digest::of(texts.value(row).as_bytes())));
    } else if let Some(width) = array.data_type().primitive_width() {
        let data = array.to_data();
        // Default: an array without values has no buffer of them.
        let values = data.buffers().first().map(|buffer| buffer.as_slice()).unwrap_or_default();
        let values = values.chunks_exact(width).skip(data.offset()).take(data.len()).enumerate();
        hashes.extend(values.filter(|(row, _)| valid(row)).map(|(_, value)| digest::of(value)));
    }
}

/// The rows of a range of arrays that stand one behind the other.
fn slices(arrays: &[ArrayRef], range: Range<usize>) -> Vec<ArrayRef> {
    let mut first = 0;
    let part = |array: &ArrayRef| {
        let start = range.start.max(first);
        let end = range.end.min(first + array.len());
        let part = (start < end).then(|| array.slice(start - first, end - start));
        first += array.len();
        part
    };
    arrays.iter().filter_map(part).collect()
}

/// That an array has the type of a column, and nulls only where the column may.
fn check(array: &ArrayRef, field: &Field) -> std::result::Result<(), String> {
    let fits = match (array.data_type(), field.data_type) {
        (arrow::DataType::Decimal128(_, s), DataType::Decimal { scale, .. }) => *s == scale.cast_signed(),
        (arrow::DataType::Timestamp(unit, _), DataType::Timestamp) => *unit == arrow::TimeUnit::Microsecond,
        (given, expected) => *given == expected.to_arrow(),
    };
    if !fits {
        return Err(format!("{} instead of {}", array.data_type(), field.data_type.to_arrow()));
    }
    if !field.nullable && array.null_count() > 0 {
        return Err("nulls, and it is not nullable".to_owned());
    }
    Ok(())
}

fn to_stored(array: &ArrayRef, field: &Field) -> std::result::Result<ArrayRef, String> {
    let stored = stored_type(field);
    if *array.data_type() == stored {
        return Ok(Arc::clone(array));
    }
    if let Some(logical) = field.logical {
        return logical.from_form(array).map_err(|e| e.to_string());
    }
    let exactly = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, &stored, &exactly).map_err(|e| e.to_string())
}

fn has_nan(array: &ArrayRef) -> bool {
    match array.data_type() {
        arrow::DataType::Float32 => {
            array.as_primitive::<types::Float32Type>().values().iter().any(|v| v.is_nan())
        }
        arrow::DataType::Float64 => {
            array.as_primitive::<types::Float64Type>().values().iter().any(|v| v.is_nan())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, StringArray};
    use arrow_buffer::NullBuffer;

    use super::*;

    #[test]
    fn values_come_again_or_not() {
        let rows = ROW_GROUP_ROWS as i64;
        let numbers = |of: &dyn Fn(i64) -> i64| {
            let array: ArrayRef = Arc::new((0..rows).map(|i| Some(of(i))).collect::<Int64Array>());
            // In two pieces, neither of which begins at the array's own start.
            let at = |part: i64| usize::try_from(part).unwrap();
            vec![array.slice(64, at(rows / 3)), array.slice(at(rows / 2), at(rows / 3))]
        };
        let text = |of: &dyn Fn(i64) -> i64| -> Vec<ArrayRef> {
            vec![Arc::new((0..rows).map(|i| Some(format!("text {}", of(i)))).collect::<StringArray>())]
        };
        let scattered = |i: i64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed()) >> 20;
        for of in [&|i| i % 1000, &|i| i / 8, &|i| scattered(i) & 0xfff] as [&dyn Fn(i64) -> i64; 3] {
            assert!(repeats(&numbers(of)) && repeats(&text(of)));
        }
        for of in [&|i| i, &|i| scattered(i)] as [&dyn Fn(i64) -> i64; 2] {
            assert!(!repeats(&numbers(of)) && !repeats(&text(of)));
        }
        assert!(!repeats(&[Arc::new(Int64Array::from(vec![7]))]), "one value needs none");
        // Every second row is null, with the same number under it.
        let nulls = NullBuffer::from_iter((0..rows).map(|i| i % 2 == 0));
        let values: Vec<i64> = (0..rows).map(|i| if i % 2 == 0 { i } else { 0 }).collect();
        assert!(!repeats(&[Arc::new(Int64Array::new(values.into(), Some(nulls)))]));
    }
}
