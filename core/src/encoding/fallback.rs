//! Operations by way of the decoded keys, for what an encoding cannot do on the compressed form.

use basalt_kernels as kernels;

use super::{
    KeyColumn, KeyTest, Members, mask,
    member_form::{FEW_KEYS, Form, write_mask},
};
use crate::limits::BATCH_ROWS;

/// `KeyColumn::filter` by a set: a comparison for each of a few keys, else by look-up of decoded keys.
pub(super) fn filter_in(column: &dyn KeyColumn, start: usize, rows: usize, set: &Members, out: &mut [u64]) {
    match set.form() {
        Some(Form::Sorted { keys, .. }) if keys.len() <= FEW_KEYS => {
            mask::set_all(out, rows, false);
            let mut equal = vec![0; out.len()];
            for &key in keys {
                column.filter(start, rows, &KeyTest::Range { lo: key, hi: key }, &mut equal);
                kernels::mask::or(out, &equal);
            }
        }
        Some(form) => each_batch(column, start, rows, |at, keys| form.test(keys, &mut out[at / 64..])),
        None => filter_by(column, start, rows, |key| set.contains(key), out),
    }
}

/// The mask of the rows whose key passes.
pub(super) fn filter_by(
    column: &dyn KeyColumn,
    start: usize,
    rows: usize,
    passes: impl Fn(i64) -> bool,
    out: &mut [u64],
) {
    each_batch(column, start, rows, |at, keys| write_mask(keys, &mut out[at / 64..], &passes));
}

/// `KeyColumn::filter` by a range of keys.
pub(super) fn filter_range(
    column: &dyn KeyColumn,
    start: usize,
    rows: usize,
    (lo, hi): (i64, i64),
    out: &mut [u64],
) {
    each_batch(column, start, rows, |at, keys| {
        kernels::between(keys, lo, hi, &mut out[at / 64..][..keys.len().div_ceil(64)]);
    });
}

/// `KeyColumn::sum`.
pub(super) fn sum(column: &dyn KeyColumn, start: usize, rows: usize, mask: Option<&[u64]>) -> i128 {
    let mut total = 0;
    each_batch(column, start, rows, |at, keys| {
        total += match mask {
            Some(mask) => kernels::sum_masked(keys, &mask[at / 64..][..keys.len().div_ceil(64)]),
            None => kernels::sum(keys),
        };
    });
    total
}

/// `KeyColumn::min_max`.
pub(super) fn min_max(
    column: &dyn KeyColumn,
    start: usize,
    rows: usize,
    mask: Option<&[u64]>,
) -> Option<(i64, i64)> {
    let mut extremes = None;
    each_batch(column, start, rows, |at, keys| {
        let batch = match mask {
            Some(mask) => kernels::min_max_masked(keys, &mask[at / 64..][..keys.len().div_ceil(64)]),
            None => kernels::min_max(keys),
        };
        extremes = widen(extremes, batch);
    });
    extremes
}

/// The extremes of both.
pub(super) fn widen(a: Option<(i64, i64)>, b: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}

/// Decodes batch by batch; `work` gets each with its place behind `start`.
fn each_batch(column: &dyn KeyColumn, start: usize, rows: usize, mut work: impl FnMut(usize, &[i64])) {
    let mut batch = vec![0; rows.min(BATCH_ROWS)];
    for at in (0..rows).step_by(BATCH_ROWS) {
        let keys = &mut batch[..(rows - at).min(BATCH_ROWS)];
        column.decode(start + at, keys);
        work(at, keys);
    }
}
