//! Arithmetic of integers, which wraps.

use crate::forms::arithmetic::IntOp;

#[inline(always)]
fn each(values: &mut [i64], others: &[i64], op: impl Fn(i64, i64) -> i64) {
    values.iter_mut().zip(others).for_each(|(value, other)| *value = op(*value, *other));
}

#[inline(always)]
pub(crate) fn combine(op: IntOp, values: &mut [i64], others: &[i64]) {
    match op {
        IntOp::Add => each(values, others, i64::wrapping_add),
        IntOp::Subtract => each(values, others, i64::wrapping_sub),
        IntOp::SubtractFrom => each(values, others, |value, other| other.wrapping_sub(value)),
        IntOp::Multiply => each(values, others, i64::wrapping_mul),
    }
}

#[inline(always)]
pub(crate) fn combine_one(op: IntOp, values: &mut [i64], other: i64) {
    match op {
        IntOp::Add => values.iter_mut().for_each(|value| *value = value.wrapping_add(other)),
        IntOp::Subtract => values.iter_mut().for_each(|value| *value = value.wrapping_sub(other)),
        IntOp::SubtractFrom => values.iter_mut().for_each(|value| *value = other.wrapping_sub(*value)),
        IntOp::Multiply => values.iter_mut().for_each(|value| *value = value.wrapping_mul(other)),
    }
}
