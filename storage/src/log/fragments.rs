//! Which fragments the files of a version are.

use std::{collections::BTreeMap, sync::Arc};

use basalt_core::{
    invariant::{count, index},
    limits::FRAGMENT_ROWS,
};

use super::state::{DataFile, FIRST_FOREIGN_FRAGMENT, FragmentEntry};
use crate::{
    error::{Result, StorageError},
    limits::FRAGMENTS,
};

/// The fragments of a set of files, by id.
///
/// A file of another writer has no id of its own. The hash of its name and of the part is one, in the upper half
/// of all ids; if it is taken, the next that is free, in the order of names: so the ids depend on the version
/// alone, and not on the way by which a reader came to it.
pub(super) fn fragments(
    files: &BTreeMap<Arc<str>, Arc<DataFile>>,
    place: &str,
) -> Result<Vec<FragmentEntry>> {
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
        let own = file.fragment;
        for part in 0..parts {
            let first_row = part * FRAGMENT_ROWS as u64;
            let rows = count(index((file.rows - first_row).min(FRAGMENT_ROWS as u64)));
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
