//! Filters that aggregate what passes, without a mask of it.

use std::any::TypeId;

use crate::{
    CmpOp, Float, FloatSum, Integer, Kernels, Native,
    chunks::{CHUNK, check_mask},
    dispatch::current,
    table::call,
    test::Test,
};

/// Rows of which a mask is written after all, where values of one type are filtered by another: it stays in the
/// nearest cache, and so do the values.
const BLOCK: usize = 2048;

/// The rows whose values pass a test, and that a mask selects if there is one. Aggregates are those of the functions
/// of the same names, given the mask of these rows; the values aggregated may be others than those tested, of another
/// type. Of the same type is fastest.
#[derive(Clone, Copy, Debug)]
pub struct Filter<'a, T> {
    values: &'a [T],
    test: Test<T>,
    mask: Option<&'a [u64]>,
}

impl<'a, T: Native> Filter<'a, T> {
    /// The rows whose values compare so with a constant.
    pub fn compare(op: CmpOp, values: &'a [T], constant: T) -> Self {
        Self { values, test: T::test(op, constant), mask: None }
    }

    /// The rows whose values are from `lo` to `hi`, both included; none where `lo > hi`.
    pub fn between(values: &'a [T], lo: T, hi: T) -> Self {
        Self { values, test: T::test_between(lo, hi), mask: None }
    }

    /// Those of these rows that the mask selects.
    ///
    /// # Panics
    /// Where `mask` has not a word for every 64 rows or part of them.
    #[must_use]
    #[track_caller]
    pub fn masked(self, mask: &'a [u64]) -> Self {
        check_mask(self.values.len(), mask.len());
        Self { mask: Some(mask), ..self }
    }

    /// How many rows there are.
    pub fn count(&self) -> u64 {
        current().filter_count(self)
    }

    /// The exact sum of their values.
    ///
    /// # Panics
    /// Where there are not as many values as were tested.
    #[track_caller]
    pub fn sum<V: Integer>(&self, values: &[V]) -> i128 {
        current().filter_sum(self, values)
    }

    /// Adds their values to a sum. Every call begins a chunk: split rows into calls at multiples of 64 only.
    ///
    /// # Panics
    /// As [`Filter::sum`].
    #[track_caller]
    pub fn sum_floats<V: Float>(&self, values: &[V], acc: &mut FloatSum) {
        current().filter_sum_floats(self, values, acc);
    }

    /// The least and the greatest of their values.
    ///
    /// # Panics
    /// As [`Filter::sum`].
    #[track_caller]
    pub fn min_max<V: Native>(&self, values: &[V]) -> Option<(V, V)> {
        current().filter_min_max(self, values)
    }

    /// Calls `f` with the mask of every block of rows, and the first of them.
    fn for_blocks(&self, table: &Kernels, mut f: impl FnMut(usize, &[u64])) {
        for (i, values) in self.values.chunks(BLOCK).enumerate() {
            let mut words = [0; BLOCK / CHUNK];
            let words = &mut words[..values.len().div_ceil(CHUNK)];
            table.test(self.test, values, words);
            if let Some(mask) = self.mask {
                table.mask_and(words, &mask[i * (BLOCK / CHUNK)..][..words.len()]);
            }
            f(i * BLOCK, words);
        }
    }

    /// This, where the type is the one asked for.
    fn of<V: Native>(&self) -> Option<&Filter<'a, V>> {
        if TypeId::of::<T>() != TypeId::of::<V>() {
            return None;
        }
        // SAFETY: the types are one.
        Some(unsafe { &*std::ptr::from_ref(self).cast() })
    }

    /// The values of a block of rows from the first on.
    fn block<V>(values: &[V], first: usize) -> &[V] {
        &values[first..values.len().min(first + BLOCK)]
    }

    #[track_caller]
    fn check<V>(&self, values: &[V]) {
        assert!(values.len() == self.values.len(), "{} values for {} rows", values.len(), self.values.len());
    }
}

#[allow(missing_docs, reason = "documented at the methods of `Filter`")]
impl Kernels {
    pub fn filter_count<T: Native>(&self, filter: &Filter<'_, T>) -> u64 {
        call!(T::kernels(self).filter_count, filter.test, filter.values, filter.mask)
    }

    #[track_caller]
    pub fn filter_sum<T: Native, V: Integer>(&self, filter: &Filter<'_, T>, values: &[V]) -> i128 {
        filter.check(values);
        if let Some(filter) = filter.of::<V>() {
            return call!(
                V::integer_kernels(self).filter_sum,
                filter.test,
                filter.values,
                filter.mask,
                values
            );
        }
        let mut sum = 0;
        filter.for_blocks(self, |first, words| {
            sum += self.sum_masked(Filter::<T>::block(values, first), words);
        });
        sum
    }

    #[track_caller]
    pub fn filter_sum_floats<T: Native, V: Float>(
        &self,
        filter: &Filter<'_, T>,
        values: &[V],
        acc: &mut FloatSum,
    ) {
        filter.check(values);
        if let Some(filter) = filter.of::<V>() {
            let Filter { values: by, test, mask } = *filter;
            return call!(V::float_kernels(self).filter_sum, test, by, mask, values, acc);
        }
        filter.for_blocks(self, |first, words| {
            self.sum_floats_masked(Filter::<T>::block(values, first), words, acc);
        });
    }

    #[track_caller]
    pub fn filter_min_max<T: Native, V: Native>(
        &self,
        filter: &Filter<'_, T>,
        values: &[V],
    ) -> Option<(V, V)> {
        filter.check(values);
        if let Some(filter) = filter.of::<V>() {
            return call!(V::kernels(self).filter_min_max, filter.test, filter.values, filter.mask, values);
        }
        let mut extremes = None;
        filter.for_blocks(self, |first, words| {
            let block = self.min_max_masked(Filter::<T>::block(values, first), words);
            extremes = match (extremes, block) {
                (Some(a), Some(b)) => Some(wider(a, b)),
                (a, b) => a.or(b),
            };
        });
        extremes
    }
}

/// The extremes of two parts; NaN is above all else.
fn wider<V: Native>(a: (V, V), b: (V, V)) -> (V, V) {
    let min = if a.0.is_nan() || b.0 < a.0 { b.0 } else { a.0 };
    let max = if b.1.is_nan() || b.1 > a.1 { b.1 } else { a.1 };
    (min, max)
}
