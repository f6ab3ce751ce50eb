//! What waits for others: it runs on a thread that may, with a permit.

use std::sync::Arc;

use basalt_core::{exec::Control, query::Filter};
use basalt_proto::v1 as pb;
use tokio::time::Instant;

use crate::{
    access::Caller,
    class::Class,
    convert,
    coordinator::{Coordinator, Reach, describe},
    cpu::{StopOnDrop, on_own_thread_as},
    panics::{self, caught},
    peers::fetch,
    state::State,
    status::{RequestError, Result},
};

/// The filter of a deletion, whose semi-joins are sets.
pub(super) async fn resolve(
    state: &Arc<State>,
    caller: &Caller,
    request: pb::DeleteRequest,
    deadline: Instant,
) -> Result<Option<Filter>> {
    fetch::sets_of(state, caller, request.filter.as_ref(), deadline).await?;
    let control = state.control();
    let reach = Reach::new(Arc::clone(state), caller, deadline, control.clone());
    let pinned = reach.find(&request.table, None).await?;
    let resolve = move |state: &State, control: &Control| {
        let filter = convert::filter(request.filter, &request.table, &state.sets)?;
        let mut coordinator = Coordinator::new(&reach, control, false);
        coordinator.reads(&pinned);
        coordinator.resolve_filter(&pinned, filter)
    };
    coordinate(state, deadline, control, resolve).await
}

/// How the columns of a table are held.
pub(crate) async fn columns(
    state: &Arc<State>,
    caller: &Caller,
    table: &str,
    full: bool,
    deadline: Instant,
) -> Result<Vec<pb::ColumnInfo>> {
    let control = state.control();
    let reach = Reach::new(Arc::clone(state), caller, deadline, control.clone());
    let pinned = reach.find(table, None).await?;
    let describe = move |_: &State, control: &Control| {
        panics::wanted("describe", pinned.table.name());
        let mut coordinator = Coordinator::new(&reach, control, false);
        coordinator.reads(&pinned);
        describe::columns(&mut coordinator, &pinned, full)
    };
    coordinate(state, deadline, control, describe).await
}

/// Coordinates with a permit of its own; stops when the deadline passes or when this future is dropped.
pub(super) async fn coordinate<T: Send + 'static>(
    state: &Arc<State>,
    deadline: Instant,
    control: Control,
    job: impl FnOnce(&State, &Control) -> Result<T> + Send + 'static,
) -> Result<T> {
    let permit = state.cpu.admit(Class::Long, deadline).await?;
    let stop = StopOnDrop::new(&control);
    let (environment, state) = (Arc::clone(&state.environment), Arc::clone(state));
    let running = on_own_thread_as(&environment, Class::Long, move |may_wait| {
        let _permit = permit;
        let control = state.cpu.spread(may_wait, Class::Long, control);
        caught(|| job(&state, &control))
    });
    stop.until(deadline, running).await?.map_err(|_| RequestError::internal())?
}
