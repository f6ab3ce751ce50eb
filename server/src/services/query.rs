//! QueryService: rows and aggregates, and how they are found; sets are in [`select`](super::select).

use std::sync::Arc;

use basalt_core::{
    exec::{Control, Estimate, Explanation, Statistics},
    plan::{Plan, query_text},
    query,
    table::Snapshot,
};
use basalt_proto::v1::{self as pb, query_service_server::QueryService};
use prost::Message as _;
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use super::answer::{Answer, Begun, Outlet, Queued, Sink, Small, Whole};
use crate::{
    cache::Purpose,
    call::Call,
    class::Class,
    connection::Asking,
    convert,
    coordinator::{self, Coordinator, Nodes as _, Pinned, Reach, coordinate, explained, nodes_of},
    cpu::{StopOnDrop, clock, on_own_thread_as},
    limits,
    panics::{self, caught},
    peers::{self, fetch},
    plan_summary::Scanned,
    queries::Entry,
    state::State,
    status::RequestError,
    trace,
};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Query(pub(crate) Arc<State>);

#[tonic::async_trait]
impl QueryService for Query {
    type QueryStream = Answer;

    async fn query(&self, request: Request<pb::QueryRequest>) -> Result<Response<Answer>, Status> {
        let (mut call, request) = Call::begin(request)?;
        match self.start(&mut call, request).await {
            Ok(begun) => Ok(Response::new(Answer::new(call, begun))),
            Err(error) => Err(call.fail(error)),
        }
    }

    async fn select(
        &self,
        request: Request<pb::SelectRequest>,
    ) -> Result<Response<pb::SelectResponse>, Status> {
        let (mut call, request) = Call::begin(request)?;
        let answer = self.select_set(&mut call, request).await;
        call.reply(answer)
    }

    async fn explain(
        &self,
        request: Request<pb::ExplainRequest>,
    ) -> Result<Response<pb::ExplainResponse>, Status> {
        let (mut call, request) = Call::begin(request)?;
        let answer = self.plan(&mut call, request).await;
        call.reply(answer)
    }

    async fn list_queries(
        &self,
        request: Request<pb::ListQueriesRequest>,
    ) -> Result<Response<pb::ListQueriesResponse>, Status> {
        let (call, _) = Call::begin(request)?;
        let listed = peers::running(&self.0, call.caller()).await;
        call.reply(Ok(listed))
    }

    async fn cancel_query(
        &self,
        request: Request<pb::CancelQueryRequest>,
    ) -> Result<Response<pb::CancelQueryResponse>, Status> {
        let (call, request) = Call::begin(request)?;
        let cancelled = peers::cancel(&self.0, call.caller(), &request.id).await;
        call.reply(cancelled.map(|()| pb::CancelQueryResponse {}))
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
    ) -> Result<Pinned, RequestError> {
        for filter in filters {
            fetch::sets_of(&self.0, call.caller(), filter.as_ref(), deadline).await?;
        }
        let of_rows = version.is_none().then(|| convert::version_of(table, &filters, &self.0.sets)).flatten();
        let pinned = match reach.find(table, version.or(of_rows)).await {
            // That it is gone is said where the rows are.
            Err(error) if of_rows.is_some() && error.reason() == "VERSION_GONE" => {
                reach.find(table, None).await?
            }
            found => found?,
        };
        panics::wanted("target", table);
        call.table = Some(Arc::clone(&pinned.table));
        Ok(pinned)
    }

    /// Starts a query and waits for its first piece: what fails before is the answer to the call itself.
    async fn start(&self, call: &mut Call, request: pb::QueryRequest) -> Result<Begun, RequestError> {
        let deadline = self.0.deadline(call)?;
        let control = self.0.control_of(call.caller());
        let reach = Reach::new(Arc::clone(&self.0), call.caller(), deadline, control.clone());
        let (of, filters) = ((request.table.as_str(), request.version), [&request.filter, &request.having]);
        let pinned = self.target(call, of, filters, &reach, deadline).await?;
        let listed = self.0.list(call, &control);
        let entry = listed.entry();
        let stop = StopOnDrop::of_query(listed, &control);
        let (format, arrived) = (request.format(), call.at());
        let job = Job { state: Arc::clone(&self.0), reach, pinned, control, entry, format, arrived };
        // Binding takes less time than the way to a pool and back, unless there is much to bind or to prune.
        let table = (job.pinned.version.rows(), job.pinned.fragments.len());
        let here = Class::is_light_to_bind(request.encoded_len(), [table]);
        let asking = call.connection().asks();
        let permit = asking.admit(&self.0.cpu, Class::Short, deadline).await?;
        let (job, bound) = match here {
            true => {
                let bound = job.bind(request)?;
                (job, bound)
            }
            false => {
                let bind = move || job.bind(request).map(|bound| (job, bound));
                stop.until(deadline, self.0.cpu.run_as(Class::Short, bind)).await???
            }
        };
        let (job, bound) = match bound {
            Bound::Here(read) if read.is_small() => {
                let (job, read, answer) = if here && Class::is_light(read.estimate) {
                    let answer = job.keep(&read, &job.control)?;
                    drop(permit);
                    call.connection().was_light();
                    (job, read, answer)
                } else {
                    let permit = match Class::of(read.estimate) {
                        Class::Short => {
                            call.connection().was_light();
                            permit
                        }
                        Class::Long => {
                            drop(permit);
                            asking.admit(&self.0.cpu, Class::Long, deadline).await?
                        }
                    };
                    let run = self.0.cpu.run_query(permit, job.control.clone(), move |control| {
                        let answer = job.keep(&read, &control)?;
                        Ok((job, read, answer))
                    });
                    stop.until(deadline, run).await??
                };
                if let Some(answer) = answer {
                    return self.kept(call, answer, stop, deadline).await;
                }
                // It begins again, and its answer goes out as it is made.
                (job, Bound::Here(read))
            }
            bound => {
                drop(permit);
                (job, bound)
            }
        };
        self.stream(call, job, bound, stop, (deadline, &asking)).await
    }

    /// A small answer, which needs a slot only where many others are unread.
    async fn kept(
        &self,
        call: &mut Call,
        answer: Small,
        stop: StopOnDrop,
        deadline: Instant,
    ) -> Result<Begun, RequestError> {
        let Small { messages, counts, bytes } = answer;
        if let Some(kept) = self.0.readers.keep(bytes, &self.0.memory) {
            // As with a call that is not a stream, a shutdown leaves the client a moment to read it.
            drop(call.take_running());
            return Ok(Begun::Whole { messages, counts, _kept: kept });
        }
        let mut slot = self.0.readers.admit(&call.connection(), Class::Short, deadline).await?;
        slot.running = call.take_running();
        let (writer, reader) = self.0.readers.queue(slot, stop.stop.clone());
        writer.end(Ok((messages, counts)));
        Begun::queued(reader, stop, deadline).await
    }

    /// Runs a query whose answer may be large, or that waits for others: the answer goes through a queue, from a thread
    /// that may wait for its reader.
    async fn stream(
        &self,
        call: &mut Call,
        job: Job,
        bound: Bound,
        stop: StopOnDrop,
        (deadline, asking): (Instant, &Asking),
    ) -> Result<Begun, RequestError> {
        let class = bound.class();
        let slot = self.0.readers.admit(&call.connection(), class, deadline).await?;
        let mut slot = slot.with_memory(&self.0.memory, deadline).await?;
        let permit = match class {
            Class::Short => self.0.cpu.admit_again(class, deadline).await?,
            Class::Long => asking.admit(&self.0.cpu, class, deadline).await?,
        };
        slot.running = call.take_running();
        let (writer, reader) = self.0.readers.queue(slot, job.control.stop().clone());
        on_own_thread_as(&self.0.environment, class, move |may_wait| {
            let cpu = Arc::clone(&job.state.cpu);
            let outlet = Queued { writer, may_wait, cpu: &cpu, class, permit: Some(permit), deadline };
            let mut sink = Sink::new(outlet, job.format, job.arrived).seen_as(&job.entry);
            let control = cpu.spread(may_wait, class, job.control.clone());
            let outcome = caught(|| match bound {
                Bound::Here(read) => {
                    panics::wanted("query", job.pinned.table.name());
                    let statistics = read.answer(job.pinned.table.name(), &control, &mut sink)?;
                    Ok(job.scanned(statistics, 1))
                }
                Bound::Elsewhere(query, _) => job.coordinate(*query, &control, &mut sink),
            });
            sink.finish(outcome);
        });
        Begun::queued(reader, stop, deadline).await
    }

    async fn plan(
        &self,
        call: &mut Call,
        request: pb::ExplainRequest,
    ) -> Result<pb::ExplainResponse, RequestError> {
        let (deadline, arrived) = (self.0.deadline(call)?, call.at());
        let query = request.query.unwrap_or_default();
        let control = self.0.control_of(call.caller());
        let control = if request.analyze { control.with_clock(clock) } else { control };
        let reach = Reach::new(Arc::clone(&self.0), call.caller(), deadline, control.clone());
        let (of, filters) = ((query.table.as_str(), query.version), [&query.filter, &query.having]);
        let pinned = self.target(call, of, filters, &reach, deadline).await?;
        let caller = call.caller().clone();
        let explain = move |state: &State, control: &Control| {
            let started = Instant::now();
            panics::wanted("explain", pinned.table.name());
            let (query, _) = convert::query(query, &state.sets).map_err(|e| e.at("query"))?;
            let mut coordinator = Coordinator::new(&reach, control, request.analyze);
            coordinator.reads(&pinned);
            let (query, plan) = coordinator.resolve(&pinned, query).map_err(|e| e.at("query"))?;
            let told = |explanation: Explanation| {
                let statistics = convert::statistics(&explanation.statistics, arrived, started);
                convert::explanation(explanation, pinned.version.number(), statistics)
            };
            if let Some(snapshot) = coordinator.whole(&pinned, &plan.columns())? {
                let mut explanation = plan.explain(&snapshot, request.analyze, control)?;
                explanation.sets.extend(coordinator.take_uses());
                if let Some(trace) = trace::recorded() {
                    trace.steps(pinned.table.name(), &explanation.operators);
                }
                return Ok(told(explanation));
            }
            let statistics = match request.analyze {
                true => coordinator.run(&pinned, &query, &plan, &mut |_| Ok(()))?,
                false => Statistics::default(),
            };
            let explanation = elsewhere(&reach, &pinned, &plan, control)?;
            let told = told(Explanation { statistics, ..explanation });
            let mut whole = explained(told, coordinator.into_hops());
            whole.hops.iter_mut().for_each(|hop| hop.node = peers::node_for(state, &caller, &hop.node));
            Ok(whole)
        };
        coordinate(&self.0, deadline, control, explain).await
    }
}

/// How a plan runs whose rows are read by several nodes, or are not in memory: what it should give is told by what is here.
fn elsewhere(
    reach: &Reach,
    pinned: &Pinned,
    plan: &Plan,
    control: &Control,
) -> Result<Explanation, RequestError> {
    // Default: nothing of it is here.
    let here = reach.here(plan, pinned).unwrap_or_else(|| pinned.snapshot());
    let mut explanation = plan.explain(&here, false, control)?;
    // What pruning finds is told by the nodes, if by anybody.
    explanation.filters.iter_mut().for_each(|filter| (filter.blocks_pruned, filter.blocks_full) = (0, 0));
    explanation.sets.iter_mut().for_each(|set| (set.blocks_skipped, set.blocks_full) = (0, 0));
    explanation.columns.clear();
    explanation.statistics = Statistics::default();
    explanation.expected = reach.expected(plan, pinned);
    explanation.text = plan.text(pinned.version.number(), &explanation, None);
    Ok(explanation)
}

/// A query with all that it runs on.
struct Job {
    state: Arc<State>,
    reach: Reach,
    pinned: Pinned,
    control: Control,
    entry: Arc<Entry>,
    format: pb::Format,
    arrived: Instant,
}

/// A query and what it needs.
enum Bound {
    /// All that it reads is here.
    Here(Box<Read>),
    /// It asks other tables or nodes, or reads what is not in memory.
    Elsewhere(Box<query::Query>, Class),
}

impl Bound {
    fn class(&self) -> Class {
        match self {
            Self::Here(read) => Class::of(read.estimate),
            Self::Elsewhere(_, class) => *class,
        }
    }
}

/// A plan with the fragments that it reads.
struct Read {
    plan: Plan,
    snapshot: Arc<Snapshot>,
    /// The fragments without rows for it, by their bounds.
    pruned: Statistics,
    estimate: Estimate,
}

impl Read {
    /// Whether the answer is first made whole: it is small for sure, or should be, and soon made again when it is not.
    fn is_small(&self) -> bool {
        let is_small = |bytes: u64| bytes <= limits::LIGHT_ANSWER_BYTES;
        let Estimate { answer_bytes, expected_answer_bytes, .. } = self.estimate;
        is_small(answer_bytes) || is_small(expected_answer_bytes) && Class::of(self.estimate) == Class::Short
    }

    fn answer<O: Outlet>(
        &self,
        table: &str,
        control: &Control,
        sink: &mut Sink<O>,
    ) -> Result<Statistics, RequestError> {
        sink.header(self.plan.schema(), self.snapshot.version());
        let of = (table, &self.plan);
        let ran = coordinator::run(of, &self.snapshot, control, &mut |batch| sink.batch(batch));
        let mut statistics = ran.map_err(|error| sink.error(error))?;
        statistics += self.pruned;
        Ok(statistics)
    }
}

impl Job {
    /// Binds a query, and looks whether all that it needs is here. It never waits.
    fn bind(&self, request: pb::QueryRequest) -> Result<Bound, RequestError> {
        caught(|| {
            let _step = trace::step("plan");
            let bytes = request.encoded_len();
            let (query, is_alone) = convert::query(request, &self.state.sets)?;
            self.entry.says(&query_text(self.pinned.table.name(), &query));
            self.entry.runs();
            panics::wanted("plan", self.pinned.table.name());
            if !is_alone {
                let Pinned { table, version, .. } = &self.pinned;
                let caller = self.reach.caller();
                let class = match self.reach.count() {
                    1 => Class::of_joins((&query, bytes), (table, version), caller, &self.state),
                    _ => Class::Long,
                };
                return Ok(Bound::Elsewhere(Box::new(query), class));
            }
            let plan = Plan::new(&self.pinned.table, &self.pinned.snapshot(), &query)?;
            let mut pruned = Statistics::default();
            let fragments = self.pinned.fragments_for(plan.filter.as_ref(), &mut pruned);
            let coordinator = Coordinator::new(&self.reach, &self.control, false);
            let columns = plan.columns();
            let here = |purpose| coordinator.in_memory(&self.pinned, &fragments, &columns, purpose);
            let is_alone = self.reach.count() == 1;
            let Some(snapshot) = here(if is_alone { Purpose::Query } else { Purpose::Aside })? else {
                let estimate = self.reach.estimate_elsewhere(&plan, &self.pinned, &fragments);
                let class = estimate.map_or(Class::Long, Class::of);
                return Ok(Bound::Elsewhere(Box::new(query), class));
            };
            let estimate = plan.estimate(&snapshot);
            // The other nodes do their share of what is more than the way to them.
            let snapshot = match is_alone {
                true => Some(snapshot),
                false if Class::is_light(estimate) => here(Purpose::Query)?,
                false => None,
            };
            Ok(match snapshot {
                Some(snapshot) => Bound::Here(Box::new(Read { plan, snapshot, pruned, estimate })),
                None => Bound::Elsewhere(Box::new(query), Class::of(estimate)),
            })
        })
    }

    /// An answer that should be small; `None`: it is not.
    fn keep(&self, read: &Read, control: &Control) -> Result<Option<Small>, RequestError> {
        let mut sink = Sink::new(Whole::default(), self.format, self.arrived);
        // What it holds is given back before it begins again.
        let control = &control.with_own_memory();
        // Here, so that it is the same on the CPU pool and on an async thread.
        let outcome = caught(|| {
            panics::wanted("query", self.pinned.table.name());
            let statistics = read.answer(self.pinned.table.name(), control, &mut sink)?;
            Ok(self.scanned(statistics, 1))
        });
        sink.finish(outcome)
    }

    /// Answers with what others do for it. It waits for them.
    fn coordinate<O: Outlet>(
        &self,
        query: query::Query,
        control: &Control,
        sink: &mut Sink<O>,
    ) -> Result<Statistics, RequestError> {
        let mut coordinator = Coordinator::new(&self.reach, control, false);
        coordinator.reads(&self.pinned);
        panics::wanted("query", self.pinned.table.name());
        panics::wanted("coordinate", self.pinned.table.name());
        let (query, plan) = coordinator.resolve(&self.pinned, query)?;
        sink.header(plan.schema(), self.pinned.version.number());
        let ran = coordinator.run(&self.pinned, &query, &plan, &mut |batch| sink.batch(batch));
        let statistics = ran.map_err(|error| sink.kept_error().unwrap_or(error))?;
        Ok(self.scanned(statistics, nodes_of(&coordinator.into_hops())))
    }

    /// Has the log of slow queries know what was read, and where.
    fn scanned(&self, statistics: Statistics, nodes: usize) -> Statistics {
        let Pinned { table, version, .. } = &self.pinned;
        self.entry.scanned(table.name(), Scanned::once(version.number(), statistics, nodes));
        statistics
    }
}
