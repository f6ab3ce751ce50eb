//! Integers in registers of 256 bits.
//!
//! An integer is in a range where its distance from the lower bound, as an unsigned number, is at most that of
//! the upper bound; so signed and unsigned integers are one.

use std::arch::x86_64::*;

use super::Avx2;
use crate::{
    lanes::Lanes,
    registers::{load, simd, store},
};

macro_rules! lanes {
    ($(
        $t:ident: $range:ident, $in_range:ident, $equal:ident, $at_least:expr, $bits:ident, $select:ident,
        $min:expr, $max:expr;
    )*) => {$(
        impl Lanes<$t> for Avx2 {
            const COUNT: usize = 32 / size_of::<$t>();

            const SPARSE: u32 = size_of::<$t>() as u32 + 1;

            type Vector = __m256i;

            /// The lower bound, and the distance of the upper one.
            type Range = (__m256i, __m256i);

            #[inline(always)]
            fn load(self, values: &[$t], i: usize) -> __m256i {
                load(&values.as_chunks::<{ 32 / size_of::<$t>() }>().0[i])
            }

            #[inline(always)]
            fn store(self, vector: __m256i, values: &mut [$t], i: usize) {
                values.as_chunks_mut::<{ 32 / size_of::<$t>() }>().0[i] = store(vector);
            }

            #[inline(always)]
            fn splat(self, value: $t) -> __m256i {
                load(&[value; 32 / size_of::<$t>()])
            }

            #[inline(always)]
            fn range(self, lo: $t, hi: $t) -> Self::Range {
                self.$range(self.splat(lo), self.splat(hi.wrapping_sub(lo)))
            }

            #[inline(always)]
            fn in_range(self, vector: __m256i, range: Self::Range) -> u64 {
                self.$in_range(vector, range)
            }

            #[inline(always)]
            fn equal(self, vector: __m256i, other: __m256i) -> u64 {
                self.$bits(simd!($equal(vector, other)))
            }

            #[inline(always)]
            fn at_least(self, vector: __m256i, other: __m256i) -> u64 {
                self.$bits(simd!($at_least(vector, other)))
            }

            #[inline(always)]
            fn at_most(self, vector: __m256i, other: __m256i) -> u64 {
                self.$bits(simd!($at_least(other, vector)))
            }

            #[inline(always)]
            fn nan(self, _vector: __m256i) -> u64 {
                0
            }

            #[inline(always)]
            fn select(self, vector: __m256i, word: u64, i: usize, fill: __m256i) -> __m256i {
                self.$select(vector, word, i, fill)
            }

            #[inline(always)]
            fn min(self, vector: __m256i, least: __m256i) -> __m256i {
                simd!($min(vector, least))
            }

            #[inline(always)]
            fn max(self, vector: __m256i, greatest: __m256i) -> __m256i {
                simd!($max(vector, greatest))
            }
        }
    )*};
}

lanes! {
    i8: plain, in_range_8, _mm256_cmpeq_epi8,
        |v, other| _mm256_cmpeq_epi8(_mm256_max_epi8(v, other), v), bits_8, select_8,
        _mm256_min_epi8, _mm256_max_epi8;
    i16: plain, in_range_16, _mm256_cmpeq_epi16,
        |v, other| _mm256_cmpeq_epi16(_mm256_max_epi16(v, other), v), bits_16, select_16,
        _mm256_min_epi16, _mm256_max_epi16;
    i32: plain, in_range_32, _mm256_cmpeq_epi32,
        |v, other| _mm256_cmpeq_epi32(_mm256_max_epi32(v, other), v), bits_32, select_32,
        _mm256_min_epi32, _mm256_max_epi32;
    i64: flipped, in_range_64, _mm256_cmpeq_epi64,
        |v, other| not(_mm256_cmpgt_epi64(other, v)), bits_64, select_64,
        |v, least| _mm256_blendv_epi8(least, v, _mm256_cmpgt_epi64(least, v)),
        |v, greatest| _mm256_blendv_epi8(greatest, v, _mm256_cmpgt_epi64(v, greatest));
    u8: plain, in_range_8, _mm256_cmpeq_epi8,
        |v, other| _mm256_cmpeq_epi8(_mm256_max_epu8(v, other), v), bits_8, select_8,
        _mm256_min_epu8, _mm256_max_epu8;
    u16: plain, in_range_16, _mm256_cmpeq_epi16,
        |v, other| _mm256_cmpeq_epi16(_mm256_max_epu16(v, other), v), bits_16, select_16,
        _mm256_min_epu16, _mm256_max_epu16;
    u32: plain, in_range_32, _mm256_cmpeq_epi32,
        |v, other| _mm256_cmpeq_epi32(_mm256_max_epu32(v, other), v), bits_32, select_32,
        _mm256_min_epu32, _mm256_max_epu32;
    u64: flipped, in_range_64, _mm256_cmpeq_epi64,
        |v, other| not(_mm256_cmpgt_epi64(flip(other), flip(v))), bits_64, select_64,
        |v, least| _mm256_blendv_epi8(least, v, _mm256_cmpgt_epi64(flip(least), flip(v))),
        |v, greatest| _mm256_blendv_epi8(greatest, v, _mm256_cmpgt_epi64(flip(v), flip(greatest)));
}

/// Lanes of 64 bits with their sign bits flipped: there is no unsigned comparison.
#[inline]
#[target_feature(enable = "avx2")]
fn flip(vector: __m256i) -> __m256i {
    _mm256_xor_si256(vector, _mm256_set1_epi64x(i64::MIN))
}

/// All bits flipped.
#[inline]
#[target_feature(enable = "avx2")]
fn not(vector: __m256i) -> __m256i {
    _mm256_xor_si256(vector, _mm256_set1_epi64x(-1))
}

impl Avx2 {
    /// The bits of lanes of ones and lanes of zeros, of 8 bits each.
    #[inline(always)]
    fn bits_8(self, lanes: __m256i) -> u64 {
        simd!(u64::from(_mm256_movemask_epi8(lanes).cast_unsigned()))
    }

    #[inline(always)]
    fn bits_16(self, lanes: __m256i) -> u64 {
        simd!({
            let (low, high) = (_mm256_castsi256_si128(lanes), _mm256_extracti128_si256::<1>(lanes));
            u64::from(_mm_movemask_epi8(_mm_packs_epi16(low, high)).cast_unsigned())
        })
    }

    #[inline(always)]
    fn bits_32(self, lanes: __m256i) -> u64 {
        simd!(u64::from(_mm256_movemask_ps(_mm256_castsi256_ps(lanes)).cast_unsigned()))
    }

    #[inline(always)]
    fn bits_64(self, lanes: __m256i) -> u64 {
        simd!(u64::from(_mm256_movemask_pd(_mm256_castsi256_pd(lanes)).cast_unsigned()))
    }

    #[inline(always)]
    fn plain(self, lo: __m256i, span: __m256i) -> (__m256i, __m256i) {
        (lo, span)
    }

    #[inline(always)]
    fn flipped(self, lo: __m256i, span: __m256i) -> (__m256i, __m256i) {
        // `x - flip(lo)` is `flip(x - lo)`.
        simd!((flip(lo), flip(span)))
    }

    #[inline(always)]
    fn in_range_8(self, vector: __m256i, (lo, span): (__m256i, __m256i)) -> u64 {
        simd!({
            let distance = _mm256_sub_epi8(vector, lo);
            self.bits_8(_mm256_cmpeq_epi8(_mm256_min_epu8(distance, span), distance))
        })
    }

    #[inline(always)]
    fn in_range_16(self, vector: __m256i, (lo, span): (__m256i, __m256i)) -> u64 {
        simd!({
            let distance = _mm256_sub_epi16(vector, lo);
            self.bits_16(_mm256_cmpeq_epi16(_mm256_min_epu16(distance, span), distance))
        })
    }

    #[inline(always)]
    fn in_range_32(self, vector: __m256i, (lo, span): (__m256i, __m256i)) -> u64 {
        simd!({
            let distance = _mm256_sub_epi32(vector, lo);
            self.bits_32(_mm256_cmpeq_epi32(_mm256_min_epu32(distance, span), distance))
        })
    }

    #[inline(always)]
    fn in_range_64(self, vector: __m256i, (lo, span): (__m256i, __m256i)) -> u64 {
        simd!(self.bits_64(not(_mm256_cmpgt_epi64(_mm256_sub_epi64(vector, lo), span))))
    }

    #[inline(always)]
    fn select_8(self, vector: __m256i, word: u64, i: usize, fill: __m256i) -> __m256i {
        simd!(_mm256_blendv_epi8(fill, vector, self.spread_8(word, i)))
    }

    #[inline(always)]
    fn select_16(self, vector: __m256i, word: u64, i: usize, fill: __m256i) -> __m256i {
        simd!(_mm256_blendv_epi8(fill, vector, self.spread_16(word, i)))
    }

    #[inline(always)]
    fn select_32(self, vector: __m256i, word: u64, i: usize, fill: __m256i) -> __m256i {
        simd!({
            let (fill, vector) = (_mm256_castsi256_ps(fill), _mm256_castsi256_ps(vector));
            _mm256_castps_si256(_mm256_blendv_ps(fill, vector, self.spread_32(word, i)))
        })
    }

    #[inline(always)]
    fn select_64(self, vector: __m256i, word: u64, i: usize, fill: __m256i) -> __m256i {
        simd!({
            let (fill, vector) = (_mm256_castsi256_pd(fill), _mm256_castsi256_pd(vector));
            _mm256_castpd_si256(_mm256_blendv_pd(fill, vector, self.spread_64(word, i)))
        })
    }
}
