//! Prefix sums of words.

use std::arch::x86_64::*;

use super::Avx512;
use crate::{
    registers::{load, simd, store},
    scalar::prefix::{self, Sums},
};

impl Sums for Avx512 {
    #[inline(always)]
    fn ids(self, base: u64, gaps: &mut [u64]) -> u64 {
        let (eights, rest) = gaps.as_chunks_mut::<8>();
        let mut next = simd!(_mm512_set1_epi64(base.cast_signed()));
        for eight in eights {
            let (ids, behind) = self.eight_ids(next, load(eight));
            *eight = store(ids);
            next = behind;
        }
        let [next, ..]: [u64; 8] = store(next);
        prefix::ids(next, rest)
    }
}

impl Avx512 {
    /// The ids of eight gaps, and in all lanes what follows the last.
    #[inline(always)]
    fn eight_ids(self, next: __m512i, gaps: __m512i) -> (__m512i, __m512i) {
        simd!({
            let (zero, one) = (_mm512_setzero_si512(), _mm512_set1_epi64(1));
            // Sums of one lane each, of two, of four and of all up to it.
            let sums = _mm512_add_epi64(gaps, one);
            let sums = _mm512_add_epi64(sums, _mm512_alignr_epi64::<7>(sums, zero));
            let sums = _mm512_add_epi64(sums, _mm512_alignr_epi64::<6>(sums, zero));
            let sums = _mm512_add_epi64(sums, _mm512_alignr_epi64::<4>(sums, zero));
            let total = _mm512_permutexvar_epi64(_mm512_set1_epi64(7), sums);
            (_mm512_add_epi64(sums, _mm512_sub_epi64(next, one)), _mm512_add_epi64(next, total))
        })
    }
}
