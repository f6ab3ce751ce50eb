//! Aggregates of the rows that pass a test: the mask is never written.

use crate::{
    Float, FloatSum, Integer, Native,
    chunks::{Bits, CHUNK, low_bits, pad},
    lanes::{FloatLanes, IntegerLanes, Lanes},
    scalar::{
        compare,
        min_max::{self, Extremes},
        sum::{self, BLOCK},
    },
    test::Test,
};

/// Chunks of which a mask selects at most so many rows are walked row by row.
const FEW: u32 = 6;

/// Evaluates a block with every chunk of `values` and the word of its rows that a mask selects and a range holds, or
/// does not hold where `FLIP`.
///
/// A macro, because a closure would not be compiled for the instructions of the function around it.
macro_rules! for_filtered {
    ($arch:expr, ($lo:expr, $hi:expr), $by:expr, $mask:expr, $values:expr, |$chunk:ident, $word:ident| $block:block) => {
        let range = $arch.range($lo, $hi);
        let flip = if FLIP { u64::MAX } else { 0 };
        let selected = |i| $mask.map_or(u64::MAX, |mask: &[u64]| mask[i]);
        let ((by, by_tail), (values, tail)) = ($by.as_chunks::<CHUNK>(), $values.as_chunks::<CHUNK>());
        for (i, (by, $chunk)) in by.iter().zip(values).enumerate() {
            let $word = (compare::in_range($arch, by, range) ^ flip) & selected(i);
            $block
        }
        if !tail.is_empty() {
            let $chunk = &pad(tail, Default::default()).0;
            let rows = selected(values.len()) & low_bits(tail.len());
            let $word = (compare::in_range($arch, &pad(by_tail, $lo), range) ^ flip) & rows;
            $block
        }
    };
}

/// Evaluates a block with every chunk of `values`, the number of every group of `$rows` rows in it, and the bits of
/// those that pass, which stay where a comparison leaves them: there is no word for a chunk. Chunks of which the mask
/// selects few rows go to a block of their own, with their word.
macro_rules! for_registers {
    (
        $arch:ident: $arch_type:ident, ($lo:expr, $hi:expr), $by:expr, $mask:expr, $values:expr, $rows:expr,
        |$few_by:ident, $few:ident, $word:ident, $range:ident| $few_block:block,
        |$chunk:ident, $i:ident, $bits:ident| $block:block
    ) => {
        let range = $arch.range($lo, $hi);
        let ((by, by_tail), (chunks, tail)) = ($by.as_chunks::<CHUNK>(), $values.as_chunks::<CHUNK>());
        match $mask {
            None => {
                for (by, $chunk) in by.iter().zip(chunks) {
                    for $i in 0..CHUNK / $rows {
                        let $bits = passing::<_, $arch_type, FLIP>($arch, by, range, $i, $rows);
                        $block
                    }
                }
            }
            Some(mask) => {
                for ((by, $chunk), word) in by.iter().zip(chunks).zip(mask) {
                    if word.count_ones() <= FEW {
                        let ($few_by, $few, $word, $range) = (by, $chunk, *word, range);
                        if $word != 0 $few_block
                        continue;
                    }
                    for $i in 0..CHUNK / $rows {
                        let bits = passing::<_, $arch_type, FLIP>($arch, by, range, $i, $rows);
                        let $bits = bits & (word >> ($i * $rows));
                        $block
                    }
                }
            }
        }
        if !tail.is_empty() {
            let (by, $chunk) = (&pad(by_tail, $lo), &pad(tail, Default::default()).0);
            let word = $mask.map_or(u64::MAX, |mask| mask[chunks.len()]) & low_bits(tail.len());
            for $i in 0..CHUNK / $rows {
                let bits = passing::<_, $arch_type, FLIP>($arch, by, range, $i, $rows);
                let $bits = bits & (word >> ($i * $rows));
                $block
            }
        }
    };
}

/// The bits of those of a chunk's `i`-th so many rows that a range holds, or does not hold where `FLIP`; above them
/// may be others.
#[inline(always)]
fn passing<T: Native, A: Lanes<T>, const FLIP: bool>(
    arch: A,
    chunk: &[T; CHUNK],
    range: A::Range,
    i: usize,
    rows: usize,
) -> u64 {
    let (registers, mut bits) = (rows / A::COUNT, 0);
    for register in 0..registers {
        let vector = arch.load(chunk, i * registers + register);
        bits |= arch.in_range(vector, range) << (register * A::COUNT);
    }
    if FLIP { !bits } else { bits }
}

#[inline(always)]
pub(crate) fn sum<T: Integer, A: IntegerLanes<T>>(
    arch: A,
    test: Test<T>,
    by: &[T],
    mask: Option<&[u64]>,
    values: &[T],
) -> i128 {
    match (test, mask) {
        (Test::None, _) => 0,
        (Test::All, None) => sum::sum(arch, values),
        (Test::All, Some(mask)) => sum::sum_masked(arch, values, mask),
        (Test::In(lo, hi), _) => sum_range::<T, A, false>(arch, (lo, hi), by, mask, values),
        (Test::NotIn(lo, hi), _) => sum_range::<T, A, true>(arch, (lo, hi), by, mask, values),
    }
}

#[inline(always)]
fn sum_range<T: Integer, A: IntegerLanes<T>, const FLIP: bool>(
    arch: A,
    (lo, hi): (T, T),
    by: &[T],
    mask: Option<&[u64]>,
    values: &[T],
) -> i128 {
    let mut total = 0;
    for (i, (by, values)) in by.chunks(BLOCK).zip(values.chunks(BLOCK)).enumerate() {
        let mask = mask.map(|mask| &mask[i * (BLOCK / CHUNK)..]);
        let mut sum = arch.zero();
        for_registers!(
            arch: A, (lo, hi), by, mask, values, A::COUNT,
            |by, values, word, _range| {
                let row = |i: usize| if (lo <= by[i] && by[i] <= hi) != FLIP { values[i].to_i128() } else { 0 };
                total += Bits(word).map(row).sum::<i128>();
            },
            |chunk, i, bits| { sum = arch.add_selected(sum, arch.load(chunk, i), bits, 0); }
        );
        total += arch.total(sum);
    }
    total
}

#[inline(always)]
pub(crate) fn sum_floats<T: Float, A: FloatLanes<T>>(
    arch: A,
    test: Test<T>,
    by: &[T],
    mask: Option<&[u64]>,
    values: &[T],
    acc: &mut FloatSum,
) {
    match (test, mask) {
        (Test::None, _) => {}
        (Test::All, None) => sum::sum_floats(arch, values, acc),
        (Test::All, Some(mask)) => sum::sum_floats_masked(arch, values, mask, acc),
        (Test::In(lo, hi), _) => sum_floats_range::<T, A, false>(arch, (lo, hi), by, mask, values, acc),
        (Test::NotIn(lo, hi), _) => sum_floats_range::<T, A, true>(arch, (lo, hi), by, mask, values, acc),
    }
}

#[inline(always)]
fn sum_floats_range<T: Float, A: FloatLanes<T>, const FLIP: bool>(
    arch: A,
    (lo, hi): (T, T),
    by: &[T],
    mask: Option<&[u64]>,
    values: &[T],
    acc: &mut FloatSum,
) {
    let mut sum = arch.eight(acc.lanes);
    let mut lanes = arch.eight([0.0; 8]);
    for_registers!(
        arch: A, (lo, hi), by, mask, values, A::COUNT.max(8),
        |by, values, word, range| {
            // The groups of a register's rows alone that have any.
            let (rows, mut few, mut rest) = (A::COUNT.max(8), arch.eight([0.0; 8]), word);
            while rest != 0 {
                let i = rest.trailing_zeros() as usize / rows;
                let bits = passing::<_, A, FLIP>(arch, by, range, i, rows) & (word >> (i * rows));
                for eight in 0..rows / 8 {
                    let floats = arch.load_eight(values, i * (rows / 8) + eight);
                    few = arch.add_selected(few, floats, bits, eight);
                }
                rest &= !(low_bits(rows) << (i * rows));
            }
            sum = arch.add_eight(sum, few);
        },
        |chunk, i, bits| {
            let eights = A::COUNT.max(8) / 8;
            for eight in 0..eights {
                lanes = arch.add_selected(lanes, arch.load_eight(chunk, i * eights + eight), bits, eight);
            }
            if (i + 1) * eights == CHUNK / 8 {
                sum = arch.add_eight(sum, lanes);
                lanes = arch.eight([0.0; 8]);
            }
        }
    );
    acc.lanes = arch.lanes(sum);
}

#[inline(always)]
pub(crate) fn count<T: Native, A: Lanes<T>>(
    arch: A,
    test: Test<T>,
    values: &[T],
    mask: Option<&[u64]>,
) -> u64 {
    match test {
        Test::None => 0,
        Test::All => mask.map_or(values.len() as u64, |mask| {
            let whole = values.len() / CHUNK;
            let last = mask.get(whole).map_or(0, |word| word & low_bits(values.len() % CHUNK));
            crate::scalar::mask::count_ones(&mask[..whole]) + u64::from(last.count_ones())
        }),
        Test::In(lo, hi) => count_range::<T, A, false>(arch, (lo, hi), values, mask),
        Test::NotIn(lo, hi) => count_range::<T, A, true>(arch, (lo, hi), values, mask),
    }
}

#[inline(always)]
fn count_range<T: Native, A: Lanes<T>, const FLIP: bool>(
    arch: A,
    (lo, hi): (T, T),
    values: &[T],
    mask: Option<&[u64]>,
) -> u64 {
    let mut count = 0;
    for_filtered!(arch, (lo, hi), values, mask, values, |_chunk, word| {
        count += u64::from(word.count_ones())
    });
    count
}

#[inline(always)]
pub(crate) fn min_max<T: Native, A: Lanes<T>>(
    arch: A,
    test: Test<T>,
    by: &[T],
    mask: Option<&[u64]>,
    values: &[T],
) -> Option<(T, T)> {
    match (test, mask) {
        (Test::None, _) => None,
        (Test::All, None) => min_max::min_max(arch, values),
        (Test::All, Some(mask)) => min_max::min_max_masked(arch, values, mask),
        (Test::In(lo, hi), _) => min_max_range::<T, A, false>(arch, (lo, hi), by, mask, values),
        (Test::NotIn(lo, hi), _) => min_max_range::<T, A, true>(arch, (lo, hi), by, mask, values),
    }
}

#[inline(always)]
fn min_max_range<T: Native, A: Lanes<T>, const FLIP: bool>(
    arch: A,
    (lo, hi): (T, T),
    by: &[T],
    mask: Option<&[u64]>,
    values: &[T],
) -> Option<(T, T)> {
    let mut extremes: Option<Extremes<T, A>> = None;
    for_filtered!(arch, (lo, hi), by, mask, values, |chunk, word| {
        if word != 0 {
            let first = || Extremes::new(arch, chunk[word.trailing_zeros() as usize % CHUNK]);
            extremes.get_or_insert_with(first).add_selected_chunk(chunk, word);
        }
    });
    extremes.map(Extremes::finish)
}
