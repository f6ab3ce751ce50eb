//! What PostgreSQL's clients ask of the server itself: `information_schema`, the part of `pg_catalog` that tools read, and
//! the functions that go with it.
//!
//! * `tables` lists the virtual tables, with their columns; `rows` fills those that have rows, from the catalog, for each
//!   statement that reads them; `functions` has the functions; `types` says which type of PostgreSQL a type is.
//! * `server` has the schema `system`, which shows the server itself: whoever has the tables fills them.
//! * `rewrite`, with `empty`, `introspection`, `with`, `hidden` and `keywords`, turns what the planner does not know into what it does. It keeps to what names the system's schemas, types
//!   and functions: what a statement over tables means does not depend on it.
//!
//! A table's number (`oid`) is a hash of its name, so that all nodes give it the same one, now and after a restart.

mod client;
mod empty;
mod functions;
mod hidden;
mod introspection;
mod keywords;
mod rewrite;
mod rows;
mod server;
mod tables;
mod types;
mod with;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use datafusion::{datasource::TableProvider, logical_expr::ScalarUDF};
use futures_util::future::{BoxFuture, join_all};

pub use client::Client;
pub(crate) use client::functions_of_client;
use functions::of_views;
pub(crate) use functions::{all as functions, gives_value, of_names, quoted as quoted_name};
pub(crate) use rewrite::{of_schema, rewrite};
pub use server::{ServerRow, ServerTable};
pub use tables::Value;
use tables::Virtual;
pub(crate) use tables::is_list;
pub use types::{OID_VALUE, PostgresType, postgres_type};
pub(crate) use types::{named as type_named, postgres_name};

use crate::{
    catalog::{Catalog, Table},
    command::Description,
    engine::{Request, Shared},
    error::Result,
    views::{self, Views},
};

/// The database's name, whichever a client has asked for.
pub const DATABASE: &str = "basalt";
/// The schema of all tables.
pub const SCHEMA: &str = "public";
/// Whose they are.
pub const OWNER: &str = "basalt";

/// The tables that show what views are.
const TEXTS_OF_VIEWS: [&str; 2] = ["pg_catalog.pg_views", "information_schema.views"];

/// How the table behind a name of a statement is called in it, where it is one of these.
pub(crate) fn is_system(name: &str) -> bool {
    tables::find(name).is_some()
}

/// The columns of these tables, which are spelled so in a statement that reads one.
pub(crate) fn columns() -> impl Iterator<Item = &'static str> {
    tables::all().flat_map(Virtual::columns).map(|(name, _)| name)
}

/// The numbers of tables, by their names.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    by_name: HashMap<String, i64>,
    by_number: HashMap<i64, String>,
}

impl Numbers {
    pub(crate) fn new(known: &[String]) -> Self {
        let mut numbers = Self::default();
        for name in known {
            let mut number = tables::FIRST_USER + i64::from(hash(name));
            while numbers.by_number.contains_key(&number) {
                number = tables::FIRST_USER + (number + 1 - tables::FIRST_USER) % i64::from(SPAN);
            }
            numbers.by_name.insert(name.clone(), number);
            numbers.by_number.insert(number, name.clone());
        }
        for table in tables::all() {
            numbers.by_number.insert(table.number, table.name.to_owned());
        }
        numbers
    }

    /// The number of a table as a client names it, with its schema or without.
    pub(crate) fn find(&self, name: &str) -> Option<i64> {
        let parts: Vec<String> = parts(name).into_iter().map(|(part, _)| part).collect();
        let plain = match parts.as_slice() {
            [schema, name] if schema == SCHEMA => name.clone(),
            parts => parts.join("."),
        };
        let catalog = (parts.len() == 1).then(|| tables::find(&format!("pg_catalog.{plain}"))).flatten();
        let table = catalog.or_else(|| tables::find(&plain)).map(|table| table.number);
        let own = || self.by_name.get(&plain).or_else(|| self.by_name.get(&plain.to_lowercase())).copied();
        table.or_else(own)
    }

    pub(crate) fn name(&self, number: i64) -> Option<&str> {
        let name = self.by_number.get(&number)?;
        Some(name.strip_prefix("pg_catalog.").unwrap_or(name))
    }
}

/// A part of a name, and whether it stands in quotes, in which it is as it stands there.
type Part = (String, bool);

/// The parts of a name, which points separate.
fn parts(name: &str) -> Vec<Part> {
    let (mut parts, mut part, mut is_open) = (Vec::new(), Part::default(), false);
    let mut chars = name.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if is_open && chars.peek() == Some(&'"') => part.0.extend(chars.next()),
            '"' => (is_open, part.1) = (!is_open, true),
            '.' if !is_open => parts.push(std::mem::take(&mut part)),
            c if c.is_whitespace() && !is_open => {}
            c => part.0.push(c),
        }
    }
    parts.push(part);
    parts
}

/// How many numbers there are for tables.
const SPAN: u32 = (1 << 31) - (1 << 15);

/// FNV-1a, in so many numbers.
fn hash(name: &str) -> u32 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    u32::try_from((hash ^ (hash >> 32)) % u64::from(SPAN)).unwrap_or_default()
}

tokio::task_local! {
    /// A view is described, which may read virtual tables itself: the columns of views are not in them then.
    static DESCRIBES: ();
}

/// What a view gives, as it is planned now. It is no `async fn`, since planning may ask for it.
fn described(shared: &Shared, request: Request) -> BoxFuture<'_, Result<Description>> {
    Box::pin(DESCRIBES.scope((), crate::describe::describe(shared, request, &[])))
}

/// The virtual tables that a statement names. Tables whose columns cannot be had now, as of one that is damaged, have none
/// in them.
pub(crate) async fn providers(
    shared: &Shared,
    request: &Request,
    known: &[String],
    views: &Views,
    named: impl Iterator<Item = &str>,
) -> Result<BTreeMap<String, Arc<dyn TableProvider>>> {
    let named: Vec<_> = named.filter_map(tables::find).collect();
    let mut pinned: HashMap<String, Arc<dyn Table>> = HashMap::new();
    if named.iter().any(|table| table.reads_columns) {
        for some in known.chunks(crate::limits::PINS) {
            let pins = some.iter().map(|name| request.catalog.pin(name, None));
            let pins = some.iter().zip(join_all(pins).await);
            pinned.extend(pins.filter_map(|(name, table)| Some((name.clone(), table.ok()?))));
        }
    }
    let mut of_views = HashMap::new();
    if named.iter().any(|table| table.reads_columns) && DESCRIBES.try_with(|()| ()).is_err() {
        for name in views.keys() {
            let (catalog, memory) = (Arc::clone(&request.catalog), Arc::clone(&request.memory));
            let sql = format!("SELECT * FROM \"{}\"", name.replace('"', "\"\""));
            let described = described(shared, Request { sql, parameters: Vec::new(), catalog, memory });
            of_views.extend(described.await.ok().map(|view| (name.clone(), view.arrow)));
        }
    }
    let all: Vec<_> = known.iter().chain(views.keys()).cloned().collect();
    let numbers = Numbers::new(&all);
    let client = request.catalog.client();
    let user = client.as_ref().map(|client| client.user.as_str());
    let reads_texts = named.iter().any(|table| TEXTS_OF_VIEWS.contains(&table.name));
    let texts =
        if reads_texts { views::shown(views, known, &*request.catalog) } else { views::Texts::default() };
    let known = rows::Known {
        tables: known,
        views,
        texts: &texts,
        pinned: &pinned,
        of_views: &of_views,
        numbers: &numbers,
        user,
    };
    let mut providers = BTreeMap::new();
    for table in named {
        let rows = match ServerTable::of(table) {
            Some(of) => request.catalog.server_rows(of).await?,
            None => rows::of(table, &known),
        };
        providers.insert(table.name.to_owned(), table.provider(rows)?);
    }
    Ok(providers)
}

/// Functions that know the tables.
pub(crate) fn functions_of(known: &[String]) -> Vec<ScalarUDF> {
    of_names(Arc::new(Numbers::new(known)))
}

/// `pg_get_viewdef`, which gives of views the texts that `pg_views` shows whoever asks.
pub(crate) fn definitions(known: &[String], views: &Views, catalog: &dyn Catalog) -> ScalarUDF {
    let all: Vec<_> = known.iter().chain(views.keys()).cloned().collect();
    let numbers = Numbers::new(&all);
    let texts = views::shown(views, known, catalog).into_iter();
    of_views(texts.filter_map(|(name, sql)| Some((*numbers.by_name.get(&name)?, sql?))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_tables_stay_and_differ() {
        let names: Vec<_> = (0..20_000).map(|n| format!("t{n}")).collect();
        let numbers = Numbers::new(&names);
        let all: std::collections::BTreeSet<_> = numbers.by_name.values().collect();
        assert_eq!(all.len(), names.len());
        assert!(all.iter().all(|number| **number >= tables::FIRST_USER && i32::try_from(**number).is_ok()));
        let few = Numbers::new(&names[..1]);
        assert_eq!(few.find("t0"), numbers.find("public.t0"));
        assert_eq!(few.find("T0"), few.find("\"t0\""));
        assert_eq!(few.find("t1"), None);
        assert_eq!(few.name(few.find("t0").unwrap()), Some("t0"));
        assert_eq!(few.find("pg_class"), few.find("pg_catalog.pg_class"));
        assert_eq!(few.name(1259), Some("pg_class"));
    }
}
