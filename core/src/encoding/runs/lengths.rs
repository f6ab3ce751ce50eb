//! What the statistics of a column tell of the lengths of its runs.

use super::{
    super::{
        bytes::{count, index},
        rice::Rice,
        stats::{BlockStats, KeyStats},
    },
    codes::MAX_K,
};

/// How much longer the codes may be with one parameter for all lengths, which is read faster: by one part in so many.
const TRADE_OFF: u64 = 256;

/// The Rice codes of the lengths.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Lengths {
    /// The first key.
    pub(super) key: i64,
    /// Whether runs of two keys take turns.
    pub(super) turns: bool,
    /// Of the runs of the first key, and of others.
    codes: [Rice; 2],
}

impl Lengths {
    /// The lengths of the runs where they are long enough: `stats` are those of `keys`, apart from these.
    pub(in super::super) fn of(keys: &[i64], stats: &KeyStats) -> Option<Self> {
        let turns = stats.distinct.as_ref().is_some_and(|counts| counts.len() <= 2);
        // With two keys, shorter runs are better held as rows of the rarer one.
        let most = if turns { stats.rows / 8 } else { stats.rows / 4 * 3 };
        if stats.runs > most {
            return None;
        }
        let frequent = stats.distinct.iter().flatten().max_by_key(|(_, n)| *n).map(|(key, _)| *key);
        let key = frequent.filter(|_| !turns).unwrap_or(keys[0]);
        let mut numbers = [Vec::new(), Vec::new()];
        for run in keys.chunk_by(|a, b| a == b) {
            numbers[usize::from(run[0] != key)].push(count(run.len() - 1));
        }
        let apart = numbers.each_ref().map(|numbers| Rice::best(numbers, MAX_K));
        // One parameter for all is read faster.
        let k = apart[1].k;
        let alike = [Rice::new(&numbers[0], k), apart[1]];
        let bits = |codes: [Rice; 2]| codes.iter().map(Rice::bits).sum::<u64>();
        let codes = if bits(alike) <= bits(apart) + bits(apart) / TRADE_OFF { alike } else { apart };
        Some(Self { key, turns, codes })
    }

    /// k of the runs of the first key, and of others.
    pub(super) fn parameters(&self) -> [u32; 2] {
        self.codes.map(|code| code.k)
    }

    /// k of the runs of a key.
    pub(super) fn k(&self, key: i64) -> u32 {
        self.codes[usize::from(key != self.key)].k
    }

    /// Bits of the codes.
    pub(super) fn bits(&self) -> usize {
        self.codes.iter().map(|code| index(code.bits())).sum()
    }

    /// The same of the codes of a dictionary: their runs are the same.
    pub(in super::super) fn of_codes(self, entries: &[(i64, u64)]) -> Option<Self> {
        let code = entries.binary_search_by_key(&self.key, |(key, _)| *key).ok()?;
        Some(Self { key: count(code).into(), ..self })
    }

    /// The same of `to` rows, as if they went on like these `from`.
    pub(in super::super) fn scaled(self, from: usize, to: usize) -> Self {
        Self { codes: self.codes.map(|code| code.scaled(from, to)), ..self }
    }
}

/// Statistics of the keys of runs, about.
pub(super) fn stats_of_keys(stats: &KeyStats) -> KeyStats {
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
