//! COPY: rows between a table, or a query, and a Parquet or CSV file of the server, which whoever has the tables opens.

use std::{
    fs::File,
    io::{self, BufWriter, Read, Write as _},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Field, Schema as ArrowSchema, SchemaRef};
use basalt_core::{error::ErrorKind, exec::Memory, schema::Schema};
use datafusion::{
    arrow::csv::{self, reader::Format as CsvFormat},
    execution::SendableRecordBatchStream,
    sql::sqlparser::ast::{self, CopyLegacyOption, CopyOption, CopyTarget},
};
use futures_util::StreamExt as _;
use parquet::{
    arrow::{ArrowWriter, arrow_reader::ParquetRecordBatchReaderBuilder},
    basic::{Compression, ZstdLevel},
    errors::ParquetError,
    file::properties::WriterProperties,
};
use tokio::task::block_in_place;

use crate::{
    answer::Shown,
    assign::Rows,
    catalog::{Sink, Writer},
    csv::Form,
    error::{Error, Result},
    limits,
};

/// A file, as COPY names it.
#[derive(Clone, Debug)]
pub(crate) struct CopyFile {
    pub(crate) path: String,
    format: Format,
}

#[derive(Clone, Copy, Debug)]
enum Format {
    Parquet,
    Csv { delimiter: u8, quote: u8, header: bool },
}

impl CopyFile {
    /// By the target and the options of COPY; the format is what is said, or what the name ends with.
    pub(crate) fn new(
        target: &CopyTarget,
        options: &[CopyOption],
        legacy: &[CopyLegacyOption],
    ) -> Result<Self> {
        let CopyTarget::File { filename } = target else {
            return Err(Error::unsupported(format!("COPY with {target} (a file is)")));
        };
        if let Some(option) = legacy.first() {
            return Err(Error::unsupported(format!("{option} (options stand in parentheses: (FORMAT csv))")));
        }
        let (mut format, mut delimiter, mut quote, mut header) = (None, b',', b'"', true);
        let byte = |of: char| {
            u8::try_from(of)
                .ok()
                .filter(u8::is_ascii)
                .ok_or_else(|| Error::invalid(format!("{of:?} is no ASCII")))
        };
        let mut for_csv = false;
        for option in options {
            for_csv |= !matches!(option, CopyOption::Format(_));
            match option {
                CopyOption::Format(name) => format = Some(name.value.to_ascii_lowercase()),
                CopyOption::Delimiter(of) => delimiter = byte(*of)?,
                CopyOption::Quote(of) => quote = byte(*of)?,
                CopyOption::Header(of) => header = *of,
                other => return Err(Error::unsupported(format!("COPY with {other}"))),
            }
        }
        let end = filename.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase());
        let format = match format.or(end).as_deref() {
            Some("parquet") if for_csv => return Err(Error::invalid("these options are for CSV")),
            Some("parquet") => Format::Parquet,
            Some("csv") => Format::Csv { delimiter, quote, header },
            _ => return Err(Error::invalid("which format? (FORMAT parquet) and (FORMAT csv) are")),
        };
        Ok(Self { path: filename.clone(), format })
    }

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

    /// Gives the rows of a file to a writer, by the names of the columns where the file has names.
    pub(crate) async fn read(
        &self,
        file: File,
        schema: &Schema,
        columns: &[String],
        writer: &mut dyn Writer,
    ) -> Result<()> {
        let mut input = block_in_place(|| In::new(self.format, file, schema, columns))?;
        let names: Vec<_> = input.schema().fields().iter().map(|field| field.name().clone()).collect();
        let rows = Rows::new(schema, sources(schema, columns, &names)?);
        rows.check(&input.schema())?;
        while let Some(batch) = block_in_place(|| input.next())? {
            writer.insert(rows.of(&batch)?).await?;
        }
        Ok(())
    }
}

/// For each column of a table, the place of the one in a file that has its name; of those that are named, if any are.
fn sources(schema: &Schema, columns: &[String], names: &[String]) -> Result<Vec<Option<usize>>> {
    let mut sources = vec![None; schema.fields().len()];
    for column in columns {
        if schema.index_of(column).is_none() {
            let message = format!("the table has no column {column:?}");
            return Err(Error::new(ErrorKind::ColumnNotFound, message));
        }
    }
    for (place, name) in names.iter().enumerate() {
        let is_wanted = columns.is_empty() || columns.contains(name);
        let column = match schema.index_of(name) {
            Some(column) => column,
            None if columns.is_empty() => {
                let message =
                    format!("the file has a column {name:?}, and the table has none (name those to take)");
                return Err(Error::new(ErrorKind::ColumnNotFound, message));
            }
            None => continue,
        };
        if is_wanted && sources[column].replace(place).is_some() {
            return Err(Error::invalid(format!("the file has two columns {name:?}")));
        }
    }
    if let Some(missing) = columns.iter().find(|column| !names.contains(column)) {
        return Err(Error::new(ErrorKind::ColumnNotFound, format!("the file has no column {missing:?}")));
    }
    Ok(sources)
}

fn of_io(error: &io::Error) -> Error {
    Error::invalid(format!("the file: {error}"))
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

/// A file that is read.
enum In {
    Parquet(Box<parquet::arrow::arrow_reader::ParquetRecordBatchReader>, SchemaRef),
    Csv { reader: Box<csv::Reader<Bounded>>, read: Arc<AtomicUsize>, schema: SchemaRef },
}

impl In {
    fn new(format: Format, file: File, table: &Schema, columns: &[String]) -> Result<Self> {
        match format {
            Format::Parquet => {
                let builder = ParquetRecordBatchReaderBuilder::try_new(file);
                let builder = builder.map_err(|error| of_parquet(&error))?.with_batch_size(limits::COPY_ROWS);
                let schema = Arc::clone(builder.schema());
                let reader = builder.build().map_err(|error| of_parquet(&error))?;
                Ok(Self::Parquet(Box::new(reader), schema))
            }
            Format::Csv { delimiter, quote, header } => {
                let read = Arc::<AtomicUsize>::default();
                let names: Vec<String> = match header {
                    true => {
                        let first = file.try_clone().map_err(|error| of_io(&error))?;
                        let format = CsvFormat::default()
                            .with_header(true)
                            .with_delimiter(delimiter)
                            .with_quote(quote);
                        let inferred =
                            format.infer_schema(Bounded { file: first, read: Arc::clone(&read) }, Some(0));
                        let (inferred, _) = inferred.map_err(|error| of_arrow(&error))?;
                        io::Seek::rewind(&mut &file).map_err(|error| of_io(&error))?;
                        read.store(0, Ordering::Relaxed);
                        inferred.fields().iter().map(|field| field.name().clone()).collect()
                    }
                    false if columns.is_empty() => {
                        table.fields().iter().map(|field| field.name.clone()).collect()
                    }
                    false => columns.to_vec(),
                };
                let fields = names.iter().map(|name| Field::new(name, DataType::Utf8, true));
                let schema: SchemaRef = Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>()));
                let builder = csv::ReaderBuilder::new(Arc::clone(&schema)).with_header(header);
                let builder =
                    builder.with_delimiter(delimiter).with_quote(quote).with_batch_size(limits::COPY_ROWS);
                let reader = builder.build(Bounded { file, read: Arc::clone(&read) });
                let reader = Box::new(reader.map_err(|error| of_arrow(&error))?);
                Ok(Self::Csv { reader, read, schema })
            }
        }
    }

    fn schema(&self) -> SchemaRef {
        match self {
            Self::Parquet(_, schema) | Self::Csv { schema, .. } => Arc::clone(schema),
        }
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let next = match self {
            Self::Parquet(reader, _) => reader.next(),
            Self::Csv { reader, read, .. } => {
                let next = reader.next();
                read.store(0, Ordering::Relaxed);
                next
            }
        };
        next.transpose().map_err(|error| of_arrow(&error))
    }
}

/// A file of which only so much is read for one batch: a field that never ends is an error.
struct Bounded {
    file: File,
    read: Arc<AtomicUsize>,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(buffer)?;
        if self.read.fetch_add(n, Ordering::Relaxed) + n > limits::COPY_BATCH_BYTES {
            let message =
                format!("{} rows have more than {} bytes", limits::COPY_ROWS, limits::COPY_BATCH_BYTES);
            return Err(io::Error::other(message));
        }
        Ok(n)
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
