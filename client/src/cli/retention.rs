//! `basalt retention`: for how long rows are part of a table.

use std::time::Duration;

use clap::Args;

use super::{CliError, ConnectArgs, human, print};
use crate::Retention;

/// Arguments of `retention`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Rows are not read any more once they are older than TIME by a timestamp or a date; their memory and files are freed soon
after. Rows without a time are kept.

Examples:
  basalt retention events              for how long rows are kept
  basalt retention events at=30d       from now on for 30 days
  basalt retention events none         from now on for good")]
pub struct RetentionArgs {
    /// The table
    pub table: String,

    /// For how long, by which column; or none, for good [default: show it]
    #[arg(value_name = "COLUMN=TIME", value_parser = parse_or_none)]
    pub retention: Option<Keep>,
}

/// For how long rows are kept.
#[derive(Clone, Debug)]
pub enum Keep {
    /// For a time.
    For(Retention),
    /// For good.
    Forever,
}

/// Reads `at=30d`.
pub(crate) fn parse(text: &str) -> Result<Retention, String> {
    let wrong = || format!("{text:?} is not a column and a time, such as at=30d");
    let (column, keep) = text.split_once('=').ok_or_else(wrong)?;
    let keep: Duration = humantime::parse_duration(keep).map_err(|e| format!("{}: {e}", wrong()))?;
    if column.is_empty() || keep.subsec_nanos() > 0 {
        return Err(format!("{} (whole seconds)", wrong()));
    }
    Ok(Retention { column: column.to_owned(), keep })
}

fn parse_or_none(text: &str) -> Result<Keep, String> {
    match text {
        "none" => Ok(Keep::Forever),
        text => parse(text).map(Keep::For),
    }
}

/// "1 day 12 h".
pub(crate) fn spelled(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let parts = [(hours, "h"), (minutes, "min"), (seconds % 60, "s")];
    let parts = parts.into_iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n} {unit}"));
    let days = (days > 0).then(|| human::plural(days, "day"));
    let all: Vec<String> = days.into_iter().chain(parts).collect();
    if all.is_empty() { "0 s".to_owned() } else { all.join(" ") }
}

/// "kept for 30 days by at".
pub(crate) fn shown(retention: Option<&Retention>) -> String {
    match retention {
        Some(Retention { column, keep }) => {
            format!("kept for {} by {column}", spelled(*keep))
        }
        None => "kept for good".to_owned(),
    }
}

pub(crate) async fn run(args: &RetentionArgs, connect: &ConnectArgs) -> Result<(), CliError> {
    let client = connect.connect().await?;
    let table = match &args.retention {
        None => client.table_summary(&args.table).await?,
        Some(Keep::For(retention)) => client.set_retention(&args.table, Some(retention)).await?,
        Some(Keep::Forever) => client.set_retention(&args.table, None).await?,
    };
    print(&format!("{}: rows are {}\n", table.name, shown(table.retention.as_ref())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retention_is_a_column_and_a_time() {
        let keep = Duration::from_secs(30 * 24 * 3600);
        assert_eq!(parse("at=30d"), Ok(Retention { column: "at".to_owned(), keep }));
        assert_eq!(shown(parse("at=1day 12h").ok().as_ref()), "kept for 1 day 12 h by at");
        for (seconds, expected) in [(31 * 86_400, "31 days"), (3_661, "1 h 1 min 1 s"), (0, "0 s")] {
            assert_eq!(spelled(Duration::from_secs(seconds)), expected);
        }
        for text in ["at", "=30d", "at=", "at=30", "at=10ms", "at=1h 1us", "none"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
