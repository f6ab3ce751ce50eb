//! What can go wrong in the engine, sorted by what the caller does next.

use std::fmt;

/// The result of everything in the engine that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason of an [`Error`]: a closed list. The server maps each to one gRPC code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum ErrorKind {
    // Ask for something else.
    TableNotFound,
    ColumnNotFound,
    TableExists,
    // Mend the store, or drop the table.
    TableDamaged,
    // Fix the request.
    InvalidName,
    InvalidSchema,
    InvalidBatch,
    InvalidQuery,
    InvalidSip,
    TypeMismatch,
    FilterTooDeep,
    FilterTooLarge,
    // The data does not allow this answer.
    DivisionByZero,
    Overflow,
    // Ask again with the current version.
    VersionGone,
    ScopeMismatch,
    WriteConflict,
    // The table's bytes are not there now, or are no table that can be read.
    Unavailable,
    Unreadable,
    // Ask for less, or later.
    MemoryLimit,
    DeadlineExceeded,
    Cancelled,
    // Bytes that should be an encoded column are not.
    Corrupt,
}

/// An error: why, in words, and where in the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    place: Option<String>,
    passing: bool,
}

impl Error {
    /// An error of `kind`; `message` is a sentence for a person, without a full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), place: None, passing: false }
    }

    /// The same error, of what may be there later: memory that others hold.
    #[must_use]
    pub fn passing(self) -> Self {
        Self { passing: true, ..self }
    }

    /// Whether the same request may succeed later, although its kind does not say so.
    pub fn is_passing(&self) -> bool {
        self.passing
    }

    /// The same error at a place in the request, such as `filter.and[1].compare.left`.
    /// A place that is already set becomes the inner part: `at("filter")` of `and[1]` is `filter.and[1]`.
    #[must_use]
    pub fn at(mut self, place: impl AsRef<str>) -> Self {
        self.place = Some(match self.place.take() {
            Some(inner) => format!("{}.{inner}", place.as_ref()),
            None => place.as_ref().to_owned(),
        });
        self
    }

    /// The reason.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The sentence for a person.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Where in the request, if it is known.
    pub fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{} (at {place})", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {}
