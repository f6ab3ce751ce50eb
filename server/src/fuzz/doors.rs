//! Bytes on a connection: of HTTP, and of PostgreSQL's protocol, to a server with a small table.

use std::{
    cell::RefCell,
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use basalt_storage::Deletes;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    runtime::{Builder, Runtime},
    sync::oneshot,
    time::{Sleep, sleep, timeout},
};

use crate::{
    config::Config,
    environment::{self, Listener, Stream},
    http,
    state::State,
};

/// How long a connection that has sent everything and waits for more stays open.
const PATIENCE: Duration = Duration::from_millis(10);
/// How long a connection lasts, at most.
const HANGS: Duration = Duration::from_secs(10);

/// What a client sends; its end comes when the server has waited for more for a moment.
struct Bytes {
    data: Vec<u8>,
    at: usize,
    /// Runs while the server waits for more.
    ends: Option<Pin<Box<Sleep>>>,
    written: Arc<AtomicU64>,
    /// Says that the connection is over.
    _over: oneshot::Sender<()>,
}

#[tonic::async_trait]
impl Stream for Bytes {
    async fn peek(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let rest = &self.data[self.at..];
        let n = rest.len().min(bytes.len());
        if n == 0 {
            // It is there, and says nothing.
            std::future::pending::<()>().await;
        }
        bytes[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }
}

impl AsyncRead for Bytes {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let rest = &this.data[this.at..];
        let n = rest.len().min(out.remaining());
        if n > 0 {
            out.put_slice(&rest[..n]);
            this.at += n;
            return Poll::Ready(Ok(()));
        }
        let ends = this.ends.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        ends.as_mut().poll(context).map(Ok)
    }
}

impl AsyncWrite for Bytes {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        // Whoever gets an answer waits for the next one.
        self.ends = None;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Gives one connection.
struct One(Mutex<Option<Box<dyn Stream>>>);

impl fmt::Debug for One {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("One")
    }
}

const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7);

#[tonic::async_trait]
impl Listener for One {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(ADDRESS)
    }

    async fn accept(&self) -> io::Result<(Box<dyn Stream>, SocketAddr)> {
        let stream = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match stream {
            Some(stream) => Ok((stream, ADDRESS)),
            None => std::future::pending().await,
        }
    }
}

struct Server {
    runtime: Runtime,
    state: Arc<State>,
}

impl Server {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let memory = "256MiB".parse().expect("an amount");
        let config = Config { store: "memory:".into(), threads: 1, memory, ..Config::default() };
        let state = runtime.block_on(async {
            let state = State::new(environment::process(), &config, None).expect("a server");
            let schema = basalt_core::schema::Schema::new(super::fields()).expect("columns");
            state.tables.create("t", schema, None, Deletes::default()).await.expect("a table");
            Arc::new(state)
        });
        Self { runtime, state }
    }

    /// Serves a connection to its end.
    fn serve<D>(&self, data: Vec<u8>, door: impl FnOnce(Box<dyn Listener>, Arc<State>) -> io::Result<D>) {
        self.runtime.block_on(async {
            let (over, ends) = oneshot::channel();
            let written = Arc::default();
            let stream = Bytes { data, at: 0, ends: None, written, _over: over };
            let listener: Box<dyn Listener> = Box::new(One(Mutex::new(Some(Box::new(stream)))));
            let door = door(listener, Arc::clone(&self.state));
            assert!(timeout(HANGS, ends).await.is_ok(), "the connection does not end");
            drop(door);
        });
    }
}

thread_local! {
    static SERVER: RefCell<Server> = RefCell::new(Server::new());
}

pub(super) fn http(data: &[u8]) {
    // Where all before it is whole, this closes the connection.
    let last = b"GET /healthz HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
    let data = [data, last].concat();
    SERVER.with_borrow(|server| server.serve(data, http::Endpoint::start));
}

/// The start of a connection of PostgreSQL's: its length, version 3.0, and a user.
#[cfg(feature = "sql")]
const STARTUP: &[u8] = b"\0\0\0\x10\0\x03\0\0user\0a\0\0";
/// Its end.
#[cfg(feature = "sql")]
const TERMINATE: &[u8] = b"X\0\0\0\x04";

/// Messages of PostgreSQL's, behind a start that is right where the first byte is even.
#[cfg(feature = "sql")]
pub(super) fn postgres(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    let start = if kind & 1 == 0 { STARTUP } else { &[] };
    let data = [start, data, TERMINATE].concat();
    SERVER.with_borrow(|server| {
        server.serve(data, |listener, state| crate::postgres::Door::start(listener, state, 4));
    });
}

/// A message of PostgreSQL's: its type, its length, its body.
#[cfg(feature = "sql")]
pub(super) fn message(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX).to_be_bytes();
    [&[tag][..], &length, &body].concat()
}

/// A statement that is parsed, planned and described, and not run.
#[cfg(feature = "sql")]
pub(super) fn statement(data: &[u8]) {
    if std::str::from_utf8(data).is_err() || data.contains(&0) {
        return;
    }
    let parse = message(b'P', &[b"\0", data, b"\0", b"\0\0"]);
    let describe = message(b'D', &[b"S", b"\0"]);
    let data = [STARTUP, &parse, &describe, &message(b'S', &[]), TERMINATE].concat();
    SERVER.with_borrow(|server| {
        server.serve(data, |listener, state| crate::postgres::Door::start(listener, state, 4));
    });
}
