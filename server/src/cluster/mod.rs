//! The cluster: which nodes there are, which of them hold what, and requests that several answer together.
//!
//! All nodes are equal. Each follows the store that they share, holds the fragments that [`placement`] gives it, and
//! coordinates the requests of its own clients: it pins one version of each table, has every fragment answered by
//! one node ([`scatter`]), and merges. Nothing here runs in a server that is alone.

mod coordinate;
mod coverage;
pub(crate) mod describe;
mod execute;
mod explain;
pub(crate) mod fetch;
mod find;
pub(crate) mod fresh;
mod handler;
mod heard;
mod known;
mod link;
mod local;
mod members;
mod nodes;
mod placement;
mod remote;
mod scatter;
mod serve;
mod status;

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use basalt_core::table::Table;
use basalt_proto::cluster::v1::{AnnounceRequest, TableVersion};
use basalt_sip::Sip;
use futures_util::future::join_all;
use tokio::time::sleep;

use crate::{
    Config, limits,
    state::State,
    status::Fault,
    tables::{self, Sought},
};

pub(crate) use coordinate::{Coordinator, HeldAs, Nodes, Pinned};
pub(crate) use explain::explained;
pub(crate) use handler::PeerHandler;
pub(crate) use heard::Heard;
pub(crate) use link::State as PeerState;
pub(crate) use members::Members;
pub(crate) use nodes::Reach;
pub(crate) use status::overview;

/// The version of what nodes say to each other. Nodes of another one are not asked.
pub(crate) const PROTOCOL: u32 = 3;

/// See the module.
#[derive(Debug)]
pub(crate) struct Cluster {
    members: Arc<Members>,
    heard: Heard,
    following: AtomicBool,
    /// The server that this is a part of.
    server: OnceLock<Weak<State>>,
}

impl Cluster {
    /// A cluster of one node, until [`Cluster::watch`] finds the others.
    pub(crate) fn new(name: &str, config: &Config) -> Self {
        let instance = RandomState::new().hash_one(name);
        Self {
            members: Arc::new(Members::new(
                name,
                instance,
                &config.peers,
                config.replication,
                config.forget_node,
            )),
            heard: Heard::default(),
            following: AtomicBool::new(false),
            server: OnceLock::new(),
        }
    }

    /// Tells it which server it is a part of; once, before there are requests.
    pub(crate) fn set_server(&self, state: &Arc<State>) {
        if self.server.set(Arc::downgrade(state)).is_err() {
            tracing::error!("the server of the cluster is set twice");
        }
    }

    pub(crate) fn members(&self) -> &Arc<Members> {
        &self.members
    }

    /// What others have announced.
    pub(crate) fn heard(&self) -> &Heard {
        &self.heard
    }

    /// Finds the members behind names, so that this node knows which fragments are its own before it loads them.
    pub(crate) async fn find(&self) {
        self.members.find().await;
    }

    /// Follows the members, and places fragments anew when they change, as long as it is polled.
    pub(crate) async fn watch(self: Arc<Self>, state: Arc<State>) {
        let mut changes = self.members.changes();
        let place = async {
            while changes.changed().await.is_ok() {
                state.tables.place().await;
            }
        };
        tokio::join!(Arc::clone(&self.members).watch(), place);
    }

    /// Reads what was announced, unless that is under way: whoever asks then need not wait for it.
    pub(crate) fn follow(self: &Arc<Self>, state: &Arc<State>) {
        if self.following.swap(true, Ordering::AcqRel) {
            return;
        }
        let (cluster, state) = (Arc::clone(self), Arc::clone(state));
        tokio::spawn(async move {
            if let Err(fault) = fresh::announced(&state).await {
                tracing::debug!(error = fault.message(), "cannot read what was announced");
            }
            cluster.following.store(false, Ordering::Release);
        });
    }

    /// Tells the others of this node's commits, and waits until they have heard: whoever has a lease answers from what
    /// it knows, so that nothing is acknowledged before it knows, or its lease is over and it looks into the store. The
    /// others need not be waited for.
    async fn announce(&self, catalog_version: u64, tables: Vec<TableVersion>) {
        let node = self.members.own().to_string();
        let request = AnnounceRequest { protocol: PROTOCOL, node, catalog_version, tables };
        let mut confirmed = Vec::new();
        for (link, started) in self.members.to_tell() {
            let request = request.clone();
            if link.owed(started).is_some() {
                confirmed.push(async move { link.confirm(request, started).await });
            } else if !matches!(link.state(), PeerState::Dead | PeerState::Incompatible) {
                tokio::spawn(async move { link.announce(request, limits::ANNOUNCE_TIMEOUT).await });
            }
        }
        join_all(confirmed).await;
        if let Some(left) = self.members.owed_to_unknown() {
            sleep(left).await;
        }
    }
}

#[tonic::async_trait]
impl tables::Peers for Cluster {
    fn holds(&self, table: u64, fragment: u32) -> bool {
        self.members.view().holds(table, fragment)
    }

    fn owns(&self, table: u64) -> bool {
        self.members.view().owns(table)
    }

    async fn find(&self, table: &Arc<Table>, version: u64, rows: &Sought) -> Result<Option<Sip>, Fault> {
        let state = self.server.get().and_then(Weak::upgrade).ok_or_else(Fault::internal)?;
        find::find(state, table, version, rows).await
    }

    async fn committed(&self, table: &Table, version: u64) {
        self.announce(0, vec![TableVersion { table_id: table.id(), version }]).await;
    }

    async fn catalog_changed(&self, version: u64) {
        self.announce(version, Vec::new()).await;
    }
}
