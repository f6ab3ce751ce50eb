//! Parquet and Arrow IPC files.

use std::{
    collections::BTreeMap,
    fmt::Display,
    io::{BufReader, Read as _, Seek as _},
    sync::Arc,
};

use arrow_array::{Array as _, RecordBatch};
use arrow_ipc::reader::{FileReaderBuilder, StreamReader};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use basalt_nested::parquet::{Groups, in_micros};
use parquet::arrow::{
    ProjectionMask,
    arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder},
};

use super::{
    FileFormat, cast, ipc, names,
    options::Options,
    rows::Told,
    source::{InputFile, NOT_WANTED},
};
use crate::cli::CliError;

/// Rows read at a time from Parquet.
const BATCH_ROWS: usize = 1 << 16;
/// How an Arrow IPC file begins; a stream does not.
const IPC_FILE_MAGIC: &[u8] = b"ARROW1";

/// A file's columns and rows.
struct Batches {
    schema: SchemaRef,
    batches: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>,
    /// Rows in all, where that is known.
    rows: Option<u64>,
}

/// Opens a file, for some of its columns by their positions in ascending order, or for all.
fn open(file: &InputFile, columns: Option<Vec<usize>>) -> Result<Batches, CliError> {
    let error = |e: ArrowError| file.error(e);
    let mut reader = file.open()?;
    if file.format == FileFormat::Parquet {
        let metadata = ArrowReaderMetadata::load(&reader, ArrowReaderOptions::new());
        let metadata = with_wide_keys(metadata.map_err(|e| file.error(e))?).map_err(|e| file.error(e))?;
        let rows = u64::try_from(metadata.metadata().file_metadata().num_rows()).ok();
        let mask = match columns {
            Some(columns) => ProjectionMask::roots(metadata.parquet_schema(), columns),
            None => ProjectionMask::all(),
        };
        // Nanoseconds of 64 bits would be other times than those before 1677 and after 2262.
        if let Some(schema) = in_micros(metadata.schema(), metadata.parquet_schema()) {
            let all = (0..metadata.metadata().num_row_groups()).collect();
            // It is a file of the user's own, so its pages may be of any size.
            let groups = Groups::new(reader, Arc::clone(metadata.metadata()), all, usize::MAX);
            let batches = groups.read(mask, Some(schema.fields()), None, BATCH_ROWS);
            let batches = batches.map_err(|e| file.error(e))?;
            return Ok(Batches { schema, batches: Box::new(batches), rows });
        }
        let schema = Arc::clone(metadata.schema());
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(reader, metadata);
        let builder = builder.with_projection(mask).with_batch_size(BATCH_ROWS);
        let batches = builder.build().map_err(|e| file.error(e))?;
        return Ok(Batches { schema, batches: Box::new(batches), rows });
    }
    let mut start = Vec::new();
    let magic = reader.by_ref().take(IPC_FILE_MAGIC.len() as u64).read_to_end(&mut start);
    magic.and_then(|_| reader.rewind()).map_err(|e| file.error(e))?;
    if start == IPC_FILE_MAGIC {
        ipc::check_file(&mut reader).map_err(|e| file.error(e))?;
        let mut builder = FileReaderBuilder::new();
        let schema = FileReaderBuilder::new().build(BufReader::new(file.open()?)).map_err(error)?.schema();
        if let Some(columns) = columns {
            builder = builder.with_projection(columns);
        }
        let batches = builder.build(BufReader::new(reader)).map_err(error)?;
        return Ok(Batches { schema, batches: Box::new(batches), rows: None });
    }
    ipc::check_stream(&mut reader).map_err(|e| file.error(e))?;
    let schema = StreamReader::try_new(BufReader::new(file.open()?), None).map_err(error)?.schema();
    let batches = StreamReader::try_new(BufReader::new(reader), columns).map_err(error)?;
    Ok(Batches { schema, batches: Box::new(batches), rows: None })
}

/// The same columns, but in no dictionary that the reader cannot make: it makes few kinds, and a batch has the values of several
/// groups of rows, which may be more than the keys that a file names have numbers (pandas' categories have keys of 8 bits).
fn with_wide_keys(metadata: ArrowReaderMetadata) -> parquet::errors::Result<ArrowReaderMetadata> {
    let given = metadata.schema();
    let fields: Fields = given.fields().iter().map(with_wide_keys_of).collect();
    if fields == *given.fields() {
        return Ok(metadata);
    }
    let schema = Arc::new(Schema::new_with_metadata(fields, given.metadata().clone()));
    let options = ArrowReaderOptions::new().with_schema(schema);
    ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options)
}

fn with_wide_keys_of(field: &FieldRef) -> FieldRef {
    use DataType::{
        Binary, Dictionary, FixedSizeList, Int32, LargeBinary, LargeList, LargeListView, LargeUtf8, List,
        ListView, Map, Struct, Utf8,
    };
    let data_type = match field.data_type() {
        Dictionary(_, values) if matches!(**values, Utf8 | LargeUtf8 | Binary | LargeBinary) => {
            Dictionary(Box::new(Int32), values.clone())
        }
        Dictionary(_, values) => values.as_ref().clone(),
        List(values) => List(with_wide_keys_of(values)),
        LargeList(values) => LargeList(with_wide_keys_of(values)),
        ListView(values) => ListView(with_wide_keys_of(values)),
        LargeListView(values) => LargeListView(with_wide_keys_of(values)),
        FixedSizeList(values, n) => FixedSizeList(with_wide_keys_of(values), *n),
        Struct(fields) => Struct(fields.iter().map(with_wide_keys_of).collect()),
        Map(entries, is_sorted) => Map(with_wide_keys_of(entries), *is_sorted),
        _ => return Arc::clone(field),
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

/// The columns of a table that hold those of a file which are wanted; what is not is added to `left_out`.
pub(super) fn columns(
    file: &InputFile,
    options: &Options,
    left_out: &mut BTreeMap<String, String>,
) -> Result<Vec<Field>, CliError> {
    let schema = open(file, Some(Vec::new()))?.schema;
    let (mut fields, mut unsupported) = (Vec::new(), Vec::new());
    for (field, name) in schema.fields().iter().zip(names_of(&schema)) {
        if !options.wants(&name) {
            left_out.insert(name, NOT_WANTED.to_owned());
            continue;
        }
        match cast::table_field(field) {
            Some(held) => fields.push(held.with_name(name)),
            None => unsupported.push((name, format!("no table holds {}", field.data_type()))),
        }
    }
    if !unsupported.is_empty() && !options.skip_unsupported {
        let columns: Vec<_> = unsupported.iter().map(|(name, why)| format!("{name:?} ({why})")).collect();
        let columns = columns.join(", ");
        return Err(file.error(format!(
            "columns that cannot be loaded: {columns}; --skip-unsupported leaves them out, --columns names others"
        )));
    }
    left_out.extend(unsupported);
    Ok(fields)
}

/// The names of a file's columns.
pub(super) fn column_names(file: &InputFile) -> Result<Vec<String>, CliError> {
    Ok(names_of(&open(file, Some(Vec::new()))?.schema))
}

fn names_of(schema: &SchemaRef) -> Vec<String> {
    names::of_headers(schema.fields().iter().map(|f| f.name().as_str()), None).0
}

/// Reads a file into batches of `schema` and hands them to `send`, with the bytes behind them (in proportion
/// to the rows, where those are known), until it does not want more.
pub(super) fn read(
    file: &InputFile,
    schema: &SchemaRef,
    told: &mut Told,
    send: &mut dyn FnMut(RecordBatch, u64) -> bool,
) -> Result<(), CliError> {
    let names = column_names(file)?;
    let place = |field: &Arc<Field>| {
        let place = names.iter().position(|name| name == field.name());
        place.ok_or_else(|| file.error(format!("column {:?} is missing", field.name())))
    };
    let places = schema.fields().iter().map(place).collect::<Result<Vec<_>, _>>()?;
    let mut projected = places.clone();
    projected.sort_unstable();
    let Batches { batches, rows, .. } = open(file, Some(projected.clone()))?;
    let mut rows_before = 0_u64;
    for batch in batches {
        let batch = batch.map_err(|e| file.error(e))?;
        let columns = schema.fields().iter().zip(&places).map(|(field, place)| {
            let at = |row: u64, e: &dyn Display| {
                file.error(format!("row {}: column {:?}: {e}", rows_before + row + 1, field.name()))
            };
            let array = projected.iter().position(|projected| projected == place);
            let array = array.and_then(|i| batch.columns().get(i)).ok_or_else(|| at(0, &"it is missing"))?;
            if !field.is_nullable()
                && let Some(row) =
                    array.logical_nulls().and_then(|nulls| (!nulls.inner()).set_indices().next())
            {
                return Err(at(row as u64, &"null, and the column is not nullable"));
            }
            let (cast, cut) = cast::cast(array, field.data_type()).map_err(|e| {
                file.error(format!("column {:?}, from row {}: {e}", field.name(), rows_before + 1))
            })?;
            told.add_cut(field.name(), cut);
            match cast::beyond_calendar(&cast) {
                Some((row, why)) => Err(at(row as u64, &why)),
                None => Ok(cast),
            }
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let cast = RecordBatch::try_new(Arc::clone(schema), columns).map_err(|e| file.error(e))?;
        rows_before += batch.num_rows() as u64;
        let bytes = match rows {
            Some(rows) => u128::from(file.bytes) * u128::from(rows_before) / u128::from(rows.max(1)),
            None => 0,
        };
        if batch.num_rows() > 0 && !send(cast, u64::try_from(bytes).unwrap_or(file.bytes)) {
            return Ok(());
        }
    }
    Ok(())
}
