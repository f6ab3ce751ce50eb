//! What is wrong with a query's text, and where.

use std::fmt;

use sqlparser::{parser::ParserError, tokenizer::Span};

/// The form of the queries that are understood, for people.
pub const SUPPORTED: &str = "\
a query reads one table: SELECT columns and aggregates (count, sum, min, max, avg) FROM table [FOR VERSION AS OF n]
[WHERE ...] [GROUP BY ...] [HAVING ...] [ORDER BY ...] [LIMIT n] [OFFSET n];
WHERE may ask other tables: column [NOT] IN (SELECT key FROM table [WHERE ...]);
column.attribute is a value of the row that a column refers to, which the table's schema declares";

/// Characters of a line that an excerpt shows.
const SHOWN_LINE: usize = 100;

/// Why a text is not a query, with the place if it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    message: String,
    place: Option<(u64, u64)>,
    unsupported: bool,
}

impl SqlError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), place: None, unsupported: false }
    }

    /// SQL, but not of the subset.
    pub(super) fn unsupported(construct: impl fmt::Display) -> Self {
        Self { message: format!("{construct} is not supported"), place: None, unsupported: true }
    }

    pub(super) fn too_deep() -> Self {
        Self::new("the query is nested too deeply")
    }

    pub(super) fn at(mut self, span: Span) -> Self {
        if span.start.line > 0 {
            self.place.get_or_insert((span.start.line, span.start.column));
        }
        self
    }

    /// The parser writes the place at the message's end.
    pub(super) fn from_parser(error: &ParserError) -> Self {
        let message = match error {
            ParserError::TokenizerError(message) | ParserError::ParserError(message) => message.as_str(),
            ParserError::RecursionLimitExceeded => return Self::too_deep(),
        };
        let message =
            &lower_first(message).replacen("expected: ", "expected ", 1).replacen(", found: ", ", found ", 1);
        let place = |text: &str| -> Option<(u64, u64)> {
            let (line, column) = text.split_once(", Column: ")?;
            Some((line.parse().ok()?, column.parse().ok()?))
        };
        match message.rsplit_once(" at Line: ").map(|(message, text)| (message, place(text))) {
            Some((message, Some(place))) => Self { place: Some(place), ..Self::new(message) },
            _ => Self::new(message),
        }
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Line and column, from 1, in characters.
    pub fn place(&self) -> Option<(u64, u64)> {
        self.place
    }

    /// Whether it is SQL that is not part of the subset; [`SUPPORTED`] then helps.
    pub fn is_unsupported(&self) -> bool {
        self.unsupported
    }

    /// The line of `sql`, a long one around the place alone, with a mark below the place; empty when the place
    /// is not known.
    pub fn excerpt(&self, sql: &str) -> String {
        // Default: there is nothing to show.
        self.place.map(|place| excerpt(sql, place)).unwrap_or_default()
    }
}

/// The line of a place in a text and a mark below it, as [`SqlError::excerpt`] has them; empty where there is no such line.
pub(crate) fn excerpt(sql: &str, (line, column): (u64, u64)) -> String {
    let nth = |n: u64| usize::try_from(n.saturating_sub(1)).unwrap_or(usize::MAX);
    let Some(text) = sql.lines().nth(nth(line)) else { return String::new() };
    let line: Vec<char> = text.chars().collect();
    let column = nth(column).min(line.len());
    let start = column.saturating_sub(SHOWN_LINE / 2).min(line.len().saturating_sub(SHOWN_LINE));
    let end = line.len().min(start + SHOWN_LINE);
    let shown: String = line[start..end].iter().collect();
    let blank: String = line[start..column].iter().map(|&c| if c == '\t' { '\t' } else { ' ' }).collect();
    let (cut, indent) = if start > 0 { ("…", " ") } else { ("", "") };
    let rest = if end < line.len() { "…" } else { "" };
    format!("  {cut}{shown}{rest}\n  {indent}{blank}^")
}

fn lower_first(message: &str) -> String {
    let mut chars = message.chars();
    chars.next().map(|c| c.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.place {
            Some((line, column)) => write!(f, " (line {line}, column {column})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for SqlError {}
