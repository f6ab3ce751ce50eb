//! Registers of 256 bits as words.

use std::arch::x86_64::*;

use super::Avx2;
use crate::{
    lanes::{GroupLanes, Lanes},
    registers::simd,
    words::{Words, total},
};

impl Words for Avx2 {
    type Register = __m256i;

    #[inline(always)]
    fn word(self, word: u64) -> __m256i {
        simd!(_mm256_set1_epi64x(word.cast_signed()))
    }

    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        simd!(_mm256_and_si256(a, b))
    }

    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        simd!(_mm256_or_si256(a, b))
    }

    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        simd!(_mm256_xor_si256(a, b))
    }

    #[inline(always)]
    fn add_words(self, a: __m256i, b: __m256i) -> __m256i {
        simd!(_mm256_add_epi64(a, b))
    }

    #[inline(always)]
    fn add_bytes(self, register: __m256i) -> __m256i {
        simd!(_mm256_sad_epu8(register, _mm256_setzero_si256()))
    }

    #[inline(always)]
    fn right(self, register: __m256i, bits: u32, shift: u32) -> __m256i {
        let shift = simd!(_mm_cvtsi32_si128(shift.cast_signed()));
        match bits {
            16 => simd!(_mm256_srl_epi16(register, shift)),
            32 => simd!(_mm256_srl_epi32(register, shift)),
            _ => simd!(_mm256_srl_epi64(register, shift)),
        }
    }

    #[inline(always)]
    fn left(self, register: __m256i, bits: u32, shift: u32) -> __m256i {
        let shift = simd!(_mm_cvtsi32_si128(shift.cast_signed()));
        match bits {
            16 => simd!(_mm256_sll_epi16(register, shift)),
            32 => simd!(_mm256_sll_epi32(register, shift)),
            _ => simd!(_mm256_sll_epi64(register, shift)),
        }
    }

    #[inline(always)]
    fn high_signed(self, _register: __m256i) -> Option<__m256i> {
        None
    }

    #[inline(always)]
    fn total_words(self, register: __m256i) -> u64 {
        total::<_, 4>(register)
    }
}

impl GroupLanes for Avx2 {
    const FEW: usize = 3;

    const FEW_FLOATS: usize = 0;

    #[inline(always)]
    fn add_selected_words(self, sums: __m256i, vector: __m256i, word: u64, i: usize) -> __m256i {
        self.add_words(sums, Lanes::<i64>::select(self, vector, word, i, self.word(0)))
    }
}
