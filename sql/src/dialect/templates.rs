//! PostgreSQL's template patterns (`YYYY-MM-DD HH24:MI:SS`) as strftime's, which are the only ones that the functions take, or, where
//! it has none like them, as expressions beside these.

use datafusion::sql::sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr};

use super::exprs::{arguments, check_doubled, literal, parsed};
use crate::{
    error::{Error, Result},
    given,
};

/// Patterns in any case, and strftime's. Those that begin as others do come first.
const NUMBERS: [(&str, &str); 16] = [
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
    ("Q", "%q"),
];

/// Those of which strftime has no numbers, or others: weeks of the year and of the month, whose first are their first seven days,
/// and days of the week from 1, Sunday.
const COUNTED: [(&str, &str); 3] = [
    ("WW", "lpad(CAST(CAST(floor((date_part('doy', $1) + 6) / 7) AS BIGINT) AS VARCHAR), 2, '0')"),
    ("W", "CAST(CAST(floor((date_part('day', $1) + 6) / 7) AS BIGINT) AS VARCHAR)"),
    ("D", "CAST(CAST(date_part('dow', $1) + 1 AS BIGINT) AS VARCHAR)"),
];

/// Those whose letters say how the words of the answer are written.
const HALVES: [(&str, &str); 4] = [("AM", "%p"), ("PM", "%p"), ("am", "%P"), ("pm", "%P")];

/// Words in the case in which they are written, and whether others stand behind spaces up to the longest. Those that begin as others
/// do come first.
const WORDS: [(&str, &str, bool); 4] =
    [("Month", "%B", true), ("Mon", "%b", false), ("Day", "%A", true), ("Dy", "%a", false)];

/// The longest of [`WORDS`], as long as which the others are made.
const LONGEST: &str = "September";

/// A part of a format.
enum Part {
    /// Of strftime's.
    Format(String),
    /// What is written is an expression over the time; what is read may be strftime's.
    Written { template: String, read: Option<&'static str> },
}

/// A pattern of PostgreSQL's as one of strftime, by which texts are read and most are written; `None`: it is one of strftime.
pub(super) fn strftime(pattern: &str) -> Result<Option<String>> {
    let Some(parts) = parts(pattern)? else { return Ok(None) };
    let formats = parts.iter().map(|part| match part {
        Part::Format(format) => Ok(format.as_str()),
        Part::Written { read: Some(format), .. } => Ok(*format),
        Part::Written { read: None, .. } => {
            Err(Error::unsupported(format!("{pattern:?}, where a text is read,")))
        }
    });
    formats.collect::<Result<String>>().map(Some)
}

/// What `to_char` writes by a pattern of PostgreSQL's that strftime has not; `None`: strftime has it. `doubled` counts the bytes of
/// what stands there twice.
pub(super) fn written(name: &str, function: &ast::Function, doubled: &mut usize) -> Result<Option<Expr>> {
    let Some(
        [
            FunctionArg::Unnamed(FunctionArgExpr::Expr(of)),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(format)),
        ],
    ) = arguments(function)
    else {
        return Ok(None);
    };
    if name != "to_char" {
        return Ok(None);
    }
    let Some(parts) = literal(format).map(parts).transpose()?.flatten() else { return Ok(None) };
    if parts.iter().all(|part| matches!(part, Part::Format(_))) {
        return Ok(None);
    }
    let texts = parts.iter().map(|part| match part {
        Part::Format(format) if format.contains('%') => format!("to_char($1, {})", given::quoted(format)),
        Part::Format(text) => given::quoted(text),
        Part::Written { template, .. } => template.clone(),
    });
    let template = texts.collect::<Vec<_>>().join(" || ");
    let text = parsed(&template, std::slice::from_ref(of), doubled)?;
    check_doubled(*doubled, format_args!("calls of {name}"))?;
    Ok(Some(Expr::Nested(Box::new(text))))
}

/// The parts of a pattern of PostgreSQL's; `None`: it is one of strftime.
fn parts(pattern: &str) -> Result<Option<Vec<Part>>> {
    if is_strftime(pattern) || !pattern.contains(|c: char| c.is_ascii_alphanumeric()) {
        return Ok(None);
    }
    let (mut rest, mut parts, mut format) = (pattern, Vec::new(), String::new());
    while let Some(first) = rest.chars().next() {
        match next(rest) {
            Some((length, Part::Format(other))) => {
                format.push_str(&other);
                rest = &rest[length..];
            }
            Some((length, written)) => {
                if !format.is_empty() {
                    parts.push(Part::Format(std::mem::take(&mut format)));
                }
                parts.push(written);
                rest = &rest[length..];
            }
            None if first == '"' => {
                let quoted = rest[1..].split_once('"');
                let (text, behind) = quoted.ok_or_else(|| unknown(pattern, rest))?;
                format.push_str(&text.replace('%', "%%"));
                rest = behind;
            }
            None if first.is_alphanumeric() => return Err(unknown(pattern, rest)),
            None => {
                // A sign of strftime's stands for itself.
                format.push_str(if first == '%' { "%" } else { "" });
                format.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    if !format.is_empty() {
        parts.push(Part::Format(format));
    }
    Ok(Some(parts))
}

/// Whether a pattern is one of strftime: it has one of its signs, and none of PostgreSQL's that nobody writes as a text.
fn is_strftime(pattern: &str) -> bool {
    let upper = pattern.to_ascii_uppercase();
    pattern.contains('%') && !["YYYY", "HH24", "HH12"].iter().any(|known| upper.contains(known))
}

/// The pattern that a text goes on with, and how long its name is.
fn next(rest: &str) -> Option<(usize, Part)> {
    if let Some(word) = word(rest) {
        return Some(word);
    }
    if let Some((name, format)) = HALVES.iter().find(|(name, _)| rest.starts_with(name)) {
        return Some((name.len(), Part::Format((*format).to_owned())));
    }
    if let Some((name, format)) = begins(&NUMBERS, rest) {
        return Some((name.len(), Part::Format(format.to_owned())));
    }
    if let Some((name, template)) = begins(&COUNTED, rest) {
        return Some((name.len(), Part::Written { template: template.to_owned(), read: None }));
    }
    // Without zeros; those of a fraction and of the zone are longer.
    let (name, format) =
        begins(&NUMBERS, rest.strip_prefix("FM")?).filter(|(_, format)| format.len() == 2)?;
    Some(("FM".len() + name.len(), Part::Format(format.replace('%', "%-"))))
}

/// The first of several patterns in any case that a text begins with.
fn begins(of: &[(&'static str, &'static str)], rest: &str) -> Option<(&'static str, &'static str)> {
    of.iter()
        .find(|(name, _)| rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)))
        .copied()
}

/// The word that a text goes on with. Behind `FM` and `TM` it is not filled up.
fn word(rest: &str) -> Option<(usize, Part)> {
    let bare = rest.strip_prefix("FM").or_else(|| rest.strip_prefix("TM"));
    let name = bare.unwrap_or(rest);
    WORDS.iter().find_map(|(word, format, is_long)| {
        let cases = [(*word).to_owned(), word.to_uppercase(), word.to_lowercase()];
        let case = cases.iter().position(|case| name.starts_with(case.as_str()))?;
        let is_filled = *is_long && bare.is_none();
        let length = rest.len() - name.len() + word.len();
        if case == 0 && !is_filled {
            return Some((length, Part::Format((*format).to_owned())));
        }
        let text = format!("{}(to_char($1, '{format}'))", ["", "upper", "lower"][case]);
        let template = if is_filled { format!("rpad({text}, {})", LONGEST.len()) } else { text };
        Some((length, Part::Written { template, read: Some(*format) }))
    })
}

fn unknown(pattern: &str, rest: &str) -> Error {
    let names = NUMBERS.iter().chain(&COUNTED).chain(&HALVES).map(|(name, _)| *name);
    let known = names.chain(WORDS.iter().map(|(name, ..)| *name)).collect::<Vec<_>>().join(", ");
    Error::invalid(format!(
        "{rest:?} in {pattern:?}: the patterns are {known}, or else those of strftime (%Y-%m-%d)"
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
            ("TMMonth FMDD, FMMM \"100%\" yyyy", Some("%B %-d, %-m 100%% %Y")),
            ("YYYY%Q", Some("%Y%%%q")),
            ("FMDay \"week\" IW", Some("%A week %V")),
            ("HH12:MI pm TZ", Some("%I:%M %P UTC")),
            ("%d/%m", None),
            ("-", None),
            ("", None),
        ] {
            assert_eq!(strftime(pattern).unwrap().as_deref(), expected, "{pattern}");
        }
        for pattern in ["999", "J", "YYYY WW", "DD \"x", "Jü", "YYYY-W%V", "FMMS"] {
            assert!(strftime(pattern).is_err(), "{pattern}");
        }
    }
}
