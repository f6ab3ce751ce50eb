//! `basalt drop`.

use std::io::{self, BufRead as _, IsTerminal as _};

use clap::Args;

use super::{CliError, ConnectArgs, human, print};
use crate::{error::ErrorReason, table::Table};

/// Arguments of `drop`.
#[derive(Args, Clone, Debug)]
pub struct DropArgs {
    /// The table
    pub table: String,

    /// No error when there is no such table
    #[arg(long)]
    pub if_exists: bool,

    /// Do not ask; nobody is asked where the input is no terminal
    #[arg(long, short)]
    pub yes: bool,
}

pub(crate) async fn run(args: &DropArgs, connect: &ConnectArgs) -> Result<(), CliError> {
    let client = connect.connect().await?;
    let name = &args.table;
    let table = match client.table_summary(name).await {
        Ok(table) => Some(table),
        // A table that cannot be read can be dropped.
        Err(error)
            if matches!(
                error.reason(),
                ErrorReason::TableDamaged | ErrorReason::InvalidStore | ErrorReason::StoreUnavailable
            ) =>
        {
            None
        }
        Err(error) if error.reason() == ErrorReason::TableNotFound && args.if_exists => {
            return print(&format!("there is no table {name}\n"));
        }
        Err(error) => return Err(error.into()),
    };
    let what = table.as_ref().map(what).unwrap_or_default();
    let asks = !args.yes && io::stdin().is_terminal() && io::stderr().is_terminal();
    if asks && !is_agreed(name, &what)? {
        return print("nothing is dropped\n");
    }
    match args.if_exists {
        true => client.drop_table_if_exists(name).await?,
        false => client.drop_table(name).await?,
    }
    print(&format!("dropped {name}{what}\n"))
}

/// ": 336,776 rows, 4.20 MB"
fn what(table: &Table) -> String {
    format!(": {}, {}", human::plural(table.rows, "row"), human::bytes(table.bytes))
}

fn is_agreed(name: &str, what: &str) -> io::Result<bool> {
    eprint!("drop {name}{what}? [y/N] ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(["y", "yes"].iter().any(|yes| answer.trim().eq_ignore_ascii_case(yes)))
}
