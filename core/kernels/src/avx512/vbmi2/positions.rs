//! Mask words to positions. Of eight words with at most four bits each, the positions of a word's bits fill the
//! four 16-bit lanes of its own 64-bit lane, and are compressed together; words with more bits, one by one,
//! compress the numbers from 0 to 63.

use std::arch::x86_64::*;

use super::Vbmi2;
use crate::{
    forms::mask::BLOCK_WORDS,
    registers::{load, simd, store},
    scalar::positions::{self, GROUP, Position},
};

/// Positions in a register.
pub(super) const LANES: usize = 32;

/// The positions of a block.
#[inline(always)]
pub(super) fn narrow(isa: Vbmi2, words: &[u64], out: &mut [u16]) -> usize {
    block(isa, words, 0, out, 0)
}

/// Positions counted from `base`, block by block.
#[inline(always)]
pub(super) fn wide(isa: Vbmi2, words: &[u64], mut base: u64, out: &mut [u64]) -> usize {
    let mut written = 0;
    for words in words.chunks(BLOCK_WORDS) {
        written = block(isa, words, base, out, written);
        base = base.plus(64 * BLOCK_WORDS);
    }
    written
}

/// Writes the positions of a block from `out[written]` on; returns where they end.
#[inline(always)]
fn block<T: Output>(isa: Vbmi2, words: &[u64], base: T, out: &mut [T], mut written: usize) -> usize {
    let (groups, rest) = words.as_chunks::<GROUP>();
    for (i, group) in groups.iter().enumerate() {
        let first = (64 * GROUP * i) as u16;
        if let Some((lanes, count)) = isa.sparse(load(group), first) {
            if count != 0 {
                written = put(isa, lanes, count, base, out, written);
            }
            continue;
        }
        for (j, &word) in group.iter().enumerate() {
            let ([low, high], count) = (isa.dense(word, first + 64 * j as u16), word.count_ones() as usize);
            written = put(isa, low, count.min(LANES), base, out, written);
            if count > LANES {
                written = put(isa, high, count - LANES, base, out, written);
            }
        }
    }
    written + positions::positions(rest, base.plus(64 * GROUP * groups.len()), &mut out[written..])
}

/// Writes the first `count` lanes from `out[written]` on, and the others where there is room; returns where the
/// `count` end.
#[inline(always)]
pub(super) fn put<T: Output>(
    isa: Vbmi2,
    lanes: __m512i,
    count: usize,
    base: T,
    out: &mut [T],
    written: usize,
) -> usize {
    let out = &mut out[written..];
    match out.first_chunk_mut::<LANES>() {
        Some(room) => T::write(isa, lanes, count, base, room),
        None => {
            let mut room = [base; LANES];
            T::write(isa, lanes, count, base, &mut room);
            out[..count].copy_from_slice(&room[..count]);
        }
    }
    written + count
}

/// How positions in a block are written.
pub(super) trait Output: Position {
    /// Writes `base` and more of the first `count` lanes.
    fn write(isa: Vbmi2, lanes: __m512i, count: usize, base: Self, out: &mut [Self; LANES]);
}

impl Output for u16 {
    #[inline(always)]
    fn write(_isa: Vbmi2, lanes: __m512i, _count: usize, _base: u16, out: &mut [u16; LANES]) {
        *out = store(lanes);
    }
}

impl Output for u64 {
    #[inline(always)]
    fn write(isa: Vbmi2, lanes: __m512i, count: usize, base: u64, out: &mut [u64; LANES]) {
        let lanes: [u16; LANES] = store(lanes);
        let (eights, _) = lanes.as_chunks::<8>();
        // Two registers mostly suffice, and are written without asking.
        let needed = if count <= 16 { 2 } else { 4 };
        for (out, eight) in out.as_chunks_mut::<8>().0.iter_mut().zip(eights).take(needed) {
            *out = store(isa.widen(load(eight), base));
        }
    }
}

impl Vbmi2 {
    /// The positions, counted from `first`, of the bits of eight words that have at most four each, and how many
    /// there are.
    #[inline(always)]
    fn sparse(self, mut words: __m512i, first: u16) -> Option<(__m512i, usize)> {
        /// Where the words begin, in each of their four lanes.
        const WORDS: [u16; LANES] = {
            let mut starts = [0; LANES];
            let mut i = 0;
            while i < LANES {
                starts[i] = (64 * (i / 4)) as u16;
                i += 1;
            }
            starts
        };
        simd!({
            if _mm512_test_epi64_mask(words, words) == 0 {
                return Some((words, 0));
            }
            if _mm512_cmpgt_epu64_mask(_mm512_popcnt_epi64(words), _mm512_set1_epi64(4)) != 0 {
                return None;
            }
            let mut next = || {
                // The zeros below the lowest bit are its position, 64 where there is none.
                let less = _mm512_add_epi64(words, _mm512_set1_epi64(-1));
                let position = _mm512_popcnt_epi64(_mm512_andnot_si512(words, less));
                words = _mm512_and_si512(words, less);
                position
            };
            let [a, b, c, d] = [next(), next(), next(), next()];
            let ab = _mm512_or_si512(a, _mm512_slli_epi64::<16>(b));
            let cd = _mm512_or_si512(_mm512_slli_epi64::<32>(c), _mm512_slli_epi64::<48>(d));
            let places = _mm512_or_si512(ab, cd);
            let found = _mm512_cmplt_epu16_mask(places, _mm512_set1_epi16(64));
            let words = _mm512_add_epi16(load(&WORDS), _mm512_set1_epi16(first.cast_signed()));
            let lanes = _mm512_maskz_compress_epi16(found, _mm512_add_epi16(places, words));
            Some((lanes, found.count_ones() as usize))
        })
    }

    /// The positions of a word's bits, counted from `first`.
    #[inline(always)]
    fn dense(self, word: u64, first: u16) -> [__m512i; 2] {
        simd!({
            let places = _mm512_maskz_compress_epi8(word, load(&PLACES));
            let first = _mm512_set1_epi16(first.cast_signed());
            let [low, high] = [_mm512_castsi512_si256(places), _mm512_extracti64x4_epi64::<1>(places)];
            [low, high].map(|places| _mm512_add_epi16(_mm512_cvtepu8_epi16(places), first))
        })
    }

    /// Eight lanes of 16 bits as words, with `base` added.
    #[inline(always)]
    fn widen(self, lanes: __m128i, base: u64) -> __m512i {
        simd!(_mm512_add_epi64(_mm512_cvtepu16_epi64(lanes), _mm512_set1_epi64(base.cast_signed())))
    }
}

/// The places of a word's bits.
pub(super) const PLACES: [u8; 64] = {
    let mut places = [0; 64];
    let mut i = 0;
    while i < 64 {
        places[i] = i as u8;
        i += 1;
    }
    places
};
