//! ClusterService: the nodes as this one sees them.

use std::sync::Arc;

use basalt_proto::v1::{self as pb, cluster_service_server::ClusterService};
use tonic::{Request, Response, Status};

use crate::{call::Call, peers, state::State};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Cluster(pub(crate) Arc<State>);

#[tonic::async_trait]
impl ClusterService for Cluster {
    async fn get_cluster(
        &self,
        request: Request<pb::GetClusterRequest>,
    ) -> Result<Response<pb::GetClusterResponse>, Status> {
        let (call, _) = Call::begin(request)?;
        call.reply(Ok(peers::overview(&self.0).await))
    }
}
