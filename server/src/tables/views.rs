//! The names of tables, and views: queries that have names among them, in the store's journal, or in the memory of a server that
//! has no store.

use std::{
    collections::BTreeMap,
    sync::{Arc, MutexGuard, PoisonError},
};

use basalt_core::{
    error::{Error, ErrorKind},
    schema::check_name,
};
use basalt_storage::{TableEntry, no_view};

use super::Tables;
use crate::status::RequestError;

impl Tables {
    /// The names of all tables that this node knows, loaded or not, ascending.
    pub(crate) fn names(&self) -> Vec<String> {
        match &self.durable {
            Some(durable) => durable.state().tables().keys().cloned().collect(),
            None => {
                let tables = self.shared.catalog.list();
                let mut names: Vec<_> = tables.iter().map(|table| table.name().to_owned()).collect();
                names.sort_unstable();
                names
            }
        }
    }

    /// The id of the table of a name that this node knows, loaded or not.
    pub(crate) fn id_of(&self, name: &str) -> Option<u64> {
        match &self.durable {
            Some(durable) => durable.state().tables().get(name).map(TableEntry::number),
            None => self.shared.catalog.find(name).ok().map(|table| table.id()),
        }
    }

    /// The texts of all views that this node knows, by name.
    pub(crate) fn views(&self) -> BTreeMap<String, Arc<str>> {
        match &self.durable {
            Some(durable) => durable.state().views().clone(),
            None => self.views.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// That no view in memory has one of some names, nor gets one while the answer is there.
    pub(super) fn without_views<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<MutexGuard<'_, BTreeMap<String, Arc<str>>>, RequestError> {
        let views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        match names.into_iter().find(|name| views.contains_key(*name)) {
            Some(name) => Err(taken(name)),
            None => Ok(views),
        }
    }

    /// Gives a query a name; `replace`: in the place of a view that has it.
    pub(crate) async fn create_view(&self, name: &str, sql: &str, replace: bool) -> Result<(), RequestError> {
        let Some(durable) = &self.durable else {
            check_name(name).map_err(|e| e.at("name"))?;
            let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
            let is_taken = self.shared.catalog.find(name).is_ok() || views.contains_key(name) && !replace;
            if is_taken {
                return Err(taken(name));
            }
            views.insert(name.to_owned(), sql.into());
            return Ok(());
        };
        self.changed(durable, durable.log.create_view(&durable.state(), name, sql, replace).await).await
    }

    /// Drops a view.
    pub(crate) async fn remove_view(&self, name: &str) -> Result<(), RequestError> {
        let Some(durable) = &self.durable else {
            let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
            return match views.remove(name) {
                Some(_) => Ok(()),
                None => Err(no_view(name).into()),
            };
        };
        self.changed(durable, durable.log.remove_view(&durable.state(), name).await).await
    }
}

fn taken(name: &str) -> RequestError {
    Error::new(ErrorKind::TableExists, format!("there is a table or a view {name:?}")).at("name").into()
}
