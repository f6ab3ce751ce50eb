//! SQL LIKE patterns: `%` is any run of characters, `_` any one, `\` takes the next one as it is.

use crate::error::{Error, ErrorKind, Result};

/// One element of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Char(char),
    AnyOne,
    AnyRun,
}

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    tokens: Vec<Token>,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidQuery`] when it ends in a lone `\`.
    pub fn new(text: &str) -> Result<Self> {
        let mut tokens = Vec::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            tokens.push(match c {
                '%' if tokens.last() == Some(&Token::AnyRun) => continue,
                '%' => Token::AnyRun,
                '_' => Token::AnyOne,
                '\\' => {
                    Token::Char(chars.next().ok_or_else(|| {
                        Error::new(ErrorKind::InvalidQuery, "the pattern ends in a lone '\\'")
                    })?)
                }
                c => Token::Char(c),
            });
        }
        Ok(Self { text: text.to_owned(), tokens })
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The characters that every match begins with, and whether that is all the pattern says:
    /// then it matches exactly the texts with that prefix.
    pub fn prefix(&self) -> (String, bool) {
        let mut prefix = String::new();
        for (i, token) in self.tokens.iter().enumerate() {
            match token {
                Token::Char(c) => prefix.push(*c),
                Token::AnyRun => return (prefix, i + 1 == self.tokens.len()),
                Token::AnyOne => return (prefix, false),
            }
        }
        (prefix, false)
    }

    /// Whether the whole of `text` matches. Takes time in the product of the lengths at worst.
    pub fn matches(&self, text: &str) -> bool {
        // Where to go on when a mismatch comes behind the last `%`: one more character belongs to its run.
        let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
        let (mut at, mut rest) = (0, text.chars());
        loop {
            let before = rest.clone();
            match (self.tokens.get(at), rest.next()) {
                (Some(Token::AnyRun), _) => {
                    retry = Some((at + 1, before.clone()));
                    (at, rest) = (at + 1, before);
                    continue;
                }
                (Some(Token::Char(want)), Some(c)) if *want == c => at += 1,
                (Some(Token::AnyOne), Some(_)) => at += 1,
                (None, None) => return true,
                _ => {
                    let Some((token, from)) = &mut retry else { return false };
                    if from.next().is_none() {
                        return false;
                    }
                    (at, rest) = (*token, from.clone());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str, expected: bool) {
        assert_eq!(Pattern::new(pattern).unwrap().matches(text), expected, "{text:?} LIKE {pattern:?}");
    }

    #[test]
    fn matches_as_sql_does() {
        check("", "", true);
        check("", "a", false);
        check("%", "", true);
        check("a%", "abc", true);
        check("a%", "ba", false);
        check("%c", "abc", true);
        check("%b%", "abc", true);
        check("%b%d%", "abcd", true);
        check("%bd%", "abcd", false);
        check("a_c", "abc", true);
        check("a_c", "ac", false);
        check("_", "é", true);
        check("100\\%", "100%", true);
        check("100\\%", "1000", false);
        check("%aab", "aaaab", true);
        check("a%a", "a", false);
    }

    #[test]
    fn prefixes() {
        let prefix = |p: &str| Pattern::new(p).unwrap().prefix();
        assert_eq!(prefix("abc%"), ("abc".into(), true));
        assert_eq!(prefix("abc"), ("abc".into(), false));
        assert_eq!(prefix("ab_c%"), ("ab".into(), false));
        assert_eq!(prefix("%"), (String::new(), true));
        assert!(Pattern::new("a\\").is_err());
    }
}
