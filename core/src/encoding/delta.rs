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
//! unit's differences: a filter searches the bases, and decodes the two units where a range begins and ends.

use std::sync::Arc;

use arrow_buffer::Buffer;

use super::{
    Costs, Encodings, KeyColumn, KeyEncoding, KeyTest, SizeEstimate, UNIT_ROWS,
    bytes::{ALIGNMENT, HEAD, Head, Reader, Writer, align, bits, count, ensure},
    chooser, fallback, mask,
    open::open_below,
    packed,
    stats::KeyStats,
};
use crate::{error::Result, keys::Native, limits::BATCH_ROWS};

/// The encoding.
pub(super) struct Delta;

const FIXED: usize = HEAD + 4;

/// The bases are searched: by nothing slower than bit-packing.
const LEVEL_OF_BASES: u8 = 1;

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
        let column = Column { buffer, sorted: head.params[0] == 1, bases, differences };
        if column.sorted {
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
    fn partition_point(&self, start: usize, rows: usize, passes: impl Fn(i64) -> bool) -> usize {
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
        let mut keys = [0; UNIT_ROWS];
        let keys = &mut keys[..UNIT_ROWS.min(start + rows - unit)];
        self.decode(unit, keys);
        unit - start + keys.partition_point(|&key| passes(key))
    }

    fn filter_range(&self, start: usize, rows: usize, (lo, hi): (i64, i64), out: &mut [u64]) {
        if !self.sorted {
            return fallback::filter_range(self, start, rows, (lo, hi), out);
        }
        mask::set_all(out, rows, false);
        if lo <= hi {
            let from = self.partition_point(start, rows, |key| key < lo);
            let to = self.partition_point(start, rows, |key| key <= hi);
            mask::set_range(out, from, to);
        }
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
            KeyTest::In(set) => fallback::filter_in(self, start, rows, set, out),
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
        let differences = self.differences.costs();
        // A filter searches or decodes everything; a row is the sum of half a unit.
        let filter = if self.sorted { 5 } else { 500 + differences.filter };
        Costs { filter, look_up: super::LOOK_UP_COST, get: 40 + differences.get }
    }
}

/// A sum modulo 2^64.
#[allow(clippy::cast_possible_truncation, reason = "differences are modulo 2^64, and so is their sum")]
fn low_word(sum: i128) -> i64 {
    sum as i64
}
