//! The names of tables, and views: queries that have names among them, in the store's journal, or in the memory of a server that
//! has no store.

use std::{
    collections::BTreeMap,
    sync::{Arc, MutexGuard, PoisonError},
};

use basalt_core::{
    error::{Error, ErrorKind},
    limits::MAX_TABLES,
    schema::check_name,
};
use basalt_storage::{TableEntry, no_view};

use super::Tables;
use crate::{
    limits,
    memory::{Consumer, Reservation},
    status::RequestError,
};

/// A view in memory.
#[derive(Debug)]
pub(super) struct View {
    sql: Arc<str>,
    /// What it takes.
    _held: Reservation,
}

/// Views in memory, by name.
pub(super) type Views = BTreeMap<String, View>;

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
            None => {
                let views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
                views.iter().map(|(name, view)| (name.clone(), Arc::clone(&view.sql))).collect()
            }
        }
    }

    /// That no view in memory has one of some names of tables, nor gets one while the answer is there, and that there may be
    /// so many when so many others are gone.
    pub(super) fn without_views<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
        gone: usize,
    ) -> Result<MutexGuard<'_, Views>, RequestError> {
        let views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        let mut new = 0;
        for name in names {
            if views.contains_key(name) {
                return Err(taken(name));
            }
            new += usize::from(self.shared.catalog.find(name).is_err());
        }
        if new > gone {
            self.check_names(&views, new - gone)?;
        }
        Ok(views)
    }

    /// That there may be so many more names of tables and views in memory.
    fn check_names(&self, views: &Views, new: usize) -> Result<(), RequestError> {
        if self.shared.catalog.count() + views.len() + new <= MAX_TABLES {
            return Ok(());
        }
        let message = format!("there are {MAX_TABLES} tables and views, the most");
        Err(Error::new(ErrorKind::MemoryLimit, message).into())
    }

    /// Gives a query a name; `replace`: in the place of a view that has it.
    pub(crate) async fn create_view(&self, name: &str, sql: &str, replace: bool) -> Result<(), RequestError> {
        let Some(durable) = &self.durable else {
            check_name(name).map_err(|e| e.at("name"))?;
            let mut held = self.shared.memory.reserve(Consumer::Views);
            held.set((name.len() + sql.len()) as u64 + limits::COLUMN_BYTES)?;
            let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
            let is_there = views.contains_key(name);
            if self.shared.catalog.find(name).is_ok() || is_there && !replace {
                return Err(taken(name));
            }
            if !is_there {
                self.check_names(&views, 1)?;
            }
            views.insert(name.to_owned(), View { sql: sql.into(), _held: held });
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

#[cfg(test)]
mod tests {
    use basalt_core::schema::{DataType, Field, Schema};

    use super::*;
    use crate::{Config, environment, state::State, tables::Gone};

    fn state() -> State {
        let config = Config { store: "memory:".into(), ..Config::default() };
        State::new(environment::process(), &config, None).unwrap()
    }

    #[tokio::test]
    async fn views_in_memory_count_as_memory() {
        let state = state();
        let (tables, memory) = (&state.tables, &state.tables.shared.memory);
        tables.create_view("v", "SELECT 1", false).await.unwrap();
        assert_eq!(memory.used(Consumer::Views), limits::COLUMN_BYTES + 9);
        assert_eq!(tables.create_view("v", "SELECT 1", false).await.unwrap_err().reason(), "TABLE_EXISTS");
        let mut write = memory.reserve(Consumer::Writes);
        write.set(memory.limit() - memory.held() - 2000).unwrap();
        let long = format!("SELECT '{}'", "x".repeat(2000));
        assert_eq!(tables.create_view("v", &long, true).await.unwrap_err().reason(), "MEMORY_LIMIT");
        assert_eq!(&*tables.views()["v"], "SELECT 1");
        drop(write);
        tables.create_view("v", &long, true).await.unwrap();
        assert_eq!(memory.used(Consumer::Views), limits::COLUMN_BYTES + 1 + long.len() as u64);
        tables.remove_view("v").await.unwrap();
        assert_eq!(memory.used(Consumer::Views), 0);
    }

    #[tokio::test]
    async fn there_are_no_more_tables_and_views_than_there_may_be() {
        let state = state();
        let schema = || Schema::new(vec![Field::new("a", DataType::Int64, true)]).unwrap();
        for i in 2..MAX_TABLES {
            state.catalog.create(&format!("t{i}"), schema()).unwrap();
        }
        let tables = &state.tables;
        let create = async |name: &str| tables.create(name, schema(), None, Default::default()).await;
        tables.create_view("v", "SELECT 1", false).await.unwrap();
        create("t").await.unwrap();
        let draft = tables.draft("u", schema(), None, Default::default()).await.unwrap();
        let refused = [
            tables.create_view("w", "SELECT 1", false).await,
            create("u").await.map(|_| ()),
            tables.publish(vec![draft], &[]).await,
        ];
        for refused in refused {
            let error = refused.unwrap_err();
            assert_eq!(error.reason(), "MEMORY_LIMIT");
            assert_eq!(error.message(), "there are 4096 tables and views, the most");
        }
        let draft = tables.draft("u", schema(), None, Default::default()).await.unwrap();
        let gone = Gone { name: "t".into(), id: None, at: None };
        tables.publish(vec![draft], &[gone]).await.unwrap();
        assert_eq!(create("u").await.unwrap_err().reason(), "TABLE_EXISTS");
        tables.create_view("v", "SELECT 2", true).await.unwrap();
        tables.remove_view("v").await.unwrap();
        create("t").await.unwrap();
    }
}
