//! Coded gaps to positions.

use std::cmp::Ordering;

use super::bits::word_at;
use crate::forms::gaps::{Gaps, Highs};

#[inline(always)]
pub(crate) fn positions(gaps: &Gaps<'_>, out: &mut [u16]) -> Option<usize> {
    let mut reader = Reader::new(gaps)?;
    for out in &mut out[..gaps.count] {
        *out = reader.next()?;
    }
    Some(reader.places.bit)
}

#[inline(always)]
pub(crate) fn rank(gaps: &Gaps<'_>, position: u16) -> Option<(usize, bool)> {
    if gaps.highs == Highs::Steps {
        return rank_by_steps(gaps, position, place);
    }
    let mut reader = Reader::new(gaps)?;
    for i in 0..gaps.count {
        let next = reader.next()?;
        if next >= position {
            return Some((i, next == position));
        }
    }
    Some((gaps.count, false))
}

/// As many zeros as the high part precede those that have it; `place` is that of a word's one, counted from 1 on.
#[inline(always)]
pub(crate) fn rank_by_steps(
    gaps: &Gaps<'_>,
    position: u16,
    place: impl Fn(u64, usize) -> usize,
) -> Option<(usize, bool)> {
    if !gaps.has_lows() {
        return None;
    }
    let high = usize::from(position >> gaps.k);
    let mut bit = behind_zeros(gaps.unary, gaps.unary_bit, high, place)?;
    let mut rank = (bit - gaps.unary_bit - high).min(gaps.count);
    while rank < gaps.count && word_at(gaps.unary, bit / 8) >> (bit % 8) & 1 == 1 {
        match low(gaps, rank).cmp(&(position & ((1 << gaps.k) - 1))) {
            Ordering::Less => {}
            order => return Some((rank, order == Ordering::Equal)),
        }
        (rank, bit) = (rank + 1, bit + 1);
    }
    Some((rank, false))
}

/// The bit behind so many zeros from a bit on.
#[inline(always)]
fn behind_zeros(
    bytes: &[u8],
    bit: usize,
    mut zeros: usize,
    place: impl Fn(u64, usize) -> usize,
) -> Option<usize> {
    if zeros == 0 {
        return Some(bit);
    }
    let mut offset = bit / 8;
    let mut word = !word_at(bytes, offset) & u64::MAX << (bit % 8);
    while zeros > word.count_ones() as usize {
        zeros -= word.count_ones() as usize;
        offset += 8;
        if offset >= bytes.len() {
            return None;
        }
        word = !word_at(bytes, offset);
    }
    Some(8 * offset + place(word, zeros) + 1)
}

/// The place of a word's `count`-th one, from 1 on.
#[inline(always)]
fn place(mut word: u64, count: usize) -> usize {
    for _ in 1..count {
        word &= word - 1;
    }
    word.trailing_zeros() as usize
}

/// The low part of a position.
#[inline(always)]
fn low(gaps: &Gaps<'_>, i: usize) -> u16 {
    let bit = gaps.lows_bit + i * gaps.k as usize;
    (word_at(gaps.lows, bit / 8) >> (bit % 8)) as u16 & ((1 << gaps.k) - 1)
}

/// Finds one after the other in a stream.
pub(crate) struct Places<'a> {
    bytes: &'a [u8],
    /// The bit behind the last one found.
    pub(crate) bit: usize,
    /// The byte where `word` begins, of which the bits below `bit` are 0.
    offset: usize,
    word: u64,
}

impl<'a> Places<'a> {
    #[inline(always)]
    pub(crate) fn new(bytes: &'a [u8], bit: usize) -> Self {
        let offset = bit / 8;
        Self { bytes, bit, offset, word: word_at(bytes, offset) & u64::MAX << (bit % 8) }
    }

    /// The bit that the next one is.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<usize> {
        while self.word == 0 {
            self.offset += 8;
            if self.offset >= self.bytes.len() {
                return None;
            }
            self.word = word_at(self.bytes, self.offset);
        }
        let place = 8 * self.offset + self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        self.bit = place + 1;
        Some(place)
    }
}

/// Reads one position after the other.
struct Reader<'a> {
    gaps: &'a Gaps<'a>,
    places: Places<'a>,
    /// Positions read.
    read: usize,
    high: usize,
    low: u16,
}

impl<'a> Reader<'a> {
    #[inline(always)]
    fn new(gaps: &'a Gaps<'a>) -> Option<Self> {
        let (high, low) = match gaps.highs {
            Highs::Steps => (0, 0),
            Highs::Carried => (usize::MAX, (1 << gaps.k) - 1),
        };
        let places = Places::new(gaps.unary, gaps.unary_bit);
        gaps.has_lows().then_some(Self { gaps, places, read: 0, high, low })
    }

    #[inline(always)]
    fn next(&mut self) -> Option<u16> {
        let begin = self.places.bit;
        let number = self.places.next()? - begin;
        let low = low(self.gaps, self.read);
        self.read += 1;
        let carry = self.gaps.highs == Highs::Carried && low <= self.low;
        self.high = self.high.wrapping_add(number + usize::from(carry));
        self.low = low;
        Some((self.high << self.gaps.k) as u16 | low)
    }
}

/// Sets the bits of positions in a mask that begins with position `64 * from`.
#[inline(always)]
pub(crate) fn set(positions: &[u16], from: usize, mask: &mut [u64]) {
    // The word is written each time, because whether the next position is of another is hard to foretell.
    let (mut last, mut word) = (usize::MAX, 0);
    for &position in positions {
        let place = usize::from(position / 64) - from;
        let before = if place == last { word } else { 0 };
        word = before | 1 << (position % 64);
        mask[place] = word;
        last = place;
    }
}
