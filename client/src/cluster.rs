//! The cluster that a server belongs to.

use basalt_proto::v1::{self, GetClusterRequest, cluster_service_client::ClusterServiceClient};

use crate::{client::Client, error::Result};

/// The nodes of a cluster, what each holds, and its tables, as one node sees them.
pub type Cluster = v1::GetClusterResponse;
/// One node.
pub type Node = v1::Node;
/// What a node is good for.
pub type NodeState = v1::NodeState;

impl Client {
    /// The cluster that the server belongs to; one that is alone is its only node.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn cluster(&self) -> Result<Cluster> {
        self.retrying(|| async {
            let mut service = ClusterServiceClient::new(self.channel())
                .max_decoding_message_size(self.options().max_message_bytes);
            self.call(service.get_cluster(self.request(GetClusterRequest {}))).await
        })
        .await
    }
}
