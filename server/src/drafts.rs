//! Tables that a load, a query or a transaction makes: nobody finds them before they have their rows.

use std::sync::Arc;

use basalt_core::{
    schema::Schema,
    table::{Retention, Table},
};
use basalt_storage::Deletes;
use tokio::{runtime::Handle, sync::OwnedSemaphorePermit, task::JoinHandle};

use crate::{
    access::Caller,
    memory::{Consumer, schema_bytes},
    panics::caught_async,
    state::State,
    status::{RequestError, Result},
    tables::{self, Gone},
    trace,
};

/// A table that has no name yet. Dropped before [`Draft::publish`], it leaves nothing.
#[derive(Debug)]
pub(crate) struct Draft {
    state: Arc<State>,
    caller: Caller,
    runtime: Handle,
    table: Arc<Table>,
    /// `None`: it is published, or discarded.
    draft: Option<tables::Draft>,
    /// Its maker's turn, until it is known what becomes of it.
    turn: Option<OwnedSemaphorePermit>,
}

/// What a draft will be.
#[derive(Debug)]
pub(crate) struct New {
    pub(crate) name: String,
    pub(crate) schema: Schema,
    pub(crate) retention: Option<Retention>,
    pub(crate) deletes: Deletes,
}

impl Draft {
    /// Makes an empty one, to its end, also when the client is gone meanwhile. That the name is free is not looked at.
    pub(crate) async fn make(
        state: &Arc<State>,
        caller: &Caller,
        runtime: &Handle,
        new: New,
    ) -> Result<Self> {
        let (state, caller, of) = (Arc::clone(state), caller.clone(), runtime.clone());
        let made = runtime.spawn(trace::carried(caught_async(async move {
            // It is counted with the other tables once it is one of them.
            let mut held = state.memory.reserve(Consumer::Maintenance);
            held.set(schema_bytes(&new.schema))?;
            let token = state.running.token();
            let New { name, schema, retention, deletes } = new;
            let draft = state.tables.draft(&name, schema, retention, deletes).await?;
            drop((held, token));
            let table = Arc::clone(draft.table());
            Ok(Self { state, caller, runtime: of, table, draft: Some(draft), turn: None })
        })));
        made.await.map_err(|_| RequestError::internal())?
    }

    /// The same, which keeps others from making one of that name.
    pub(crate) fn in_turn(mut self, turn: OwnedSemaphorePermit) -> Self {
        self.turn = Some(turn);
        self
    }

    /// For its rows.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Gives it its name, and removes those tables.
    pub(crate) fn publish(self, gone: Vec<Gone>) -> impl Future<Output = Result<()>> {
        let (state, runtime) = (Arc::clone(&self.state), self.runtime.clone());
        let _entered = runtime.enter();
        publish(&state, vec![self], gone)
    }

    /// Removes it, and waits until nothing is left.
    pub(crate) async fn discard(mut self) {
        if let Some(discarded) = self.remove() {
            // It goes on when nobody waits, and tells what kept it.
            let _ = discarded.await;
        }
    }

    fn remove(&mut self) -> Option<JoinHandle<()>> {
        let (draft, turn) = (self.draft.take()?, self.turn.take());
        let state = Arc::clone(&self.state);
        let token = state.running.token();
        Some(self.runtime.spawn(async move {
            state.tables.discard(draft).await;
            drop((token, turn));
        }))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        drop(self.remove());
    }
}

/// Gives drafts their names, and removes those tables, all in one step; where that fails they are discarded. It is done to
/// its end, whoever goes; in a runtime.
pub(crate) fn publish(
    state: &Arc<State>,
    mut drafts: Vec<Draft>,
    gone: Vec<Gone>,
) -> impl Future<Output = Result<()>> + use<> {
    let state = Arc::clone(state);
    let published = tokio::spawn(trace::carried(caught_async(async move {
        drafts.iter().try_for_each(|draft| draft.caller.check_key())?;
        let token = state.running.token();
        let made = drafts.iter_mut().filter_map(|draft| draft.draft.take()).collect();
        if drafts.is_empty() && gone.is_empty() {
            return Ok(());
        }
        state.tables.publish(made, &gone).await?;
        for draft in &drafts {
            state.made.add(&draft.table, &draft.caller);
        }
        drop((drafts, token));
        Ok(())
    })));
    async move { published.await.map_err(|_| RequestError::internal())? }
}
