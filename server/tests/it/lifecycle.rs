//! Deadlines, cancellation, health, reflection, shutdown.

use std::time::{Duration, Instant};

use basalt_client::{Expr, col, lit, sum};
use basalt_proto::v1::{
    self as pb, ingest_service_client::IngestServiceClient, query_service_client::QueryServiceClient,
};
use tokio::time::timeout;
use tonic::{Code, Request};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::support::{Server, batch, check, commit, open};

const ROWS: i64 = 400_000;

/// A query of `sums` long sums: each of them makes it slower, in every block.
fn slow(server: &Server, sums: i64) -> pb::QueryRequest {
    let long = |k: i64| (0..25).fold(col("a") / lit(3), |e: Expr, i| e + col("a") / lit(k + i));
    server.client.query("t").select((1..=sums).map(|k| sum(long(k)))).request().clone()
}

fn within<T>(message: T, time: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(time);
    request
}

#[tokio::test]
async fn a_deadline_ends_the_work() {
    let server = Server::with(|c| c.concurrent_queries = 1).await;
    server.numbers("t", 0..ROWS).await;
    let mut queries = QueryServiceClient::new(server.plain().await);
    let started = Instant::now();
    let request = within(slow(&server, 4), Duration::from_millis(20));
    check(queries.query(request).await.map(|_| ()), Code::DeadlineExceeded, "DEADLINE_EXCEEDED", "");
    assert!(started.elapsed() >= Duration::from_millis(20));
    // The only permit is free again: the work has stopped.
    let next = slow(&server, 1);
    server.query(next.clone()).await.unwrap();

    let request = within(pb::SelectRequest { table: "t".into(), ..Default::default() }, Duration::ZERO);
    check(queries.select(request).await, Code::DeadlineExceeded, "DEADLINE_EXCEEDED", "");
    let explain = pb::ExplainRequest { query: Some(slow(&server, 4)), analyze: true };
    let request = within(explain, Duration::from_millis(20));
    check(queries.explain(request).await, Code::DeadlineExceeded, "DEADLINE_EXCEEDED", "");
    server.query(next).await.unwrap();
}

#[tokio::test]
async fn the_default_deadline_holds_for_those_who_name_none() {
    let server = Server::with(|c| c.default_deadline = Duration::from_millis(20)).await;
    server.numbers("t", 0..ROWS).await;
    check(server.query(slow(&server, 4)).await, Code::DeadlineExceeded, "DEADLINE_EXCEEDED", "");
}

#[tokio::test]
async fn a_call_that_is_dropped_frees_its_permit() {
    let server = Server::with(|c| c.concurrent_queries = 1).await;
    server.numbers("t", 0..ROWS).await;
    for _ in 0..3 {
        let (mut queries, request) = (server.queries(), slow(&server, 4));
        assert!(
            timeout(Duration::from_millis(30), queries.query(request)).await.is_err(),
            "too fast to drop"
        );
    }
    // A permit that is never freed would make this wait for the queue's timeout and fail.
    server.query(slow(&server, 1)).await.unwrap();
}

#[tokio::test]
async fn a_reader_that_stops_reading_is_given_up() {
    let server = Server::with(|c| {
        c.concurrent_queries = 1;
        c.default_deadline = Duration::from_secs(2);
    })
    .await;
    server.numbers("t", 0..4_000_000).await;
    let all = pb::QueryRequest { table: "t".into(), ..Default::default() };
    let mut stream = server.queries().query(all).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().is_some());
    // Nobody reads: the windows fill, and the only permit is free for the next query.
    let next = within(slow(&server, 1), Duration::from_secs(60));
    server.queries().query(next).await.unwrap();
    // The deadline passes without a reader.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let end = loop {
        match stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the answer was cut off and looks whole"),
            Err(status) => break status,
        }
    };
    check::<()>(Err(end), Code::DeadlineExceeded, "DEADLINE_EXCEEDED", "");
}

#[tokio::test]
async fn health_is_told_and_watched() {
    let mut server = Server::start().await;
    let mut health = HealthClient::new(server.channel().await);
    let of = |service: &str| HealthCheckRequest { service: service.into() };
    let ours = ["CatalogService", "ClusterService", "IngestService", "QueryService", "SipService"];
    let ours = ours.map(|name| format!("basalt.v1.{name}"));
    for service in ours.iter().map(String::as_str).chain([""]) {
        let status = health.check(of(service)).await.unwrap().into_inner().status();
        assert_eq!(status, ServingStatus::Serving, "{service:?}");
    }
    assert_eq!(health.check(of("no.such")).await.unwrap_err().code(), Code::NotFound);

    let mut watch = health.watch(of("basalt.v1.QueryService")).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    server.signal();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    assert!(watch.message().await.unwrap().is_none());
    server.ended().await;
}

#[tokio::test]
async fn reflection_lists_and_describes() {
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let server = Server::start().await;
    let ask = |message| ServerReflectionRequest { host: String::new(), message_request: Some(message) };
    let requests = [
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol("basalt.v1.QueryService".into())),
        ask(MessageRequest::FileContainingSymbol("google.rpc.ErrorInfo".into())),
        ask(MessageRequest::FileContainingSymbol("google.rpc.BadRequest".into())),
        ask(MessageRequest::FileContainingSymbol("google.rpc.RetryInfo".into())),
        ask(MessageRequest::FileByFilename("google/protobuf/duration.proto".into())),
    ];
    let mut client = ServerReflectionClient::new(server.channel().await);
    let mut stream =
        client.server_reflection_info(tokio_stream::iter(requests.clone())).await.unwrap().into_inner();
    let Some(MessageResponse::ListServicesResponse(list)) =
        stream.message().await.unwrap().unwrap().message_response
    else {
        panic!("no list")
    };
    let names: Vec<_> = list.service.iter().map(|s| s.name.as_str()).collect();
    for name in [
        "basalt.v1.CatalogService",
        "basalt.v1.ClusterService",
        "basalt.v1.IngestService",
        "basalt.v1.QueryService",
        "basalt.v1.SipService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    for request in &requests[1..] {
        let file = stream.message().await.unwrap().unwrap().message_response;
        assert!(
            matches!(&file, Some(MessageResponse::FileDescriptorResponse(f)) if !f.file_descriptor_proto.is_empty()),
            "{request:?}: {file:?}"
        );
    }

    use tonic_reflection::pb::v1alpha as alpha;
    let request = alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(alpha::server_reflection_request::MessageRequest::ListServices(String::new())),
    };
    let mut client = alpha::server_reflection_client::ServerReflectionClient::new(server.channel().await);
    let mut stream = client.server_reflection_info(tokio_stream::iter([request])).await.unwrap().into_inner();
    let Some(alpha::server_reflection_response::MessageResponse::ListServicesResponse(list)) =
        stream.message().await.unwrap().unwrap().message_response
    else {
        panic!("no list")
    };
    assert_eq!(list.service.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), names);
}

#[tokio::test]
async fn a_shutdown_finishes_what_runs_and_refuses_what_is_new() {
    let mut server = Server::start().await;
    server.numbers("t", 0..ROWS).await;
    let (mut queries, request) = (server.queries(), slow(&server, 30));
    let running = tokio::spawn(async move {
        let mut stream = queries.query(request).await?.into_inner();
        let mut last = None;
        while let Some(message) = stream.message().await? {
            last = message.kind;
        }
        Ok::<_, tonic::Status>(last)
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut health = HealthClient::new(server.channel().await);
    health.check(HealthCheckRequest::default()).await.unwrap();
    server.signal();
    loop {
        let status = health.check(HealthCheckRequest::default()).await.unwrap().into_inner().status();
        if status == ServingStatus::NotServing {
            break;
        }
    }
    let few = pb::QueryRequest { table: "t".into(), limit: Some(1), ..Default::default() };
    check(server.query(few).await, Code::Unavailable, "SHUTTING_DOWN", "");
    let last = running.await.unwrap().unwrap();
    assert!(matches!(last, Some(pb::query_response::Kind::Trailer(t)) if t.complete));
    server.ended().await;
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_ever() {
    let mut server = Server::with(|c| c.shutdown_grace = Duration::from_millis(50)).await;
    server.numbers("t", 0..ROWS).await;
    let (mut queries, request) = (server.queries(), slow(&server, 30));
    let running = tokio::spawn(async move { queries.query(request).await.map(|_| ()) });
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.signal();
    server.ended().await;
    assert!(running.await.unwrap().is_err());
}

/// The grace is for what makes progress.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_waits_for_no_client_that_does_nothing() {
    let mut server = Server::start().await;
    server.numbers("t", 0..4_000_000).await;
    let all = pb::QueryRequest { table: "t".into(), ..Default::default() };
    let mut unread = Vec::new();
    for _ in 0..3 {
        let mut stream =
            QueryServiceClient::new(server.channel().await).query(all.clone()).await.unwrap().into_inner();
        assert!(stream.message().await.unwrap().is_some());
        unread.push(stream);
    }
    let (sender, receiver) = tokio::sync::mpsc::channel(4);
    for kind in [open("t"), batch(1, &[1])] {
        sender.send(pb::WriteRequest { kind: Some(kind) }).await.unwrap();
    }
    let stream = tokio_stream::wrappers::ReceiverStream::new(receiver);
    let mut ingest = IngestServiceClient::new(server.channel().await);
    let mut answers = ingest.write(stream).await.unwrap().into_inner();
    for _ in 0..2 {
        assert!(answers.message().await.unwrap().is_some());
    }
    // One that works, and is waited for.
    let (mut queries, request) = (QueryServiceClient::new(server.channel().await), slow(&server, 4));
    let at_work = tokio::spawn(async move {
        let mut stream = queries.query(request).await?.into_inner();
        let mut messages = 0;
        while stream.message().await?.is_some() {
            messages += 1;
        }
        Ok::<_, tonic::Status>(messages)
    });
    tokio::time::sleep(Duration::from_millis(300)).await;

    let started = Instant::now();
    server.signal();
    check(answers.message().await, Code::Unavailable, "SHUTTING_DOWN", "");
    assert!(at_work.await.unwrap().unwrap() >= 2);
    let worked = started.elapsed();
    server.ended().await;
    let took = started.elapsed();
    assert!(took < worked + Duration::from_secs(6), "{took:?}, of which {worked:?} for what worked");
    drop((unread, sender));
}

/// Where no connection may be added, those that have asked nothing for the longest time make room, whatever they have
/// said; one with a request under way does not.
#[tokio::test]
async fn idle_connections_make_room_for_others() {
    const MOST: usize = 4;
    let server = Server::with(|c| c.max_connections = MOST).await;
    server.numbers("t", 0..1).await;
    let (send, receive) = tokio::sync::mpsc::channel(2);
    let message = |kind| pb::WriteRequest { kind: Some(kind) };
    send.send(message(open("t"))).await.unwrap();
    let mut ingest = IngestServiceClient::new(server.channel().await);
    let stream = tokio_stream::wrappers::ReceiverStream::new(receive);
    let mut answers = ingest.write(stream).await.unwrap().into_inner();

    let address = server.address.trim_start_matches("http://");
    let mut silent = Vec::new();
    for _ in 0..3 * MOST {
        silent.push(tokio::net::TcpStream::connect(address).await.unwrap());
        let mut queries = QueryServiceClient::new(server.channel().await);
        let request = pb::SelectRequest { table: "t".into(), ..Default::default() };
        timeout(Duration::from_secs(20), queries.select(request)).await.unwrap().unwrap();
    }

    send.send(message(batch(1, &[1]))).await.unwrap();
    send.send(message(commit(1, 1))).await.unwrap();
    drop(send);
    while answers.message().await.unwrap().is_some() {}
    assert_eq!(server.rows("t").await, 2);
}
