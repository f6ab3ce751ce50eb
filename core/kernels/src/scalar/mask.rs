//! Mask words as sets of rows.

use crate::chunks::{CHUNK, low_bits};

/// Words that are counted side by side.
const LANES: usize = 8;

type Lanes = [u64; LANES];

/// Words that a [`Counter`] takes at a time.
const BLOCK: usize = 16 * LANES;

/// Counts set bits by carry-save adders: sixteen groups of words become one population count (the Harley-Seal
/// method; Mula, Kurz and Lemire, "Faster population counts using AVX2 instructions", 2018).
#[derive(Default)]
struct Counter {
    ones: Lanes,
    twos: Lanes,
    fours: Lanes,
    eights: Lanes,
    sixteens_count: Lanes,
}

impl Counter {
    #[inline(always)]
    fn add(&mut self, block: &[u64; BLOCK]) {
        let (groups, _) = block.as_chunks::<LANES>();
        let mut carries = [[0; LANES]; 2];
        let mut fours_carry = [0; LANES];
        let mut eights_carry = [0; LANES];
        for (i, four) in groups.as_chunks::<4>().0.iter().enumerate() {
            carries[0] = add(&mut self.ones, &four[0], &four[1]);
            carries[1] = add(&mut self.ones, &four[2], &four[3]);
            let carry = add(&mut self.twos, &carries[0], &carries[1]);
            if i % 2 == 0 {
                fours_carry = carry;
                continue;
            }
            let carry = add(&mut self.fours, &fours_carry, &carry);
            if i == 1 {
                eights_carry = carry;
            } else {
                let sixteens = add(&mut self.eights, &eights_carry, &carry);
                count(&mut self.sixteens_count, &sixteens);
            }
        }
    }

    #[inline(always)]
    fn total(&self) -> u64 {
        let total = |lanes: &Lanes| lanes.iter().map(|w| u64::from(w.count_ones())).sum::<u64>();
        16 * self.sixteens_count.iter().sum::<u64>()
            + 8 * total(&self.eights)
            + 4 * total(&self.fours)
            + 2 * total(&self.twos)
            + total(&self.ones)
    }
}

/// Set bits.
#[inline(always)]
pub(crate) fn count_ones(words: &[u64]) -> u64 {
    let (blocks, rest) = words.as_chunks::<BLOCK>();
    let mut counter = Counter::default();
    for block in blocks {
        counter.add(block);
    }
    counter.total() + rest.iter().map(|w| u64::from(w.count_ones())).sum::<u64>()
}

/// Set bits and runs of them. A run is counted where it starts: at a set bit behind one that is not.
#[inline(always)]
pub(crate) fn count_runs(words: &[u64]) -> (u64, u64) {
    let (blocks, rest) = words.as_chunks::<BLOCK>();
    let (mut ones, mut runs) = (Counter::default(), Counter::default());
    let mut before = 0;
    for block in blocks {
        let mut starts = [0; BLOCK];
        starts[0] = run_starts(before, block[0]);
        for i in 1..BLOCK {
            starts[i] = run_starts(block[i - 1], block[i]);
        }
        before = block[BLOCK - 1];
        ones.add(block);
        runs.add(&starts);
    }
    let (mut ones, mut runs) = (ones.total(), runs.total());
    for &word in rest {
        ones += u64::from(word.count_ones());
        runs += u64::from(run_starts(before, word).count_ones());
        before = word;
    }
    (ones, runs)
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
fn count(counts: &mut Lanes, words: &Lanes) {
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
