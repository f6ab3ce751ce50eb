//! Clusters of several nodes: the answers of one server, whoever is asked and whoever fails.

mod callers;
mod encrypted;
mod kept;
pub(crate) mod nodes;
mod proxy;
#[cfg(feature = "sql")]
mod queries;
#[cfg(feature = "sql")]
mod tasks;

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use arrow_array::{RecordBatch, cast::AsArray as _, types::Int64Type};
use basalt_client::{
    Client, ClientOptions, Query, RetryPolicy, TableDetails, WriteOptions, col, count, count_distinct,
    keys_of, lit, max, min, not, sum,
};
use basalt_proto::{
    cluster::v1::{
        AnnounceRequest, ExecuteRequest, JoinSet, Task, execute_request,
        peer_service_client::PeerServiceClient,
    },
    v1::{self as pb, query_service_client::QueryServiceClient},
};
use tonic::{Code, Request, Status, transport::Channel};

use self::{
    nodes::{Alone, Nodes, fill, rows},
    proxy::Way,
};
use crate::{durable::against_a_model, support::check as told_as};

/// Queries over the tables `t` (7 fragments) and `u` (3), of every kind that is put together in its own way.
fn queries(client: &Client) -> Vec<(&'static str, pb::QueryRequest)> {
    let t = || client.query("t");
    let float_sums =
        [count(), sum(col("price")), min(col("tag")), max(col("price")), count_distinct(col("part"))];
    let some = || keys_of("u", "id").filter(col("part").lt(40));
    let nested =
        keys_of("u", "part").filter(col("id").in_keys(keys_of("t", "part").filter(col("id").lt(50))));
    let all: Vec<(&'static str, Query)> = vec![
        ("aggregates", t().select(float_sums.clone()).filter(col("id").gt(100))),
        ("no rows", t().select(float_sums.clone()).filter(col("id").lt(0))),
        (
            "groups",
            t().select([col("tag"), col("part")]).select(float_sums).group_by([col("tag"), col("part")]),
        ),
        ("having", t().select([col("part"), count()]).group_by([col("part")]).having(count().gt(64))),
        ("rows", t().select([col("id"), col("price") + lit(1)]).filter(col("part").eq(5))),
        ("a page", t().select([col("id")]).filter(col("part").lt(9)).limit(100).offset(250)),
        ("sorted", t().select([col("tag"), col("id")]).order_by([col("price").desc()]).limit(37).offset(3)),
        ("semi-join", t().select([count(), sum(col("price"))]).filter(col("id").in_keys(some()))),
        ("not in", t().select([count()]).filter(not(col("part").in_keys(some())))),
        (
            "of texts",
            t().select([count()]).filter(col("tag").in_keys(keys_of("u", "tag").filter(col("part").lt(3)))),
        ),
        ("nested", t().select([count(), sum(col("price"))]).filter(col("part").in_keys(nested))),
        // Answers without rows: nobody need be asked; everybody is and has none; what is merged has none left.
        ("nothing", t().select([col("id"), col("tag")]).filter(col("id").lt(0))),
        (
            "nothing found",
            t().select([col("id"), col("price")]).filter(col("part").eq(5).and(col("tag").eq("tag"))),
        ),
        (
            "nothing grouped",
            t().select([col("tag"), count()])
                .filter(col("part").eq(5).and(col("tag").eq("tag")))
                .group_by([col("tag")]),
        ),
        (
            "nothing had",
            t().select([col("part"), count()]).group_by([col("part")]).having(count().gt(100_000)),
        ),
        (
            "nothing joined",
            t().select([col("id")]).filter(col("id").in_keys(keys_of("u", "id").filter(col("part").eq(500)))),
        ),
        (
            "nothing sorted",
            t().select([col("id")])
                .filter(col("part").lt(9))
                .order_by([col("id").desc()])
                .limit(5)
                .offset(1_000_000),
        ),
    ];
    all.into_iter().map(|(name, query)| (name, query.request().clone())).collect()
}

/// The rows of an answer in one batch: bits count.
async fn answer(client: &Client, request: &pb::QueryRequest) -> Result<RecordBatch, basalt_client::Error> {
    let answer = client.query_of(request.clone()).collect().await?;
    Ok(arrow_select::concat::concat_batches(&answer.schema, &answer.batches).unwrap())
}

/// What one server answers, at the version that it reads.
async fn expected(alone: &Client) -> Vec<(&'static str, pb::QueryRequest, RecordBatch)> {
    let version = alone.table("t").await.unwrap().table.version;
    let mut all = Vec::new();
    for (name, request) in queries(alone) {
        let request = pb::QueryRequest { version: Some(version), ..request };
        let rows = answer(alone, &request).await.unwrap();
        assert_eq!(rows.num_rows() == 0, name.starts_with("nothing"), "{name}");
        all.push((name, request, rows));
    }
    assert!(all.iter().any(|(_, _, rows)| rows.num_rows() == 0), "no query has an answer without rows");
    all
}

/// That every node that runs answers as one server does.
async fn check(nodes: &Nodes, expected: &[(&'static str, pb::QueryRequest, RecordBatch)]) {
    for client in nodes.clients() {
        for (name, request, rows) in expected {
            let answered = answer(client, request).await.unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(&answered, rows, "{name}");
        }
    }
}

/// Nodes with the tables of [`queries`], and what they answer.
async fn started(n: usize) -> (Nodes, Vec<(&'static str, pb::QueryRequest, RecordBatch)>) {
    let nodes = Nodes::start(n).await;
    // Too few to be merged in the background.
    fill(nodes.client(0), "t", 7, 2000).await;
    fill(nodes.client(n - 1), "u", 3, 100).await;
    let alone = Alone::over(nodes.store.path()).await;
    let expected = expected(&alone.client).await;
    (nodes, expected)
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_answer_as_one_and_survive_each_other() {
    let (mut nodes, expected) = started(3).await;
    check(&nodes, &expected).await;

    // Every fragment is placed: no node has all of them.
    let cluster = nodes.client(1).cluster().await.unwrap();
    let held: Vec<u64> =
        cluster.nodes.iter().map(|node| node.tables.iter().map(|t| t.fragments).sum()).collect();
    assert_eq!(held.len(), 3);
    assert!(held.iter().all(|n| *n < 10), "{held:?}");

    // One is gone, without a word; then it is back.
    nodes.kill(1).await;
    check(&nodes, &expected).await;
    nodes.restart(1).await;
    check(&nodes, &expected).await;

    // One is slow, one cannot be reached.
    nodes.way(2, Way::Slow(Duration::from_millis(20)));
    check(&nodes, &expected[..3]).await;
    nodes.way(2, Way::Hole);
    let client = nodes.client(0);
    for (name, request, rows) in &expected[..3] {
        assert_eq!(&answer(client, request).await.unwrap(), rows, "{name}");
    }
    nodes.way(2, Way::Closed);
    nodes.way(2, Way::Open);

    // One more.
    let fourth = nodes.join().await;
    nodes.sees(0, 3).await;
    check(&nodes, &expected).await;
    assert!(nodes.client(fourth).cluster().await.unwrap().nodes.len() == 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_at_one_node_is_read_at_all() {
    let nodes = Nodes::start(3).await;
    for i in 0..3 {
        let name = format!("t{i}");
        nodes.client(i).create_table(&name, &rows(0, 0).schema()).await.unwrap();
        for (k, client) in nodes.clients().enumerate() {
            let (k, more) = (k as i64, rows(0, 10));
            client.write_all(&name, &[more]).await.unwrap();
            for reader in nodes.clients() {
                let request = reader.query(&name).select([count()]).request().clone();
                let read = answer(reader, &request).await.unwrap();
                assert_eq!(read.column(0).as_primitive::<Int64Type>().value(0), 10 * (k + 1));
                assert_eq!(reader.table(&name).await.unwrap().table.rows, 10 * (k as u64 + 1));
            }
        }
        nodes.client((i + 1) % 3).drop_table(&name).await.unwrap();
        for reader in nodes.clients() {
            assert!(reader.list_tables().await.unwrap().is_empty());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_described_whole() {
    let (nodes, _) = started(3).await;
    let alone = Alone::over(nodes.store.path()).await;
    let parts = |mut details: TableDetails| {
        let entropies: Vec<Option<f64>> =
            details.columns.iter_mut().map(|column| column.entropy_bits.take()).collect();
        (details, entropies)
    };
    let (basic, _) = parts(alone.client.table("t").await.unwrap());
    let (full, entropies) = parts(alone.client.table_full("t").await.unwrap());
    assert_eq!((full.table.rows, full.columns[0].rows), (14_000, 14_000));
    for client in nodes.clients() {
        assert_eq!(parts(client.table("t").await.unwrap()), (basic.clone(), vec![None; 4]));
        let (found, bits) = parts(client.table_full("t").await.unwrap());
        assert_eq!(found, full);
        for (found, expected) in bits.into_iter().zip(&entropies) {
            assert!((found.unwrap() - expected.unwrap()).abs() < 1e-9);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_write_takes_away_is_found_where_it_is() {
    let nodes = Nodes::start(3).await;
    against_a_model(&nodes.clients().collect::<Vec<_>>()).await;
    // By one column, at a node that holds a third of the fragments.
    fill(nodes.client(0), "t", 6, 1000).await;
    let options = WriteOptions::new().replace_by(["id"]);
    let mut writer = nodes.client(1).write("t", options).await.unwrap();
    writer.send(&rows(2500, 7000)).await.unwrap();
    assert_eq!(writer.commit().await.unwrap().replaced, Some(3500));
    // Once each node has its own, nobody reads what another holds: the files need not be there.
    let all = nodes.client(0).query("t").select([count()]).request().clone();
    // More than once: what a node is slow to answer another one reads for it.
    for client in nodes.clients() {
        answer(client, &all).await.unwrap();
    }
    nodes.remove_data();
    assert_eq!(nodes.client(2).delete("t", col("part").lt(50)).await.unwrap().rows, rest(0..7000, 50));
    let sum_of_ids: i64 = (0..7000).filter(|id| id % 97 >= 50).sum();
    for client in nodes.clients() {
        let request = client.query("t").select([count(), sum(col("id"))]).request().clone();
        let read = answer(client, &request).await.unwrap();
        let found = [0, 1].map(|i| read.column(i).as_primitive::<Int64Type>().value(0));
        assert_eq!(found, [7000 - rest(0..7000, 50) as i64, sum_of_ids]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_a_write_that_waits_for_a_node() {
    let nodes = Nodes::start(3).await;
    // Too few of one size to be merged, and so many that every node has some.
    fill(nodes.client(0), "t", 7, 2000).await;
    for i in 0..7 {
        nodes.client(0).write_all("t", &[rows(20_000 * (i + 1), 20_000 * (i + 2))]).await.unwrap();
    }
    for other in [1, 2] {
        nodes.way(other, Way::Slow(Duration::from_millis(800)));
    }
    let client = nodes.client(0).clone();
    let replace = tokio::spawn(async move {
        let started = Instant::now();
        let options = WriteOptions::new().replace_by(["id"]);
        let mut writer = client.write("t", options).await.unwrap();
        // One row of each fragment.
        for i in 0..7 {
            writer.send(&rows(2000 * i, 2000 * i + 1)).await.unwrap();
            writer.send(&rows(20_000 * (i + 1), 20_000 * (i + 1) + 1)).await.unwrap();
        }
        writer.commit().await.unwrap();
        started.elapsed()
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    // What another node commits meanwhile is taken in by the one that waits.
    let other = nodes.client(1).clone();
    let write = tokio::spawn(async move { other.write_all("t", &[rows(-1, 0)]).await.unwrap().version });
    let (mut slowest, mut seen) = (Duration::ZERO, 0);
    while !replace.is_finished() {
        let asked = Instant::now();
        seen = nodes.client(0).list_tables().await.unwrap()[0].version;
        slowest = slowest.max(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (replaced, written) = (replace.await.unwrap(), write.await.unwrap());
    assert!(replaced > Duration::from_millis(800), "it did not wait for the slow node: {replaced:?}");
    assert!(slowest < Duration::from_millis(600), "the table was held for {slowest:?}");
    assert!(seen >= 15, "version {seen} was seen; {written} was written");
    nodes.way(1, Way::Open);
    nodes.way(2, Way::Open);
    let request = nodes.client(0).query("t").select([count()]).request().clone();
    let read = answer(nodes.client(0), &request).await.unwrap();
    assert_eq!(read.column(0).as_primitive::<Int64Type>().value(0), 7 * 2000 + 7 * 20_000 + 1);
}

/// How many of the ids are less than `part` modulo 97.
fn rest(ids: std::ops::Range<i64>, part: i64) -> u64 {
    ids.filter(|id| id % 97 < part).count() as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_is_good_at_every_node() {
    let (nodes, _) = started(3).await;
    let minute = Duration::from_secs(60);
    let few =
        nodes.client(0).query("u").filter(col("part").lt(20)).select_keys("id").keep(minute).await.unwrap();
    let rows = nodes.client(1).query("t").filter(col("part").eq(7)).select_rows().keep(minute).await.unwrap();
    let mut counts = Vec::new();
    for client in nodes.clients() {
        let by_key = client.query("t").select([count()]).filter(col("id").in_keys(few.kept.unwrap().handle));
        let by_row = client.query("t").select([count()]).filter(rows.kept.unwrap().handle.rows());
        for query in [by_key, by_row] {
            let read = answer(client, query.request()).await.unwrap();
            counts.push(read.column(0).as_primitive::<Int64Type>().value(0));
        }
        assert_eq!(
            client.get_set(few.kept.unwrap().handle).await.unwrap().into_keys().unwrap().bytes,
            few.bytes
        );
    }
    let ids = (0..300).filter(|id| id % 97 < 20).count() as i64;
    let addresses = (0..14_000).filter(|id| id % 97 == 7).count() as i64;
    assert_eq!(counts, [ids, addresses].repeat(3));
}

/// Rows come in writes of 100, each with its own number in `id`; the sum of `one` is the number of rows.
#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_loses_no_write_and_answers_nothing_wrong() {
    const ROWS: i64 = 100;
    let mut nodes = Nodes::start(3).await;
    nodes.client(0).create_table("t", &rows(0, 0).schema()).await.unwrap();
    let addresses: Vec<String> = nodes.clients().map(|client| client.address().to_owned()).collect();
    let (done, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let first = Client::connect(&addresses[0]).await.unwrap();
    let writer = async {
        let mut id = 0;
        while !done.load(Ordering::Relaxed) {
            // The same request again is the same write.
            first.write_all("t", &[rows(id, id + ROWS)]).await.unwrap();
            id += ROWS;
            written.store(id as u64, Ordering::Release);
        }
        id
    };
    let reader = async {
        let mut answers = 0;
        while !done.load(Ordering::Relaxed) {
            let before = written.load(Ordering::Acquire) as i64;
            let request =
                first.query("t").select([count(), max(col("id")), sum(col("id"))]).request().clone();
            let read = answer(&first, &request).await.unwrap();
            let n = read.column(0).as_primitive::<Int64Type>().value(0);
            let after = written.load(Ordering::Acquire) as i64;
            assert!(n >= before && n <= after + ROWS && n % ROWS == 0, "{n} rows, from {before} to {after}");
            if n > 0 {
                assert_eq!(read.column(1).as_primitive::<Int64Type>().value(0), n - 1);
                assert_eq!(read.column(2).as_primitive::<Int64Type>().value(0), n * (n - 1) / 2);
            }
            answers += 1;
        }
        answers
    };
    let restarts = async {
        for i in [1, 2, 1, 2] {
            nodes.stop(i).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            nodes.restart(i).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        done.store(true, Ordering::Relaxed);
    };
    let (id, answers, ()) = tokio::join!(writer, reader, restarts);
    assert!(id > 0 && answers > 0);
    for client in nodes.clients() {
        let request = client.query("t").select([count()]).request().clone();
        let read = answer(client, &request).await.unwrap();
        assert_eq!(read.column(0).as_primitive::<Int64Type>().value(0), id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_told() {
    let (mut nodes, expected) = started(3).await;
    // Held by one node alone, and no longer in the store.
    nodes.remove_data();
    check(&nodes, &expected[..1]).await;
    // Places follow from ids, which are random: one of seven fragments may have none at a given node.
    let cluster = nodes.client(0).cluster().await.unwrap();
    let holds = |i: &usize| {
        let node = cluster.nodes.iter().find(|node| node.name == nodes.name(*i)).unwrap();
        node.tables.iter().any(|t| t.name == "t" && t.fragments > 0)
    };
    let gone = [1, 2].into_iter().find(holds).expect("fragments at another node");
    nodes.kill(gone).await;
    let mut request = Request::new(expected[0].1.clone());
    request.set_timeout(Duration::from_secs(20));
    let queries = QueryServiceClient::new(nodes.client(0).channel());
    let answered = async {
        let mut answer = queries.clone().query(request).await?.into_inner();
        while answer.message().await?.is_some() {}
        Ok::<_, Status>(())
    };
    let missing = answered.await.unwrap_err();
    for word in ["table \"t\"", "fragment", nodes.name(gone)] {
        assert!(missing.message().contains(word), "{missing:?}");
    }
    told_as::<()>(Err(missing), Code::Unavailable, "INCOMPLETE", "");
}

/// Membership says who is asked, never what an answer covers: not even a member that nobody remembers takes rows along.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_forgotten_leaves_nothing_out() {
    let mut nodes = Nodes::start(0).await;
    for _ in 0..2 {
        nodes.place().await;
    }
    let first = nodes.name(0).to_owned();
    nodes
        .restart_with(0, |config| {
            config.peers.clear();
            config.forget_node = Duration::from_secs(1);
        })
        .await;
    nodes.restart_with(1, |config| config.peers = vec![first]).await;
    nodes.sees(0, 1).await;
    fill(nodes.client(0), "t", 8, 100).await;
    let all = nodes.client(0).query("t").select([count()]).request().clone();
    let rows = |read: RecordBatch| read.column(0).as_primitive::<Int64Type>().value(0);
    assert_eq!(rows(answer(nodes.client(0), &all).await.unwrap()), 800);

    // What the other one holds cannot be loaded, and the other one is gone.
    nodes.remove_data();
    nodes.kill(1).await;
    let once =
        Client::connect_with(nodes.client(0).address(), ClientOptions::new().retry(RetryPolicy::never()));
    let once = once.await.unwrap();
    let mut forgotten = 0;
    while forgotten < 20 {
        match answer(&once, &all).await {
            Ok(read) => assert_eq!(rows(read), 800),
            Err(error) => assert_eq!(error.reason(), pb::ErrorReason::Incomplete, "{error}"),
        }
        forgotten += u32::from(once.cluster().await.unwrap().nodes.len() == 1);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Every version that is kept can be read at every node, whether it has seen it or not; addresses of rows are read at their
/// own version where a request names none.
#[tokio::test(flavor = "multi_thread")]
async fn every_kept_version_is_read_at_every_node() {
    let mut nodes = Nodes::start(3).await;
    fill(nodes.client(0), "t", 6, 50).await;
    nodes.client(1).delete("t", col("id").lt(20)).await.unwrap();
    let newest = nodes.client(0).table("t").await.unwrap().table.version;
    let at = |client: &Client, version: u64| {
        let request = client.query("t").select([count(), sum(col("id"))]).request().clone();
        pb::QueryRequest { version: Some(version), ..request }
    };
    let mut expected = Vec::new();
    for version in 0..=newest {
        expected.push(answer(nodes.client(0), &at(nodes.client(0), version)).await.unwrap());
    }
    assert!(expected.windows(2).any(|pair| pair[0] != pair[1]));
    let rows = nodes.client(0).query("t").version(3).filter(col("id").lt(100)).select_rows().await.unwrap();

    // These have seen the newest version alone.
    nodes.restart(1).await;
    nodes.restart(2).await;
    for client in nodes.clients() {
        for (version, expected) in (0..).zip(&expected) {
            assert_eq!(&answer(client, &at(client, version)).await.unwrap(), expected, "version {version}");
        }
        let of_rows = client.query("t").filter(rows.filter()).select([count()]).request().clone();
        let read = answer(client, &of_rows).await.unwrap();
        assert_eq!(read.column(0).as_primitive::<Int64Type>().value(0), 100);
        let beyond = answer(client, &at(client, newest + 1)).await.unwrap_err();
        assert_eq!(beyond.reason(), pb::ErrorReason::VersionGone);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_another_protocol_are_refused() {
    let nodes = Nodes::start(1).await;
    let address = format!("http://{}", nodes.name(0));
    let channel = Channel::from_shared(address).unwrap().connect().await.unwrap();
    let mut peer = PeerServiceClient::new(channel);
    let request = AnnounceRequest { protocol: 99, ..Default::default() };
    told_as(peer.announce(request).await, Code::FailedPrecondition, "PEER_PROTOCOL", "");
    let task = execute_request::Kind::Task(Task { protocol: 99, ..Default::default() });
    let task = tokio_stream::iter([ExecuteRequest { kind: Some(task) }]);
    told_as(peer.execute(task).await.map(|_| ()), Code::FailedPrecondition, "PEER_PROTOCOL", "");
    // What breaks the rules is an error, too.
    for (task, data) in [
        (Task { fragments: vec![2, 1], ..Default::default() }, vec![]),
        (Task { sets: vec![JoinSet { bytes: 10, ..Default::default() }], ..Default::default() }, vec![0; 9]),
        (
            Task { sets: vec![JoinSet { bytes: u64::MAX, ..Default::default() }], ..Default::default() },
            vec![],
        ),
        (Task::default(), vec![1]),
    ] {
        let task = execute_request::Kind::Task(Task { protocol: 3, ..task });
        let kinds = [task, execute_request::Kind::Data(data.into())];
        let messages = kinds.map(|kind| ExecuteRequest { kind: Some(kind) });
        let answer = peer.execute(tokio_stream::iter(messages)).await.map(|_| ());
        told_as(answer, Code::InvalidArgument, "PROTOCOL", "");
    }
}
