//! Errors on the wire: the engine's kinds to the reasons of `basalt/v1/error.proto`, and those to gRPC codes
//! with `google.rpc` details.

use std::{collections::HashMap, time::Duration};

use basalt_core::error::{Error, ErrorKind};
use basalt_proto::v1::ErrorReason;
use basalt_storage::StorageError;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::{limits, told::Told, trace};

/// The `domain` of every `google.rpc.ErrorInfo`.
const DOMAIN: &str = "basalt";

/// By which `google.rpc.ErrorInfo` has the id of the request, as its log lines have it.
const REQUEST_ID: &str = "request_id";

/// Errors of the store that the log has.
static TOLD: Told = Told::new();

/// What a request comes to.
pub(crate) type Result<T> = std::result::Result<T, RequestError>;

/// Why a request failed, before it becomes a [`Status`].
#[derive(Clone, Debug)]
pub(crate) struct RequestError {
    reason: ErrorReason,
    message: String,
    place: Option<String>,
    metadata: Vec<(&'static str, u64)>,
    /// The same request may succeed later, although its reason does not say so.
    later: bool,
    /// What is wrong with the store, where that is known.
    fault: Option<Fault>,
}

/// What an error says of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It did not answer.
    Outage,
    /// A file is not there that should be. It may be on its way.
    Missing,
    /// What is there is not what it should be.
    Damage,
}

impl RequestError {
    /// An error; `message` is a sentence for a person, without a full stop.
    pub(crate) fn new(reason: ErrorReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), place: None, metadata: Vec::new(), later: false, fault: None }
    }

    /// The client broke the rules of a method.
    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::new(ErrorReason::Protocol, message)
    }

    /// A failure of the server itself: what happened stands in its log.
    pub(crate) fn internal() -> Self {
        Self::new(ErrorReason::Internal, "the server failed on this request; its log says more")
    }

    pub(crate) fn deadline() -> Self {
        Self::new(ErrorReason::DeadlineExceeded, "the deadline passed before the answer was ready")
    }

    /// The same error at a place in the request; one that has a place already is inside of this one.
    pub(crate) fn at(mut self, place: impl AsRef<str>) -> Self {
        let place = place.as_ref();
        self.place = Some(self.place.map_or_else(|| place.to_owned(), |inner| format!("{place}.{inner}")));
        self
    }

    /// The same error with a number for programs, such as the limit that was exceeded.
    pub(crate) fn with(mut self, key: &'static str, value: u64) -> Self {
        self.metadata.push((key, value));
        self
    }

    /// The same error, of a request that may succeed later.
    pub(crate) fn retryable(self) -> Self {
        Self { later: true, ..self }
    }

    /// Whether the same request may succeed later, although its reason does not say so.
    pub(crate) fn is_retryable(&self) -> bool {
        self.later
    }

    /// Another write was faster; the same may succeed on what it left.
    pub(crate) fn is_conflict(&self) -> bool {
        self.reason == ErrorReason::WriteConflict
    }

    /// The same error in other words.
    pub(crate) fn with_message(self, message: String) -> Self {
        Self { message, ..self }
    }

    /// The same error for another reason.
    pub(crate) fn with_reason(self, reason: ErrorReason) -> Self {
        Self { reason, ..self }
    }

    /// The store did not answer, which says nothing of what is there.
    pub(crate) fn is_outage(&self) -> bool {
        self.fault == Some(Fault::Outage)
    }

    /// A file of the store is not there, which may come later.
    pub(crate) fn is_of_missing(&self) -> bool {
        self.fault == Some(Fault::Missing)
    }

    /// A file of the store is not what it should be: waiting does not help.
    pub(crate) fn is_of_damage(&self) -> bool {
        self.fault == Some(Fault::Damage)
    }

    /// What is in the store is not what it should be, or the store does not answer.
    pub(crate) fn is_of_store(&self) -> bool {
        matches!(self.reason, ErrorReason::StoreUnavailable | ErrorReason::InvalidStore)
    }

    /// There was no memory for it, at that moment.
    pub(crate) fn is_of_memory(&self) -> bool {
        self.reason == ErrorReason::MemoryLimit
    }

    /// As an error of the engine, for every request for a table.
    pub(crate) fn to_engine(&self) -> Error {
        let kind = match self.reason {
            ErrorReason::InvalidStore => ErrorKind::Unreadable,
            ErrorReason::TableDamaged => ErrorKind::TableDamaged,
            ErrorReason::MemoryLimit => ErrorKind::MemoryLimit,
            ErrorReason::Internal => ErrorKind::Corrupt,
            _ => ErrorKind::Unavailable,
        };
        let error = Error::new(kind, self.message.clone());
        if self.later { error.passing() } else { error }
    }

    pub(crate) fn code(&self) -> Code {
        class(self.reason).0
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Whether the same request may succeed later, although its reason does not say so.
    #[cfg(test)]
    pub(crate) fn is_later(&self) -> bool {
        self.later
    }

    /// Where in the request.
    pub(crate) fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }

    /// The reason.
    #[cfg(feature = "sql")]
    pub(crate) fn kind(&self) -> ErrorReason {
        self.reason
    }

    /// The reason as it stands in `ErrorInfo`.
    pub(crate) fn reason(&self) -> &'static str {
        name(self.reason)
    }

    /// What a status of ours, such as another node's, says went wrong; `None` where it is not ours: the way broke.
    pub(crate) fn of_peer(status: &Status) -> Option<Self> {
        let details = status.get_error_details();
        let info = details.error_info().filter(|info| info.domain == DOMAIN)?;
        let reason = ErrorReason::from_str_name(&format!("ERROR_REASON_{}", info.reason))?;
        let place = details.bad_request().and_then(|bad| bad.field_violations.first()).cloned();
        let (message, place) = match place {
            Some(violation) => (violation.description, Some(violation.field)),
            None => (status.message().to_owned(), None),
        };
        let later = details.retry_info().is_some();
        Some(Self { reason, message, place, metadata: Vec::new(), later, fault: None })
    }

    /// What went wrong while a message was read: what tonic invents itself, and why its bytes were not taken. `None` for
    /// anything else.
    pub(crate) fn of_reading(status: &Status) -> Option<Self> {
        if let Some(error) = Self::of_peer(status) {
            return Some(error);
        }
        let text = status.message();
        Some(match status.code() {
            Code::OutOfRange if text.contains("message length too large") => {
                let message =
                    format!("a message is over the limit of {} bytes: {text}", limits::MESSAGE_BYTES);
                Self::new(ErrorReason::MessageTooLarge, message)
                    .with("limit_bytes", limits::MESSAGE_BYTES as u64)
            }
            Code::Internal if text.contains("recursion limit") => {
                let depth = basalt_core::limits::MAX_FILTER_DEPTH;
                Self::new(
                    ErrorReason::FilterTooDeep,
                    format!("the message nests too deep; a filter may {depth} levels"),
                )
            }
            Code::Internal if text.starts_with("h2 ") => {
                Self::new(ErrorReason::Cancelled, format!("the stream broke: {text}"))
            }
            Code::Internal => Self::protocol(text),
            Code::Cancelled | Code::Unknown | Code::Unavailable => {
                Self::new(ErrorReason::Cancelled, format!("the stream broke: {text}"))
            }
            _ => return None,
        })
    }
}

impl From<Error> for RequestError {
    fn from(error: Error) -> Self {
        if error.kind() == ErrorKind::Corrupt {
            tracing::error!(%error, "corrupt column");
        }
        Self {
            reason: reason(error.kind()),
            message: error.message().to_owned(),
            place: error.place().map(ToOwned::to_owned),
            metadata: Vec::new(),
            later: error.is_passing(),
            fault: None,
        }
    }
}

impl From<StorageError> for RequestError {
    fn from(error: StorageError) -> Self {
        let reason = match &error {
            StorageError::Invalid(error) => return error.clone().into(),
            StorageError::Address { .. }
            | StorageError::NoTable { .. }
            | StorageError::Replaced { .. }
            | StorageError::Unsupported { .. }
            | StorageError::Limit { .. } => ErrorReason::InvalidStore,
            StorageError::Exists { .. } => ErrorReason::WriteConflict,
            StorageError::Unknown { .. } => ErrorReason::OutcomeUnknown,
            // What is corrupt may be whole again when the store is mended.
            _ => ErrorReason::StoreUnavailable,
        };
        // Every look at the store, once a second for each table, may come to the same.
        let is_logged = matches!(reason, ErrorReason::StoreUnavailable | ErrorReason::OutcomeUnknown)
            || matches!(error, StorageError::Limit { .. });
        if is_logged && TOLD.is_due(&error.to_string()) {
            tracing::error!(%error, "the store failed");
        }
        let fault = match &error {
            StorageError::Missing { .. } => Some(Fault::Missing),
            StorageError::Corrupt { .. } => Some(Fault::Damage),
            error => error.is_outage().then_some(Fault::Outage),
        };
        // Where the store is stands in the log alone: whoever reads a table need not know.
        Self { fault, ..Self::new(reason, error.without_places()) }
    }
}

impl From<RequestError> for Status {
    fn from(error: RequestError) -> Self {
        let (code, retry) = class(error.reason);
        let retry = retry.or(error.later.then_some(limits::RETRY_DELAY));
        let mut metadata: HashMap<_, _> =
            error.metadata.iter().map(|(k, v)| ((*k).to_owned(), v.to_string())).collect();
        if let Some(trace) = trace::current() {
            metadata.insert(REQUEST_ID.to_owned(), trace.id().to_string());
        }
        let mut details = ErrorDetails::with_error_info(error.reason(), DOMAIN, metadata);
        if let Some(place) = &error.place {
            details.add_bad_request_violation(shorten(place), shorten(&error.message));
        }
        if retry.is_some() {
            details.set_retry_info(retry);
        }
        let message = match &error.place {
            Some(place) => shorten(&format!("{} (at {place})", error.message)),
            None => shorten(&error.message),
        };
        Self::with_error_details(code, message, details)
    }
}

/// The reason of an engine error.
fn reason(kind: ErrorKind) -> ErrorReason {
    match kind {
        ErrorKind::TableNotFound => ErrorReason::TableNotFound,
        ErrorKind::ColumnNotFound => ErrorReason::ColumnNotFound,
        ErrorKind::TableExists => ErrorReason::TableExists,
        ErrorKind::TableDamaged => ErrorReason::TableDamaged,
        ErrorKind::InvalidName => ErrorReason::InvalidName,
        ErrorKind::InvalidSchema => ErrorReason::InvalidSchema,
        ErrorKind::InvalidBatch => ErrorReason::InvalidBatch,
        ErrorKind::InvalidQuery => ErrorReason::InvalidQuery,
        ErrorKind::InvalidSip => ErrorReason::InvalidSip,
        ErrorKind::TypeMismatch => ErrorReason::TypeMismatch,
        ErrorKind::FilterTooDeep => ErrorReason::FilterTooDeep,
        ErrorKind::FilterTooLarge => ErrorReason::FilterTooLarge,
        ErrorKind::DivisionByZero => ErrorReason::DivisionByZero,
        ErrorKind::Overflow => ErrorReason::Overflow,
        ErrorKind::VersionGone => ErrorReason::VersionGone,
        ErrorKind::ScopeMismatch => ErrorReason::ScopeMismatch,
        ErrorKind::WriteConflict => ErrorReason::WriteConflict,
        ErrorKind::Unavailable => ErrorReason::StoreUnavailable,
        ErrorKind::Unreadable => ErrorReason::InvalidStore,
        ErrorKind::MemoryLimit => ErrorReason::MemoryLimit,
        ErrorKind::DeadlineExceeded => ErrorReason::DeadlineExceeded,
        ErrorKind::Cancelled => ErrorReason::Cancelled,
        ErrorKind::Corrupt => ErrorReason::Internal,
    }
}

/// The gRPC code of a reason, and the time after which the same request may succeed.
fn class(reason: ErrorReason) -> (Code, Option<Duration>) {
    let later = Some(limits::RETRY_DELAY);
    match reason {
        ErrorReason::TableNotFound
        | ErrorReason::ColumnNotFound
        | ErrorReason::SipNotFound
        | ErrorReason::QueryNotFound => (Code::NotFound, None),
        ErrorReason::TableDamaged => (Code::DataLoss, None),
        ErrorReason::PermissionDenied => (Code::PermissionDenied, None),
        ErrorReason::Unauthenticated => (Code::Unauthenticated, None),
        ErrorReason::TableExists | ErrorReason::RequestIdReused => (Code::AlreadyExists, None),
        ErrorReason::InvalidName
        | ErrorReason::InvalidSchema
        | ErrorReason::InvalidBatch
        | ErrorReason::InvalidQuery
        | ErrorReason::InvalidSip
        | ErrorReason::InvalidStore
        | ErrorReason::TypeMismatch
        | ErrorReason::FilterTooDeep
        | ErrorReason::FilterTooLarge
        | ErrorReason::Protocol => (Code::InvalidArgument, None),
        ErrorReason::DivisionByZero | ErrorReason::Overflow => (Code::OutOfRange, None),
        ErrorReason::VersionGone
        | ErrorReason::ScopeMismatch
        | ErrorReason::PeerProtocol
        | ErrorReason::ReadOnly => (Code::FailedPrecondition, None),
        ErrorReason::MessageTooLarge | ErrorReason::MemoryLimit | ErrorReason::SipQuota => {
            (Code::ResourceExhausted, None)
        }
        ErrorReason::Overloaded => (Code::ResourceExhausted, later),
        ErrorReason::ShuttingDown
        | ErrorReason::Starting
        | ErrorReason::StoreUnavailable
        | ErrorReason::Incomplete => (Code::Unavailable, later),
        ErrorReason::RequestInProgress | ErrorReason::WriteConflict => (Code::Aborted, later),
        // Nobody is told to send again what may be there.
        ErrorReason::OutcomeUnknown => (Code::Unknown, None),
        ErrorReason::DeadlineExceeded => (Code::DeadlineExceeded, None),
        ErrorReason::Cancelled => (Code::Cancelled, None),
        ErrorReason::Internal | ErrorReason::Unspecified => (Code::Internal, None),
    }
}

/// The name of a reason without its prefix.
fn name(reason: ErrorReason) -> &'static str {
    let name = reason.as_str_name();
    name.strip_prefix("ERROR_REASON_").unwrap_or(name)
}

/// Cuts a text that travels in a header.
fn shorten(text: &str) -> String {
    if text.len() <= limits::ERROR_TEXT_BYTES {
        return text.to_owned();
    }
    let mut end = limits::ERROR_TEXT_BYTES;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{} ...", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `error.proto` groups the reasons below a comment with their code.
    #[test]
    fn the_list_and_the_codes_agree_with_the_proto() {
        let proto = include_str!("../../proto/basalt/v1/error.proto");
        let (mut code, mut seen) = (String::new(), 0);
        for line in proto.lines().map(str::trim) {
            if let Some(comment) = line.strip_prefix("// ") {
                // Other comments are sentences about a reason.
                if comment.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
                    code = comment.to_owned();
                }
            } else if let Some((name_in_proto, number)) = line.split_once(" = ")
                && let Some(name_in_proto) = name_in_proto.strip_prefix("ERROR_REASON_")
                && name_in_proto != "UNSPECIFIED"
            {
                let number: i32 = number.trim_end_matches(';').parse().unwrap();
                let reason = ErrorReason::try_from(number).unwrap();
                assert_eq!(name(reason), name_in_proto);
                let spelled = format!("{:?}", class(reason).0);
                assert_eq!(spelled.to_uppercase(), code.replace('_', ""), "{name_in_proto}");
                seen += 1;
            }
        }
        assert_eq!(seen, 39);
    }

    #[test]
    fn details_travel() {
        let error: RequestError = Error::new(ErrorKind::TypeMismatch, "no").at("left").at("filter").into();
        let status = Status::from(error);
        assert_eq!(status.code(), Code::InvalidArgument);
        let details = status.get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!((info.reason.as_str(), info.domain.as_str()), ("TYPE_MISMATCH", "basalt"));
        assert_eq!(details.bad_request().unwrap().field_violations[0].field, "filter.left");
        assert!(details.retry_info().is_none());

        let again = RequestError::of_peer(&status).unwrap();
        assert_eq!(
            (again.reason(), again.message(), again.place()),
            ("TYPE_MISMATCH", "no", Some("filter.left"))
        );
        assert!(RequestError::of_peer(&Status::unavailable("connection refused")).is_none());

        let status = Status::from(RequestError::new(ErrorReason::Overloaded, "é".repeat(5000)));
        assert_eq!(status.get_error_details().retry_info().unwrap().retry_delay, Some(limits::RETRY_DELAY));
        assert!(status.message().len() < 1100);
    }
}
