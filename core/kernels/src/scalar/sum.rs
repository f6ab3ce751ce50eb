//! Sums: exact for integers, in one order for floats.

use crate::{
    Float, FloatSum, Integer,
    chunks::{Bits, CHUNK, Density, for_masked, pad},
    lanes::{FloatLanes, IntegerLanes},
};

/// Rows that are added up before the lanes are emptied: no lane can overflow.
pub(crate) const BLOCK: usize = 1 << 26;

#[inline(always)]
pub(crate) fn sum<T: Integer>(arch: impl IntegerLanes<T>, values: &[T]) -> i128 {
    let mut total = 0;
    for block in values.chunks(BLOCK) {
        let (chunks, tail) = block.as_chunks::<CHUNK>();
        let mut sum = arch.zero();
        for chunk in chunks {
            sum = add(arch, sum, chunk);
        }
        sum = add(arch, sum, &pad(tail, T::default()));
        total += arch.total(sum);
    }
    total
}

#[inline(always)]
fn add<T: Integer, A: IntegerLanes<T>>(arch: A, mut sum: A::Sum, chunk: &[T; CHUNK]) -> A::Sum {
    for i in 0..CHUNK / A::COUNT {
        sum = arch.add(sum, arch.load(chunk, i));
    }
    sum
}

#[inline(always)]
pub(crate) fn sum_masked<T: Integer, A: IntegerLanes<T>>(arch: A, values: &[T], mask: &[u64]) -> i128 {
    let mut total = 0;
    for (block, mask) in values.chunks(BLOCK).zip(mask.chunks(BLOCK / CHUNK)) {
        let mut sum = arch.zero();
        for_masked!(block, mask, T::default(), |chunk, word| {
            match Density::of(word, A::SPARSE) {
                Density::Empty => {}
                Density::Sparse => total += Bits(word).map(|i| chunk[i].to_i128()).sum::<i128>(),
                Density::Mixed => {
                    for i in 0..CHUNK / A::COUNT {
                        sum = arch.add_selected(sum, arch.load(chunk, i), word, i);
                    }
                }
                Density::Full => sum = add(arch, sum, chunk),
            }
        });
        total += arch.total(sum);
    }
    total
}

/// Groups of eight in a chunk.
const EIGHTS: usize = CHUNK / 8;

/// The groups of eight that have rows are looked for in mask words of at most so many bits.
const SPARSE: u32 = 5;

#[inline(always)]
pub(crate) fn sum_floats<T: Float>(arch: impl FloatLanes<T>, values: &[T], acc: &mut FloatSum) {
    let mut sum = arch.eight(acc.lanes);
    let (chunks, tail) = values.as_chunks::<CHUNK>();
    for chunk in chunks {
        sum = arch.add_eight(sum, add_floats(arch, chunk));
    }
    if !tail.is_empty() {
        sum = arch.add_eight(sum, add_floats(arch, &pad(tail, T::default())));
    }
    acc.lanes = arch.lanes(sum);
}

/// The lanes of one chunk.
#[inline(always)]
fn add_floats<T: Float, A: FloatLanes<T>>(arch: A, chunk: &[T; CHUNK]) -> A::Eight {
    let mut lanes = arch.eight([0.0; 8]);
    for i in 0..EIGHTS {
        lanes = arch.add_eight(lanes, arch.load_eight(chunk, i));
    }
    lanes
}

/// The lanes of the rows of a chunk that its mask word selects.
#[inline(always)]
pub(crate) fn add_selected<T: Float, A: FloatLanes<T>>(arch: A, chunk: &[T; CHUNK], word: u64) -> A::Eight {
    let mut lanes = arch.eight([0.0; 8]);
    for i in 0..EIGHTS {
        lanes = arch.add_selected(lanes, arch.load_eight(chunk, i), word, i);
    }
    lanes
}

/// The same where they are few: groups of eight without any are passed by.
#[inline(always)]
pub(crate) fn add_few<T: Float, A: FloatLanes<T>>(arch: A, chunk: &[T; CHUNK], word: u64) -> A::Eight {
    let (mut lanes, mut rest) = (arch.eight([0.0; 8]), word);
    while rest != 0 {
        let i = rest.trailing_zeros() as usize / 8;
        lanes = arch.add_selected(lanes, arch.load_eight(chunk, i), word, i);
        rest &= !(0xff << (8 * i));
    }
    lanes
}

#[inline(always)]
pub(crate) fn sum_floats_masked<T: Float>(
    arch: impl FloatLanes<T>,
    values: &[T],
    mask: &[u64],
    acc: &mut FloatSum,
) {
    let mut sum = arch.eight(acc.lanes);
    for_masked!(values, mask, T::default(), |chunk, word| {
        match Density::of(word, SPARSE) {
            Density::Empty => {}
            Density::Sparse => {
                sum = arch.add_eight(sum, add_few(arch, chunk, word));
            }
            Density::Mixed => sum = arch.add_eight(sum, add_selected(arch, chunk, word)),
            Density::Full => sum = arch.add_eight(sum, add_floats(arch, chunk)),
        }
    });
    acc.lanes = arch.lanes(sum);
}
