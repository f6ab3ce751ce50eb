//! The files of a load: which there are, what columns they have, and their rows.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use tokio::sync::mpsc;

use super::{FileFormat, LoadArgs, columnar, csv, infer};
use crate::cli::CliError;

/// One file to load.
#[derive(Clone, Debug)]
pub(crate) struct InputFile {
    pub(crate) path: PathBuf,
    pub(crate) format: FileFormat,
    pub(crate) bytes: u64,
}

impl InputFile {
    fn new(path: &Path, format: Option<FileFormat>) -> Result<Self, CliError> {
        let format = match format {
            Some(format) => format,
            None => format_of(path).ok_or_else(|| {
                let message = "the extension names no format; use --format csv, parquet or arrow";
                CliError::input(format!("{}: {message}", path.display()))
            })?,
        };
        let metadata = std::fs::metadata(path)
            .and_then(|m| if m.is_file() { Ok(m) } else { Err(io::Error::other("not a regular file")) });
        let bytes = metadata.map_err(|source| file_error(path, source))?.len();
        Ok(Self { path: path.to_owned(), format, bytes })
    }

    /// For messages: as the user gave it.
    pub(crate) fn name(&self) -> String {
        self.path.display().to_string()
    }

    pub(crate) fn open(&self) -> Result<File, CliError> {
        File::open(&self.path).map_err(|source| file_error(&self.path, source))
    }

    /// An error of this file.
    pub(crate) fn error(&self, message: impl std::fmt::Display) -> CliError {
        CliError::input(format!("{}: {message}", self.path.display()))
    }
}

fn file_error(path: &Path, source: io::Error) -> CliError {
    CliError::File { path: path.display().to_string(), source }
}

fn format_of(path: &Path) -> Option<FileFormat> {
    Some(match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "csv" | "tsv" => FileFormat::Csv,
        "parquet" | "pq" => FileFormat::Parquet,
        "arrow" | "arrows" | "ipc" | "feather" => FileFormat::Arrow,
        _ => return None,
    })
}

/// The files of a command, all of them there.
pub(crate) fn open_all(args: &LoadArgs) -> Result<Vec<InputFile>, CliError> {
    args.files.iter().map(|path| InputFile::new(path, args.format)).collect()
}

/// Called with the bytes read; an error stops the reading.
pub(crate) type Progress = dyn Fn(u64) -> Result<(), CliError>;

/// What to read, and as what.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) files: Vec<InputFile>,
    /// The columns to load, in the order of the batches.
    pub(crate) schema: SchemaRef,
    pub(crate) options: csv::Options,
    /// Bad rows that may be left out.
    pub(crate) max_bad: u64,
}

/// Some rows, and how many bytes of the files are behind them.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) batch: RecordBatch,
    pub(crate) bytes_done: u64,
}

/// Finds the columns to load. With a schema given, the files must have its columns; those of an existing table
/// may be missing (`partial`), and are null then. Without one, the files tell.
pub(crate) fn plan(
    files: Vec<InputFile>,
    given: Option<SchemaRef>,
    partial: bool,
    options: csv::Options,
    max_bad: u64,
    progress: &Progress,
) -> Result<Job, CliError> {
    let found = match &given {
        Some(schema) => Arc::clone(schema),
        None => match files.iter().find(|f| f.format != FileFormat::Csv) {
            Some(file) => columnar::schema(file)?,
            None => infer::schema(&files, &options, max_bad, progress)?,
        },
    };
    let schema = match files.first() {
        Some(first) if partial => present_columns(&found, column_names(first, &options)?.as_deref()),
        _ => Arc::clone(&found),
    };
    for file in &files {
        check_columns(file, &options, &found, &schema)?;
    }
    Ok(Job { files, schema, options, max_bad })
}

/// The columns of a table that a file has; columns without names are all of them.
fn present_columns(schema: &SchemaRef, names: Option<&[String]>) -> SchemaRef {
    let Some(names) = names else { return Arc::clone(schema) };
    let fields: Vec<Arc<Field>> =
        schema.fields().iter().filter(|f| names.contains(f.name())).cloned().collect();
    Arc::new(Schema::new(fields))
}

/// The names of a file's columns; `None` for a CSV without a header.
fn column_names(file: &InputFile, options: &csv::Options) -> Result<Option<Vec<String>>, CliError> {
    match file.format {
        FileFormat::Csv => csv::header(file, options),
        FileFormat::Parquet | FileFormat::Arrow => columnar::column_names(file).map(Some),
    }
}

/// A file has all columns of `wanted`, and no others than those of `known`.
fn check_columns(
    file: &InputFile,
    options: &csv::Options,
    known: &Schema,
    wanted: &Schema,
) -> Result<(), CliError> {
    let Some(names) = column_names(file, options)? else {
        let (columns, expected) = (csv::first_row_columns(file, options)?, wanted.fields().len());
        return match columns {
            Some(n) if n != expected => Err(file.error(format!("{n} columns, not {expected}"))),
            _ => Ok(()),
        };
    };
    if let Some((_, twice)) = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
        return Err(file.error(format!("two columns are named {twice:?}")));
    }
    if let Some(extra) = names.iter().find(|name| known.index_of(name).is_err()) {
        let known: Vec<_> = known.fields().iter().map(|f| f.name().as_str()).collect();
        return Err(file.error(format!("column {extra:?} is not one of {}", known.join(", "))));
    }
    if let Some(missing) = wanted.fields().iter().find(|f| !names.contains(f.name())) {
        return Err(file.error(format!("column {:?} is missing", missing.name())));
    }
    Ok(())
}

impl Job {
    /// Reads all files into `out`, until they end or nobody listens; gives the bad rows that were left out.
    pub(crate) fn read(&self, out: &mpsc::Sender<Read>) -> Result<Vec<String>, CliError> {
        let mut bad = Vec::new();
        let mut bytes_before = 0;
        for file in &self.files {
            let mut send = |batch: RecordBatch, bytes: u64| {
                let bytes_done = bytes_before + bytes;
                out.blocking_send(Read { batch, bytes_done }).is_ok()
            };
            match file.format {
                FileFormat::Csv => {
                    csv::read(file, &self.schema, &self.options, self.max_bad, &mut bad, &mut send)?;
                }
                FileFormat::Parquet | FileFormat::Arrow => columnar::read(file, &self.schema, &mut send)?,
            }
            bytes_before += file.bytes;
        }
        Ok(bad)
    }
}
