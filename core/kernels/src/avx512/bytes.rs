//! Which bytes are in a set, 64 at a time, as AVX2 does it.

use std::arch::x86_64::*;

use super::Avx512;
use crate::{
    chunks::CHUNK,
    registers::{load, simd},
    scalar::bytes::{Members, bits, by_low_half},
};

impl Members for Avx512 {
    type Set = [__m512i; 2];

    #[inline(always)]
    fn set(self, set: &[u64; 4]) -> [__m512i; 2] {
        by_low_half(set).map(|table| simd!(_mm512_broadcast_i32x4(load(&table))))
    }

    #[inline(always)]
    fn members(self, [low, high]: &[__m512i; 2], bytes: &[u8; CHUNK]) -> u64 {
        /// That of each high half.
        const BITS: [u8; 64] = bits();
        simd!({
            let bytes: __m512i = load(bytes);
            // Where the highest bit is set, a shuffle gives 0.
            let below = _mm512_shuffle_epi8(*low, bytes);
            let above = _mm512_shuffle_epi8(*high, _mm512_xor_si512(bytes, _mm512_set1_epi8(i8::MIN)));
            let halves = _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), _mm512_set1_epi8(15));
            let bit = _mm512_shuffle_epi8(load(&BITS), halves);
            _mm512_test_epi8_mask(_mm512_or_si512(below, above), bit)
        })
    }
}
