//! Tables in memory, without a server.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow_array::{ArrayRef, RecordBatch};
use basalt_core::{
    exec::{self, Control, Memory},
    plan::Plan,
    query::Query,
    schema::{DataType, Field, Reference, Schema},
    table::{Appender, Snapshot, Table},
};
use basalt_sql::{
    Answers, Catalog, Engine, Error, Identity, Options, Request, Rows, async_trait, distributed::Distribution,
};
use futures_util::{StreamExt as _, stream};

/// Tables by name, and the queries that the engine was asked.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    tables: BTreeMap<String, Arc<Table>>,
    catalog: Arc<basalt_core::table::Catalog>,
    pub(crate) queries: Arc<Mutex<Vec<Query>>>,
}

impl Tables {
    /// Adds a table of nullable columns.
    pub(crate) fn add(&mut self, name: &str, columns: Vec<(&str, ArrayRef)>) {
        self.add_with(name, columns, &[]);
    }

    /// Adds one some of whose columns refer to those of other tables: `(column, table, column there)`.
    pub(crate) fn add_with(
        &mut self,
        name: &str,
        columns: Vec<(&str, ArrayRef)>,
        references: &[(&str, &str, &str)],
    ) {
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, array)| (name, array, true)),
        )
        .unwrap();
        let fields = batch.schema();
        let fields = fields.fields().iter().map(|field| Field {
            references: references.iter().find(|(column, ..)| column == field.name()).map(
                |(_, table, column)| Reference { table: (*table).to_owned(), column: (*column).to_owned() },
            ),
            ..Field::new(field.name(), DataType::from_arrow(field.data_type()).unwrap(), true)
        });
        let schema = Schema::new(fields.collect()).unwrap();
        let table = Arc::new(Table::new(name, self.tables.len() as u64, schema, 0));
        let mut appender = Appender::new(Arc::clone(&table), &[]).unwrap();
        appender.push(&batch).unwrap();
        appender.commit().unwrap();
        self.catalog.insert(Arc::clone(&table)).unwrap();
        self.tables.insert(name.to_owned(), table);
    }

    /// Another row set of a table, as a newer version.
    pub(crate) fn append(&self, name: &str, batch: &RecordBatch) {
        let mut appender = Appender::new(Arc::clone(&self.tables[name]), &[]).unwrap();
        appender.push(batch).unwrap();
        appender.commit().unwrap();
    }
}

#[async_trait]
impl Catalog for Tables {
    async fn tables(&self) -> basalt_sql::Result<Vec<String>> {
        Ok(self.tables.keys().cloned().collect())
    }

    async fn pin(&self, name: &str, version: Option<u64>) -> basalt_sql::Result<Arc<dyn basalt_sql::Table>> {
        let table = self.tables.get(name).ok_or_else(|| {
            Error::new(basalt_core::error::ErrorKind::TableNotFound, format!("no table {name:?}"))
        })?;
        let snapshot = table.snapshot_at(version)?;
        let (table, queries) = (Arc::clone(table), Arc::clone(&self.queries));
        Ok(Arc::new(At { table, snapshot, queries, catalog: Arc::clone(&self.catalog) }))
    }
}

#[derive(Debug)]
struct At {
    table: Arc<Table>,
    snapshot: Arc<Snapshot>,
    queries: Arc<Mutex<Vec<Query>>>,
    catalog: Arc<basalt_core::table::Catalog>,
}

#[async_trait]
impl basalt_sql::Table for At {
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

    fn identity(&self) -> Option<Identity> {
        Some(Identity { table: self.table.id(), version: self.snapshot.version() })
    }

    async fn is_key(&self, column: &str) -> basalt_sql::Result<bool> {
        let mut counts = self.run(Query::counts(column));
        Ok(Query::counts_are_equal(&counts.next().await.unwrap()?))
    }

    fn range(&self, column: &str) -> Option<(i64, i64)> {
        let slot = self.table.schema().index_of(column)?;
        let columns = self.snapshot.fragments().iter().map(|fragment| fragment.data().loaded(slot));
        let zones = columns.map(|column| column.unwrap().zones().to_vec());
        zones.flatten().filter_map(|zone| zone.range).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    fn types(&self, query: &Query) -> Option<Vec<DataType>> {
        let plan = Plan::new(&self.table, &self.snapshot, query).ok()?;
        Some(plan.schema().fields().iter().map(|field| field.data_type).collect())
    }

    fn run(&self, query: Query) -> Answers {
        self.queries.lock().unwrap().push(query.clone());
        let run = || {
            let (mut query, control) = (query, Control::default());
            exec::resolve(&self.catalog, &self.table, &self.snapshot, &mut query, &control)?;
            let plan = Plan::new(&self.table, &self.snapshot, &query)?;
            let mut batches = Vec::new();
            plan.run(&self.snapshot, &Control::default(), &mut |batch| {
                batches.push(batch);
                Ok(())
            })?;
            Ok::<_, basalt_core::error::Error>(batches)
        };
        match run() {
            Ok(batches) => Box::pin(stream::iter(batches.into_iter().map(Ok))),
            Err(error) => Box::pin(stream::iter([Err(error.into())])),
        }
    }
}

/// Memory up to a limit.
#[derive(Debug)]
pub(crate) struct Bytes {
    pub(crate) used: AtomicUsize,
    pub(crate) limit: usize,
}

impl Memory for Bytes {
    fn grow(&self, _: usize, more: usize) -> basalt_core::error::Result<()> {
        let used = self.used.fetch_add(more, Ordering::SeqCst) + more;
        if used > self.limit {
            self.used.fetch_sub(more, Ordering::SeqCst);
            let kind = basalt_core::error::ErrorKind::MemoryLimit;
            return Err(basalt_core::error::Error::new(kind, "no memory"));
        }
        Ok(())
    }

    fn shrink(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::SeqCst);
    }
}

/// An engine of two threads.
pub(crate) fn engine() -> Engine {
    let distribution = Distribution::Never;
    Engine::new(Options {
        threads: 2,
        on_thread_start: || (),
        spill: None,
        distribution,
        timeout: std::time::Duration::from_secs(30),
    })
    .unwrap()
}

pub(crate) fn request(tables: &Arc<Tables>, sql: &str, limit: usize) -> (Request, Arc<Bytes>) {
    let memory = Arc::new(Bytes { used: AtomicUsize::new(0), limit });
    let catalog = Arc::clone(tables) as Arc<dyn Catalog>;
    let of = Arc::clone(&memory) as Arc<dyn Memory>;
    (Request { sql: sql.to_owned(), parameters: Vec::new(), catalog, memory: of }, memory)
}
