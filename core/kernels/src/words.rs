//! Integers in registers that are seen as words of 64 bits: sums and shifts are the same for registers of every
//! size.

use crate::{
    Integer,
    lanes::{IntegerLanes, Lanes, PackedLanes},
    packed::Lane,
    registers::{Register, store},
};

/// Operations on registers as words.
pub(crate) trait Words: Copy {
    /// A register.
    type Register: Register;

    /// The same word everywhere.
    fn word(self, word: u64) -> Self::Register;

    fn and(self, a: Self::Register, b: Self::Register) -> Self::Register;

    fn or(self, a: Self::Register, b: Self::Register) -> Self::Register;

    fn xor(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// The sums of words, modulo 2^64.
    fn add_words(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// The sum of the bytes of every word.
    fn add_bytes(self, register: Self::Register) -> Self::Register;

    /// Lanes of 16, 32 or 64 bits shifted right; 0 for a shift of all bits.
    fn right(self, register: Self::Register, bits: u32, shift: u32) -> Self::Register;

    /// Lanes of 16, 32 or 64 bits shifted left; 0 for a shift of all bits.
    fn left(self, register: Self::Register, bits: u32, shift: u32) -> Self::Register;

    /// The sum of all words, modulo 2^64.
    fn total_words(self, register: Self::Register) -> u64;
}

/// The word whose lanes are all `lane`.
const fn lanes(lane: u64, bits: u32) -> u64 {
    match bits {
        8 => lane * 0x0101_0101_0101_0101,
        16 => lane * 0x0001_0001_0001_0001,
        32 => lane * 0x0000_0001_0000_0001,
        _ => lane,
    }
}

/// A sum of integers of any one width, as unsigned ones: the sign bits of signed ones are flipped, which adds
/// 2^(bits - 1) to each.
///
/// | bits | `low` | `high` |
/// |---|---|---|
/// | 8 | sums of values | |
/// | 16 | sums of low bytes | sums of high bytes |
/// | 32 | sums of even lanes | sums of odd lanes |
/// | 64 | sums of values modulo 2^64 | sums of high halves |
#[derive(Clone, Copy)]
pub(crate) struct Sum<R> {
    low: R,
    high: R,
    /// Lanes added.
    rows: u64,
}

impl<T: Integer, A: Words + Lanes<T, Vector = A::Register>> IntegerLanes<T> for A {
    type Sum = Sum<A::Register>;

    #[inline(always)]
    fn zero(self) -> Self::Sum {
        let zero = self.word(0);
        Sum { low: zero, high: zero, rows: 0 }
    }

    #[inline(always)]
    fn add(self, sum: Self::Sum, vector: A::Register) -> Self::Sum {
        let unsigned = match T::SIGNED {
            true => self.xor(vector, self.word(lanes(1 << (T::BITS - 1), T::BITS))),
            false => vector,
        };
        let (low, high) = match T::BITS {
            8 => (self.add_bytes(unsigned), self.word(0)),
            16 => (
                self.add_bytes(self.and(unsigned, self.word(lanes(0xff, 16)))),
                self.add_bytes(self.right(unsigned, 16, 8)),
            ),
            32 => (self.and(unsigned, self.word(u64::from(u32::MAX))), self.right(unsigned, 64, 32)),
            _ => (unsigned, self.right(unsigned, 64, 32)),
        };
        Sum {
            low: self.add_words(sum.low, low),
            high: self.add_words(sum.high, high),
            rows: sum.rows + A::COUNT as u64,
        }
    }

    #[inline(always)]
    fn total(self, sum: Self::Sum) -> i128 {
        let (low, high) = (self.total_words(sum.low), self.total_words(sum.high));
        let total = match T::BITS {
            8 => i128::from(low),
            16 => i128::from(low) + (i128::from(high) << 8),
            32 => i128::from(low) + i128::from(high),
            // What the high halves leave is the sum of low halves, which fits 64 bits.
            _ => (i128::from(high) << 32) + i128::from(low.wrapping_sub(high << 32)),
        };
        if T::SIGNED { total - (i128::from(sum.rows) << (T::BITS - 1)) } else { total }
    }
}

impl<L: Lane, A: Words + Lanes<L, Vector = A::Register>> PackedLanes<L> for A {
    #[inline(always)]
    fn extract(self, lo: A::Register, shift: u32, width: u32) -> A::Register {
        // Bytes are shifted in pairs; what comes from a neighbour is above the code.
        let codes = self.right(lo, L::BITS.max(16), shift);
        self.and(codes, self.word(lanes(u64::MAX >> (64 - width), L::BITS)))
    }

    #[inline(always)]
    fn extract_both(self, lo: A::Register, hi: A::Register, shift: u32, width: u32) -> A::Register {
        let mask = u64::MAX >> (64 - width);
        let (mut lo, mut hi) =
            (self.right(lo, L::BITS.max(16), shift), self.left(hi, L::BITS.max(16), L::BITS - shift));
        if L::BITS == 8 {
            // Of bytes shifted in pairs, each half has its own part of the code.
            let low = 0xff >> shift;
            lo = self.and(lo, self.word(lanes(low, 8)));
            hi = self.and(hi, self.word(lanes(mask & !low, 8)));
            return self.or(lo, hi);
        }
        self.and(self.or(lo, hi), self.word(lanes(mask, L::BITS)))
    }
}

/// The sum of a register's words, modulo 2^64.
#[inline(always)]
pub(crate) fn total<R: Register, const N: usize>(register: R) -> u64 {
    store::<_, u64, N>(register).iter().fold(0, |sum, word| sum.wrapping_add(*word))
}
