//! Least and greatest values.

use crate::{
    Native,
    chunks::{Bits, CHUNK, Density, for_masked, pad},
    lanes::Lanes,
    scalar::mask,
};

/// The extremes of the values seen, NaN apart. Registers take turns, so that none waits for the one before.
pub(crate) struct Extremes<T, A: Lanes<T>> {
    arch: A,
    min: [A::Vector; 2],
    max: [A::Vector; 2],
    nan: u64,
    /// What changes no extreme.
    neutral: A::Vector,
}

impl<T: Native, A: Lanes<T>> Extremes<T, A> {
    /// The extremes of nothing yet; `some` is one of the values to come.
    #[inline(always)]
    pub(crate) fn new(arch: A, some: T) -> Self {
        let (min, max) = (arch.splat(T::GREATEST), arch.splat(T::LEAST));
        Self { arch, min: [min; 2], max: [max; 2], nan: 0, neutral: arch.splat(T::neutral(some)) }
    }

    /// Adds the lanes of a register to those of its turn, 0 or 1 (a constant: the lanes stay in registers).
    #[inline(always)]
    pub(crate) fn add(&mut self, vector: A::Vector, turn: usize) {
        self.min[turn] = self.arch.min(vector, self.min[turn]);
        self.max[turn] = self.arch.max(vector, self.max[turn]);
        self.nan |= self.arch.nan(vector);
    }

    /// Adds the lanes of a chunk's `i`-th register that its mask word selects.
    #[inline(always)]
    pub(crate) fn add_selected(&mut self, vector: A::Vector, word: u64, i: usize, turn: usize) {
        let selected = self.arch.select(vector, word, i, self.neutral);
        self.min[turn] = self.arch.min(selected, self.min[turn]);
        self.max[turn] = self.arch.max(selected, self.max[turn]);
        self.nan |= self.arch.nan(vector) & (word >> (i * A::COUNT));
    }

    #[inline(always)]
    fn add_chunk(&mut self, chunk: &[T; CHUNK]) {
        for i in (0..CHUNK / A::COUNT).step_by(2) {
            self.add(self.arch.load(chunk, i), 0);
            if A::COUNT < CHUNK {
                self.add(self.arch.load(chunk, i + 1), 1);
            }
        }
    }

    /// Adds the values of a chunk that its mask word selects.
    #[inline(always)]
    pub(crate) fn add_selected_chunk(&mut self, chunk: &[T; CHUNK], word: u64) {
        for i in (0..CHUNK / A::COUNT).step_by(2) {
            self.add_selected(self.arch.load(chunk, i), word, i, 0);
            if A::COUNT < CHUNK {
                self.add_selected(self.arch.load(chunk, i + 1), word, i + 1, 1);
            }
        }
    }

    #[inline(always)]
    pub(crate) fn finish(self) -> (T, T) {
        let mut lanes = [T::GREATEST; CHUNK];
        self.arch.store(self.arch.min(self.min[0], self.min[1]), &mut lanes, 0);
        let min = lanes.iter().fold(T::GREATEST, |a, &b| if b < a { b } else { a });
        let mut lanes = [T::LEAST; CHUNK];
        self.arch.store(self.arch.max(self.max[0], self.max[1]), &mut lanes, 0);
        let max = lanes.iter().fold(T::LEAST, |a, &b| if b > a { b } else { a });
        T::extremes(min, max, self.nan != 0)
    }
}

#[inline(always)]
pub(crate) fn min_max<T: Native, A: Lanes<T>>(arch: A, values: &[T]) -> Option<(T, T)> {
    let &first = values.first()?;
    let mut extremes = Extremes::new(arch, first);
    let (chunks, tail) = values.as_chunks::<CHUNK>();
    for chunk in chunks {
        extremes.add_chunk(chunk);
    }
    extremes.add_chunk(&pad(tail, first));
    Some(extremes.finish())
}

#[inline(always)]
pub(crate) fn min_max_masked<T: Native, A: Lanes<T>>(arch: A, values: &[T], mask: &[u64]) -> Option<(T, T)> {
    let first = mask::first(mask).filter(|&row| row < values.len())?;
    let mut extremes = Extremes::new(arch, values[first]);
    for_masked!(values, mask, T::default(), |chunk, word| {
        match Density::of(word, A::SPARSE) {
            Density::Empty => {}
            Density::Sparse => {
                for i in Bits(word) {
                    extremes.add(arch.splat(chunk[i]), 0);
                }
            }
            Density::Mixed => extremes.add_selected_chunk(chunk, word),
            Density::Full => extremes.add_chunk(chunk),
        }
    });
    Some(extremes.finish())
}
