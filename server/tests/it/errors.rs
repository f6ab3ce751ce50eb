//! What is wrong with a request, in code, reason and place; and the limits of the network.

use std::time::Duration;

use basalt_client::{col, lit, max, sum};
use basalt_proto::v1::{self as pb, WriteRequest, filter, ingest_service_client::IngestServiceClient};
use basalt_server::{Memory, limits};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Status, transport::Channel};
use tonic_types::StatusExt as _;

use crate::support::{Server, batch, check, commit, open, open_as, told};

fn not_not(depth: usize) -> pb::QueryRequest {
    let of = |kind| pb::Filter { kind: Some(kind) };
    let constant = of(filter::Kind::Constant(true));
    let filter = (1..depth).fold(constant, |inner, _| of(filter::Kind::Not(Box::new(inner))));
    pb::QueryRequest { table: "t".into(), filter: Some(filter), ..Default::default() }
}

/// A server says how it would have SQL.
#[cfg(not(feature = "sql"))]
#[tokio::test]
async fn without_the_feature_there_is_no_sql() {
    let server = Server::start().await;
    let error = server.client.sql("SELECT 1").collect().await.unwrap_err();
    let error = error.server().unwrap();
    assert_eq!(error.code, Code::Unimplemented);
    assert!(error.message.contains("the feature `sql`"), "{error}");
}

#[tokio::test]
async fn wrong_queries() {
    let server = Server::start().await;
    server.numbers("t", [0, 1, i64::MAX]).await;
    let ask = async |query: basalt_client::Query| server.query(query.request().clone()).await;
    let t = || server.client.query("t");
    let argument = Code::InvalidArgument;
    check(ask(server.client.query("no")).await, Code::NotFound, "TABLE_NOT_FOUND", "table");
    check(ask(t().select([col("b")])).await, Code::NotFound, "COLUMN_NOT_FOUND", "select[0].expr.column");
    check(ask(t().filter(col("a").eq("x"))).await, argument, "TYPE_MISMATCH", "filter.compare.right");
    check(ask(t().filter(col("a").like("x"))).await, argument, "TYPE_MISMATCH", "filter.like.expr");
    check(
        ask(t().select([col("a"), sum(col("a"))])).await,
        argument,
        "INVALID_QUERY",
        "select[0].expr.column",
    );
    check(ask(t().select([sum(col("a") / lit(0))])).await, Code::OutOfRange, "DIVISION_BY_ZERO", "");
    check(ask(t().select([max(col("a") * lit(2))])).await, Code::OutOfRange, "OVERFLOW", "");
    let nothing =
        pb::QueryRequest { table: "t".into(), filter: Some(pb::Filter::default()), ..Default::default() };
    check(server.query(nothing).await, argument, "INVALID_QUERY", "filter");
}

#[tokio::test]
async fn filters_have_a_limit() {
    let server = Server::start().await;
    server.numbers("t", [1, 2, 3]).await;
    let argument = Code::InvalidArgument;
    server.query(not_not(32)).await.unwrap();
    let too_deep = format!("filter{}", ".not".repeat(32));
    check(server.query(not_not(33)).await, argument, "FILTER_TOO_DEEP", &too_deep);
    // Deeper than the messages themselves may nest.
    check(server.query(not_not(3000)).await, argument, "FILTER_TOO_DEEP", "");

    let many = basalt_client::Filter::any((0..2000).map(|i| col("a").eq(i)));
    let request = server.client.query("t").filter(many).request().clone();
    let status = server.query(request).await.unwrap_err();
    assert_eq!(told(&status).1, "FILTER_TOO_LARGE");

    server.query(server.client.query("t").filter(col("a").is_in(0..65_536)).request().clone()).await.unwrap();
    let long = server.client.query("t").filter(col("a").is_in(0..65_537)).request().clone();
    check(server.query(long).await, argument, "FILTER_TOO_LARGE", "filter.in.values");
}

#[tokio::test]
async fn messages_have_a_limit() {
    let server = Server::start().await;
    server.numbers("t", [1, 2, 3]).await;
    let text = "x".repeat(limits::MESSAGE_BYTES + 1);
    let request = server.client.query("t").filter(col("a").like(text)).request().clone();
    let status = server.query(request).await.unwrap_err();
    let limit = status.get_error_details().error_info().unwrap().metadata["limit_bytes"].clone();
    assert_eq!(limit, limits::MESSAGE_BYTES.to_string());
    check::<()>(Err(status), Code::ResourceExhausted, "MESSAGE_TOO_LARGE", "");

    let many = vec![7; limits::MESSAGE_BYTES / 8 + 1];
    let end = server.write(vec![open("t"), batch(1, &many), commit(1, many.len() as u64)]).await.1;
    check(end, Code::ResourceExhausted, "MESSAGE_TOO_LARGE", "");
    assert_eq!(server.rows("t").await, 3);
}

#[tokio::test]
async fn what_is_no_message_is_refused() {
    let server = Server::start().await;
    // A string where QueryRequest has a message.
    let garbage = pb::Open { table: "t".into(), request_id: "not a message".into(), ..Default::default() };
    let mut grpc = tonic::client::Grpc::new(server.client.channel());
    grpc.ready().await.unwrap();
    let path = "/basalt.v1.QueryService/Select".parse().unwrap();
    let codec = tonic_prost::ProstCodec::<pb::Open, pb::SelectResponse>::default();
    check(grpc.unary(Request::new(garbage), path, codec).await, Code::InvalidArgument, "PROTOCOL", "");

    let mut request = Request::new(pb::QueryRequest { table: "t".into(), ..Default::default() });
    request.metadata_mut().insert("grpc-timeout", "soon".parse().unwrap());
    check(server.queries().query(request).await.map(|_| ()), Code::InvalidArgument, "PROTOCOL", "");

    let unknown: Status = {
        grpc.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<pb::Open, pb::SelectResponse>::default();
        grpc.unary(Request::new(pb::Open::default()), "/basalt.v1.No/Such".parse().unwrap(), codec)
            .await
            .unwrap_err()
    };
    assert_eq!(unknown.code(), Code::Unimplemented);
}

#[tokio::test]
async fn memory_has_a_limit() {
    let server = Server::with(|c| c.memory = Memory::Bytes(3 << 20)).await;
    server.numbers("t", (0..10_000).map(|i| i * 7919 % 10_007)).await;
    // No encoding makes them smaller, and fragments of a part of them do not help.
    let mixed = |i: i64| {
        let z = (i + 1).wrapping_mul(0x1e37_79b9_7f4a_7c15);
        (z ^ (z >> 29)).wrapping_mul(0x3f58_476d_1ce4_e5b9)
    };
    let values: Vec<i64> = (0..200_000).map(|i| mixed(i) ^ mixed(i) >> 31).collect();
    let write = || server.write(vec![open("t"), batch(1, &values), batch(2, &values), commit(2, 400_000)]);
    check(write().await.1, Code::ResourceExhausted, "MEMORY_LIMIT", "");
    // Reading goes on, and what the refused write held is free again.
    assert_eq!(server.rows("t").await, 10_000);
    server.write(vec![open("t"), batch(1, &[1; 10_000]), commit(1, 10_000)]).await.1.unwrap();
}

#[tokio::test]
async fn the_same_id_twice_at_once_is_refused() {
    let server = Server::start().await;
    server.numbers("t", [1]).await;
    let (sender, mut answers) = open_write(&server, open_as("t", "id")).await;
    let status = server.write(vec![open_as("t", "id")]).await.1.unwrap_err();
    assert!(status.get_error_details().retry_info().unwrap().retry_delay.unwrap() > Duration::ZERO);
    check::<()>(Err(status), Code::Aborted, "REQUEST_IN_PROGRESS", "open.request_id");
    sender.send(WriteRequest { kind: Some(commit(0, 0)) }).await.unwrap();
    assert!(answers.message().await.unwrap().is_some());
}

/// Opens a write, waits until it is open, and leaves it so.
async fn open_write(
    server: &Server,
    open: pb::write_request::Kind,
) -> (mpsc::Sender<WriteRequest>, tonic::Streaming<pb::WriteResponse>) {
    open_write_on(server.channel().await, vec![open]).await
}

/// The same on a connection that is there, with more messages than that; each of them is acknowledged.
async fn open_write_on(
    channel: Channel,
    messages: Vec<pb::write_request::Kind>,
) -> (mpsc::Sender<WriteRequest>, tonic::Streaming<pb::WriteResponse>) {
    let (sender, receiver) = mpsc::channel(messages.len());
    let acknowledged = messages.len();
    for kind in messages {
        sender.send(WriteRequest { kind: Some(kind) }).await.unwrap();
    }
    let mut ingest = IngestServiceClient::new(channel);
    let mut answers = ingest.write(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    for _ in 0..acknowledged {
        assert!(answers.message().await.unwrap().is_some());
    }
    (sender, answers)
}

/// As many writes on each of several connections as it may have.
async fn open_writes(
    server: &Server,
    connections: usize,
    messages: &[pb::write_request::Kind],
) -> Vec<(mpsc::Sender<WriteRequest>, tonic::Streaming<pb::WriteResponse>)> {
    let mut open_writes = Vec::new();
    for _ in 0..connections {
        let channel = server.channel().await;
        for _ in 0..limits::STREAMS {
            open_writes.push(open_write_on(channel.clone(), messages.to_vec()).await);
        }
    }
    open_writes
}

#[tokio::test]
async fn writes_that_only_open_lock_nobody_out() {
    let server = Server::start().await;
    server.numbers("t", [1]).await;
    for connections in [1, 3] {
        let idle = open_writes(&server, connections, &[open("t")]).await;
        let write = server.write(vec![open("t"), batch(1, &[2]), commit(1, 1)]);
        timeout(Duration::from_secs(20), write).await.expect("no answer in time").1.unwrap();
        assert_eq!(server.rows("t").await, 1 + connections.div_ceil(2) as u64);
        // They are as good as any other.
        let (sender, mut answers) = idle.into_iter().next().unwrap();
        for kind in [batch(1, &[]), commit(1, 0)] {
            sender.send(WriteRequest { kind: Some(kind) }).await.unwrap();
            assert!(answers.message().await.unwrap().is_some());
        }
    }
}

#[tokio::test]
async fn writes_that_fall_silent_make_room() {
    let server = Server::start().await;
    server.numbers("t", [1]).await;
    let connections = limits::WRITES / limits::STREAMS as usize;
    let mut silent = open_writes(&server, connections, &[open("t"), batch(1, &[5])]).await;
    assert_eq!(silent.len(), limits::WRITES);
    tokio::time::sleep(limits::IDLE_WRITE).await;
    server.write(vec![open("t"), batch(1, &[2]), commit(1, 1)]).await.1.unwrap();
    assert_eq!(server.rows("t").await, 2);
    // One of them is told so, and has written nothing; the others go on.
    let (mut told, mut committed) = (0, 0);
    for (sender, answers) in &mut silent {
        let _ = sender.send(WriteRequest { kind: Some(commit(1, 1)) }).await;
        match answers.message().await {
            Ok(answer) => committed += u64::from(answer.is_some()),
            Err(status) => {
                assert!(status.message().contains("silent"), "{status:?}");
                let retry = status.get_error_details().retry_info().unwrap().retry_delay;
                assert_eq!(retry, Some(limits::RETRY_DELAY));
                check::<()>(Err(status), Code::ResourceExhausted, "OVERLOADED", "");
                told += 1;
            }
        }
    }
    assert_eq!((told, committed), (1, limits::WRITES as u64 - 1));
    assert_eq!(server.rows("t").await, 2 + committed);
}

/// Messages of millions of empty ones are refused before anything is made of them, and the longest honest ones are not.
#[tokio::test(flavor = "multi_thread")]
async fn messages_are_refused_by_what_they_are_decoded_to() {
    let server = Server::start().await;
    server.numbers("t", 0..1000).await;
    let table = || "t".to_owned();
    let exhausted = |outcome: Result<(), Status>| {
        let status = outcome.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        assert_eq!(told(&status).1, "MESSAGE_TOO_LARGE", "{status}");
        assert!(status.message().contains("decoded"), "{status}");
    };
    // Some more than fit.
    fn many<T: Clone + Default>() -> Vec<T> {
        let fit = usize::try_from(limits::DECODED_BYTES).unwrap() / size_of::<T>();
        vec![T::default(); fit + fit / 10]
    }
    let and = filter::Kind::And(pb::And { filters: many() });
    let filter = || Some(pb::Filter { kind: Some(and.clone()) });
    let mut queries = server.queries();
    let select = many();
    exhausted(
        server.query(pb::QueryRequest { table: table(), select, ..Default::default() }).await.map(drop),
    );
    let query = pb::QueryRequest { table: table(), filter: filter(), ..Default::default() };
    exhausted(server.query(query.clone()).await.map(drop));
    let explain = pb::ExplainRequest { query: Some(query), analyze: false };
    exhausted(queries.explain(explain).await.map(drop));
    let select = pb::SelectRequest { table: table(), filter: filter(), ..Default::default() };
    exhausted(queries.select(select).await.map(drop));
    let mut ingest = IngestServiceClient::new(server.channel().await);
    exhausted(ingest.delete(pb::DeleteRequest { table: table(), filter: filter() }).await.map(drop));
    let schema = Some(pb::Schema { fields: many() });
    let create = pb::CreateTableRequest { name: "u".into(), schema, ..Default::default() };
    exhausted(server.catalog().create_table(create).await.map(drop));
    let columns = pb::RecordBatch { rows: 1, columns: many() };
    let rows = Some(pb::batch::Rows::Columns(columns));
    let batch_of = pb::write_request::Kind::Batch(pb::Batch { sequence: 1, rows });
    let (_, outcome) = server.write(vec![open("t"), batch_of]).await;
    exhausted(outcome);

    // As many values as a list may have, in several lists, with a set of keys.
    let value = |n: i64| pb::Value { kind: Some(pb::value::Kind::Int(n)) };
    let list = |from: i64| {
        let values = (from..from + 65_536).map(value).collect();
        let expr = Some(pb::Expr { kind: Some(pb::expr::Kind::Column("a".into())) });
        pb::Filter { kind: Some(filter::Kind::In(pb::In { expr, values })) }
    };
    let keys = server.client.query("t").select_keys("a").await.unwrap();
    let in_keys = server.client.query("t").filter(col("a").in_keys(&keys)).request().filter.clone().unwrap();
    let filters = (0..3).map(|i| list(i * 100)).chain([in_keys]).collect();
    let both = pb::Filter { kind: Some(filter::Kind::And(pb::And { filters })) };
    let query = pb::QueryRequest { table: table(), filter: Some(both), ..Default::default() };
    assert!(server.query(query).await.unwrap().len() >= 2);
}
