//! What information is left in codes: estimated before there are any.

use basalt_kernels::rans::BYTES;

use super::{
    buckets::Model,
    image::{Image, is_of_codes},
};
use crate::encoding::stats::KeyStats;

/// Values of half a byte.
const NIBBLES: usize = 16;

/// The information in a column by the frequencies of its codes, in bits, and the part of it that it may be too high
/// by.
pub(super) fn information(stats: &KeyStats, distinct: &[(i64, u64)]) -> (f64, usize) {
    let bytes: usize = Image::of_blocks(distinct.len(), stats.rows).map(Image::bytes).sum();
    let width = Image::new(distinct.len(), stats.rows).width;
    let share = |n: u64| n as f64 / stats.rows as f64;
    // Default: no code above those of the keys occurs.
    let share_of = |code: usize| distinct.get(code).map_or(0.0, |(_, n)| share(*n));
    let (shares, error): ([f64; BYTES], _) = if width == 8 {
        (std::array::from_fn(share_of), 200)
    } else {
        let codes = 4 / width;
        // Rows that do not depend on each other; where there are fewer runs than they would have, the sample tells.
        let same: f64 = distinct.iter().map(|(_, n)| share(*n) * share(*n)).sum();
        let clustered = (stats.runs as f64) < 0.97 * (1.0 - same) * stats.rows as f64;
        let sampled = (width < 4 && clustered).then(|| sampled(stats, distinct, width)).flatten();
        let code = |nibble: usize, i: u32| nibble >> (i * width) & ((1 << width) - 1);
        let nibbles = sampled.unwrap_or_else(|| {
            std::array::from_fn(|nibble| (0..codes).map(|i| share_of(code(nibble, i))).product())
        });
        (
            std::array::from_fn(|byte| nibbles[byte % NIBBLES] * nibbles[byte / NIBBLES]),
            if sampled.is_some() { 4 } else { 400 },
        )
    };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most a fragment's bytes")]
    let counts = shares.map(|share| (share * bytes as f64 + 0.5) as u64);
    let model = Model::new(&counts, |byte| is_of_codes(byte, width, distinct.len()));
    let counted: u64 = counts.iter().sum();
    (model.bits * bytes as f64 / counted.max(1) as f64, error)
}

/// The share of each nibble in the sample; `None` without one.
fn sampled(stats: &KeyStats, distinct: &[(i64, u64)], width: u32) -> Option<[f64; NIBBLES]> {
    let mut counts = [0_u64; NIBBLES];
    // Codes of one bit lie beside the next rows', those of two bits beside that 64 rows on.
    let (rows, step) = if width == 1 { (4, 1) } else { (2, 64) };
    for piece in &stats.sample {
        let code = |key: &i64| distinct.partition_point(|(other, _)| other < key);
        let codes: Vec<usize> = piece.iter().map(code).collect();
        for span in codes.chunks_exact(rows * step) {
            for first in 0..step {
                let nibble = (0..rows).rev().fold(0, |nibble, i| nibble << width | span[first + i * step]);
                counts[nibble % NIBBLES] += 1;
            }
        }
    }
    let total: u64 = counts.iter().sum();
    (total > 0).then(|| counts.map(|n| n as f64 / total as f64))
}
