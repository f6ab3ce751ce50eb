//! Texts with the specifiers of PostgreSQL's `format`: `%s` is a value as text, `%I` as a name, `%L` as a literal, each maybe of a
//! place (`%2$s`).

use arrow_array::{Array as _, StringArray};

use crate::{
    bounded,
    error::{Error, Result},
    given,
    system::quoted_name,
};

/// A part of such a text.
#[derive(Debug, PartialEq)]
pub(crate) enum Part {
    Text(String),
    /// A value, by its place behind the text if it has one, and how it is written.
    Value(Option<usize>, char),
}

/// The parts of a text; `None`: it has no specifier, or one that PostgreSQL has not.
///
/// # Errors
/// A specifier with a width.
pub(crate) fn parts(text: &str) -> Result<Option<Vec<Part>>> {
    let mut parts = Vec::new();
    let (mut before, mut has_any) = (String::new(), false);
    let mut rest = text;
    while let Some((plain, behind)) = rest.split_once('%') {
        before.push_str(plain);
        has_any = true;
        if let Some(behind) = behind.strip_prefix('%') {
            before.push('%');
            rest = behind;
            continue;
        }
        let digits = behind.len() - behind.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, tail) = behind.split_at(digits);
        let (place, tail) = match tail.strip_prefix('$') {
            Some(tail) => match number.parse::<usize>() {
                Ok(place @ 1..) => (Some(place), tail),
                _ => return Ok(None),
            },
            // Digits without a sign behind them are a width.
            None => (None, behind),
        };
        let kind = tail.trim_start_matches(|c: char| c == '-' || c == '*' || c.is_ascii_digit());
        let Some(c @ ('s' | 'I' | 'L')) = kind.chars().next() else { return Ok(None) };
        if kind.len() < tail.len() {
            return Err(Error::unsupported("a width in format (lpad and rpad have one)"));
        }
        if !before.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut before)));
        }
        parts.push(Part::Value(place, c));
        rest = &kind[1..];
    }
    before.push_str(rest);
    if !before.is_empty() {
        parts.push(Part::Text(before));
    }
    Ok(has_any.then_some(parts))
}

/// A text of such parts. What is NULL is no part of it, but `NULL` as a literal.
///
/// # Errors
/// NULL as a name.
fn written(parts: &[Part], values: &[Option<&str>]) -> Result<String> {
    let mut text = String::new();
    let mut next = 1;
    for part in parts {
        let (at, kind) = match part {
            Part::Text(plain) => {
                text.push_str(plain);
                continue;
            }
            // Default: the one behind the one before.
            Part::Value(at, kind) => (at.unwrap_or(next), *kind),
        };
        next = at + 1;
        let value = at.checked_sub(1).and_then(|at| values.get(at)).copied().flatten();
        match (kind, value) {
            ('I', Some(name)) => text.push_str(&quoted_name(name)),
            ('I', None) => return Err(Error::invalid("NULL is no name that format writes with %I")),
            ('L', Some(value)) => text.push_str(&given::quoted(value)),
            ('L', None) => text.push_str("NULL"),
            (_, value) => text.extend(value),
        }
    }
    Ok(text)
}

/// Whether there are as many arguments behind the text as its specifiers ask for.
///
/// # Errors
/// There are fewer.
pub(crate) fn check(text: &str, parts: &[Part], arguments: usize) -> Result<()> {
    let mut next = 1;
    for part in parts {
        let Part::Value(at, _) = part else { continue };
        // Default: the one behind the one before.
        let at = at.unwrap_or(next);
        if at > arguments {
            return Err(Error::invalid(format!("format of {text:?} has {arguments} arguments behind it")));
        }
        next = at + 1;
    }
    Ok(())
}

/// The texts of rows: of the first column, with the values of the others.
///
/// # Errors
/// NULL as a name; more text than a call may make.
pub(super) fn formatted(columns: &[StringArray], rows: usize) -> Result<StringArray> {
    let Some((texts, values)) = columns.split_first() else {
        return Err(Error::Internal("a format without a text".to_owned()));
    };
    let mut made = 0;
    let mut last: Option<(&str, Vec<Part>)> = None;
    let mut all = Vec::with_capacity(rows);
    for row in 0..rows {
        if texts.is_null(row) {
            all.push(None);
            continue;
        }
        let text = texts.value(row);
        let parts = match &last {
            Some((known, parts)) if *known == text => parts,
            // Default: none, of a text that the planner leaves to DuckDB's format.
            _ => &last.insert((text, parts(text)?.unwrap_or_default())).1,
        };
        let values: Vec<Option<&str>> =
            values.iter().map(|column| column.is_valid(row).then(|| column.value(row))).collect();
        let text = written(parts, &values)?;
        bounded::add(&mut made, text.len(), "format")?;
        all.push(Some(text));
    }
    Ok(StringArray::from(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_taken_apart_at_their_specifiers() {
        let text = |text: &str| Part::Text(text.to_owned());
        assert_eq!(parts("%s").unwrap(), Some(vec![Part::Value(None, 's')]));
        assert_eq!(
            parts("a %I.%2$L 100%%ä").unwrap(),
            Some(vec![
                text("a "),
                Part::Value(None, 'I'),
                text("."),
                Part::Value(Some(2), 'L'),
                text(" 100%ä")
            ])
        );
        assert_eq!(parts("100%%").unwrap(), Some(vec![text("100%")]));
        for other in ["plain", "50% off", "%d", "%0$s", "%"] {
            assert_eq!(parts(other).unwrap(), None, "{other}");
        }
        assert!(parts("%-10s").is_err());
        assert!(parts("%1$10s").is_err());
    }

    #[test]
    fn values_stand_where_their_specifiers_do() {
        let written = |text: &str, values: &[Option<&str>]| written(&parts(text).unwrap().unwrap(), values);
        let values = [Some("a b"), None, Some("it's")];
        assert_eq!(written("%s|%s|%s %1$s", &values).unwrap(), "a b||it's a b");
        assert_eq!(written("%I %2$L %L", &values).unwrap(), "\"a b\" NULL 'it''s'");
        assert!(written("%2$I", &values).is_err());
        let check = |text: &str, arguments| check(text, &parts(text).unwrap().unwrap(), arguments);
        assert!(check("%s %1$s", 1).is_ok());
        assert!(check("%s %s", 1).is_err());
        assert!(check("%3$s", 2).is_err());
    }
}
