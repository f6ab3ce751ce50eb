//! Which statements run as tasks on all nodes, and which node runs which task.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::display::{PlanType, StringifiedPlan};
use datafusion::{
    catalog::Session,
    common::{
        Result,
        config::ConfigOptions,
        plan_err,
        tree_node::{TreeNode as _, TreeNodeRecursion},
    },
    execution::{SessionState, SessionStateBuilder, context::QueryPlanner},
    logical_expr::LogicalPlan,
    physical_expr::{Partitioning, expressions::Column},
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties as _,
        aggregates::AggregateExec,
        explain::ExplainExec,
        joins::{CrossJoinExec, HashJoinExec, SortMergeJoinExec},
        sorts::sort::SortExec,
        statistics::{StatisticsArgs, StatisticsContext},
        windows::{BoundedWindowAggExec, WindowAggExec},
    },
    physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner as _},
};
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedExec, DistributedExt as _,
    DistributedLeafExec, NetworkBoundaryExt as _, NetworkShuffleExec, RouteTasksEvent,
    RouteTasksEventResponse, ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse, SessionStateBuilderExt as _,
    WorkerResolver, display_plan_ascii,
};
use tokio::sync::watch;
use url::Url;

use super::{
    Distribution,
    channel::{Channels, url},
    codec, listed,
    worker::{Of, runtime},
};
use crate::{
    engine::{Request, Shared},
    error::Error,
    limits,
    plan::optimised_by,
    scan::Scan,
    yielding::cooperative,
};

/// Into how many parts each node splits what it scans for a task, told to the tables of a statement. With one alone
/// DataFusion would leave out what brings parts together.
pub(crate) struct Parts {
    pub(crate) parts: usize,
    /// Tables of fewer rows are read by one node, for all.
    pub(crate) least_rows: u64,
}

/// What cuts plans into stages.
#[derive(Debug)]
pub(crate) struct Planner(Arc<dyn QueryPlanner + Send + Sync>);

impl Planner {
    pub(crate) fn new() -> Self {
        let mut builder =
            SessionStateBuilder::new().with_query_planner(Arc::new(Below)).with_distributed_planner();
        // Default: it has just been set, so that this is never taken.
        Self(builder.query_planner().take().unwrap_or_else(|| Arc::new(Below)))
    }
}

/// DataFusion's planner, whose joins give way.
#[derive(Debug)]
struct Below;

#[async_trait]
impl QueryPlanner for Below {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        cooperative(DefaultPhysicalPlanner::default().create_physical_plan(plan, session).await?)
    }
}

/// A statement whose work is shared out.
pub(super) struct Distributed {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    pub(super) session: SessionState,
    pub(super) failed: watch::Receiver<Option<Error>>,
}

/// A plan of tasks on several nodes; `None`: it is run as it was planned.
pub(super) async fn distributed(
    shared: &Shared,
    request: &Request,
    session: &SessionState,
    logical: &LogicalPlan,
    plan: &Arc<dyn ExecutionPlan>,
) -> crate::Result<Option<Distributed>> {
    // Tasks make batches of the usual size.
    let is_narrow = session.config().batch_size() < shared.base.batch_rows();
    if shared.distribution == Distribution::Never || is_narrow {
        return Ok(None);
    }
    let Some(nodes) = request.catalog.nodes() else { return Ok(None) };
    let is_large =
        shared.distribution == Distribution::Always || rows_above(plan) >= limits::DISTRIBUTED_ROWS;
    if !is_large
        || listed::has_window_of_some(logical)
        || !listed::all(plan)
        || !codec::travels(plan, shared.base.functions())
    {
        return Ok(None);
    }
    let names = nodes.names();
    if names.len() < 2 {
        return Ok(None);
    }
    let urls = names.iter().map(|name| url(name)).collect::<Result<Vec<_>>>()?;
    let (failed, of_failed) = watch::channel(None);
    let of = Of {
        runtime: runtime(shared, Arc::clone(&request.memory))?,
        options: Arc::clone(shared.base.options()),
    };
    let channels = Channels {
        nodes,
        tasks: shared.tasks.clone(),
        of,
        functions: Arc::clone(shared.base.functions()),
        failed,
    };
    let mut session = session.clone();
    set(
        &mut session,
        channels,
        names,
        urls,
        shared.distribution,
        matches!(logical, LogicalPlan::Analyze(_)),
    )?;
    // As for one node: what correlated subqueries mean does not depend on who runs them.
    let plan = match optimised_by(&session, &shared.base.planner().0, logical).await {
        Ok((_, plan)) => plan,
        // Nor does anything depend on it.
        Err(error) => return if shared.distribution == Distribution::Always { Err(error) } else { Ok(None) },
    };
    let is_cut = plan.exists(|node| Ok(node.is::<DistributedExec>()))?;
    let fits = is_cut && fits(&plan)?;
    Ok(fits.then_some(Distributed { plan, session, failed: of_failed }))
}

/// Tells a session which nodes there are, and what they do.
fn set(
    session: &mut SessionState,
    channels: Channels,
    names: Vec<Arc<str>>,
    urls: Vec<Url>,
    distribution: Distribution,
    is_analyzed: bool,
) -> Result<()> {
    let config = session.config_mut();
    options(config.options_mut());
    let parts = config.options().execution.target_partitions;
    let least_rows = if distribution == Distribution::Always { 0 } else { limits::SHARED_ROWS };
    config.set_extension(Arc::new(Parts { parts, least_rows }));
    config.set_distributed_channel_resolver(channels);
    config.set_distributed_worker_resolver(Known(urls.clone()));
    config.set_distributed_metrics_collection(is_analyzed)?;
    // Each part of a union is then shared out like everything else.
    config.set_distributed_children_isolator_unions(false)?;
    let nodes = urls.len();
    config.set_distributed_desired_task_count_handler(move |event: DesiredTaskCountEvent<'_>| {
        let scan = event.plan.downcast_ref::<Scan>()?;
        Some(Ok(match scan.partitions() {
            1 => DesiredTaskCountEventResponse::maximum(1),
            _ => DesiredTaskCountEventResponse::desired(nodes),
        }))
    });
    config.set_distributed_scale_up_leaf_node_handler(move |event: ScaleUpLeafNodeEvent<'_>| {
        let scan = event.plan.downcast_ref::<Scan>()?;
        (event.task_count > 1).then(|| {
            if event.task_count != names.len() {
                return plan_err!("{} tasks on {} nodes", event.task_count, names.len());
            }
            let shares =
                scan.shares(&names)?.into_iter().map(|share| Arc::new(share) as Arc<dyn ExecutionPlan>);
            let plan = DistributedLeafExec::try_new(Arc::clone(event.plan), shares)?;
            Ok(ScaleUpLeafNodeEventResponse::new(Arc::new(plan)))
        })
    });
    config.set_distributed_route_tasks_handler(move |event: RouteTasksEvent<'_>| {
        let urls = match event.task_count {
            1 => urls.iter().take(1).cloned().collect(),
            tasks if tasks == urls.len() => urls.clone(),
            tasks => return Some(plan_err!("{tasks} tasks on {} nodes", urls.len())),
        };
        Some(Ok(RouteTasksEventResponse::new(urls)))
    });
    Ok(())
}

/// What is planned otherwise for tasks.
fn options(options: &mut ConfigOptions) {
    let partitions = &mut options.execution.target_partitions;
    *partitions = (*partitions).clamp(2, limits::TASK_PARTITIONS);
    // What one side of a join has is not known at the nodes that scan the other.
    options.optimizer.enable_dynamic_filter_pushdown = false;
    options.optimizer.enable_join_dynamic_filter_pushdown = false;
    options.optimizer.enable_topk_dynamic_filter_pushdown = false;
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    options.optimizer.enable_physical_uncorrelated_scalar_subquery = false;
}

struct Known(Vec<Url>);

impl WorkerResolver for Known {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self.0.clone())
    }
}

/// Rows that scans give to joins, groups, sorts and windows above them. Those of which a join's other side names the few
/// keys that it has are none of them: the engine finds these at the nodes, and most rows need not be decoded.
fn rows_above(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    weigh(plan, false, false)
}

fn weigh(plan: &Arc<dyn ExecutionPlan>, is_below: bool, is_pruned: bool) -> u64 {
    if let Some(scan) = plan.downcast_ref::<Scan>() {
        let counts = is_below && scan.is_divisible() && !(is_pruned && scan.is_pruned());
        return if counts { estimate(plan).unwrap_or(0) } else { 0 };
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let few = estimate(join.left()).is_some_and(|rows| rows <= limits::FEW_KEYS);
        return weigh(join.left(), true, is_pruned).saturating_add(weigh(
            join.right(),
            true,
            is_pruned || few,
        ));
    }
    let is_below = is_below
        || plan.is::<AggregateExec>()
        || plan.is::<SortExec>()
        || plan.is::<WindowAggExec>()
        || plan.is::<BoundedWindowAggExec>()
        || plan.is::<SortMergeJoinExec>()
        || plan.is::<CrossJoinExec>();
    plan.children().into_iter().fold(0, |sum, child| sum.saturating_add(weigh(child, is_below, is_pruned)))
}

/// How many rows an operator gives, as far as that is known.
fn estimate(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()).ok()?;
    statistics.num_rows.get_value().map(|rows| *rows as u64)
}

/// Whether a plan of stages is within what nodes do for each other: rows go to the tasks of the next stage by columns alone
/// (a node that asks for them tells by what, and a function might be another one there), and there are not too many streams
/// or partitions.
fn fits(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let (mut fits, mut streams) = (listed::all(plan), 0);
    plan.apply(|node| {
        let partitions = node.output_partitioning().partition_count();
        fits &= partitions <= limits::STAGE_PARTITIONS;
        if node.is_network_boundary() {
            streams += partitions;
        }
        if node.is::<NetworkShuffleExec>() {
            fits &= match node.output_partitioning() {
                Partitioning::Hash(by, _) => by.iter().all(|by| by.is::<Column>()),
                _ => false,
            };
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(fits && streams <= limits::TASK_STREAMS)
}

/// What EXPLAIN says of a statement that would run as tasks: its stages in the place of the plan of one node.
pub(crate) async fn explained(
    shared: &Shared,
    request: &Request,
    session: &SessionState,
    logical: &LogicalPlan,
    physical: Arc<dyn ExecutionPlan>,
) -> crate::Result<Arc<dyn ExecutionPlan>> {
    if shared.distribution == Distribution::Never {
        return Ok(physical);
    }
    let (LogicalPlan::Explain(explain), Some(of_one)) = (logical, physical.downcast_ref::<ExplainExec>())
    else {
        return Ok(physical);
    };
    let Ok(inner) = session.create_physical_plan(&explain.plan).await else { return Ok(physical) };
    let Some(Distributed { plan, .. }) = distributed(shared, request, session, &explain.plan, &inner).await?
    else {
        return Ok(physical);
    };
    let stages = display_plan_ascii(plan.as_ref(), false);
    let plans = of_one.stringified_plans().iter().map(|of_one| match of_one.plan_type {
        PlanType::FinalPhysicalPlan => StringifiedPlan::new(PlanType::FinalPhysicalPlan, stages.as_str()),
        _ => of_one.clone(),
    });
    Ok(Arc::new(ExplainExec::new(physical.schema(), plans.collect(), of_one.verbose())))
}

/// The options that tasks are run with.
pub(crate) fn task_options(session: &SessionState) -> Arc<ConfigOptions> {
    let mut of_tasks = session.config().options().as_ref().clone();
    options(&mut of_tasks);
    Arc::new(of_tasks)
}
