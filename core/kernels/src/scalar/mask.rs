//! Mask words as sets of rows.

use crate::chunks::{CHUNK, low_bits};

/// Words that are counted side by side.
const LANES: usize = 8;

type Lanes = [u64; LANES];

/// Words that become one population count.
const BLOCK: usize = 16 * LANES;

/// Set bits.
#[inline(always)]
pub(crate) fn count_ones(words: &[u64]) -> u64 {
    count::<false>(words)
}

/// Set bits and runs of them. A run is counted where it starts: at a set bit behind one that is not.
#[inline(always)]
pub(crate) fn count_runs(words: &[u64]) -> (u64, u64) {
    (count::<false>(words), count::<true>(words))
}

/// Set bits, or those that start a run, by carry-save adders: sixteen groups of words become one population count
/// (the Harley-Seal method; Mula, Kurz and Lemire, "Faster population counts using AVX2 instructions", 2018).
#[inline(always)]
fn count<const STARTS: bool>(words: &[u64]) -> u64 {
    let (blocks, rest) = words.as_chunks::<BLOCK>();
    let (mut ones, mut twos, mut fours, mut eights) = ([0; LANES], [0; LANES], [0; LANES], [0; LANES]);
    let mut sixteens_count = [0; LANES];
    let mut before = 0;
    let mut starts = [0; BLOCK];
    for block in blocks {
        let mut counted = block;
        if STARTS {
            starts[0] = run_starts(before, block[0]);
            for i in 1..BLOCK {
                starts[i] = run_starts(block[i - 1], block[i]);
            }
            before = block[BLOCK - 1];
            counted = &starts;
        }
        let (groups, _) = counted.as_chunks::<LANES>();
        let mut carries = [[0; LANES]; 2];
        let mut fours_carry = [0; LANES];
        let mut eights_carry = [0; LANES];
        for (i, four) in groups.as_chunks::<4>().0.iter().enumerate() {
            carries[0] = add(&mut ones, &four[0], &four[1]);
            carries[1] = add(&mut ones, &four[2], &four[3]);
            let carry = add(&mut twos, &carries[0], &carries[1]);
            if i % 2 == 0 {
                fours_carry = carry;
                continue;
            }
            let carry = add(&mut fours, &fours_carry, &carry);
            if i == 1 {
                eights_carry = carry;
            } else {
                let sixteens = add(&mut eights, &eights_carry, &carry);
                add_counts(&mut sixteens_count, &sixteens);
            }
        }
    }
    let total = |lanes: &Lanes| lanes.iter().map(|w| u64::from(w.count_ones())).sum::<u64>();
    let mut rest_count = 0;
    for &word in rest {
        rest_count += u64::from(if STARTS { run_starts(before, word) } else { word }.count_ones());
        before = word;
    }
    16 * sixteens_count.iter().sum::<u64>()
        + 8 * total(&eights)
        + 4 * total(&fours)
        + 2 * total(&twos)
        + total(&ones)
        + rest_count
}

/// The first bits of the runs that start in a word.
#[inline(always)]
pub(crate) fn run_starts(before: u64, word: u64) -> u64 {
    word & !(word << 1 | before >> 63)
}

/// Adds `a` and `b` to `sum`, bit by bit, and returns the carries.
#[inline(always)]
fn add(sum: &mut Lanes, a: &Lanes, b: &Lanes) -> Lanes {
    let mut carry = [0; LANES];
    for i in 0..LANES {
        let half = sum[i] ^ a[i];
        carry[i] = (sum[i] & a[i]) | (half & b[i]);
        sum[i] = half ^ b[i];
    }
    carry
}

#[inline(always)]
fn add_counts(counts: &mut Lanes, words: &Lanes) {
    for (count, word) in counts.iter_mut().zip(words) {
        *count += u64::from(word.count_ones());
    }
}

#[inline(always)]
pub(crate) fn and(left: &mut [u64], right: &[u64]) {
    left.iter_mut().zip(right).for_each(|(l, r)| *l &= r);
}

#[inline(always)]
pub(crate) fn or(left: &mut [u64], right: &[u64]) {
    left.iter_mut().zip(right).for_each(|(l, r)| *l |= r);
}

#[inline(always)]
pub(crate) fn and_not(left: &mut [u64], right: &[u64]) {
    left.iter_mut().zip(right).for_each(|(l, r)| *l &= !r);
}

#[inline(always)]
pub(crate) fn not(words: &mut [u64], rows: usize) {
    words.iter_mut().for_each(|w| *w = !*w);
    cut(words, rows);
}

#[inline(always)]
pub(crate) fn fill(rows: usize, out: &mut [u64]) {
    out.fill(u64::MAX);
    cut(out, rows);
}

/// The first row selected.
#[inline(always)]
pub(crate) fn first(mask: &[u64]) -> Option<usize> {
    let i = mask.iter().position(|&word| word != 0)?;
    Some(i * CHUNK + mask[i].trailing_zeros() as usize)
}

/// Clears the bits of the last word that are behind the last row.
#[inline(always)]
pub(crate) fn cut(words: &mut [u64], rows: usize) {
    if let (Some(last), 1..) = (words.last_mut(), rows % CHUNK) {
        *last &= low_bits(rows % CHUNK);
    }
}
