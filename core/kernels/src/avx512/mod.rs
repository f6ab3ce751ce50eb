//! AVX-512 F, BW, DQ and VL: mask registers compare and select.

pub(crate) mod table;

use std::arch::x86_64::*;

use crate::{
    chunks::{CHUNK, Chunks},
    registers::{load, store},
};

/// The instructions, on a CPU that has them.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// # Safety
    /// The CPU must have the instructions that [`detected`] looks for.
    #[inline(always)]
    unsafe fn new() -> Self {
        Self(())
    }
}

/// Whether the CPU has what the table is compiled for.
pub(crate) fn detected() -> bool {
    crate::avx2::detected()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

macro_rules! chunks {
    ($(
        $t:ident as $lane:ident: $splat:ident,
        $compare:ident $at_least:ident, $compare_masked:ident $at_most:ident, $blend:ident;
    )*) => {$(
        impl Chunks<$t> for Avx512 {
            #[inline(always)]
            fn in_range(self, values: &[$t; CHUNK], lo: $t, hi: $t) -> u64 {
                // SAFETY: `self` is a proof that the CPU has the instructions.
                unsafe { $t::in_range(values, lo, hi) }
            }

            #[inline(always)]
            fn select(self, values: &[$t; CHUNK], bits: u64, fill: $t) -> [$t; CHUNK] {
                // SAFETY: `self` is a proof that the CPU has the instructions.
                unsafe { $t::select(values, bits, fill) }
            }
        }

        mod $t {
            use super::*;

            const LANES: usize = 64 / size_of::<$t>();

            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            pub(super) fn in_range(values: &[$t; CHUNK], lo: $t, hi: $t) -> u64 {
                let (lo, hi) = ($splat(lo as $lane), $splat(hi as $lane));
                let mut word = 0;
                for (i, lanes) in values.as_chunks::<LANES>().0.iter().enumerate() {
                    let lanes = load(lanes);
                    let bits = $compare_masked::<$at_most>($compare::<$at_least>(lanes, lo), lanes, hi);
                    word |= u64::from(bits) << (i * LANES);
                }
                word
            }

            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            pub(super) fn select(values: &[$t; CHUNK], bits: u64, fill: $t) -> [$t; CHUNK] {
                let mut selected = [fill; CHUNK];
                let fill = $splat(fill as $lane);
                let groups = values.as_chunks::<LANES>().0.iter().zip(selected.as_chunks_mut::<LANES>().0);
                for (i, (lanes, selected)) in groups.enumerate() {
                    *selected = store($blend((bits >> (i * LANES)) as _, fill, load(lanes)));
                }
                selected
            }
        }
    )*};
}

chunks! {
    i8 as i8: _mm512_set1_epi8, _mm512_cmp_epi8_mask _MM_CMPINT_NLT,
        _mm512_mask_cmp_epi8_mask _MM_CMPINT_LE, _mm512_mask_blend_epi8;
    i16 as i16: _mm512_set1_epi16, _mm512_cmp_epi16_mask _MM_CMPINT_NLT,
        _mm512_mask_cmp_epi16_mask _MM_CMPINT_LE, _mm512_mask_blend_epi16;
    i32 as i32: _mm512_set1_epi32, _mm512_cmp_epi32_mask _MM_CMPINT_NLT,
        _mm512_mask_cmp_epi32_mask _MM_CMPINT_LE, _mm512_mask_blend_epi32;
    i64 as i64: _mm512_set1_epi64, _mm512_cmp_epi64_mask _MM_CMPINT_NLT,
        _mm512_mask_cmp_epi64_mask _MM_CMPINT_LE, _mm512_mask_blend_epi64;
    u8 as i8: _mm512_set1_epi8, _mm512_cmp_epu8_mask _MM_CMPINT_NLT,
        _mm512_mask_cmp_epu8_mask _MM_CMPINT_LE, _mm512_mask_blend_epi8;
    u16 as i16: _mm512_set1_epi16, _mm512_cmp_epu16_mask _MM_CMPINT_NLT,
        _mm512_mask_cmp_epu16_mask _MM_CMPINT_LE, _mm512_mask_blend_epi16;
    u32 as i32: _mm512_set1_epi32, _mm512_cmp_epu32_mask _MM_CMPINT_NLT,
        _mm512_mask_cmp_epu32_mask _MM_CMPINT_LE, _mm512_mask_blend_epi32;
    u64 as i64: _mm512_set1_epi64, _mm512_cmp_epu64_mask _MM_CMPINT_NLT,
        _mm512_mask_cmp_epu64_mask _MM_CMPINT_LE, _mm512_mask_blend_epi64;
    f32 as f32: _mm512_set1_ps, _mm512_cmp_ps_mask _CMP_GE_OQ,
        _mm512_mask_cmp_ps_mask _CMP_LE_OQ, _mm512_mask_blend_ps;
    f64 as f64: _mm512_set1_pd, _mm512_cmp_pd_mask _CMP_GE_OQ,
        _mm512_mask_cmp_pd_mask _CMP_LE_OQ, _mm512_mask_blend_pd;
}
