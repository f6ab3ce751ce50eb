//! Statements that write, over tables in memory: what comes of each, that a refused one leaves nothing, and that one that
//! meets another write is done again.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow_array::{RecordBatch, UInt64Array};
use basalt_core::{
    error::ErrorKind,
    exec::{Control, SameKeys, check_key_column},
    plan::Plan,
    query::{Filter, Literal, Query},
    schema::{DataType, Schema},
    table::{self, Appender},
};
use basalt_sql::{
    Answers, Catalog, Change, Command, Engine, Error, NewTable, Request, Rows, Table, Writer, Written,
    async_trait,
};
use futures_util::stream;

use crate::{
    rows_of,
    tables::{Bytes, engine},
};

/// Tables that are written to.
#[derive(Debug, Default)]
pub(crate) struct Store {
    tables: Arc<RwLock<BTreeMap<String, Arc<table::Table>>>>,
    views: RwLock<Views>,
    /// How often another write comes first.
    conflicts: Arc<AtomicUsize>,
    /// The changes that were committed.
    changes: Arc<Mutex<Vec<Change>>>,
    /// The conditions by which rows were to be deleted.
    conditions: Arc<Mutex<Vec<Option<Filter>>>>,
}

impl Store {
    fn get(&self, name: &str) -> basalt_sql::Result<Arc<table::Table>> {
        let table = self.tables.read().unwrap().get(name).cloned();
        table.ok_or_else(|| Error::new(ErrorKind::TableNotFound, format!("no table {name:?}")))
    }

    fn make(&self, new: NewTable) -> basalt_sql::Result<Arc<table::Table>> {
        let mut tables = self.tables.write().unwrap();
        if tables.contains_key(&new.name) {
            return Err(Error::new(ErrorKind::TableExists, "there is one"));
        }
        let table = Arc::new(table::Table::new(&new.name, 1, new.schema, 0));
        if let Some(retention) = new.retention {
            let change =
                table::Change { retention: Some(Some(Arc::new(retention))), ..table::Change::default() };
            table.commit(change).unwrap();
        }
        tables.insert(new.name, Arc::clone(&table));
        Ok(table)
    }
}

#[async_trait]
impl Catalog for Store {
    async fn tables(&self) -> basalt_sql::Result<Vec<String>> {
        Ok(self.tables.read().unwrap().keys().cloned().collect())
    }

    async fn pin(&self, name: &str, version: Option<u64>) -> basalt_sql::Result<Arc<dyn Table>> {
        let table = self.get(name)?;
        let snapshot = table.snapshot_at(version)?;
        let (conflicts, changes) = (Arc::clone(&self.conflicts), Arc::clone(&self.changes));
        let conditions = Arc::clone(&self.conditions);
        Ok(Arc::new(At { table, snapshot, conflicts, changes, conditions }))
    }

    async fn create_table(&self, table: NewTable, if_not_exists: bool) -> basalt_sql::Result<()> {
        match self.make(table) {
            Err(_) if if_not_exists => Ok(()),
            made => made.map(|_| ()),
        }
    }

    async fn create_table_as(&self, table: NewTable) -> basalt_sql::Result<Box<dyn Writer>> {
        let name = table.name.clone();
        self.make(table)?;
        self.pin(&name, None).await?.write(Change::Insert).await
    }

    async fn drop_table(&self, table: &str, if_exists: bool) -> basalt_sql::Result<()> {
        match self.tables.write().unwrap().remove(table) {
            None if !if_exists => Err(Error::new(ErrorKind::TableNotFound, "there is none")),
            _ => Ok(()),
        }
    }

    async fn views(&self) -> basalt_sql::Result<Views> {
        Ok(self.views.read().unwrap().clone())
    }

    async fn create_view(&self, name: &str, sql: &str, replace: bool) -> basalt_sql::Result<()> {
        let mut views = self.views.write().unwrap();
        if views.contains_key(name) && !replace {
            return Err(Error::new(ErrorKind::TableExists, "there is one"));
        }
        views.insert(name.to_owned(), sql.into());
        Ok(())
    }

    async fn drop_view(&self, name: &str, if_exists: bool) -> basalt_sql::Result<()> {
        match self.views.write().unwrap().remove(name) {
            None if !if_exists => Err(Error::new(ErrorKind::TableNotFound, "there is none")),
            _ => Ok(()),
        }
    }
}

type Views = BTreeMap<String, Arc<str>>;

#[derive(Clone, Debug)]
struct At {
    table: Arc<table::Table>,
    snapshot: Arc<table::Snapshot>,
    conflicts: Arc<AtomicUsize>,
    changes: Arc<Mutex<Vec<Change>>>,
    conditions: Arc<Mutex<Vec<Option<Filter>>>>,
}

#[async_trait]
impl Table for At {
    fn name(&self) -> &str {
        self.table.name()
    }

    fn version(&self) -> u64 {
        self.snapshot.version()
    }

    fn schema(&self) -> &Schema {
        self.table.schema()
    }

    fn rows(&self) -> Rows {
        Rows::Exactly(self.snapshot.rows())
    }

    async fn is_key(&self, _: &str) -> basalt_sql::Result<bool> {
        Ok(false)
    }

    fn types(&self, query: &Query) -> Option<Vec<DataType>> {
        let plan = Plan::new(&self.table, &self.snapshot, query).ok()?;
        Some(plan.schema().fields().iter().map(|field| field.data_type).collect())
    }

    fn run(&self, query: Query) -> Answers {
        let plan = Plan::new(&self.table, &self.snapshot, &query).unwrap();
        let mut batches = Vec::new();
        let ran = plan.run(&self.snapshot, &Control::default(), &mut |batch| {
            batches.push(Ok(batch));
            Ok(())
        });
        batches.extend(ran.err().map(|error| Err(error.into())));
        Box::pin(stream::iter(batches))
    }

    async fn write(&self, change: Change) -> basalt_sql::Result<Box<dyn Writer>> {
        let appender = Appender::new(Arc::clone(&self.table), &[])?;
        Ok(Box::new(InMemory { at: self.clone(), change, appender, gone: Vec::new() }))
    }

    async fn delete(&self, filter: Option<Filter>) -> basalt_sql::Result<Option<u64>> {
        self.conditions.lock().unwrap().push(filter);
        Ok(None)
    }
}

struct InMemory {
    at: At,
    change: Change,
    appender: Appender,
    gone: Vec<u64>,
}

#[async_trait]
impl Writer for InMemory {
    async fn insert(&mut self, rows: RecordBatch) -> basalt_sql::Result<()> {
        Ok(self.appender.push(&rows)?)
    }

    async fn delete(&mut self, addresses: UInt64Array) -> basalt_sql::Result<()> {
        self.gone.extend_from_slice(addresses.values());
        Ok(())
    }

    async fn commit(self: Box<Self>) -> basalt_sql::Result<Written> {
        let Self { at, change, appender, mut gone } = *self;
        if at.conflicts.load(Ordering::SeqCst) > 0 {
            at.conflicts.fetch_sub(1, Ordering::SeqCst);
            return Ok(Written::Conflict);
        }
        let inserted = appender.rows();
        let add: Vec<_> = appender.finish()?.into_iter().map(Arc::new).collect();
        if let Change::Replace(names) = &change {
            let slots: Vec<_> = names.iter().map(|name| check_key_column(&at.table, name).unwrap()).collect();
            let keys = SameKeys::new(&at.table, &add, &slots, &Control::default())?;
            gone = keys.rows(&at.table, &at.snapshot, &Control::default())?.iter().collect();
        }
        let named = gone.len();
        gone.sort_unstable();
        gone.dedup();
        assert!(named == gone.len() || change == Change::Delete, "a row goes twice");
        let deleted = gone.len() as u64;
        let set = basalt_sip::Sip::from_ids(gone);
        let (mut was, mut is) = (Vec::new(), Vec::new());
        for fragment in at.snapshot.fragments() {
            if let Some((rest, _)) = fragment.delete(&set) {
                was.push(fragment.clone());
                is.extend((rest.live_rows() > 0).then_some(rest));
            }
        }
        at.table.commit(table::Change { was, is, add, ..table::Change::default() })?;
        at.changes.lock().unwrap().push(change);
        Ok(Written::Done { inserted, deleted })
    }
}

pub(crate) fn request(store: &Arc<Store>, sql: &str, parameters: Vec<Literal>) -> Request {
    let memory = Arc::new(Bytes { used: AtomicUsize::new(0), limit: usize::MAX });
    Request { sql: sql.to_owned(), parameters, catalog: Arc::clone(store) as Arc<dyn Catalog>, memory }
}

async fn try_do(engine: &Engine, store: &Arc<Store>, sql: &str) -> Result<Vec<String>, Error> {
    rows_of(engine.query(request(store, sql, Vec::new())).await?).await
}

/// Statements in turn, each with the rows that it gives.
pub(crate) async fn all(engine: &Engine, store: &Arc<Store>, statements: &[(&str, &[&str])]) {
    for (sql, expected) in statements {
        let rows = try_do(engine, store, sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!(rows, *expected, "{sql}");
    }
}

pub(crate) async fn fails(engine: &Engine, store: &Arc<Store>, sql: &str) -> (ErrorKind, String) {
    let error = try_do(engine, store, sql).await.map(|rows| panic!("{sql}: {rows:?}")).unwrap_err();
    let error = error.statement().unwrap_or_else(|| panic!("{sql}: {error:?}"));
    (error.kind(), error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_made_filled_changed_and_dropped() {
    let (engine, store) = (engine(), Arc::<Store>::default());
    all(
        &engine,
        &store,
        &[
            ("CREATE TABLE t (Key BIGINT NOT NULL, name TEXT, price DECIMAL(10, 2), at TIMESTAMP)", &["0"]),
            ("CREATE TABLE IF NOT EXISTS t (other INT)", &["0"]),
            ("INSERT INTO t VALUES (1, 'one', 1.5, '2013-01-01 10:00:00'), (2, 'two', NULL, NULL)", &["2"]),
            ("INSERT INTO t (name, KEY) VALUES ('three', 1 + 2), (DEFAULT, -4)", &["2"]),
            ("INSERT INTO t (key, name) SELECT key * 10, name || '!' FROM t WHERE key > 1", &["2"]),
            (
                "SELECT key, name, price, at FROM t ORDER BY key",
                &[
                    "-4|NULL|NULL|NULL",
                    "1|one|1.50|2013-01-01T10:00:00Z",
                    "2|two|NULL|NULL",
                    "3|three|NULL|NULL",
                    "20|two!|NULL|NULL",
                    "30|three!|NULL|NULL",
                ],
            ),
            // The right side is of the row as it was.
            (
                "UPDATE t SET key = key + 1, price = key, name = NULL WHERE name LIKE 't%' AND key < 10",
                &["2"],
            ),
            (
                "SELECT key, price FROM t WHERE price IS NOT NULL ORDER BY key",
                &["1|1.50", "3|2.00", "4|3.00"],
            ),
            ("UPDATE t AS x SET name = (SELECT max(name) FROM t) WHERE x.name IS NULL", &["3"]),
            ("UPDATE t SET name = o.name FROM (VALUES (1, 'uno')) AS o (k, name) WHERE t.key = o.k", &["1"]),
            ("SELECT name, count(*) FROM t GROUP BY 1 ORDER BY 1", &["three!|1", "two!|4", "uno|1"]),
            ("DELETE FROM t WHERE key IN (SELECT key FROM t WHERE price IS NOT NULL AND key > 1)", &["2"]),
            ("DELETE FROM t USING (VALUES (20), (20), (30)) AS o (k) WHERE key = k", &["2"]),
            ("DELETE FROM t WHERE key > 100", &["0"]),
            ("SELECT key FROM t ORDER BY 1", &["-4", "1"]),
            ("CREATE TABLE copy AS SELECT key AS k, count(*) AS n FROM t GROUP BY key", &["2"]),
            ("SELECT sum(k), sum(n) FROM copy", &["-3|2"]),
            ("CREATE TABLE IF NOT EXISTS copy AS SELECT 1 AS one", &["0"]),
            ("TRUNCATE TABLE copy", &["2"]),
            ("SELECT count(*) FROM copy", &["0"]),
            ("DELETE FROM t", &["2"]),
            ("DROP TABLE t", &["0"]),
            ("DROP TABLE IF EXISTS t", &["0"]),
            ("SHOW TABLES", &["copy"]),
        ],
    )
    .await;
}

/// What the engine selects by itself it is asked to delete, wherever the rows are by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_condition_of_the_engine_deletes_by_itself() {
    let (engine, store) = (engine(), Arc::<Store>::default());
    for (sql, expected, asked) in [
        ("CREATE TABLE t (k INT NOT NULL, a TEXT)", "0", None),
        ("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, NULL)", "4", None),
        ("DELETE FROM t WHERE k = 2", "1", Some(true)),
        ("DELETE FROM t AS x WHERE x.a = 'z' OR x.k > 100", "0", Some(true)),
        // These are of more than its rows.
        ("DELETE FROM t WHERE k IN (SELECT k + 1 FROM t WHERE a = 'a')", "0", None),
        ("DELETE FROM t USING (VALUES (3)) AS o (n) WHERE k = n", "1", None),
        ("UPDATE t SET a = 'd' WHERE k = 4", "1", None),
        ("DELETE FROM t", "2", Some(false)),
    ] {
        all(&engine, &store, &[(sql, &[expected])]).await;
        let conditions = std::mem::take(&mut *store.conditions.lock().unwrap());
        let has_condition: Vec<_> = conditions.iter().map(Option::is_some).collect();
        assert_eq!(has_condition, Vec::from_iter(asked), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_is_resolved_by_what_stands_behind_it() {
    let (engine, store) = (engine(), Arc::<Store>::default());
    all(
        &engine,
        &store,
        &[
            ("CREATE TABLE t (k INT NOT NULL, a TEXT, n INT)", &["0"]),
            ("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)", &["2"]),
            ("INSERT INTO t VALUES (2, 'c', 9), (3, 'd', 3), (3, 'e', 4) ON CONFLICT (k) DO NOTHING", &["1"]),
            ("SELECT k, n FROM t ORDER BY k", &["1|1", "2|2", "3|3"]),
            ("INSERT INTO t VALUES (2, 'x', 20), (4, 'y', 40) ON CONFLICT (k) DO UPDATE SET a = EXCLUDED.a, n = excluded.n", &["2"]),
            ("INSERT INTO t (k, n) VALUES (1, 5), (5, 50) ON CONFLICT (k) DO UPDATE SET n = t.n + excluded.n", &["2"]),
            (
                "INSERT INTO t (k, n) VALUES (1, 7), (2, 8) ON CONFLICT (k) DO UPDATE SET n = excluded.n WHERE t.n > 10",
                &["1"],
            ),
            ("SELECT * FROM t ORDER BY k", &["1|a|6", "2|x|8", "3|d|3", "4|y|40", "5|NULL|50"]),
        ],
    )
    .await;
    let changes = store.changes.lock().unwrap().clone();
    assert_eq!(
        changes[1..],
        [
            Change::Update { exactly: true },
            Change::Replace(vec!["k".to_owned()]),
            Change::Update { exactly: true },
            Change::Update { exactly: true },
        ]
    );
    let before = store.get("t").unwrap().snapshot().version();
    for (sql, kind) in [
        (
            "INSERT INTO t VALUES (7, 'a', 1), (7, 'b', 1) ON CONFLICT (k) DO UPDATE SET n = excluded.n",
            ErrorKind::InvalidBatch,
        ),
        (
            "INSERT INTO t VALUES (7, 'a', 1), (7, 'b', 1) ON CONFLICT (k) DO UPDATE SET n = excluded.n, a = excluded.a",
            ErrorKind::InvalidBatch,
        ),
        ("INSERT INTO t (a) VALUES ('b') ON CONFLICT (k) DO NOTHING", ErrorKind::InvalidQuery),
        ("INSERT INTO t VALUES (1, 'b', 1) ON CONFLICT DO NOTHING", ErrorKind::InvalidQuery),
    ] {
        assert_eq!(fails(&engine, &store, sql).await.0, kind, "{sql}");
    }
    assert_eq!(store.get("t").unwrap().snapshot().version(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_replaced_by_keys_that_cannot_be_null() {
    let (engine, store) = (engine(), Arc::<Store>::default());
    all(
        &engine,
        &store,
        &[
            ("CREATE TABLE t (k INT, a TEXT)", &["0"]),
            ("INSERT INTO t VALUES (1, 'a'), (-2, 'b') ON CONFLICT (k) DO UPDATE SET a = excluded.a", &["2"]),
            (
                "INSERT INTO t VALUES (1, 'c'), (NULL, 'd') ON CONFLICT (k) DO UPDATE SET a = excluded.a",
                &["2"],
            ),
            ("INSERT INTO t SELECT k, upper(a) FROM t ON CONFLICT (k) DO UPDATE SET a = excluded.a", &["3"]),
            ("SELECT k, a FROM t ORDER BY k, a", &["-2|B", "1|C", "NULL|D", "NULL|d"]),
        ],
    )
    .await;
    let changes = store.changes.lock().unwrap().clone();
    let joined = Change::Update { exactly: true };
    assert_eq!(changes, [Change::Replace(vec!["k".to_owned()]), joined.clone(), joined]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_refused_and_nothing_is_written() {
    let (engine, store) = (engine(), Arc::<Store>::default());
    all(
        &engine,
        &store,
        &[
            ("CREATE TABLE t (i SMALLINT, f REAL, d DECIMAL(4, 2), day DATE, at TIMESTAMP, b BOOLEAN, s TEXT, n INT NOT NULL)", &["0"]),
            ("INSERT INTO t (n, i, f, d, day) VALUES (1, 32767, 1e38, 99.99, '2024-02-29')", &["1"]),
        ],
    )
    .await;
    for (sql, kind) in [
        ("INSERT INTO t (n, i) VALUES (1, 5), (2, 32768)", ErrorKind::Overflow),
        ("INSERT INTO t (n, f) VALUES (1, 1e39)", ErrorKind::Overflow),
        ("INSERT INTO t (n, d) VALUES (1, 100)", ErrorKind::Overflow),
        ("INSERT INTO t (n, day) VALUES (1, 7)", ErrorKind::TypeMismatch),
        ("INSERT INTO t (n, day) VALUES (1, 'tomorrow')", ErrorKind::TypeMismatch),
        ("INSERT INTO t (n, b) VALUES (1, 1)", ErrorKind::TypeMismatch),
        ("INSERT INTO t (n) VALUES (1), (NULL)", ErrorKind::InvalidBatch),
        ("INSERT INTO t (i) VALUES (1)", ErrorKind::InvalidBatch),
        ("INSERT INTO t (n, n) VALUES (1, 1)", ErrorKind::InvalidQuery),
        ("INSERT INTO t (n, x) VALUES (1, 1)", ErrorKind::ColumnNotFound),
        ("INSERT INTO t (n, i) VALUES (1)", ErrorKind::InvalidQuery),
        ("INSERT INTO nowhere VALUES (1)", ErrorKind::TableNotFound),
        ("UPDATE t SET i = i + 1", ErrorKind::Overflow),
        ("UPDATE t SET n = NULL", ErrorKind::InvalidBatch),
        ("UPDATE t SET n = 1, n = 2", ErrorKind::InvalidQuery),
        ("UPDATE t FOR VERSION AS OF 1 SET n = 1", ErrorKind::InvalidQuery),
        ("DELETE FROM t WHERE s = 1 / 0", ErrorKind::DivisionByZero),
        ("DELETE FROM t RETURNING n", ErrorKind::InvalidQuery),
        ("CREATE TABLE u AS SELECT i + 32767 AS i, 1 / (n - 1) AS x FROM t", ErrorKind::DivisionByZero),
        ("CREATE TABLE u (a INT PRIMARY KEY)", ErrorKind::InvalidQuery),
        ("CREATE TABLE u (a INT DEFAULT 1)", ErrorKind::InvalidQuery),
        ("CREATE TABLE u (a UUID)", ErrorKind::InvalidQuery),
        ("CREATE TABLE u (a INT) WITH (retention = '1 day')", ErrorKind::InvalidQuery),
        ("CREATE TABLE t (a INT)", ErrorKind::TableExists),
        ("CREATE TEMPORARY TABLE u (a INT)", ErrorKind::InvalidQuery),
        ("DROP TABLE nowhere", ErrorKind::TableNotFound),
    ] {
        let (found, message) = fails(&engine, &store, sql).await;
        assert_eq!(found, kind, "{sql}: {message}");
    }
    all(&engine, &store, &[("SELECT count(*), sum(n), max(i) FROM t", &["1|1|32767"])]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_meets_another_is_done_again() {
    let (engine, store) = (engine(), Arc::<Store>::default());
    let setup: &[(&str, &[&str])] =
        &[("CREATE TABLE t (n INT)", &["0"]), ("INSERT INTO t VALUES (1), (2), (3)", &["3"])];
    all(&engine, &store, setup).await;
    store.conflicts.store(3, Ordering::SeqCst);
    all(&engine, &store, &[("UPDATE t SET n = n + 1 WHERE n > 1", &["2"])]).await;
    all(&engine, &store, &[("SELECT n FROM t ORDER BY n", &["1", "3", "4"])]).await;
    store.conflicts.store(usize::MAX, Ordering::SeqCst);
    assert_eq!(fails(&engine, &store, "DELETE FROM t").await.0, ErrorKind::WriteConflict);
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_have_the_types_of_their_columns() {
    let (engine, store) = (engine(), Arc::<Store>::default());
    let sql = "CREATE TABLE t (k BIGINT, s TEXT, d DECIMAL(10, 2), at TIMESTAMP, f REAL)";
    all(&engine, &store, &[(sql, &["0"])]).await;
    let decimal = DataType::Decimal { precision: 10, scale: 2 };
    for (sql, command, types) in [
        (
            "INSERT INTO t VALUES ($1, $2, $3, $4, $5)",
            Command::Insert,
            &[DataType::Int64, DataType::Utf8, decimal, DataType::Timestamp, DataType::Float32][..],
        ),
        ("INSERT INTO t (d, s) SELECT ?, ?", Command::Insert, &[decimal, DataType::Utf8]),
        (
            "INSERT INTO t (k, s) VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET s = $2",
            Command::Merge,
            &[DataType::Int64, DataType::Utf8],
        ),
        ("UPDATE t SET d = $2 WHERE k = $1", Command::Update, &[DataType::Int64, decimal]),
        ("DELETE FROM t WHERE at < $1 AND s = $2", Command::Delete, &[DataType::Timestamp, DataType::Utf8]),
        ("CREATE TABLE u AS SELECT k FROM t WHERE k = $1", Command::CreateTableAs, &[DataType::Int64]),
        ("TRUNCATE t", Command::Truncate, &[]),
    ] {
        let described = engine.describe(request(&store, sql, Vec::new()), Vec::new()).await;
        let described = described.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!((described.command, &*described.parameters), (command, types), "{sql}");
        assert_eq!(described.schema.fields()[0].name, "rows", "{sql}");
    }
    let given = vec![Literal::Int(7), Literal::Text("x".to_owned())];
    let sql = "INSERT INTO t (k, s, d) VALUES ($1, $2, $1), ($1 + 1, NULL, 2)";
    let answer = engine.query(request(&store, sql, given.clone())).await.unwrap();
    assert_eq!((answer.command(), rows_of(answer).await.unwrap()), (Command::Insert, vec!["2".to_owned()]));
    let sql = "UPDATE t SET s = $2 || k WHERE k > $1";
    assert_eq!(rows_of(engine.query(request(&store, sql, given)).await.unwrap()).await.unwrap(), ["1"]);
    all(&engine, &store, &[("SELECT k, s, d FROM t ORDER BY k", &["7|x|7.00", "8|x8|2.00"])]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_table_promises_is_in_its_text() {
    let (engine, store) = (engine(), Arc::<Store>::default());
    all(
        &engine,
        &store,
        &[
            ("CREATE TABLE airlines (carrier INT NOT NULL, name TEXT)", &["0"]),
            (
                "CREATE TABLE flights (carrier INT REFERENCES airlines (carrier), origin SMALLINT, day DATE, FOREIGN KEY (origin) \
                 REFERENCES airports (faa)) WITH (retention = '30 days', retention_column = 'day')",
                &["0"],
            ),
            (
                "CREATE TABLE fast (a INT, b TEXT, c INT) WITH (\"optimize.b\" = 'size', optimize = 'speed', \"optimize.c\" = 'balanced')",
                &["0"],
            ),
            (
                "SHOW CREATE TABLE fast",
                &["CREATE TABLE \"fast\" (\"a\" INTEGER, \"b\" VARCHAR, \"c\" INTEGER) WITH (\"optimize.a\" = 'speed', \
                   \"optimize.b\" = 'size')"],
            ),
            (
                "DESCRIBE flights",
                &["carrier|int32|true|airlines.carrier", "origin|int16|true|airports.faa", "day|date32|true|NULL"],
            ),
        ],
    )
    .await;
    let retention = store.get("flights").unwrap().snapshot().retention().cloned().unwrap();
    assert_eq!((retention.column(), retention.keep().as_secs()), ("day", 30 * 24 * 3600));
}

#[tokio::test(flavor = "multi_thread")]
async fn views_stand_for_their_queries() {
    let (engine, store) = (engine(), Arc::<Store>::default());
    all(
        &engine,
        &store,
        &[
            ("CREATE TABLE t (k INT NOT NULL, \"Name\" TEXT)", &["0"]),
            ("INSERT INTO t VALUES (1, 'a'), (2, 'b')", &["2"]),
            ("CREATE VIEW v AS SELECT k * 10 AS \"Ten\", name FROM T WHERE k > 1e0 - 0.5", &["0"]),
            ("SELECT ten, name FROM v ORDER BY 1", &["10|a", "20|b"]),
            ("CREATE VIEW w (a, b) AS SELECT x.ten, y.ten FROM v x JOIN v y ON x.ten < y.ten", &["0"]),
            ("SELECT w.b - w.a FROM w", &["10"]),
            ("CREATE VIEW old AS SELECT count(*) AS n FROM t FOR VERSION AS OF 1", &["0"]),
            ("INSERT INTO t SELECT k + 5, name FROM t", &["2"]),
            ("SELECT n, (SELECT count(*) FROM w) FROM old", &["2|6"]),
            ("WITH v AS (SELECT 1 AS one) SELECT * FROM v", &["1"]),
            ("DELETE FROM t WHERE k IN (SELECT ten / 10 FROM v WHERE ten > 50)", &["2"]),
            ("SHOW TABLES", &["t"]),
            (
                "SHOW VIEWS",
                &[
                    "old|SELECT count(*) AS n FROM \"t@1\" AS t",
                    "v|SELECT k * 10 AS \"Ten\", Name FROM t WHERE k > CAST('1' AS DOUBLE) - 0.5",
                    "w|SELECT * FROM (SELECT x.Ten, y.Ten FROM v x JOIN v y ON x.Ten < y.Ten) AS v (a, b)",
                ],
            ),
            ("DESCRIBE v", &["Ten|int64|true|NULL", "Name|utf8|true|NULL"]),
            ("SHOW COLUMNS FROM t", &["k|int32|false|NULL", "Name|utf8|true|NULL"]),
            ("SHOW CREATE TABLE t", &["CREATE TABLE \"t\" (\"k\" INTEGER NOT NULL, \"Name\" VARCHAR)"]),
            ("CREATE OR REPLACE VIEW old AS SELECT 7 AS n", &["0"]),
            ("CREATE VIEW IF NOT EXISTS old AS SELECT 8 AS n", &["0"]),
            ("SHOW CREATE VIEW old", &["CREATE VIEW \"old\" AS SELECT 7 AS n"]),
            ("DROP VIEW old", &["0"]),
            ("DROP VIEW IF EXISTS old", &["0"]),
        ],
    )
    .await;
    for (sql, kind, words) in [
        ("CREATE VIEW x AS SELECT nothing FROM t", ErrorKind::ColumnNotFound, "nothing"),
        ("CREATE VIEW x AS SELECT * FROM nowhere", ErrorKind::TableNotFound, "nowhere"),
        ("CREATE VIEW v AS SELECT 1 AS one", ErrorKind::TableExists, ""),
        ("CREATE OR REPLACE VIEW v AS SELECT * FROM w", ErrorKind::InvalidQuery, "would read itself"),
        ("CREATE VIEW PG_Class AS SELECT 1 AS a", ErrorKind::InvalidName, "a table of pg_catalog"),
        ("INSERT INTO v VALUES (1, 'a')", ErrorKind::TableNotFound, "is a view"),
        ("DELETE FROM v", ErrorKind::TableNotFound, "is a view"),
        ("DROP TABLE v", ErrorKind::TableNotFound, "is a view"),
        ("DROP VIEW t", ErrorKind::TableNotFound, "is a table"),
        ("SELECT * FROM v FOR VERSION AS OF 1", ErrorKind::InvalidQuery, "is a view"),
        ("CREATE VIEW x AS SELECT $1 AS p", ErrorKind::InvalidQuery, "parameter"),
    ] {
        let (found, message) = fails(&engine, &store, sql).await;
        assert!(found == kind && message.contains(words), "{sql}: {found:?} {message}");
    }
    all(&engine, &store, &[("DROP TABLE t", &["0"])]).await;
    let (kind, message) = fails(&engine, &store, "SELECT * FROM w").await;
    assert_eq!(
        (kind, message.contains("view \"v\": no table \"t\"")),
        (ErrorKind::TableNotFound, true),
        "{message}"
    );
}
