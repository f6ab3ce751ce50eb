//! `basalt load`: files into a table, all rows or none.

mod ahead;
mod cast;
mod chunk;
mod columnar;
mod csv;
mod expired;
mod formats;
mod infer;
mod inputs;
mod ipc;
mod json;
mod keep;
mod names;
mod options;
mod report;
mod rows;
mod schema_text;
mod sniff;
mod source;
mod widen;

pub(super) use options::NULLS;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use tokio::sync::mpsc;

use self::{
    expired::Expired,
    formats::Format,
    options::Options,
    report::{bar, report, report_notes, summary},
    rows::Told,
    source::{InputFile, Job, Read},
};
use super::{CliError, ConnectArgs, grid, human, print, retention};
use crate::{
    cli::interrupt::interrupted,
    client::Client,
    convert::REFERENCES_KEY,
    error::{Error, ErrorReason},
    options::WriteOptions,
    table::{Deletes, Optimize, Retention, Table, TableDetails, TableOptions},
    write::Committed,
};

/// Arguments of `load`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
The table is created when it is missing. Its columns are those of --schema, else those of the files: of Parquet and \
Arrow files by their types, of CSV and JSON files by reading all of them: bool, int32, int64, uint64, float64, date32 \
(2013-07-04), timestamp (2013-07-04T10:00:00Z; UTC without a zone), time (10:30:00), decimal(38,s) for numbers that no \
integer or float holds, or utf8; a column where a null was seen is nullable. Where files differ in a column, it gets the type that holds both, at last utf8, and that is said.

All files are one commit. A bad row stops the load with its file, line and column, and nothing is committed; a \
table that this load created is dropped again. So does a quote that is not closed, or text behind one that is, and \
--skip-bad does not help there. Dates and times are from 0001-01-01 to 9999-12-31.

What is held in which way:
  lists, structs, maps      as JSON text (utf8), without spaces; NaN and infinities as strings
  nanoseconds               cut to microseconds, towards the past; the load says how many values were
  float16                   as float32
  decimals                  exactly, up to 38 digits
  binary                    as binary; in a CSV as hexadecimal digits, 00ff or \\x00ff
  integers beyond a float   an error: no number becomes another
  columns of nulls alone    as utf8
  intervals, durations      not at all: --skip-unsupported leaves them out, with a list of them
  names of columns          as they are; an empty one is column3 by its position (in JSON _), the second a is a_2

JSON files are objects one behind the other, or one array of them. Keys may be missing: they are null.
Files may lack columns of a table that is there: they are null, unless --columns names them.

Examples:
  basalt load flights flights.csv
  basalt load prices 2024.csv 2025.csv --delimiter ';' --schema 'day date32 not null, price decimal(9,2)'
  basalt load events 'events/*.json.gz' --columns id,at,kind
  zcat log.csv.gz | basalt load log - --format csv --date-format %d.%m.%Y")]
pub struct LoadArgs {
    /// The table
    pub table: String,

    /// CSV, JSON, Parquet or Arrow IPC files, folders of them, patterns ('data/*.parquet'), or - for standard input;
    /// CSV and JSON may be gzip or Zstandard
    #[arg(required = true)]
    pub files: Vec<PathBuf>,

    /// The files' format [default: by their extensions]
    #[arg(long, value_enum)]
    pub format: Option<FileFormat>,

    /// The table's columns: "a int32, b decimal(12,2) not null, c utf8"
    #[arg(long)]
    pub schema: Option<String>,

    /// Load these columns alone; what is left out is listed
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', value_parser = trimmed)]
    pub columns: Option<Vec<String>>,

    /// Leave out columns of types that no table holds, and list them; else they are an error
    #[arg(long)]
    pub skip_unsupported: bool,

    /// In place of what a table of this name has: in one commit where the columns are the same, else the table is dropped
    /// first, when the files were checked. Without --schema, columns keep the types that the table has where the values of CSV
    /// and JSON files fit
    #[arg(long)]
    pub replace: bool,

    /// Rows of the table with the same values in these columns as a new row are deleted in the same commit
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', value_parser = trimmed, conflicts_with = "replace")]
    pub replace_by: Vec<String>,

    /// A table that is new keeps its rows for so long, by a timestamp or a date: at=30d
    #[arg(long, value_name = "COLUMN=TIME", value_parser = retention::parse)]
    pub retention: Option<Retention>,

    /// What deletions leave in the files of a table that is new; see `basalt deletes` [default: vectors]
    #[arg(long, value_enum)]
    pub deletes: Option<Deletes>,

    /// What the columns of a table that is new are encoded for
    #[arg(long, value_enum)]
    pub optimize: Option<Optimize>,

    /// Leave out up to N bad rows
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip_bad: u64,

    /// What separates the fields of a CSV [default: found among , ; | and tab]
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    pub delimiter: Option<u8>,

    /// The CSVs have no header: columns go by their positions
    #[arg(long)]
    pub no_header: bool,

    /// How dates or timestamps are written, in the words of strftime: %d.%m.%Y, "%m/%d/%Y %H:%M"; once for each form. %z reads
    /// an offset, names of zones are not read, and %y is from 1969 to 2068
    #[arg(long, value_name = "FORMAT", value_parser = Format::new)]
    pub date_format: Vec<Format>,

    /// Texts that stand for null in a CSV, quoted or not, separated by commas [default: an empty one, NULL, \N, and NA
    /// where the column is no text; in quotes they are texts where the column is text]
    #[arg(long, value_name = "TEXTS", value_delimiter = ',', allow_hyphen_values = true)]
    pub null: Option<Vec<String>>,
}

/// A file's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    /// Comma-separated values, or with another delimiter
    Csv,
    /// JSON: objects one behind the other, or one array of them
    Json,
    /// Apache Parquet
    Parquet,
    /// Arrow IPC, the file or the stream format
    Arrow,
}

pub(super) fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ => Err("one ASCII character, or \\t".to_owned()),
    }
}

/// A name among others, which may have spaces around it.
#[allow(clippy::unnecessary_wraps, reason = "as clap has it")]
fn trimmed(text: &str) -> Result<String, String> {
    Ok(text.trim().to_owned())
}

pub(crate) async fn run(args: &LoadArgs, connect: &ConnectArgs) -> Result<(), CliError> {
    let opened = opened(args).await?;
    let client = connect.connect().await?;
    load(args, opened, client).await
}

/// The same by a client that is connected already.
pub(crate) async fn run_as(args: &LoadArgs, client: &Client) -> Result<(), CliError> {
    load(args, opened(args).await?, client.clone()).await
}

/// The files, which are there, and the columns that are declared.
async fn opened(args: &LoadArgs) -> Result<(Vec<InputFile>, Option<Schema>), CliError> {
    let (files, notes) = {
        let args = args.clone();
        // Standard input may never end: the thread that reads it is not waited for.
        let opened = detached(move || inputs::open_all(&args));
        tokio::select! {
            opened = opened => opened?,
            () = interrupted() => return Err(CliError::Interrupted),
        }
    };
    notes.iter().for_each(|note| eprintln!("note: {note}"));
    let declared = args.schema.as_deref().map(schema_text::parse).transpose().map_err(CliError::Input)?;
    Ok((files, declared))
}

async fn load(
    args: &LoadArgs,
    (files, declared): (Vec<InputFile>, Option<Schema>),
    client: Client,
) -> Result<(), CliError> {
    // Ctrl-C ends the command here, so that what it began is undone.
    let committing = AtomicBool::new(false);
    let mut load = Load { client, args, created: false, dropped: false, committing: &committing };
    let outcome = tokio::select! {
        outcome = load.run(files, declared) => outcome,
        () = interrupted() => Err(match committing.load(Ordering::Relaxed) {
            true => CliError::InterruptedCommit,
            false => CliError::Interrupted,
        }),
    };
    if let Err(error) = &outcome
        && load.created
        && (!committing.load(Ordering::Relaxed) || wrote_nothing(error))
        // Others may have written to it meanwhile.
        && load.client.table_summary(&args.table).await.is_ok_and(|table| table.rows == 0)
    {
        // The first error is the one to tell.
        let _ = load.client.drop_table_if_exists(&args.table).await;
    }
    if outcome.is_err() && load.dropped {
        eprintln!(
            "note: the table {:?} that was there had been dropped already, for its columns are others",
            args.table
        );
    }
    outcome
}

/// Whether an error of a commit says that the rows are not there.
fn wrote_nothing(error: &CliError) -> bool {
    match error {
        CliError::Client(error) => {
            error.server().is_some_and(|error| error.reason != ErrorReason::OutcomeUnknown)
        }
        _ => false,
    }
}

struct Load<'a> {
    client: Client,
    args: &'a LoadArgs,
    /// The table was missing, and is made by this load.
    created: bool,
    /// The table that was there is not there any longer, and no other has taken its place.
    dropped: bool,
    /// A commit was sent: from then on the rows may be there.
    committing: &'a AtomicBool,
}

impl Load<'_> {
    async fn run(&mut self, files: Vec<InputFile>, declared: Option<Schema>) -> Result<(), CliError> {
        let started = Instant::now();
        let table = &self.args.table;
        let bytes = files.iter().map(|f| f.bytes).sum();
        let existing = match self.client.table_summary(table).await {
            Ok(existing) => Some(existing),
            Err(error) if error.reason() == ErrorReason::TableNotFound => None,
            Err(error) => return Err(error.into()),
        };
        let deletes = self.deletes(existing.as_ref())?;
        let before = existing.as_ref().map(|table| table.rows);
        let (known, existing) = existing.map(|table| (table.retention, table.schema)).unzip();
        let has_schema = declared.is_some();
        let mut job = self.plan(files, declared, existing.as_ref()).await?;
        if let Some(existing) = existing.as_ref().filter(|_| self.args.replace && !has_schema) {
            let bad = async |job: Job| match read_all(job, bar("checking", bytes), async |_| Ok(())).await {
                Ok(told) => Ok(Some(told.bad.len())),
                Err(CliError::Input(_)) => Ok(None),
                Err(error) => Err(error),
            };
            job = keep::in_place_of(existing, &job, bad).await?.unwrap_or(job);
        }
        report_notes(&job);
        let kept = self.retention(known, &job.schema)?;
        let in_place = existing.as_ref().is_some_and(|existing| self.replaces_rows(existing, &job.schema));
        if in_place {
            let rows = human::plural(before.unwrap_or_default(), "row");
            eprintln!("note: the rows of the table {table:?} go when the new ones are committed: {rows}");
        } else if existing.is_some() && self.args.replace {
            // What cannot be read must not cost the old table.
            read_all(job.clone(), bar("checking", bytes), async |_| Ok(())).await?;
            self.client.drop_table(table).await?;
            self.dropped = true;
            let rows = human::plural(before.unwrap_or_default(), "row");
            eprintln!("note: the table {table:?} that was there is replaced: {rows}");
        }
        if existing.is_none() || (self.args.replace && !in_place) {
            if self.args.schema.is_none() {
                let columns: Vec<_> =
                    job.schema.fields().iter().map(|field| schema_text::of_field(field)).collect();
                eprintln!("note: the table's columns: {}", columns.join(", "));
            }
            let options = TableOptions { retention: kept.clone(), deletes, optimize: self.args.optimize };
            // It may be there as soon as it is asked for.
            self.created = true;
            let created = self.client.create_table_with(table, &job.schema, &options).await;
            self.created = created.is_ok();
            created?;
        }
        let (committed, told) = self.write(&job, bytes, in_place, kept.as_ref()).await?;
        (self.created, self.dropped) = (false, false);
        report(&told, &job);
        // It is committed, whoever can tell how it is held.
        let details = match self.client.table(table).await {
            Ok(details) => details,
            Err(_) => TableDetails { table: self.client.table_summary(table).await?, columns: Vec::new() },
        };
        let replaced = committed.replaced.filter(|_| !self.args.replace_by.is_empty());
        print(&summary(&details, committed.rows, replaced, bytes, started.elapsed()))
    }

    /// Whether --replace changes nothing but rows, so that all of them are replaced by one commit.
    fn replaces_rows(&self, existing: &SchemaRef, new: &Schema) -> bool {
        let LoadArgs { replace, retention, deletes, optimize, schema, .. } = self.args;
        let fits = existing.fields().len() == new.fields().len()
            && existing.fields().iter().zip(new.fields()).all(|(existing, new)| {
                // Rows without nulls fit a column that may have them.
                let nullable = existing.is_nullable() == new.is_nullable()
                    || (existing.is_nullable() && schema.is_none());
                let refers = |field: &Field| field.metadata().get(REFERENCES_KEY).cloned();
                let refers_alike = schema.is_none() || refers(existing) == refers(new);
                let is_alike = existing.name() == new.name() && existing.data_type() == new.data_type();
                nullable && refers_alike && is_alike
            });
        *replace && fits && retention.is_none() && deletes.is_none() && optimize.is_none()
    }

    /// What deletions leave in the files of a new table: what is said, or as in the table that it replaces.
    fn deletes(&self, existing: Option<&Table>) -> Result<Option<Deletes>, CliError> {
        let known = existing.and_then(|table| table.deletes);
        match self.args.deletes {
            Some(wanted) if existing.is_some() && !self.args.replace && known != Some(wanted) => {
                let table = &self.args.table;
                let message = "other deletes (`basalt deletes` changes them)";
                Err(CliError::input(format!("table {table} exists with {message}")))
            }
            wanted => Ok(wanted.or(known)),
        }
    }

    /// For how long the rows of a new table are kept: as long as is said, or as those of the table that it replaces.
    fn retention(
        &self,
        existing: Option<Option<Retention>>,
        schema: &Schema,
    ) -> Result<Option<Retention>, CliError> {
        let table = &self.args.table;
        let has_times = |kept: &Retention| {
            let field = schema.field_with_name(&kept.column);
            field.is_ok_and(|field| matches!(field.data_type(), DataType::Timestamp(..) | DataType::Date32))
        };
        match (&self.args.retention, existing) {
            (Some(wanted), Some(known)) if !self.args.replace && Some(wanted) != known.as_ref() => {
                let message = "another retention (`basalt retention` changes it)";
                Err(CliError::input(format!("table {table} exists with {message}")))
            }
            (Some(wanted), _) if !has_times(wanted) => {
                let column = &wanted.column;
                Err(CliError::input(format!(
                    "--retention: there is no column {column:?} of timestamps or dates"
                )))
            }
            (Some(wanted), _) => Ok(Some(wanted.clone())),
            (None, known) => Ok(known.flatten().filter(has_times)),
        }
    }

    /// The columns to load: the existing table's, the declared ones, or the files' own.
    async fn plan(
        &self,
        files: Vec<InputFile>,
        declared: Option<Schema>,
        existing: Option<&SchemaRef>,
    ) -> Result<Job, CliError> {
        let existing = existing.filter(|_| !self.args.replace);
        if let (Some(declared), Some(existing)) = (&declared, existing)
            && !same_columns(declared, existing)
        {
            return Err(CliError::input(format!(
                "table {} exists with other columns than --schema (--replace drops it first)",
                self.args.table
            )));
        }
        let bytes = files.iter().map(|f| f.bytes).sum();
        let options = Options::new(self.args);
        let given = existing.cloned().or(declared.map(Arc::new));
        let bar = if given.is_some() { ProgressBar::hidden() } else { bar("finding types", bytes) };
        let (partial, max_bad) = (existing.is_some(), self.args.skip_bad);
        let (reading, _stop) = Reading::new();
        blocking(move || {
            let progress = move |done| {
                bar.set_position(done);
                reading.check()
            };
            source::plan(files, given, partial, options, max_bad, &progress)
        })
        .await
    }

    /// Writes until the commit, and from the start again when that may help: the request id stays the same,
    /// so that no row is ever there twice.
    async fn write(
        &self,
        job: &Job,
        bytes: u64,
        replace_all: bool,
        kept: Option<&Retention>,
    ) -> Result<(Committed, Told), CliError> {
        let columns = job.schema.fields().iter().map(|f| f.name().clone()).collect();
        let key = |name: &String| match names::named(name, &job.schema) {
            Ok(Some(field)) => Ok(field.name().clone()),
            // The server says that there is none.
            Ok(None) => Ok(name.clone()),
            Err(several) => Err(CliError::input(format!("--replace-by: {several}"))),
        };
        let replace_by = self.args.replace_by.iter().map(key).collect::<Result<_, _>>()?;
        let options = WriteOptions { columns, replace_by, replace_all, ..Default::default() };
        let mut tries = 0;
        loop {
            let error = match self.try_write(job.clone(), bytes, options.clone(), kept).await {
                Err(CliError::Client(error)) => error,
                outcome => return outcome,
            };
            tries += 1;
            let Some(delay) = self.client.options().retry.delay(&error, tries) else {
                return Err(error.into());
            };
            let error = grid::escape_lines(&error.to_string());
            eprintln!("{error}: trying again in {}", human::duration(delay));
            tokio::time::sleep(delay).await;
        }
    }

    async fn try_write(
        &self,
        job: Job,
        bytes: u64,
        options: WriteOptions,
        kept: Option<&Retention>,
    ) -> Result<(Committed, Told), CliError> {
        let mut writer = self.client.write(&self.args.table, options).await?;
        let mut expired = Expired::new(kept);
        let send = async |batch: arrow_array::RecordBatch| {
            expired.see(&batch);
            writer.send(&batch).await
        };
        let mut told = read_all(job, bar("loading", bytes), send).await?;
        told.expired = expired.note();
        self.committing.store(true, Ordering::Relaxed);
        Ok((writer.commit().await?, told))
    }
}

/// Whether whoever reads on another thread is still wanted.
struct Reading(Arc<AtomicBool>);

/// Ends the reading when the future that holds it is dropped.
struct StopReading(Arc<AtomicBool>);

impl Reading {
    fn new() -> (Self, StopReading) {
        let wanted = Arc::new(AtomicBool::new(true));
        (Self(Arc::clone(&wanted)), StopReading(wanted))
    }

    fn check(&self) -> Result<(), CliError> {
        if self.0.load(Ordering::Relaxed) { Ok(()) } else { Err(CliError::Interrupted) }
    }
}

impl Drop for StopReading {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Reads all files on a thread of their own and hands their batches to `take`; tells what was left out or cut.
async fn read_all(
    job: Job,
    bar: ProgressBar,
    mut take: impl AsyncFnMut(arrow_array::RecordBatch) -> Result<(), Error>,
) -> Result<Told, CliError> {
    let (sender, mut receiver) = mpsc::channel::<Read>(2);
    let reading = tokio::task::spawn_blocking(move || job.read(&sender));
    while let Some(read) = receiver.recv().await {
        take(read.batch).await?;
        bar.set_position(read.bytes_done);
    }
    bar.finish_and_clear();
    reading.await.map_err(|e| CliError::input(format!("the reader failed: {e}")))?
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CliError> + Send + 'static,
) -> Result<T, CliError> {
    let outcome = tokio::task::spawn_blocking(work).await;
    outcome.map_err(|e| CliError::input(format!("the reader failed: {e}")))?
}

/// Runs on a thread that nobody waits for when the command ends.
async fn detached<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CliError> + Send + 'static,
) -> Result<T, CliError> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let spawned = std::thread::Builder::new().spawn(move || {
        // Nobody listens any longer when the command was interrupted.
        let _ = sender.send(work());
    });
    spawned.map_err(|e| CliError::input(format!("the reader failed: {e}")))?;
    receiver.await.map_err(|_| CliError::input("the reader failed".to_owned()))?
}

fn same_columns(a: &Schema, b: &Schema) -> bool {
    let columns = |schema: &Schema| -> Vec<_> {
        let fields = schema.fields().iter();
        fields.map(|f| (f.name().clone(), f.data_type().clone(), f.is_nullable())).collect()
    };
    columns(a) == columns(b)
}

#[cfg(test)]
mod format_tests;
#[cfg(test)]
mod tests;
