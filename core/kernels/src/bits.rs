//! Numbers in streams of bits, of which the lowest of a byte is the first: the parts of a Rice code.

use crate::dispatch::current;
pub use crate::forms::bits::UNARY_MAX;

/// Reads numbers of `width` bits, one behind the other from the first bit of `bytes` on, which may go on behind
/// them.
///
/// # Panics
/// Where `width` is above 63, or `bytes` ends before the last number does.
#[track_caller]
pub fn unpack(bytes: &[u8], width: u32, out: &mut [u64]) {
    current().bits_unpack(bytes, width, out);
}

/// Writes the low `width` bits of numbers, one behind the other; the bits behind the last are 0.
///
/// # Panics
/// Where `width` is above 63, or `out` has not exactly the bytes that hold them:
/// `(values.len() * width).div_ceil(8)`.
#[track_caller]
pub fn pack(values: &[u64], width: u32, out: &mut [u8]) {
    current().bits_pack(values, width, out);
}

/// Reads unary numbers from the first bit of `bytes` on, each as many zero bits and a one bit, and returns how many
/// bits they took. `None` where one is above [`UNARY_MAX`], or `bytes` ends before the last; `out` then holds
/// anything.
pub fn unary(bytes: &[u8], out: &mut [u64]) -> Option<usize> {
    current().bits_unary(bytes, out)
}
