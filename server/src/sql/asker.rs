//! Who has a statement run, and what is asked and remembered of him: with the trace of the request, as the threads of
//! statements do not know it.

use std::sync::Arc;

use basalt_sql::system::Client;

use super::{Transaction, turn::Turn};
use crate::{
    access::{Action, Caller, Object},
    class::Class,
    queries::{Committing, Entry},
    state::State,
    status::Result,
    trace::{Entered, Trace},
};

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    pub(super) caller: Caller,
    /// The connection, which has its share of the places for writes.
    pub(super) connection: u64,
    /// Who has connected, where the door knows.
    pub(super) client: Option<Client>,
    /// What it writes is committed with the rest of this.
    pub(super) transaction: Option<Arc<Transaction>>,
    /// Its turn among all that runs.
    pub(super) turn: Option<Arc<Turn>>,
    /// How the statement is seen among those that run.
    pub(super) entry: Option<Arc<Entry>>,
    /// The request that the statement is of.
    pub(super) trace: Option<Arc<Trace>>,
}

impl Asker {
    /// The statement begins to commit, or to change the catalog: it is done to its end from now on.
    pub(super) fn commits(&self) -> Result<()> {
        self.committing().begin()
    }

    /// To say so later.
    pub(super) fn committing(&self) -> Committing {
        // Default: what is not listed nobody stops.
        self.entry.as_ref().map(|entry| entry.committing().clone()).unwrap_or_default()
    }

    /// Fails where it may not do what it asks for.
    pub(super) fn authorise(&self, action: Action, object: Object<'_>) -> Result<()> {
        let _entered = Entered::new(self.trace.clone());
        self.caller.authorise(action, object)
    }

    /// It may do such things, also at the path that it names.
    pub(super) fn allowed(&self, action: Action, object: Object<'_>) {
        let _entered = Entered::new(self.trace.clone());
        self.caller.allowed(action, object);
    }

    /// It may do such things, but not at this path.
    pub(super) fn refused_at(&self, action: Action, path: &str) {
        let _entered = Entered::new(self.trace.clone());
        self.caller.refused_at(action, path);
    }

    /// It has named a table that it was not told of. Where there is one which is hidden from it, as a table or a view, that
    /// is remembered as what it is: a refusal.
    pub(super) fn not_found(&self, state: &State, table: &str, writes: bool) {
        let all = state.tables.names().into_iter().chain(state.tables.views().into_keys());
        let mut hidden = all.filter(|name| name.eq_ignore_ascii_case(table) && !self.caller.may_see(name));
        if let Some(name) = hidden.next() {
            let action = if writes { Action::Write } else { Action::Read };
            // The answer is that there is none.
            let _ = self.authorise(action, Object::Table(&name));
        }
    }

    /// The class of what is done for it.
    pub(super) fn class(&self) -> Class {
        self.turn.as_ref().map_or(Class::Long, |turn| turn.class())
    }
}
