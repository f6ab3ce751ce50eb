//! Kept sets of other nodes: fetched, or an error that says why not.

use std::time::Duration;

use basalt_client::{Client, ClientOptions, ErrorReason, Handle, RetryPolicy, col, count};
use basalt_server::Memory;
use tokio::time::{sleep, timeout};

use super::{
    nodes::{Nodes, fill},
    proxy::Way,
};

/// A set of rows that the second node keeps; the first one sees it.
async fn kept(nodes: &Nodes) -> Handle {
    fill(nodes.client(1), "t", 2, 500).await;
    nodes.sees(0, 1).await;
    let rows = nodes.client(1).query("t").filter(col("part").eq(7)).select_rows();
    rows.keep(Duration::from_secs(60)).await.unwrap().kept.unwrap().handle
}

/// A client of the first node that tries everything once.
async fn once(nodes: &Nodes) -> Client {
    let options = ClientOptions::new().retry(RetryPolicy::never());
    Client::connect_with(nodes.client(0).address(), options).await.unwrap()
}

/// A node that has no room for a set says so, and not that there is none.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_without_room_is_not_said_to_be_gone() {
    let mut nodes = Nodes::places(2).await;
    nodes.restart_with(0, |config| config.kept_sets = Memory::Bytes(520)).await;
    nodes.restart(1).await;
    let handle = kept(&nodes).await;
    let client = once(&nodes).await;
    let error = client.get_set(handle).await.unwrap_err();
    assert_eq!(error.reason(), ErrorReason::SipQuota, "{error}");
    let query = client.query("t").select([count()]).filter(handle.rows());
    let error = query.collect().await.unwrap_err();
    assert_eq!(error.reason(), ErrorReason::SipQuota, "{error}");
    nodes.client(1).get_set(handle).await.unwrap();
}

/// Where a node does not answer nobody knows whether it keeps the set. That passes.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_of_a_silent_node_is_not_said_to_be_gone() {
    let nodes = Nodes::start(2).await;
    let handle = kept(&nodes).await;
    let client = once(&nodes).await;
    nodes.way(1, Way::Closed);
    let error = client.get_set(handle).await.unwrap_err();
    assert_eq!(error.reason(), ErrorReason::Incomplete, "{error}");
    assert!(error.to_string().contains(nodes.name(1)), "{error}");

    nodes.way(1, Way::Open);
    let there = async {
        while client.get_set(handle).await.is_err() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(30), there).await.expect("the set of a node that answers again");
}

/// A node that is held for dead may keep the set still: it is named.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_of_a_dead_node_is_said_to_be_at_none_that_lives() {
    let nodes = Nodes::start(2).await;
    let handle = kept(&nodes).await;
    let client = once(&nodes).await;
    nodes.way(1, Way::Closed);
    let dead = async {
        loop {
            let error = client.get_set(handle).await.unwrap_err();
            if error.reason() != ErrorReason::Incomplete {
                return error;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    let told = timeout(Duration::from_secs(30), dead).await.expect("a node that is held for dead");
    let query = client.query("t").select([count()]).filter(handle.rows());
    for error in [told, query.collect().await.unwrap_err()] {
        assert_eq!(error.reason(), ErrorReason::SipNotFound, "{error}");
        let expected =
            format!("no node that lives keeps a set under this handle; {} does not live", nodes.name(1));
        assert!(error.to_string().contains(&expected), "{error}");
    }
    // It is there again with its node.
    nodes.way(1, Way::Open);
    nodes.sees(0, 1).await;
    client.get_set(handle).await.unwrap();
}
