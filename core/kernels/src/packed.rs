//! Bit-packed codes, laid out so that SIMD registers hold consecutive rows.
//!
//! A code has `width` bits, 1 to 64. Lanes are the least of 8, 16, 32 and 64 bits that hold it, and a vector is
//! 64 bytes of lanes. A unit is 512 rows in `width` vectors: row `r` lies in lane `r % lanes` at place
//! `r / lanes`, and every lane is a little-endian stream of bits of its own, in which place `p` has bits
//! `p * width .. (p + 1) * width`; the stream's k-th word is the lane's word in the unit's k-th vector. So all
//! lanes shift by the same amount, and the codes of one place are consecutive rows. (The vertical layout of
//! Lemire and Boytsov, "Decoding billions of integers per second through vectorization", 2015, and of FastLanes,
//! Afroozeh and Boncz, PVLDB 16(9), but in the rows' own order.)
//!
//! Units follow each other; the last one ends with the vector that holds its last row (rounded up to 64 rows),
//! and a vector of zeros follows, which a reader may load but never needs.

use crate::{FloatSum, decimals::Decimals, dispatch::current};
pub use crate::{
    forms::packed::{MAX_SET_WIDTH, Patch, UNIT_ROWS, words},
    scalar::codes::get,
};

/// Packs codes; bits of a code above `width` are dropped.
///
/// # Panics
/// Where `width` is not 1 to 64, or `out` has not exactly [`words`]`(width, codes.len())` words.
#[track_caller]
pub fn pack(width: u32, codes: &[u64], out: &mut [u64]) {
    current().packed_pack(width, codes, out);
}

/// Packs codes of a byte.
///
/// # Panics
/// As [`pack`].
#[track_caller]
pub fn pack_bytes(width: u32, codes: &[u8], out: &mut [u64]) {
    current().packed_pack_bytes(width, codes, out);
}

/// Packs what keys are above `base` (wrapping).
///
/// # Panics
/// As [`pack`].
#[track_caller]
pub fn pack_keys(width: u32, base: i64, keys: &[i64], out: &mut [u64]) {
    current().packed_pack_keys(width, base, keys, out);
}

/// Writes `base + code` (wrapping) of rows `start..start + out.len()`.
///
/// # Panics
/// Where `width` is not 1 to 64, `start` is inside a unit, or `words` ends before the last row.
#[track_caller]
pub fn unpack(width: u32, words: &[u64], start: usize, base: i64, out: &mut [i64]) {
    current().packed_unpack(width, words, start, base, out);
}

/// Writes the mask of rows `start..start + rows` whose codes are from `lo` to `hi`, both included; of none
/// where `lo > hi`.
///
/// # Panics
/// Where `width` is not 1 to 64, `start` is inside a unit, `words` ends before the last row, or `out` has not
/// `rows.div_ceil(64)` words.
#[track_caller]
pub fn between(width: u32, words: &[u64], start: usize, rows: usize, lo: u64, hi: u64, out: &mut [u64]) {
    current().packed_between(width, words, start, rows, lo, hi, out);
}

/// Writes the mask of rows `start..start + rows` whose codes are in a set, which has a bit for every code of the
/// width.
///
/// # Panics
/// Where `width` is not 1 to [`MAX_SET_WIDTH`], `set` has fewer than 2^`width` bits, and as [`between`].
#[track_caller]
pub fn in_set(width: u32, words: &[u64], start: usize, rows: usize, set: &[u64], out: &mut [u64]) {
    current().packed_in_set(width, words, start, rows, set, out);
}

/// Writes `base + code` (wrapping) of the rows at ascending places behind row `start`.
///
/// # Panics
/// As [`unpack`], and where there are not as many places as keys.
#[track_caller]
pub fn gather(width: u32, words: &[u64], start: usize, places: &[u16], base: i64, out: &mut [i64]) {
    current().packed_gather(width, words, start, places, base, out);
}

/// The exact sum of the codes of rows `start..start + rows`.
///
/// # Panics
/// Where `width` is not 1 to 64, `start` is inside a unit, or `words` ends before the last row.
#[track_caller]
pub fn sum(width: u32, words: &[u64], start: usize, rows: usize) -> u128 {
    current().packed_sum(width, words, start, rows)
}

/// The exact sum of the codes of rows `start..start + rows` that the mask selects.
///
/// # Panics
/// As [`sum`], and where `mask` has not `rows.div_ceil(64)` words.
#[track_caller]
pub fn sum_masked(width: u32, words: &[u64], start: usize, rows: usize, mask: &[u64]) -> u128 {
    current().packed_sum_masked(width, words, start, rows, mask)
}

/// The least and the greatest code of rows `start..start + rows`.
///
/// # Panics
/// As [`sum`].
#[track_caller]
pub fn min_max(width: u32, words: &[u64], start: usize, rows: usize) -> Option<(u64, u64)> {
    current().packed_min_max(width, words, start, rows)
}

/// The least and the greatest code of rows `start..start + rows` that the mask selects.
///
/// # Panics
/// As [`sum`], and where `mask` has not `rows.div_ceil(64)` words.
#[track_caller]
pub fn min_max_masked(
    width: u32,
    words: &[u64],
    start: usize,
    rows: usize,
    mask: &[u64],
) -> Option<(u64, u64)> {
    current().packed_min_max_masked(width, words, start, rows, mask)
}

/// Adds the floats that the codes of rows `start..start + rows` stand for to a sum, of those that the mask selects
/// (`None`: of all). The floats of `patches`, whose rows ascend, stand in the place of those of their rows.
///
/// # Panics
/// As [`sum`], and where `mask` has not `rows.div_ceil(64)` words.
#[track_caller]
#[allow(clippy::too_many_arguments, reason = "a range of rows, and what they stand for")]
pub fn sum_decimals(
    width: u32,
    words: &[u64],
    start: usize,
    rows: usize,
    decimals: Decimals,
    mask: Option<&[u64]>,
    patches: &[Patch],
    acc: &mut FloatSum,
) {
    current().packed_sum_decimals(width, words, start, rows, decimals, mask, patches, acc);
}
