//! `basalt delete`: rows that a condition selects.

use clap::{ArgGroup, Args};

use super::{CliError, ConnectArgs, print};
use crate::{expr::Filter, sql};

/// Arguments of `delete`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  basalt delete flights --where \"carrier = 'XX'\"
  basalt delete orders --where \"placed < timestamp '2024-01-01'\"")]
#[command(group(ArgGroup::new("which").required(true).args(["condition", "all"])))]
pub struct DeleteArgs {
    /// The table
    pub table: String,

    /// Which rows, as behind WHERE
    #[arg(long = "where", value_name = "CONDITION")]
    pub condition: Option<String>,

    /// All of them
    #[arg(long)]
    pub all: bool,
}

pub(crate) async fn run(args: &DeleteArgs, connect: &ConnectArgs) -> Result<(), CliError> {
    let filter = match &args.condition {
        None => Filter::constant(true),
        Some(condition) => {
            let sql = format!("SELECT * FROM {} WHERE {condition}", args.table);
            let parsed = sql::parse_selection(&sql).map_err(|error| CliError::Sql { error, sql })?;
            parsed.filter.unwrap_or_else(|| Filter::constant(true))
        }
    };
    let deleted = connect.connect().await?.delete(&args.table, filter).await?;
    print(&format!("deleted {} rows of {}; version {}\n", deleted.rows, args.table, deleted.version))
}
