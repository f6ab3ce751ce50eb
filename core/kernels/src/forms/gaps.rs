//! Ascending positions as codes of their gaps, as [`crate::gaps`] describes them.

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
