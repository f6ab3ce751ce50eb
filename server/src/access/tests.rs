//! Doors whose policy says no, asked for every method that the descriptors of all services have.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use basalt_proto::{
    cluster::v1::{self as peer, peer_service_client::PeerServiceClient},
    v1::{
        self as pb, catalog_service_client::CatalogServiceClient, filter,
        ingest_service_client::IngestServiceClient, query_service_client::QueryServiceClient, row_set,
    },
};
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tonic::{Code, Request, Status, client::Grpc, transport::Channel};
use tonic_prost::ProstCodec;

use super::{Access, Action, Method, Object, Policy, Principal};
use crate::{
    Config, Doors, environment, http::Endpoint, membership::PROTOCOL, state::State, status::RequestError,
    transport,
};

/// The service and the name of each method, and whether it is the nodes'.
fn described() -> BTreeSet<(String, String)> {
    let sets = [
        basalt_proto::PEER_FILE_DESCRIPTOR_SET,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let mut methods = BTreeSet::new();
    for file in sets.into_iter().flat_map(|set| FileDescriptorSet::decode(set).unwrap().file) {
        for service in &file.service {
            let name = format!("{}.{}", file.package(), service.name());
            methods.extend(service.method.iter().map(|method| (name.clone(), method.name().to_owned())));
        }
    }
    #[cfg(feature = "sql")]
    methods.extend(FLIGHT_METHODS.map(|name| (super::FLIGHT.to_owned(), name.to_owned())));
    methods
}

/// Those of `Flight.proto`, whose descriptors its crate does not have.
#[cfg(feature = "sql")]
const FLIGHT_METHODS: [&str; 10] = [
    "Handshake",
    "ListFlights",
    "GetFlightInfo",
    "PollFlightInfo",
    "GetSchema",
    "DoGet",
    "DoPut",
    "DoExchange",
    "DoAction",
    "ListActions",
];

#[cfg(feature = "sql")]
#[test]
fn flight_has_the_name_by_which_it_is_found() {
    use arrow_flight::flight_service_server::FlightServiceServer;
    use tonic::server::NamedService as _;

    assert_eq!(FlightServiceServer::<crate::flight::Flight>::NAME, super::FLIGHT);
}

#[test]
fn every_method_that_is_described_says_what_it_does() {
    let described = described();
    assert!(described.len() > 25, "{described:?}");
    let listed: BTreeSet<_> =
        Method::all().iter().map(|method| (method.service.to_owned(), method.name.to_owned())).collect();
    assert_eq!(listed, described);
    assert_eq!(listed.len(), Method::all().len(), "one stands there twice");
}

/// Refuses what the function says, and remembers what it was asked.
struct Refuses {
    refuses: fn(Action, Object<'_>) -> bool,
    asked: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Refuses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Refuses")
    }
}

impl Policy for Refuses {
    fn allows(&self, principal: &Principal, action: Action, object: Object<'_>) -> bool {
        let principal = match principal {
            Principal::Anonymous(_) | Principal::Key(..) => "client",
            Principal::Node(..) => "node",
            Principal::Itself => "itself",
        };
        self.asked.lock().unwrap().push(format!("{principal}: {action} {object}"));
        !(self.refuses)(action, object)
    }
}

/// A node whose policy refuses some things.
struct Server {
    policy: Arc<Refuses>,
    clients: Channel,
    peers: Channel,
    metrics: SocketAddr,
    _metrics: Endpoint,
    _store: TempDir,
}

async fn start(refuses: fn(Action, Object<'_>) -> bool) -> Server {
    let store = TempDir::new().unwrap();
    let config = Config { threads: 2, store: store.path().to_str().unwrap().to_owned(), ..Config::default() };
    let environment = environment::process();
    let listener = || async { environment.listen("127.0.0.1:0".parse().unwrap()).await.unwrap() };
    let (clients, peers, metrics) = (listener().await, listener().await, listener().await);
    let (at, peers_at) = (clients.local_addr().unwrap(), peers.local_addr().unwrap());
    let metrics_at = metrics.local_addr().unwrap();
    let policy = Arc::new(Refuses { refuses, asked: Mutex::default() });
    let mut state = State::new(Arc::clone(&environment), &config, Some(peers_at.to_string())).unwrap();
    state.access = Access::by(Arc::clone(&policy) as Arc<dyn Policy>);
    let state = Arc::new(state);
    state.connect();
    let endpoint = Endpoint::start(metrics, Arc::clone(&state)).unwrap();
    let doors = Doors { clients, peers: Some(peers), metrics: None, postgres: None };
    let loaded = Arc::clone(&state);
    tokio::spawn(async move {
        transport::serve(doors, &config, state, std::future::pending()).await.unwrap();
    });
    while loaded.is_loading() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let connect =
        async |at: SocketAddr| Channel::from_shared(format!("http://{at}")).unwrap().connect().await.unwrap();
    Server {
        policy,
        clients: connect(at).await,
        peers: connect(peers_at).await,
        metrics: metrics_at,
        _metrics: endpoint,
        _store: store,
    }
}

#[track_caller]
fn check<T>(result: Result<T, Status>, what: &str) {
    let Err(status) = result else { panic!("{what}: it was answered") };
    assert_eq!(status.code(), Code::PermissionDenied, "{what}: {status:?}");
    assert_eq!(RequestError::of_peer(&status).unwrap().reason(), "PERMISSION_DENIED", "{what}");
}

#[tokio::test]
async fn who_may_do_nothing_is_refused_by_every_method_of_every_door() {
    let server = start(|_, _| true).await;
    for (service, name) in described() {
        let is_peers = service.starts_with("basalt.cluster.");
        let mut grpc = Grpc::new(if is_peers { &server.peers } else { &server.clients }.clone());
        grpc.ready().await.unwrap();
        let path = format!("/{service}/{name}").parse().unwrap();
        // Streams that stay open: what is refused need not be read.
        let endless = tokio_stream::pending::<()>();
        let answer = grpc.streaming(Request::new(endless), path, ProstCodec::<(), ()>::default()).await;
        check(answer, &format!("{service}.{name}"));
    }
    let routes = super::ROUTES.iter().map(|route| (route.verb, route.path.replace("{name}", "t")));
    for (verb, path) in routes.chain([("GET", "/".to_owned())]) {
        let answer = ask_http(server.metrics, verb, &path).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{verb} {path}: {answer}");
    }
}

/// The whole answer to a request without a body.
async fn ask_http(address: SocketAddr, verb: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{verb} {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn every_route_is_served_and_asks_for_the_table_that_it_names() {
    let server = start(secret).await;
    assert!(super::ROUTES.len() >= 7);
    for route in super::ROUTES {
        let answer = ask_http(server.metrics, route.verb, &route.path.replace("{name}", "t")).await;
        let no_route = ["HTTP/1.1 405 ", "HTTP/1.1 403 "].iter().any(|code| answer.starts_with(code))
            || answer.contains("/healthz or /readyz; /v1/sql, /v1/tables");
        assert!(!no_route, "{} {}: {answer}", route.verb, route.path);
    }
    let read = ask_http(server.metrics, "GET", "/v1/tables/secret").await;
    assert!(read.starts_with("HTTP/1.1 403 ") && read.contains("PERMISSION_DENIED"), "{read}");
    let request = "POST /v1/tables/secret HTTP/1.1\r\nhost: here\r\ncontent-type: text/csv\r\n\
                   content-length: 0\r\nconnection: close\r\n\r\n";
    let mut stream = TcpStream::connect(server.metrics).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut written = String::new();
    stream.read_to_string(&mut written).await.unwrap();
    assert!(written.starts_with("HTTP/1.1 403 "), "{written}");
}

#[tokio::test]
async fn the_doors_have_methods_of_their_own() {
    let server = start(|_, _| false).await;
    let unknown = async |channel: &Channel, path: &str| {
        let mut grpc = Grpc::new(channel.clone());
        grpc.ready().await.unwrap();
        let (path, codec) = (path.parse().unwrap(), ProstCodec::<(), ()>::default());
        grpc.unary(Request::new(()), path, codec).await.unwrap_err().code()
    };
    let peers = "/basalt.cluster.v1.PeerService/GetStatus";
    assert_eq!(unknown(&server.clients, peers).await, Code::Unimplemented);
    assert_eq!(unknown(&server.peers, "/basalt.v1.QueryService/Query").await, Code::Unimplemented);
    assert_eq!(unknown(&server.clients, "/basalt.v1.QueryService/No").await, Code::Unimplemented);
}

/// Refuses everything about one table, and sets.
fn secret(_: Action, object: Object<'_>) -> bool {
    matches!(object, Object::Table("secret") | Object::Sets)
}

#[tokio::test]
async fn what_a_message_names_is_asked_for_wherever_it_stands() {
    let server = start(secret).await;
    let name = || "secret".to_owned();
    let mut catalog = CatalogServiceClient::new(server.clients.clone());
    let integer = pb::DataType { kind: pb::TypeKind::Int64.into(), ..Default::default() };
    let field = |references: Option<&str>| pb::Field {
        name: "a".to_owned(),
        r#type: Some(integer),
        references: references.map(|table| pb::Reference { table: table.to_owned(), column: "a".to_owned() }),
        ..Default::default()
    };
    let create = |table: &str, references| pb::CreateTableRequest {
        name: table.to_owned(),
        schema: Some(pb::Schema { fields: vec![field(references)] }),
        ..Default::default()
    };
    check(catalog.create_table(create("secret", None)).await, "create");
    catalog.create_table(create("t", Some("secret"))).await.unwrap();
    check(catalog.drop_table(pb::DropTableRequest { name: name(), ..Default::default() }).await, "drop");
    check(catalog.get_table(pb::GetTableRequest { name: name(), ..Default::default() }).await, "get");
    let url = "/nowhere".to_owned();
    check(catalog.attach_table(pb::AttachTableRequest { name: name(), url }).await, "attach");
    let request = pb::SetRetentionRequest { table: name(), ..Default::default() };
    check(catalog.set_retention(request).await, "retention");
    check(catalog.set_deletes(pb::SetDeletesRequest { table: name(), deletes: 1 }).await, "deletes");
    let request = pb::VerifyTableRequest { name: name(), ..Default::default() };
    check(catalog.verify_table(request).await, "verify");

    let of = |kind| Some(pb::Filter { kind: Some(kind) });
    let join = of(filter::Kind::SemiJoin(Box::new(pb::SemiJoin {
        column: "a".to_owned(),
        table: name(),
        key: "a".to_owned(),
        ..Default::default()
    })));
    let attribute = of(filter::Kind::Compare(pb::Compare {
        op: pb::CompareOp::Eq.into(),
        left: Some(pb::Expr {
            kind: Some(pb::expr::Kind::Attribute(pb::Attribute {
                column: "a".into(),
                attribute: "a".into(),
            })),
        }),
        right: Some(pb::Expr {
            kind: Some(pb::expr::Kind::Literal(pb::Value { kind: Some(pb::value::Kind::Int(1)) })),
        }),
    }));
    let set = row_set::Set::Handle(vec![7; 32]);
    let kept = of(filter::Kind::Rows(pb::RowSet { scope: None, set: Some(set) }));
    let mut queries = QueryServiceClient::new(server.clients.clone());
    let mut ingest = IngestServiceClient::new(server.clients.clone());
    let ask = |table: &str, filter| pb::QueryRequest { table: table.into(), filter, ..Default::default() };
    for (table, filter) in [("secret", None), ("t", join), ("t", attribute), ("t", kept)] {
        let what = format!("{table}: {filter:?}");
        check(queries.query(ask(table, filter.clone())).await, &what);
        let query = Some(ask(table, filter.clone()));
        check(queries.explain(pb::ExplainRequest { query, analyze: true }).await, &what);
        let request = pb::SelectRequest { table: table.into(), filter: filter.clone(), ..Default::default() };
        check(queries.select(request).await, &what);
        check(ingest.delete(pb::DeleteRequest { table: table.into(), filter }).await, &what);
    }
    let keep = pb::SelectRequest { table: "t".to_owned(), keep_ms: 1000, ..Default::default() };
    check(queries.select(keep).await, "keep");

    let open = pb::Open { table: name(), ..Default::default() };
    let open = pb::WriteRequest { kind: Some(pb::write_request::Kind::Open(open)) };
    let mut answers = ingest.write(tokio_stream::iter([open])).await.unwrap().into_inner();
    check(answers.message().await, "write");
    let task = peer::Task { protocol: PROTOCOL, table: name(), ..Default::default() };
    let task = peer::ExecuteRequest { kind: Some(peer::execute_request::Kind::Task(task)) };
    check(PeerServiceClient::new(server.peers.clone()).execute(tokio_stream::iter([task])).await, "execute");

    // All else is allowed, and was asked for.
    queries.query(ask("t", None)).await.unwrap();
    let asked = std::mem::take(&mut *server.policy.asked.lock().unwrap());
    for line in [
        "client: create table \"t\"",
        "client: read table \"secret\"",
        "client: write to table \"secret\"",
        "client: keep or drop kept sets",
        "node: work with table \"secret\"",
        "client: read tables",
    ] {
        assert!(asked.iter().any(|asked| asked == line), "{line}: {asked:?}");
    }
}

#[cfg(feature = "sql")]
#[tokio::test]
async fn clients_of_postgresql_are_asked_for() {
    let environment = environment::process();
    let listener = environment.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = Config { threads: 1, store: "memory:".to_owned(), ..Config::default() };
    let mut state = State::new(environment, &config, None).unwrap();
    let policy = Arc::new(Refuses { refuses: |action, _| action == Action::Read, asked: Mutex::default() });
    state.access = Access::by(Arc::clone(&policy) as Arc<dyn Policy>);
    let _door = crate::postgres::Door::start(listener, Arc::new(state), 2).unwrap();
    let told = async |messages: &[u8]| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"\0\0\0\x11\0\x03\0\0user\0me\0\0").await.unwrap();
        stream.write_all(messages).await.unwrap();
        stream.write_all(b"X\0\0\0\x04").await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        answer.windows(6).filter(|code| *code == b"C42501").count()
    };
    assert_eq!(told(b"Q\0\0\0\x0dSELECT 1\0").await, 1);
    // Described, and run.
    let parse = b"P\0\0\0\x10\0SELECT 1\0\0\0";
    assert_eq!(told(&[&parse[..], b"D\0\0\0\x06S\0S\0\0\0\x04"].concat()).await, 1);
    let run = b"B\0\0\0\x0c\0\0\0\0\0\0\0\0E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";
    assert_eq!(told(&[&parse[..], run].concat()).await, 1);
    let asked = policy.asked.lock().unwrap().join("\n");
    assert!(asked.contains("client: probe the server") && asked.contains("client: read tables"), "{asked}");
}
