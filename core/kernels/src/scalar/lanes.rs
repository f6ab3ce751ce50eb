//! Arrays as registers: what every CPU can do.

use crate::{
    Float, Integer, Native,
    chunks::CHUNK,
    lanes::{FloatLanes, GroupLanes, IntegerLanes, Lane, Lanes, PackedLanes},
};

/// No instructions but those that every CPU has.
#[derive(Clone, Copy)]
pub(crate) struct Scalar;

/// Lanes of an array.
const COUNT: usize = 8;

impl<T: Native> Lanes<T> for Scalar {
    const COUNT: usize = COUNT;

    const SPARSE: u32 = 63;

    type Vector = [T; COUNT];

    type Range = (T, T);

    #[inline(always)]
    fn load(self, values: &[T], i: usize) -> [T; COUNT] {
        values.as_chunks().0[i]
    }

    #[inline(always)]
    fn store(self, vector: [T; COUNT], values: &mut [T], i: usize) {
        values.as_chunks_mut().0[i] = vector;
    }

    #[inline(always)]
    fn splat(self, value: T) -> [T; COUNT] {
        [value; COUNT]
    }

    #[inline(always)]
    fn range(self, lo: T, hi: T) -> (T, T) {
        (lo, hi)
    }

    #[inline(always)]
    fn in_range(self, vector: [T; COUNT], (lo, hi): (T, T)) -> u64 {
        bits(vector.map(|value| (lo <= value) & (value <= hi)))
    }

    #[inline(always)]
    fn equal(self, vector: [T; COUNT], other: [T; COUNT]) -> u64 {
        bits(std::array::from_fn(|lane| vector[lane] == other[lane]))
    }

    #[inline(always)]
    fn at_least(self, vector: [T; COUNT], other: [T; COUNT]) -> u64 {
        bits(std::array::from_fn(|lane| vector[lane] >= other[lane]))
    }

    #[inline(always)]
    fn at_most(self, vector: [T; COUNT], other: [T; COUNT]) -> u64 {
        bits(std::array::from_fn(|lane| vector[lane] <= other[lane]))
    }

    #[inline(always)]
    fn nan(self, vector: [T; COUNT]) -> u64 {
        bits(vector.map(T::is_nan))
    }

    #[inline(always)]
    fn select(self, vector: [T; COUNT], word: u64, i: usize, fill: [T; COUNT]) -> [T; COUNT] {
        let bits = word >> (i * COUNT);
        std::array::from_fn(|lane| if bits >> lane & 1 == 1 { vector[lane] } else { fill[lane] })
    }

    #[inline(always)]
    fn min(self, vector: [T; COUNT], least: [T; COUNT]) -> [T; COUNT] {
        std::array::from_fn(|lane| if vector[lane] < least[lane] { vector[lane] } else { least[lane] })
    }

    #[inline(always)]
    fn max(self, vector: [T; COUNT], greatest: [T; COUNT]) -> [T; COUNT] {
        std::array::from_fn(|lane| if vector[lane] > greatest[lane] { vector[lane] } else { greatest[lane] })
    }
}

/// Flags as bits.
#[inline(always)]
fn bits(flags: [bool; COUNT]) -> u64 {
    // Flag i is bit 8i; the product moves it to bit 56 + i, without carries.
    u64::from_le_bytes(flags.map(u8::from)).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

impl<T: Integer> IntegerLanes<T> for Scalar {
    /// The sums of low and of high halves; of narrower integers, everything is in the low ones.
    type Sum = [[i64; COUNT]; 2];

    #[inline(always)]
    fn zero(self) -> Self::Sum {
        [[0; COUNT]; 2]
    }

    #[inline(always)]
    fn add(self, [mut low, mut high]: Self::Sum, vector: [T; COUNT]) -> Self::Sum {
        for (lane, value) in vector.into_iter().enumerate() {
            let halves = value.halves();
            low[lane] += halves.0;
            high[lane] += halves.1;
        }
        [low, high]
    }

    #[inline(always)]
    fn total(self, [low, high]: Self::Sum) -> i128 {
        let sum = |lanes: [i64; COUNT]| lanes.into_iter().map(i128::from).sum::<i128>();
        sum(low) + (sum(high) << 32)
    }
}

impl GroupLanes for Scalar {
    const FEW: usize = 0;

    const FEW_FLOATS: usize = 0;

    #[inline(always)]
    fn add_selected_words(
        self,
        sums: [i64; COUNT],
        vector: [i64; COUNT],
        word: u64,
        i: usize,
    ) -> [i64; COUNT] {
        let selected = self.select(vector, word, i, [0; COUNT]);
        std::array::from_fn(|lane| sums[lane].wrapping_add(selected[lane]))
    }
}

impl<T: Float> FloatLanes<T> for Scalar {
    type Eight = [f64; 8];

    #[inline(always)]
    fn eight(self, lanes: [f64; 8]) -> [f64; 8] {
        lanes
    }

    #[inline(always)]
    fn lanes(self, eight: [f64; 8]) -> [f64; 8] {
        eight
    }

    #[inline(always)]
    fn load_eight(self, chunk: &[T; CHUNK], i: usize) -> [f64; 8] {
        chunk.as_chunks::<8>().0[i].map(Into::into)
    }

    #[inline(always)]
    fn add_selected(self, sums: [f64; 8], eight: [f64; 8], word: u64, i: usize) -> [f64; 8] {
        // Adding +0.0 is the same as adding nothing.
        FloatLanes::<T>::add_eight(self, sums, self.select(eight, word, i, [0.0; 8]))
    }

    #[inline(always)]
    fn add_eight(self, a: [f64; 8], b: [f64; 8]) -> [f64; 8] {
        std::array::from_fn(|lane| a[lane] + b[lane])
    }
}

impl<L: Lane> PackedLanes<L> for Scalar {
    #[inline(always)]
    fn extract(self, lo: [L; COUNT], shift: u32, width: u32) -> [L; COUNT] {
        lo.map(|lo| L::truncate((lo.widen() >> shift) & u64::MAX >> (64 - width)))
    }

    #[inline(always)]
    fn extract_both(self, lo: [L; COUNT], hi: [L; COUNT], shift: u32, width: u32) -> [L; COUNT] {
        let (mask, up) = (u64::MAX >> (64 - width), L::BITS - shift);
        std::array::from_fn(|lane| L::truncate((lo[lane].widen() >> shift | hi[lane].widen() << up) & mask))
    }
}
