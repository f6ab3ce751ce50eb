//! QueryService: rows and aggregates, sets of rows, and how they are found.

use std::{sync::Arc, time::Instant};

use basalt_core::{
    exec::{self, Control},
    plan::Plan,
    table::{Snapshot, Table},
};
use basalt_proto::v1::{self as pb, ErrorReason, query_service_server::QueryService};
use prost::{Message as _, bytes::Bytes};
use tokio::{sync::mpsc, time::timeout_at};
use tonic::{Request, Response, Status};

use super::answer::{Answer, Pieces, Sink};
use crate::{call::Call, convert, cpu::StopOnDrop, limits, state::State, status::Fault};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Query(pub(crate) Arc<State>);

#[tonic::async_trait]
impl QueryService for Query {
    type QueryStream = Answer;

    async fn query(&self, mut request: Request<pb::QueryRequest>) -> Result<Response<Answer>, Status> {
        let mut call = Call::begin("Query", &mut request);
        match self.start(&mut call, request.into_inner()).await {
            Ok(pieces) => Ok(Response::new(Answer::new(call, pieces))),
            Err(fault) => Err(call.fail(fault)),
        }
    }

    async fn select(
        &self,
        mut request: Request<pb::SelectRequest>,
    ) -> Result<Response<pb::SelectResponse>, Status> {
        let mut call = Call::begin("Select", &mut request);
        let answer = self.set(&mut call, request.into_inner()).await;
        call.reply(answer)
    }

    async fn explain(
        &self,
        mut request: Request<pb::ExplainRequest>,
    ) -> Result<Response<pb::ExplainResponse>, Status> {
        let mut call = Call::begin("Explain", &mut request);
        let answer = self.plan(&mut call, request.into_inner()).await;
        call.reply(answer)
    }
}

impl Query {
    /// The table and the version that a request is about.
    fn target(
        &self,
        call: &mut Call,
        name: &str,
        version: Option<u64>,
    ) -> Result<(Arc<Table>, Arc<Snapshot>), Fault> {
        let table = self.0.catalog.get(name)?;
        call.table = Some(Arc::clone(&table));
        let snapshot = table.snapshot_at(version).map_err(|e| e.at("version"))?;
        Ok((table, snapshot))
    }

    /// Starts a query and waits for its first piece: what fails before is the answer to the call itself.
    async fn start(&self, call: &mut Call, request: pb::QueryRequest) -> Result<Pieces, Fault> {
        let deadline = self.0.deadline(call)?;
        let (table, snapshot) = self.target(call, &request.table, request.version)?;
        let permit = self.0.cpu.admit(deadline).await?;
        let control = self.0.control();
        let stop = StopOnDrop(control.clone());
        let (sender, mut rest) = mpsc::channel(limits::WAITING_PIECES);
        let mut sink = Sink::new(sender, request.format(), call.at(), deadline);
        let stalled = sink.stalled();
        let run = move |plan: Result<Plan, Fault>, snapshot: &Snapshot| {
            let _permit = permit;
            let outcome = plan.and_then(|plan| run(&plan, snapshot, &control, &mut sink));
            sink.finish(outcome);
        };
        // What takes less time than the way to the pool and back is done here.
        let small =
            request.encoded_len() <= limits::LIGHT_REQUEST_BYTES && snapshot.rows() <= limits::LIGHT_ROWS;
        if small {
            let plan = bind(&table, &snapshot, request)?;
            if plan.effort(&snapshot) <= limits::LIGHT_EFFORT {
                run(Ok(plan), &snapshot);
            } else {
                self.0.cpu.spawn(move || run(Ok(plan), &snapshot));
            }
        } else {
            self.0.cpu.spawn(move || run(bind(&table, &snapshot, request), &snapshot));
        }
        match timeout_at(deadline.into(), rest.recv()).await {
            Ok(Some(first)) => Ok(Pieces { first: first?, rest, stop, deadline, stalled }),
            Ok(None) => Err(Fault::internal()),
            Err(_) => {
                stop.0.expire();
                Err(Fault::deadline())
            }
        }
    }

    async fn set(&self, call: &mut Call, request: pb::SelectRequest) -> Result<pb::SelectResponse, Fault> {
        let deadline = self.0.deadline(call)?;
        let (table, snapshot) = self.target(call, &request.table, request.version)?;
        let arrived = call.at();
        let select = move |control: &Control| {
            let started = Instant::now();
            let filter = convert::filter(request.filter, &request.table)?;
            let (sip, statistics) = exec::select(&table, &snapshot, filter.as_ref(), control)?;
            let bytes = sip.as_bytes();
            if bytes.len() > limits::SIP_BYTES {
                let message =
                    format!("the set takes {} bytes; a message holds {}", bytes.len(), limits::SIP_BYTES);
                return Err(Fault::new(ErrorReason::MessageTooLarge, message)
                    .with("limit_bytes", limits::SIP_BYTES as u64));
            }
            Ok(pb::SelectResponse {
                scope: Some(pb::Scope { table: request.table, version: snapshot.version() }),
                cardinality: sip.cardinality(),
                sip: Bytes::copy_from_slice(bytes),
                statistics: Some(convert::statistics(&statistics, arrived, started)),
            })
        };
        let answer = self.0.cpu.query(deadline, self.0.control(), select).await?;
        call.rows = answer.cardinality;
        call.selected = answer.cardinality;
        Ok(answer)
    }

    async fn plan(&self, call: &mut Call, request: pb::ExplainRequest) -> Result<pb::ExplainResponse, Fault> {
        let deadline = self.0.deadline(call)?;
        let query = request.query.unwrap_or_default();
        let (table, snapshot) = self.target(call, &query.table, query.version)?;
        let arrived = call.at();
        let explain = move |control: &Control| {
            let started = Instant::now();
            let query = convert::query(query).map_err(|e| e.at("query"))?;
            let plan = Plan::new(&table, &snapshot, &query).map_err(|e| e.at("query"))?;
            let explanation = plan.explain(&snapshot, request.analyze, control)?;
            let statistics = convert::statistics(&explanation.statistics, arrived, started);
            Ok(convert::explanation(explanation, snapshot.version(), statistics))
        };
        self.0.cpu.query(deadline, self.0.control(), explain).await
    }
}

fn bind(table: &Table, snapshot: &Snapshot, request: pb::QueryRequest) -> Result<Plan, Fault> {
    let query = convert::query(request)?;
    Ok(Plan::new(table, snapshot, &query)?)
}

fn run(
    plan: &Plan,
    snapshot: &Snapshot,
    control: &Control,
    sink: &mut Sink,
) -> Result<exec::Statistics, Fault> {
    sink.header(plan.schema(), snapshot.version());
    plan.run(snapshot, control, &mut |batch| sink.batch(batch)).map_err(|error| sink.fault(error))
}
