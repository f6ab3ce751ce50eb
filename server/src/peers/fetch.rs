//! Kept sets of other nodes. A handle is the digest of its set, so whoever gives another one is found out.

use std::{sync::Arc, time::Duration};

use basalt_proto::{
    cluster::v1::{FetchSipRequest, fetch_sip_response::Kind},
    v1::{self as pb, filter, key_set, row_set},
};
use basalt_sip::{Limits, Sip};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Request, Status};

use crate::{
    access::{Action, Caller, Object},
    convert, limits,
    membership::{Link, LinkState as State},
    sets::{self, Handle, Keeper, KeptSet, Sets},
    state::State as Server,
    status::RequestError,
    trace,
};

/// Gets the sets that a filter names by their handles, and that other nodes keep. One that nobody keeps is left to
/// whoever then looks for it.
pub(crate) async fn sets_of(
    server: &Server,
    caller: &Caller,
    filter: Option<&pb::Filter>,
    deadline: Instant,
) -> Result<(), RequestError> {
    let mut handles = Vec::new();
    filter.iter().for_each(|filter| named(filter, &mut handles));
    if !handles.is_empty() {
        caller.authorise(Action::Read, Object::Sets)?;
    }
    for handle in handles {
        set(server, handle, deadline).await;
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
pub(crate) async fn set(server: &Server, handle: &[u8], deadline: Instant) {
    let (Some(cluster), Ok(handle)) = (&server.cluster, Handle::try_from(handle)) else { return };
    if server.sets.get(&handle, Instant::now()).is_ok() {
        return;
    }
    let (view, protocol) = (cluster.members().view(), cluster.members().protocol());
    let links = view.nodes().iter().filter_map(|node| node.link.clone());
    let mut answers: FuturesUnordered<_> = links
        .filter(|link| !matches!(link.state(), State::Dead | State::Incompatible))
        .map(|link| async move { fetch(&link, protocol, handle, deadline).await })
        .collect();
    while let Some(answer) = answers.next().await {
        if let Some((set, keeper, left)) = answer {
            // Where there is no room for it, the request that needs it says so.
            // The other node has pinned its version; this one's pin goes on when that one is gone.
            let pin = Sets::pin(&server.tables, &set.scope).await.ok().flatten();
            if let Err(error) = server.sets.keep(keeper, set, pin, left, Instant::now()) {
                tracing::warn!(reason = error.reason(), "a set of another node is not kept");
            }
            return;
        }
    }
}

/// The set that a node keeps, and the time that it has left.
async fn fetch(
    link: &Arc<Link>,
    protocol: u32,
    handle: Handle,
    deadline: Instant,
) -> Option<(KeptSet, Keeper, Duration)> {
    let left = deadline.saturating_duration_since(Instant::now()).min(limits::FETCH_TIMEOUT);
    let until = Instant::now() + left;
    let mut request = Request::new(FetchSipRequest { protocol, handle: handle.to_vec() });
    request.set_timeout(left);
    trace::send(&mut request);
    let status = match timeout_at(until, read(link, request)).await {
        Ok(Ok(kept)) if sets::handle_of(&kept.0) == handle => return Some(kept),
        Ok(Ok(_)) => Status::data_loss("it is not the one of its handle"),
        Ok(Err(status)) if status.code() == Code::NotFound => return None,
        Ok(Err(status)) => status,
        Err(_) => Status::deadline_exceeded("no answer in time"),
    };
    tracing::warn!(node = %link.address(), error = status.message(), "no set from another node");
    None
}

async fn read(link: &Link, request: Request<FetchSipRequest>) -> Result<(KeptSet, Keeper, Duration), Status> {
    let wrong = || Status::data_loss("the stream breaks the rules of the protocol");
    let mut stream = link.client().fetch_sip(request).await?.into_inner();
    let Some(Kind::Head(head)) = stream.message().await?.and_then(|message| message.kind) else {
        return Err(wrong());
    };
    let mut bytes = Vec::new();
    while let Some(message) = stream.message().await? {
        let Some(Kind::Sip(piece)) = message.kind else { return Err(wrong()) };
        if bytes.len() + piece.len() > limits::FETCH_BYTES {
            return Err(wrong());
        }
        bytes.extend_from_slice(&piece);
    }
    if bytes.len() as u64 != head.bytes {
        return Err(wrong());
    }
    let sip =
        Sip::from_bytes(bytes, &Limits::default()).map_err(|error| Status::data_loss(error.to_string()))?;
    let scope = convert::scope(head.scope).map_err(Status::from)?;
    let (set, keeper) = (KeptSet { scope, sip: Arc::new(sip) }, Keeper::elsewhere(head.keepers));
    Ok((set, keeper, Duration::from_millis(head.expires_ms)))
}
