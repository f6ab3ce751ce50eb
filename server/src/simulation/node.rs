//! What a simulated node has in the place of a process: turmoil's network, the clock of its runtime, and numbers from
//! its seed.

use std::{
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use hyper::Uri;
use hyper_util::rt::TokioIo;
use object_store::ObjectStore;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use rayon::ThreadPool;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};
use tonic::transport::{Channel, Endpoint};
use turmoil::net::{TcpListener, TcpStream};

use super::{
    store::{self, Objects},
    threads,
    trace::Trace,
};
use crate::{
    class::Class,
    environment::{self, Environment, Job, Listener},
};

/// The time at which every simulation begins.
const BEGINNING: Duration = Duration::from_secs(1_800_000_000);

/// The time of a runtime, which began some time after the simulation did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    began: Duration,
    at: Instant,
}

impl Clock {
    /// On a node.
    pub(super) fn new() -> Self {
        Self { began: turmoil::sim_elapsed().unwrap_or_default(), at: Instant::now() }
    }

    /// Since the simulation began.
    pub(super) fn now(self) -> Duration {
        self.began + self.at.elapsed()
    }

    pub(super) fn wall(self) -> SystemTime {
        SystemTime::UNIX_EPOCH + BEGINNING + self.now()
    }
}

/// By how much the time of day of a node may be wrong at most, and what it follows from. It is set anew all the time; time
/// that passes is right.
#[derive(Clone, Copy, Debug)]
pub(super) struct Skew {
    pub(super) seed: u64,
    pub(super) most: Duration,
}

impl Skew {
    const SET_EVERY: Duration = Duration::from_secs(7);

    fn of(self, wall: SystemTime, now: Duration) -> SystemTime {
        let setting = now.as_secs() / Self::SET_EVERY.as_secs();
        let mut chance = StdRng::seed_from_u64(self.seed ^ setting.rotate_left(40));
        let by = chance.random_range(Duration::ZERO..=2 * self.most);
        wall + by - self.most
    }
}

/// The addresses that are behind the name of a cluster.
pub(super) type Names = Arc<Mutex<Vec<SocketAddr>>>;

/// See the module.
pub(super) struct Node {
    clock: Clock,
    skew: Option<Skew>,
    chance: Mutex<StdRng>,
    store: Arc<dyn ObjectStore>,
    names: Names,
    protocol: u32,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Node")
    }
}

impl Node {
    /// For a process of a node; in its runtime.
    pub(super) fn new(
        node: usize,
        seed: u64,
        skew: Option<Skew>,
        protocol: u32,
        objects: &Arc<Objects>,
        trace: &Trace,
        names: &Names,
    ) -> Self {
        let (clock, mut chance) = (Clock::new(), StdRng::seed_from_u64(seed));
        let store = Arc::new(store::View::new(objects, clock, chance.random(), trace, node));
        Self { clock, skew, chance: Mutex::new(chance), store, names: Arc::clone(names), protocol }
    }
}

impl basalt_storage::Environment for Node {
    fn wall(&self) -> SystemTime {
        let wall = self.clock.wall();
        self.skew.map_or(wall, |skew| skew.of(wall, self.clock.now()))
    }

    fn random(&self) -> u128 {
        self.chance.lock().unwrap().random()
    }

    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        // Whoever waits for it hears of a panic.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }

    fn objects(&self, url: &str) -> Option<Arc<dyn ObjectStore>> {
        (url == super::STORE).then(|| Arc::clone(&self.store))
    }
}

#[tonic::async_trait]
impl Environment for Node {
    fn since_boot(&self) -> Duration {
        BEGINNING + self.clock.now()
    }

    async fn lookup(&self, _: &str) -> io::Result<Vec<SocketAddr>> {
        Ok(self.names.lock().unwrap().clone())
    }

    async fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>> {
        Ok(Box::new(Port(TcpListener::bind(address).await?)))
    }

    fn channel(&self, endpoint: &Endpoint, _: Option<&crate::tls::Way>) -> Channel {
        channel(endpoint)
    }

    fn on_own_thread(&self, _: Class, job: Job) -> io::Result<()> {
        threads::start(job);
        Ok(())
    }

    fn block_on(&self, future: Pin<&mut (dyn Future<Output = ()> + '_)>) {
        threads::block_on(future);
    }

    fn on_pool(&self, _: &Arc<ThreadPool>, job: Job) {
        let _ = catch_unwind(AssertUnwindSafe(job));
    }

    fn protocol(&self) -> u32 {
        self.protocol
    }

    fn thread(&self, _: &str, _: Class, work: Job) -> io::Result<()> {
        threads::start(work);
        Ok(())
    }
}

/// A connection over the simulated network.
pub(super) fn channel(endpoint: &Endpoint) -> Channel {
    let connect = |uri: Uri| async move {
        let host = uri.host().unwrap_or_default().to_owned();
        let stream = TcpStream::connect((host, uri.port_u16().unwrap_or_default())).await?;
        Ok::<_, io::Error>(TokioIo::new(stream))
    };
    endpoint.connect_with_connector_lazy(tower::service_fn(connect))
}

/// All addresses of a node, at a port.
pub(super) fn any(port: u16) -> SocketAddr {
    (Ipv4Addr::UNSPECIFIED, port).into()
}

struct Port(TcpListener);

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Port")
    }
}

#[tonic::async_trait]
impl Listener for Port {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    async fn accept(&self) -> io::Result<(Box<dyn environment::Stream>, SocketAddr)> {
        let (stream, peer) = self.0.accept().await?;
        Ok((Box::new(Stream(stream)), peer))
    }
}

struct Stream(TcpStream);

#[tonic::async_trait]
impl environment::Stream for Stream {
    async fn peek(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        // What has come of a preface may be a part of it, which the server asks for again; here it is whole or late.
        match self.0.peek(bytes).await? {
            0 => Ok(0),
            _ => Ok(bytes.len()),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, bytes)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
