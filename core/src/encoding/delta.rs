//! Frame of reference over differences, for sorted keys and for those that change little from row to row: in
//! each unit of 512 rows the first key, and from every row the difference to the next, each a column of its own.
//!
//! | byte | what |
//! |---|---|
//! | 0..8 | head; the first parameter is 1 where the keys are sorted |
//! | 8..12 | bytes of the bases, u32 |
//! | align 64 | the first key of each unit |
//! | align 64 | for each row the next row's key less its own, modulo 2^64; anything for the last row |
//!
//! Where the keys are sorted, no difference is negative, and every base is the sum of the one before and of its
//! unit's differences: a filter searches the bases, and decodes the two units where a range begins and ends, or those
//! that may hold the keys of a set.
//!
//! Other keys mostly lie between the bases of their unit and the next, or not far beyond. How far at most is found out for
//! each block by the first filter that decodes all of it; later ones decode the units alone that may hold what they look
//! for.

use std::sync::{Arc, OnceLock};

use arrow_buffer::Buffer;

use super::{
    Costs, Encodings, KeyColumn, KeyEncoding, KeyTest, Members, SizeEstimate, UNIT_ROWS,
    block_stats::extremes,
    bytes::{ALIGNMENT, HEAD, Head, Reader, Writer, align, bits, count, ensure},
    chooser, fallback, mask,
    open::open_below,
    packed,
    stats::KeyStats,
};
use crate::{
    error::Result,
    keys::Native,
    limits::{BATCH_ROWS, BLOCK_ROWS},
};

/// The encoding.
pub(super) struct Delta;

const FIXED: usize = HEAD + 4;

/// The bases are searched: by nothing slower than bit-packing.
const LEVEL_OF_BASES: u8 = 1;

/// Keys of a set are searched one by one where they are at most this part of the rows; more are looked up for all rows.
const SEARCHED: usize = 64;

/// Units of a block.
const UNITS: usize = BLOCK_ROWS / UNIT_ROWS;

/// How far the sample may be wrong: one part in so many of the estimate.
const ERROR: usize = 32;

/// Bytes before the differences.
fn bases_end(bases: usize) -> usize {
    align(align(FIXED) + bases)
}

/// From every row the difference to the next.
fn differences(keys: &[i64]) -> impl Iterator<Item = i64> {
    keys.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]))
}

/// The differences between the keys of the sample.
fn sample(stats: &KeyStats) -> Vec<Box<[i64]>> {
    stats.sample.iter().map(|keys| differences(keys).collect()).collect()
}

/// The bytes of the differences, each as long as it is, its sign included: more than they need where they spread
/// around anything but zero, and far more than the keys themselves where those are random.
fn rough_bytes(stats: &KeyStats, sample: &[Box<[i64]>]) -> usize {
    let length = |difference: &i64| bits((difference << 1 ^ difference >> 63).cast_unsigned()) as usize;
    let total: usize = sample.iter().flatten().map(length).sum();
    total * stats.rows / sample.iter().map(|piece| piece.len()).sum::<usize>().max(1) / 8
}

/// Whether the differences look as scattered as long ones mostly are: the few steps of a pattern are not, however
/// long they are.
fn scattered(sample: &[Box<[i64]>]) -> bool {
    let mut piece = sample[sample.len() / 2].to_vec();
    piece.sort_unstable();
    piece.dedup();
    piece.len() > UNIT_ROWS / 16
}

impl KeyEncoding for Delta {
    fn code(&self) -> u8 {
        9
    }

    fn name(&self) -> &'static str {
        "delta"
    }

    fn level(&self) -> u8 {
        5
    }

    fn least_cost(&self) -> u64 {
        40
    }

    fn estimate(&self, stats: &KeyStats, inner: &Encodings) -> Option<SizeEstimate> {
        let sample = sample(stats);
        if sample.iter().all(|piece| piece.is_empty()) {
            return None;
        }
        let bases = bases_end(packed::flat_bytes(stats.span(), stats.rows.div_ceil(UNIT_ROWS)));
        let packed = packed::bytes(&stats.blocks);
        // Differences that are hardly shorter than the keys are not worth to be tried.
        let most = packed - packed / 16;
        let rough = rough_bytes(stats, &sample);
        if rough >= most && (packed <= stats.rows || scattered(&sample)) {
            return Some(SizeEstimate::inexact(self.name(), bases + rough, ERROR).only_if_forced());
        }
        let differences = KeyStats::of_sample(sample, stats.rows, Native::I64);
        let bytes = bases + chooser::least_estimate(inner, self.level(), &differences)?.bytes;
        let estimate = SizeEstimate::inexact(self.name(), bytes, ERROR);
        Some(if bytes < most { estimate } else { estimate.only_if_forced() })
    }

    fn expected_costs(&self, stats: &KeyStats, inner: &Encodings) -> Option<Costs> {
        let sample = sample(stats);
        if sample.iter().all(|piece| piece.is_empty()) {
            return None;
        }
        let differences = KeyStats::of_sample(sample, stats.rows, Native::I64);
        let differences = chooser::expected_costs(inner, self.level(), &differences)?;
        Some(costs(stats.sorted, differences))
    }

    fn encode(&self, keys: &[i64], stats: &KeyStats, inner: &Encodings) -> Result<Buffer> {
        let bases: Vec<i64> = keys.iter().step_by(UNIT_ROWS).copied().collect();
        let mut differences: Vec<i64> = differences(keys).collect();
        // Default: any difference will do, for it leads nowhere.
        differences.push(differences.last().copied().unwrap_or(0));
        let sorted = keys.is_sorted() && differences.iter().all(|&difference| difference >= 0);
        let bases = chooser::choose_below(inner, LEVEL_OF_BASES, &bases, stats.native)?;
        let differences = chooser::choose_below(inner, self.level(), &differences, Native::I64)?;
        let bytes = bases_end(bases.buffer().len()) + differences.buffer().len();
        let head = Head::keys(self.code(), stats.native, [sorted.into(), 0], keys.len());
        let mut writer = Writer::new(head, bytes);
        writer.put(count(bases.buffer().len()));
        writer.align(ALIGNMENT);
        writer.slice(bases.buffer().as_slice());
        writer.align(ALIGNMENT);
        writer.slice(differences.buffer().as_slice());
        Ok(writer.finish())
    }

    fn open(&self, buffer: Buffer, inner: &Encodings) -> Result<Arc<dyn KeyColumn>> {
        let (head, native, mut reader) = Reader::keys(buffer.clone())?;
        ensure(head.params[0] <= 1 && head.params[1] == 0, "unknown parameters")?;
        let bases = reader.u32()? as usize;
        reader.align(ALIGNMENT)?;
        let bases = open_below(inner, reader.skip(bases)?, LEVEL_OF_BASES)?;
        reader.align(ALIGNMENT)?;
        let differences = open_below(inner, reader.rest()?, self.level())?;
        let same = differences.rows() == head.rows && bases.rows() == head.rows.div_ceil(UNIT_ROWS);
        ensure(same, "the differences have other rows than the column")?;
        let spreads = (0..head.rows.div_ceil(BLOCK_ROWS)).map(|_| OnceLock::new()).collect();
        let column = Column { buffer, sorted: head.params[0] == 1, bases, differences, spreads };
        if column.sorted && !inner.made {
            column.check_sorted(native)?;
        }
        Ok(Arc::new(column))
    }
}

#[derive(Debug)]
struct Column {
    buffer: Buffer,
    sorted: bool,
    bases: Arc<dyn KeyColumn>,
    differences: Arc<dyn KeyColumn>,
    /// How far keys lie beyond the bases, for each block: of keys that are not sorted, once it is known.
    spreads: Vec<OnceLock<Spread>>,
}

/// How far the keys of a block's units lie below the lesser, and above the greater, of the base and the one after it.
#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    below: u64,
    above: u64,
}

/// The unit that was decoded last.
struct Unit {
    number: usize,
    keys: [i64; UNIT_ROWS],
}

impl Column {
    /// That the keys are sorted, and of their type.
    fn check_sorted(&self, native: Native) -> Result<()> {
        let rows = self.rows();
        let descends = self.differences.min_max(0, rows, None).is_none_or(|(min, _)| min < 0);
        let mut last = i128::from(self.bases.get(0));
        let mut joined = true;
        for (unit, start) in (0..rows).step_by(UNIT_ROWS).enumerate() {
            joined &= last == i128::from(self.bases.get(unit));
            // The difference of the last row leads nowhere.
            let n = UNIT_ROWS.min(rows - 1 - start);
            last += if n > 0 { self.differences.sum(start, n, None) } else { 0 };
        }
        ensure(!descends && joined && last <= i128::from(native.key_range().1), "the keys are not sorted")
    }

    /// Replaces the differences of the rows from `start` on, the beginning of a unit, by their keys.
    fn add_up(&self, start: usize, differences: &mut [i64]) {
        for (unit, differences) in (start / UNIT_ROWS..).zip(differences.chunks_mut(UNIT_ROWS)) {
            let mut key = self.bases.get(unit);
            for difference in differences {
                key = key.wrapping_add(std::mem::replace(difference, key));
            }
        }
    }

    /// How many of the rows from `start` on, which are sorted, come before the first whose key does not pass.
    fn partition_point(
        &self,
        start: usize,
        rows: usize,
        last: &mut Unit,
        passes: impl Fn(i64) -> bool,
    ) -> usize {
        let first = start / UNIT_ROWS;
        let (mut from, mut to) = (first, (start + rows).div_ceil(UNIT_ROWS));
        while from < to {
            let middle = usize::midpoint(from, to);
            if passes(self.bases.get(middle)) { from = middle + 1 } else { to = middle }
        }
        if from == first {
            return 0;
        }
        // Nothing is decoded where the first key behind the rows passes, and they do so with it.
        if from == (start + rows).div_ceil(UNIT_ROWS)
            && from < self.bases.rows()
            && passes(self.bases.get(from))
        {
            return rows;
        }
        let unit = (from - 1) * UNIT_ROWS;
        let n = UNIT_ROWS.min(start + rows - unit);
        if last.number != from {
            self.decode(unit, &mut last.keys[..n]);
            last.number = from;
        }
        unit - start + last.keys[..n].partition_point(|&key| passes(key))
    }

    fn filter_range(&self, start: usize, rows: usize, (lo, hi): (i64, i64), out: &mut [u64]) {
        if !self.sorted {
            return self.filter_units(start, rows, &KeyTest::Range { lo, hi }, out);
        }
        mask::set_all(out, rows, false);
        if lo <= hi {
            self.set_range(start, rows, &mut Unit::none(), (lo, hi), out);
        }
    }

    /// Adds the rows, which are sorted, whose keys are in a range.
    fn set_range(&self, start: usize, rows: usize, last: &mut Unit, (lo, hi): (i64, i64), out: &mut [u64]) {
        let from = self.partition_point(start, rows, last, |key| key < lo);
        let to = self.partition_point(start, rows, last, |key| key <= hi);
        mask::set_range(out, from, to);
    }

    fn filter_in(&self, start: usize, rows: usize, set: &Arc<Members>, out: &mut [u64]) {
        if !self.sorted {
            return self.filter_units(start, rows, &KeyTest::In(Arc::clone(set)), out);
        }
        // No row of another block is needed to know which keys come into question.
        let end = (start + rows).div_ceil(UNIT_ROWS);
        let greatest = if end < self.bases.rows() { self.bases.get(end) } else { i64::MAX };
        let range = (self.bases.get(start / UNIT_ROWS), greatest);
        let Some(keys) = set.keys_between(range, rows / SEARCHED) else {
            return fallback::filter_in(self, start, rows, set, out);
        };
        mask::set_all(out, rows, false);
        let mut last = Unit::none();
        keys.iter().for_each(|key| self.set_range(start, rows, &mut last, (*key, *key), out));
    }

    /// A filter of keys that are not sorted: of those units alone that may have keys that pass, once it is known how far
    /// the keys of a block lie beyond the bases.
    fn filter_units(&self, start: usize, rows: usize, test: &KeyTest, out: &mut [u64]) {
        let (block, first) = (start / BLOCK_ROWS, start / UNIT_ROWS);
        let units = rows.div_ceil(UNIT_ROWS);
        if (start + rows - 1) / BLOCK_ROWS != block {
            return self.filter_all(start, rows, test, out);
        }
        let mut bases = [0; UNITS + 1];
        let bases = &mut bases[..(units + 1).min(self.bases.rows() - first)];
        self.read_bases(first, bases);
        let Some(spread) = self.spreads[block].get() else {
            if start.is_multiple_of(BLOCK_ROWS) && rows == BLOCK_ROWS.min(self.rows() - start) {
                let _ = self.spreads[block].set(self.spread(start, rows, bases));
            }
            return self.filter_all(start, rows, test, out);
        };
        for unit in 0..units {
            let (at, n) = (unit * UNIT_ROWS, UNIT_ROWS.min(rows - unit * UNIT_ROWS));
            let out = &mut out[at / 64..][..n.div_ceil(64)];
            let (least, greatest) = between(bases, unit);
            let (least, greatest) =
                (least.saturating_sub_unsigned(spread.below), greatest.saturating_add_unsigned(spread.above));
            let (none, all) = match test {
                KeyTest::Range { lo, hi } => (greatest < *lo || least > *hi, *lo <= least && greatest <= *hi),
                KeyTest::In(set) => set.among(least, greatest),
            };
            if none || all {
                mask::set_all(out, n, all && !none);
                continue;
            }
            let mut keys = [0; UNIT_ROWS];
            let keys = &mut keys[..n];
            self.decode(start + at, keys);
            test.test(keys, out);
        }
    }

    /// The same where all units are decoded.
    fn filter_all(&self, start: usize, rows: usize, test: &KeyTest, out: &mut [u64]) {
        match test {
            KeyTest::Range { lo, hi } => fallback::filter_range(self, start, rows, (*lo, *hi), out),
            KeyTest::In(set) => fallback::filter_in(self, start, rows, set, out),
        }
    }

    /// How far the keys of a block lie beyond its bases and the one behind them, if there is one.
    fn spread(&self, start: usize, rows: usize, bases: &[i64]) -> Spread {
        let (mut spread, mut keys) = (Spread::default(), [0; BATCH_ROWS]);
        for at in (0..rows).step_by(BATCH_ROWS) {
            let keys = &mut keys[..BATCH_ROWS.min(rows - at)];
            self.decode(start + at, keys);
            for (unit, keys) in (at / UNIT_ROWS..).zip(keys.chunks(UNIT_ROWS)) {
                let (least, greatest) = between(bases, unit);
                let (min, max) = extremes(keys);
                spread.below = spread.below.max(if min < least { least.abs_diff(min) } else { 0 });
                spread.above = spread.above.max(if max > greatest { max.abs_diff(greatest) } else { 0 });
            }
        }
        spread
    }

    /// Writes bases from a unit on, which need not be the first of any unit of bases.
    fn read_bases(&self, first: usize, out: &mut [i64]) {
        out.iter_mut().zip(first..).for_each(|(out, unit)| *out = self.bases.get(unit));
    }
}

/// The lesser and the greater of a unit's base and the next, if there is one.
fn between(bases: &[i64], unit: usize) -> (i64, i64) {
    // Default: of the last unit of all there is no other.
    let (base, next) = (bases[unit], bases.get(unit + 1).copied().unwrap_or(bases[unit]));
    (base.min(next), base.max(next))
}

impl Unit {
    /// None yet: units are counted from one.
    fn none() -> Self {
        Self { number: 0, keys: [0; UNIT_ROWS] }
    }
}

impl KeyColumn for Column {
    fn rows(&self) -> usize {
        self.differences.rows()
    }

    fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    fn name(&self) -> String {
        format!("{}({})", Delta.name(), self.differences.name())
    }

    fn decode(&self, start: usize, out: &mut [i64]) {
        for (start, out) in (start..).step_by(BATCH_ROWS).zip(out.chunks_mut(BATCH_ROWS)) {
            self.differences.decode(start, out);
            self.add_up(start, out);
        }
    }

    fn get(&self, row: usize) -> i64 {
        let base = self.bases.get(row / UNIT_ROWS);
        match row % UNIT_ROWS {
            0 => base,
            n => base.wrapping_add(low_word(self.differences.sum(row - n, n, None))),
        }
    }

    fn filter(&self, start: usize, rows: usize, test: &KeyTest, out: &mut [u64]) {
        match test {
            KeyTest::Range { lo, hi } => self.filter_range(start, rows, (*lo, *hi), out),
            KeyTest::In(set) => self.filter_in(start, rows, set, out),
        }
    }

    fn sum(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> i128 {
        fallback::sum(self, start, rows, mask)
    }

    fn min_max(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> Option<(i64, i64)> {
        if !self.sorted {
            return fallback::min_max(self, start, rows, mask);
        }
        let (first, last) = match mask {
            None => (0, rows - 1),
            Some(mask) => mask::ends(mask)?,
        };
        Some((self.get(start + first), self.get(start + last)))
    }

    fn costs(&self) -> Costs {
        costs(self.sorted, self.differences.costs())
    }
}

/// What a column costs to read whose differences cost so much.
fn costs(sorted: bool, differences: Costs) -> Costs {
    // A filter searches or decodes everything; a row is the sum of half a unit.
    let filter = if sorted { 5 } else { 500 + differences.filter };
    Costs { filter, look_up: super::LOOK_UP_COST, get: 40 + differences.get }
}

/// A sum modulo 2^64.
#[allow(clippy::cast_possible_truncation, reason = "differences are modulo 2^64, and so is their sum")]
fn low_word(sum: i128) -> i64 {
    sum as i64
}
