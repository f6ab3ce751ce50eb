//! Bytes, and sets of them.

use crate::dispatch::current;

/// Writes which bytes are in a set, which has a bit for each of the 256, the lowest of the first word for 0.
///
/// # Panics
/// Where `out` has not the words of a mask for as many rows.
#[track_caller]
pub fn in_set(bytes: &[u8], set: &[u64; 4], out: &mut [u64]) {
    current().bytes_in_set(bytes, set, out);
}
