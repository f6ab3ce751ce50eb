//! Removing files that nothing needs any more.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::{
    data::path_of,
    deletions,
    error::Result,
    limits::{LOG_AGE, ORPHAN_AGE},
    log::{Descriptor, FOLDER, LogFile, TableLog, TableState, now_millis},
    store::Listed,
};

/// What a vacuum has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vacuumed {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Vacuumed {
    pub(crate) fn add(&mut self, files: &[Listed]) {
        self.files += files.len() as u64;
        self.bytes += files.iter().map(|file| file.size).sum::<u64>();
    }
}

impl TableLog {
    /// Removes data files and deletion vectors that are part of no version that is kept: those that left the table
    /// longer ago than [`keep`](Self::keep), and those that Basalt has written and no version names, from writes that
    /// were cut off a day ago. Then the versions of the log that are older and stand before a checkpoint that is older,
    /// too. Files of other names stay, whosever they are. What is removed is logged.
    ///
    /// # Errors
    /// Those of [`refresh`](Self::refresh), with nothing removed: what is needed the newest version says.
    /// [`StorageError::Store`](crate::StorageError::Store); what was removed until then is gone.
    pub async fn vacuum(&self, state: &Arc<TableState>) -> Result<Vacuumed> {
        let state = self.refresh(state).await?;
        let (keep, now) = (self.keep_millis(), now_millis());
        let mut needed = BTreeSet::new();
        for file in state.files.values() {
            needed.insert(path_of(file)?);
            needed.extend(file.add.deletion_vector.as_ref().map(deletions::file_of).transpose()?.flatten());
        }
        let mut gone = BTreeSet::new();
        for (path, vector, at) in state.removed() {
            let files = files_of(path, vector);
            if now.saturating_sub(at) > keep { gone.extend(files) } else { needed.extend(files) }
        }

        let listed = self.store().list("", None).await?;
        let (log, data): (Vec<_>, Vec<_>) =
            listed.into_iter().partition(|file| file.path.starts_with(FOLDER));
        let (mut left, mut orphans) = (Vec::new(), Vec::new());
        for file in data.into_iter().filter(|file| !needed.contains(&file.path)) {
            if gone.contains(&file.path) {
                left.push(file);
            } else if is_ours(&file.path) && file.age() > ORPHAN_AGE + self.keep() {
                orphans.push(file);
            }
        }
        let log = old_versions(log, self.keep().max(LOG_AGE));
        let mut done = Vacuumed::default();
        for (why, files) in [
            ("it has left the table", left),
            ("it is of a write that was cut off", orphans),
            ("a checkpoint has taken its place", log),
        ] {
            done.add(&files);
            self.store().delete(why, files.into_iter().map(|file| file.path)).await?;
        }
        self.store().delete_leftovers("", ORPHAN_AGE).await;
        Ok(done)
    }
}

/// Whether a file has a name that Basalt gives to data files and deletion vectors.
fn is_ours(path: &str) -> bool {
    let between = |start, end| path.strip_prefix(start).is_some_and(|rest: &str| rest.ends_with(end));
    between("part-", ".zstd.parquet") || between("deletion_vector_", ".bin")
}

/// The files that something removed has used; of other writers' names that cannot be read, none.
fn files_of(path: &str, vector: Option<&Descriptor>) -> Vec<String> {
    let data = percent_encoding::percent_decode_str(path).decode_utf8().ok().map(Into::into);
    let vector = vector.and_then(|vector| deletions::file_of(vector).ok().flatten());
    data.into_iter().chain(vector).collect()
}

/// Files of the log before the newest checkpoint of which every part is older than `age`.
fn old_versions(log: Vec<Listed>, age: Duration) -> Vec<Listed> {
    let mut checkpoints: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for file in log.iter().filter(|file| file.age() > age) {
        if let Some(LogFile::Checkpoint { version, parts, .. }) = LogFile::of(&file.path) {
            *checkpoints.entry((version, parts)).or_default() += 1;
        }
    }
    let whole = checkpoints.into_iter().rev().find(|((_, parts), found)| parts == found);
    let Some(((cut, _), _)) = whole else { return Vec::new() };
    let before =
        |file: &Listed| LogFile::of(&file.path).is_some_and(|f| f.version() < cut) && file.age() > age;
    log.into_iter().filter(before).collect()
}
