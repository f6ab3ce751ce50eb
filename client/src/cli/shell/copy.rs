//! `\copy`: rows between a table and a file of the machine that the shell runs on, as psql has it. The formats are those of
//! `basalt load` and of `--output`.

use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use sqlparser::{
    dialect::GenericDialect,
    tokenizer::{Location, Token, TokenWithSpan, Tokenizer},
};

use super::{script::Cursor, session::Session};
use crate::{
    cli::{
        CliError,
        answer::{OutputFormat, Target},
        export::{Destination, FileKind},
        load::{self, FileFormat, LoadArgs},
    },
    error::ErrorReason,
    statement::is_query,
};

const USAGE: &str =
    "\\copy TABLE [(COLUMNS)] FROM 'FILE' [(OPTIONS)], or \\copy TABLE [(COLUMNS)] or (QUERY) TO 'FILE'";

/// Of PostgreSQL, where tables are when nothing else is said.
const SCHEMA: &str = "public";

/// What is copied, and where to or where from.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Copy {
    way: Way,
    /// `None`: the standard input or output.
    file: Option<PathBuf>,
    options: Options,
}

#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// Rows of a file go to a table, into these columns or into all that the file has.
    From { table: String, is_quoted: bool, columns: Vec<String> },
    /// The answer of a query goes to a file.
    To { query: String },
}

/// What is said in parentheses behind the file, or as words there.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    format: Option<String>,
    header: Option<bool>,
    delimiter: Option<u8>,
    null: Option<String>,
}

impl Copy {
    /// By what stands behind `\copy`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location();
        let mut tokens = tokens.map_err(|error| format!("{error}; {USAGE}"))?;
        tokens.retain(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
        let tokens = &mut Tokens { text, tokens: &tokens };
        let source = tokens.source()?;
        let is_from = match tokens.word().as_deref() {
            Some("from") => true,
            Some("to") => false,
            _ => return Err(USAGE.to_owned()),
        };
        let file = tokens.file(is_from)?;
        let options = tokens.options()?;
        let way = match (source, is_from) {
            (Source::Table { name, is_quoted, columns, .. }, true) => {
                Way::From { table: name, is_quoted, columns }
            }
            (Source::Table { text, columns, .. }, false) => {
                let columns: Vec<_> =
                    columns.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\""))).collect();
                let columns = if columns.is_empty() { "*".to_owned() } else { columns.join(", ") };
                Way::To { query: format!("SELECT {columns} FROM {text}") }
            }
            (Source::Query(query), false) if is_query(&query) => Way::To { query },
            (Source::Query(_), false) => return Err(format!("only what a query gives is copied; {USAGE}")),
            (Source::Query(_), true) => return Err(format!("a query takes no rows; {USAGE}")),
        };
        let for_csv = options.delimiter.is_some() || options.null.is_some() || options.header == Some(false);
        if !is_from && for_csv {
            let message = "a CSV that is written has a header, commas, and nothing for null: \\copy ... TO takes FORMAT alone";
            return Err(message.to_owned());
        }
        Ok(Self { way, file, options })
    }
}

/// What stands before FROM or TO.
enum Source {
    Table { text: String, name: String, is_quoted: bool, columns: Vec<String> },
    Query(String),
}

/// What is left of a text.
struct Tokens<'a> {
    text: &'a str,
    tokens: &'a [TokenWithSpan],
}

impl<'a> Tokens<'a> {
    fn next(&mut self) -> Option<&'a TokenWithSpan> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    fn next_if(&mut self, token: &Token) -> bool {
        let is_it = self.tokens.first().is_some_and(|first| first.token == *token);
        if is_it {
            self.next();
        }
        is_it
    }

    /// A word without quotes, in small letters.
    fn word(&mut self) -> Option<String> {
        let word = match &self.tokens.first()?.token {
            Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_lowercase(),
            _ => return None,
        };
        self.next();
        Some(word)
    }

    fn at(&self, location: Location) -> usize {
        Cursor::new(self.text).seek(location)
    }

    /// What stands up to the parenthesis that closes the one which was taken, without it.
    fn in_parentheses(&mut self) -> Option<(&'a [TokenWithSpan], &'a str)> {
        let (all, mut depth) = (self.tokens, 1);
        let start = self.at(all.first()?.span.start);
        while let Some(token) = self.next() {
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                let inside = all.len() - self.tokens.len() - 1;
                return Some((&all[..inside], self.text.get(start..self.at(token.span.start))?));
            }
        }
        None
    }

    fn source(&mut self) -> Result<Source, String> {
        if self.next_if(&Token::LParen) {
            let (_, query) = self.in_parentheses().ok_or("a parenthesis is not closed")?;
            return Ok(Source::Query(query.trim().to_owned()));
        }
        let first = self.next().ok_or(USAGE)?;
        let Token::Word(word) = &first.token else { return Err(USAGE.to_owned()) };
        let (mut name, mut is_quoted, mut end) =
            (word.value.clone(), word.quote_style.is_some(), first.span.end);
        while self.next_if(&Token::Period) {
            let part = self.next().ok_or(USAGE)?;
            let Token::Word(word) = &part.token else { return Err(USAGE.to_owned()) };
            // The schema that all tables are in, as psql's users write it.
            let (before, own) = (name, word.quote_style.is_some());
            (name, is_quoted) = match before.eq_ignore_ascii_case(SCHEMA) {
                true => (word.value.clone(), own),
                false => (format!("{before}.{}", word.value), is_quoted || own),
            };
            end = part.span.end;
        }
        let text = self.text.get(self.at(first.span.start)..self.at(end)).ok_or(USAGE)?.to_owned();
        let mut columns = Vec::new();
        if self.next_if(&Token::LParen) {
            let (inside, _) = self.in_parentheses().ok_or("a parenthesis is not closed")?;
            for token in inside {
                match &token.token {
                    Token::Word(word) => columns.push(word.value.clone()),
                    Token::Comma => {}
                    other => return Err(format!("{other} is no column; {USAGE}")),
                }
            }
        }
        Ok(Source::Table { text, name, is_quoted, columns })
    }

    /// The file, quoted or up to the next space; `None`: the standard input or output.
    fn file(&mut self, is_from: bool) -> Result<Option<PathBuf>, String> {
        let first = self.tokens.first().ok_or(USAGE)?;
        if let Token::SingleQuotedString(path) = &first.token {
            self.next();
            return Ok(Some(PathBuf::from(path)));
        }
        let start = self.at(first.span.start);
        let path = self.text[start..].split_whitespace().next().ok_or(USAGE)?;
        let end = start + path.len();
        while self.tokens.first().is_some_and(|token| self.at(token.span.start) < end) {
            self.next();
        }
        let word = path.to_ascii_lowercase();
        match (word.as_str(), is_from) {
            ("stdin" | "pstdin", true) | ("stdout" | "pstdout", false) => Ok(None),
            ("program", _) => Err("\\copy runs no program: a file, STDIN or STDOUT is copied".to_owned()),
            _ => Ok(Some(PathBuf::from(path))),
        }
    }

    fn options(&mut self) -> Result<Options, String> {
        let is_with = self.tokens.first().is_some_and(
            |token| matches!(&token.token, Token::Word(word) if word.value.eq_ignore_ascii_case("with")),
        );
        if is_with {
            self.next();
        }
        if !self.next_if(&Token::LParen) {
            return self.listed();
        }
        let (inside, _) = self.in_parentheses().ok_or("a parenthesis is not closed")?;
        if let Some(token) = self.tokens.first() {
            return Err(format!("{} stands behind the options", token.token));
        }
        Tokens { text: self.text, tokens: inside }.listed()
    }

    fn listed(&mut self) -> Result<Options, String> {
        let mut options = Options::default();
        while !self.tokens.is_empty() {
            if self.next_if(&Token::Comma) {
                continue;
            }
            let name = self
                .word()
                .ok_or_else(|| format!("options are FORMAT, HEADER, DELIMITER and NULL; {USAGE}"))?;
            match name.as_str() {
                // psql's older way.
                "csv" => options.format = Some(name),
                "format" => options.format = Some(self.value("format")?.to_ascii_lowercase()),
                "header" => options.header = Some(self.switch()?),
                "delimiter" => {
                    // psql writes a tab as E'\t'.
                    self.next_if_word("as");
                    options.delimiter = Some(load::delimiter(&self.value("delimiter")?)?);
                }
                "null" => {
                    self.next_if_word("as");
                    options.null = Some(self.value("null")?);
                }
                other => {
                    return Err(format!(
                        "there is no option {other}: FORMAT, HEADER, DELIMITER and NULL are"
                    ));
                }
            }
        }
        Ok(options)
    }

    fn next_if_word(&mut self, word: &str) {
        let is_it = |token: &TokenWithSpan| matches!(&token.token, Token::Word(w) if w.value.eq_ignore_ascii_case(word));
        if self.tokens.first().is_some_and(is_it) {
            self.next();
        }
    }

    fn value(&mut self, option: &str) -> Result<String, String> {
        match self.next().map(|token| &token.token) {
            Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => Ok(text.clone()),
            Some(Token::Word(word)) => Ok(word.value.clone()),
            _ => Err(format!("{option} takes a text in quotes")),
        }
    }

    /// What HEADER is: true, unless it is said not to be.
    fn switch(&mut self) -> Result<bool, String> {
        let said = match self.tokens.first().map(|token| &token.token) {
            Some(Token::Word(word)) => word.value.to_ascii_lowercase(),
            Some(Token::SingleQuotedString(text)) => text.to_ascii_lowercase(),
            Some(Token::Number(number, _)) => number.clone(),
            _ => return Ok(true),
        };
        let is = match said.as_str() {
            "true" | "on" | "1" | "match" => true,
            "false" | "off" | "0" => false,
            // The next option.
            _ => return Ok(true),
        };
        self.next();
        Ok(is)
    }
}

pub(super) async fn run(copy: &Copy, session: &Session) -> Result<(), CliError> {
    match &copy.way {
        Way::To { query } => {
            let target = target(copy.file.as_deref(), copy.options.format.as_deref(), &session.target)?;
            session.run_one(query, &target).await
        }
        Way::From { table, is_quoted, columns } => {
            let table = existing(table, *is_quoted, session).await?;
            let format = copy
                .options
                .format
                .as_deref()
                .map(|format| FileFormat::from_str(format, true).map_err(|_| no_format(format)));
            let format = format.transpose()?;
            let (file, format) = match &copy.file {
                Some(file) => (file.clone(), format),
                None if session.input_is_script || session.is_typed() => {
                    let message = "the standard input has the statements: \\copy takes rows from it with -c or -f alone";
                    return Err(CliError::input(message));
                }
                // Without a name it is what psql's users send.
                None => (PathBuf::from("-"), Some(format.unwrap_or(FileFormat::Csv))),
            };
            let args = LoadArgs {
                table,
                files: vec![file],
                format,
                schema: None,
                columns: (!columns.is_empty()).then(|| columns.clone()),
                skip_unsupported: false,
                replace: false,
                replace_by: Vec::new(),
                retention: None,
                deletes: None,
                optimize: None,
                skip_bad: 0,
                delimiter: copy.options.delimiter,
                no_header: copy.options.header == Some(false),
                date_format: Vec::new(),
                null: copy.options.null.clone().map(|null| vec![null]),
            };
            load::run_as(&args, &session.client).await
        }
    }
}

fn no_format(format: &str) -> CliError {
    CliError::input(format!("no format {format:?}: csv, json, parquet and arrow are"))
}

/// Where an answer goes.
fn target(file: Option<&Path>, format: Option<&str>, shown: &Target) -> Result<Target, CliError> {
    let kind = match format {
        None => None,
        Some("csv") => Some(FileKind::Csv),
        Some("json") => Some(FileKind::Json),
        Some("parquet") => Some(FileKind::Parquet),
        Some("arrow") => Some(FileKind::Arrow),
        Some(other) => return Err(no_format(other)),
    };
    let (format, file) = match (file, kind) {
        (Some(path), Some(kind)) => (shown.format, Some(Destination { path: path.to_owned(), kind })),
        (Some(path), None) => (shown.format, Some(Destination::of(path)?)),
        (None, Some(FileKind::Json)) => (OutputFormat::Json, None),
        (None, None | Some(FileKind::Csv)) => (OutputFormat::Csv, None),
        (None, Some(_)) => return Err(CliError::input("the standard output takes csv and json")),
    };
    Ok(Target { format, file, pages: false, most_rows: 0 })
}

/// The table that a name means: it is there, by this name or, where it is not quoted, as the only one but for case.
async fn existing(name: &str, is_quoted: bool, session: &Session) -> Result<String, CliError> {
    let missing = match session.client.table_summary(name).await {
        Ok(_) => return Ok(name.to_owned()),
        Err(error) if error.reason() == ErrorReason::TableNotFound => error,
        Err(error) => return Err(error.into()),
    };
    if !is_quoted {
        let (tables, damaged) = session.client.list_all_tables().await?;
        let names =
            tables.into_iter().map(|table| table.name).chain(damaged.into_iter().map(|table| table.name));
        let mut alike = names.filter(|other| other.eq_ignore_ascii_case(name));
        if let (Some(one), None) = (alike.next(), alike.next()) {
            return Ok(one);
        }
    }
    eprintln!("note: \\copy takes rows into a table that is there; CREATE TABLE or `basalt load` makes one");
    Err(missing.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn to(text: &str) -> (String, Option<PathBuf>) {
        match Copy::parse(text).unwrap() {
            Copy { way: Way::To { query }, file, .. } => (query, file),
            copy => panic!("{copy:?}"),
        }
    }

    #[test]
    fn tables_and_queries_go_to_files() {
        let path = |path: &str| Some(PathBuf::from(path));
        assert_eq!(to("t TO 'it''s.csv'"), ("SELECT * FROM t".to_owned(), path("it's.csv")));
        let query = "SELECT (1), ')' FROM t WHERE a = 'to'";
        assert_eq!(
            to(&format!("({query}) to out/2024.parquet")),
            (query.to_owned(), path("out/2024.parquet"))
        );
        assert_eq!(to("\"T t\" (\"A\", b) to stdout"), ("SELECT \"A\", \"b\" FROM \"T t\"".to_owned(), None));
        let options = Copy::parse("t to 'a.txt' with (format CSV, header)").unwrap().options;
        assert_eq!((options.format.as_deref(), options.header), (Some("csv"), Some(true)));
    }

    #[test]
    fn files_go_to_tables() {
        let named = |text: &str| match Copy::parse(text).unwrap().way {
            Way::From { table, is_quoted, .. } => (table, is_quoted),
            way => panic!("{way:?}"),
        };
        assert_eq!(named("public.T FROM 'f'"), ("T".to_owned(), false));
        assert_eq!(named("Public.\"T\" FROM 'f'"), ("T".to_owned(), true));
        assert_eq!(named("other.t FROM 'f'"), ("other.t".to_owned(), false));
        let copy = Copy::parse("t (a, \"B\") FROM 'f.txt' CSV HEADER DELIMITER AS ';' NULL 'none'").unwrap();
        let columns = vec!["a".to_owned(), "B".to_owned()];
        assert_eq!(copy.way, Way::From { table: "t".to_owned(), is_quoted: false, columns });
        let options = Options {
            format: Some("csv".to_owned()),
            header: Some(true),
            delimiter: Some(b';'),
            null: Some("none".to_owned()),
        };
        assert_eq!(copy.options, options);
        let copy = Copy::parse("t from f.csv with (header false, delimiter E'\\t')").unwrap();
        assert_eq!((copy.options.header, copy.options.delimiter), (Some(false), Some(b'\t')));
        assert_eq!(Copy::parse("t from stdin").unwrap().file, None);
    }

    #[test]
    fn what_is_no_copy_is_told() {
        for (text, expected) in [
            ("", "\\copy TABLE"),
            ("t", "\\copy TABLE"),
            ("t into 'f'", "\\copy TABLE"),
            ("(DELETE FROM t) TO 'f'", "only what a query gives"),
            ("(select 1", "a parenthesis is not closed"),
            ("(select 1) from 'f.csv'", "a query takes no rows"),
            ("t from program 'cat'", "runs no program"),
            ("t from 'f.csv' (quote '|')", "there is no option quote"),
            ("t to 'f.csv' (delimiter ';')", "takes FORMAT alone"),
            ("t from 'f.csv", "Unterminated"),
        ] {
            let error = Copy::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
