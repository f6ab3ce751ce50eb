//! Floats that are decimals, as integers (ALP: Afroozeh, Kuffo and Boncz, "ALP: Adaptive Lossless Floating-Point
//! Compression", SIGMOD 2024). A float is `integer * 10^factor * 10^-exponent`, rounded to float64 after each product
//! (a float32 once more), with powers that are the column's; floats that do not come back bit for bit so, NaN,
//! infinities and -0.0 among them, are exceptions with keys of their own.
//!
//! | byte | what |
//! |---|---|
//! | 0..8 | head; the parameters are the exponent and the factor |
//! | 8..12 | bytes of the integers, u32 |
//! | 12.. | the number of exceptions of each block of 65,536 rows, u32 |
//! | ... | the row in its block of each exception, ascending, u16 |
//! | align 64 | the integers, between -2^51 and 2^51; any where an exception is |
//! | align 64 | the keys of the exceptions; absent where there is none |
//!
//! Integers order as their floats do: a range of keys is a range of integers.

mod column;
mod decimals;
mod exceptions;

use std::sync::Arc;

use arrow_buffer::Buffer;

use self::{
    column::Column,
    decimals::{Decimals, LIMIT},
    exceptions::Exceptions,
};
use super::{
    Costs, Encodings, KeyColumn, KeyEncoding, SizeEstimate,
    bytes::{ALIGNMENT, HEAD, Head, Reader, Writer, align, corrupt, count, ensure},
    chooser,
    open::open_below,
    stats::KeyStats,
};
use crate::{
    error::Result,
    keys::Native,
    limits::{BLOCK_ROWS, FRAGMENT_BLOCKS},
};

/// The encoding.
pub(super) struct Alp;

/// How far the sample may be wrong: one part in so many of the estimate.
const ERROR: usize = 32;

/// Bytes before the integers.
fn positions_end(rows: usize, exceptions: usize) -> usize {
    align(HEAD + 4 + 4 * rows.div_ceil(BLOCK_ROWS) + 2 * exceptions)
}

/// The statistics of the integers as they are in the sample, and the keys that are exceptions there.
fn sampled(decimals: Decimals, stats: &KeyStats) -> (KeyStats, Vec<i64>) {
    let mut exceptions = Vec::new();
    let integers = stats.sample.iter();
    let integers =
        integers.map(|keys| decimals.integers(keys, |_, key| exceptions.push(key)).into()).collect();
    (KeyStats::of_sample(integers, stats.rows, Native::I64), exceptions)
}

impl KeyEncoding for Alp {
    fn code(&self) -> u8 {
        10
    }

    fn name(&self) -> &'static str {
        column::NAME
    }

    fn level(&self) -> u8 {
        6
    }

    fn estimate(&self, stats: &KeyStats, inner: &Encodings) -> Option<SizeEstimate> {
        stats.native.infinity()?;
        let Some(decimals) = Decimals::of_sample(&stats.sample, stats.native) else {
            let exceptions = stats.rows * (2 + stats.native.width());
            return Some(SizeEstimate::inexact(self.name(), exceptions, ERROR).only_if_forced());
        };
        let (integers, exceptions) = sampled(decimals, stats);
        let sampled: usize = stats.sample.iter().map(|keys| keys.len()).sum();
        let same = exceptions.windows(2).all(|pair| pair[0] == pair[1]);
        let exceptions = (exceptions.len() * stats.rows).div_ceil(sampled);
        let keys = if same { 0 } else { exceptions * stats.native.width() };
        let integers = chooser::least_estimate(inner, self.level(), &integers)?.bytes;
        Some(SizeEstimate::inexact(
            self.name(),
            positions_end(stats.rows, exceptions) + integers + keys,
            ERROR,
        ))
    }

    fn expected_costs(&self, stats: &KeyStats, inner: &Encodings) -> Option<Costs> {
        let (integers, _) = sampled(Decimals::of_sample(&stats.sample, stats.native)?, stats);
        chooser::expected_costs(inner, self.level(), &integers).map(column::costs)
    }

    fn encode(&self, keys: &[i64], stats: &KeyStats, inner: &Encodings) -> Result<Buffer> {
        let decimals = Decimals::of_sample(&stats.sample, stats.native);
        let decimals = decimals.or_else(|| Decimals::new(0, 0, stats.native));
        let decimals = decimals.ok_or_else(|| corrupt("only floats are decimals"))?;
        let mut counts = [0_u32; FRAGMENT_BLOCKS];
        let (mut positions, mut exceptions) = (Vec::<u16>::new(), Vec::new());
        let integers = decimals.integers(keys, |row, key| {
            counts[row / BLOCK_ROWS] += 1;
            positions.push(position(row));
            exceptions.push(key);
        });
        let integers = chooser::choose_below(inner, self.level(), &integers, Native::I64)?;
        let exceptions = match exceptions.as_slice() {
            [] => None,
            keys => Some(chooser::choose_below(inner, self.level(), keys, stats.native)?),
        };
        let exceptions = exceptions.as_ref().map_or(&[][..], |keys| keys.buffer().as_slice());
        let bytes =
            positions_end(keys.len(), positions.len()) + align(integers.buffer().len()) + exceptions.len();
        let head = Head::keys(self.code(), stats.native, [decimals.exponent, decimals.factor], keys.len());
        let mut writer = Writer::new(head, bytes);
        writer.put(count(integers.buffer().len()));
        writer.slice(&counts[..keys.len().div_ceil(BLOCK_ROWS)]);
        writer.slice(&positions);
        writer.align(ALIGNMENT);
        writer.slice(integers.buffer().as_slice());
        if !exceptions.is_empty() {
            writer.align(ALIGNMENT);
            writer.slice(exceptions);
        }
        Ok(writer.finish())
    }

    fn open(&self, buffer: Buffer, inner: &Encodings) -> Result<Arc<dyn KeyColumn>> {
        let (head, native, mut reader) = Reader::keys(buffer.clone())?;
        let [exponent, factor] = head.params;
        let decimals =
            Decimals::new(exponent, factor, native).ok_or_else(|| corrupt("unknown powers of ten"))?;
        let integers = reader.u32()? as usize;
        let mut before = vec![0];
        let mut exceptions = 0;
        for first in (0..head.rows).step_by(BLOCK_ROWS) {
            let n = reader.u32()? as usize;
            ensure(n <= head.rows - first, "a block has more exceptions than rows")?;
            exceptions += n;
            before.push(exceptions);
        }
        let positions = reader.section(exceptions)?;
        reader.align(ALIGNMENT)?;
        let integers = open_below(inner, reader.skip(integers)?, self.level())?;
        let keys = if exceptions > 0 {
            reader.align(ALIGNMENT)?;
            let keys = open_below(inner, reader.rest()?, self.level())?;
            ensure(keys.key_type() == native, "the exceptions are of another type")?;
            Some(keys)
        } else {
            reader.finish()?;
            None
        };
        ensure(integers.rows() == head.rows, "the integers have other rows than the column")?;
        let exceptions = Exceptions::new(head.rows, before, positions, keys)?;
        let extremes = integers.min_max(0, head.rows, None);
        let extremes = extremes.filter(|&(min, max)| -LIMIT < min && max < LIMIT);
        let extremes = extremes.ok_or_else(|| corrupt("an integer is out of bounds"))?;
        Ok(Arc::new(Column { buffer, decimals, integers, extremes, exceptions }))
    }
}

/// A row's place in its block.
#[allow(clippy::cast_possible_truncation, reason = "a block has 2^16 rows")]
fn position(row: usize) -> u16 {
    (row % BLOCK_ROWS) as u16
}
