//! Structured logs on standard error, and the lines of the audit in a file of their own where that is wanted.

use std::{
    fs::OpenOptions,
    io::{self, IsTerminal as _},
    os::unix::fs::OpenOptionsExt as _,
    sync::Mutex,
};

use tracing_subscriber::{
    EnvFilter, Layer as _, filter::filter_fn, fmt, layer::SubscriberExt as _, registry,
    util::SubscriberInitExt as _,
};

use crate::{Config, Error, access::AUDIT, config::LogFormat};

/// Starts logging as the configuration says. Call it once, before [`crate::run`].
///
/// # Errors
/// When the filter or the file of the audit cannot be read, or logging has been started already.
pub fn start(config: &Config) -> Result<(), Error> {
    let bad = |e: &dyn std::fmt::Display| Error::Config(format!("log = {:?}: {e}", config.log));
    let filter = EnvFilter::try_new(&config.log).map_err(|e| bad(&e))?;
    let ansi = io::stderr().is_terminal();
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(ansi).with_target(false);
    let lines = match config.log_format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let audit = match &config.audit_log {
        None => None,
        Some(path) => {
            let wrong = |e: io::Error| Error::Config(format!("audit_log: {}: {e}", path.display()));
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path).map_err(wrong)?;
            let lines = fmt::layer().json().flatten_event(true).with_target(false).with_level(false);
            Some(lines.with_writer(Mutex::new(file)).with_filter(filter_fn(|of| of.target() == AUDIT)))
        }
    };
    // What has a file of its own does not stand in the log as well.
    let apart = audit.is_some();
    let lines = lines.with_filter(filter).with_filter(filter_fn(move |of| !apart || of.target() != AUDIT));
    registry().with(lines).with(audit).try_init().map_err(|e| bad(&e))
}
