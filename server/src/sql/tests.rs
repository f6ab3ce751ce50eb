//! Transactions, and who is asked for what statements do.

use std::sync::{Arc, Mutex};

use arrow_array::{cast::AsArray as _, types::Int64Type};
use bytes::Bytes;
use tokio::time::{Duration, Instant};

use super::{Copying, RowStream, Sender, Statement, Transaction};
use crate::{
    Config,
    access::{
        Access, Action, Caller, Object, Policy, Principal, issue::Issued, keys::Keys, quota::Allowance,
        roles::Role,
    },
    class::Class,
    connection::Connection,
    limits,
    queries::Asker,
    queries::Committing,
    state::State,
    status::Result,
};

fn state(store: &str, access: Option<Access>) -> Arc<State> {
    let config = Config { threads: 2, store: store.to_owned(), ..Config::default() };
    let mut state = State::new(crate::environment::process(), &config, None).unwrap();
    state.access = access.unwrap_or_default();
    Arc::new(state)
}

async fn started(store: &str) -> Arc<State> {
    let state = state(store, None);
    state.load().await.unwrap();
    state
}

fn statement<'a>(sql: &str, caller: &'a Caller, connection: &'a Arc<Connection>) -> Statement<'a> {
    Statement {
        sql: sql.to_owned(),
        parameters: Vec::new(),
        caller,
        method: "Sql",
        connection,
        deadline: Instant::now() + Duration::from_secs(60),
        running: None,
    }
}

/// The number that a statement answers, in a transaction or by itself.
async fn run(state: &Arc<State>, sql: &str, transaction: Option<&Arc<Transaction>>) -> Result<i64> {
    let address = "127.0.0.1:1".parse().unwrap();
    let caller = Caller { principal: Principal::Anonymous(address), access: state.access.clone() };
    let connection = Connection::new();
    let statement = statement(sql, &caller, &connection);
    let running =
        statement.begin_copying(state, transaction.cloned(), Copying::Not, Committing::default()).await?;
    let mut rows = running.rows(state);
    let mut number = 0;
    while let Some(batch) = rows.next().await? {
        number = batch.column(0).as_primitive::<Int64Type>().value(0);
    }
    Ok(number)
}

/// By itself.
async fn alone(state: &Arc<State>, sql: &str) -> i64 {
    run(state, sql, None).await.unwrap_or_else(|error| panic!("{sql}: {}", error.message()))
}

async fn within(state: &Arc<State>, transaction: &Arc<Transaction>, sql: &str) -> i64 {
    run(state, sql, Some(transaction)).await.unwrap_or_else(|error| panic!("{sql}: {}", error.message()))
}

async fn refused(state: &Arc<State>, transaction: &Arc<Transaction>, sql: &str, words: &str) {
    let error = run(state, sql, Some(transaction)).await.unwrap_err();
    assert!(error.message().contains(words), "{sql}: {}", error.message());
}

/// The sum of the rows, and the version.
async fn seen(state: &Arc<State>) -> (i64, u64) {
    let sum = alone(state, "SELECT coalesce(sum(n), 0) FROM t").await;
    (sum, state.tables.pin("t", None).unwrap().1.number())
}

/// Nothing is left of tables that got no name. They go in the background, and what has just worked on one may hold it for a
/// moment more.
async fn no_drafts(state: &State) {
    for _ in 0..200 {
        if state.catalog.drafts().is_empty() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("{} tables without a name are left", state.catalog.drafts().len());
}

async fn transactions(state: &Arc<State>) {
    alone(state, "CREATE TABLE t (k BIGINT NOT NULL, n BIGINT)").await;
    alone(state, "CREATE TABLE u (n BIGINT)").await;
    alone(state, "INSERT INTO t VALUES (1, 10), (2, 20)").await;
    let (_, version) = seen(state).await;

    // Several statements are one version, which nobody sees before it is there.
    let transaction = Arc::<Transaction>::default();
    assert_eq!(within(state, &transaction, "SELECT sum(n) FROM t").await, 30);
    assert_eq!(within(state, &transaction, "UPDATE t SET n = n + 1").await, 2);
    assert_eq!(within(state, &transaction, "INSERT INTO t VALUES (3, 100)").await, 1);
    assert_eq!(within(state, &transaction, "INSERT INTO t SELECT 4, 200").await, 1);
    assert_eq!(seen(state).await, (30, version));
    // What it has changed it does not read, and what is not rows of that table it does not write.
    refused(state, &transaction, "SELECT sum(n) FROM t", "has changed table").await;
    refused(state, &transaction, "SELECT count(*) FROM t", "has changed table").await;
    refused(state, &transaction, "DELETE FROM t WHERE k = 3", "has changed table").await;
    refused(state, &transaction, "INSERT INTO u VALUES (1)", "writes to one table").await;
    refused(state, &transaction, "DROP TABLE u", "writes to those alone that it makes").await;
    refused(state, &transaction, "CREATE OR REPLACE TABLE u (m BIGINT)", "writes to those alone").await;
    refused(state, &transaction, "ALTER TABLE u ADD COLUMN m BIGINT", "not supported in a transaction").await;
    refused(state, &transaction, "CREATE VIEW v AS SELECT 1 AS one", "not supported in a transaction").await;
    assert_eq!(within(state, &transaction, "SELECT count(*) FROM u").await, 0);
    transaction.commit(state).await.unwrap();
    assert_eq!(seen(state).await, (332, version + 1));
    // It is empty then.
    transaction.commit(state).await.unwrap();
    assert_eq!(seen(state).await, (332, version + 1));

    // Nothing is left of what is rolled back, or dropped.
    assert_eq!(within(state, &transaction, "DELETE FROM t WHERE k > 1").await, 3);
    transaction.roll_back().await;
    transaction.commit(state).await.unwrap();
    let dropped = Arc::<Transaction>::default();
    assert_eq!(within(state, &dropped, "TRUNCATE t").await, 4);
    drop(dropped);
    assert_eq!(seen(state).await, (332, version + 1));
    assert_eq!(state.writes.places(), 0);

    // A table that it makes is found by nobody else before its commit.
    for commits in [true, false] {
        within(state, &transaction, "CREATE TABLE made (n BIGINT)").await;
        assert_eq!(within(state, &transaction, "SELECT count(*) FROM made JOIN u ON made.n = u.n").await, 0);
        refused(state, &transaction, "CREATE TABLE made (m BIGINT)", "exists").await;
        within(state, &transaction, "CREATE TABLE IF NOT EXISTS made (m BIGINT)").await;
        within(state, &transaction, "INSERT INTO made VALUES (1)").await;
        within(state, &transaction, "INSERT INTO made SELECT 2").await;
        refused(state, &transaction, "SELECT count(*) FROM made", "has changed table").await;
        within(state, &transaction, "CREATE TABLE too AS SELECT value AS n FROM generate_series(1, 5)").await;
        refused(state, &transaction, "SELECT count(*) FROM too", "has changed table").await;
        let error = run(state, "SELECT count(*) FROM made", None).await.unwrap_err();
        assert_eq!(error.reason(), "TABLE_NOT_FOUND");
        assert!(state.catalog.list().iter().all(|table| !["made", "too"].contains(&table.name())));
        match commits {
            true => transaction.commit(state).await.unwrap(),
            false => transaction.roll_back().await,
        }
        assert_eq!(state.catalog.get("made").is_ok(), commits);
        if commits {
            assert_eq!(alone(state, "SELECT sum(n) FROM made").await, 3);
            assert_eq!(alone(state, "SELECT sum(n) FROM too").await, 15);
            alone(state, "DROP TABLE made").await;
            alone(state, "DROP TABLE too").await;
        }
        no_drafts(state).await;
    }
    // Somebody else takes the name first: nothing of the transaction is there.
    within(state, &transaction, "CREATE TABLE made AS SELECT 1 AS n").await;
    within(state, &transaction, "CREATE TABLE too (n BIGINT)").await;
    alone(state, "CREATE TABLE made AS SELECT 7 AS n").await;
    assert_eq!(transaction.commit(state).await.unwrap_err().reason(), "TABLE_EXISTS");
    assert_eq!(alone(state, "SELECT sum(n) FROM made").await, 7);
    assert!(run(state, "SELECT count(*) FROM too", None).await.is_err());

    // Rows of two commits would not come at once.
    within(state, &transaction, "CREATE TABLE two AS SELECT 1 AS n").await;
    refused(state, &transaction, "DELETE FROM t WHERE k = 1", "writes to those alone that it makes").await;
    refused(state, &transaction, "SELECT n FROM two FOR VERSION AS OF 999", "has no older version").await;
    transaction.roll_back().await;
    within(state, &transaction, "DELETE FROM t WHERE k = 1").await;
    refused(state, &transaction, "CREATE TABLE two AS SELECT 1 AS n", "writes to those alone").await;
    transaction.roll_back().await;
    assert!(state.catalog.get("two").is_err());
    no_drafts(state).await;

    alone(state, "CREATE TABLE fives AS FROM generate_series(1, 20) t (x) WHERE x % 5 = 0").await;
    assert_eq!(alone(state, "SELECT sum(x) FROM fives").await, 50);
    alone(state, "DROP TABLE fives").await;

    // What is dropped at a version is not dropped with rows that have come since, and is written to then.
    let at = seen(state).await.1;
    alone(state, "INSERT INTO t VALUES (6, 6)").await;
    assert_eq!(state.tables.remove_at("t", Some(at)).await.unwrap_err().reason(), "WRITE_CONFLICT");
    alone(state, "DELETE FROM t WHERE k = 6").await;
    alone(state, "CREATE TABLE two (n BIGINT)").await;
    let empty = state.tables.pin("two", None).unwrap().1.number();
    state.tables.remove_at("two", Some(empty)).await.unwrap();
    assert!(state.catalog.get("two").is_err());

    // What it drops is there until its commit, which puts another in its place in one step.
    within(state, &transaction, "DROP TABLE made").await;
    refused(state, &transaction, "SELECT count(*) FROM made", "no table").await;
    refused(state, &transaction, "DROP TABLE made", "no table").await;
    within(state, &transaction, "DROP TABLE IF EXISTS made").await;
    refused(state, &transaction, "INSERT INTO t VALUES (5, 5)", "writes to those alone that it makes").await;
    within(state, &transaction, "CREATE TABLE made (n BIGINT, m BIGINT)").await;
    within(state, &transaction, "INSERT INTO made VALUES (3, 4), (5, 6)").await;
    assert_eq!(alone(state, "SELECT sum(n) FROM made").await, 7);
    transaction.roll_back().await;
    assert_eq!(alone(state, "SELECT sum(n) FROM made").await, 7);
    let (was, before) =
        (state.catalog.get("made").unwrap().id(), state.tables.pin("made", None).unwrap().1.number());
    within(state, &transaction, "DROP TABLE made").await;
    within(state, &transaction, "CREATE TABLE made (n BIGINT, m BIGINT)").await;
    within(state, &transaction, "INSERT INTO made VALUES (3, 4), (5, 6)").await;
    transaction.commit(state).await.unwrap();
    assert_eq!(alone(state, "SELECT sum(n + m) FROM made").await, 18);
    let now = state.catalog.get("made").unwrap();
    assert_ne!(now.id(), was);
    if !state.tables.is_durable() {
        assert!(now.snapshot().version() > before, "a name and a version never stand for two sets of rows");
    }
    // Another table of that name is not the one that it has dropped.
    within(state, &transaction, "DROP TABLE made").await;
    alone(state, "CREATE OR REPLACE TABLE made AS SELECT 9 AS n").await;
    assert_eq!(transaction.commit(state).await.unwrap_err().reason(), "TABLE_NOT_FOUND");
    assert_eq!(alone(state, "SELECT sum(n) FROM made").await, 9);
    // What it has made and dropped again leaves nothing.
    within(state, &transaction, "CREATE TABLE passing AS SELECT 1 AS n").await;
    within(state, &transaction, "DROP TABLE passing").await;
    within(state, &transaction, "DROP TABLE made").await;
    transaction.commit(state).await.unwrap();
    assert!(state.catalog.get("made").is_err() && state.catalog.get("passing").is_err());

    // A table takes the place of another, of whose rows it is made, when it is complete.
    alone(state, "CREATE OR REPLACE TABLE made AS SELECT value AS n FROM generate_series(1, 10)").await;
    alone(state, "CREATE OR REPLACE TABLE made AS SELECT n * 2 AS n FROM made WHERE n > 5").await;
    assert_eq!(alone(state, "SELECT sum(n) FROM made").await, 80);
    let late =
        "CREATE OR REPLACE TABLE made AS SELECT 1 / (20000 - value) AS n FROM generate_series(1, 30000)";
    assert_eq!(run(state, late, None).await.unwrap_err().reason(), "DIVISION_BY_ZERO");
    assert_eq!(alone(state, "SELECT sum(n) FROM made").await, 80);
    alone(state, "CREATE OR REPLACE TABLE made (m BIGINT)").await;
    assert_eq!(alone(state, "SELECT count(m) FROM made").await, 0);
    within(state, &transaction, "CREATE OR REPLACE TABLE made AS SELECT 1 AS n").await;
    within(state, &transaction, "CREATE OR REPLACE TABLE made (k BIGINT)").await;
    within(state, &transaction, "INSERT INTO made VALUES (4)").await;
    within(state, &transaction, "CREATE OR REPLACE TABLE made AS SELECT 5 AS k").await;
    assert_eq!(alone(state, "SELECT count(m) FROM made").await, 0);
    transaction.commit(state).await.unwrap();
    assert_eq!(alone(state, "SELECT sum(k) FROM made").await, 5);
    alone(state, "DROP TABLE made").await;
    no_drafts(state).await;

    // Another write to the same rows comes first.
    assert_eq!(within(state, &transaction, "DELETE FROM t WHERE k = 1").await, 1);
    assert_eq!(alone(state, "UPDATE t SET n = 0 WHERE k = 1").await, 1);
    let error = transaction.commit(state).await.unwrap_err();
    assert_eq!(error.reason(), "WRITE_CONFLICT");
    assert_eq!(seen(state).await.0, 321);

    // A statement that fails while it writes leaves nothing that could be committed.
    within(state, &transaction, "INSERT INTO t VALUES (7, 7)").await;
    let late = "INSERT INTO t SELECT value, 1 / (20000 - value) FROM generate_series(1, 30000)";
    assert_eq!(run(state, late, Some(&transaction)).await.unwrap_err().reason(), "DIVISION_BY_ZERO");
    assert!(transaction.commit(state).await.unwrap_err().message().contains("has failed"));
    assert_eq!(seen(state).await.0, 321);
    // One that is refused before it writes leaves the rest as it was.
    within(state, &transaction, "INSERT INTO t VALUES (7, 7)").await;
    assert!(run(state, "INSERT INTO t VALUES (8)", Some(&transaction)).await.is_err());
    transaction.commit(state).await.unwrap();
    assert_eq!(seen(state).await.0, 328);

    // Keys, in one transaction all the same ones.
    let upsert = "INSERT INTO t VALUES (7, 70) ON CONFLICT (k) DO UPDATE SET n = EXCLUDED.n";
    within(state, &transaction, upsert).await;
    within(state, &transaction, &upsert.replace("7, 70", "8, 80")).await;
    refused(state, &transaction, "INSERT INTO t VALUES (9, 9)", "has changed table").await;
    transaction.commit(state).await.unwrap();
    assert_eq!(seen(state).await.0, 321 + 70 + 80);
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_are_whole_or_nothing_in_memory() {
    transactions(&started("memory:").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_are_whole_or_nothing_in_a_store() {
    let store = tempfile::tempdir().unwrap();
    transactions(&started(store.path().to_str().unwrap()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_other_columns_by_its_commit_is_a_conflict() {
    let store = tempfile::tempdir().unwrap();
    let state = started(store.path().to_str().unwrap()).await;
    alone(&state, "CREATE TABLE t (k BIGINT NOT NULL, n BIGINT)").await;
    alone(&state, "INSERT INTO t VALUES (1, 10), (2, 20)").await;
    for (sql, alter) in [
        ("INSERT INTO t (k, n) VALUES (3, 30)", "ALTER TABLE t ADD COLUMN m INT"),
        ("UPDATE t SET n = n + 1", "ALTER TABLE t DROP COLUMN m"),
    ] {
        let transaction = Arc::<Transaction>::default();
        within(&state, &transaction, sql).await;
        alone(&state, alter).await;
        assert_eq!(transaction.commit(&state).await.unwrap_err().reason(), "WRITE_CONFLICT", "{sql}");
        assert_eq!(seen(&state).await.0, 30, "{sql}");
    }
}

/// Allows everything, but for one thing, and remembers what it was asked.
#[derive(Debug)]
struct But {
    refuses: Mutex<Option<(Action, &'static str)>>,
    asked: Mutex<Vec<String>>,
}

impl Policy for But {
    fn allows(&self, _: &Principal, action: Action, object: Object<'_>) -> bool {
        self.asked.lock().unwrap().push(format!("{action} {object}"));
        let refused = self.refuses.lock().unwrap();
        let is_it = |name| object == Object::Table(name) || object == Object::View(name);
        !refused.is_some_and(|(of, name)| of == action && is_it(name))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_writes_is_asked_for() {
    let policy = Arc::new(But { refuses: Mutex::default(), asked: Mutex::default() });
    let access = Access::by(Arc::clone(&policy) as Arc<dyn Policy>);
    let state = state("memory:", Some(access));
    for (sql, asked) in [
        ("CREATE TABLE t (n BIGINT)", (Action::Create, "t")),
        ("CREATE TABLE u AS SELECT 1 AS n", (Action::Create, "u")),
        ("CREATE TABLE x AS SELECT * FROM t", (Action::Read, "t")),
        ("INSERT INTO t VALUES (1)", (Action::Write, "t")),
        ("INSERT INTO t SELECT n FROM u", (Action::Read, "u")),
        ("UPDATE t SET n = n + 1", (Action::Write, "t")),
        ("DELETE FROM t WHERE n > 100", (Action::Write, "t")),
        ("DELETE FROM t WHERE n IN (SELECT n + 1000 FROM u)", (Action::Read, "u")),
        ("TRUNCATE t", (Action::Write, "t")),
        ("CREATE VIEW v AS SELECT n FROM u", (Action::Create, "v")),
        // The tables below it.
        ("SELECT n FROM v", (Action::Read, "u")),
        ("DROP VIEW v", (Action::Drop, "v")),
        ("DROP TABLE t", (Action::Drop, "t")),
    ] {
        *policy.refuses.lock().unwrap() = Some(asked);
        let error = run(&state, sql, None).await.unwrap_err();
        // What may not be read is not there.
        let reason = if asked.0 == Action::Read { "TABLE_NOT_FOUND" } else { "PERMISSION_DENIED" };
        assert_eq!(error.reason(), reason, "{sql}");
        *policy.refuses.lock().unwrap() = None;
        alone(&state, sql).await;
    }
}

/// While no long query may begin, what takes little time is answered, and what may take long waits.
#[tokio::test]
async fn a_short_statement_waits_for_no_long_one() {
    let folder = tempfile::tempdir().unwrap();
    for store in ["memory:", folder.path().to_str().unwrap()] {
        let state = &started(store).await;
        alone(state, "CREATE TABLE t (k BIGINT NOT NULL, n BIGINT)").await;
        alone(state, "CREATE TABLE u (k BIGINT NOT NULL, name TEXT)").await;
        alone(state, "INSERT INTO t VALUES (1, 10), (2, 20), (2, 30)").await;
        alone(state, "INSERT INTO u VALUES (1, 'one'), (2, 'two')").await;
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut held = Vec::new();
        for _ in 0..state.cpu.concurrent() {
            held.push(state.cpu.admit(Class::Long, deadline, true).await.unwrap());
        }
        for (sql, answer) in [
            ("SELECT n FROM t WHERE k = 1", 10),
            ("SELECT sum(n) FROM t GROUP BY k ORDER BY k DESC LIMIT 1", 50),
            ("SELECT count(*) FROM t JOIN u ON t.k = u.k WHERE u.name = 'two'", 2),
            ("SELECT count(*) FROM t, u WHERE t.k < u.k", 1),
            ("INSERT INTO t VALUES (3, 40), (3, 50)", 2),
            ("SELECT max(n) OVER () FROM t LIMIT 1", 50),
            ("SELECT 1 + 1", 2),
        ] {
            let short = tokio::time::timeout(Duration::from_secs(20), alone(state, sql)).await;
            assert_eq!(short.unwrap_or_else(|_| panic!("{sql} waits")), answer, "{sql}");
        }
        for long in [
            "SELECT count(*) FROM generate_series(1, 1000)",
            "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 9) SELECT count(*) FROM r",
            "CREATE TABLE v AS SELECT n FROM t",
        ] {
            let waits = tokio::time::timeout(Duration::from_millis(300), run(state, long, None)).await;
            assert!(
                waits.is_err(),
                "{long}: {:?}",
                waits.map(|done| done.map_err(|e| e.message().to_owned()))
            );
        }
        drop(held);
        assert_eq!(
            alone(state, "SELECT count(*) FROM generate_series(1, 1000)").await,
            1000,
            "once they may"
        );
    }
}

/// What is sent to COPY under a key that goes meanwhile is not written, also where nobody has stopped the statement yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_ends_where_its_key_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let issued = Issued::new("goes", Role::Writer, &["*".to_owned()], Allowance::default()).unwrap();
    std::fs::write(&path, &issued.entry).unwrap();
    let keys = Arc::new(Keys::open(&path, [7; 32]).unwrap());
    let access = Access::with(Arc::clone(&keys));
    let header = format!("Bearer {}", issued.secret);
    let principal = access.principal("127.0.0.1:1".parse().unwrap(), Some(header.as_bytes())).unwrap();
    let caller = Caller { principal, access: access.clone() };
    let state = state("memory:", Some(access));
    state.load().await.unwrap();
    let begun = async |sql: &str, copying: Copying| {
        let connection = Connection::new();
        statement(sql, &caller, &connection)
            .begin_copying(&state, None, copying, Committing::default())
            .await
            .map(drop)
    };
    begun("CREATE TABLE t (a BIGINT)", Copying::Not).await.unwrap();
    let (sender, copying) = Sender::new();
    let sent = async {
        sender.send(&mut Bytes::from("1\n")).await;
        while state.queries.running(&Asker::new(&caller)).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let other = Issued::new("stays", Role::Reader, &["*".to_owned()], Allowance::default()).unwrap();
        std::fs::write(&path, &other.entry).unwrap();
        assert_eq!(keys.reload(), Ok(1));
        sender.send(&mut Bytes::from("2\n")).await;
        sender.end().await;
    };
    let (copied, ()) = tokio::join!(begun("COPY t FROM STDIN", copying), sent);
    assert_eq!(copied.unwrap_err().reason(), "UNAUTHENTICATED");
    let (_, version) = state.tables.pin("t", None).unwrap();
    assert_eq!(version.rows(), 0);
}

/// Their memory does not wait for a client that never comes back.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_nobody_takes_are_given_up() {
    let state = started("memory:").await;
    let address = "127.0.0.1:1".parse().unwrap();
    let caller = Caller { principal: Principal::Anonymous(address), access: state.access.clone() };
    let (connection, before) = (Connection::new(), state.memory.held());
    let many = "SELECT a, repeat('x', 200) AS b FROM generate_series(1, 10000000) AS g(a)";
    let mut rows = RowStream::begin(&state, statement(many, &caller, &connection), None).await.unwrap();
    let few = statement("SELECT 1 AS a", &caller, &connection);
    let mut small = RowStream::begin(&state, few, None).await.unwrap();
    let begun = Instant::now();
    while state.memory.held() < before + 3 * limits::ANSWER_MESSAGE_BYTES as u64 {
        assert!(begun.elapsed() < limits::SLOW_READER_TIMEOUT, "{} held", state.memory.held());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(limits::SLOW_READER_TIMEOUT + Duration::from_secs(2)).await;
    assert_eq!(state.memory.held(), before);
    let error = loop {
        match rows.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it is complete"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.reason(), "DEADLINE_EXCEEDED");
    // What was complete is there still.
    assert_eq!(small.next().await.unwrap().unwrap().num_rows(), 1);
    assert!(small.next().await.unwrap().is_none());
}
