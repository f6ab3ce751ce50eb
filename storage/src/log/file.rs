//! The data files of a table and the fragments that they are, as memory holds them: for every file of every version that
//! is read, so in few bytes.

use std::sync::Arc;

use basalt_core::{fragment::Source, limits::FRAGMENT_ROWS};
use twox_hash::XxHash3_64;

use super::{
    actions::{Add, Descriptor, StringMap},
    names,
};
use crate::{
    data::{Summary, digest, digest::Digests},
    schema::TableSchema,
};

/// The tag of a data file that says which fragment it is.
pub(crate) const TAG_FRAGMENT: &str = "basalt.fragment";
/// The tag that says how many bytes the fragment takes in memory.
pub(crate) const TAG_ENCODED: &str = "basalt.encodedBytes";

/// Ids from here on are those of files that other writers have made.
pub const FIRST_FOREIGN_FRAGMENT: u32 = 1 << 31;

/// A data file that is part of a table, with the deletion vector that it has at one version.
#[derive(Debug, PartialEq)]
pub struct DataFile {
    pub(super) path: Arc<str>,
    /// As its writer has spelled that, where it is another spelling.
    written: Option<Box<str>>,
    bytes: u64,
    pub(crate) rows: u64,
    modified: i64,
    /// The fragment that it is by its tag, where Basalt has written it.
    pub(super) fragment: Option<u32>,
    encoded: Option<u64>,
    digests: Option<Digests>,
    /// Those that are not fields of their own.
    tags: Option<Box<StringMap>>,
    partition_values: Option<Box<StringMap>>,
    pub(crate) deletion_vector: Option<Arc<Descriptor>>,
    /// That of its first rows: what a fragment is compared by, for every fragment with every version.
    source: Source,
    /// What the log says of its columns.
    pub(crate) summary: Summary,
}

impl DataFile {
    /// Of an action. Without a schema what it says of columns is kept as it is, until [`read_by`](Self::read_by).
    pub(super) fn new(add: Add, rows: u64, schema: Option<&Arc<TableSchema>>) -> Self {
        let vector = add.deletion_vector.as_ref();
        let vector = vector.map(|vector| XxHash3_64::oneshot(vector.unique_id().as_bytes()));
        let path: Arc<str> = names::spelled(&add.path).into();
        let written = (*path != *add.path).then(|| add.path.as_str().into());
        let source = Source {
            rows: source_rows(&path, 0),
            // Default: 0 is no deletion vector.
            deletions: vector.map_or(0, |hash| hash.max(1)),
        };
        // Default: none.
        let mut tags = add.tags.unwrap_or_default();
        let own = |id: &u32| *id < FIRST_FOREIGN_FRAGMENT && rows <= FRAGMENT_ROWS as u64;
        let fragment =
            take(&mut tags, TAG_FRAGMENT, |text| text.parse().ok().filter(own), ToString::to_string);
        let encoded = take(&mut tags, TAG_ENCODED, |text| text.parse().ok(), u64::to_string);
        let digests = tags.remove(digest::TAG).map(|text| text.map(Digests::of_tag));
        // A tag that is null says nothing.
        let digests = digests.flatten();
        let boxed = |map: StringMap| (!map.is_empty()).then(|| Box::new(map));
        Self {
            path,
            written,
            bytes: add.size,
            rows,
            modified: add.modification_time,
            fragment,
            encoded,
            digests,
            tags: boxed(tags),
            partition_values: boxed(add.partition_values),
            deletion_vector: add.deletion_vector.map(Arc::new),
            source,
            summary: Summary::new(add.stats, schema),
        }
    }

    /// The action that the log has of it.
    pub(super) fn to_add(&self, data_change: bool) -> Add {
        // Default: none.
        let mut tags = self.tags.as_deref().cloned().unwrap_or_default();
        let mut tag = |name: &str, value: Option<String>| {
            value.map(|value| tags.insert(name.to_owned(), Some(value)));
        };
        tag(TAG_FRAGMENT, self.fragment.map(|id| id.to_string()));
        tag(TAG_ENCODED, self.encoded.map(|bytes| bytes.to_string()));
        tag(digest::TAG, self.digests.as_ref().map(Digests::to_tag));
        Add {
            path: self.written().to_owned(),
            partition_values: self.partition_values(),
            size: self.bytes,
            modification_time: self.modified,
            data_change,
            stats: self.summary.to_stats(),
            tags: (!tags.is_empty()).then_some(tags),
            deletion_vector: self.deletion_vector.as_deref().cloned(),
        }
    }

    /// The same file, of so many rows and as a schema has its columns.
    pub(super) fn read_by(&self, rows: u64, schema: Option<&Arc<TableSchema>>) -> Self {
        Self::new(self.to_add(false), rows, schema)
    }

    /// Its place below the table, percent-encoded in the one way by which files are told apart.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The same as the log has it.
    pub(super) fn written(&self) -> &str {
        self.written.as_deref().unwrap_or(&self.path)
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its rows, deleted ones included.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// How many of them are deleted.
    pub fn deleted_rows(&self) -> u64 {
        // Default: without a vector none is deleted.
        self.deletion_vector.as_ref().map_or(0, |vector| vector.cardinality)
    }

    /// Names the deletion vector among all that the file ever has; `None` without one.
    pub fn deletion_vector(&self) -> Option<String> {
        self.deletion_vector.as_deref().map(Descriptor::unique_id)
    }

    /// Bytes of its deletion vector.
    pub(crate) fn deletion_vector_bytes(&self) -> u64 {
        // Default: there is none.
        self.deletion_vector.as_ref().map_or(0, |vector| u64::from(vector.size_in_bytes))
    }

    /// Milliseconds since 1970 at which it was made.
    pub fn modified_millis(&self) -> i64 {
        self.modified
    }

    /// The digests of its bytes, where the log has them.
    pub(crate) fn digests(&self) -> Option<&Digests> {
        self.digests.as_ref()
    }

    /// The values that its rows have in columns by which the table is partitioned.
    pub(crate) fn partition_values(&self) -> StringMap {
        // Default: none.
        self.partition_values.as_deref().cloned().unwrap_or_default()
    }

    /// One of them; the inner `None` is null.
    pub(crate) fn partition_value(&self, column: &str) -> Option<Option<&str>> {
        Some(self.partition_values.as_ref()?.get(column)?.as_deref())
    }

    /// Bytes that it takes, without those of the allocator.
    pub(super) fn held_bytes(&self) -> usize {
        // Default: there is none.
        let digests = self.digests.as_ref().map_or(0, Digests::heap_bytes);
        let rest = self.tags.iter().chain(&self.partition_values).map(|map| {
            // Default: null takes nothing.
            let texts = map.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, String::len));
            texts.sum::<usize>() + map.len() * size_of::<(String, Option<String>)>()
        });
        // Default: it has one spelling.
        let path = self.path.len() + self.written.as_ref().map_or(0, |written| written.len());
        size_of::<Self>() + path + digests + self.summary.heap_bytes() + rest.sum::<usize>()
    }
}

impl Add {
    pub(super) fn tag(&self, name: &str) -> Option<&str> {
        self.tags.as_ref()?.get(name)?.as_deref()
    }
}

/// Takes a tag whose text can be had from its value again.
fn take<T>(
    tags: &mut StringMap,
    name: &str,
    parse: impl Fn(&str) -> Option<T>,
    text: impl Fn(&T) -> String,
) -> Option<T> {
    let found = tags.get(name)?.as_deref()?;
    let value = parse(found).filter(|value| text(value) == found)?;
    tags.remove(name);
    Some(value)
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

    /// Whether it is all of its file. The parts of one share its entry of the log, and its deletion vector.
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
        self.file.encoded
    }
}
