//! Whether a store makes a file only where there is none of its name: that is what keeps two writers from making the
//! same version of a table, each in the place of the other's.

use object_store::{Error, PutMode};
use tokio::time::{Instant, sleep};

use super::{Store, address};
use crate::{
    error::{Result, StorageError},
    limits::{PROBE_DELAY, PROBE_FOR, SMALL_BYTES},
};

/// The folder of the files that are written for that.
const FOLDER: &str = "probes";
/// What they have.
const FIRST: &[u8] = b"Basalt looks whether this file can be replaced by one that must be new.\n";
const SECOND: &[u8] = b"It can.\n";

impl Store {
    /// Makes sure that the store refuses to replace a file by one that must be new. Where it does not let anything be
    /// written, nothing can be replaced either; a local directory and what is in memory are known.
    ///
    /// # Errors
    /// [`StorageError::Address`] for a store that replaces it; [`StorageError::Store`] for one that does not answer.
    pub async fn check_creates(&self) -> Result<()> {
        if self.is_local() {
            return Ok(());
        }
        let (until, mut pause) = (Instant::now() + PROBE_FOR, PROBE_DELAY);
        loop {
            // Of each try a name of its own: what was written behind a try that failed is not taken for the store's fault.
            let path = format!("{FOLDER}/{}", self.new_id());
            let probed = self.probe(&path).await;
            // A few bytes, where it stays.
            if let Err(error) = self.delete_mark("it was there to try the store", &path).await {
                tracing::debug!(%error, "removing what the store was tried with");
            }
            let error = match probed {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    let why = "it replaces a file by one that was written to be new (PUT with If-None-Match: *): of two \
                               writers of one version both would be told that theirs is there. Use a store that \
                               supports conditional writes";
                    return Err(address(self.url(), why));
                }
                Err(error) => error,
            };
            if is_denied(&error) {
                tracing::warn!(%error, "the store lets nothing be written");
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(error);
            }
            tracing::warn!(%error, "whether the store replaces files is not known yet; trying again");
            sleep(pause).await;
            pause = (pause * 2).min(PROBE_FOR / 10);
        }
    }

    /// `false`: a second file took the place of the first.
    async fn probe(&self, path: &str) -> Result<bool> {
        // What the client tries again in itself may find what it has written.
        if !self.put_new(path, FIRST).await? && !self.has_first(path).await? {
            return Err(self.missing(path));
        }
        Ok(!self.put_new(path, SECOND).await? && self.has_first(path).await?)
    }

    /// As [`create`](Store::create), of what is never part of a table.
    async fn put_new(&self, path: &str, bytes: &'static [u8]) -> Result<bool> {
        match self.objects.put_opts(&self.place(path)?, bytes.into(), PutMode::Create.into()).await {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            Err(e) => Err(self.error(path, e)),
        }
    }

    async fn has_first(&self, path: &str) -> Result<bool> {
        Ok(self.get_known(path, SMALL_BYTES).await? == FIRST)
    }
}

/// Whether a store has said that this may not be written.
fn is_denied(error: &StorageError) -> bool {
    let StorageError::Store { source, .. } = error else { return false };
    matches!(source, Error::PermissionDenied { .. } | Error::Unauthenticated { .. })
}
