//! A chunk's mask word, spread to the lanes of the chunk's `i`-th register.

use std::{arch::x86_64::*, array::from_fn};

use super::Avx2;
use crate::registers::{load, simd};

impl Avx2 {
    /// Lanes of 8 bits, of ones where the word selects.
    #[inline(always)]
    pub(super) fn spread_8(self, word: u64, i: usize) -> __m256i {
        let byte_of_lane = load(&from_fn::<u8, 32, _>(|lane| lane as u8 / 8));
        let bit_of_lane = load(&from_fn::<u8, 32, _>(|lane| 1 << (lane % 8)));
        simd!({
            let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((word >> (32 * i)) as i32), byte_of_lane);
            _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit_of_lane), bit_of_lane)
        })
    }

    /// Lanes of 16 bits, of ones where the word selects.
    #[inline(always)]
    pub(super) fn spread_16(self, word: u64, i: usize) -> __m256i {
        let bit_of_lane = load(&from_fn::<u16, 16, _>(|lane| 1 << lane));
        simd!({
            let bits = _mm256_set1_epi16((word >> (16 * i)) as i16);
            _mm256_cmpeq_epi16(_mm256_and_si256(bits, bit_of_lane), bit_of_lane)
        })
    }

    /// Lanes of 32 bits, whose sign bits are set where the word selects.
    #[inline(always)]
    pub(super) fn spread_32(self, word: u64, i: usize) -> __m256 {
        let shifts = load(&from_fn::<u32, 8, _>(|lane| 31 - lane as u32));
        let half = (word >> (i / 4 * 32)) as i32;
        simd!({
            let shifts = _mm256_sub_epi32(shifts, _mm256_set1_epi32((i % 4 * 8) as i32));
            _mm256_castsi256_ps(_mm256_sllv_epi32(_mm256_set1_epi32(half), shifts))
        })
    }

    /// Lanes of 64 bits, whose sign bits are set where the word selects.
    #[inline(always)]
    pub(super) fn spread_64(self, word: u64, i: usize) -> __m256d {
        let shifts = load(&from_fn::<u64, 4, _>(|lane| 63 - lane as u64));
        simd!({
            let shifts = _mm256_sub_epi64(shifts, _mm256_set1_epi64x((i * 4) as i64));
            _mm256_castsi256_pd(_mm256_sllv_epi64(_mm256_set1_epi64x(word.cast_signed()), shifts))
        })
    }
}
