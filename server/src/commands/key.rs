//! `basalt key`: keys of clients.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use basalt_server::{Error, Issued, Role};
use clap::{Args, Subcommand};

/// See the module.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key for a client: it is printed once, and the file keeps what servers know it by
    New(NewArgs),
}

/// Arguments of `key new`.
#[derive(Args, Clone, Debug)]
pub(crate) struct NewArgs {
    /// Whose it is: letters, digits and -_.@; the user of PostgreSQL's clients
    name: String,

    /// What its owner may do
    #[arg(long, value_enum)]
    role: Role,

    /// To which tables: a name, or a pattern with * and ?; may be given more than once
    #[arg(long = "table", value_name = "PATTERN", default_value = "*", value_delimiter = ',')]
    tables: Vec<String>,

    /// How many requests its owner may have under way at once, at one server; any number without it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    requests: Option<u32>,

    /// The file of keys, which is made if it is missing; servers that have it open take the key within seconds
    #[arg(long, value_name = "FILE", default_value = "secrets/keys.toml", env = "BASALT_KEYS")]
    file: PathBuf,

    /// Write the key to a new file instead of printing it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs a command.
///
/// # Errors
/// A name that is taken or none, and files that cannot be written.
pub(crate) fn run(command: &KeyCommand) -> Result<(), Error> {
    let KeyCommand::New(NewArgs { name, role, tables, requests, file, output }) = command;
    let issued = Issued::new(name, *role, tables, *requests)?;
    // First where it might fail: a key that nobody has is of no use.
    if let Some(output) = output {
        issued.write_secret(output)?;
    }
    if let Err(error) = issued.add_to(file) {
        if let Some(output) = output {
            std::fs::remove_file(output)?;
        }
        return Err(error);
    }
    if output.is_none() {
        writeln!(io::stdout(), "{}", issued.secret)?;
    }
    Ok(())
}
