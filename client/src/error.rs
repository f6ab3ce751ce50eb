//! What can go wrong, with everything the server said about it.

use std::{error::Error as _, fmt, time::Duration};

use arrow_schema::{ArrowError, DataType};
use basalt_sip::SipError;
use tonic_types::{FieldViolation, StatusExt as _};

pub use crate::reason::{Code, ErrorReason};

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a library below.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a call failed.
///
/// ```no_run
/// # async fn example(client: &basalt_client::Client) -> basalt_client::Result<()> {
/// use basalt_client::{Error, ErrorReason};
///
/// match client.table("flights").await {
///     Ok(details) => println!("{} rows", details.table.rows),
///     Err(error) if error.reason() == ErrorReason::TableNotFound => println!("there is none yet"),
///     // The server's sentence, the place in the request and the reason.
///     Err(Error::Server(error)) => println!("{error}: {:?}", error.places),
///     Err(error) if error.is_retryable() => println!("later: {error}"),
///     Err(error) => return Err(error),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is not one.
    #[error("{address:?} is not an address: {message} (an example: http://127.0.0.1:7700)")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        message: String,
    },
    /// A key, or a file with a certificate, that is none.
    #[error("credentials: {0}")]
    Credentials(String),
    /// A header that an [`Interceptor`](crate::Interceptor) may not add.
    #[error("the header {name:?}: {message}")]
    Header {
        /// Its name.
        name: String,
        /// What is wrong with it.
        message: String,
    },
    /// No connection, or it broke during the call.
    #[error("no connection to {address}: {message}")]
    Connection {
        /// The server's address.
        address: String,
        /// What the network said.
        message: String,
        /// All of what it said.
        source: Option<BoxError>,
    },
    /// The server answered with an error.
    #[error(transparent)]
    Server(Box<ServerError>),
    /// The call's deadline passed, and the server had not answered yet.
    #[error("the deadline passed before the answer was complete")]
    Deadline,
    /// A stream ended without its trailer: what came before it is incomplete.
    #[error("the answer is incomplete: the stream ended without its trailer")]
    Incomplete,
    /// An answer that contradicts itself or the API.
    #[error("the server's answer is malformed: {0}")]
    Malformed(String),
    /// An Arrow type that no column of a table has.
    #[error("column {column:?} has the Arrow type {data_type}, which is not one of a table's")]
    UnsupportedType {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// Rows that do not fit the table or the write.
    #[error("{0}")]
    InvalidBatch(String),
    /// What should be a set, or name one, and does not.
    #[error("{0}")]
    InvalidSet(String),
    /// Rows that are not of the type that was asked for.
    #[error("the rows are not of that type: {0}")]
    Rows(#[source] BoxError),
    /// Bytes that are no set.
    #[error(transparent)]
    Sip(#[from] SipError),
    /// Arrow could not read or build something.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// The text of a query is not one.
    #[cfg(feature = "sql")]
    #[error(transparent)]
    Sql(#[from] crate::sql::SqlError),
}

/// An error that the server answered, with its `google.rpc` details decoded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerError {
    /// The canonical gRPC code.
    pub code: Code,
    /// The reason, from the API's closed list; `Unspecified` when the answer had none.
    pub reason: ErrorReason,
    /// The sentence for a person.
    pub message: String,
    /// Where in the request, for bad input; the message may name them too.
    pub places: Vec<Place>,
    /// After how long to try again, where the server said so.
    pub retry_delay: Option<Duration>,
}

/// One place in a request that the server objects to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The path of the field, such as `filter.and[1].compare.left`.
    pub field: String,
    /// What is wrong there.
    pub description: String,
}

impl ServerError {
    /// The reason by its name in the API, such as `TABLE_NOT_FOUND`; the gRPC code's name where there is none.
    pub fn reason_name(&self) -> String {
        match self.reason {
            ErrorReason::Unspecified => format!("{:?}", self.code),
            reason => reason.name().to_owned(),
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        for place in self.places.iter().filter(|p| !self.message.contains(&p.field)) {
            write!(f, " at {}", place.field)?;
        }
        write!(f, " ({})", self.reason_name())
    }
}

impl std::error::Error for ServerError {}

impl Error {
    /// The error of a call to the server at `address`.
    pub(crate) fn from_status(status: &tonic::Status, address: &str) -> Self {
        let details = status.get_error_details();
        let reason =
            details.error_info().and_then(|info| ErrorReason::of_name(&info.reason)).unwrap_or_default();
        if is_timeout(status) {
            return Self::Deadline;
        }
        // Only what tonic found out by itself has a source: the server said nothing.
        if reason == ErrorReason::Unspecified && status.source().is_some() {
            let (address, message) = (address.to_owned(), network_message(status));
            return Self::Connection { address, message, source: Some(Box::new(status.clone())) };
        }
        let violations = details.bad_request().map(|bad| bad.field_violations.as_slice()).unwrap_or_default();
        let place = |v: &FieldViolation| Place { field: v.field.clone(), description: v.description.clone() };
        Self::Server(Box::new(ServerError {
            code: status.code().into(),
            reason,
            message: status.message().to_owned(),
            places: violations.iter().map(place).collect(),
            retry_delay: details.retry_info().and_then(|info| info.retry_delay),
        }))
    }

    /// What the server answered, if it was the server.
    pub fn server(&self) -> Option<&ServerError> {
        match self {
            Self::Server(error) => Some(error),
            _ => None,
        }
    }

    /// The server's reason; `Unspecified` when the error is not from the server.
    pub fn reason(&self) -> ErrorReason {
        self.server().map(|e| e.reason).unwrap_or_default()
    }

    /// Whether the same call may succeed later: the connection broke, the server is not available, another
    /// call with the same request id still runs, or the server said when to try again. After a broken connection, and
    /// when the outcome is not known ([`ErrorReason::OutcomeUnknown`]), a write may be there: send it again with the
    /// same request id alone, as [`Client::write_all`](crate::Client::write_all) does.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Connection { .. } | Self::Incomplete => true,
            Self::Server(e) => {
                e.code == Code::Unavailable
                    || matches!(e.reason, ErrorReason::RequestInProgress | ErrorReason::OutcomeUnknown)
                    || e.retry_delay.is_some()
            }
            _ => false,
        }
    }

    /// After how long to try again, where the server said so.
    pub fn retry_delay(&self) -> Option<Duration> {
        self.server().and_then(|e| e.retry_delay)
    }

    /// What a person might do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Connection { message, .. } if message.contains("TLS alone") => "name it with https://",
            Self::Connection { message, .. } if message.contains("ProtocolVersion") => {
                "does the server have TLS? without, name it with http://"
            }
            Self::Connection { message, .. } if message.contains("UnknownIssuer") => {
                "name the authority that signed its certificate with `--ca FILE`"
            }
            Self::Connection { message, .. } if message.contains("certificate") => {
                "is it the server that you mean? its certificate says otherwise; a server reached by another name needs a \
                 certificate for it: basalt secure FOLDER --renew --host NAME"
            }
            Self::Connection { message, .. } if message.contains("frame with invalid size") => {
                "is this the port for gRPC (--listen), or that of HTTP or of PostgreSQL?"
            }
            Self::Connection { message, .. } if message.contains("broken pipe") => {
                "is this the port for gRPC (--listen)? or the server ended meanwhile"
            }
            Self::Connection { .. } => "is the server running? start one with `basalt serve`",
            Self::Deadline => "allow more time with `--timeout`",
            Self::Server(e) => match e.reason {
                ErrorReason::TableNotFound => "`basalt tables` lists the tables",
                ErrorReason::TableDamaged => {
                    "`basalt verify TABLE` names what is damaged; a copy of it from a backup is taken up again by itself"
                }
                ErrorReason::Unauthenticated => "a key goes with `--key-file FILE`, or in BASALT_KEY",
                ErrorReason::ColumnNotFound => "`basalt describe TABLE` lists the columns",
                ErrorReason::SipNotFound => "kept sets end with their time: select it again",
                ErrorReason::QueryNotFound => "it may have ended: `basalt queries` lists those that run",
                ErrorReason::SipQuota => "kept sets take memory until their time is over: keep them for less",
                ErrorReason::DeadlineExceeded => "allow more time with `--timeout`",
                ErrorReason::OutcomeUnknown => "look at the table before you write the rows again",
                ErrorReason::MemoryLimit if e.message.starts_with("the key ") => {
                    "ask for less at once, end other requests of this key, or have its quota raised"
                }
                ErrorReason::MemoryLimit if e.retry_delay.is_none() => {
                    "ask for less at once, or give the server more `--memory`"
                }
                ErrorReason::MemoryLimit => {
                    "try again later; if nothing else runs, drop a table or give the server more `--memory`"
                }
                ErrorReason::Starting => "try again when it has: `basalt health --wait 60s` waits for that",
                ErrorReason::Overloaded | ErrorReason::ShuttingDown => "try again later",
                _ => return None,
            },
            _ => return None,
        })
    }
}

fn is_timeout(status: &tonic::Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<tonic::TimeoutExpired>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The innermost cause: the outer ones only say "transport error".
pub(crate) fn network_message(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use tonic::Code;
    use tonic_types::ErrorDetails;

    use super::*;

    fn check(code: Code, details: ErrorDetails, display: &str, retryable: bool) {
        let status = tonic::Status::with_error_details(code, "no such table: flights", details);
        let error = Error::from_status(&status, "http://127.0.0.1:7700");
        assert_eq!(error.to_string(), display);
        assert_eq!(error.is_retryable(), retryable, "{display}");
    }

    #[test]
    fn details_are_decoded() {
        let info = |reason: &str| ErrorDetails::with_error_info(reason, "basalt", []);
        check(Code::NotFound, info("TABLE_NOT_FOUND"), "no such table: flights (TABLE_NOT_FOUND)", false);
        check(Code::NotFound, info("FROM_THE_FUTURE"), "no such table: flights (NotFound)", false);
        check(Code::Unavailable, info("SHUTTING_DOWN"), "no such table: flights (SHUTTING_DOWN)", true);
        check(Code::Unknown, info("OUTCOME_UNKNOWN"), "no such table: flights (OUTCOME_UNKNOWN)", true);
        check(
            Code::Aborted,
            info("REQUEST_IN_PROGRESS"),
            "no such table: flights (REQUEST_IN_PROGRESS)",
            true,
        );

        let mut details = info("TYPE_MISMATCH");
        details.add_bad_request_violation("filter.compare.right", "text");
        let display = "no such table: flights at filter.compare.right (TYPE_MISMATCH)";
        check(Code::InvalidArgument, details, display, false);

        let mut details = info("OVERLOADED");
        details.set_retry_info(Some(Duration::from_millis(250)));
        check(Code::ResourceExhausted, details.clone(), "no such table: flights (OVERLOADED)", true);
        let status = tonic::Status::with_error_details(Code::ResourceExhausted, "busy", details);
        assert_eq!(Error::from_status(&status, "").retry_delay(), Some(Duration::from_millis(250)));
    }

    #[test]
    fn what_the_network_says_is_not_an_answer() {
        let cause = std::io::Error::new(std::io::ErrorKind::ConnectionReset, "connection reset");
        let status = tonic::Status::from_error(Box::new(cause));
        let error = Error::from_status(&status, "http://127.0.0.1:7700");
        assert!(matches!(&error, Error::Connection { message, .. } if message == "connection reset"));
        assert!(error.is_retryable() && error.hint().is_some());
    }
}
