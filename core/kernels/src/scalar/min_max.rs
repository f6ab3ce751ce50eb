//! Least and greatest values.

use crate::{
    Native,
    chunks::{CHUNK, Chunks, Density, for_bits, for_masked, pad},
};

/// The extremes of the values seen, in `N` lanes.
#[derive(Clone, Copy)]
pub(crate) struct Extremes<T, const N: usize> {
    min: [T; N],
    max: [T; N],
    nan: [bool; N],
}

impl<T: Native, const N: usize> Extremes<T, N> {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { min: [T::GREATEST; N], max: [T::LEAST; N], nan: [false; N] }
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, chunk: &[T; CHUNK]) {
        for group in chunk.as_chunks::<N>().0 {
            for (lane, &value) in group.iter().enumerate() {
                self.see(lane, value);
            }
        }
    }

    /// Adds one value to a lane.
    #[inline(always)]
    pub(crate) fn see(&mut self, lane: usize, value: T) {
        if value < self.min[lane] {
            self.min[lane] = value;
        }
        if value > self.max[lane] {
            self.max[lane] = value;
        }
        self.nan[lane] |= value.is_nan();
    }

    #[inline(always)]
    pub(crate) fn finish(&self) -> (T, T) {
        let min = self.min.iter().fold(T::GREATEST, |a, &b| if b < a { b } else { a });
        let max = self.max.iter().fold(T::LEAST, |a, &b| if b > a { b } else { a });
        T::extremes(min, max, self.nan.contains(&true))
    }
}

/// Calls a function with the number of lanes that fills a few registers of 32 or 64 bytes with `T`.
macro_rules! with_lanes {
    ($t:ty, $function:ident($($arg:expr),*)) => {
        match size_of::<$t>() {
            8 => $function::<_, _, 16>($($arg),*),
            4 => $function::<_, _, 32>($($arg),*),
            _ => $function::<_, _, 64>($($arg),*),
        }
    };
}

pub(super) use with_lanes;

#[inline(always)]
pub(crate) fn min_max<T: Native>(arch: impl Chunks<T>, values: &[T]) -> Option<(T, T)> {
    with_lanes!(T, plain(arch, values))
}

#[inline(always)]
fn plain<T: Native, A: Chunks<T>, const N: usize>(_arch: A, values: &[T]) -> Option<(T, T)> {
    let &first = values.first()?;
    let mut extremes = Extremes::<T, N>::new();
    let (chunks, tail) = values.as_chunks::<CHUNK>();
    for chunk in chunks {
        extremes.add(chunk);
    }
    extremes.add(&pad(tail, first));
    Some(extremes.finish())
}

#[inline(always)]
pub(crate) fn min_max_masked<T: Native>(arch: impl Chunks<T>, values: &[T], mask: &[u64]) -> Option<(T, T)> {
    with_lanes!(T, masked(arch, values, mask))
}

#[inline(always)]
fn masked<T: Native, A: Chunks<T>, const N: usize>(arch: A, values: &[T], mask: &[u64]) -> Option<(T, T)> {
    let mut extremes = Extremes::<T, N>::new();
    let mut any = false;
    for_masked(values, mask, T::default(), |chunk, word| {
        any |= word != 0;
        match Density::of(word) {
            Density::Empty => {}
            Density::Sparse => for_bits(word, |i| extremes.see(0, chunk[i])),
            Density::Mixed => {
                // A selected value in place of the others changes no extreme.
                let fill = chunk[word.trailing_zeros() as usize];
                extremes.add(&arch.select(chunk, word, fill));
            }
            Density::Full => extremes.add(chunk),
        }
    });
    any.then(|| extremes.finish())
}
