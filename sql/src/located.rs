//! The place of an error that came without one: the end of a statement that is not complete, the table that there is none of,
//! the literal that is no value of a type. The planner has forgotten where they stood; the text has them.

use basalt_core::error::ErrorKind;
use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Location, Token, TokenWithSpan, Tokenizer},
};

use crate::{
    error::{Error, Result},
    syntax::SYNTAX,
};

/// Words before the name of a table.
const BEFORE_TABLES: [Keyword; 10] = [
    Keyword::FROM,
    Keyword::JOIN,
    Keyword::INTO,
    Keyword::UPDATE,
    Keyword::TABLE,
    Keyword::USING,
    Keyword::TRUNCATE,
    Keyword::COPY,
    Keyword::DESCRIBE,
    Keyword::DESC,
];

/// What a statement has come to before it gave rows, where an error has its place in the text if that is known.
pub(crate) fn located<T>(outcome: Result<T>, sql: &str) -> Result<T> {
    outcome.map_err(|error| match place(&error, sql) {
        Some(place) => error.at(place.line, place.column),
        None => error,
    })
}

fn place(error: &Error, sql: &str) -> Option<Location> {
    let error = error.statement().filter(|error| error.place().is_none())?;
    let tokens = Tokenizer::new(&SYNTAX, sql).tokenize_with_location().ok()?;
    let tokens: Vec<_> = tokens
        .into_iter()
        .filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF | Token::SemiColon))
        .collect();
    let message = error.message();
    if message.ends_with("found EOF") {
        return tokens.last().map(|token| token.span.end);
    }
    match error.kind() {
        ErrorKind::TableNotFound => of_table(message.strip_prefix("no table ")?, &tokens),
        ErrorKind::TypeMismatch | ErrorKind::InvalidQuery | ErrorKind::Overflow => {
            of_literal(message, &tokens)
        }
        _ => None,
    }
}

/// Where the table is that a message begins with.
fn of_table(message: &str, tokens: &[TokenWithSpan]) -> Option<Location> {
    let name = quoted(message)?;
    let name = name.rsplit('.').next()?;
    let is_it = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_some() => word.value == name,
        Token::Word(word) => word.value.eq_ignore_ascii_case(name),
        _ => false,
    };
    let begins = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => {
            word.quote_style.is_none()
                && (BEFORE_TABLES.contains(&word.keyword) || word.value.eq_ignore_ascii_case("summarize"))
        }
        _ => false,
    };
    // What is before the first of a qualified name.
    let before = |mut at: usize| {
        while at >= 2 && tokens[at - 1].token == Token::Period {
            at -= 2;
        }
        at.checked_sub(1).and_then(|before| tokens.get(before))
    };
    let named: Vec<usize> = (0..tokens.len()).filter(|at| is_it(&tokens[*at])).collect();
    let from = tokens.iter().position(begins).unwrap_or_default();
    let behind_word = named.iter().find(|at| before(**at).is_some_and(begins));
    let behind_comma = || {
        let comma =
            |at: &&usize| **at > from && before(**at).is_some_and(|token| token.token == Token::Comma);
        named.iter().find(comma)
    };
    let only = || named.first().filter(|_| named.len() == 1);
    let at = behind_word.or_else(behind_comma).or_else(only)?;
    Some(tokens[*at].span.start)
}

/// Where the literal is that a message quotes, if it is there once.
fn of_literal(message: &str, tokens: &[TokenWithSpan]) -> Option<Location> {
    let is_quoted = |text: &str| {
        !text.is_empty() && (message.contains(&format!("'{text}'")) || message.contains(&format!("{text:?}")))
    };
    let mut found = tokens.iter().filter(|token| match &token.token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => is_quoted(text),
        _ => false,
    });
    match (found.next(), found.next()) {
        (Some(only), None) => Some(only.span.start),
        _ => None,
    }
}

/// The text in quotes that a message begins with.
fn quoted(message: &str) -> Option<String> {
    let mut chars = message.strip_prefix('"')?.chars();
    let mut name = String::new();
    loop {
        match chars.next()? {
            '"' => return Some(name),
            '\\' => name.push(chars.next()?),
            c => name.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: ErrorKind, message: &str, sql: &str, expected: Option<&str>) {
        let error = located::<()>(Err(Error::new(kind, message)), sql).unwrap_err();
        let place = error.statement().and_then(|error| error.place()).map(str::to_owned);
        assert_eq!(place.as_deref(), expected, "{sql}");
    }

    #[test]
    fn tables_that_are_not_there() {
        let check = |sql: &str, expected| {
            check(ErrorKind::TableNotFound, "no table \"x\"; did you mean \"y\"?", sql, expected)
        };
        check("SELECT x FROM x", Some("line 1, column 15"));
        check("SELECT x, x\nFROM t, X", Some("line 2, column 9"));
        check("SELECT * FROM t JOIN\n  \"x\" USING (x)", Some("line 2, column 3"));
        check("SELECT * FROM db.public.x", Some("line 1, column 25"));
        check("SUMMARIZE x", Some("line 1, column 11"));
        check("INSERT INTO x SELECT x FROM y", Some("line 1, column 13"));
        check("SELECT * FROM \"X\"", None);
        super::tests::check(ErrorKind::TableNotFound, "view \"v\": no table \"x\"", "SELECT x FROM v", None);
    }

    #[test]
    fn ends_and_literals() {
        check(
            ErrorKind::InvalidQuery,
            "expected an expression, found EOF",
            "SELECT 1,\n  a + -- b\n",
            Some("line 2, column 6"),
        );
        let message = "cannot cast string 'abc' to value of Int32 type";
        check(ErrorKind::TypeMismatch, message, "SELECT 1 + CAST('abc' AS INT)", Some("line 1, column 17"));
        check(ErrorKind::TypeMismatch, message, "SELECT 'abc' = CAST('abc' AS INT)", None);
        check(ErrorKind::TypeMismatch, "\"x y\" is no date", "SELECT a > 'x y'", Some("line 1, column 12"));
        check(ErrorKind::InvalidQuery, "nothing", "SELECT 'a'", None);
    }
}
