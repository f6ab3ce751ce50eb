//! The state of a table at a version: what a replay of its log gives.

use std::{collections::BTreeMap, sync::Arc};

use basalt_core::{invariant::Invariant as _, schema::Schema, table::Retention};
use imbl::OrdMap;

use super::{
    EntryDigest,
    actions::{Descriptor, Metadata, Protocol, Txn},
    file::{DataFile, FragmentEntry},
    fragments::{Changed, Files, Fragments},
};
use crate::{data::ColumnStats, deletes::Deletes, error::Result, schema::TableSchema};

/// The transaction id whose version is the next fragment's id.
pub(crate) const NEXT_FRAGMENT: &str = "basalt.nextFragment";
/// The transaction id whose version is that of the commit which has [closed](super::Change::closed) the table; below 0: it
/// is open.
pub(super) const CLOSED: &str = "basalt.closed";

/// Milliseconds for which a table remembers what has left it: for an hour longer than that can be read, in which a
/// vacuum comes by.
pub(crate) fn tombstone_age(keep: i64) -> i64 {
    keep.saturating_add(3600 * 1000)
}

/// A write that is part of the table, by the id that its client gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client's id.
    pub id: String,
    /// A digest of its rows.
    pub digest: RowsDigest,
    /// Its rows.
    pub rows: u64,
}

/// A digest of a write's rows, by its kind: the log keeps it, and a retry may come to a later version of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsDigest {
    /// The first eight bytes of SHA-256, which it was at first.
    Sha256(u64),
    /// XXH3 of 64 bits.
    Xxh3(u64),
}

/// What a digest is of its kind.
type OfDigest = fn(u64) -> RowsDigest;

impl Request {
    /// Of writes with each kind of digest.
    const PREFIXES: [(&str, OfDigest); 2] =
        [("basalt.request:", RowsDigest::Sha256), ("basalt.write:", RowsDigest::Xxh3)];

    pub(crate) fn to_txn(&self, version: u64, now: i64) -> Txn {
        let [(sha256, _), (xxh3, _)] = Self::PREFIXES;
        let (prefix, digest) = match self.digest {
            RowsDigest::Sha256(digest) => (sha256, digest),
            RowsDigest::Xxh3(digest) => (xxh3, digest),
        };
        let app_id = format!("{prefix}{version}:{}:{}", self.rows, self.id);
        Txn { app_id, version: digest.cast_signed(), last_updated: Some(now) }
    }

    /// What a transaction says; `Err` when it is one of these and cannot be read, `Ok(None)` when it is another's.
    pub(super) fn of(txn: &Txn) -> std::result::Result<Option<DoneRequest>, String> {
        let written =
            |(prefix, of): (&str, OfDigest)| txn.app_id.strip_prefix(prefix).map(|written| (written, of));
        let Some((written, of)) = Self::PREFIXES.into_iter().find_map(written) else { return Ok(None) };
        let done = || {
            let mut parts = written.splitn(3, ':');
            let (version, rows, id) =
                (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
            let request = Self { id: id.to_owned(), digest: of(txn.version.cast_unsigned()), rows };
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
pub(super) type Tombstones = OrdMap<(Arc<str>, Option<Arc<Descriptor>>), i64>;

/// The state of a table at one version; immutable. What grows with the table is in persistent maps, so that versions
/// share what they have in common, and a commit costs the logarithm of it.
#[derive(Clone, Debug)]
pub struct TableState {
    pub(crate) version: u64,
    pub(crate) protocol: Protocol,
    pub(crate) metadata: Arc<Metadata>,
    pub(crate) schema: Arc<TableSchema>,
    pub(super) retention: Option<Arc<Retention>>,
    pub(super) deletes: Deletes,
    pub(crate) files: Files,
    pub(super) totals: Totals,
    pub(super) tombstones: Tombstones,
    /// Those that are no clients' writes.
    pub(super) txns: BTreeMap<String, Txn>,
    pub(super) requests: OrdMap<Arc<str>, Arc<DoneRequest>>,
    pub(crate) checkpoint: Option<u64>,
    /// What the file of the version has; `None` where it was not read: it is this process's own, or gone.
    pub(super) entry: Option<EntryDigest>,
    pub(super) fragments: Fragments,
}

/// Sums over all data files.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    rows: u128,
    bytes: u128,
}

impl Totals {
    pub(super) fn add(&mut self, file: &DataFile) {
        self.rows += u128::from(live_rows(file));
        self.bytes += u128::from(file.bytes());
    }

    pub(super) fn remove(&mut self, file: &DataFile) {
        self.rows -= u128::from(live_rows(file));
        self.bytes -= u128::from(file.bytes());
    }
}

fn live_rows(file: &DataFile) -> u64 {
    file.rows.saturating_sub(file.deleted_rows())
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
    pub fn fragments(&self) -> &Fragments {
        &self.fragments
    }

    /// A fragment by its id.
    pub fn fragment(&self, id: u32) -> Option<&FragmentEntry> {
        self.fragments.get(id)
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
        // Default: more than any table has.
        u64::try_from(self.totals.rows).unwrap_or(u64::MAX)
    }

    /// Bytes of its data files.
    pub fn bytes(&self) -> u64 {
        // Default: as above.
        u64::try_from(self.totals.bytes).unwrap_or(u64::MAX)
    }

    /// The id that the next fragment gets.
    pub fn next_fragment(&self) -> u32 {
        let counted = self.txns.get(NEXT_FRAGMENT).map(|txn| u32::try_from(txn.version));
        // Default: the first id, where Basalt has not yet counted, or has no fragments.
        let counted = counted.map_or(0, |id| id.invariant("the next fragment's id was read with the log"));
        // Default: as above.
        let used = self.fragments.last_own().map_or(0, |f| f.id + 1);
        counted.max(used)
    }

    /// The version that has [closed](super::Change::closed) the table, where no later one has opened it.
    pub fn closed_at(&self) -> Option<u64> {
        self.txns.get(CLOSED).and_then(|txn| u64::try_from(txn.version).ok())
    }

    /// The writes with an id that it still knows of, in no particular order.
    pub fn requests(&self) -> impl Iterator<Item = &DoneRequest> {
        self.requests.values().map(|request| &**request)
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
        let stones = self.tombstones.iter().map(|((path, vector), at)| (&**path, vector.as_deref(), *at));
        stones.filter(|(path, vector, _)| {
            self.files.get(*path).is_none_or(|file| file.deletion_vector.as_deref() != *vector)
        })
    }

    /// The same state; what another one has as well is that one's.
    ///
    /// # Errors
    /// None that making the state did not have.
    pub(super) fn sharing(mut self, other: &Self) -> Result<Self> {
        if self.schema == other.schema {
            self.schema = Arc::clone(&other.schema);
        }
        let mut files = other.files.clone();
        let mut changed = Vec::new();
        for (path, before) in &other.files {
            if !self.files.contains_key(path) {
                files.remove(path);
                changed.push(Changed { before: Some(Arc::clone(before)), after: None });
            }
        }
        for (path, file) in &self.files {
            let before = other.files.get(path);
            if before.is_none_or(|before| before != file) {
                let file = match file.summary.is_by(&self.schema) {
                    true => Arc::clone(file),
                    false => Arc::new(file.read_by(file.rows, Some(&self.schema))),
                };
                files.insert(Arc::clone(path), Arc::clone(&file));
                changed.push(Changed { before: before.cloned(), after: Some(file) });
            }
        }
        self.fragments = other.fragments.clone().updated(&files, &changed, self.id())?;
        self.files = files;
        Ok(self)
    }

    /// Keys of a fragment's column, in the order of its type: one that no value is less than, and one that none is greater
    /// than. `None` where they are not known, and of floats, which not all formats order in the same way.
    pub fn bounds(&self, fragment: u32, column: usize) -> Option<(i64, i64)> {
        self.fragments.bounds(fragment, column)
    }

    /// What is known of a column of a data file without reading it.
    pub fn column_stats(&self, file: &DataFile, column: usize) -> ColumnStats {
        match file.summary.is_by(&self.schema) {
            true => file.summary.column(column),
            // A file of another version, which may have other columns.
            false => file.read_by(file.rows, Some(&self.schema)).summary.column(column),
        }
    }

    /// Bytes that the bounds of columns take, and all that is held of data files; without what the maps of them and the
    /// allocator take beside it.
    pub fn held_bytes(&self) -> (u64, u64) {
        let sum = |bytes: fn(&DataFile) -> usize| self.files.values().map(|file| bytes(file) as u64).sum();
        (sum(|file| file.summary.bounds_bytes()), sum(DataFile::held_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A retry that comes to another process is known by the same digest.
    #[test]
    fn a_write_is_read_as_it_was_logged() {
        for digest in [RowsDigest::Sha256(u64::MAX), RowsDigest::Xxh3(7)] {
            let request = Request { id: "a:b".to_owned(), digest, rows: 2 };
            let done = Request::of(&request.to_txn(3, 5)).unwrap();
            assert_eq!(done, Some(DoneRequest { request, version: 3, at_millis: 5 }));
        }
    }
}
