//! The queries of all nodes, seen and stopped from whichever is asked.

use std::time::{Duration, Instant};

use arrow_array::cast::AsArray as _;
use basalt_client::{
    Client, ClientOptions, Credentials, Error, ErrorReason,
    queries::{QueryState, RunningQuery},
};
use basalt_server::{Allowance, Issued, Role};
use tempfile::TempDir;
use tokio::{task::JoinHandle, time::sleep};

use super::{
    encrypted::{authority, show},
    nodes::{Nodes, fill},
    proxy::Way,
};

/// It takes longer than anybody waits.
const LONG: &str = "SELECT count(*) FROM t AS a, t AS b, t AS c WHERE a.id + b.id * c.id = 7";

fn begin(client: &Client) -> JoinHandle<Result<(), Error>> {
    let client = client.clone();
    tokio::spawn(async move { client.sql(LONG).collect().await.map(drop) })
}

/// The long query, once a node lists it as running.
async fn seen(client: &Client) -> RunningQuery {
    for _ in 0..1000 {
        let queries = client.running_queries().await.unwrap().queries;
        let found = queries.into_iter().find(|query| query.text == LONG);
        if let Some(query) = found.filter(|query| query.state == QueryState::Running) {
            return query;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("it is not seen");
}

/// Texts of one column.
async fn texts(client: &Client, sql: &str) -> Vec<String> {
    let answer = client.sql(sql).collect().await.unwrap();
    let texts = answer.batches.iter().flat_map(|batch| batch.column(0).as_string::<i32>().iter());
    texts.map(|text| text.unwrap_or("NULL").to_owned()).collect()
}

async fn ended(query: JoinHandle<Result<(), Error>>) {
    let ended = tokio::time::timeout(Duration::from_secs(20), query).await.unwrap().unwrap();
    assert_eq!(ended.unwrap_err().reason(), ErrorReason::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_of_all_nodes_are_seen_and_stopped_at_each() {
    let mut nodes = Nodes::start(3).await;
    fill(nodes.client(0), "t", 3, 4000).await;
    for i in 0..3 {
        nodes.sees(i, 2).await;
    }
    // Asked of each, by each way.
    for (at, other, by_sql) in [(0, 1, false), (1, 1, true), (2, 0, true), (0, 2, false)] {
        let long = begin(nodes.client(at));
        let query = seen(nodes.client(other)).await;
        assert_eq!(query.node, nodes.name(at));
        let sql = "SELECT node FROM system.queries WHERE text LIKE 'SELECT count%' AND problem IS NULL";
        assert_eq!(texts(nodes.client(other), sql).await, [nodes.name(at)]);
        match by_sql {
            true => {
                let sql = format!("CANCEL QUERY '{}'", query.id);
                nodes.client(other).sql(&sql).collect().await.map(drop).unwrap();
            }
            false => nodes.client(other).cancel_query(&query.id).await.unwrap(),
        }
        ended(long).await;
        let gone = nodes.client(other).cancel_query(&query.id).await.unwrap_err();
        assert_eq!(gone.reason(), ErrorReason::QueryNotFound);
    }
    assert_eq!(
        nodes.client(2).cancel_query("ffff-1").await.unwrap_err().reason(),
        ErrorReason::QueryNotFound
    );

    // One that takes what comes and answers nothing costs a bounded time, and is named.
    let long = begin(nodes.client(1));
    let query = seen(nodes.client(0)).await;
    nodes.way(1, Way::Hole);
    let begun = Instant::now();
    let listed = nodes.client(0).running_queries().await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    let [unanswered] = listed.unanswered.try_into().unwrap();
    assert_eq!(unanswered.node, nodes.name(1));
    let sql = "SELECT node FROM system.queries WHERE id IS NULL AND problem <> ''";
    assert_eq!(texts(nodes.client(2), sql).await, [nodes.name(1)]);
    let error = nodes.client(0).cancel_query(&query.id).await.unwrap_err();
    assert_eq!(error.reason(), ErrorReason::Incomplete, "{error}");
    assert!(error.to_string().contains(nodes.name(1)), "{error}");
    nodes.client(1).cancel_query(&query.id).await.unwrap();
    let _ = long.await;
    // Nor does one that is gone keep the others from being seen.
    nodes.kill(1).await;
    let long = begin(nodes.client(2));
    let query = seen(nodes.client(0)).await;
    assert_eq!(query.node, nodes.name(2));
    nodes.client(0).cancel_query(&query.id).await.unwrap();
    ended(long).await;
}

/// Rights are those of the node that is asked, wherever the query runs.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_another_node_has_no_more_rights_there() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("keys.toml");
    let issue = |name: &str, role, tables: &[&str]| {
        let tables: Vec<String> = tables.iter().map(ToString::to_string).collect();
        let issued = Issued::new(name, role, &tables, Allowance::default()).unwrap();
        issued.add_to(&file).unwrap();
        issued.secret
    };
    let admin = issue("admin", Role::Admin, &["*"]);
    let (narrow, wide) = (issue("narrow", Role::Reader, &["t"]), issue("wide", Role::Reader, &["*"]));
    // Where there are keys, nodes show certificates.
    let certificates = authority(&[("node", "127.0.0.1")]);
    let mut nodes = Nodes::places(2).await;
    for i in 0..2 {
        let keys = Some(file.clone());
        nodes
            .restart_with(i, |config| {
                config.keys = keys;
                show(config, certificates.path(), "node");
            })
            .await;
    }
    let addresses: Vec<String> = (0..2).map(|i| nodes.client(i).address().to_owned()).collect();
    let by = async |key: &str, node: usize| {
        // Whose retries wait while the node starts.
        let options = ClientOptions::new();
        Client::connect_as(&addresses[node], options, &Credentials::new().key(key).unwrap()).await.unwrap()
    };
    let at_first = by(&admin, 0).await;
    fill(&at_first, "t", 2, 5000).await;
    let (narrow, wide, admin) = (
        [by(&narrow, 0).await, by(&narrow, 1).await],
        [by(&wide, 0).await, by(&wide, 1).await],
        [at_first, by(&admin, 1).await],
    );
    let reason = |ended: Result<(), Error>| ended.unwrap_err().reason();

    let long = begin(&wide[0]);
    let query = seen(&wide[1]).await;
    assert_eq!(narrow[1].running_queries().await.unwrap().queries.len(), 0);
    assert_eq!(reason(narrow[1].cancel_query(&query.id).await), ErrorReason::QueryNotFound);
    wide[1].cancel_query(&query.id).await.unwrap();
    ended(long).await;

    let long = begin(&narrow[0]);
    let query = seen(&narrow[1]).await;
    assert!(query.caller.ends_with("(narrow)"), "{}", query.caller);
    assert_eq!(seen(&wide[1]).await.id, query.id);
    assert_eq!(reason(wide[1].cancel_query(&query.id).await), ErrorReason::PermissionDenied);
    admin[1].cancel_query(&query.id).await.unwrap();
    ended(long).await;
}
