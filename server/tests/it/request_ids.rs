//! The id of a request, in what its client is told.

use basalt_client::Client;
use basalt_proto::v1 as pb;
use basalt_server::{Config, Listeners};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tonic::Request;
use tonic_types::StatusExt as _;

use crate::support::Server;

/// A run and a number.
fn is_made(id: &str) -> bool {
    id.split_once('-').is_some_and(|(run, number)| {
        u64::from_str_radix(run, 16).is_ok() && number.parse::<u64>().is_ok_and(|number| number > 0)
    })
}

#[tokio::test]
async fn errors_of_grpc_have_it() {
    let server = Server::start().await;
    let failed = async |id: Option<&str>| {
        let mut request = Request::new(pb::QueryRequest { table: "no".into(), ..Default::default() });
        if let Some(id) = id {
            request.metadata_mut().insert("x-request-id", id.parse().unwrap());
        }
        let status = server.queries().query(request).await.unwrap_err();
        status.get_error_details().error_info().unwrap().metadata["request_id"].clone()
    };
    assert_eq!(failed(Some("my-request.1")).await, "my-request.1");
    let (first, second) = (failed(None).await, failed(None).await);
    assert!(is_made(&first) && is_made(&second) && first != second, "{first} {second}");
    for hostile in ["a b", "a\"b", &"x".repeat(65)] {
        assert!(is_made(&failed(Some(hostile)).await), "{hostile}");
    }
}

#[tokio::test]
async fn answers_of_http_have_it() {
    let listen = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (clients, metrics) = (listen().await, listen().await);
    let (address, http) = (clients.local_addr().unwrap(), metrics.local_addr().unwrap());
    let listeners = Listeners { clients, peers: None, metrics: Some(metrics), postgres: None };
    let config = Config { threads: 2, store: "memory:".into(), ..Config::default() };
    tokio::spawn(basalt_server::run(listeners, config, std::future::pending()));
    Client::connect(&address.to_string()).await.unwrap();
    let ask = async |path: &str, headers: &str| {
        let mut stream = TcpStream::connect(http).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let id = head.lines().find_map(|line| line.strip_prefix("x-request-id: ")).unwrap_or_default();
        (id.to_owned(), body.to_owned())
    };
    let (id, body) = ask("/v1/tables/no", "x-request-id: mine\r\n").await;
    let told: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((id.as_str(), &told["error"]["request_id"]), ("mine", &"mine".into()));
    for path in ["/v1/tables", "/healthz", "/nothing"] {
        assert!(is_made(&ask(path, "").await.0), "{path}");
    }
}

#[cfg(not(feature = "otlp"))]
#[tokio::test]
async fn without_the_feature_there_are_no_spans() {
    let config =
        Config { store: "memory:".into(), otlp: Some("http://127.0.0.1:4317".into()), ..Config::default() };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let error = basalt_server::run(listener, config, std::future::pending()).await.unwrap_err();
    assert!(error.to_string().contains("the feature `otlp`"), "{error}");
}
