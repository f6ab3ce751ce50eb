//! Operations by way of the decoded keys, for what an encoding cannot do on the compressed form.

use basalt_kernels as kernels;

use super::{
    KeyColumn, KeyTest, Members, mask,
    members::{FEW_KEYS, Form, in_bits},
};
use crate::limits::BATCH_ROWS;

/// `KeyColumn::filter` by a set: a comparison for each of a few keys, else by look-up of decoded keys.
pub(super) fn filter_in(column: &dyn KeyColumn, start: usize, rows: usize, set: &Members, out: &mut [u64]) {
    // The form is found out once, not for each key.
    match set.form() {
        Some(Form::Sorted { keys, .. }) if keys.len() <= FEW_KEYS => {
            mask::set_all(out, rows, false);
            let mut equal = vec![0; out.len()];
            for &key in keys {
                column.filter(start, rows, &KeyTest::Range { lo: key, hi: key }, &mut equal);
                kernels::mask::or(out, &equal);
            }
        }
        Some(Form::Bits { first, words }) => {
            filter_by(column, start, rows, |key| in_bits(*first, words, key), out);
        }
        Some(Form::Sorted { table, .. }) if !table.is_empty() => {
            filter_by(column, start, rows, |key| table.contains(&key), out);
        }
        _ => filter_by(column, start, rows, |key| set.contains(key), out),
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
    each_batch(column, start, rows, |at, keys| {
        for (word, keys) in out[at / 64..].iter_mut().zip(keys.chunks(64)) {
            *word = keys.iter().enumerate().fold(0, |word, (i, &key)| word | u64::from(passes(key)) << i);
        }
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
