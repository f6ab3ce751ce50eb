//! Sums of floats, and the floats of a few rows, for encodings that hold them as something else.

use basalt_kernels::{
    Float, FloatSum,
    decimals::{self, Decimals, Form, as_bits},
    mask as words,
    packed::Patch,
};

use super::{KeyColumn, mask};
use crate::{
    keys::{self, Native},
    limits::{BATCH_ROWS, BLOCK_ROWS},
};

/// Rows are read one by one where at most this part of them is selected: reading one costs as much as decoding so many,
/// about.
const FEW: usize = 32;

/// `KeyColumn::gather_floats`, by way of keys.
pub(super) fn gather<C: KeyColumn + ?Sized>(column: &C, start: usize, places: &[u16], out: &mut [f64]) {
    let double = column.key_type() == Native::F64;
    let out = as_bits(out);
    column.gather(start, places, out);
    for key in out {
        let float = if double { keys::to_f64(*key) } else { keys::to_f32(*key).into() };
        *key = float.to_bits().cast_signed();
    }
}

/// `KeyColumn::sum_floats`: a few rows one by one, else batch by batch.
pub(super) fn sum<C: KeyColumn + ?Sized>(
    column: &C,
    start: usize,
    rows: usize,
    mask: Option<&[u64]>,
    sum: &mut FloatSum,
) {
    if sum_few(column, start, rows, mask, sum) {
        return;
    }
    let mut floats = vec![0.0; rows.min(BATCH_ROWS)];
    each_batch(rows, mask, |at, n, mask| {
        let floats = &mut floats[..n];
        column.decode_floats(start + at, floats);
        add(floats, mask, sum);
    });
}

/// Adds the floats of the rows, unless they are more than a few.
pub(super) fn sum_few<C: KeyColumn + ?Sized>(
    column: &C,
    start: usize,
    rows: usize,
    mask: Option<&[u64]>,
    sum: &mut FloatSum,
) -> bool {
    let Some(mask) = mask else { return false };
    let selected = mask::count_ones(mask);
    if selected > rows / FEW || !start.is_multiple_of(BLOCK_ROWS) || rows > BLOCK_ROWS {
        return false;
    }
    let mut places = vec![0; selected + 64];
    words::positions(mask, &mut places);
    let mut floats = vec![0.0; selected];
    column.gather_floats(start, &places[..selected], &mut floats);
    sum.add_at(&places[..selected], &floats);
    true
}

/// `KeyColumn::sum_decimals`, by way of integers.
pub(super) fn sum_decimals<C: KeyColumn + ?Sized>(
    column: &C,
    start: usize,
    rows: usize,
    mask: Option<&[u64]>,
    decimals: Decimals,
    mut patches: &[Patch],
    sum: &mut FloatSum,
) {
    let form = if decimals.single { Form::Single } else { Form::Double };
    let mut floats = vec![0.0; rows.min(BATCH_ROWS)];
    each_batch(rows, mask, |at, n, mask| {
        let floats = &mut floats[..n];
        let integers = as_bits(floats);
        column.decode(start + at, integers);
        integers.iter_mut().for_each(|integer| *integer = integer.wrapping_add(decimals.base));
        decimals::convert(decimals.scale, form, integers);
        patches = &patches[patches.partition_point(|patch| patch.row < at)..];
        let here = patches.partition_point(|patch| patch.row < at + n);
        patches[..here].iter().for_each(|patch| floats[patch.row - at] = patch.float);
        add(floats, mask, sum);
    });
}

/// Calls `work` with each batch that a mask selects rows of: its first row, how many they are, and their words.
pub(super) fn each_batch(
    rows: usize,
    mask: Option<&[u64]>,
    mut work: impl FnMut(usize, usize, Option<&[u64]>),
) {
    for at in (0..rows).step_by(BATCH_ROWS) {
        let n = (rows - at).min(BATCH_ROWS);
        let mask = mask.map(|mask| &mask[at / 64..][..n.div_ceil(64)]);
        if mask.is_none_or(|mask| mask.iter().any(|word| *word != 0)) {
            work(at, n, mask);
        }
    }
}

/// Adds those floats that a mask selects.
pub(super) fn add<T: Float>(floats: &[T], mask: Option<&[u64]>, sum: &mut FloatSum) {
    match mask {
        Some(mask) => basalt_kernels::sum_floats_masked(floats, mask, sum),
        None => basalt_kernels::sum_floats(floats, sum),
    }
}
