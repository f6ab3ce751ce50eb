//! Spans of OpenTelemetry, as a collector gets them.

mod collector;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use basalt_client::{col, count, lit, sum};
use basalt_proto::v1::query_service_client::QueryServiceClient;
use tokio::net::TcpListener;
use tonic::{Request, transport::Channel};

use self::collector::{Collector, Span};
use crate::{
    cluster::nodes::{Nodes, fill},
    support::Server,
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Asks for the sum of a column over some of the rows, as a part of a trace.
async fn ask(channel: Channel, query: basalt_client::Query, parent: &str) {
    let mut request = Request::new(query.request().clone());
    request.metadata_mut().insert("traceparent", parent.parse().unwrap());
    request.metadata_mut().insert("x-request-id", "a-request".parse().unwrap());
    let mut answer = QueryServiceClient::new(channel).query(request).await.unwrap().into_inner();
    while answer.message().await.unwrap().is_some() {}
}

fn one<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found: Vec<_> = spans.iter().filter(|span| span.name == name).collect();
    let [one] = found[..] else { panic!("{} spans {name:?} of {spans:#?}", found.len()) };
    one
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_and_its_steps_are_spans_of_the_trace_that_asks() {
    let collector = Collector::start().await;
    let mut server = Server::with(|config| config.otlp = Some(collector.url.clone())).await;
    server.numbers("t", (0..200_000).map(|n| n * 7919 % 1_000_003)).await;
    let query =
        || server.client.query("t").select([count(), sum(col("a"))]).filter(col("a").gt(lit(123_457)));
    ask(server.channel().await, query(), &format!("00-{TRACE}-{PARENT}-01")).await;
    // The parent is not recorded, so nothing of it is.
    ask(server.channel().await, query(), &format!("00-{}-{PARENT}-00", TRACE.replace('0', "1"))).await;
    assert!(server.client.query("nothing").collect().await.is_err());
    server.signal();
    server.ended().await;

    assert_eq!(collector.services(), ["basalt"]);
    let all = collector.spans();
    let of_trace: Vec<_> = all.iter().filter(|span| hex(&span.trace) == TRACE).cloned().collect();
    let request = one(&of_trace, "Query");
    assert_eq!((hex(&request.parent).as_str(), request.kind), (PARENT, 2));
    let told = |key: &str| request.attribute(key).unwrap_or_else(|| panic!("no {key}: {request:#?}"));
    assert_eq!((told("basalt.request_id"), told("basalt.table")), ("a-request".into(), "t".into()));
    assert_eq!(told("basalt.rows"), "1");
    assert!(told("basalt.rows_selected").parse::<u64>().unwrap() > 100_000);
    assert!(told("db.query.text").contains('t') && !format!("{of_trace:?}").contains("123457"));
    for name in ["plan", "prune", "filter", "aggregate"] {
        let step = one(&of_trace, name);
        assert_eq!(step.parent, request.id, "{name}");
        assert!(request.start <= step.start + 1_000_000 && step.start <= step.end, "{step:?} {request:?}");
        assert!(step.end <= request.end + 1_000_000, "{step:?} {request:?}");
    }
    let filter = one(&of_trace, "filter");
    assert_eq!(filter.attribute("basalt.rows_in").unwrap(), "200000");
    assert_eq!(filter.attribute("basalt.rows_out"), request.attribute("basalt.rows_selected"));
    assert!(all.iter().all(|span| hex(&span.trace) != TRACE.replace('0', "1")));
    // One that nobody asks for begins a trace of its own.
    let failed: Vec<_> =
        all.iter().filter(|span| span.status.as_ref().is_some_and(|s| s.code == 2)).collect();
    let [failed] = failed[..] else { panic!("{all:#?}") };
    assert!(failed.parent.is_empty() && hex(&failed.trace) != TRACE);
    assert_eq!(failed.attribute("error.type").unwrap(), "TABLE_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_nodes_go_on_with_the_trace() {
    let collector = Collector::start().await;
    let mut nodes = Nodes::places(2).await;
    for i in 0..2 {
        // Nothing is recorded that no client asks for.
        let change = |config: &mut basalt_server::Config| {
            (config.otlp, config.trace_ratio) = (Some(collector.url.clone()), 0.0);
        };
        nodes.restart_with(i, change).await;
    }
    nodes.sees(0, 1).await;
    nodes.sees(1, 1).await;
    fill(nodes.client(0), "t", 7, 3000).await;
    for i in 0..2 {
        let client = nodes.client(i);
        let query = client.query("t").select([count(), sum(col("price"))]).filter(col("part").lt(lit(50)));
        ask(client.channel(), query, &format!("00-{TRACE}-{PARENT}-01")).await;
    }
    nodes.stop(1).await;
    nodes.stop(0).await;

    let all = collector.spans();
    let traces: BTreeSet<_> = all.iter().map(|span| hex(&span.trace)).collect();
    assert_eq!(Vec::from_iter(traces), [TRACE]);
    let below = |parent: &Span, name: &str| -> Vec<Span> {
        all.iter().filter(|span| span.parent == parent.id && span.name == name).cloned().collect()
    };
    let requests: Vec<_> = all.iter().filter(|span| span.name == "Query").collect();
    assert_eq!(requests.len(), 2);
    let hops: Vec<_> = requests.iter().flat_map(|request| below(request, "hop")).collect();
    assert!(!hops.is_empty(), "nobody was asked: {all:#?}");
    for hop in &hops {
        assert_eq!(hop.kind, 3);
        assert!([nodes.name(0), nodes.name(1)].contains(&hop.attribute("basalt.node").unwrap().as_str()));
        for key in ["basalt.sent_bytes", "basalt.received_bytes", "basalt.fragments"] {
            assert!(hop.attribute(key).unwrap().parse::<u64>().unwrap() > 0, "{key}: {hop:?}");
        }
        let [part] = &below(hop, "Execute")[..] else {
            panic!("no span of the peer below {hop:?}: {all:#?}")
        };
        assert_eq!(part.attribute("basalt.request_id").unwrap(), "a-request");
        assert!(!below(part, "filter").is_empty() && !below(part, "aggregate").is_empty(), "{all:#?}");
    }
}

/// Whatever a collector does, requests are answered, and the server ends soon.
#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_gone_costs_nothing_but_spans() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for address in [silent.local_addr().unwrap(), closed] {
        let mut server = Server::with(|config| config.otlp = Some(format!("http://{address}"))).await;
        server.numbers("t", 0..1000).await;
        let started = Instant::now();
        for _ in 0..3000 {
            server.client.list_tables().await.unwrap();
        }
        assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
        let started = Instant::now();
        server.signal();
        server.ended().await;
        assert!(started.elapsed() < Duration::from_secs(4), "{address}: {:?}", started.elapsed());
    }
}
