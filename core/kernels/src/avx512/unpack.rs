//! Numbers of up to 63 bits: a register holds eight.

use std::arch::x86_64::*;

use super::Avx512;
use crate::{
    registers::{load, simd, store},
    scalar::bits::{GROUP, Unpack, WINDOW},
};

/// Where eight numbers lie in a register.
pub(crate) struct Places {
    /// The words in which they begin, and those behind them.
    words: __m512i,
    next: __m512i,
    /// Their first bits in those words, and what is left of the words.
    shifts: __m512i,
    left: __m512i,
    mask: __m512i,
}

impl Unpack for Avx512 {
    type Places = Places;

    #[inline(always)]
    fn places(self, width: u32) -> Places {
        simd!({
            let bits =
                _mm512_mullo_epi64(load(&[0_u64, 1, 2, 3, 4, 5, 6, 7]), _mm512_set1_epi64(width.into()));
            let words = _mm512_srli_epi64::<6>(bits);
            let shifts = _mm512_and_si512(bits, _mm512_set1_epi64(63));
            Places {
                words,
                next: _mm512_add_epi64(words, _mm512_set1_epi64(1)),
                shifts,
                left: _mm512_sub_epi64(_mm512_set1_epi64(64), shifts),
                mask: _mm512_set1_epi64(i64::MAX >> (63 - width)),
            }
        })
    }

    #[inline(always)]
    fn unpack(self, window: &[u8; WINDOW], places: &Places) -> [u64; GROUP] {
        let register = load(window.first_chunk::<64>().unwrap_or(&[0; 64]));
        simd!({
            // A shift by all bits leaves none. Behind the last word is the first, but no number goes on there.
            let low = _mm512_srlv_epi64(_mm512_permutexvar_epi64(places.words, register), places.shifts);
            let high = _mm512_sllv_epi64(_mm512_permutexvar_epi64(places.next, register), places.left);
            store(_mm512_and_si512(_mm512_or_si512(low, high), places.mask))
        })
    }
}
