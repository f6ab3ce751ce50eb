//! Tables that statements make and drop: as CatalogService does it.

use std::sync::Arc;

use basalt_core::table::Table;
use basalt_sql::{Alteration, Change, NewTable, Writer, Written};
use basalt_storage::Deletes;

use super::{At, Tables, buffer::Buffer, carried, transaction, write::RowsWriter};
use crate::{
    access::{Action, Object},
    coordinator::fresh,
    made::Made,
    memory::{Consumer, schema_bytes},
    panics::caught_async,
    status::{RequestError, Result},
    trace,
};

impl At {
    /// Changes the columns.
    pub(super) async fn change_columns(
        &self,
        alterations: Vec<Alteration>,
        exactly: bool,
    ) -> basalt_sql::Result<Written> {
        if self.asker.transaction.is_some() {
            return Err(carried(transaction::not_in_one("ALTER")));
        }
        let table = Arc::clone(&self.pinned.table);
        self.asker.caller.authorise(Action::Alter, Object::Table(table.name())).map_err(carried)?;
        let only_at = exactly.then(|| self.pinned.version.number());
        let alterations = alterations.into_iter().map(stored).collect();
        let state = Arc::clone(&self.state);
        // It goes on when the client is gone: the commit may be on its way.
        let altered = self.runtime.spawn(trace::scope(
            self.reach.trace(),
            caught_async(async move {
                let token = state.running.token();
                let altered = state.tables.alter(&table, alterations, only_at).await;
                drop(token);
                altered
            }),
        ));
        match altered.await.unwrap_or_else(|_| Err(RequestError::internal())) {
            Ok(()) => Ok(Written::Done { inserted: 0, deleted: 0 }),
            Err(error) if error.is_conflict() && exactly => Ok(Written::Conflict),
            Err(error) => Err(carried(error)),
        }
    }
}

/// The same change, for the log.
fn stored(alteration: Alteration) -> basalt_storage::Alteration {
    match alteration {
        Alteration::Add(field) => basalt_storage::Alteration::Add(field),
        Alteration::Drop(name) => basalt_storage::Alteration::Drop(name),
        Alteration::Rename(from, to) => basalt_storage::Alteration::Rename(from, to),
        Alteration::SetNullable(name, nullable) => basalt_storage::Alteration::SetNullable(name, nullable),
        Alteration::Widen(name, data_type) => basalt_storage::Alteration::Widen(name, data_type),
        Alteration::Optimize(name, optimize) => basalt_storage::Alteration::Optimize(name, optimize),
    }
}

impl Tables {
    /// Makes an empty table.
    pub(super) async fn create(&self, table: NewTable, if_not_exists: bool) -> basalt_sql::Result<()> {
        let (state, runtime) = (Arc::clone(&self.state), self.runtime.clone());
        let transaction = self.asker.transaction.clone();
        let kept = move |table| {
            if let Some(transaction) = transaction {
                transaction.has_made(Made::new(&state, table, &runtime));
            }
        };
        match self.created(table, kept).await {
            Err(error) if if_not_exists && error.reason() == "TABLE_EXISTS" => Ok(()),
            done => done.map_err(carried),
        }
    }

    /// Makes a table, and begins to write its rows.
    pub(super) async fn create_as(&self, table: NewTable) -> basalt_sql::Result<Box<dyn Writer>> {
        self.refuse_in_transaction("CREATE TABLE AS").map_err(carried)?;
        let (state, runtime, name) = (Arc::clone(&self.state), self.runtime.clone(), table.name.clone());
        let made = self.created(table, move |table| Made::new(&state, table, &runtime)).await;
        let made = made.map_err(carried)?;
        self.asker.caller.authorise(Action::Write, Object::Table(&name)).map_err(carried)?;
        let (reach, of) = (Arc::clone(&self.reach), name);
        let pinned = self.on_runtime(async move { reach.find(&of, None).await }).await?;
        let _runtime = self.runtime.enter();
        let buffer = Buffer::open(&self.state, &self.asker, &pinned, Change::Insert);
        let buffer = buffer.map_err(carried)?;
        Ok(Box::new(RowsWriter::of_new_table(&self.state, buffer, made, &self.runtime)))
    }

    /// It goes on when the client is gone: what is in the store must be here. What `made` makes of the table is dropped then.
    async fn created<T: Send + 'static>(
        &self,
        table: NewTable,
        made: impl FnOnce(Arc<Table>) -> T + Send + 'static,
    ) -> Result<T> {
        self.asker.caller.authorise(Action::Create, Object::Table(&table.name))?;
        // It is counted with the other tables once it is one of them.
        let mut held = self.state.memory.reserve(Consumer::Maintenance);
        held.set(schema_bytes(&table.schema))?;
        let (state, token) = (Arc::clone(&self.state), self.state.running.token());
        let caller = self.asker.caller.clone();
        let deletes = if table.rewrites == Some(true) { Deletes::Rewrite } else { Deletes::Vectors };
        let created = self.runtime.spawn(trace::scope(self.reach.trace(), async move {
            let created = state.tables.create(&table.name, table.schema, table.retention, deletes).await;
            drop((held, token));
            created.map(|table| {
                state.made.add(&table, &caller);
                made(table)
            })
        }));
        created.await.map_err(|_| RequestError::internal())?
    }

    /// Drops a table.
    pub(super) async fn remove(&self, table: &str, if_exists: bool) -> basalt_sql::Result<()> {
        self.refuse_in_transaction("DROP").map_err(carried)?;
        let (state, name, caller) = (Arc::clone(&self.state), table.to_owned(), self.asker.caller.clone());
        let removed = self.on_runtime(async move {
            fresh::catalog(&state).await?;
            let is_own = state.catalog.get(&name).is_ok_and(|table| state.made.is_of(&table, &caller));
            caller.may_drop(&name, is_own)?;
            let token = state.running.token();
            let removed = state.tables.remove(&name).await;
            drop(token);
            match removed {
                Err(error) if if_exists && error.reason() == "TABLE_NOT_FOUND" => Ok(()),
                done => done.map(|_| ()),
            }
        });
        removed.await
    }

    /// Gives a query a name.
    pub(super) async fn make_view(&self, name: &str, sql: &str, replace: bool) -> basalt_sql::Result<()> {
        self.refuse_in_transaction("CREATE VIEW").map_err(carried)?;
        self.asker.caller.authorise(Action::Create, Object::Table(name)).map_err(carried)?;
        // What takes the place of another one's drops it.
        if replace {
            self.asker.caller.authorise(Action::Drop, Object::Table(name)).map_err(carried)?;
        }
        let (state, name, sql) = (Arc::clone(&self.state), name.to_owned(), sql.to_owned());
        let made = self.on_runtime(async move {
            let token = state.running.token();
            let made = state.tables.create_view(&name, &sql, replace).await;
            drop(token);
            made
        });
        made.await
    }

    /// Drops a view.
    pub(super) async fn remove_view(&self, name: &str, if_exists: bool) -> basalt_sql::Result<()> {
        self.refuse_in_transaction("DROP VIEW").map_err(carried)?;
        self.asker.caller.authorise(Action::Drop, Object::Table(name)).map_err(carried)?;
        let (state, name) = (Arc::clone(&self.state), name.to_owned());
        let removed = self.on_runtime(async move {
            fresh::catalog(&state).await?;
            let token = state.running.token();
            let removed = state.tables.remove_view(&name).await;
            drop(token);
            match removed {
                Err(error) if if_exists && error.reason() == "TABLE_NOT_FOUND" => Ok(()),
                done => done,
            }
        });
        removed.await
    }

    /// Fails where a transaction is open: what it keeps for its commit is rows alone.
    pub(super) fn refuse_in_transaction(&self, what: &str) -> Result<()> {
        match &self.asker.transaction {
            Some(_) => Err(transaction::not_in_one(what)),
            None => Ok(()),
        }
    }
}
