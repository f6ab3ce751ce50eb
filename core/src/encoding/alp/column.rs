//! Reading decimals: the work is done on the integers, and the exceptions are patched in after it.

use std::sync::Arc;

use arrow_buffer::Buffer;
use basalt_kernels::{FloatSum, decimals::as_bits, packed::Patch};

use super::{decimals::Decimals, exceptions::Exceptions};
use crate::encoding::{Costs, KeyColumn, KeyTest, LOOK_UP_COST, fallback, floats, mask};

/// What the encoding is called.
pub(super) const NAME: &str = "alp";

/// Rows decoded at a time: integers and floats stay in the L1 cache.
const BATCH: usize = 2 * crate::encoding::UNIT_ROWS;

/// Rows whose exceptions are found at a time, for a sum.
const PIECE: usize = 8 * 1024;

/// A column of decimals.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) buffer: Buffer,
    pub(super) decimals: Decimals,
    pub(super) integers: Arc<dyn KeyColumn>,
    /// The least and the greatest integer.
    pub(super) extremes: (i64, i64),
    pub(super) exceptions: Exceptions,
}

impl Column {
    /// The least integer whose key does not pass, where keys pass up to some key; one above the greatest where all
    /// do.
    fn partition_point(&self, passes: impl Fn(i64) -> bool) -> i64 {
        let (mut from, mut to) = (self.extremes.0, self.extremes.1 + 1);
        while from < to {
            let middle = from + (to - from) / 2;
            if passes(self.decimals.key(middle)) { from = middle + 1 } else { to = middle }
        }
        from
    }

    fn filter_range(&self, start: usize, rows: usize, (lo, hi): (i64, i64), out: &mut [u64]) {
        let from = self.partition_point(|key| key < lo);
        let behind = self.partition_point(|key| key <= hi);
        self.integers.filter(start, rows, &KeyTest::Range { lo: from, hi: behind - 1 }, out);
        let passes = |key| (lo..=hi).contains(&key);
        self.exceptions.each(start, rows, |place, key| mask::set(out, place, passes(key)));
    }

    /// The extremes where some rows are exceptions.
    fn patched_min_max(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> Option<(i64, i64)> {
        let mut plain = mask.map_or_else(|| vec![0; rows.div_ceil(64)], <[u64]>::to_vec);
        if mask.is_none() {
            mask::set_all(&mut plain, rows, true);
        }
        let mut patched = None;
        self.exceptions.each(start, rows, |place, key| {
            if mask::selects(mask, place) {
                patched = fallback::widen(patched, Some((key, key)));
            }
            mask::set(&mut plain, place, false);
        });
        fallback::widen(patched, self.plain_min_max(start, rows, Some(&plain)))
    }

    fn plain_min_max(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> Option<(i64, i64)> {
        let (min, max) = self.integers.min_max(start, rows, mask)?;
        Some((self.decimals.key(min), self.decimals.key(max)))
    }
}

impl KeyColumn for Column {
    fn rows(&self) -> usize {
        self.integers.rows()
    }

    fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    fn name(&self) -> String {
        format!("{}({})", NAME, self.integers.name())
    }

    fn decode(&self, start: usize, out: &mut [i64]) {
        for (start, out) in (start..).step_by(BATCH).zip(out.chunks_mut(BATCH)) {
            self.integers.decode(start, out);
            self.decimals.write_keys(out);
        }
        self.exceptions.each(start, out.len(), |place, key| out[place] = key);
    }

    fn decode_floats(&self, start: usize, out: &mut [f64]) {
        for (start, out) in (start..).step_by(BATCH).zip(out.chunks_mut(BATCH)) {
            let out = as_bits(out);
            self.integers.decode(start, out);
            self.decimals.write_floats(out);
        }
        self.exceptions.each(start, out.len(), |place, key| out[place] = self.decimals.float(key));
    }

    fn get(&self, row: usize) -> i64 {
        self.exceptions.get(row).unwrap_or_else(|| self.decimals.key(self.integers.get(row)))
    }

    fn gather(&self, start: usize, places: &[u16], out: &mut [i64]) {
        self.integers.gather(start, places, out);
        self.decimals.write_keys(out);
        self.exceptions.each_at(start, places, |at, key| out[at] = key);
    }

    fn gather_floats(&self, start: usize, places: &[u16], out: &mut [f64]) {
        let integers = as_bits(out);
        self.integers.gather(start, places, integers);
        self.decimals.write_floats(integers);
        self.exceptions.each_at(start, places, |at, key| out[at] = self.decimals.float(key));
    }

    fn filter(&self, start: usize, rows: usize, test: &KeyTest, out: &mut [u64]) {
        match test {
            KeyTest::Range { lo, hi } => self.filter_range(start, rows, (*lo, *hi), out),
            KeyTest::In(set) => fallback::filter_in(self, start, rows, set, out),
        }
    }

    fn sum(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> i128 {
        fallback::sum(self, start, rows, mask)
    }

    fn sum_floats(&self, start: usize, rows: usize, mask: Option<&[u64]>, sum: &mut FloatSum) {
        if floats::sum_few(start, rows, mask, sum, |places, out| self.gather_floats(start, places, out)) {
            return;
        }
        let mut patches = Vec::new();
        for at in (0..rows).step_by(PIECE) {
            let n = (rows - at).min(PIECE);
            let mask = mask.map(|mask| &mask[at / 64..][..n.div_ceil(64)]);
            patches.clear();
            self.exceptions
                .each(start + at, n, |row, key| patches.push(Patch { row, float: self.decimals.float(key) }));
            self.integers.sum_decimals(start + at, n, mask, self.decimals.of_codes(), &patches, sum);
        }
    }

    fn min_max(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> Option<(i64, i64)> {
        if self.exceptions.any(start, rows) {
            return self.patched_min_max(start, rows, mask);
        }
        self.plain_min_max(start, rows, mask)
    }

    fn costs(&self) -> Costs {
        costs(self.integers.costs())
    }
}

/// What a column costs to read whose integers cost so much.
pub(super) fn costs(integers: Costs) -> Costs {
    Costs { filter: integers.filter + 20, look_up: LOOK_UP_COST, get: integers.get + 10 }
}
