//! Operations by way of the decoded keys, for what an encoding cannot do on the compressed form.

use basalt_kernels as kernels;

use super::{
    KeyColumn, KeyTest, Members, UNIT_ROWS, mask,
    members::{FEW_KEYS, Form, write_mask},
};
use crate::{
    keys::{self, Native},
    limits::BATCH_ROWS,
};

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

/// `KeyColumn::decode_floats`.
pub(super) fn decode_floats<C: KeyColumn + ?Sized>(column: &C, start: usize, out: &mut [f64]) {
    let double = column.key_type() == Native::F64;
    let mut keys = vec![0; out.len().min(BATCH_ROWS)];
    for (i, out) in out.chunks_mut(BATCH_ROWS).enumerate() {
        let keys = &mut keys[..out.len()];
        column.decode(start + i * BATCH_ROWS, keys);
        for (out, &key) in out.iter_mut().zip(&*keys) {
            *out = if double { keys::to_f64(key) } else { keys::to_f32(key).into() };
        }
    }
}

/// Nanoseconds that it takes to decode a unit of rows, about.
const UNIT_COST: usize = 250;

/// `KeyColumn::gather`: row by row, or by whole units where several rows lie in one and a single row is expensive.
pub(super) fn gather<C: KeyColumn + ?Sized>(column: &C, start: usize, places: &[u16], out: &mut [i64]) {
    let cost = column.costs().get as usize;
    let mut unit = [0; UNIT_ROWS];
    let mut rest = out;
    let unit_of = |place: &u16| usize::from(*place) / UNIT_ROWS;
    for places in places.chunk_by(|a, b| unit_of(a) == unit_of(b)) {
        let out;
        (out, rest) = rest.split_at_mut(places.len());
        if places.len() * cost <= UNIT_COST {
            out.iter_mut()
                .zip(places)
                .for_each(|(out, place)| *out = column.get(start + usize::from(*place)));
            continue;
        }
        let first = unit_of(&places[0]) * UNIT_ROWS;
        let rows = UNIT_ROWS.min(column.rows() - start - first);
        column.decode(start + first, &mut unit[..rows]);
        out.iter_mut().zip(places).for_each(|(out, place)| *out = unit[usize::from(*place) - first]);
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
