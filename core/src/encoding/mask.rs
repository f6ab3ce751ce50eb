//! What the encodings do with mask words beyond the kernels.

use basalt_kernels::mask;

pub(super) use crate::mask::{selects, set_range};

/// Rows selected.
pub(super) fn count_ones(words: &[u64]) -> usize {
    super::bytes::index(mask::count_ones(words))
}

/// Selects all of `rows` rows, or none.
pub(super) fn set_all(words: &mut [u64], rows: usize, selected: bool) {
    if selected {
        mask::fill(rows, words);
    } else {
        words.fill(0);
    }
}

/// Sets the bit of one row.
pub(super) fn set(words: &mut [u64], row: usize, selected: bool) {
    words[row / 64] = words[row / 64] & !(1 << (row % 64)) | u64::from(selected) << (row % 64);
}

/// Rows of `from..to` that are selected; without a mask all are.
pub(super) fn count_range(words: Option<&[u64]>, from: usize, to: usize) -> usize {
    let Some(words) = words else { return to - from };
    if from >= to {
        return 0;
    }
    let (first, last) = (from / 64, (to - 1) / 64);
    let (head, tail) = (u64::MAX << (from % 64), u64::MAX >> (63 - (to - 1) % 64));
    if first == last {
        return (words[first] & head & tail).count_ones() as usize;
    }
    (words[first] & head).count_ones() as usize
        + count_ones(&words[first + 1..last])
        + (words[last] & tail).count_ones() as usize
}

/// Whether one of the rows `first..=last` is selected, or with `inverted` is not.
pub(super) fn any(words: &[u64], first: usize, last: usize, inverted: bool) -> bool {
    let flip = if inverted { u64::MAX } else { 0 };
    let (head, tail) = (u64::MAX << (first % 64), u64::MAX >> (63 - last % 64));
    let words = &words[first / 64..=last / 64];
    match words {
        [only] => (only ^ flip) & head & tail != 0,
        [first, middle @ .., last] => {
            (first ^ flip) & head != 0
                || middle.iter().any(|word| word ^ flip != 0)
                || (last ^ flip) & tail != 0
        }
        [] => false,
    }
}

/// The first and the last row selected.
pub(super) fn ends(words: &[u64]) -> Option<(usize, usize)> {
    let first = words.iter().position(|&word| word != 0)?;
    let last = words.iter().rposition(|&word| word != 0)?;
    let (head, tail) = (words[first].trailing_zeros(), words[last].ilog2());
    Some((64 * first + head as usize, 64 * last + tail as usize))
}
