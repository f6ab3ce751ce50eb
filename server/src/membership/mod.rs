//! Who is in the cluster, who holds what by its place, and what others have announced.
//!
//! All nodes are equal. Membership says who is asked and who is told; it never says what an answer covers. Nothing here
//! runs in a server that is alone.

mod announced;
mod callers;
mod link;
mod members;
mod placement;
#[cfg(feature = "sql")]
mod statements;

use std::sync::Arc;

use basalt_proto::cluster::v1::{AnnounceRequest, TableVersion};
use futures_util::future::join_all;
use tokio::time::sleep;

use crate::{Config, environment::Environment, limits, tables::Tables, tls};

pub(crate) use announced::Announced;
pub(crate) use link::{Link, State as LinkState};
pub(crate) use members::{Choice, Members, Node, View};

/// The version of what nodes of this build say to each other. Nodes of another one are not asked.
pub(crate) const PROTOCOL: u32 = 3;

/// See the module.
#[derive(Debug)]
pub(crate) struct Cluster {
    members: Arc<Members>,
    announced: Announced,
}

impl Cluster {
    /// A cluster of one node, until [`Cluster::watch`] finds the others. `instance` is another one for each start of the
    /// node.
    pub(crate) fn new(
        (name, instance): (&str, u64),
        config: &Config,
        environment: &Arc<dyn Environment>,
        tls: Option<Arc<tls::Peers>>,
    ) -> Self {
        let environment = Arc::clone(environment);
        let Config { peers, replication, forget_node, .. } = config;
        let members = Members::new(name, instance, peers, *replication, *forget_node, environment, tls);
        Self { members: Arc::new(members), announced: Announced::default() }
    }

    pub(crate) fn members(&self) -> &Arc<Members> {
        &self.members
    }

    /// What others have announced.
    pub(crate) fn announced(&self) -> &Announced {
        &self.announced
    }

    /// Finds the members behind names, so that this node knows which fragments are its own before it loads them.
    pub(crate) async fn find(&self) {
        self.members.find().await;
    }

    /// Follows the members, and places fragments again when they change, as long as it is polled.
    pub(crate) async fn watch(self: Arc<Self>, tables: Arc<Tables>) {
        let mut changes = self.members.changes();
        let place = async {
            while changes.changed().await.is_ok() {
                tables.place().await;
            }
        };
        tokio::join!(Arc::clone(&self.members).watch(), place);
    }

    /// A version of a table was committed, and is not acknowledged yet.
    pub(crate) async fn committed(&self, table_id: u64, version: u64) {
        self.announce(0, vec![TableVersion { table_id, version }]).await;
    }

    /// The catalog has changed, and that is not acknowledged yet.
    pub(crate) async fn catalog_changed(&self, version: u64) {
        self.announce(version, Vec::new()).await;
    }

    /// Tells the others of this node's commits, and waits until they have heard: whoever has a lease answers from what
    /// it knows, so that nothing is acknowledged before it knows, or its lease is over and it looks into the store. The
    /// others need not be waited for.
    async fn announce(&self, catalog_version: u64, tables: Vec<TableVersion>) {
        let node = self.members.own().to_string();
        let request = AnnounceRequest { protocol: self.members.protocol(), node, catalog_version, tables };
        let mut confirmed = Vec::new();
        for (link, started) in self.members.to_tell() {
            let request = request.clone();
            if link.owed(started).is_some() {
                confirmed.push(async move { link.confirm(request, started).await });
            } else if !matches!(link.state(), LinkState::Dead | LinkState::Incompatible) {
                tokio::spawn(async move { link.announce(request, limits::ANNOUNCE_TIMEOUT).await });
            }
        }
        join_all(confirmed).await;
        if let Some(left) = self.members.owed_to_unknown() {
            sleep(left).await;
        }
    }
}
