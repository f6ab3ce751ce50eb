//! A transaction: what its statements write is kept here, reserved in the pool, and committed at once, or not at all.
//!
//! All of it goes to one table, since a commit is a version of one table; what changes tables is refused. Tables that it makes
//! nobody else finds before its commit, which makes and drops tables in one step. Each statement reads the versions that are the newest when it is planned. A table that the transaction has changed is
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
    coordinator::fresh,
    drafts::{self, Draft},
    limits,
    panics::caught_async,
    state::State,
    status::{RequestError, Result},
    tables::Gone,
    trace,
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    stage: Mutex<Stage>,
    tables: Mutex<Tables>,
}

/// The tables that it makes and drops.
#[derive(Debug, Default)]
struct Tables {
    /// Each with whether it has rows already.
    made: Vec<(Draft, bool)>,
    gone: Vec<Gone>,
}

/// What a name means in a transaction.
#[derive(Debug)]
pub(super) enum Meaning {
    /// What it means outside.
    Outside,
    /// A table that it has made, and whether that has rows.
    Made(Arc<Table>, bool),
    /// Nothing: it has dropped the table.
    Nothing,
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

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a name means.
    pub(super) fn meaning(&self, name: &str) -> Meaning {
        let tables = self.tables();
        match tables.made.iter().find(|(draft, _)| draft.table().name() == name) {
            Some((draft, has_rows)) => Meaning::Made(Arc::clone(draft.table()), *has_rows),
            None if tables.gone.iter().any(|gone| gone.name == name) => Meaning::Nothing,
            None => Meaning::Outside,
        }
    }

    /// The names of those outside as they are here.
    pub(super) fn names(&self, outside: &mut Vec<String>) {
        let tables = self.tables();
        outside.retain(|name| tables.gone.iter().all(|gone| gone.name != *name));
        outside.extend(tables.made.iter().map(|(draft, _)| draft.table().name().to_owned()));
        outside.sort_unstable();
        outside.dedup();
    }

    /// A table that gets its name with the commit, perhaps in the place of one that has it.
    pub(super) fn has_made(&self, draft: Draft, has_rows: bool, replaced: Option<Gone>) -> Result<()> {
        let written_elsewhere = self.written_elsewhere();
        let mut tables = match &replaced {
            Some(replaced) => self.forgotten(&replaced.name, None)?,
            None => self.tables(),
        };
        check_room(&tables)?;
        // Rows of two commits would not come at once.
        if has_rows && let Some(written) = &written_elsewhere {
            return Err(mixed(written));
        }
        let replaced = replaced.filter(|new| tables.gone.iter().all(|gone| gone.name != new.name));
        tables.gone.extend(replaced);
        tables.made.push((draft, has_rows));
        Ok(())
    }

    /// A table goes with the commit; or at once, where the transaction has made it.
    pub(super) fn has_dropped(&self, name: &str, outside: Option<Gone>) -> Result<()> {
        let mut tables = self.forgotten(name, outside.as_ref().and_then(|gone| gone.id))?;
        check_room(&tables)?;
        let outside = outside.filter(|_| tables.gone.iter().all(|gone| gone.name != name));
        tables.gone.extend(outside);
        Ok(())
    }

    /// Its tables without the one of a name that it has made; what it has written to that one, or to the one outside, goes.
    fn forgotten(&self, name: &str, outside: Option<u64>) -> Result<MutexGuard<'_, Tables>> {
        let mut stage = self.stage();
        let written = match &*stage {
            Stage::Empty | Stage::Failed => None,
            Stage::Written(buffer) => Some((buffer.table().id(), buffer.table().name().to_owned())),
            Stage::Writing(_) => return Err(refused("a statement of the transaction is still writing")),
        };
        let mut tables = self.tables();
        let made = tables.made.iter().find(|(draft, _)| draft.table().name() == name);
        let id = made.map(|(draft, _)| draft.table().id()).or(outside);
        if let Some((of, written)) = &written {
            if Some(*of) == id {
                *stage = Stage::Empty;
            } else if tables.made.iter().all(|(draft, _)| draft.table().id() != *of) {
                return Err(mixed(written));
            }
        }
        tables.made.retain(|(draft, _)| draft.table().name() != name);
        Ok(tables)
    }

    /// The table that it has written to, where it has not made that itself.
    fn written_elsewhere(&self) -> Option<String> {
        let Stage::Written(buffer) = &*self.stage() else { return None };
        let (id, name) = (buffer.table().id(), buffer.table().name().to_owned());
        self.tables().made.iter().all(|(draft, _)| draft.table().id() != id).then_some(name)
    }

    /// Whether it may write to a table: where it drops tables, or has made some with rows, to those alone that it has made.
    fn check_target(&self, table: &Table) -> Result<()> {
        let tables = self.tables();
        let is_made = tables.made.iter().any(|(draft, _)| draft.table().id() == table.id());
        let has_rows = tables.made.iter().any(|(_, has_rows)| *has_rows);
        match is_made || (tables.gone.is_empty() && !has_rows) {
            true => Ok(()),
            false => Err(mixed(table.name())),
        }
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
        self.check_target(table)?;
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
        let Tables { made, gone } = std::mem::take(&mut *self.tables());
        let written = match &*self.stage() {
            Stage::Written(buffer) => Some(buffer.table().id()),
            _ => None,
        };
        let drafts: Vec<_> = made.into_iter().map(|(draft, _)| draft).collect();
        let is_to_draft = written.is_none_or(|id| drafts.iter().any(|draft| draft.table().id() == id));
        if is_to_draft {
            // Nobody sees the rows before their table has its name.
            let committed = self.commit_rows(state).await;
            return match committed {
                Ok(()) => drafts::publish(state, drafts, gone).await,
                Err(error) => {
                    discard(drafts).await;
                    Err(error)
                }
            };
        }
        let tables: Vec<_> = drafts.iter().map(|draft| Arc::clone(draft.table())).collect();
        drafts::publish(state, drafts, gone).await?;
        let committed = self.commit_rows(state).await;
        // Of rows that may be there the tables stay as well.
        if committed.as_ref().is_err_and(|error| error.reason() != "OUTCOME_UNKNOWN") {
            for table in tables {
                take_back(state, &table).await;
            }
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

    /// Forgets what it holds. That goes on when nobody waits for it.
    pub(crate) async fn roll_back(&self) {
        drop(std::mem::take(&mut *self.stage()));
        let tables = std::mem::take(&mut *self.tables());
        discard(tables.made.into_iter().map(|(draft, _)| draft).collect()).await;
    }
}

async fn discard(drafts: Vec<Draft>) {
    for draft in drafts {
        draft.discard().await;
    }
}

/// Drops a table that came with rows of another one which did not, unless others have written to it, or have put another in
/// its place.
async fn take_back(state: &State, made: &Table) {
    let removed = async {
        fresh::newest(state, made.name(), None).await?;
        let (table, version) = state.tables.pin(made.name(), None)?;
        if table.id() == made.id() && version.rows() == 0 {
            state.tables.remove(made.name()).await?;
        }
        Ok::<_, RequestError>(())
    };
    if let Some(error) = removed.await.err().filter(|error| error.reason() != "TABLE_NOT_FOUND") {
        let table = made.name();
        tracing::warn!(table, error = error.message(), "cannot drop a table of a transaction that failed");
    }
}

fn check_room(tables: &Tables) -> Result<()> {
    match tables.made.len() + tables.gone.len() >= limits::TRANSACTION_TABLES {
        true => {
            let message =
                format!("a transaction makes and drops {} tables, no more", limits::TRANSACTION_TABLES);
            Err(refused(&message))
        }
        false => Ok(()),
    }
}

/// The error of a transaction that drops tables, and writes to one that stays.
fn mixed(table: &str) -> RequestError {
    refused(&format!(
        "a transaction that drops or replaces tables, or makes some of queries, writes to those alone that it makes, not to \
         {table:?}; COMMIT in between"
    ))
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
        "{what} is not supported in a transaction, which writes rows, and makes and drops tables: outside of one (autocommit) it is"
    ))
}
