//! Which versions of a table can be read, and what the log says of them.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::{TableLog, names, state::TableState};
use crate::{
    error::{Result, StorageError},
    limits::{COMMIT_BYTES, CONCURRENT_REQUESTS, KEPT_VERSIONS},
};

/// A version that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadableVersion {
    /// Its number.
    pub version: u64,
    /// When it was committed, in milliseconds since 1970, where that is known.
    pub committed: Option<i64>,
    /// What made it, as its writer calls that; `None`: it does not say so.
    pub operation: Option<String>,
}

impl TableLog {
    /// The versions that can be read, the newest first, up to the first one that cannot. What pins keep beyond that is not
    /// among them.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn readable(&self, newest: &TableState) -> Result<Vec<ReadableVersion>> {
        let read = async |version: u64| {
            let path = names::commit(version);
            let Some(bytes) = self.store.get(&path, COMMIT_BYTES).await? else {
                return Ok::<_, StorageError>(None);
            };
            let (committed, operation) = self.committed(&path, &bytes).await?;
            Ok(Some(ReadableVersion { version, committed, operation }))
        };
        let oldest = newest.version.saturating_sub(KEPT_VERSIONS - 1);
        let all = stream::iter((oldest..=newest.version).rev());
        let mut commits = all.map(read).buffered(CONCURRENT_REQUESTS);
        let (mut versions, now) = (Vec::new(), self.store.now_millis());
        // Whoever cleans up has left nothing of what is before one that is not there.
        while let Some(Some(version)) = commits.try_next().await? {
            let superseded = version.committed;
            versions.push(version);
            // The one before it is retained by the time of this one.
            if superseded.is_none_or(|at| now.saturating_sub(at) > self.keep_millis()) {
                break;
            }
        }
        if versions.is_empty() {
            let version = newest.version;
            versions.push(ReadableVersion { version, committed: None, operation: None });
        }
        Ok(versions)
    }
}
