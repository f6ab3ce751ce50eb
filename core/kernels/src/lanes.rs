//! What an instruction set does with a register. The loops of [`crate::scalar`] are written once over these
//! traits; a type that implements them is a proof that the CPU has its instructions.

use crate::{Integer, Native, chunks::CHUNK};

/// Registers of `T`. A chunk is `CHUNK / COUNT` of them, counted by `i`.
pub(crate) trait Lanes<T>: Copy {
    /// Lanes of a register.
    const COUNT: usize;

    /// Mask words of at most so many bits are faster walked bit by bit than register by register.
    const SPARSE: u32;

    /// A register.
    type Vector: Copy;

    /// The bounds of a range, prepared.
    type Range: Copy;

    /// The `i`-th register of an array.
    fn load(self, values: &[T], i: usize) -> Self::Vector;

    /// Writes the `i`-th register of an array.
    fn store(self, vector: Self::Vector, values: &mut [T], i: usize);

    /// The same value in all lanes.
    fn splat(self, value: T) -> Self::Vector;

    /// The values from `lo` to `hi`, which are in order and not NaN.
    fn range(self, lo: T, hi: T) -> Self::Range;

    /// Which lanes are in the range, from the lowest bit on.
    fn in_range(self, vector: Self::Vector, range: Self::Range) -> u64;

    /// Which lanes equal another's, from the lowest bit on; NaN equals nothing.
    fn equal(self, vector: Self::Vector, other: Self::Vector) -> u64;

    /// Which lanes are at least another's, from the lowest bit on.
    fn at_least(self, vector: Self::Vector, other: Self::Vector) -> u64;

    /// Which lanes are at most another's, from the lowest bit on.
    fn at_most(self, vector: Self::Vector, other: Self::Vector) -> u64;

    /// Which lanes are NaN, from the lowest bit on.
    fn nan(self, vector: Self::Vector) -> u64;

    /// The lanes of a chunk's `i`-th register that its mask word selects, and `fill` in the others.
    fn select(self, vector: Self::Vector, word: u64, i: usize, fill: Self::Vector) -> Self::Vector;

    /// The lesser of two lanes; `least`'s where `vector`'s is NaN.
    fn min(self, vector: Self::Vector, least: Self::Vector) -> Self::Vector;

    /// The greater of two lanes; `greatest`'s where `vector`'s is NaN.
    fn max(self, vector: Self::Vector, greatest: Self::Vector) -> Self::Vector;
}

/// Registers of integers.
pub(crate) trait IntegerLanes<T>: Lanes<T> {
    /// An exact sum of at most [`crate::scalar::sum::BLOCK`] rows.
    type Sum: Copy;

    /// The sum of nothing.
    fn zero(self) -> Self::Sum;

    /// Adds all lanes.
    fn add(self, sum: Self::Sum, vector: Self::Vector) -> Self::Sum;

    /// Adds those lanes of a chunk's `i`-th register that its mask word selects.
    #[inline(always)]
    fn add_selected(self, sum: Self::Sum, vector: Self::Vector, word: u64, i: usize) -> Self::Sum
    where
        T: Native,
    {
        self.add(sum, self.select(vector, word, i, self.splat(T::default())))
    }

    /// The sum of all that was added.
    fn total(self, sum: Self::Sum) -> i128;
}

/// Registers of sums of i64, one for each group.
pub(crate) trait GroupLanes: Lanes<i64> + Lanes<f64> {
    /// So many groups are fastest summed up by comparing all codes with each.
    const FEW: usize;

    /// The floats of so many groups are fastest added up in the lanes of a register, a group in each.
    const FEW_FLOATS: usize;

    /// Adds those lanes of a chunk's `i`-th register to sums, modulo 2^64, that its mask word selects.
    fn add_selected_words(
        self,
        sums: <Self as Lanes<i64>>::Vector,
        vector: <Self as Lanes<i64>>::Vector,
        word: u64,
        i: usize,
    ) -> <Self as Lanes<i64>>::Vector;
}

/// Registers of floats; sums go eight rows at a time.
pub(crate) trait FloatLanes<T>: Lanes<T> {
    /// Eight lanes of f64.
    type Eight: Copy;

    /// The lanes of an array.
    fn eight(self, lanes: [f64; 8]) -> Self::Eight;

    /// The lanes as an array.
    fn lanes(self, eight: Self::Eight) -> [f64; 8];

    /// Rows `8 * i ..` of a chunk.
    fn load_eight(self, chunk: &[T; CHUNK], i: usize) -> Self::Eight;

    /// Adds those rows of `8 * i ..` of a chunk to lanes that its mask word selects. No lane of `sums` is -0.0.
    fn add_selected(self, sums: Self::Eight, eight: Self::Eight, word: u64, i: usize) -> Self::Eight;

    /// The sums of lanes.
    fn add_eight(self, a: Self::Eight, b: Self::Eight) -> Self::Eight;
}

/// Registers of packed codes.
pub(crate) trait PackedLanes<L>: IntegerLanes<L> {
    /// The codes of `width` bits from bit `shift` of `lo` on.
    fn extract(self, lo: Self::Vector, shift: u32, width: u32) -> Self::Vector;

    /// The codes of `width` bits that begin at bit `shift` of `lo`, which is not 0, and go on in `hi`.
    fn extract_both(self, lo: Self::Vector, hi: Self::Vector, shift: u32, width: u32) -> Self::Vector;
}

/// The integer of a lane.
pub(crate) trait Lane: Integer {
    /// Lanes of a vector.
    const COUNT: usize = 64 / size_of::<Self>();

    /// The words as lanes.
    fn lanes(words: &[u64]) -> &[Self];

    /// The words as lanes.
    fn lanes_mut(words: &mut [u64]) -> &mut [Self];

    fn truncate(code: u64) -> Self;

    fn widen(self) -> u64;
}

macro_rules! lanes {
    ($($t:ident),*) => {$(
        impl Lane for $t {
            #[inline(always)]
            fn lanes(words: &[u64]) -> &[Self] {
                let lanes = size_of_val(words) / size_of::<$t>();
                // SAFETY: the lanes cover the bytes of the words; every bit pattern is a lane, and no lane is
                // aligned more strictly than a word.
                unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), lanes) }
            }

            #[inline(always)]
            fn lanes_mut(words: &mut [u64]) -> &mut [Self] {
                let lanes = size_of_val(words) / size_of::<$t>();
                // SAFETY: as above, and every bit pattern is a word.
                unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), lanes) }
            }

            #[inline(always)]
            fn truncate(code: u64) -> Self {
                code as Self
            }

            #[inline(always)]
            fn widen(self) -> u64 {
                u64::from(self)
            }
        }
    )*};
}

lanes!(u8, u16, u32, u64);
