//! Increasing arrays of 16-bit numbers.

use crate::{forms::mask::BLOCK_WORDS, scalar::positions};

/// An array so many times longer than the other is searched.
const SEARCHED: usize = 32;

/// Arrays of so many numbers together are worth clearing a block of mask words.
const BLOCK: usize = 64;

/// The numbers in both arrays, of which the second is not the longer.
#[inline(always)]
pub(crate) fn intersect(long: &[[u8; 2]], short: &[[u8; 2]], out: &mut [u16]) -> usize {
    if long.len() / SEARCHED >= short.len() {
        return search(long, short, out);
    }
    if long.len() + short.len() >= BLOCK {
        return probe(long, short, out);
    }
    merge(long, short, out)
}

#[inline(always)]
fn number(bytes: [u8; 2]) -> u16 {
    u16::from_le_bytes(bytes)
}

/// Finds each number of the short array in the rest of the long one, by steps that double and then halve.
#[inline(always)]
pub(crate) fn search(mut long: &[[u8; 2]], short: &[[u8; 2]], out: &mut [u16]) -> usize {
    let mut written = 0;
    for &wanted in short {
        let wanted = number(wanted);
        let mut step = 1;
        while long.get(step).is_some_and(|&bytes| number(bytes) < wanted) {
            step *= 2;
        }
        // Less than `wanted` is what is at half the step, if there was one.
        let (from, to) = (step / 2, long.len().min(step + 1));
        let at = from + long[from..to].partition_point(|&bytes| number(bytes) < wanted);
        long = &long[at..];
        let Some(&found) = long.first() else { break };
        if number(found) == wanted {
            out[written] = wanted;
            written += 1;
        }
    }
    written
}

/// Sets the bits of one array and looks at those of the other.
#[inline(always)]
fn probe(long: &[[u8; 2]], short: &[[u8; 2]], out: &mut [u16]) -> usize {
    let mut block = [0; BLOCK_WORDS];
    positions::set(long, &mut block);
    let mut written = 0;
    for &bytes in short {
        let wanted = number(bytes);
        // What is not in both is overwritten.
        out[written] = wanted;
        written += (block[usize::from(wanted / 64)] >> (wanted % 64) & 1) as usize;
    }
    written
}

#[inline(always)]
fn merge(long: &[[u8; 2]], short: &[[u8; 2]], out: &mut [u16]) -> usize {
    let (mut i, mut j, mut written) = (0, 0, 0);
    while let (Some(&left), Some(&right)) = (long.get(i), short.get(j)) {
        let (left, right) = (number(left), number(right));
        // What is not in both is overwritten.
        out[written] = left;
        written += usize::from(left == right);
        i += usize::from(left <= right);
        j += usize::from(right <= left);
    }
    written
}
