//! The queries that run here, so that people see them and stop them: those of clients, by whatever door they came. What
//! other nodes have asked for is a part of a query of theirs. `server/src/peers/queries.rs` has those of all nodes.

use std::{
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use basalt_core::exec::{Control, Stop};
use basalt_proto::{
    cluster::v1 as peer,
    v1::{self as pb, ErrorReason, QueryState},
};
use prost::Message as _;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    access::{Action, Caller, Object, keys::Keys},
    limits, logged,
    plan_summary::{PlanSummary, Scanned},
    query_text::without_literals,
    reload::Reload,
    status::RequestError,
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
    plan: Mutex<PlanSummary>,
    /// Microseconds since 1970.
    started: i64,
    at: Instant,
    is_running: AtomicBool,
    rows: AtomicU64,
    stop: Stop,
    cancelled: CancellationToken,
    committing: Committing,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("number", &self.number)
            .field("text", &self.text)
            .finish_non_exhaustive()
    }
}

/// Where a statement is that may write: it may be given up, by whoever stops it or for its deadline, until it begins to commit,
/// and may not commit behind that. From the commit on what becomes of it is waited for: who is told that a statement was
/// cancelled makes it again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Committing(Arc<Mutex<Stage>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Before,
    #[cfg(feature = "sql")]
    Committing,
    GivenUp,
}

impl Committing {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It begins to commit, unless it was given up.
    #[cfg(feature = "sql")]
    pub(crate) fn begin(&self) -> Result<(), RequestError> {
        let mut stage = self.stage();
        if *stage == Stage::GivenUp {
            return Err(RequestError::new(ErrorReason::Cancelled, "the statement was given up"));
        }
        *stage = Stage::Committing;
        Ok(())
    }

    /// Nothing was committed.
    #[cfg(feature = "sql")]
    pub(crate) fn is_refused(&self) {
        let mut stage = self.stage();
        // What was given up before it began to commit stays so.
        if *stage == Stage::Committing {
            *stage = Stage::Before;
        }
    }

    /// Gives it up, unless it commits; whether it is.
    pub(crate) fn give_up(&self) -> bool {
        let mut stage = self.stage();
        if *stage == Stage::Before {
            *stage = Stage::GivenUp;
        }
        *stage == Stage::GivenUp
    }

    /// What becomes of a statement that commits, for which nobody would wait any longer but for that; `over` says why not.
    pub(crate) async fn outcome<T>(
        statement: impl Future<Output = T>,
        over: &str,
    ) -> Result<T, RequestError> {
        timeout(limits::OUTCOME_TIMEOUT, statement).await.map_err(|_| {
            let message = format!("{over}; whether what it wrote is there is not known");
            RequestError::new(ErrorReason::OutcomeUnknown, message)
        })
    }
}

/// A query that runs; it is listed until this is dropped.
#[derive(Debug)]
pub(crate) struct Listed {
    entry: Arc<Entry>,
    queries: Arc<Queries>,
}

/// Who asks about queries, and what he may do to those of others.
#[derive(Debug)]
pub(crate) struct Asker {
    who: Who,
    /// He sees them.
    sees_all: bool,
    /// He stops them.
    stops_all: bool,
}

#[derive(Debug)]
enum Who {
    /// He has asked this node.
    Here(Caller),
    /// He has asked another one, and has shown it this key, or none.
    Elsewhere(Option<String>),
}

impl Asker {
    /// Of a request to this node.
    pub(crate) fn new(caller: &Caller) -> Self {
        Self {
            sees_all: caller.allows(Action::Observe, Object::Server),
            stops_all: caller.allows(Action::Cancel, Object::Server),
            who: Who::Here(caller.clone()),
        }
    }

    /// Of a request to another node, which has found out what he may do.
    pub(crate) fn of_peer(asker: peer::Asker) -> Self {
        let peer::Asker { key, sees_all, stops_all } = asker;
        Self { who: Who::Elsewhere(key), sees_all, stops_all }
    }

    /// For another node.
    pub(crate) fn to_peer(&self) -> peer::Asker {
        let key = match &self.who {
            Who::Here(caller) => caller.key_name().map(str::to_owned),
            Who::Elsewhere(key) => key.clone(),
        };
        peer::Asker { key, sees_all: self.sees_all, stops_all: self.stops_all }
    }

    fn has_asked(&self, entry: &Entry) -> bool {
        match &self.who {
            Who::Here(caller) => entry.caller.is_same_as(caller),
            Who::Elsewhere(key) => key.is_some() && key.as_deref() == entry.caller.key_name(),
        }
    }

    fn sees(&self, entry: &Entry) -> bool {
        self.sees_all || self.has_asked(entry)
    }
}

/// As many queries, from the first on, as fit into a message.
pub(crate) fn within_message(mut queries: Vec<pb::RunningQuery>) -> Vec<pb::RunningQuery> {
    let mut bytes = 0;
    let fit = queries.iter().take_while(|query| {
        // Its own length comes before each.
        bytes += query.encoded_len() + 8;
        bytes <= limits::LISTED_BYTES
    });
    let fit = fit.count();
    queries.truncate(fit);
    queries
}

/// Which start of which node a query's id is of.
pub(crate) fn run_of(id: &str) -> Option<u64> {
    id.split_once('-').and_then(|(run, _)| u64::from_str_radix(run, 16).ok())
}

impl Queries {
    /// `run` is another number for each run of a server; what takes longer than `slow` is logged, unless that is zero.
    pub(crate) fn new(run: u64, slow: Duration) -> Arc<Self> {
        Arc::new(Self { run, next: Arc::new(AtomicU64::new(1)), slow, by_number: Mutex::default() })
    }

    /// Lists a query that has come by a method at a time, and says when it commits, where it may; `now` is the time of day, in
    /// microseconds.
    pub(crate) fn list(
        self: &Arc<Self>,
        caller: &Caller,
        method: &'static str,
        control: &Control,
        (at, now): (Instant, i64),
        committing: Committing,
    ) -> Listed {
        let trace = trace::current();
        let number = trace.as_ref().and_then(|trace| trace.take_number());
        let entry = Arc::new(Entry {
            number: number.unwrap_or_else(|| self.next.fetch_add(1, Ordering::Relaxed)),
            trace,
            caller: caller.clone(),
            method,
            text: OnceLock::new(),
            plan: Mutex::default(),
            started: now,
            at,
            is_running: AtomicBool::new(false),
            rows: AtomicU64::new(0),
            stop: control.stop().clone(),
            cancelled: CancellationToken::new(),
            committing,
        });
        self.entries().insert(entry.number, Arc::clone(&entry));
        // Its key may have gone before it was listed, when nobody stopped it.
        if !entry.caller.principal.is_known() {
            entry.end();
        }
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
    pub(crate) fn running(&self, asker: &Asker) -> Vec<pb::RunningQuery> {
        let entries: Vec<_> = self.entries().values().cloned().collect();
        let seen = entries.iter().filter(|entry| asker.sees(entry));
        within_message(seen.map(|entry| entry.shown(self.run)).collect())
    }

    /// Whether an id is of this server since it began.
    pub(crate) fn has_id(&self, id: &str) -> bool {
        run_of(id) == Some(self.run)
    }

    /// Stops one that somebody may stop: his own, or any where he is an administrator of the server.
    pub(crate) fn cancel(&self, asker: &Asker, id: &str) -> peer::CancelOutcome {
        let number = self.number(id);
        let entry = number.and_then(|number| self.entries().get(&number).cloned());
        let Some(entry) = entry.filter(|entry| asker.sees(entry)) else {
            return peer::CancelOutcome::NotFound;
        };
        let outcome = match asker.has_asked(&entry) {
            true => peer::CancelOutcome::Own,
            false if asker.stops_all => peer::CancelOutcome::OfAnother,
            false => return peer::CancelOutcome::Forbidden,
        };
        entry.end();
        outcome
    }

    /// Stops those of callers whose key is gone; how many there are.
    pub(crate) fn stop_unknown(&self) -> usize {
        let entries: Vec<_> = self.entries().values().cloned().collect();
        let unknown = entries.iter().filter(|entry| !entry.caller.principal.is_known());
        let unknown: Vec<_> = unknown.collect();
        unknown.iter().for_each(|entry| entry.end());
        unknown.len()
    }

    fn number(&self, id: &str) -> Option<u64> {
        let (_, number) = id.split_once('-')?;
        self.has_id(id).then(|| number.parse().ok()).flatten()
    }
}

impl Entry {
    /// Has it stop, unless it commits.
    fn end(&self) {
        if self.committing.give_up() {
            self.stop.kill();
        }
        self.cancelled.cancel();
    }

    /// Whether it commits what it writes.
    #[cfg(feature = "sql")]
    pub(crate) fn committing(&self) -> &Committing {
        &self.committing
    }

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

    /// It has read some rows of a table.
    pub(crate) fn scanned(&self, table: &str, scanned: Scanned) {
        self.plan().scanned(table, scanned);
    }

    /// These operators run above what it reads.
    #[cfg(feature = "sql")]
    pub(crate) fn runs_above(&self, operators: &[&str]) {
        self.plan().runs_above(operators);
    }

    /// They have written so many bytes to the disk, as memory had no room for them.
    #[cfg(feature = "sql")]
    pub(crate) fn spilled(&self, bytes: u64) {
        self.plan().spilled(bytes);
    }

    fn plan(&self) -> MutexGuard<'_, PlanSummary> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
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
            // Whoever lists those of several nodes knows it.
            node: String::new(),
        }
    }
}

/// Keys, and the queries of those who came with them: what runs for a key that is gone is stopped.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) keys: Arc<Keys>,
    pub(crate) queries: Arc<Queries>,
}

impl Reload for Watched {
    fn files(&self) -> Vec<PathBuf> {
        vec![self.keys.path().to_owned()]
    }

    fn reload(&self) -> Result<String, String> {
        let keys = self.keys.reload()?;
        Ok(match self.queries.stop_unknown() {
            0 => format!("{keys} keys"),
            stopped => format!("{keys} keys; {stopped} queries of keys that are gone were stopped"),
        })
    }
}

impl Listed {
    /// For whoever knows more of it.
    pub(crate) fn entry(&self) -> Arc<Entry> {
        Arc::clone(&self.entry)
    }

    /// Whether it commits what it writes.
    pub(crate) fn committing(&self) -> Committing {
        self.entry.committing.clone()
    }

    /// Waits until somebody has it stopped.
    pub(crate) async fn cancelled(&self) -> RequestError {
        self.entry.cancelled.cancelled().await;
        match self.entry.stop.check() {
            Err(error) => error.into(),
            // It commits, and goes on for that.
            Ok(()) => {
                RequestError::new(ErrorReason::Cancelled, "the query was cancelled by a request to do so")
            }
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.queries.entries().remove(&self.entry.number);
        let (slow, elapsed) = (self.queries.slow, self.entry.at.elapsed());
        let is_slow = !slow.is_zero() && elapsed >= slow;
        if !is_slow && !logged::queries() {
            return;
        }
        let Entry { caller, method, rows, cancelled, trace, .. } = &*self.entry;
        let _entered = Entered::new(trace.clone());
        // Default: it was not known yet.
        let text = self.entry.text.get().map_or("", |text| text);
        let text = if logged::literals() { text.to_owned() } else { without_literals(text) };
        macro_rules! tell {
            ($level:ident, $what:literal) => {
                tracing::$level!(
                    id = self.entry.id(self.queries.run),
                    method,
                    peer = %caller.principal,
                    elapsed_ms = millis(elapsed),
                    rows = rows.load(Ordering::Relaxed),
                    cancelled = cancelled.is_cancelled(),
                    text,
                    plan = self.entry.plan().text(),
                    $what
                )
            };
        }
        if is_slow { tell!(warn, "slow query") } else { tell!(info, "query") }
    }
}

#[cfg(test)]
mod tests {
    use peer::CancelOutcome;

    use super::*;
    use crate::access::{Access, issue::Issued, quota::Allowance, roles::Role};

    /// Of those that run when the keys are read again, and of those that a request lists which came before.
    #[tokio::test]
    async fn what_runs_for_a_key_that_is_gone_is_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        let issue =
            |name: &str| Issued::new(name, Role::Reader, &["*".to_owned()], Allowance::default()).unwrap();
        let (goes, stays) = (issue("goes"), issue("stays"));
        std::fs::write(&path, format!("{}{}", goes.entry, stays.entry)).unwrap();
        let keys = Arc::new(Keys::open(&path, [7; 32]).unwrap());
        let access = Access::with(Arc::clone(&keys));
        let caller = |issued: &Issued| {
            let (address, header) = ("127.0.0.1:1".parse().unwrap(), format!("Bearer {}", issued.secret));
            let principal = access.principal(address, Some(header.as_bytes())).unwrap();
            Caller { principal, access: access.clone() }
        };
        let (goes, stays, keeps) = (caller(&goes), caller(&stays), stays.entry);
        let queries = Queries::new(0xa1, Duration::ZERO);
        let [of_goes, of_stays, of_late] = [(); 3].map(|()| Control::default());
        let listed = queries.list(&goes, "Sql", &of_goes, (Instant::now(), 5), Committing::default());
        let _other = queries.list(&stays, "Sql", &of_stays, (Instant::now(), 5), Committing::default());
        let watched = Watched { keys, queries: Arc::clone(&queries) };
        assert_eq!(watched.reload().unwrap(), "2 keys");
        assert!(of_goes.check().is_ok() && goes.check_key().is_ok());

        std::fs::write(&path, keeps).unwrap();
        assert_eq!(watched.reload().unwrap(), "1 keys; 1 queries of keys that are gone were stopped");
        assert_eq!(listed.cancelled().await.reason(), "CANCELLED");
        assert!(of_stays.check().is_ok() && stays.check_key().is_ok());
        assert_eq!(goes.check_key().unwrap_err().reason(), "UNAUTHENTICATED");
        let late = queries.list(&goes, "Sql", &of_late, (Instant::now(), 5), Committing::default());
        assert_eq!(late.cancelled().await.reason(), "CANCELLED");
    }

    #[cfg(feature = "sql")]
    #[tokio::test(start_paused = true)]
    async fn what_is_given_up_does_not_commit_and_what_commits_is_waited_for() {
        let given_up = Committing::default();
        assert!(given_up.give_up() && given_up.give_up());
        given_up.is_refused();
        assert_eq!(given_up.begin().unwrap_err().reason(), "CANCELLED");
        let committing = Committing::default();
        committing.begin().unwrap();
        assert!(!committing.give_up());
        committing.is_refused();
        assert!(committing.give_up() && committing.begin().is_err());

        // Of a query that is stopped, too.
        let queries = Queries::new(0xa1, Duration::ZERO);
        let (caller, control, committing) =
            (Caller::itself(&Access::default()), Control::default(), Committing::default());
        let listed = queries.list(&caller, "Sql", &control, (Instant::now(), 5), committing.clone());
        committing.begin().unwrap();
        assert_eq!(queries.cancel(&Asker::new(&caller), "a1-1"), CancelOutcome::Own);
        assert!(control.check().is_ok());
        assert_eq!(listed.cancelled().await.reason(), "CANCELLED");
        let stop = crate::cpu::StopOnDrop::of_query(listed, &control);
        let soon = async {
            tokio::time::sleep(limits::OUTCOME_TIMEOUT / 2).await;
            7
        };
        assert_eq!(stop.until(Instant::now(), soon).await.unwrap(), 7);
        let never = std::future::pending::<()>();
        assert_eq!(stop.until(Instant::now(), never).await.unwrap_err().reason(), "OUTCOME_UNKNOWN");
    }

    #[tokio::test]
    async fn a_query_is_listed_while_it_runs_and_stops_when_it_is_to() {
        let queries = Queries::new(0xa1, Duration::ZERO);
        let (caller, control) = (Caller::itself(&Access::default()), Control::default());
        let listed = queries.list(&caller, "Sql", &control, (Instant::now(), 5), Committing::default());
        let entry = listed.entry();
        entry.says(&"é".repeat(limits::QUERY_TEXT_BYTES));
        entry.runs();
        entry.gives(7);
        let asker = Asker::new(&caller);
        let [shown] = queries.running(&asker).try_into().unwrap();
        assert_eq!((shown.id.as_str(), shown.rows, shown.state()), ("a1-1", 7, QueryState::Running));
        assert!(shown.text.len() <= limits::QUERY_TEXT_BYTES + '…'.len_utf8() && shown.text.ends_with('…'));
        for id in ["", "a1-2", "a2-1", "1", "a1-", "-1", "a1-1-1", "a1--1"] {
            assert_eq!(queries.cancel(&asker, id), CancelOutcome::NotFound, "{id:?}");
        }
        assert!(control.check().is_ok());
        assert_eq!(queries.cancel(&asker, "a1-1"), CancelOutcome::Own);
        assert_eq!(listed.cancelled().await.reason(), "CANCELLED");
        assert_eq!(queries.running(&asker)[0].state(), QueryState::Cancelling);
        drop(listed);
        assert!(queries.running(&asker).is_empty());
        assert_eq!(queries.cancel(&asker, "a1-1"), CancelOutcome::NotFound);
    }

    /// Whoever has asked another node is known by the key that he has shown there, and by nothing else.
    #[tokio::test]
    async fn whoever_asks_another_node_may_do_what_that_node_says() {
        let queries = Queries::new(0xa1, Duration::ZERO);
        let (caller, control) = (Caller::itself(&Access::default()), Control::default());
        let listed = queries.list(&caller, "Sql", &control, (Instant::now(), 5), Committing::default());
        let asker = |key: Option<&str>, sees_all, stops_all| {
            Asker::of_peer(peer::Asker { key: key.map(str::to_owned), sees_all, stops_all })
        };
        for (asker, seen, outcome) in [
            (asker(None, false, true), 0, CancelOutcome::NotFound),
            (asker(Some("a"), false, true), 0, CancelOutcome::NotFound),
            (asker(Some("a"), true, false), 1, CancelOutcome::Forbidden),
            (asker(Some("a"), true, true), 1, CancelOutcome::OfAnother),
        ] {
            assert_eq!(queries.running(&asker).len(), seen, "{asker:?}");
            assert!(control.check().is_ok(), "{asker:?}");
            assert_eq!(queries.cancel(&asker, "a1-1"), outcome, "{asker:?}");
        }
        assert_eq!(listed.cancelled().await.reason(), "CANCELLED");
    }

    #[test]
    fn a_list_is_no_larger_than_a_message() {
        let query = |text: usize| pb::RunningQuery { text: "x".repeat(text), ..Default::default() };
        let many = vec![query(limits::QUERY_TEXT_BYTES); 2 * limits::LISTED_BYTES / limits::QUERY_TEXT_BYTES];
        let fit = within_message(many.clone());
        let bytes = pb::ListQueriesResponse { queries: fit.clone(), unanswered: Vec::new() }.encoded_len();
        assert!(bytes <= limits::LISTED_BYTES && fit.len() > many.len() / 3, "{bytes} bytes, {}", fit.len());
        assert_eq!(within_message(vec![query(10); 3]).len(), 3);
    }
}
