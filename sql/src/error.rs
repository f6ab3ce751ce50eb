//! What can go wrong with a statement, and where in its text.

use std::{fmt, sync::Arc};

use basalt_core::{
    error::{Error as EngineError, ErrorKind},
    similar,
};
use datafusion::{
    arrow::error::ArrowError,
    common::{DataFusionError, SchemaError},
    sql::sqlparser::parser::ParserError,
};

use crate::elsewhere;

/// What a statement comes to.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a statement failed.
#[derive(Clone, Debug)]
pub enum Error {
    /// What is wrong with it; the place is a line and a column of its text.
    Statement(EngineError),
    /// An error of whoever has the tables.
    Tables {
        /// Theirs.
        error: Arc<dyn std::error::Error + Send + Sync>,
        /// They found no memory.
        no_memory: bool,
    },
    /// A bug, in words for a log.
    Internal(String),
}

impl Error {
    /// A statement that cannot be answered as it is; `message` is a sentence for a person, without a full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::Statement(EngineError::new(kind, message))
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidQuery, message)
    }

    /// SQL that is refused.
    pub(crate) fn unsupported(what: impl fmt::Display) -> Self {
        Self::invalid(format!("{what} is not supported"))
    }

    /// The same error at a place of the text.
    #[must_use]
    pub(crate) fn at(self, line: u64, column: u64) -> Self {
        match self {
            Self::Statement(error) if line > 0 && error.place().is_none() => {
                Self::Statement(error.at(format!("line {line}, column {column}")))
            }
            error => error,
        }
    }

    /// Whether there was no memory for it.
    pub(crate) fn is_of_memory(&self) -> bool {
        match self {
            Self::Statement(error) => error.kind() == ErrorKind::MemoryLimit,
            Self::Tables { no_memory, .. } => *no_memory,
            Self::Internal(_) => false,
        }
    }

    /// What is wrong with the statement, where it is the statement.
    pub fn statement(&self) -> Option<&EngineError> {
        match self {
            Self::Statement(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Statement(error) => error.fmt(f),
            Self::Tables { error, .. } => error.fmt(f),
            Self::Internal(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        Self::Statement(error)
    }
}

/// On its way through DataFusion.
impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        Self::External(Box::new(error))
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        of(&error)
    }
}

/// The error behind those that DataFusion wraps around it, with its place where one of them knows it.
fn of(error: &DataFusionError) -> Error {
    match error {
        DataFusionError::Context(_, inner) => of(inner),
        DataFusionError::Shared(inner) => of(inner),
        DataFusionError::Collection(errors) => {
            errors.first().map_or_else(|| Error::Internal(error.to_string()), of)
        }
        DataFusionError::Diagnostic(diagnostic, inner) => match diagnostic.span {
            Some(span) => of(inner).at(span.start.line, span.start.column),
            None => of(inner),
        },
        DataFusionError::External(inner) => match inner.downcast_ref::<Error>() {
            Some(error) => error.clone(),
            None => match inner.downcast_ref::<DataFusionError>() {
                Some(error) => of(error),
                None => Error::Internal(inner.to_string()),
            },
        },
        DataFusionError::SQL(error, _) => of_parser(error),
        DataFusionError::SchemaError(error, _) => match &**error {
            SchemaError::FieldNotFound { field, valid_fields } => {
                let meant = similar::hint(&field.name, valid_fields.iter().map(|valid| valid.name.as_str()));
                // A name without quotes is in small letters where there is none.
                let is_quoted =
                    field.relation.is_none() && field.name.contains(|c: char| c.is_uppercase() || c == ' ');
                let hint = if is_quoted && meant.is_empty() {
                    format!("; a text stands in single quotes: '{}'", field.name)
                } else {
                    meant
                };
                let message = format!("no column {:?}{hint}", field.flat_name());
                Error::new(ErrorKind::ColumnNotFound, message)
            }
            SchemaError::DuplicateQualifiedField { qualifier, name } => {
                let table = qualifier.table();
                Error::invalid(format!(
                    "there are two columns {table}.{name}: AS gives one of them, or one of two tables {table:?}, another name"
                ))
            }
            other => Error::invalid(sentence(&other.to_string())),
        },
        DataFusionError::Plan(message)
        | DataFusionError::Configuration(message)
        | DataFusionError::NotImplemented(message)
        | DataFusionError::Execution(message) => {
            Error::invalid(elsewhere::told(message).unwrap_or_else(|| sentence(message)))
        }
        DataFusionError::ArrowError(error, _) => of_arrow(error),
        DataFusionError::IoError(error) => of_disk(error),
        DataFusionError::ResourcesExhausted(message) => {
            Error::new(ErrorKind::MemoryLimit, of_memory(message))
        }
        other => Error::Internal(other.to_string()),
    }
}

/// Which limit was met, and what raises it: the planner speaks of its own settings, which nobody has here.
fn of_memory(message: &str) -> String {
    const MORE: &str = "`memory` of the server, or of the key, is how much it may take";
    if message.contains("DiskManager is disabled") {
        return format!(
            "the statement needs more memory than there is for it; {MORE}, and `cache` is a folder for the rest"
        );
    }
    if message.contains("max_temp_directory_size") {
        return format!("what the statement has no memory for takes more of the disk than it may; {MORE}");
    }
    // What was refused stands before the planner's advice.
    let end = message.find("Consider increasing").unwrap_or(message.len());
    match message.contains("datafusion.") || message.contains("sort_spill") {
        true if message[..end].trim().is_empty() => format!("the statement needs more memory; {MORE}"),
        true => format!("{}; {MORE}", sentence(&message[..end])),
        false => sentence(message),
    }
}

/// Where the name of a column stands that there is none of.
pub(crate) fn missing_column(error: &DataFusionError) -> Option<(u64, u64)> {
    let is_missing = |error: &DataFusionError| {
        let mut error = error;
        loop {
            error = match error {
                DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => inner,
                DataFusionError::Shared(inner) => inner,
                DataFusionError::SchemaError(error, _) => {
                    return matches!(**error, SchemaError::FieldNotFound { .. });
                }
                _ => return false,
            };
        }
    };
    match error {
        DataFusionError::Context(_, inner) => missing_column(inner),
        DataFusionError::Shared(inner) => missing_column(inner),
        DataFusionError::Collection(errors) => errors.first().and_then(missing_column),
        DataFusionError::Diagnostic(diagnostic, inner) => {
            let span = diagnostic.span.filter(|_| is_missing(inner))?;
            Some((span.start.line, span.start.column))
        }
        _ => None,
    }
}

/// What writes rows to the disk wraps what this has said.
fn of_disk(error: &std::io::Error) -> Error {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    if matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge) {
        let message = "the disk has no room for what the statement has no memory for";
        return Error::new(ErrorKind::MemoryLimit, message);
    }
    match error.get_ref().and_then(|inner| inner.downcast_ref::<DataFusionError>()) {
        Some(inner) => of(inner),
        None if error.to_string().contains("max_temp_directory_size") => {
            let message = "statements have put on the disk as much as they may, for want of memory";
            Error::new(ErrorKind::MemoryLimit, message)
        }
        None => Error::Internal(error.to_string()),
    }
}

fn of_arrow(error: &ArrowError) -> Error {
    match error {
        ArrowError::ExternalError(inner) => match inner.downcast_ref::<DataFusionError>() {
            Some(error) => of(error),
            None => match inner.downcast_ref::<Error>() {
                Some(error) => error.clone(),
                None => Error::Internal(inner.to_string()),
            },
        },
        ArrowError::IoError(_, error) => of_disk(error),
        ArrowError::DivideByZero => Error::new(ErrorKind::DivisionByZero, "division by zero"),
        ArrowError::ArithmeticOverflow(message) => Error::new(ErrorKind::Overflow, sentence(message)),
        ArrowError::CastError(message) | ArrowError::ParseError(message) => {
            Error::new(ErrorKind::TypeMismatch, sentence(message))
        }
        ArrowError::InvalidArgumentError(message) if message.contains("is too large to store") => {
            Error::new(ErrorKind::Overflow, sentence(message))
        }
        ArrowError::ComputeError(message) if message.contains("overflow") => {
            Error::new(ErrorKind::Overflow, sentence(message))
        }
        ArrowError::InvalidArgumentError(message)
        | ArrowError::ComputeError(message)
        | ArrowError::NotYetImplemented(message) => Error::invalid(sentence(message)),
        other => Error::Internal(other.to_string()),
    }
}

/// The parser writes the place at the message's end.
pub(crate) fn of_parser(error: &ParserError) -> Error {
    let message = match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message.as_str(),
        ParserError::RecursionLimitExceeded => {
            return Error::new(ErrorKind::FilterTooDeep, "the statement is nested too deeply");
        }
    };
    let message = message.replacen("Expected: ", "expected ", 1).replacen(", found: ", ", found ", 1);
    let place = |text: &str| -> Option<(u64, u64)> {
        let (line, column) = text.split_once(", Column: ")?;
        Some((line.parse().ok()?, column.parse().ok()?))
    };
    match message.rsplit_once(" at Line: ").map(|(message, text)| (message, place(text))) {
        Some((message, Some((line, column)))) => {
            let meant = message.strip_prefix("expected an SQL statement, found ");
            // One that is known stands in the wrong place.
            let meant = meant.filter(|word| STATEMENTS.iter().all(|known| !known.eq_ignore_ascii_case(word)));
            let hint = meant.map_or_else(String::new, |word| similar::hint(word, STATEMENTS));
            Error::invalid(sentence(message) + &hint).at(line, column)
        }
        _ => Error::invalid(sentence(&message)),
    }
}

/// Words that a statement begins with.
const STATEMENTS: [&str; 18] = [
    "ALTER",
    "CANCEL",
    "COPY",
    "CREATE",
    "DELETE",
    "DESCRIBE",
    "DROP",
    "EXPLAIN",
    "FROM",
    "INSERT",
    "SELECT",
    "SET",
    "SHOW",
    "SUMMARIZE",
    "TRUNCATE",
    "UPDATE",
    "VALUES",
    "WITH",
];

/// A message in the form of ours: it begins small, and has no full stop.
fn sentence(message: &str) -> String {
    let message = message.trim().trim_end_matches('.');
    // The planner shows what the parser has made of it.
    if let Some(node) = message.to_lowercase().strip_prefix("unsupported ast node ") {
        let name = node.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        return format!("{} is not supported", name.to_uppercase());
    }
    // So it does of an expression that stands where none like it does.
    if let Some((_, expression)) = message.split_once("does not support logical expression ") {
        // Default: all of it, which is one word.
        let name = expression.split_once('(').map_or(expression, |(name, _)| name);
        return match name {
            "WindowFunction" => {
                "a window function does not stand in WHERE, HAVING, ON or GROUP BY: QUALIFY filters by one, \
                                 or a subquery names it"
                    .to_owned()
            }
            name => format!("{name} is not supported here"),
        };
    }
    let message = message.replace("not supported by DataFusion", "not supported");
    // It is told of any list.
    let message = message.replace("While expanding wildcard, ", "");
    let mut chars = message.chars();
    match chars.next() {
        // A word in capitals stays as it is.
        Some(first) if !chars.clone().next().is_some_and(char::is_uppercase) => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_begins_no_statement_may_be_another() {
        let error = |word: &str| {
            let message = format!("Expected: an SQL statement, found: {word} at Line: 1, Column: 1");
            of_parser(&ParserError::ParserError(message)).to_string()
        };
        let (near, far) = (error("selec"), error("hello"));
        assert!(near.contains("expected an SQL statement, found selec; did you mean \"SELECT\"?"), "{near}");
        assert!(far.contains("found hello") && !far.contains("did you mean"), "{far}");
    }

    #[test]
    fn what_does_not_stand_somewhere_is_named_without_what_is_in_it() {
        let message = |of: &str| sentence(&format!("Physical plan does not support logical expression {of}"));
        let window =
            message("WindowFunction(WindowFunction { fun: WindowUDF(WindowUDF { inner: RowNumber } ) })");
        assert!(
            window.starts_with("a window function does not stand in WHERE") && !window.contains('{'),
            "{window}"
        );
        assert_eq!(message("GroupingSet(Rollup([]))"), "GroupingSet is not supported here");
    }
}
