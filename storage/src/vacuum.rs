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
    limits::{LOG_AGE, LOG_ENTRIES, LOG_LEAST_AGE, ORPHAN_AGE},
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
    /// Files that are left.
    pub left: u64,
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
        let found = listed.len() as u64;
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
        let before = state.version().saturating_sub(LOG_ENTRIES);
        let log = old_versions(log, self.keep().max(LOG_AGE), before);
        let mut done = Vacuumed::default();
        for (why, files) in [
            ("it has left the table", left),
            ("it is of a write that was cut off", orphans),
            ("a checkpoint has taken its place", log),
        ] {
            done.add(&files);
            self.store().delete(why, files.into_iter().map(|file| file.path)).await?;
        }
        done.left = found - done.files;
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

/// Files of the log that are older than `age` and stand before the newest checkpoint of which every part is; of the
/// versions before `few` the same by a shorter time.
fn old_versions(log: Vec<Listed>, age: Duration, few: u64) -> Vec<Listed> {
    let (cut, early) = (last_checkpoint(&log, age), last_checkpoint(&log, LOG_LEAST_AGE).min(few));
    let is_old = |file: &Listed| {
        let version = LogFile::of(&file.path).map(|file| file.version());
        version.is_some_and(|version| {
            version < cut && file.age() > age || version < early && file.age() > LOG_LEAST_AGE
        })
    };
    log.into_iter().filter(is_old).collect()
}

/// The version of the newest checkpoint of which every part is older than `age`; 0 without one.
fn last_checkpoint(log: &[Listed], age: Duration) -> u64 {
    let mut checkpoints: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for file in log.iter().filter(|file| file.age() > age) {
        if let Some(LogFile::Checkpoint { version, parts, .. }) = LogFile::of(&file.path) {
            *checkpoints.entry((version, parts)).or_default() += 1;
        }
    }
    let whole = checkpoints.into_iter().rev().find(|((_, parts), found)| parts == found);
    // Default: without a checkpoint every version is needed from the first on.
    whole.map_or(0, |((version, _), _)| version)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn of_many_versions_the_log_keeps_few() {
        let file = |path: String, minutes: u64| Listed {
            path,
            size: 1,
            modified: SystemTime::now() - Duration::from_secs(60 * minutes),
        };
        let commit = |version: u64, minutes| file(format!("_delta_log/{version:020}.json"), minutes);
        let checkpoint =
            |version: u64, minutes| file(format!("_delta_log/{version:020}.checkpoint.parquet"), minutes);
        let removed = |log: Vec<Listed>, few: u64| -> Vec<u64> {
            let removed = old_versions(log, LOG_AGE, few);
            removed.iter().filter_map(|file| LogFile::of(&file.path)).map(|file| file.version()).collect()
        };
        let log = |minutes: u64| -> Vec<Listed> {
            let commits = (0..100).map(|version| commit(version, minutes));
            commits.chain([checkpoint(32, minutes), checkpoint(64, minutes), checkpoint(96, 0)]).collect()
        };
        // For an hour all of them stay, if they are few.
        assert!(removed(log(59), 0).is_empty());
        assert_eq!(removed(log(61), 0).len(), 64 + 1);
        // Of more, those before the newest few go sooner, as far as a checkpoint is behind them that is older, too.
        assert_eq!(removed(log(6), 50), [(0..50).collect::<Vec<_>>(), vec![32]].concat());
        assert_eq!(removed(log(6), 90), [(0..64).collect::<Vec<_>>(), vec![32]].concat());
        assert!(removed(log(4), 90).is_empty());
    }
}
