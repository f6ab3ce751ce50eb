//! Ascending positions as codes of their gaps, in parts of which registers take many at once.
//!
//! Position `i` is `high << k | low`. The low parts stand one behind the other, `k` bits each; the high parts are
//! unary numbers, each as many zero bits and a one bit:
//!
//! - **Elias-Fano** ([`Highs::Steps`]): how far a high part is above the one before it.
//! - **Rice** ([`Highs::Carried`]): the same, less one where the low part is not above the one before it, for then
//!   the high part has to be. Such a number is the gap between the positions divided by 2^k, so this is as long as
//!   the Rice code of the gaps; but as its low parts are those of the positions, reading it sums up bits alone.
//!
//! In front of the first stands position -1 (Rice) or 0 (Elias-Fano). All is modulo 2^16.

pub use crate::forms::gaps::{Gaps, Highs, MAX_K};
use crate::{dispatch::current, scalar};

/// Writes the positions to the front of `out` and returns the bit behind the last unary number; `None` where a stream
/// ends too soon. What `out` held behind them may be overwritten: room for 32 more is fastest.
///
/// # Panics
/// Where `k` is above [`MAX_K`], or `out` is shorter than the number of positions.
#[track_caller]
pub fn positions(gaps: &Gaps<'_>, out: &mut [u16]) -> Option<usize> {
    current().gaps_positions(gaps, out)
}

/// How many positions are below one, and whether it is among them. Where a stream ends too soon or positions do not
/// ascend, it is `None` or any number of them.
///
/// # Panics
/// Where `k` is above [`MAX_K`].
#[track_caller]
pub fn rank(gaps: &Gaps<'_>, position: u16) -> Option<(usize, bool)> {
    current().gaps_rank(gaps, position)
}

/// Sets the bits of ascending positions in a mask that is 0 there; its first bit is position `64 * from`.
///
/// # Panics
/// Where a position is outside of the mask.
#[track_caller]
pub fn set(positions: &[u16], from: usize, mask: &mut [u64]) {
    scalar::gaps::set(positions, from, |_| 1, mask);
}

/// Like [`set`], but of the positions that `chosen` selects, which is a mask of them from its bit `first` on.
///
/// # Panics
/// Where a position is outside of the mask, or has no bit in `chosen`.
#[track_caller]
pub fn set_chosen(positions: &[u16], from: usize, chosen: &[u64], first: usize, mask: &mut [u64]) {
    scalar::gaps::set(positions, from, |i| chosen[(first + i) / 64] >> ((first + i) % 64) & 1, mask);
}
