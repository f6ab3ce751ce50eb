//! How far texts are from one another. What compares every character with every other takes its time: it is bounded for two
//! texts, and between them it is looked whether the answer is still wanted.

use std::collections::{BTreeSet, HashMap};

use arrow_array::ArrayRef;
use basalt_core::error::ErrorKind;
use datafusion::{
    common::Result as Done,
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF},
};

use crate::{
    around::{Call, Texts, of_parts, some_rows},
    error::Error,
    interruptible::GivenUp,
};

/// DataFusion's function.
pub(crate) const LEVENSHTEIN: &str = "levenshtein";

/// Pairs of bytes that two texts which are compared have, at most: of characters there are no more.
const PAIRS: usize = 64 << 20;

fn check(a: &str, b: &str) -> Result<(), Error> {
    GivenUp::of_task().check()?;
    pairs(a, b).map(drop)
}

/// How many pairs of bytes two texts have.
fn pairs(a: &str, b: &str) -> Result<usize, Error> {
    match a.len().checked_add(1).zip(b.len().checked_add(1)).and_then(|(a, b)| a.checked_mul(b)) {
        Some(pairs) if pairs <= PAIRS => Ok(pairs),
        _ => Err(Error::new(ErrorKind::MemoryLimit, "the texts are too long to be compared")),
    }
}

/// The way that [`LEVENSHTEIN`] is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bounded;

impl Call for Bounded {
    fn call(function: &ScalarUDF, args: ScalarFunctionArgs) -> Done<ColumnarValue> {
        let [a, b] = args.args.as_slice() else { return function.invoke_with_args(args) };
        let (a, b) = (Texts::new(a)?, Texts::new(b)?);
        let is_once = a.is_one && b.is_one;
        let rows = if is_once { 1 } else { args.number_rows };
        // So many rows together as have few pairs.
        let (mut parts, mut from, mut open) = (Vec::<ArrayRef>::new(), 0, 0);
        for row in 0..rows {
            let own = match (a.get(row), b.get(row)) {
                (Some(a), Some(b)) => pairs(a, b)?,
                _ => 0,
            };
            if open + own > PAIRS {
                GivenUp::of_task().check()?;
                parts.push(some_rows(function, &args, from, row - from)?);
                (from, open) = (row, 0);
            }
            open += own;
        }
        if from == 0 {
            return function.invoke_with_args(args);
        }
        GivenUp::of_task().check()?;
        parts.push(some_rows(function, &args, from, rows - from)?);
        of_parts(&parts, is_once)
    }
}

fn characters(text: &str) -> Vec<char> {
    text.chars().collect()
}

/// Insertions, deletions, substitutions and exchanges of neighbours, of characters.
pub(super) fn damerau(a: &str, b: &str) -> Result<usize, Error> {
    check(a, b)?;
    let (a, b) = (characters(a), characters(b));
    let width = b.len() + 2;
    let most = a.len() + b.len();
    let mut cells = vec![0_usize; (a.len() + 2) * width];
    cells[0] = most;
    for i in 0..=a.len() {
        cells[(i + 1) * width] = most;
        cells[(i + 1) * width + 1] = i;
    }
    for j in 0..=b.len() {
        cells[j + 1] = most;
        cells[width + j + 1] = j;
    }
    let mut last_row: HashMap<char, usize> = HashMap::new();
    for i in 1..=a.len() {
        let mut last_column = 0;
        for j in 1..=b.len() {
            let row = last_row.get(&b[j - 1]).copied().unwrap_or(0);
            let column = last_column;
            let same = a[i - 1] == b[j - 1];
            if same {
                last_column = j;
            }
            let exchanged = cells[row * width + column] + (i - row - 1) + 1 + (j - column - 1);
            cells[(i + 1) * width + j + 1] = (cells[i * width + j] + usize::from(!same))
                .min(cells[(i + 1) * width + j] + 1)
                .min(cells[i * width + j + 1] + 1)
                .min(exchanged);
        }
        last_row.insert(a[i - 1], i);
    }
    Ok(cells[(a.len() + 1) * width + b.len() + 1])
}

/// Places where characters differ, of texts of one length.
pub(super) fn hamming(a: &str, b: &str) -> Result<usize, Error> {
    if a.chars().count() != b.chars().count() {
        return Err(Error::invalid("hamming takes texts of the same length"));
    }
    if a.is_empty() {
        return Err(Error::invalid("hamming takes texts that are not empty"));
    }
    Ok(a.chars().zip(b.chars()).filter(|(a, b)| a != b).count())
}

/// The share of characters that both have, of those that one has.
pub(super) fn jaccard(a: &str, b: &str) -> Result<f64, Error> {
    if a.is_empty() || b.is_empty() {
        return Err(Error::invalid("jaccard takes texts that are not empty"));
    }
    let (a, b): (BTreeSet<char>, BTreeSet<char>) = (a.chars().collect(), b.chars().collect());
    let both = a.intersection(&b).count();
    #[allow(clippy::cast_precision_loss, reason = "there are some million characters at most")]
    let share = both as f64 / (a.len() + b.len() - both) as f64;
    Ok(share)
}

/// Jaro's similarity, and Winkler's, which gives more to texts that begin alike.
pub(super) fn jaro(a: &str, b: &str, winkler: bool) -> Result<f64, Error> {
    check(a, b)?;
    let (a, b) = (characters(a), characters(b));
    if a.is_empty() || b.is_empty() {
        return Ok(0.0);
    }
    let window = (a.len().max(b.len()) / 2).saturating_sub(1);
    let mut taken = vec![false; b.len()];
    let mut of_a = Vec::new();
    for (at, own) in a.iter().enumerate() {
        let from = at.saturating_sub(window);
        let to = (at + window + 1).min(b.len());
        if let Some(found) = (from..to.max(from)).find(|other| !taken[*other] && b[*other] == *own) {
            taken[found] = true;
            of_a.push(*own);
        }
    }
    if of_a.is_empty() {
        return Ok(0.0);
    }
    let of_b = b.iter().zip(&taken).filter(|(_, taken)| **taken).map(|(own, _)| *own);
    let moved = of_a.iter().zip(of_b).filter(|(a, b)| **a != *b).count() / 2;
    #[allow(clippy::cast_precision_loss, reason = "texts are not so long")]
    let (same, moved, la, lb) = (of_a.len() as f64, moved as f64, a.len() as f64, b.len() as f64);
    let jaro = (same / la + same / lb + (same - moved) / same) / 3.0;
    if !winkler || jaro <= 0.7 {
        return Ok(jaro);
    }
    let begin = a.iter().zip(&b).take(4).take_while(|(a, b)| a == b).count();
    #[allow(clippy::cast_precision_loss, reason = "there are at most four")]
    let begin = begin as f64;
    Ok((1.0 - jaro).mul_add(begin * 0.1, jaro))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_examples() {
        assert_eq!(damerau("three", "there").unwrap(), 1);
        assert_eq!(damerau("ca", "abc").unwrap(), 2);
        assert_eq!(damerau("", "abc").unwrap(), 3);
        assert_eq!(hamming("duck", "luck").unwrap(), 1);
        assert!(hamming("a", "ab").is_err());
        assert!(hamming("\u{e9}", "ab").is_err());
        assert_eq!(hamming("\u{e4}", "a").unwrap(), 1);
        assert_eq!(damerau("\u{e4}\u{d6}\u{df}", "acb").unwrap(), 3);
        assert!((jaccard("\u{e4}b", "\u{f6}b").unwrap() - 1.0 / 3.0).abs() < 1e-12);
        assert!((jaro("\u{e4}bc", "abc", false).unwrap() - 7.0 / 9.0).abs() < 1e-9);
        assert!((jaccard("ab", "bc").unwrap() - 1.0 / 3.0).abs() < 1e-12);
        assert!((jaro("CRATE", "TRACE", true).unwrap() - 0.733_333).abs() < 1e-5);
        assert!((jaro("DwAyNE", "DuANE", true).unwrap() - 0.84).abs() < 1e-9);
        assert!((jaro("0", "00", true).unwrap() - 0.85).abs() < 1e-9);
        assert!(damerau(&"x".repeat(10_000), &"y".repeat(10_000)).is_err());
    }
}
