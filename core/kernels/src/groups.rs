//! Aggregates by group: every row has the number of its group, below the length of `out`.
//!
//! A mask leaves rows out; what the codes and values of those are does not matter.

use crate::dispatch::current;
pub use crate::native::GroupCode;

/// Appends a digit to each row's number: what it was, times `span`, and the distance of its key to `low`. Numbers keep
/// their low bits.
///
/// # Panics
/// Where there are not as many keys as codes.
#[track_caller]
pub fn digits<C: GroupCode>(keys: &[i64], low: i64, span: i64, codes: &mut [C]) {
    current().group_digits(keys, low, span, codes);
}

/// Adds to each group the number of its rows.
///
/// # Panics
/// Where a selected row's code is not below `out.len()`, or `mask` has not `codes.len().div_ceil(64)` words.
#[track_caller]
pub fn count<C: GroupCode>(codes: &[C], mask: Option<&[u64]>, out: &mut [u64]) {
    current().group_count(codes, mask, out);
}

/// Adds to each group the exact sum of its values.
///
/// # Panics
/// As [`count`], and where there are not as many values as codes.
#[track_caller]
pub fn sum<C: GroupCode>(codes: &[C], values: &[i64], mask: Option<&[u64]>, out: &mut [i128]) {
    current().group_sum(codes, values, mask, out);
}

/// Adds to each group its values one by one, in the order of the rows: so the bits are those of a plain loop, which
/// NaN it is apart.
///
/// # Panics
/// As [`sum`].
#[track_caller]
pub fn sum_floats<C: GroupCode>(codes: &[C], values: &[f64], mask: Option<&[u64]>, out: &mut [f64]) {
    current().group_sum_floats(codes, values, mask, out);
}

/// Widens each group's extremes, the least and the greatest, to hold its values; `(i64::MAX, i64::MIN)` are those of
/// none.
///
/// # Panics
/// As [`sum`].
#[track_caller]
pub fn min_max<C: GroupCode>(codes: &[C], values: &[i64], mask: Option<&[u64]>, out: &mut [(i64, i64)]) {
    current().group_min_max(codes, values, mask, out);
}
