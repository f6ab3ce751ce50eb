//! The `basalt` binary.

use std::process::ExitCode;

use basalt_server::{Config, Error, Flags};
use clap::{Parser, Subcommand};
use tokio::{
    net::TcpListener,
    runtime::Runtime,
    signal::unix::{SignalKind, signal},
};

/// A columnar store in memory: compressed columns, filters and aggregates over gRPC.
#[derive(Debug, Parser)]
#[command(name = "basalt", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server
    Serve(Flags),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(flags) => serve(&flags),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("basalt: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(flags: &Flags) -> Result<(), Error> {
    let config = Config::load(flags)?;
    basalt_server::start_logging(&config)?;
    Runtime::new()?.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let listener = TcpListener::bind(config.listen).await?;
        let stop = async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        };
        basalt_server::run(listener, config, stop).await
    })
}
