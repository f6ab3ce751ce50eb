//! Sums of floats, and the floats of a few rows, for encodings that hold them as something else.

use basalt_kernels::{
    Float, FloatSum,
    decimals::{self, Decimals, Form, as_bits},
    mask as words,
    packed::Patch,
};

use super::mask;
use crate::{
    keys,
    limits::{BATCH_ROWS, BLOCK_ROWS},
};

/// Rows are read one by one where at most this part of them is selected: reading one costs as much as decoding so many,
/// about.
const FEW: usize = 32;

/// Replaces keys of float64 (`double`) or float32 by the bits of their floats, widened.
pub(super) fn of_keys(double: bool, keys: &mut [i64]) {
    for key in keys {
        let float = if double { keys::to_f64(*key) } else { keys::to_f32(*key).into() };
        *key = float.to_bits().cast_signed();
    }
}

/// Adds the floats of rows that a mask selects, batch by batch: `decode` writes those of the rows from some on.
pub(super) fn sum(
    rows: usize,
    mask: Option<&[u64]>,
    sum: &mut FloatSum,
    mut decode: impl FnMut(usize, &mut [f64]),
) {
    let mut floats = vec![0.0; rows.min(BATCH_ROWS)];
    each_batch(rows, mask, |at, n, mask| {
        let floats = &mut floats[..n];
        decode(at, floats);
        add(floats, mask, sum);
    });
}

/// Adds the floats of the rows from `start` on, unless they are more than a few: `gather` writes those at some places of
/// the block.
pub(super) fn sum_few(
    start: usize,
    rows: usize,
    mask: Option<&[u64]>,
    sum: &mut FloatSum,
    gather: impl FnOnce(&[u16], &mut [f64]),
) -> bool {
    let Some(mask) = mask else { return false };
    let selected = mask::count_ones(mask);
    if selected > rows / FEW || !start.is_multiple_of(BLOCK_ROWS) || rows > BLOCK_ROWS {
        return false;
    }
    let mut places = vec![0; selected + 64];
    words::positions(mask, &mut places);
    let mut floats = vec![0.0; selected];
    gather(&places[..selected], &mut floats);
    sum.add_at(&places[..selected], &floats);
    true
}

/// `KeyColumn::sum_decimals`: `decode` writes the integers of the rows from some on.
pub(super) fn sum_decimals(
    rows: usize,
    mask: Option<&[u64]>,
    decimals: Decimals,
    mut patches: &[Patch],
    total: &mut FloatSum,
    mut decode: impl FnMut(usize, &mut [i64]),
) {
    let form = if decimals.single { Form::Single } else { Form::Double };
    sum(rows, mask, total, |at, floats| {
        let integers = as_bits(floats);
        decode(at, integers);
        integers.iter_mut().for_each(|integer| *integer = integer.wrapping_add(decimals.base));
        decimals::convert(decimals.scale, form, integers);
        patches = &patches[patches.partition_point(|patch| patch.row < at)..];
        let here = patches.partition_point(|patch| patch.row < at + floats.len());
        patches[..here].iter().for_each(|patch| floats[patch.row - at] = patch.float);
    });
}

/// Calls `work` with each batch that a mask selects rows of: its first row, how many they are, and their words.
fn each_batch(rows: usize, mask: Option<&[u64]>, mut work: impl FnMut(usize, usize, Option<&[u64]>)) {
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
