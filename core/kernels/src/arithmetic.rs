//! Arithmetic of integers in place; what does not fit wraps.

use crate::{dispatch::current, forms::arithmetic::IntOp};

/// Puts what an operation makes of each value and the other at its place in the value's.
///
/// # Panics
/// Where there are not as many of both.
#[track_caller]
pub fn combine(op: IntOp, values: &mut [i64], others: &[i64]) {
    current().ints_combine(op, values, others);
}

/// The same with one and the same other.
pub fn combine_one(op: IntOp, values: &mut [i64], other: i64) {
    current().ints_combine_one(op, values, other);
}
