//! A text cut into statements.

use std::ops::Range;

use sqlparser::{
    dialect::GenericDialect,
    tokenizer::{Location, Token, Tokenizer},
};

/// A text that is read as far as it is understood.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    /// The statements that end with a semicolon, without it.
    pub(super) complete: Vec<Range<usize>>,
    /// What is behind the last semicolon, if it is more than space and comments.
    pub(super) rest: Option<Range<usize>>,
}

/// Cuts a text at the semicolons that stand in no quotes and in no comment.
///
/// # Errors
/// Why the text has no end: a quote or a comment is not closed.
pub(super) fn cut(text: &str) -> Result<Script, String> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location();
    let tokens = tokens.map_err(|error| error.to_string())?;
    let mut script = Script::default();
    let mut cursor = Cursor { text, bytes: 0, at: Location { line: 1, column: 1 } };
    for token in tokens {
        match token.token {
            Token::Whitespace(_) | Token::EOF => {}
            Token::SemiColon => script.complete.extend(script.rest.take()),
            _ => {
                let from = cursor.seek(token.span.start);
                let to = cursor.seek(token.span.end);
                script.rest = Some(script.rest.take().map_or(from, |rest| rest.start)..to);
            }
        }
    }
    Ok(script)
}

/// The line of a text, from 1, in which a byte is.
pub(super) fn line_of(text: &str, byte: usize) -> usize {
    text.bytes().take(byte).filter(|byte| *byte == b'\n').count() + 1
}

/// A place in a text that moves on.
struct Cursor<'a> {
    text: &'a str,
    bytes: usize,
    at: Location,
}

impl Cursor<'_> {
    /// The bytes before a place, which is not before the last one.
    fn seek(&mut self, to: Location) -> usize {
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
        (
            script.complete.into_iter().map(|range| &text[range]).collect(),
            script.rest.map(|range| &text[range]),
        )
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
    fn a_text_without_its_end_is_an_error() {
        for text in ["select 'a", "select \"a", "select 1 /* a", "select 'a;\n"] {
            assert!(cut(text).is_err(), "{text}");
        }
        assert_eq!(line_of("a\nb\nc", 4), 3);
    }
}
