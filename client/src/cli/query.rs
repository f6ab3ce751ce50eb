//! `basalt query`.

use std::{
    io::{self, BufWriter, IsTerminal as _},
    time::Instant,
};

use arrow_array::{Array as _, cast::AsArray as _, types::Int64Type};
use clap::{Args, ValueEnum};
use tonic::Code;

use super::{
    CliError, ConnectArgs,
    output::{self, CsvWriter, JsonWriter},
    print,
    sets::SetArgs,
    style::Style,
};
use crate::{
    client::Client,
    error::Error,
    query::{Query, QueryResult, QueryStream, Statistics},
    sql::{self, Select},
};

const EXAMPLES: &str = "\
Dates and times are printed by ISO 8601, with a sign and more digits where a year is not one of 0000 to 9999 \
(+12345-01-01). Floats that are no numbers are NaN, inf and -inf, which are strings in JSON.

Examples:
  basalt query 'SELECT carrier, count(*) AS n FROM flights WHERE dep_delay > 60 GROUP BY carrier ORDER BY n DESC'
  basalt query \"SELECT * FROM flights WHERE dest IN ('SFO', 'LAX') AND time_hour >= '2013-07-04' LIMIT 5\" -f csv
  basalt query 'SELECT name, count(*) FROM flights JOIN airlines USING (carrier) GROUP BY name'
  basalt query 'SELECT count(*) FROM flights FOR VERSION AS OF 3'
  basalt query \"CREATE TABLE late AS SELECT * FROM flights WHERE dep_delay > 60\"
  basalt query \"UPDATE late SET origin = 'NYC' WHERE origin IN ('JFK', 'LGA')\"";

/// Arguments of `query`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES, disable_version_flag = true)]
pub struct QueryArgs {
    /// A statement. A server that is built without SQL answers a SELECT over one table
    pub sql: String,

    /// Read this version of the table, as FOR VERSION AS OF in FROM does; the newest without either
    #[arg(long, value_name = "NUMBER")]
    pub version: Option<u64>,

    /// How the answer is printed
    #[arg(long, short, value_enum, default_value_t)]
    pub format: OutputFormat,

    /// Sets that are filters
    #[command(flatten)]
    pub sets: SetArgs,
}

/// How an answer is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Aligned columns
    #[default]
    Table,
    /// One array of objects
    Json,
    /// A header and rows; nulls are empty
    Csv,
}

pub(crate) async fn run(args: &QueryArgs, connect: &ConnectArgs) -> Result<(), CliError> {
    let select = parse(&args.sql);
    let filters = args.sets.filters()?;
    let client = match (connect.connect().await, &select) {
        (Ok(client), _) => client,
        // A mistake is told even where no server runs.
        (Err(_), Err(_)) => return select.map(drop),
        (Err(error), Ok(_)) => return Err(error),
    };
    let started = Instant::now();
    // Versions and sets beside the text are the typed API's.
    let is_typed = args.version.is_some() || !filters.is_empty();
    let answered = if is_typed { None } else { statement(&client, &args.sql, &select).await? };
    let mut stream = match answered {
        Some(stream) if args.format == OutputFormat::Table && is_of_write(&args.sql, &stream) => {
            let answer = stream.gather().await?;
            return print(&format!("{}\n", done(&args.sql, count(&answer))));
        }
        Some(stream) => stream,
        None => {
            let mut request = select?.resolve(&client).await?;
            request.version = one_version(request.version, args.version)?;
            filters.into_iter().fold(client.query_of(request), Query::filter).stream().await?
        }
    };
    let (rows, statistics) = match args.format {
        OutputFormat::Table => {
            let answer = stream.gather().await?;
            print(&output::table(&answer).map_err(Error::from)?)?;
            (answer.rows, answer.statistics)
        }
        OutputFormat::Json => {
            let mut writer = JsonWriter::new(BufWriter::new(io::stdout()), stream.schema())?;
            let rows = each_batch(&mut stream, |batch| writer.write(batch)).await?;
            writer.finish()?;
            (rows, statistics(&stream))
        }
        OutputFormat::Csv => {
            let (out, schema) = (BufWriter::new(io::stdout()), stream.schema());
            let mut writer = match io::stdout().is_terminal() {
                true => CsvWriter::to_terminal(out, schema)?,
                false => CsvWriter::new(out, schema)?,
            };
            let rows = each_batch(&mut stream, |batch| writer.write(batch)).await?;
            writer.finish()?;
            (rows, statistics(&stream))
        }
    };
    let footer = output::footer(rows, started.elapsed(), &statistics);
    eprintln!("{}", Style::of(&io::stderr()).dim(&footer));
    Ok(())
}

/// The answer of the server's SQL; `None` where the typed API is to answer: the server has no SQL, or the text has what
/// only the client's parser knows, such as attributes of what a column refers to.
async fn statement(
    client: &Client,
    sql: &str,
    select: &Result<Select, CliError>,
) -> Result<Option<QueryStream>, CliError> {
    let error = match client.sql(sql).stream().await {
        Ok(stream) => return Ok(Some(stream)),
        Err(error) => error,
    };
    let code = error.server().map(|error| error.code);
    match (code, select) {
        (Some(Code::Unimplemented), _) | (Some(Code::InvalidArgument | Code::NotFound), Ok(_)) => Ok(None),
        _ => Err(CliError::Statement { error, sql: sql.to_owned() }),
    }
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
const DEFINITIONS: [(&str, &str); 3] = [("create", "created"), ("drop", "dropped"), ("alter", "altered")];

fn first_word(sql: &str) -> &str {
    sql.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default()
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
    let written = WRITES.iter().find(|(first, _)| word.eq_ignore_ascii_case(first));
    let defined = DEFINITIONS.iter().find(|(first, _)| word.eq_ignore_ascii_case(first));
    match (written, defined) {
        (Some((_, done)), _) => format!("{done} {rows_are}"),
        (None, Some((_, done))) if rows > 0 => format!("{done}, with {rows_are}"),
        (None, Some((_, done))) => (*done).to_owned(),
        (None, None) => rows_are,
    }
}

async fn each_batch(
    stream: &mut QueryStream,
    mut write: impl FnMut(&arrow_array::RecordBatch) -> io::Result<()>,
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

/// The version that a query reads, by its text or by an argument.
pub(super) fn one_version(in_text: Option<u64>, given: Option<u64>) -> Result<Option<u64>, CliError> {
    match (in_text, given) {
        (Some(text), Some(given)) if text != given => Err(CliError::input(format!(
            "--version is {given}, and FOR VERSION AS OF {text} is in the query"
        ))),
        (text, given) => Ok(text.or(given)),
    }
}

/// Parsed before connecting, so that a mistake is an error even where no server runs.
pub(super) fn parse(sql: &str) -> Result<Select, CliError> {
    sql::parse_select(sql).map_err(|error| CliError::Sql { error, sql: sql.to_owned() })
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
            ("create table t as select 1", 3, "created, with 3 rows"),
            ("DROP VIEW v", 0, "dropped"),
        ] {
            assert_eq!(done(sql, rows), expected, "{sql}");
        }
    }

    #[test]
    fn the_text_and_the_argument_say_one_version() {
        for (text, given, expected) in [
            (None, None, None),
            (Some(3), None, Some(3)),
            (None, Some(4), Some(4)),
            (Some(5), Some(5), Some(5)),
        ] {
            assert_eq!(one_version(text, given).unwrap(), expected);
        }
        let error = one_version(Some(3), Some(4)).unwrap_err().to_string();
        assert_eq!(error, "--version is 4, and FOR VERSION AS OF 3 is in the query");
    }
}
