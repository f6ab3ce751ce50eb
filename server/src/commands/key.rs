//! `basalt key`: keys of clients.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use basalt_client::cli::{grid::Grid, human};
use basalt_server::{Allowance, Error, Issued, KnownKey, Memory, Role, known_keys, remove_key};
use clap::{Args, Subcommand};

/// See the module.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key for a client: it is printed once, and the file keeps what servers know it by
    New(NewArgs),
    /// List the keys of a file: names, roles and tables; what they are known by stays there
    List(ListArgs),
    /// Take a key out of a file: servers that have it open refuse the key within seconds
    Remove(RemoveArgs),
}

/// Arguments of `key list`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ListArgs {
    /// The file of keys
    #[arg(long, value_name = "FILE", default_value = "secrets/keys.toml", env = "BASALT_KEYS")]
    file: PathBuf,
}

/// Arguments of `key remove`.
#[derive(Args, Clone, Debug)]
pub(crate) struct RemoveArgs {
    /// Whose it is
    name: String,

    /// The file of keys
    #[arg(long, value_name = "FILE", default_value = "secrets/keys.toml", env = "BASALT_KEYS")]
    file: PathBuf,
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

    /// How much memory its queries, writes and kept sets may hold at once, at one server, in bytes such as 2GiB; any
    /// without it
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory: Option<u64>,

    /// How many bytes a second it may send and be sent, at one server, such as 10MiB; any without it
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    bytes_per_second: Option<u64>,

    /// The file of keys, which is made if it is missing; servers that have it open take the key within seconds
    #[arg(long, value_name = "FILE", default_value = "secrets/keys.toml", env = "BASALT_KEYS")]
    file: PathBuf,

    /// Write the key to a new file instead of printing it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn bytes(text: &str) -> Result<u64, String> {
    text.parse::<Memory>()?.bytes()
}

/// Runs a command.
///
/// # Errors
/// A name that is taken or none, and files that cannot be read or written.
pub(crate) fn run(command: &KeyCommand) -> Result<(), Error> {
    match command {
        KeyCommand::New(args) => new(args),
        KeyCommand::List(ListArgs { file }) => {
            let listed = listed(&known_keys(file)?);
            Ok(io::stdout().write_all(listed.as_bytes())?)
        }
        KeyCommand::Remove(RemoveArgs { name, file }) => {
            remove_key(file, name)?;
            Ok(writeln!(io::stdout(), "removed {name} from {}", file.display())?)
        }
    }
}

fn listed(keys: &[KnownKey]) -> String {
    let columns = ["name", "role", "tables", "at once", "memory", "a second"];
    let mut grid = Grid::new(columns.map(|name| (name, false)));
    for KnownKey { name, role, tables, allowance } in keys {
        let Allowance { requests, memory, bytes_per_second } = allowance;
        let bytes = |bytes: &Option<u64>| bytes.map(|bytes| Memory::Bytes(bytes).to_string());
        let most = [
            requests.map(|most| human::plural(most.into(), "request")),
            bytes(memory),
            bytes(bytes_per_second),
        ];
        // Default: as much as there is.
        let most = most.map(|most| most.unwrap_or_else(|| "-".to_owned()));
        grid.row([name.clone(), role.to_string(), tables.join(", ")].into_iter().chain(most));
    }
    grid.render()
}

fn new(args: &NewArgs) -> Result<(), Error> {
    let NewArgs { name, role, tables, requests, memory, bytes_per_second, file, output } = args;
    let (requests, memory, bytes_per_second) = (*requests, *memory, *bytes_per_second);
    let issued = Issued::new(name, *role, tables, Allowance { requests, memory, bytes_per_second })?;
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
    match output {
        None => writeln!(io::stdout(), "{}", issued.secret)?,
        Some(output) => {
            eprintln!("the key is in {}; {} has what servers know it by", output.display(), file.display());
        }
    }
    Ok(())
}
