//! Entropy coding: up to 256 distinct keys as codes, and the codes by their frequencies alone (order-0 rANS, Duda,
//! arXiv:1311.2540), in runs that are decoded one by one.
//!
//! Up to 16 keys have codes of 1, 2 or 4 bits, more of a byte. What is coded are the bytes of a block's *image*: codes of
//! one bit are mask words, others lie as `basalt_kernels::packed` has them; rows that fill the last vector of 64 bytes
//! have the most frequent code. So what a block decodes to is compared and summed up as it is. The bytes lie in up to 16
//! buckets of about equally frequent ones: the bucket is entropy coded, the byte's number in it is not, and a byte takes
//! one step of the decoder.
//!
//! The image is cut into *runs* of 2^n bytes, the last of which may be shorter, each a stream of `basalt_kernels::rans` of
//! its own. So a row costs its run, not its block. Runs are as long as makes that cost little beside the information.
//!
//! | byte | what |
//! |---|---|
//! | 0..8 | head; the first parameter is the number of keys - 1, the second n and, from bit 4 on, m |
//! | 8..40 | how many of 4,096 slots each bucket has, u16 |
//! | ... | the keys, ascending, in the width of their type |
//! | ... | the bucket of each byte all of whose codes have keys, in ascending order: 4 bits, the low ones first |
//! | ... | for each run the units of its tail, each 2^m bytes, u8 |
//! | align 2 | for each run the number of its words, u16 |
//! | ... | the words of all runs, u16 |

mod buckets;
mod column;
mod image;
mod information;
mod runs;

use std::sync::Arc;

use arrow_buffer::Buffer;
use basalt_kernels::rans::{BUCKETS, BYTES, Encoder, Table};

use self::{
    buckets::Model,
    column::MAX_KEYS,
    image::{Image, is_of_codes},
    runs::Form,
};
use super::{
    Encodings, KeyColumn, KeyEncoding, SizeEstimate,
    bytes::{HEAD, Head, Writer, count},
    code_map::CodeMap,
    stats::KeyStats,
};
use crate::{error::Result, invariant::Invariant, keys::Native, limits::BLOCK_ROWS};

/// The encoding.
pub(super) struct Entropy;

/// The bytes all of whose codes have keys, in ascending order.
fn bytes_of_codes(keys: usize) -> impl Iterator<Item = usize> {
    let width = Image::new(keys, 1).width;
    (0..BYTES).filter(move |&byte| is_of_codes(byte, width, keys))
}

/// Bytes before the words, for these keys and so many runs.
fn fixed(keys: usize, native: Native, runs: usize) -> usize {
    let buckets = bytes_of_codes(keys).count().div_ceil(2);
    (HEAD + 2 * BUCKETS + native.width() * keys + buckets + runs).next_multiple_of(2) + 2 * runs
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
        let (bits, error) = information::information(stats, distinct);
        let images = || Image::of_blocks(keys, stats.rows);
        let form = Form::new(Image::new(keys, 1), bits / images().map(Image::bytes).sum::<usize>() as f64);
        let runs: usize = images().map(|image| form.runs(image)).sum();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most two bytes a row")]
        let words = ((bits + runs::WASTE * runs as f64) / 8.0) as usize;
        let bytes = fixed(keys, stats.native, runs) + words;
        Some(SizeEstimate::inexact(self.name(), bytes, error))
    }

    fn encode(&self, keys: &[i64], stats: &KeyStats, _: &Encodings) -> Result<Buffer> {
        let distinct = stats.distinct.as_deref().invariant("codes are made where keys were counted");
        let symbols: Vec<i64> = distinct.iter().map(|(key, _)| *key).collect();
        let byte = |n: usize| count(n).to_le_bytes()[0];
        let most = (0..symbols.len()).max_by_key(|&code| distinct[code].1);
        let most = byte(most.invariant("a column has a key"));
        let codes = CodeMap::new(&symbols).codes(keys, |code| code.to_le_bytes()[0]);
        let images = codes.chunks(BLOCK_ROWS).map(|codes| (Image::new(symbols.len(), codes.len()), codes));
        let images: Vec<Vec<u64>> = images.map(|(image, codes)| image.pack(codes, most)).collect();
        let width = Image::new(symbols.len(), 1).width;
        let model = Model::new(&image::counts(images.iter().flatten()), |byte| {
            is_of_codes(byte, width, symbols.len())
        });
        let encoder = Table::new(&model.frequencies, &model.bucket_of).map(|table| Encoder::new(&table));
        let encoder = encoder.invariant("the buckets share the slots and have places for their bytes");
        let bytes: usize = images.iter().map(|image| 8 * image.len()).sum();
        let form = Form::new(Image::new(symbols.len(), 1), model.bits / bytes as f64);
        let runs = images.iter().flat_map(|image| image.chunks(form.run_words()));
        let streams: Vec<(Vec<u16>, u8)> = runs.map(|run| encoder.encode(run, form.unit())).collect();
        let words: usize = streams.iter().map(|(words, _)| words.len()).sum();
        let bytes = fixed(symbols.len(), stats.native, streams.len()) + 2 * words;
        let params = [byte(symbols.len() - 1), form.param()];
        let mut writer = Writer::new(Head::keys(self.code(), stats.native, params, keys.len()), bytes);
        writer.slice(&model.frequencies);
        symbols.iter().for_each(|&symbol| writer.key(symbol, stats.native));
        let buckets: Vec<u8> =
            bytes_of_codes(symbols.len()).map(|byte| model.bucket_of[byte] % 16).collect();
        for pair in buckets.chunks(2) {
            writer.put(pair.iter().rfold(0_u8, |byte, bucket| byte << 4 | bucket));
        }
        streams.iter().for_each(|(_, tail)| writer.put(*tail));
        writer.align(2);
        for (words, _) in &streams {
            writer.put(u16::try_from(words.len()).invariant("a run has fewer words than its bytes and states"));
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
