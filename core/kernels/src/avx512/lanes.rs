//! Numbers in registers of 512 bits.

use std::arch::x86_64::*;

use super::Avx512;
use crate::{
    chunks::CHUNK,
    lanes::{FloatLanes, Lanes},
    registers::{load, simd, store},
};

macro_rules! lanes {
    ($(
        $t:ident as $lane:ident in $vector:ident: $splat:ident,
        $compare:ident $equal:ident $at_least:ident $at_most:ident,
        |$lo:ident, $hi:ident| $bound:expr, |$lanes:ident, $range:ident| $in_range:expr,
        $blend:ident, $min:ident, $max:ident, |$tested:ident| $nan:expr;
    )*) => {$(
        impl Lanes<$t> for Avx512 {
            const COUNT: usize = 64 / size_of::<$t>();

            const SPARSE: u32 = size_of::<$t>() as u32 + 1;

            type Vector = $vector;

            /// The lower bound and the upper one; of integers, the distance of the upper one.
            type Range = ($vector, $vector);

            #[inline(always)]
            fn load(self, values: &[$t], i: usize) -> $vector {
                load(&values.as_chunks::<{ 64 / size_of::<$t>() }>().0[i])
            }

            #[inline(always)]
            fn store(self, vector: $vector, values: &mut [$t], i: usize) {
                values.as_chunks_mut::<{ 64 / size_of::<$t>() }>().0[i] = store(vector);
            }

            #[inline(always)]
            fn splat(self, value: $t) -> $vector {
                simd!($splat(value as $lane))
            }

            #[inline(always)]
            fn range(self, $lo: $t, $hi: $t) -> Self::Range {
                (self.splat($lo), self.splat($bound))
            }

            #[inline(always)]
            fn in_range(self, $lanes: $vector, $range: Self::Range) -> u64 {
                simd!($in_range.into())
            }

            #[inline(always)]
            fn equal(self, vector: $vector, other: $vector) -> u64 {
                simd!($compare::<$equal>(vector, other).into())
            }

            #[inline(always)]
            fn at_least(self, vector: $vector, other: $vector) -> u64 {
                simd!($compare::<$at_least>(vector, other).into())
            }

            #[inline(always)]
            fn at_most(self, vector: $vector, other: $vector) -> u64 {
                simd!($compare::<$at_most>(vector, other).into())
            }

            #[inline(always)]
            fn nan(self, $tested: $vector) -> u64 {
                $nan
            }

            #[inline(always)]
            fn select(self, vector: $vector, word: u64, i: usize, fill: $vector) -> $vector {
                simd!($blend((word >> (i * <Self as Lanes<$t>>::COUNT)) as _, fill, vector))
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
    i8 as i8 in __m512i: _mm512_set1_epi8,
        _mm512_cmp_epi8_mask _MM_CMPINT_EQ _MM_CMPINT_NLT _MM_CMPINT_LE,
        |lo, hi| hi.wrapping_sub(lo),
        |lanes, range| _mm512_cmple_epu8_mask(_mm512_sub_epi8(lanes, range.0), range.1),
        _mm512_mask_blend_epi8, _mm512_min_epi8, _mm512_max_epi8, |_lanes| 0;
    i16 as i16 in __m512i: _mm512_set1_epi16,
        _mm512_cmp_epi16_mask _MM_CMPINT_EQ _MM_CMPINT_NLT _MM_CMPINT_LE,
        |lo, hi| hi.wrapping_sub(lo),
        |lanes, range| _mm512_cmple_epu16_mask(_mm512_sub_epi16(lanes, range.0), range.1),
        _mm512_mask_blend_epi16, _mm512_min_epi16, _mm512_max_epi16, |_lanes| 0;
    i32 as i32 in __m512i: _mm512_set1_epi32,
        _mm512_cmp_epi32_mask _MM_CMPINT_EQ _MM_CMPINT_NLT _MM_CMPINT_LE,
        |lo, hi| hi.wrapping_sub(lo),
        |lanes, range| _mm512_cmple_epu32_mask(_mm512_sub_epi32(lanes, range.0), range.1),
        _mm512_mask_blend_epi32, _mm512_min_epi32, _mm512_max_epi32, |_lanes| 0;
    i64 as i64 in __m512i: _mm512_set1_epi64,
        _mm512_cmp_epi64_mask _MM_CMPINT_EQ _MM_CMPINT_NLT _MM_CMPINT_LE,
        |lo, hi| hi.wrapping_sub(lo),
        |lanes, range| _mm512_cmple_epu64_mask(_mm512_sub_epi64(lanes, range.0), range.1),
        _mm512_mask_blend_epi64, _mm512_min_epi64, _mm512_max_epi64, |_lanes| 0;
    u8 as i8 in __m512i: _mm512_set1_epi8,
        _mm512_cmp_epu8_mask _MM_CMPINT_EQ _MM_CMPINT_NLT _MM_CMPINT_LE,
        |lo, hi| hi.wrapping_sub(lo),
        |lanes, range| _mm512_cmple_epu8_mask(_mm512_sub_epi8(lanes, range.0), range.1),
        _mm512_mask_blend_epi8, _mm512_min_epu8, _mm512_max_epu8, |_lanes| 0;
    u16 as i16 in __m512i: _mm512_set1_epi16,
        _mm512_cmp_epu16_mask _MM_CMPINT_EQ _MM_CMPINT_NLT _MM_CMPINT_LE,
        |lo, hi| hi.wrapping_sub(lo),
        |lanes, range| _mm512_cmple_epu16_mask(_mm512_sub_epi16(lanes, range.0), range.1),
        _mm512_mask_blend_epi16, _mm512_min_epu16, _mm512_max_epu16, |_lanes| 0;
    u32 as i32 in __m512i: _mm512_set1_epi32,
        _mm512_cmp_epu32_mask _MM_CMPINT_EQ _MM_CMPINT_NLT _MM_CMPINT_LE,
        |lo, hi| hi.wrapping_sub(lo),
        |lanes, range| _mm512_cmple_epu32_mask(_mm512_sub_epi32(lanes, range.0), range.1),
        _mm512_mask_blend_epi32, _mm512_min_epu32, _mm512_max_epu32, |_lanes| 0;
    u64 as i64 in __m512i: _mm512_set1_epi64,
        _mm512_cmp_epu64_mask _MM_CMPINT_EQ _MM_CMPINT_NLT _MM_CMPINT_LE,
        |lo, hi| hi.wrapping_sub(lo),
        |lanes, range| _mm512_cmple_epu64_mask(_mm512_sub_epi64(lanes, range.0), range.1),
        _mm512_mask_blend_epi64, _mm512_min_epu64, _mm512_max_epu64, |_lanes| 0;
    f32 as f32 in __m512: _mm512_set1_ps,
        _mm512_cmp_ps_mask _CMP_EQ_OQ _CMP_GE_OQ _CMP_LE_OQ,
        |_lo, hi| hi,
        |lanes, range| _mm512_mask_cmp_ps_mask::<_CMP_LE_OQ>(
            _mm512_cmp_ps_mask::<_CMP_GE_OQ>(lanes, range.0), lanes, range.1,
        ),
        _mm512_mask_blend_ps, _mm512_min_ps, _mm512_max_ps,
        |lanes| simd!(_mm512_cmp_ps_mask::<_CMP_UNORD_Q>(lanes, lanes).into());
    f64 as f64 in __m512d: _mm512_set1_pd,
        _mm512_cmp_pd_mask _CMP_EQ_OQ _CMP_GE_OQ _CMP_LE_OQ,
        |_lo, hi| hi,
        |lanes, range| _mm512_mask_cmp_pd_mask::<_CMP_LE_OQ>(
            _mm512_cmp_pd_mask::<_CMP_GE_OQ>(lanes, range.0), lanes, range.1,
        ),
        _mm512_mask_blend_pd, _mm512_min_pd, _mm512_max_pd,
        |lanes| simd!(_mm512_cmp_pd_mask::<_CMP_UNORD_Q>(lanes, lanes).into());
}

macro_rules! floats {
    ($($t:ident: |$lanes:ident| $widen:expr;)*) => {$(
        impl FloatLanes<$t> for Avx512 {
            type Eight = __m512d;

            #[inline(always)]
            fn eight(self, lanes: [f64; 8]) -> __m512d {
                load(&lanes)
            }

            #[inline(always)]
            fn lanes(self, eight: __m512d) -> [f64; 8] {
                store(eight)
            }

            #[inline(always)]
            fn load_eight(self, chunk: &[$t; CHUNK], i: usize) -> __m512d {
                let $lanes = load(&chunk.as_chunks::<8>().0[i]);
                $widen
            }

            #[inline(always)]
            fn add_selected(self, sums: __m512d, eight: __m512d, word: u64, i: usize) -> __m512d {
                simd!(_mm512_mask_add_pd(sums, (word >> (8 * i)) as u8, sums, eight))
            }

            #[inline(always)]
            fn add_eight(self, a: __m512d, b: __m512d) -> __m512d {
                simd!(_mm512_add_pd(a, b))
            }
        }
    )*};
}

floats! {
    f32: |lanes| simd!(_mm512_cvtps_pd(lanes));
    f64: |lanes| lanes;
}
