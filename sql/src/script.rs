//! A text of several statements, the first words of each, and what a door asks of all of its words, for a door whose clients
//! send such texts.

use datafusion::sql::sqlparser::{
    dialect::GenericDialect,
    tokenizer::{Location, Token, Tokenizer},
};

use crate::{
    error::{Error, Result, of_parser},
    limits,
};
use basalt_core::error::ErrorKind;

/// A statement of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its text, from its first word to its last.
    pub sql: String,
    /// Characters of the whole text before it.
    pub before: usize,
    /// Its first words and signs.
    pub words: Vec<Word>,
    /// The bytes of its text before each of them.
    starts: Vec<usize>,
    /// Which of the words of [`SOUGHT`] it has.
    sought: Vec<&'static str>,
    /// Where it is a COPY: which way rows go.
    copies: Option<Copies>,
    /// Where it begins with WITH, and writes: the word for that.
    behind_with: Option<&'static str>,
    /// How many parameters it names.
    parameters: usize,
}

/// Words that may stand behind the queries of a WITH, and write.
const WRITING: [&str; 4] = ["insert", "update", "delete", "merge"];

/// Words by which doors tell statements apart, which may stand behind any number of others.
const SOUGHT: [&str; 7] = ["values", "select", "from", "table", "conflict", "returning", "with"];

/// Which way the rows of a COPY go that is a client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// FROM STDIN.
    In,
    /// TO STDOUT.
    Out,
}

impl Part {
    /// Whether it has one of these words anywhere, without quotes: VALUES, SELECT, FROM, TABLE, CONFLICT, RETURNING and WITH
    /// are known of it.
    pub fn has(&self, among: &[&str]) -> bool {
        self.sought.iter().any(|word| among.contains(word))
    }

    /// Which way rows go between it and the client; `None`: it is another statement, or a COPY of a file.
    pub fn copies(&self) -> Option<Copies> {
        self.copies
    }

    /// What a statement that begins with WITH does behind the queries there, where it writes: INSERT, UPDATE, DELETE or MERGE,
    /// in lower case.
    pub fn behind_with(&self) -> Option<&'static str> {
        self.behind_with
    }

    /// How many parameters it names: `$3` alone is the last of three. One beyond those that a statement may have counts for nothing.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// The same statement, where some of its parameters (that of `$1` is 0) are cast to a type: what is given for them is a text.
    ///
    /// # Errors
    /// It is too long then.
    pub fn casting(&self, data_type: &str, is_one: impl Fn(usize) -> bool) -> Result<Self> {
        let tokens = Tokenizer::new(&GenericDialect {}, &self.sql).tokenize_with_location();
        let tokens = tokens.map_err(|error| of_parser(&error.into()))?;
        let (mut sql, mut cursor, mut copied) = (String::new(), Cursor::new(&self.sql), 0);
        for token in tokens {
            let Token::Placeholder(name) = &token.token else { continue };
            let number = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
            if !number.and_then(|number| number.checked_sub(1)).is_some_and(&is_one) {
                continue;
            }
            let (begins, _) = cursor.seek(token.span.start);
            let (ends, _) = cursor.seek(token.span.end);
            // Default: both are places of the text.
            sql.push_str(self.sql.get(copied..begins).unwrap_or_default());
            sql.push_str(&format!("CAST({name} AS {data_type})"));
            copied = ends;
        }
        if copied == 0 {
            return Ok(self.clone());
        }
        // Default: it is a place of the text.
        sql.push_str(self.sql.get(copied..).unwrap_or_default());
        let part = split(&sql)?.into_iter().next();
        // Default: what had words has some.
        Ok(part.map_or_else(|| self.clone(), |part| Self { before: self.before, ..part }))
    }

    /// Its text from a word on, as a statement of its own.
    pub fn from(&self, word: usize) -> Option<Self> {
        let at = *self.starts.get(word)?;
        let before = self.before + self.sql.get(..at)?.chars().count();
        let part = split(self.sql.get(at..)?).ok()?.into_iter().next()?;
        Some(Self { before, ..part })
    }
}

/// A word or a sign of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// Without quotes, in lower case.
    Plain(String),
    /// In double quotes.
    Name(String),
    /// In single quotes.
    Text(String),
    /// A number.
    Number(String),
    /// Anything else.
    Sign(String),
}

/// Splits a text at the semicolons between its statements. There is none between two of them, nor in quotes, nor in a
/// comment; what has no words is left out.
///
/// # Errors
/// A text that is too long, or has no end where one is due, such as that of a quoted text.
pub fn split(sql: &str) -> Result<Vec<Part>> {
    check_size(sql)?;
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location();
    let tokens = tokens.map_err(|error| of_parser(&error.into()))?;
    let (mut parts, mut cursor) = (Vec::new(), Cursor::new(sql));
    let mut current: Option<Current> = None;
    for token in tokens {
        let parameter = if let Token::Placeholder(name) = &token.token { number(name) } else { 0 };
        let word = match token.token {
            Token::Whitespace(_) | Token::EOF => continue,
            Token::SemiColon => {
                parts.extend(current.take().map(|part| cut(sql, part)));
                if parts.len() > limits::SCRIPT_STATEMENTS {
                    let message = format!("more than {} statements", limits::SCRIPT_STATEMENTS);
                    return Err(Error::new(ErrorKind::FilterTooLarge, message));
                }
                continue;
            }
            Token::Word(word) if word.quote_style.is_none() => Word::Plain(word.value.to_lowercase()),
            Token::Word(word) => Word::Name(word.value),
            Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => Word::Text(text),
            Token::Number(number, _) => Word::Number(number),
            other => Word::Sign(other.to_string()),
        };
        let begins = cursor.seek(token.span.start);
        let (ends, _) = cursor.seek(token.span.end);
        let part = current.get_or_insert_with(|| Current::new(begins));
        part.ends = ends;
        part.parameters = part.parameters.max(parameter);
        part.push(word, begins.0);
    }
    parts.extend(current.take().map(|part| cut(sql, part)));
    Ok(parts)
}

/// The number of a parameter; 0: it is none that a statement may have.
fn number(name: &str) -> usize {
    let number = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
    // Default: it is no number.
    number.filter(|number| *number <= limits::PARAMETERS).unwrap_or_default()
}

/// Fails where a text is too long to be cut into words.
pub(crate) fn check_size(sql: &str) -> Result<()> {
    let too_large = |has: usize, what: &str, limit: usize| {
        let message = format!("the statement has {has} {what}; the limit is {limit}");
        Err(Error::new(ErrorKind::FilterTooLarge, message))
    };
    if sql.len() > limits::STATEMENT_BYTES {
        return too_large(sql.len(), "bytes", limits::STATEMENT_BYTES);
    }
    if sql.len() <= limits::STATEMENT_WORDS {
        return Ok(());
    }
    let is_of_word = |byte: u8| byte.is_ascii_alphanumeric() || byte >= 128 || matches!(byte, b'_' | b'$');
    let (mut words, mut before) = (0, b';');
    for byte in sql.bytes() {
        let goes_on = is_of_word(byte) && is_of_word(before) || byte.is_ascii_whitespace() && before == byte;
        words += usize::from(!goes_on);
        before = byte;
    }
    match words > limits::STATEMENT_WORDS {
        true => too_large(words, "words and signs", limits::STATEMENT_WORDS),
        false => Ok(()),
    }
}

/// The statement in hand.
struct Current {
    /// The bytes and the characters before it.
    begins: (usize, usize),
    /// The bytes before its end.
    ends: usize,
    words: Vec<Word>,
    starts: Vec<usize>,
    sought: Vec<&'static str>,
    copies: Option<Copies>,
    /// Which way rows go if the next word names the client.
    copying: Option<Copies>,
    /// In how many parentheses the next word is.
    depth: usize,
    /// The last word has closed the outermost of them.
    closed: bool,
    /// The first word behind such a one that may be what a statement does behind its WITH; empty where it does not write.
    behind: Option<&'static str>,
    /// The greatest number of its parameters.
    parameters: usize,
}

impl Current {
    fn new(begins: (usize, usize)) -> Self {
        Self {
            begins,
            ends: begins.0,
            words: Vec::new(),
            starts: Vec::new(),
            sought: Vec::new(),
            copies: None,
            copying: None,
            depth: 0,
            closed: false,
            behind: None,
            parameters: 0,
        }
    }

    /// Goes on with a word that begins at a byte of the whole text.
    fn push(&mut self, word: Word, at: usize) {
        let plain = if let Word::Plain(plain) = &word { plain.as_str() } else { "" };
        if let Some(sought) = SOUGHT.into_iter().find(|sought| *sought == plain)
            && !self.sought.contains(&sought)
        {
            self.sought.push(sought);
        }
        let closed = std::mem::take(&mut self.closed);
        match &word {
            Word::Sign(sign) if sign == "(" => self.depth += 1,
            Word::Sign(sign) if sign == ")" => {
                self.depth = self.depth.saturating_sub(1);
                self.closed = self.depth == 0;
            }
            // Behind the names of the columns of a query AS follows.
            Word::Plain(plain) if closed && plain != "as" && self.behind.is_none() => {
                // Default: it is a word that reads.
                self.behind = Some(WRITING.into_iter().find(|word| word == plain).unwrap_or_default());
            }
            _ => {}
        }
        let awaited = std::mem::replace(&mut self.copying, copying(plain).filter(|_| self.depth == 0));
        if awaited.is_some_and(|copies| client(copies) == plain) {
            self.copies = self.copies.or(awaited);
        }
        if self.words.len() < limits::SCRIPT_WORDS {
            self.words.push(word);
            self.starts.push(at - self.begins.0);
        }
    }
}

/// Which way rows go behind a word.
fn copying(word: &str) -> Option<Copies> {
    match word {
        "from" => Some(Copies::In),
        "to" => Some(Copies::Out),
        _ => None,
    }
}

/// The word for the client at which they end, or begin.
fn client(copies: Copies) -> &'static str {
    match copies {
        Copies::In => "stdin",
        Copies::Out => "stdout",
    }
}

fn cut(sql: &str, current: Current) -> Part {
    let Current { begins: (from, before), ends, words, starts, sought, copies, behind, parameters, .. } =
        current;
    let is_copy = matches!(words.first(), Some(Word::Plain(first)) if first == "copy");
    let copies = copies.filter(|_| is_copy);
    let is_with = matches!(words.first(), Some(Word::Plain(first)) if first == "with");
    let behind_with = behind.filter(|word| is_with && !word.is_empty());
    // Default: both are places of the text.
    let sql = sql.get(from..ends).unwrap_or_default().to_owned();
    Part { sql, before, words, starts, sought, copies, behind_with, parameters }
}

/// A place in a text that moves on.
struct Cursor<'a> {
    chars: std::iter::Peekable<std::str::CharIndices<'a>>,
    bytes: usize,
    characters: usize,
    at: Location,
}

impl<'a> Cursor<'a> {
    fn new(sql: &'a str) -> Self {
        let at = Location { line: 1, column: 1 };
        Self { chars: sql.char_indices().peekable(), bytes: sql.len(), characters: 0, at }
    }

    /// The bytes and characters before a place, which is not before the last one.
    fn seek(&mut self, to: Location) -> (usize, usize) {
        while (self.at.line, self.at.column) < (to.line, to.column) {
            let Some((_, passed)) = self.chars.next() else { break };
            self.characters += 1;
            self.at = match passed {
                '\n' => Location { line: self.at.line + 1, column: 1 },
                _ => Location { column: self.at.column + 1, ..self.at },
            };
        }
        (self.chars.peek().map_or(self.bytes, |(at, _)| *at), self.characters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(sql: &str) -> Vec<String> {
        split(sql).unwrap().into_iter().map(|part| part.sql).collect()
    }

    #[test]
    fn statements_end_at_semicolons() {
        assert_eq!(texts("SELECT 1"), ["SELECT 1"]);
        assert_eq!(texts(" SELECT 1 ;; \n select 'a;b' -- no; \n ;"), ["SELECT 1", "select 'a;b'"]);
        assert_eq!(texts("/* a;b */ SELECT \";\" FROM t; "), ["SELECT \";\" FROM t"]);
        assert_eq!(texts("SELECT $$a;b$$; SELECT 'it''s;'"), ["SELECT $$a;b$$", "SELECT 'it''s;'"]);
        assert!(texts("").is_empty() && texts(" ; -- nothing\n").is_empty());
        assert!(split("SELECT 'open").is_err() && split("/* open").is_err());
        assert!(split(&"SELECT 1;".repeat(limits::SCRIPT_STATEMENTS + 1)).is_err());
        assert!(split(&" ".repeat(limits::STATEMENT_BYTES + 1)).is_err());
        // Of signs alone it is shorter.
        assert!(split(&format!("SELECT '{}'", "a ".repeat(limits::STATEMENT_WORDS / 2 - 8))).is_ok());
        assert!(split(&"(".repeat(limits::STATEMENT_WORDS + 1)).is_err());
    }

    #[test]
    fn a_statement_knows_its_place_and_its_words() {
        let parts = split("é;\n\tSET \"Zone\" = 'é' 1.5").unwrap();
        assert_eq!(parts[1].before, 4);
        let [Word::Plain(set), Word::Name(zone), Word::Sign(sign), Word::Text(text), Word::Number(number)] =
            parts[1].words.as_slice()
        else {
            panic!("{parts:?}")
        };
        assert_eq!((set.as_str(), zone.as_str(), sign.as_str()), ("set", "Zone", "="));
        assert_eq!((text.as_str(), number.as_str()), ("é", "1.5"));
        let rest = parts[1].from(3).unwrap();
        assert_eq!((rest.sql.as_str(), rest.before, rest.words.len()), ("'é' 1.5", 17, 2));
        assert_eq!(rest.from(1).unwrap().sql, "1.5");
        assert_eq!(rest.from(2), None);
    }

    #[test]
    fn what_doors_ask_is_told_of_all_words() {
        let part = |sql: &str| split(sql).unwrap().remove(0);
        for columns in [5, 15, 40, 1024] {
            let names = (0..columns).map(|at| format!("c{at}")).collect::<Vec<_>>().join(", ");
            let copies = |sql: String| part(&sql).copies();
            assert_eq!(copies(format!("COPY t ({names}) FROM STDIN")), Some(Copies::In));
            assert_eq!(copies(format!("COPY t ({names}) TO STDOUT (FORMAT csv)")), Some(Copies::Out));
            assert_eq!(copies(format!("COPY (SELECT {names} FROM stdin) TO STDOUT")), Some(Copies::Out));
            assert_eq!(copies(format!("COPY (SELECT {names} FROM stdin) TO 'file'")), None);
            assert_eq!(copies(format!("SELECT {names} FROM stdin")), None);
            let insert = part(&format!("INSERT INTO t ({names}) VALUES ($1) ON CONFLICT (c0) DO NOTHING"));
            assert!(insert.has(&["values"]) && insert.has(&["select", "conflict"]));
            assert!(!insert.has(&["select", "from", "table", "returning", "with"]));
            assert!(insert.words.len() <= limits::SCRIPT_WORDS);
            // As of what stands behind PREPARE.
            let prepare = part(&format!("PREPARE values AS COPY t ({names}) FROM STDIN"));
            assert_eq!((prepare.copies(), prepare.has(&["values"])), (None, true));
            let prepared = prepare.from(3).unwrap();
            assert_eq!((prepared.copies(), prepared.has(&["values"])), (Some(Copies::In), false));
        }
        assert!(!part("INSERT INTO t (\"values\") SELECT 'values'").has(&["values"]));
    }

    #[test]
    fn what_stands_behind_with_is_told() {
        for (sql, behind) in [
            ("WITH c AS (SELECT (1)) INSERT INTO t SELECT * FROM c", Some("insert")),
            (
                "with c(a, b) as (select (1), 2), d as not materialized (select 1) Update t SET a = 1",
                Some("update"),
            ),
            ("WITH RECURSIVE c (a) AS (VALUES (1)) DELETE FROM t", Some("delete")),
            ("WITH \"update\" AS (SELECT 1), delete AS (SELECT 2) SELECT (1) delete FROM delete", None),
            ("WITH c AS (SELECT 1) (SELECT * FROM c) ORDER BY 1", None),
            ("WITH c AS (DELETE FROM t) SELECT 1", None),
            ("INSERT INTO t (a) WITH c AS (SELECT 1) SELECT * FROM c", None),
            ("SELECT (1) delete", None),
        ] {
            assert_eq!(split(sql).unwrap()[0].behind_with(), behind, "{sql}");
        }
        let names = (0..limits::SCRIPT_WORDS).map(|at| at.to_string()).collect::<Vec<_>>().join(", ");
        let long = format!("WITH c AS (SELECT {names}) INSERT INTO t SELECT * FROM c");
        assert_eq!(split(&long).unwrap()[0].behind_with(), Some("insert"));
    }

    #[test]
    fn parameters_are_counted() {
        for (sql, count) in [
            ("SELECT 1", 0),
            ("SELECT '$2', $1", 1),
            ("SELECT $3, $1 -- $7", 3),
            ("SELECT $0, $65536, $x", 0),
            ("SELECT $65535", 65_535),
        ] {
            assert_eq!(split(sql).unwrap()[0].parameters(), count, "{sql}");
        }
    }

    #[test]
    fn parameters_are_cast() {
        let part = split("SELECT '$1', $1 , $2 + $1;").unwrap().remove(0);
        let cast = part.casting("BYTEA", |at| at == 0).unwrap();
        assert_eq!(cast.sql, "SELECT '$1', CAST($1 AS BYTEA) , $2 + CAST($1 AS BYTEA)");
        assert_eq!(part.casting("BYTEA", |at| at == 5).unwrap(), part);
    }
}
