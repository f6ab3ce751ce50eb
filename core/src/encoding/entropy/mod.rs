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
//! its own. So a row costs its run, not its block. Runs are as long as makes that cost little beside the information, and the longest
//! there are where a column is to be small whatever it costs to read.
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
use basalt_kernels::rans::{BUCKETS, Encoder, Table};

use self::{
    buckets::Model,
    column::MAX_KEYS,
    image::{Image, bytes_of_codes, is_of_codes},
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

    fn least_cost(&self) -> u64 {
        235
    }

    fn estimate(&self, stats: &KeyStats, inner: &Encodings) -> Option<SizeEstimate> {
        let distinct = stats.distinct.as_deref()?;
        let keys = distinct.len();
        // What is no smaller than the plain keys before it has a word is nobody's choice.
        let plain = HEAD + stats.native.width() * stats.rows;
        if !(2..=MAX_KEYS).contains(&keys) || fixed(keys, stats.native, 1) >= plain {
            return None;
        }
        let (bits, error) = information::information(stats, distinct);
        let images = || Image::of_blocks(keys, stats.rows);
        let of_byte = bits / images().map(Image::bytes).sum::<usize>() as f64;
        let form = Form::new(Image::new(keys, 1), of_byte, inner.optimize);
        let runs: usize = images().map(|image| form.runs(image)).sum();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most two bytes a row")]
        let words = ((bits + runs::WASTE * runs as f64) / 8.0) as usize;
        let bytes = fixed(keys, stats.native, runs) + words;
        Some(SizeEstimate::inexact(self.name(), bytes, error))
    }

    fn encode(&self, keys: &[i64], stats: &KeyStats, inner: &Encodings) -> Result<Buffer> {
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
        let form = Form::new(Image::new(symbols.len(), 1), model.bits / bytes as f64, inner.optimize);
        let runs = images.iter().flat_map(|image| image.chunks(form.run_words()));
        let streams: Vec<(Vec<u16>, u8)> = runs.map(|run| encoder.encode(run, form.unit())).collect();
        let words: usize = streams.iter().map(|(words, _)| words.len()).sum();
        let bytes = fixed(symbols.len(), stats.native, streams.len()) + 2 * words;
        let params = [byte(symbols.len() - 1), form.param()];
        let mut writer = Writer::new(Head::keys(self.code(), stats.native, params, keys.len()), bytes);
        writer.slice(&model.frequencies);
        symbols.iter().for_each(|&symbol| writer.key(symbol, stats.native));
        let buckets: Vec<u8> = bytes_of_codes(symbols.len()).map(|byte| model.bucket_of[byte] % 16).collect();
        for pair in buckets.chunks(2) {
            writer.put(pair.iter().rfold(0_u8, |byte, bucket| byte << 4 | bucket));
        }
        streams.iter().for_each(|(_, tail)| writer.put(*tail));
        writer.align(2);
        for (words, _) in &streams {
            writer
                .put(u16::try_from(words.len()).invariant("a run has fewer words than its bytes and states"));
        }
        streams.iter().for_each(|(words, _)| writer.slice(words));
        Ok(writer.finish())
    }

    fn open(&self, buffer: Buffer, inner: &Encodings) -> Result<Arc<dyn KeyColumn>> {
        let column = column::Column::open(buffer)?;
        if !inner.made {
            column.check()?;
        }
        Ok(Arc::new(column))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::{KeyTest, bytes::index, encode_keys};

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

    fn column(keys: &[i64]) -> Arc<dyn KeyColumn> {
        encode_keys(keys, Native::I64, None, Some(column::NAME)).unwrap().column
    }

    /// A generator: the next of some numbers below `n`.
    fn numbers(mut state: u64) -> impl FnMut(usize) -> usize {
        move |n| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            usize::try_from(state >> 33).unwrap() % n
        }
    }

    /// Rows come one by one from anywhere, few at a time, and under masks of every density, from a thread that has read
    /// nothing of the column and from one that has.
    #[test]
    fn few_rows_are_read_from_their_runs() {
        for values in [2, 4, 5, 16, 17, 40, 256] {
            let keys = keys(values, 7 << 40);
            let held = column(&keys);
            let mut next = numbers(values);
            for at in
                (0..3000).map(|_| next(keys.len())).chain([0, 1, 2047, 2048, 65_535, 65_536, keys.len() - 1])
            {
                assert_eq!(held.get(at), keys[at], "{values} values, row {at}");
            }
            for (row, key) in (70_000..).zip(&keys[70_000..70_500]) {
                assert_eq!(held.get(row), *key, "{values} values, row {row}");
            }
            for count in [1, 3, 26, 200, 3000] {
                let fresh = crate::encoding::open_keys(held.buffer().clone()).unwrap();
                for block in [0, 3, BLOCKS - 1] {
                    let own = &keys[block * BLOCK_ROWS..keys.len().min((block + 1) * BLOCK_ROWS)];
                    let mut places: Vec<u16> =
                        (0..count).map(|_| u16::try_from(next(own.len())).unwrap()).collect();
                    places.sort_unstable();
                    places.dedup();
                    let mut found = vec![0; places.len()];
                    fresh.gather(block * BLOCK_ROWS, &places, &mut found);
                    let selected = || places.iter().map(|place| own[usize::from(*place)]);
                    assert!(selected().eq(found), "{values} values, {count} of block {block}");
                    let mut mask = vec![0_u64; own.len().div_ceil(64)];
                    places.iter().for_each(|place| mask[usize::from(*place) / 64] |= 1 << (place % 64));
                    let start = block * BLOCK_ROWS;
                    let sum = fresh.sum(start, own.len(), Some(&mask));
                    assert_eq!(sum, selected().map(i128::from).sum(), "{values} values, {count} of {block}");
                    let extremes = fresh.min_max(start, own.len(), Some(&mask));
                    assert_eq!(extremes, selected().min().zip(selected().max()), "{values} values");
                    // A piece of a block, from any unit on.
                    let from = next(own.len() / 512) * 512;
                    let rows = (own.len() - from).min(1 + next(9000));
                    let mut out = vec![0; rows];
                    fresh.decode(start + from, &mut out);
                    assert!(out == own[from..from + rows], "{values} values, {rows} from {from}");
                    let mut words = vec![0; rows.div_ceil(64)];
                    fresh.filter(start + from, rows, &KeyTest::Range { lo: 3, hi: 9 }, &mut words);
                    let passing = own[from..from + rows].iter().filter(|key| (3..=9).contains(*key)).count();
                    assert_eq!(words.iter().map(|word| word.count_ones() as usize).sum::<usize>(), passing);
                }
            }
        }
    }

    /// What a run takes beyond its information is little: a column is no more than three percent or a twentieth of a
    /// bit a row above its entropy.
    #[test]
    fn runs_cost_little() {
        for values in [5, 16, 40, 200] {
            let mut next = numbers(values);
            // The lesser of some numbers: the small ones are frequent.
            let keys: Vec<i64> = (0..1 << 18)
                .map(|_| i64::try_from((0..3).map(|_| next(index(values))).min().unwrap()).unwrap())
                .collect();
            let mut counts = vec![0_u64; index(values)];
            keys.iter().for_each(|&key| counts[index(key.cast_unsigned())] += 1);
            let rows = keys.len() as f64;
            let entropy: f64 =
                counts.iter().filter(|n| **n > 0).map(|&n| n as f64 / rows * (rows / n as f64).log2()).sum();
            let bits = 8.0 * column(&keys).buffer().len() as f64 / rows;
            assert!(
                bits <= entropy + f64::max(0.06, 0.03 * entropy),
                "{bits} for {entropy}, {values} values"
            );
        }
    }

    /// Bytes of a column of several runs, spoilt at random: refused, or a column whose ways to be read agree.
    #[test]
    fn spoilt_runs_are_refused_or_behave() {
        let (mut refused, mut opened) = (0, 0);
        for values in [2, 5, 60] {
            let keys = &keys(values, 3 << 40)[..20_000];
            let buffer = column(keys).buffer().clone();
            let mut next = numbers(values);
            for turn in 0..600 {
                let mut bytes = buffer.to_vec();
                // The front has the tables and the index.
                let within = if turn % 3 == 0 { bytes.len() } else { bytes.len().min(400) };
                for _ in 0..=next(3) {
                    let at = next(within);
                    bytes[at] = [0, 0xFF, 0x7F, bytes[at] ^ 1 << next(8), bytes[at].wrapping_add(1)][next(5)];
                }
                let Ok(spoilt) = crate::encoding::open_keys(Buffer::from(bytes)) else {
                    refused += 1;
                    continue;
                };
                opened += 1;
                let rows = spoilt.rows().min(keys.len());
                let row = next(rows);
                let one = spoilt.get(row);
                let mut few = [0; 1];
                let start = row / BLOCK_ROWS * BLOCK_ROWS;
                spoilt.gather(start, &[u16::try_from(row - start).unwrap()], &mut few);
                let mut all = vec![0; rows];
                spoilt.decode(0, &mut all);
                assert_eq!((one, few[0]), (all[row], all[row]), "row {row} of {rows}");
                assert_eq!(spoilt.sum(0, rows, None), all.iter().map(|&key| i128::from(key)).sum());
            }
        }
        assert!(refused > 100 && opened > 100, "{refused} refused, {opened} opened");
    }
}
