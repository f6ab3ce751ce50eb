//! Prepared statements: few for a connection, gone with it, and for a while after they were used last.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use basalt_core::query::Literal;
use basalt_proto::v1::ErrorReason;
use prost::bytes::Bytes;
use tokio::time::Instant;

use crate::{
    connection::Connection,
    limits,
    memory::{Consumer, MemoryPool, Reservation},
    state::State,
    status::{RequestError, Result},
};

/// Those of one connection.
#[derive(Debug)]
pub(super) struct Prepared {
    connection: u64,
    memory: Arc<MemoryPool>,
    statements: Mutex<Statements>,
}

#[derive(Debug, Default)]
struct Statements {
    last: u64,
    open: BTreeMap<u64, Open>,
}

#[derive(Debug)]
struct Open {
    statement: Statement,
    used: Instant,
    held: Reservation,
}

/// A prepared statement.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) sql: Arc<str>,
    pub(super) bound: Bound,
}

/// The parameters of a prepared statement.
#[derive(Clone, Debug, Default)]
pub(super) struct Bound {
    /// A row of parameters for each time that it is to run.
    pub(super) rows: Arc<[Vec<Literal>]>,
    /// Parameters were bound, of however many rows; otherwise it runs once.
    pub(super) by_rows: bool,
}

impl Statement {
    fn bytes(&self) -> u64 {
        limits::PREPARED_BYTES + self.sql.len() as u64 + literal_bytes(&self.bound.rows)
    }
}

/// What rows of parameters take.
pub(super) fn literal_bytes(rows: &[Vec<Literal>]) -> u64 {
    let of = |literal: &Literal| {
        let text = if let Literal::Text(text) = literal { text.len() as u64 } else { 0 };
        limits::PARAMETER_BYTES + text
    };
    let values: u64 = rows.iter().flatten().map(of).sum();
    values + rows.len() as u64 * limits::PARAMETER_BYTES
}

impl Prepared {
    pub(super) fn new(state: &State, connection: &Connection) -> Self {
        Self { connection: connection.id(), memory: Arc::clone(&state.memory), statements: Mutex::default() }
    }

    fn statements(&self) -> MutexGuard<'_, Statements> {
        let mut statements = self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        statements.open.retain(|_, open| now.saturating_duration_since(open.used) < limits::PREPARED_AGE);
        statements
    }

    /// Keeps a statement; the answer is its handle.
    pub(super) fn add(&self, sql: &str) -> Result<Bytes> {
        let statement = Statement { sql: sql.into(), bound: Bound::default() };
        let mut held = self.memory.reserve(Consumer::Requests);
        held.set(statement.bytes())?;
        let mut statements = self.statements();
        if statements.open.len() >= limits::PREPARED_STATEMENTS {
            let most = limits::PREPARED_STATEMENTS;
            let message = format!("{most} statements are prepared on this connection; close some");
            return Err(RequestError::new(ErrorReason::Overloaded, message));
        }
        statements.last += 1;
        let id = statements.last;
        statements.open.insert(id, Open { statement, used: Instant::now(), held });
        Ok(Bytes::from(format!("{}.{id}", self.connection)))
    }

    /// The statement of a handle.
    pub(super) fn get(&self, handle: &[u8]) -> Result<Statement> {
        let id = self.id(handle)?;
        let mut statements = self.statements();
        let open = statements.open.get_mut(&id).ok_or_else(unknown)?;
        open.used = Instant::now();
        Ok(open.statement.clone())
    }

    /// Binds parameters to a statement, in the place of others. What has columns and no rows is bound as well, `by_rows`.
    pub(super) fn bind(&self, handle: &[u8], bound: Bound) -> Result<()> {
        let id = self.id(handle)?;
        let mut statements = self.statements();
        let open = statements.open.get_mut(&id).ok_or_else(unknown)?;
        let statement = Statement { sql: Arc::clone(&open.statement.sql), bound };
        open.held.set(statement.bytes())?;
        open.statement = statement;
        open.used = Instant::now();
        Ok(())
    }

    /// The statement with parameters for one run, and the memory that they take; what is bound to it stays.
    pub(super) fn run_with(&self, handle: &[u8], bound: Bound) -> Result<(Statement, Reservation)> {
        let mut held = self.memory.reserve(Consumer::Requests);
        held.set(literal_bytes(&bound.rows))?;
        Ok((Statement { bound, ..self.get(handle)? }, held))
    }

    /// Forgets a statement, if it is there.
    pub(super) fn close(&self, handle: &[u8]) {
        if let Ok(id) = self.id(handle) {
            self.statements().open.remove(&id);
        }
    }

    /// The number in a handle of this connection.
    fn id(&self, handle: &[u8]) -> Result<u64> {
        let text = std::str::from_utf8(handle).ok().and_then(|text| text.split_once('.'));
        let (connection, id) = text.ok_or_else(unknown)?;
        match (connection.parse::<u64>(), id.parse::<u64>()) {
            (Ok(connection), Ok(id)) if connection == self.connection => Ok(id),
            _ => Err(unknown()),
        }
    }
}

fn unknown() -> RequestError {
    let minutes = limits::PREPARED_AGE.as_secs() / 60;
    let message = format!(
        "no such prepared statement on this connection: it was closed, or not used for {minutes} minutes"
    );
    RequestError::new(ErrorReason::InvalidQuery, message).at("prepared_statement_handle")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(memory: u64) -> Prepared {
        let memory = Arc::new(MemoryPool::new(memory));
        Prepared { connection: 7, memory, statements: Mutex::default() }
    }

    fn bound(rows: Vec<Vec<Literal>>) -> Bound {
        Bound { rows: rows.into(), by_rows: true }
    }

    #[test]
    fn handles_are_those_of_the_connection() {
        let prepared = prepared(64 << 20);
        let handle = prepared.add("SELECT $1").unwrap();
        prepared.bind(&handle, bound(vec![vec![Literal::Int(1)]])).unwrap();
        let statement = prepared.get(&handle).unwrap();
        assert_eq!((&*statement.sql, statement.bound.rows.len()), ("SELECT $1", 1));
        for made_up in ["", ".", "7.", "7.2", "8.1", "7.-1", "7.1.1", "seven.one", "\u{0}"] {
            let error = prepared.get(made_up.as_bytes()).unwrap_err();
            assert_eq!(error.reason(), "INVALID_QUERY", "{made_up:?}");
        }
        assert!(prepared.get(&[0xff, b'.', b'1']).is_err());
        prepared.close(&handle);
        prepared.close(&handle);
        assert!(prepared.get(&handle).is_err());
        assert_eq!(prepared.memory.used(Consumer::Requests), 0);
    }

    #[test]
    fn what_comes_with_a_run_is_for_that_run() {
        let prepared = prepared(64 << 20);
        let handle = prepared.add("INSERT INTO t VALUES ($1)").unwrap();
        let rows = |key: i64| vec![vec![Literal::Int(key)]];
        prepared.bind(&handle, bound(rows(1))).unwrap();
        let before = prepared.memory.used(Consumer::Requests);
        let (first, first_held) = prepared.run_with(&handle, bound(rows(2))).unwrap();
        let (second, second_held) = prepared.run_with(&handle, bound(rows(3))).unwrap();
        assert_eq!((&*first.bound.rows, &*second.bound.rows), (&*rows(2), &*rows(3)));
        assert!(prepared.memory.used(Consumer::Requests) > before);
        drop((first_held, second_held));
        assert_eq!(prepared.memory.used(Consumer::Requests), before);
        assert_eq!(&*prepared.get(&handle).unwrap().bound.rows, &*rows(1));
    }

    #[test]
    fn there_are_few_of_them_and_they_are_counted() {
        let prepared = prepared(64 << 20);
        let handles: Vec<_> =
            (0..limits::PREPARED_STATEMENTS).map(|_| prepared.add("SELECT 1").unwrap()).collect();
        assert_eq!(prepared.add("SELECT 1").unwrap_err().reason(), "OVERLOADED");
        let before = prepared.memory.used(Consumer::Requests);
        assert!(before >= limits::PREPARED_STATEMENTS as u64 * limits::PREPARED_BYTES, "{before}");
        let long = || vec![vec![Literal::Text("x".repeat(1 << 20))]];
        prepared.bind(&handles[0], bound(long())).unwrap();
        assert!(prepared.memory.used(Consumer::Requests) > before + (1 << 20));
        let many = (0..100).flat_map(|_| long()).collect();
        assert_eq!(prepared.bind(&handles[0], bound(many)).unwrap_err().reason(), "MEMORY_LIMIT");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_used_is_forgotten() {
        let prepared = prepared(64 << 20);
        let (old, used) = (prepared.add("SELECT 1").unwrap(), prepared.add("SELECT 2").unwrap());
        tokio::time::advance(limits::PREPARED_AGE / 2).await;
        prepared.get(&used).unwrap();
        tokio::time::advance(limits::PREPARED_AGE / 2).await;
        prepared.get(&used).unwrap();
        assert_eq!(prepared.get(&old).unwrap_err().reason(), "INVALID_QUERY");
    }
}
