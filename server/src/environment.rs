//! What the server asks of the process and the machine that it runs in: clocks, the network, numbers that nobody
//! guesses, threads, and (by way of storage's [`Environment`](basalt_storage::Environment)) stores.
//!
//! It is made once, in [`crate::run`], and handed down; nothing else asks the process itself, as the tidy test holds it
//! to. So many servers run in one thread and in a time of their own, where a test wants that (`simulation/`). Two things
//! are not handed down, since they come with the runtime that a server runs in, of which a simulated node has one of its
//! own: time that passes is tokio's (`tokio::time`), and tasks are tokio's (`tokio::spawn`), as are those of the libraries
//! below.

use std::{fmt, io, net::SocketAddr, pin::Pin, sync::Arc, thread, time::Duration};

use basalt_core::invariant::Invariant as _;
pub(crate) use basalt_storage::{Process, run};
use hyper::Uri;
use hyper_util::rt::TokioIo;
use rayon::ThreadPool;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, lookup_host},
    runtime::Handle,
    task::spawn_blocking,
    time::sleep,
};
use tonic::transport::{Channel, Endpoint};

use crate::{
    class::Class,
    limits,
    long_threads::{LONG_THREADS, lower_priority},
    membership::PROTOCOL,
    tls,
};

/// What a thread is to do.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// See the module.
#[tonic::async_trait]
pub(crate) trait Environment: basalt_storage::Environment {
    /// The time since the machine was started, in which it may have been suspended.
    fn since_boot(&self) -> Duration;

    /// The addresses behind a name.
    async fn lookup(&self, name: &str) -> io::Result<Vec<SocketAddr>>;

    async fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>>;

    /// A connection to another server, which is made when it is first used.
    fn channel(&self, endpoint: &Endpoint, tls: Option<&tls::Way>) -> Channel;

    /// Runs a job on a thread that may wait, in this runtime, with the priority of a class.
    fn on_own_thread(&self, class: Class, job: Job) -> io::Result<()>;

    /// Waits on such a thread.
    fn block_on(&self, future: Pin<&mut (dyn Future<Output = ()> + '_)>);

    /// Runs a job on a thread of a pool.
    fn on_pool(&self, pool: &Arc<ThreadPool>, job: Job);

    /// The version of what nodes say to each other.
    fn protocol(&self) -> u32 {
        PROTOCOL
    }

    /// Starts a thread that works for as long as the server does, in this runtime, with the priority of a class; it may wait.
    fn thread(&self, name: &str, class: Class, work: Job) -> io::Result<()>;
}

/// Where connections come in.
#[tonic::async_trait]
pub(crate) trait Listener: fmt::Debug + Send + Sync {
    fn local_addr(&self) -> io::Result<SocketAddr>;

    async fn accept(&self) -> io::Result<(Box<dyn Stream>, SocketAddr)>;
}

/// A connection.
#[tonic::async_trait]
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {
    /// Waits for bytes, and leaves them there.
    async fn peek(&mut self, bytes: &mut [u8]) -> io::Result<usize>;
}

impl dyn Stream {
    /// Waits until so many bytes have come, and leaves them there.
    pub(crate) async fn look(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        loop {
            match self.peek(bytes).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n if n == bytes.len() => return Ok(()),
                _ => sleep(limits::PEEK_PAUSE).await,
            }
        }
    }
}

impl dyn Environment {
    /// A number that no other call gives, as far as chance goes.
    pub(crate) fn number(&self) -> u64 {
        let [high, low] = [self.random() >> 64, self.random()];
        u64::try_from((high ^ low) & u128::from(u64::MAX)).invariant("it is of 64 bits")
    }

    /// Microseconds since 1970.
    pub(crate) fn now_micros(&self) -> i64 {
        let since = self.wall().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }

    /// Waits on a thread that may.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        let mut output = None;
        let future = async { output = Some(future.await) };
        self.block_on(std::pin::pin!(future));
        output.invariant("it was waited for")
    }
}

/// The process as it is.
pub(crate) fn process() -> Arc<dyn Environment> {
    Arc::new(Process)
}

#[tonic::async_trait]
impl Environment for Process {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn since_boot(&self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::new(now.tv_sec.cast_unsigned(), u32::try_from(now.tv_nsec).unwrap_or(0))
    }

    /// Elsewhere the wall clock tells of a suspension.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn since_boot(&self) -> Duration {
        static START: std::sync::LazyLock<std::time::Instant> =
            std::sync::LazyLock::new(std::time::Instant::now);
        START.elapsed()
    }

    async fn lookup(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        Ok(lookup_host(name).await?.collect())
    }

    async fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
        Ok(Box::new(TcpListener::bind(address).await.map_err(named)?))
    }

    fn channel(&self, endpoint: &Endpoint, tls: Option<&tls::Way>) -> Channel {
        let Some(way) = tls.cloned() else { return endpoint.connect_lazy() };
        let connect = move |to: Uri| {
            let way = way.clone();
            async move {
                // Default: an address that names no host or port is refused by the system.
                let (host, port) = (to.host().unwrap_or_default(), to.port_u16().unwrap_or_default());
                let stream = TcpStream::connect((host.trim_matches(['[', ']']), port)).await?;
                stream.set_nodelay(true)?;
                Ok::<_, io::Error>(TokioIo::new(way.connect(host, stream).await?))
            }
        };
        endpoint.connect_with_connector_lazy(tower::service_fn(connect))
    }

    fn on_own_thread(&self, class: Class, job: Job) -> io::Result<()> {
        match class {
            Class::Short => drop(spawn_blocking(job)),
            // Threads of the runtime are used again by others, and a priority is never raised.
            Class::Long => {
                let runtime = Handle::current();
                LONG_THREADS.run(Box::new(move || {
                    let _runtime = runtime.enter();
                    job();
                }))?;
            }
        }
        Ok(())
    }

    fn block_on(&self, future: Pin<&mut (dyn Future<Output = ()> + '_)>) {
        Handle::current().block_on(future);
    }

    fn on_pool(&self, pool: &Arc<ThreadPool>, job: Job) {
        pool.spawn(job);
    }

    fn thread(&self, name: &str, class: Class, work: Job) -> io::Result<()> {
        let runtime = Handle::current();
        let work = move || {
            if class == Class::Long {
                lower_priority();
            }
            let _runtime = runtime.enter();
            work();
        };
        thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
    }
}

#[tonic::async_trait]
impl Listener for TcpListener {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Self::local_addr(self)
    }

    async fn accept(&self) -> io::Result<(Box<dyn Stream>, SocketAddr)> {
        let (stream, peer) = Self::accept(self).await?;
        stream.set_nodelay(true)?;
        Ok((Box::new(stream), peer))
    }
}

#[tonic::async_trait]
impl Stream for TcpStream {
    async fn peek(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        Self::peek(self, bytes).await
    }
}
