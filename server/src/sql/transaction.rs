//! A transaction: what its statements write is kept here, reserved in the pool, and committed at once, or not at all.
//!
//! All of it goes to one table, since a commit is a version of one table; what changes or drops tables is refused. A table
//! that it makes is there at once, for everybody, and is dropped when the transaction is not committed, unless others have
//! written to it. Each statement reads the versions that are the newest when it is planned. A table that the transaction has changed is
//! not read by it any longer: its rows would be those from before.
//!
//! A door opens one at BEGIN, has the statements behind it run by
//! [`Statement::begin_copying`](super::Statement::begin_copying), and
//! ends it with [`Transaction::commit`]; dropping it is ROLLBACK. A statement that fails while it writes leaves some of its
//! rows here, so that the commit is refused.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use basalt_core::table::Table;
use basalt_proto::v1::ErrorReason;
use basalt_sql::{Change, Written};

use super::buffer::Buffer;
use crate::{
    made::Made,
    panics::caught_async,
    state::State,
    status::{RequestError, Result},
    trace,
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    stage: Mutex<Stage>,
    /// The tables that it has made.
    made: Mutex<Vec<Made>>,
}

#[derive(Debug, Default)]
enum Stage {
    /// Nothing was written.
    #[default]
    Empty,
    Written(Box<Buffer>),
    /// A statement writes to this table.
    Writing(u64),
    /// A statement has failed while it wrote.
    Failed,
}

impl Transaction {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn made(&self) -> MutexGuard<'_, Vec<Made>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A table that is dropped where the transaction is not committed.
    pub(super) fn has_made(&self, table: Made) {
        self.made().push(table);
    }

    /// Whether a table is changed by it.
    pub(super) fn has_written(&self, table: u64) -> bool {
        match &*self.stage() {
            Stage::Empty | Stage::Failed => false,
            Stage::Written(buffer) => buffer.table().id() == table,
            Stage::Writing(of) => *of == table,
        }
    }

    /// Its rows, for a statement that writes more of them; until they are given back, or it has failed.
    pub(super) fn take(
        &self,
        table: &Arc<Table>,
        change: Change,
        open: impl FnOnce(Change) -> Result<Buffer>,
    ) -> Result<Buffer> {
        let mut stage = self.stage();
        let buffer = match &*stage {
            Stage::Empty => open(change)?,
            Stage::Failed => return Err(failed()),
            Stage::Writing(_) => {
                return Err(refused("another statement of the transaction is still writing"));
            }
            Stage::Written(buffer) if buffer.table().id() != table.id() => {
                let message = format!(
                    "a transaction writes to one table, this one to {:?}; COMMIT before you write to {:?}",
                    buffer.table().name(),
                    table.name()
                );
                return Err(refused(&message));
            }
            Stage::Written(buffer) => {
                let goes_on = match (buffer.change(), &change) {
                    (Change::Replace(before), Change::Replace(keys)) => before == keys,
                    (Change::Replace(_), _) => false,
                    (_, change) => *change == Change::Insert,
                };
                if !goes_on {
                    return Err(is_written(table.name()));
                }
                match std::mem::take(&mut *stage) {
                    Stage::Written(buffer) => *buffer,
                    _ => return Err(RequestError::internal()),
                }
            }
        };
        *stage = Stage::Writing(table.id());
        Ok(buffer)
    }

    pub(super) fn give_back(&self, buffer: Buffer) {
        *self.stage() = Stage::Written(Box::new(buffer));
    }

    pub(super) fn fail(&self) {
        *self.stage() = Stage::Failed;
    }

    /// Commits what it holds; it is empty then, whatever has come of it. The commit goes on when nobody waits for it.
    pub(crate) async fn commit(&self, state: &Arc<State>) -> Result<()> {
        let made = std::mem::take(&mut *self.made());
        let committed = self.commit_rows(state).await;
        match committed {
            Ok(()) => made.into_iter().for_each(Made::keep),
            Err(_) => undo(made).await,
        }
        committed
    }

    async fn commit_rows(&self, state: &Arc<State>) -> Result<()> {
        let buffer = match std::mem::take(&mut *self.stage()) {
            Stage::Empty => return Ok(()),
            Stage::Failed => return Err(failed()),
            Stage::Writing(_) => return Err(refused("a statement of the transaction is still writing")),
            Stage::Written(buffer) => buffer,
        };
        let (name, token) = (buffer.table().name().to_owned(), state.running.token());
        let commit = tokio::spawn(trace::carried(caught_async(async move {
            let written = buffer.commit().await;
            drop(token);
            written
        })));
        match commit.await.map_err(|_| RequestError::internal())?? {
            Written::Done { .. } => Ok(()),
            Written::Conflict => {
                let message = format!("another write has changed the same rows of table {name:?}; try again");
                Err(RequestError::new(ErrorReason::WriteConflict, message))
            }
        }
    }

    /// Forgets what it holds, and drops the tables that it has made. They go as well when nobody waits for it.
    pub(crate) async fn roll_back(&self) {
        drop(std::mem::take(&mut *self.stage()));
        let made = std::mem::take(&mut *self.made());
        undo(made).await;
    }
}

/// The last first.
async fn undo(made: Vec<Made>) {
    for table in made.into_iter().rev() {
        table.undo().await;
    }
}

fn refused(message: &str) -> RequestError {
    RequestError::new(ErrorReason::InvalidQuery, message)
}

fn failed() -> RequestError {
    refused("a statement of the transaction has failed while it wrote; nothing of it can be committed")
}

/// The error of a statement that would read, or change again, what the transaction has changed.
pub(super) fn is_written(table: &str) -> RequestError {
    refused(&format!(
        "the transaction has changed table {table:?}; before its COMMIT, more rows may be inserted, but none read"
    ))
}

/// The error of what is no change of rows.
pub(super) fn not_in_one(what: &str) -> RequestError {
    refused(&format!(
        "{what} is not supported in a transaction, which writes rows of one table: outside of one (autocommit) it is"
    ))
}
