//! Reading entropy coded columns: a block is decoded to its image, and the work is done on that.

use arrow_buffer::{Buffer, ScalarBuffer};
use basalt_kernels::{self as kernels, packed, rans};

use super::{
    image::{Image, is_of_codes},
    wide,
};
use crate::{
    encoding::{
        Costs, KeyColumn, KeyTest,
        bytes::{Reader, ensure, index},
        cache::{Blocks, Id, with_block},
        fallback, mask,
    },
    error::Result,
    invariant::Invariant,
    keys::Native,
    limits::{BLOCK_ROWS, BLOCK_WORDS},
};

/// What the encoding is called.
pub(super) const NAME: &str = "entropy";
/// Keys, at most.
pub(super) const MAX_KEYS: usize = 256;

/// Ranges of codes that are compared one by one; of more, which only codes of a byte have, each row is looked up.
const MAX_RANGES: usize = 8;

/// An entropy coded column.
#[derive(Debug)]
pub(super) struct Column {
    buffer: Buffer,
    id: Id,
    rows: usize,
    /// The keys by code. Every one of them occurs.
    keys: Vec<i64>,
    /// What the keys are apart, where that is the same for all of them.
    step: Option<i64>,
    table: Table,
    blocks: Vec<Block>,
    words: ScalarBuffer<u16>,
}

#[derive(Debug)]
enum Table {
    Nibbles(Box<rans::Table>),
    Codes(ScalarBuffer<u16>),
}

#[derive(Debug)]
struct Block {
    image: Image,
    /// Its words are from here on to those of the next block.
    words: usize,
    /// Steps of the stream's tail.
    tail: usize,
}

/// Rows of one block.
#[derive(Clone, Copy)]
struct Part {
    block: usize,
    /// The first row, in the block.
    from: usize,
    rows: usize,
    /// Rows asked for that come before.
    at: usize,
}

impl Part {
    fn words<'m>(&self, mask: &'m [u64]) -> &'m [u64] {
        &mask[self.at / 64..][..self.rows.div_ceil(64)]
    }
}

/// The image of a block, decoded.
#[derive(Clone, Copy)]
struct Codes<'a> {
    width: u32,
    words: &'a [u64],
    from: usize,
    rows: usize,
}

impl Column {
    pub(super) fn open(buffer: Buffer) -> Result<Self> {
        let (head, native, mut reader) = Reader::keys(buffer.clone())?;
        let count = usize::from(head.params[0]) + 1;
        ensure(count > 1 && head.params[1] == 0, "unknown parameters")?;
        let is_wide = Image::is_wide(count);
        let frequencies: ScalarBuffer<u16> = reader.section(if is_wide { count } else { rans::SYMBOLS })?;
        let bytes = reader.skip(native.width() * count)?;
        let keys: Vec<i64> = bytes.chunks_exact(native.width()).map(|bytes| key_of(native, bytes)).collect();
        ensure(keys.is_sorted_by(|a, b| a < b), "the keys are not in order")?;
        let blocks = head.rows.div_ceil(BLOCK_ROWS);
        let tails = reader.skip(if is_wide { 0 } else { blocks })?;
        reader.align(2)?;
        let lengths: ScalarBuffer<u16> = reader.section(blocks)?;
        let words: ScalarBuffer<u16> = reader.section(lengths.iter().map(|&n| usize::from(n)).sum())?;
        reader.finish()?;
        let mut first = 0;
        let blocks = (0..blocks).map(|block| {
            let image = Image::new(count, (head.rows - block * BLOCK_ROWS).min(BLOCK_ROWS));
            first += usize::from(lengths[block]);
            // Default: the wide stream has no tails.
            let tail = tails.get(block).copied().map_or(0, usize::from);
            Block { image, words: first - usize::from(lengths[block]), tail }
        });
        let blocks: Vec<Block> = blocks.collect();
        let table = if is_wide {
            let total: u32 = frequencies.iter().map(|&n| u32::from(n)).sum();
            let shared = total == u32::from(rans::SLOTS) && !frequencies.contains(&0);
            ensure(shared, "the codes do not share the slots")?;
            Table::Codes(frequencies)
        } else {
            let width = Image::new(count, 1).width;
            let are_codes =
                (0..).zip(frequencies.iter()).all(|(i, &n)| n == 0 || is_of_codes(i, width, count));
            ensure(are_codes, "a nibble has a code without a key")?;
            let long = blocks.iter().any(|block| block.tail > block.image.steps());
            ensure(!long, "a tail is longer than its block")?;
            let table = frequencies.first_chunk().and_then(rans::Table::new);
            let table =
                table.ok_or_else(|| crate::encoding::bytes::corrupt("the nibbles do not share the slots"))?;
            Table::Nibbles(Box::new(table))
        };
        let step = keys[1].checked_sub(keys[0]);
        let even = |step: &i64| keys.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(*step));
        let step = step.filter(even);
        let column = Self { buffer, id: Id::new(), rows: head.rows, keys, step, table, blocks, words };
        column.check()?;
        Ok(column)
    }

    /// That the least and the greatest key occur: most often the first block tells.
    fn check(&self) -> Result<()> {
        let (mut least, mut greatest) = (MAX_KEYS, 0);
        for part in self.parts(0, self.rows) {
            let extremes = self.with(part, |codes| codes.min_max(None));
            let (min, max) = extremes.invariant("a block has a row");
            (least, greatest) = (least.min(index(min)), greatest.max(index(max)));
            if least == 0 && greatest == self.keys.len() - 1 {
                return Ok(());
            }
        }
        ensure(false, "a key does not occur")
    }

    /// The blocks that hold the rows, each with its part of them.
    fn parts(&self, start: usize, rows: usize) -> impl Iterator<Item = Part> + use<> {
        let blocks = start / BLOCK_ROWS..(start + rows).div_ceil(BLOCK_ROWS);
        blocks.map(move |block| {
            let first = block * BLOCK_ROWS;
            let from = start.max(first);
            let to = (start + rows).min(first + BLOCK_ROWS);
            Part { block, from: from - first, rows: to - from, at: from - start }
        })
    }

    /// Calls `work` with the codes of rows of a block, which comes alone.
    fn with<R>(&self, part: Part, work: impl FnOnce(Codes<'_>) -> R) -> R {
        self.with_ahead(part, |_| 1, work)
    }

    /// The same, where blocks are read one after the other.
    fn scan<R>(&self, part: Part, work: impl FnOnce(Codes<'_>) -> R) -> R {
        let most = match self.table {
            Table::Nibbles(_) => rans::SIDE_BY_SIDE.min(self.blocks.len() - part.block),
            Table::Codes(_) => 1,
        };
        let begins = part.block == 0 && part.rows == self.blocks[0].image.rows;
        self.with_ahead(part, |follows| if follows || begins { most } else { 1 }, work)
    }

    /// The same, where `ahead` says how many blocks to decode.
    fn with_ahead<R>(
        &self,
        part: Part,
        ahead: impl FnOnce(bool) -> usize,
        work: impl FnOnce(Codes<'_>) -> R,
    ) -> R {
        let width = self.blocks[part.block].image.width;
        with_block((self.id, part.block), self, ahead, |words| {
            work(Codes { width, words, from: part.from, rows: part.rows })
        })
    }

    /// The words of a block.
    fn stream(&self, block: usize) -> &[u16] {
        let end = self.blocks.get(block + 1).map_or(self.words.len(), |next| next.words);
        &self.words[self.blocks[block].words..end]
    }

    /// Calls `work` with the codes of each block's part of rows, and the words of a mask that are its own.
    fn each<'m>(
        &self,
        start: usize,
        rows: usize,
        mask: Option<&'m [u64]>,
        mut work: impl FnMut(Codes<'_>, Option<&'m [u64]>),
    ) {
        for part in self.parts(start, rows) {
            let mask = mask.map(|mask| part.words(mask));
            if mask.is_none_or(|mask| mask.iter().any(|&word| word != 0)) {
                self.scan(part, |codes| work(codes, mask));
            }
        }
    }

    fn key(&self, code: u64) -> i64 {
        self.keys[index(code)]
    }
}

/// The key whose low bytes these are.
fn key_of(native: Native, bytes: &[u8]) -> i64 {
    let mut key = [0; 8];
    key[..bytes.len()].copy_from_slice(bytes);
    let key = i64::from_le_bytes(key);
    let (least, _) = native.key_range();
    let above = 64 - 8 * native.width();
    if least < 0 { key << above >> above } else { key }
}

impl Codes<'_> {
    /// The mask words of the rows that have code 1.
    fn ones(&self) -> &[u64] {
        &self.words[self.from / 64..][..self.rows.div_ceil(64)]
    }

    /// The number of rows that have code 1.
    fn count_ones(&self, mask: Option<&[u64]>) -> usize {
        match mask {
            Some(mask) => {
                self.ones().iter().zip(mask).map(|(ones, mask)| (ones & mask).count_ones() as usize).sum()
            }
            None => mask::count_range(Some(self.ones()), 0, self.rows),
        }
    }

    fn get(&self) -> u64 {
        match self.width {
            1 => self.words[self.from / 64] >> (self.from % 64) & 1,
            width => packed::get(width, self.words, self.from),
        }
    }

    fn between(&self, lo: u64, hi: u64, out: &mut [u64]) {
        packed::between(self.width, self.words, self.from, self.rows, lo, hi, out);
    }

    /// The codes as bytes, of a width of 8.
    fn bytes(&self) -> impl Iterator<Item = usize> {
        let bytes = self.words[self.from / 8..].iter().flat_map(|word| word.to_le_bytes());
        bytes.take(self.rows).map(usize::from)
    }

    /// The mask of the rows whose code passes: of some codes, but not of all.
    fn filter(&self, passes: &[bool], out: &mut [u64]) {
        if self.width == 1 {
            out.copy_from_slice(self.ones());
            if passes[0] {
                kernels::mask::not(out, self.rows);
            } else if let Some(last) = out.last_mut() {
                *last &= u64::MAX >> ((64 - self.rows % 64) % 64);
            }
            return;
        }
        // Where fewer ranges fail than pass, those are looked for.
        let inverted = passes[0] && passes[passes.len() - 1];
        let mut ranges = [(0, 0); MAX_RANGES];
        let mut count = 0;
        let mut code = 0;
        for run in passes.chunk_by(|a, b| a == b) {
            let last = code + run.len() as u64 - 1;
            if run[0] != inverted {
                if let Some(range) = ranges.get_mut(count) {
                    *range = (code, last);
                }
                count += 1;
            }
            code = last + 1;
        }
        if count > MAX_RANGES {
            let flags: Vec<u8> = self.bytes().map(|code| u8::from(passes[code])).collect();
            return kernels::compare(kernels::CmpOp::Eq, &flags, 1, out);
        }
        self.between(ranges[0].0, ranges[0].1, out);
        let mut more = [0; BLOCK_WORDS];
        let more = &mut more[..out.len()];
        for &(lo, hi) in ranges.iter().take(count).skip(1) {
            self.between(lo, hi, more);
            kernels::mask::or(out, more);
        }
        if inverted {
            kernels::mask::not(out, self.rows);
        }
    }

    fn sum(&self, mask: Option<&[u64]>) -> u128 {
        match mask {
            _ if self.width == 1 => self.count_ones(mask) as u128,
            Some(mask) => packed::sum_masked(self.width, self.words, self.from, self.rows, mask),
            None => packed::sum(self.width, self.words, self.from, self.rows),
        }
    }

    /// How many rows have each of the codes.
    fn counts(&self, mask: Option<&[u64]>, counts: &mut [u64]) {
        if self.width == 8 {
            match mask {
                Some(mask) => {
                    let bytes = |row: usize| self.words[(self.from + row) / 8].to_le_bytes()[row % 8];
                    kernels::mask::for_each(mask, |row| counts[usize::from(bytes(row))] += 1);
                }
                None => self.bytes().for_each(|code| counts[code] += 1),
            }
            return;
        }
        if self.width == 1 {
            let ones = self.count_ones(mask);
            counts[0] += (mask.map_or(self.rows, mask::count_ones) - ones) as u64;
            counts[1] += ones as u64;
            return;
        }
        let mut rows = [0; BLOCK_WORDS];
        let rows = &mut rows[..self.rows.div_ceil(64)];
        for (code, count) in (0..).zip(counts) {
            self.between(code, code, rows);
            if let Some(mask) = mask {
                kernels::mask::and(rows, mask);
            }
            *count += kernels::mask::count_ones(rows);
        }
    }

    fn min_max(&self, mask: Option<&[u64]>) -> Option<(u64, u64)> {
        if self.width == 1 {
            let (ones, rows) = (self.count_ones(mask), mask.map_or(self.rows, mask::count_ones));
            return (rows > 0).then(|| (u64::from(ones == rows), u64::from(ones > 0)));
        }
        match mask {
            Some(mask) => packed::min_max_masked(self.width, self.words, self.from, self.rows, mask),
            None => packed::min_max(self.width, self.words, self.from, self.rows),
        }
    }
}

impl Blocks for Column {
    /// Those of the image, and a vector of zeros.
    fn words(&self, block: usize) -> usize {
        self.blocks[block].image.words() + rans::VECTOR_WORDS
    }

    fn decode(&self, first: usize, out: &mut [&mut [u64]]) {
        let images = (first..).zip(out).map(|(block, out)| {
            let (image, behind) = out.split_at_mut(self.blocks[block].image.words());
            behind.fill(0);
            rans::Stream { words: self.stream(block), tail: self.blocks[block].tail, out: image }
        });
        match &self.table {
            Table::Nibbles(table) => rans::decode_nibbles(table, &mut images.collect::<Vec<_>>()),
            Table::Codes(frequencies) => {
                let decoder = wide::Decoder::new(frequencies);
                images.for_each(|image| decoder.decode(image.words, image.out));
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
        NAME.to_owned()
    }

    fn decode(&self, start: usize, out: &mut [i64]) {
        for part in self.parts(start, out.len()) {
            let out = &mut out[part.at..][..part.rows];
            self.scan(part, |codes| {
                if codes.width == 1 {
                    for (out, word) in out.chunks_mut(64).zip(codes.ones()) {
                        for (i, out) in out.iter_mut().enumerate() {
                            *out = self.keys[index(word >> i & 1)];
                        }
                    }
                } else if self.step == Some(1) {
                    packed::unpack(codes.width, codes.words, codes.from, self.keys[0], out);
                } else {
                    packed::unpack(codes.width, codes.words, codes.from, 0, out);
                    out.iter_mut().for_each(|key| *key = self.key(key.cast_unsigned()));
                }
            });
        }
    }

    /// Decodes the row's block, unless this thread has it at hand.
    fn get(&self, row: usize) -> i64 {
        let part = Part { block: row / BLOCK_ROWS, from: row % BLOCK_ROWS, rows: 1, at: 0 };
        self.with(part, |codes| self.key(codes.get()))
    }

    fn gather(&self, start: usize, places: &[u16], out: &mut [i64]) {
        let part =
            Part { block: start / BLOCK_ROWS, from: 0, rows: BLOCK_ROWS.min(self.rows - start), at: 0 };
        self.scan(part, |codes| {
            if codes.width == 1 {
                for (key, place) in out.iter_mut().zip(places) {
                    *key = self.key(Codes { from: usize::from(*place), ..codes }.get());
                }
            } else {
                packed::gather(codes.width, codes.words, 0, places, 0, out);
                out.iter_mut().for_each(|key| *key = self.key(key.cast_unsigned()));
            }
        });
    }

    fn filter(&self, start: usize, rows: usize, test: &KeyTest, out: &mut [u64]) {
        let passes: Vec<bool> = match test.over(&self.keys) {
            KeyTest::Range { lo, hi } => {
                (0..).zip(&self.keys).map(|(code, _)| (lo..=hi).contains(&code)).collect()
            }
            KeyTest::In(_) => self.keys.iter().map(|&key| test.passes(key)).collect(),
        };
        if passes.iter().all(|&p| p == passes[0]) {
            return mask::set_all(out, rows, passes[0]);
        }
        for part in self.parts(start, rows) {
            let out = &mut out[part.at / 64..][..part.rows.div_ceil(64)];
            self.scan(part, |codes| codes.filter(&passes, out));
        }
    }

    fn sum(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> i128 {
        if let Some(step) = self.step {
            let mut codes = 0;
            self.each(start, rows, mask, |part, mask| codes += part.sum(mask));
            let rows = mask.map_or(rows, mask::count_ones);
            return i128::from(self.keys[0]) * rows as i128 + i128::from(step) * codes.cast_signed();
        }
        let mut counts = vec![0; self.keys.len()];
        self.each(start, rows, mask, |part, mask| part.counts(mask, &mut counts));
        self.keys.iter().zip(counts).map(|(&key, n)| i128::from(key) * i128::from(n)).sum()
    }

    fn min_max(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> Option<(i64, i64)> {
        if rows == self.rows && mask.is_none() {
            return Some((self.keys[0], self.keys[self.keys.len() - 1]));
        }
        let mut extremes = None;
        self.each(start, rows, mask, |part, mask| {
            let part = part.min_max(mask).map(|(min, max)| (self.key(min), self.key(max)));
            extremes = fallback::widen(extremes, part);
        });
        extremes
    }

    fn costs(&self) -> Costs {
        // A set is asked about each key, once.
        let filter = if let Table::Nibbles(_) = self.table { 200 } else { 1800 };
        Costs { filter, look_up: 0, get: 1000 }
    }
}
