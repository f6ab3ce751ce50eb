//! What the kernels mean, row by row.

use std::cmp::Ordering;

use basalt_kernels::{CmpOp, Native};

use crate::rows::selects;

/// The order of values: NaN equals NaN and is above all else, zeros are equal.
#[allow(clippy::eq_op, reason = "only NaN differs from itself")]
pub(crate) fn order<T: Native>(a: T, b: T) -> Ordering {
    match (a != a, b != b) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => a.partial_cmp(&b).unwrap(),
    }
}

pub(crate) const OPS: [CmpOp; 6] = [CmpOp::Eq, CmpOp::Ne, CmpOp::Lt, CmpOp::Le, CmpOp::Gt, CmpOp::Ge];

pub(crate) fn passes<T: Native>(op: CmpOp, value: T, constant: T) -> bool {
    let order = order(value, constant);
    match op {
        CmpOp::Eq => order.is_eq(),
        CmpOp::Ne => order.is_ne(),
        CmpOp::Lt => order.is_lt(),
        CmpOp::Le => order.is_le(),
        CmpOp::Gt => order.is_gt(),
        CmpOp::Ge => order.is_ge(),
    }
}

pub(crate) fn between<T: Native>(value: T, lo: T, hi: T) -> bool {
    order(lo, value).is_le() && order(value, hi).is_le()
}

/// The rows that a mask selects.
pub(crate) fn selected<'a, T: Copy>(values: &'a [T], mask: &'a [u64]) -> impl Iterator<Item = T> + 'a {
    values.iter().enumerate().filter(|(row, _)| selects(mask, *row)).map(|(_, &value)| value)
}

pub(crate) fn min_max<T: Native>(values: impl Iterator<Item = T>) -> Option<(T, T)> {
    values.fold(None, |extremes, value| {
        let (min, max) = extremes.unwrap_or((value, value));
        Some((
            if order(value, min).is_lt() { value } else { min },
            if order(value, max).is_gt() { value } else { max },
        ))
    })
}

/// The lanes of a sum of floats, as the documentation of `FloatSum` defines them.
pub(crate) fn float_lanes(lanes: &mut [f64; 8], values: &[f64], selects: impl Fn(usize) -> bool) {
    for (chunk, values) in values.chunks(64).enumerate() {
        for (lane, total) in lanes.iter_mut().enumerate() {
            let mut sum = 0.0;
            for row in (lane..values.len()).step_by(8) {
                if selects(64 * chunk + row) {
                    sum += values[row];
                }
            }
            *total += sum;
        }
    }
}
