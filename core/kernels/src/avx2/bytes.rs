//! Which bytes are in a set, 32 at a time: their low halves pick eight bits of the set, their high halves one of these.

use std::arch::x86_64::*;

use super::Avx2;
use crate::{
    chunks::CHUNK,
    registers::{load, simd},
    scalar::bytes::{Members, bits, by_low_half},
};

impl Members for Avx2 {
    type Set = [__m256i; 2];

    #[inline(always)]
    fn set(self, set: &[u64; 4]) -> [__m256i; 2] {
        by_low_half(set).map(|table| simd!(_mm256_broadcastsi128_si256(load(&table))))
    }

    #[inline(always)]
    fn members(self, set: &[__m256i; 2], bytes: &[u8; CHUNK]) -> u64 {
        let (halves, _) = bytes.as_chunks::<32>();
        halves.iter().rev().fold(0, |word, half| word << 32 | u64::from(self.members32(set, half)))
    }
}

impl Avx2 {
    #[inline(always)]
    fn members32(self, [low, high]: &[__m256i; 2], bytes: &[u8; 32]) -> u32 {
        /// That of each high half.
        const BITS: [u8; 32] = bits();
        simd!({
            let bytes: __m256i = load(bytes);
            // Where the highest bit is set, a shuffle gives 0.
            let below = _mm256_shuffle_epi8(*low, bytes);
            let above = _mm256_shuffle_epi8(*high, _mm256_xor_si256(bytes, _mm256_set1_epi8(i8::MIN)));
            let halves = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), _mm256_set1_epi8(15));
            let bit = _mm256_shuffle_epi8(load(&BITS), halves);
            let found = _mm256_and_si256(_mm256_or_si256(below, above), bit);
            !_mm256_movemask_epi8(_mm256_cmpeq_epi8(found, _mm256_setzero_si256())).cast_unsigned()
        })
    }
}
