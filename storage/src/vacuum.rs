//! Removing files that nothing needs any more.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::{
    deletions,
    environment::millis,
    error::Result,
    limits::{
        KEPT_VERSIONS, LEAST_KEEP, LOG_AGE, LOG_LEAST_AGE, ORPHAN_AGE, PIN_GRACE, PIN_LEASE, READ_GRACE,
    },
    log::{Descriptor, FOLDER, LogFile, TableLog, TableState, features, whole_checkpoints},
    pins::pins_of,
    places,
    store::{Listed, Store},
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
    /// Removes data files and deletion vectors that are part of no version that is retained (see [`at`](Self::at)): those
    /// that left the table longer ago than [`keep`](Self::keep) and a while, and those that Basalt has written and no
    /// version names, from writes that were cut off a day ago. What a pinned version has stays as well. Then the versions
    /// of the log that are older and stand before a checkpoint that is older, too. Files of other names stay, whosever
    /// they are, and so does the log of a table with `v2Checkpoint`. What is removed is logged.
    ///
    /// # Errors
    /// Those of [`refresh`](Self::refresh), with nothing removed: what is needed the newest version says.
    /// [`StorageError::Store`](crate::StorageError::Store); what was removed until then is gone.
    pub async fn vacuum(&self, state: &Arc<TableState>) -> Result<Vacuumed> {
        let state = self.refresh(state).await?;
        let listed = self.store().list("", None).await?;
        let found = listed.len() as u64;
        let now = self.store().now_millis();
        let mut removed = self.unneeded(&state, listed.clone(), now).await?;
        if removed.iter().any(|(_, files)| !files.is_empty()) {
            // They are old by this machine's clock. Others write by theirs.
            let clock = self.store().clock().await?;
            let listed = listed.into_iter().map(|file| file.by(clock)).collect();
            removed = self.unneeded(&state, listed, now.min(millis(clock))).await?;
        }
        let mut done = Vacuumed::default();
        for (why, files) in removed {
            done.add(&files);
            self.store().delete(why, files.into_iter().map(|file| file.path)).await?;
        }
        done.left = found - done.files;
        self.store().delete_leftovers("", ORPHAN_AGE).await;
        Ok(done)
    }

    /// The files of a listing that nothing needs at a time, in milliseconds since 1970, and why.
    async fn unneeded(
        &self,
        state: &Arc<TableState>,
        listed: Vec<Listed>,
        now: i64,
    ) -> Result<[(&'static str, Vec<Listed>); 4]> {
        let (pins, ended) = pins_of(&listed, PIN_LEASE + PIN_GRACE);
        let pinned = self.pinned_states(state, &pins).await?;
        let keep = kept_for(&listed, state.version(), self.keep());
        // Default: for good.
        let keep_millis = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
        let mut needed = files_in(self.store(), state)?;
        let mut gone = BTreeSet::new();
        for (path, vector, at) in state.removed() {
            let files = files_of(self.store(), path, vector);
            if now.saturating_sub(at) > keep_millis { gone.extend(files) } else { needed.extend(files) }
        }

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
        for state in pinned.values() {
            forget_needed(self.store(), &mut [&mut left, &mut orphans], state)?;
        }
        let before = (state.version() + 1).saturating_sub(KEPT_VERSIONS);
        let first_pinned = pinned.keys().next().copied();
        // Whether a checkpoint that may have sidecars is whole a listing does not say.
        let log = match features::is_read_with(&state.protocol, features::V2_CHECKPOINT) {
            true => Vec::new(),
            false => old_versions(log, keep.max(LOG_AGE), before, first_pinned),
        };
        Ok([
            ("it has left the table", left),
            ("it is of a write that was cut off", orphans),
            ("a checkpoint has taken its place", log),
            ("it is a pin whose holder is gone", ended),
        ])
    }
}

/// The data files and deletion vectors of a version.
fn files_in(store: &Store, state: &TableState) -> Result<BTreeSet<String>> {
    let mut files = BTreeSet::new();
    for file in state.files.values() {
        files.insert(places::data_file(store, file)?);
        let vector = file.deletion_vector.as_deref();
        files.extend(vector.map(|vector| deletions::file_of(store, vector)).transpose()?.flatten());
    }
    Ok(files)
}

/// Takes the files that a state needs from those that are to be removed.
fn forget_needed(store: &Store, remove: &mut [&mut Vec<Listed>], state: &TableState) -> Result<()> {
    if remove.iter().all(|files| files.is_empty()) {
        return Ok(());
    }
    let needed = files_in(store, state)?;
    remove.iter_mut().for_each(|files| files.retain(|file| !needed.contains(&file.path)));
    Ok(())
}

/// Whether a file has a name that Basalt gives to data files and deletion vectors.
fn is_ours(path: &str) -> bool {
    let between = |start, end| path.strip_prefix(start).is_some_and(|rest: &str| rest.ends_with(end));
    between("part-", ".zstd.parquet") || between("deletion_vector_", ".bin")
}

/// The files that something removed has used; of other writers' names that cannot be read, none.
fn files_of(store: &Store, path: &str, vector: Option<&Descriptor>) -> Vec<String> {
    let data = percent_encoding::percent_decode_str(path).decode_utf8().ok().map(Into::into);
    let vector = vector.and_then(|vector| deletions::file_of(store, vector).ok().flatten());
    data.into_iter().chain(vector).collect()
}

/// How long what has left the table stays: as long as versions are retained, and a while for reads that began by then. Of
/// too many versions that is as long as the first of the newest was followed by another.
fn kept_for(listed: &[Listed], newest: u64, keep: Duration) -> Duration {
    let second = newest.checked_sub(KEPT_VERSIONS).and_then(|version| {
        let second = Some(LogFile::Commit(version + 2));
        listed.iter().find(|file| LogFile::of(&file.path) == second)
    });
    let grace = READ_GRACE.min(keep);
    // Default: there are no more versions than are kept.
    let by_number = second.map_or(Duration::MAX, |second| second.age().max(LEAST_KEEP));
    keep.min(by_number).saturating_add(grace)
}

/// Files of the log that are older than `age` and stand before the newest checkpoint of which every part is; of the
/// versions before `few` the same by a shorter time. A version from `few` on, and one that is pinned, is made of what
/// stands behind the last checkpoint before it.
fn old_versions(log: Vec<Listed>, age: Duration, few: u64, pinned: Option<u64>) -> Vec<Listed> {
    let first = pinned.map_or(u64::MAX, |pinned| last_checkpoint(&log, Duration::ZERO, pinned));
    let cut = last_checkpoint(&log, age, u64::MAX).min(first);
    let early = last_checkpoint(&log, LOG_LEAST_AGE, few).min(first);
    let is_old = |file: &Listed| {
        let version = LogFile::of(&file.path).map(|file| file.version());
        version.is_some_and(|version| {
            version < cut && file.age() > age || version < early && file.age() > LOG_LEAST_AGE
        })
    };
    log.into_iter().filter(is_old).collect()
}

/// The version of the newest checkpoint, not behind `last`, of which every part is older than `age`; 0 without one.
fn last_checkpoint(log: &[Listed], age: Duration, last: u64) -> u64 {
    let whole = whole_checkpoints(log.iter().filter(|file| file.age() > age));
    let newest = whole.into_keys().rfind(|checkpoint| checkpoint.version <= last);
    // Default: without a checkpoint every version is needed from the first on.
    newest.map_or(0, |checkpoint| checkpoint.version)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn of_many_versions_what_the_newest_need_stays() {
        let minute = Duration::from_secs(60);
        // A version each minute; `newest` was made now.
        let listed = |newest: u64| -> Vec<Listed> {
            let commit = |version: u64| Listed {
                path: format!("_delta_log/{version:020}.json"),
                size: 1,
                modified: SystemTime::now() - minute * u32::try_from(newest - version).unwrap(),
                seen: SystemTime::now(),
            };
            (0..=newest).map(commit).collect()
        };
        let kept = |newest, keep| kept_for(&listed(newest), newest, keep).as_secs() / 60;
        // All of them are retained for as long as they shall be, and files stay for a minute more.
        let last = KEPT_VERSIONS - 1;
        assert_eq!([kept(last, 10 * minute), kept(last, 100_000 * minute)], [11, 100_001]);
        // Of more, the first that is retained is followed by the second, which is that many minutes old.
        let last = KEPT_VERSIONS + 10;
        assert_eq!([kept(last, 10 * minute), kept(last, 100_000 * minute)], [11, KEPT_VERSIONS - 2 + 1]);
        assert_eq!(kept_for(&listed(3), 3, Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn of_many_versions_the_log_keeps_few() {
        let file = |path: String, minutes: u64| Listed {
            path,
            size: 1,
            modified: SystemTime::now() - Duration::from_secs(60 * minutes),
            seen: SystemTime::now(),
        };
        let commit = |version: u64, minutes| file(format!("_delta_log/{version:020}.json"), minutes);
        let checkpoint =
            |version: u64, minutes| file(format!("_delta_log/{version:020}.checkpoint.parquet"), minutes);
        let removed = |log: Vec<Listed>, few: u64| -> Vec<u64> {
            let removed = old_versions(log, LOG_AGE, few, None);
            removed.iter().filter_map(|file| LogFile::of(&file.path)).map(|file| file.version()).collect()
        };
        let log = |minutes: u64| -> Vec<Listed> {
            let commits = (0..100).map(|version| commit(version, minutes));
            commits.chain([checkpoint(32, minutes), checkpoint(64, minutes), checkpoint(96, 0)]).collect()
        };
        // For an hour all of them stay, if they are few.
        assert!(removed(log(59), 0).is_empty());
        assert_eq!(removed(log(61), 0).len(), 64 + 1);
        // Of more, those before the newest few go sooner, as far as a checkpoint is behind them that is older, too, and
        // that the first of the few is made of.
        assert_eq!(removed(log(6), 50), (0..32).collect::<Vec<_>>());
        assert_eq!(removed(log(6), 64), [(0..64).collect::<Vec<_>>(), vec![32]].concat());
        assert_eq!(removed(log(6), 90), [(0..64).collect::<Vec<_>>(), vec![32]].concat());
        assert!(removed(log(4), 90).is_empty());
        // What a pinned version is made of stays, however old it is.
        let pinned = |version| old_versions(log(61), LOG_AGE, 90, Some(version)).len();
        assert_eq!([pinned(100), pinned(64), pinned(63), pinned(31)], [65, 65, 32, 0]);
    }
}
