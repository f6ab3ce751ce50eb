//! The cluster that a server belongs to.

use basalt_proto::v1;

use crate::{
    client::Client,
    error::Result,
    mirror::{all, mirror},
};

/// The nodes of a cluster, what each holds, and its tables, as one node sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cluster {
    /// By name; a server without peers is its only node.
    pub nodes: Vec<Node>,
    /// How many nodes hold each fragment.
    pub replication: u32,
    /// The newest versions that any of them knows, by name.
    pub tables: Vec<ClusterTable>,
}

/// One node. Of one that was never reached there is nothing but the name and the state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// As the others reach it; empty for a server without a cluster.
    pub name: String,
    /// What it is good for.
    pub state: NodeState,
    /// It is the one that was asked.
    pub own: bool,
    /// Of the program.
    pub version: String,
    /// Milliseconds since its start.
    pub uptime_ms: u64,
    /// Milliseconds since its last answer.
    pub silent_ms: u64,
    /// Bytes that it takes.
    pub memory_bytes: u64,
    /// Bytes that it may take.
    pub memory_limit_bytes: u64,
    /// What it holds.
    pub tables: Vec<NodeTable>,
}

/// What a node is good for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeState {
    /// A newer server says something else.
    #[default]
    Unknown,
    /// It answers.
    Alive,
    /// Its last answer is due; it is asked last.
    Suspect,
    /// It has not answered for a while, and is not asked to work.
    Dead,
    /// It answers, and speaks another version of the nodes' protocol.
    Incompatible,
    /// It answers, and does not take requests: it loads its fragments, or is about to stop.
    NotReady,
}

mirror! {
    /// What a node holds of a table.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    NodeTable {
        /// The table.
        name: String,
        /// The newest version that the node knows.
        version: u64,
        /// Versions behind the newest that any node knows.
        lag: u64,
        /// Fragments.
        fragments: u64,
        /// Their rows.
        rows: u64,
        /// Their bytes.
        bytes: u64,
    }

    /// A table of the cluster.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    ClusterTable {
        /// Its name.
        name: String,
        /// The newest version that any node knows.
        version: u64,
        /// Its fragments.
        fragments: u64,
        /// Its rows.
        rows: u64,
    }
}

impl NodeState {
    /// Its name: `alive`, `not_ready`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unspecified",
            Self::Alive => "alive",
            Self::Suspect => "suspect",
            Self::Dead => "dead",
            Self::Incompatible => "incompatible",
            Self::NotReady => "not_ready",
        }
    }
}

impl From<v1::NodeState> for NodeState {
    fn from(state: v1::NodeState) -> Self {
        match state {
            v1::NodeState::Unspecified => Self::Unknown,
            v1::NodeState::Alive => Self::Alive,
            v1::NodeState::Suspect => Self::Suspect,
            v1::NodeState::Dead => Self::Dead,
            v1::NodeState::Incompatible => Self::Incompatible,
            v1::NodeState::NotReady => Self::NotReady,
        }
    }
}

impl From<v1::Node> for Node {
    fn from(node: v1::Node) -> Self {
        Self {
            state: node.state().into(),
            name: node.name,
            own: node.own,
            version: node.version,
            uptime_ms: node.uptime_ms,
            silent_ms: node.silent_ms,
            memory_bytes: node.memory_bytes,
            memory_limit_bytes: node.memory_limit_bytes,
            tables: all(node.tables),
        }
    }
}

impl From<v1::GetClusterResponse> for Cluster {
    fn from(cluster: v1::GetClusterResponse) -> Self {
        let v1::GetClusterResponse { nodes, replication, tables } = cluster;
        Self { nodes: all(nodes), replication, tables: all(tables) }
    }
}

impl Client {
    /// The cluster that the server belongs to; one that is alone is its only node.
    ///
    /// # Errors
    /// Those of any call.
    ///
    /// ```no_run
    /// # async fn example(client: &basalt_client::Client) -> basalt_client::Result<()> {
    /// use basalt_client::NodeState;
    ///
    /// let cluster = client.cluster().await?;
    /// let alive = cluster.nodes.iter().filter(|node| node.state == NodeState::Alive).count();
    /// println!("{alive} of {} nodes answer", cluster.nodes.len());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn cluster(&self) -> Result<Cluster> {
        let answer = self.retrying(|call| async move {
            let request = call.request(v1::GetClusterRequest {})?;
            call.call(call.cluster_service().get_cluster(request)).await
        });
        answer.await.map(Cluster::from)
    }
}
