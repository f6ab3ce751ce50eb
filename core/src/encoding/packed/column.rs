//! Reading packed columns: the work is done on the packed codes, and the exceptions are patched in after it.

use std::ops::Range;

use arrow_buffer::{Buffer, ScalarBuffer};
use basalt_kernels::{
    FloatSum,
    decimals::Decimals,
    packed::{Patch, sum_decimals},
};

use crate::{
    encoding::{
        Costs, KeyColumn, KeyTest, LOOK_UP_COST, Members, UNIT_ROWS, bitpack,
        bytes::{ALIGNMENT, Reader, count, ensure},
        fallback, floats, mask,
        member_form::Form,
        rows::each_common,
    },
    error::Result,
    invariant::Invariant,
    limits::{BLOCK_ROWS, BLOCK_WORDS},
};

/// What the encoding is called.
pub(super) const NAME: &str = "packed";

/// Bits of a set that are made for each row that is looked up, at most.
const ROW_BITS: usize = 8;

/// Exceptions that are compared with a row at once.
const WINDOW: usize = 32;

/// A packed column.
#[derive(Debug)]
pub(super) struct Column {
    buffer: Buffer,
    rows: usize,
    words: ScalarBuffer<u64>,
    /// Rows of the exceptions in their blocks, and their high bits.
    positions: ScalarBuffer<u16>,
    highs: Buffer,
    blocks: Vec<Block>,
}

/// One block: which parts of the sections are its own.
#[derive(Clone, Debug)]
struct Block {
    base: i64,
    /// The greatest difference to `base`.
    greatest: u64,
    width: u32,
    rows: usize,
    words: Range<usize>,
    exceptions: Range<usize>,
    /// Exceptions before each unit, and all; empty where there are none.
    units: Vec<u32>,
    high_bytes: usize,
    highs: usize,
}

impl Column {
    pub(super) fn open(buffer: Buffer) -> Result<Self> {
        let (head, _, mut reader) = Reader::keys(buffer.clone())?;
        ensure(head.params == [0; 2], "unknown parameters")?;
        let (mut word, mut exception, mut high) = (0, 0, 0);
        let mut blocks = Vec::with_capacity(head.rows.div_ceil(BLOCK_ROWS));
        for first in (0..head.rows).step_by(BLOCK_ROWS) {
            let base = reader.i64()?;
            let exceptions = reader.u32()? as usize;
            let (width, high_bytes) = (u32::from(reader.u8()?), usize::from(reader.u8()?));
            reader.skip(2)?;
            let rows = (head.rows - first).min(BLOCK_ROWS);
            ensure(width <= 64 && exceptions <= rows, "a block is out of bounds")?;
            let fits = (1..=(64 - width).div_ceil(8) as usize).contains(&high_bytes);
            ensure(exceptions == 0 || fits, "the high bits of a block are out of bounds")?;
            let words = bitpack::words(width, rows);
            blocks.push(Block {
                base,
                greatest: 0,
                width,
                rows,
                words: word..word + words,
                exceptions: exception..exception + exceptions,
                units: Vec::new(),
                high_bytes,
                highs: high,
            });
            (word, exception, high) = (word + words, exception + exceptions, high + exceptions * high_bytes);
        }
        reader.align(ALIGNMENT)?;
        let words = reader.section(word)?;
        let positions = reader.section(exception)?;
        let highs = reader.skip(high)?;
        reader.finish()?;
        let mut column = Self { buffer, rows: head.rows, words, positions, highs, blocks };
        for i in 0..column.blocks.len() {
            column.blocks[i].greatest = column.greatest(&column.blocks[i])?;
            column.blocks[i].units = column.units(&column.blocks[i]);
        }
        Ok(column)
    }

    /// The greatest difference in a block whose exceptions are not yet believed.
    fn greatest(&self, block: &Block) -> Result<u64> {
        let positions = &self.positions[block.exceptions.clone()];
        let ascending = positions.is_sorted_by(|a, b| a < b);
        let inside = positions.last().is_none_or(|&last| usize::from(last) < block.rows);
        ensure(ascending && inside, "the exceptions are not in order")?;
        let room = if block.width == u64::BITS { 0 } else { u64::MAX >> block.width };
        let high = |i| self.high(block, i);
        let fit = block.exceptions.clone().all(|i| (1..=room).contains(&high(i)));
        ensure(fit, "the high bits of an exception are out of bounds")?;
        let packed = self.codes(block).min_max(0, block.rows, None);
        let patched = block.exceptions.clone().map(|i| self.code(block, i)).max();
        let greatest = packed.map(|(_, max)| max).max(patched).invariant("a block has a row");
        ensure(block.base.checked_add_unsigned(greatest).is_some(), "a key overflows")?;
        Ok(greatest)
    }

    /// The exceptions before each unit of a block, and all.
    fn units(&self, block: &Block) -> Vec<u32> {
        if block.exceptions.is_empty() {
            return Vec::new();
        }
        let mut rest = &self.positions[block.exceptions.clone()];
        let mut before = |row: usize| {
            rest = &rest[rest.partition_point(|&position| usize::from(position) < row)..];
            count(block.exceptions.len() - rest.len())
        };
        (0..=block.rows.div_ceil(UNIT_ROWS)).map(|unit| before(unit * UNIT_ROWS)).collect()
    }

    fn codes(&self, block: &Block) -> bitpack::Codes<'_> {
        bitpack::Codes { width: block.width, words: &self.words[block.words.clone()] }
    }

    /// The high bits of an exception.
    fn high(&self, block: &Block, exception: usize) -> u64 {
        let at = block.highs + (exception - block.exceptions.start) * block.high_bytes;
        let mut bytes = [0; 8];
        bytes[..block.high_bytes].copy_from_slice(&self.highs[at..at + block.high_bytes]);
        u64::from_le_bytes(bytes)
    }

    /// The whole difference of an exception.
    fn code(&self, block: &Block, exception: usize) -> u64 {
        let low = self.codes(block).get(usize::from(self.positions[exception]));
        low | self.high(block, exception) << block.width
    }

    /// The exceptions among the rows `from..from + rows` of a block, each with its place behind `from`.
    fn exceptions(&self, block: &Block, from: usize, rows: usize) -> impl Iterator<Item = (usize, usize)> {
        let positions = &self.positions[block.exceptions.clone()];
        let before = |row: usize| {
            let (unit, place) = (row / UNIT_ROWS, row % UNIT_ROWS);
            match (block.units.get(unit), block.units.get(unit + 1)) {
                (Some(from), Some(to)) if place > 0 => {
                    let of_unit = &positions[*from as usize..*to as usize];
                    *from as usize + of_unit.partition_point(|&position| usize::from(position) < row)
                }
                // Default: a block without exceptions has none before any row.
                (from, _) => from.map_or(0, |from| *from as usize),
            }
        };
        let range = before(from)..before(from + rows);
        let first = block.exceptions.start;
        range.map(move |i| (usize::from(positions[i]) - from, first + i))
    }

    /// The exception that a row of a block with exceptions is.
    fn exception(&self, block: &Block, row: usize) -> Option<usize> {
        let before = |unit: usize| block.exceptions.start + block.units[unit] as usize;
        let (from, to) = (before(row / UNIT_ROWS), before(row / UNIT_ROWS + 1));
        let is_row = |position: &u16| usize::from(*position) == row;
        let i = match self.positions[from..].first_chunk::<WINDOW>() {
            // All of them, for how many belong to the unit is hard to foretell.
            Some(window) if to - from <= WINDOW => {
                let found = window.iter().enumerate().map(|(i, position)| u32::from(is_row(position)) << i);
                from + found.fold(0, |found, bit| found | bit).trailing_zeros() as usize
            }
            _ => from + self.positions[from..to].partition_point(|&position| usize::from(position) < row),
        };
        (i < to && is_row(&self.positions[i])).then_some(i)
    }

    /// The blocks that hold the rows, each with its part of them.
    fn parts(&self, start: usize, rows: usize) -> impl Iterator<Item = Part<'_>> {
        let blocks = start / BLOCK_ROWS..(start + rows).div_ceil(BLOCK_ROWS);
        blocks.map(move |i| {
            let first = i * BLOCK_ROWS;
            let from = start.max(first);
            let to = (start + rows).min(first + BLOCK_ROWS);
            Part { block: &self.blocks[i], from: from - first, rows: to - from, at: from - start }
        })
    }

    fn filter_block(&self, part: &Part<'_>, (lo, hi): (i64, i64), out: &mut [u64]) {
        let Part { block, from, rows, .. } = *part;
        if hi < block.base || lo > block.last() || lo > hi {
            return mask::set_all(out, rows, false);
        }
        if lo <= block.base && hi >= block.last() {
            return mask::set_all(out, rows, true);
        }
        let code = |key: i64| key.clamp(block.base, block.last()).wrapping_sub(block.base).cast_unsigned();
        let (lo, hi) = (code(lo), code(hi));
        self.codes(block).between(from, rows, (lo, hi), out);
        for (place, i) in self.exceptions(block, from, rows) {
            mask::set(out, place, (lo..=hi).contains(&self.code(block, i)));
        }
    }

    /// The rows of a part, of which `start` is the first, whose key is in a set: codes are looked up as they are
    /// where the bits for all codes of their width are quickly made.
    fn filter_set(&self, part: &Part<'_>, start: usize, set: &Members, bits: &mut Vec<u64>, out: &mut [u64]) {
        let Part { block, from, rows, .. } = *part;
        let (Some(form @ Form::Bits { .. }), true) = (set.form(), block.width < usize::BITS) else {
            return fallback::filter_in(self, start, rows, set, out);
        };
        let codes = 1_usize << block.width;
        if codes / ROW_BITS > rows {
            return fallback::filter_in(self, start, rows, set, out);
        }
        bits.resize(codes.div_ceil(64), 0);
        form.bits_from(block.base, bits);
        self.codes(block).in_set(from, rows, bits, out);
        for (place, i) in self.exceptions(block, from, rows) {
            mask::set(out, place, set.contains(block.key(self.code(block, i))));
        }
    }

    fn sum_block(&self, part: &Part<'_>, mask: Option<&[u64]>) -> i128 {
        let Part { block, from, rows, .. } = *part;
        let codes = self.codes(block).sum(from, rows, mask);
        let highs: u128 = self
            .exceptions(block, from, rows)
            .filter(|&(place, _)| mask::selects(mask, place))
            .map(|(_, i)| u128::from(self.high(block, i)) << block.width)
            .sum();
        let selected = mask.map_or(rows, mask::count_ones);
        i128::from(block.base) * selected as i128 + (codes + highs).cast_signed()
    }

    /// Patches, and the floats of those exceptions of a block that have none.
    fn with_exceptions(
        &self,
        block: &Block,
        exceptions: impl Iterator<Item = (usize, usize)>,
        decimals: Decimals,
        patches: &[Patch],
    ) -> Vec<Patch> {
        let mut all = Vec::with_capacity(patches.len() + exceptions.size_hint().0);
        let mut patches = patches.iter().copied().peekable();
        for (row, i) in exceptions {
            while let Some(patch) = patches.next_if(|patch| patch.row < row) {
                all.push(patch);
            }
            if patches.peek().is_none_or(|patch| patch.row > row) {
                all.push(Patch { row, float: decimals.float(self.code(block, i)) });
            }
        }
        all.extend(patches);
        all
    }

    fn min_max_block(&self, part: &Part<'_>, mask: Option<&[u64]>) -> Option<(i64, i64)> {
        let Part { block, from, rows, .. } = *part;
        let codes = self.codes(block);
        let patched = || self.exceptions(block, from, rows);
        let extremes = if patched().next().is_some() {
            let mut plain = [0; BLOCK_WORDS];
            let plain = &mut plain[..rows.div_ceil(64)];
            match mask {
                Some(mask) => plain.copy_from_slice(mask),
                None => mask::set_all(plain, rows, true),
            }
            patched().for_each(|(place, _)| mask::set(plain, place, false));
            let codes = codes.min_max(from, rows, Some(plain));
            let selected = patched().filter(|&(place, _)| mask::selects(mask, place));
            selected.map(|(_, i)| self.code(block, i)).fold(codes, |extremes, code| {
                Some(extremes.map_or((code, code), |(min, max)| (min.min(code), max.max(code))))
            })
        } else {
            codes.min_max(from, rows, mask)
        };
        extremes.map(|(min, max)| (block.key(min), block.key(max)))
    }
}

/// Rows of one block.
struct Part<'a> {
    block: &'a Block,
    /// The first row, in the block.
    from: usize,
    rows: usize,
    /// Rows asked for that come before.
    at: usize,
}

impl Part<'_> {
    fn mask<'m>(&self, mask: Option<&'m [u64]>) -> Option<&'m [u64]> {
        mask.map(|mask| &mask[self.at / 64..][..self.rows.div_ceil(64)])
    }
}

impl Block {
    fn key(&self, code: u64) -> i64 {
        self.base.wrapping_add_unsigned(code)
    }

    /// The greatest key.
    fn last(&self) -> i64 {
        self.key(self.greatest)
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
        NAME.to_owned()
    }

    fn decode(&self, start: usize, out: &mut [i64]) {
        for part in self.parts(start, out.len()) {
            let Part { block, from, rows, at } = part;
            let out = &mut out[at..at + rows];
            self.codes(block).unpack(from, block.base, out);
            for (place, i) in self.exceptions(block, from, rows) {
                out[place] = out[place].wrapping_add_unsigned(self.high(block, i) << block.width);
            }
        }
    }

    fn get(&self, row: usize) -> i64 {
        let block = &self.blocks[row / BLOCK_ROWS];
        let row = row % BLOCK_ROWS;
        let low = self.codes(block).get(row);
        if block.exceptions.is_empty() {
            return block.key(low);
        }
        let found = self.exception(block, row);
        block.key(found.map_or(low, |i| low | self.high(block, i) << block.width))
    }

    fn gather(&self, start: usize, places: &[u16], out: &mut [i64]) {
        let (block, from) = (&self.blocks[start / BLOCK_ROWS], start % BLOCK_ROWS);
        self.codes(block).gather(from, places, block.base, out);
        let first = block.exceptions.start;
        each_common(&self.positions[block.exceptions.clone()], places, |exception, at| {
            out[at] = out[at].wrapping_add_unsigned(self.high(block, first + exception) << block.width);
        });
    }

    fn filter(&self, start: usize, rows: usize, test: &KeyTest, out: &mut [u64]) {
        match test {
            KeyTest::Range { lo, hi } => {
                for part in self.parts(start, rows) {
                    let out = &mut out[part.at / 64..][..part.rows.div_ceil(64)];
                    self.filter_block(&part, (*lo, *hi), out);
                }
            }
            KeyTest::In(set) => {
                let mut bits = Vec::new();
                for part in self.parts(start, rows) {
                    let out = &mut out[part.at / 64..][..part.rows.div_ceil(64)];
                    self.filter_set(&part, start + part.at, set, &mut bits, out);
                }
            }
        }
    }

    fn sum(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> i128 {
        self.parts(start, rows).map(|part| self.sum_block(&part, part.mask(mask))).sum()
    }

    fn sum_decimals(
        &self,
        start: usize,
        rows: usize,
        mask: Option<&[u64]>,
        decimals: Decimals,
        patches: &[Patch],
        sum: &mut FloatSum,
    ) {
        let of_one_block = start % BLOCK_ROWS + rows <= BLOCK_ROWS;
        let block = &self.blocks[start / BLOCK_ROWS];
        if !of_one_block || block.width == 0 {
            let decode = |at, out: &mut [i64]| self.decode(start + at, out);
            return floats::sum_decimals(rows, mask, decimals, patches, sum, decode);
        }
        let from = start % BLOCK_ROWS;
        let decimals = Decimals { base: decimals.base.wrapping_add(block.base), ..decimals };
        let selected = |(row, _): &(usize, usize)| mask::selects(mask, *row);
        let mut exceptions = self.exceptions(block, from, rows).filter(selected).peekable();
        let both: Vec<Patch>;
        let patches = if exceptions.peek().is_some() {
            both = self.with_exceptions(block, exceptions, decimals, patches);
            &both
        } else {
            patches
        };
        let words = &self.words[block.words.clone()];
        sum_decimals(block.width, words, from, rows, decimals, mask, patches, sum);
    }

    fn min_max(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> Option<(i64, i64)> {
        let blocks = self.parts(start, rows).map(|part| self.min_max_block(&part, part.mask(mask)));
        blocks.fold(None, fallback::widen)
    }

    fn costs(&self) -> Costs {
        let widest = self.blocks.iter().map(|block| block.width).max().invariant("a column has a block");
        costs(self.words.len(), self.positions.len(), widest, self.rows)
    }
}

/// What a column of so many words and exceptions costs to read.
pub(super) fn costs(words: usize, exceptions: usize, widest: u32, rows: usize) -> Costs {
    // Five picoseconds for a bit of each row, and 7.5 nanoseconds for an exception.
    let filter = count((5 * 64 * words + 7500 * exceptions) / rows);
    // Small sets are looked up a register at a time.
    Costs { filter, look_up: if widest <= 12 { LOOK_UP_COST / 5 } else { LOOK_UP_COST }, get: 2 }
}
