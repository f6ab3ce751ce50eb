//! Parquet and Arrow IPC files.

use std::{
    fmt::Display,
    fs::File,
    io::{BufReader, Read as _, Seek as _},
    sync::Arc,
};

use arrow_array::{Array as _, RecordBatch};
use arrow_ipc::reader::{FileReaderBuilder, StreamReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::{FileFormat, cast, source::InputFile};
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

fn open(file: &InputFile) -> Result<Batches, CliError> {
    let error = |e: ArrowError| file.error(e);
    let mut reader = file.open()?;
    match file.format {
        FileFormat::Parquet => {
            let builder = ParquetRecordBatchReaderBuilder::try_new(reader).map_err(|e| file.error(e))?;
            let schema = Arc::clone(builder.schema());
            let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).ok();
            let batches = builder.with_batch_size(BATCH_ROWS).build().map_err(|e| file.error(e))?;
            Ok(Batches { schema, batches: Box::new(batches), rows })
        }
        FileFormat::Arrow if is_ipc_file(&mut reader).map_err(|e| file.error(e))? => {
            let reader = FileReaderBuilder::new().build(BufReader::new(reader)).map_err(error)?;
            Ok(Batches { schema: reader.schema(), batches: Box::new(reader), rows: None })
        }
        FileFormat::Arrow | FileFormat::Csv => {
            let reader = StreamReader::try_new(BufReader::new(reader), None).map_err(error)?;
            Ok(Batches { schema: reader.schema(), batches: Box::new(reader), rows: None })
        }
    }
}

fn is_ipc_file(file: &mut File) -> std::io::Result<bool> {
    let mut start = Vec::new();
    file.take(IPC_FILE_MAGIC.len() as u64).read_to_end(&mut start)?;
    file.rewind()?;
    Ok(start == IPC_FILE_MAGIC)
}

/// The table that holds a file's columns.
pub(super) fn schema(file: &InputFile) -> Result<SchemaRef, CliError> {
    let schema = open(file)?.schema;
    let fields = schema.fields().iter().map(|field| {
        cast::table_field(field).ok_or_else(|| {
            let (name, data_type) = (field.name(), field.data_type());
            file.error(format!("column {name:?} is of the type {data_type}, which no table holds"))
        })
    });
    Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<_>, _>>()?)))
}

/// The names of a file's columns.
pub(super) fn column_names(file: &InputFile) -> Result<Vec<String>, CliError> {
    Ok(open(file)?.schema.fields().iter().map(|f| f.name().clone()).collect())
}

/// Reads a file into batches of `schema` and hands them to `send`, with the bytes behind them (in proportion
/// to the rows, where those are known), until it does not want more.
pub(super) fn read(
    file: &InputFile,
    schema: &SchemaRef,
    send: &mut dyn FnMut(RecordBatch, u64) -> bool,
) -> Result<(), CliError> {
    let Batches { batches, rows, .. } = open(file)?;
    let mut rows_before = 0_u64;
    for batch in batches {
        let batch = batch.map_err(|e| file.error(e))?;
        let columns = schema.fields().iter().map(|field| {
            let at = |row: u64, e: &dyn Display| {
                file.error(format!("row {}: column {:?}: {e}", rows_before + row + 1, field.name()))
            };
            let array = batch.column_by_name(field.name()).ok_or_else(|| at(0, &"it is missing"))?;
            if !field.is_nullable()
                && let Some(row) =
                    array.logical_nulls().and_then(|nulls| (!nulls.inner()).set_indices().next())
            {
                return Err(at(row as u64, &"null, and the column is not nullable"));
            }
            let cast = cast::cast(array, field.data_type()).map_err(|e| {
                file.error(format!("column {:?}, from row {}: {e}", field.name(), rows_before + 1))
            })?;
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
