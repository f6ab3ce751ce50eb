//! The state of a table at a version: what a replay of its log gives.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use basalt_core::{
    limits::FRAGMENT_ROWS,
    schema::{Field, Schema},
};

use super::{
    actions::{Action, Add, Descriptor, Metadata, Protocol, Remove, Txn},
    protocol,
};
use crate::{
    data::{ColumnStats, columns_stats, num_records},
    error::{Result, StorageError},
    limits::{CHECKPOINT_EVERY, FRAGMENTS, REQUESTS},
    schema::TableSchema,
};

/// The tag of a data file that says which fragment it is.
pub(crate) const TAG_FRAGMENT: &str = "basalt.fragment";
/// The tag that says how many bytes the fragment takes in memory.
pub(crate) const TAG_ENCODED: &str = "basalt.encodedBytes";
/// The transaction id whose version is the next fragment's id.
pub(crate) const NEXT_FRAGMENT: &str = "basalt.nextFragment";
/// Milliseconds for which a table remembers the ids of clients' writes.
pub(crate) const REQUEST_AGE: i64 = 24 * 3600 * 1000;
/// Ids from here on are those of files that other writers have made.
pub const FIRST_FOREIGN_FRAGMENT: u32 = 1 << 31;

/// A data file that is part of a table, with the deletion vector that it has at one version.
#[derive(Debug)]
pub struct DataFile {
    pub(crate) add: Add,
    pub(crate) rows: u64,
    /// What the log says of its columns, read when it is first asked for, and the schema by which it was read.
    stats: OnceLock<(Arc<TableSchema>, Box<[ColumnStats]>)>,
}

impl DataFile {
    fn new(add: Add, rows: u64) -> Self {
        Self { add, rows, stats: OnceLock::new() }
    }

    /// Its place below the table, as the log has it (percent-encoded).
    pub fn path(&self) -> &str {
        &self.add.path
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.add.size
    }

    /// Its rows, deleted ones included.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// How many of them are deleted.
    pub fn deleted_rows(&self) -> u64 {
        self.add.deletion_vector.as_ref().map_or(0, |vector| vector.cardinality)
    }

    /// Names the deletion vector among all that the file ever has; `None` without one.
    pub fn deletion_vector(&self) -> Option<String> {
        self.add.deletion_vector.as_ref().map(Descriptor::unique_id)
    }

    /// Milliseconds since 1970 at which it was made.
    pub fn modified_millis(&self) -> i64 {
        self.add.modification_time
    }

    fn tag(&self, name: &str) -> Option<&str> {
        self.add.tags.as_ref()?.get(name)?.as_deref()
    }
}

impl Descriptor {
    /// As the protocol has it.
    pub(crate) fn unique_id(&self) -> String {
        match self.offset {
            Some(offset) => format!("{}{}@{offset}", self.storage_type, self.path_or_inline_dv),
            None => format!("{}{}", self.storage_type, self.path_or_inline_dv),
        }
    }
}

/// A run of at most 2^20 rows of a data file. Those that Basalt writes have one for each file.
#[derive(Clone, Debug)]
pub struct FragmentEntry {
    /// Its id. Below [`FIRST_FOREIGN_FRAGMENT`] it is Basalt's own and never comes to mean other rows; above, it
    /// is computed from the file's name, and is the same for everyone who looks at the same version.
    pub id: u32,
    /// The file that holds it.
    pub file: Arc<DataFile>,
    /// Its first row in the file.
    pub first_row: u64,
    /// Its rows, deleted ones included.
    pub rows: u32,
}

impl FragmentEntry {
    /// Bytes that it takes in memory, where Basalt has written it.
    pub fn encoded_bytes(&self) -> Option<u64> {
        self.file.tag(TAG_ENCODED)?.parse().ok()
    }
}

/// A write that is part of the table, by the id that its client gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client's id.
    pub id: String,
    /// A digest of its rows.
    pub digest: u64,
    /// Its rows.
    pub rows: u64,
}

impl Request {
    const PREFIX: &str = "basalt.request:";

    pub(crate) fn to_txn(&self, version: u64, now: i64) -> Txn {
        let app_id = format!("{}{version}:{}:{}", Self::PREFIX, self.rows, self.id);
        Txn { app_id, version: self.digest.cast_signed(), last_updated: Some(now) }
    }

    fn of(txn: &Txn) -> Option<DoneRequest> {
        let mut parts = txn.app_id.strip_prefix(Self::PREFIX)?.splitn(3, ':');
        let (version, rows, id) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
        let request = Self { id: id.to_owned(), digest: txn.version.cast_unsigned(), rows };
        Some(DoneRequest { request, version, at_millis: txn.last_updated.unwrap_or(0) })
    }
}

/// Whether a transaction id is that of a write that is too old to be asked for again.
pub(crate) fn is_expired(txn: &Txn, now: i64) -> bool {
    txn.app_id.starts_with(Request::PREFIX)
        && txn.last_updated.is_none_or(|at| now.saturating_sub(at) > REQUEST_AGE)
}

/// A [`Request`] that was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoneRequest {
    /// The write.
    pub request: Request,
    /// The version that first showed its rows.
    pub version: u64,
    /// When, in milliseconds since 1970.
    pub at_millis: i64,
}

/// A file that is no longer part of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tombstone {
    pub(crate) path: String,
    pub(crate) vector: Option<Descriptor>,
    /// In milliseconds since 1970.
    pub(crate) at: i64,
}

/// The state of a table at one version; immutable.
#[derive(Clone, Debug)]
pub struct TableState {
    pub(crate) version: u64,
    pub(crate) protocol: Protocol,
    pub(crate) metadata: Arc<Metadata>,
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) files: BTreeMap<String, Arc<DataFile>>,
    pub(crate) tombstones: Vec<Tombstone>,
    pub(crate) txns: BTreeMap<String, Txn>,
    pub(crate) checkpoint: Option<u64>,
    fragments: Arc<[FragmentEntry]>,
}

impl TableState {
    /// The version: one more with each commit, from 0 on.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The table's id, by which it differs from all others.
    pub fn id(&self) -> &str {
        &self.metadata.id
    }

    /// Its columns.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema.schema
    }

    /// The table's properties, Delta's own (`delta.…`) included.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &str)> {
        self.metadata.configuration.iter().filter_map(|(key, value)| Some((key.as_str(), value.as_deref()?)))
    }

    /// One of them.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.metadata.property(name)
    }

    /// Its fragments, by id.
    pub fn fragments(&self) -> &Arc<[FragmentEntry]> {
        &self.fragments
    }

    /// A fragment by its id.
    pub fn fragment(&self, id: u32) -> Option<&FragmentEntry> {
        self.fragments.get(self.fragments.binary_search_by_key(&id, |f| f.id).ok()?)
    }

    /// Rows, without the deleted ones.
    pub fn rows(&self) -> u64 {
        self.files.values().map(|file| file.rows.saturating_sub(file.deleted_rows())).sum()
    }

    /// Bytes of its data files.
    pub fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.add.size).fold(0, u64::saturating_add)
    }

    /// The id that the next fragment gets.
    pub fn next_fragment(&self) -> u32 {
        let counted =
            self.txns.get(NEXT_FRAGMENT).map_or(0, |txn| u32::try_from(txn.version).unwrap_or(u32::MAX));
        let used = self.fragments.iter().rfind(|f| f.id < FIRST_FOREIGN_FRAGMENT).map_or(0, |f| f.id + 1);
        counted.max(used)
    }

    /// The writes with an id that it still knows of.
    pub fn requests(&self) -> impl Iterator<Item = DoneRequest> {
        self.txns.values().filter_map(Request::of)
    }

    /// What is known of a column of a data file without reading it.
    pub fn column_stats(&self, file: &DataFile, column: usize) -> ColumnStats {
        let read = || {
            let fields = self.schema().fields().iter().map(|field| field.data_type);
            let columns = self.schema.physical.iter().map(String::as_str).zip(fields);
            columns_stats(file.add.stats.as_deref(), columns)
        };
        let (schema, columns) = file.stats.get_or_init(|| (Arc::clone(&self.schema), read()));
        // Another version of the table may have other columns.
        let stats = if Arc::ptr_eq(schema, &self.schema) {
            columns.get(column).cloned()
        } else {
            read().get(column).cloned()
        };
        stats.unwrap_or_default()
    }

    /// A column, and its name in the files; the place is that of one.
    pub(crate) fn column(&self, place: usize) -> (&Field, &str) {
        (&self.schema().fields()[place], &self.schema.physical[place])
    }

    /// The value that a file has in a column by which the table is partitioned; `None` for any other column. The
    /// inner `None` is null.
    pub(crate) fn partition_value<'a>(&self, file: &'a DataFile, physical: &str) -> Option<Option<&'a str>> {
        if self.metadata.partition_columns.is_empty() {
            return None;
        }
        Some(file.add.partition_values.get(physical)?.as_deref())
    }
}

/// A state in the making.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    version: u64,
    protocol: Option<Protocol>,
    metadata: Option<(Arc<Metadata>, Option<Arc<TableSchema>>)>,
    /// A file whose log entry has no number of rows has none here, either.
    files: BTreeMap<String, (Arc<DataFile>, bool)>,
    tombstones: BTreeMap<(String, Option<Descriptor>), i64>,
    txns: BTreeMap<String, Txn>,
    checkpoint: Option<u64>,
    /// Where the log is, for errors.
    place: String,
}

impl Replay {
    /// From nothing.
    pub(crate) fn new(place: &str) -> Self {
        Self { place: place.to_owned(), ..Self::default() }
    }

    /// From a state.
    pub(crate) fn of(state: &TableState, place: &str) -> Self {
        let tombstone = |t: &Tombstone| ((t.path.clone(), t.vector.clone()), t.at);
        Self {
            version: state.version,
            protocol: Some(state.protocol.clone()),
            metadata: Some((Arc::clone(&state.metadata), Some(Arc::clone(&state.schema)))),
            files: state.files.iter().map(|(path, file)| (path.clone(), (Arc::clone(file), true))).collect(),
            tombstones: state.tombstones.iter().map(tombstone).collect(),
            txns: state.txns.clone(),
            checkpoint: state.checkpoint,
            place: place.to_owned(),
        }
    }

    pub(crate) fn set_checkpoint(&mut self, version: u64) {
        self.checkpoint = Some(version);
    }

    /// Takes in the actions of a version; those of a commit are an unordered set.
    pub(crate) fn apply(&mut self, version: u64, actions: Vec<Action>) -> Result<()> {
        self.version = version;
        let (mut added, mut removed) = (BTreeSet::new(), BTreeSet::new());
        let mut adds = Vec::new();
        for action in actions {
            match action {
                Action::CommitInfo(_) => {}
                Action::Protocol(protocol) => {
                    protocol::check_readable(&protocol)?;
                    self.protocol = Some(protocol);
                }
                Action::MetaData(metadata) => self.metadata = Some((Arc::new(metadata), None)),
                Action::Txn(txn) => {
                    self.txns.insert(txn.app_id.clone(), txn);
                }
                Action::Add(add) if !added.insert(add.path.clone()) => {
                    return Err(self.corrupt(format!("version {version} adds {:?} twice", add.path)));
                }
                Action::Add(add) => adds.push(add),
                Action::Remove(remove)
                    if !removed.insert((remove.path.clone(), remove.deletion_vector.clone())) =>
                {
                    return Err(self.corrupt(format!("version {version} removes {:?} twice", remove.path)));
                }
                Action::Remove(remove) => self.remove(remove),
            }
        }
        if version.is_multiple_of(CHECKPOINT_EVERY) {
            self.forget_old_requests();
        }
        adds.into_iter().try_for_each(|add| self.add(add))
    }

    /// Forgets the ids of clients' writes that are old by the log's own time, and the oldest of too many.
    fn forget_old_requests(&mut self) {
        let now = self.txns.values().filter_map(|txn| txn.last_updated).max().unwrap_or(0);
        self.txns.retain(|_, txn| !is_expired(txn, now));
        let surplus = self.txns.len().saturating_sub(REQUESTS);
        if surplus > 0 {
            let mut by_age: Vec<_> = self.txns.values().filter(|txn| Request::of(txn).is_some()).collect();
            by_age.sort_unstable_by_key(|txn| txn.last_updated);
            let oldest: Vec<_> = by_age.into_iter().take(surplus).map(|txn| txn.app_id.clone()).collect();
            oldest.iter().for_each(|id| drop(self.txns.remove(id)));
        }
    }

    fn remove(&mut self, remove: Remove) {
        let same = |(file, _): &(Arc<DataFile>, bool)| file.add.deletion_vector == remove.deletion_vector;
        if self.files.get(&remove.path).is_some_and(same) {
            self.files.remove(&remove.path);
        }
        let at = remove.deletion_timestamp.unwrap_or(0);
        self.tombstones.insert((remove.path, remove.deletion_vector), at);
    }

    fn add(&mut self, add: Add) -> Result<()> {
        let rows = match add.stats.as_deref().map(num_records).transpose() {
            Ok(rows) => rows.flatten(),
            Err(e) => return Err(self.corrupt(format!("the statistics of {:?}: {e}", add.path))),
        };
        self.tombstones.remove(&(add.path.clone(), add.deletion_vector.clone()));
        let file = DataFile::new(add, rows.unwrap_or(0));
        self.files.insert(file.add.path.clone(), (Arc::new(file), rows.is_some()));
        Ok(())
    }

    /// Files whose number of rows the log does not say.
    pub(crate) fn uncounted(&self) -> Vec<Arc<DataFile>> {
        self.files.values().filter(|(_, counted)| !counted).map(|(file, _)| Arc::clone(file)).collect()
    }

    /// Says how many rows such a file has.
    pub(crate) fn count(&mut self, path: &str, rows: u64) {
        if let Some((file, counted)) = self.files.get_mut(path) {
            *file = Arc::new(DataFile::new(file.add.clone(), rows));
            *counted = true;
        }
    }

    /// The state.
    pub(crate) fn finish(self) -> Result<TableState> {
        let missing =
            |what: &str| StorageError::corrupt(self.place.clone(), format!("the log has no {what}"));
        let protocol = self.protocol.clone().ok_or_else(|| missing("protocol"))?;
        let (metadata, schema) = self.metadata.clone().ok_or_else(|| missing("metadata"))?;
        let schema = match schema {
            Some(schema) => schema,
            None => {
                let by_name = protocol::check_metadata(&metadata)?;
                Arc::new(TableSchema::parse(&metadata.schema_string, by_name)?)
            }
        };
        let files: BTreeMap<_, _> = self.files.into_iter().map(|(path, (file, _))| (path, file)).collect();
        let fragments = fragments(&files, &self.place)?.into();
        let tombstone = |((path, vector), at)| Tombstone { path, vector, at };
        Ok(TableState {
            version: self.version,
            protocol,
            metadata,
            schema,
            files,
            tombstones: self.tombstones.into_iter().map(tombstone).collect(),
            txns: self.txns,
            checkpoint: self.checkpoint,
            fragments,
        })
    }

    fn corrupt(&self, why: String) -> StorageError {
        StorageError::corrupt(self.place.clone(), why)
    }
}

/// The fragments of a set of files, by id.
///
/// A file of another writer has no id of its own. The hash of its name and of the part is one, in the upper half
/// of all ids; if it is taken, the next that is free, in the order of names: so the ids depend on the version
/// alone, and not on the way by which a reader came to it.
fn fragments(files: &BTreeMap<String, Arc<DataFile>>, place: &str) -> Result<Vec<FragmentEntry>> {
    let mut taken = BTreeMap::new();
    for (path, file) in files {
        if file.deleted_rows() > file.rows {
            let why = format!("{} rows of {}, and {} deleted", file.rows, path, file.deleted_rows());
            return Err(StorageError::corrupt(place, why));
        }
        let parts = file.rows.div_ceil(FRAGMENT_ROWS as u64);
        let found = parts.saturating_add(taken.len() as u64);
        if found > FRAGMENTS as u64 {
            let limit = FRAGMENTS as u64;
            return Err(StorageError::Limit {
                path: place.into(),
                what: "the number of fragments",
                found,
                limit,
            });
        }
        let own = file.tag(TAG_FRAGMENT).and_then(|id| id.parse().ok());
        let own = own.filter(|id| *id < FIRST_FOREIGN_FRAGMENT && parts == 1);
        for part in 0..parts {
            let first_row = part * FRAGMENT_ROWS as u64;
            let rows = u32::try_from((file.rows - first_row).min(FRAGMENT_ROWS as u64)).unwrap_or(u32::MAX);
            let mut id = own.unwrap_or_else(|| foreign_id(path, part));
            while taken.contains_key(&id) {
                if own.is_some() {
                    return Err(StorageError::corrupt(
                        place,
                        format!("two files are fragment {id}, {path} is one"),
                    ));
                }
                id = FIRST_FOREIGN_FRAGMENT | id.wrapping_add(1);
            }
            taken.insert(id, FragmentEntry { id, file: Arc::clone(file), first_row, rows });
        }
    }
    Ok(taken.into_values().collect())
}

fn foreign_id(path: &str, part: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(path.as_bytes());
    hasher.update(&part.to_le_bytes());
    FIRST_FOREIGN_FRAGMENT | hasher.finalize()
}
