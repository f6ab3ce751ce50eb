//! Which character separates the fields of a CSV.
//!
//! The one by which most of the first rows have as many fields as the first, if those are more than one; among equals
//! the one that makes more fields, then the one that the extension says. Where none makes more than one field, it is
//! the one of the extension.

use std::io::{Cursor, Read as _};

use basalt_nested::csv::{Record, Splitter};

use super::source::InputFile;
use crate::cli::CliError;

const CANDIDATES: [u8; 4] = [b',', b';', b'\t', b'|'];
/// What is looked at.
const SAMPLE_BYTES: u64 = 1 << 18;
const SAMPLE_ROWS: usize = 100;

/// The delimiter of a file.
pub(super) fn delimiter(file: &InputFile, default: u8) -> Result<u8, CliError> {
    let (input, _) = file.open_text()?;
    let mut sample = Vec::new();
    input.take(SAMPLE_BYTES).read_to_end(&mut sample).map_err(|e| file.error(e))?;
    Ok(of_sample(&sample, sample.len() as u64 == SAMPLE_BYTES, default))
}

/// `is_cut`: the sample may end in the middle of a row.
fn of_sample(sample: &[u8], is_cut: bool, default: u8) -> u8 {
    let score = |delimiter: u8| {
        let counts = counts(sample, delimiter, is_cut);
        let first = counts.first().copied().unwrap_or(0);
        let same = counts.iter().filter(|count| **count == first).count();
        // Thousandths of the rows; fields; whether the extension says so.
        (first > 1).then(|| (same * 1000 / counts.len(), first, delimiter == default))
    };
    let best = CANDIDATES.into_iter().filter_map(|d| Some((score(d)?, d))).max_by_key(|(score, _)| *score);
    best.map_or(default, |(_, delimiter)| delimiter)
}

/// How many fields the first rows have.
fn counts(sample: &[u8], delimiter: u8, is_cut: bool) -> Vec<usize> {
    let (mut counts, mut record) = (Vec::new(), Record::default());
    let Ok(mut splitter) = Splitter::new(Cursor::new(sample), delimiter) else { return counts };
    while counts.len() < SAMPLE_ROWS && splitter.next(&mut record).is_ok_and(|found| found) {
        if !record.is_blank {
            counts.push(record.len());
        }
    }
    if is_cut && counts.len() > 1 && counts.len() < SAMPLE_ROWS {
        counts.pop();
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiters_are_found() {
        let check = |text: &str, default: u8, expected: u8| {
            let found = of_sample(text.as_bytes(), false, default);
            assert_eq!(char::from(found), char::from(expected), "{text:?}");
        };
        check("a,b\n1,2\n", b',', b',');
        check("a;b\n1,5;2,5\n", b',', b';');
        check("a\tb\n1\t2\n", b',', b'\t');
        check("a|b|c\n1|2|3\n", b',', b'|');
        check("a\tb\n1,5\t2\n", b'\t', b'\t');
        check("a,b\n1,2\n", b'\t', b',');
        // Quotes count: what is in them separates nothing.
        check("a;b\n\"1;1;1\";\"x,y\"\n", b',', b';');
        // One column, whatever is in it.
        check("note\nhello, world\nx, y\n", b',', b',');
        check("a\n", b'\t', b'\t');
        check("", b',', b',');
        // Some bad rows do not count.
        check("a;b\n1;2\n3\n4;5\n", b',', b';');
        check("a,b;c\n1,2;3\n", b',', b',');
    }
}
