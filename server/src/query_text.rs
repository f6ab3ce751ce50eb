//! Statements without their literals, for logs: what is asked, not of whom.

use std::{iter::Peekable, str::CharIndices};

/// A statement whose literals are `?`: texts, in single quotes or between dollars, and numbers. Comments are left out, and
/// space is one blank each. Names stay, with their quotes. What is cut off ends where it is.
pub(crate) fn without_literals(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        let is_in_word =
            shown.chars().next_back().is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '"'));
        match c {
            '\'' => {
                let escapes = is_escaping(&shown);
                skip_quoted(&mut rest, '\'', escapes);
                shown.push('?');
            }
            '"' => {
                let end = skip_quoted(&mut rest, '"', false).unwrap_or(text.len());
                shown.push_str(&text[at..end]);
            }
            '$' => match dollar_tag(&text[at..]) {
                Some(tag) => {
                    let body = at + tag.len();
                    // Default: it is cut off.
                    let end = text[body..].find(tag).map_or(text.len(), |end| body + end + tag.len());
                    while rest.next_if(|(next, _)| *next < end).is_some() {}
                    shown.push('?');
                }
                None => shown.push(c),
            },
            '-' if text[at..].starts_with("--") => while rest.next_if(|(_, c)| *c != '\n').is_some() {},
            '/' if text[at..].starts_with("/*") => {
                let end = at + comment(&text[at..]);
                while rest.next_if(|(next, _)| *next < end).is_some() {}
            }
            c if c.is_ascii_digit() && !is_in_word && !shown.ends_with('$') => {
                let is_of_number = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_');
                while rest.next_if(|(_, c)| is_of_number(*c)).is_some() {}
                shown.push('?');
            }
            c if c.is_whitespace() => {
                if !shown.ends_with(' ') {
                    shown.push(' ');
                }
            }
            c => shown.push(c),
        }
    }
    shown.truncate(shown.trim_end().len());
    shown
}

/// Whether a text begins behind this of which a backslash is no character of its own: `E'...'`.
fn is_escaping(shown: &str) -> bool {
    let mut before = shown.chars().rev();
    before.next().is_some_and(|c| matches!(c, 'e' | 'E'))
        && !before.next().is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '"' | '$'))
}

/// The length of the comment that a text begins with, and of those in it.
fn comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match &text.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Goes behind the quote that ends a text; one that is doubled is a part of it, as is one behind a backslash where that
/// `escapes`. `None`: there is no end.
fn skip_quoted(rest: &mut Peekable<CharIndices<'_>>, quote: char, escapes: bool) -> Option<usize> {
    while let Some((at, c)) = rest.next() {
        if c == '\\' && escapes {
            rest.next();
        } else if c == quote && rest.next_if(|(_, c)| *c == quote).is_none() {
            return Some(at + 1);
        }
    }
    None
}

/// `$$` or `$tag$`, where a text begins with it.
fn dollar_tag(text: &str) -> Option<&str> {
    let end = text[1..].find('$')? + 2;
    let tag = &text[..end];
    let name = &tag[1..end - 1];
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    is_name.then_some(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_go_and_names_stay() {
        for (text, shown) in [
            (
                "SELECT a1, t2.b FROM t2 WHERE c = 'it''s' AND d > -1.5e3",
                "SELECT a1, t2.b FROM t2 WHERE c = ? AND d > -?",
            ),
            ("SELECT \"a 1\"\"b\", x'ff' FROM \"T\"", "SELECT \"a 1\"\"b\", x? FROM \"T\""),
            ("IN (1,2, 0x1F, 1_000)  \n LIMIT 10;", "IN (?,?, ?, ?) LIMIT ?;"),
            ("SELECT $1, $12 -- of Ann\nFROM t /* 'Bob' */ WHERE a=3", "SELECT $1, $12 FROM t WHERE a=?"),
            ("SELECT $$secret 'x'$$, $q$a $$ b$q$, 1", "SELECT ?, ?, ?"),
            ("WHERE name = 'cut o", "WHERE name = ?"),
            ("WHERE name = $$cut o", "WHERE name = ?"),
            ("SELECT \"cut", "SELECT \"cut"),
            ("/* cut", ""),
            ("DATE '2013-01-01'", "DATE ?"),
            ("a = E'it\\'s secret' AND b", "a = E? AND b"),
            ("a = e'\\\\' AND \"e\" = 'x\\' AND c", "a = e? AND \"e\" = ? AND c"),
            ("name='x\\', b = 'secret'", "name=?, b = ?"),
            ("/* a /* b */ 'secret' */ c", " c"),
            ("'a'12345 ?7", "?? ??"),
            ("é = 'ü' ÷ 5 €", "é = ? ÷ ? €"),
            ("", ""),
        ] {
            assert_eq!(without_literals(text), shown, "{text}");
        }
    }
}
