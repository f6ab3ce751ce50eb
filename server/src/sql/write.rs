//! What a statement writes to a table: rows that come and go on their way to one commit, or to that of a transaction.

use std::{mem, sync::Arc};

use arrow_array::{RecordBatch, UInt64Array};
use basalt_core::{query::Filter, table::Table};
use basalt_sql::{Change, Writer, Written, async_trait};
use tokio::runtime::Handle;

use super::{
    Asker, At, Transaction,
    buffer::{Buffer, Counts, OTHER_COLUMNS},
    carried,
    define::NewDraft,
    on,
};
use crate::{
    access::{Action, Object},
    coordinator::fresh,
    panics::caught_async,
    queries::Committing,
    state::State,
    status::{RequestError, Result},
    trace::{self, Trace},
};

impl Asker {
    /// Whether the transaction has changed a table.
    pub(super) fn has_written(&self, table: &Table) -> bool {
        self.transaction.as_ref().is_some_and(|transaction| transaction.has_written(table.id()))
    }
}

impl At {
    /// Begins to write to the table.
    pub(super) fn begin_write(&self, change: Change) -> Result<Box<dyn Writer>> {
        let transaction = &self.asker.transaction;
        self.asker.authorise(Action::Write, Object::Table(self.pinned.table.name()))?;
        let _runtime = self.runtime.enter();
        let open = |change| Buffer::open(&self.state, &self.asker, &self.pinned, change);
        let (mut buffer, into) = match transaction {
            Some(transaction) => {
                let buffer = transaction.take(&self.pinned.table, change, open)?;
                (buffer, Into::Transaction(Arc::clone(transaction)))
            }
            None => match open(change) {
                // They have changed since the statement was planned.
                Err(error) if error.reason() == OTHER_COLUMNS => return Ok(Box::new(Overtaken)),
                buffer => (buffer?, Into::Version(Arc::clone(&self.state))),
            },
        };
        let before = buffer.counts();
        let (runtime, trace) = (self.runtime.clone(), self.asker.trace.clone());
        let committing = self.asker.committing();
        Ok(Box::new(RowsWriter { buffer: Some(buffer), before, into, runtime, trace, committing }))
    }

    /// Deletes rows by a condition, as IngestService does; `None` in a transaction, which keeps their addresses, and where
    /// another change came first: then the statement finds out what became of the table.
    pub(super) async fn delete_selected(&self, filter: Option<Filter>) -> basalt_sql::Result<Option<u64>> {
        if self.asker.transaction.is_some() {
            return Ok(None);
        }
        let planned = Arc::clone(&self.pinned.table);
        self.asker.authorise(Action::Write, Object::Table(planned.name())).map_err(carried)?;
        let (state, caller, committing) =
            (Arc::clone(&self.state), self.asker.caller.clone(), self.asker.committing());
        // It goes on when the client is gone: the commit may be on its way.
        let deleted = self.runtime.spawn(trace::scope(
            self.reach.trace(),
            caught_async(async move {
                let token = state.running.token();
                let is_gone = |error: &RequestError| error.reason() == "TABLE_NOT_FOUND";
                let table = match fresh::newest_alone(&state, planned.name()).await {
                    // Another one takes its place, perhaps.
                    Err(error) if is_gone(&error) => return Ok(None),
                    table => table?,
                };
                // The condition is of the columns that it was planned with.
                if table.id() != planned.id() || table.schema() != planned.schema() {
                    return Ok(None);
                }
                caller.check_key()?;
                let deleted = state.tables.delete_unless(&table, filter, &|| committing.begin()).await;
                drop(token);
                match deleted {
                    Err(error)
                        if error.is_conflict() || is_gone(&error) || error.reason() == OTHER_COLUMNS =>
                    {
                        committing.is_refused();
                        Ok(None)
                    }
                    deleted => deleted.map(|deleted| Some(deleted.rows)),
                }
            }),
        ));
        deleted.await.map_err(|_| carried(RequestError::internal()))?.map_err(carried)
    }
}

/// Of a statement that another change has overtaken before it wrote: it takes nothing, and ends in a conflict.
struct Overtaken;

#[async_trait]
impl Writer for Overtaken {
    async fn insert(&mut self, _: RecordBatch) -> basalt_sql::Result<()> {
        Ok(())
    }

    async fn delete(&mut self, _: UInt64Array) -> basalt_sql::Result<()> {
        Ok(())
    }

    async fn commit(self: Box<Self>) -> basalt_sql::Result<Written> {
        Ok(Written::Conflict)
    }
}

/// Where rows go when a statement is over.
enum Into {
    /// Into a version of their own.
    Version(Arc<State>),
    /// Into a table that nobody finds before it has them.
    NewTable(Arc<State>, Box<(NewDraft, Asker)>),
    /// Back to their transaction.
    Transaction(Arc<Transaction>),
    /// They are there, or nowhere.
    Nowhere,
}

/// See the module.
pub(super) struct RowsWriter {
    /// `None` once something went wrong.
    buffer: Option<Buffer>,
    /// What the buffer held when the statement began.
    before: Counts,
    into: Into,
    runtime: Handle,
    /// Of the statement: its own thread does not know it.
    trace: Option<Arc<Trace>>,
    committing: Committing,
}

impl RowsWriter {
    pub(super) fn of_new_table(
        state: &Arc<State>,
        buffer: Buffer,
        new: NewDraft,
        asker: &Asker,
        runtime: &Handle,
    ) -> Self {
        let into = Into::NewTable(Arc::clone(state), Box::new((new, asker.clone())));
        let (before, runtime, trace) = (Counts::default(), runtime.clone(), asker.trace.clone());
        let committing = asker.committing();
        Self { buffer: Some(buffer), before, into, runtime, trace, committing }
    }

    /// Has a step done on the threads that may wait for the store.
    async fn step(
        &mut self,
        step: impl FnOnce(Buffer) -> futures_util::future::BoxFuture<'static, Result<Buffer>>,
    ) -> basalt_sql::Result<()> {
        let buffer = self.buffer.take().ok_or_else(|| carried(RequestError::internal()))?;
        let step = trace::scope(self.trace.clone(), step(buffer));
        self.buffer = Some(on(&self.runtime, step).await.map_err(carried)?);
        Ok(())
    }
}

#[async_trait]
impl Writer for RowsWriter {
    async fn insert(&mut self, rows: RecordBatch) -> basalt_sql::Result<()> {
        self.step(|buffer| Box::pin(buffer.insert(rows))).await
    }

    async fn delete(&mut self, addresses: UInt64Array) -> basalt_sql::Result<()> {
        self.step(|buffer| Box::pin(buffer.delete(addresses))).await
    }

    async fn commit(mut self: Box<Self>) -> basalt_sql::Result<Written> {
        let mut buffer = self.buffer.take().ok_or_else(|| carried(RequestError::internal()))?;
        buffer.check_once(self.before).map_err(carried)?;
        let (state, new) = match mem::replace(&mut self.into, Into::Nowhere) {
            Into::Version(state) => (state, None),
            Into::NewTable(state, new) => (state, Some(new)),
            Into::Transaction(transaction) => {
                let (before, now) = (self.before, buffer.counts());
                transaction.give_back(buffer);
                let (inserted, deleted) = (now.inserted - before.inserted, now.deleted - before.deleted);
                return Ok(Written::Done { inserted, deleted });
            }
            Into::Nowhere => return Err(carried(RequestError::internal())),
        };
        // It goes on when nobody waits for it any longer: the commit may be on its way.
        self.committing.begin().map_err(carried)?;
        let commit = self.runtime.spawn(trace::scope(
            self.trace.clone(),
            caught_async(async move {
                let token = state.running.token();
                let written = buffer.commit().await?;
                if let (Some(new), Written::Done { inserted, .. }) = (new, written) {
                    let (new, asker) = *new;
                    match new.publish(&asker, inserted > 0).await {
                        // Made of what is not there any more: made again.
                        Err(error) if error.is_conflict() => return Ok(Written::Conflict),
                        published => published?,
                    }
                }
                drop(token);
                Ok(written)
            }),
        ));
        let written = commit.await.unwrap_or_else(|_| Err(RequestError::internal()));
        if matches!(written, Ok(Written::Conflict)) {
            self.committing.is_refused();
        }
        written.map_err(carried)
    }
}

impl Drop for RowsWriter {
    fn drop(&mut self) {
        // Some of a statement's rows are in it, perhaps.
        if let Into::Transaction(transaction) = &self.into {
            transaction.fail();
        }
    }
}
