//! Unary numbers: the places of a word's ones are compressed, and their differences are the numbers.

use std::arch::x86_64::*;

use super::{Vbmi2, positions::PLACES};
use crate::{
    chunks::low_bits,
    forms::bits::UNARY_MAX,
    registers::{load, simd, store},
    scalar::bits::word_at,
};

/// Numbers that are read as bytes before they are widened.
const PIECE: usize = 128;

/// Numbers that a word may hold.
const WORD: usize = 64;

#[inline(always)]
pub(super) fn read(isa: Vbmi2, bytes: &[u8], out: &mut [u64]) -> Option<usize> {
    let mut bit = 0;
    for out in out.chunks_mut(PIECE) {
        bit = piece(isa, bytes, bit, out)?;
    }
    Some(bit)
}

/// Reads numbers from a bit on; returns the bit behind them.
#[inline(always)]
fn piece(isa: Vbmi2, bytes: &[u8], bit: usize, out: &mut [u64]) -> Option<usize> {
    let mut numbers = [0_u8; PIECE + WORD];
    let (mut read, mut offset) = (0, bit / 8);
    let mut word = word_at(bytes, offset) & (u64::MAX << (bit % 8));
    // Where the word's first number begins, modulo 2^8: it may be in the words before.
    let mut begin = (bit % 8) as u8;
    let mut too_great = 0;
    let last = loop {
        let count = (word.count_ones() as usize).min(out.len() - read);
        if count == 0 {
            return None;
        }
        let (register, greater) = isa.numbers(word, begin);
        too_great |= greater & low_bits(count);
        if let Some(numbers) = numbers[read..].first_chunk_mut::<WORD>() {
            *numbers = store(register);
        }
        read += count;
        if read == out.len() {
            break isa.place(word, count);
        }
        begin = 0_u8.wrapping_sub(word.leading_zeros() as u8);
        offset += 8;
        word = word_at(bytes, offset);
    };
    for (out, number) in out.iter_mut().zip(numbers) {
        *out = u64::from(number);
    }
    (too_great == 0).then_some(8 * offset + last + 1)
}

impl Vbmi2 {
    /// The numbers that the ones of a word end, the first of which begins at `begin`, modulo 2^8; and which are too
    /// great.
    #[inline(always)]
    fn numbers(self, word: u64, begin: u8) -> (__m512i, u64) {
        /// The lane before each.
        const BEFORE: [u8; WORD] = {
            let mut lanes = PLACES;
            let mut i = 1;
            while i < WORD {
                lanes[i] = PLACES[i - 1];
                i += 1;
            }
            lanes
        };
        simd!({
            let ends = _mm512_maskz_compress_epi8(word, load(&PLACES));
            let behind = _mm512_add_epi8(ends, _mm512_set1_epi8(1));
            let begins = _mm512_permutexvar_epi8(load(&BEFORE), behind);
            let begins = _mm512_mask_set1_epi8(begins, 1, begin.cast_signed());
            let numbers = _mm512_sub_epi8(ends, begins);
            (numbers, _mm512_cmpgt_epu8_mask(numbers, _mm512_set1_epi8(UNARY_MAX as i8)))
        })
    }

    /// The place of a word's `count`-th one, from 1 on.
    #[inline(always)]
    pub(super) fn place(self, word: u64, count: usize) -> usize {
        simd!(_pdep_u64(1 << (count - 1), word)).trailing_zeros() as usize
    }
}
