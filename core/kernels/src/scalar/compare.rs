//! Comparisons to mask words, and counts by comparison.

use crate::{
    Native,
    chunks::{Bits, CHUNK, for_masked, low_bits, pad},
    lanes::Lanes,
    scalar::mask,
    test::Test,
};

/// Writes the mask words of a comparison.
///
/// A macro, because a closure would not be compiled for the instructions of the function around it.
macro_rules! words {
    ($arch:expr, $values:expr, $fill:expr, $flip:expr, $out:expr, |$vector:ident| $bits:expr) => {
        let (chunks, tail) = $values.as_chunks::<CHUNK>();
        for (word, chunk) in $out.iter_mut().zip(chunks) {
            *word = word_of!($arch, chunk, |$vector| $bits) ^ $flip;
        }
        if let ([_, ..], Some(word)) = (tail, $out.get_mut(chunks.len())) {
            let chunk = &pad(tail, $fill).0;
            *word = (word_of!($arch, chunk, |$vector| $bits) ^ $flip) & low_bits(tail.len());
        }
    };
}

/// The mask word of a comparison of a chunk.
macro_rules! word_of {
    ($arch:expr, $chunk:expr, |$vector:ident| $bits:expr) => {{
        let mut word = 0;
        for i in 0..CHUNK / A::COUNT {
            let $vector = $arch.load($chunk, i);
            word |= $bits << (i * A::COUNT);
        }
        word
    }};
}

#[inline(always)]
pub(crate) fn test<T: Native, A: Lanes<T>>(arch: A, test: Test<T>, values: &[T], out: &mut [u64]) {
    let (lo, hi, flip) = match test {
        Test::None => return out.fill(0),
        Test::All => return mask::fill(values.len(), out),
        Test::In(lo, hi) => (lo, hi, 0),
        Test::NotIn(lo, hi) => (lo, hi, u64::MAX),
    };
    // One comparison is faster than a range.
    if lo == hi {
        let only = arch.splat(lo);
        words!(arch, values, lo, flip, out, |vector| arch.equal(vector, only));
    } else if lo == T::LEAST {
        let hi = arch.splat(hi);
        words!(arch, values, lo, flip, out, |vector| arch.at_most(vector, hi));
    } else if hi == T::GREATEST {
        let least = arch.splat(lo);
        words!(arch, values, lo, flip, out, |vector| arch.at_least(vector, least));
    } else {
        let range = arch.range(lo, hi);
        words!(arch, values, lo, flip, out, |vector| arch.in_range(vector, range));
    }
}

/// The mask word of the rows that are in a range.
#[inline(always)]
pub(crate) fn in_range<T: Native, A: Lanes<T>>(arch: A, chunk: &[T; CHUNK], range: A::Range) -> u64 {
    word_of!(arch, chunk, |vector| arch.in_range(vector, range))
}

/// The mask word of the rows that equal those of a register.
#[inline(always)]
fn equal<T: Native, A: Lanes<T>>(arch: A, chunk: &[T; CHUNK], other: A::Vector) -> u64 {
    word_of!(arch, chunk, |vector| arch.equal(vector, other))
}

#[inline(always)]
pub(crate) fn count_nonzero<T: Native>(arch: impl Lanes<T>, values: &[T]) -> u64 {
    let zero = arch.splat(T::default());
    let (chunks, tail) = values.as_chunks::<CHUNK>();
    let mut zeros = 0;
    for chunk in chunks {
        zeros += u64::from(equal(arch, chunk, zero).count_ones());
    }
    let tail_zeros = equal(arch, &pad(tail, T::default()), zero) & low_bits(tail.len());
    values.len() as u64 - zeros - u64::from(tail_zeros.count_ones())
}

/// Chunks of which a mask selects at most so many rows are walked row by row.
const FEW: u32 = 4;

#[inline(always)]
pub(crate) fn count_nonzero_masked<T: Native>(arch: impl Lanes<T>, values: &[T], mask: &[u64]) -> u64 {
    let zero = arch.splat(T::default());
    let mut count = 0;
    for_masked!(values, mask, T::default(), |chunk, word| {
        match word.count_ones() {
            0 => {}
            1..=FEW => count += Bits(word).filter(|row| chunk[*row] != T::default()).count() as u64,
            _ => count += u64::from((word & !equal(arch, chunk, zero)).count_ones()),
        }
    });
    count
}
