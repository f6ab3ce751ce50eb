//! Errors as PostgreSQL's clients know them: a SQLSTATE, a message, and where in the statement.

use basalt_proto::v1::ErrorReason;
use pgwire::messages::response::ErrorResponse;
use tonic::Code;

use crate::{status::RequestError, trace};

/// What a client is told.
#[derive(Clone, Debug)]
pub(super) struct Error {
    code: &'static str,
    message: String,
    /// A line and a column of the statement, of which both begin at 1.
    place: Option<(u64, u64)>,
    /// Characters of the client's text up to there, which begin at 1.
    position: Option<usize>,
    fatal: bool,
    /// As which it counts.
    status: Code,
    /// The reason that other doors tell; `None` where a rule of this protocol's own was broken.
    reason: Option<&'static str>,
    /// Where it comes from, as PostgreSQL has it, for clients that look for that.
    routine: Option<&'static str>,
}

pub(super) type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        let (message, status) = (message.into(), Code::InvalidArgument);
        Self { code, message, place: None, position: None, fatal: false, status, reason: None, routine: None }
    }

    /// The client broke the rules of the protocol.
    pub(super) fn protocol(message: impl Into<String>) -> Self {
        Self::new("08P01", message)
    }

    /// What is not supported.
    pub(super) fn unsupported(message: impl Into<String>) -> Self {
        Self::new("0A000", message)
    }

    /// A prepared statement gives other types than its client was told. Drivers prepare it again, some by the routine.
    pub(super) fn retyped() -> Self {
        let error = Self::unsupported("cached plan must not change result type");
        Self { routine: Some("RevalidateCachedQuery"), ..error }
    }

    /// What a message may not be.
    pub(super) fn limit(message: impl Into<String>) -> Self {
        Self::new("54000", message)
    }

    /// A value that is none of its type.
    pub(super) fn value(message: impl Into<String>) -> Self {
        Self::new("22P02", message)
    }

    /// The same, in a row of COPY and one of its columns, of which both begin at 1.
    #[must_use]
    pub(super) fn of_row(self, row: u64, column: usize) -> Self {
        Self { message: format!("row {row}, column {column} of COPY: {}", self.message), ..self }
    }

    pub(super) fn cancelled() -> Self {
        let (status, reason) = (Code::Cancelled, Some("CANCELLED"));
        Self { status, reason, ..Self::new("57014", "canceling statement due to user request") }
    }

    pub(super) fn stopping() -> Self {
        let (status, reason) = (Code::Unavailable, Some("SHUTTING_DOWN"));
        Self { status, reason, ..Self::new("57P01", "terminating connection due to administrator command") }
    }

    /// The connection ends with it.
    #[must_use]
    pub(super) fn fatal(self) -> Self {
        Self { fatal: true, ..self }
    }

    pub(super) fn is_fatal(&self) -> bool {
        self.fatal
    }

    pub(super) fn code(&self) -> &'static str {
        self.code
    }

    pub(super) fn status(&self) -> Code {
        self.status
    }

    pub(super) fn reason(&self) -> Option<&'static str> {
        self.reason
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// The same error, of a statement that stands behind so many characters of the client's text.
    #[must_use]
    pub(super) fn of(mut self, sql: &str, before: usize) -> Self {
        if let Some((line, column)) = self.place.take() {
            self.position = position(sql, line, column).map(|position| before + position);
        }
        self
    }

    pub(super) fn response(&self) -> ErrorResponse {
        let severity = if self.fatal { "FATAL" } else { "ERROR" };
        let mut fields = vec![
            (b'S', severity.to_owned()),
            (b'V', severity.to_owned()),
            (b'C', self.code.to_owned()),
            // A NUL would end the field.
            (b'M', self.message.replace('\0', " ")),
        ];
        fields.extend(trace::current().map(|trace| (b'D', format!("request {}", trace.id()))));
        fields.extend(self.position.map(|position| (b'P', position.to_string())));
        fields.extend(self.routine.map(|routine| (b'R', routine.to_owned())));
        ErrorResponse::new(fields)
    }
}

/// The character of a text at a line and a column; all of them begin at 1.
fn position(sql: &str, line: u64, column: u64) -> Option<usize> {
    let lines = usize::try_from(line.checked_sub(1)?).ok()?;
    let before: usize = sql.split_inclusive('\n').take(lines).map(|line| line.chars().count()).sum();
    Some(before + usize::try_from(column).ok()?)
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Self {
        let place = error.place().and_then(|place| {
            let (line, column) = place.strip_prefix("line ")?.split_once(", column ")?;
            Some((line.parse().ok()?, column.parse().ok()?))
        });
        let message = match (error.place(), place) {
            (Some(other), None) => format!("{} (at {other})", error.message()),
            _ => error.message().to_owned(),
        };
        let (status, reason) = (error.code(), Some(error.reason()));
        Self { place, status, reason, ..Self::new(code(error.kind(), error.message()), message) }
    }
}

/// What messages say of rows that COPY cannot tell apart.
const OF_COPY: [&str; 3] = [" fields, not ", "the quote that ", "a quote stands in a field"];

/// The SQLSTATE of a reason. One reason stands for all that is wrong with a statement: which it is, its words say.
fn code(reason: ErrorReason, message: &str) -> &'static str {
    match reason {
        ErrorReason::TableNotFound => "42P01",
        ErrorReason::ColumnNotFound => "42703",
        ErrorReason::TableExists => "42P07",
        ErrorReason::InvalidName => "42602",
        ErrorReason::InvalidSchema => "42611",
        ErrorReason::InvalidBatch if message.contains("in a column that is not nullable") => "23502",
        ErrorReason::InvalidBatch if OF_COPY.iter().any(|part| message.contains(part)) => "22P04",
        ErrorReason::InvalidBatch | ErrorReason::InvalidSip => "22000",
        ErrorReason::InvalidQuery => of_query(message),
        ErrorReason::TypeMismatch if is_beyond(message) => "22003",
        ErrorReason::TypeMismatch if message.contains("cast") || message.contains("parse") => "22P02",
        ErrorReason::TypeMismatch => "42804",
        ErrorReason::FilterTooDeep | ErrorReason::FilterTooLarge => "54001",
        ErrorReason::DivisionByZero => "22012",
        ErrorReason::Overflow => "22003",
        ErrorReason::VersionGone => "72000",
        ErrorReason::ReadOnly => "25006",
        ErrorReason::PermissionDenied => "42501",
        ErrorReason::Unauthenticated => "28P01",
        ErrorReason::WriteConflict => "40001",
        ErrorReason::RequestInProgress | ErrorReason::RequestIdReused => "55006",
        ErrorReason::MessageTooLarge => "54000",
        ErrorReason::MemoryLimit => "53200",
        ErrorReason::SipQuota => "53400",
        ErrorReason::Overloaded => "53000",
        ErrorReason::ShuttingDown => "57P01",
        ErrorReason::Starting => "57P03",
        ErrorReason::StoreUnavailable => "58030",
        ErrorReason::Incomplete | ErrorReason::PeerProtocol | ErrorReason::InvalidStore => "58000",
        ErrorReason::OutcomeUnknown => "40003",
        ErrorReason::DeadlineExceeded | ErrorReason::Cancelled => "57014",
        ErrorReason::TableDamaged => "XX001",
        ErrorReason::Protocol => "08P01",
        ErrorReason::SipNotFound | ErrorReason::QueryNotFound | ErrorReason::ScopeMismatch => "55000",
        ErrorReason::Internal | ErrorReason::Unspecified => "XX000",
    }
}

/// Whether a value is one that its type has no room for.
fn is_beyond(message: &str) -> bool {
    let message = message.to_lowercase();
    let of_text = || {
        let (text, data_type) = message.split_once("cast string '")?.1.split_once("' to value of ")?;
        let digits = text.trim().trim_start_matches(['-', '+']);
        let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        Some(is_number && (data_type.starts_with("int") || data_type.starts_with("uint")))
    };
    message.contains("can't cast value") || message.contains("overflowing on") || of_text() == Some(true)
}

fn of_query(message: &str) -> &'static str {
    let message = message.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    let beyond = ["not supported", "unsupported", "not implemented", "not yet implemented"];
    if has(&beyond) || has(&["the transaction has changed", "a transaction writes to one table"]) {
        "0A000"
    } else if has(&["non utf-8"]) {
        "22021"
    } else if has(&["cannot be opened"]) {
        "58P01"
    } else if has(&["--copy-root"]) {
        "42501"
    } else if has(&["no function", " takes ", "does not support", "failed to coerce"]) {
        "42883"
    } else if has(&["ambiguous"]) {
        "42702"
    } else if has(&["group by"]) {
        "42803"
    } else if has(&["no parameter"]) {
        "42P02"
    } else if has(&["type"]) {
        "42804"
    } else {
        // Default: what is wrong with a statement is its form.
        "42601"
    }
}

#[cfg(test)]
mod tests {
    use basalt_core::error::{Error as EngineError, ErrorKind};

    use super::*;

    #[test]
    fn errors_have_their_sqlstate_and_their_position() {
        let told = |kind, message: &str| {
            let error: Error = RequestError::from(EngineError::new(kind, message)).into();
            error.code
        };
        assert_eq!(told(ErrorKind::TableNotFound, "no table"), "42P01");
        assert_eq!(told(ErrorKind::DivisionByZero, "division by zero"), "22012");
        assert_eq!(told(ErrorKind::MemoryLimit, "no memory"), "53200");
        assert_eq!(told(ErrorKind::WriteConflict, "again"), "40001");
        assert_eq!(told(ErrorKind::InvalidBatch, "null in a column that is not nullable"), "23502");
        assert_eq!(told(ErrorKind::InvalidBatch, "line 1 of the input: 1 fields, not 2"), "22P04");
        let quote = "line 2 of the input: the quote that opens here is not closed before the file ends";
        assert_eq!(told(ErrorKind::InvalidBatch, quote), "22P04");
        assert_eq!(told(ErrorKind::InvalidQuery, "expected an expression, found FROM"), "42601");
        assert_eq!(told(ErrorKind::InvalidQuery, "no function \"f\""), "42883");
        assert_eq!(told(ErrorKind::InvalidQuery, "sum takes numbers, not Utf8"), "42883");
        assert_eq!(told(ErrorKind::InvalidQuery, "TABLESAMPLE is not supported"), "0A000");

        for (words, state) in [
            ("cannot cast string '99999999999' to value of Int32 type", "22003"),
            ("column \"a\" of type int8: Cannot cast string '-129' to value of Int8 type", "22003"),
            ("can't cast value 3000000000 to type Int32", "22003"),
            ("cannot cast to Decimal128(10, 2). Overflowing on 1e40", "22003"),
            ("cannot cast string '9x' to value of Int32 type", "22P02"),
            ("cannot cast string '99999-01-01' to value of Date32 type", "22P02"),
        ] {
            assert_eq!(told(ErrorKind::TypeMismatch, words), state, "{words}");
        }
        let words = "Encountered non UTF-8 data: invalid utf-8 sequence of 1 bytes from index 0";
        assert_eq!(told(ErrorKind::InvalidQuery, words), "22021");

        let sql = "SELECT\n  é, nothing";
        let error = EngineError::new(ErrorKind::ColumnNotFound, "no column").at("line 2, column 6");
        let error = Error::from(RequestError::from(error)).of(sql, 10);
        assert_eq!(error.position, Some(10 + 7 + 6));
        assert!(error.response().fields.contains(&(b'P', "23".to_owned())));
        let fatal = Error::stopping().fatal().response();
        assert!(fatal.fields.contains(&(b'S', "FATAL".to_owned())));
    }
}
