//! A statement that is run, and its answer as a table, text or a file.

use std::{
    io::{self, BufWriter, IsTerminal as _},
    time::{Duration, Instant},
};

use arrow_array::{RecordBatch, cast::AsArray as _, types::Int64Type};
use clap::ValueEnum;

use super::{
    CliError,
    export::{Destination, Export},
    human,
    output::{self, CsvWriter, JsonWriter},
    pager,
    style::Style,
};
use crate::{
    answer::{QueryResult, QueryStream},
    client::Client,
    error::{Code, Error},
    plan::Statistics,
    sql::Select,
    statement::{first_word, may_repeat},
};

/// Rows of a table that are shown if nobody says how many.
pub(crate) const SHOWN_ROWS: u64 = 100;

/// How an answer is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Aligned columns, cut or folded to the terminal's width
    #[default]
    Table,
    /// A line for each value
    Line,
    /// One array of objects
    Json,
    /// A header and rows; nulls are empty
    Csv,
}

/// Where an answer goes, and how.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) format: OutputFormat,
    /// For people: at most so many rows; 0 is all.
    pub(crate) most_rows: u64,
    /// A file instead of the standard output.
    pub(crate) file: Option<Destination>,
    /// Through a pager where the terminal has too few lines.
    pub(crate) pages: bool,
}

/// What the server's SQL says of a statement.
pub(super) enum Asked {
    Rows(Box<QueryStream>),
    /// The typed API is to answer: the server has no SQL, or the text may have what only the client's parser knows, such as
    /// attributes of what a column refers to. Where it has not, this is what was wrong.
    Typed(Option<Error>),
}

impl Asked {
    /// The error of a statement that the typed API has no answer to, either.
    pub(super) fn error(of_sql: Option<Error>, of_typed: Error, sql: &str) -> CliError {
        CliError::Statement { error: of_sql.unwrap_or(of_typed), sql: sql.to_owned() }
    }
}

pub(super) async fn statement(
    client: &Client,
    sql: &str,
    select: &Result<Select, CliError>,
) -> Result<Asked, CliError> {
    let error = match client.sql(sql).stream().await {
        Ok(stream) => return Ok(Asked::Rows(Box::new(stream))),
        Err(error) => error,
    };
    let code = error.server().map(|error| error.code);
    // Another port than that of clients has no statements either.
    let is_elsewhere = error.to_string().contains("this port is for");
    match (code, select) {
        (Some(Code::Unimplemented), _) if !is_elsewhere => Ok(Asked::Typed(None)),
        (Some(Code::InvalidArgument | Code::NotFound), Ok(_)) => Ok(Asked::Typed(Some(error))),
        _ => Err(CliError::Statement { error, sql: sql.to_owned() }),
    }
}

/// What was done, for the line below an answer.
pub(crate) struct Done {
    pub(crate) rows: u64,
    pub(crate) statistics: Statistics,
    /// The file that was written.
    pub(crate) written: Option<String>,
    /// How long people have looked at it.
    pub(crate) shown: Duration,
}

impl Done {
    /// Rows, time and what was scanned, on the standard error.
    pub(crate) fn footer(&self, time: Duration) -> String {
        let footer = output::footer(self.rows, time.saturating_sub(self.shown), &self.statistics);
        self.written.iter().cloned().chain([footer]).collect::<Vec<_>>().join(" · ")
    }
}

/// Writes an answer as it comes. `None`: it was a statement that writes, and what it did is said.
pub(crate) async fn write(
    mut stream: QueryStream,
    sql: &str,
    target: &Target,
) -> Result<Option<Done>, CliError> {
    let is_for_people = matches!(target.format, OutputFormat::Table | OutputFormat::Line);
    if is_of_write(sql, &stream) && (is_for_people || target.file.is_some()) {
        let answer = stream.gather().await?;
        super::print(&format!("{}\n", done(sql, count(&answer))))?;
        return Ok(None);
    }
    if let Some(file) = &target.file {
        let mut export = Export::create(file, stream.schema())?;
        let rows = each_batch(&mut stream, |batch| export.write(batch)).await?;
        let bytes = export.finish()?;
        let written = Some(format!("{} written to {}", human::bytes(bytes), file.path.display()));
        return Ok(Some(Done { rows, statistics: statistics(&stream), written, shown: Duration::ZERO }));
    }
    let rows = match target.format {
        OutputFormat::Table | OutputFormat::Line => {
            let (answer, rows) = gather(stream, target.most_rows).await?;
            let mut text = match target.format {
                OutputFormat::Line => output::lines(&answer),
                _ => output::table(&answer),
            }
            .map_err(Error::from)?;
            if rows > answer.rows {
                let more = human::plural(rows - answer.rows, "more row");
                text.push_str(&format!("  {}\n", Style::of(&io::stdout()).dim(&format!("… and {more}"))));
            }
            let arrived = Instant::now();
            if target.pages {
                pager::show(&text)?
            } else {
                super::print(&text)?
            }
            let shown = arrived.elapsed();
            return Ok(Some(Done { rows, statistics: answer.statistics, written: None, shown }));
        }
        OutputFormat::Json => {
            let mut writer = JsonWriter::new(BufWriter::new(io::stdout()), stream.schema())?;
            let rows = each_batch(&mut stream, |batch| writer.write(batch)).await?;
            writer.finish()?;
            rows
        }
        OutputFormat::Csv => {
            let (out, schema) = (BufWriter::new(io::stdout()), stream.schema());
            let mut writer = match io::stdout().is_terminal() {
                true => CsvWriter::to_terminal(out, schema)?,
                false => CsvWriter::new(out, schema)?,
            };
            let rows = each_batch(&mut stream, |batch| writer.write(batch)).await?;
            writer.finish()?;
            rows
        }
    };
    Ok(Some(Done { rows, statistics: statistics(&stream), written: None, shown: Duration::ZERO }))
}

/// The first rows of an answer, and how many it has. The others are counted and not kept.
async fn gather(mut stream: QueryStream, most: u64) -> Result<(QueryResult, u64), CliError> {
    let is_plan = output::is_plan(stream.schema());
    let mut left = if most == 0 || is_plan { u64::MAX } else { most };
    let (mut batches, mut shown, mut rows) = (Vec::new(), 0, 0);
    while let Some(batch) = stream.next().await? {
        let has = batch.num_rows() as u64;
        let kept = has.min(left);
        if kept > 0 {
            // `kept` is at most the batch's rows, which are a usize.
            batches.push(batch.slice(0, usize::try_from(kept).unwrap_or(batch.num_rows())));
        }
        (left, shown, rows) = (left - kept, shown + kept, rows + has);
    }
    let schema = stream.schema().clone();
    let (version, versions) = (stream.version(), stream.versions().to_vec());
    let statistics = statistics(&stream);
    Ok((QueryResult { schema, batches, rows: shown, version, versions, statistics }, rows))
}

async fn each_batch(
    stream: &mut QueryStream,
    mut write: impl FnMut(&RecordBatch) -> io::Result<()>,
) -> Result<u64, CliError> {
    let mut rows = 0;
    while let Some(batch) = stream.next().await? {
        rows += batch.num_rows() as u64;
        write(&batch)?;
    }
    Ok(rows)
}

fn statistics(stream: &QueryStream) -> Statistics {
    stream.statistics().copied().unwrap_or_default()
}

/// Statements that write rows, by their first word, and what they have done to these.
const WRITES: [(&str, &str); 6] = [
    ("insert", "inserted"),
    ("update", "updated"),
    ("delete", "deleted"),
    ("truncate", "deleted"),
    ("merge", "merged"),
    ("copy", "copied"),
];
/// Statements that write none.
const DEFINITIONS: [(&str, &str); 5] =
    [("create", "created"), ("drop", "dropped"), ("alter", "altered"), ("set", "set"), ("reset", "reset")];

/// Statements that change nothing, beside queries.
const SETTINGS: [&str; 2] = ["set", "reset"];

/// The error of a statement that was stopped.
pub(super) fn stopped(sql: &str) -> CliError {
    let word = first_word(sql);
    match may_repeat(sql) || SETTINGS.iter().any(|setting| word.eq_ignore_ascii_case(setting)) {
        true => CliError::Cancelled,
        false => CliError::GivenUp,
    }
}

/// Whether an answer says how many rows a statement has written.
fn is_of_write(sql: &str, stream: &QueryStream) -> bool {
    let (word, fields) = (first_word(sql), stream.schema().fields());
    let known = WRITES.iter().chain(&DEFINITIONS).any(|(first, _)| word.eq_ignore_ascii_case(first));
    known && fields.len() == 1 && fields[0].name() == "rows"
}

/// How many rows a statement has written.
fn count(answer: &QueryResult) -> i64 {
    let column = answer.batches.first().map(|batch| batch.column(0));
    let rows = column.and_then(|column| column.as_primitive_opt::<Int64Type>());
    // Default: there is none.
    rows.filter(|rows| rows.len() == 1).map(|rows| rows.value(0)).unwrap_or_default()
}

/// "inserted 5 rows"
fn done(sql: &str, rows: i64) -> String {
    let rows_are = if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") };
    let word = first_word(sql);
    let object = sql.split_once(word).and_then(|(_, rest)| rest.split_whitespace().next());
    if object.is_some_and(|object| object.eq_ignore_ascii_case("index")) {
        return "nothing to do: there are no indexes, for every column is searched by what its blocks hold"
            .to_owned();
    }
    let written = WRITES.iter().find(|(first, _)| word.eq_ignore_ascii_case(first));
    let defined = DEFINITIONS.iter().find(|(first, _)| word.eq_ignore_ascii_case(first));
    match (written, defined) {
        (Some((_, done)), _) => format!("{done} {rows_are}"),
        (None, Some((_, done))) if rows > 0 => format!("{done}, with {rows_are}"),
        (None, Some((_, done))) => (*done).to_owned(),
        (None, None) => rows_are,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_said_in_words() {
        for (sql, rows, expected) in [
            ("INSERT INTO t VALUES (1)", 1, "inserted 1 row"),
            ("  update t set a = 1", 5, "updated 5 rows"),
            ("TRUNCATE t", 0, "deleted 0 rows"),
            ("CREATE TABLE t (a INT)", 0, "created"),
            ("create table index (a int)", 0, "created"),
            ("create table t as select 1", 3, "created, with 3 rows"),
            ("DROP VIEW v", 0, "dropped"),
        ] {
            assert_eq!(done(sql, rows), expected, "{sql}");
        }
    }
}
