//! A compressor for the texts of a column, trained on a sample of them.

use fsst::Compressor;

use super::TextStats;

/// Bytes of the sample that the compressor is trained on: as many as its training looks at.
const TRAINING_BYTES: usize = (1 << 14) - 1;
/// Bytes of the sample that shows how well it does.
const TRIAL_BYTES: usize = 1 << 15;
/// Bytes that a sample takes of one text.
const PIECE: usize = 512;

/// A compressor, and how well it does.
pub(super) struct Trained {
    pub(super) compressor: Compressor,
    /// Bytes of a sample before and after it was compressed.
    trial: (usize, usize),
}

impl std::fmt::Debug for Trained {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trained").field("trial", &self.trial).finish_non_exhaustive()
    }
}

impl Trained {
    /// Trained on texts, and tried on others where there are enough.
    pub(super) fn new(stats: &TextStats<'_>) -> Self {
        let compressor = Compressor::train(&sample(stats, TRAINING_BYTES, 0));
        let (mut codes, mut ends) = (Vec::new(), Vec::new());
        let trial = sample(stats, TRIAL_BYTES, 1);
        compress(&compressor, &trial, &mut codes, &mut ends);
        Self { compressor, trial: (trial.iter().map(|text| text.len()).sum(), codes.len()) }
    }

    /// What `bytes` of texts come to.
    pub(super) fn estimate(&self, bytes: u64) -> u64 {
        let (before, after) = (self.trial.0 as u64, self.trial.1 as u64);
        bytes * after.max(1) / before.max(1)
    }
}

/// Appends the codes of texts, and where those of each end.
pub(super) fn compress(compressor: &Compressor, texts: &[&[u8]], codes: &mut Vec<u8>, ends: &mut Vec<u64>) {
    compressor.compress_bulk_into::<{ Compressor::DEFAULT_BULK_LANES }>(texts, codes, ends);
}

/// Pieces of texts all over the column, of at most `bytes` bytes: the whole column where that is no more. Samples of
/// other numbers take other texts.
fn sample<'a>(stats: &TextStats<'a>, bytes: usize, number: usize) -> Vec<&'a [u8]> {
    let rows = stats.rows();
    if stats.bytes <= bytes {
        return stats.texts(0..rows).map(str::as_bytes).collect();
    }
    // A step of many texts makes for a sample of many places. Pieces are shorter than that where texts are.
    let piece = (stats.bytes / rows).clamp(1, PIECE);
    let step = (rows * piece / bytes).max(1);
    let (mut sample, mut left) = (Vec::new(), bytes);
    for row in (number * step / 2..rows).step_by(step) {
        let text = stats.text(row).as_bytes();
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
