//! Runs: their codes are read a byte at a time by a table of what each byte adds to the mask of ends, where the bits
//! before it left off.

use std::ops::Range;

use super::{Portable, bits::word_at};
use crate::{
    forms::{mask::BLOCK_WORDS, runs::MAX_K},
    lanes::Lane,
};

/// Bytes that a code goes on with: at a quotient, or at its low bits, some of which are read.
const STATES: usize = 1 << MAX_K;

/// What a byte adds: the bits in the lower half, how many from bit 32 on, and from bit 40 on 256 times the state that it
/// leads to.
type Table = [u64; 256 * STATES];

/// The tables by `k`.
static TABLES: [Table; MAX_K as usize + 1] = [table(0), table(1), table(2)];

/// A state above 0 is the low bits that were read, under a one.
const fn table(k: u32) -> Table {
    let mut table = [0; 256 * STATES];
    let mut at = 0;
    while at < 256 << k {
        let (mut state, mut read) = (at as u32 / 256, 0);
        let (mut bits, mut count) = (0_u64, 0);
        while read < 8 {
            let bit = at as u32 >> read & 1;
            read += 1;
            if state == 0 && bit == 0 {
                count += 1 << k;
                continue;
            }
            if state == 0 {
                state = 1;
            } else {
                let below = state.ilog2();
                state = (state ^ 1 << below) | bit << below | 2 << below;
            }
            if state >> k == 1 {
                count += state ^ 1 << k;
                bits |= 1 << count;
                count += 1;
                state = 0;
            }
        }
        table[at] = bits | (count as u64) << 32 | (state as u64) << 48;
        at += 1;
    }
    table
}

#[inline(always)]
pub(crate) fn ends(codes: &[u8], bits: Range<usize>, k: u32, row: usize, out: &mut [u64]) {
    let table = &TABLES[k as usize];
    let out = u32::lanes_mut(out);
    let (mut at, mut filled) = (row / 32, row % 32);
    let mut word = if filled > 0 { u64::from(out[at]) & ((1 << filled) - 1) } else { 0 };
    let mut state = 0;
    for bit in bits.clone().step_by(8) {
        let window = word_at(codes, bit / 8) >> (bit % 8);
        // Zeros behind the last code add zeros.
        let byte = window & 0xff & !(u64::MAX << (bits.end - bit).min(8));
        let added = table[(state | byte as usize) % table.len()];
        state = (added >> 40) as usize;
        word |= (added & u64::from(u32::MAX)) << filled;
        filled += (added >> 32 & 0xff) as usize;
        // A word that is full is written once more, as far as it is known, rather than ask whether it is.
        if let Some(out) = out.get_mut(at) {
            *out = word as u32;
        } else {
            assert!(word == 0, "a run ends behind the mask");
        }
        let full = filled & 32;
        at += full / 32;
        word >>= full;
        filled -= full;
    }
    if let Some(out) = out.get_mut(at) {
        *out = word as u32;
    }
    // The other half of the last word.
    if at % 2 == 0 && at + 1 < out.len() {
        out[at + 1] = 0;
    }
}

/// Moves bits to places.
pub(crate) trait Deposit: Copy {
    /// The lowest bits at the places of a word's ones, in order.
    fn deposit(self, bits: u64, ones: u64) -> u64;
}

impl<A: Portable> Deposit for A {
    #[inline(always)]
    fn deposit(self, mut bits: u64, mut ones: u64) -> u64 {
        let mut out = 0;
        while ones != 0 {
            let lowest = ones & ones.wrapping_neg();
            out |= lowest & 0_u64.wrapping_sub(bits & 1);
            bits >>= 1;
            ones ^= lowest;
        }
        out
    }
}

#[inline(always)]
pub(crate) fn spread(arch: impl Deposit, ends: &[u64], runs: &[u64], first: usize, out: &mut [u64]) {
    let mut run = first;
    for (out, ends) in out.iter_mut().zip(ends) {
        let (this, next) = (bits_at(runs, run), bits_at(runs, run + 1));
        // Behind a run's end it changes whether rows are selected where the next run differs.
        let changes = before(arch.deposit(this ^ next, *ends)) << 1;
        *out = changes ^ 0_u64.wrapping_sub(this & 1);
        run += ends.count_ones() as usize;
    }
}

/// The bits from one on; those that are missing are 0.
#[inline(always)]
fn bits_at(words: &[u64], bit: usize) -> u64 {
    let word = |i: usize| words.get(i).copied().unwrap_or(0);
    // In two steps, because a shift by all bits of a word is none.
    word(bit / 64) >> (bit % 64) | (word(bit / 64 + 1) << 1) << (63 - bit % 64)
}

/// Whether an odd number of ones is at each bit or below it.
#[inline(always)]
fn before(mut word: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        word ^= word << shift;
    }
    word
}

#[inline(always)]
pub(crate) fn numbers(ends: &[u64], rows: &[u16], out: &mut [u16]) {
    // The runs that end before each word.
    let mut counts = [0_u16; BLOCK_WORDS];
    let mut count = 0_u16;
    for (out, ends) in counts.iter_mut().zip(ends) {
        *out = count;
        count = count.wrapping_add(ends.count_ones() as u16);
    }
    for (out, row) in out.iter_mut().zip(rows) {
        let word = usize::from(row / 64);
        let below = ends[word] & ((1 << (row % 64)) - 1);
        *out = counts[word].wrapping_add(below.count_ones() as u16);
    }
}
