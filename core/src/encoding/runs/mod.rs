//! Runs of equal keys: the Rice codes of their lengths, and the key of each where there are more than two.
//!
//! Runs of the first key have a parameter of their own, for in a column of bursts they are longer than the others
//! by far. Where there are but two keys, they take turns. An index says where every 128th run begins.
//!
//! | byte | what |
//! |---|---|
//! | 0..8 | head; the parameters are k of the runs of the first key, and of others; 128 is added to the former where runs hold keys of their own instead of taking turns |
//! | 8..12 | runs, u32 |
//! | 12..16 | bits of the codes, u32 |
//! | 16.. | the first key, as wide as its type |
//! | ... | the second key where they take turns, as wide |
//! | ... | the index: the row and the bit of its code where each group of 128 runs but the first begins, packed |
//! | ... | the codes: of each run its length - 1, the quotient by 2^k in unary, as many zeros and a one, then the k low bits |
//! | align 64 | the keys where runs hold their own, a column of its own |

mod codes;
mod column;
mod lengths;

use std::sync::Arc;

use arrow_buffer::Buffer;

pub(super) use self::lengths::Lengths;
use self::{
    codes::{Codes, CodesWriter},
    column::{Column, RunKeys},
};
use super::{
    Encodings, KeyColumn, KeyEncoding, SizeEstimate,
    block_stats::BlockStats,
    bytes::{ALIGNMENT, HEAD, Head, Reader, Writer, align, corrupt, count, ensure, index},
    cache::Id,
    chooser,
    open::open_below,
    stats::KeyStats,
};
use crate::{error::Result, keys::Native};

/// The encoding.
pub(super) struct Runs;

/// What tells in the first parameter that runs hold keys of their own.
const OWN_KEYS: u8 = 128;

/// Bytes before the index.
fn head_bytes(native: Native, turns: bool) -> usize {
    HEAD + 8 + native.width() * if turns { 2 } else { 1 }
}

impl KeyEncoding for Runs {
    fn code(&self) -> u8 {
        4
    }

    fn name(&self) -> &'static str {
        column::NAME
    }

    fn level(&self) -> u8 {
        3
    }

    fn least_cost(&self) -> u64 {
        390
    }

    fn estimate(&self, stats: &KeyStats, inner: &Encodings) -> Option<SizeEstimate> {
        let lengths = stats.lengths.as_ref()?;
        let bytes = head_bytes(stats.native, lengths.turns)
            + codes::index_bytes(stats.rows, stats.runs, lengths.bits())
            + lengths.bits().div_ceil(8);
        if lengths.turns {
            return Some(SizeEstimate::exact(self.name(), bytes));
        }
        let keys = stats_of_keys(stats);
        let keys = chooser::least_estimate(inner, self.level(), &keys)?;
        Some(keys.around(self.name(), align(bytes)).about(50))
    }

    fn encode(&self, keys: &[i64], stats: &KeyStats, inner: &Encodings) -> Result<Buffer> {
        let lengths = stats.lengths.as_ref().ok_or_else(|| corrupt("the runs are too short"))?;
        let mut codes = CodesWriter::new(keys.len(), stats.runs, lengths.bits());
        let mut values = Vec::new();
        for run in keys.chunk_by(|a, b| a == b) {
            codes.put(run.len(), lengths.k(run[0]));
            if !lengths.turns {
                values.push(run[0]);
            }
        }
        let column = match lengths.turns {
            true => None,
            false => Some(chooser::choose_below(inner, self.level(), &values, stats.native)?),
        };
        // At most 20 each.
        let mut params = lengths.parameters().map(|k| k.to_le_bytes()[0]);
        params[0] |= if lengths.turns { 0 } else { OWN_KEYS };
        let mut writer = Writer::new(Head::keys(self.code(), stats.native, params, keys.len()), 0);
        writer.put(count(stats.runs));
        writer.put(count(lengths.bits()));
        writer.key(lengths.key, stats.native);
        if lengths.turns {
            writer.key(if lengths.key == stats.min { stats.max } else { stats.min }, stats.native);
        }
        let (index, codes) = codes.finish();
        writer.slice(&index);
        writer.slice(&codes);
        if let Some(column) = column {
            writer.align(ALIGNMENT);
            writer.slice(column.buffer().as_slice());
        }
        Ok(writer.finish())
    }

    fn open(&self, buffer: Buffer, inner: &Encodings) -> Result<Arc<dyn KeyColumn>> {
        let (head, native, mut reader) = Reader::keys(buffer.clone())?;
        let (runs, bits) = (reader.u32()? as usize, reader.u32()? as usize);
        let [k, other_k] = head.params;
        let first = reader.key(native)?;
        let second = if k & OWN_KEYS == 0 { Some(reader.key(native)?) } else { None };
        let codes = Codes::read(&mut reader, [k & !OWN_KEYS, other_k], head.rows, runs, bits)?;
        let keys = match second {
            Some(second) => {
                reader.finish()?;
                RunKeys::Turns([first, second])
            }
            None => {
                reader.align(ALIGNMENT)?;
                let keys = open_below(inner, reader.rest()?, self.level())?;
                ensure(keys.rows() == runs, "the runs have other keys")?;
                RunKeys::Own { first, keys }
            }
        };
        let column = Column { buffer, id: Id::new(), keys, codes };
        if !inner.made {
            column.check()?;
        }
        Ok(Arc::new(column))
    }
}

/// Statistics of the keys of runs, about.
fn stats_of_keys(stats: &KeyStats) -> KeyStats {
    let keys = |piece: &[i64]| piece.chunk_by(|a, b| a == b).map(|run| run[0]).collect();
    let sample: Vec<Box<[i64]>> = stats.sample.iter().map(|piece| keys(piece)).collect();
    if !sample.is_empty() {
        return KeyStats::of_sample(sample, stats.runs, stats.native);
    }
    // As if all keys had runs of one length.
    let scaled = |n: usize| (n * stats.runs).div_ceil(stats.rows);
    let blocks = stats.blocks.iter().map(|block| BlockStats {
        rows: scaled(block.rows),
        min: block.min,
        max: block.max,
        lengths: block.lengths.map(|n| count(scaled(n as usize))),
    });
    let distinct = stats.distinct.iter().flatten().map(|&(key, n)| (key, scaled(index(n)) as u64));
    KeyStats {
        rows: stats.runs,
        blocks: blocks.collect(),
        distinct: stats.distinct.as_ref().map(|_| distinct.collect()),
        common: None,
        lengths: None,
        ..stats.clone()
    }
}
