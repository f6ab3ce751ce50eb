//! The Basalt server: gRPC services over the engine, with every limit explicit.
//!
//! [`run`] serves a listener until it is told to stop; the binary, the tests and the demo all call it.

mod access;
mod cache;
mod call;
mod cgroup;
mod class;
pub mod config;
mod connection;
mod convert;
mod coordinator;
mod cpu;
mod decoded;
mod disk;
mod drafts;
mod environment;
#[cfg(feature = "sql")]
mod flight;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod http;
pub mod limits;
mod logged;
mod logging;
mod long_threads;
mod made;
mod membership;
mod memory;
mod metrics;
mod moment;
mod neighbours;
mod pace;
mod panics;
mod peers;
mod plan_summary;
#[cfg(feature = "sql")]
mod postgres;
mod process;
mod queries;
mod query_text;
mod readers;
mod reload;
mod request_log;
mod services;
mod sets;
#[cfg(test)]
mod simulation;
#[cfg(feature = "sql")]
mod sql;
mod state;
mod status;
mod tables;
mod tls;
mod told;
mod trace;
mod transport;
mod units;
mod writes;

use std::{future::Future, io, sync::Arc};

use tokio::net::TcpListener;

pub use access::{
    file::{KnownKey, known_keys, remove_key},
    issue::Issued,
    quota::Allowance,
    roles::Role,
};
pub use config::{Config, Distribute, Flags};
use environment::{Environment, Listener};
pub use logging::start as start_logging;
pub use tls::Authority;
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

/// Where a server listens.
#[derive(Debug)]
pub struct Listeners {
    /// For clients.
    pub clients: TcpListener,
    /// For the other nodes of a cluster. Without it, [`run`] listens at [`Config::peer_listen`] if that is set.
    pub peers: Option<TcpListener>,
    /// For metrics and probes over HTTP. Without it, [`run`] listens at [`Config::metrics_listen`] if that is set.
    pub metrics: Option<TcpListener>,
    /// For clients of PostgreSQL. Without it, [`run`] listens at [`Config::postgres`] if that is set.
    pub postgres: Option<TcpListener>,
}

impl From<TcpListener> for Listeners {
    fn from(clients: TcpListener) -> Self {
        Self { clients, peers: None, metrics: None, postgres: None }
    }
}

/// Waits, for a moment, until queries that were cancelled have ended. Whoever ends the runtime of a server that has
/// [returned](run) does this before.
pub async fn settle() {
    cpu::threads_ended().await;
}

/// Serves `listeners` until `shutdown` is ready; then refuses what is new, finishes what runs within
/// `config.shutdown_grace`, and returns. `config.listen` is not looked at.
///
/// # Errors
/// When the server cannot start.
pub async fn run(
    listeners: impl Into<Listeners>,
    config: Config,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    run_in(environment::process(), doors(listeners), config, |_| {}, shutdown).await
}

/// The same in a process that does nothing else: what it has in memory, as the system counts it, stays within
/// `config.memory` too.
///
/// # Errors
/// When the server cannot start.
pub async fn run_alone(
    listeners: impl Into<Listeners>,
    config: Config,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let watch = |state: &Arc<state::State>| {
        process::watch(state);
        process::reload_on_hangup(state);
    };
    run_in(environment::process(), doors(listeners), config, watch, shutdown).await
}

/// Where a server listens, in whatever network.
#[derive(Debug)]
struct Doors {
    clients: Box<dyn Listener>,
    peers: Option<Box<dyn Listener>>,
    metrics: Option<Box<dyn Listener>>,
    postgres: Option<Box<dyn Listener>>,
}

fn doors(listeners: impl Into<Listeners>) -> Doors {
    let boxed = |listener| Box::new(listener) as Box<dyn Listener>;
    let Listeners { clients, peers, metrics, postgres } = listeners.into();
    let [peers, metrics, postgres] = [peers, metrics, postgres].map(|listener| listener.map(boxed));
    Doors { clients: boxed(clients), peers, metrics, postgres }
}

/// Why a door does not open, with the key that says where it is; the error names the address.
pub fn unopened(key: &str, error: &io::Error) -> Error {
    let what = match error.kind() {
        io::ErrorKind::AddrInUse => "; it is taken by another program: choose another port",
        io::ErrorKind::AddrNotAvailable => "; it is an address of this machine, or 0.0.0.0 for all of them",
        _ => "",
    };
    Error::Start(format!("{key}: {error}{what}"))
}

/// [`run`] in an environment. `started` is told what is shared by all services.
async fn run_in(
    environment: Arc<dyn Environment>,
    mut doors: Doors,
    config: Config,
    started: impl FnOnce(&Arc<state::State>),
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    if let (None, Some(address)) = (&doors.peers, config.peer_listen) {
        let opened = environment.listen(address).await;
        doors.peers = Some(opened.map_err(|error| unopened("peer_listen", &error))?);
    }
    if let (None, Some(address)) = (&doors.metrics, config.metrics_listen) {
        let opened = environment.listen(address).await;
        doors.metrics = Some(opened.map_err(|error| unopened("metrics_listen", &error))?);
    }
    if let (None, Some(address)) = (&doors.postgres, config.postgres) {
        let opened = environment.listen(address).await;
        doors.postgres = Some(opened.map_err(|error| unopened("postgres", &error))?);
    }
    for (key, door) in [
        ("listen", Some(&doors.clients)),
        ("metrics_listen", doors.metrics.as_ref()),
        ("postgres", doors.postgres.as_ref()),
        ("peer_listen", doors.peers.as_ref()),
    ] {
        door.map_or(Ok(()), |door| config.check_door(key, door.local_addr()?))?;
    }
    let name = doors.peers.as_ref().map(|peers| config.node_name(&**peers)).transpose()?;
    let is_node = name.is_some();
    let state = Arc::new(state::State::new(environment, &config, name)?);
    let _serving = neighbours::serve(&config.store, is_node);
    state.connect();
    started(&state);
    let metrics = doors.metrics.take();
    let _metrics = metrics.map(|metrics| http::Endpoint::start(metrics, Arc::clone(&state))).transpose()?;
    let postgres = doors.postgres.take();
    #[cfg(feature = "sql")]
    let postgres = postgres
        .map(|listener| postgres::Door::start(listener, Arc::clone(&state), config.max_connections))
        .transpose()?;
    #[cfg(not(feature = "sql"))]
    if postgres.is_some() {
        let message = "postgres: this server is built without the feature `sql`";
        return Err(Error::Config(message.to_owned()));
    }
    let (tables, traces) = (Arc::clone(&state.tables), Arc::clone(&state.traces));
    let environment = Arc::clone(&state.environment);
    let reloading = tokio::spawn(reload::watch(state.reloaded(), Arc::clone(&state.reload)));
    let served = transport::serve(doors, &config, state, shutdown).await;
    #[cfg(feature = "sql")]
    if let Some(postgres) = postgres {
        postgres.close().await;
    }
    reloading.abort();
    // Behind all doors: who still writes is told that the server stops.
    tables.end_background().await;
    tables.close().await;
    traces.close(&*environment).await;
    if served.is_ok() {
        tracing::info!("stopped");
    }
    served
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_is_told_with_its_key() {
        let told =
            |kind: io::ErrorKind| unopened("postgres", &io::Error::new(kind, "127.0.0.1:1: x")).to_string();
        assert!(
            told(io::ErrorKind::AddrInUse)
                .starts_with("postgres: 127.0.0.1:1: x; it is taken by another program")
        );
        assert_eq!(told(io::ErrorKind::PermissionDenied), "postgres: 127.0.0.1:1: x");
    }
}
