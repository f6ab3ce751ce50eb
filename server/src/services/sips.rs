//! SipService: the sets that clients keep on the server.

use std::{sync::Arc, time::Duration};

use basalt_proto::v1::{self as pb, sip_service_server::SipService};
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use crate::{
    call::Call, convert, limits, peers::fetch, sets::KeptSet, state::State, status::Result, units::millis,
};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Sips(pub(crate) Arc<State>);

#[tonic::async_trait]
impl SipService for Sips {
    async fn put(
        &self,
        mut request: Request<pb::PutSipRequest>,
    ) -> std::result::Result<Response<pb::PutSipResponse>, Status> {
        let mut call = Call::begin("PutSip", &mut request);
        let answer = self.put_set(&mut call, request.into_inner()).await;
        call.reply(answer)
    }

    async fn get(
        &self,
        mut request: Request<pb::GetSipRequest>,
    ) -> std::result::Result<Response<pb::GetSipResponse>, Status> {
        let mut call = Call::begin("GetSip", &mut request);
        let answer = self.get_set(&mut call, &request.into_inner()).await;
        call.reply(answer)
    }

    async fn delete(
        &self,
        mut request: Request<pb::DeleteSipRequest>,
    ) -> std::result::Result<Response<pb::DeleteSipResponse>, Status> {
        let call = Call::begin("DeleteSip", &mut request);
        let existed = self.0.sets.delete(&request.into_inner().handle, Instant::now());
        call.reply(Ok(pb::DeleteSipResponse { existed }))
    }
}

impl Sips {
    async fn put_set(&self, call: &mut Call, request: pb::PutSipRequest) -> Result<pb::PutSipResponse> {
        let state = Arc::clone(&self.0);
        let put = move |_: &_| {
            let (scope, sip) = (convert::scope(request.scope)?, Arc::new(convert::sip(request.sip)?));
            let cardinality = sip.cardinality();
            let time = match request.ttl_ms {
                0 => limits::DEFAULT_KEEP,
                ms => Duration::from_millis(ms),
            };
            let (handle, left) = state.sets.keep(KeptSet { scope, sip }, time, Instant::now())?;
            Ok(pb::PutSipResponse { handle: handle.to_vec(), expires_ms: millis(left), cardinality })
        };
        let answer = self.0.cpu.query(self.0.deadline(call)?, self.0.control(), put).await?;
        call.rows = answer.cardinality;
        Ok(answer)
    }

    async fn get_set(&self, call: &mut Call, request: &pb::GetSipRequest) -> Result<pb::GetSipResponse> {
        fetch::set(&self.0, &request.handle, self.0.deadline(call)?).await;
        let (set, left) = self.0.sets.get(&request.handle, Instant::now()).map_err(|e| e.at("handle"))?;
        call.rows = set.sip.cardinality();
        Ok(pb::GetSipResponse {
            sip: convert::to_sip(&set.sip)?,
            cardinality: set.sip.cardinality(),
            scope: Some(convert::to_scope(set.scope)),
            expires_ms: millis(left),
        })
    }
}
