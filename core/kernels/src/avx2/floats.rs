//! Floats in registers of 256 bits.

use std::arch::x86_64::*;

use super::Avx2;
use crate::{
    chunks::CHUNK,
    lanes::{FloatLanes, Lanes},
    registers::{load, simd, store},
};

macro_rules! lanes {
    ($(
        $t:ident in $vector:ident: $splat:ident, $compare:ident, $and:ident, $bits:ident, $blend:ident $spread:ident,
        $min:ident, $max:ident;
    )*) => {$(
        impl Lanes<$t> for Avx2 {
            const COUNT: usize = 32 / size_of::<$t>();

            const SPARSE: u32 = size_of::<$t>() as u32 + 1;

            type Vector = $vector;

            type Range = ($vector, $vector);

            #[inline(always)]
            fn load(self, values: &[$t], i: usize) -> $vector {
                load(&values.as_chunks::<{ 32 / size_of::<$t>() }>().0[i])
            }

            #[inline(always)]
            fn store(self, vector: $vector, values: &mut [$t], i: usize) {
                values.as_chunks_mut::<{ 32 / size_of::<$t>() }>().0[i] = store(vector);
            }

            #[inline(always)]
            fn splat(self, value: $t) -> $vector {
                simd!($splat(value))
            }

            #[inline(always)]
            fn range(self, lo: $t, hi: $t) -> Self::Range {
                (self.splat(lo), self.splat(hi))
            }

            #[inline(always)]
            fn in_range(self, vector: $vector, (lo, hi): Self::Range) -> u64 {
                simd!({
                    let (above, below) = ($compare::<_CMP_GE_OQ>(vector, lo), $compare::<_CMP_LE_OQ>(vector, hi));
                    $bits($and(above, below)).cast_unsigned().into()
                })
            }

            #[inline(always)]
            fn equal(self, vector: $vector, other: $vector) -> u64 {
                simd!($bits($compare::<_CMP_EQ_OQ>(vector, other)).cast_unsigned().into())
            }

            #[inline(always)]
            fn at_least(self, vector: $vector, other: $vector) -> u64 {
                simd!($bits($compare::<_CMP_GE_OQ>(vector, other)).cast_unsigned().into())
            }

            #[inline(always)]
            fn at_most(self, vector: $vector, other: $vector) -> u64 {
                simd!($bits($compare::<_CMP_LE_OQ>(vector, other)).cast_unsigned().into())
            }

            #[inline(always)]
            fn nan(self, vector: $vector) -> u64 {
                simd!($bits($compare::<_CMP_UNORD_Q>(vector, vector)).cast_unsigned().into())
            }

            #[inline(always)]
            fn select(self, vector: $vector, word: u64, i: usize, fill: $vector) -> $vector {
                simd!($blend(fill, vector, self.$spread(word, i)))
            }

            #[inline(always)]
            fn min(self, vector: $vector, least: $vector) -> $vector {
                simd!($min(vector, least))
            }

            #[inline(always)]
            fn max(self, vector: $vector, greatest: $vector) -> $vector {
                simd!($max(vector, greatest))
            }
        }
    )*};
}

lanes! {
    f32 in __m256: _mm256_set1_ps, _mm256_cmp_ps, _mm256_and_ps, _mm256_movemask_ps, _mm256_blendv_ps spread_32,
        _mm256_min_ps, _mm256_max_ps;
    f64 in __m256d: _mm256_set1_pd, _mm256_cmp_pd, _mm256_and_pd, _mm256_movemask_pd, _mm256_blendv_pd spread_64,
        _mm256_min_pd, _mm256_max_pd;
}

macro_rules! floats {
    ($($t:ident: $widen:ident;)*) => {$(
        impl FloatLanes<$t> for Avx2 {
            type Eight = [__m256d; 2];

            #[inline(always)]
            fn eight(self, lanes: [f64; 8]) -> [__m256d; 2] {
                let (halves, _) = lanes.as_chunks::<4>();
                [load(&halves[0]), load(&halves[1])]
            }

            #[inline(always)]
            fn lanes(self, eight: [__m256d; 2]) -> [f64; 8] {
                let mut lanes = [0.0; 8];
                let (halves, _) = lanes.as_chunks_mut::<4>();
                halves[0] = store(eight[0]);
                halves[1] = store(eight[1]);
                lanes
            }

            #[inline(always)]
            fn load_eight(self, chunk: &[$t; CHUNK], i: usize) -> [__m256d; 2] {
                let (fours, _) = chunk.as_chunks::<4>();
                [self.$widen(load(&fours[2 * i])), self.$widen(load(&fours[2 * i + 1]))]
            }

            #[inline(always)]
            fn add_selected(
                self,
                sums: [__m256d; 2],
                [low, high]: [__m256d; 2],
                word: u64,
                i: usize,
            ) -> [__m256d; 2] {
                let zero = simd!(_mm256_setzero_pd());
                let (low_bits, high_bits) = (self.spread_64(word, 2 * i), self.spread_64(word, 2 * i + 1));
                // Adding +0.0 is the same as adding nothing.
                let eight =
                    simd!([_mm256_blendv_pd(zero, low, low_bits), _mm256_blendv_pd(zero, high, high_bits)]);
                FloatLanes::<$t>::add_eight(self, sums, eight)
            }

            #[inline(always)]
            fn add_eight(self, a: [__m256d; 2], b: [__m256d; 2]) -> [__m256d; 2] {
                simd!([_mm256_add_pd(a[0], b[0]), _mm256_add_pd(a[1], b[1])])
            }
        }
    )*};
}

floats! {
    f32: widen;
    f64: wide;
}

impl Avx2 {
    #[inline(always)]
    fn widen(self, lanes: __m128) -> __m256d {
        simd!(_mm256_cvtps_pd(lanes))
    }

    #[inline(always)]
    fn wide(self, lanes: __m256d) -> __m256d {
        lanes
    }
}
