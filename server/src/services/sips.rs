//! SipService: the sets that clients keep on the server.

use std::{sync::Arc, time::Duration};

use basalt_proto::v1::{self as pb, sip_service_server::SipService};
use tokio::time::{Instant, timeout_at};
use tonic::{Request, Response, Status};

use crate::{
    call::Call,
    convert,
    coordinator::fresh,
    limits,
    peers::fetch,
    sets::{Handle, Keeper, KeptSet},
    state::State,
    status::{RequestError, Result},
    units::millis,
};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Sips(pub(crate) Arc<State>);

#[tonic::async_trait]
impl SipService for Sips {
    async fn put(
        &self,
        request: Request<pb::PutSipRequest>,
    ) -> std::result::Result<Response<pb::PutSipResponse>, Status> {
        let (mut call, request) = Call::begin(request)?;
        let answer = self.put_set(&mut call, request).await;
        call.reply(answer)
    }

    async fn get(
        &self,
        request: Request<pb::GetSipRequest>,
    ) -> std::result::Result<Response<pb::GetSipResponse>, Status> {
        let (mut call, request) = Call::begin(request)?;
        let answer = self.get_set(&mut call, &request).await;
        call.reply(answer)
    }

    async fn delete(
        &self,
        request: Request<pb::DeleteSipRequest>,
    ) -> std::result::Result<Response<pb::DeleteSipResponse>, Status> {
        let (call, request) = Call::begin(request)?;
        let now = Instant::now();
        let found = self.0.sets.get(&request.handle, now);
        let known = found.is_ok();
        let deleted = match found {
            Ok((set, _)) => set.scope.may_be_read(call.caller()),
            Err(_) => Ok(()),
        };
        let deleted = deleted.map(|()| self.0.sets.delete(call.caller(), &request.handle, now));
        // Of one that is not there, or not here, there is nothing to tell.
        if let Ok(existed) = deleted
            && known
        {
            let digits = request.handle.iter().take(size_of::<Handle>()).map(|byte| format!("{byte:02x}"));
            call.caller().did("drop", "kept set", &digits.collect::<String>(), existed);
        }
        call.reply(deleted.map(|existed| pb::DeleteSipResponse { existed }))
    }
}

impl Sips {
    async fn put_set(&self, call: &mut Call, request: pb::PutSipRequest) -> Result<pb::PutSipResponse> {
        let (state, scope) = (Arc::clone(&self.0), convert::scope(request.scope)?);
        scope.may_be_read(call.caller())?;
        let deadline = self.0.deadline(call)?;
        let pin = timeout_at(deadline, fresh::pin_set(&self.0, &scope)).await;
        let pin = pin.map_err(|_| RequestError::deadline())??;
        let keeper = Keeper::new(call.caller());
        let put = move |_: &_| {
            let sip = Arc::new(convert::sip(request.sip)?);
            let cardinality = sip.cardinality();
            let time = match request.ttl_ms {
                0 => limits::DEFAULT_KEEP,
                ms => Duration::from_millis(ms),
            };
            let (handle, left) =
                state.sets.keep(keeper, KeptSet { scope, sip }, pin, time, Instant::now())?;
            Ok(pb::PutSipResponse { handle: handle.to_vec(), expires_ms: millis(left), cardinality })
        };
        let answer = self.0.cpu.query(deadline, self.0.control_of(call.caller()), put).await?;
        call.rows = answer.cardinality;
        Ok(answer)
    }

    async fn get_set(&self, call: &mut Call, request: &pb::GetSipRequest) -> Result<pb::GetSipResponse> {
        let deadline = self.0.deadline(call)?;
        fetch::set(&self.0, call.caller(), &request.handle, deadline).await?;
        let (set, left) = self.0.sets.get(&request.handle, Instant::now()).map_err(|e| e.at("handle"))?;
        set.scope.may_be_read(call.caller())?;
        call.rows = set.sip.cardinality();
        Ok(pb::GetSipResponse {
            sip: convert::to_sip(&set.sip)?,
            cardinality: set.sip.cardinality(),
            scope: Some(convert::to_scope(set.scope)),
            expires_ms: millis(left),
        })
    }
}
