//! From a statement to the plan that runs, over tables that are pinned once.

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::{ArrayRef, BooleanArray, StringArray};
use arrow_schema::DataType;
use async_trait::async_trait;
use basalt_core::{
    error::ErrorKind,
    schema::{DataType as Logical, Field, Schema},
};
use datafusion::{
    catalog::{
        CatalogProvider, CatalogProviderList, MemoryCatalogProvider, MemoryCatalogProviderList,
        SchemaProvider,
    },
    common::{DataFusionError, Result as PlanResult, ScalarValue},
    datasource::TableProvider,
    execution::{
        SendableRecordBatchStream, SessionState, SessionStateBuilder, context::SQLOptions,
        runtime_env::RuntimeEnvBuilder,
    },
    logical_expr::{AggregateUDF, LogicalPlan},
    optimizer::{Analyzer, AnalyzerRule, Optimizer, OptimizerRule},
    physical_plan::{ExecutionPlan, execute_stream, stream::RecordBatchStreamAdapter},
    prelude::SessionConfig,
    sql::{parser::Statement, sqlparser::ast},
};
use futures_util::{future::try_join_all, stream};

use crate::{
    answer::{Shown, rows, shown_type},
    arithmetic::Planner,
    bounded::{self, Bounded},
    catalog::Table,
    command::{Command, Description},
    engine::{Request, Shared},
    error::{Error, Result},
    fuse::FuseAggregates,
    limits,
    meaning::Meaning,
    memory::Pool,
    parse::{Named, Names, Parameters, Text},
    scan::Scan,
    sums::Sums,
    table::BasaltTable,
};

const CATALOG: &str = "basalt";
const SCHEMA: &str = "main";

/// Functions and rules, which are the same for all statements.
pub(crate) struct Base {
    state: SessionState,
}

impl std::fmt::Debug for Base {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Base").finish_non_exhaustive()
    }
}

impl Base {
    pub(crate) fn new() -> Result<Self> {
        let mut builder = SessionStateBuilder::new_with_default_features()
            .with_optimizer_rules(optimizer_rules())
            .with_analyzer_rules(analyzer_rules());
        builder.expr_planners().get_or_insert_default().insert(0, Arc::new(Planner));
        let aggregates = builder.aggregate_functions().get_or_insert_default();
        let ours = [AggregateUDF::from(Sums::sum()), AggregateUDF::from(Sums::average())];
        aggregates.retain(|function| ours.iter().all(|own| own.name() != function.name()));
        aggregates.extend(ours.into_iter().map(Arc::new));
        for function in builder.scalar_functions().get_or_insert_default() {
            if bounded::NAMES.contains(&function.name()) {
                *function = Arc::new(Bounded::over(Arc::clone(function)));
            }
        }
        Ok(Self { state: builder.build() })
    }

    fn session(&self, shared: &Shared, request: &Request) -> Result<SessionStateBuilder> {
        let runtime = RuntimeEnvBuilder {
            disk_manager: Some(Arc::clone(&shared.disk)),
            ..RuntimeEnvBuilder::new().with_memory_pool(Arc::new(Pool::new(Arc::clone(&request.memory))))
        };
        let mut config = SessionConfig::new()
            .with_target_partitions(shared.threads)
            .with_default_catalog_and_schema(CATALOG, SCHEMA)
            .with_create_default_catalog_and_schema(false)
            .with_information_schema(false);
        let options = config.options_mut();
        options.sql_parser.enable_ident_normalization = false;
        options.sql_parser.parse_float_as_decimal = true;
        options.sql_parser.map_string_types_to_utf8view = false;
        options.sql_parser.collect_spans = true;
        // What a build side has may be told as a set.
        options.optimizer.hash_join_inlist_pushdown_max_distinct_values = limits::SET_KEYS;
        options.optimizer.hash_join_inlist_pushdown_max_size = limits::SET_BYTES;
        options.execution.time_zone = Some("UTC".to_owned());
        options.explain.show_sizes = false;
        let builder = SessionStateBuilder::new_from_existing(self.state.clone());
        Ok(builder.with_config(config).with_runtime_env(Arc::new(runtime.build()?)))
    }
}

/// DataFusion's rules, with ours where conditions have come down to the tables and aggregates are still as they were
/// written.
fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules = Optimizer::new().rules;
    let before = rules.iter().position(|rule| rule.name() == "single_distinct_aggregation_to_group_by");
    // Default: behind all others.
    let at = before.unwrap_or(rules.len());
    rules.insert(at, Arc::new(FuseAggregates));
    rules
}

/// Ours comes before types are chosen.
fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let ours: Arc<dyn AnalyzerRule + Send + Sync> = Arc::new(Meaning);
    std::iter::once(ours).chain(Analyzer::new().rules).collect()
}

/// A statement that runs.
pub(crate) struct Planned {
    pub(crate) command: Command,
    pub(crate) shown: Shown,
    pub(crate) batches: SendableRecordBatchStream,
}

/// A statement whose names are resolved.
enum Resolved {
    /// It is planned.
    Query(Box<SessionState>, Statement),
    /// SHOW TABLES.
    Tables(Vec<String>),
    /// DESCRIBE.
    Columns(Arc<dyn Table>),
}

impl Resolved {
    fn command(&self) -> Command {
        match self {
            Self::Query(_, Statement::Explain(_)) => Command::Explain,
            Self::Query(..) => Command::Select,
            Self::Tables(_) | Self::Columns(_) => Command::Show,
        }
    }
}

/// Plans a statement and begins to run it.
pub(crate) async fn plan(shared: &Shared, request: Request) -> Result<Planned> {
    let resolved = resolve(shared, &request, Parameters::Given(&request.parameters)).await?;
    let command = resolved.command();
    match resolved {
        Resolved::Query(session, statement) => run(*session, statement, command).await,
        Resolved::Tables(tables) => show_tables(tables),
        Resolved::Columns(table) => describe_table(&*table),
    }
}

/// What a statement takes and gives. It is planned with NULL for each parameter, in the type that is taken there.
pub(crate) async fn describe(shared: &Shared, request: Request) -> Result<Description> {
    let resolved = resolve(shared, &request, Parameters::Open).await?;
    let command = resolved.command();
    match resolved {
        Resolved::Query(session, statement) => {
            let logical = session.statement_to_plan(statement).await.map_err(unplanned)?;
            verify(&logical)?;
            let types = logical.get_parameter_types().map_err(unplanned)?;
            let number = |name: &str| name.strip_prefix('$').and_then(|number| number.parse().ok());
            let last = types.keys().filter_map(|name| number(name)).max().unwrap_or(0_usize);
            let types: Vec<_> =
                (1..=last).map(|number| types.get(&format!("${number}")).cloned().flatten()).collect();
            // What may have any type is text, unless the statement has no plan then, as with LIMIT $1.
            let texts = typed(&session, logical.clone(), &types, &DataType::Utf8).await;
            let (types, schema) = match texts {
                Err(_) if types.contains(&None) => typed(&session, logical, &types, &DataType::Int64).await?,
                texts => texts?,
            };
            Ok(Description { command, parameters: types.iter().map(shown_type).collect(), schema })
        }
        Resolved::Tables(_) => Ok(described(command, tables_schema())),
        Resolved::Columns(_) => Ok(described(command, columns_schema())),
    }
}

/// The types of the parameters, where `unknown` is that of those that may have any, and the answer's columns.
async fn typed(
    session: &SessionState,
    logical: LogicalPlan,
    types: &[Option<DataType>],
    unknown: &DataType,
) -> Result<(Vec<DataType>, Schema)> {
    let types: Vec<_> = types.iter().map(|known| known.as_ref().unwrap_or(unknown).clone()).collect();
    let nulls = types.iter().map(ScalarValue::try_from).collect::<PlanResult<Vec<_>>>();
    let logical = logical.with_param_values(nulls.map_err(unplanned)?).map_err(unplanned)?;
    let physical = session.create_physical_plan(&logical).await.map_err(unplanned)?;
    let shown = Shown::new(logical.schema(), &physical.schema())?;
    Ok((types, shown.schema().clone()))
}

fn described(command: Command, schema: Schema) -> Description {
    Description { command, parameters: Vec::new(), schema }
}

/// Reads the text and pins the tables that it names.
async fn resolve(shared: &Shared, request: &Request, parameters: Parameters<'_>) -> Result<Resolved> {
    if request.parameters.len() > limits::PARAMETERS {
        let message = format!("{} parameters; the limit is {}", request.parameters.len(), limits::PARAMETERS);
        return Err(Error::invalid(message));
    }
    let text = Text::new(&request.sql)?;
    let known = request.catalog.tables().await?;
    let mut names = Names::default();
    known.iter().for_each(|table| names.add(table));
    let mut parsed = text.parse(&names, parameters)?;
    if let Statement::Statement(statement) = &parsed.statement {
        match &**statement {
            ast::Statement::ShowTables { .. } => return Ok(Resolved::Tables(known)),
            ast::Statement::ExplainTable { table_name, .. } => {
                let [ast::ObjectNamePart::Identifier(name)] = table_name.0.as_slice() else {
                    return Err(no_table(&table_name.to_string()));
                };
                return Ok(Resolved::Columns(pin(request, &known, &(name.value.clone(), None)).await?));
            }
            _ => {}
        }
    }
    let pinned = parsed
        .tables
        .iter()
        .map(async |(name, of)| Ok::<_, Error>((name.clone(), pin(request, &known, of).await?)));
    let pinned: BTreeMap<_, _> = try_join_all(pinned).await?.into_iter().collect();
    for table in pinned.values() {
        table.schema().fields().iter().for_each(|field| names.add(&field.name));
    }
    if !names.are_lower() {
        // Columns have told how some of the names are spelled.
        parsed = text.parse(&names, parameters)?;
    }
    let tables = pinned
        .into_iter()
        .map(|(name, table)| (name, Arc::new(BasaltTable::new(table)) as Arc<dyn TableProvider>));
    let schema: Arc<dyn SchemaProvider> = Arc::new(Pinned(tables.collect()));
    let catalog = MemoryCatalogProvider::new();
    catalog.register_schema(SCHEMA, schema)?;
    let catalogs = MemoryCatalogProviderList::new();
    catalogs.register_catalog(CATALOG.to_owned(), Arc::new(catalog));
    let session = shared.base.session(shared, request)?.with_catalog_list(Arc::new(catalogs));
    Ok(Resolved::Query(Box::new(session.build()), parsed.statement))
}

/// Refuses what no query is.
fn verify(logical: &LogicalPlan) -> Result<()> {
    let options = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    Ok(options.verify_plan(logical)?)
}

async fn run(mut session: SessionState, statement: Statement, command: Command) -> Result<Planned> {
    session.mark_start_execution();
    let logical = session.statement_to_plan(statement).await.map_err(unplanned)?;
    verify(&logical)?;
    let physical = session.create_physical_plan(&logical).await.map_err(unplanned)?;
    let shown = Shown::new(logical.schema(), &physical.schema())?;
    let scans = scans(&physical);
    if scans > limits::SCANS {
        let message = format!("the statement reads tables {scans} times; the limit is {}", limits::SCANS);
        return Err(Error::new(ErrorKind::FilterTooLarge, message));
    }
    let batches = execute_stream(physical, session.task_ctx())?;
    Ok(Planned { command, shown, batches })
}

/// The leaves that the engine runs.
fn scans(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let below: usize = plan.children().into_iter().map(scans).sum();
    below + usize::from(plan.is::<Scan>())
}

/// The error of a statement that is not planned. What the planner takes for a fault of its own is one that it cannot plan.
fn unplanned(error: DataFusionError) -> Error {
    match Error::from(error) {
        Error::Internal(message) => {
            let words: String = message.lines().next().unwrap_or_default().chars().take(200).collect();
            Error::invalid(format!("the statement cannot be planned: {words}"))
        }
        error => error,
    }
}

fn no_table(name: &str) -> Error {
    Error::new(ErrorKind::TableNotFound, format!("no table {name:?}"))
}

/// A table at the version that the statement reads.
async fn pin(request: &Request, known: &[String], (name, version): &Named) -> Result<Arc<dyn Table>> {
    if known.binary_search(name).is_err() {
        return Err(no_table(name));
    }
    request.catalog.pin(name, *version).await
}

fn tables_schema() -> Schema {
    Schema::of_answer(vec![Field::new("table_name", Logical::Utf8, true)])
}

fn show_tables(tables: Vec<String>) -> Result<Planned> {
    made(tables_schema(), vec![Arc::new(StringArray::from(tables))])
}

fn columns_schema() -> Schema {
    let columns = [
        ("column_name", Logical::Utf8),
        ("data_type", Logical::Utf8),
        ("is_nullable", Logical::Bool),
        ("references", Logical::Utf8),
    ];
    Schema::of_answer(columns.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec())
}

fn describe_table(table: &dyn Table) -> Result<Planned> {
    let fields = table.schema().fields();
    let text = |of: &dyn Fn(&Field) -> Option<String>| {
        Arc::new(fields.iter().map(of).collect::<StringArray>()) as ArrayRef
    };
    let columns = vec![
        text(&|field| Some(field.name.clone())),
        text(&|field| Some(field.type_name())),
        Arc::new(fields.iter().map(|field| Some(field.nullable)).collect::<BooleanArray>()) as ArrayRef,
        text(&|field| field.references.as_ref().map(ToString::to_string)),
    ];
    made(columns_schema(), columns)
}

/// An answer that is there already.
fn made(schema: Schema, columns: Vec<ArrayRef>) -> Result<Planned> {
    let shown = Shown::of(schema);
    let batch = rows(shown.arrow(), columns)?;
    let batches = RecordBatchStreamAdapter::new(Arc::clone(shown.arrow()), stream::iter([Ok(batch)]));
    Ok(Planned { command: Command::Show, shown, batches: Box::pin(batches) })
}

/// The tables of one statement.
#[derive(Debug)]
struct Pinned(BTreeMap<String, Arc<dyn TableProvider>>);

#[async_trait]
impl SchemaProvider for Pinned {
    fn table_names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    async fn table(&self, name: &str) -> PlanResult<Option<Arc<dyn TableProvider>>> {
        Ok(self.0.get(name).cloned())
    }

    fn table_exist(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}
