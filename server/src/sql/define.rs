//! Tables that statements make and drop: as CatalogService does it.

use std::sync::Arc;

use basalt_proto::v1::ErrorReason;
use basalt_sql::{Alteration, Change, NewTable, Writer, Written};
use basalt_storage::Deletes;

use super::{
    Asker, At, Tables, Transaction,
    buffer::Buffer,
    carried, no_table, on,
    transaction::{self, Meaning},
    write::RowsWriter,
};
use crate::{
    access::{Action, Caller, Object},
    coordinator::fresh,
    drafts::{Draft, New},
    memory::{Consumer, schema_bytes},
    panics::caught_async,
    state::State,
    status::{RequestError, Result},
    tables::Gone,
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
        self.asker.authorise(Action::Alter, Object::Table(table.name())).map_err(carried)?;
        let only_at = exactly.then(|| self.pinned.version.number());
        let alterations = alterations.into_iter().map(stored).collect();
        let state = Arc::clone(&self.state);
        self.asker.commits().map_err(carried)?;
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
            Err(error) if error.is_conflict() && exactly => {
                self.asker.committing().is_refused();
                Ok(Written::Conflict)
            }
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

/// A table that a statement makes.
#[derive(Debug)]
pub(super) struct NewDraft {
    pub(super) draft: Draft,
    /// In the place of one that has its name.
    replaces: bool,
    /// That one's id and version, where rows of it were read.
    read: Option<(u64, u64)>,
}

impl NewDraft {
    /// Gives it its name, or to a transaction, which does so with its commit.
    pub(super) async fn publish(self, asker: &Asker, has_rows: bool) -> Result<()> {
        let name = self.draft.table().name().to_owned();
        let (id, at) = self.read.unzip();
        let gone = self.replaces.then_some(Gone { name, id, at });
        match &asker.transaction {
            Some(transaction) => transaction.has_made(self.draft, has_rows, gone),
            None => self.draft.publish(gone.into_iter().collect()).await,
        }
    }
}

impl Tables {
    /// Makes an empty table.
    pub(super) async fn create(&self, table: NewTable, if_not_exists: bool) -> basalt_sql::Result<()> {
        let is_plain = self.asker.transaction.is_none() && !table.replaces;
        let created = match is_plain {
            true => self.created(table).await,
            false => match self.draft(table).await {
                Ok(new) => new.publish(&self.asker, false).await,
                Err(error) => Err(error),
            },
        };
        match created {
            Err(error) if if_not_exists && error.reason() == "TABLE_EXISTS" => Ok(()),
            done => done.map_err(carried),
        }
    }

    /// Makes a table, and begins to write its rows.
    pub(super) async fn create_as(&self, table: NewTable) -> basalt_sql::Result<Box<dyn Writer>> {
        self.asker.authorise(Action::Write, Object::Table(&table.name)).map_err(carried)?;
        let new = self.draft(table).await.map_err(carried)?;
        let table = Arc::clone(new.draft.table());
        let version = self.state.tables.pin_draft(&table).map_err(carried)?;
        let pinned = self.reach.pinned(table, version);
        let _runtime = self.runtime.enter();
        let buffer = Buffer::open(&self.state, &self.asker, &pinned, Change::Insert);
        let buffer = buffer.map_err(carried)?;
        Ok(Box::new(RowsWriter::of_new_table(&self.state, buffer, new, &self.asker, &self.runtime)))
    }

    /// A table that is complete when it is found.
    async fn draft(&self, table: NewTable) -> Result<NewDraft> {
        let Asker { caller, transaction, .. } = &self.asker;
        let NewTable { name, schema, retention, rewrites, replaces } = table;
        // What takes the place of another one drops it. Nothing is allowed first that this refuses.
        if replaces {
            self.asker.authorise(Action::Drop, Object::Table(&name))?;
        }
        self.asker.authorise(Action::Create, Object::Table(&name))?;
        let meaning = transaction.as_ref().map_or(Meaning::Outside, |transaction| transaction.meaning(&name));
        let is_taken = match meaning {
            Meaning::Made(..) => true,
            Meaning::Nothing => false,
            Meaning::Outside => {
                let (state, name) = (Arc::clone(&self.state), name.clone());
                let taken = async move {
                    fresh::catalog(&state).await?;
                    Ok(state.tables.names().contains(&name) || state.tables.views().contains_key(&name))
                };
                on(&self.runtime, trace::scope(self.reach.trace(), taken)).await?
            }
        };
        if is_taken && !replaces {
            return Err(table_exists(&name));
        }
        let deletes = if rewrites == Some(true) { Deletes::Rewrite } else { Deletes::Vectors };
        let new = New { name, schema, retention, deletes };
        let draft = Draft::make(&self.state, caller, &self.runtime, new).await?;
        let read = self
            .done()
            .current
            .get(draft.table().name())
            .map(|read| (read.table.id(), read.version.number()));
        let read = read.filter(|_| replaces && matches!(meaning, Meaning::Outside));
        Ok(NewDraft { draft, replaces, read })
    }

    /// It goes on when the client is gone: what is in the store must be here.
    async fn created(&self, table: NewTable) -> Result<()> {
        self.asker.authorise(Action::Create, Object::Table(&table.name))?;
        // It is counted with the other tables once it is one of them.
        let mut held = self.state.memory.reserve(Consumer::Maintenance);
        held.set(schema_bytes(&table.schema))?;
        let (state, token) = (Arc::clone(&self.state), self.state.running.token());
        let caller = self.asker.caller.clone();
        let deletes = if table.rewrites == Some(true) { Deletes::Rewrite } else { Deletes::Vectors };
        self.asker.commits()?;
        let created = self.runtime.spawn(trace::scope(self.reach.trace(), async move {
            let created = state.tables.create(&table.name, table.schema, table.retention, deletes).await;
            drop((held, token));
            created.map(|table| state.made.add(&table, &caller))
        }));
        created.await.map_err(|_| RequestError::internal())?
    }

    /// Drops a table.
    pub(super) async fn remove(&self, table: &str, if_exists: bool) -> basalt_sql::Result<()> {
        let (state, name, caller) = (Arc::clone(&self.state), table.to_owned(), self.asker.caller.clone());
        let transaction = self.asker.transaction.clone();
        self.asker.commits().map_err(carried)?;
        let removed = self.on_runtime(async move {
            let removed = match transaction {
                Some(transaction) => remove_with(&state, &caller, &transaction, &name).await,
                None => remove(&state, &caller, &name).await,
            };
            match removed {
                Err(error) if if_exists && error.reason() == "TABLE_NOT_FOUND" => Ok(()),
                done => done,
            }
        });
        removed.await
    }

    /// Gives a query a name.
    pub(super) async fn make_view(&self, name: &str, sql: &str, replace: bool) -> basalt_sql::Result<()> {
        self.refuse_in_transaction("CREATE VIEW").map_err(carried)?;
        // What takes the place of another one's drops it. Nothing is allowed first that this refuses.
        if replace {
            self.asker.authorise(Action::Drop, Object::View(name)).map_err(carried)?;
        }
        self.asker.authorise(Action::Create, Object::View(name)).map_err(carried)?;
        let (state, name, sql) = (Arc::clone(&self.state), name.to_owned(), sql.to_owned());
        self.asker.commits().map_err(carried)?;
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
        self.asker.authorise(Action::Drop, Object::View(name)).map_err(carried)?;
        let (state, name) = (Arc::clone(&self.state), name.to_owned());
        self.asker.commits().map_err(carried)?;
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

/// Drops a table at once.
async fn remove(state: &State, caller: &Caller, name: &str) -> Result<()> {
    let gone = check_drop(state, caller, name).await?;
    let token = state.running.token();
    let removed = state.tables.remove_at(name, gone.and_then(|gone| gone.at)).await;
    drop(token);
    removed.map(|_| ())
}

/// Has the commit of a transaction drop a table.
async fn remove_with(state: &State, caller: &Caller, transaction: &Transaction, name: &str) -> Result<()> {
    let outside = match transaction.meaning(name) {
        Meaning::Made(..) => {
            // It may stand in the place of one that goes already.
            return transaction.has_dropped(name, None);
        }
        Meaning::Nothing => None,
        Meaning::Outside => check_drop(state, caller, name).await?,
    };
    match outside {
        Some(gone) => transaction.has_dropped(name, Some(gone)),
        None => Err(no_table(name)),
    }
}

/// Fails where a caller may not drop a table; the one that has the name, loaded or not.
async fn check_drop(state: &State, caller: &Caller, name: &str) -> Result<Option<Gone>> {
    fresh::catalog(state).await?;
    let at = state.may_drop(caller, name)?;
    Ok(state.tables.id_of(name).map(|id| Gone { name: name.to_owned(), id: Some(id), at }))
}

fn table_exists(name: &str) -> RequestError {
    RequestError::new(ErrorReason::TableExists, format!("table {name:?} exists")).at("name")
}
