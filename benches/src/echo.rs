//! A bare tonic unary echo: what the protocol alone costs.

use tonic::{Request, Response, Status};

/// The generated service.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "generated"
)]
pub mod proto {
    tonic::include_proto!("echo");
}

/// Answers with the request's payload.
#[derive(Clone, Copy, Debug, Default)]
pub struct EchoService;

#[tonic::async_trait]
impl proto::echo_server::Echo for EchoService {
    async fn call(&self, request: Request<proto::Message>) -> Result<Response<proto::Message>, Status> {
        Ok(Response::new(request.into_inner()))
    }
}
