//! The cluster: which nodes there are, which of them hold what, and requests that several answer together.
//!
//! All nodes are equal. Each follows the store that they share, holds the fragments that [`placement`] gives it, and
//! coordinates the requests of its own clients: it pins one version of each table, has every fragment answered by
//! one node ([`scatter`]), and merges. Nothing here runs in a server that is alone.

#![allow(dead_code, reason = "the coordinator follows")]

mod coordinate;
mod execute;
mod fetch;
mod handler;
mod heard;
mod link;
mod members;
mod placement;
mod remote;
mod scatter;
mod status;

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use basalt_proto::cluster::v1::{AnnounceRequest, TableVersion};
use futures_util::future::join_all;
use tokio::time::timeout;

use crate::{Config, limits};

pub(crate) use handler::PeerHandler;
pub(crate) use heard::Heard;
pub(crate) use link::State as PeerState;
pub(crate) use members::Members;
pub(crate) use status::overview;

/// The version of what nodes say to each other. Nodes of another one are not asked.
pub(crate) const PROTOCOL: u32 = 1;

/// See the module.
#[derive(Debug)]
pub(crate) struct Cluster {
    members: Arc<Members>,
    heard: Heard,
}

impl Cluster {
    /// A cluster of one node, until [`Cluster::watch`] finds the others.
    pub(crate) fn new(name: &str, config: &Config) -> Self {
        let instance = RandomState::new().hash_one(name);
        Self {
            members: Arc::new(Members::new(name, instance, &config.peers, config.replication)),
            heard: Heard::default(),
        }
    }

    pub(crate) fn members(&self) -> &Arc<Members> {
        &self.members
    }

    /// What others have announced.
    pub(crate) fn heard(&self) -> &Heard {
        &self.heard
    }

    /// Follows the members, as long as it is polled.
    pub(crate) async fn watch(self: Arc<Self>) {
        Arc::clone(&self.members).watch().await;
    }

    /// Tells the others of this node's commits, and waits a moment until they have heard. A node that has not finds
    /// out a little later by itself.
    pub(crate) async fn announce(&self, catalog_sequence: u64, tables: Vec<TableVersion>) {
        let view = self.members.view();
        let request = AnnounceRequest {
            protocol: PROTOCOL,
            node: self.members.own().to_string(),
            catalog_sequence,
            tables,
        };
        let calls =
            view.nodes().iter().filter(|node| node.state() == link::State::Alive).filter_map(|node| {
                let (link, request) = (node.link.as_ref()?, request.clone());
                Some(async move {
                    if let Err(status) = link.announce(request).await {
                        tracing::debug!(node = %node.name, error = status.message(), "announcement");
                    }
                })
            });
        // Whoever has not answered by then is left behind.
        let _ = timeout(limits::ANNOUNCE_TIMEOUT, join_all(calls)).await;
    }
}
