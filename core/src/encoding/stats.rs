//! What the encodings need to know of a column of keys for their size estimates, computed once.

use std::borrow::Cow;

use basalt_kernels as kernels;
use hashbrown::HashMap;

use super::{
    block_stats::{BlockStats, MAX_VALUE_COUNTS, ValueCounts, extremes},
    bytes::{bits, count, index},
    mask, packed,
    runs::Lengths,
    sparse::Common,
};
use crate::{invariant::Invariant, keys::Native, limits::BLOCK_ROWS};

/// Distinct values up to which a dictionary is considered.
pub(super) const MAX_DISTINCT: usize = 1 << 16;
/// Spans of keys up to it are counted in an array instead of a hash table.
const DENSE_SPAN: u64 = 1 << 18;
/// Values up to which four tables count them.
const TABLED: usize = 1 << 10;
/// Runs of this length on average are worth keeping whole across nulls.
const LONG_RUN: usize = 16;

/// Statistics of a column of keys without nulls.
#[derive(Clone, Debug)]
pub struct KeyStats {
    /// How the keys lie in a plain array.
    pub native: Native,
    /// Keys; at least one.
    pub rows: usize,
    /// The least key.
    pub min: i64,
    /// The greatest key.
    pub max: i64,
    /// Maximal runs of equal keys.
    pub runs: usize,
    /// Whether no key is less than the one before it.
    pub sorted: bool,
    /// One for each block of 65,536 rows.
    pub blocks: Vec<BlockStats>,
    /// The distinct keys in order and how often each occurs; `None` when there are more than pay for a
    /// dictionary.
    pub distinct: Option<ValueCounts>,
    /// Pieces of [`SAMPLE_ROWS`] consecutive keys, spread evenly over the column, for estimates that would need
    /// a pass of their own; empty where the keys themselves are not at hand.
    pub sample: Vec<Box<[i64]>>,
    /// The most frequent key, where the rows of the others are few enough to be listed.
    pub(super) common: Option<Common>,
    /// The lengths of the runs, where they are few enough to be listed.
    pub(super) lengths: Option<Lengths>,
}

/// Keys of a piece of the sample; a shorter column is one piece.
pub const SAMPLE_ROWS: usize = 512;
/// Pieces of the sample, at most.
const SAMPLE_PIECES: usize = 16;

impl KeyStats {
    /// The statistics of `keys`, of which there is at least one.
    pub fn new(keys: &[i64], native: Native) -> Self {
        let mut stats = Self::uncounted(keys, native);
        // A dictionary has 8 bytes for each distinct key: with more of them packed keys are smaller.
        let most = (packed::bytes(&stats.blocks) / 8).clamp(MAX_VALUE_COUNTS, MAX_DISTINCT);
        stats.distinct = distinct(keys, (stats.min, stats.max), most);
        stats.common = Common::of(keys, stats.distinct.as_ref(), &stats.sample);
        stats.lengths = Lengths::of(keys, stats.runs, stats.distinct.as_ref());
        stats
    }

    /// The same without what is counted and listed of single keys: enough to pack them, and much faster.
    pub(super) fn uncounted(keys: &[i64], native: Native) -> Self {
        // Block by block: what is looked at several times is in the cache.
        let mut runs = 1;
        let mut last = keys[0];
        let mut sorted = true;
        let block = |keys: &[i64]| {
            sorted = sorted && last <= keys[0] && keys.is_sorted();
            runs += usize::from(last != keys[0]) + index(kernels::statistics::changes(keys));
            last = keys[keys.len() - 1];
            BlockStats::new(keys)
        };
        let blocks: Vec<_> = keys.chunks(BLOCK_ROWS).map(block).collect();
        let ends = blocks.iter().map(|block| (block.min, block.max));
        let ends = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let (min, max) = ends.invariant("statistics are of a key at least");
        Self {
            native,
            rows: keys.len(),
            min,
            max,
            runs,
            sorted,
            blocks,
            distinct: None,
            sample: sample(keys),
            common: None,
            lengths: None,
        }
    }

    /// The statistics of a column of `rows` keys, as if it were everywhere as its sample, which has at least one key.
    pub(super) fn of_sample(sample: Vec<Box<[i64]>>, rows: usize, native: Native) -> Self {
        let keys = sample.concat();
        let seen = Self::new(&keys, native);
        let scale = |n: usize, rows: usize| (n * rows).div_ceil(keys.len());
        let blocks = (0..rows).step_by(BLOCK_ROWS).map(|first| {
            let rows = BLOCK_ROWS.min(rows - first);
            let lengths = seen.blocks[0].lengths.map(|n| count(scale(n as usize, rows)));
            BlockStats { rows, min: seen.min, max: seen.max, lengths }
        });
        let blocks = blocks.collect();
        let scaled = |(key, n): (i64, u64)| (key, scale(index(n), rows) as u64);
        let distinct = seen.distinct.map(|counts| counts.into_iter().map(scaled).collect());
        let common = seen.common.map(|common| common.scaled(keys.len(), rows));
        let lengths = seen.lengths.map(|lengths| lengths.scaled(keys.len(), rows));
        Self { rows, runs: scale(seen.runs, rows), blocks, distinct, sample, common, lengths, ..seen }
    }

    /// The statistics of `rows` keys of which only the counts are known, one at least: each key is as frequent in every
    /// block as in all, and no two that follow one another are equal.
    pub(super) fn of_counts(counts: ValueCounts, rows: usize, native: Native) -> Self {
        let (min, max) = (counts[0].0, counts[counts.len() - 1].0);
        let mut lengths = [0; 65];
        for (key, n) in &counts {
            lengths[bits(key.wrapping_sub(min).cast_unsigned()) as usize] += n;
        }
        let blocks = (0..rows).step_by(BLOCK_ROWS).map(|first| {
            let block = BLOCK_ROWS.min(rows - first);
            let lengths = lengths.map(|n| count(index(n * block as u64 / rows as u64)));
            BlockStats { rows: block, min, max, lengths }
        });
        Self {
            native,
            rows,
            min,
            max,
            runs: rows,
            sorted: false,
            blocks: blocks.collect(),
            distinct: Some(counts),
            sample: Vec::new(),
            common: None,
            lengths: None,
        }
    }

    /// The least and the greatest key of each block.
    pub(super) fn ranges(&self) -> Vec<(i64, i64)> {
        self.blocks.iter().map(|block| (block.min, block.max)).collect()
    }

    /// `max - min`.
    pub fn span(&self) -> u64 {
        self.max.wrapping_sub(self.min).cast_unsigned()
    }
}

fn sample(keys: &[i64]) -> Vec<Box<[i64]>> {
    let pieces = (keys.len() / SAMPLE_ROWS).clamp(1, SAMPLE_PIECES);
    let step = keys.len() / pieces;
    (0..pieces).map(|piece| keys[piece * step..].iter().copied().take(SAMPLE_ROWS).collect()).collect()
}

/// The distinct keys in order, with their counts; `None` when there are more than `most`.
fn distinct(keys: &[i64], (min, max): (i64, i64), most: usize) -> Option<ValueCounts> {
    let span = max.wrapping_sub(min).cast_unsigned();
    if span < DENSE_SPAN.min(4 * keys.len() as u64) {
        let counts = dense_counts(keys, min, index(span) + 1);
        let present = || (min..=max).zip(&counts).filter(|&(_, &n)| n > 0);
        return (present().count() <= most).then(|| present().map(|(key, &n)| (key, n.into())).collect());
    }
    let mut counts: HashMap<i64, u64> = HashMap::new();
    for run in keys.chunk_by(|a, b| a == b) {
        *counts.entry(run[0]).or_default() += run.len() as u64;
        if counts.len() > most {
            return None;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_unstable();
    Some(counts)
}

/// How often each of the `values` keys from `min` on occurs.
fn dense_counts(keys: &[i64], min: i64, values: usize) -> Vec<u32> {
    let place = |key: i64| index(key.wrapping_sub(min).cast_unsigned());
    let mut counts = vec![0u32; values];
    if values > TABLED {
        keys.iter().for_each(|&key| counts[place(key)] += 1);
        return counts;
    }
    // Four tables, so that equal keys in a row do not wait for each other.
    let mut tables = vec![[0u32; 4]; values];
    let (fours, rest) = keys.as_chunks::<4>();
    for four in fours {
        for (i, &key) in four.iter().enumerate() {
            tables[place(key)][i] += 1;
        }
    }
    rest.iter().for_each(|&key| counts[place(key)] += 1);
    for (count, tables) in counts.iter_mut().zip(&tables) {
        *count += tables.iter().sum::<u32>();
    }
    counts
}

/// The keys with those under nulls replaced by what encodes best, and how often each valid key occurs where
/// few are distinct. `valid` has a bit for each row (`None`: all are).
///
/// The key for a null is the most frequent one; in a column of long runs, or one of many distinct keys, it is
/// the last valid one before it (the first valid one at the beginning). It is 0 when no row is valid.
pub(super) fn fill_nulls<'a>(
    keys: &'a [i64],
    valid: Option<&[u64]>,
) -> (Cow<'a, [i64]>, Option<ValueCounts>) {
    debug_assert!(valid.is_none_or(|mask| mask.len() >= keys.len().div_ceil(64)), "a word for 64 rows");
    let mask = match valid {
        Some(mask) if mask::count_ones(mask) < keys.len() => mask,
        _ => return (Cow::Borrowed(keys), None),
    };
    let (mut present, mut n) = (vec![0; keys.len()], 0);
    each_row(keys, mask, |key, valid| {
        present[n] = key;
        n += usize::from(valid);
    });
    present.truncate(n);
    let Some(&first) = present.first() else {
        return (Cow::Owned(vec![0; keys.len()]), Some(Vec::new()));
    };
    let counts = distinct(&present, extremes(&present), MAX_VALUE_COUNTS);
    let runs = 1 + index(kernels::statistics::changes(&present));
    let most_frequent = counts.as_ref().and_then(|counts| counts.iter().max_by_key(|(_, n)| *n));
    // The first pass is done with: its memory serves again.
    let mut filled = present;
    filled.clear();
    match most_frequent {
        Some(&(fill, _)) if n < LONG_RUN * runs => {
            each_row(keys, mask, |key, valid| filled.push(if valid { key } else { fill }));
        }
        _ => {
            let mut last = first;
            each_row(keys, mask, |key, valid| {
                last = if valid { key } else { last };
                filled.push(last);
            });
        }
    }
    (Cow::Owned(filled), counts)
}

/// Calls `work` with each key and whether it is valid: without branches, for nulls may be anywhere.
#[inline]
fn each_row(keys: &[i64], valid: &[u64], mut work: impl FnMut(i64, bool)) {
    for (keys, word) in keys.chunks(64).zip(valid) {
        for (i, &key) in keys.iter().enumerate() {
            work(key, word >> i & 1 == 1);
        }
    }
}

/// How often each key occurs in valid rows, where few are distinct: `valid` are the counts of [`fill_nulls`],
/// `all` those of the keys that it filled.
pub(super) fn value_counts(valid: Option<ValueCounts>, all: Option<ValueCounts>) -> Option<ValueCounts> {
    valid.or(all).filter(|counts| counts.len() <= MAX_VALUE_COUNTS)
}
