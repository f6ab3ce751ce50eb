//! Bitcompress: up to 256 distinct keys, entropy coded in chunks of 64 bits with a jump index between them.
//!
//! It is the codec that MemCP published as "Bitcompress: k-ary rANS" (<https://launix.de>, 2026), in a layout of
//! our own; how it codes stands in `codec`, how it finds a row in `index`. Skewed columns come close to
//! their Shannon entropy, the index counted; reading costs a multiplication for each row, one after the other.
//!
//! | byte | what |
//! |---|---|
//! | 0..8 | head; the parameters are the number of symbols - 1, and log2 of the chunks of an index group |
//! | 8..12 | chunks, u32 |
//! | 12..16 | 0 |
//! | ... | the symbols, i64 each, ascending |
//! | ... | the state of each chunk, u64 |
//! | ... | index, level 1: the end row of each group of chunks but the last, u32 |
//! | ... | index, level 2: the end row of each chunk relative to its group, u16 |
//! | ... | the slots of each symbol - 1, u8 |

mod codec;
mod index;

use std::sync::Arc;

use arrow_buffer::{Buffer, ScalarBuffer};
use basalt_kernels as kernels;

use self::{
    codec::{Decoder, SLOTS},
    index::JumpIndex,
};
use super::{
    Costs, Encodings, KeyColumn, KeyEncoding, KeyTest, SizeEstimate,
    bytes::{HEAD, Head, Reader, Writer, count, ensure},
    code_map::CodeMap,
    mask,
    stats::KeyStats,
};
use crate::{error::Result, invariant::Invariant, limits::BLOCK_ROWS};

/// The encoding.
pub(super) struct Bitcompress;

const FIXED: usize = HEAD + 8;
/// What a chunk's 64 bits hold of the rows' information, about: the state starts with less than one symbol
/// needs and ends before the next would overflow. For the size estimate alone.
const BITS_OF_CHUNK: f64 = 59.5;

impl Bitcompress {
    fn bytes(symbols: usize, chunks: usize, shift: u8) -> usize {
        FIXED + 9 * symbols + 8 * chunks + index::bytes(chunks, shift)
    }
}

impl KeyEncoding for Bitcompress {
    fn code(&self) -> u8 {
        6
    }

    fn name(&self) -> &'static str {
        "bitcompress"
    }

    fn level(&self) -> u8 {
        1
    }

    fn least_cost(&self) -> u64 {
        1_600
    }

    fn estimate(&self, stats: &KeyStats, _: &Encodings) -> Option<SizeEstimate> {
        let counts = stats.distinct.as_ref().filter(|counts| counts.len() <= SLOTS)?;
        let widths = codec::widths(counts.iter().map(|(_, n)| *n));
        let bits = |(&(_, n), &width): (&(i64, u64), &u16)| n as f64 * (8.0 - f64::from(width).log2());
        let bits: f64 = counts.iter().zip(&widths).map(bits).sum();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 8 bits a row")]
        let chunks =
            ((bits / BITS_OF_CHUNK) as usize).max(stats.rows / usize::from(codec::MAX_CHUNK_ROWS)) + 1;
        // Default: a chunk has no more rows.
        let rows = u16::try_from(2 * stats.rows / chunks).unwrap_or(u16::MAX);
        Some(SizeEstimate::inexact(self.name(), Self::bytes(counts.len(), chunks, index::shift(rows)), 8))
    }

    fn encode(&self, keys: &[i64], stats: &KeyStats, _: &Encodings) -> Result<Buffer> {
        let counts = stats.distinct.as_deref().invariant("symbols are made where keys were counted");
        let symbols: Vec<i64> = counts.iter().map(|(key, _)| *key).collect();
        let widths = codec::widths(counts.iter().map(|(_, n)| *n));
        let codes = CodeMap::new(&symbols).codes(keys, |code| code.to_le_bytes()[0]);
        let (states, rows) = codec::encode(&widths, &codes);
        let shift = index::shift(rows.iter().copied().max().invariant("a column has a chunk"));
        // `widths` and `symbols` are 1 to 256.
        let minus_one = |n: usize| (n - 1).to_le_bytes()[0];
        let head = Head::keys(self.code(), stats.native, [minus_one(symbols.len()), shift], keys.len());
        let mut writer = Writer::new(head, Self::bytes(symbols.len(), states.len(), shift));
        writer.put(count(states.len()));
        writer.put(0u32);
        writer.slice(&symbols);
        writer.slice(&states);
        index::write(&mut writer, &rows, shift);
        for width in widths {
            writer.put(minus_one(width.into()));
        }
        Ok(writer.finish())
    }

    fn open(&self, buffer: Buffer, _: &Encodings) -> Result<Arc<dyn KeyColumn>> {
        Ok(Arc::new(Column::open(buffer)?))
    }
}

/// A bitcompressed column.
#[derive(Debug)]
pub struct Column {
    buffer: Buffer,
    rows: usize,
    symbols: ScalarBuffer<i64>,
    widths: ScalarBuffer<u8>,
    states: ScalarBuffer<u64>,
    index: JumpIndex,
}

impl Column {
    /// Opens a buffer that the encoding made.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`](crate::error::ErrorKind::Corrupt).
    pub fn open(buffer: Buffer) -> Result<Self> {
        let (head, _, mut reader) = Reader::keys(buffer.clone())?;
        ensure(head.code == Bitcompress.code(), "the column is not bitcompressed")?;
        let symbols = usize::from(head.params[0]) + 1;
        let chunks = reader.u32()? as usize;
        reader.u32()?;
        let symbols: ScalarBuffer<i64> = reader.section(symbols)?;
        let states = reader.section(chunks)?;
        let index = JumpIndex::read(&mut reader, chunks, head.params[1], head.rows)?;
        let widths: ScalarBuffer<u8> = reader.section(symbols.len())?;
        reader.finish()?;
        ensure(symbols.is_sorted_by(|a, b| a < b), "the symbols are not in order")?;
        let slots: usize = widths.iter().map(|&w| usize::from(w) + 1).sum();
        ensure(slots == SLOTS, "the symbols do not share the slots")?;
        Ok(Self { buffer, rows: head.rows, symbols, widths, states, index })
    }

    /// A reader that goes forward at a constant cost for each row.
    pub fn cursor(&self) -> Cursor<'_> {
        let decoder = self.decoder(|symbol| self.symbols[symbol]);
        Cursor {
            column: self,
            decoder,
            chunk: 0,
            state: self.states[0],
            next: 0,
            end: self.index.end(0),
            key: 0,
        }
    }

    fn decoder<T: Copy + Default>(&self, value: impl Fn(usize) -> T) -> Decoder<T> {
        Decoder::new(self.widths.iter().map(|&w| u16::from(w) + 1), value)
    }

    /// Writes what the decoder gives for the rows from `start` on.
    fn decode_with<T: Copy + Default>(&self, decoder: &Decoder<T>, start: usize, mut out: &mut [T]) {
        let first = self.index.find(start);
        let mut begin = start;
        let chunks = (first..self.states.len()).map_while(|chunk| {
            let end = self.index.end(chunk).min(begin + out.len());
            let rows = out.split_off_mut(..end - begin).filter(|rows| !rows.is_empty())?;
            let mut state = self.states[chunk];
            if chunk == first {
                decoder.skip(&mut state, start - self.index.start(first));
            }
            begin = end;
            Some((state, rows))
        });
        decoder.decode(chunks);
    }

    /// Calls `work` with a byte for each row, a block of rows at a time, and their place behind `start`.
    fn each_block(
        &self,
        start: usize,
        rows: usize,
        byte: impl Fn(usize) -> u8,
        mut work: impl FnMut(usize, &[u8]),
    ) {
        let decoder = self.decoder(byte);
        let mut bytes = vec![0; rows.min(BLOCK_ROWS)];
        for at in (0..rows).step_by(BLOCK_ROWS) {
            let bytes = &mut bytes[..(rows - at).min(BLOCK_ROWS)];
            self.decode_with(&decoder, start + at, bytes);
            work(at, bytes);
        }
    }

    /// How often each symbol occurs in rows that `mask` selects.
    fn counts(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> [u64; SLOTS] {
        // Four tables, so that equal symbols in a row do not wait for each other.
        let mut tables = [[0u64; SLOTS]; 4];
        self.each_block(
            start,
            rows,
            |symbol| symbol.to_le_bytes()[0],
            |at, symbols| match mask {
                Some(mask) => {
                    let words = &mask[at / 64..][..symbols.len().div_ceil(64)];
                    kernels::mask::for_each(words, |row| tables[row % 4][usize::from(symbols[row])] += 1);
                }
                None => {
                    for (row, &symbol) in symbols.iter().enumerate() {
                        tables[row % 4][usize::from(symbol)] += 1;
                    }
                }
            },
        );
        std::array::from_fn(|symbol| tables.iter().map(|table| table[symbol]).sum())
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
        Bitcompress.name().to_owned()
    }

    fn decode(&self, start: usize, out: &mut [i64]) {
        self.decode_with(&self.decoder(|symbol| self.symbols[symbol]), start, out);
    }

    fn get(&self, row: usize) -> i64 {
        let chunk = self.index.find(row);
        let decoder = self.decoder(|symbol| symbol.to_le_bytes()[0]);
        let mut state = self.states[chunk];
        decoder.skip(&mut state, row - self.index.start(chunk));
        self.symbols[usize::from(decoder.next(&mut state))]
    }

    fn filter(&self, start: usize, rows: usize, test: &KeyTest, out: &mut [u64]) {
        let passes: Vec<bool> = self.symbols.iter().map(|&key| test.passes(key)).collect();
        if passes.iter().all(|&p| p == passes[0]) {
            return mask::set_all(out, rows, passes[0]);
        }
        self.each_block(
            start,
            rows,
            |symbol| u8::from(passes[symbol]),
            |at, passes| {
                let out = &mut out[at / 64..][..passes.len().div_ceil(64)];
                kernels::compare(kernels::CmpOp::Eq, passes, 1, out);
            },
        );
    }

    fn sum(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> i128 {
        let counts = self.counts(start, rows, mask);
        self.symbols.iter().zip(counts).map(|(&key, n)| i128::from(key) * i128::from(n)).sum()
    }

    fn min_max(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> Option<(i64, i64)> {
        let counts = self.counts(start, rows, mask);
        let mut present = self.symbols.iter().zip(counts).filter(|(_, n)| *n > 0).map(|(&key, _)| key);
        let first = present.next()?;
        Some((first, present.next_back().unwrap_or(first)))
    }

    fn costs(&self) -> Costs {
        Costs { filter: 1000, look_up: super::LOOK_UP_COST, get: 700 }
    }
}

/// Reads a column row by row: going forward, within a chunk or into the next, costs the rows passed over;
/// any other step costs a search and the rows of the chunk before.
pub struct Cursor<'a> {
    column: &'a Column,
    decoder: Decoder<i64>,
    chunk: usize,
    state: u64,
    /// The row that comes off the state next.
    next: usize,
    /// The row behind the chunk's last.
    end: usize,
    /// The key of the row before `next`.
    key: i64,
}

impl Cursor<'_> {
    /// The key of one row.
    pub fn get(&mut self, row: usize) -> i64 {
        if row + 1 == self.next {
            return self.key;
        }
        if row < self.next || row >= self.end {
            let next = self.chunk + 1;
            let follows =
                row >= self.end && next < self.column.states.len() && row < self.column.index.end(next);
            self.enter(if follows { next } else { self.column.index.find(row) });
        }
        self.decoder.skip(&mut self.state, row - self.next);
        self.key = self.decoder.next(&mut self.state);
        self.next = row + 1;
        self.key
    }

    fn enter(&mut self, chunk: usize) {
        self.chunk = chunk;
        self.state = self.column.states[chunk];
        self.next = self.column.index.start(chunk);
        self.end = self.column.index.end(chunk);
    }
}
