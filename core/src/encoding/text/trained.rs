//! A compressor for the texts of a column, trained on a sample of them.

use fsst::Compressor;

use super::matcher::{Batch, Matcher};

/// Bytes of the sample that the compressor is trained on: as many as its training looks at.
const TRAINING_BYTES: usize = (1 << 14) - 1;
/// Bytes of the sample that shows how well it does.
const TRIAL_BYTES: usize = 1 << 15;
/// Bytes that a sample takes of one text.
const PIECE: usize = 512;

/// A compressor, and how well it does.
pub(super) struct Trained {
    pub(super) compressor: Compressor,
    pub(super) matcher: Matcher,
    /// Bytes of a sample before and after it was compressed.
    trial: (usize, usize),
}

impl std::fmt::Debug for Trained {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trained").field("trial", &self.trial).finish_non_exhaustive()
    }
}

impl Trained {
    /// Trained on texts, and tried on others where there are enough: `rows` of `bytes` bytes, which `text` gives.
    pub(super) fn new<'a>(rows: usize, bytes: usize, text: impl Fn(usize) -> &'a str) -> Self {
        let sample = |most, number| sample((rows, bytes), &text, most, number);
        let compressor = Compressor::train(&sample(TRAINING_BYTES, 0));
        let symbols = compressor.symbol_table().iter().map(|symbol| symbol.to_u64());
        let matcher = Matcher::new(symbols.zip(compressor.symbol_lengths().iter().copied()));
        let mut batch = Batch::default();
        sample(TRIAL_BYTES, 1).into_iter().for_each(|text| batch.push(text));
        let mut codes = Vec::new();
        matcher.compress(&mut batch, &mut codes, |_| {});
        Self { compressor, matcher, trial: (batch.bytes.len(), codes.len()) }
    }

    /// What `bytes` of texts come to.
    pub(super) fn estimate(&self, bytes: u64) -> u64 {
        let (before, after) = (self.trial.0 as u64, self.trial.1 as u64);
        bytes * after.max(1) / before.max(1)
    }
}

/// Pieces of texts all over a column of so many rows and bytes, of at most `most` bytes: the whole column where that is
/// no more. Samples of other numbers take other texts.
fn sample<'a>(
    (rows, bytes): (usize, usize),
    text: impl Fn(usize) -> &'a str,
    most: usize,
    number: usize,
) -> Vec<&'a [u8]> {
    if bytes <= most {
        return (0..rows).map(|row| text(row).as_bytes()).collect();
    }
    // A step of many texts makes for a sample of many places. Pieces are shorter than that where texts are.
    let piece = (bytes / rows).clamp(1, PIECE);
    let step = (rows * piece / most).max(1);
    let (mut sample, mut left) = (Vec::new(), most);
    for row in (number * step / 2..rows).step_by(step) {
        let text = text(row).as_bytes();
        let start = row * PIECE % (text.len() / PIECE + 1).saturating_mul(PIECE);
        let piece = &text[start.min(text.len())..];
        let piece = &piece[..piece.len().min(PIECE).min(left)];
        left -= piece.len();
        sample.push(piece);
        if left == 0 {
            break;
        }
    }
    sample
}
