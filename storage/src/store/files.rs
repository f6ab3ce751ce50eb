//! What a store says of its files.

use std::time::{Duration, SystemTime};

/// What a store says of a file: as long as it stays, so does what the file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(super) size: u64,
    pub(super) modified: SystemTime,
    pub(super) e_tag: Option<String>,
}

/// A file of a listing.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) path: String,
    pub(crate) size: u64,
    pub(crate) modified: SystemTime,
    /// When it was listed, by the clock of this machine, or [another](Self::by).
    pub(crate) seen: SystemTime,
}

impl Listed {
    /// The same, seen no later than at a time.
    pub(crate) fn by(self, clock: SystemTime) -> Self {
        Self { seen: self.seen.min(clock), ..self }
    }

    /// How long ago it was written.
    pub(crate) fn age(&self) -> Duration {
        // Default: what another clock has written later than now is new.
        self.seen.duration_since(self.modified).unwrap_or_default()
    }
}
