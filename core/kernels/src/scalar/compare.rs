//! Comparisons to mask words, and counts by comparison.

use crate::{
    CmpOp, Native,
    chunks::{CHUNK, Chunks, for_masked, low_bits, pad},
    scalar::mask,
    test::Test,
};

#[inline(always)]
pub(crate) fn compare<T: Native>(
    arch: impl Chunks<T>,
    op: CmpOp,
    values: &[T],
    constant: T,
    out: &mut [u64],
) {
    write(arch, T::test(op, constant), values, out);
}

#[inline(always)]
pub(crate) fn between<T: Native>(arch: impl Chunks<T>, values: &[T], lo: T, hi: T, out: &mut [u64]) {
    write(arch, T::test_between(lo, hi), values, out);
}

#[inline(always)]
pub(crate) fn is_nan<T: Native>(arch: impl Chunks<T>, values: &[T], out: &mut [u64]) {
    write(arch, Test::NotIn(T::LEAST, T::GREATEST), values, out);
}

#[inline(always)]
fn write<T: Native>(arch: impl Chunks<T>, test: Test<T>, values: &[T], out: &mut [u64]) {
    let (lo, hi, flip) = match test {
        Test::None => return out.fill(0),
        Test::All => return mask::fill(values.len(), out),
        Test::In(lo, hi) => (lo, hi, 0),
        Test::NotIn(lo, hi) => (lo, hi, u64::MAX),
    };
    let (chunks, tail) = values.as_chunks::<CHUNK>();
    for (word, chunk) in out.iter_mut().zip(chunks) {
        *word = arch.in_range(chunk, lo, hi) ^ flip;
    }
    if let ([_, ..], Some(word)) = (tail, out.get_mut(chunks.len())) {
        *word = (arch.in_range(&pad(tail, lo), lo, hi) ^ flip) & low_bits(tail.len());
    }
}

#[inline(always)]
pub(crate) fn count_nonzero<T: Native>(arch: impl Chunks<T>, values: &[T]) -> u64 {
    let zero = T::default();
    let (chunks, tail) = values.as_chunks::<CHUNK>();
    let mut zeros = 0;
    for chunk in chunks {
        zeros += u64::from(arch.in_range(chunk, zero, zero).count_ones());
    }
    zeros += u64::from((arch.in_range(&pad(tail, zero), zero, zero) & low_bits(tail.len())).count_ones());
    values.len() as u64 - zeros
}

#[inline(always)]
pub(crate) fn count_nonzero_masked<T: Native>(arch: impl Chunks<T>, values: &[T], mask: &[u64]) -> u64 {
    let zero = T::default();
    let mut count = 0;
    for_masked(values, mask, zero, |chunk, word| {
        if word != 0 {
            count += u64::from((word & !arch.in_range(chunk, zero, zero)).count_ones());
        }
    });
    count
}
