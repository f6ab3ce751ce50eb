//! What a command could not do, and the message that a person reads.

use std::io;

use super::{grid, style::Style};
use crate::{
    error::{Error, ServerError},
    sql::{SUPPORTED, SqlError, excerpt},
};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The server said no, or was not there.
    #[error(transparent)]
    Client(#[from] Error),
    /// The query's text is not one.
    #[error("{error}")]
    Sql {
        /// What is wrong with it.
        error: SqlError,
        /// The text.
        sql: String,
    },
    /// The server does not run a statement.
    #[error("{error}")]
    Statement {
        /// Why.
        error: Error,
        /// The text.
        sql: String,
    },
    /// A file cannot be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The files or arguments are not what they should be.
    #[error("{0}")]
    Input(String),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    /// The user pressed Ctrl-C.
    #[error("interrupted: nothing was committed")]
    Interrupted,
    /// The user pressed Ctrl-C while a query ran.
    #[error("cancelled")]
    Cancelled,
    /// The user pressed Ctrl-C while a statement ran that changes something.
    #[error("cancelled; whether it had been done by then is not known")]
    GivenUp,
    /// So many tables are damaged.
    #[error("{0} of these tables damaged")]
    Damaged(u64),
    /// The user pressed Ctrl-C when the rows were being committed.
    #[error("interrupted during the commit: whether the rows are there is not known")]
    InterruptedCommit,
    /// The server answers that it is not ready.
    #[error("not ready: {0}")]
    NotReady(String),
}

impl CliError {
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::Input(message.into())
    }

    /// The exit code that goes with it.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            // 128 + SIGINT, as shells have it.
            Self::Interrupted | Self::InterruptedCommit | Self::Cancelled | Self::GivenUp => 130,
            _ => 1,
        }
    }

    /// The whole message, with the places and hints below it.
    pub fn report(&self) -> String {
        let (mut lines, hint) = match self {
            Self::Client(error) => {
                let lines = error.server().map_or_else(|| vec![error.to_string()], server_lines);
                (lines, error.hint())
            }
            Self::Statement { error, sql } => (statement_lines(error, sql), error.hint()),
            Self::Sql { error, sql } => {
                let mut lines = vec![error.to_string()];
                lines.extend(error.excerpt(sql).lines().map(str::to_owned));
                (lines, error.is_unsupported().then_some(SUPPORTED))
            }
            _ => (vec![self.to_string()], None),
        };
        if let Some(hint) = hint {
            lines.push(format!("  hint: {}", hint.replace('\n', "\n        ")));
        }
        lines.join("\n")
    }

    pub(crate) fn print(&self) {
        eprintln!("{} {}", Style::of(&io::stderr()).red("error:"), self.shown());
    }

    /// The report for a terminal, which nothing steers that a message has from the data.
    fn shown(&self) -> String {
        grid::escape_lines(&self.report())
    }
}

/// The message and its reason, then each place, once.
fn server_lines(error: &ServerError) -> Vec<String> {
    let mut message = error.message.as_str();
    for place in &error.places {
        let suffix = format!(" (at {})", place.field);
        message = message.strip_suffix(suffix.as_str()).unwrap_or(message);
    }
    let mut lines = vec![format!("{message} ({})", error.reason_name())];
    lines.extend(error.places.iter().map(|place| {
        if place.description.is_empty() || error.message.contains(&place.description) {
            format!("  at {}", place.field)
        } else {
            format!("  at {}: {}", place.field, place.description)
        }
    }));
    lines
}

/// How the paths in a request begin that a statement became.
const PATHS: [&str; 6] = ["name.", "select[", "filter", "group_by[", "having", "order_by["];

/// The same of a statement: a place in its text is shown there.
fn statement_lines(error: &Error, sql: &str) -> Vec<String> {
    let Some(error) = error.server() else { return vec![error.to_string()] };
    let (mut error, mut excerpts) = (error.clone(), Vec::new());
    error.places.retain(|place| match in_text(&place.field) {
        Some(at) => {
            let suffix = format!(" (at {})", place.field);
            let message = error.message.strip_suffix(suffix.as_str()).unwrap_or(&error.message);
            error.message = format!("{message} ({})", place.field);
            excerpts.extend(excerpt(sql, at).lines().map(str::to_owned));
            false
        }
        // A path in the request that the statement became says nothing to who wrote the statement.
        None => !PATHS.iter().any(|path| place.field.starts_with(path)),
    });
    let mut lines = server_lines(&error);
    lines.extend(excerpts);
    lines
}

/// `line 1, column 17`
fn in_text(place: &str) -> Option<(u64, u64)> {
    let (line, column) = place.strip_prefix("line ")?.split_once(", column ")?;
    Some((line.parse().ok()?, column.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Code, ErrorReason, Place};

    #[test]
    fn reports() {
        let place = |field: &str, description: &str| Place {
            field: field.to_owned(),
            description: description.to_owned(),
        };
        let error = CliError::Client(Error::Server(Box::new(ServerError {
            code: Code::NotFound,
            reason: ErrorReason::ColumnNotFound,
            message: "no column \"delay\" in flights (at filter.compare.left)".to_owned(),
            places: vec![place("filter.compare.left", "no column \"delay\""), place("select[0]", "nor here")],
            retry_delay: None,
        })));
        assert_eq!(
            error.report(),
            "no column \"delay\" in flights (COLUMN_NOT_FOUND)\n  at filter.compare.left\n  at select[0]: nor here\n  \
             hint: `basalt describe TABLE` lists the columns"
        );

        let address = "http://127.0.0.1:1".to_owned();
        let error = CliError::Client(Error::Connection {
            address,
            message: "connection refused".to_owned(),
            source: None,
        });
        assert_eq!(
            error.report(),
            "no connection to http://127.0.0.1:1: connection refused\n  \
             hint: is the server running? start one with `basalt serve`"
        );

        let error = Error::Server(Box::new(ServerError {
            code: Code::InvalidArgument,
            reason: ErrorReason::ColumnNotFound,
            message: "no column \"b\"".to_owned(),
            places: vec![place("line 2, column 6", ""), place("name.table", "")],
            retry_delay: None,
        }));
        let sql = "SELECT a\nFROM b".to_owned();
        assert_eq!(
            CliError::Statement { error, sql }.report(),
            "no column \"b\" (line 2, column 6) (COLUMN_NOT_FOUND)\n  FROM b\n       ^\n  \
             hint: `basalt describe TABLE` lists the columns"
        );

        let message = "cannot cast string '\u{1b}[2J' to value of Int64 type".to_owned();
        let (code, reason) = (Code::InvalidArgument, ErrorReason::TypeMismatch);
        let places = Vec::new();
        let error = ServerError { code, reason, message, places, retry_delay: None };
        let shown = CliError::Client(Error::Server(Box::new(error))).shown();
        assert!(shown.starts_with("cannot cast string '\\u{1b}[2J' to value of Int64 type ("), "{shown}");

        let sql = "SELECT a FROM t JOIN u ON true".to_owned();
        let error = crate::sql::parse_select(&sql).unwrap_err();
        let report = CliError::Sql { error, sql }.report();
        assert!(report.contains(" is not supported (line 1, column 22)\n  SELECT a FROM t JOIN"), "{report}");
        assert!(report.contains("\n                       ^\n  hint: a query reads one table"), "{report}");
    }
}
