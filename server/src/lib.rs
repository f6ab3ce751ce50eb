//! The Basalt server: gRPC services over the engine, with every limit explicit.
//!
//! [`run`] serves a listener until it is told to stop; the binary, the tests and the demo all call it.

mod call;
pub mod config;
mod convert;
mod cpu;
mod ledger;
pub mod limits;
mod logging;
mod memory;
mod services;
mod sets;
mod state;
mod status;
mod transport;
mod units;

use std::{future::Future, io, sync::Arc};

use tokio::net::TcpListener;

pub use config::{Config, Flags};
pub use logging::start as start_logging;
pub use units::Memory;

/// The server's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why the server does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is wrong.
    #[error("configuration: {0}")]
    Config(String),
    /// The listener, a signal or the runtime does not work.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Something that the server needs does not start.
    #[error("{0}")]
    Start(String),
}

/// Serves `listener` until `shutdown` is ready; then refuses what is new, finishes what runs within
/// `config.shutdown_grace`, and returns. `config.listen` is not looked at.
///
/// # Errors
/// When the server cannot start.
pub async fn run(
    listener: TcpListener,
    config: Config,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let state = Arc::new(state::State::new(&config)?);
    transport::serve(listener, &config, state, shutdown).await
}
