//! QueryService: rows and aggregates, and how they are found; sets are in [`select`](super::select).

use std::{sync::Arc, time::Instant};

use basalt_core::{
    exec::{self, Control, Estimate, Statistics},
    plan::Plan,
    query,
    table::{Snapshot, Table},
};
use basalt_proto::v1::{self as pb, query_service_server::QueryService};
use prost::Message as _;
use tonic::{Request, Response, Status};

use super::{
    answer::{Answer, Begun, Outlet, Queued, Sink, Whole},
    nodes,
};
use crate::{
    call::Call,
    class::Class,
    cluster::fresh,
    convert,
    cpu::{Permit, StopOnDrop, clock, on_own_thread_as},
    limits,
    panics::{self, caught},
    readers::{Counts, Piece},
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
            Ok(begun) => Ok(Response::new(Answer::new(call, begun))),
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
    async fn start(&self, call: &mut Call, request: pb::QueryRequest) -> Result<Begun, Fault> {
        let deadline = self.0.deadline(call)?;
        let control = self.0.control();
        fresh::table_until(&self.0, &request.table, deadline).await?;
        let (table, snapshot) = self.target(call, &request.table, request.version, &control)?;
        let stop = StopOnDrop(control.clone());
        let (format, arrived) = (request.format(), call.at());
        let job = Job { state: Arc::clone(&self.0), table, snapshot, control, format, arrived };
        let one_row = has_one_row(&request);
        // Binding takes less time than the way to a pool and back, unless there is much to bind or to prune.
        let here =
            request.encoded_len() <= limits::LIGHT_REQUEST_BYTES && job.snapshot.rows() <= limits::LIGHT_ROWS;
        let permit = self.0.cpu.admit(Class::Short, deadline).await?;
        let (job, begun) = match here {
            true => {
                let begun = job.begin(request)?;
                (job, begun)
            }
            false => {
                let begin = move || job.begin(request).map(|begun| (job, begun));
                stop.until(deadline, self.0.cpu.run_as(Class::Short, begin)).await???
            }
        };
        let (input, class, is_small) = match begun {
            Begin::Query(query) => (Input::Query(query), Class::Long, one_row),
            Begin::Plan(plan, estimate) => {
                let is_small = estimate.answer_bytes <= limits::LIGHT_ANSWER_BYTES;
                if here && is_small && estimate.effort <= limits::LIGHT_EFFORT {
                    let answer = job.keep(&plan, estimate)?;
                    drop(permit);
                    return self.kept(call, answer, stop, deadline).await;
                }
                (Input::Plan(plan), Class::of(estimate), is_small)
            }
        };
        match (is_small, class) {
            (true, Class::Short) => self.keep(call, job, input, permit, stop, deadline).await,
            (true, Class::Long) => {
                drop(permit);
                let permit = self.0.cpu.admit(class, deadline).await?;
                self.keep(call, job, input, permit, stop, deadline).await
            }
            (false, _) => {
                drop(permit);
                self.stream(call, job, input, class, stop, deadline).await
            }
        }
    }

    /// Runs a query whose answer should be small, and keeps the answer.
    async fn keep(
        &self,
        call: &Call,
        job: Job,
        input: Input,
        permit: Permit,
        stop: StopOnDrop,
        deadline: Instant,
    ) -> Result<Begun, Fault> {
        let class = permit.class();
        let run = self.0.cpu.run_query(permit, job.control.clone(), move |control| {
            let job = Job { control, ..job };
            let plan = job.plan(input)?;
            let estimate = plan.estimate(&job.snapshot);
            if estimate.answer_bytes > limits::LIGHT_ANSWER_BYTES {
                return Ok(Ran::TooLarge(job, Box::new(plan)));
            }
            job.keep(&plan, estimate).map(Ran::Small)
        });
        match stop.until(deadline, run).await?? {
            Ran::Small(answer) => self.kept(call, answer, stop, deadline).await,
            Ran::TooLarge(job, plan) => {
                self.stream(call, job, Input::Plan(*plan), class, stop, deadline).await
            }
        }
    }

    /// A small answer, which needs a slot only where many others are unread.
    async fn kept(
        &self,
        call: &Call,
        answer: Small,
        stop: StopOnDrop,
        deadline: Instant,
    ) -> Result<Begun, Fault> {
        let Small { messages, counts, bytes } = answer;
        if let Some(kept) = self.0.readers.keep(bytes) {
            return Ok(Begun::Whole { messages, counts, _kept: kept });
        }
        let slot = self.0.readers.admit(&call.connection(), Class::Short, deadline).await?;
        let (writer, reader) = self.0.readers.queue(slot, stop.0.clone());
        writer.end(Ok((messages, counts)));
        Begun::queued(reader, stop, deadline).await
    }

    /// Runs a query whose answer may be large: it goes through a queue, from a thread that may wait for its reader.
    async fn stream(
        &self,
        call: &Call,
        job: Job,
        input: Input,
        class: Class,
        stop: StopOnDrop,
        deadline: Instant,
    ) -> Result<Begun, Fault> {
        let slot = self.0.readers.admit(&call.connection(), class, deadline).await?;
        let permit = self.0.cpu.admit(class, deadline).await?;
        let (writer, reader) = self.0.readers.queue(slot, job.control.clone());
        on_own_thread_as(class, move |may_wait| {
            let cpu = Arc::clone(&job.state.cpu);
            let outlet = Queued { writer, may_wait, cpu: &cpu, class, permit: Some(permit), deadline };
            let mut sink = Sink::new(outlet, job.format, job.arrived);
            let job = Job { control: cpu.spread(may_wait, class, job.control.clone()), ..job };
            let outcome = caught(|| {
                let plan = job.plan(input)?;
                panics::wanted("query", job.table.name());
                answer(&plan, &job.snapshot, &job.control, &mut sink)
            });
            sink.finish(outcome);
        });
        Begun::queued(reader, stop, deadline).await
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
    format: pb::Format,
    arrived: Instant,
}

/// How far a query has come.
enum Input {
    Query(query::Query),
    Plan(Plan),
}

/// What a request says of its query before anything is run.
enum Begin {
    /// Other tables are asked first, or kept sets are read.
    Query(query::Query),
    Plan(Plan, Estimate),
}

/// What a query that should have a small answer comes to.
enum Ran {
    Small(Small),
    TooLarge(Job, Box<Plan>),
}

/// A whole answer.
struct Small {
    messages: Piece,
    counts: Counts,
    /// What its values take at most.
    bytes: u64,
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

    /// Reads a request, and plans it where that takes nothing else.
    fn begin(&self, request: pb::QueryRequest) -> Result<Begin, Fault> {
        let (query, self_contained) = convert::query(request, &self.state.sets)?;
        if !self_contained {
            return Ok(Begin::Query(query));
        }
        let plan = self.bind(query)?;
        let estimate = plan.estimate(&self.snapshot);
        Ok(Begin::Plan(plan, estimate))
    }

    fn plan(&self, input: Input) -> Result<Plan, Fault> {
        match input {
            Input::Query(query) => self.bind(query),
            Input::Plan(plan) => Ok(plan),
        }
    }

    /// A small answer.
    fn keep(&self, plan: &Plan, estimate: Estimate) -> Result<Small, Fault> {
        let mut sink = Sink::new(Whole::default(), self.format, self.arrived);
        // Here, so that it is the same on the CPU pool and on an async thread.
        let outcome = caught(|| {
            panics::wanted("query", self.table.name());
            answer(plan, &self.snapshot, &self.control, &mut sink)
        });
        let (messages, counts) = sink.finish(outcome)?;
        Ok(Small { messages, counts, bytes: estimate.answer_bytes })
    }
}

fn answer<O: Outlet>(
    plan: &Plan,
    snapshot: &Snapshot,
    control: &Control,
    sink: &mut Sink<O>,
) -> Result<Statistics, Fault> {
    sink.header(plan.schema(), snapshot.version());
    plan.run(snapshot, control, &mut |batch| sink.batch(batch)).map_err(|error| sink.fault(error))
}

/// Whether the answer is one row of aggregates, as far as the request tells.
fn has_one_row(request: &pb::QueryRequest) -> bool {
    let is_aggregate = |item: &pb::SelectItem| {
        matches!(item.expr.as_ref().and_then(|expr| expr.kind.as_ref()), Some(pb::expr::Kind::Aggregate(_)))
    };
    request.group_by.is_empty() && request.select.iter().any(is_aggregate)
}
