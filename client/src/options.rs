//! How a client makes its calls, and writes rows.

use std::time::Duration;

use crate::retry::RetryPolicy;

/// How a [`Client`](crate::Client) makes its calls.
///
/// ```
/// use std::time::Duration;
///
/// use basalt_client::{ClientOptions, RetryPolicy};
///
/// let options = ClientOptions::new()
///     .deadline(Duration::from_secs(10))
///     .try_timeout(Duration::from_secs(2))
///     .retry(RetryPolicy::new().tries(8));
/// assert_eq!(options.retry.tries, 8);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientOptions {
    /// How long a call may take, with all its tries and the waits between them; the server stops its work then. Writes are
    /// as long as their rows, so it only bounds their opening.
    pub deadline: Duration,
    /// How long one try of a call that may be repeated waits for the beginning of its answer before the next one, which
    /// goes to another address where there are several. `None`: as long as the deadline lets it.
    pub try_timeout: Option<Duration>,
    /// How long connecting may take, to each address.
    pub connect_timeout: Duration,
    /// The largest message to accept, in bytes.
    pub max_message_bytes: usize,
    /// When to try again.
    pub retry: RetryPolicy,
}

impl Default for ClientOptions {
    /// 60 seconds for a call, 5 for connecting, 64 MiB for a message, five tries.
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(60),
            try_timeout: None,
            connect_timeout: Duration::from_secs(5),
            max_message_bytes: 64 << 20,
            retry: RetryPolicy::default(),
        }
    }
}

impl ClientOptions {
    /// The default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// With another [`deadline`](Self::deadline).
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// With a [`try_timeout`](Self::try_timeout).
    #[must_use]
    pub fn try_timeout(mut self, timeout: Duration) -> Self {
        self.try_timeout = Some(timeout);
        self
    }

    /// With another [`connect_timeout`](Self::connect_timeout).
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// With another [`max_message_bytes`](Self::max_message_bytes).
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// With another [`retry`](Self::retry) policy.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }
}

/// How rows are written.
///
/// ```
/// use basalt_client::WriteOptions;
///
/// let options = WriteOptions::new().request_id("import 2026-07-01").columns(["day", "total"]).replace_by(["day"]);
/// assert_eq!(options.replace_by, ["day"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Makes a repeated write harmless: rows with an id that was committed before are not added again.
    /// Empty: no such protection. The default is a new UUID.
    pub request_id: String,
    /// The columns that the batches hold, in their order; the others become null. Empty: all of the table's.
    pub columns: Vec<String>,
    /// Rows of the table that have the same values in these columns as a new one are deleted in the same commit.
    /// Empty: none are.
    pub replace_by: Vec<String>,
    /// All rows of the table are deleted in the same commit. Not together with `replace_by`.
    pub replace_all: bool,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            request_id: uuid::Uuid::new_v4().to_string(),
            columns: Vec::new(),
            replace_by: Vec::new(),
            replace_all: false,
        }
    }
}

impl WriteOptions {
    /// The default options, with a request id of their own.
    pub fn new() -> Self {
        Self::default()
    }

    /// With another [`request_id`](Self::request_id).
    #[must_use]
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request_id = id.into();
        self
    }

    /// With [`columns`](Self::columns).
    #[must_use]
    pub fn columns<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.columns = names.into_iter().map(Into::into).collect();
        self
    }

    /// With [`replace_all`](Self::replace_all).
    #[must_use]
    pub fn replace_all(mut self) -> Self {
        self.replace_all = true;
        self
    }

    /// With [`replace_by`](Self::replace_by).
    #[must_use]
    pub fn replace_by<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.replace_by = names.into_iter().map(Into::into).collect();
        self
    }
}
