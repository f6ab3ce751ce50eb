//! SQL LIKE patterns: `%` is any run of characters, `_` any one, `\` takes the next one as it is.
//!
//! A pattern is cut at its runs. The first piece stands at the start of the text, the last at its end, and each
//! between them where it is found first, so that a match never goes back.

use memchr::memmem::Finder;

use crate::{
    error::{Error, ErrorKind, Result},
    limits::MAX_WILD_PIECE,
};

/// What stands between two `%`.
#[derive(Clone, Debug)]
enum Piece {
    Literal(Box<Literal>),
    /// Characters, of which `None` is any one.
    Wild(Vec<Option<char>>),
}

/// Characters that are all given, and the search for them.
#[derive(Clone, Debug)]
struct Literal {
    text: String,
    finder: Finder<'static>,
}

impl Literal {
    fn new(text: String) -> Self {
        Self { finder: Finder::new(&text).into_owned(), text }
    }
}

impl Piece {
    fn new(chars: Vec<Option<char>>) -> Self {
        match chars.iter().copied().collect::<Option<String>>() {
            Some(literal) => Self::Literal(Box::new(Literal::new(literal))),
            None => Self::Wild(chars),
        }
    }

    /// Its characters, where all of them are given.
    fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal(literal) => Some(&literal.text),
            Self::Wild(_) => None,
        }
    }

    /// What follows the piece at the start of `text`.
    fn strip_prefix<'t>(&self, text: &'t str) -> Option<&'t str> {
        match self {
            Self::Literal(literal) if literal.text.is_empty() => Some(text),
            Self::Literal(literal) => text.strip_prefix(literal.text.as_str()),
            Self::Wild(piece) => {
                let mut rest = text.chars();
                piece.iter().all(|want| same(*want, rest.next())).then_some(rest.as_str())
            }
        }
    }

    fn is_suffix(&self, text: &str) -> bool {
        match self {
            Self::Literal(literal) => literal.text.is_empty() || text.ends_with(literal.text.as_str()),
            Self::Wild(piece) => {
                let mut rest = text.chars();
                piece.iter().rev().all(|want| same(*want, rest.next_back()))
            }
        }
    }

    /// What follows the piece where it is found first.
    fn find<'t>(&self, text: &'t str) -> Option<&'t str> {
        match self {
            Self::Literal(literal) => {
                let at = literal.finder.find(text.as_bytes())?;
                text.get(at + literal.text.len()..)
            }
            Self::Wild(_) => text.char_indices().find_map(|(at, _)| self.strip_prefix(&text[at..])),
        }
    }
}

fn same(want: Option<char>, found: Option<char>) -> bool {
    found.is_some_and(|found| want.is_none_or(|want| want == found))
}

/// A parsed pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    first: Piece,
    /// The pieces behind each run; none when there is no run.
    rest: Vec<Piece>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidQuery`] when it ends in a lone `\`, or when a piece with `_` between two `%` has
    /// more than [`MAX_WILD_PIECE`] characters.
    pub fn new(text: &str) -> Result<Self> {
        let invalid = |message: String| Error::new(ErrorKind::InvalidQuery, message);
        let mut pieces = vec![Vec::new()];
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            let next = match c {
                '%' => {
                    pieces.push(Vec::new());
                    continue;
                }
                '_' => None,
                '\\' => Some(chars.next().ok_or_else(|| invalid("the pattern ends in a lone '\\'".into()))?),
                c => Some(c),
            };
            if let Some(piece) = pieces.last_mut() {
                piece.push(next);
            }
        }
        let mut pieces = pieces.into_iter().map(Piece::new);
        let first = pieces.next().unwrap_or_else(|| Piece::new(Vec::new()));
        let rest: Vec<Piece> = pieces.collect();
        let between = &rest[..rest.len().saturating_sub(1)];
        if between.iter().any(|piece| matches!(piece, Piece::Wild(chars) if chars.len() > MAX_WILD_PIECE)) {
            let message = format!("more than {MAX_WILD_PIECE} characters with '_' between two '%'");
            return Err(invalid(message));
        }
        Ok(Self { text: text.to_owned(), first, rest })
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The characters that every match begins with, and whether that is all the pattern says:
    /// then it matches exactly the texts with that prefix.
    pub fn prefix(&self) -> (String, bool) {
        match &self.first {
            Piece::Literal(prefix) => {
                let is_empty = |piece: &Piece| matches!(piece, Piece::Literal(l) if l.text.is_empty());
                (prefix.text.clone(), !self.rest.is_empty() && self.rest.iter().all(is_empty))
            }
            Piece::Wild(chars) => (chars.iter().map_while(|c| *c).collect(), false),
        }
    }

    /// The characters before the first `%`, between two, and behind the last, where all of them are given; `None`: some may be
    /// any, or there is no `%`.
    pub(crate) fn literals(&self) -> Option<(&str, Vec<&str>, &str)> {
        let (last, between) = self.rest.split_last()?;
        let between = between.iter().map(Piece::literal).collect::<Option<Vec<_>>>()?;
        Some((self.first.literal()?, between, last.literal()?))
    }

    /// Whether the whole of `text` matches. Takes time in the length of the text, times [`MAX_WILD_PIECE`] at
    /// worst.
    pub fn matches(&self, text: &str) -> bool {
        let Some(mut text) = self.first.strip_prefix(text) else { return false };
        let Some((last, between)) = self.rest.split_last() else { return text.is_empty() };
        for piece in between {
            match piece.find(text) {
                Some(rest) => text = rest,
                None => return false,
            }
        }
        last.is_suffix(text)
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
        check("ab%ba", "aba", false);
        check("%%a%%", "bab", true);
        check("%a_c%e_", "xabcabcdef", true);
        check("%a_c%e_", "xabcabcde", false);
        check("_%_", "é", false);
        check("_%_", "éé", true);
        check("%_é_%", "aéa", true);
        check("%_é_%", "éa", false);
        check("\\_%\\%", "_x%", true);
        check("\\_%\\%", "ax%", false);
    }

    #[test]
    fn prefixes() {
        let prefix = |p: &str| Pattern::new(p).unwrap().prefix();
        assert_eq!(prefix("abc%"), ("abc".into(), true));
        assert_eq!(prefix("abc"), ("abc".into(), false));
        assert_eq!(prefix("ab_c%"), ("ab".into(), false));
        assert_eq!(prefix("%"), (String::new(), true));
        assert_eq!(prefix("ab%%"), ("ab".into(), true));
        assert_eq!(prefix("ab%c"), ("ab".into(), false));
        assert!(Pattern::new("a\\").is_err());
    }

    #[test]
    fn long_pieces_are_linear_or_refused() {
        // Text times pattern, character by character, would take hours.
        let (piece, text) = (format!("{}b", "a".repeat(500_000)), "a".repeat(1 << 20));
        check(&format!("%{piece}%"), &text, false);
        check(&format!("_{piece}%"), &text, false);
        check(&format!("%_{piece}"), &text, false);
        assert!(Pattern::new(&format!("%_{piece}%")).is_err());
    }
}
