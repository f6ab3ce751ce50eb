//! Who may do what. Every call of every door passes [`Access::authorise`]: the ports of the clients and of the other nodes
//! before a byte of a message is read, by [`Method`], and again when the message has named its tables; and metrics and
//! probes. Who calls is known by a [key](keys) or, between nodes, by a certificate; a server without keys lets all do all.
//!
//! What has no [`Method`] is not served, so none can be added without saying what it does; a request's message is had
//! from [`Call`](crate::call::Call) alone, which asks for the object that it names ([`Asks`]); and the tables that a query
//! reads beside its own are asked for where they are pinned.

pub(crate) mod file;
pub(crate) mod issue;
#[cfg_attr(
    not(feature = "sql"),
    allow(dead_code, reason = "a part is for PostgreSQL's clients, who come with SQL")
)]
pub(crate) mod keys;
mod messages;
pub(crate) mod quota;
pub(crate) mod roles;
mod roots;
mod routes;
#[cfg_attr(
    not(feature = "sql"),
    allow(dead_code, reason = "a part is for PostgreSQL's clients, who come with SQL")
)]
pub(crate) mod scram;
#[cfg(test)]
mod tests;

use std::{fmt, net::SocketAddr, sync::Arc};

use basalt_proto::v1::ErrorReason;

use crate::{limits, memory::Account, pace::Pace, status::RequestError, tls::Certificate};

use keys::{Key, Keys};
pub(crate) use messages::{Asks, FLIGHT, Method, REFLECTION, REFLECTION_ALPHA};
use quota::Turn;
pub(crate) use roots::Roots;
pub(crate) use routes::{ROUTES, Route};

/// Who calls.
#[derive(Clone, Debug)]
pub(crate) enum Principal {
    /// A client that has not said who it is.
    Anonymous(SocketAddr),
    /// The owner of a key.
    Key(Arc<Key>, SocketAddr),
    /// Whoever reaches the port of the other nodes, and the certificate that it has shown.
    Node(SocketAddr, Option<Arc<Certificate>>),
    /// This server, for what a request that was allowed needs.
    Itself,
}

/// What it wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// Rows, what is known of them, and kept sets.
    Read,
    /// Rows come, are replaced or deleted.
    Write,
    Create,
    Drop,
    /// Tables that it has made itself, and that are empty still, are dropped again.
    TakeBack,
    /// A table is to be dropped or taken back: which of them it is, and whether it may, is asked again where the table is
    /// known, and remembered there.
    DropOrTakeBack,
    Attach,
    /// Properties of a table.
    Alter,
    /// Files of the server are read and written.
    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "COPY does, and is SQL"))]
    Copy,
    /// Sets are kept and dropped.
    KeepSet,
    /// Queries of others are stopped.
    Cancel,
    /// All files are read.
    Verify,
    /// The nodes, and the metrics, which name the tables.
    Observe,
    /// Whether it lives, its version, its limits and its protocol.
    Probe,
    /// What nodes do for each other.
    Peer,
}

/// What it wants to do it to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Object<'a> {
    Table(&'a str),
    /// A table to all that may be done to it: it is made or dropped.
    #[cfg(feature = "sql")]
    View(&'a str),
    /// A table that the message will name: whether it is of use to read it.
    Tables,
    Catalog,
    Sets,
    Server,
    /// One that runs here or at another node, by its id.
    Query(&'a str),
}

/// Decides; on the way of every request, so without waiting.
pub(crate) trait Policy: fmt::Debug + Send + Sync {
    fn allows(&self, principal: &Principal, action: Action, object: Object<'_>) -> bool;
}

/// A server without keys: there is nobody to tell apart.
#[derive(Debug)]
struct AllowAll;

impl Policy for AllowAll {
    fn allows(&self, _: &Principal, _: Action, _: Object<'_>) -> bool {
        true
    }
}

/// What a key grants, and nothing to those without.
#[derive(Debug)]
struct ByKeys;

impl Policy for ByKeys {
    fn allows(&self, principal: &Principal, action: Action, object: Object<'_>) -> bool {
        match principal {
            Principal::Anonymous(_) => action == Action::Probe,
            Principal::Key(key, _) => key.grant.allows(action, object),
            // The node that its client asked has asked for the client.
            Principal::Node(..) => matches!(action, Action::Peer | Action::Read | Action::Probe),
            Principal::Itself => true,
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    policy: Arc<dyn Policy>,
    /// `None`: nobody is asked for one.
    keys: Option<Arc<Keys>>,
}

impl Default for Access {
    fn default() -> Self {
        Self { policy: Arc::new(AllowAll), keys: None }
    }
}

impl Access {
    /// By another policy.
    #[cfg(test)]
    pub(crate) fn by(policy: Arc<dyn Policy>) -> Self {
        Self { policy, keys: None }
    }

    /// For those who have a key.
    pub(crate) fn with(keys: Arc<Keys>) -> Self {
        Self { policy: Arc::new(ByKeys), keys: Some(keys) }
    }

    /// The keys; `None`: nobody is asked for one.
    pub(crate) fn keys(&self) -> Option<&Arc<Keys>> {
        self.keys.as_ref()
    }

    /// Who calls from an address, by what it has sent as `authorization`. A key that is none is an error, even for what
    /// nobody needs one for: its owner is to hear of it.
    pub(crate) fn principal(
        &self,
        address: SocketAddr,
        authorization: Option<&[u8]>,
    ) -> Result<Principal, RequestError> {
        let (Some(keys), Some(header)) = (&self.keys, authorization) else {
            return Ok(Principal::Anonymous(address));
        };
        match keys.of_header(header) {
            Some(key) => Ok(Principal::Key(key, address)),
            None => {
                self.refused(address);
                Err(unauthenticated("the server does not know this key"))
            }
        }
    }

    /// Somebody came with a key that is none.
    pub(crate) fn refused(&self, address: SocketAddr) {
        audit(&Principal::Anonymous(address), "come in with", &"a key that is not known", false);
    }

    /// Somebody came by a name whose key is another one, or that is none.
    #[cfg(feature = "sql")]
    pub(crate) fn refused_as(&self, name: &str, address: SocketAddr) {
        let what = format!("a wrong password for {:?}", beginning(name, limits::TOLD_NAME_CHARS));
        audit(&Principal::Anonymous(address), "come in with", &what, false);
    }

    /// Fails where a principal may not do what it asks for.
    pub(crate) fn authorise(
        &self,
        principal: &Principal,
        action: Action,
        object: Object<'_>,
    ) -> Result<(), RequestError> {
        let allowed = self.policy.allows(principal, action, object);
        // Whether one of many tables is meant is asked again, and where files may lie is, too.
        let is_decided = !matches!(object, Object::Tables) && !action.has_roots();
        if !allowed || (action.is_administrative() && is_decided) {
            audit(principal, action.verb(), &object, allowed);
        }
        if allowed {
            return Ok(());
        }
        if self.keys.is_some() && matches!(principal, Principal::Anonymous(_)) {
            let message = format!("without a key nobody may {action} {object}");
            return Err(unauthenticated(&message));
        }
        let message = format!("{} may not {action} {object}", principal.kind());
        Err(RequestError::new(ErrorReason::PermissionDenied, message))
    }
}

fn unauthenticated(message: &str) -> RequestError {
    RequestError::new(ErrorReason::Unauthenticated, message)
}

/// The target of what an administrator may want to know later: `audit_log` writes it to a file of its own.
pub(crate) const AUDIT: &str = "audit";

fn audit(principal: &Principal, action: &str, object: &dyn fmt::Display, allowed: bool) {
    let Some(address) = principal.address() else { return };
    tracing::info!(target: AUDIT, who = principal.kind(), %address, action, %object, allowed, "audit");
}

/// As much of what a client has said as stands in a line.
fn beginning(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

/// Who has sent a request, for what is asked on its way.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    pub(crate) access: Access,
}

impl Caller {
    /// The server itself.
    pub(crate) fn itself(access: &Access) -> Self {
        Self { principal: Principal::Itself, access: access.clone() }
    }

    /// A request under way, for as long as this is there. Fails where the owner of a key has as many as he may have; lists,
    /// and what stops a query, are not counted. `None`: nobody counts.
    pub(crate) fn turn(&self, object: Object<'_>) -> Result<Option<Turn>, RequestError> {
        match (&self.principal, object) {
            (Principal::Key(..), Object::Catalog | Object::Server) => Ok(None),
            (Principal::Key(key, _), _) => key.quota.take(&key.name),
            _ => Ok(None),
        }
    }

    /// What counts the memory that it holds; `None`: nobody does.
    pub(crate) fn account(&self) -> Option<Arc<Account>> {
        self.key().and_then(|key| key.quota.account.clone())
    }

    /// How fast it sends and is sent bytes; `None`: as fast as it can.
    pub(crate) fn pace(&self) -> Option<Arc<Pace>> {
        self.key().and_then(|key| key.quota.pace.clone())
    }

    /// The name of the key that it has shown.
    pub(crate) fn key_name(&self) -> Option<&str> {
        self.key().map(|key| &*key.name)
    }

    fn key(&self) -> Option<&Key> {
        match &self.principal {
            Principal::Key(key, _) => Some(key),
            _ => None,
        }
    }

    /// Fails where it may not do what it asks for.
    pub(crate) fn authorise(&self, action: Action, object: Object<'_>) -> Result<(), RequestError> {
        self.access.authorise(&self.principal, action, object)
    }

    /// Fails where the key that it came with is gone: what was begun with it goes no further.
    pub(crate) fn check_key(&self) -> Result<(), RequestError> {
        if self.principal.is_known() {
            return Ok(());
        }
        audit(&self.principal, "go on with", &"a key that is not known any longer", false);
        Err(unauthenticated("the server does not know this key any longer"))
    }

    /// It may do such things, also at the path or address that it names.
    pub(crate) fn allowed(&self, action: Action, object: Object<'_>) {
        audit(&self.principal, action.verb(), &object, true);
    }

    /// It may do such things, but not at this path or address.
    pub(crate) fn refused_at(&self, action: Action, place: &str) {
        let place = beginning(place, limits::TOLD_PLACE_CHARS);
        audit(&self.principal, action.verb(), &format_args!("{place:?}"), false);
    }

    /// Remembers what it has done, or was kept from, to something of this kind and name.
    pub(crate) fn did(&self, verb: &str, kind: &str, name: &str, allowed: bool) {
        let name = beginning(name, limits::TOLD_NAME_CHARS);
        audit(&self.principal, verb, &format_args!("{kind} {name:?}"), allowed);
    }

    /// Fails where it may not drop a table. One that it has made, and that is empty still, it may take back.
    pub(crate) fn may_drop(&self, table: &str, is_own: bool) -> Result<(), RequestError> {
        let is_enough = is_own && !self.allows(Action::Drop, Object::Table(table));
        self.authorise(if is_enough { Action::TakeBack } else { Action::Drop }, Object::Table(table))
    }

    /// Whether it may, of one among many that are shown to whoever may see them.
    pub(crate) fn may_see(&self, table: &str) -> bool {
        self.allows(Action::Read, Object::Table(table))
    }

    /// Whether it may do what nobody remembers that it has asked for.
    pub(crate) fn allows(&self, action: Action, object: Object<'_>) -> bool {
        self.access.policy.allows(&self.principal, action, object)
    }

    /// Whether the two are one: the owner of a key, or who comes from one machine where nobody has keys.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        match (&self.principal, &other.principal) {
            (Principal::Key(key, _), Principal::Key(other, _)) => key.name == other.name,
            (Principal::Anonymous(address), Principal::Anonymous(other)) => address.ip() == other.ip(),
            (Principal::Itself, Principal::Itself) => true,
            _ => false,
        }
    }
}

impl Principal {
    fn kind(&self) -> &str {
        match self {
            Self::Anonymous(_) => "a client that has not said who it is",
            Self::Key(key, _) => &key.name,
            Self::Node(..) => "this node",
            Self::Itself => "the server",
        }
    }

    /// Whether somebody is still who he was when he came.
    pub(crate) fn is_known(&self) -> bool {
        !matches!(self, Self::Key(key, _) if key.is_gone())
    }

    /// From where.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Anonymous(address) | Self::Key(_, address) | Self::Node(address, _) => Some(*address),
            Self::Itself => None,
        }
    }

    /// Fails where another node has shown a certificate in which the name does not stand that it goes by.
    pub(crate) fn is_node(&self, name: &str) -> Result<(), RequestError> {
        match self {
            Self::Node(_, Some(certificate)) if !certificate.is_of(name) => {
                audit(self, "be", &format_args!("node {name:?}"), false);
                let message = format!("{name:?} does not stand in the certificate of this node");
                Err(RequestError::new(ErrorReason::PermissionDenied, message))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key, address) => write!(f, "{address} ({})", key.name),
            Self::Anonymous(address) | Self::Node(address, _) => address.fmt(f),
            Self::Itself => f.write_str("itself"),
        }
    }
}

impl Action {
    fn verb(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write to",
            Self::Create => "create",
            Self::Drop | Self::DropOrTakeBack => "drop",
            Self::TakeBack => "take back",
            Self::Attach => "attach",
            Self::Alter => "alter",
            Self::Copy => "copy files of",
            Self::KeepSet => "keep or drop",
            Self::Cancel => "cancel queries of others at",
            Self::Verify => "verify",
            Self::Observe => "observe",
            Self::Probe => "probe",
            Self::Peer => "work with",
        }
    }

    /// What is done below some roots alone: whether it is allowed is known, and remembered, where they are looked at.
    fn has_roots(self) -> bool {
        matches!(self, Self::Attach | Self::Copy)
    }

    /// What is remembered even where it was allowed.
    fn is_administrative(self) -> bool {
        matches!(
            self,
            Self::Create
                | Self::Drop
                | Self::TakeBack
                | Self::Attach
                | Self::Alter
                | Self::Copy
                | Self::Cancel
                | Self::Verify
        )
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.verb())
    }
}

impl fmt::Display for Object<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(name) => write!(f, "table {name:?}"),
            #[cfg(feature = "sql")]
            Self::View(name) => write!(f, "view {name:?}"),
            Self::Tables => f.write_str("tables"),
            Self::Catalog => f.write_str("the catalog"),
            Self::Sets => f.write_str("kept sets"),
            Self::Server => f.write_str("the server"),
            Self::Query(id) => write!(f, "the server: query {:?}", beginning(id, limits::TOLD_NAME_CHARS)),
        }
    }
}
