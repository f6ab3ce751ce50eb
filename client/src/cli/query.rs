//! `basalt query`.

use std::{io, path::PathBuf, time::Instant};

use clap::Args;

use super::{
    CliError, ConnectArgs,
    answer::{self, Asked, OutputFormat, Target},
    export::Destination,
    sets::SetArgs,
    style::Style,
};
use crate::{
    query::Query,
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

    /// Write the answer to this file, in the format that its name ends in: .csv, .json, .parquet, .arrow
    #[arg(long, short, value_name = "FILE", conflicts_with = "format")]
    pub output: Option<PathBuf>,

    /// Show at most so many rows as a table, and how many more there are; 0 shows all
    #[arg(long = "max-rows", value_name = "N", default_value_t = answer::SHOWN_ROWS)]
    pub max_rows: u64,

    /// Sets that are filters
    #[command(flatten)]
    pub sets: SetArgs,
}

/// Ctrl-C gives the query up, which stops it on the server too and leaves no half of a file.
pub(crate) async fn run(args: &QueryArgs, connect: &ConnectArgs) -> Result<(), CliError> {
    tokio::select! {
        done = answered(args, connect) => done,
        _ = tokio::signal::ctrl_c() => Err(answer::stopped(&args.sql)),
    }
}

async fn answered(args: &QueryArgs, connect: &ConnectArgs) -> Result<(), CliError> {
    let select = parse(&args.sql);
    let filters = args.sets.filters()?;
    let file = args.output.as_deref().map(Destination::of).transpose()?;
    let client = connect.connect().await?;
    let started = Instant::now();
    // Versions and sets beside the text are the typed API's.
    let is_typed = args.version.is_some() || !filters.is_empty();
    let asked = match is_typed {
        true => Asked::Typed(None),
        false => answer::statement(&client, &args.sql, &select).await?,
    };
    let stream = match asked {
        Asked::Rows(stream) => *stream,
        Asked::Typed(wrong) => {
            let mut request = match select?.resolve(&client).await {
                Err(error) => return Err(Asked::error(wrong, error, &args.sql)),
                Ok(request) => request,
            };
            request.version = one_version(request.version, args.version)?;
            let query = filters.into_iter().fold(client.query_of(request), Query::filter);
            query.stream().await.map_err(|error| Asked::error(wrong, error, &args.sql))?
        }
    };
    let target = Target { format: args.format, most_rows: args.max_rows, file, pages: false };
    if let Some(done) = answer::write(stream, &args.sql, &target).await? {
        eprintln!("{}", Style::of(&io::stderr()).dim(&done.footer(started.elapsed())));
    }
    Ok(())
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
