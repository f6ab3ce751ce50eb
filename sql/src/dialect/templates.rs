//! PostgreSQL's template patterns (`YYYY-MM-DD HH24:MI:SS`) as strftime's, which are the only ones that the functions take.

use crate::error::{Error, Result};

/// Patterns in any case, and strftime's. Those that begin as others do come first.
const NUMBERS: [(&str, &str); 15] = [
    ("YYYY", "%Y"),
    ("IYYY", "%G"),
    ("YY", "%y"),
    ("MM", "%m"),
    ("DDD", "%j"),
    ("DD", "%d"),
    ("HH24", "%H"),
    ("HH12", "%I"),
    ("HH", "%I"),
    ("MI", "%M"),
    ("MS", "%3f"),
    ("SS", "%S"),
    ("US", "%6f"),
    ("IW", "%V"),
    ("TZ", "UTC"),
];

/// Those whose letters say how the words of the answer are written.
const WORDS: [(&str, &str); 8] = [
    ("FMMonth", "%B"),
    ("FMDay", "%A"),
    ("Mon", "%b"),
    ("Dy", "%a"),
    ("AM", "%p"),
    ("PM", "%p"),
    ("am", "%P"),
    ("pm", "%P"),
];

/// A pattern of PostgreSQL's as one of strftime; `None`: it is one of strftime.
pub(super) fn strftime(pattern: &str) -> Result<Option<String>> {
    if pattern.contains('%') || !pattern.contains(|c: char| c.is_ascii_alphanumeric()) {
        return Ok(None);
    }
    let (mut rest, mut format) = (pattern, String::new());
    while let Some(first) = rest.chars().next() {
        let number = NUMBERS
            .iter()
            .find(|(name, _)| rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)));
        let word = WORDS.iter().find(|(name, _)| rest.starts_with(name));
        if let Some((name, other)) = word.or(number) {
            format.push_str(other);
            rest = &rest[name.len()..];
        } else if first == '"' {
            let quoted = rest[1..].split_once('"');
            let (text, behind) = quoted.ok_or_else(|| unknown(pattern, rest))?;
            format.push_str(text);
            rest = behind;
        } else if first.is_alphanumeric() {
            return Err(unknown(pattern, rest));
        } else {
            format.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    Ok(Some(format))
}

fn unknown(pattern: &str, rest: &str) -> Error {
    let known = NUMBERS.iter().chain(&WORDS).map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    Error::invalid(format!(
        "{rest:?} in {pattern:?}: the patterns are {known}, and those of strftime (%Y-%m-%d)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_both_kinds() {
        for (pattern, expected) in [
            ("YYYY-MM-DD HH24:MI:SS.US", Some("%Y-%m-%d %H:%M:%S.%6f")),
            ("yyyymmdd", Some("%Y%m%d")),
            ("Dy, DD Mon YYYY", Some("%a, %d %b %Y")),
            ("FMDay \"week\" IW", Some("%A week %V")),
            ("HH12:MI pm TZ", Some("%I:%M %P UTC")),
            ("%d/%m", None),
            ("-", None),
            ("", None),
        ] {
            assert_eq!(strftime(pattern).unwrap().as_deref(), expected, "{pattern}");
        }
        for pattern in ["999", "Month", "YYYY Q", "DD \"x", "Jü"] {
            assert!(strftime(pattern).is_err(), "{pattern}");
        }
    }
}
