//! The turn of a statement among all that runs: a short one until it is planned, and then of the class of its plan.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::time::Instant;

use crate::{
    class::Class,
    connection::{Asking, Connection},
    cpu::Permit,
    readers::Slot,
    state::State,
    status::{RequestError, Result},
};

/// See the module.
pub(super) struct Turn {
    state: Arc<State>,
    connection: Arc<Connection>,
    deadline: Instant,
    /// Whether it waits for the place of its answer before it runs; others do once their rows turn out to be many.
    takes_slot: bool,
    held: Mutex<Held>,
}

/// Gives a turn back when it is dropped, whoever still has a part in it: tables know it, and they live as long as the last
/// task that reads them.
pub(super) struct GiveBack(pub(super) Arc<Turn>);

impl Drop for GiveBack {
    fn drop(&mut self) {
        self.0.held().is_over = true;
        drop(self.0.take());
    }
}

struct Held {
    /// Nothing more is taken.
    is_over: bool,
    class: Class,
    permit: Option<Permit>,
    /// The place of its answer.
    slot: Option<Slot>,
    /// Until it is taken.
    asking: Option<Asking>,
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("class", &self.class()).finish_non_exhaustive()
    }
}

impl Turn {
    /// Waits for that of planning.
    pub(super) async fn begin(
        state: &Arc<State>,
        connection: &Arc<Connection>,
        deadline: Instant,
        takes_slot: bool,
    ) -> Result<Self> {
        let class = Class::Short;
        let asking = connection.asks();
        let permit = Some(asking.admit(&state.cpu, class, deadline).await?);
        let held = Held { is_over: false, class, permit, slot: None, asking: Some(asking) };
        let (state, connection) = (Arc::clone(state), Arc::clone(connection));
        Ok(Self { state, connection, deadline, takes_slot, held: Mutex::new(held) })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn class(&self) -> Class {
        self.held().class
    }

    /// Waits for that of a long query, unless it is one already: there is more to be done than planning.
    pub(super) async fn lengthen(&self) -> Result<()> {
        match self.class() {
            Class::Long => Ok(()),
            Class::Short => self.change(Class::Long).await,
        }
    }

    /// Waits for the place of its answer, if it takes one, and for the turn of its plan.
    pub(super) async fn planned(&self, is_light: bool) -> Result<()> {
        let class = if is_light { self.class() } else { Class::Long };
        if is_light {
            self.connection.was_light();
        }
        if !self.takes_slot || self.held().slot.is_some() {
            return if is_light { Ok(()) } else { self.lengthen().await };
        }
        // Whoever waits for a place holds no permit.
        self.held().permit = None;
        let slot = self.state.readers.admit(&self.connection, class, self.deadline).await?;
        self.hold(|held| held.slot = Some(slot))?;
        self.change(class).await
    }

    /// Gives the permit back: the client is waited for, and others may run.
    pub(super) fn rest(&self) {
        self.held().permit = None;
    }

    async fn change(&self, class: Class) -> Result<()> {
        self.held().permit = None;
        let permit = match class {
            Class::Short => self.state.cpu.admit_again(class, self.deadline).await?,
            Class::Long => {
                let is_alone = self.held().asking.as_ref().is_some_and(Asking::is_alone);
                self.connection.admit(&self.state.cpu, class, self.deadline, is_alone).await?
            }
        };
        self.hold(|held| (held.class, held.permit) = (class, Some(permit)))
    }

    /// Keeps what was waited for, unless nobody waits for the statement any longer.
    fn hold(&self, keep: impl FnOnce(&mut Held)) -> Result<()> {
        let mut held = self.held();
        if held.is_over {
            return Err(RequestError::deadline());
        }
        keep(&mut held);
        Ok(())
    }

    /// What it holds goes to whoever hands out the answer.
    pub(super) fn take(&self) -> (Option<Permit>, Option<Slot>) {
        let mut held = self.held();
        held.asking = None;
        (held.permit.take(), held.slot.take())
    }
}
