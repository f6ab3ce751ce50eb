//! `basalt query`.

use std::{
    io::{self, BufWriter},
    time::Instant,
};

use clap::{Args, ValueEnum};

use super::{
    CliError, ConnectArgs,
    output::{self, CsvWriter, JsonWriter},
    print,
    sets::SetArgs,
    style::Style,
};
use crate::{
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
  basalt query 'SELECT count(*) FROM flights FOR VERSION AS OF 3'";

/// Arguments of `query`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES, disable_version_flag = true)]
pub struct QueryArgs {
    /// A SELECT over one table
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
    let select = parse(&args.sql)?;
    let filters = args.sets.filters()?;
    let client = connect.connect().await?;
    let started = Instant::now();
    let mut request = select.resolve(&client).await?;
    request.version = one_version(request.version, args.version)?;
    let query = filters.into_iter().fold(client.query_of(request), Query::filter);
    let (rows, statistics) = match args.format {
        OutputFormat::Table => {
            let answer = query.collect().await?;
            print(&output::table(&answer).map_err(Error::from)?)?;
            (answer.rows, answer.statistics)
        }
        OutputFormat::Json => {
            let mut stream = query.stream().await?;
            let mut writer = JsonWriter::new(BufWriter::new(io::stdout()), stream.schema())?;
            let rows = each_batch(&mut stream, |batch| writer.write(batch)).await?;
            writer.finish()?;
            (rows, statistics(&stream))
        }
        OutputFormat::Csv => {
            let mut stream = query.stream().await?;
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
