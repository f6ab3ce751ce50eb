//! Bit-packed codes of 0 to 64 bits; those of 0 bits take no words.

use basalt_kernels::packed;

use super::{UNIT_ROWS, mask};

/// Words of `rows` codes.
pub(super) fn words(width: u32, rows: usize) -> usize {
    if width == 0 { 0 } else { packed::words(width, rows) }
}

/// Writes what keys are above `base`; what is longer than the width loses its high bits.
pub(super) fn pack_keys(width: u32, base: i64, keys: &[i64], out: &mut [u64]) {
    if width > 0 {
        packed::pack_keys(width, base, keys, out);
    }
}

/// Writes narrow codes, which are widened a unit at a time.
pub(super) fn pack_narrow(width: u32, codes: &[u32], out: &mut [u64]) {
    if width == 0 {
        return;
    }
    let mut wide = Vec::with_capacity(UNIT_ROWS);
    let mut at = 0;
    for codes in codes.chunks(UNIT_ROWS) {
        wide.clear();
        wide.extend(codes.iter().copied().map(u64::from));
        let end = at + words(width, codes.len());
        packed::pack(width, &wide, &mut out[at..end]);
        // The zeros behind a unit are where the next one begins.
        at = end - words(width, 0);
    }
}

/// Codes of one width. Ranges of rows start at whole units and lie within the words.
#[derive(Clone, Copy)]
pub(super) struct Codes<'a> {
    pub(super) width: u32,
    pub(super) words: &'a [u64],
}

impl Codes<'_> {
    /// The greatest code of the width.
    pub(super) fn widest(self) -> u64 {
        if self.width == 0 { 0 } else { u64::MAX >> (u64::BITS - self.width) }
    }

    pub(super) fn get(self, row: usize) -> u64 {
        if self.width == 0 { 0 } else { packed::get(self.width, self.words, row) }
    }

    /// Writes `base + code` for the rows from `start` on.
    pub(super) fn unpack(self, start: usize, base: i64, out: &mut [i64]) {
        if self.width == 0 {
            out.fill(base);
        } else {
            packed::unpack(self.width, self.words, start, base, out);
        }
    }

    /// The mask of the codes from `lo` to `hi`.
    pub(super) fn between(self, start: usize, rows: usize, (lo, hi): (u64, u64), out: &mut [u64]) {
        if self.width == 0 || lo > self.widest() {
            mask::set_all(out, rows, lo == 0);
        } else {
            packed::between(self.width, self.words, start, rows, lo, hi.min(self.widest()), out);
        }
    }

    /// The mask of the codes that have a bit in a set, which has one for every code of the width.
    pub(super) fn in_set(self, start: usize, rows: usize, set: &[u64], out: &mut [u64]) {
        if self.width == 0 {
            mask::set_all(out, rows, set.first().is_some_and(|word| word & 1 == 1));
        } else {
            packed::in_set(self.width, self.words, start, rows, set, out);
        }
    }

    /// Writes `base + code` for the rows at ascending places behind row `start`.
    pub(super) fn gather(self, start: usize, places: &[u16], base: i64, out: &mut [i64]) {
        if self.width == 0 {
            out.fill(base);
        } else {
            packed::gather(self.width, self.words, start, places, base, out);
        }
    }

    pub(super) fn sum(self, start: usize, rows: usize, mask: Option<&[u64]>) -> u128 {
        match mask {
            _ if self.width == 0 => 0,
            Some(mask) => packed::sum_masked(self.width, self.words, start, rows, mask),
            None => packed::sum(self.width, self.words, start, rows),
        }
    }

    pub(super) fn min_max(self, start: usize, rows: usize, mask: Option<&[u64]>) -> Option<(u64, u64)> {
        match mask {
            _ if self.width == 0 => (mask.map_or(rows, mask::count_ones) > 0).then_some((0, 0)),
            Some(mask) => packed::min_max_masked(self.width, self.words, start, rows, mask),
            None => packed::min_max(self.width, self.words, start, rows),
        }
    }
}
