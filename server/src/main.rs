//! The `basalt` binary.

mod commands;
mod demo;

use std::process::ExitCode;

use basalt_client::cli;
use basalt_server::{Config, Error, Flags};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use tokio::{
    net::TcpListener,
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

/// It gives back within 100 ms what is freed, as `.cargo/config.toml` has it built: what an allocator keeps is beyond the memory
/// limit, or missing below it. `server/MEMORY.md` has the others that were measured.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A columnar store in memory: compressed columns, filters and aggregates over gRPC.
#[derive(Debug, Parser)]
#[command(name = "basalt", version, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    connect: cli::ConnectArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server
    Serve(Box<Flags>),
    /// Start a server, load a benchmark's tables into it, show what it takes and how fast it answers
    Demo(demo::DemoArgs),
    /// Write a benchmark's tables as Parquet files
    Generate(demo::generate::GenerateArgs),
    /// Make what a server needs that other machines reach: TLS certificates, and a key for its administrator
    Secure(commands::secure::SecureArgs),
    /// Keys of clients
    #[command(subcommand)]
    Key(commands::key::KeyCommand),
    /// Copy a store's tables while servers read and write it: what is new since the last backup
    Backup(commands::backup::BackupArgs),
    /// Put a backup into a new store
    Restore(commands::backup::RestoreArgs),
    /// Backups: which there are, whether they are whole, and forgetting old ones
    #[command(subcommand)]
    Backups(commands::backup::BackupsCommand),
    /// Write what a shell needs to complete these commands
    Completions(commands::complete::CompletionsArgs),
    /// Write the manual's pages
    Man(commands::man::ManArgs),
    #[command(flatten)]
    Client(cli::Command),
}

fn main() -> ExitCode {
    let cli = Cli::from_arg_matches(&command_line().get_matches()).unwrap_or_else(|error| error.exit());
    let Cli { connect, command } = cli;
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(basalt_server::limits::WAITING_THREADS)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    runtime.block_on(async {
        let exit = match command {
            Command::Serve(flags) => serve(&flags).await.map_or_else(|e| failed(&e), |()| ExitCode::SUCCESS),
            Command::Demo(args) => demo::run(args).await.map_or_else(|e| failed(&e), |()| ExitCode::SUCCESS),
            Command::Generate(args) => {
                demo::generate::run(args).await.map_or_else(|e| failed(&e), |()| ExitCode::SUCCESS)
            }
            Command::Secure(args) => {
                commands::secure::run(&args).map_or_else(|e| failed(&e), |()| ExitCode::SUCCESS)
            }
            Command::Key(command) => {
                commands::key::run(&command).map_or_else(|e| failed(&e), |()| ExitCode::SUCCESS)
            }
            Command::Backup(args) => ended(commands::backup::backup(&args)),
            Command::Restore(args) => ended(commands::backup::restore(&args)),
            Command::Backups(command) => ended(commands::backup::backups(&command)),
            Command::Completions(args) => printed(commands::complete::run(args, &mut command_line())),
            Command::Man(args) => printed(commands::man::run(&args, command_line())),
            Command::Client(command) => cli::run(command, &connect).await,
        };
        basalt_server::settle().await;
        exit
    })
}

/// The command line. Where a server is reached is no matter of the commands that run one, or need none.
fn command_line() -> clap::Command {
    let mut command = Cli::command();
    // This hands the global arguments down.
    command.build();
    for name in [
        "serve",
        "demo",
        "generate",
        "sip",
        "secure",
        "key",
        "backup",
        "restore",
        "backups",
        "completions",
        "man",
    ] {
        command = command.mut_subcommand(name, without_connection);
    }
    command
}

fn without_connection(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| {
        let hidden = arg.get_help_heading() == Some(cli::CONNECTION);
        arg.hide(hidden)
    });
    command.mut_subcommands(without_connection)
}

/// Whoever reads the output may have seen enough.
fn printed(outcome: std::io::Result<()>) -> ExitCode {
    match outcome {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => failed(&error),
        _ => ExitCode::SUCCESS,
    }
}

/// A program ended so, or did not begin.
fn ended(outcome: std::io::Result<ExitCode>) -> ExitCode {
    outcome.unwrap_or_else(|error| failed(&error))
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("basalt: {error}");
    ExitCode::FAILURE
}

async fn serve(flags: &Flags) -> Result<(), Error> {
    let config = Config::load(flags)?;
    basalt_server::start_logging(&config)?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let busy = |error: std::io::Error| {
        let named = std::io::Error::new(error.kind(), format!("{}: {error}", config.listen));
        basalt_server::unopened("listen", &named)
    };
    let listener = TcpListener::bind(config.listen).await.map_err(busy)?;
    let stop = async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    basalt_server::run_alone(listener, config, stop).await
}

#[cfg(test)]
mod tests {
    /// What clap checks of a command when it is asked, for all of them at once.
    #[test]
    fn the_commands_are_consistent() {
        super::command_line().debug_assert();
    }
}
