//! Aggregates by group.

use crate::{
    chunks::{Bits, CHUNK, Density, low_bits},
    groups::GroupCode,
};

/// Evaluates a block with the place of every selected row of a chunk, given as the bits of a word.
macro_rules! for_rows {
    ($codes:expr, $mask:expr, |$row:ident| $block:block) => {
        for (i, codes) in $codes.chunks(CHUNK).enumerate() {
            let word = selected($mask, i, codes.len());
            match Density::of(word) {
                Density::Full => {
                    for $row in i * CHUNK..(i + 1) * CHUNK {
                        $block
                    }
                }
                _ => {
                    for bit in Bits(word) {
                        let $row = i * CHUNK + bit;
                        $block
                    }
                }
            }
        }
    };
}

/// Which rows of the `i`-th chunk are selected.
#[inline(always)]
fn selected(mask: Option<&[u64]>, i: usize, rows: usize) -> u64 {
    mask.map_or(u64::MAX, |mask| mask[i]) & low_bits(rows)
}

#[inline(always)]
pub(crate) fn count<C: GroupCode>(codes: &[C], mask: Option<&[u64]>, out: &mut [u64]) {
    for_rows!(codes, mask, |row| { out[codes[row].index()] += 1 });
}

#[inline(always)]
pub(crate) fn sum<C: GroupCode>(codes: &[C], values: &[i64], mask: Option<&[u64]>, out: &mut [i128]) {
    for_rows!(codes, mask, |row| { out[codes[row].index()] += i128::from(values[row]) });
}

#[inline(always)]
pub(crate) fn sum_floats<C: GroupCode>(codes: &[C], values: &[f64], mask: Option<&[u64]>, out: &mut [f64]) {
    for_rows!(codes, mask, |row| { out[codes[row].index()] += values[row] });
}

#[inline(always)]
pub(crate) fn min_max<C: GroupCode>(
    codes: &[C],
    values: &[i64],
    mask: Option<&[u64]>,
    out: &mut [(i64, i64)],
) {
    for_rows!(codes, mask, |row| {
        let (min, max) = &mut out[codes[row].index()];
        let value = values[row];
        if value < *min {
            *min = value;
        }
        if value > *max {
            *max = value;
        }
    });
}
