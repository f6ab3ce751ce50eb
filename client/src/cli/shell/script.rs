//! A text cut into statements.

use std::ops::Range;

use sqlparser::{
    dialect::GenericDialect,
    tokenizer::{Location, Token, Tokenizer},
};

/// A text that is read as far as it is understood.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    /// What is complete, in its order.
    pub(super) complete: Vec<Piece>,
    /// What is behind the last semicolon, if it is more than space and comments.
    pub(super) rest: Option<Range<usize>>,
}

/// What a script does at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A statement that ends with a semicolon, without it.
    Statement(Range<usize>),
    /// A line that begins with a backslash: a command of the shell.
    Command(Range<usize>),
}

/// Cuts a text at the semicolons that stand in no quotes and in no comment, and at the lines between statements that begin
/// with a backslash. `\g` at the end of a line ends a statement as a semicolon does; behind one that has not ended, `\r`
/// forgets it and `\q` ends the shell.
///
/// # Errors
/// Why the text has no end: a quote or a comment is not closed.
pub(super) fn cut(text: &str) -> Result<Script, String> {
    let mut script = Script::default();
    // What is before is cut; and up to where it was tried in vain, which is tried again behind what may have ended it alone.
    let (mut from, mut tried) = (0, 0);
    for line in lines(text) {
        let written = text[line.clone()].trim_end();
        if let Some(statement) = written.strip_suffix("\\g")
            && let Ok((statements, Some(rest))) = cut_statements(&text[from..line.start + statement.len()])
        {
            script.complete.extend(pieces(from, statements.into_iter().chain([rest])));
            (from, tried) = (line.end, line.end);
            continue;
        }
        let is_command = written.trim_start().starts_with('\\');
        if !is_command || (tried > from && !text[tried..line.start].contains([';', '/', '\'', '"', '$'])) {
            continue;
        }
        match cut_statements(&text[from..line.start]) {
            Ok((statements, None)) => {
                script.complete.extend(pieces(from, statements));
                script.complete.push(Piece::Command(line.clone()));
                (from, tried) = (line.end, line.end);
            }
            Ok((statements, Some(_))) if matches!(written.trim(), "\\q" | "\\r") => {
                script.complete.extend(pieces(from, statements));
                if written.trim() == "\\q" {
                    script.complete.push(Piece::Command(line.clone()));
                }
                (from, tried) = (line.end, line.end);
            }
            // The line stands in a statement, a quote or a comment.
            Ok(_) | Err(_) => tried = line.start,
        }
    }
    let (statements, rest) = cut_statements(&text[from..]).map_err(|error| match from {
        0 => error,
        // The same error, with the line that it has in the whole text.
        _ => {
            let lines = "\n".repeat(line_of(text, from) - 1);
            cut_statements(&(lines + &text[from..])).err().unwrap_or(error)
        }
    })?;
    script.complete.extend(pieces(from, statements));
    script.rest = rest.map(|range| from + range.start..from + range.end);
    Ok(script)
}

/// Statements of what begins at a place, as pieces of the whole.
fn pieces(from: usize, statements: impl IntoIterator<Item = Range<usize>>) -> impl Iterator<Item = Piece> {
    let moved = move |range: Range<usize>| Piece::Statement(from + range.start..from + range.end);
    statements.into_iter().map(moved)
}

/// Where the lines of a text are, without their ends.
fn lines(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.split('\n').scan(0, |next, line| {
        let start = *next;
        *next += line.len() + 1;
        Some(start..start + line.len())
    })
}

/// The statements of a text, and what is behind the last semicolon.
type Statements = (Vec<Range<usize>>, Option<Range<usize>>);

fn cut_statements(text: &str) -> Result<Statements, String> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location();
    let tokens = tokens.map_err(|error| error.to_string())?;
    let (mut complete, mut rest) = (Vec::new(), None::<Range<usize>>);
    let mut cursor = Cursor::new(text);
    for token in tokens {
        match token.token {
            Token::Whitespace(_) | Token::EOF => {}
            Token::SemiColon => complete.extend(rest.take()),
            _ => {
                let from = cursor.seek(token.span.start);
                let to = cursor.seek(token.span.end);
                rest = Some(rest.take().map_or(from, |rest| rest.start)..to);
            }
        }
    }
    Ok((complete, rest))
}

/// The line of a text, from 1, in which a byte is.
pub(super) fn line_of(text: &str, byte: usize) -> usize {
    text.bytes().take(byte).filter(|byte| *byte == b'\n').count() + 1
}

/// A place in a text that moves on.
pub(super) struct Cursor<'a> {
    text: &'a str,
    bytes: usize,
    at: Location,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, bytes: 0, at: Location { line: 1, column: 1 } }
    }

    /// The bytes before a place, which is not before the last one.
    pub(super) fn seek(&mut self, to: Location) -> usize {
        let rest = self.text.get(self.bytes..).unwrap_or_default();
        for passed in rest.chars() {
            if (self.at.line, self.at.column) >= (to.line, to.column) {
                break;
            }
            self.bytes += passed.len_utf8();
            self.at = match passed {
                '\n' => Location { line: self.at.line + 1, column: 1 },
                _ => Location { column: self.at.column + 1, ..self.at },
            };
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> (Vec<&str>, Option<&str>) {
        let script = cut(text).unwrap();
        let of_piece = |piece| match piece {
            Piece::Statement(range) | Piece::Command(range) => &text[range],
        };
        (script.complete.into_iter().map(of_piece).collect(), script.rest.map(|range| &text[range]))
    }

    #[test]
    fn statements_end_at_semicolons_outside_quotes_and_comments() {
        assert_eq!(texts("select 1; select 'a;b' ;"), (vec!["select 1", "select 'a;b'"], None));
        assert_eq!(texts(" -- nothing;\n;;"), (vec![], None));
        assert_eq!(
            texts("select /* ; */ \"a;b\" from t -- ;\n;\nselect 'ü;'\n, 2"),
            (vec!["select /* ; */ \"a;b\" from t"], Some("select 'ü;'\n, 2"))
        );
        assert_eq!(texts("select $$a;b$$;"), (vec!["select $$a;b$$"], None));
    }

    #[test]
    fn lines_with_a_backslash_between_statements_are_commands() {
        let text =
            "-- first\n\\timing off\nselect 1;\n  \\copy t from 'it''s;.csv'\r\nselect '\n\\no;'\n;\n\\x";
        let (pieces, rest) = texts(text);
        let expected =
            ["\\timing off", "select 1", "  \\copy t from 'it''s;.csv'\r", "select '\n\\no;'", "\\x"];
        assert_eq!((pieces.as_slice(), rest), (expected.as_slice(), None));
        let is_command = |piece: &Piece| matches!(piece, Piece::Command(_));
        let kinds: Vec<_> = cut(text).unwrap().complete.iter().map(is_command).collect();
        assert_eq!(kinds, [true, false, true, false, true]);
        // Behind a statement that has not ended.
        assert_eq!(texts("select 1\n\\q"), (vec!["\\q"], None));
        assert_eq!(texts("select 1; select\n \\r\nselect 2;"), (vec!["select 1", "select 2"], None));
        assert_eq!(
            texts("select 1 \\g\nselect '\\g\n';\\g"),
            (vec!["select 1", "select '\\g\n'"], Some("\\g"))
        );
        assert_eq!(texts("select 1\n\\g\n"), (vec!["select 1"], None));
        // What the line of a command leaves open is not open behind it.
        assert_eq!(texts("\\o it's.csv\nselect 'a';\n\\o\nselect 2").1, Some("select 2"));
        assert_eq!(texts("select 1\n\\x"), (vec![], Some("select 1\n\\x")));
        let error = cut("\\x\nselect 1;\nselect 'a").unwrap_err();
        assert!(error.contains("Line: 3"), "{error}");
    }

    #[test]
    fn a_text_without_its_end_is_an_error() {
        for text in ["select 'a", "select \"a", "select 1 /* a", "select 'a;\n"] {
            assert!(cut(text).is_err(), "{text}");
        }
        assert_eq!(line_of("a\nb\nc", 4), 3);
    }
}
