//! Increasing arrays of 16-bit numbers, as little-endian bytes.

use crate::dispatch::current;

/// Writes the numbers that are in both arrays, which increase strictly, in order to the front of `out`, and returns
/// how many there are. What `out` held behind them may be overwritten. Of arrays that do not increase, the answer is
/// any numbers.
///
/// # Panics
/// Where `out` is shorter than the shorter array.
#[track_caller]
pub fn intersect(left: &[[u8; 2]], right: &[[u8; 2]], out: &mut [u16]) -> usize {
    current().sorted16_intersect(left, right, out)
}
