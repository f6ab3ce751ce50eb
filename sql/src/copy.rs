//! COPY: rows between a table, or a query, and a Parquet or CSV file of the server, which whoever has the tables opens; or the
//! client, through its connection.

mod lines;
mod options;
mod parquet_rows;
mod source;

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, BufWriter, Write as _},
    sync::Arc,
};

use arrow_array::{Array as _, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};
use basalt_core::{
    error::{Error as EngineError, ErrorKind, Result as EngineResult},
    exec::Memory,
    schema::{Field, Schema},
};
use datafusion::{execution::SendableRecordBatchStream, sql::sqlparser::ast};
use futures_util::StreamExt as _;
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    errors::ParquetError,
    file::properties::WriterProperties,
};
use tokio::task::block_in_place;

use options::Format;
pub(crate) use options::{CopyFile, Target};
pub use options::{CopyForm, CopyFormat};
use source::In;

use crate::{
    answer::Shown,
    assign::Rows,
    catalog::{Sink, Writer},
    csv::Form,
    engine::Request,
    error::{Error, Result},
    limits,
};

impl CopyFile {
    /// Writes the rows of a query; the file is there when all of them are in it.
    pub(crate) async fn write(
        &self,
        mut rows: SendableRecordBatchStream,
        shown: &Shown,
        sink: Box<dyn Sink>,
        memory: &Arc<dyn Memory>,
    ) -> Result<u64> {
        let mut out = Out::new(self.format, sink.file()?, shown.arrow(), Arc::clone(memory))?;
        let mut n = 0;
        while let Some(batch) = rows.next().await {
            let batch = shown.batch(&batch?)?;
            n += batch.num_rows() as u64;
            block_in_place(|| out.write(&batch))?;
        }
        block_in_place(|| out.finish())?;
        block_in_place(|| sink.keep())?;
        Ok(n)
    }
}

impl Target {
    /// Gives the rows of a file, or those that the client sends, to a writer: by the names of the columns where there are names.
    pub(crate) async fn read(
        &self,
        request: &Request,
        schema: &Schema,
        columns: &[String],
        writer: &mut dyn Writer,
    ) -> Result<()> {
        let mut input = match self {
            Self::File(file) => {
                let source = request.catalog.copy_source(&file.path).await?;
                block_in_place(|| In::new(file.format, source, schema, columns, &request.memory))?
            }
            Self::Client(form) => {
                let input = request.catalog.copy_input().await?;
                block_in_place(|| In::of_client(form, input, schema, columns, &request.memory))?
            }
        };
        let names: Vec<_> = input.schema().fields().iter().map(|field| field.name().clone()).collect();
        let rows = Rows::new(schema, sources(schema, columns, &names)?);
        rows.check(&input.schema())?;
        while let Some(piece) = block_in_place(|| input.next())? {
            let mut before = 0;
            for part in rows.parts(&piece.batch) {
                let made = block_in_place(|| fitted(&part, |row| piece.place(before + row), &rows, schema))?;
                before += part.num_rows();
                writer.insert(made).await?;
            }
        }
        Ok(())
    }
}

/// The columns that a client sends, in order.
pub(crate) fn columns_of_client(schema: &Schema, columns: &[String]) -> Result<Vec<Field>> {
    if columns.is_empty() {
        return Ok(schema.fields().to_vec());
    }
    let mut seen = BTreeSet::new();
    let column = |name: &String| {
        let at = schema.find(name)?;
        match seen.insert(at) {
            true => Ok(schema.fields()[at].clone()),
            false => Err(Error::invalid(format!("column {name:?} is named twice"))),
        }
    };
    columns.iter().map(column).collect()
}

/// The rows of a file as those of a table. What is wrong is told with the place of its row.
fn fitted(
    batch: &RecordBatch,
    place: impl Fn(usize) -> String,
    rows: &Rows,
    schema: &Schema,
) -> Result<RecordBatch> {
    let at = |row: usize, error: &EngineError| {
        Error::new(error.kind(), format!("{}: {}", place(row), error.message()))
    };
    let made = match rows.of(batch) {
        Ok(made) => made,
        Err(error) => {
            // Most often nobody has to look for it.
            let of_row = |row| rows.of(&batch.slice(row, 1)).err().map(|error| (row, error));
            let (row, error) = (0..batch.num_rows()).find_map(of_row).ok_or(error)?;
            return Err(error.statement().map(|own| at(row, own)).unwrap_or(error));
        }
    };
    for (field, column) in schema.fields().iter().zip(made.columns()) {
        let mut nulls = (0..made.num_rows()).filter(|row| column.is_null(*row));
        if let (false, true, Some(row)) = (field.nullable, column.null_count() > 0, nulls.next()) {
            let message = format!("column {:?}: null in a column that is not nullable", field.name);
            return Err(at(row, &EngineError::new(ErrorKind::InvalidBatch, message)));
        }
    }
    Ok(made)
}

/// For each column of a table, the place of the one in a file that has its name; of those that are named, if any are.
fn sources(schema: &Schema, columns: &[String], names: &[String]) -> Result<Vec<Option<usize>>> {
    let mut sources = vec![None; schema.fields().len()];
    let wanted = columns.iter().map(|column| schema.find(column)).collect::<EngineResult<Vec<_>>>()?;
    for (place, name) in names.iter().enumerate() {
        let column = match schema.find(name) {
            Ok(column) => column,
            Err(missing) if columns.is_empty() => {
                let message =
                    format!("the file has a column {name:?}: {} (name those to take)", missing.message());
                return Err(Error::new(ErrorKind::ColumnNotFound, message));
            }
            Err(_) => continue,
        };
        let is_wanted = columns.is_empty() || wanted.contains(&column);
        if is_wanted && sources[column].replace(place).is_some() {
            return Err(Error::invalid(format!("the file has two columns {name:?}")));
        }
    }
    let missing = columns.iter().zip(&wanted).find(|(_, column)| sources[**column].is_none());
    if let Some((missing, _)) = missing {
        return Err(Error::new(ErrorKind::ColumnNotFound, format!("the file has no column {missing:?}")));
    }
    Ok(sources)
}

fn of_io(error: &io::Error) -> Error {
    let own = error.get_ref().and_then(|error| error.downcast_ref::<EngineError>());
    own.map_or_else(
        || Error::invalid(format!("what COPY reads or writes: {error}")),
        |own| own.clone().into(),
    )
}

fn of_arrow(error: &ArrowError) -> Error {
    Error::invalid(format!("the file: {error}"))
}

fn of_parquet(error: &ParquetError) -> Error {
    Error::invalid(format!("the file: {error}"))
}

fn form(delimiter: u8, quote: u8) -> Form<'static> {
    Form { delimiter, quote, ..Form::default() }
}

/// A file that is written.
enum Out {
    Parquet { writer: Box<ArrowWriter<File>>, memory: Arc<dyn Memory>, taken: usize },
    Csv { out: BufWriter<File>, delimiter: u8, quote: u8 },
}

impl Out {
    fn new(format: Format, file: File, schema: &SchemaRef, memory: Arc<dyn Memory>) -> Result<Self> {
        Ok(match format {
            Format::Parquet => {
                let level = ZstdLevel::try_new(1).map_err(|error| of_parquet(&error))?;
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(level))
                    .set_max_row_group_row_count(Some(limits::COPY_GROUP_ROWS))
                    .build();
                let writer = ArrowWriter::try_new(file, Arc::clone(schema), Some(properties));
                let writer = Box::new(writer.map_err(|error| of_parquet(&error))?);
                Self::Parquet { writer, memory, taken: 0 }
            }
            Format::Csv { delimiter, quote, header } => {
                let mut out = BufWriter::new(file);
                if header {
                    form(delimiter, quote).header(schema, &mut out).map_err(|error| of_io(&error))?;
                }
                Self::Csv { out, delimiter, quote }
            }
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match self {
            Self::Csv { out, delimiter, quote } => {
                form(*delimiter, *quote).rows(batch, out).map_err(|error| of_arrow(&error))
            }
            Self::Parquet { writer, memory, taken } => {
                writer.write(batch).map_err(|error| of_parquet(&error))?;
                let now = writer.memory_size();
                if now > *taken && memory.grow(*taken, now - *taken).is_err() {
                    // What is gathered is written, however little it is.
                    writer.flush().map_err(|error| of_parquet(&error))?;
                } else if now > *taken {
                    *taken = now;
                }
                let now = writer.memory_size();
                if now < *taken {
                    memory.shrink(*taken - now);
                    *taken = now;
                }
                Ok(())
            }
        }
    }

    fn finish(&mut self) -> Result<()> {
        match self {
            Self::Csv { out, .. } => out.flush().map_err(|error| of_io(&error)),
            Self::Parquet { writer, .. } => writer.finish().map(|_| ()).map_err(|error| of_parquet(&error)),
        }
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        if let Self::Parquet { memory, taken, .. } = self {
            memory.shrink(*taken);
        }
    }
}

/// The statement of COPY where a table is written to a file: the query that gives its rows.
pub(crate) fn query_of_table(table: &ast::ObjectName, columns: &[ast::Ident]) -> Option<Box<ast::Query>> {
    let list = match columns {
        [] => "*".to_owned(),
        columns => columns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    let sql = format!("SELECT {list} FROM {table}");
    crate::parse::ast_parser(&sql).and_then(|mut parser| parser.parse_query().ok())
}
