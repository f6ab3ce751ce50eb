//! The servers that a client may ask, and which of them it asks now.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::sync::OnceCell;
use tonic::transport::{Channel, Endpoint};

use crate::{
    credentials::{self, Credentials},
    error::{Error, Result, network_message},
    options::ClientOptions,
    server_info::ServerInfo,
};

/// One server.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) address: Arc<str>,
    pub(crate) channel: Channel,
    /// What it said of itself.
    pub(crate) info: OnceCell<ServerInfo>,
    /// Nobody on the way can read what goes there, so that a key may.
    pub(crate) is_private: bool,
}

/// Several servers that answer the same, in the order in which they are asked.
#[derive(Debug)]
pub(crate) struct Hosts {
    all: Vec<Host>,
    current: AtomicUsize,
}

impl Hosts {
    /// A channel that somebody else has made.
    pub(crate) fn of_channel(channel: Channel, address: &str) -> Self {
        let host = Host { address: address.into(), channel, info: OnceCell::new(), is_private: true };
        Self { all: vec![host], current: AtomicUsize::new(0) }
    }

    /// Connects to the first address that answers; to the others only when they are asked.
    pub(crate) async fn connect<A: AsRef<str>>(
        addresses: impl IntoIterator<Item = A>,
        options: &ClientOptions,
        credentials: &Credentials,
    ) -> Result<Self> {
        let targets = addresses.into_iter().map(|address| target(address.as_ref(), options, credentials));
        let targets = targets.collect::<Result<Vec<_>>>()?;
        let mut failures: Vec<(Arc<str>, tonic::transport::Error)> = Vec::new();
        let mut connected = None;
        for (i, target) in targets.iter().enumerate() {
            match target.endpoint.connect().await {
                Ok(channel) => {
                    connected = Some((i, channel));
                    break;
                }
                Err(error) => failures.push((Arc::clone(&target.address), error)),
            }
        }
        let Some((current, channel)) = connected else { return Err(none_answers(failures)) };
        let all = targets.into_iter().enumerate().map(|(i, Target { address, endpoint, is_private })| {
            let channel = if i == current { channel.clone() } else { endpoint.connect_lazy() };
            Host { address, channel, info: OnceCell::new(), is_private }
        });
        Ok(Self { all: all.collect(), current: AtomicUsize::new(current) })
    }

    pub(crate) fn all(&self) -> &[Host] {
        &self.all
    }

    /// Which host is asked now.
    pub(crate) fn current(&self) -> usize {
        self.current.load(Relaxed)
    }

    /// Goes on to the next host, unless another call has done so already.
    pub(crate) fn leave(&self, host: usize) {
        let next = (host + 1) % self.all.len();
        // An error says that it is another one already, which is as well.
        let _ = self.current.compare_exchange(host, next, Relaxed, Relaxed);
    }
}

/// The error of connections that could not be made.
fn none_answers(mut failures: Vec<(Arc<str>, tonic::transport::Error)>) -> Error {
    let said = |(address, error): &(Arc<str>, tonic::transport::Error)| {
        format!("{address}: {}", network_message(error))
    };
    let all: Vec<_> = failures.iter().map(said).collect();
    let addresses: Vec<_> = failures.iter().map(|(address, _)| address.as_ref()).collect();
    let address = addresses.join(", ");
    match failures.pop() {
        None => Error::Address { address, message: "there is none".to_owned() },
        Some((_, error)) => {
            let message = if all.len() > 1 { all.join("; ") } else { network_message(&error) };
            Error::Connection { address, message, source: Some(Box::new(error)) }
        }
    }
}

/// An address that was checked.
struct Target {
    address: Arc<str>,
    endpoint: Endpoint,
    is_private: bool,
}

fn target(address: &str, options: &ClientOptions, credentials: &Credentials) -> Result<Target> {
    let bad_address = |message: String| Error::Address { address: address.to_owned(), message };
    let (scheme, rest) = address.split_once("://").unwrap_or(("http", address));
    let scheme = scheme.to_ascii_lowercase();
    let tls = scheme == "https";
    if !tls && scheme != "http" {
        return Err(bad_address(format!("{scheme:?} is not a scheme that is spoken here")));
    }
    let url = format!("{scheme}://{rest}");
    let endpoint = Endpoint::from_shared(url.clone()).map_err(|e| bad_address(e.to_string()))?;
    let uri = endpoint.uri();
    let host = uri.host().unwrap_or_default();
    if host.is_empty() {
        return Err(bad_address("it names no host".to_owned()));
    }
    if uri.port_u16().is_none() && uri.authority().is_some_and(|a| !a.as_str().ends_with(host)) {
        return Err(bad_address("its port is not a number up to 65535".to_owned()));
    }
    let is_private = tls || credentials::is_local(host);
    if credentials.header().is_some() && !is_private {
        return Err(bad_address(credentials::WITH_TLS_ALONE.to_owned()));
    }
    let mut endpoint = endpoint
        .connect_timeout(options.connect_timeout)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    if tls {
        let config = endpoint.tls_config(credentials.tls());
        endpoint = config.map_err(|e| Error::Credentials(network_message(&e)))?;
    }
    Ok(Target { address: url.into(), endpoint, is_private })
}
