//! Packed codes: a code that goes on in the next vector takes one instruction, which shifts two lanes as one. The
//! compiler finds it in the loops of all instruction sets. Sets of few codes stay in registers.

use std::arch::x86_64::*;

use super::Vbmi2;
use crate::{
    forms::packed::Rows,
    registers::{load, simd},
    scalar::{
        bytes::bits,
        packed::{self, Probe},
    },
};

/// The widest codes whose sets stay in registers.
const SET_WIDTH: u32 = 12;

/// Registers of such a set.
const SET: usize = (1 << SET_WIDTH) / 512;

#[inline(always)]
pub(super) fn between(isa: Vbmi2, rows: Rows<'_>, lo: u64, hi: u64, out: &mut [u64]) {
    packed::between(isa.avx512(), rows, lo, hi, out);
}

#[inline(always)]
pub(super) fn sum(isa: Vbmi2, rows: Rows<'_>, mask: Option<&[u64]>) -> u128 {
    packed::sum(isa.avx512(), rows, mask)
}

#[inline(always)]
pub(super) fn in_set(isa: Vbmi2, rows: Rows<'_>, set: &[u64], out: &mut [u64]) {
    if rows.width > SET_WIDTH {
        return packed::in_set(isa.avx512(), rows, set, out);
    }
    let mut words = [0_u64; 8 * SET];
    let n = set.len().min(words.len());
    words[..n].copy_from_slice(&set[..n]);
    let mut registers = [load(&[0_u64; 8]); SET];
    for (register, words) in registers.iter_mut().zip(words.as_chunks::<8>().0) {
        *register = load(words);
    }
    packed::probe(isa.avx512(), rows, Set { isa, registers }, out);
}

/// A set of codes in registers.
#[derive(Clone, Copy)]
struct Set {
    isa: Vbmi2,
    registers: [__m512i; SET],
}

impl Probe<u8, __m512i> for Set {
    #[inline(always)]
    fn probe(self, codes: __m512i, _width: u32) -> u64 {
        self.isa.bytes_in(self.registers[0], codes)
    }
}

impl Probe<u16, __m512i> for Set {
    #[inline(always)]
    fn probe(self, codes: __m512i, width: u32) -> u64 {
        self.isa.words_in(&self.registers, codes, width)
    }
}

/// No set of codes as wide is in registers.
macro_rules! wide {
    ($($t:ty),*) => {$(
        impl Probe<$t, __m512i> for Set {
            #[inline(always)]
            fn probe(self, _codes: __m512i, _width: u32) -> u64 {
                0
            }
        }
    )*};
}

wide!(u32, u64);

impl Vbmi2 {
    /// Which codes of 8 bits have a bit among the first 256.
    #[inline(always)]
    fn bytes_in(self, set: __m512i, codes: __m512i) -> u64 {
        const BITS: [u8; 64] = bits();
        simd!({
            let place = _mm512_and_si512(_mm512_srli_epi16::<3>(codes), _mm512_set1_epi8(31));
            let bit = _mm512_shuffle_epi8(load(&BITS), _mm512_and_si512(codes, _mm512_set1_epi8(7)));
            _mm512_test_epi8_mask(_mm512_permutexvar_epi8(place, set), bit)
        })
    }

    /// Which codes of `width` bits, 16 at most, have a bit.
    #[inline(always)]
    fn words_in(self, set: &[__m512i; SET], codes: __m512i, width: u32) -> u64 {
        simd!({
            let place = _mm512_srli_epi16::<4>(codes);
            // Two registers are 64 words: the place's bits above select two of them.
            let two = |i: usize| _mm512_permutex2var_epi16(set[i], place, set[i + 1]);
            let four = |i: usize| {
                let behind = _mm512_test_epi16_mask(place, _mm512_set1_epi16(64));
                _mm512_mask_blend_epi16(behind, two(i), two(i + 2))
            };
            let words = match width {
                ..=10 => two(0),
                11 => four(0),
                _ => {
                    let behind = _mm512_test_epi16_mask(place, _mm512_set1_epi16(128));
                    _mm512_mask_blend_epi16(behind, four(0), four(4))
                }
            };
            let bits = _mm512_srlv_epi16(words, _mm512_and_si512(codes, _mm512_set1_epi16(15)));
            _mm512_test_epi16_mask(bits, _mm512_set1_epi16(1)).into()
        })
    }
}
