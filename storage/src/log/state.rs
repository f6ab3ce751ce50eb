//! The state of a table at a version: what a replay of its log gives.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use basalt_core::{
    fragment::Source, invariant::Invariant, limits::FRAGMENT_ROWS, schema::Schema, table::Retention,
};

use twox_hash::XxHash3_64;

use super::{
    EntryDigest,
    actions::{Action, Add, Descriptor, Metadata, Protocol, Remove, Txn},
    fragments::fragments,
    pile::Pile,
    protocol,
};
use crate::{
    data::{ColumnStats, columns_stats, digest, num_records},
    deletes::{self, Deletes},
    error::{Result, StorageError},
    limits::{FORGET_EVERY, REQUEST_AGE, REQUESTS},
    retention,
    schema::TableSchema,
};

/// The tag of a data file that says which fragment it is.
pub(crate) const TAG_FRAGMENT: &str = "basalt.fragment";
/// The tag that says how many bytes the fragment takes in memory.
pub(crate) const TAG_ENCODED: &str = "basalt.encodedBytes";
/// The transaction id whose version is the next fragment's id.
pub(crate) const NEXT_FRAGMENT: &str = "basalt.nextFragment";

/// Milliseconds for which a table remembers what has left it: for an hour longer than that can be read, in which a
/// vacuum comes by.
pub(crate) fn tombstone_age(keep: i64) -> i64 {
    keep.saturating_add(3600 * 1000)
}

/// Ids from here on are those of files that other writers have made.
pub const FIRST_FOREIGN_FRAGMENT: u32 = 1 << 31;

/// A data file that is part of a table, with the deletion vector that it has at one version.
#[derive(Debug)]
pub struct DataFile {
    pub(crate) add: Add,
    pub(crate) rows: u64,
    /// The fragment that it is by its tag, where Basalt has written it.
    pub(super) fragment: Option<u32>,
    /// That of its first rows: what a fragment is compared by, for every fragment with every version.
    source: Source,
    /// What the log says of its columns, read when it is first asked for, and the schema by which it was read.
    stats: OnceLock<(Arc<TableSchema>, Box<[ColumnStats]>)>,
}

impl DataFile {
    fn new(add: Add, rows: u64) -> Self {
        let vector = add.deletion_vector.as_ref();
        let vector = vector.map(|vector| XxHash3_64::oneshot(vector.unique_id().as_bytes()));
        let source = Source {
            rows: source_rows(&add.path, 0),
            // Default: 0 is no deletion vector.
            deletions: vector.map_or(0, |hash| hash.max(1)),
        };
        let mut file = Self { add, rows, fragment: None, source, stats: OnceLock::new() };
        let id = file.add.tag(TAG_FRAGMENT).and_then(|id| id.parse().ok());
        file.fragment = id.filter(|id| *id < FIRST_FOREIGN_FRAGMENT && rows <= FRAGMENT_ROWS as u64);
        file
    }

    /// Whether the log says the same of another one.
    fn is_same(&self, other: &Self) -> bool {
        self.rows == other.rows
            && self.add.size == other.add.size
            && self.add.modification_time == other.add.modification_time
            && self.add.deletion_vector == other.add.deletion_vector
            && self.add.partition_values == other.add.partition_values
            && self.add.tags == other.add.tags
            && self.add.stats == other.add.stats
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
        // Default: without a vector none is deleted.
        // Default: there is none.
        self.add.deletion_vector.as_ref().map_or(0, |vector| vector.cardinality)
    }

    /// Names the deletion vector among all that the file ever has; `None` without one.
    pub fn deletion_vector(&self) -> Option<String> {
        self.add.deletion_vector.as_ref().map(Descriptor::unique_id)
    }

    /// Bytes of its deletion vector.
    pub(crate) fn deletion_vector_bytes(&self) -> u64 {
        // Default: there is none.
        self.add.deletion_vector.as_ref().map_or(0, |vector| u64::from(vector.size_in_bytes))
    }

    /// Milliseconds since 1970 at which it was made.
    pub fn modified_millis(&self) -> i64 {
        self.add.modification_time
    }

    /// The digests of its bytes, where the log has them.
    pub(crate) fn digests(&self) -> Option<&str> {
        self.add.tag(digest::TAG)
    }
}

impl Add {
    fn tag(&self, name: &str) -> Option<&str> {
        self.tags.as_ref()?.get(name)?.as_deref()
    }
}

/// Names the rows of a file from one on.
fn source_rows(path: &str, first_row: u64) -> u64 {
    XxHash3_64::oneshot_with_seed(first_row, path.as_bytes())
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
    /// is computed from the names of the version's files, is the same for everyone who looks at the same version, and
    /// may be another file's in another one: see [`source`](Self::source).
    pub id: u32,
    /// The file that holds it.
    pub file: Arc<DataFile>,
    /// Its first row in the file.
    pub first_row: u64,
    /// Its rows, deleted ones included.
    pub rows: u32,
}

impl FragmentEntry {
    /// Names its rows and those of them that are deleted, for everyone who looks at the table. Ids do not: another
    /// writer's file may have the id that another file has in another version.
    pub fn source(&self) -> Source {
        match self.first_row {
            0 => self.file.source,
            first_row => Source { rows: source_rows(self.file.path(), first_row), ..self.file.source },
        }
    }

    /// Whether it is all of its file. A part cannot be changed, or go, without the others.
    pub fn is_whole_file(&self) -> bool {
        u64::from(self.rows) == self.file.rows
    }

    /// Its rows without the deleted ones, as far as that is known: a file of several fragments does not say of which
    /// its deleted rows are.
    pub fn live_rows(&self) -> u64 {
        let deleted = if self.is_whole_file() { self.file.deleted_rows() } else { 0 };
        u64::from(self.rows).saturating_sub(deleted)
    }

    /// Bytes that it takes in memory, where Basalt has written it.
    pub fn encoded_bytes(&self) -> Option<u64> {
        self.file.add.tag(TAG_ENCODED)?.parse().ok()
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

    /// What a transaction says; `Err` when it is one of these and cannot be read, `Ok(None)` when it is another's.
    fn of(txn: &Txn) -> std::result::Result<Option<DoneRequest>, String> {
        let Some(written) = txn.app_id.strip_prefix(Self::PREFIX) else { return Ok(None) };
        let done = || {
            let mut parts = written.splitn(3, ':');
            let (version, rows, id) =
                (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
            let request = Self { id: id.to_owned(), digest: txn.version.cast_unsigned(), rows };
            // Default: a writer that leaves the time out makes it the oldest.
            Some(DoneRequest { request, version, at_millis: txn.last_updated.unwrap_or(0) })
        };
        done().map(Some).ok_or_else(|| format!("{:?} is the id of no write", txn.app_id))
    }
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

/// Files that are no longer part of the table, with the deletion vectors that they had, and when they left it, in
/// milliseconds since 1970.
pub(super) type Tombstones = Pile<(Arc<str>, Option<Descriptor>), i64>;

/// The state of a table at one version; immutable.
#[derive(Clone, Debug)]
pub struct TableState {
    pub(crate) version: u64,
    pub(crate) protocol: Protocol,
    pub(crate) metadata: Arc<Metadata>,
    pub(crate) schema: Arc<TableSchema>,
    retention: Option<Arc<Retention>>,
    deletes: Deletes,
    pub(crate) files: BTreeMap<Arc<str>, Arc<DataFile>>,
    pub(super) tombstones: Tombstones,
    /// Those that are no clients' writes.
    pub(super) txns: BTreeMap<String, Txn>,
    requests: Pile<String, Arc<DoneRequest>>,
    pub(crate) checkpoint: Option<u64>,
    /// What the file of the version has; `None` where it was not read: it is this process's own, or gone.
    pub(super) entry: Option<EntryDigest>,
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

    /// For how long its rows are part of it; `None`: for good.
    pub fn retention(&self) -> Option<&Arc<Retention>> {
        self.retention.as_ref()
    }

    /// What deletions leave in its files.
    pub fn deletes(&self) -> Deletes {
        self.deletes
    }

    /// Its fragments, by id.
    pub fn fragments(&self) -> &Arc<[FragmentEntry]> {
        &self.fragments
    }

    /// A fragment by its id.
    pub fn fragment(&self, id: u32) -> Option<&FragmentEntry> {
        self.fragments.get(self.fragments.binary_search_by_key(&id, |f| f.id).ok()?)
    }

    /// The fragment of this version that has the same rows as one of another version, whatever their ids are.
    pub fn same_rows(&self, other: &FragmentEntry) -> Option<&FragmentEntry> {
        let same = |entry: &&FragmentEntry| entry.source().rows == other.source().rows;
        match self.fragment(other.id).filter(same) {
            Some(found) => Some(found),
            // Another writer's file has another id where one with the same hash came or went.
            None if self.files.contains_key(other.file.path()) => self.fragments.iter().find(same),
            None => None,
        }
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
        let counted = self.txns.get(NEXT_FRAGMENT).map(|txn| u32::try_from(txn.version));
        // Default: the first id, where Basalt has not yet counted, or has no fragments.
        let counted = counted.map_or(0, |id| id.invariant("the next fragment's id was read with the log"));
        // Default: as above.
        let used = self.fragments.iter().rfind(|f| f.id < FIRST_FOREIGN_FRAGMENT).map_or(0, |f| f.id + 1);
        counted.max(used)
    }

    /// The writes with an id that it still knows of, in no particular order.
    pub fn requests(&self) -> impl Iterator<Item = &DoneRequest> {
        self.requests.iter().map(|(_, request)| &**request)
    }

    /// Those among them that came with versions behind `version`.
    pub fn requests_since(&self, version: u64) -> impl Iterator<Item = &DoneRequest> {
        self.requests().filter(move |request| request.version > version)
    }

    /// The write that a client gave an id.
    pub fn request(&self, id: &str) -> Option<&DoneRequest> {
        self.requests.get(id).map(|request| &**request)
    }

    /// Logical files that have left the table and are not back, and when.
    pub(crate) fn removed(&self) -> impl Iterator<Item = (&str, Option<&Descriptor>, i64)> {
        let stones = self.tombstones.iter().map(|((path, vector), at)| (&**path, vector.as_ref(), *at));
        stones.filter(|(path, vector, _)| {
            self.files.get(*path).is_none_or(|file| file.add.deletion_vector.as_ref() != *vector)
        })
    }

    /// The same state; what another one has as well is that one's.
    pub(super) fn sharing(mut self, other: &Self) -> Self {
        if self.schema == other.schema {
            self.schema = Arc::clone(&other.schema);
        }
        for (path, file) in &mut self.files {
            if let Some(same) = other.files.get(path).filter(|same| same.is_same(file)) {
                *file = Arc::clone(same);
            }
        }
        let shared = |entry: &FragmentEntry| {
            // Default: a fragment's file is among the files.
            let file = self.files.get(entry.file.path()).unwrap_or(&entry.file);
            FragmentEntry { file: Arc::clone(file), ..entry.clone() }
        };
        self.fragments = self.fragments.iter().map(shared).collect();
        self
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
        // Default: of a file without statistics nothing is known.
        stats.unwrap_or_default()
    }
}

/// A state in the making.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    version: u64,
    protocol: Option<Protocol>,
    metadata: Option<(Arc<Metadata>, Option<Arc<TableSchema>>)>,
    files: BTreeMap<Arc<str>, Arc<DataFile>>,
    /// Files whose number of rows the log does not say.
    uncounted: BTreeSet<Arc<str>>,
    tombstones: Tombstones,
    txns: BTreeMap<String, Txn>,
    requests: Pile<String, Arc<DoneRequest>>,
    checkpoint: Option<u64>,
    entry: Option<EntryDigest>,
    /// Where the log is, for errors.
    place: String,
    /// Milliseconds for which what has left the table stays readable.
    keep: i64,
}

impl Replay {
    /// From nothing.
    pub(crate) fn new(place: &str, keep: i64) -> Self {
        Self { place: place.to_owned(), keep, ..Self::default() }
    }

    /// From a state.
    pub(crate) fn of(state: &TableState, place: &str, keep: i64) -> Self {
        Self {
            version: state.version,
            protocol: Some(state.protocol.clone()),
            metadata: Some((Arc::clone(&state.metadata), Some(Arc::clone(&state.schema)))),
            files: state.files.clone(),
            uncounted: BTreeSet::new(),
            tombstones: state.tombstones.clone(),
            txns: state.txns.clone(),
            requests: state.requests.clone(),
            checkpoint: state.checkpoint,
            entry: None,
            place: place.to_owned(),
            keep,
        }
    }

    pub(crate) fn set_checkpoint(&mut self, version: u64) {
        self.checkpoint = Some(version);
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Notes what the file of the version has.
    pub(super) fn set_entry(&mut self, digest: EntryDigest) {
        self.entry = Some(digest);
    }

    /// Takes in the actions of a version; those of a commit are an unordered set.
    pub(crate) fn apply(&mut self, version: u64, actions: Vec<Action>) -> Result<()> {
        self.version = version;
        let (mut added, mut removed) = (BTreeSet::new(), BTreeSet::new());
        let (mut adds, mut removes, mut requests) = (Vec::new(), Vec::new(), Vec::new());
        for action in actions {
            match action {
                Action::CommitInfo(_) => {}
                Action::Protocol(protocol) => {
                    protocol::check_readable(&protocol)?;
                    self.protocol = Some(protocol);
                }
                Action::MetaData(metadata) => {
                    // What was read by a schema that stays is not read again.
                    let known = self.metadata.take().filter(|(known, _)| known.has_same_columns(&metadata));
                    self.metadata = Some((Arc::new(metadata), known.and_then(|(_, schema)| schema)));
                }
                Action::Txn(txn) => match Request::of(&txn).map_err(|why| self.corrupt(why))? {
                    Some(done) => requests.push((done.request.id.clone(), Arc::new(done))),
                    None => drop(self.txns.insert(txn.app_id.clone(), txn)),
                },
                Action::Add(add) if !added.insert(add.path.clone()) => {
                    return Err(self.corrupt(format!("version {version} adds {:?} twice", add.path)));
                }
                Action::Add(add) => {
                    self.check_numbers(&add.path, Some(add.size), add.deletion_vector.as_ref())?;
                    if let Some(Err(e)) = add.tag(TAG_FRAGMENT).map(str::parse::<u32>) {
                        return Err(self.corrupt(format!("the tag {TAG_FRAGMENT} of {:?}: {e}", add.path)));
                    }
                    adds.push(add);
                }
                Action::Remove(remove)
                    if !removed.insert((remove.path.clone(), remove.deletion_vector.clone())) =>
                {
                    return Err(self.corrupt(format!("version {version} removes {:?} twice", remove.path)));
                }
                Action::Remove(remove) => {
                    self.check_numbers(&remove.path, remove.size, remove.deletion_vector.as_ref())?;
                    removes.push(self.remove(remove));
                }
            }
        }
        self.requests.extend(requests);
        self.tombstones.extend(removes);
        if version.is_multiple_of(FORGET_EVERY) {
            self.forget();
        }
        adds.into_iter().try_for_each(|add| self.add(add))
    }

    /// That the numbers of a file are as wide as the protocol has them: a checkpoint can hold them.
    fn check_numbers(&self, path: &str, size: Option<u64>, vector: Option<&Descriptor>) -> Result<()> {
        let (long, int) = (|n: u64| i64::try_from(n).is_ok(), |n: u32| i32::try_from(n).is_ok());
        let is_narrow =
            |v: &Descriptor| long(v.cardinality) && int(v.size_in_bytes) && v.offset.is_none_or(int);
        if size.is_none_or(long) && vector.is_none_or(is_narrow) {
            return Ok(());
        }
        Err(self.corrupt(format!("a number of {path:?} is larger than the protocol has it")))
    }

    /// Forgets the ids of writes, and the files, that are old by the log's own time, and the oldest ids of too many.
    fn forget(&mut self) {
        // Default: where there are none, any time.
        let newest = self.requests.iter().map(|(_, done)| done.at_millis).max().unwrap_or(0);
        let mut oldest = newest.saturating_sub(REQUEST_AGE);
        if self.requests.len() > 2 * REQUESTS {
            let mut times: Vec<i64> = self.requests.iter().map(|(_, done)| done.at_millis).collect();
            let (_, median, _) = times.select_nth_unstable(self.requests.len() - REQUESTS);
            oldest = oldest.max(*median);
        }
        self.requests.retain(|done| done.at_millis >= oldest);
        // Default: as above.
        let newest = self.tombstones.iter().map(|(_, at)| *at).max().unwrap_or(0);
        let oldest = newest.saturating_sub(tombstone_age(self.keep));
        self.tombstones.retain(|at| *at >= oldest);
    }

    fn remove(&mut self, remove: Remove) -> ((Arc<str>, Option<Descriptor>), i64) {
        let path: Arc<str> = remove.path.into();
        if self.files.get(&path).is_some_and(|file| file.add.deletion_vector == remove.deletion_vector) {
            self.files.remove(&path);
            self.uncounted.remove(&path);
        }
        // Default: a writer that leaves the time out makes it the oldest.
        ((path, remove.deletion_vector), remove.deletion_timestamp.unwrap_or(0))
    }

    fn add(&mut self, add: Add) -> Result<()> {
        let rows = match add.stats.as_deref().map(num_records).transpose() {
            Ok(rows) => rows.flatten(),
            Err(e) => return Err(self.corrupt(format!("the statistics of {:?}: {e}", add.path))),
        };
        let path: Arc<str> = add.path.as_str().into();
        match rows {
            Some(_) => self.uncounted.remove(&path),
            None => self.uncounted.insert(Arc::clone(&path)),
        };
        // Default: none, until they are counted.
        self.files.insert(path, Arc::new(DataFile::new(add, rows.unwrap_or(0))));
        Ok(())
    }

    /// Files whose number of rows the log does not say.
    pub(crate) fn uncounted(&self) -> Vec<Arc<DataFile>> {
        self.uncounted.iter().filter_map(|path| self.files.get(path).cloned()).collect()
    }

    /// Says how many rows such a file has.
    pub(crate) fn count(&mut self, path: &str, rows: u64) {
        let file = self.files.get_mut(path).invariant("a file that is counted is one of the table");
        *file = Arc::new(DataFile::new(file.add.clone(), rows));
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
                let mapping = protocol::check_metadata(&metadata)?;
                Arc::new(TableSchema::parse(&metadata.schema_string, mapping)?)
            }
        };
        if let Some(Err(e)) = self.txns.get(NEXT_FRAGMENT).map(|txn| u32::try_from(txn.version)) {
            return Err(self.corrupt(format!("the version of {NEXT_FRAGMENT}: {e}")));
        }
        let retention = retention::of_properties(&metadata, &schema.schema, &self.place)?;
        let deletes = deletes::of_properties(&metadata, &self.place)?;
        let fragments = fragments(&self.files, &self.place)?.into();
        Ok(TableState {
            version: self.version,
            protocol,
            metadata,
            schema,
            retention,
            deletes,
            files: self.files,
            tombstones: self.tombstones,
            txns: self.txns,
            requests: self.requests,
            checkpoint: self.checkpoint,
            entry: self.entry,
            fragments,
        })
    }

    fn corrupt(&self, why: String) -> StorageError {
        StorageError::corrupt(self.place.clone(), why)
    }
}
