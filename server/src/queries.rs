//! The queries that run here, so that people see them and stop them: those of clients, by whatever door they came. What
//! other nodes have asked for is a part of a query of theirs.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use basalt_core::exec::{Control, Stop};
use basalt_proto::v1::{self as pb, ErrorReason, QueryState};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    access::{Action, Caller, Object},
    limits,
    query_text::without_literals,
    status::{RequestError, Result},
    trace::{self, Entered, Trace},
    units::millis,
};

/// See the module.
#[derive(Debug)]
pub(crate) struct Queries {
    /// The first part of all ids, which those of another server, or of this one before, do not have.
    run: u64,
    /// That of the next query or request: one that is made here has one id as both.
    next: Arc<AtomicU64>,
    /// What takes longer is logged; zero: nothing is.
    slow: Duration,
    /// With its literals.
    literals: bool,
    by_number: Mutex<BTreeMap<u64, Arc<Entry>>>,
}

/// What is known of one.
pub(crate) struct Entry {
    number: u64,
    /// The request that asks for it.
    trace: Option<Arc<Trace>>,
    caller: Caller,
    /// The method that it came by.
    method: &'static str,
    text: OnceLock<Box<str>>,
    /// Microseconds since 1970.
    started: i64,
    at: Instant,
    is_running: AtomicBool,
    rows: AtomicU64,
    stop: Stop,
    cancelled: CancellationToken,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("number", &self.number)
            .field("text", &self.text)
            .finish_non_exhaustive()
    }
}

/// A query that runs; it is listed until this is dropped.
#[derive(Debug)]
pub(crate) struct Listed {
    entry: Arc<Entry>,
    queries: Arc<Queries>,
}

impl Queries {
    /// `run` is another number for each run of a server; what takes longer than `slow` is logged, unless that is zero.
    pub(crate) fn new(run: u64, slow: Duration, literals: bool) -> Arc<Self> {
        Arc::new(Self { run, next: Arc::new(AtomicU64::new(1)), slow, literals, by_number: Mutex::default() })
    }

    /// Lists a query that has come by a method at a time; `now` is the time of day, in microseconds.
    pub(crate) fn list(
        self: &Arc<Self>,
        caller: &Caller,
        method: &'static str,
        control: &Control,
        (at, now): (Instant, i64),
    ) -> Listed {
        let trace = trace::current();
        let number = trace.as_ref().and_then(|trace| trace.take_number());
        let entry = Arc::new(Entry {
            number: number.unwrap_or_else(|| self.next.fetch_add(1, Ordering::Relaxed)),
            trace,
            caller: caller.clone(),
            method,
            text: OnceLock::new(),
            started: now,
            at,
            is_running: AtomicBool::new(false),
            rows: AtomicU64::new(0),
            stop: control.stop().clone(),
            cancelled: CancellationToken::new(),
        });
        self.entries().insert(entry.number, Arc::clone(&entry));
        Listed { entry, queries: Arc::clone(self) }
    }

    /// What ids of requests are made of.
    pub(crate) fn numbers(&self) -> (u64, Arc<AtomicU64>) {
        (self.run, Arc::clone(&self.next))
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Entry>>> {
        self.by_number.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that somebody may see, the oldest first: his own, or all where he may observe the server.
    pub(crate) fn running(&self, caller: &Caller) -> Vec<pb::RunningQuery> {
        let all = caller.allows(Action::Observe, Object::Server);
        let entries: Vec<_> = self.entries().values().cloned().collect();
        let seen = entries.iter().filter(|entry| all || entry.caller.is_same_as(caller));
        seen.map(|entry| entry.shown(self.run)).collect()
    }

    /// Stops one that somebody may stop: his own, or any where he is an administrator of the server.
    ///
    /// # Errors
    /// There is none of this id, as far as he may know.
    pub(crate) fn cancel(&self, caller: &Caller, id: &str) -> Result<()> {
        let number = self.number(id);
        let entry = number.and_then(|number| self.entries().get(&number).cloned());
        let is_own = |entry: &Arc<Entry>| entry.caller.is_same_as(caller);
        let is_seen = |entry: &Arc<Entry>| is_own(entry) || caller.allows(Action::Observe, Object::Server);
        let Some(entry) = entry.filter(is_seen) else {
            let message = format!("no query {id:?} runs here");
            return Err(RequestError::new(ErrorReason::QueryNotFound, message));
        };
        if !is_own(&entry) {
            caller.authorise(Action::Cancel, Object::Server)?;
        }
        entry.stop.kill();
        entry.cancelled.cancel();
        Ok(())
    }

    fn number(&self, id: &str) -> Option<u64> {
        let (run, number) = id.split_once('-')?;
        (u64::from_str_radix(run, 16) == Ok(self.run)).then(|| number.parse().ok()).flatten()
    }
}

impl Entry {
    /// What it asks for, of which the beginning is shown.
    pub(crate) fn says(&self, text: &str) {
        let end = text.floor_char_boundary(limits::QUERY_TEXT_BYTES);
        let shown = if end < text.len() { format!("{}…", &text[..end]) } else { text.to_owned() };
        if let Some(trace) = &self.trace {
            trace.span().text("db.query.text", || without_literals(&shown));
        }
        // It was said before, and is the same.
        let _ = self.text.set(shown.into());
    }

    /// It is planned.
    pub(crate) fn runs(&self) {
        self.is_running.store(true, Ordering::Relaxed);
    }

    /// So many more rows of its answer are there.
    pub(crate) fn gives(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    fn id(&self, run: u64) -> String {
        format!("{run:x}-{}", self.number)
    }

    fn shown(&self, run: u64) -> pb::RunningQuery {
        let state = match self.is_running.load(Ordering::Relaxed) {
            _ if self.cancelled.is_cancelled() => QueryState::Cancelling,
            true => QueryState::Running,
            false => QueryState::Planning,
        };
        pb::RunningQuery {
            id: self.id(run),
            // Default: it is not known yet.
            text: self.text.get().map(|text| text.to_string()).unwrap_or_default(),
            method: self.method.to_owned(),
            caller: self.caller.principal.to_string(),
            started_us: self.started,
            elapsed_ms: millis(self.at.elapsed()),
            state: state.into(),
            rows: self.rows.load(Ordering::Relaxed),
        }
    }
}

impl Listed {
    /// For whoever knows more of it.
    pub(crate) fn entry(&self) -> Arc<Entry> {
        Arc::clone(&self.entry)
    }

    /// Waits until somebody has it stopped.
    pub(crate) async fn cancelled(&self) -> RequestError {
        self.entry.cancelled.cancelled().await;
        match self.entry.stop.check() {
            Err(error) => error.into(),
            Ok(()) => RequestError::internal(),
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.queries.entries().remove(&self.entry.number);
        let (slow, elapsed) = (self.queries.slow, self.entry.at.elapsed());
        if slow.is_zero() || elapsed < slow {
            return;
        }
        let Entry { caller, method, rows, cancelled, trace, .. } = &*self.entry;
        let _entered = Entered::new(trace.clone());
        // Default: it was not known yet.
        let text = self.entry.text.get().map_or("", |text| text);
        let text = if self.queries.literals { text.to_owned() } else { without_literals(text) };
        tracing::warn!(
            id = self.entry.id(self.queries.run),
            method,
            peer = %caller.principal,
            elapsed_ms = millis(elapsed),
            rows = rows.load(Ordering::Relaxed),
            cancelled = cancelled.is_cancelled(),
            text,
            "slow query"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;

    #[tokio::test]
    async fn a_query_is_listed_while_it_runs_and_stops_when_it_is_to() {
        let queries = Queries::new(0xa1, Duration::ZERO, false);
        let (caller, control) = (Caller::itself(&Access::default()), Control::default());
        let listed = queries.list(&caller, "Sql", &control, (Instant::now(), 5));
        let entry = listed.entry();
        entry.says(&"é".repeat(limits::QUERY_TEXT_BYTES));
        entry.runs();
        entry.gives(7);
        let [shown] = queries.running(&caller).try_into().unwrap();
        assert_eq!((shown.id.as_str(), shown.rows, shown.state()), ("a1-1", 7, QueryState::Running));
        assert!(shown.text.len() <= limits::QUERY_TEXT_BYTES + '…'.len_utf8() && shown.text.ends_with('…'));
        for id in ["", "a1-2", "a2-1", "1", "a1-", "-1", "a1-1-1", "a1--1"] {
            assert_eq!(queries.cancel(&caller, id).unwrap_err().reason(), "QUERY_NOT_FOUND", "{id:?}");
        }
        assert!(control.check().is_ok());
        queries.cancel(&caller, "a1-1").unwrap();
        assert_eq!(listed.cancelled().await.reason(), "CANCELLED");
        assert_eq!(queries.running(&caller)[0].state(), QueryState::Cancelling);
        drop(listed);
        assert!(queries.running(&caller).is_empty());
        assert!(queries.cancel(&caller, "a1-1").is_err());
    }
}
