//! What can go wrong with stored bytes, sorted by what the caller does next.

use std::sync::Arc;

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
