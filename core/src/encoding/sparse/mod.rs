//! A common key, and for all other rows where they are and which keys they hold.
//!
//! The rows are coded in intervals, each by itself, as the Rice code of their gaps. For random access an interval takes
//! 1 to 2 Kibit, about; where that makes the column larger than the size/speed trade-off allows, it is a block.
//! [`elias_fano`](super::elias_fano) shares everything but the code.
//!
//! | byte | what |
//! |---|---|
//! | 0..8 | head; the parameters are the bits of a low part, and log2 of the rows of an interval |
//! | 8..26 | the lines of the ones and of the zeros of the unary numbers: the last number u32, the least deviation i32, bits of a deviation u8 |
//! | 26 | 1 where the other rows hold keys of their own, 0 where all hold the same, u8 |
//! | ... | the common key, as wide as its type |
//! | ... | the key of the other rows where it is the same, as wide |
//! | ... | the deviations of ones and zeros before each interval and behind the last, packed |
//! | ... | the low parts, packed |
//! | ... | the unary numbers |
//! | align 64 | the keys of the other rows where they differ, a column of its own |

mod coded;
mod column;
mod layout;
mod line;
mod others;
mod stats;

use std::sync::Arc;

use arrow_buffer::Buffer;
use basalt_kernels::gaps::Highs;

use self::{
    coded::Coded,
    column::{Column, OtherKeys},
    line::Lines,
};
pub(super) use self::{layout::Layout, others::Others, stats::Common};
use super::{
    Encodings, KeyColumn, KeyEncoding, SizeEstimate,
    bytes::{ALIGNMENT, HEAD, Head, Reader, Writer, align, corrupt, ensure},
    chooser,
    open::open_below,
    stats::KeyStats,
};
use crate::{error::Result, keys::Native};

/// The encoding.
pub(super) struct Sparse;

impl KeyEncoding for Sparse {
    fn code(&self) -> u8 {
        7
    }

    fn name(&self) -> &'static str {
        "sparse"
    }

    fn level(&self) -> u8 {
        2
    }

    fn least_cost(&self) -> u64 {
        45
    }

    fn estimate(&self, stats: &KeyStats, inner: &Encodings) -> Option<SizeEstimate> {
        let common = stats.common.as_ref()?;
        estimate(self, &common.layout, stats, inner)
    }

    fn encode(&self, keys: &[i64], stats: &KeyStats, inner: &Encodings) -> Result<Buffer> {
        let common = stats.common.ok_or_else(|| corrupt("no key is common"))?;
        let others = Others::new(keys, common.key);
        encode(self, &common.layout, common.key, &others, keys, stats.native, inner)
    }

    fn open(&self, buffer: Buffer, inner: &Encodings) -> Result<Arc<dyn KeyColumn>> {
        open(self, Highs::Carried, buffer, inner)
    }
}

/// Bytes before the sections of the code.
fn head_bytes(native: Native, own_keys: bool) -> usize {
    HEAD + Lines::HEAD + 1 + native.width() * if own_keys { 1 } else { 2 }
}

/// What a layout makes of a column: exact where it is, and where the other rows hold one key.
pub(super) fn estimate(
    encoding: &dyn KeyEncoding,
    layout: &Layout,
    stats: &KeyStats,
    inner: &Encodings,
) -> Option<SizeEstimate> {
    let common = stats.common.as_ref()?;
    let own_keys = stats.distinct.as_ref().is_none_or(|counts| counts.len() > 2);
    let bytes = head_bytes(stats.native, own_keys) + layout.bytes();
    if !own_keys {
        return Some(SizeEstimate::exact(encoding.name(), bytes));
    }
    let keys = chooser::least_estimate(inner, encoding.level(), &stats_of_others(common, stats)?)?;
    Some(keys.around(encoding.name(), align(bytes)).about(100))
}

/// Statistics of the keys beside the common one, about; there is one at least.
fn stats_of_others(common: &Common, stats: &KeyStats) -> Option<KeyStats> {
    let rows = common.layout.rows();
    let other = |key: i64| key != common.key;
    let Some(counts) = &stats.distinct else {
        let pieces = stats.sample.iter();
        let sample: Vec<Box<[i64]>> =
            pieces.map(|piece| piece.iter().copied().filter(|&key| other(key)).collect()).collect();
        let any = sample.iter().any(|piece| !piece.is_empty());
        return any.then(|| KeyStats::of_sample(sample, rows, stats.native));
    };
    let counts: Vec<_> = counts.iter().copied().filter(|&(key, _)| other(key)).collect();
    (!counts.is_empty()).then(|| KeyStats::of_counts(counts, rows, stats.native))
}

/// Encodes a column of a common key in a layout of the rows of the others.
pub(super) fn encode(
    encoding: &dyn KeyEncoding,
    layout: &Layout,
    common: i64,
    others: &Others,
    keys: &[i64],
    native: Native,
    inner: &Encodings,
) -> Result<Buffer> {
    let other_keys = others.keys(keys);
    debug_assert!(!other_keys.is_empty() && other_keys.len() == layout.rows(), "the layout is of other rows");
    let one = other_keys.iter().all(|key| *key == other_keys[0]);
    let column = match one {
        true => None,
        false => Some(chooser::choose_below(inner, encoding.level(), &other_keys, native)?),
    };
    // Default: one key for all others takes no column.
    let column_bytes = column.as_ref().map_or(0, |c| c.buffer().len());
    let bytes = align(head_bytes(native, !one) + layout.bytes()) + column_bytes;
    // At most 14 and 16.
    let params = [layout.k, layout.shift].map(|param| param.to_le_bytes()[0]);
    let mut writer = Writer::new(Head::keys(encoding.code(), native, params, keys.len()), bytes);
    layout.lines.write_head(&mut writer);
    writer.put(u8::from(!one));
    writer.key(common, native);
    if one {
        writer.key(other_keys[0], native);
    }
    for section in layout.encode(others) {
        writer.slice(&section);
    }
    if let Some(column) = column {
        writer.align(ALIGNMENT);
        writer.slice(column.buffer().as_slice());
    }
    Ok(writer.finish())
}

/// Opens a column of a common key whose other rows are coded by `highs`.
pub(super) fn open(
    encoding: &dyn KeyEncoding,
    highs: Highs,
    buffer: Buffer,
    inner: &Encodings,
) -> Result<Arc<dyn KeyColumn>> {
    let (head, native, mut reader) = Reader::keys(buffer.clone())?;
    let [k, shift] = head.params.map(u32::from);
    let layout = Layout::read(highs, shift, k, head.rows, &mut reader)?;
    let own_keys = reader.u8()?;
    ensure(own_keys <= 1, "the keys are of no kind")?;
    let own_keys = own_keys == 1;
    let common = reader.key(native)?;
    let one = if own_keys { None } else { Some(reader.key(native)?) };
    let coded = Coded::read(&mut reader, layout, head.rows, inner.made)?;
    let others = match one {
        Some(key) => {
            reader.finish()?;
            OtherKeys::One(key)
        }
        None => {
            reader.align(ALIGNMENT)?;
            let keys = open_below(inner, reader.rest()?, encoding.level())?;
            ensure(keys.rows() == layout.rows(), "the other rows have other keys")?;
            OtherKeys::Column(keys)
        }
    };
    Ok(Arc::new(Column { name: encoding.name(), buffer, rows: head.rows, common, others, coded }))
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::limits::{BLOCK_ROWS, FRAGMENT_ROWS};

    /// Bytes as multiples of the entropy of rows of which each is another with probability `p`: the Rice code for
    /// random access and in blocks, and the Elias-Fano code.
    fn multiples(p: f64) -> [f64; 3] {
        let mut random = StdRng::seed_from_u64(1);
        let keys: Vec<i64> = (0..FRAGMENT_ROWS).map(|_| random.random_bool(p).into()).collect();
        let others = Others::new(&keys, 0);
        let part = others.len() as f64 / FRAGMENT_ROWS as f64;
        let bits = -part * part.log2() - (1.0 - part) * (1.0 - part).log2();
        let layouts = [Layout::rice(&others), Layout::rice_by(&others, 16), Layout::elias_fano(&others)];
        layouts.map(|layout| {
            let bytes = head_bytes(Native::Bool, false) + layout.bytes();
            bytes as f64 / (bits * FRAGMENT_ROWS as f64 / 8.0)
        })
    }

    #[test]
    fn sizes_are_near_the_entropy() {
        let [rice, blocks, elias_fano] = multiples(0.01);
        assert!(rice < 1.02 && blocks < 1.01 && elias_fano < 1.08, "{rice} {blocks} {elias_fano}");
        let [rice, blocks, elias_fano] = multiples(0.05);
        assert!(rice < 1.03 && blocks < 1.02 && elias_fano < 1.12, "{rice} {blocks} {elias_fano}");
    }

    #[test]
    fn intervals_that_cost_too_much_become_blocks() {
        // Others are in the last quarter alone, so that their numbers are far from a line.
        let rows = 16 * BLOCK_ROWS;
        let keys: Vec<i64> = (0..rows).map(|row| i64::from(row > rows / 4 * 3 && row % 10 == 0)).collect();
        let others = Others::new(&keys, 0);
        assert_eq!(Layout::rice(&others).shift, 16);
    }
}
