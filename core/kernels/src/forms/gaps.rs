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

/// The greatest `k`.
pub const MAX_K: u32 = 14;

/// How high parts are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Highs {
    /// As steps from one to the next.
    Steps,
    /// As steps, less one where the low part does not increase.
    Carried,
}

/// Ascending positions, coded.
#[derive(Clone, Copy, Debug)]
pub struct Gaps<'a> {
    /// How the unary numbers tell the high parts.
    pub highs: Highs,
    /// Bits of a low part, at most [`MAX_K`].
    pub k: u32,
    /// Positions.
    pub count: usize,
    /// Holds the unary numbers, and anything behind them.
    pub unary: &'a [u8],
    /// The bit where they begin.
    pub unary_bit: usize,
    /// Holds the low parts, and anything behind them: 64 bytes more are fastest.
    pub lows: &'a [u8],
    /// The bit where they begin.
    pub lows_bit: usize,
}

impl Gaps<'_> {
    /// Whether `lows` has all low parts.
    pub(crate) fn has_lows(&self) -> bool {
        let end = (self.count as u128) * u128::from(self.k) + self.lows_bit as u128;
        end <= 8 * self.lows.len() as u128
    }
}
