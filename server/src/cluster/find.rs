//! The rows that a write of this node takes away, found by those that hold them.

use std::{sync::Arc, time::Instant};

use basalt_core::{exec::Question, plan::Plan, table::Table};
use basalt_sip::Sip;
use tokio::task::spawn_blocking;

use super::{Coordinator, Reach};
use crate::{
    cpu::StopOnDrop,
    limits,
    state::State,
    status::{Fault, Result},
    tables::Sought,
};

/// The addresses of rows in a version that this node knows.
///
/// It takes no permit of a query: who asks holds the table for its commit, and queries that have one may wait for that.
pub(super) async fn find(state: Arc<State>, table: &Table, version: u64, sought: &Sought) -> Result<Sip> {
    let (control, deadline) = (state.control(), Instant::now() + limits::MAX_DEADLINE);
    let stop = StopOnDrop(control.clone());
    let reach = Reach::new(state, deadline, control.clone())?;
    let (name, sought) = (table.name().to_owned(), sought.clone());
    let running = spawn_blocking(move || {
        let mut coordinator = Coordinator::new(&reach, &control, false);
        let pinned = coordinator.pin(&name, Some(version))?;
        let keys = match sought {
            Sought::Selected(filter) => return Ok(coordinator.select(&pinned, Option::clone(&filter))?.0),
            Sought::SameKeys(keys) => keys,
        };
        match keys.question() {
            Question::Filter(filter) => Ok(coordinator.select(&pinned, Some(filter))?.0),
            Question::Rows(query) => {
                let mut found = Vec::new();
                let plan = Plan::new(&pinned.table, &pinned.snapshot(), &query)?;
                coordinator.run(&pinned, &query, &plan, &mut |rows| {
                    let more = keys.among(&rows)?;
                    control.reserve(size_of_val(more.as_slice()))?;
                    found.extend(more);
                    Ok(())
                })?;
                Ok(Sip::from_ids(found))
            }
        }
    });
    stop.until(deadline, running).await?.map_err(|_| Fault::internal())?
}
