//! Who may do what. Every call of every door passes [`Access::authorise`]: the ports of the clients and of the other nodes
//! before a byte of a message is read, by [`Method`], and again when the message has named its tables; and metrics and
//! probes. Until principals can be told apart, it allows all.
//!
//! What has no [`Method`] is not served, so none can be added without saying what it does; a request's message is had
//! from [`Call`](crate::call::Call) alone, which asks for the object that it names ([`Asks`]); and the tables that a query
//! reads beside its own are asked for where they are pinned.

mod messages;
mod routes;
#[cfg(test)]
mod tests;

use std::{fmt, net::SocketAddr, sync::Arc};

use basalt_proto::v1::ErrorReason;

use crate::status::RequestError;

pub(crate) use messages::{Asks, FLIGHT, Method, REFLECTION, REFLECTION_ALPHA};
pub(crate) use routes::{ROUTES, Route};

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Principal {
    /// A client that has not said who it is.
    Anonymous(SocketAddr),
    /// Whoever reaches the port of the other nodes.
    Node(SocketAddr),
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
    Attach,
    /// Properties of a table.
    Alter,
    /// Files of the server are read and written.
    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "COPY does, and is SQL"))]
    Copy,
    /// Sets are kept and dropped.
    KeepSet,
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
    /// A table that the message will name: whether it is of use to read it.
    Tables,
    Catalog,
    Sets,
    Server,
}

/// Decides; on the way of every request, so without waiting.
pub(crate) trait Policy: fmt::Debug + Send + Sync {
    fn allows(&self, principal: Principal, action: Action, object: Object<'_>) -> bool;
}

/// There is nobody to tell apart yet.
#[derive(Debug)]
struct AllowAll;

impl Policy for AllowAll {
    fn allows(&self, _: Principal, _: Action, _: Object<'_>) -> bool {
        true
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Access(Arc<dyn Policy>);

impl Default for Access {
    fn default() -> Self {
        Self(Arc::new(AllowAll))
    }
}

impl Access {
    /// By another policy.
    #[cfg(all(test, feature = "sql"))]
    pub(crate) fn by(policy: Arc<dyn Policy>) -> Self {
        Self(policy)
    }

    /// Fails where a principal may not do what it asks for.
    pub(crate) fn authorise(
        &self,
        principal: Principal,
        action: Action,
        object: Object<'_>,
    ) -> Result<(), RequestError> {
        if self.0.allows(principal, action, object) {
            return Ok(());
        }
        let message = format!("{} may not {action} {object}", principal.kind());
        Err(RequestError::new(ErrorReason::PermissionDenied, message))
    }
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

    /// Fails where it may not do what it asks for.
    pub(crate) fn authorise(&self, action: Action, object: Object<'_>) -> Result<(), RequestError> {
        self.access.authorise(self.principal, action, object)
    }
}

impl Principal {
    fn kind(self) -> &'static str {
        match self {
            Self::Anonymous(_) => "a client that has not said who it is",
            Self::Node(_) => "this node",
            Self::Itself => "the server",
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous(address) | Self::Node(address) => address.fmt(f),
            Self::Itself => f.write_str("itself"),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write to",
            Self::Create => "create",
            Self::Drop => "drop",
            Self::Attach => "attach",
            Self::Alter => "alter",
            Self::Copy => "copy files of",
            Self::KeepSet => "keep or drop",
            Self::Verify => "verify",
            Self::Observe => "observe",
            Self::Probe => "probe",
            Self::Peer => "work with",
        })
    }
}

impl fmt::Display for Object<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(name) => write!(f, "table {name:?}"),
            Self::Tables => f.write_str("tables"),
            Self::Catalog => f.write_str("the catalog"),
            Self::Sets => f.write_str("kept sets"),
            Self::Server => f.write_str("the server"),
        }
    }
}
