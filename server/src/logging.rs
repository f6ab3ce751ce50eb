//! Structured logs on standard error.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::{EnvFilter, fmt, util::SubscriberInitExt as _};

use crate::{Config, Error, config::LogFormat};

/// Starts logging as the configuration says. Call it once, before [`crate::run`].
///
/// # Errors
/// When the filter cannot be read, or logging has been started already.
pub fn start(config: &Config) -> Result<(), Error> {
    let bad = |e: &dyn std::fmt::Display| Error::Config(format!("log = {:?}: {e}", config.log));
    let filter = EnvFilter::try_new(&config.log).map_err(|e| bad(&e))?;
    let builder = fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false);
    match config.log_format {
        LogFormat::Text => builder.finish().try_init(),
        LogFormat::Json => builder.json().flatten_event(true).finish().try_init(),
    }
    .map_err(|e| bad(&e))
}
