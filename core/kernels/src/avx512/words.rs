//! Registers of 512 bits as words.

use std::arch::x86_64::*;

use super::Avx512;
use crate::{
    lanes::GroupLanes,
    registers::simd,
    words::{Words, total},
};

impl Words for Avx512 {
    type Register = __m512i;

    #[inline(always)]
    fn word(self, word: u64) -> __m512i {
        simd!(_mm512_set1_epi64(word.cast_signed()))
    }

    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        simd!(_mm512_and_si512(a, b))
    }

    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        simd!(_mm512_or_si512(a, b))
    }

    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        simd!(_mm512_xor_si512(a, b))
    }

    #[inline(always)]
    fn add_words(self, a: __m512i, b: __m512i) -> __m512i {
        simd!(_mm512_add_epi64(a, b))
    }

    #[inline(always)]
    fn add_bytes(self, register: __m512i) -> __m512i {
        simd!(_mm512_sad_epu8(register, _mm512_setzero_si512()))
    }

    #[inline(always)]
    fn right(self, register: __m512i, bits: u32, shift: u32) -> __m512i {
        let shift = simd!(_mm_cvtsi32_si128(shift.cast_signed()));
        match bits {
            16 => simd!(_mm512_srl_epi16(register, shift)),
            32 => simd!(_mm512_srl_epi32(register, shift)),
            _ => simd!(_mm512_srl_epi64(register, shift)),
        }
    }

    #[inline(always)]
    fn left(self, register: __m512i, bits: u32, shift: u32) -> __m512i {
        let shift = simd!(_mm_cvtsi32_si128(shift.cast_signed()));
        match bits {
            16 => simd!(_mm512_sll_epi16(register, shift)),
            32 => simd!(_mm512_sll_epi32(register, shift)),
            _ => simd!(_mm512_sll_epi64(register, shift)),
        }
    }

    #[inline(always)]
    fn high_signed(self, register: __m512i) -> Option<__m512i> {
        Some(simd!(_mm512_srai_epi64::<32>(register)))
    }

    #[inline(always)]
    fn total_words(self, register: __m512i) -> u64 {
        total::<_, 8>(register)
    }
}

impl GroupLanes for Avx512 {
    const FEW: usize = 5;

    const FEW_FLOATS: usize = 8;

    #[inline(always)]
    fn add_selected_words(self, sums: __m512i, vector: __m512i, word: u64, i: usize) -> __m512i {
        simd!(_mm512_mask_add_epi64(sums, (word >> (8 * i)) as u8, sums, vector))
    }
}
