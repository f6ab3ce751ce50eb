//! `format` as PostgreSQL has it, where its first argument is a literal with one of PostgreSQL's specifiers and no brace, which
//! are what DuckDB's has: `%s` is a value as text, `%I` as a name, `%L` as a literal, each maybe of a place (`%2$s`).

use datafusion::sql::sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr};

use super::exprs::{arguments, literal, parsed};
use crate::{
    error::{Error, Result},
    given::quoted,
};

/// A part of such a text.
#[derive(Debug, PartialEq)]
enum Part {
    Text(String),
    /// A value, by its place behind the text if it has one, and how it is written.
    Value(Option<usize>, char),
}

/// What a call of `format` is in the planner's words; `None`: it is DuckDB's.
///
/// # Errors
/// A specifier without an argument, or with a width.
pub(super) fn format(function: &ast::Function, doubled: &mut usize) -> Result<Option<Expr>> {
    let Some([FunctionArg::Unnamed(FunctionArgExpr::Expr(first)), rest @ ..]) = arguments(function) else {
        return Ok(None);
    };
    let Some(text) = literal(first).filter(|text| text.contains('%') && !text.contains('{')) else {
        return Ok(None);
    };
    let Some(parts) = parts(text)? else { return Ok(None) };
    let given = rest.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    let Some(given) = given.collect::<Option<Vec<_>>>() else { return Ok(None) };
    let mut pieces = Vec::with_capacity(parts.len());
    let mut next = 1;
    for part in parts {
        let (at, kind) = match part {
            Part::Text(text) => {
                pieces.push(quoted(&text));
                continue;
            }
            // Default: the one behind the one before.
            Part::Value(at, kind) => (at.unwrap_or(next), kind),
        };
        if at > given.len() {
            let message = format!("format of {text:?} has {} arguments behind it", given.len());
            return Err(Error::invalid(message));
        }
        next = at + 1;
        let value = format!("CAST(${at} AS TEXT)");
        pieces.push(match kind {
            'I' => format!("basalt_quote_name({value})"),
            'L' => format!("quote_nullable({value})"),
            // What is NULL is no part of what is concatenated.
            _ => value,
        });
    }
    let call = parsed(&format!("concat({})", pieces.join(", ")), &given, doubled)?;
    Ok(Some(Expr::Nested(Box::new(call))))
}

/// The parts of a text; `None`: it has no specifier, or one that PostgreSQL has not.
fn parts(text: &str) -> Result<Option<Vec<Part>>> {
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
}
