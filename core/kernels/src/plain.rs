//! Kernels over plain arrays.

use crate::{CmpOp, Float, FloatSum, Integer, Native, dispatch::current};

/// Writes the mask of the values that compare so with a constant.
///
/// # Panics
/// Where `out` has not `values.len().div_ceil(64)` words.
#[track_caller]
pub fn compare<T: Native>(op: CmpOp, values: &[T], constant: T, out: &mut [u64]) {
    current().compare(op, values, constant, out);
}

/// Writes the mask of the values from `lo` to `hi`, both included; of none where `lo > hi`.
///
/// # Panics
/// Where `out` has not `values.len().div_ceil(64)` words.
#[track_caller]
pub fn between<T: Native>(values: &[T], lo: T, hi: T, out: &mut [u64]) {
    current().between(values, lo, hi, out);
}

/// Writes the mask of the values that are NaN.
///
/// # Panics
/// Where `out` has not `values.len().div_ceil(64)` words.
#[track_caller]
pub fn is_nan<T: Float>(values: &[T], out: &mut [u64]) {
    current().is_nan(values, out);
}

/// The least and the greatest value.
pub fn min_max<T: Native>(values: &[T]) -> Option<(T, T)> {
    current().min_max(values)
}

/// The least and the greatest value that the mask selects.
///
/// # Panics
/// Where `mask` has not `values.len().div_ceil(64)` words.
#[track_caller]
pub fn min_max_masked<T: Native>(values: &[T], mask: &[u64]) -> Option<(T, T)> {
    current().min_max_masked(values, mask)
}

/// How many values are not zero (NaN is not).
pub fn count_nonzero<T: Native>(values: &[T]) -> u64 {
    current().count_nonzero(values)
}

/// How many values that the mask selects are not zero (NaN is not).
///
/// # Panics
/// Where `mask` has not `values.len().div_ceil(64)` words.
#[track_caller]
pub fn count_nonzero_masked<T: Native>(values: &[T], mask: &[u64]) -> u64 {
    current().count_nonzero_masked(values, mask)
}

/// The exact sum.
pub fn sum<T: Integer>(values: &[T]) -> i128 {
    current().sum(values)
}

/// The exact sum of the values that the mask selects.
///
/// # Panics
/// Where `mask` has not `values.len().div_ceil(64)` words.
#[track_caller]
pub fn sum_masked<T: Integer>(values: &[T], mask: &[u64]) -> i128 {
    current().sum_masked(values, mask)
}

/// Adds values to a sum. Every call begins a chunk: split rows into calls at multiples of 64 only.
pub fn sum_floats<T: Float>(values: &[T], acc: &mut FloatSum) {
    current().sum_floats(values, acc);
}

/// Adds the values that the mask selects to a sum. Every call begins a chunk: split rows into calls at multiples
/// of 64 only.
///
/// # Panics
/// Where `mask` has not `values.len().div_ceil(64)` words.
#[track_caller]
pub fn sum_floats_masked<T: Float>(values: &[T], mask: &[u64], acc: &mut FloatSum) {
    current().sum_floats_masked(values, mask, acc);
}
