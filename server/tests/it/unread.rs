//! Answers that are large, or that nobody reads: neither keeps others waiting.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use basalt_client::{col, count};
use basalt_proto::v1::{self as pb, TypeKind, query_service_client::QueryServiceClient};
use basalt_server::Memory;
use tokio::time::timeout;
use tonic::{Code, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::support::{Server, check, field};

/// What nobody should wait for longer: who waits for an answer that nobody reads waits until its deadline, of 30 seconds.
/// On a machine that does nothing else none of this takes a tenth of it.
const SOON: Duration = Duration::from_secs(20);

async fn soon<T>(what: &str, done: impl Future<Output = T>) -> T {
    let started = Instant::now();
    timeout(SOON, done).await.unwrap_or_else(|_| panic!("{what}: nothing after {:?}", started.elapsed()))
}

/// A table `name` of `rows` texts of `bytes` each, which no encoding makes small.
async fn texts(server: &Server, name: &str, rows: usize, bytes: usize) {
    server.create(name, vec![field("id", TypeKind::Int64), field("text", TypeKind::Utf8)]).await.unwrap();
    let mut seed = 1_u64;
    let mut letter = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b' ' + u8::try_from(seed >> 32 & 63).unwrap())
    };
    let ids: Vec<_> = (0..i64::try_from(rows).unwrap()).collect();
    let batches: Vec<_> = ids
        .chunks((2 << 20) / bytes)
        .map(|ids| {
            let text = |_| (0..bytes).map(|_| letter()).collect::<String>();
            let texts: Vec<String> = ids.iter().map(text).collect();
            let columns: [(&str, ArrayRef); 2] = [
                ("id", Arc::new(Int64Array::from(ids.to_vec()))),
                ("text", Arc::new(StringArray::from(texts))),
            ];
            RecordBatch::try_from_iter_with_nullable(columns.map(|(n, a)| (n, a, true))).unwrap()
        })
        .collect();
    server.client.write_all(name, &batches).await.unwrap();
}

fn all(table: &str) -> pb::QueryRequest {
    pb::QueryRequest { table: table.into(), ..Default::default() }
}

/// That a client on a connection of its own is served.
async fn others_are_served(server: &Server, table: &str, rows: u64) {
    let channel = server.channel().await;
    let mut health = HealthClient::new(channel.clone());
    soon("health", health.check(HealthCheckRequest::default())).await.unwrap();
    let mut queries = QueryServiceClient::new(channel);
    let counted = server.client.query(table).select([count()]).request().clone();
    let few = server.client.query(table).select([col("id")]).filter(col("id").lt(3)).request().clone();
    for request in [counted, few, all(table)] {
        let trailer = soon("a query", async {
            let mut stream = queries.query(request).await?.into_inner();
            let mut last = None;
            while let Some(message) = stream.message().await? {
                last = message.kind;
            }
            Ok::<_, tonic::Status>(last)
        });
        let Some(pb::query_response::Kind::Trailer(trailer)) = trailer.await.unwrap() else {
            panic!("no trailer")
        };
        assert!([1, 3, rows].contains(&trailer.rows), "{trailer:?}");
    }
}

/// Few rows may be many bytes: what is light in rows is not light.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_wide_rows_are_answered_whole_and_soon() {
    let server = Server::start().await;
    for (name, rows, bytes) in [("wide", 30, 1_000_000), ("many", 1400, 12_000)] {
        texts(&server, name, rows, bytes).await;
        let queries = (0..4).map(|_| async {
            let answer = soon(name, server.client.query(name).collect()).await.unwrap();
            assert_eq!(answer.rows, rows as u64);
            let texts = answer.batches.iter().map(|batch| batch.column(1).get_array_memory_size());
            assert!(texts.sum::<usize>() >= rows * bytes);
        });
        futures_util::future::join_all(queries).await;

        // Nobody reads these.
        let mut unread = Vec::new();
        for _ in 0..4 {
            let channel = server.channel().await;
            unread.push(soon(name, QueryServiceClient::new(channel).query(all(name))).await.unwrap());
        }
        others_are_served(&server, name, rows as u64).await;
        drop(unread);
    }
}

/// One text of a dictionary may stand in every row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_wide_text_in_many_rows_is_no_light_answer() {
    let server = Server::start().await;
    server.create("t", vec![field("id", TypeKind::Int64), field("text", TypeKind::Utf8)]).await.unwrap();
    let text = "x".repeat(1_000_000);
    for id in [0, 3, 6, 9, 12, 15] {
        let columns: [(&str, ArrayRef); 2] = [
            ("id", Arc::new(Int64Array::from(vec![id, id + 1, id + 2]))),
            ("text", Arc::new(StringArray::from(vec![text.as_str(); 3]))),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(n, a)| (n, a, true))).unwrap();
        server.client.write_all("t", &[batch]).await.unwrap();
    }
    let answer = soon("texts", server.client.query("t").collect()).await.unwrap();
    assert_eq!(answer.rows, 18);
    let groups = server.client.query("t").select([col("text"), count()]).group_by([col("text")]);
    assert_eq!(soon("groups", groups.collect()).await.unwrap().rows, 1);
}

/// Begins to ask for whole tables, and never reads; what waits for its turn is left waiting.
fn leave_unread(channel: &Channel, table: &str, n: usize) -> Vec<tokio::task::JoinHandle<()>> {
    let ask = |_| {
        let (mut queries, request) = (QueryServiceClient::new(channel.clone()), all(table));
        tokio::spawn(async move {
            if let Ok(answer) = queries.query(request).await {
                // It stays open, unread.
                let _answer = answer.into_inner();
                std::future::pending::<()>().await;
            }
        })
    };
    (0..n).map(ask).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_unread_answers_keep_nobody_waiting() {
    let server = Server::start().await;
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..2_000_000).map(|i| i * 7919 % 2_000_003)));
    server.create("t", vec![field("id", TypeKind::Int64)]).await.unwrap();
    let batch = RecordBatch::try_from_iter_with_nullable([("id", ids, true)]).unwrap();
    server.client.write_all("t", &[batch]).await.unwrap();
    let mut unread = Vec::new();
    for _ in 0..5 {
        unread.extend(leave_unread(&server.channel().await, "t", 100));
        tokio::time::sleep(Duration::from_millis(100)).await;
        others_are_served(&server, "t", 2_000_000).await;
    }
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        others_are_served(&server, "t", 2_000_000).await;
    }
    unread.iter().for_each(tokio::task::JoinHandle::abort);
}

/// What queries hold is free when they end, whoever still has to read that they were given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_reads_holds_no_memory_of_queries() {
    let limit = 512 << 20;
    let server = Server::with(|config| config.memory = Memory::Bytes(limit)).await;
    server.create("t", vec![field("id", TypeKind::Int64), field("text", TypeKind::Utf8)]).await.unwrap();
    // Texts that are held compressed, of which a query holds some as long as it runs.
    let texts = (0..300_000_u64).map(|i| format!("{} and some more of it", i * 7919 % 1_000_003));
    let columns: [(&str, ArrayRef); 2] = [
        ("id", Arc::new(Int64Array::from_iter_values(0..300_000))),
        ("text", Arc::new(StringArray::from_iter_values(texts))),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(n, a)| (n, a, true))).unwrap();
    server.client.write_all("t", &[batch]).await.unwrap();
    let mut unread = Vec::new();
    for _ in 0..60 {
        unread.extend(leave_unread(&server.channel().await, "t", 2));
    }
    let mut most = 0;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        most = most.max(server.client.cluster().await.unwrap().nodes[0].memory_bytes);
    }
    assert!(most > 0 && most < limit / 2, "{most}");
    unread.iter().for_each(tokio::task::JoinHandle::abort);
}

/// The same connection is served too, and who comes back too late is told so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_up_says_so() {
    let server = Server::start().await;
    server.numbers("t", 0..2_000_000).await;
    let mut queries = server.queries();
    let mut first = queries.query(all("t")).await.unwrap().into_inner();
    let mut others = Vec::new();
    for _ in 1..basalt_server::limits::CONNECTION_ANSWERS {
        others.push(queries.query(all("t")).await.unwrap());
    }
    // There is no place for one more, but the first is not read.
    tokio::time::sleep(basalt_server::limits::UNREAD_TIMEOUT).await;
    soon("one more", queries.query(all("t"))).await.unwrap();
    // Of too many that are given up, the connection would be closed.
    drop(others);
    let end = loop {
        match first.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the answer was cut off and looks whole"),
            Err(status) => break status,
        }
    };
    check::<()>(Err(end), Code::DeadlineExceeded, "DEADLINE_EXCEEDED", "");
}
