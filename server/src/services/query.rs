//! QueryService: rows and aggregates, and how they are found; sets are in [`select`](super::select).

use std::{sync::Arc, time::Instant};

use basalt_core::{
    exec::{Control, Estimate, Explanation, Statistics},
    plan::Plan,
    query,
    table::Snapshot,
};
use basalt_proto::v1::{self as pb, query_service_server::QueryService};
use prost::Message as _;
use tonic::{Request, Response, Status};

use super::{
    answer::{Answer, Begun, Outlet, Queued, Sink, Whole},
    nodes::coordinate,
};
use crate::{
    call::Call,
    cluster::{Coordinator, Nodes as _, Pinned, Reach, explained, fetch},
    convert,
    cpu::{StopOnDrop, clock, on_own_thread},
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
        match self.start(&mut call, request.into_inner()).await {
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
        let answer = self.plan(&mut call, request.into_inner()).await;
        call.reply(answer)
    }
}

impl Query {
    /// The version of a table that a request is about, as new as what was acknowledged, and the sets of other nodes that
    /// its filters name.
    pub(super) async fn target(
        &self,
        call: &mut Call,
        (table, version): (&str, Option<u64>),
        filters: [&Option<pb::Filter>; 2],
        reach: &Reach,
        deadline: Instant,
    ) -> Result<Pinned, Fault> {
        for filter in filters {
            fetch::sets_of(&self.0, filter.as_ref(), deadline).await;
        }
        let of_rows = version.is_none().then(|| convert::version_of(table, &filters, &self.0.sets)).flatten();
        let pinned = match reach.find(table, version.or(of_rows)).await {
            // That it is gone is said where the rows are.
            Err(fault) if of_rows.is_some() && fault.reason() == "VERSION_GONE" => {
                reach.find(table, None).await?
            }
            found => found?,
        };
        panics::wanted("target", table);
        call.table = Some(Arc::clone(&pinned.table));
        Ok(pinned)
    }

    /// Starts a query and waits for its first piece: what fails before is the answer to the call itself.
    async fn start(&self, call: &mut Call, request: pb::QueryRequest) -> Result<Begun, Fault> {
        let deadline = self.0.deadline(call)?;
        let control = self.0.control();
        let reach = Reach::new(Arc::clone(&self.0), deadline, control.clone());
        let (of, filters) = ((request.table.as_str(), request.version), [&request.filter, &request.having]);
        let pinned = self.target(call, of, filters, &reach, deadline).await?;
        let stop = StopOnDrop(control.clone());
        let (format, arrived) = (request.format(), call.at());
        let job = Job { state: Arc::clone(&self.0), reach, pinned, control, format, arrived };
        let small = has_one_row(&request) && job.reach.count() == 1;
        let input = Input::Request(Box::new(request));
        if input.bytes() > limits::LIGHT_REQUEST_BYTES || job.pinned.rows() > limits::LIGHT_ROWS {
            return self.keep_if(small, call, job, input, stop, deadline).await;
        }
        // Binding takes less time than the way to the pool and back.
        let permit = self.0.cpu.admit(deadline).await?;
        let input = job.bind(input)?;
        if let Input::Plan(plan, snapshot) = &input {
            let estimate = plan.estimate(snapshot);
            let is_small = estimate.answer_bytes <= limits::LIGHT_ANSWER_BYTES;
            if is_small && estimate.effort <= limits::LIGHT_EFFORT {
                let answer = job.keep(plan, snapshot, estimate)?;
                drop(permit);
                return self.kept(call, answer, stop, deadline).await;
            }
            drop(permit);
            return self.keep_if(is_small, call, job, input, stop, deadline).await;
        }
        drop(permit);
        self.stream(call, job, input, stop, deadline).await
    }

    /// Runs a query on the pool where its answer should be small, and otherwise on a thread of its own.
    async fn keep_if(
        &self,
        small: bool,
        call: &Call,
        job: Job,
        input: Input,
        stop: StopOnDrop,
        deadline: Instant,
    ) -> Result<Begun, Fault> {
        if !small {
            return self.stream(call, job, input, stop, deadline).await;
        }
        let permit = self.0.cpu.admit(deadline).await?;
        let run = self.0.cpu.run(move || {
            let _permit = permit;
            let input = job.bind(input)?;
            if let Input::Plan(plan, snapshot) = &input {
                let estimate = plan.estimate(snapshot);
                if estimate.answer_bytes <= limits::LIGHT_ANSWER_BYTES {
                    return job.keep(plan, snapshot, estimate).map(Ran::Small);
                }
            }
            Ok(Ran::Elsewhere(Box::new(job), input))
        });
        match stop.until(deadline, run).await??? {
            Ran::Small(answer) => self.kept(call, answer, stop, deadline).await,
            Ran::Elsewhere(job, input) => self.stream(call, *job, input, stop, deadline).await,
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
        let slot = self.0.readers.admit(&call.connection(), deadline).await?;
        let (writer, reader) = self.0.readers.queue(slot, stop.0.clone());
        writer.end(Ok((messages, counts)));
        Begun::queued(reader, stop, deadline).await
    }

    /// Runs a query whose answer may be large, or that waits for others: the answer goes through a queue, from a thread
    /// that may wait for its reader.
    async fn stream(
        &self,
        call: &Call,
        job: Job,
        input: Input,
        stop: StopOnDrop,
        deadline: Instant,
    ) -> Result<Begun, Fault> {
        let slot = self.0.readers.admit(&call.connection(), deadline).await?;
        let permit = Some(self.0.cpu.admit(deadline).await?);
        let (writer, reader) = self.0.readers.queue(slot, job.control.clone());
        on_own_thread(move |may_wait| {
            let cpu = Arc::clone(&job.state.cpu);
            let outlet = Queued { writer, may_wait, cpu: &cpu, permit, deadline };
            let mut sink = Sink::new(outlet, job.format, job.arrived);
            let control = cpu.spread(may_wait, job.control.clone());
            let outcome = caught(|| match cpu.install(may_wait, || job.bind(input))? {
                Input::Plan(plan, snapshot) => {
                    panics::wanted("query", job.pinned.table.name());
                    answer(&plan, &snapshot, &control, &mut sink)
                }
                Input::Query(query) => job.coordinate(*query, &control, &mut sink),
                Input::Request(_) => Err(Fault::internal()),
            });
            sink.finish(outcome);
        });
        Begun::queued(reader, stop, deadline).await
    }

    async fn plan(&self, call: &mut Call, request: pb::ExplainRequest) -> Result<pb::ExplainResponse, Fault> {
        let (deadline, arrived) = (self.0.deadline(call)?, call.at());
        let query = request.query.unwrap_or_default();
        let control = self.0.control();
        let control = if request.analyze { control.with_clock(clock) } else { control };
        let reach = Reach::new(Arc::clone(&self.0), deadline, control.clone());
        let (of, filters) = ((query.table.as_str(), query.version), [&query.filter, &query.having]);
        let pinned = self.target(call, of, filters, &reach, deadline).await?;
        let explain = move |state: &State, control: &Control| {
            let started = Instant::now();
            panics::wanted("explain", pinned.table.name());
            let (query, _) = convert::query(query, &state.sets).map_err(|e| e.at("query"))?;
            let mut coordinator = Coordinator::new(&reach, control, request.analyze);
            coordinator.reads(&pinned);
            let (query, plan) = coordinator.resolve(&pinned, query).map_err(|e| e.at("query"))?;
            let told = |explanation: Explanation| {
                let statistics = convert::statistics(&explanation.statistics, arrived, started);
                convert::explanation(explanation, pinned.version, statistics)
            };
            if let Some(snapshot) = coordinator.whole(&pinned, &plan.columns())? {
                let mut explanation = plan.explain(&snapshot, request.analyze, control)?;
                explanation.sets.extend(coordinator.take_uses());
                return Ok(told(explanation));
            }
            let statistics = match request.analyze {
                true => coordinator.run(&pinned, &query, &plan, &mut |_| Ok(()))?,
                false => Statistics::default(),
            };
            let explanation = plan.explain(&pinned.snapshot(), false, control)?;
            let told = told(Explanation { statistics, ..explanation });
            Ok(explained(told, coordinator.into_hops()))
        };
        coordinate(&self.0, deadline, control, explain).await
    }
}

/// A query with all that it runs on.
struct Job {
    state: Arc<State>,
    reach: Reach,
    pinned: Pinned,
    control: Control,
    format: pb::Format,
    arrived: Instant,
}

/// How far a query has come.
enum Input {
    Request(Box<pb::QueryRequest>),
    /// It asks other tables or nodes, or reads what is not in memory.
    Query(Box<query::Query>),
    /// All that it reads is here.
    Plan(Box<Plan>, Arc<Snapshot>),
}

impl Input {
    fn bytes(&self) -> usize {
        match self {
            Self::Request(request) => request.encoded_len(),
            Self::Query(_) | Self::Plan(..) => 0,
        }
    }
}

/// What a query that should have a small answer comes to.
enum Ran {
    Small(Small),
    Elsewhere(Box<Job>, Input),
}

/// A whole answer.
struct Small {
    messages: Piece,
    counts: Counts,
    /// What its values take at most.
    bytes: u64,
}

impl Job {
    /// Binds a query that nothing else is needed for. It never waits.
    fn bind(&self, input: Input) -> Result<Input, Fault> {
        let Input::Request(request) = input else { return Ok(input) };
        caught(|| {
            let (query, is_alone) = convert::query(*request, &self.state.sets)?;
            panics::wanted("plan", self.pinned.table.name());
            if !is_alone || self.reach.count() > 1 {
                return Ok(Input::Query(Box::new(query)));
            }
            let plan = Plan::new(&self.pinned.table, &self.pinned.snapshot(), &query)?;
            let coordinator = Coordinator::new(&self.reach, &self.control, false);
            Ok(match coordinator.whole(&self.pinned, &plan.columns())? {
                Some(snapshot) => Input::Plan(Box::new(plan), snapshot),
                None => Input::Query(Box::new(query)),
            })
        })
    }

    /// A small answer.
    fn keep(&self, plan: &Plan, snapshot: &Snapshot, estimate: Estimate) -> Result<Small, Fault> {
        let mut sink = Sink::new(Whole::default(), self.format, self.arrived);
        // Here, so that it is the same on the CPU pool and on an async thread.
        let outcome = caught(|| {
            panics::wanted("query", self.pinned.table.name());
            answer(plan, snapshot, &self.control, &mut sink)
        });
        let (messages, counts) = sink.finish(outcome)?;
        Ok(Small { messages, counts, bytes: estimate.answer_bytes })
    }

    /// Answers with what others do for it. It waits for them.
    fn coordinate<O: Outlet>(
        &self,
        query: query::Query,
        control: &Control,
        sink: &mut Sink<O>,
    ) -> Result<Statistics, Fault> {
        let mut coordinator = Coordinator::new(&self.reach, control, false);
        coordinator.reads(&self.pinned);
        panics::wanted("query", self.pinned.table.name());
        panics::wanted("coordinate", self.pinned.table.name());
        let (query, plan) = coordinator.resolve(&self.pinned, query)?;
        sink.header(plan.schema(), self.pinned.version);
        let ran = coordinator.run(&self.pinned, &query, &plan, &mut |batch| sink.batch(batch));
        ran.map_err(|fault| sink.kept_fault().unwrap_or(fault))
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
