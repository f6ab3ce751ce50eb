//! SqlService: statements over all tables.

use std::sync::Arc;

use basalt_proto::v1::{self as pb, sql_service_server::SqlService};
use tonic::{Request, Response, Status};

use super::answer::Answer;
#[cfg(not(feature = "sql"))]
use crate::state::State;

/// See the module.
#[cfg(not(feature = "sql"))]
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "with the feature it is read")]
pub(crate) struct Sql(pub(crate) Arc<State>);

#[cfg(not(feature = "sql"))]
#[tonic::async_trait]
impl SqlService for Sql {
    type QueryStream = Answer;

    async fn query(&self, _: Request<pb::SqlRequest>) -> Result<Response<Answer>, Status> {
        let message = "this server is built without the feature `sql`: it has no SqlService";
        Err(Status::unimplemented(message))
    }
}

#[cfg(feature = "sql")]
pub(crate) use with_sql::Sql;

#[cfg(feature = "sql")]
mod with_sql {
    use basalt_core::error::Error as EngineError;

    use super::{Answer, Arc, Request, Response, SqlService, Status, pb};
    use crate::{
        call::Call,
        convert,
        cpu::{on_own_thread_as, until_stopped},
        panics::caught,
        queries::Listed,
        services::answer::{Begun, Queued, Sink},
        sql::{self, Running, Statement},
        state::State,
        status::{RequestError, Result},
    };

    /// See the module.
    #[derive(Clone, Debug)]
    pub(crate) struct Sql(pub(crate) Arc<State>);

    impl Sql {
        /// Plans a statement, begins to run it and waits for its first piece.
        async fn start(&self, call: &mut Call, request: pb::SqlRequest) -> Result<Begun> {
            let state = &self.0;
            let deadline = state.deadline(call)?;
            let (format, arrived) = (request.format(), call.at());
            let parameters = convert::parameters(request.parameters)?;
            let running = call.take_running();
            let connection = call.connection();
            let (sql, caller, method) = (request.sql, call.caller(), call.label());
            let connection = &connection;
            let statement = Statement { sql, parameters, caller, method, connection, deadline, running };
            let Running { mut answer, tables, control, stop, deadline, class, permit, slot, .. } =
                statement.begin(state).await?;
            let slot = slot.ok_or_else(RequestError::internal)?;
            let (writer, reader) = state.readers.queue(slot, control.stop().clone());
            let entry = stop.listed().map(Listed::entry);
            let server = Arc::clone(state);
            on_own_thread_as(&state.environment, class, move |may_wait| {
                let (cpu, permit) = (&server.cpu, Some(permit));
                let outlet = Queued { writer, may_wait, cpu, class, permit, deadline };
                let mut sink = Sink::new(outlet, format, arrived);
                if let Some(entry) = entry {
                    sink = sink.seen_as(&entry);
                }
                let outcome = caught(|| {
                    sink.header(answer.schema(), 0);
                    loop {
                        let next = async { answer.next().await.map_err(sql::error) };
                        match may_wait.wait(until_stopped(&control, deadline, next))? {
                            Some(batch) if batch.num_rows() == 0 => {}
                            Some(batch) => {
                                sink.batch(batch).map_err(|error: EngineError| sink.error(error))?
                            }
                            None => return Ok(tables.statistics()),
                        }
                    }
                });
                sink.read(tables.versions());
                sink.finish(outcome);
            });
            Begun::queued(reader, stop, deadline).await
        }
    }

    #[tonic::async_trait]
    impl SqlService for Sql {
        type QueryStream = Answer;

        async fn query(
            &self,
            request: Request<pb::SqlRequest>,
        ) -> std::result::Result<Response<Answer>, Status> {
            let (mut call, request) = Call::begin(request)?;
            match self.start(&mut call, request).await {
                Ok(begun) => Ok(Response::new(Answer::new(call, begun))),
                Err(error) => Err(call.fail(error)),
            }
        }
    }
}
