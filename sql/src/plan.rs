//! From a statement to the plan that runs, over tables that are pinned once.

use std::{collections::HashMap, sync::Arc};

use arrow_array::StringArray;
use basalt_core::{
    error::ErrorKind,
    query::{Expr as Value, Filter, Query, SelectItem},
};
use datafusion::{
    common::{DataFusionError, config::ConfigOptions},
    execution::{
        FunctionRegistry as _, SendableRecordBatchStream, SessionState, SessionStateBuilder, TaskContext,
        context::{QueryPlanner, SQLOptions},
        runtime_env::RuntimeEnv,
    },
    logical_expr::LogicalPlan,
    physical_plan::{ExecutionPlan, coop::CooperativeExec},
    prelude::SessionConfig,
    sql::{parser::Statement, sqlparser::ast},
};
use futures_util::StreamExt as _;

use crate::{
    answer::Shown,
    arithmetic,
    around::around,
    bits,
    bounded::{self, Bounded},
    carried,
    catalog::{Catalog, Change, Table, Written},
    checked::{self, Within},
    chosen,
    command::Command,
    copy::{CopyForm, Target},
    correlated, counted,
    decimals::{floats, numeric, quotient, whole},
    define, dialect, digests, distributed,
    engine::{Request, Shared},
    entries, epoch, equal_intervals,
    error::{Error, Result},
    execute::execute,
    expected, extremes, fill, first_last, functions, gathered,
    headings::Headings,
    interruptible::GivenUp,
    joined, json, lambdas, light, limits, lists,
    local::{self, Local},
    logical::logical,
    made::{affected, describe_columns, made, show_settings, show_tables, show_views, text_schema},
    named,
    nan::{self, OneNan},
    narrow::narrow,
    numbered, octets,
    operators::Planner,
    parse::{Parameters, as_query},
    places::{self, Places},
    plans::{Listed, Pins, Plan},
    replaced::{self, Replaced},
    resolve::{Resolved, cancelled, resolve},
    rules,
    scan::Scan,
    scans, series, shifted,
    signed::{self, Signed},
    spool, stored, strings,
    strings::distance,
    summary,
    sums::Sums,
    system,
    timestamps::{self, Seconds},
    truncated::{self, Truncated},
    write::{Effect, Rewritten},
};

const CATALOG: &str = system::DATABASE;
const SCHEMA: &str = system::SCHEMA;

/// Functions and rules, which are the same for all statements.
pub(crate) struct Base {
    state: SessionState,
    /// All functions, by name, and those that rewritten statements have.
    functions: Arc<TaskContext>,
    /// What tasks of statements are run with.
    options: Arc<ConfigOptions>,
    /// What cuts plans into the stages of tasks.
    planner: distributed::Planner,
}

impl std::fmt::Debug for Base {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Base").finish_non_exhaustive()
    }
}

impl Base {
    pub(crate) fn new(threads: usize) -> Result<Self> {
        let mut builder = SessionStateBuilder::new_with_default_features()
            .with_config(config(threads))
            .with_optimizer_rules(rules::of_optimizer())
            .with_physical_optimizer_rules(rules::of_physical_optimizer())
            .with_analyzer_rules(rules::of_analyzer());
        builder.expr_planners().get_or_insert_default().insert(0, Arc::new(Planner));
        let aggregates = builder.aggregate_functions().get_or_insert_default();
        let [least, greatest] = extremes::all();
        let ours = [Sums::sum().into(), Sums::average().into(), least, greatest];
        let ours = ours.into_iter().chain([joined::function(), counted::array_agg()]);
        let ours: Vec<_> = ours.chain(gathered::all()).collect();
        let is_ours = |name: &str| {
            ours.iter().any(|own| own.name() == name || own.aliases().iter().any(|alias| alias == name))
        };
        aggregates.retain(|function| !is_ours(function.name()));
        for function in aggregates.iter_mut().filter(|of| nan::AGGREGATES.contains(&of.name())) {
            *function = Arc::new(nan::aggregate(Arc::clone(function)));
        }
        aggregates.extend(ours.into_iter().map(Arc::new));
        for function in builder.scalar_functions().get_or_insert_default() {
            if chosen::NAMES.contains(&function.name()) {
                *function = Arc::new(chosen::function(Arc::clone(function)));
            } else if bounded::NAMES.contains(&function.name()) {
                *function = Arc::new(around::<Bounded>(Arc::clone(function)));
            } else if replaced::NAMES.contains(&function.name()) {
                *function = Arc::new(around::<Replaced>(Arc::clone(function)));
            } else if function.name() == distance::LEVENSHTEIN {
                *function = Arc::new(around::<distance::Bounded>(Arc::clone(function)));
            } else if function.name() == timestamps::OF_SECONDS {
                *function = Arc::new(around::<Seconds>(Arc::clone(function)));
            } else if function.name() == truncated::NAME {
                *function = Arc::new(around::<Truncated>(Arc::clone(function)));
            } else if checked::MAKERS.contains(&function.name()) {
                let made = match function.name() {
                    local::NAME => Arc::new(around::<Local>(Arc::clone(function))),
                    _ => Arc::clone(function),
                };
                *function = Arc::new(around::<Within>(made));
            } else if places::NAMES.contains(&function.name()) {
                *function = Arc::new(around::<Places>(Arc::clone(function)));
            } else if signed::NAMES.contains(&function.name()) {
                *function = Arc::new(around::<Signed>(Arc::clone(function)));
            } else if nan::NAMES.contains(&function.name()) {
                *function = Arc::new(around::<OneNan>(Arc::clone(function)));
            }
        }
        for function in builder.table_functions().get_or_insert_default().values_mut() {
            *function = series::of_timestamps(function);
        }
        let functions = builder.scalar_functions().get_or_insert_default();
        let ours: Vec<_> = functions::all()
            .chain(system::functions())
            .chain(lists::all())
            .chain(strings::all())
            .chain(digests::all())
            .chain(timestamps::all())
            .chain(entries::all())
            .chain(epoch::all())
            .chain(quotient::all())
            .chain(numeric::all())
            .chain(json::all())
            .chain([named::function(), octets::function(), stored::function()])
            .collect();
        functions.retain(|function| ours.iter().all(|own| own.name() != function.name()));
        functions.extend(ours.into_iter().map(Arc::new));
        let windows = builder.window_functions().get_or_insert_default();
        for function in windows.iter_mut().filter(|of| numbered::NAMES.contains(&of.name())) {
            *function = Arc::new(numbered::function(Arc::clone(function)));
        }
        windows.push(Arc::new(fill::function()));
        let of_lambdas = builder.higher_order_functions().get_or_insert_default();
        let ours: Vec<_> = lambdas::all().map(Arc::new).collect();
        of_lambdas.retain(|function| {
            ours.iter().all(|own| !own.aliases().iter().any(|name| name == function.name()))
        });
        of_lambdas.extend(ours);
        let state = builder.build();
        let mut of_tasks = state.clone();
        let inner = functions::inner().chain(lists::inner()).chain(arithmetic::inner()).chain(epoch::inner());
        for function in inner
            .chain(bits::inner())
            .chain(checked::inner())
            .chain(whole::inner())
            .chain(floats::inner())
            .chain(equal_intervals::inner())
        {
            of_tasks.register_udf(Arc::new(function))?;
        }
        for function in gathered::moving::all() {
            of_tasks.register_udaf(Arc::new(function))?;
        }
        for function in shifted::all().chain(first_last::all()).chain([carried::function()]) {
            of_tasks.register_udwf(Arc::new(function))?;
        }
        let (functions, options) = (of_tasks.task_ctx(), distributed::task_options(&state));
        Ok(Self { state, functions, options, planner: distributed::Planner::new() })
    }

    pub(crate) fn functions(&self) -> &Arc<TaskContext> {
        &self.functions
    }

    pub(crate) fn options(&self) -> &Arc<ConfigOptions> {
        &self.options
    }

    /// Rows of a batch, where nothing has it be smaller.
    pub(crate) fn batch_rows(&self) -> usize {
        self.state.config().batch_size()
    }

    pub(crate) fn planner(&self) -> &distributed::Planner {
        &self.planner
    }

    /// What a statement is planned with. Building it takes longer than planning a small statement, so it is cloned.
    pub(crate) fn session(&self, shared: &Shared, request: &Request) -> Result<SessionState> {
        let runtime = distributed::runtime(shared, Arc::clone(&request.memory))?;
        let mut state = self.state.clone();
        state.config_mut().set_extension(Arc::new(Own { runtime, catalog: Arc::clone(&request.catalog) }));
        Ok(state)
    }
}

/// What one statement has.
struct Own {
    /// Its memory and its disk.
    runtime: Arc<RuntimeEnv>,
    catalog: Arc<dyn Catalog>,
}

/// Whose statement is planned and run in a session; `None`: that of another node.
pub(crate) fn catalog(session: &SessionState) -> Option<Arc<dyn Catalog>> {
    let own = session.config().get_extension::<Own>();
    own.map(|own| Arc::clone(&own.catalog))
}

/// What the plan of a session runs in.
pub(crate) fn context(session: &SessionState) -> Arc<TaskContext> {
    let own = session.config().get_extension::<Own>();
    // Default: that of all sessions, which has no memory of the server's.
    let runtime = own.map_or_else(|| Arc::clone(session.runtime_env()), |own| Arc::clone(&own.runtime));
    let (session_id, config) = (session.session_id().to_owned(), session.config().clone());
    let context = TaskContext::new(
        None,
        session_id,
        config,
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        runtime,
    );
    Arc::new(context)
}

fn config(threads: usize) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(threads)
        .with_default_catalog_and_schema(CATALOG, SCHEMA)
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(false);
    let options = config.options_mut();
    options.sql_parser.enable_ident_normalization = false;
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.map_string_types_to_utf8view = false;
    options.sql_parser.collect_spans = true;
    options.execution.sort_spill_reservation_bytes = limits::MERGE_BYTES;
    options.execution.time_zone = Some("UTC".to_owned());
    options.explain.show_sizes = false;
    // It takes each NaN for a group of its own.
    options.optimizer.enable_topk_aggregation = false;
    // The two planners differ in what may be NULL (`(k < 1) IS FALSE`), which is no reason to refuse an aggregate.
    options.execution.skip_physical_aggregate_schema_check = true;
    config
}

/// A statement that runs.
pub(crate) struct Planned {
    pub(crate) command: Command,
    pub(crate) shown: Shown,
    pub(crate) batches: SendableRecordBatchStream,
    /// The rows are what COPY gives to the client, in this form.
    pub(crate) copied: Option<CopyForm>,
}

/// Plans a statement and begins to run it. One that writes has written when this returns; where another change came
/// first it is planned again, over the newest versions.
pub(crate) async fn plan(shared: &Shared, request: Request) -> Result<Planned> {
    if let Some(id) = cancelled(&request)? {
        request.catalog.admit(true).await?;
        request.catalog.cancel(&id).await?;
        return affected(Command::CancelQuery, 0);
    }
    if let Some(query) = summary::summarized(&request.sql)? {
        return summary::summary(shared, &request, &query).await;
    }
    for _ in 0..limits::WRITE_ATTEMPTS {
        let (listed, mut pins) = (Listed::of(&request).await?, Pins::new());
        // What is wrong with a table is told as it is of any statement.
        if let Ok(Some(kept)) = shared.plans.find(&request, &listed, &mut pins).await {
            let mut session = shared.base.session(shared, &request)?;
            session.mark_start_execution();
            narrow(&mut session, &kept.optimised)?;
            let physical = of_optimised(&session, &kept.optimised).await.map_err(unplanned)?;
            return run(shared, &request, session, &kept, physical, Command::Select).await;
        }
        let given = Parameters::Given(&request.parameters);
        let resolved = resolve(shared, &request, given, &listed, &mut pins).await?;
        let command = resolved.command();
        match &resolved {
            // Their plans tell.
            Resolved::Query(..) | Resolved::Write(..) | Resolved::CopyTo(_, _, Target::Client(_), _) => {}
            // Most of its time it waits for the client.
            Resolved::CopyFrom(_, _, Target::Client(_)) => request.catalog.admit(true).await?,
            Resolved::CopyTo(..)
            | Resolved::CopyFrom(..)
            | Resolved::CreateAs(..)
            | Resolved::Alter { .. }
            | Resolved::Drop { .. } => request.catalog.admit(false).await?,
            _ => request.catalog.admit(true).await?,
        }
        let written = match resolved {
            Resolved::Query(session, statement, headings) => {
                let (session, plan, physical) = planned(*session, statement, headings).await?;
                if command == Command::Select {
                    shared.plans.keep(&request, &listed, &pins, &plan);
                }
                return run(shared, &request, session, &plan, physical, command).await;
            }
            Resolved::Settings(about) => return show_settings(&about, shared.timeout),
            Resolved::Tables(tables) => return show_tables(tables),
            Resolved::Columns(table) => return describe_columns(table.schema()),
            Resolved::Views(views) => return show_views(&views),
            Resolved::Text(text) => {
                return made(text_schema(), vec![Arc::new(StringArray::from(vec![text]))]);
            }
            Resolved::ColumnsOf(session, statement, headings) => {
                let (_, plan, physical) = planned(*session, statement, headings).await?;
                return describe_columns(plan.shown(&physical)?.schema());
            }
            Resolved::CreateView(session, mut view) => {
                let query = as_query(view.query.clone());
                let (_, plan, physical) = planned(*session, query, Headings::default()).await?;
                plan.shown(&physical)?;
                dialect::as_casts(&mut view.query);
                request.catalog.create_view(&view.name, &view.query.to_string(), view.replaces).await?;
                NOTHING
            }
            Resolved::CopyTo(session, query, Target::Client(form), headings) => {
                request.catalog.copies_out()?;
                let (session, plan, physical) = planned(*session, as_query(query), headings).await?;
                let planned = run(shared, &request, session, &plan, physical, command).await?;
                return Ok(Planned { copied: Some(form), ..planned });
            }
            Resolved::CopyTo(session, query, Target::File(file), headings) => {
                let (session, plan, physical) = planned(*session, as_query(query), headings).await?;
                let shown = plan.shown(&physical)?;
                let sink = request.catalog.copy_sink(&file.path).await?;
                let rows = execute(shared, &session, &plan.logical, physical).await?;
                let inserted = file.write(rows, &shown, sink, &request.memory).await?;
                Written::Done { inserted, deleted: 0 }
            }
            Resolved::CopyFrom(table, columns, target) => {
                let mut writer = table.write(Change::Insert).await?;
                target.read(&request, table.schema(), &columns, &mut *writer).await?;
                let written = writer.commit().await?;
                // A client sends its rows once.
                if matches!((&target, &written), (Target::Client(_), Written::Conflict)) {
                    let message = "the table was replaced or dropped meanwhile; send the rows again";
                    return Err(Error::new(ErrorKind::WriteConflict, message));
                }
                written
            }
            Resolved::Alter { table, alterations, full } => {
                let exactly = !full.is_empty();
                for column in full {
                    check_full(&*table, column).await?;
                }
                table.alter(alterations, exactly).await?
            }
            Resolved::Cancel(id) => {
                request.catalog.cancel(&id).await?;
                NOTHING
            }
            Resolved::DropView { view, if_exists } => {
                request.catalog.drop_view(&view, if_exists).await?;
                NOTHING
            }
            Resolved::Write(session, rewritten, target) => {
                write(shared, &request, *session, *rewritten, &*target).await?
            }
            Resolved::Rows(effect, rows, target) => {
                let writer = target.write(effect.change.clone()).await?;
                rows.write(&effect, writer).await?
            }
            Resolved::Create(create) => {
                let table = define::new_table(&create, None)?;
                request.catalog.create_table(table, create.if_not_exists).await?;
                NOTHING
            }
            Resolved::CreateAs(session, create, query, headings) => {
                create_as(shared, &request, *session, &create, query, headings).await?
            }
            Resolved::Drop { table, if_exists } => {
                request.catalog.drop_table(&table, if_exists).await?;
                NOTHING
            }
            Resolved::Nothing(_) => NOTHING,
        };
        if let Written::Done { inserted, deleted } = written {
            let rows =
                if command == Command::Delete || command == Command::Truncate { deleted } else { inserted };
            return affected(command, rows);
        }
    }
    Err(Error::new(ErrorKind::WriteConflict, "other writes change the same table all the time; try again"))
}

/// No rows were written.
const NOTHING: Written = Written::Done { inserted: 0, deleted: 0 };

/// Fails where a column of a version has a null.
async fn check_full(table: &dyn Table, column: String) -> Result<()> {
    if table.schema().index_of(&column).is_none() {
        let message = format!("the table has no column {column:?}");
        return Err(Error::new(ErrorKind::ColumnNotFound, message));
    }
    if table.retention().is_some() {
        let message =
            "SET NOT NULL of a table with retention: rows that are too old to be read may have nulls";
        return Err(Error::unsupported(message));
    }
    let select = vec![SelectItem { expr: Value::Column(column.clone()), name: None }];
    let filter = Some(Filter::IsNull(Value::Column(column.clone())));
    let mut nulls = table.run(Query { select, filter, limit: Some(1), ..Query::default() });
    while let Some(batch) = nulls.next().await {
        if batch?.num_rows() > 0 {
            let message = format!("column {column:?} has nulls");
            return Err(Error::new(ErrorKind::InvalidSchema, message));
        }
    }
    Ok(())
}

/// Runs the query of a statement that writes, and writes what it gives.
async fn write(
    shared: &Shared,
    request: &Request,
    session: SessionState,
    rewritten: Rewritten,
    target: &dyn Table,
) -> Result<Written> {
    let Rewritten { query, effect, .. } = rewritten;
    let (session, Plan { logical, .. }, physical) =
        planned(session, Statement::Statement(Box::new(query)), Headings::default()).await?;
    request.catalog.admit(light::is_light(&physical)).await?;
    effect.check(&physical.schema())?;
    // What the engine selects it also deletes, wherever the rows are.
    if effect.change == Change::Delete
        && let Some(filter) = bare(&physical).downcast_ref::<Scan>().and_then(Scan::selects)
        && let Some(deleted) = target.delete(filter.cloned()).await?
    {
        return Ok(Written::Done { inserted: 0, deleted });
    }
    let writer = target.write(effect.change.clone()).await?;
    effect.write(execute(shared, &session, &logical, physical).await?, writer).await
}

/// A plan without what lets others have their turn, which stands above a leaf.
fn bare(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    match plan.children()[..] {
        [below] if plan.is::<CooperativeExec>() => bare(below),
        _ => plan,
    }
}

async fn create_as(
    shared: &Shared,
    request: &Request,
    session: SessionState,
    create: &ast::CreateTable,
    query: Box<ast::Query>,
    headings: Headings,
) -> Result<Written> {
    let statement = Statement::Statement(Box::new(ast::Statement::Query(query)));
    let (session, plan, physical) = planned(session, statement, headings).await?;
    let shown = plan.shown(&physical)?;
    let table = define::new_table(create, Some(shown.schema().fields().to_vec()))?;
    let effect = Effect::of_new_table(&table.schema);
    effect.check(&physical.schema())?;
    let writer = request.catalog.create_table_as(table).await?;
    effect.write(execute(shared, &session, &plan.logical, physical).await?, writer).await
}

/// Refuses what no query is.
pub(crate) fn verify(logical: &LogicalPlan) -> Result<()> {
    let options = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    Ok(options.verify_plan(logical)?)
}

async fn run(
    shared: &Shared,
    request: &Request,
    session: SessionState,
    plan: &Plan,
    physical: Arc<dyn ExecutionPlan>,
    command: Command,
) -> Result<Planned> {
    let (shown, logical) = (plan.shown(&physical)?, &plan.logical);
    let shown = shown.for_client(&*request.catalog, &physical.schema());
    request.catalog.admit(light::is_light(&physical)).await?;
    let physical = expected::told(&session, logical, physical).await;
    let physical = distributed::explained(shared, request, &session, logical, physical).await?;
    let batches = distributed::run(shared, request, &session, logical, physical).await?;
    Ok(Planned { command, shown, batches, copied: None })
}

/// A query's plan, for this node.
async fn planned(
    mut session: SessionState,
    statement: Statement,
    headings: Headings,
) -> Result<(SessionState, Plan, Arc<dyn ExecutionPlan>)> {
    session.mark_start_execution();
    let logical = logical(&session, statement).await?;
    verify(&logical)?;
    let (optimised, mut physical) = optimised(&session, &logical).await?;
    scans::few(&physical)?;
    if narrow(&mut session, &optimised)? {
        physical = of_optimised(&session, &optimised).await.map_err(unplanned)?;
    }
    Ok((session, Plan { logical, optimised, headings }, physical))
}

/// How a plan runs.
pub(crate) async fn physical(
    session: &SessionState,
    logical: &LogicalPlan,
) -> Result<Arc<dyn ExecutionPlan>> {
    Ok(optimised(session, logical).await?.1)
}

/// What a plan is optimised to, and how it runs. Correlated subqueries that the planner cannot make joins of are made
/// joins here.
async fn optimised(
    session: &SessionState,
    logical: &LogicalPlan,
) -> Result<(LogicalPlan, Arc<dyn ExecutionPlan>)> {
    optimised_by(session, session.query_planner(), logical).await
}

/// The same by another planner.
pub(crate) async fn optimised_by(
    session: &SessionState,
    planner: &Arc<dyn QueryPlanner + Send + Sync>,
    logical: &LogicalPlan,
) -> Result<(LogicalPlan, Arc<dyn ExecutionPlan>)> {
    let of = async |logical: &LogicalPlan| {
        let optimised = bounded::planned(|| session.optimize(logical))?;
        GivenUp::of_task().check()?;
        spool::settle(&optimised)?;
        let physical = planner.create_physical_plan(&optimised, session).await?;
        Ok::<_, DataFusionError>((optimised, physical))
    };
    let shared = spool::shared(session, logical).map_err(unplanned)?;
    // Default: it reads nothing more than once that would be other rows each time.
    let logical = shared.as_ref().unwrap_or(logical);
    // So many are not all left out, and to plan them takes long.
    scans::few_planned(logical)?;
    scans::not_deep(logical)?;
    if let Some(joined) = correlated::set_apart(session, logical).map_err(unplanned)? {
        return of(&joined).await.map_err(unplanned);
    }
    let error = match of(logical).await {
        Ok(planned) => return Ok(planned),
        Err(error) => error,
    };
    match correlated::decorrelated(session, logical).map_err(unplanned)? {
        Some(joined) => of(&joined).await.map_err(unplanned),
        None => Err(unplanned(error)),
    }
}

/// How an optimised plan runs.
async fn of_optimised(
    session: &SessionState,
    optimised: &LogicalPlan,
) -> std::result::Result<Arc<dyn ExecutionPlan>, DataFusionError> {
    GivenUp::of_task().check()?;
    session.query_planner().create_physical_plan(optimised, session).await
}

/// The error of a statement that is not planned. What the planner takes for a fault of its own is one that it cannot plan.
pub(crate) fn unplanned(error: DataFusionError) -> Error {
    match Error::from(error) {
        Error::Internal(message) => {
            let words: String = message.lines().next().unwrap_or_default().chars().take(200).collect();
            Error::invalid(format!("the statement cannot be planned: {words}"))
        }
        error => error,
    }
}
