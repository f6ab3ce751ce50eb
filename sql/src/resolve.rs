//! From a text to what it asks for: its names resolved, its tables pinned once, its views planned.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use async_trait::async_trait;
use basalt_core::{error::ErrorKind, similar};
use datafusion::{
    catalog::{
        CatalogProvider, CatalogProviderList, MemoryCatalogProvider, MemoryCatalogProviderList,
        SchemaProvider,
    },
    common::Result as PlanResult,
    datasource::TableProvider,
    execution::SessionState,
    logical_expr::registry::FunctionRegistry as _,
    sql::{parser::Statement, sqlparser::ast},
};
use futures_util::future::try_join_all;

use crate::{
    catalog::{Alteration, Table},
    command::Command,
    copy::Target,
    define::{self, NewView},
    elsewhere,
    engine::{Request, Shared},
    error::{Error, Result},
    headings::Headings,
    limits,
    literal_rows::LiteralRows,
    parse::{Named, Names, Parameters, Text},
    plans::{Listed, Pins},
    settings::{self, About},
    system,
    table::BasaltTable,
    views::{self, Read, Texts, Views, text_of_table, within},
    write::{Effect, Rewritten, rewrite, target, with_addresses},
};

/// A statement whose names are resolved.
pub(crate) enum Resolved {
    /// It is planned.
    Query(Box<SessionState>, Statement, Headings),
    /// SHOW, SET or RESET of settings.
    Settings(About),
    /// SHOW TABLES.
    Tables(Vec<String>),
    /// DESCRIBE.
    Columns(Arc<dyn Table>),
    /// What its query gives is written to a table.
    Write(Box<SessionState>, Box<Rewritten>, Arc<dyn Table>),
    /// The rows of an INSERT that needs no planner.
    Rows(Box<Effect>, LiteralRows, Arc<dyn Table>),
    /// CREATE TABLE.
    Create(Box<ast::CreateTable>),
    /// CREATE TABLE ... AS.
    CreateAs(Box<SessionState>, Box<ast::CreateTable>, Box<ast::Query>, Headings),
    /// DROP TABLE.
    Drop { table: String, if_exists: bool },
    /// CREATE VIEW.
    CreateView(Box<SessionState>, NewView),
    /// ALTER TABLE, and the columns that must have no null.
    Alter { table: Arc<dyn Table>, alterations: Vec<Alteration>, full: Vec<String> },
    /// COPY of a query to a file, or to the client.
    CopyTo(Box<SessionState>, Box<ast::Query>, Target, Headings),
    /// COPY of columns of a file, or of what the client sends, to a table.
    CopyFrom(Arc<dyn Table>, Vec<String>, Target),
    /// DROP VIEW.
    DropView { view: String, if_exists: bool },
    /// CANCEL QUERY.
    Cancel(String),
    /// What is to be made is there.
    Nothing(Command),
    /// SHOW VIEWS.
    Views(Texts),
    /// SHOW CREATE.
    Text(String),
    /// DESCRIBE of a query; that of a view is of one that gives all of it.
    ColumnsOf(Box<SessionState>, Statement, Headings),
}

impl Resolved {
    pub(crate) fn command(&self) -> Command {
        match self {
            Self::Query(_, Statement::Explain(_), _) => Command::Explain,
            Self::Query(..) => Command::Select,
            Self::Tables(_) | Self::Columns(_) | Self::Views(_) | Self::Text(_) | Self::ColumnsOf(..) => {
                Command::Show
            }
            Self::Settings(About::Nothing) => Command::Set,
            Self::Settings(_) => Command::Show,
            Self::CreateView(..) => Command::CreateView,
            Self::DropView { .. } => Command::DropView,
            Self::Cancel(_) => Command::CancelQuery,
            Self::Alter { .. } => Command::AlterTable,
            Self::CopyTo(..) | Self::CopyFrom(..) => Command::Copy,
            Self::Write(_, rewritten, _) => rewritten.command,
            Self::Rows(..) => Command::Insert,
            Self::Create(_) => Command::CreateTable,
            Self::CreateAs(..) => Command::CreateTableAs,
            Self::Drop { .. } => Command::DropTable,
            Self::Nothing(command) => *command,
        }
    }
}

/// The query that a statement stops. It is told first: it is to work where tables cannot be listed.
pub(crate) fn cancelled(request: &Request) -> Result<Option<String>> {
    let first = request.sql.trim_start().as_bytes().first_chunk::<6>();
    if first.is_none_or(|word| !word.eq_ignore_ascii_case(b"cancel")) {
        return Ok(None);
    }
    Ok(Text::new(&request.sql)?.cancelled().map(ToOwned::to_owned))
}

/// Reads the text and pins the tables that it names, itself or through views, as far as they are not yet.
pub(crate) async fn resolve(
    shared: &Shared,
    request: &Request,
    parameters: Parameters<'_>,
    Listed { tables: known, views }: &Listed,
    pins: &mut Pins,
) -> Result<Resolved> {
    if request.parameters.len() > limits::PARAMETERS {
        let message = format!("{} parameters; the limit is {}", request.parameters.len(), limits::PARAMETERS);
        return Err(Error::invalid(message));
    }
    let mut text = Text::new(&request.sql)?;
    if let Some(id) = text.cancelled() {
        return Ok(Resolved::Cancel(id.to_owned()));
    }
    let names = Names::of_tables(known.iter().chain(views.keys()));
    let mut names = names.for_columns(request.naming());
    let mut parsed = text.parse(&names, parameters)?;
    let mut describes = parsed.describes;
    if let Statement::Statement(statement) = &parsed.statement {
        if let Some(about) = settings::about(statement)? {
            return Ok(Resolved::Settings(about));
        }
        match shown(statement, views)? {
            Some(Asked::Tables) => return Ok(Resolved::Tables(known.clone())),
            Some(Asked::Views) => {
                return Ok(Resolved::Views(views::shown(views, known, &*request.catalog)));
            }
            Some(Asked::TextOfView(name)) => {
                let mut texts = views::shown(views, known, &*request.catalog);
                let text = texts.remove(&name).ok_or_else(|| {
                    request.catalog.not_found(&name, false);
                    no_view(&name)
                })?;
                let hidden = || Error::invalid(format!("view {name:?} is over what you may not read"));
                let sql = text.ok_or_else(hidden)?;
                return Ok(Resolved::Text(format!("CREATE VIEW \"{name}\" AS {sql}")));
            }
            Some(Asked::TextOfTable(name)) => {
                let table = pin(request, pins, known, &(name, None), false).await?;
                return Ok(Resolved::Text(text_of_table(&*table)));
            }
            Some(Asked::Columns(name)) if views.contains_key(&name) => {
                describes = true;
                text = Text::new(&format!("SELECT * FROM \"{name}\""))?;
                parsed = text.parse(&names, parameters)?;
            }
            Some(Asked::Columns(name)) => {
                return Ok(Resolved::Columns(pin(request, pins, known, &(name, None), false).await?));
            }
            None => {}
        }
    }
    if let Statement::Statement(statement) = &parsed.statement
        && let ast::Statement::Copy { source: ast::CopySource::Table { table_name, .. }, .. } = &**statement
    {
        let name = define::only_name(table_name)?;
        if views.contains_key(&name) {
            return Err(is_view(&name));
        }
        let table = pin(request, pins, known, &(name, None), true).await?;
        table.schema().fields().iter().for_each(|field| names.add(&field.name));
        parsed = text.parse(&names, parameters)?;
        let Statement::Statement(statement) = parsed.statement else { return Err(lost()) };
        let ast::Statement::Copy { source, target, options, legacy_options, .. } = *statement else {
            return Err(lost());
        };
        let ast::CopySource::Table { columns, .. } = source else { return Err(lost()) };
        let columns = columns.into_iter().map(|column| column.value).collect();
        return Ok(Resolved::CopyFrom(table, columns, Target::new(&target, &options, &legacy_options)?));
    }
    if let Statement::Statement(statement) = &parsed.statement
        && let ast::Statement::AlterTable(alter) = &**statement
    {
        let name = define::only_name(&alter.name)?;
        if views.contains_key(&name) {
            return Err(is_view(&name));
        }
        let table = pin(request, pins, known, &(name, None), true).await;
        let table = match table {
            Err(error) if alter.if_exists && is_missing(&error) => {
                return Ok(Resolved::Nothing(Command::AlterTable));
            }
            table => table?,
        };
        table.schema().fields().iter().for_each(|field| names.add(&field.name));
        parsed = text.parse(&names, parameters)?;
        let Statement::Statement(statement) = &parsed.statement else { return Err(lost()) };
        let ast::Statement::AlterTable(alter) = &**statement else { return Err(lost()) };
        let (alterations, full) = define::alterations(alter)?;
        return Ok(Resolved::Alter { table, alterations, full });
    }
    if let Statement::Statement(statement) = &parsed.statement
        && let ast::Statement::CreateIndex(index) = &**statement
    {
        let name = define::only_name(&index.table_name)?;
        let table = pin(request, pins, known, &(name, None), true).await?;
        define::check_index(index, table.schema())?;
        return Ok(Resolved::Nothing(Command::CreateIndex));
    }
    if let Statement::Statement(statement) = &parsed.statement
        && let Some(resolved) = definition(statement, known, views)?
    {
        return Ok(resolved);
    }
    let read = Read::new(std::mem::take(&mut parsed.tables), views, &names)?;
    let virtuals: Vec<_> = read.tables.keys().filter(|name| system::is_system(name)).cloned().collect();
    if !virtuals.is_empty() {
        system::columns().for_each(|column| names.add(column));
    }
    let real = read.tables.iter().filter(|(name, _)| !system::is_system(name));
    let written = match &parsed.statement {
        // What is wrong with it is told below.
        Statement::Statement(statement) => target(statement).ok().flatten(),
        _ => None,
    };
    let written = written.as_ref().map(|(_, name)| name.as_str());
    let pinned_before = &*pins;
    let pinned = real.map(async |(name, (of, view))| {
        let pinned = pin(request, pinned_before, known, of, written == Some(name.as_str())).await;
        let pinned = pinned.map_err(|error| match view {
            Some(view) => within(view, &error),
            None => error,
        });
        Ok::<_, Error>((name.clone(), pinned?))
    });
    let pinned: BTreeMap<_, _> = try_join_all(pinned).await?.into_iter().collect();
    for (name, table) in &pinned {
        if let Some((of, _)) = read.tables.get(name) {
            pins.insert(of.clone(), Arc::clone(table));
        }
        table.schema().fields().iter().for_each(|field| names.add(&field.name));
    }
    let target = match &parsed.statement {
        Statement::Statement(statement) => target(statement)?,
        _ => None,
    };
    let target = target.map(|(_, name)| match pinned.get(&name) {
        Some(table) => Ok((name, Arc::clone(table))),
        None if views.contains_key(&name) => Err(is_view(&name)),
        None => Err(missing(request, &name, known, true)),
    });
    let target = target.transpose()?;
    if let (Some(_), Some((name, table))) = (&parsed.rows, &target) {
        if !names.are_lower() {
            parsed = text.parse(&names, parameters)?;
        }
        let (Statement::Statement(statement), Some(rows)) = (parsed.statement, parsed.rows) else {
            return Err(lost());
        };
        let rewritten = rewrite(*statement, name, table.schema(), false)?;
        rewritten.effect.check_width(rows.width())?;
        return Ok(Resolved::Rows(Box::new(rewritten.effect), rows, Arc::clone(table)));
    }
    let mut keys = keys(&read, &pinned).await?;
    let tables = pinned.into_iter().map(|(name, table)| {
        let is_current = read.tables.get(&name).is_none_or(|((_, version), _)| version.is_none());
        // Default: none of its columns is known to be a key.
        let table = BasaltTable::new(table, is_current, keys.remove(&name).unwrap_or_default());
        (name, Arc::new(table) as Arc<dyn TableProvider>)
    });
    let mut tables: BTreeMap<_, _> = tables.collect();
    tables
        .extend(system::providers(shared, request, known, views, virtuals.iter().map(String::as_str)).await?);
    if let Some((name, table)) = &target {
        let provider = BasaltTable::with_addresses(Arc::clone(table));
        tables.insert(with_addresses(name), Arc::new(provider));
    }
    let schema = Arc::new(Pinned(RwLock::new(tables)));
    let catalog = MemoryCatalogProvider::new();
    catalog.register_schema(system::SCHEMA, Arc::clone(&schema) as Arc<dyn SchemaProvider>)?;
    let catalogs = MemoryCatalogProviderList::new();
    catalogs.register_catalog(system::DATABASE.to_owned(), Arc::new(catalog));
    let mut session = shared.base.session(shared, request)?;
    session.register_catalog_list(Arc::new(catalogs));
    if !virtuals.is_empty() || request.sql.to_lowercase().contains("regclass") {
        let all: Vec<_> = known.iter().chain(views.keys()).cloned().collect();
        for function in system::functions_of(&all) {
            session.register_udf(Arc::new(function))?;
        }
    }
    if request.sql.to_lowercase().contains("pg_get_viewdef") {
        let definitions = system::definitions(known, views, &*request.catalog);
        session.register_udf(Arc::new(definitions))?;
    }
    if let Some(client) = request.catalog.client() {
        for function in system::functions_of_client(&client, &request.sql) {
            session.register_udf(Arc::new(function))?;
        }
    }
    let session = Box::new(session);
    read.plan(&session, &mut names, |name, view| schema.add(name, view)).await?;
    if !names.are_lower() {
        // Columns have told how some of the names are spelled.
        parsed = text.parse(&names, parameters)?;
    }
    if describes {
        return Ok(Resolved::ColumnsOf(session, parsed.statement, parsed.headings));
    }
    match (parsed.statement, target) {
        (Statement::Statement(statement), Some((name, table))) => {
            let open = matches!(parameters, Parameters::Open(_));
            let rewritten = rewrite(*statement, &name, table.schema(), open)?;
            Ok(Resolved::Write(session, Box::new(rewritten), table))
        }
        (Statement::Statement(statement), None) => match *statement {
            ast::Statement::CreateTable(mut create) => match create.query.take() {
                Some(query) => Ok(Resolved::CreateAs(session, Box::new(create), query, parsed.headings)),
                None => Ok(Resolved::Create(Box::new(create))),
            },
            ast::Statement::CreateView(view) => {
                let new = define::new_view(view)?;
                if read.has(&new.name) {
                    let message = format!("view {:?} would read itself", new.name);
                    return Err(Error::invalid(message));
                }
                Ok(Resolved::CreateView(session, new))
            }
            ast::Statement::Copy { source, target, options, legacy_options, .. } => {
                let ast::CopySource::Query(query) = source else { return Err(lost()) };
                let target = Target::new(&target, &options, &legacy_options)?;
                Ok(Resolved::CopyTo(session, query, target, parsed.headings))
            }
            other => Ok(Resolved::Query(session, Statement::Statement(Box::new(other)), parsed.headings)),
        },
        (statement, _) => Ok(Resolved::Query(session, statement, Headings::default())),
    }
}

/// What SHOW and DESCRIBE ask for.
enum Asked {
    Tables,
    Views,
    Columns(String),
    TextOfTable(String),
    TextOfView(String),
}

fn shown(statement: &ast::Statement, views: &Views) -> Result<Option<Asked>> {
    let plain = |options: &ast::ShowStatementOptions| {
        let is_plain = options.starts_with.is_none()
            && options.limit.is_none()
            && options.limit_from.is_none()
            && options.filter_position.is_none();
        if is_plain { Ok(()) } else { Err(Error::unsupported("SHOW with a condition")) }
    };
    Ok(Some(match statement {
        ast::Statement::ShowTables { .. } => Asked::Tables,
        ast::Statement::ShowViews { show_options, .. } => {
            plain(show_options)?;
            Asked::Views
        }
        ast::Statement::ShowColumns { show_options, .. } => {
            plain(show_options)?;
            let of = show_options.show_in.as_ref().and_then(|of| of.parent_name.as_ref());
            Asked::Columns(define::only_name(
                of.ok_or_else(|| Error::invalid("SHOW COLUMNS FROM which table?"))?,
            )?)
        }
        ast::Statement::ExplainTable { table_name, .. } => Asked::Columns(define::only_name(table_name)?),
        ast::Statement::ShowCreate { obj_type, obj_name } => {
            let name = define::only_name(obj_name)?;
            match obj_type {
                ast::ShowCreateObject::Table if !views.contains_key(&name) => Asked::TextOfTable(name),
                ast::ShowCreateObject::Table | ast::ShowCreateObject::View => Asked::TextOfView(name),
                other => return Err(Error::unsupported(format!("SHOW CREATE {other}"))),
            }
        }
        _ => return Ok(None),
    }))
}

/// A statement that makes or drops something, and reads nothing for it.
fn definition(statement: &ast::Statement, known: &[String], views: &Views) -> Result<Option<Resolved>> {
    let is_table = |name: &String| known.binary_search(name).is_ok();
    Ok(Some(match statement {
        ast::Statement::CreateTable(create) => {
            let name = define::only_name(&create.name)?;
            // Both are refused.
            let may_be_there = create.if_not_exists && !create.or_replace;
            match (is_table(&name), may_be_there, &create.query) {
                (true, true, None) => Resolved::Nothing(Command::CreateTable),
                (true, true, Some(_)) => Resolved::Nothing(Command::CreateTableAs),
                (_, _, None) => Resolved::Create(Box::new(create.clone())),
                (_, _, Some(_)) => return Ok(None),
            }
        }
        ast::Statement::CreateView(view) => {
            let name = define::only_name(&view.name)?;
            if !(view.if_not_exists && views.contains_key(&name)) {
                return Ok(None);
            }
            Resolved::Nothing(Command::CreateView)
        }
        ast::Statement::Drop {
            object_type,
            if_exists,
            names,
            cascade,
            restrict,
            purge,
            temporary,
            table,
        } => {
            if *purge || *temporary || table.is_some() {
                return Err(Error::unsupported("this form of DROP"));
            }
            // None was made.
            if *object_type == ast::ObjectType::Index {
                return Ok(Some(Resolved::Nothing(Command::DropIndex)));
            }
            let [name] = names.as_slice() else {
                return Err(Error::unsupported("DROP of several at once: it would not be one change"));
            };
            let (name, if_exists) = (define::only_name(name)?, *if_exists);
            // Else nothing depends on it: a view that reads it stays, and is one over no table.
            if (*cascade || *restrict) && views::is_read(&name, views, known) {
                let what = "CASCADE or RESTRICT where a view reads it (DROP VIEW drops the view)";
                return Err(Error::unsupported(what));
            }
            match object_type {
                ast::ObjectType::Table if views.contains_key(&name) => return Err(is_view(&name)),
                ast::ObjectType::Table => Resolved::Drop { table: name, if_exists },
                ast::ObjectType::View if is_table(&name) => {
                    let message = format!("{name:?} is a table: DROP TABLE drops it");
                    return Err(Error::new(ErrorKind::TableNotFound, message));
                }
                ast::ObjectType::View => Resolved::DropView { view: name, if_exists },
                other => return Err(Error::unsupported(format!("DROP {other}"))),
            }
        }
        _ => return Ok(None),
    }))
}

fn is_missing(error: &Error) -> bool {
    error.statement().is_some_and(|error| error.kind() == ErrorKind::TableNotFound)
}

fn lost() -> Error {
    Error::Internal("a statement is another one when it is parsed again".to_owned())
}

fn is_view(name: &str) -> Error {
    let message = format!("{name:?} is a view: it is not written to, and DROP VIEW drops it");
    Error::new(ErrorKind::TableNotFound, message)
}

fn no_view(name: &str) -> Error {
    Error::new(ErrorKind::TableNotFound, format!("no view {name:?}"))
}

/// The columns of tables that those of others refer to, where both are read as they are now, and no value stands twice.
async fn keys(
    read: &Read,
    pinned: &BTreeMap<String, Arc<dyn Table>>,
) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let is_current = |name: &str| read.tables.get(name).is_some_and(|((_, version), _)| version.is_none());
    let fields = pinned.values().flat_map(|table| table.schema().fields());
    let references = fields.filter_map(|field| field.references.as_ref());
    let wanted: BTreeSet<_> = references
        .filter(|to| pinned.contains_key(&to.table) && is_current(&to.table))
        .map(|to| (to.table.clone(), to.column.clone()))
        .collect();
    let found = wanted.into_iter().map(async |(table, column)| {
        let is_key = pinned[&table].is_key(&column).await?;
        Ok::<_, Error>(is_key.then_some((table, column)))
    });
    let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (table, column) in try_join_all(found).await?.into_iter().flatten() {
        keys.entry(table).or_default().insert(column);
    }
    Ok(keys)
}

fn no_table(name: &str, known: &[String]) -> Error {
    let similar = || similar::hint(name, known.iter().map(String::as_str));
    let meant = elsewhere::of_table(name).unwrap_or_else(similar);
    Error::new(ErrorKind::TableNotFound, format!("no table {name:?}{meant}"))
}

/// The same for a table that may be hidden from whoever asks.
fn missing(request: &Request, name: &str, known: &[String], writes: bool) -> Error {
    request.catalog.not_found(name, writes);
    no_table(name, known)
}

/// A table at the version that the statement reads; `writes`: it would write to it.
async fn pin(
    request: &Request,
    pins: &Pins,
    known: &[String],
    named: &Named,
    writes: bool,
) -> Result<Arc<dyn Table>> {
    if let Some(table) = pins.get(named) {
        return Ok(Arc::clone(table));
    }
    let (name, version) = named;
    if known.binary_search(name).is_err() {
        return Err(missing(request, name, known, writes));
    }
    request.catalog.pin(name, *version).await
}

/// The tables of one statement, and the views.
#[derive(Debug)]
struct Pinned(RwLock<BTreeMap<String, Arc<dyn TableProvider>>>);

impl Pinned {
    fn add(&self, name: &str, provider: Arc<dyn TableProvider>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), provider);
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<dyn TableProvider>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl SchemaProvider for Pinned {
    fn table_names(&self) -> Vec<String> {
        self.read().keys().cloned().collect()
    }

    async fn table(&self, name: &str) -> PlanResult<Option<Arc<dyn TableProvider>>> {
        Ok(self.read().get(name).cloned())
    }

    fn table_exist(&self, name: &str) -> bool {
        self.read().contains_key(name)
    }
}
