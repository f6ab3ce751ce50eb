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
use crate::{
    CmpOp,
    chunks::{Bits, low_bits},
    dispatch::current,
    scalar,
};

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

/// Rows whose bits are bytes first, where positions are dense: they stay in the nearest cache.
const WINDOW: usize = 2048;

/// Where more than one row in so many is a position, its bit is a byte first: a byte is stored without waiting for the one
/// before, a bit of the same word is not.
const DENSE: usize = 32;

/// Sets the bits of ascending positions in a mask that is 0 there; its first bit is position `64 * from`.
///
/// # Panics
/// Where a position is outside of the mask.
#[track_caller]
pub fn set(positions: &[u16], from: usize, mask: &mut [u64]) {
    if are_dense(positions, positions.len()) {
        set_by_bytes(positions, from, |_| u64::MAX, mask);
    } else {
        scalar::gaps::set(positions, from, mask);
    }
}

/// Like [`set`], but of the positions that `chosen` selects, which is a mask of them from its bit `first` on.
///
/// # Panics
/// Where a position is outside of the mask, or has no bit in `chosen`.
#[track_caller]
pub fn set_chosen(positions: &[u16], from: usize, chosen: &[u64], first: usize, mask: &mut [u64]) {
    // Whether each of the 64 positions from the `i`-th on is chosen.
    let word = |i: usize| {
        let (at, shift) = ((first + i) / 64, (first + i) % 64);
        // Default: there are no positions behind the last word.
        let next = chosen.get(at + 1).copied().unwrap_or(0);
        (chosen[at] >> shift | next << 1 << (63 - shift)) & low_bits(positions.len() - i)
    };
    let words = (0..positions.len()).step_by(64);
    let count: usize = words.clone().map(|i| word(i).count_ones() as usize).sum();
    if are_dense(positions, count) {
        return set_by_bytes(positions, from, word, mask);
    }
    for i in words {
        for bit in Bits(word(i)) {
            let position = usize::from(positions[i + bit]);
            mask[position / 64 - from] |= 1 << (position % 64);
        }
    }
}

/// Whether so many of ascending positions are dense.
fn are_dense(positions: &[u16], count: usize) -> bool {
    let ends = positions.first().zip(positions.last());
    ends.is_some_and(|(&first, &last)| count * DENSE > usize::from(last.saturating_sub(first)) + WINDOW / 4)
}

/// Sets the bits of positions by way of bytes. `word` says of each of the 64 positions from one on what its bit is.
#[track_caller]
fn set_by_bytes(positions: &[u16], from: usize, word: impl Fn(usize) -> u64, mask: &mut [u64]) {
    let mut next = 0;
    while next < positions.len() {
        let rest = &positions[next..];
        let begin = usize::from(rest[0]) / 64 * 64;
        let is_inside = |position: &u16| usize::from(*position) < begin + WINDOW;
        let all = rest.last().is_some_and(is_inside);
        let inside = &rest[..if all { rest.len() } else { rest.partition_point(is_inside) }];
        let mut bytes = [0; WINDOW];
        for (i, positions) in (next..).step_by(64).zip(inside.chunks(64)) {
            let mut word = word(i);
            for &position in positions {
                bytes[(usize::from(position) - begin) % WINDOW] = (word & 1) as u8;
                word >>= 1;
            }
        }
        let last = usize::from(inside[inside.len() - 1]) / 64;
        let words = &mut mask[begin / 64 - from..=last - from];
        current().compare(CmpOp::Eq, &bytes[..64 * words.len()], 1, words);
        next += inside.len();
    }
}
