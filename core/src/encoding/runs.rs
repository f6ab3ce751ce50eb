//! Runs of equal keys: the key of each run and the row behind its last, each a column of its own.
//!
//! | byte | what |
//! |---|---|
//! | 0..8 | head |
//! | 8..12 | bytes of the ends, u32 |
//! | align 64 | the ends, ascending, the last is the number of rows |
//! | align 64 | the keys |

use std::sync::Arc;

use arrow_buffer::Buffer;

use super::{
    Bid, Costs, KeyColumn, KeyEncoding, KeyTest,
    bytes::{ALIGNMENT, HEAD, Head, Reader, Writer, align, count, ensure, index},
    chooser, fallback, mask, packed,
    stats::KeyStats,
};
use crate::{error::Result, keys::Native, limits::BATCH_ROWS};

/// The encoding.
pub(super) struct Runs;

const FIXED: usize = HEAD + 4;

/// The ends are searched: by nothing slower than bit-packing.
const LEVEL_OF_ENDS: u8 = 1;

/// Bytes before the keys.
fn ends_end(ends: usize) -> usize {
    align(align(FIXED) + ends)
}

impl KeyEncoding for Runs {
    fn code(&self) -> u8 {
        4
    }

    fn name(&self) -> &'static str {
        "runs"
    }

    fn level(&self) -> u8 {
        3
    }

    fn bid(&self, stats: &KeyStats) -> Option<Bid> {
        let plain = |width: usize| ALIGNMENT + width * stats.runs;
        let ends = packed::flat_bytes(stats.rows as u64, stats.runs).min(plain(4));
        let keys = packed::flat_bytes(stats.span(), stats.runs).min(plain(stats.native.width()));
        (stats.runs < stats.rows).then(|| Bid::estimate(self.name(), ends_end(ends) + keys, 8))
    }

    fn encode(&self, keys: &[i64], stats: &KeyStats) -> Result<Buffer> {
        let (mut ends, mut values) = (Vec::with_capacity(stats.runs), Vec::with_capacity(stats.runs));
        let mut end = 0;
        for run in keys.chunk_by(|a, b| a == b) {
            end += run.len();
            ends.push(i64::from(count(end)));
            values.push(run[0]);
        }
        let ends = chooser::choose_below(LEVEL_OF_ENDS, &ends, Native::U32)?;
        let values = chooser::choose_below(self.level(), &values, stats.native)?;
        let bytes = ends_end(ends.buffer().len()) + values.buffer().len();
        let mut writer = Writer::new(Head::keys(self.code(), stats.native, [0; 2], keys.len()), bytes);
        writer.put(count(ends.buffer().len()));
        writer.align(ALIGNMENT);
        writer.slice(ends.buffer().as_slice());
        writer.align(ALIGNMENT);
        writer.slice(values.buffer().as_slice());
        Ok(writer.finish())
    }

    fn open(&self, buffer: Buffer) -> Result<Arc<dyn KeyColumn>> {
        let (head, _, mut reader) = Reader::keys(buffer.clone())?;
        let ends = reader.u32()? as usize;
        reader.align(ALIGNMENT)?;
        let ends = super::open_below(reader.skip(ends)?, LEVEL_OF_ENDS)?;
        reader.align(ALIGNMENT)?;
        let keys = super::open_below(reader.rest()?, self.level())?;
        ensure(ends.rows() == keys.rows(), "the runs have other keys than ends")?;
        let mut last = 0;
        let mut batch = vec![0; ends.rows().min(BATCH_ROWS)];
        for start in (0..ends.rows()).step_by(BATCH_ROWS) {
            let batch = &mut batch[..(ends.rows() - start).min(BATCH_ROWS)];
            ends.decode(start, batch);
            ensure(
                batch[0] > last && batch.is_sorted_by(|a, b| a < b),
                "the ends of the runs are not in order",
            )?;
            last = batch[batch.len() - 1];
        }
        ensure(last == count(head.rows).into(), "the runs do not hold the rows")?;
        Ok(Arc::new(Column { buffer, rows: head.rows, ends, keys }))
    }
}

#[derive(Debug)]
struct Column {
    buffer: Buffer,
    rows: usize,
    ends: Arc<dyn KeyColumn>,
    keys: Arc<dyn KeyColumn>,
}

/// Runs read at a time.
const BATCH: usize = super::UNIT_ROWS;

impl Column {
    fn end(&self, run: usize) -> usize {
        index(self.ends.get(run).cast_unsigned())
    }

    /// The run that holds `row`.
    fn find(&self, row: usize) -> usize {
        let (mut from, mut to) = (0, self.ends.rows());
        while from < to {
            let middle = usize::midpoint(from, to);
            if self.end(middle) <= row { from = middle + 1 } else { to = middle }
        }
        from
    }

    /// Calls `work(key, from, to)` for the part of each run that lies in the rows; places count from `start`.
    fn each_run(&self, start: usize, rows: usize, mut work: impl FnMut(i64, usize, usize)) {
        let stop = start + rows;
        let mut at = start;
        let first = self.find(start);
        let (mut ends, mut keys) = ([0; BATCH], [0; BATCH]);
        // Decoding begins at whole units.
        for unit in (first / BATCH * BATCH..self.ends.rows()).step_by(BATCH) {
            let n = (self.ends.rows() - unit).min(BATCH);
            self.ends.decode(unit, &mut ends[..n]);
            self.keys.decode(unit, &mut keys[..n]);
            for run in first.saturating_sub(unit)..n {
                let end = index(ends[run].cast_unsigned()).min(stop);
                work(keys[run], at - start, end - start);
                at = end;
                if at == stop {
                    return;
                }
            }
        }
    }
}

impl KeyColumn for Column {
    fn rows(&self) -> usize {
        self.rows
    }

    fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    fn name(&self) -> String {
        format!("{}({}, {})", Runs.name(), self.keys.name(), self.ends.name())
    }

    fn decode(&self, start: usize, out: &mut [i64]) {
        self.each_run(start, out.len(), |key, from, to| out[from..to].fill(key));
    }

    fn get(&self, row: usize) -> i64 {
        self.keys.get(self.find(row))
    }

    fn filter(&self, start: usize, rows: usize, test: &KeyTest, out: &mut [u64]) {
        mask::set_all(out, rows, false);
        self.each_run(start, rows, |key, from, to| {
            if test.passes(key) {
                mask::set_range(out, from, to);
            }
        });
    }

    fn sum(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> i128 {
        let mut sum = 0;
        self.each_run(start, rows, |key, from, to| {
            sum += i128::from(key) * mask::count_range(mask, from, to) as i128;
        });
        sum
    }

    fn min_max(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> Option<(i64, i64)> {
        let mut extremes = None;
        self.each_run(start, rows, |key, from, to| {
            if mask::count_range(mask, from, to) > 0 {
                extremes = fallback::widen(extremes, Some((key, key)));
            }
        });
        extremes
    }

    fn costs(&self) -> Costs {
        Costs { filter: 30, get: 60 }
    }
}
