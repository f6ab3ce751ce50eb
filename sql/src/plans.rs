//! Plans of statements that are asked again and again, as dashboards and prepared statements are.
//!
//! What is kept is the optimised plan, of a text with its parameters, over tables as they were. When the statement is asked
//! again its tables are pinned as ever, so that it reads the newest versions and nobody reads what is not his; where each is
//! still what the plan was made for, the plan is bound to it, and only how it runs is planned. A plan is made for one
//! version of each table: what it leaves out may rest on the values there. So what depends on the time, on a transaction
//! or on the server itself is not kept.

use std::{
    collections::{BTreeMap, hash_map::RandomState},
    fmt,
    hash::BuildHasher as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use basalt_core::{
    query::Query,
    schema::{DataType, Schema},
};
use datafusion::{
    common::{
        DataFusionError, Result as PlanResult,
        tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion},
    },
    datasource::{DefaultTableSource, TableProvider, provider_as_source},
    logical_expr::{Expr, LogicalPlan, TableScan, Volatility},
    physical_plan::ExecutionPlan,
};
use futures_util::future::try_join_all;
use moka::sync::Cache;

use crate::{
    answer::Shown,
    catalog::{Answers, Identity, Rows, Table},
    derived::Derived,
    engine::Request,
    error::{Error, Result},
    headings::Headings,
    limits,
    parse::Named,
    table::BasaltTable,
    views::Views,
};

/// The names that a statement may use.
#[derive(Debug)]
pub(crate) struct Listed {
    /// Ascending.
    pub(crate) tables: Vec<String>,
    pub(crate) views: Views,
}

impl Listed {
    pub(crate) async fn of(request: &Request) -> Result<Self> {
        // The views are those of the time at which the tables were asked for.
        let tables = request.catalog.tables().await?;
        Ok(Self { tables, views: request.catalog.views().await? })
    }
}

/// The tables of one statement, each pinned once.
pub(crate) type Pins = BTreeMap<Named, Arc<dyn Table>>;

/// See the module.
pub(crate) struct Plans {
    known: Cache<String, Known>,
    hasher: RandomState,
    reused: AtomicU64,
}

impl fmt::Debug for Plans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plans").field("known", &self.known.entry_count()).finish_non_exhaustive()
    }
}

/// What is known of a statement.
#[derive(Clone)]
enum Known {
    /// It was asked once. Most never are again.
    Asked,
    Planned(Arc<Kept>),
}

struct Kept {
    /// The hash of the names that were listed, and of the views' texts.
    listed: u64,
    tables: Vec<(Named, Identity)>,
    plans: Plan,
    nodes: u32,
}

/// The plan of a statement.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// As it was written.
    pub(crate) logical: LogicalPlan,
    pub(crate) optimised: LogicalPlan,
    pub(crate) headings: Headings,
}

impl Plan {
    /// How its rows are shown.
    pub(crate) fn shown(&self, physical: &Arc<dyn ExecutionPlan>) -> Result<Shown> {
        Shown::new(self.logical.schema(), &physical.schema(), &self.headings)
    }
}

impl Plans {
    pub(crate) fn new() -> Self {
        let weigh = |key: &String, known: &Known| {
            let text = u32::try_from(key.len() / 64).unwrap_or(u32::MAX);
            let nodes = if let Known::Planned(kept) = known { kept.nodes } else { 1 };
            text.saturating_add(nodes)
        };
        let known = Cache::builder().max_capacity(limits::PLANS_NODES).weigher(weigh).build();
        Self { known, hasher: RandomState::new(), reused: AtomicU64::new(0) }
    }

    /// How often a plan was used again.
    pub(crate) fn reused(&self) -> u64 {
        self.reused.load(Ordering::Relaxed)
    }

    /// The plan that was kept of a statement, over the tables as they are now, where it still is its plan. What was pinned
    /// on the way is added to the statement's tables.
    pub(crate) async fn find(
        &self,
        request: &Request,
        listed: &Listed,
        pins: &mut Pins,
    ) -> Result<Option<Plan>> {
        let Some(Known::Planned(kept)) = key(request).and_then(|key| self.known.get(&key)) else {
            return Ok(None);
        };
        if kept.listed != self.hash(listed) {
            return Ok(None);
        }
        let pinned = kept.tables.iter().map(async |(named, _)| {
            let (name, version) = named;
            Ok::<_, Error>((named.clone(), request.catalog.pin(name, *version).await?))
        });
        pins.extend(try_join_all(pinned).await?);
        let is_same = |(named, identity): &(Named, Identity)| {
            pins.get(named).and_then(|table| table.identity()) == Some(*identity)
        };
        if !kept.tables.iter().all(is_same) {
            return Ok(None);
        }
        let mut pinned = |stands: &Arc<dyn Table>| {
            let identity = stands.identity();
            let found = pins.values().find(|table| table.identity() == identity);
            let found =
                found.filter(|table| table.schema() == stands.schema() && table.rows() == stands.rows());
            found.map(Arc::clone).ok_or(NotKept)
        };
        let bound = over(&kept.plans.logical, &mut pinned)
            .and_then(|logical| Ok((logical, over(&kept.plans.optimised, &mut pinned)?)));
        // What does not go together any more is planned anew.
        let bound = bound.ok().map(|(logical, optimised)| {
            let headings = kept.plans.headings.clone();
            Plan { logical, optimised, headings }
        });
        self.reused.fetch_add(u64::from(bound.is_some()), Ordering::Relaxed);
        Ok(bound)
    }

    /// Keeps the plan of a statement, if it was asked before and may be kept.
    pub(crate) fn keep(&self, request: &Request, listed: &Listed, pins: &Pins, plan: &Plan) {
        let Some(key) = key(request) else { return };
        if self.known.get(&key).is_none() {
            self.known.insert(key, Known::Asked);
            return;
        }
        if let Some(kept) = self.kept(listed, pins, plan) {
            self.known.insert(key, Known::Planned(Arc::new(kept)));
        }
    }

    fn kept(&self, listed: &Listed, pins: &Pins, plan: &Plan) -> Option<Kept> {
        let tables = pins.iter().map(|(named, table)| Some((named.clone(), table.identity()?)));
        let tables = tables.collect::<Option<Vec<_>>>()?;
        let nodes = nodes(&plan.logical)?.saturating_add(nodes(&plan.optimised)?);
        if nodes > limits::PLAN_NODES {
            return None;
        }
        let mut stand_ins: BTreeMap<(u64, u64), Arc<dyn Table>> = BTreeMap::new();
        let mut stands = |table: &Arc<dyn Table>| {
            let identity = table.identity().ok_or(NotKept)?;
            let stands = stand_ins.entry((identity.table, identity.version));
            Ok(Arc::clone(stands.or_insert_with(|| Arc::new(StandIn::new(identity, &**table)))))
        };
        let logical = over(&plan.logical, &mut stands).ok()?;
        let optimised = over(&plan.optimised, &mut stands).ok()?;
        Some(Kept {
            listed: self.hash(listed),
            tables,
            plans: Plan { logical, optimised, headings: plan.headings.clone() },
            nodes,
        })
    }

    fn hash(&self, listed: &Listed) -> u64 {
        self.hasher.hash_one((&listed.tables, &listed.views))
    }
}

/// What a statement is known by; `None`: it is too long to be kept.
fn key(request: &Request) -> Option<String> {
    let is_short = request.sql.len() <= limits::PLAN_TEXT_BYTES;
    let key = is_short.then(|| format!("{:?}{:?}{}", request.naming(), request.parameters, request.sql))?;
    (key.len() <= limits::PLAN_TEXT_BYTES).then_some(key)
}

/// A plan reads something that is no table of the statement's.
#[derive(Debug, thiserror::Error)]
#[error("the plan is not kept")]
struct NotKept;

type Other<'a> = &'a mut dyn FnMut(&Arc<dyn Table>) -> std::result::Result<Arc<dyn Table>, NotKept>;

/// A plan over other tables in the places of its own.
fn over(plan: &LogicalPlan, other: Other<'_>) -> PlanResult<LogicalPlan> {
    let replaced = plan.clone().transform_down_with_subqueries(|plan| match plan {
        LogicalPlan::TableScan(scan) => {
            let source = provider_as_source(provider_over(&scan, other)?);
            Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source, ..scan })))
        }
        plan => Ok(Transformed::no(plan)),
    });
    replaced.data()
}

fn provider_over(scan: &TableScan, other: Other<'_>) -> PlanResult<Arc<dyn TableProvider>> {
    let unkept = || DataFusionError::External(Box::new(NotKept));
    let source = scan.source.downcast_ref::<DefaultTableSource>().ok_or_else(unkept)?;
    if let Some(table) = source.table_provider.downcast_ref::<BasaltTable>() {
        let source = table.source().over(other).map_err(|_| unkept())?;
        return Ok(Arc::new(table.over(source)));
    }
    let derived = source.table_provider.downcast_ref::<Derived>().ok_or_else(unkept)?;
    let source = derived.source.over(other).map_err(|_| unkept())?;
    Ok(Arc::new(Derived { source, ..derived.clone() }))
}

/// How large a plan is; `None`: it is another one at another time.
fn nodes(plan: &LogicalPlan) -> Option<u32> {
    let (mut nodes, mut is_lasting) = (0_usize, true);
    let counted = plan.apply_with_subqueries(|plan| {
        nodes += 1 + plan.schema().fields().len();
        plan.apply_expressions(|expr| {
            expr.apply(|expr| {
                nodes += 1;
                is_lasting &= match expr {
                    Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Stable,
                    Expr::ScalarVariable(..) | Expr::Placeholder(_) => false,
                    _ => true,
                };
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    counted.ok()?;
    is_lasting.then(|| u32::try_from(nodes).unwrap_or(u32::MAX))
}

/// What stands for a table in a plan that is kept: it holds no rows.
#[derive(Debug)]
struct StandIn {
    name: String,
    identity: Identity,
    schema: Schema,
    rows: Rows,
}

impl StandIn {
    fn new(identity: Identity, table: &dyn Table) -> Self {
        let (name, schema, rows) = (table.name().to_owned(), table.schema().clone(), table.rows());
        Self { name, identity, schema, rows }
    }

    fn error() -> Error {
        Error::Internal("a plan that was kept is run over no tables".to_owned())
    }
}

#[async_trait]
impl Table for StandIn {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> u64 {
        self.identity.version
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn rows(&self) -> Rows {
        self.rows
    }

    fn identity(&self) -> Option<Identity> {
        Some(self.identity)
    }

    async fn is_key(&self, _: &str) -> Result<bool> {
        Err(Self::error())
    }

    fn types(&self, _: &Query) -> Option<Vec<DataType>> {
        None
    }

    fn run(&self, _: Query) -> Answers {
        Box::pin(futures_util::stream::iter([Err(Self::error())]))
    }
}
