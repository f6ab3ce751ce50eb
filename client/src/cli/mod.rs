//! The client commands of the `basalt` binary: load, sql, query, select, delete, explain, sip, tables, describe,
//! retention, deletes, verify, attach, drop, cluster, health, bench.
//!
//! A binary mounts them with [`ConnectArgs`] and [`Command`]:
//!
//! ```no_run
//! use basalt_client::cli::{Command, ConnectArgs, run};
//! use clap::Parser;
//!
//! #[derive(Parser)]
//! struct Cli {
//!     #[command(flatten)]
//!     connect: ConnectArgs,
//!     #[command(subcommand)]
//!     command: Command,
//! }
//!
//! # async fn example() -> std::process::ExitCode {
//! let cli = Cli::parse();
//! run(cli.command, &cli.connect).await
//! # }
//! ```

mod answer;
mod bench;
mod cluster;
mod delete;
mod deletes;
mod describe;
mod drop;
mod error;
mod explain;
mod export;
pub mod grid;
mod health;
pub mod human;
mod interrupt;
mod load;
mod named;
pub mod output;
mod pager;
mod queries;
mod query;
mod retention;
mod select;
mod sets;
mod shell;
mod sip;
mod starting;
pub mod style;
mod verify;

pub use answer::OutputFormat;
pub use bench::{BenchArgs, Mix};
pub use cluster::{ClusterCommand, StatusArgs, StatusFormat, status};
pub use delete::DeleteArgs;
pub use deletes::DeletesArgs;
pub use describe::{describe, tables};
pub use drop::DropArgs;
pub use error::CliError;
pub use explain::{ExplainArgs, hops};
pub use health::HealthArgs;
pub use load::LoadArgs;
pub use queries::{CancelArgs, QueriesArgs, QueriesFormat};
pub use query::QueryArgs;
pub use retention::{Keep, RetentionArgs};
pub use select::{SelectArgs, TagArg};
pub use sets::SetArgs;
pub use shell::ShellArgs;
pub use sip::{InspectArgs, SipCommand};
pub use verify::VerifyArgs;

use std::{
    io::Write as _,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Args, Subcommand};

use crate::{client::Client, credentials::Credentials, error::Error, options::ClientOptions};

/// The heading over [`ConnectArgs`] in the help.
pub const CONNECTION: &str = "Connection";

/// Where the server is.
#[derive(Args, Clone, Debug)]
pub struct ConnectArgs {
    /// The server's address
    #[arg(
        long,
        global = true,
        env = "BASALT_SERVER",
        default_value = "http://127.0.0.1:7700",
        value_name = "URL",
        help_heading = CONNECTION
    )]
    pub server: String,

    /// How long one call may take, and a server to start: 500ms, 30s, 5m
    #[arg(
        long,
        global = true,
        default_value = "60s",
        value_name = "TIME",
        value_parser = humantime::parse_duration,
        help_heading = CONNECTION
    )]
    pub timeout: Duration,

    /// A file with the client's key; BASALT_KEY may have the key itself
    #[arg(long, global = true, env = "BASALT_KEY_FILE", value_name = "FILE", help_heading = CONNECTION)]
    pub key_file: Option<PathBuf>,

    /// For https: the authorities, in PEM, that may have signed the server's certificate [default: the system's]
    #[arg(long, global = true, env = "BASALT_CA", value_name = "FILE", help_heading = CONNECTION)]
    pub ca: Option<PathBuf>,

    /// For https: the client's own certificate, in PEM, for a server that asks for one
    #[arg(long, global = true, env = "BASALT_CERT", value_name = "FILE", requires = "cert_key", help_heading = CONNECTION)]
    pub cert: Option<PathBuf>,

    /// The key of that certificate, in PEM
    #[arg(long, global = true, env = "BASALT_CERT_KEY", value_name = "FILE", requires = "cert", help_heading = CONNECTION)]
    pub cert_key: Option<PathBuf>,
}

impl ConnectArgs {
    /// To the server, which has its tables by then.
    async fn connect(&self) -> Result<Client, CliError> {
        let client = self.connect_at_once().await?;
        starting::wait(&client, self.timeout).await?;
        Ok(client)
    }

    /// To the server, however far it is.
    async fn connect_at_once(&self) -> Result<Client, CliError> {
        let options = ClientOptions { deadline: self.timeout, ..Default::default() };
        self.connect_to(&self.server, options).await
    }

    /// To another server than `--server`, as the same client.
    async fn connect_to(&self, address: &str, options: ClientOptions) -> Result<Client, CliError> {
        let (credentials, began) = (self.credentials()?, Instant::now());
        loop {
            match Client::connect_as(address, options, &credentials).await {
                // A server that was started just now listens in a moment.
                Err(Error::Connection { source, .. })
                    if refused(source.as_deref()) && began.elapsed() < STARTS =>
                {
                    tokio::time::sleep(STARTS / 30).await;
                }
                connected => return Ok(connected?),
            }
        }
    }

    fn credentials(&self) -> Result<Credentials, Error> {
        let mut credentials = Credentials::new();
        // A command line is for everybody to see, so the key itself is no argument.
        match (&self.key_file, std::env::var("BASALT_KEY")) {
            (Some(path), _) => credentials = credentials.key_file(path)?,
            (None, Ok(key)) if !key.is_empty() => credentials = credentials.key(&key)?,
            (None, _) => {}
        }
        if let Some(ca) = &self.ca {
            credentials = credentials.ca_file(ca)?;
        }
        if let (Some(cert), Some(key)) = (&self.cert, &self.cert_key) {
            credentials = credentials.identity_files(cert, key)?;
        }
        Ok(credentials)
    }
}

/// For so long a server may not listen yet that was started just before.
const STARTS: Duration = Duration::from_secs(2);

/// Whether nobody listens where a connection was to go.
fn refused(error: Option<&(dyn std::error::Error + Send + Sync + 'static)>) -> bool {
    let mut cause = error.map(|error| error as &(dyn std::error::Error + 'static));
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return error.kind() == std::io::ErrorKind::ConnectionRefused;
        }
        cause = error.source();
    }
    false
}

/// A client command.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Load CSV, JSON, Parquet or Arrow files into a table, all rows or none
    Load(LoadArgs),
    /// A shell for SQL, or statements from a file or the standard input
    Sql(ShellArgs),
    /// Run one statement
    Query(QueryArgs),
    /// Ask for a set: of rows, or of a column's values
    Select(SelectArgs),
    /// Delete the rows that a condition selects, all at once
    Delete(DeleteArgs),
    /// Show how a query runs
    Explain(ExplainArgs),
    /// Files of sets
    #[command(subcommand)]
    Sip(SipCommand),
    /// List the tables
    Tables,
    /// Show a table's columns: encodings, sizes, ranges
    Describe(DescribeArgs),
    /// For how long rows are part of a table
    Retention(RetentionArgs),
    /// What deletions leave in a table's files: vectors, or files without the rows
    Deletes(DeletesArgs),
    /// Read all files of tables on storage, and name what is damaged
    Verify(VerifyArgs),
    /// Read the Delta Lake table of another writer, as it grows
    Attach(AttachArgs),
    /// Drop a table, or detach one
    Drop(DropArgs),
    /// The cluster that the server belongs to
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// List the queries that run
    Queries(QueriesArgs),
    /// Stop a query that runs
    Cancel(CancelArgs),
    /// Ask whether the server is ready: exit code 0 if it is
    Health(HealthArgs),
    /// Send a load of requests with known answers: latencies, and whether the answers were right
    Bench(BenchArgs),
}

/// Arguments of `describe`.
#[derive(Args, Clone, Debug)]
pub struct DescribeArgs {
    /// The table
    pub table: String,

    /// Also the entropy of every column and each encoding's size estimate, which reads all of them
    #[arg(long)]
    pub full: bool,
}

/// Arguments of `attach`.
#[derive(Args, Clone, Debug)]
pub struct AttachArgs {
    /// What to call it here
    pub table: String,

    /// Its directory as the server sees it, or s3://bucket/prefix
    pub url: String,
}

/// Runs a command; what went wrong is printed, and is exit code 1 (130 after Ctrl-C).
pub async fn run(command: Command, connect: &ConnectArgs) -> ExitCode {
    match try_run(command, connect).await {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads the output has seen enough, as in `basalt query ... | head`.
        Err(CliError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            error.print();
            ExitCode::from(error.exit_code())
        }
    }
}

/// Runs a command.
///
/// # Errors
/// What the command could not do.
pub async fn try_run(command: Command, connect: &ConnectArgs) -> Result<(), CliError> {
    match command {
        Command::Load(args) => load::run(&args, connect).await,
        Command::Sql(args) => shell::run(&args, connect).await,
        Command::Query(args) => query::run(&args, connect).await,
        Command::Select(args) => select::run(&args, connect).await,
        Command::Retention(args) => retention::run(&args, connect).await,
        Command::Deletes(args) => deletes::run(&args, connect).await,
        Command::Verify(args) => verify::run(&args, connect).await,
        Command::Delete(args) => delete::run(&args, connect).await,
        Command::Explain(args) => explain::run(&args, connect).await,
        Command::Sip(command) => sip::run(&command),
        Command::Tables => {
            let client = connect.connect().await?;
            print(&named::all(&client).await?)
        }
        Command::Describe(args) => {
            let client = connect.connect().await?;
            print(&named::one(&client, &args.table, args.full).await?)
        }
        Command::Attach(args) => {
            let table = connect.connect().await?.attach_table(&args.table, &args.url).await?;
            print(&format!("attached {} at version {}: {} rows\n", table.name, table.version, table.rows))
        }
        Command::Drop(args) => drop::run(&args, connect).await,
        Command::Cluster(command) => cluster::run(&command, connect).await,
        Command::Queries(args) => queries::list(&args, connect).await,
        Command::Cancel(args) => queries::cancel(&args, connect).await,
        Command::Health(args) => health::run(&args, connect).await,
        Command::Bench(args) => bench::run(&args, connect).await,
    }
}

fn print(text: &str) -> Result<(), CliError> {
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}
