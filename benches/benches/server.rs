//! The server against a bare tonic echo, and a large scan over gRPC against the same plan in-process; both in
//! one run, on loopback, with client and server in one process.
//!
//! `cargo bench -p basalt-benches --bench server`; `-- --small` for a quick look.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops at what goes wrong"
)]

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use arrow_array::{ArrayRef, BooleanArray, Int32Array, RecordBatch, cast::AsArray, types::Int64Type};
use arrow_schema::{DataType, Field, Schema};
use basalt_benches::{
    echo::{
        EchoService,
        proto::{Message, echo_client::EchoClient, echo_server::EchoServer},
    },
    table,
};
use basalt_client::{Client, col, count, sum};
use basalt_core::{
    exec::Control,
    plan::Plan,
    query::{Aggregate, AggregateFunction, CompareOp, Expr, Filter, Literal, Query, SelectItem},
    table::Appender,
};
use basalt_proto::v1::{QueryRequest, query_response::Kind, query_service_client::QueryServiceClient};
use prost::Message as _;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{net::TcpListener, sync::Semaphore};
use tonic::transport::{Channel, Server, server::TcpIncoming};

/// Requests in flight at once.
const IN_FLIGHT: usize = 32;
/// Requests in flight at once in the open loop, at most.
const PLACES: usize = 100;

fn main() {
    let small = basalt_benches::timing::small();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(run(small));
}

async fn run(small: bool) {
    let (seconds, scan_rows) = if small { (1, 1 << 20) } else { (5, 100 << 20) };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let config = basalt_server::Config { store: "memory:".into(), ..Default::default() };
    tokio::spawn(basalt_server::run(listener, config, std::future::pending()));
    let client = Client::connect(&address).await.unwrap();
    load(&client, "small", 100_000).await;

    let echo_listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let echo_address = format!("http://{}", echo_listener.local_addr().unwrap());
    let service = Server::builder().add_service(EchoServer::new(EchoService));
    // Without TCP_NODELAY the echo would wait for its peer's delayed acknowledgements.
    let incoming = TcpIncoming::from(echo_listener).with_nodelay(Some(true));
    tokio::spawn(service.serve_with_incoming(incoming));
    let echo_channel = Channel::from_shared(echo_address).unwrap().connect().await.unwrap();

    let query = client.query("small").select([count()]).filter(col("value").lt(5000)).request().clone();
    let expected = client.query_of(query.clone()).collect().await.unwrap();
    println!("small aggregate: count(*) where value < 5000 over {} rows", 100_000);
    let request_bytes = query.encoded_len();

    let echo = move || {
        let mut client = EchoClient::new(echo_channel.clone());
        let payload = vec![0; request_bytes];
        async move {
            let answer = client.call(Message { payload }).await.unwrap();
            assert_eq!(answer.into_inner().payload.len(), request_bytes);
        }
    };
    let channel = client.channel();
    let expected_rows = expected.batches.iter().map(RecordBatch::num_rows).sum::<usize>() as u64;
    let aggregate = move || ask(QueryServiceClient::new(channel.clone()), query.clone(), expected_rows);
    // In turn, twice each, so that a change of the machine's speed meets both.
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..3 {
        rates[0].push(closed_loop(seconds, echo.clone()).await);
        rates[1].push(closed_loop(seconds, aggregate.clone()).await);
    }
    let best = |runs: &[(f64, Latency)]| runs.iter().max_by(|a, b| a.0.total_cmp(&b.0)).cloned().unwrap();
    let (echo_best, ours_best) = (best(&rates[0]), best(&rates[1]));
    let row = |name: &str, (rate, latency): &(f64, Latency)| {
        vec![
            name.into(),
            format!("{rate:.0}"),
            micros(latency.p50),
            micros(latency.p99),
            format!("{:.2}x", rate / echo_best.0),
        ]
    };
    table::print(
        "Small requests, closed loop, 32 in flight on one connection",
        &["request", "requests/s", "p50", "p99", "of the echo"],
        &[row("tonic unary echo", &echo_best), row("basalt count(*) where", &ours_best)],
    );

    // At 70 % of each one's own peak, arrivals at fixed times; latency counts from the time of arrival.
    let echo_open = open_loop(seconds, echo_best.0 * 0.7, echo).await;
    let ours_open = open_loop(seconds, ours_best.0 * 0.7, aggregate).await;
    let row = |name: &str, rate: f64, l: &Latency| {
        vec![
            name.into(),
            format!("{:.0}", rate * 0.7),
            micros(l.p50),
            micros(l.p99),
            format!("{:.2}x", l.p99.as_secs_f64() / echo_open.p99.as_secs_f64()),
        ]
    };
    table::print(
        "Latency at 70 % of the peak, open loop",
        &["request", "requests/s", "p50", "p99", "p99 of the echo's"],
        &[
            row("tonic unary echo", echo_best.0, &echo_open),
            row("basalt count(*) where", ours_best.0, &ours_open),
        ],
    );
    scan(&client, scan_rows).await;
}

/// One aggregate request; the answer must be whole.
async fn ask(mut client: QueryServiceClient<Channel>, query: QueryRequest, rows: u64) {
    let mut stream = client.query(query).await.unwrap().into_inner();
    let mut complete = false;
    while let Some(message) = stream.message().await.unwrap() {
        if let Some(Kind::Trailer(trailer)) = message.kind {
            assert_eq!(trailer.rows, rows);
            complete = trailer.complete;
        }
    }
    assert!(complete);
}

#[derive(Clone, Copy, Debug)]
struct Latency {
    p50: Duration,
    p99: Duration,
}

impl Latency {
    fn of(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        let at = |share: usize| all[(all.len() - 1) * share / 100];
        Self { p50: at(50), p99: at(99) }
    }
}

fn micros(time: Duration) -> String {
    format!("{} us", time.as_micros())
}

/// Requests one behind the other on each of [`IN_FLIGHT`] tasks, for some seconds: the rate, and the latency.
async fn closed_loop<F: Future<Output = ()> + Send + 'static>(
    seconds: u64,
    request: impl Fn() -> F + Clone + Send + 'static,
) -> (f64, Latency) {
    let start = Instant::now();
    let end = start + Duration::from_secs(seconds);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let request = request.clone();
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            while Instant::now() < end {
                let begin = Instant::now();
                request().await;
                latencies.push(begin.elapsed());
            }
            latencies
        });
    }
    let all: Vec<Duration> = tasks.join_all().await.into_iter().flatten().collect();
    #[allow(clippy::cast_precision_loss, reason = "a rate to print")]
    let rate = all.len() as f64 / start.elapsed().as_secs_f64();
    (rate, Latency::of(all))
}

/// Requests at fixed times, whatever became of the ones before; as many at once as a connection of ours takes, the
/// others wait for a place, and their waiting counts.
async fn open_loop<F: Future<Output = ()> + Send + 'static>(
    seconds: u64,
    rate: f64,
    request: impl Fn() -> F,
) -> Latency {
    let places = Arc::new(Semaphore::new(PLACES));
    let start = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of requests")]
    let total = (rate * seconds as f64) as usize;
    for i in 0..total {
        #[allow(clippy::cast_precision_loss, reason = "a time")]
        let due = start + Duration::from_secs_f64(i as f64 / rate);
        // The timer's resolution is a millisecond: those that are due are sent together.
        if due > Instant::now() {
            tokio::time::sleep_until(due.into()).await;
        }
        let (call, places) = (request(), Arc::clone(&places));
        tasks.spawn(async move {
            let _place = places.acquire_owned().await;
            call.await;
            due.elapsed()
        });
    }
    Latency::of(tasks.join_all().await)
}

/// A table of flags (1 % set) and values 0..10,000, loaded through gRPC.
async fn load(client: &Client, name: &str, rows: usize) {
    client.create_table(name, &schema()).await.unwrap();
    let mut writer = client.write(name, basalt_client::WriteOptions::default()).await.unwrap();
    for start in (0..rows).step_by(BATCH) {
        writer.send(&batch(start, BATCH.min(rows - start))).await.unwrap();
    }
    writer.commit().await.unwrap();
}

const BATCH: usize = 1 << 16;

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("flag", DataType::Boolean, false),
        Field::new("value", DataType::Int32, false),
    ])
}

/// Rows from `start` on, the same in every call.
fn batch(start: usize, rows: usize) -> RecordBatch {
    let mut rng = StdRng::seed_from_u64(start as u64);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(BooleanArray::from((0..rows).map(|_| rng.random_ratio(1, 100)).collect::<Vec<_>>())),
        Arc::new(Int32Array::from_iter_values((0..rows).map(|_| rng.random_range(0..10_000)))),
    ];
    RecordBatch::try_new(Arc::new(schema()), columns).unwrap()
}

/// One large scan: the whole call, the server's own time, and the same plan in-process on as many threads.
async fn scan(client: &Client, rows: usize) {
    load(client, "large", rows).await;
    let catalog = basalt_core::table::Catalog::new();
    let fields = vec![
        basalt_core::schema::Field::new("flag", basalt_core::schema::DataType::Bool, false),
        basalt_core::schema::Field::new("value", basalt_core::schema::DataType::Int32, false),
    ];
    let table = catalog.create("large", basalt_core::schema::Schema::new(fields).unwrap()).unwrap();
    let mut appender = Appender::new(Arc::clone(&table), &[]).unwrap();
    for start in (0..rows).step_by(BATCH) {
        appender.push(&batch(start, BATCH.min(rows - start))).unwrap();
    }
    appender.commit().unwrap();

    let pool = rayon::ThreadPoolBuilder::new().build().unwrap();
    let mut lines = Vec::new();
    for (name, filter) in [
        ("sum(value) where value < 5000", Some(col("value").lt(5000))),
        ("sum(value) where flag", Some(col("flag").eq(true))),
        ("sum(value)", None),
    ] {
        let mut query = client.query("large").select([sum(col("value"))]);
        if let Some(filter) = filter {
            query = query.filter(filter);
        }
        let request = query.request().clone();
        let inside = in_process(&request);
        let snapshot = table.snapshot();
        let plan = Plan::new(&table, &snapshot, &inside).unwrap();
        let mut expected = 0;
        let mut ours = Duration::MAX;
        for _ in 0..7 {
            let begin = Instant::now();
            let run = || {
                plan.run(&snapshot, &Control::default(), &mut |b| {
                    expected = b.column(0).as_primitive::<Int64Type>().value(0);
                    Ok(())
                })
            };
            pool.install(run).unwrap();
            ours = ours.min(begin.elapsed());
        }
        let (mut call, mut server) = (Duration::MAX, Duration::MAX);
        for _ in 0..7 {
            let begin = Instant::now();
            let answer = client.query_of(request.clone()).collect().await.unwrap();
            call = call.min(begin.elapsed());
            server = server.min(Duration::from_micros(answer.statistics.elapsed_us));
            assert_eq!(answer.batches[0].column(0).as_primitive::<Int64Type>().value(0), expected);
        }
        let millis = |t: Duration| format!("{:.2} ms", t.as_secs_f64() * 1e3);
        let ratio = |t: Duration| format!("{:.3}x", t.as_secs_f64() / ours.as_secs_f64());
        lines.push(vec![
            name.to_owned(),
            millis(ours),
            millis(server),
            ratio(server),
            millis(call),
            ratio(call),
        ]);
    }
    table::print(
        &format!("One scan of {rows} rows over gRPC and in-process, all cores"),
        &["query", "in-process", "server", "ratio", "whole call", "ratio"],
        &lines,
    );
}

/// The request as the engine sees it.
fn in_process(request: &QueryRequest) -> Query {
    let value = || Expr::Column("value".into());
    let aggregate = Aggregate { function: AggregateFunction::Sum, argument: Some(value()), distinct: false };
    let filter = request.filter.as_ref().map(|filter| match &filter.kind {
        Some(basalt_proto::v1::filter::Kind::Compare(c)) if c.op() == basalt_proto::v1::CompareOp::Lt => {
            Filter::Compare(CompareOp::Lt, value(), Expr::Literal(Literal::Int(5000)))
        }
        _ => Filter::Compare(CompareOp::Eq, Expr::Column("flag".into()), Expr::Literal(Literal::Bool(true))),
    });
    let select = vec![SelectItem { expr: Expr::Aggregate(Box::new(aggregate)), name: None }];
    Query { select, filter, ..Query::default() }
}
