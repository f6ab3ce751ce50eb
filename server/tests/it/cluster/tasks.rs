//! SQL statements that run as tasks on all nodes: the answers of one node, whoever fails.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use arrow_array::{RecordBatch, cast::AsArray as _, types::Int64Type};
use arrow_select::concat::concat_batches;
use basalt_client::{Client, ClientOptions, Error, ErrorReason};
use basalt_proto::cluster::v1::{
    self as peer, BeginTaskRequest, ReadTaskRequest, TaskKey,
    peer_service_client::PeerServiceClient,
    peer_service_server::{PeerService, PeerServiceServer},
    read_task_request,
};
use basalt_server::{Config, Distribute};
use futures_util::future::join_all;
use tokio::net::TcpListener;
use tokio_stream::{Stream, wrappers::TcpListenerStream};
use tonic::{
    Code, Request, Response, Status, Streaming,
    transport::{Channel, Server},
};

use super::{
    nodes::{Alone, Nodes, fill},
    proxy::Way,
};

/// Statements of each kind that tasks do: joins, groups, orders, windows, unions.
const STATEMENTS: [&str; 10] = [
    "SELECT a.part, count(*), min(b.id), max(a.id) FROM t a JOIN u b ON a.part = b.part GROUP BY a.part ORDER BY a.part",
    "SELECT a.id, b.id FROM t a JOIN u b ON a.id = b.part + 3 ORDER BY a.id, b.id LIMIT 50",
    "SELECT a.id, b.tag FROM t a LEFT JOIN u b ON a.id = b.id * 7 ORDER BY a.id DESC LIMIT 40",
    "SELECT count(*) FROM t a FULL JOIN u b ON a.id = b.id + 300",
    "SELECT id % 11 k, count(DISTINCT part), sum(id) FROM (SELECT id, part FROM t UNION ALL SELECT id, part FROM u) GROUP BY 1 ORDER BY 1",
    "SELECT id, row_number() OVER (PARTITION BY tag ORDER BY id) n FROM t ORDER BY id LIMIT 30",
    "SELECT tag, sum(n) FROM (SELECT tag, lag(id) OVER (PARTITION BY part ORDER BY id) n FROM t) GROUP BY tag ORDER BY tag",
    "SELECT a.tag, count(*) FROM t a JOIN t b ON a.id = b.id JOIN u c ON b.part = c.part WHERE c.id < 100 GROUP BY a.tag ORDER BY 1",
    "SELECT k, part, sum(id), count(*) FROM (SELECT 1 AS k, part, id FROM t) GROUP BY CUBE (k, part) ORDER BY k, part",
    "SELECT k, tag, count(*) FROM (SELECT 1 AS k, tag FROM t UNION ALL SELECT 2, tag FROM u) GROUP BY k, tag ORDER BY k, tag",
];

/// Statements whose answer depends on all rows, or that are planned in their own way, whoever runs them.
const OTHERS: [&str; 16] = [
    "SELECT id, last_value(nullif(part, 3) IGNORE NULLS) OVER (PARTITION BY tag ORDER BY id) FROM t ORDER BY id LIMIT 99",
    "SELECT id, count(DISTINCT part) OVER (PARTITION BY tag) FROM t ORDER BY id LIMIT 99",
    "SELECT id FROM t x WHERE NOT EXISTS (SELECT 1 FROM u y WHERE y.part = x.part AND y.id < 20) ORDER BY id LIMIT 25",
    "SELECT id FROM t WHERE part NOT IN (SELECT part FROM u WHERE part IS NOT NULL AND id < 20) ORDER BY id LIMIT 25",
    "SELECT id FROM t WHERE part NOT IN (SELECT nullif(part, 3) FROM u WHERE id < 20) ORDER BY id LIMIT 25",
    "SELECT count(*), sum(a.id) FROM t a JOIN u b ON a.id = b.id GROUP BY GROUPING SETS (())",
    "SELECT count(*), count(DISTINCT id) FROM t GROUP BY GROUPING SETS ((), ())",
    "SELECT count(*), sum(id) FROM t GROUP BY GROUPING SETS ((), (part)) ORDER BY ALL",
    "SELECT part, id, sum(id) FILTER (WHERE id % 3 = 0) OVER (PARTITION BY part) FROM t ORDER BY id LIMIT 50",
    "SELECT id, count(*) FILTER (WHERE id > 99) OVER (PARTITION BY part ORDER BY id) FROM t ORDER BY id LIMIT 500",
    "SELECT id FROM (SELECT nullif(id, 3) AS id FROM t) x WHERE x.id NOT IN (SELECT y.part FROM u y WHERE y.part = x.id) ORDER BY id",
    "SELECT id FROM t x WHERE x.part NOT IN (SELECT nullif(y.part, 1) FROM u y WHERE y.part = x.part AND y.id < 50) ORDER BY id",
    "SELECT id FROM t x WHERE x.part NOT IN (SELECT y.part FROM u y WHERE y.id = x.id) ORDER BY id",
    "SELECT id, x.part NOT IN (SELECT y.part FROM u y WHERE y.part = x.part) FROM t x ORDER BY id",
    "SELECT id, (SELECT y.part FROM u y WHERE y.id = x.id ORDER BY y.part DESC LIMIT 1) FROM t x ORDER BY id",
    "SELECT a.id FROM t a JOIN t b ON a.id = b.id ORDER BY a.id OFFSET 4294967297",
];

fn always(config: &mut Config) {
    config.distribute = Distribute::Always;
}

/// Three nodes with `t` (7 fragments) and `u` (3).
async fn three() -> Nodes {
    let mut nodes = Nodes::places(3).await;
    for i in 0..3 {
        nodes.restart_with(i, always).await;
    }
    let client = nodes.client(0).clone();
    fill(&client, "t", 7, 300).await;
    fill(&client, "u", 3, 150).await;
    for i in 0..3 {
        nodes.sees(i, 2).await;
    }
    nodes
}

async fn answered(client: &Client, sql: &str) -> RecordBatch {
    let answer = client.sql(sql).collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    concat_batches(&answer.schema, &answer.batches).unwrap()
}

/// What EXPLAIN says.
async fn plan(client: &Client, sql: &str) -> String {
    let plan = answered(client, &format!("EXPLAIN {sql}")).await;
    plan.columns()[1].as_string::<i32>().iter().flatten().collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_answer_as_one_node_does() {
    let nodes = three().await;
    let alone = Alone::over(nodes.store.path()).await;
    for sql in STATEMENTS {
        let expected = answered(&alone.client, sql).await;
        for client in nodes.clients() {
            let plan = plan(client, sql).await;
            assert!(plan.contains("DistributedExec") && plan.contains("Stage 1"), "{sql}\n{plan}");
            assert_eq!(answered(client, sql).await, expected, "{sql}\n{plan}");
        }
    }
    for sql in OTHERS {
        let expected = answered(&alone.client, sql).await;
        for client in nodes.clients() {
            assert_eq!(answered(client, sql).await, expected, "{sql}\n{}", plan(client, sql).await);
        }
    }
    let explained = answered(nodes.client(1), &format!("EXPLAIN ANALYZE {}", STATEMENTS[0])).await;
    let told = explained.columns()[1].as_string::<i32>().value(0).to_owned();
    for word in ["Stage 1", "tasks=3", nodes.name(0), nodes.name(2), "bytes_received", "output_rows"] {
        assert!(told.contains(word), "{word}: {told}");
    }
}

/// Whoever reads while a table is replaced reads the old one or the new one, and never an older one again.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_replaced_in_one_step_at_every_node() {
    let nodes = three().await;
    let make = |i: i64| format!("CREATE OR REPLACE TABLE r AS SELECT {i} AS n FROM generate_series(1, 200)");
    let read = async |client: &Client| {
        let answer = answered(client, "SELECT min(n), max(n), count(*) FROM r").await;
        let number = |column: usize| answer.column(column).as_primitive::<Int64Type>().value(0);
        assert_eq!((number(0), number(2)), (number(1), 200));
        number(0)
    };
    answered(nodes.client(0), &make(0)).await;
    let done = AtomicUsize::new(0);
    let readers = nodes.clients().map(async |client| {
        let (mut last, mut reads) = (0, 0);
        while done.load(Ordering::Relaxed) == 0 {
            let now = read(client).await;
            assert!(now >= last, "{now} after {last}");
            (last, reads) = (now, reads + 1);
        }
        reads
    });
    let writer = async {
        let clients: Vec<_> = nodes.clients().collect();
        for (i, maker) in (1..=12).zip(clients.iter().cycle()) {
            answered(maker, &make(i)).await;
            for client in &clients {
                assert_eq!(read(client).await, i);
            }
        }
        done.store(1, Ordering::Relaxed);
    };
    let (reads, ()) = tokio::join!(join_all(readers), writer);
    assert!(reads.iter().all(|reads| *reads > 3), "{reads:?}");
    // A table that has rows before it has a name is the same at all of them, too.
    answered(nodes.client(1), "CREATE TABLE s AS SELECT id, part FROM t").await;
    for client in nodes.clients() {
        assert_eq!(answered(client, "SELECT count(*) FROM s JOIN t ON s.id = t.id").await.num_rows(), 1);
        assert_eq!(answered(client, "SELECT * FROM s").await.num_rows(), 2_100);
    }
}

/// A node that dies, or that takes what comes and answers nothing: the statement is run again by the one that was asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_fails_is_done_without() {
    let mut nodes = three().await;
    let sql = STATEMENTS[0];
    let expected = answered(nodes.client(0), sql).await;
    // It is not known to be gone yet.
    nodes.kill(2).await;
    assert_eq!(answered(nodes.client(0), sql).await, expected);
    nodes.restart_with(2, always).await;
    nodes.sees(0, 2).await;
    nodes.way(1, Way::Hole);
    let begun = Instant::now();
    assert_eq!(answered(nodes.client(0), sql).await, expected);
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
}

/// Whoever gives up on a statement ends its tasks: the nodes have room for others, and stop at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_is_given_up_ends_everywhere() {
    let mut nodes = three().await;
    let client = nodes.client(0).clone();
    // 2,100 rows with 2,100 of the same key, thrice.
    let sql = "SELECT count(*), sum(a.id + b.id + c.id + d.id) FROM t a JOIN t b ON a.part % 2 = b.part % 2 \
               JOIN t c ON b.part % 2 = c.part % 2 JOIN t d ON c.part % 2 = d.part % 2";
    let plan = plan(&client, sql).await;
    assert!(plan.contains("Stage 3"), "{plan}");
    let options = ClientOptions::new().deadline(Duration::from_secs(1));
    let hasty = Client::connect_with(client.address(), options).await.unwrap();
    let error = hasty.sql(sql).collect().await.unwrap_err();
    // The client or a node is the first to see that it has passed.
    let is_late = matches!(error, Error::Deadline) || error.reason() == ErrorReason::DeadlineExceeded;
    assert!(is_late, "{error}");
    // More often than there are turns, each of which comes back.
    for _ in 0..10 {
        let given_up = tokio::time::timeout(Duration::from_millis(400), client.sql(sql).collect()).await;
        assert!(given_up.is_err());
    }
    client.sql(STATEMENTS[0]).collect().await.unwrap();
    // A reader may have been left behind that waits for a task which was never begun; not for long.
    let begun = Instant::now();
    for i in [1, 2, 0] {
        nodes.stop(i).await;
    }
    assert!(begun.elapsed() < Duration::from_millis(4500), "they took {:?}", begun.elapsed());
}

async fn connected(nodes: &Nodes, i: usize) -> PeerServiceClient<Channel> {
    let channel = Channel::from_shared(format!("http://{}", nodes.name(i))).unwrap();
    PeerServiceClient::new(channel.connect().await.unwrap())
}

fn task(plan: Vec<u8>) -> BeginTaskRequest {
    BeginTaskRequest {
        protocol: 3,
        build: env!("CARGO_PKG_VERSION").to_owned(),
        key: Some(TaskKey { statement: vec![7; 16], stage: 1, task: 0 }),
        tasks: 3,
        plan,
    }
}

async fn refused(peer: &mut PeerServiceClient<Channel>, task: BeginTaskRequest) -> Status {
    peer.begin_task(tokio_stream::iter([task])).await.unwrap_err()
}

/// A length-delimited field of a protobuf message.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![(number << 3) | 2];
    if number > 15 {
        field = vec![(((number << 3) | 2) & 0x7f) | 0x80, number >> 4];
    }
    let mut length = bytes.len();
    while length > 127 {
        field.push(u8::try_from(length & 127).unwrap() | 128);
        length >>= 7;
    }
    field.push(u8::try_from(length).unwrap());
    field.extend_from_slice(bytes);
    field
}

/// The peers' port makes nothing of what is no task of this build.
#[tokio::test(flavor = "multi_thread")]
async fn operators_that_no_task_has_are_refused() {
    let nodes = three().await;
    let mut peer = connected(&nodes, 1).await;
    // The fields of datafusion-proto's PhysicalPlanNode that read or write files, values or nothing, or nest.
    for number in 1..40 {
        for inner in [Vec::new(), field(1, b"x"), field(1, &field(1, &field(1, b"/etc/passwd")))] {
            let status = refused(&mut peer, task(field(number, &inner))).await;
            assert_eq!(status.code(), Code::InvalidArgument, "{number}: {status}");
        }
    }
    let mut deep = Vec::new();
    for _ in 0..5000 {
        // A filter over a filter.
        deep = field(8, &field(1, &deep));
    }
    let garbage: Vec<u8> =
        (0..5000_u32).map(|i| u8::try_from(i.wrapping_mul(2_654_435_761) >> 24).unwrap()).collect();
    for plan in [Vec::new(), deep, garbage, vec![0xff; 100_000]] {
        let status = refused(&mut peer, task(plan)).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    }
    let other = BeginTaskRequest { build: "0.0.1".to_owned(), ..task(Vec::new()) };
    assert_eq!(refused(&mut peer, other).await.code(), Code::FailedPrecondition);
    let other = BeginTaskRequest { protocol: 2, ..task(Vec::new()) };
    assert_eq!(refused(&mut peer, other).await.code(), Code::FailedPrecondition);
    let nameless = BeginTaskRequest { key: None, ..task(Vec::new()) };
    assert_eq!(refused(&mut peer, nameless).await.code(), Code::InvalidArgument);
    let read = ReadTaskRequest {
        protocol: 3,
        key: task(Vec::new()).key,
        partition: u64::MAX,
        head: Some(read_task_request::Head::Broadcast(u64::MAX)),
    };
    let mut rows = peer.read_task(read).await.unwrap().into_inner();
    assert_eq!(rows.message().await.unwrap_err().code(), Code::InvalidArgument);
    // It goes on.
    let sql = STATEMENTS[0];
    for client in nodes.clients() {
        assert!(answered(client, sql).await.num_rows() > 0);
    }
}

/// What a node of another build does, as far as these nodes ask it.
#[derive(Clone)]
struct OfAnotherBuild {
    name: String,
    begun: Arc<AtomicUsize>,
}

type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl PeerService for OfAnotherBuild {
    type ExecuteStream = Messages<peer::ExecuteResponse>;
    type FetchSipStream = Messages<peer::FetchSipResponse>;
    type BeginTaskStream = Messages<peer::BeginTaskResponse>;
    type ReadTaskStream = Messages<peer::ReadTaskResponse>;

    async fn execute(
        &self,
        _: Request<Streaming<peer::ExecuteRequest>>,
    ) -> Result<Response<Self::ExecuteStream>, Status> {
        Err(Status::unavailable("not now"))
    }

    async fn announce(
        &self,
        _: Request<peer::AnnounceRequest>,
    ) -> Result<Response<peer::AnnounceResponse>, Status> {
        Ok(Response::new(peer::AnnounceResponse {}))
    }

    async fn get_status(
        &self,
        _: Request<peer::GetStatusRequest>,
    ) -> Result<Response<peer::GetStatusResponse>, Status> {
        Ok(Response::new(peer::GetStatusResponse {
            protocol: 3,
            node: self.name.clone(),
            version: "0.0.1".to_owned(),
            ready: true,
            instance: 1,
            takes_tasks: true,
            ..peer::GetStatusResponse::default()
        }))
    }

    async fn fetch_sip(
        &self,
        _: Request<peer::FetchSipRequest>,
    ) -> Result<Response<Self::FetchSipStream>, Status> {
        Err(Status::unavailable("not now"))
    }

    async fn begin_task(
        &self,
        _: Request<Streaming<BeginTaskRequest>>,
    ) -> Result<Response<Self::BeginTaskStream>, Status> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        Err(Status::unavailable("not now"))
    }

    async fn read_task(&self, _: Request<ReadTaskRequest>) -> Result<Response<Self::ReadTaskStream>, Status> {
        Err(Status::unavailable("not now"))
    }

    /// As of a build that has no such method.
    async fn list_queries(
        &self,
        _: Request<peer::ListQueriesRequest>,
    ) -> Result<Response<peer::ListQueriesResponse>, Status> {
        Err(Status::unimplemented("what is that?"))
    }

    async fn cancel_query(
        &self,
        _: Request<peer::CancelQueryRequest>,
    ) -> Result<Response<peer::CancelQueryResponse>, Status> {
        Err(Status::unimplemented("what is that?"))
    }
}

/// Plans of one build are not read by another: its nodes hold fragments, and take no tasks.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_another_build_takes_no_tasks() {
    let mut nodes = Nodes::places(3).await;
    let other = OfAnotherBuild { name: nodes.name(2).to_owned(), begun: Arc::default() };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    nodes.point(2, listener.local_addr().unwrap());
    let service = PeerServiceServer::new(other.clone());
    let incoming = TcpListenerStream::new(listener);
    tokio::spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
    for i in 0..2 {
        nodes.restart_with(i, always).await;
    }
    fill(nodes.client(0), "t", 4, 100).await;
    fill(nodes.client(0), "u", 2, 100).await;
    nodes.sees(0, 2).await;
    let sql = STATEMENTS[0];
    let plan = plan(nodes.client(0), sql).await;
    assert!(plan.contains("tasks=2") && !plan.contains(nodes.name(2)), "{plan}");
    let alone = Alone::over(nodes.store.path()).await;
    assert_eq!(answered(nodes.client(0), sql).await, answered(&alone.client, sql).await);
    assert_eq!(other.begun.load(Ordering::Relaxed), 0);

    // Nor does it list its queries, or end them; those of the others are listed all the same.
    let listed = nodes.client(0).running_queries().await.unwrap();
    let [unanswered] = listed.unanswered.try_into().unwrap();
    assert_eq!(unanswered.node, nodes.name(2));
    assert!(unanswered.problem.contains("earlier version"), "{}", unanswered.problem);
    let error = nodes.client(0).cancel_query("1-1").await.unwrap_err();
    assert_eq!(error.reason(), ErrorReason::Incomplete, "{error}");
    assert_eq!(nodes.client(0).cancel_query("2-1").await.unwrap_err().reason(), ErrorReason::QueryNotFound);
}

/// EXPLAIN ANALYZE says of each scan what the nodes did, and which keys went there.
#[tokio::test(flavor = "multi_thread")]
async fn what_each_node_did_is_told() {
    let nodes = Nodes::start(3).await;
    fill(nodes.client(0), "t", 7, 300).await;
    fill(nodes.client(0), "u", 3, 150).await;
    for i in 0..3 {
        nodes.sees(i, 2).await;
    }
    let sql = "EXPLAIN ANALYZE SELECT a.id, b.tag FROM t a JOIN u b ON a.part = b.part + 1 WHERE b.id < 40";
    let told = answered(nodes.client(1), sql).await;
    let told = told.columns()[1].as_string::<i32>().value(0).to_owned();
    let scan = |table: &str| {
        let line = told.lines().find(|line| line.contains(&format!("BasaltScan: {table},")));
        line.unwrap_or_else(|| panic!("{table}: {told}")).to_owned()
    };
    let (t, u) = (scan("t"), scan("u"));
    let hops = |line: &str| {
        let (_, hops) = line.split_once(", hops=[").unwrap_or_else(|| panic!("no hops: {line}"));
        let hops = hops.split_once("], metrics=[").unwrap().0;
        hops.split("; ").map(str::to_owned).collect::<Vec<_>>()
    };
    let number = |hop: &str, name: &str| {
        let (_, rest) = hop.split_once(&format!("{name}=")).unwrap_or_else(|| panic!("{name}: {hop}"));
        rest.split(',').next().unwrap().parse::<u64>().unwrap()
    };
    // Every fragment is one node's; none of the first table can be left out by its bounds.
    let of_t = hops(&t);
    assert_eq!(of_t.iter().map(|hop| number(hop, "fragments")).sum::<u64>(), 7, "{t}");
    for hop in &of_t {
        let is_own = hop.starts_with(&format!("{}: ", nodes.name(1)));
        // The keys of the join go along.
        assert_eq!(number(hop, "set_bytes") > 0, !is_own, "{hop}");
        assert!(number(hop, "sent_bytes") >= number(hop, "set_bytes"), "{hop}");
        assert_eq!(number(hop, "received_bytes") > 0, !is_own, "{hop}");
        assert!(hop.contains("elapsed=") && hop.contains("executing="), "{hop}");
    }
    assert!(of_t.len() > 1, "{t}");
    assert_eq!(hops(&u).iter().map(|hop| number(hop, "rows")).sum::<u64>(), 40, "{u}");
    // A plan that is not run has none, and says how many rows it should give.
    let plan = plan(nodes.client(1), &sql["EXPLAIN ANALYZE ".len()..]).await;
    assert!(!plan.contains("hops=") && plan.contains(", rows=~40"), "{plan}");
}
