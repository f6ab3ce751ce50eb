//! Runs of equal rows, as a mask of their ends: it selects the last row of each.

use std::ops::Range;

use crate::dispatch::current;
pub use crate::forms::runs::MAX_K;

/// Selects the last row of each run: `bits` of `codes` are a Rice code (Rice and Plaunt, 1971) of each run's length less
/// one, the quotient by 2^k in unary, as many zeros and a one, and the k low bits. The first run begins at row `row`.
/// Other bits of the words of these rows become 0, those below `row` apart.
///
/// # Panics
/// Where `k` is above [`MAX_K`], `codes` ends before the bits, or a row is outside of `out`.
#[track_caller]
pub fn ends(codes: &[u8], bits: Range<usize>, k: u32, row: usize, out: &mut [u64]) {
    current().runs_ends(codes, bits, k, row, out);
}

/// Writes the mask of the rows whose run is selected: `runs` has a bit for each run, that of the run that the first row
/// is in is `first`. Bits that are missing are 0.
///
/// # Panics
/// Where `ends` and `out` have different lengths.
#[track_caller]
pub fn spread(ends: &[u64], runs: &[u64], first: usize, out: &mut [u64]) {
    current().runs_spread(ends, runs, first, out);
}

/// Writes which run each of some rows is in, counted from that of the first row, modulo 2^16.
///
/// # Panics
/// Where a row is behind `ends`, or there are not as many rows as numbers.
#[track_caller]
pub fn numbers(ends: &[u64], rows: &[u16], out: &mut [u16]) {
    current().runs_numbers(ends, rows, out);
}
