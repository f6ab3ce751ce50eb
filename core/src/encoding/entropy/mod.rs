//! Entropy coding: up to 256 distinct keys as codes, and the codes by their frequencies alone (order-0 rANS, Duda,
//! arXiv:1311.2540), block by block.
//!
//! Up to 16 keys have codes of 1, 2 or 4 bits. What is coded are the nibbles of a block's *image*: codes of one bit
//! are mask words, others lie as `basalt_kernels::packed` has them; rows that fill the last vector of 64 bytes have the
//! most frequent code. So what a block decodes to is compared and summed up as it is. The stream is that of
//! `basalt_kernels::rans`. More keys have codes of a byte, with a stream described in `wide`.
//!
//! | byte | what |
//! |---|---|
//! | 0..8 | head; the first parameter is the number of keys - 1 |
//! | 8.. | how many of 4,096 slots each nibble has, or where keys are more than 16 each code: u16 |
//! | ... | the keys, ascending, in the width of their type |
//! | ... | for each block the steps of its tail, u8; only where keys are at most 16 |
//! | align 2 | for each block the number of its words, u16 |
//! | ... | the words of all blocks, u16 |

mod column;
mod frequencies;
mod image;
mod wide;

use std::sync::Arc;

use arrow_buffer::Buffer;
use basalt_kernels::rans;

use self::{column::MAX_KEYS, frequencies::quantise, image::Image};
use super::{
    Encodings, KeyColumn, KeyEncoding, SizeEstimate,
    bytes::{HEAD, Head, Writer, count, index},
    code_map::CodeMap,
    stats::KeyStats,
};
use crate::{error::Result, invariant::Invariant, keys::Native, limits::BLOCK_ROWS};

/// The encoding.
pub(super) struct Entropy;

/// Bytes that a block takes beyond its information, about: its line in the index, and what the states waste.
const BLOCK_BYTES: usize = 18;
/// The same of the wide stream.
const WIDE_BLOCK_BYTES: usize = 26;

/// Bytes before the words; `frequencies` of them, for these keys.
fn fixed(keys: usize, native: Native, blocks: usize) -> usize {
    let (frequencies, tails) = if Image::is_wide(keys) { (keys, 0) } else { (rans::SYMBOLS, blocks) };
    (HEAD + 2 * frequencies + native.width() * keys + tails).next_multiple_of(2) + 2 * blocks
}

/// The words of each block, and the steps of its tail.
type Streams = Vec<(Vec<u16>, u8)>;

/// The frequencies and the streams of codes, of which `most` is the most frequent.
fn encode(codes: &[u8], keys: usize, most: u8) -> Option<(Vec<u16>, Streams)> {
    if Image::is_wide(keys) {
        let mut counts = vec![0; keys];
        codes.iter().for_each(|&code| counts[usize::from(code)] += 1);
        let frequencies = quantise(&counts);
        let encoder = wide::Encoder::new(&frequencies);
        let streams = codes.chunks(BLOCK_ROWS).map(|codes| (encoder.encode(codes), 0)).collect();
        return Some((frequencies, streams));
    }
    let images: Vec<Vec<u64>> =
        codes.chunks(BLOCK_ROWS).map(|codes| Image::new(keys, codes.len()).pack(codes, most)).collect();
    let frequencies = quantise(&image::counts(images.iter().flatten()));
    let table = rans::Table::new(frequencies.first_chunk()?)?;
    let encoder = rans::Encoder::new(&table);
    let streams = images.iter().map(|image| {
        let (words, tail) = encoder.encode(image);
        Some((words, u8::try_from(tail).ok()?))
    });
    Some((frequencies, streams.collect::<Option<_>>()?))
}

impl KeyEncoding for Entropy {
    fn code(&self) -> u8 {
        8
    }

    fn name(&self) -> &'static str {
        column::NAME
    }

    fn level(&self) -> u8 {
        1
    }

    fn estimate(&self, stats: &KeyStats, _: &Encodings) -> Option<SizeEstimate> {
        let distinct = stats.distinct.as_deref()?;
        let keys = distinct.len();
        if !(2..=MAX_KEYS).contains(&keys) {
            return None;
        }
        let (bits, error) = frequencies::information(stats, distinct);
        let block = if Image::is_wide(keys) { WIDE_BLOCK_BYTES } else { BLOCK_BYTES };
        let blocks = stats.blocks.len();
        let bytes = fixed(keys, stats.native, blocks) + block * blocks + index(bits / 8);
        Some(SizeEstimate::inexact(self.name(), bytes, error))
    }

    fn encode(&self, keys: &[i64], stats: &KeyStats, _: &Encodings) -> Result<Buffer> {
        let distinct = stats.distinct.as_deref().invariant("codes are made where keys were counted");
        let symbols: Vec<i64> = distinct.iter().map(|(key, _)| *key).collect();
        let byte = |n: usize| count(n).to_le_bytes()[0];
        let most = (0..symbols.len()).max_by_key(|&code| distinct[code].1);
        let most = byte(most.invariant("a column has a key"));
        let codes = CodeMap::new(&symbols).codes(keys, |code| code.to_le_bytes()[0]);
        let (frequencies, streams) = encode(&codes, symbols.len(), most)
            .ok_or_else(|| super::bytes::corrupt("the codes have no stream"))?;
        let words: usize = streams.iter().map(|(words, _)| words.len()).sum();
        let bytes = fixed(symbols.len(), stats.native, streams.len()) + 2 * words;
        let head = Head::keys(self.code(), stats.native, [byte(symbols.len() - 1), 0], keys.len());
        let mut writer = Writer::new(head, bytes);
        writer.slice(&frequencies);
        for symbol in &symbols {
            writer.slice(&symbol.to_le_bytes()[..stats.native.width()]);
        }
        if !Image::is_wide(symbols.len()) {
            streams.iter().for_each(|(_, tail)| writer.put(*tail));
        }
        writer.align(2);
        for (words, _) in &streams {
            writer.put(u16::try_from(words.len()).invariant("a block has fewer words than rows"));
        }
        streams.iter().for_each(|(words, _)| writer.slice(words));
        Ok(writer.finish())
    }

    fn open(&self, buffer: Buffer, _: &Encodings) -> Result<Arc<dyn KeyColumn>> {
        Ok(Arc::new(column::Column::open(buffer)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::{KeyTest, encode_keys};

    const BLOCKS: usize = 11;

    /// Keys of so many values, the last block of which is not whole.
    fn keys(values: u64, salt: u64) -> Vec<i64> {
        let rows = BLOCKS as u64 * BLOCK_ROWS as u64 - 700;
        let draw = |row: u64| {
            let bits = (row + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
            ((bits % values) * (bits >> 16) % values).cast_signed() * 3
        };
        (0..rows).map(draw).collect()
    }

    /// Checks the keys of a block, in each of the ways that a column is read.
    fn check(column: &dyn KeyColumn, keys: &[i64], block: usize) {
        let start = block * BLOCK_ROWS;
        let keys = &keys[start..keys.len().min(start + BLOCK_ROWS)];
        let mut out = vec![0; keys.len()];
        column.decode(start, &mut out);
        assert!(out == keys, "block {block}");
        let mut mask = vec![0; keys.len().div_ceil(64)];
        column.filter(start, keys.len(), &KeyTest::Range { lo: 3, hi: 3 }, &mut mask);
        let expected =
            keys.chunks(64).map(|keys| keys.iter().rfold(0, |mask, &key| mask << 1 | u64::from(key == 3)));
        assert!(expected.eq(mask), "block {block}");
        assert_eq!(column.get(start + 77), keys[77]);
    }

    /// What is decoded ahead is what the block holds, in whatever order blocks are asked for.
    #[test]
    fn blocks_are_read_in_any_order() {
        for values in [2, 4, 16, 40] {
            let columns = [0, 1, 2].map(|salt| {
                let keys = keys(values, salt << 40);
                (encode_keys(&keys, Native::I64, None, Some(column::NAME)).unwrap().column, keys)
            });
            assert!(columns.iter().all(|(column, _)| column.name() == column::NAME));
            let forwards: Vec<(usize, usize)> = (0..BLOCKS).map(|block| (0, block)).collect();
            let backwards = forwards.iter().rev().copied().collect();
            let in_turns = (0..3 * BLOCKS).map(|i| (i % 3, i / 3)).collect();
            let two_in_turns = (0..2 * BLOCKS).map(|i| (i % 2, i / 2)).collect();
            let at_odds = (0..2 * BLOCKS).map(|i| (i % 2, [i / 2, BLOCKS - 1 - i / 2][i % 2])).collect();
            let leaping = (0..8 * BLOCKS).map(|i| (i % 3, i * i % BLOCKS)).collect();
            for order in [forwards, backwards, in_turns, two_in_turns, at_odds, leaping] {
                for (column, block) in order {
                    let (column, keys) = &columns[column];
                    check(column.as_ref(), keys, block);
                }
            }
            for (column, keys) in &columns {
                let mut out = vec![0; keys.len()];
                column.decode(0, &mut out);
                assert!(out == *keys);
                assert_eq!(column.sum(0, keys.len(), None), keys.iter().map(|&key| i128::from(key)).sum());
            }
        }
    }
}
