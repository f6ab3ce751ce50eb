//! Views: a name in FROM that stands for a query. Its text is parsed and planned for each statement that names it, over
//! the tables at the versions that the statement reads.

use std::{collections::BTreeMap, sync::Arc};

use basalt_core::{
    error::ErrorKind,
    schema::{Optimize, Schema},
};
use datafusion::{
    catalog::TableProvider, datasource::ViewTable, execution::SessionState, sql::parser::Statement,
};

use crate::{
    catalog::Catalog,
    error::{Error, Result},
    limits,
    parse::{Named, Names, Parameters, Text},
};

/// The texts of all views, by name.
pub(crate) type Views = BTreeMap<String, Arc<str>>;

/// The texts of views, by name, as far as they are shown.
pub(crate) type Texts = BTreeMap<String, Option<Arc<str>>>;

/// The texts of views for whoever asks: of one over a table that he may not read there is none, since it tells of the
/// table.
pub(crate) fn shown(views: &Views, known: &[String], catalog: &dyn Catalog) -> Texts {
    let names = Names::of_tables(known.iter().chain(views.keys()));
    let is_seen = |sql: &str| {
        let parsed = Text::new(sql)?.parse(&names, Parameters::Given(&[]))?;
        let read = Read::new(parsed.tables, views, &names)?;
        Ok::<_, Error>(read.tables.values().all(|((table, _), _)| catalog.sees(table)))
    };
    // Default: what cannot be read is over nobody knows what.
    let text = |sql: &Arc<str>| is_seen(sql).unwrap_or(false).then(|| Arc::clone(sql));
    views.iter().map(|(name, sql)| (name.clone(), text(sql))).collect()
}

/// Whether the text of a view names a table or view, as far as texts can be read.
pub(crate) fn is_read(name: &str, views: &Views, known: &[String]) -> bool {
    let names = Names::of_tables(known.iter().chain(views.keys()));
    let reads = |sql: &str| {
        let parsed = Text::new(sql)?.parse(&names, Parameters::Given(&[]))?;
        Ok::<_, Error>(parsed.tables.values().any(|(table, _)| table == name))
    };
    // Default: what cannot be read says nothing of it.
    views.values().any(|sql| reads(sql).unwrap_or(false))
}

/// What a statement reads: the tables, and the views on the way to them.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// By the name that stands for each, with the view that names it.
    pub(crate) tables: BTreeMap<String, (Named, Option<String>)>,
    /// Each behind those that it reads.
    views: Vec<(String, Text)>,
}

impl Read {
    /// What the tables that a statement names are.
    pub(crate) fn new(named: BTreeMap<String, Named>, all: &Views, names: &Names) -> Result<Self> {
        let mut read = Self::default();
        read.add(named, all, names, &mut Vec::new())?;
        Ok(read)
    }

    fn add(
        &mut self,
        named: BTreeMap<String, Named>,
        all: &Views,
        names: &Names,
        path: &mut Vec<String>,
    ) -> Result<()> {
        for (name, of) in named {
            let (table, version) = &of;
            let Some(sql) = all.get(table) else {
                self.tables.entry(name).or_insert_with(|| (of, path.last().cloned()));
                continue;
            };
            if version.is_some() {
                return Err(Error::unsupported(format!("a version of {table:?}, which is a view,")));
            }
            if path.contains(table) || path.len() >= limits::VIEWS_DEEP {
                let message = format!("view {table:?} reads itself, or others too deep");
                return Err(Error::invalid(message));
            }
            if self.has(table) {
                continue;
            }
            if self.views.len() >= limits::VIEWS {
                let message = format!("the statement reads more than {} views", limits::VIEWS);
                return Err(Error::new(ErrorKind::FilterTooLarge, message));
            }
            let text = Text::new(sql).map_err(|error| within(table, &error))?;
            let parsed = text.parse(names, Parameters::Given(&[])).map_err(|error| within(table, &error))?;
            path.push(table.clone());
            self.add(parsed.tables, all, names, path)?;
            path.pop();
            self.views.push((table.clone(), text));
        }
        Ok(())
    }

    /// Whether it reads a view.
    pub(crate) fn has(&self, view: &str) -> bool {
        self.views.iter().any(|(name, _)| name == view)
    }

    /// Plans the views; each is given to `add`, for those that read it. Their columns are names from here on.
    pub(crate) async fn plan(
        &self,
        session: &SessionState,
        names: &mut Names,
        add: impl Fn(&str, Arc<dyn TableProvider>),
    ) -> Result<()> {
        for (name, text) in &self.views {
            let parsed = text.parse(names, Parameters::Given(&[])).map_err(|error| within(name, &error))?;
            if !is_query(&parsed.statement) {
                return Err(Error::invalid(format!("view {name:?} is no query")));
            }
            let planned = crate::logical::named(session, parsed.statement).await;
            let plan = planned.map_err(|error| within(name, &error))?;
            crate::plan::verify(&plan)?;
            plan.schema().fields().iter().for_each(|field| names.add(field.name()));
            add(name, Arc::new(ViewTable::new(plan, None)));
        }
        Ok(())
    }
}

fn is_query(statement: &Statement) -> bool {
    use datafusion::sql::sqlparser::ast::Statement as Inner;
    matches!(statement, Statement::Statement(inner) if matches!(&**inner, Inner::Query(_)))
}

/// An error of a view's text, whose places are not those of the statement.
pub(crate) fn within(view: &str, error: &Error) -> Error {
    match error {
        Error::Statement(inner) => Error::new(inner.kind(), format!("view {view:?}: {}", inner.message())),
        other => other.clone(),
    }
}

/// The text that makes a table again.
pub(crate) fn text_of_table(table: &dyn crate::catalog::Table) -> String {
    let column = |field: &basalt_core::schema::Field| {
        let null = if field.nullable { "" } else { " NOT NULL" };
        let refers = field
            .references
            .as_ref()
            .map(|to| format!(" REFERENCES {} ({})", quoted(&to.table), quoted(&to.column)));
        let of_type = crate::define::type_name(field);
        format!("{} {of_type}{null}{}", quoted(&field.name), refers.unwrap_or_default())
    };
    let columns: Vec<_> = Schema::fields(table.schema()).iter().map(column).collect();
    let mut options = Vec::new();
    if let Some(retention) = table.retention() {
        let (seconds, column) = (retention.keep().as_secs(), retention.column().replace('\'', "''"));
        options.push(format!("retention = '{seconds} seconds', retention_column = '{column}'"));
    }
    if table.rewrites() {
        options.push("deletes = 'rewrite'".to_owned());
    }
    let optimized =
        Schema::fields(table.schema()).iter().filter(|field| field.optimize != Optimize::default());
    options.extend(optimized.map(|field| {
        let option = format!("optimize.{}", field.name);
        format!("{} = '{}'", quoted(&option), field.optimize)
    }));
    let options = if options.is_empty() { String::new() } else { format!(" WITH ({})", options.join(", ")) };
    format!("CREATE TABLE {} ({}){options}", quoted(table.name()), columns.join(", "))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
