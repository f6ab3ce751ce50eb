//! Every method with its action, and every message with its object.

use basalt_proto::{
    cluster::v1::{self as peer, peer_service_server},
    v1::{
        self as pb, catalog_service_server, cluster_service_server, ingest_service_server,
        query_service_server, sip_service_server, sql_service_server,
    },
};
use tonic_health::pb::health_server;

use super::{Action, Object};

/// A method of a service.
#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) service: &'static str,
    pub(crate) name: &'static str,
    /// By which the log and the metrics know it.
    pub(crate) label: &'static str,
    pub(crate) action: Action,
    /// What is known of its object before its message is read.
    pub(crate) object: Object<'static>,
}

const fn of(
    service: &'static str,
    name: &'static str,
    label: &'static str,
    action: Action,
    object: Object<'static>,
) -> Method {
    Method { service, name, label, action, object }
}

const CATALOG: &str = catalog_service_server::SERVICE_NAME;
const INGEST: &str = ingest_service_server::SERVICE_NAME;
const QUERY: &str = query_service_server::SERVICE_NAME;
const SQL: &str = sql_service_server::SERVICE_NAME;
const SIPS: &str = sip_service_server::SERVICE_NAME;
const CLUSTER: &str = cluster_service_server::SERVICE_NAME;
const PEER: &str = peer_service_server::SERVICE_NAME;
/// That of Arrow Flight, which is there with the feature `sql`.
pub(crate) const FLIGHT: &str = "arrow.flight.protocol.FlightService";
const HEALTH: &str = health_server::SERVICE_NAME;
pub(crate) const REFLECTION: &str = "grpc.reflection.v1.ServerReflection";
pub(crate) const REFLECTION_ALPHA: &str = "grpc.reflection.v1alpha.ServerReflection";

/// All methods that are served, the most frequent first.
static METHODS: &[Method] = &[
    of(QUERY, "Query", "Query", Action::Read, Object::Tables),
    of(QUERY, "Select", "Select", Action::Read, Object::Tables),
    of(QUERY, "Explain", "Explain", Action::Read, Object::Tables),
    // Whose queries they are is asked for each.
    of(QUERY, "ListQueries", "ListQueries", Action::Read, Object::Catalog),
    of(QUERY, "CancelQuery", "CancelQuery", Action::Read, Object::Catalog),
    of(SQL, "Query", "Sql", Action::Read, Object::Tables),
    #[cfg(feature = "sql")]
    of(FLIGHT, "GetFlightInfo", "FlightInfo", Action::Read, Object::Tables),
    #[cfg(feature = "sql")]
    of(FLIGHT, "DoGet", "FlightGet", Action::Read, Object::Tables),
    // What comes is asked for again as what it is: parameters of a query, or rows for a table.
    #[cfg(feature = "sql")]
    of(FLIGHT, "DoPut", "FlightPut", Action::Read, Object::Tables),
    #[cfg(feature = "sql")]
    of(FLIGHT, "DoAction", "FlightAction", Action::Read, Object::Tables),
    #[cfg(feature = "sql")]
    of(FLIGHT, "GetSchema", "FlightSchema", Action::Read, Object::Tables),
    #[cfg(feature = "sql")]
    of(FLIGHT, "PollFlightInfo", "FlightPoll", Action::Read, Object::Tables),
    #[cfg(feature = "sql")]
    of(FLIGHT, "DoExchange", "FlightExchange", Action::Read, Object::Tables),
    #[cfg(feature = "sql")]
    of(FLIGHT, "ListFlights", "FlightList", Action::Read, Object::Catalog),
    #[cfg(feature = "sql")]
    of(FLIGHT, "ListActions", "FlightActions", Action::Probe, Object::Server),
    #[cfg(feature = "sql")]
    of(FLIGHT, "Handshake", "FlightHandshake", Action::Probe, Object::Server),
    of(INGEST, "Write", "Write", Action::Write, Object::Tables),
    of(INGEST, "Delete", "Delete", Action::Write, Object::Tables),
    of(PEER, "Execute", "Execute", Action::Peer, Object::Tables),
    of(PEER, "Announce", "Announce", Action::Peer, Object::Server),
    of(PEER, "GetStatus", "GetStatus", Action::Peer, Object::Server),
    of(PEER, "FetchSip", "FetchSip", Action::Peer, Object::Sets),
    of(PEER, "ReadTask", "ReadTask", Action::Peer, Object::Tables),
    of(PEER, "BeginTask", "BeginTask", Action::Peer, Object::Tables),
    // Whose queries they are is asked for each.
    of(PEER, "ListQueries", "PeerListQueries", Action::Peer, Object::Server),
    of(PEER, "CancelQuery", "PeerCancelQuery", Action::Peer, Object::Server),
    of(SIPS, "Put", "PutSip", Action::KeepSet, Object::Sets),
    of(SIPS, "Get", "GetSip", Action::Read, Object::Sets),
    of(SIPS, "Delete", "DeleteSip", Action::KeepSet, Object::Sets),
    of(CATALOG, "CreateTable", "CreateTable", Action::Create, Object::Tables),
    of(CATALOG, "DropTable", "DropTable", Action::DropOrTakeBack, Object::Tables),
    of(CATALOG, "AttachTable", "AttachTable", Action::Attach, Object::Tables),
    of(CATALOG, "SetRetention", "SetRetention", Action::Alter, Object::Tables),
    of(CATALOG, "SetDeletes", "SetDeletes", Action::Alter, Object::Tables),
    of(CATALOG, "VerifyTable", "VerifyTable", Action::Verify, Object::Tables),
    of(CATALOG, "ListTables", "ListTables", Action::Read, Object::Catalog),
    of(CATALOG, "GetTable", "GetTable", Action::Read, Object::Tables),
    of(CATALOG, "GetServerInfo", "GetServerInfo", Action::Probe, Object::Server),
    of(CLUSTER, "GetCluster", "GetCluster", Action::Observe, Object::Server),
    of(HEALTH, "Check", "Check", Action::Probe, Object::Server),
    of(HEALTH, "Watch", "Watch", Action::Probe, Object::Server),
    of(REFLECTION, "ServerReflectionInfo", "Reflection", Action::Probe, Object::Server),
    of(REFLECTION_ALPHA, "ServerReflectionInfo", "Reflection", Action::Probe, Object::Server),
];

impl Method {
    /// Whether each of its requests is a query.
    pub(crate) fn is_query(&self) -> bool {
        matches!((self.service, self.name), (QUERY, "Query" | "Select") | (SQL, "Query"))
    }

    /// That of a service's name and its own.
    pub(crate) fn find(service: &str, name: &str) -> Option<&'static Self> {
        METHODS.iter().find(|method| method.name == name && method.service == service)
    }

    #[cfg(test)]
    pub(super) fn all() -> &'static [Self] {
        METHODS
    }
}

/// A message that asks for something: what its method does, it does to this.
pub(crate) trait Asks {
    fn object(&self) -> Object<'_>;
}

macro_rules! asks {
    ($($message:ty: $object:expr;)*) => {
        $(impl Asks for $message {
            fn object(&self) -> Object<'_> {
                let object: fn(&Self) -> Object<'_> = $object;
                object(self)
            }
        })*
    };
}

asks! {
    pb::QueryRequest: |m| Object::Table(&m.table);
    pb::SelectRequest: |m| Object::Table(&m.table);
    pb::ExplainRequest: |m| Object::Table(m.query.as_ref().map_or("", |query| &query.table));
    pb::ListQueriesRequest: |_| Object::Catalog;
    pb::CancelQueryRequest: |_| Object::Catalog;
    pb::Open: |m| Object::Table(&m.table);
    pb::DeleteRequest: |m| Object::Table(&m.table);
    pb::CreateTableRequest: |m| Object::Table(&m.name);
    pb::DropTableRequest: |m| Object::Table(&m.name);
    pb::AttachTableRequest: |m| Object::Table(&m.name);
    pb::SetRetentionRequest: |m| Object::Table(&m.table);
    pb::SetDeletesRequest: |m| Object::Table(&m.table);
    pb::VerifyTableRequest: |m| Object::Table(&m.name);
    pb::GetTableRequest: |m| Object::Table(&m.name);
    // Each is asked for where it is pinned.
    pb::SqlRequest: |_| Object::Tables;
    pb::ListTablesRequest: |_| Object::Catalog;
    pb::GetServerInfoRequest: |_| Object::Server;
    pb::GetClusterRequest: |_| Object::Server;
    pb::PutSipRequest: |_| Object::Sets;
    pb::GetSipRequest: |_| Object::Sets;
    pb::DeleteSipRequest: |_| Object::Sets;
    peer::Task: |m| Object::Table(&m.table);
    peer::FetchSipRequest: |_| Object::Sets;
    peer::ListQueriesRequest: |_| Object::Server;
    peer::CancelQueryRequest: |_| Object::Server;
    // Its tables were asked for when the task was begun.
    peer::ReadTaskRequest: |_| Object::Tables;
}

#[cfg(feature = "sql")]
asks! {
    // What they name is asked for where it is known.
    arrow_flight::FlightDescriptor: |_| Object::Tables;
    arrow_flight::Ticket: |_| Object::Tables;
    arrow_flight::Action: |_| Object::Tables;
    arrow_flight::Criteria: |_| Object::Catalog;
    arrow_flight::Empty: |_| Object::Server;
}
