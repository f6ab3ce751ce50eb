//! Tables as new as all that was acknowledged. A node knows of every commit that another node acknowledges while it has
//! a lease of that node: it was told of it, and reads it from the store before it answers. Without a lease of each member
//! it looks into the store before it answers; so does a deletion, always, since it says what the newest version has. A
//! server that is alone follows the store, and looks into it first when it has not done so lately.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use basalt_core::table::Table;
use basalt_proto::v1::{self as pb, filter};

use crate::{
    access::Caller,
    limits,
    moment::Moment,
    sets::{Scope, Sets},
    state::State,
    status::{RequestError, Result},
    tables::{TableVersion, VersionPin},
};

/// The moment since when the store must have been looked into.
fn needed(state: &State) -> Moment {
    match &state.cluster {
        Some(cluster) => cluster.members().leased().unwrap_or_else(|| Moment::now(&*state.environment)),
        None => Moment::default(),
    }
}

/// Makes the catalog as new as what was acknowledged.
pub(crate) async fn catalog(state: &State) -> Result<()> {
    catalog_since(state, needed(state)).await
}

/// The lease is looked at before it is asked what was announced: what is acknowledged while this node has it, it has
/// heard of.
async fn catalog_since(state: &State, needed: Moment) -> Result<()> {
    announced_catalog(state).await?;
    state.tables.refresh_catalog(needed).await
}

async fn announced_catalog(state: &State) -> Result<()> {
    if let Some(cluster) = &state.cluster
        && let Some(version) = cluster.announced().catalog()
    {
        state.tables.refresh_catalog(Moment::now(&*state.environment)).await?;
        cluster.announced().catalog_reached(version);
    }
    Ok(())
}

async fn announced_table(state: &State, table: &Table) -> Result<()> {
    if let Some(cluster) = &state.cluster
        && let Some(version) = cluster.announced().version(table.id())
    {
        state.tables.refresh_to(table, version).await?;
        cluster.announced().reached(table.id(), version);
    }
    Ok(())
}

/// Reads all that was announced.
pub(crate) async fn announced(state: &State) -> Result<()> {
    let Some(cluster) = &state.cluster else { return Ok(()) };
    while !cluster.announced().is_quiet() {
        announced_catalog(state).await?;
        let mut behind = state.catalog.list();
        behind.retain(|table| cluster.announced().version(table.id()).is_some());
        if behind.is_empty() {
            // What is left is of tables that are gone, or on their way into memory.
            let known = state.tables.ids();
            cluster.announced().retain(|table| known.contains(&table));
            return Ok(());
        }
        for table in behind {
            announced_table(state, &table).await?;
        }
    }
    Ok(())
}

/// A table, as new as what was acknowledged; one that is not known is looked for.
pub(crate) async fn table(state: &State, name: &str) -> Result<Arc<Table>> {
    table_since(state, name, needed(state)).await
}

async fn table_since(state: &State, name: &str, needed: Moment) -> Result<Arc<Table>> {
    if !state.tables.is_durable() {
        return Ok(state.catalog.get(name)?);
    }
    catalog_since(state, needed).await?;
    let table = match state.catalog.get(name) {
        Ok(table) => table,
        Err(_) => state.tables.look_for(name).await?,
    };
    announced_table(state, &table).await.map_err(|error| of_table(name, error))?;
    state.tables.refresh_since(&table, needed).await.map_err(|error| of_table(name, error))?;
    state.tables.follow_at_once(&table).await;
    Ok(table)
}

/// The same error of the store, with the table that it is of, which whoever asks has named or may see.
pub(crate) fn of_table(name: &str, error: RequestError) -> RequestError {
    let table = format!("table {name:?}");
    if !error.is_of_store() || error.message().contains(&table) {
        return error;
    }
    let message = format!("{table}: {}", error.message());
    error.with_message(message)
}

/// A table as new as the store has it, for what asks no other one.
#[cfg(feature = "sql")]
pub(crate) async fn newest_alone(state: &State, name: &str) -> Result<Arc<Table>> {
    table_since(state, name, Moment::now(&*state.environment)).await
}

/// A table as new as the store has it, and with it those that a filter asks or may ask for attributes.
pub(crate) async fn newest(state: &State, name: &str, filter: Option<&pb::Filter>) -> Result<Arc<Table>> {
    let now = Moment::now(&*state.environment);
    let table = table_since(state, name, now).await?;
    let (mut others, mut done) = (Vec::new(), BTreeSet::from([name.to_owned()]));
    filter.iter().for_each(|filter| asked(filter, &mut others));
    refers(state, name, &mut others);
    while let Some(other) = others.pop() {
        if !done.insert(other.clone()) {
            continue;
        }
        match table_since(state, &other, now).await {
            // One that is not there is an error of the filter, which knows its place.
            Err(_) if state.catalog.get(&other).is_err() => {}
            looked => drop(looked?),
        }
        refers(state, &other, &mut others);
    }
    Ok(table)
}

/// The tables that semi-joins name; decoding the message has bounded how deep it is.
fn asked(filter: &pb::Filter, tables: &mut Vec<String>) {
    match &filter.kind {
        Some(filter::Kind::And(pb::And { filters }) | filter::Kind::Or(pb::Or { filters })) => {
            filters.iter().for_each(|filter| asked(filter, tables));
        }
        Some(filter::Kind::Not(filter)) => asked(filter, tables),
        Some(filter::Kind::SemiJoin(join)) => {
            tables.push(join.table.clone());
            join.filter.iter().for_each(|filter| asked(filter, tables));
        }
        _ => {}
    }
}

/// The tables that columns of a table refer to.
fn refers(state: &State, name: &str, tables: &mut Vec<String>) {
    let Ok(table) = state.catalog.get(name) else { return };
    let references = table.schema().fields().iter().filter_map(|field| field.references.as_ref());
    tables.extend(references.map(|reference| reference.table.clone()));
}

/// A table at a version (`None`: the newest that was acknowledged), with all of its fragments, held here or not. A
/// version that this node has not heard of is looked for in the store.
pub(crate) async fn pin(
    state: &State,
    name: &str,
    version: Option<u64>,
) -> Result<(Arc<Table>, TableVersion)> {
    let mut table = table(state, name).await?;
    for _ in 0..limits::COMMIT_ATTEMPTS {
        if let Some(version) = version.filter(|_| state.tables.is_durable()) {
            let refreshed = state.tables.refresh_to(&table, version).await;
            refreshed.map_err(|error| of_table(name, error))?;
            state.tables.rebuild(&table, version).await?;
        }
        match state.tables.pin(name, version) {
            // Another one has just taken its place.
            Err(error) if error.reason() == "TABLE_NOT_FOUND" => table = self::table(state, name).await?,
            pinned => return pinned,
        }
    }
    state.tables.pin(name, version)
}

/// Pins what a kept set needs, as [`Sets::pin`] has it, also where this node has not heard of the table or of its version.
pub(crate) async fn pin_set(state: &State, scope: &Scope) -> Result<Option<Arc<VersionPin>>> {
    if scope.key.is_none() && !scope.table.is_empty() && state.tables.is_durable() {
        match pin(state, &scope.table, Some(scope.version)).await {
            Err(error) if error.is_outage() => return Err(error),
            // What is not there needs no pin.
            _ => {}
        }
    }
    Sets::pin(&state.tables, scope).await
}

/// Makes everything as new as what was acknowledged. The answer is the tables that whoever asks may see, and those among them that
/// are not served, by name, each with why: one whose log is gone or damaged keeps no other from being listed. Nobody has asked for
/// what is hidden: that is no refusal for the audit log.
pub(crate) async fn listed(
    state: &State,
    caller: &Caller,
) -> Result<(Vec<Arc<Table>>, BTreeMap<String, String>)> {
    let needed = needed(state);
    catalog_since(state, needed).await?;
    state.tables.opened().await;
    let mut unserved = BTreeMap::new();
    for known in state.catalog.list() {
        match table_since(state, known.name(), needed).await {
            Ok(_) => {}
            // It is gone by now, or the catalog says why it cannot be read.
            Err(_) if state.catalog.get(known.name()).is_err() => {}
            Err(error) if is_of_one(&error) => {
                unserved.insert(known.name().to_owned(), error.message().to_owned());
            }
            Err(error) => return Err(error),
        }
    }
    let noted = state.catalog.unreadable().into_iter();
    unserved.extend(noted.map(|(name, _, why)| (name, why.message().to_owned())));
    unserved.retain(|name, _| caller.may_see(name));
    let mut tables = state.catalog.list();
    tables.retain(|table| !unserved.contains_key(table.name()) && caller.may_see(table.name()));
    Ok((tables, unserved))
}

/// Whether an error says something of its table alone: a store that does not answer says nothing of any.
fn is_of_one(error: &RequestError) -> bool {
    !error.is_outage() && (error.is_of_store() || error.reason() == "TABLE_DAMAGED")
}
