//! Increasing arrays of 16-bit numbers: a register of the one is compared with eight numbers of the other, in all
//! eight rotations (Schlegel, Willhalm and Lehner, "Fast sorted-set intersection using SIMD instructions", 2011).

use std::arch::x86_64::*;

use super::{
    Vbmi2,
    positions::{LANES, put},
};
use crate::{
    registers::{load, simd},
    scalar::sorted16::search,
};

/// An array so many times longer than the other is searched.
const SEARCHED: usize = 128;

/// Numbers that a register is compared with.
const EIGHT: usize = 8;

/// The numbers in both arrays, of which the second is not the longer.
#[inline(always)]
pub(super) fn intersect(isa: Vbmi2, long: &[[u8; 2]], short: &[[u8; 2]], out: &mut [u16]) -> usize {
    if long.len() / SEARCHED >= short.len() {
        return search(long, short, out);
    }
    let (long, short) = (Blocks::<LANES>::new(long), Blocks::<EIGHT>::new(short));
    let (mut at, mut written) = (0, 0);
    for i in 0..long.count() {
        let block = long.get(i);
        let lanes = load(block.as_flattened().first_chunk::<64>().unwrap_or(&[0; 64]));
        let mut both = 0;
        // As many eights as begin in the block.
        while at < short.count() {
            let eight = short.get(at);
            both |= isa.equal(lanes, load(eight.as_flattened().first_chunk::<16>().unwrap_or(&[0; 16])));
            if greatest(eight) > greatest(block) {
                break;
            }
            at += 1;
        }
        both &= long.valid(i);
        let count = (both.count_ones() as usize).min(out.len() - written);
        written = put(isa, isa.compress(lanes, both), count, 0, out, written);
    }
    written
}

/// An array in blocks, the last of which is filled with its last number.
struct Blocks<'a, const N: usize> {
    full: &'a [[[u8; 2]; N]],
    rest: usize,
    last: [[u8; 2]; N],
}

impl<'a, const N: usize> Blocks<'a, N> {
    #[inline(always)]
    fn new(numbers: &'a [[u8; 2]]) -> Self {
        let (full, rest) = numbers.as_chunks();
        let mut last = [rest.last().copied().unwrap_or_default(); N];
        last[..rest.len()].copy_from_slice(rest);
        Self { full, rest: rest.len(), last }
    }

    #[inline(always)]
    fn count(&self) -> usize {
        self.full.len() + usize::from(self.rest != 0)
    }

    #[inline(always)]
    fn get(&self, i: usize) -> &[[u8; 2]; N] {
        self.full.get(i).unwrap_or(&self.last)
    }

    /// Which lanes of a block are numbers of the array.
    #[inline(always)]
    fn valid(&self, i: usize) -> u32 {
        if i < self.full.len() { u32::MAX } else { (1 << self.rest) - 1 }
    }
}

#[inline(always)]
fn greatest<const N: usize>(block: &[[u8; 2]; N]) -> u16 {
    u16::from_le_bytes(block[N - 1])
}

impl Vbmi2 {
    /// Which lanes are one of eight numbers.
    #[inline(always)]
    fn equal(self, lanes: __m512i, eight: __m128i) -> u32 {
        simd!({
            let even = _mm512_broadcast_i32x4(eight);
            let odd = _mm512_alignr_epi8::<2>(even, even);
            let both = |numbers| {
                _mm512_cmpeq_epi16_mask(lanes, numbers)
                    | _mm512_cmpeq_epi16_mask(lanes, _mm512_shuffle_epi32::<0b00_11_10_01>(numbers))
                    | _mm512_cmpeq_epi16_mask(lanes, _mm512_shuffle_epi32::<0b01_00_11_10>(numbers))
                    | _mm512_cmpeq_epi16_mask(lanes, _mm512_shuffle_epi32::<0b10_01_00_11>(numbers))
            };
            both(even) | both(odd)
        })
    }

    #[inline(always)]
    fn compress(self, lanes: __m512i, chosen: u32) -> __m512i {
        simd!(_mm512_maskz_compress_epi16(chosen, lanes))
    }
}
