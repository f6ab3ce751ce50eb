//! How many files a table has in its folder: a bound, which removing keeps.
//!
//! Every commit leaves a file of rows and one of the log. Merging makes few of many, and a vacuum removes what is not
//! needed any more: by time, and by how many versions there were, so that many small writes do not have to wait for the
//! time. Where that is not enough, writes share versions for longer, and at last wait.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use basalt_core::limits::FRAGMENT_ROWS;
use basalt_proto::v1::ErrorReason;
use tokio::time::Instant;

use super::stored::Stored;
use crate::{limits, status::RequestError};

/// What is known of a table's files.
#[derive(Debug)]
pub(super) struct Files {
    counted: Mutex<Counted>,
}

/// What there was when it was counted.
#[derive(Clone, Copy, Debug)]
struct Counted {
    at: Instant,
    version: u64,
    /// Files beside those of large fragments; `None`: nobody has counted yet.
    files: Option<u64>,
}

impl Counted {
    /// How many there are at a version, at most about.
    fn files_at(&self, version: u64) -> u64 {
        let commits = version.saturating_sub(self.version);
        self.files.unwrap_or(0).saturating_add(commits.saturating_mul(limits::COMMIT_FILES))
    }

    /// Whether it is time to remove what is not needed; others than the owner of a table do that when there is much.
    fn is_due(&self, version: u64, owns: bool) -> bool {
        let interval = if self.files.is_some() { limits::VACUUM_INTERVAL } else { limits::FIRST_VACUUM };
        let enough = version.saturating_sub(self.version) >= limits::VACUUM_COMMITS;
        let many = self.files_at(version) > limits::TABLE_FILES / 2;
        if owns { enough || self.at.elapsed() > interval } else { enough && many }
    }

    /// How long after a commit the next writes are gathered: longer, the nearer the bound is.
    fn delay(&self, version: u64, usual: Duration) -> Duration {
        let half = limits::TABLE_FILES / 2;
        let beyond = self.files_at(version).saturating_sub(half).min(half);
        let share = u32::try_from(beyond * 1000 / half).unwrap_or(1000);
        usual.max(limits::LONGEST_PACE * share / 1000)
    }
}

impl Files {
    pub(super) fn new(version: u64) -> Self {
        Self { counted: Mutex::new(Counted { at: Instant::now(), version, files: None }) }
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stored {
    /// Removes the files that no version needs any longer, when it is time. Of a table that is written to all the time
    /// the versions that can be read are fewer than those of the time for which they are kept: so are the files.
    pub(super) async fn vacuum(&self, owns: bool) -> Result<(), RequestError> {
        let state = self.state();
        if !self.files.counted().is_due(state.version(), owns) {
            return Ok(());
        }
        let removed = self.log.vacuum(&state).await?;
        let large = state.fragments().iter().filter(|entry| entry.rows as usize > FRAGMENT_ROWS / 2).count();
        let files = removed.left.saturating_sub(large as u64);
        *self.files.counted() = Counted { at: Instant::now(), version: state.version(), files: Some(files) };
        if removed.files > 0 {
            let (table, left) = (self.table.name(), removed.left);
            tracing::info!(table, files = removed.files, bytes = removed.bytes, left, "removed old files");
        }
        Ok(())
    }

    /// How long after the last commit writes are gathered for the next.
    pub(super) fn pace(&self, usual: Duration) -> Duration {
        let version = self.state().version();
        self.files.counted().delay(version, usual)
    }

    /// Waits, for a moment, while there are too many files.
    pub(super) async fn make_way(&self) -> Result<(), RequestError> {
        let until = Instant::now() + limits::FILES_PATIENCE;
        loop {
            let version = self.state().version();
            let files = self.files.counted().files_at(version);
            if files < limits::TABLE_FILES {
                return Ok(());
            }
            if Instant::now() > until {
                let table = self.table.name();
                let message = format!(
                    "table {table:?} has {files} small files, which are merged and removed; try again later, or write \
                     more rows at once"
                );
                return Err(RequestError::new(ErrorReason::Overloaded, message));
            }
            tokio::time::sleep(limits::FILES_PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(files: u64) -> Counted {
        Counted { at: Instant::now(), version: 100, files: Some(files) }
    }

    #[test]
    fn files_are_removed_by_the_number_of_commits() {
        let few = counted(10);
        assert!(!few.is_due(100 + limits::VACUUM_COMMITS - 1, true));
        assert!(few.is_due(100 + limits::VACUUM_COMMITS, true));
        assert!(!few.is_due(100 + limits::VACUUM_COMMITS, false), "it is the owner's");
        assert!(counted(limits::TABLE_FILES / 2).is_due(100 + limits::VACUUM_COMMITS, false));
        assert_eq!(few.files_at(101), 10 + limits::COMMIT_FILES);
        assert_eq!(few.files_at(99), 10);
    }

    #[test]
    fn writes_share_versions_for_longer_the_more_files_there_are() {
        let usual = Duration::from_millis(5);
        let delay = |files| counted(files).delay(100, usual);
        let half = limits::TABLE_FILES / 2;
        assert_eq!([delay(0), delay(half)], [usual; 2]);
        assert!(delay(half + half / 2) > usual && delay(half + half / 2) < limits::LONGEST_PACE);
        assert_eq!([delay(2 * half), delay(u64::MAX)], [limits::LONGEST_PACE; 2]);
        assert_eq!(counted(2 * half).delay(100, Duration::from_secs(5)), Duration::from_secs(5));
    }
}
