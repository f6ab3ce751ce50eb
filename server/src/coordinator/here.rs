//! Work of this node's own that asks others: it runs on a thread that may wait for them, with a permit.

use std::sync::Arc;

use basalt_core::exec::Control;
use basalt_proto::v1 as pb;
use tokio::time::Instant;

use super::{Coordinator, Reach, describe};
use crate::{
    access::Caller,
    class::Class,
    cpu::{StopOnDrop, on_own_thread_as},
    panics::{self, caught},
    state::State,
    status::{RequestError, Result},
};

/// How the columns of a table are held.
pub(crate) async fn columns(
    state: &Arc<State>,
    caller: &Caller,
    table: &str,
    full: bool,
    deadline: Instant,
) -> Result<Vec<pb::ColumnInfo>> {
    let control = state.control_of(caller);
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
pub(crate) async fn coordinate<T: Send + 'static>(
    state: &Arc<State>,
    deadline: Instant,
    control: Control,
    job: impl FnOnce(&State, &Control) -> Result<T> + Send + 'static,
) -> Result<T> {
    let permit = state.cpu.admit(Class::Long, deadline, true).await?;
    let stop = StopOnDrop::new(&control);
    let (environment, state) = (Arc::clone(&state.environment), Arc::clone(state));
    let running = on_own_thread_as(&environment, Class::Long, move |may_wait| {
        let _permit = permit;
        let control = state.cpu.spread(may_wait, Class::Long, control);
        caught(|| job(&state, &control))
    });
    stop.until(deadline, running).await?.map_err(|_| RequestError::internal())?
}
