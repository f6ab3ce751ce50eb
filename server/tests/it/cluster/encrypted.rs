//! Nodes that show each other certificates, and those that have none, or somebody else's.

use std::{path::Path, time::Duration};

use basalt_client::{Client, NodeState, col, count, keys_of};
use basalt_proto::cluster::v1::{GetStatusRequest, peer_service_client::PeerServiceClient};
use basalt_server::{Authority, Config};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};
use tonic::{
    Code,
    transport::{Certificate, Channel, ClientTlsConfig, Identity},
};

use super::nodes::{Nodes, fill};

/// An authority that has signed a certificate for each name.
pub(super) fn authority(names: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    let authority = Authority::open(folder.path()).unwrap();
    for (name, host) in names {
        authority.issue(name, &[(*host).to_owned()]).unwrap();
    }
    folder
}

/// Has a node show one of them to the others.
pub(super) fn show(config: &mut Config, folder: &Path, name: &str) {
    config.peer_cert = Some(folder.join(format!("{name}.pem")));
    config.peer_key = Some(folder.join(format!("{name}.key")));
    config.peer_ca = Some(folder.join("ca.pem"));
}

async fn ask(client: &Client) -> usize {
    let some = keys_of("u", "id").filter(col("part").lt(40));
    let query = client.query("t").select([count()]).filter(col("id").in_keys(some));
    let answer = query.collect().await.unwrap();
    usize::try_from(answer.batches[0].column(0).to_data().buffers()[0].typed_data::<i64>()[0]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_believe_those_alone_that_prove_who_they_are() {
    let folder = authority(&[("node", "127.0.0.1"), ("elsewhere", "elsewhere")]);
    let mut nodes = Nodes::places(3).await;
    for i in 0..2 {
        nodes.restart_with(i, |config| show(config, folder.path(), "node")).await;
    }
    nodes.sees(0, 1).await;
    nodes.sees(1, 1).await;
    fill(nodes.client(0), "t", 7, 100).await;
    fill(nodes.client(0), "u", 3, 100).await;
    let expected = ask(nodes.client(0)).await;
    assert!(expected > 0);
    assert_eq!(ask(nodes.client(1)).await, expected);

    // One without a certificate, and one that another authority has believed.
    let others = authority(&[("node", "127.0.0.1")]);
    for show_other in [false, true] {
        nodes
            .restart_with(2, |config| {
                if show_other {
                    show(config, others.path(), "node")
                }
            })
            .await;
        sleep(Duration::from_secs(2)).await;
        let cluster = nodes.client(0).cluster().await.unwrap();
        let third = cluster.nodes.iter().find(|node| node.name == nodes.name(2)).unwrap();
        assert_ne!(third.state, NodeState::Alive, "{third:?}");
        assert_eq!(ask(nodes.client(0)).await, expected);
        nodes.kill(2).await;
    }
    nodes.restart_with(2, |config| show(config, folder.path(), "node")).await;
    nodes.sees(0, 2).await;
    assert_eq!(ask(nodes.client(2)).await, expected);

    // A certificate of the right authority is its own name's alone.
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    let tls = || ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read("ca.pem")));
    let connect = async |tls: ClientTlsConfig| {
        let endpoint = Channel::from_shared(format!("https://{}", nodes.name(0))).unwrap();
        endpoint.tls_config(tls).unwrap().connect().await
    };
    let status = |name: &str| GetStatusRequest { node: name.to_owned(), ..Default::default() };
    let identity = Identity::from_pem(read("elsewhere.pem"), read("elsewhere.key"));
    let mut peer = PeerServiceClient::new(connect(tls().identity(identity)).await.unwrap());
    let error = peer.get_status(status("127.0.0.1:9")).await.unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied, "{error}");
    let known = nodes.client(0).cluster().await.unwrap();
    assert!(known.nodes.iter().all(|node| node.name != "127.0.0.1:9"), "{known:?}");
    peer.get_status(status("elsewhere:9")).await.unwrap();
    // Without one, nothing is answered.
    let asked = async {
        let mut peer = PeerServiceClient::new(connect(tls()).await.ok()?);
        peer.get_status(status("127.0.0.1:9")).await.ok()
    };
    assert!(timeout(Duration::from_secs(10), asked).await.unwrap().is_none());
}

#[tokio::test]
async fn a_node_whose_name_does_not_stand_in_its_certificate_does_not_start() {
    let (folder, store) = (authority(&[("node", "elsewhere")]), TempDir::new().unwrap());
    let listener = async || tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = super::nodes::config(store.path());
    show(&mut config, folder.path(), "node");
    let listeners = basalt_server::Listeners { peers: Some(listener().await), ..listener().await.into() };
    let error = basalt_server::run(listeners, config, std::future::pending()).await.unwrap_err().to_string();
    assert!(error.contains("does not stand in it"), "{error}");
}
