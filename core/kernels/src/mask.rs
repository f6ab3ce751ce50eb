//! Mask words as sets of rows: row 0 is the lowest bit of the first word, bits behind the last row are 0.

pub use crate::forms::mask::BLOCK_WORDS;
use crate::{chunks, dispatch::current, scalar};

/// The bytes of mask words, as they stand in memory: little-endian, which is all that this crate is built for.
pub fn as_bytes(words: &[u64]) -> &[u8] {
    const { assert!(cfg!(target_endian = "little")) };
    // SAFETY: the pointer and the length cover exactly the words, which are borrowed as long as the bytes are;
    // every byte of a u64 is initialised, and bytes need no alignment.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// Rows selected.
pub fn count_ones(mask: &[u64]) -> u64 {
    current().mask_count_ones(mask)
}

/// Keeps the rows of `left` that are in `right`.
///
/// # Panics
/// Where the lengths differ.
#[track_caller]
pub fn and(left: &mut [u64], right: &[u64]) {
    current().mask_and(left, right);
}

/// Adds the rows of `right` to `left`.
///
/// # Panics
/// Where the lengths differ.
#[track_caller]
pub fn or(left: &mut [u64], right: &[u64]) {
    current().mask_or(left, right);
}

/// Takes the rows of `right` from `left`.
///
/// # Panics
/// Where the lengths differ.
#[track_caller]
pub fn and_not(left: &mut [u64], right: &[u64]) {
    current().mask_and_not(left, right);
}

/// Replaces a mask of `rows` rows by the other rows.
///
/// # Panics
/// Where `mask` has not `rows.div_ceil(64)` words.
#[track_caller]
pub fn not(mask: &mut [u64], rows: usize) {
    current().mask_not(mask, rows);
}

/// Writes the mask of all of `rows` rows.
///
/// # Panics
/// Where `out` has not `rows.div_ceil(64)` words.
#[track_caller]
pub fn fill(rows: usize, out: &mut [u64]) {
    chunks::check_mask(rows, out.len());
    scalar::mask::fill(rows, out);
}

/// Calls `f` with every selected row, in order.
pub fn for_each(mask: &[u64], mut f: impl FnMut(usize)) {
    for (i, &word) in mask.iter().enumerate() {
        chunks::Bits(word).for_each(|bit| f(i * chunks::CHUNK + bit));
    }
}

/// Rows selected, and the runs that they form; a run is of consecutive rows.
pub fn count_runs(mask: &[u64]) -> (u64, u64) {
    current().mask_count_runs(mask)
}

/// Writes the rows selected, in order, to the front of `out`, and returns how many there are. What `out` held
/// behind them may be overwritten.
///
/// Room for 64 more than there are is fastest.
///
/// # Panics
/// Where `words` has more than [`BLOCK_WORDS`], or `out` is shorter than the number of rows selected.
#[track_caller]
pub fn positions(words: &[u64], out: &mut [u16]) -> usize {
    current().mask_positions(words, out)
}

/// Writes `base + row` (wrapping) of the rows selected, in order, to the front of `out`, and returns how many
/// there are. What `out` held behind them may be overwritten.
///
/// Room for 64 more than there are is fastest.
///
/// # Panics
/// Where `out` is shorter than the number of rows selected.
#[track_caller]
pub fn positions64(words: &[u64], base: u64, out: &mut [u64]) -> usize {
    current().mask_positions64(words, base, out)
}

/// Adds rows to the mask of a block. They are little-endian, and may stand in any order; in increasing order is
/// fastest.
pub fn set_positions(positions: &[[u8; 2]], block: &mut [u64; BLOCK_WORDS]) {
    current().mask_set_positions(positions, block);
}
