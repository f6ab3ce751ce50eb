//! The files of a load: what columns they have, and their rows.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead as _, BufReader},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arrow_array::{RecordBatch, new_null_array};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use basalt_nested::csv::BUFFER_BYTES;
use flate2::bufread::MultiGzDecoder;
use tempfile::TempPath;
use tokio::sync::mpsc;

use super::{FileFormat, columnar, csv, infer, names, options::Options, rows, rows::Told, sniff, widen};
use crate::cli::CliError;

/// What a file says, and how many of its bytes were read for that.
type Opened = (Box<dyn io::Read + Send>, Arc<AtomicU64>);

/// How a gzip and a Zstandard file begin.
const GZIP_MAGIC: &[u8] = b"\x1f\x8b";
const ZSTD_MAGIC: &[u8] = b"\x28\xb5\x2f\xfd";
/// The window of a Zstandard frame, as a power of two: what a decoder takes by itself, 128 MiB.
const ZSTD_WINDOW_LOG: u32 = 27;

/// One file to load.
#[derive(Clone, Debug)]
pub(crate) struct InputFile {
    pub(crate) path: PathBuf,
    pub(crate) format: FileFormat,
    pub(crate) bytes: u64,
    /// What separates the fields of a CSV.
    pub(crate) delimiter: u8,
    /// Standard input, kept in a file: it is read more than once.
    pub(crate) spooled: Option<Arc<TempPath>>,
}

impl InputFile {
    pub(crate) fn new(path: &Path, format: FileFormat) -> Result<Self, CliError> {
        let metadata = std::fs::metadata(path)
            .and_then(|m| if m.is_file() { Ok(m) } else { Err(io::Error::other("not a regular file")) });
        let bytes = metadata.map_err(|source| file_error(path, source))?.len();
        Ok(Self { path: path.to_owned(), format, bytes, delimiter: b',', spooled: None })
    }

    /// For messages: as the user gave it.
    pub(crate) fn name(&self) -> String {
        if self.spooled.is_some() { "standard input".to_owned() } else { self.path.display().to_string() }
    }

    pub(crate) fn open(&self) -> Result<File, CliError> {
        File::open(&self.path).map_err(|source| file_error(&self.path, source))
    }

    /// What a CSV or a JSON file says, decompressed where it is gzip or Zstandard by its first bytes; and how many
    /// bytes of the file were read for it.
    pub(crate) fn open_text(&self) -> Result<Opened, CliError> {
        let bytes = Arc::new(AtomicU64::new(0));
        let counted = Counted { file: self.open()?, bytes: Arc::clone(&bytes) };
        let mut input = BufReader::with_capacity(BUFFER_BYTES, counted);
        let start = input.fill_buf().map_err(|e| self.error(e))?;
        let input: Box<dyn io::Read + Send> = if start.starts_with(GZIP_MAGIC) {
            Box::new(MultiGzDecoder::new(input))
        } else if start.starts_with(ZSTD_MAGIC) {
            let mut decoder = zstd::Decoder::with_buffer(input).map_err(|e| self.error(e))?;
            decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(|e| self.error(e))?;
            Box::new(decoder)
        } else {
            Box::new(input)
        };
        Ok((input, bytes))
    }

    /// An error of this file.
    pub(crate) fn error(&self, message: impl std::fmt::Display) -> CliError {
        CliError::input(format!("{}: {message}", self.name()))
    }
}

/// Counts what is read.
struct Counted {
    file: File,
    bytes: Arc<AtomicU64>,
}

impl io::Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read(buffer)?;
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

pub(crate) fn file_error(path: &Path, source: io::Error) -> CliError {
    CliError::File { path: path.display().to_string(), source }
}

/// Called with the bytes read; an error stops the reading.
pub(crate) type Progress = dyn Fn(u64) -> Result<(), CliError>;

/// What to read, and as what.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) files: Vec<InputFile>,
    /// The columns to load, in the order of the batches.
    pub(crate) schema: SchemaRef,
    /// Those of them that each file has, in the order of the files.
    own: Vec<SchemaRef>,
    pub(crate) options: Options,
    /// Bad rows that may be left out.
    pub(crate) max_bad: u64,
    /// What the user should know.
    pub(crate) notes: Vec<String>,
    /// The columns that are not loaded, and why.
    pub(crate) left_out: BTreeMap<String, String>,
    /// The columns were found in files that have no rows: nothing is known of them but the names.
    pub(crate) is_empty: bool,
}

/// Why a column that is not one of `--columns` is left out.
pub(super) const NOT_WANTED: &str = "not one of --columns";

/// Some rows, and how many bytes of the files are behind them.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) batch: RecordBatch,
    pub(crate) bytes_done: u64,
}

/// Finds the columns to load. With a schema given, the files must have its columns; those of an existing table that are not
/// named by `--columns` may be missing in some files or in all (`partial`), and are null then. Without one, the files tell.
pub(crate) fn plan(
    mut files: Vec<InputFile>,
    given: Option<SchemaRef>,
    partial: bool,
    options: Options,
    max_bad: u64,
    progress: &Progress,
) -> Result<Job, CliError> {
    let (mut notes, mut left_out) = (Vec::new(), BTreeMap::new());
    for file in files.iter_mut().filter(|f| f.format == FileFormat::Csv) {
        notes.extend(find_delimiter(file, &options)?);
    }
    let mut is_empty = false;
    let found = match &given {
        Some(schema) => selected(schema, &options)?,
        None => {
            let found = find_columns(&files, &options, max_bad, progress, &mut notes, &mut left_out)?;
            is_empty = found.1;
            found.0
        }
    };
    let may_miss = partial && options.columns.is_none();
    let mut own = Vec::with_capacity(files.len());
    for file in &files {
        own.push(match may_miss {
            true => present_columns(&found, column_names(file, &options, &found)?.as_deref()),
            false => Arc::clone(&found),
        });
    }
    let is_present = |field: &&Arc<Field>| own.iter().any(|own| own.index_of(field.name()).is_ok());
    let fields: Vec<Arc<Field>> = found.fields().iter().filter(is_present).cloned().collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, found.metadata().clone()));
    for (file, own) in files.iter().zip(&own) {
        if file.format == FileFormat::Csv && options.has_header {
            let renamed = csv::renamed(file, &options, Some(own))?;
            notes.extend(renamed.into_iter().map(|note| format!("{}: {note}", file.name())));
        }
        check_columns(file, &options, &found, own, &mut left_out)?;
        let is_missing = |field: &&Arc<Field>| !field.is_nullable() && own.index_of(field.name()).is_err();
        if let Some(missing) = schema.fields().iter().find(is_missing) {
            return Err(file.error(format!("column {:?} is missing", missing.name())));
        }
    }
    notes.dedup();
    notes.extend(missing_notes(&schema, &own));
    Ok(Job { files, schema, own, options, max_bad, notes, left_out, is_empty })
}

/// What some files have, and others do not.
fn missing_notes(schema: &Schema, own: &[SchemaRef]) -> Vec<String> {
    let note = |field: &Arc<Field>| {
        let lack = own.iter().filter(|own| own.index_of(field.name()).is_err()).count();
        let name = field.name();
        (lack > 0).then(|| format!("column {name:?} is null where files lack it: {lack} of {}", own.len()))
    };
    schema.fields().iter().filter_map(note).collect()
}

/// What separates the fields of a CSV: what is said, or what its first rows say.
fn find_delimiter(file: &mut InputFile, options: &Options) -> Result<Option<String>, CliError> {
    let name = file.path.to_string_lossy().to_ascii_lowercase();
    let is_tsv = [".tsv", ".tsv.gz", ".tsv.zst"].iter().any(|end| name.ends_with(end));
    let default = if is_tsv { b'\t' } else { b',' };
    file.delimiter = match options.delimiter {
        Some(delimiter) => delimiter,
        None => sniff::delimiter(file, default)?,
    };
    let is_found = options.delimiter.is_none() && file.delimiter != default;
    let shown = || {
        if file.delimiter == b'\t' { "a tab".to_owned() } else { format!("{:?}", char::from(file.delimiter)) }
    };
    Ok(is_found
        .then(|| format!("{}: {} separates the fields (--delimiter says otherwise)", file.name(), shown())))
}

/// The columns of a schema that are wanted, in the order in which they are.
fn selected(schema: &SchemaRef, options: &Options) -> Result<SchemaRef, CliError> {
    let Some(columns) = &options.columns else { return Ok(Arc::clone(schema)) };
    let mut fields: Vec<Arc<Field>> = Vec::with_capacity(columns.len());
    for name in columns {
        let field = match names::named(name, schema) {
            Ok(Some(field)) => Arc::clone(field),
            Ok(None) => return Err(CliError::input(format!("--columns: no column is named {name:?}"))),
            Err(several) => return Err(CliError::input(format!("--columns: {several}"))),
        };
        if fields.contains(&field) {
            return Err(CliError::input(format!("--columns: column {:?} is named twice", field.name())));
        }
        fields.push(field);
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// The columns that hold those of all files, and whether none of these has a row.
fn find_columns(
    files: &[InputFile],
    options: &Options,
    max_bad: u64,
    progress: &Progress,
    notes: &mut Vec<String>,
    left_out: &mut BTreeMap<String, String>,
) -> Result<(SchemaRef, bool), CliError> {
    let (texts, others): (Vec<_>, Vec<_>) =
        files.iter().partition(|f| matches!(f.format, FileFormat::Csv | FileFormat::Json));
    let (mut columns, mut is_empty) = (widen::Columns::default(), others.is_empty());
    for file in others {
        let fields = columnar::columns(file, options, left_out)?;
        columns.add(file, &fields, false)?;
    }
    if let Some(first) = texts.first() {
        let found = infer::columns(&texts, options, max_bad, progress)?;
        notes.extend(found.notes);
        is_empty &= found.is_empty;
        left_out.extend(found.left_out.into_iter().map(|name| (name, NOT_WANTED.to_owned())));
        let has_optional = texts.iter().any(|f| f.format == FileFormat::Json);
        columns.add(first, &found.fields, has_optional)?;
    }
    let (schema, widened) = columns.finish();
    notes.extend(widened);
    let wanted = selected(&schema, options)?;
    let others = schema.fields().iter().filter(|field| wanted.index_of(field.name()).is_err());
    left_out.extend(others.map(|field| (field.name().clone(), NOT_WANTED.to_owned())));
    if wanted.fields().is_empty() {
        let message = "the files have no columns that a table could have";
        return Err(CliError::input(message));
    }
    Ok((wanted, is_empty))
}

/// The columns of a table that a file has; columns without names are all of them.
fn present_columns(schema: &SchemaRef, names: Option<&[String]>) -> SchemaRef {
    let Some(names) = names else { return Arc::clone(schema) };
    let fields: Vec<Arc<Field>> =
        schema.fields().iter().filter(|f| names.contains(f.name())).cloned().collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The names of a file's columns; `None` for a CSV without a header, and for JSON, where a row has those that it has.
fn column_names(
    file: &InputFile,
    options: &Options,
    known: &Schema,
) -> Result<Option<Vec<String>>, CliError> {
    match file.format {
        FileFormat::Csv => csv::header(file, options, Some(known)),
        FileFormat::Json => Ok(None),
        FileFormat::Parquet | FileFormat::Arrow => columnar::column_names(file).map(Some),
    }
}

/// A file has all columns of `wanted`, and no others than those of `known` but for those that are left out.
fn check_columns(
    file: &InputFile,
    options: &Options,
    known: &Schema,
    wanted: &Schema,
    left_out: &mut BTreeMap<String, String>,
) -> Result<(), CliError> {
    let Some(names) = column_names(file, options, known)? else {
        if file.format == FileFormat::Json {
            return Ok(());
        }
        let (columns, expected) = (csv::first_row_columns(file, options)?, wanted.fields().len());
        return match columns {
            Some(n) if n != expected && options.columns.is_none() => {
                Err(file.error(format!("{n} columns, not {expected}")))
            }
            _ => Ok(()),
        };
    };
    for extra in names.iter().filter(|name| known.index_of(name).is_err()) {
        if left_out.contains_key(extra) {
            continue;
        }
        if options.columns.is_some() {
            left_out.insert(extra.clone(), NOT_WANTED.to_owned());
            continue;
        }
        let known: Vec<_> = known.fields().iter().map(|f| f.name().as_str()).collect();
        return Err(file.error(format!("column {extra:?} is not one of {}", known.join(", "))));
    }
    if let Some(missing) = wanted.fields().iter().find(|f| !names.contains(f.name())) {
        return Err(file.error(format!("column {:?} is missing", missing.name())));
    }
    Ok(())
}

impl Job {
    /// Reads all files into `out`, until they end or nobody listens; tells what was left out or cut.
    pub(crate) fn read(&self, out: &mpsc::Sender<Read>) -> Result<Told, CliError> {
        let mut told = Told::default();
        let mut bytes_before = 0;
        for (file, own) in self.files.iter().zip(&self.own) {
            let mut failed = None;
            let mut send = |batch: RecordBatch, bytes: u64| {
                let bytes_done = bytes_before + bytes.min(file.bytes);
                match padded(batch, &self.schema) {
                    Ok(batch) => out.blocking_send(Read { batch, bytes_done }).is_ok(),
                    Err(error) => {
                        failed = Some(error);
                        false
                    }
                }
            };
            match file.format {
                FileFormat::Csv | FileFormat::Json => {
                    rows::read(file, own, &self.options, self.max_bad, &mut told, &mut send)?;
                }
                FileFormat::Parquet | FileFormat::Arrow => {
                    columnar::read(file, own, &mut told, &mut send)?;
                }
            }
            if let Some(error) = failed {
                return Err(file.error(error));
            }
            bytes_before += file.bytes;
        }
        Ok(told)
    }
}

/// Rows with all columns of a schema: those that their file lacks are null.
fn padded(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    if batch.num_columns() == schema.fields().len() {
        return Ok(batch);
    }
    let column = |field: &Arc<Field>| match batch.column_by_name(field.name()) {
        Some(column) => Arc::clone(column),
        None => new_null_array(field.data_type(), batch.num_rows()),
    };
    RecordBatch::try_new(Arc::clone(schema), schema.fields().iter().map(column).collect())
}
