//! Sums: exact for integers, in one order for floats.

use crate::{
    Float, FloatSum, Integer, Native,
    chunks::{CHUNK, Chunks, Density, for_bits, for_masked, pad},
};

/// Lanes that are added up side by side.
const LANES: usize = 8;

/// Rows that are added up before the lanes are emptied: no lane can overflow.
pub(crate) const BLOCK: usize = 1 << 26;

/// An exact sum of chunks of integers, for at most [`BLOCK`] rows.
pub trait Accumulator<T>: Copy + Default {
    /// Adds a chunk.
    fn add(&mut self, chunk: &[T; CHUNK]);

    /// The sum of all chunks.
    fn total(&self) -> i128;
}

/// Sums of up to 32-bit integers, in 64 bits.
#[derive(Clone, Copy, Default)]
pub struct Narrow {
    lanes: [i64; LANES],
}

impl<T: Copy + Into<i64>> Accumulator<T> for Narrow {
    #[inline(always)]
    fn add(&mut self, chunk: &[T; CHUNK]) {
        for group in chunk.as_chunks::<LANES>().0 {
            for (lane, value) in self.lanes.iter_mut().zip(group) {
                *lane += (*value).into();
            }
        }
    }

    #[inline(always)]
    fn total(&self) -> i128 {
        self.lanes.iter().map(|&lane| i128::from(lane)).sum()
    }
}

/// Sums of 64-bit integers: the sum of the high halves, and the sum of the values modulo 2^64, whose
/// difference is the sum of the low halves (which fits 64 bits for fewer than 2^32 values).
#[derive(Clone, Copy, Default)]
pub struct Wide {
    high: [i64; LANES],
    wrapped: [u64; LANES],
}

impl Wide {
    #[inline(always)]
    fn add(&mut self, chunk: &[u64; CHUNK], high: impl Fn(u64) -> i64) {
        for group in chunk.as_chunks::<LANES>().0 {
            for (lane, &value) in group.iter().enumerate() {
                self.high[lane] += high(value);
                self.wrapped[lane] = self.wrapped[lane].wrapping_add(value);
            }
        }
    }

    #[inline(always)]
    fn total(&self) -> i128 {
        let high: i64 = self.high.iter().sum();
        let wrapped = self.wrapped.iter().fold(0_u64, |sum, lane| sum.wrapping_add(*lane));
        let low = wrapped.wrapping_sub((high as u64) << 32);
        (i128::from(high) << 32) + i128::from(low)
    }
}

impl Accumulator<u64> for Wide {
    #[inline(always)]
    fn add(&mut self, chunk: &[u64; CHUNK]) {
        self.add(chunk, |value| (value >> 32) as i64);
    }

    #[inline(always)]
    fn total(&self) -> i128 {
        self.total()
    }
}

impl Accumulator<i64> for Wide {
    #[inline(always)]
    fn add(&mut self, chunk: &[i64; CHUNK]) {
        self.add(&chunk.map(|value| value as u64), |value| value as i64 >> 32);
    }

    #[inline(always)]
    fn total(&self) -> i128 {
        self.total()
    }
}

#[inline(always)]
pub(crate) fn sum<T: Integer>(_arch: impl Chunks<T>, values: &[T]) -> i128 {
    let mut total = 0;
    for block in values.chunks(BLOCK) {
        let (chunks, tail) = block.as_chunks::<CHUNK>();
        let mut sum = T::Sum::default();
        for chunk in chunks {
            sum.add(chunk);
        }
        sum.add(&pad(tail, T::default()));
        total += sum.total();
    }
    total
}

#[inline(always)]
pub(crate) fn sum_masked<T: Integer>(arch: impl Chunks<T>, values: &[T], mask: &[u64]) -> i128 {
    let mut total = 0;
    for (block, mask) in values.chunks(BLOCK).zip(mask.chunks(BLOCK / CHUNK)) {
        let mut sum = T::Sum::default();
        for_masked(block, mask, T::default(), |chunk, word| match Density::of(word) {
            Density::Empty => {}
            Density::Sparse => for_bits(word, |i| total += chunk[i].to_i128()),
            Density::Mixed => sum.add(&arch.select(chunk, word, T::default())),
            Density::Full => sum.add(chunk),
        });
        total += sum.total();
    }
    total
}

#[inline(always)]
pub(crate) fn sum_floats<T: Float>(_arch: impl Chunks<T>, values: &[T], acc: &mut FloatSum) {
    let mut sum = *acc;
    let (chunks, tail) = values.as_chunks::<CHUNK>();
    for chunk in chunks {
        sum.add(&lanes(chunk));
    }
    if !tail.is_empty() {
        sum.add(&lanes(&pad(tail, T::default())));
    }
    *acc = sum;
}

#[inline(always)]
pub(crate) fn sum_floats_masked<T: Float>(
    arch: impl Chunks<T>,
    values: &[T],
    mask: &[u64],
    acc: &mut FloatSum,
) {
    let mut sum = *acc;
    for_masked(values, mask, T::default(), |chunk, word| match Density::of(word) {
        Density::Empty => {}
        Density::Sparse => {
            let mut lanes = [0.0; LANES];
            for_bits(word, |i| lanes[i % LANES] += chunk[i].into());
            sum.add(&lanes);
        }
        // Adding +0.0 is the same as adding nothing: no lane is ever -0.0.
        Density::Mixed => sum.add(&lanes(&arch.select(chunk, word, T::default()))),
        Density::Full => sum.add(&lanes(chunk)),
    });
    *acc = sum;
}

/// The lanes of one chunk.
#[inline(always)]
fn lanes<T: Native + Into<f64>>(chunk: &[T; CHUNK]) -> [f64; LANES] {
    let mut lanes = [0.0; LANES];
    for group in chunk.as_chunks::<LANES>().0 {
        for (lane, value) in lanes.iter_mut().zip(group) {
            *lane += (*value).into();
        }
    }
    lanes
}
