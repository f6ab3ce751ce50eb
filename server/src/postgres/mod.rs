//! The door for PostgreSQL's clients: version 3 of its protocol, simple and extended, over the same statements, the same
//! authoriser and the same limits as the other doors.
//!
//! * `wire` reads and writes messages, `session` holds a connection from its start to its end, `extended` has its
//!   prepared statements, `portal` runs a statement and `sent` sends its rows, of which `ahead` has some at hand; `types`, `numeric`, `interval`, `arrays` and `rows` turn values into both of the
//!   protocol's formats, `told` has columns keep the types that a client knows, `copy` is for rows that come and go by COPY, `command`, `transaction` and `settings` are for what
//!   concerns a connection alone, `cancel` for what another one
//!   may stop, and `error` gives each error its SQLSTATE.
//! * A large answer is never in memory as a whole: rows are taken from the statement when the client has taken those before,
//!   but for some.
//!   One that takes nothing for a while is cut off, as it is at the other doors.
//! * Every message is bounded before there is room for it, and so is what a connection keeps: `limits.rs` has the list.
//! * `encrypted` begins TLS, and `password` asks for a key, by SCRAM; a server without them asks for neither.

mod ahead;
mod arrays;
mod batch;
mod cancel;
mod command;
mod copy;
mod encrypted;
mod error;
mod extended;
mod interval;
mod numeric;
mod password;
mod portal;
mod rows;
mod sent;
mod session;
mod settings;
mod tag;
mod told;
mod transaction;
mod types;
mod wire;

use std::{io, net::SocketAddr, sync::Arc};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{JoinHandle, JoinSet},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    environment::{Listener, Stream},
    limits,
    state::State,
};

/// By which its statements are known in the log, the metrics and the list of queries.
const METHOD: &str = "postgres";
use cancel::Keys;

/// What all connections share.
#[derive(Debug)]
struct Shared {
    state: Arc<State>,
    keys: Arc<Keys>,
    /// Connections end with it.
    closing: CancellationToken,
}

/// The listener; it closes when this is dropped, and cuts its connections off.
#[derive(Debug)]
pub(crate) struct Door {
    closing: CancellationToken,
    task: JoinHandle<()>,
}

impl Door {
    /// Serves `connections` at once, and as few more as `limits.rs` says.
    pub(crate) fn start(
        listener: Box<dyn Listener>,
        state: Arc<State>,
        connections: usize,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        tracing::info!(%address, "listening for clients of PostgreSQL");
        let closing = CancellationToken::new();
        let shared = Shared { state, keys: Arc::default(), closing: closing.clone() };
        let connections = connections.min(limits::POSTGRES_CONNECTIONS);
        Ok(Self { closing, task: tokio::spawn(accept(listener, Arc::new(shared), connections)) })
    }

    /// Tells clients that the server ends, and waits a moment for that to arrive.
    pub(crate) async fn close(mut self) {
        self.closing.cancel();
        let _ = timeout(limits::CLOSE_TIMEOUT, &mut self.task).await;
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: Box<dyn Listener>, shared: Arc<Shared>, connections: usize) {
    let permits = Arc::new(Semaphore::new(connections));
    // For those who are told that there is no place, and those who cancel a statement.
    let spare = Arc::new(Semaphore::new(limits::POSTGRES_SPARE_CONNECTIONS));
    // They end with the listener.
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = shared.closing.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        while tasks.try_join_next().is_some() {}
        match accepted {
            Ok((stream, address)) => {
                let permit = Arc::clone(&permits).try_acquire_owned().ok();
                let Ok(passing) = Arc::clone(&spare).acquire_owned().await else { break };
                tasks.spawn(connection(stream, address, Arc::clone(&shared), permit, passing));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection of PostgreSQL");
                sleep(limits::RETRY_DELAY).await;
            }
        }
    }
    drop(listener);
    while tasks.join_next().await.is_some() {}
}

/// Serves a connection. `passing` is held until it has a place of its own, or ends.
async fn connection(
    stream: Box<dyn Stream>,
    address: SocketAddr,
    shared: Arc<Shared>,
    permit: Option<OwnedSemaphorePermit>,
    passing: OwnedSemaphorePermit,
) {
    session::serve(stream, address, shared, permit, passing).await;
}
