//! One other node: the connection to it, and what is known of its health.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use basalt_proto::cluster::v1::{
    self as peer, GetStatusRequest, GetStatusResponse, peer_service_client::PeerServiceClient,
};
use tokio::time::timeout;
use tonic::{
    Request, Status,
    transport::{Channel, Endpoint},
};

use crate::limits;

use super::PROTOCOL;

/// What a node is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It answers, or was not asked yet.
    Alive,
    /// Its last answer did not come.
    Suspect,
    /// Several did not.
    Dead,
    /// It speaks another version of the protocol.
    Incompatible,
    /// It answers, and takes no requests.
    NotReady,
}

/// See the module.
pub(crate) struct Link {
    /// As it was configured, found or told: `host:port`.
    address: Arc<str>,
    client: PeerServiceClient<Channel>,
    health: Mutex<Health>,
}

#[derive(Debug)]
struct Health {
    /// Its last answer, and when it came.
    status: Option<Arc<GetStatusResponse>>,
    heard: Option<Instant>,
    made: Instant,
    /// Answers that did not come since.
    failures: u32,
    next: Instant,
    asking: bool,
}

impl Link {
    /// Nothing is connected before the first call.
    pub(crate) fn new(address: &str) -> Result<Self, tonic::transport::Error> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?
            .connect_timeout(limits::PEER_CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(limits::PEER_KEEPALIVE_INTERVAL)
            .keep_alive_timeout(limits::PEER_KEEPALIVE_TIMEOUT)
            .http2_max_header_list_size(limits::HEADER_LIST_BYTES)
            .http2_max_local_error_reset_streams(limits::LOCAL_ERROR_RESETS)
            .initial_stream_window_size(limits::PEER_STREAM_WINDOW_BYTES)
            .initial_connection_window_size(limits::PEER_CONNECTION_WINDOW_BYTES);
        let client = PeerServiceClient::new(endpoint.connect_lazy())
            .max_decoding_message_size(limits::PEER_MESSAGE_BYTES)
            .max_encoding_message_size(limits::PEER_MESSAGE_BYTES);
        let now = Instant::now();
        let health = Health { status: None, heard: None, made: now, failures: 0, next: now, asking: false };
        Ok(Self { address: address.into(), client, health: Mutex::new(health) })
    }

    pub(crate) fn address(&self) -> &Arc<str> {
        &self.address
    }

    /// For calls to the node.
    pub(crate) fn client(&self) -> PeerServiceClient<Channel> {
        self.client.clone()
    }

    pub(crate) fn state(&self) -> State {
        let health = self.health();
        match &health.status {
            _ if health.failures >= limits::STATUS_FAILURES => State::Dead,
            _ if health.failures > 0 => State::Suspect,
            Some(status) if status.protocol != PROTOCOL => State::Incompatible,
            Some(status) if !status.ready => State::NotReady,
            _ => State::Alive,
        }
    }

    /// Its last answer.
    pub(crate) fn status(&self) -> Option<Arc<GetStatusResponse>> {
        self.health().status.clone()
    }

    /// The time since its last answer, or since it became known.
    pub(crate) fn silence(&self) -> Duration {
        let health = self.health();
        health.heard.unwrap_or(health.made).elapsed()
    }

    /// A call to it did not get through: whether it lives is found out at once.
    pub(crate) fn failed(&self) {
        let mut health = self.health();
        health.failures = health.failures.max(1);
        health.next = Instant::now();
    }

    /// It has called: if it was thought dead, that is looked into at once.
    pub(crate) fn called(&self) {
        let mut health = self.health();
        if health.failures > 0 {
            health.next = Instant::now();
        }
    }

    /// Whether it is time to ask for its status; who is told so asks.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let mut health = self.health();
        let due = !health.asking && health.next <= now;
        health.asking |= due;
        due
    }

    /// Asks for its status. Whether its name or its process is another than before.
    pub(crate) async fn ask(&self, own: &str) -> bool {
        let request = GetStatusRequest { protocol: PROTOCOL, node: own.to_owned() };
        let asked = timeout(limits::STATUS_TIMEOUT, self.client().get_status(request)).await;
        let answer = match asked {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(status.message().to_owned()),
            Err(_) => Err("no answer in time".to_owned()),
        };
        let before = self.state();
        let mut health = self.health();
        let now = Instant::now();
        health.asking = false;
        let changed = match answer {
            Ok(status) => {
                let known = health.status.as_ref().map(|s| (s.node.as_str(), s.instance));
                let changed = known != Some((&status.node, status.instance));
                health.status = Some(Arc::new(status));
                (health.heard, health.failures) = (Some(now), 0);
                health.next = now + limits::STATUS_INTERVAL;
                changed
            }
            Err(error) => {
                health.failures = health.failures.saturating_add(1);
                let doubled = limits::STATUS_INTERVAL * (1 << health.failures.min(8).saturating_sub(1));
                health.next = now + doubled.min(limits::STATUS_BACKOFF);
                tracing::debug!(node = %self.address, error, failures = health.failures, "no status");
                false
            }
        };
        drop(health);
        let state = self.state();
        if state != before || changed {
            tracing::info!(node = %self.address, ?state, "cluster member");
        }
        changed
    }

    /// Tells of new versions.
    pub(crate) async fn announce(&self, request: peer::AnnounceRequest) -> Result<(), Status> {
        let mut request = Request::new(request);
        request.set_timeout(limits::ANNOUNCE_TIMEOUT);
        self.client().announce(request).await.map(|_| ())
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("address", &self.address).field("state", &self.state()).finish()
    }
}
