//! From actions to states: what a log says, version by version.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use basalt_core::invariant::Invariant as _;
use imbl::OrdMap;

use super::{
    EntryDigest,
    actions::{Action, Add, Descriptor, Metadata, Protocol, Remove, Txn},
    file::{DataFile, TAG_FRAGMENT},
    fragments::{Changed, Files, Fragments},
    names, protocol,
    state::{DoneRequest, NEXT_FRAGMENT, Request, TableState, Tombstones, Totals, tombstone_age},
};
use crate::{
    data::{Bounds, num_records},
    deletes,
    error::{Result, StorageError},
    limits::{FORGET_EVERY, REQUEST_AGE, REQUESTS},
    retention,
    schema::TableSchema,
};

/// Files whose bounds share a piece of memory when a table is opened: it stays as long as one of them does.
const NEIGHBOURS: usize = 64;

/// A state in the making.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    version: u64,
    protocol: Option<Protocol>,
    metadata: Option<(Arc<Metadata>, Option<Arc<TableSchema>>)>,
    files: Files,
    /// What the files, the fragments and the sums were of which it began, and by what path's files have changed since.
    base: Option<(Files, Fragments, Totals)>,
    changed: BTreeSet<Arc<str>>,
    /// Whether files were read by another schema than that of the state.
    reread: bool,
    /// Files whose number of rows the log does not say.
    uncounted: BTreeSet<Arc<str>>,
    tombstones: Tombstones,
    /// Whether a path of these was spelled in another way than the one by which files are told apart.
    respelled: bool,
    txns: BTreeMap<String, Txn>,
    requests: OrdMap<Arc<str>, Arc<DoneRequest>>,
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
            base: Some((state.files.clone(), state.fragments.clone(), state.totals)),
            changed: BTreeSet::new(),
            reread: false,
            uncounted: BTreeSet::new(),
            tombstones: state.tombstones.clone(),
            respelled: false,
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

    /// Takes in the actions of a commit, which are an unordered set.
    pub(crate) fn apply(&mut self, version: u64, actions: Vec<Action>) -> Result<()> {
        self.version = version;
        let (mut added, mut removed) = (BTreeSet::new(), BTreeSet::new());
        let (mut adds, mut removes) = (Vec::new(), Vec::new());
        for action in actions {
            match action {
                Action::Add(add) if !added.insert(add.path.clone()) => {
                    return Err(self.corrupt(format!("version {version} adds {:?} twice", add.path)));
                }
                Action::Add(add) => adds.push(add),
                Action::Remove(remove)
                    if !removed.insert((remove.path.clone(), remove.deletion_vector.clone())) =>
                {
                    return Err(self.corrupt(format!("version {version} removes {:?} twice", remove.path)));
                }
                Action::Remove(remove) => removes.push(remove),
                other => self.apply_other(other)?,
            }
        }
        for remove in removes {
            let (path, vector) = (names::spelled(&remove.path).into_owned(), &remove.deletion_vector);
            let file = self.files.get(path.as_str());
            if file.is_some_and(|file| file.deletion_vector.as_deref() == vector.as_ref()) {
                self.changed.insert(path.as_str().into());
                self.files.remove(path.as_str());
                self.uncounted.remove(path.as_str());
            }
            self.remove(remove)?;
        }
        self.forget();
        adds.into_iter().try_for_each(|add| self.add(add))
    }

    /// Takes in some of the actions of a checkpoint, each of which is about something else.
    pub(crate) fn apply_checkpoint(&mut self, version: u64, actions: Vec<Action>) -> Result<()> {
        self.version = version;
        for action in actions {
            match action {
                Action::Add(add) if self.has_as_written(&add.path) => {
                    return Err(self.corrupt(format!("version {version} adds {:?} twice", add.path)));
                }
                Action::Add(add) => self.add(add)?,
                Action::Remove(remove) => {
                    let path = remove.path.clone();
                    if self.remove(remove)? {
                        return Err(self.corrupt(format!("version {version} removes {path:?} twice")));
                    }
                }
                other => self.apply_other(other)?,
            }
        }
        Ok(())
    }

    /// Whether there is a file of this path. A log that spells one file in two ways may have it under both.
    fn has_as_written(&self, path: &str) -> bool {
        self.files.get(&*names::spelled(path)).is_some_and(|file| file.written() == path)
    }

    /// Takes in what is not about a file.
    fn apply_other(&mut self, action: Action) -> Result<()> {
        match action {
            Action::Protocol(protocol) => {
                protocol::check_readable(&protocol)?;
                self.protocol = Some(protocol);
            }
            Action::MetaData(metadata) => {
                // What was read by a schema that stays is not read again.
                let known = self.metadata.take().filter(|(known, _)| known.has_same_columns(&metadata));
                self.reread |= known.is_none() && !self.files.is_empty();
                self.metadata = Some((Arc::new(metadata), known.and_then(|(_, schema)| schema)));
            }
            Action::Txn(txn) => match Request::of(&txn).map_err(|why| self.corrupt(why))? {
                Some(done) => drop(self.requests.insert(done.request.id.as_str().into(), Arc::new(done))),
                None => drop(self.txns.insert(txn.app_id.clone(), txn)),
            },
            Action::CommitInfo(_) | Action::Add(_) | Action::Remove(_) => {}
        }
        Ok(())
    }

    /// The columns of the table; an error of theirs is one of [`finish`](Self::finish).
    fn schema(&mut self) -> Option<Arc<TableSchema>> {
        let (metadata, known) = self.metadata.as_mut()?;
        if known.is_none() {
            let mapping = protocol::check_metadata(metadata).ok()?;
            let parsed = TableSchema::parse(metadata.schema_string.as_deref()?, mapping);
            *known = parsed.ok().map(Arc::new);
        }
        known.clone()
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

    /// Forgets, with every so many versions, the ids of writes, and the files, that are old by the log's own time, and the
    /// oldest ids of too many.
    pub(super) fn forget(&mut self) {
        if !self.version.is_multiple_of(FORGET_EVERY) {
            return;
        }
        // Default: where there are none, any time.
        let newest = self.requests.values().map(|done| done.at_millis).max().unwrap_or(0);
        let mut oldest = newest.saturating_sub(REQUEST_AGE);
        if self.requests.len() > REQUESTS + REQUESTS / 16 {
            let mut times: Vec<i64> = self.requests.values().map(|done| done.at_millis).collect();
            let (_, median, _) = times.select_nth_unstable(self.requests.len() - REQUESTS);
            oldest = oldest.max(*median);
        }
        let old: Vec<_> = self.requests.iter().filter(|(_, done)| done.at_millis < oldest).collect();
        let old: Vec<Arc<str>> = old.into_iter().map(|(id, _)| Arc::clone(id)).collect();
        for id in &old {
            self.requests.remove(id);
        }
        // Default: as above.
        let newest = self.tombstones.values().copied().max().unwrap_or(0);
        let oldest = newest.saturating_sub(tombstone_age(self.keep));
        let old: Vec<_> = self.tombstones.iter().filter(|(_, at)| **at < oldest).collect();
        let old: Vec<_> = old.into_iter().map(|(file, _)| file.clone()).collect();
        for file in &old {
            self.tombstones.remove(file);
        }
    }

    /// Notes that a file has left the table; whether that was known, and not perhaps by another spelling of its path.
    fn remove(&mut self, remove: Remove) -> Result<bool> {
        self.check_numbers(&remove.path, remove.size, remove.deletion_vector.as_ref())?;
        // Default: a writer that leaves the time out makes it the oldest.
        let at = remove.deletion_timestamp.unwrap_or(0);
        let path: Arc<str> = names::spelled(&remove.path).into();
        self.respelled |= *path != *remove.path;
        let file = (path, remove.deletion_vector.map(Arc::new));
        Ok(self.tombstones.insert(file, at).is_some() && !self.respelled)
    }

    fn add(&mut self, add: Add) -> Result<()> {
        self.check_numbers(&add.path, Some(add.size), add.deletion_vector.as_ref())?;
        if let Some(Err(e)) = add.tag(TAG_FRAGMENT).map(str::parse::<u32>) {
            return Err(self.corrupt(format!("the tag {TAG_FRAGMENT} of {:?}: {e}", add.path)));
        }
        let rows = match add.stats.as_deref().map(num_records).transpose() {
            Ok(rows) => rows.flatten(),
            Err(e) => return Err(self.corrupt(format!("the statistics of {:?}: {e}", add.path))),
        };
        let schema = self.schema();
        self.reread |= schema.is_none();
        // Default: none, until they are counted.
        let file = Arc::new(DataFile::new(add, rows.unwrap_or(0), schema.as_ref()));
        let path = Arc::clone(&file.path);
        match rows {
            Some(_) => self.uncounted.remove(&path),
            None => self.uncounted.insert(Arc::clone(&path)),
        };
        if self.base.is_some() {
            self.changed.insert(Arc::clone(&path));
        }
        self.files.insert(path, file);
        Ok(())
    }

    /// Files whose number of rows the log does not say.
    pub(crate) fn uncounted(&self) -> Vec<Arc<DataFile>> {
        self.uncounted.iter().filter_map(|path| self.files.get(path).cloned()).collect()
    }

    /// Says how many rows such a file has.
    pub(crate) fn count(&mut self, path: &str, rows: u64) {
        let schema = self.schema();
        let file = self.files.get(path).invariant("a file that is counted is one of the table");
        let file = Arc::new(file.read_by(rows, schema.as_ref()));
        self.changed.insert(Arc::clone(&file.path));
        self.files.insert(Arc::clone(&file.path), file);
    }

    /// What every log has: the protocol and the metadata that are in force, and in that the schema as text.
    pub(super) fn in_force(&self) -> Result<(&Protocol, &Arc<Metadata>, &str)> {
        let protocol =
            self.protocol.as_ref().ok_or_else(|| self.corrupt("the log has no protocol".into()))?;
        let metadata = self.metadata.as_ref();
        let (metadata, _) = metadata.ok_or_else(|| self.corrupt("the log has no metadata".into()))?;
        let schema = metadata.schema_string.as_deref();
        let schema =
            schema.ok_or_else(|| self.corrupt("the metadata of the log has no schemaString".into()))?;
        Ok((protocol, metadata, schema))
    }

    /// The state.
    pub(crate) fn finish(mut self) -> Result<TableState> {
        let (protocol, metadata, schema) = self.in_force()?;
        let schema = match self.metadata.as_ref().and_then(|(_, known)| known.clone()) {
            Some(known) => known,
            None => Arc::new(TableSchema::parse(schema, protocol::check_metadata(metadata)?)?),
        };
        let (protocol, metadata) = (protocol.clone(), Arc::clone(metadata));
        if let Some(Err(e)) = self.txns.get(NEXT_FRAGMENT).map(|txn| u32::try_from(txn.version)) {
            return Err(self.corrupt(format!("the version of {NEXT_FRAGMENT}: {e}")));
        }
        let retention = retention::of_properties(&metadata, &schema.schema, &self.place)?;
        let deletes = deletes::of_properties(&metadata, &self.place)?;
        if self.reread {
            let by_another = self.files.values().filter(|file| !file.summary.is_by(&schema));
            let again: Vec<_> = by_another.map(|file| file.read_by(file.rows, Some(&schema))).collect();
            for file in again {
                self.files.insert(Arc::clone(&file.path), Arc::new(file));
            }
        }
        let (fragments, totals) = match self.base.take().filter(|_| !self.reread) {
            Some((before, fragments, totals)) => self.changed_since(&before, fragments, totals)?,
            None => {
                self.gather_bounds();
                let mut totals = Totals::default();
                self.files.values().for_each(|file| totals.add(file));
                (Fragments::of(&self.files, &self.place)?, totals)
            }
        };
        Ok(TableState {
            version: self.version,
            protocol,
            metadata,
            schema,
            retention,
            deletes,
            files: self.files,
            totals,
            tombstones: self.tombstones,
            txns: self.txns,
            requests: self.requests,
            checkpoint: self.checkpoint,
            entry: self.entry,
            fragments,
        })
    }

    /// Puts the bounds of files beside those of others, in the order of fragments.
    fn gather_bounds(&mut self) {
        // Default: another writer's files come last, in the order of their names.
        let place = |file: &Arc<DataFile>| file.fragment.unwrap_or(u32::MAX);
        let mut files: Vec<_> =
            self.files.values().map(|file| (place(file), Arc::clone(&file.path))).collect();
        files.sort_by_key(|(place, _)| *place);
        for neighbours in files.chunks(NEIGHBOURS) {
            let found = neighbours.iter().filter_map(|(_, path)| self.files.get(path));
            let bounds: Vec<_> = found.map(|file| file.summary.bounds().clone()).collect();
            for ((_, path), bounds) in neighbours.iter().zip(Bounds::together(&bounds)) {
                // A file that another version has as well has its own already.
                if let Some(file) = self.files.get_mut(path).and_then(Arc::get_mut) {
                    file.summary.set_bounds(bounds);
                }
            }
        }
    }

    /// The fragments and the sums, from those of the state that this began with.
    fn changed_since(
        &self,
        before: &Files,
        fragments: Fragments,
        mut totals: Totals,
    ) -> Result<(Fragments, Totals)> {
        let changed = self
            .changed
            .iter()
            .map(|path| Changed { before: before.get(path).cloned(), after: self.files.get(path).cloned() });
        let changed: Vec<Changed> = changed.collect();
        for file in &changed {
            file.before.iter().for_each(|file| totals.remove(file));
            file.after.iter().for_each(|file| totals.add(file));
        }
        Ok((fragments.updated(&self.files, &changed, &self.place)?, totals))
    }

    fn corrupt(&self, why: String) -> StorageError {
        StorageError::corrupt(self.place.clone(), why)
    }
}
