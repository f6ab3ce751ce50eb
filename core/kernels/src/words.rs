//! Integers in registers that are seen as words of 64 bits: sums and shifts are the same for registers of every
//! size.

use crate::{
    Integer,
    lanes::{GroupLanes, IntegerLanes, Lane, Lanes, PackedLanes},
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

    /// The high halves of words, with their signs, where that is no more than a shift.
    fn high_signed(self, register: Self::Register) -> Option<Self::Register>;

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

/// A sum of integers of any one width: of words, and of what must be known to tell what the words were sums of.
///
/// | bits | `low` | `high` |
/// |---|---|---|
/// | 8 | sums of values | |
/// | 16 | sums of low and of high bytes | sums of high bytes |
/// | 32 | sums of pairs as words, modulo 2^64 | sums of the odd ones |
/// | 64 | sums of values, modulo 2^64 | sums of high halves |
///
/// They are unsigned: the sign bits of signed integers are flipped, which adds 2^(bits - 1) to each. The exception is
/// 64 bits where high halves have signs.
#[derive(Clone, Copy)]
pub(crate) struct Sum<R> {
    low: R,
    high: R,
    /// What flipping added, in units of 2^(bits - 1).
    flipped: u64,
}

impl<T: Integer, A> IntegerLanes<T> for A
where
    A: Words + GroupLanes + Lanes<i64, Vector = A::Register> + Lanes<T, Vector = A::Register>,
{
    type Sum = Sum<A::Register>;

    #[inline(always)]
    fn zero(self) -> Self::Sum {
        let zero = self.word(0);
        Sum { low: zero, high: zero, flipped: 0 }
    }

    #[inline(always)]
    fn add(self, sum: Self::Sum, vector: A::Register) -> Self::Sum {
        let add = |low, high, flipped| Sum {
            low: self.add_words(sum.low, low),
            high: self.add_words(sum.high, high),
            flipped: sum.flipped + flipped,
        };
        if let (64, true, Some(high)) = (T::BITS, T::SIGNED, self.high_signed(vector)) {
            return add(vector, high, 0);
        }
        let (unsigned, flipped) = match T::SIGNED {
            true => (
                self.xor(vector, self.word(lanes(1 << (T::BITS - 1), T::BITS))),
                <A as Lanes<T>>::COUNT as u64,
            ),
            false => (vector, 0),
        };
        match T::BITS {
            8 => add(self.add_bytes(unsigned), self.word(0), flipped),
            16 => add(self.add_bytes(unsigned), self.add_bytes(self.right(unsigned, 16, 8)), flipped),
            _ => add(unsigned, self.right(unsigned, 64, 32), flipped),
        }
    }

    #[inline(always)]
    fn add_selected(self, sum: Self::Sum, vector: A::Register, word: u64, i: usize) -> Self::Sum {
        if let (64, true, Some(high)) = (T::BITS, T::SIGNED, self.high_signed(vector)) {
            return Sum {
                low: self.add_selected_words(sum.low, vector, word, i),
                high: self.add_selected_words(sum.high, high, word, i),
                ..sum
            };
        }
        IntegerLanes::<T>::add(self, sum, Lanes::<T>::select(self, vector, word, i, self.word(0)))
    }

    #[inline(always)]
    fn total(self, sum: Self::Sum) -> i128 {
        let (low, high) = (self.total_words(sum.low), self.total_words(sum.high));
        // What the high halves leave of words is the sum of low halves, which fits 64 bits.
        let low_halves = || i128::from(low.wrapping_sub(high << 32));
        let signed = T::BITS == 64 && T::SIGNED && self.high_signed(sum.low).is_some();
        let total = match T::BITS {
            8 => i128::from(low),
            16 => i128::from(low) + i128::from(high) * 255,
            32 => low_halves() + i128::from(high),
            _ if signed => (i128::from(high.cast_signed()) << 32) + low_halves(),
            _ => (i128::from(high) << 32) + low_halves(),
        };
        total - (i128::from(sum.flipped) << (T::BITS - 1))
    }
}

impl<L: Lane, A> PackedLanes<L> for A
where
    A: Words + GroupLanes + Lanes<i64, Vector = A::Register> + Lanes<L, Vector = A::Register>,
{
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
