//! Set bits and runs of them.

use std::arch::x86_64::*;

use super::Vbmi2;
use crate::{
    registers::{load, simd},
    scalar::mask::run_starts,
    words::total,
};

/// Set bits and runs of them.
#[inline(always)]
pub(super) fn count(isa: Vbmi2, words: &[u64]) -> (u64, u64) {
    let Some((&first, behind)) = words.split_first() else { return (0, 0) };
    // Every word but the first, with the word before it.
    let ((behind, rest), (before, rest_before)) = (behind.as_chunks::<8>(), words.as_chunks::<8>());
    let (mut ones, mut runs) = (isa.zero(), isa.zero());
    for (words, before) in behind.iter().zip(before) {
        (ones, runs) = isa.count(ones, runs, load(words), load(before));
    }
    let (mut ones, mut runs) = (total::<_, 8>(ones), total::<_, 8>(runs));
    let rest_before = if before.len() == behind.len() { rest_before } else { &before[behind.len()] };
    for (before, word) in
        [(0, first)].into_iter().chain(rest_before.iter().copied().zip(rest.iter().copied()))
    {
        ones += u64::from(word.count_ones());
        runs += u64::from(run_starts(before, word).count_ones());
    }
    (ones, runs)
}

impl Vbmi2 {
    #[inline(always)]
    fn zero(self) -> __m512i {
        simd!(_mm512_setzero_si512())
    }

    /// Adds a register's counts.
    #[inline(always)]
    fn count(self, ones: __m512i, runs: __m512i, words: __m512i, before: __m512i) -> (__m512i, __m512i) {
        simd!({
            let inside = _mm512_shldi_epi64::<1>(words, before);
            let starts = _mm512_andnot_si512(inside, words);
            let (words, starts) = (_mm512_popcnt_epi64(words), _mm512_popcnt_epi64(starts));
            (_mm512_add_epi64(ones, words), _mm512_add_epi64(runs, starts))
        })
    }
}
