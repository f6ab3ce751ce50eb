//! QueryService: rows and aggregates, and how they are found; sets are in [`select`](super::select).

use std::{sync::Arc, time::Instant};

use basalt_core::{
    exec::{self, Control},
    plan::Plan,
    query,
    table::{Snapshot, Table},
};
use basalt_proto::v1::{self as pb, query_service_server::QueryService};
use prost::Message as _;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tonic::{Request, Response, Status};

use super::{
    answer::{Answer, Pieces, Sink},
    nodes,
};
use crate::{
    call::Call,
    cluster::fresh,
    convert,
    cpu::{StopOnDrop, clock},
    limits,
    panics::{self, caught},
    state::State,
    status::Fault,
};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Query(pub(crate) Arc<State>);

#[tonic::async_trait]
impl QueryService for Query {
    type QueryStream = Answer;

    async fn query(&self, mut request: Request<pb::QueryRequest>) -> Result<Response<Answer>, Status> {
        let mut call = Call::begin("Query", &mut request);
        let request = request.into_inner();
        let started = match nodes::in_cluster(&self.0) {
            true => self.start_at_nodes(&mut call, request).await,
            false => self.start(&mut call, request).await,
        };
        match started {
            Ok(pieces) => Ok(Response::new(Answer::new(call, pieces))),
            Err(fault) => Err(call.fail(fault)),
        }
    }

    async fn select(
        &self,
        mut request: Request<pb::SelectRequest>,
    ) -> Result<Response<pb::SelectResponse>, Status> {
        let mut call = Call::begin("Select", &mut request);
        let answer = self.select_set(&mut call, request.into_inner()).await;
        call.reply(answer)
    }

    async fn explain(
        &self,
        mut request: Request<pb::ExplainRequest>,
    ) -> Result<Response<pb::ExplainResponse>, Status> {
        let mut call = Call::begin("Explain", &mut request);
        let request = request.into_inner();
        let answer = match nodes::in_cluster(&self.0) {
            true => self.plan_at_nodes(&mut call, request).await,
            false => self.plan(&mut call, request).await,
        };
        call.reply(answer)
    }
}

impl Query {
    /// The table and the version that a request is about.
    pub(super) fn target(
        &self,
        call: &mut Call,
        name: &str,
        version: Option<u64>,
        control: &Control,
    ) -> Result<(Arc<Table>, Arc<Snapshot>), Fault> {
        let table = self.0.catalog.get(name)?;
        panics::wanted("target", name);
        call.table = Some(Arc::clone(&table));
        let snapshot = table.seen_at(version, control.time()).map_err(|e| e.at("version"))?;
        Ok((table, snapshot))
    }

    /// Starts a query and waits for its first piece: what fails before is the answer to the call itself.
    async fn start(&self, call: &mut Call, request: pb::QueryRequest) -> Result<Pieces, Fault> {
        let deadline = self.0.deadline(call)?;
        let control = self.0.control();
        fresh::table_until(&self.0, &request.table, deadline).await?;
        let (table, snapshot) = self.target(call, &request.table, request.version, &control)?;
        let permit = self.0.cpu.admit(deadline).await?;
        let stop = StopOnDrop(control.clone());
        let (sender, rest) = mpsc::channel(limits::WAITING_PIECES);
        let sink = Sink::new(sender, request.format(), call.at(), deadline);
        let stalled = sink.stalled();
        let (state, cpu) = (Arc::clone(&self.0), &self.0.cpu);
        // What takes less time than the way to the pool and back is done here.
        let small =
            request.encoded_len() <= limits::LIGHT_REQUEST_BYTES && snapshot.rows() <= limits::LIGHT_ROWS;
        let job = Job { state, table, snapshot, control, sink, _permit: permit };
        if small {
            let (query, self_contained) = convert::query(request, &self.0.sets)?;
            if self_contained {
                let plan = job.bind(query)?;
                if plan.effort(&job.snapshot) <= limits::LIGHT_EFFORT {
                    job.run(Ok(plan));
                } else {
                    cpu.spawn(move || job.run(Ok(plan)));
                }
            } else {
                cpu.spawn(move || {
                    let plan = job.bind(query);
                    job.run(plan);
                });
            }
        } else {
            cpu.spawn(move || {
                let query = caught(|| convert::query(request, &job.state.sets));
                let plan = query.and_then(|(query, _)| job.bind(query));
                job.run(plan);
            });
        }
        Pieces::begin(rest, stop, deadline, stalled).await
    }

    async fn plan(&self, call: &mut Call, request: pb::ExplainRequest) -> Result<pb::ExplainResponse, Fault> {
        let deadline = self.0.deadline(call)?;
        let query = request.query.unwrap_or_default();
        let control = self.0.control();
        fresh::table_until(&self.0, &query.table, deadline).await?;
        let (table, snapshot) = self.target(call, &query.table, query.version, &control)?;
        let (state, arrived) = (Arc::clone(&self.0), call.at());
        let explain = move |control: &Control| {
            let started = Instant::now();
            panics::wanted("explain", table.name());
            let (mut query, _) = convert::query(query, &state.sets).map_err(|e| e.at("query"))?;
            let inner = exec::resolve(&state.catalog, &table, &snapshot, &mut query, control)
                .map_err(|e| e.at("query"))?;
            let plan = Plan::new(&table, &snapshot, &query).map_err(|e| e.at("query"))?;
            let mut explanation = plan.explain(&snapshot, request.analyze, control)?;
            explanation.sets.extend(inner);
            let statistics = convert::statistics(&explanation.statistics, arrived, started);
            Ok(convert::explanation(explanation, snapshot.version(), statistics))
        };
        let control = if request.analyze { control.with_clock(clock) } else { control };
        self.0.cpu.query(deadline, control, explain).await
    }
}

/// A query with all that it runs on.
struct Job {
    state: Arc<State>,
    table: Arc<Table>,
    snapshot: Arc<Snapshot>,
    control: Control,
    sink: Sink,
    _permit: OwnedSemaphorePermit,
}

impl Job {
    /// Runs the semi-joins of a query, and plans the rest.
    fn bind(&self, mut query: query::Query) -> Result<Plan, Fault> {
        caught(|| {
            panics::wanted("plan", self.table.name());
            exec::resolve(&self.state.catalog, &self.table, &self.snapshot, &mut query, &self.control)?;
            Ok(Plan::new(&self.table, &self.snapshot, &query)?)
        })
    }

    /// Answers.
    fn run(mut self, plan: Result<Plan, Fault>) {
        let Self { table, snapshot, control, sink, .. } = &mut self;
        // Here, so that it is the same on the CPU pool and on an async thread.
        let outcome = caught(|| {
            let plan = plan?;
            sink.header(plan.schema(), snapshot.version());
            panics::wanted("query", table.name());
            plan.run(snapshot, control, &mut |batch| sink.batch(batch)).map_err(|error| sink.fault(error))
        });
        self.sink.finish(outcome);
    }
}
