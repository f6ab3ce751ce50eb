//! Comparisons to mask words, and counts by comparison.

use crate::{
    Native,
    chunks::{CHUNK, for_masked, low_bits, pad},
    lanes::Lanes,
    scalar::mask,
    test::Test,
};

#[inline(always)]
pub(crate) fn test<T: Native, A: Lanes<T>>(arch: A, test: Test<T>, values: &[T], out: &mut [u64]) {
    let (lo, hi, flip) = match test {
        Test::None => return out.fill(0),
        Test::All => return mask::fill(values.len(), out),
        Test::In(lo, hi) => (lo, hi, 0),
        Test::NotIn(lo, hi) => (lo, hi, u64::MAX),
    };
    let range = arch.range(lo, hi);
    let (chunks, tail) = values.as_chunks::<CHUNK>();
    for (word, chunk) in out.iter_mut().zip(chunks) {
        *word = in_range(arch, chunk, range) ^ flip;
    }
    if let ([_, ..], Some(word)) = (tail, out.get_mut(chunks.len())) {
        *word = (in_range(arch, &pad(tail, lo), range) ^ flip) & low_bits(tail.len());
    }
}

/// The mask word of the rows that are in a range.
#[inline(always)]
fn in_range<T: Native, A: Lanes<T>>(arch: A, chunk: &[T; CHUNK], range: A::Range) -> u64 {
    let mut word = 0;
    for i in 0..CHUNK / A::COUNT {
        word |= arch.in_range(arch.load(chunk, i), range) << (i * A::COUNT);
    }
    word
}

#[inline(always)]
pub(crate) fn count_nonzero<T: Native>(arch: impl Lanes<T>, values: &[T]) -> u64 {
    let zero = arch.range(T::default(), T::default());
    let (chunks, tail) = values.as_chunks::<CHUNK>();
    let mut zeros = 0;
    for chunk in chunks {
        zeros += u64::from(in_range(arch, chunk, zero).count_ones());
    }
    let tail_zeros = in_range(arch, &pad(tail, T::default()), zero) & low_bits(tail.len());
    values.len() as u64 - zeros - u64::from(tail_zeros.count_ones())
}

#[inline(always)]
pub(crate) fn count_nonzero_masked<T: Native>(arch: impl Lanes<T>, values: &[T], mask: &[u64]) -> u64 {
    let zero = arch.range(T::default(), T::default());
    let mut count = 0;
    for_masked!(values, mask, T::default(), |chunk, word| {
        if word != 0 {
            count += u64::from((word & !in_range(arch, chunk, zero)).count_ones());
        }
    });
    count
}
