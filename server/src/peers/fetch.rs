//! Kept sets of other nodes. A handle is the digest of its set, so whoever gives another one is found out.

use std::{sync::Arc, time::Duration};

use basalt_proto::{
    cluster::v1::{FetchSipRequest, FetchSipResponse, KeptSip, fetch_sip_response::Kind},
    v1::{self as pb, ErrorReason, filter, key_set, row_set},
};
use basalt_sip::{Limits, Sip};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Request, Status, Streaming};

use super::node_for;
use crate::{
    access::{Action, Caller, Object},
    convert,
    coordinator::fresh,
    limits,
    membership::{Link, LinkState},
    memory::Consumer,
    sets::{self, Handle, Keeper, KeptSet},
    state::State as Server,
    status::{RequestError, Result},
    trace,
};

/// Gets the sets that a filter names by their handles, and that other nodes keep. One that nobody keeps is left to
/// whoever then looks for it.
pub(crate) async fn sets_of(
    server: &Server,
    caller: &Caller,
    filter: Option<&pb::Filter>,
    deadline: Instant,
) -> Result<()> {
    let mut handles = Vec::new();
    filter.iter().for_each(|filter| named(filter, &mut handles));
    if !handles.is_empty() {
        caller.authorise(Action::Read, Object::Sets)?;
    }
    for handle in handles {
        set(server, caller, handle, deadline).await?;
        // Of one that nobody keeps the request says so.
        if let Ok((set, _)) = server.sets.get(handle, Instant::now()) {
            set.scope.may_be_read(caller)?;
        }
    }
    Ok(())
}

/// The handles in a filter; decoding the message has bounded how deep it is.
fn named<'a>(filter: &'a pb::Filter, handles: &mut Vec<&'a [u8]>) {
    match &filter.kind {
        Some(filter::Kind::And(pb::And { filters }) | filter::Kind::Or(pb::Or { filters })) => {
            filters.iter().for_each(|filter| named(filter, handles));
        }
        Some(filter::Kind::Not(filter)) => named(filter, handles),
        Some(filter::Kind::SemiJoin(join)) => join.filter.iter().for_each(|filter| named(filter, handles)),
        Some(filter::Kind::Rows(pb::RowSet { set: Some(row_set::Set::Handle(handle)), .. })) => {
            handles.push(handle);
        }
        Some(filter::Kind::Keys(pb::KeySet { set: Some(key_set::Set::Handle(handle)), .. })) => {
            handles.push(handle);
        }
        _ => {}
    }
}

/// Makes sure that the set of a handle is kept here, if any node of the cluster keeps it.
///
/// # Errors
/// [`ErrorReason::Incomplete`] where nobody says that it keeps it, and a node says nothing; [`ErrorReason::SipNotFound`] where
/// all that live say that they do not, and some do not live; why it cannot be kept here; and
/// [`ErrorReason::PermissionDenied`] where the caller may not read the table that it is of.
pub(crate) async fn set(server: &Server, caller: &Caller, handle: &[u8], deadline: Instant) -> Result<()> {
    let (Some(cluster), Ok(handle)) = (&server.cluster, Handle::try_from(handle)) else { return Ok(()) };
    let is_here = || server.sets.get(&handle, Instant::now()).is_ok();
    if is_here() {
        return Ok(());
    }
    let fetch = server.sets.fetch(handle);
    let _one = timeout_at(deadline, fetch.acquire()).await.map_err(|_| RequestError::deadline())?;
    // Whoever was before has got it, perhaps.
    if is_here() {
        return Ok(());
    }
    let (view, protocol) = (cluster.members().view(), cluster.members().protocol());
    let until = deadline.min(Instant::now() + limits::FETCH_TIMEOUT);
    let (mut asked, mut dead) = (FuturesUnordered::new(), Vec::new());
    for node in view.nodes() {
        let (name, Some(link)) = (Arc::clone(&node.name), node.link.clone()) else { continue };
        match link.state() {
            LinkState::Dead => dead.push(name),
            LinkState::Incompatible => {}
            _ => asked.push(async move { (name, ask(&link, protocol, handle, until).await) }),
        }
    }
    let mut silent = None;
    while let Some((name, answer)) = asked.next().await {
        let taken = match answer {
            Ok(None) => continue,
            Ok(Some(found)) => take(server, caller, handle, found, until).await,
            Err(status) => Err(status.into()),
        };
        match taken {
            Ok(()) => return Ok(()),
            Err(Failed::Here(error)) => return Err(error),
            Err(Failed::Node(problem)) => {
                tracing::warn!(node = %name, error = problem.as_str(), "no set from another node");
                silent = Some(name);
            }
        }
    }
    let Some(name) = silent else {
        // Where all live, whoever looks for it says that there is none.
        return if dead.is_empty() { Ok(()) } else { Err(without(server, caller, &dead)) };
    };
    if Instant::now() >= deadline {
        return Err(RequestError::deadline());
    }
    let node = node_for(server, caller, &name);
    let message = format!("no node says that it keeps the set of this handle, and {node} does not answer");
    Err(RequestError::new(ErrorReason::Incomplete, message))
}

/// The error of a set that no node keeps which lives: it may still be there when one of the others is back.
fn without(server: &Server, caller: &Caller, dead: &[Arc<str>]) -> RequestError {
    let names: Vec<_> = dead.iter().map(|name| node_for(server, caller, name)).collect();
    let (names, does) = (names.join(", "), if dead.len() == 1 { "does" } else { "do" });
    let message = format!("no node that lives keeps a set under this handle; {names} {does} not live");
    RequestError::new(ErrorReason::SipNotFound, message).at("handle")
}

/// Why a set is not here.
enum Failed {
    /// Another node may have it.
    Node(String),
    /// It is this node's, or the request's.
    Here(RequestError),
}

impl From<Status> for Failed {
    fn from(status: Status) -> Self {
        Self::Node(status.message().to_owned())
    }
}

impl From<RequestError> for Failed {
    fn from(error: RequestError) -> Self {
        Self::Here(error)
    }
}

/// A set that a node keeps. Its bytes are still to come.
struct Found {
    head: KeptSip,
    pieces: Streaming<FetchSipResponse>,
}

/// Whether a node keeps a set.
async fn ask(
    link: &Link,
    protocol: u32,
    handle: Handle,
    until: Instant,
) -> std::result::Result<Option<Found>, Status> {
    let mut request = Request::new(FetchSipRequest { protocol, handle: handle.to_vec() });
    request.set_timeout(until.saturating_duration_since(Instant::now()));
    trace::send(&mut request);
    match timeout_at(until, head(link, request)).await {
        Ok(Ok(found)) => Ok(Some(found)),
        Ok(Err(status)) if status.code() == Code::NotFound => Ok(None),
        Ok(Err(status)) => Err(status),
        Err(_) => Err(late()),
    }
}

async fn head(link: &Link, request: Request<FetchSipRequest>) -> std::result::Result<Found, Status> {
    let mut pieces = link.client().fetch_sip(request).await?.into_inner();
    match pieces.message().await?.and_then(|message| message.kind) {
        Some(Kind::Head(head)) => Ok(Found { head, pieces }),
        _ => Err(wrong()),
    }
}

/// Reads a set that a node keeps, and keeps it here. There is memory for it before it comes.
async fn take(
    server: &Server,
    caller: &Caller,
    handle: Handle,
    Found { head, mut pieces }: Found,
    until: Instant,
) -> std::result::Result<(), Failed> {
    let scope = convert::scope(head.scope).map_err(Status::from)?;
    scope.may_be_read(caller)?;
    let length = usize::try_from(head.bytes).ok().filter(|length| *length <= limits::FETCH_BYTES);
    let length = length.ok_or_else(wrong)?;
    let (_, kept) = server.sets.held();
    server.sets.check(kept + head.bytes)?;
    let mut held = server.memory.reserve(Consumer::Parts);
    // Its bytes, and an index that is no larger.
    held.set(2 * head.bytes)?;
    let bytes = timeout_at(until, read(&mut pieces, length)).await.map_err(|_| late())??;
    let sip =
        Sip::from_bytes(bytes, &Limits::default()).map_err(|error| Status::data_loss(error.to_string()))?;
    let set = KeptSet { scope, sip: Arc::new(sip) };
    if sets::handle_of(&set) != handle {
        return Err(Status::data_loss("it is not the one of its handle").into());
    }
    // The other node has pinned its version; this one's pin goes on when that one is gone.
    let pinned = timeout_at(until, Box::pin(fresh::pin_set(server, &set.scope))).await;
    let pin = match pinned.map_err(|_| RequestError::deadline())? {
        Ok(pin) => pin,
        Err(error) if error.is_outage() => return Err(error.into()),
        Err(error) => {
            let (table, version) = (set.scope.table.as_str(), set.scope.version);
            tracing::warn!(
                table,
                version,
                error = error.message(),
                "a set from another node pins no version here"
            );
            None
        }
    };
    // From here on it is counted as one that is kept.
    drop(held);
    let (keeper, left) = (Keeper::elsewhere(head.keepers), Duration::from_millis(head.expires_ms));
    server.sets.keep(keeper, set, pin, left, Instant::now())?;
    Ok(())
}

/// The bytes of a set, which are as many as its head says.
async fn read(
    pieces: &mut Streaming<FetchSipResponse>,
    length: usize,
) -> std::result::Result<Vec<u8>, Status> {
    let mut bytes = Vec::with_capacity(length);
    while let Some(message) = pieces.message().await? {
        let Some(Kind::Sip(piece)) = message.kind else { return Err(wrong()) };
        if bytes.len() + piece.len() > length {
            return Err(wrong());
        }
        bytes.extend_from_slice(&piece);
    }
    if bytes.len() == length { Ok(bytes) } else { Err(wrong()) }
}

fn wrong() -> Status {
    Status::data_loss("the stream breaks the rules of the protocol")
}

fn late() -> Status {
    Status::deadline_exceeded("no answer in time")
}
