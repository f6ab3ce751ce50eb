//! Tables: versions of fragments, appended to by writers and read through snapshots.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use arrow_array::{Array, ArrayRef, RecordBatch};

use crate::{
    error::{Error, ErrorKind, Result},
    fragment::{Fragment, FragmentData, RowBuffer, check_array},
    limits::{BATCH_ROWS, FRAGMENT_ROWS, MAX_BATCH_ROWS, MAX_TABLES},
    schema::{Schema, check_name},
};

/// Bytes of rows that wait in an appender before they are encoded, about; small fragments are merged up to it.
const PENDING_BYTES: usize = 256 << 20;

/// The state of a table at one version.
#[derive(Debug)]
pub struct Snapshot {
    version: u64,
    fragments: Vec<Arc<Fragment>>,
}

impl Snapshot {
    /// The version: one more with each commit. A new table begins at 0, or above all versions of tables that
    /// were dropped before, so that a name and a version never stand for two sets of rows.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The fragments, by id.
    pub fn fragments(&self) -> &[Arc<Fragment>] {
        &self.fragments
    }

    /// Rows in all.
    pub fn rows(&self) -> u64 {
        self.fragments.iter().map(|f| f.rows() as u64).sum()
    }

    /// Bytes held in all.
    pub fn bytes(&self) -> usize {
        self.fragments.iter().map(|f| f.bytes()).sum()
    }
}

/// A table: its schema and its newest snapshot.
#[derive(Debug)]
pub struct Table {
    name: String,
    catalog: u64,
    schema: Arc<Schema>,
    current: RwLock<Arc<Snapshot>>,
    /// Held while a commit makes the next snapshot; the id of the next fragment.
    commit: Mutex<u32>,
    dropped: AtomicBool,
}

impl Table {
    fn new(name: &str, schema: Schema, version: u64, catalog: u64) -> Self {
        Self {
            name: name.to_owned(),
            catalog,
            schema: Arc::new(schema),
            current: RwLock::new(Arc::new(Snapshot { version, fragments: Vec::new() })),
            commit: Mutex::new(0),
            dropped: AtomicBool::new(false),
        }
    }

    /// The id of its catalog.
    pub fn catalog(&self) -> u64 {
        self.catalog
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its columns.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The newest version.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The snapshot of a version that a request names.
    ///
    /// # Errors
    /// [`ErrorKind::VersionGone`] for any but the newest.
    pub fn snapshot_at(&self, version: Option<u64>) -> Result<Arc<Snapshot>> {
        let snapshot = self.snapshot();
        self.check_version(&snapshot, version)?;
        Ok(snapshot)
    }

    /// That a request which names a version means that of a snapshot.
    pub(crate) fn check_version(&self, snapshot: &Snapshot, version: Option<u64>) -> Result<()> {
        match version {
            Some(version) if version != snapshot.version => {
                let message = format!(
                    "version {version} of table {:?} cannot be read; the newest is {}",
                    self.name, snapshot.version
                );
                Err(Error::new(ErrorKind::VersionGone, message))
            }
            _ => Ok(()),
        }
    }

    /// Adds fragments as one new version.
    ///
    /// Encoding happens before the lock is taken: a rayon thread that waits for it takes up other jobs, and
    /// another commit of this table among them would wait for a lock that its own thread holds.
    fn append(&self, new: Vec<FragmentData>) -> Result<u64> {
        let mut new: Vec<_> = new.into_iter().map(|data| Fragment::new(0, data)).collect();
        let merged = self.merge(&new)?;
        let mut next_id = lock(&self.commit);
        if self.dropped.load(Ordering::Acquire) {
            return Err(no_table(&self.name));
        }
        let snapshot = self.snapshot();
        let mut fragments = snapshot.fragments.clone();
        // Another commit may have replaced the same fragments; then the next one merges.
        if let Some((replaced, data)) = merged
            && fragments.iter().filter(|f| replaced.contains(&f.id())).count() == replaced.len()
        {
            fragments.retain(|f| !replaced.contains(&f.id()));
            new = vec![Fragment::new(0, data)];
        }
        let mut id = *next_id;
        for fragment in new {
            fragments.push(Arc::new(fragment.with_id(id)));
            id = id
                .checked_add(1)
                .ok_or_else(|| Error::new(ErrorKind::MemoryLimit, "the table has no fragment ids left"))?;
        }
        *next_id = id;
        let version = snapshot.version + 1;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) =
            Arc::new(Snapshot { version, fragments });
        Ok(version)
    }

    /// Merges small fragments at the end with a new one, so that many small writes leave few fragments: the
    /// ids of those that it replaces, and their rows with the new ones. A fragment is rewritten only with at
    /// least half as many new rows, so that a row is rewritten a logarithmic number of times.
    fn merge(&self, new: &[Fragment]) -> Result<Option<(Vec<u32>, FragmentData)>> {
        let [only] = new else { return Ok(None) };
        let snapshot = self.snapshot();
        let (mut rows, mut keep) = (only.rows(), snapshot.fragments.len());
        let mut bytes = only.decoded_bytes();
        while let Some(last) = snapshot.fragments[..keep].last()
            && last.rows() <= 2 * rows
            && last.rows() + rows <= FRAGMENT_ROWS
            && bytes + last.decoded_bytes() <= PENDING_BYTES
        {
            rows += last.rows();
            bytes += last.decoded_bytes();
            keep -= 1;
        }
        let old = &snapshot.fragments[keep..];
        if old.is_empty() {
            return Ok(None);
        }
        let mut buffer = RowBuffer::new(&self.schema);
        old.iter().for_each(|fragment| buffer.push_fragment(fragment));
        buffer.push_fragment(only);
        Ok(Some((old.iter().map(|f| f.id()).collect(), buffer.encode(&self.schema)?)))
    }
}

/// What a commit did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The first version that shows the rows.
    pub version: u64,
    /// Rows added.
    pub rows: u64,
}

/// Rows on their way into a table. Nothing is visible before [`Appender::commit`]; dropping it leaves nothing.
#[derive(Debug)]
pub struct Appender {
    table: Arc<Table>,
    /// For every column of the table, which array of a batch holds it.
    sources: Vec<Option<usize>>,
    /// Columns of a batch.
    width: usize,
    pending: RowBuffer,
    done: Vec<FragmentData>,
    rows: u64,
}

impl Appender {
    /// Starts a write of the named columns, in the order that the batches have them; none named: all of the
    /// table, in its order.
    ///
    /// # Errors
    /// [`ErrorKind::ColumnNotFound`]; [`ErrorKind::InvalidBatch`] when one is named twice, or one that is
    /// not nullable is left out.
    pub fn new(table: Arc<Table>, columns: &[String]) -> Result<Self> {
        let fields = table.schema.fields();
        let mut sources: Vec<Option<usize>> = vec![None; fields.len()];
        if columns.is_empty() {
            sources.iter_mut().enumerate().for_each(|(i, source)| *source = Some(i));
        }
        for (i, name) in columns.iter().enumerate() {
            let place = format!("columns[{i}]");
            let at = table.schema.index_of(name).ok_or_else(|| no_column(&table, name).at(&place))?;
            if sources[at].replace(i).is_some() {
                return Err(
                    Error::new(ErrorKind::InvalidBatch, format!("column {name:?} is named twice")).at(&place)
                );
            }
        }
        if let Some((field, _)) = fields.iter().zip(&sources).find(|(f, s)| s.is_none() && !f.nullable) {
            let message = format!("column {:?} is not nullable and is left out", field.name);
            return Err(Error::new(ErrorKind::InvalidBatch, message).at("columns"));
        }
        let width = if columns.is_empty() { fields.len() } else { columns.len() };
        let pending = RowBuffer::new(&table.schema);
        Ok(Self { table, sources, width, pending, done: Vec::new(), rows: 0 })
    }

    /// The table written to.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes held so far.
    pub fn bytes(&self) -> usize {
        self.pending.bytes() + self.done.iter().map(FragmentData::bytes).sum::<usize>()
    }

    /// The table's fields in the order of a batch's columns.
    pub fn batch_fields(&self) -> Vec<&crate::schema::Field> {
        let mut fields: Vec<_> = self
            .sources
            .iter()
            .zip(self.table.schema.fields())
            .filter_map(|(s, f)| s.map(|s| (s, f)))
            .collect();
        fields.sort_by_key(|(source, _)| *source);
        fields.into_iter().map(|(_, field)| field).collect()
    }

    /// Checks a batch and takes it in; full fragments are encoded at once. A batch that is refused leaves
    /// the appender as it was.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidBatch`] or [`ErrorKind::TypeMismatch`], with the column's place.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_columns() != self.width {
            let message = format!("{} columns instead of {}", batch.num_columns(), self.width);
            return Err(Error::new(ErrorKind::InvalidBatch, message).at("columns"));
        }
        if batch.num_rows() > MAX_BATCH_ROWS {
            let message = format!("{} rows; the limit is {MAX_BATCH_ROWS}", batch.num_rows());
            return Err(Error::new(ErrorKind::InvalidBatch, message).at("rows"));
        }
        for (source, field) in self.sources.iter().zip(self.table.schema.fields()) {
            if let Some(source) = source {
                check_array(batch.column(*source), field).map_err(|e| e.at(format!("columns[{source}]")))?;
            }
        }
        // A column that is left out, or sent in bits, grows to eight bytes a row.
        let most = (PENDING_BYTES / (8 * self.sources.len())).max(BATCH_ROWS);
        let mut start = 0;
        while start < batch.num_rows() {
            let n = (batch.num_rows() - start).min(FRAGMENT_ROWS - self.pending.rows()).min(most);
            let slice =
                |s: &Option<usize>| -> Option<ArrayRef> { s.map(|s| batch.column(s).slice(start, n)) };
            let arrays: Vec<_> = self.sources.iter().map(slice).collect();
            self.pending.push(&arrays, n);
            start += n;
            if self.pending.rows() == FRAGMENT_ROWS || self.pending.bytes() >= PENDING_BYTES {
                self.flush()?;
            }
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let full = std::mem::replace(&mut self.pending, RowBuffer::new(&self.table.schema));
        self.done.push(full.encode(&self.table.schema)?);
        Ok(())
    }

    /// Makes the rows visible, all at once. Without rows there is no new version.
    ///
    /// # Errors
    /// [`ErrorKind::TableNotFound`] when the table was dropped meanwhile.
    pub fn commit(mut self) -> Result<Commit> {
        if self.pending.rows() > 0 {
            self.flush()?;
        }
        if self.done.is_empty() {
            return Ok(Commit { version: self.table.snapshot().version, rows: 0 });
        }
        let version = self.table.append(self.done)?;
        Ok(Commit { version, rows: self.rows })
    }
}

/// All tables, by name.
#[derive(Debug, Default)]
pub struct Catalog {
    id: u64,
    tables: RwLock<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    by_name: BTreeMap<String, Arc<Table>>,
    /// Above those of all tables that were dropped.
    first_version: u64,
}

impl Catalog {
    /// No tables.
    pub fn new() -> Self {
        Self::default()
    }

    /// No tables. The id tells the versions of this catalog from those of others: sets of rows name it.
    pub fn with_id(id: u64) -> Self {
        Self { id, ..Self::default() }
    }

    /// Adds an empty table.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidName`], [`ErrorKind::TableExists`]; [`ErrorKind::MemoryLimit`] when there are
    /// [`MAX_TABLES`].
    pub fn create(&self, name: &str, schema: Schema) -> Result<Arc<Table>> {
        check_name(name).map_err(|e| e.at("name"))?;
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        if tables.by_name.contains_key(name) {
            return Err(Error::new(ErrorKind::TableExists, format!("table {name:?} exists")).at("name"));
        }
        if tables.by_name.len() >= MAX_TABLES {
            return Err(Error::new(
                ErrorKind::MemoryLimit,
                format!("there are {MAX_TABLES} tables, the most"),
            ));
        }
        let table = Arc::new(Table::new(name, schema, tables.first_version, self.id));
        tables.by_name.insert(name.to_owned(), Arc::clone(&table));
        Ok(table)
    }

    /// Removes a table; queries that run go on with their snapshot.
    ///
    /// # Errors
    /// [`ErrorKind::TableNotFound`].
    pub fn remove(&self, name: &str) -> Result<Arc<Table>> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let table = tables.by_name.remove(name).ok_or_else(|| no_table(name))?;
        // A commit that runs is waited for; a later one fails.
        let commit = lock(&table.commit);
        table.dropped.store(true, Ordering::Release);
        drop(commit);
        tables.first_version = tables.first_version.max(table.snapshot().version + 1);
        Ok(table)
    }

    /// A table by name.
    ///
    /// # Errors
    /// [`ErrorKind::TableNotFound`].
    pub fn get(&self, name: &str) -> Result<Arc<Table>> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.by_name.get(name).cloned().ok_or_else(|| no_table(name))
    }

    /// All tables, by name.
    pub fn list(&self) -> Vec<Arc<Table>> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).by_name.values().cloned().collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_table(name: &str) -> Error {
    let shown: String = name.chars().take(128).collect();
    Error::new(ErrorKind::TableNotFound, format!("there is no table {shown:?}")).at("table")
}

/// The error of a column that the table does not have, with the nearest name if one is near.
pub(crate) fn no_column(table: &Table, name: &str) -> Error {
    let shown: String = name.chars().take(128).collect();
    Error::new(ErrorKind::ColumnNotFound, format!("table {:?} has no column {shown:?}", table.name))
}
