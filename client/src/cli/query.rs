//! `basalt query`.

use std::{
    io::{self, BufWriter},
    time::Instant,
};

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
    query::{Query, QueryStream, Statistics},
    sql::{self, Select},
};

const EXAMPLES: &str = "\
Dates and times are printed by ISO 8601, with a sign and more digits where a year is not one of 0000 to 9999 \
(+12345-01-01). Floats that are no numbers are NaN, inf and -inf, which are strings in JSON.

Examples:
  basalt query 'SELECT carrier, count(*) AS n FROM flights WHERE dep_delay > 60 GROUP BY carrier ORDER BY n DESC'
  basalt query \"SELECT * FROM flights WHERE dest IN ('SFO', 'LAX') AND time_hour >= '2013-07-04' LIMIT 5\" -f csv
  basalt query 'SELECT name, count(*) FROM flights JOIN airlines USING (carrier) GROUP BY name'
  basalt query 'SELECT count(*) FROM flights FOR VERSION AS OF 3'";

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
            let mut writer = CsvWriter::new(BufWriter::new(io::stdout()), stream.schema())?;
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
        _ => Err(error.into()),
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
