//! Which fragments the files of a version are.

use std::sync::Arc;

use basalt_core::{
    invariant::{count, index},
    limits::FRAGMENT_ROWS,
};
use imbl::{OrdMap, ordmap::DiffItem};

use super::file::{DataFile, FIRST_FOREIGN_FRAGMENT, FragmentEntry};
use crate::{
    data::Bounds,
    error::{Result, StorageError},
    limits::FRAGMENTS,
};

/// The data files of a version by their paths. Versions share what they have in common.
pub(super) type Files = OrdMap<Arc<str>, Arc<DataFile>>;

/// The fragments of a version by their ids. Versions share what they have in common, so that a commit costs little however
/// many there are.
///
/// A file of another writer has no id of its own. The hash of its name and of the part is one, in the upper half
/// of all ids; if it is taken, the next that is free, in the order of names: so the ids depend on the version
/// alone, and not on the way by which a reader came to it.
#[derive(Clone, Debug, Default)]
pub struct Fragments {
    by_id: OrdMap<u32, Entry>,
    hash: Hash,
}

/// A fragment, and the bounds of its file: they are asked of all fragments, whose files lie anywhere in memory.
#[derive(Clone, Debug)]
struct Entry {
    fragment: FragmentEntry,
    bounds: Bounds,
}

/// Whether it has the same rows with the same ones deleted.
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.fragment.source() == other.fragment.source()
    }
}

/// What differs between two versions.
#[derive(Clone, Debug, Default)]
pub struct Changes<'a> {
    /// Fragments of the later one that the earlier one has not, or has with other deleted rows.
    pub came: Vec<&'a FragmentEntry>,
    /// Fragments of the earlier one whose rows the later one has not under the same id.
    pub went: Vec<&'a FragmentEntry>,
}

/// The hash of a name and of a part of the file.
#[derive(Clone, Copy, Debug)]
struct Hash(fn(&str, u64) -> u32);

impl Default for Hash {
    fn default() -> Self {
        Self(|path, part| {
            let mut hasher = crc32fast::Hasher::new();
            hasher.update(path.as_bytes());
            hasher.update(&part.to_le_bytes());
            hasher.finalize()
        })
    }
}

/// A file that came, went or is another now.
#[derive(Debug)]
pub(super) struct Changed {
    pub(super) before: Option<Arc<DataFile>>,
    pub(super) after: Option<Arc<DataFile>>,
}

impl Fragments {
    /// All, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &FragmentEntry> {
        self.by_id.values().map(|entry| &entry.fragment)
    }

    /// The one of an id.
    pub fn get(&self, id: u32) -> Option<&FragmentEntry> {
        self.by_id.get(&id).map(|entry| &entry.fragment)
    }

    /// The bounds of a column in a fragment, by the schema of the version.
    pub(super) fn bounds(&self, id: u32, column: usize) -> Option<(i64, i64)> {
        self.by_id.get(&id)?.bounds.get(column)
    }

    /// The one with the least id.
    pub fn first(&self) -> Option<&FragmentEntry> {
        self.by_id.get_min().map(|(_, entry)| &entry.fragment)
    }

    /// The last one with an id of Basalt's own.
    pub(super) fn last_own(&self) -> Option<&FragmentEntry> {
        self.by_id.range(..FIRST_FOREIGN_FRAGMENT).next_back().map(|(_, entry)| &entry.fragment)
    }

    /// What differs from another version's, in time that goes with how much that is: what both share is not looked at.
    pub fn since<'a>(&'a self, before: &'a Self) -> Changes<'a> {
        let mut changes = Changes::default();
        for change in before.by_id.diff(&self.by_id) {
            match change {
                DiffItem::Add(_, entry) => changes.came.push(&entry.fragment),
                DiffItem::Remove(_, entry) => changes.went.push(&entry.fragment),
                DiffItem::Update { old: (_, old), new: (_, new) } => {
                    changes.came.push(&new.fragment);
                    if old.fragment.source().rows != new.fragment.source().rows {
                        changes.went.push(&old.fragment);
                    }
                }
            }
        }
        changes
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The fragments of a set of files.
    pub(super) fn of(files: &Files, place: &str) -> Result<Self> {
        Self::default().rebuilt(files, place)
    }

    fn rebuilt(&self, files: &Files, place: &str) -> Result<Self> {
        let mut all = Self { by_id: OrdMap::new(), hash: self.hash };
        for file in files.values() {
            all.put(file, place, true)?;
        }
        Ok(all)
    }

    /// The fragments of a set of files of which some have changed since the set that these are of.
    pub(super) fn updated(self, files: &Files, changed: &[Changed], place: &str) -> Result<Self> {
        let mut next = Self { by_id: self.by_id.clone(), hash: self.hash };
        // Whether a file has the id that it would get among all of them is known as long as no two want the same.
        let free = changed.iter().all(|changed| changed.before.as_ref().is_none_or(|file| next.take(file)));
        if free {
            let mut alone = true;
            for file in changed.iter().filter_map(|changed| changed.after.as_ref()) {
                alone = alone && next.put(file, place, false)?;
            }
            if alone {
                return Ok(next);
            }
        }
        self.rebuilt(files, place)
    }

    fn wanted(&self, file: &DataFile, part: u64) -> u32 {
        file.fragment.unwrap_or_else(|| FIRST_FOREIGN_FRAGMENT | (self.hash.0)(file.path(), part))
    }

    /// Takes the fragments of a file out; `false` when another one may have passed by one of them.
    fn take(&mut self, file: &DataFile) -> bool {
        (0..parts(file)).all(|part| {
            let (mut id, first_row) = (self.wanted(file, part), part * FRAGMENT_ROWS as u64);
            while let Some(Entry { fragment: entry, .. }) = self.by_id.get(&id) {
                if entry.first_row == first_row && entry.file.path() == file.path() {
                    self.by_id.remove(&id);
                    return file.fragment.is_some() || !self.by_id.contains_key(&after(id));
                }
                id = after(id);
            }
            false
        })
    }

    /// Puts the fragments of a file in; `false` when another one has an id of theirs, and they may not pass by it.
    fn put(&mut self, file: &Arc<DataFile>, place: &str, may_pass: bool) -> Result<bool> {
        if file.deleted_rows() > file.rows {
            let why = format!("{} rows of {}, and {} deleted", file.rows, file.path(), file.deleted_rows());
            return Err(StorageError::corrupt(place, why));
        }
        let parts = parts(file);
        let found = parts.saturating_add(self.len() as u64);
        if found > FRAGMENTS as u64 {
            let limit = FRAGMENTS as u64;
            return Err(StorageError::Limit {
                path: place.into(),
                what: "the number of fragments",
                found,
                limit,
            });
        }
        for part in 0..parts {
            let first_row = part * FRAGMENT_ROWS as u64;
            let rows = count(index((file.rows - first_row).min(FRAGMENT_ROWS as u64)));
            let mut id = self.wanted(file, part);
            while self.by_id.contains_key(&id) {
                if file.fragment.is_some() {
                    let why = format!("two files are fragment {id}, {} is one", file.path());
                    return Err(StorageError::corrupt(place, why));
                }
                if !may_pass {
                    return Ok(false);
                }
                id = after(id);
            }
            let fragment = FragmentEntry { id, file: Arc::clone(file), first_row, rows };
            self.by_id.insert(id, Entry { fragment, bounds: file.summary.bounds().clone() });
        }
        Ok(true)
    }
}

fn parts(file: &DataFile) -> u64 {
    file.rows.div_ceil(FRAGMENT_ROWS as u64)
}

/// The id behind one, among those of other writers' files.
fn after(id: u32) -> u32 {
    FIRST_FOREIGN_FRAGMENT | id.wrapping_add(1)
}

impl<'a> IntoIterator for &'a Fragments {
    type Item = &'a FragmentEntry;
    type IntoIter = Box<dyn Iterator<Item = &'a FragmentEntry> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::actions::Add, *};

    fn file(name: u8, rows: u64, own: bool) -> Arc<DataFile> {
        let path = format!("part-{name}");
        let tag = own.then(|| [(super::super::file::TAG_FRAGMENT.to_owned(), Some(name.to_string()))].into());
        let add = Add {
            path,
            partition_values: Default::default(),
            size: 1,
            modification_time: 0,
            data_change: false,
            stats: None,
            tags: tag,
            deletion_vector: None,
        };
        Arc::new(DataFile::new(add, rows, None))
    }

    proptest! {
        /// However ids collide, those of a version are the same whether its files came one by one or all at once.
        #[test]
        fn ids_depend_on_the_version_alone(
            steps in prop::collection::vec((0..24_u8, 0..3_u64, any::<bool>()), 1..60)
        ) {
            // Few homes, and the last of them at the end of all ids.
            let hash = Hash(|path, part| {
                let home = path.bytes().map(u32::from).sum::<u32>().wrapping_add(u32::try_from(part).unwrap() * 3) % 12;
                if home == 0 { u32::MAX } else { home * 3 }
            });
            let mut files = Files::new();
            let mut fragments = Fragments { by_id: OrdMap::new(), hash };
            for (name, parts, own) in steps {
                let after = (parts > 0).then(|| {
                    let rows = if own { 7 } else { parts * FRAGMENT_ROWS as u64 - 5 };
                    file(name, rows, own)
                });
                let path: Arc<str> = format!("part-{name}").into();
                let before = match &after {
                    Some(file) => files.insert(path, Arc::clone(file)),
                    None => files.remove(&path),
                };
                let earlier = fragments.clone();
                fragments = fragments.updated(&files, &[Changed { before, after }], "").unwrap();
                let ids = |changed: &[&FragmentEntry]| changed.iter().map(|f| f.id).collect::<Vec<_>>();
                let others = |of: &Fragments, than: &Fragments| -> Vec<u32> {
                    let is_other = |f: &&FragmentEntry| than.get(f.id).is_none_or(|g| g.source() != f.source());
                    of.iter().filter(is_other).map(|f| f.id).collect()
                };
                let changes = fragments.since(&earlier);
                prop_assert_eq!(ids(&changes.came), others(&fragments, &earlier));
                prop_assert_eq!(ids(&changes.went), others(&earlier, &fragments));
                let shown = |fragments: &Fragments| -> Vec<_> {
                    fragments.iter().map(|f| (f.id, f.file.path().to_owned(), f.first_row, f.rows)).collect()
                };
                let again = Fragments { by_id: OrdMap::new(), hash }.rebuilt(&files, "").unwrap();
                prop_assert_eq!(shown(&fragments), shown(&again));
            }
        }
    }
}
