//! One other node: the connection to it, and what is known of its health.

use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use basalt_proto::cluster::v1::{
    self as peer, GetStatusRequest, GetStatusResponse, peer_service_client::PeerServiceClient,
};
use tokio::time::{Instant, timeout};
use tonic::{
    Request,
    transport::{Channel, Endpoint},
};

use crate::{environment::Environment, limits, moment::Moment, tls, trace, units::millis};

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
    /// What the tasks of one statement reach it by.
    #[cfg(feature = "sql")]
    statements: super::statements::Statements,
    health: Mutex<Health>,
    environment: Arc<dyn Environment>,
}

#[derive(Debug)]
struct Health {
    /// Its last answer, and when it came.
    status: Option<Arc<GetStatusResponse>>,
    heard: Option<Instant>,
    made: Instant,
    /// Since when its answers come without a gap; since it became known, before the first.
    met: Moment,
    /// Answers that did not come since.
    failures: u32,
    next: Instant,
    asking: bool,
    /// What it has given this node.
    lease: Option<Lease>,
    /// When this node has last given it one.
    given: Option<Moment>,
    /// Commits that it should have confirmed by now.
    overdue: usize,
}

/// The other node acknowledges nothing that this one has not heard of.
#[derive(Clone, Copy, Debug)]
struct Lease {
    /// Since then, without a gap.
    since: Moment,
    /// It counts from here.
    asked: Moment,
    length: Duration,
}

impl Lease {
    fn is_good(&self, environment: &dyn Environment) -> bool {
        self.asked.is_within(self.length, environment)
    }
}

impl Link {
    /// Nothing is connected before the first call. `at`: where it is reached, if not where its address says.
    pub(crate) fn new(
        address: &str,
        at: Option<SocketAddr>,
        environment: Arc<dyn Environment>,
        tls: Option<tls::Way>,
    ) -> Result<Self, tonic::transport::Error> {
        let reached = at.map_or_else(|| address.to_owned(), |at| at.to_string());
        let endpoint = Endpoint::from_shared(format!("http://{reached}"))?
            .connect_timeout(limits::PEER_CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(limits::PEER_KEEPALIVE_INTERVAL)
            .keep_alive_timeout(limits::PEER_KEEPALIVE_TIMEOUT)
            .http2_max_header_list_size(limits::HEADER_LIST_BYTES)
            .http2_max_local_error_reset_streams(limits::LOCAL_ERROR_RESETS)
            .initial_stream_window_size(limits::PEER_STREAM_WINDOW_BYTES)
            .initial_connection_window_size(limits::PEER_CONNECTION_WINDOW_BYTES);
        let client = PeerServiceClient::new(environment.channel(&endpoint, tls.as_ref()))
            .max_decoding_message_size(limits::PEER_MESSAGE_BYTES)
            .max_encoding_message_size(limits::PEER_MESSAGE_BYTES);
        #[cfg(feature = "sql")]
        let statements = super::statements::Statements::new(&endpoint, tls);
        let now = Instant::now();
        let health = Health {
            status: None,
            heard: None,
            made: now,
            met: Moment::now(&*environment),
            failures: 0,
            next: now,
            asking: false,
            lease: None,
            given: None,
            overdue: 0,
        };
        Ok(Self {
            address: address.into(),
            client,
            #[cfg(feature = "sql")]
            statements,
            health: Mutex::new(health),
            environment,
        })
    }

    pub(crate) fn address(&self) -> &Arc<str> {
        &self.address
    }

    /// For calls to the node.
    pub(crate) fn client(&self) -> PeerServiceClient<Channel> {
        self.client.clone()
    }

    /// For the tasks of a statement, which share a connection of their own as long as one of them has this.
    #[cfg(feature = "sql")]
    pub(crate) fn of_statement(&self, statement: u128) -> Arc<PeerServiceClient<Channel>> {
        self.statements.client(statement, &*self.environment)
    }

    pub(crate) fn state(&self) -> State {
        let health = self.health();
        match &health.status {
            _ if health.failures >= limits::STATUS_FAILURES => State::Dead,
            _ if health.failures > 0 => State::Suspect,
            Some(status) if status.protocol != self.environment.protocol() => State::Incompatible,
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
    /// What it answers is told before it counts.
    pub(crate) async fn ask(&self, own: &str, told: impl Fn(&GetStatusResponse)) -> bool {
        let request = self.question(own, false);
        let at = Moment::now(&*self.environment);
        let asked = timeout(limits::STATUS_TIMEOUT, self.client().get_status(request)).await;
        let answer = match asked {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(status.message().to_owned()),
            Err(_) => Err("no answer in time".to_owned()),
        };
        answer.iter().for_each(told);
        self.hear(at, answer)
    }

    /// Takes the answer to a question that was asked `at`. Whether its name or its process is another than before.
    fn hear(&self, at: Moment, answer: Result<GetStatusResponse, String>) -> bool {
        let before = self.state();
        let mut health = self.health();
        let now = Instant::now();
        health.asking = false;
        let changed = match answer {
            Ok(status) => {
                let known = health.status.as_ref().map(|s| (s.node.as_str(), s.instance));
                let changed = known != Some((&status.node, status.instance));
                if changed || health.heard.is_none_or(|heard| heard.elapsed() > limits::LEASE) {
                    health.met = Moment::now(&*self.environment);
                }
                let length = Duration::from_millis(status.lease_ms.into());
                health.lease = health.renewed(at, length, &*self.environment);
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

    fn question(&self, own: &str, leaving: bool) -> GetStatusRequest {
        GetStatusRequest { protocol: self.environment.protocol(), node: own.to_owned(), leaving }
    }

    /// Since when it acknowledges nothing that this node has not heard of; `None`: it may.
    pub(crate) fn leased(&self) -> Option<Moment> {
        self.health().lease.filter(|lease| lease.is_good(&*self.environment)).map(|lease| lease.since)
    }

    /// Gives it a lease, if it is one that can be told of commits: for so many milliseconds from when it has asked.
    pub(crate) fn give(&self) -> u32 {
        let mut health = self.health();
        if health.failures > 0 || health.overdue > 0 || health.status.is_none() {
            return 0;
        }
        health.given = Some(Moment::now(&*self.environment));
        u32::try_from(millis(limits::LEASE)).unwrap_or(0)
    }

    /// Since when it knows this node, as far as this one can tell; `None`: it is asked, and does not answer any more.
    pub(crate) fn met(&self) -> Option<Moment> {
        let health = self.health();
        match health.heard {
            Some(_) if health.failures > 0 => None,
            // This node has stood still.
            Some(heard) if heard.elapsed() > limits::LEASE => Some(Moment::now(&*self.environment)),
            _ => Some(health.met),
        }
    }

    /// It answers nothing more.
    pub(crate) fn left(&self) {
        self.health().given = None;
    }

    /// For how long it may answer without having heard of a commit that is made now; `None`: it looks into the store.
    /// Of leases that an earlier process of this node gave before `started`, nothing is known.
    pub(crate) fn owed(&self, started: Option<Moment>) -> Option<Duration> {
        let given = self.health().given;
        let last = match (given, started) {
            (Some(given), Some(started)) => given.later(started),
            (given, started) => given.or(started)?,
        };
        (limits::LEASE + limits::LEASE_DRIFT)
            .checked_sub(last.passed(&*self.environment))
            .filter(|left| !left.is_zero())
    }

    /// Tells of new versions; whether it has heard of them.
    pub(crate) async fn announce(&self, request: peer::AnnounceRequest, time: Duration) -> bool {
        let mut request = Request::new(request);
        request.set_timeout(time);
        trace::send(&mut request);
        match timeout(time, self.client().announce(request)).await {
            Ok(Ok(_)) => true,
            Ok(Err(status)) => {
                tracing::debug!(node = %self.address, error = status.message(), "announcement");
                false
            }
            Err(_) => {
                tracing::debug!(node = %self.address, "announcement: no answer in time");
                false
            }
        }
    }

    /// Tells of new versions, until it has heard of them or looks into the store by itself.
    pub(crate) async fn confirm(&self, request: peer::AnnounceRequest, started: Option<Moment>) {
        let mut overdue = None;
        while let Some(left) = self.owed(started) {
            if self.announce(request.clone(), left.min(limits::ANNOUNCE_TIMEOUT)).await {
                return;
            }
            // It is given no other lease until it has heard.
            overdue.get_or_insert_with(|| Overdue::new(self));
            self.failed();
            tokio::time::sleep(left.min(limits::ANNOUNCE_PAUSE)).await;
        }
        tracing::info!(node = %self.address, "a commit is acknowledged that this node has not confirmed: its lease is over");
    }

    /// Tells it that this node answers nothing more.
    pub(crate) async fn leave(&self, own: &str) {
        let request = self.question(own, true);
        // Who does not hear it waits until the lease is over.
        let _ = timeout(limits::ANNOUNCE_TIMEOUT, self.client().get_status(request)).await;
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Health {
    /// The lease that follows from an answer to a question that was asked `at`.
    fn renewed(&self, at: Moment, length: Duration, environment: &dyn Environment) -> Option<Lease> {
        let length = length.min(limits::LEASE);
        if length.is_zero() {
            // The one before ends when it ends.
            return self.lease;
        }
        Some(match self.lease.filter(|lease| lease.is_good(environment)) {
            // An older answer that comes late.
            Some(lease) if lease.asked.is_since(at) => lease,
            Some(lease) => Lease { asked: at, length, ..lease },
            // What was acknowledged before is in the store by now.
            None => Lease { since: Moment::now(environment), asked: at, length },
        })
    }
}

/// A node that was not told of a commit.
struct Overdue<'a>(&'a Link);

impl<'a> Overdue<'a> {
    fn new(link: &'a Link) -> Self {
        link.health().overdue += 1;
        Self(link)
    }
}

impl Drop for Overdue<'_> {
    fn drop(&mut self) {
        let mut health = self.0.health();
        health.overdue = health.overdue.saturating_sub(1);
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("address", &self.address).field("state", &self.state()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::process;

    #[tokio::test]
    async fn a_lease_goes_on_without_a_gap_or_begins_anew() {
        let link = Link::new("node:1", None, process(), None).unwrap();
        let renew = |asked: Moment, length: Duration| {
            let mut health = link.health();
            health.lease = health.renewed(asked, length, &*process());
        };
        assert!(link.leased().is_none());
        renew(Moment::now(&*process()), Duration::ZERO);
        assert!(link.leased().is_none(), "none was given");
        renew(Moment::now(&*process()), limits::LEASE);
        let since = link.leased().unwrap();
        renew(Moment::now(&*process()), limits::LEASE);
        assert_eq!(link.leased(), Some(since));
        // An answer that was long on its way gives nothing; nor is what was given before taken away by it.
        renew(Moment::default(), limits::LEASE);
        assert_eq!(link.leased(), Some(since));
        // Behind a gap it counts from the answer on: what was acknowledged in between has to be read first.
        link.health().lease = Some(Lease { since, asked: Moment::default(), length: limits::LEASE });
        assert!(link.leased().is_none());
        let asked = Moment::now(&*process());
        renew(asked, Duration::from_secs(3600));
        let again = link.leased().unwrap();
        assert!(again != since && again.is_since(asked));
        assert_eq!(link.health().lease.unwrap().length, limits::LEASE, "no longer than ours");
    }

    #[tokio::test]
    async fn a_lease_counts_from_its_question() {
        let link = Link::new("node:1", None, process(), None).unwrap();
        let lease_ms = u32::try_from(limits::LEASE.as_millis()).unwrap();
        let answer = GetStatusResponse { node: "b".to_owned(), instance: 1, lease_ms, ..Default::default() };
        // The answer was on its way for longer than the lease.
        assert!(link.hear(Moment::default(), Ok(answer.clone())));
        assert!(link.status().is_some(), "it was heard");
        assert!(link.leased().is_none());
        let asked = Moment::now(&*process());
        assert!(!link.hear(asked, Ok(answer)), "it is the same process");
        assert!(link.leased().is_some());
        assert_eq!(link.health().lease.unwrap().asked, asked);
    }

    #[tokio::test]
    async fn a_lease_is_given_to_who_can_be_told() {
        let link = Link::new("node:1", None, process(), None).unwrap();
        assert_eq!(link.give(), 0, "it has not answered yet");
        link.health().status = Some(Arc::default());
        assert!(link.owed(None).is_none());
        assert_eq!(u128::from(link.give()), limits::LEASE.as_millis());
        let owed = link.owed(None).unwrap();
        assert!(owed > limits::LEASE && owed <= limits::LEASE + limits::LEASE_DRIFT);
        let overdue = Overdue::new(&link);
        assert_eq!(link.give(), 0, "it was not told of a commit");
        drop(overdue);
        link.failed();
        assert_eq!(link.give(), 0, "a call did not get through");
        link.left();
        assert!(link.owed(None).is_none());
        // A process that has just begun does not know what the one before has given.
        assert!(
            link.owed(Some(Moment::now(&*process()))).is_some()
                && link.owed(Some(Moment::default())).is_none()
        );
    }
}
