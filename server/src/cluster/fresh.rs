//! Tables as new as this node was told: what another node has announced is read from the store before this one answers
//! for it. So whoever has written at one node sees it at all others.

use std::sync::Arc;

use basalt_core::table::Table;
use basalt_storage::TableState;

use crate::{state::State, status::Result};

/// Makes the catalog as new as was announced.
pub(crate) async fn catalog(state: &State) -> Result<()> {
    let Some(cluster) = &state.cluster else { return Ok(()) };
    let announced = cluster.heard().catalog();
    if let Some(version) = announced {
        state.tables.refresh_catalog().await?;
        cluster.heard().catalog_reached(version);
    }
    Ok(())
}

/// Makes a table as new as was announced, and looks for one that is not known.
pub(crate) async fn table(state: &State, name: &str) -> Result<()> {
    let Some(cluster) = &state.cluster else { return Ok(()) };
    catalog(state).await?;
    let table = match state.catalog.get(name) {
        Ok(table) => table,
        Err(_) => {
            state.tables.refresh_catalog().await?;
            state.catalog.get(name)?
        }
    };
    if let Some(version) = cluster.heard().version(table.id()) {
        state.tables.refresh_to(&table, version).await?;
        cluster.heard().reached(table.id(), version);
    }
    Ok(())
}

/// A table at a version (`None`: the newest that was announced), with all of its fragments, held here or not. A version
/// that this node has not heard of is looked for in the store.
pub(crate) async fn pin(
    state: &State,
    name: &str,
    version: Option<u64>,
) -> Result<(Arc<Table>, Arc<TableState>)> {
    table(state, name).await?;
    if let Some(version) = version {
        let table = state.catalog.get(name)?;
        state.tables.refresh_to(&table, version).await?;
    }
    state.tables.pin(name, version)
}

/// Makes everything as new as was announced.
pub(crate) async fn all(state: &State) -> Result<()> {
    let Some(cluster) = &state.cluster else { return Ok(()) };
    while !cluster.heard().is_quiet() {
        catalog(state).await?;
        let mut behind = state.catalog.list();
        behind.retain(|table| cluster.heard().version(table.id()).is_some());
        if behind.is_empty() {
            // What is left is of tables that are gone.
            return Ok(());
        }
        for known in behind {
            table(state, known.name()).await?;
        }
    }
    Ok(())
}
