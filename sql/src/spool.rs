//! A plan that several places of a statement read, whose rows are made once: made again they may be others, as are those of
//! LIMIT without an order, of a window over equal rows, and of sums of floats.

mod ctes;
mod rows;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use arrow_schema::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::{
    catalog::Session,
    common::{
        Column, Result, TableReference, internal_datafusion_err, internal_err, tree_node::TreeNodeRecursion,
    },
    datasource::{
        DefaultTableSource, TableProvider, TableType, cte_worktable::CteWorkTable, provider_as_source,
    },
    execution::{SessionState, SessionStateBuilder},
    logical_expr::{
        Distinct, Expr, ExprSchemable as _, LogicalPlan, LogicalPlanBuilder, TableScan, TableScanBuilder,
    },
    physical_plan::ExecutionPlan,
};
use tokio::sync::OnceCell;

pub(crate) use self::ctes::shared;
use self::rows::{Made, SpoolExec};
use crate::{bounded, correlated, zeros};

/// Aggregates that give the same again for the same rows in another order, as sums of what is no float do; the first value is that of
/// subqueries which have one.
const SAME_AGAIN: [&str; 8] =
    ["bit_and", "bit_or", "bool_and", "bool_or", "count", "first_value", "max", "min"];

/// The same plan, which has the same rows wherever it is read.
///
/// # Errors
/// Where the types of its columns cannot be told.
pub(crate) fn spooled(
    plan: LogicalPlan,
    session: &SessionState,
    name: TableReference,
) -> Result<LogicalPlan> {
    // Only the rules that choose types say what they are.
    let plan = session.analyzer().execute_and_check(plan, session.config_options(), |_, _| {})?;
    let columns = plan.schema().columns();
    let fields = plan.schema().fields().iter().enumerate();
    let fields = fields.map(|(at, field)| Field::clone(field).with_name(own_name(at)));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let spool = Spool {
        name: name.table().to_owned(),
        plan,
        schema,
        read: Mutex::default(),
        planned: OnceCell::new(),
    };
    let scan = TableScanBuilder::new(name.clone(), provider_as_source(Arc::new(spool))).build()?;
    let columns = columns.into_iter().enumerate().map(|(at, column)| {
        let own = Expr::Column(Column::new(Some(name.clone()), own_name(at)));
        own.alias_qualified(column.relation, column.name)
    });
    LogicalPlanBuilder::from(LogicalPlan::TableScan(scan)).project(columns.collect::<Vec<_>>())?.build()
}

/// Columns of a join may have one name.
fn own_name(at: usize) -> String {
    format!("c{at}")
}

/// Whether a plan gives the same rows when it runs a second time.
pub(crate) fn repeats(plan: &LogicalPlan) -> Result<bool> {
    let mut repeats = true;
    plan.apply_with_subqueries(|plan| {
        repeats &= match plan {
            LogicalPlan::Limit(_) | LogicalPlan::Window(_) | LogicalPlan::RecursiveQuery(_) => false,
            LogicalPlan::Distinct(Distinct::On(_)) => false,
            LogicalPlan::Aggregate(aggregate) => {
                let of_floats = |expr: &Expr| {
                    expr.get_type(aggregate.input.schema()).is_ok_and(|data_type| data_type.is_floating())
                };
                aggregate.aggr_expr.iter().all(|expr| match expr.clone().unalias() {
                    Expr::AggregateFunction(of) => match of.func.name() {
                        "avg" | "sum" => !of.params.args.iter().any(of_floats),
                        name => SAME_AGAIN.contains(&name),
                    },
                    _ => false,
                })
            }
            _ => true,
        };
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(repeats && !is_volatile(plan)?)
}

/// Whether a plan calls what gives something else each time, as random numbers are.
fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut is_volatile = false;
    plan.apply_with_subqueries(|plan| {
        plan.apply_expressions(|expr| {
            is_volatile |= expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(is_volatile)
}

/// Whether a plan reads the rows that a recursive query around it had in its last turn: they are others each time.
pub(crate) fn takes_turns(plan: &LogicalPlan) -> Result<bool> {
    let (mut read, mut own) = (Vec::new(), Vec::new());
    plan.apply_with_subqueries(|plan| {
        if let LogicalPlan::RecursiveQuery(query) = plan {
            own.push(query.name.clone());
        }
        let table = provider(plan).and_then(|(_, provider)| provider.downcast_ref::<CteWorkTable>());
        read.extend(table.map(|table| table.name().to_owned()));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(read.iter().any(|name| !own.contains(name)))
}

/// Tells the spools of an optimised plan which of their columns are read.
pub(crate) fn settle(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|plan| {
        if let Some((scan, provider)) = provider(plan)
            && let Some(spool) = provider.downcast_ref::<Spool>()
        {
            spool.reads(scan.projection.as_deref());
            spool.settle_within()?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn provider(plan: &LogicalPlan) -> Option<(&TableScan, &dyn TableProvider)> {
    let LogicalPlan::TableScan(scan) = plan else { return None };
    let source = scan.source.downcast_ref::<DefaultTableSource>()?;
    Some((scan, source.table_provider.as_ref()))
}

/// Whether a plan reads rows that are made once.
pub(crate) fn is_spool(plan: &LogicalPlan) -> bool {
    provider(plan).is_some_and(|(_, provider)| provider.is::<Spool>())
}

/// What tells rows that are made once from others, where an operator reads such.
pub(crate) fn made(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    plan.downcast_ref::<SpoolExec>().map(SpoolExec::made)
}

/// Whether a float that is read from a table is computed: those of a spool are its plan's, and those of a recursive query may be.
pub(crate) fn is_computed(column: &Column, scan: &LogicalPlan) -> bool {
    let Some((_, provider)) = provider(scan) else { return false };
    let Some(spool) = provider.downcast_ref::<Spool>() else {
        return provider.downcast_ref::<CteWorkTable>().is_some();
    };
    let Ok(at) = spool.schema.index_of(&column.name) else { return true };
    zeros::is_computed(&Expr::from(spool.plan.schema().qualified_field(at)), &spool.plan)
}

/// What stands for the rows of a plan in another plan.
#[derive(Debug)]
struct Spool {
    name: String,
    plan: LogicalPlan,
    schema: SchemaRef,
    /// The columns that are read, wherever that is; `None`: nobody has told, and all may be.
    read: Mutex<Option<BTreeSet<usize>>>,
    planned: OnceCell<Planned>,
}

/// How the rows are made.
#[derive(Debug)]
struct Planned {
    input: Arc<dyn ExecutionPlan>,
    /// Which columns of the plan those of the input are.
    columns: Vec<usize>,
    made: Arc<Made>,
}

impl Spool {
    fn read(&self) -> MutexGuard<'_, Option<BTreeSet<usize>>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Some columns are read; `None`: all.
    fn reads(&self, columns: Option<&[usize]>) {
        let mut read = self.read();
        let read = read.get_or_insert_default();
        match columns {
            Some(columns) => read.extend(columns),
            None => read.extend(0..self.schema.fields().len()),
        }
    }

    /// Spools that are read here may be read elsewhere too. What of them is not known before this one's plan is optimised,
    /// which is too late for who is planned first.
    fn settle_within(&self) -> Result<()> {
        self.plan.apply_with_subqueries(|plan| {
            if let Some(spool) = provider(plan).and_then(|(_, provider)| provider.downcast_ref::<Self>()) {
                spool.reads(None);
                spool.settle_within()?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    async fn planned(&self, session: &SessionState) -> Result<Planned> {
        let read = self.read().clone();
        let all = || (0..self.schema.fields().len()).collect();
        let mut columns = read.map_or_else(all, |read| read.into_iter().collect::<Vec<usize>>());
        // Of no columns there are still as many rows.
        if columns.is_empty() && !self.schema.fields().is_empty() {
            columns.push(0);
        }
        let all = self.plan.schema().columns();
        let read = columns.iter().filter_map(|at| all.get(*at).cloned()).map(Expr::Column);
        let plan = LogicalPlanBuilder::from(self.plan.clone()).project(read.collect::<Vec<_>>())?.build()?;
        let optimise =
            |plan: LogicalPlan| bounded::planned(|| session.optimizer().optimize(plan, session, |_, _| {}));
        let optimised = match optimise(plan.clone()) {
            Ok(optimised) => optimised,
            // As for a whole statement.
            Err(error) => match correlated::decorrelated(session, &plan)? {
                Some(joined) => optimise(joined)?,
                None => return Err(error),
            },
        };
        settle(&optimised)?;
        // The rules for how plans run are applied to all of the statement's plan, with this one in it.
        let bare =
            SessionStateBuilder::new_from_existing(session.clone()).with_physical_optimizer_rules(Vec::new());
        let bare = bare.build();
        let input = bare.query_planner().create_physical_plan(&optimised, &bare).await?;
        let given = input.schema();
        let types = |schema: &Schema| -> Vec<_> {
            schema.fields().iter().map(|field| field.data_type().clone()).collect()
        };
        if types(&given) != types(&self.schema.project(&columns)?) {
            return internal_err!("a spool of {} has rows of {given}", self.schema);
        }
        Ok(Planned { input, columns, made: Arc::new(Made::new(self.name.clone())) })
    }
}

#[async_trait]
impl TableProvider for Spool {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(session) = session.as_any().downcast_ref::<SessionState>() else {
            return internal_err!("a spool is planned for no session");
        };
        let planned = self.planned.get_or_try_init(|| self.planned(session)).await?;
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let read = projection.unwrap_or(&all);
        let place = |column: &usize| {
            let at = planned.columns.iter().position(|of| of == column);
            at.ok_or_else(|| internal_datafusion_err!("column {column} of a spool is read, and was not"))
        };
        let columns = read.iter().map(place).collect::<Result<Vec<_>>>()?;
        let schema = Arc::new(self.schema.project(read)?);
        Ok(Arc::new(SpoolExec::new(Arc::clone(&planned.input), columns, schema, Arc::clone(&planned.made))))
    }
}
