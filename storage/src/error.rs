//! What can go wrong with stored bytes, sorted by what the caller does next.

use std::{io, sync::Arc};

use crate::TableState;

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, StorageError>;

/// Why something on storage could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The store did not answer, or refused: a full disk, a wrong key, a lost connection. Whether a write that
    /// ended so took place is not known.
    #[error("{path}: {source}")]
    Store {
        /// What was read or written.
        path: String,
        /// What the store says.
        source: object_store::Error,
    },
    /// A write failed, and whether it took place, for good, is not known.
    #[error("whether {path} was written is not known: {source}")]
    Unknown {
        /// What was written.
        path: String,
        /// What kept it from being known.
        source: Box<StorageError>,
    },
    /// The address does not name a store that this build can open.
    #[error("{url:?} is not a store: {why}")]
    Address {
        /// As it was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// There is no Delta table.
    #[error("{path} has no Delta table")]
    NoTable {
        /// Its address.
        path: String,
    },
    /// There is another table than before, or another history of it.
    #[error("{path}: {why}")]
    Replaced {
        /// Its address.
        path: String,
        /// What is different.
        why: String,
    },
    /// There is one already.
    #[error("{path} exists")]
    Exists {
        /// Its address.
        path: String,
    },
    /// A file is not there that the log names.
    #[error("{path}: {MISSING}")]
    Missing {
        /// The file.
        path: String,
    },
    /// A file is not what the log says, or the log is not one.
    #[error("{path}: {why}")]
    Corrupt {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// The table uses a part of the protocol, or a type, that Basalt does not know.
    #[error("the table needs {feature}, which Basalt does not support")]
    Unsupported {
        /// The feature, by the name that the protocol has for it.
        feature: String,
    },
    /// Something is larger than Basalt takes.
    #[error("{path}: {what} is {found}; the limit is {limit}")]
    Limit {
        /// The file or table.
        path: String,
        /// What is too large.
        what: &'static str,
        /// How large it is.
        found: u64,
        /// How large it may be.
        limit: u64,
    },
    /// What was to be written is not valid: a schema, or rows that do not fit it.
    #[error(transparent)]
    Invalid(#[from] basalt_core::error::Error),
}

/// What is wrong with a file that is missing.
pub(crate) const MISSING: &str = "the file is missing";

impl StorageError {
    /// An error of what a file holds.
    pub(crate) fn corrupt(path: impl Into<String>, why: impl ToString) -> Self {
        Self::Corrupt { path: path.into(), why: why.to_string() }
    }

    /// An error of a write that may have taken place.
    pub(crate) fn unknown(path: String, source: Self) -> Self {
        Self::Unknown { path, source: Box::new(source) }
    }

    /// The same in words for whoever may not know where the store is: with the name of a file, but without its folder, and
    /// without the words of the store itself, which name both.
    pub fn without_places(&self) -> String {
        let at = |path: &str, what: String| match file_name(path) {
            Some(name) => format!("{name}: {what}"),
            None => what,
        };
        match self {
            Self::Store { path, source } => at(path, said(source)),
            Self::Unknown { path, source } => {
                let what = file_name(path).unwrap_or("a file");
                format!("whether {what} was written is not known: {}", source.without_places())
            }
            Self::Address { url, why } => {
                format!("its address is no store: {}", why.replace(url.as_str(), "the store"))
            }
            Self::NoTable { .. } => "there is no Delta table".to_owned(),
            Self::Replaced { why, .. } => why.clone(),
            Self::Exists { .. } => "there is a table in its folder".to_owned(),
            Self::Missing { path } => at(path, MISSING.to_owned()),
            Self::Corrupt { path, why } => at(path, why.clone()),
            Self::Limit { path, what, found, limit } => {
                at(path, format!("{what} is {found}; the limit is {limit}"))
            }
            Self::Unsupported { feature } => match feature.split_once(" outside of the table (") {
                Some((what, _)) => {
                    format!("the table needs {what} outside of the table, which Basalt does not support")
                }
                None => self.to_string(),
            },
            Self::Invalid(error) => error.to_string(),
        }
    }

    /// Whether a store behind a network does not answer: that says nothing of what is there. What a local directory
    /// does not give is not there.
    pub fn is_outage(&self) -> bool {
        let local = matches!(self, Self::Store { source: object_store::Error::Generic { store, .. }, .. }
            if *store == "LocalFileSystem");
        self.is_transient() && !local
    }

    /// Whether the same call may succeed later: the store's fault, not that of the bytes.
    pub fn is_transient(&self) -> bool {
        use object_store::Error::{Generic, JoinError};
        matches!(self, Self::Store { source: Generic { .. } | JoinError { .. }, .. })
    }
}

/// The name of the file at the end of a path, or words that stand for one; `None` where it may be a folder's.
fn file_name(path: &str) -> Option<&str> {
    match path.rsplit_once('/') {
        Some((_, name)) => (name.contains('.') || name == "_last_checkpoint").then_some(name),
        None => Some(path),
    }
}

/// What a store has said, without the paths and addresses that stand in it: what the system says, where it has.
fn said(error: &object_store::Error) -> String {
    use object_store::Error::{NotFound, PermissionDenied, Unauthenticated};
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(now) = cause {
        if let Some(code) = now.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            let error = io::Error::from_raw_os_error(code);
            // Whoever hears it has a disk of his own, which is another one.
            return match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    format!("the server's store has no space left ({error})")
                }
                _ => error.to_string(),
            };
        }
        cause = now.source();
    }
    match error {
        NotFound { .. } => "the store has no such file".to_owned(),
        PermissionDenied { .. } | Unauthenticated { .. } => "the store refuses it".to_owned(),
        _ => "the store failed; the server's log says more".to_owned(),
    }
}

/// Why a change was not committed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Another commit was first. The change was not made; this is the newer state, on which it can be tried
    /// again if it still makes sense there.
    #[error("another commit was first; the table is at version {}", .0.version())]
    Conflict(Arc<TableState>),
    /// It could not be written, and will not be: nothing of the change is part of the table, nor ever will be.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The store did not say whether it was written, nor could that be found out. It may be part of the table, or
    /// become it later; a [`Request`](crate::Request) of the change tells.
    #[error("whether it was written is not known: {0}")]
    Unknown(StorageError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_place_is_told_to_whoever_may_not_know_it() {
        let path = || "/srv/lake/t/_delta_log/7.json".to_owned();
        let full = || io::Error::from_raw_os_error(28);
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| StorageError::Store {
            path: path(),
            source: object_store::Error::Generic { store: "S3", source },
        };
        for (error, told) in [
            (failed(Box::new(full())), format!("7.json: the server's store has no space left ({})", full())),
            (
                failed(Box::new(io::Error::from_raw_os_error(122))),
                format!(
                    "7.json: the server's store has no space left ({})",
                    io::Error::from_raw_os_error(122)
                ),
            ),
            (
                failed(Box::new(io::Error::from_raw_os_error(5))),
                format!("7.json: {}", io::Error::from_raw_os_error(5)),
            ),
            (
                failed("GET http://10.0.0.1/srv/lake".into()),
                "7.json: the store failed; the server's log says more".to_owned(),
            ),
            (
                StorageError::unknown(path(), failed(Box::new(full()))),
                format!(
                    "whether 7.json was written is not known: 7.json: the server's store has no space left ({})",
                    full()
                ),
            ),
            (
                StorageError::Address { url: "/srv/lake".into(), why: "see /srv/lake/x".into() },
                "its address is no store: see the store/x".to_owned(),
            ),
            (StorageError::NoTable { path: "/srv/lake".into() }, "there is no Delta table".to_owned()),
            (
                StorageError::Replaced { path: "/srv/lake".into(), why: "it was written again".into() },
                "it was written again".to_owned(),
            ),
            (StorageError::Missing { path: path() }, format!("7.json: {MISSING}")),
            (StorageError::corrupt("/srv/lake/t", "it has a hole"), "it has a hole".to_owned()),
            (StorageError::corrupt("the log", "it is none"), "the log: it is none".to_owned()),
            (
                StorageError::Limit { path: path(), what: "its size", found: 2, limit: 1 },
                "7.json: its size is 2; the limit is 1".to_owned(),
            ),
            (
                StorageError::Unsupported { feature: "data files outside of the table (/srv/x)".into() },
                "the table needs data files outside of the table, which Basalt does not support".to_owned(),
            ),
        ] {
            assert_eq!(error.without_places(), told, "{error}");
        }
    }
}
