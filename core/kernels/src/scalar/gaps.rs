//! Coded gaps to positions.

use super::bits::word_at;
use crate::gaps::{Gaps, Highs};

#[inline(always)]
pub(crate) fn positions(gaps: &Gaps<'_>, out: &mut [u16]) -> Option<usize> {
    let mut reader = Reader::new(gaps)?;
    for out in &mut out[..gaps.count] {
        *out = reader.next()?;
    }
    Some(reader.bit)
}

#[inline(always)]
pub(crate) fn rank(gaps: &Gaps<'_>, position: u16) -> Option<(usize, bool)> {
    let mut reader = Reader::new(gaps)?;
    for i in 0..gaps.count {
        let next = reader.next()?;
        if next >= position {
            return Some((i, next == position));
        }
    }
    Some((gaps.count, false))
}

/// Reads one position after the other.
struct Reader<'a> {
    gaps: &'a Gaps<'a>,
    /// Where the next unary number begins.
    bit: usize,
    /// The byte where `word` begins, of which the bits below `bit` are 0.
    offset: usize,
    word: u64,
    lows_bit: usize,
    high: usize,
    low: u64,
}

impl<'a> Reader<'a> {
    #[inline(always)]
    fn new(gaps: &'a Gaps<'a>) -> Option<Self> {
        let (high, low) = match gaps.highs {
            Highs::Steps => (0, 0),
            Highs::Carried => (usize::MAX, (1 << gaps.k) - 1),
        };
        let offset = gaps.unary_bit / 8;
        let word = word_at(gaps.unary, offset) & u64::MAX << (gaps.unary_bit % 8);
        let reader = Self { gaps, bit: gaps.unary_bit, offset, word, lows_bit: gaps.lows_bit, high, low };
        gaps.has_lows().then_some(reader)
    }

    #[inline(always)]
    fn next(&mut self) -> Option<u16> {
        while self.word == 0 {
            self.offset += 8;
            if self.offset >= self.gaps.unary.len() {
                return None;
            }
            self.word = word_at(self.gaps.unary, self.offset);
        }
        let end = 8 * self.offset + self.word.trailing_zeros() as usize;
        let number = end - self.bit;
        self.bit = end + 1;
        self.word &= self.word - 1;
        let low =
            word_at(self.gaps.lows, self.lows_bit / 8) >> (self.lows_bit % 8) & ((1 << self.gaps.k) - 1);
        self.lows_bit += self.gaps.k as usize;
        let carry = self.gaps.highs == Highs::Carried && low <= self.low;
        self.high = self.high.wrapping_add(number + usize::from(carry));
        self.low = low;
        Some((self.high << self.gaps.k) as u16 | low as u16)
    }
}

/// Sets the bits of positions in a mask that begins with position `64 * from`; `bit` is that of each.
#[inline(always)]
pub(crate) fn set(positions: &[u16], from: usize, bit: impl Fn(usize) -> u64, mask: &mut [u64]) {
    // The word is written each time, because whether the next position is of another is hard to foretell.
    let (mut last, mut word) = (usize::MAX, 0);
    for (i, &position) in positions.iter().enumerate() {
        let place = usize::from(position / 64) - from;
        let before = if place == last { word } else { 0 };
        word = before | bit(i) << (position % 64);
        mask[place] = word;
        last = place;
    }
}
