//! Removing files that nothing needs any more.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    data::path_of,
    deletions,
    error::Result,
    log::{Descriptor, FOLDER, LogFile, TableLog, TableState, now_millis},
    store::Listed,
};

/// How old a file that no version names must be: it may belong to a commit that is still to come.
pub(crate) const ORPHAN_AGE: Duration = Duration::from_secs(24 * 3600);
/// How old a version of the log must be, at least, before a checkpoint takes its place. Who follows and is further
/// behind starts from the checkpoint.
const LOG_AGE: Duration = Duration::from_secs(3600);

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
    /// longer ago than [`keep`](Self::keep), and those that never were part of it, from writes that were cut off a
    /// day ago. Then the versions of the log that are older and stand before a checkpoint that is older, too.
    ///
    /// # Errors
    /// [`StorageError::Store`](crate::StorageError::Store); what was removed until then is gone.
    pub async fn vacuum(&self, state: &TableState) -> Result<Vacuumed> {
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
        let useless = |file: &Listed| {
            !needed.contains(&file.path)
                && (gone.contains(&file.path) || file.age() > ORPHAN_AGE + self.keep())
        };
        let mut files: Vec<_> = data.into_iter().filter(useless).collect();
        files.extend(old_versions(log, self.keep().max(LOG_AGE)));
        let mut done = Vacuumed::default();
        done.add(&files);
        self.store().delete(files.into_iter().map(|file| file.path)).await?;
        self.store().delete_leftovers(ORPHAN_AGE).await?;
        Ok(done)
    }
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
